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

# package -> packages that it imports from. A package is a folder, or a module next to the folders;
# it may import only from those further down in this list. An unused permission is removed.
PACKAGES = {
    "__main__": {"cli"},
    "cli": {
        "bench", "certificates", "classify", "guarantees", "files", "maths", "paper", "progress",
        "labelling", "parameter_checks", "scale", "encoders", "maps", "search", "serve", "storage",
        "teaching", "text", "words",
    },
    "scale": {
        "_kernels", "guarantees", "files", "progress", "encoders", "storage",
        "text", "threads", "words",
    },
    "serve": {
        "_kernels", "certificates", "classify", "guarantees", "maps", "maths", "paper", "encoders",
        "search", "storage", "text", "words",
    },
    "bench": {
        "certificates", "classify", "guarantees", "files", "gpu", "maps", "maths", "paper",
        "progress",
        "encoders", "storage", "text", "threads", "words",
    },
    "labelling": {"classify", "files", "guarantees", "maps", "maths", "storage", "text"},
    "maps": {"encoders", "files", "maths", "search", "text"},
    "paper": {
        "certificates", "encoders", "guarantees", "maths", "progress", "search", "teaching",
        "text", "words",
    },
    "search": {
        "_kernels", "certificates", "classify", "encoders", "maths", "storage", "text", "threads",
    },
    "guarantees": {"certificates", "classify", "maths", "parameter_checks", "storage", "text"},
    "classify": {
        "_kernels", "maths", "encoders", "parameter_checks", "storage", "text", "threads",
        "words",
    },
    "teaching": {
        "_kernels", "certificates", "encoders", "files", "gpu", "maths", "progress", "storage",
        "text", "threads", "words",
    },
    "certificates": {"maths", "progress", "encoders", "text", "threads", "words"},
    "encoders": {
        "_kernels", "files", "gpu", "maths", "parameter_checks", "progress", "storage", "text",
        "threads", "words",
    },
    "words": {
        "_kernels", "files", "gpu", "maths", "parameter_checks", "progress", "storage",
        "text", "threads",
    },
    "storage": {"files", "threads"},
    "gpu": {"files", "maths", "progress"},
    "maths": {"_kernels", "progress", "text", "threads"},
    "text": {"_kernels", "files", "progress", "threads"},
    "_kernels": {"progress"},
    "models": set(),
    "files": set(),
    "progress": set(),
    "threads": set(),
    "parameter_checks": set(),
    "lazy": set(),
    "__init__": set(),
}  # fmt: skip


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


def room_imports():
    found = {package: set() for package in PACKAGES}
    for module, path in MODULES.items():
        others = {package_of(other) for other in imports(path)} - {package_of(module), "lazy"}
        found.setdefault(package_of(module), set()).update(others)
    return found


def test_the_table_of_imports_is_what_the_code_does():
    assert room_imports() == PACKAGES


def test_every_room_imports_only_from_rooms_below_it():
    layer = {package: number for number, package in enumerate(PACKAGES)}
    up = [(a, b) for a, others in PACKAGES.items() for b in others if layer[b] <= layer[a]]
    assert not up


def test_inside_a_room_imports_do_not_run_in_circles():
    graph = {module: set(imports(path)) - {module} for module, path in MODULES.items()}
    for folder in {m.rpartition(".")[0] for m in MODULES} & set(MODULES):
        graph[folder] = {m for m in graph[folder] if m not in MODULES or m != folder}
    TopologicalSorter(graph).prepare()  # raises CycleError with the circle


def test_nothing_is_imported_by_a_computed_name_but_what_a_folder_offers():
    users = {
        module for module, path in MODULES.items() if "import_module" in path.read_text()
    }  # `offer` and the group of all commands reach only into their own folder
    assert users == {"lazy", "cli.command_line"}


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
