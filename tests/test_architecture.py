"""The source as a whole: imports, dependencies, annotations, names on pages, threads, workflows."""

import ast
import os
import re
import sys
import tomllib
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


def test_every_module_can_be_imported_first_and_every_public_name_exists():
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in TREES]
    names = [name.removesuffix(".__init__") for name in names]
    names = sorted(n for n in names if not any(part.startswith("_") for part in n.split(".")))
    assert len(names) > 80
    code = "import importlib, pacsent\nfor name in {!r}:\n    importlib.import_module(name)"
    run_python(code.format(names) + "\n[getattr(pacsent, name) for name in pacsent.__all__]")
    assert set(pacsent.__all__) <= set(dir(pacsent)) | {"__version__"}


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


def test_what_is_imported_is_declared_and_the_other_way_round():
    imported = set()
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add((node.module or "").partition(".")[0])
    imported -= {*sys.stdlib_module_names, "pacsent", "compression"}
    imported = {PACKAGE_OF.get(name, name) for name in imported}
    extras = PROJECT["optional-dependencies"].values()
    assert imported <= names(PROJECT["dependencies"]).union(*map(names, extras))
    assert names(PROJECT["dependencies"]) <= imported


def is_annotated(node: ast.FunctionDef) -> bool:
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    every += [a for a in (node.args.vararg, node.args.kwarg) if a is not None]
    returns = node.returns is not None or node.name == "__init__"
    return returns and all(a.annotation or a.arg in ("self", "cls") for a in every)


def test_public_functions_are_annotated_in_full():
    assert is_annotated(ast.parse("def f(a: int, *b: int, c: str = '') -> int: ...").body[0])
    for source in ("f(a, *, c: str = '') -> int", "f(a: int, **d) -> int", "f(a: int)"):
        assert not is_annotated(ast.parse(f"def {source}: ...").body[0])
    missing = []
    for path, tree in TREES.items():
        if path.parent.name in ("kernels", "cli"):  # C and click say it in their own way
            continue
        for home in [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef))]:
            if home is tree or home.name[0] != "_":
                functions = [node for node in home.body if isinstance(node, ast.FunctionDef)]
                public = [n for n in functions if n.name[0] != "_" or n.name == "__init__"]
                missing += [f"{path.name}: {n.name}" for n in public if not is_annotated(n)]
    assert not missing


def test_every_code_name_of_the_notation_exists():
    page = re.findall(r"`([A-Za-z_][\w.]*)`", (ROOT / "docs" / "notation.md").read_text())
    assert len(page) > 50
    known = {path.stem for path in TREES}
    for tree in TREES.values():
        for node in ast.walk(tree):
            values = (getattr(node, field, None) for field in ("id", "arg", "attr", "name"))
            known |= {value for value in values if isinstance(value, str)}
    assert not {name for name in page for part in name.split(".") if part not in known}
    homes = (
        pacsent,
        pacsent.bounds,
        pacsent.sentences,
        pacsent.sentences.solvers,
        pacsent.certify,
        pacsent.paper,
    )
    for name in page:
        first, _, attribute = name.partition(".")
        if attribute and not attribute.endswith("_"):  # fit sets it: known from above
            home = next(getattr(place, first) for place in homes if hasattr(place, first))
            assert hasattr(home, attribute) or attribute in home.__dataclass_fields__, name


def test_n_jobs_counts_as_scikit_learn_does(monkeypatch):
    if hasattr(os, "sched_setaffinity"):
        code = (
            "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
            "from pacsent.threads import n_threads as n; print(n(None), n(-1), n(-2))"
        )
        assert run_python(code) == "1 1 1\n"
    monkeypatch.setattr(threads, "n_cores", lambda: 8)
    assert [threads.n_threads(n) for n in (None, -1, -2, 3)] == [8, 8, 7, 3]
    with pytest.raises(ValueError, match=r"n_jobs must be a number of threads.*Got 0 instead"):
        threads.n_threads(0)


def test_a_name_of_a_class_or_kernel_means_one_thing():
    places: dict[str, set[str]] = {}
    for path, tree in TREES.items():
        for node in tree.body:
            is_kernel = path.parent.name == "kernels" and isinstance(node, ast.FunctionDef)
            if isinstance(node, ast.ClassDef) or (is_kernel and not node.name.startswith("_")):
                places.setdefault(node.name, set()).add(path.name)
    assert not {n for n, files in places.items() if len(files) > 1 and not n.startswith("_")}


MOVES = ("os.replace(", "os.rename(", ".replace(out", ".replace(path", ".replace(target", '.part"')
CORES = ("sched_getaffinity", "cpu_count(")


@pytest.mark.parametrize(("marks", "home"), [(MOVES, "files.py"), (CORES, "threads.py")])
def test_one_module_moves_files_and_one_counts_cores(marks, home):
    sources = {path: path.read_text(encoding="utf-8") for path in TREES}
    users = [path.name for path, text in sources.items() if any(mark in text for mark in marks)]
    assert users == [home]
