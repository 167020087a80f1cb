"""Data flows one way: who imports whom is a table, and the code is held against it exactly."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import pacsent
from helpers import run_python

PACKAGE = Path(pacsent.__file__).parent

# From the ground up: a package imports only packages of lower floors. The modules of a floor that
# has several packages do not import each other.
FLOORS = (
    ("arrays", "datasets", "files", "memory", "models", "optional", "parameter_checks", "progress",
     "registry", "threads"),
    ("kernels",),
    ("bounds",),
    ("text", "storage"),
    ("certify",),
    ("words",),
    ("sentences",),
    ("classify",),
    ("search",),
    ("predict",),
    ("paper",),
    ("web", "scale"),
    ("demo",),
    ("cli",),
    ("__main__",),
)  # fmt: skip
FLOOR = {package: floor for floor, packages in enumerate(FLOORS) for package in packages}

MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


@cache
def imports(path):
    """Our own modules that a file imports: at the top, in functions and for type checkers."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, *parts = name.split(".")
            while parts and ".".join(parts) not in MODULES:
                parts.pop()
            if parts and package == "pacsent":
                modules.add(".".join(parts))
    return modules


def packages_above(module, path):
    """Packages that a module imports although they are not below its own."""
    package = module.partition(".")[0]
    others = {other.partition(".")[0] for other in imports(path)} - {package, "__init__"}
    return {other for other in others if FLOOR[other] >= FLOOR[package]}


def test_a_package_imports_only_packages_of_lower_floors():
    upwards = {
        module: packages_above(module, path)
        for module, path in MODULES.items()
        if module not in ("", "__init__")
    }

    assert {module: above for module, above in upwards.items() if above} == {}


def test_an_import_upwards_is_found_in_a_function_and_for_type_checkers(tmp_path):
    in_function = tmp_path / "in_function.py"
    in_function.write_text("def fit():\n    from pacsent.classify import TextClassifier\n")
    for_types = tmp_path / "for_types.py"
    for_types.write_text("if TYPE_CHECKING:\n    from pacsent.search.index import Index\n")

    assert packages_above("certify.labels", in_function) == {"classify"}
    assert packages_above("certify.labels", for_types) == {"search"}


def test_imports_do_not_run_in_circles():
    graph = {module: imports(path) - {module} for module, path in MODULES.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError with the circle


@pytest.mark.parametrize(
    ("pattern", "modules"),
    [
        # the group of all commands reaches only into its own folder
        (r"import_module", {"optional", "registry", "cli.command_line"}),
        (r"sklearn[\w.]*\._|from sklearn[\w.]* import .*\b_|_validate_params", set()),
        (r"threadpoolctl", {"threads"}),
    ],
)
def test_computed_imports_private_interfaces_and_blas_threads_have_one_home(pattern, modules):
    users = {name for name, path in MODULES.items() if re.search(pattern, path.read_text())}
    assert users == modules


def test_importing_is_light():
    code = "import sys, pacsent, pacsent.cli, pacsent.files, pacsent.threads; print(*sys.modules)"
    heavy = {"sklearn", "torch", "scipy", "joblib", "rich", "matplotlib", "fastapi"}
    assert not (heavy | {"uvicorn"}) & set(run_python(code).split())


def modules_after(code):
    """The modules that a new process has loaded after this code."""
    return set(run_python(f"{code}\nimport sys; print(*sys.modules)").split())


HEAVY = {"sklearn", "jinja2", "safetensors", "scipy.stats", "scipy.sparse"}


def test_certifying_predictions_loads_numpy_and_special_functions_of_scipy_alone():
    loaded = modules_after("from pacsent import certify_predictions")

    assert "scipy.special" in loaded
    assert not HEAVY & loaded


def test_counting_errors_without_texts_loads_nothing_heavy_either():
    loaded = modules_after(
        "from pacsent import certify_predictions\n"
        "certify_predictions(['up', 'down'] * 50, ['up', 'down'] * 50, random_state=0)"
    )

    assert not HEAVY & loaded


def test_texts_of_the_predictions_load_the_kernels():
    loaded = modules_after(
        "from pacsent import certify_predictions\n"
        "certify_predictions(['up', 'down'], ['up', 'down'], texts=['a', 'b'], random_state=0)"
    )

    assert "pacsent.kernels.edits" in loaded
