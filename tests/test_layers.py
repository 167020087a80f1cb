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

# From top to bottom: a package imports only packages further down.
LAYERS = (
    "__main__", "cli", "demo", "web", "scale", "paper", "search", "guarantees", "classify", "gpu",
    "encoders", "words", "storage", "text", "maths", "_kernels", "models", "datasets", "files",
    "progress", "threads", "parameter_checks", "optional", "registry", "__init__",
)  # fmt: skip


MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


@cache
def imports(path):
    """Our own modules imported anywhere in the file, blocks for type checkers left out."""
    tree = ast.parse(path.read_text())
    unseen, modules = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            unseen |= set(ast.walk(node))
    for node in set(ast.walk(tree)) - unseen:
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


def test_a_package_imports_only_packages_below_it():
    for module, path in MODULES.items():
        package = module.partition(".")[0]
        others = {other.partition(".")[0] for other in imports(path)} - {package, "__init__"}
        if package not in ("", "__init__"):
            layer = LAYERS.index(package)
            assert not [other for other in others if LAYERS.index(other) <= layer], module


def test_imports_do_not_run_in_circles():
    graph = {module: imports(path) - {module} for module, path in MODULES.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError with the circle


@pytest.mark.parametrize(
    ("pattern", "modules"),
    [
        # the group of all commands reaches only into its own folder
        (r"import_module", {"optional", "registry", "cli.command_line"}),
        (r"sklearn[\w.]*\._|from sklearn[\w.]* import .*\b_", {"parameter_checks"}),
        (r"threadpool_limits", {"threads"}),
    ],
)
def test_computed_imports_private_interfaces_and_blas_threads_have_one_home(pattern, modules):
    users = {name for name, path in MODULES.items() if re.search(pattern, path.read_text())}
    assert users == modules


def test_importing_is_light():
    code = "import sys, pacsent, pacsent.cli, pacsent.files, pacsent.threads; print(*sys.modules)"
    heavy = {"numba", "sklearn", "torch", "scipy", "joblib", "rich", "matplotlib", "fastapi"}
    assert not (heavy | {"uvicorn"}) & set(run_python(code).split())
