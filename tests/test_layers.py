"""Data flows one way: who imports whom is a table, and the code is held against it exactly."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pacsent

PACKAGE = Path(pacsent.__file__).parent

# From top to bottom: a package imports only packages further down.
LAYERS = (
    "__main__", "cli", "web", "scale", "paper", "search", "guarantees", "classify", "encoders",
    "gpu", "words", "storage", "text", "maths", "_kernels", "models", "datasets", "files",
    "progress", "threads", "parameter_checks", "optional", "registry", "__init__",
)  # fmt: skip

# Imports that climb and are to go: (package, package above it).
CLIMBS: set[tuple[str, str]] = set()


def name_of(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(path): path for path in PACKAGE.rglob("*.py")}


def package_of(module):
    return module.partition(".")[0]


@cache
def imports(path):
    """Our own modules imported anywhere in the file, blocks for type checkers left out."""
    return list(_imports(path))


def _imports(path):
    tree = ast.parse(path.read_text())
    unseen = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            unseen |= set(ast.walk(node))
    for node in ast.walk(tree):
        if node in unseen:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pacsent":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("pacsent.")]
        else:
            continue
        for name in names:
            parts = name.split(".")[1:]
            while parts and ".".join(parts) not in MODULES:
                parts.pop()
            if parts:
                yield ".".join(parts)


def package_imports():
    edges = set()
    for module, path in MODULES.items():
        edges |= {(package_of(module), package_of(other)) for other in imports(path)}
    return {(a, b) for a, b in edges if a != b and "__init__" not in (a, b)}


def test_every_package_has_its_layer():
    assert {package_of(module) for module in MODULES} <= {*LAYERS, ""}


def test_a_package_imports_only_packages_below_it():
    assert {(a, b) for a, b in package_imports() if LAYERS.index(a) >= LAYERS.index(b)} == CLIMBS


def test_inside_a_room_imports_do_not_run_in_circles():
    graph = {module: set(imports(path)) - {module} for module, path in MODULES.items()}
    for folder in {m.rpartition(".")[0] for m in MODULES} & set(MODULES):
        graph[folder] = {m for m in graph[folder] if m not in MODULES or m != folder}
    TopologicalSorter(graph).prepare()  # raises CycleError with the circle


def test_nothing_is_imported_by_a_computed_name_but_what_a_folder_offers():
    users = {module for module, path in MODULES.items() if "import_module" in path.read_text()}
    # the group of all commands reaches only into its own folder
    assert users == {"optional", "registry", "cli.command_line"}


def test_private_interfaces_of_scikit_learn_are_used_in_one_file():
    private = re.compile(r"sklearn[\w.]*\._|from sklearn[\w.]* import .*\b_")
    users = {module for module, path in MODULES.items() if private.search(path.read_text())}
    assert users == {"parameter_checks"}


def test_one_place_alone_limits_the_threads_of_blas():
    users = {module for module, path in MODULES.items() if "threadpool_limits" in path.read_text()}
    assert users == {"threads"}


def test_importing_is_light():
    code = "import sys, pacsent, pacsent.cli; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {
        "numba",
        "sklearn",
        "torch",
        "scipy",
        "rich",
        "matplotlib",
        "fastapi",
        "uvicorn",
    } & set(loaded)
