"""The source as a whole: imports, dependencies, annotations, names on pages, threads, workflows."""

import ast
import os
import re
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

import pacsent
from helpers import run_python
from pacsent import threads

PACKAGE = Path(pacsent.__file__).parent
ROOT = Path(__file__).parents[1]
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]


def module_name(path):
    """The name by which a file is imported."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


IMPORT_ALL = """
import importlib, sys
import pacsent
for name in sys.argv[1:]:
    importlib.import_module(name)
for name in pacsent.__all__:
    getattr(pacsent, name)
"""


def test_every_module_can_be_imported_first_and_every_public_name_exists():
    modules = [module_name(path) for path in TREES]
    public = sorted(name for name in modules if "._" not in name)
    assert len(public) > 80

    run_python(IMPORT_ALL, *public)


def test_every_public_name_is_listed_by_dir():
    listed = {*dir(pacsent), "__version__"}

    assert set(pacsent.__all__) <= listed


PACKAGE_OF = {
    "sklearn": "scikit-learn",
    "vl_convert": "vl-convert-python",
    "faiss": "faiss-cpu",
    "sentence_transformers": "sentence-transformers",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",
    "lazy_loader": "lazy-loader",
}  # where names differ


def names(requirements) -> set[str]:
    return {re.split(r"[<>=!\[;~ ]", requirement)[0] for requirement in requirements}


def modules_of(node: ast.AST) -> list[str]:
    """What a statement imports, without modules of this package by relative names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module]
    return []


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """The requirements, by their names, that the source imports."""
    found = set()
    for tree in TREES.values():
        for node in ast.walk(tree):
            found.update(module.partition(".")[0] for module in modules_of(node))

    found -= sys.stdlib_module_names
    found -= {"pacsent", "compression"}
    return {PACKAGE_OF.get(name, name) for name in found}


def test_what_is_imported_is_declared(imported):
    declared = names(PROJECT["dependencies"])
    for requirements in PROJECT["optional-dependencies"].values():
        declared |= names(requirements)

    assert imported <= declared


def test_every_dependency_is_imported(imported):
    assert names(PROJECT["dependencies"]) <= imported


def is_annotated(node: ast.FunctionDef) -> bool:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    arguments += [node.args.vararg, node.args.kwarg]
    for argument in arguments:
        if argument is None or argument.arg in ("self", "cls"):
            continue
        if argument.annotation is None:
            return False

    return node.returns is not None or node.name == "__init__"


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ("f(a: int, *b: int, c: str = '') -> int", True),
        ("f(a, *, c: str = '') -> int", False),
        ("f(a: int, **d) -> int", False),
        ("f(a: int)", False),
    ],
)
def test_an_annotation_that_is_missing_is_noticed(signature, expected):
    module = ast.parse(f"def {signature}: ...")

    assert is_annotated(module.body[0]) == expected


def public_functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions of a module and the methods of its public classes."""
    homes = [tree]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            homes.append(node)

    found = []
    for home in homes:
        functions = [node for node in home.body if isinstance(node, ast.FunctionDef)]
        found += [node for node in functions if node.name == "__init__" or node.name[0] != "_"]
    return found


def test_public_functions_are_annotated_in_full():
    missing = []
    for path, tree in TREES.items():
        if path.parent.name in ("kernels", "cli"):  # C and click say it in their own way
            continue
        functions = public_functions(tree)
        missing += [f"{path.name}: {node.name}" for node in functions if not is_annotated(node)]

    assert not missing


@pytest.fixture(scope="module")
def notation() -> list[str]:
    """The names in code of the page about notation."""
    page = (ROOT / "docs" / "notation.md").read_text()
    return re.findall(r"`([A-Za-z_][\w.]*)`", page)


@pytest.fixture(scope="module")
def names_in_source() -> set[str]:
    """The names of modules, classes, functions, arguments, variables and attributes."""
    found = {path.stem for path in TREES}
    for tree in TREES.values():
        for node in ast.walk(tree):
            values = [getattr(node, field, None) for field in ("id", "arg", "attr", "name")]
            found.update(value for value in values if isinstance(value, str))
    return found


def test_every_code_name_of_the_notation_is_in_the_source(notation, names_in_source):
    parts = {part for name in notation for part in name.split(".")}

    assert len(notation) > 50
    assert parts <= names_in_source


HOMES = (
    pacsent,
    pacsent.bounds,
    pacsent.sentences,
    pacsent.sentences.solvers,
    pacsent.certify,
    pacsent.paper,
)


def test_every_attribute_of_the_notation_exists(notation):
    for name in notation:
        first, _, attribute = name.partition(".")
        if not attribute or attribute.endswith("_"):  # fit sets the latter
            continue
        home = next(getattr(place, first) for place in HOMES if hasattr(place, first))
        assert hasattr(home, attribute) or attribute in home.__dataclass_fields__, name


PRINT_NUMBERS_ON_ONE_CORE = """
import os
from pacsent.threads import n_threads
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print(n_threads(None), n_threads(-1), n_threads(-2))
"""


@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 8), (-1, 8), (-2, 7), (3, 3)])
def test_n_jobs_counts_as_scikit_learn_does(monkeypatch, n_jobs, expected):
    monkeypatch.setattr(threads, "n_cores", lambda: 8)

    assert threads.n_threads(n_jobs) == expected


def test_n_jobs_counts_the_cores_that_the_process_may_use():
    if hasattr(os, "sched_setaffinity"):
        assert run_python(PRINT_NUMBERS_ON_ONE_CORE) == "1 1 1\n"


def test_no_jobs_are_refused():
    with pytest.raises(ValueError, match=r"n_jobs must be a number of threads.*Got 0 instead"):
        threads.n_threads(0)


def defines_a_public_name(node: ast.stmt, is_kernel: bool) -> bool:
    """Whether it is a class, or a function of a kernel."""
    kinds = (ast.ClassDef, ast.FunctionDef) if is_kernel else ast.ClassDef
    return isinstance(node, kinds) and not node.name.startswith("_")


def test_a_name_of_a_class_or_kernel_means_one_thing():
    places = defaultdict(set)
    for path, tree in TREES.items():
        is_kernel = path.parent.name == "kernels"
        for node in tree.body:
            if defines_a_public_name(node, is_kernel):
                places[node.name].add(path.name)

    ambiguous = {name for name, files in places.items() if len(files) > 1}
    assert not ambiguous


MOVES = ("os.replace(", "os.rename(", ".replace(out", ".replace(path", ".replace(target", '.part"')
CORES = ("sched_getaffinity", "cpu_count(")


@pytest.mark.parametrize(("marks", "home"), [(MOVES, "files.py"), (CORES, "threads.py")])
def test_one_module_moves_files_and_one_counts_cores(marks, home):
    users = []
    for path in TREES:
        text = path.read_text(encoding="utf-8")
        if any(mark in text for mark in marks):
            users.append(path.name)

    assert users == [home]
