"""Every import resolves, also those inside functions, which no test may reach."""

import ast
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "benchmarks", "docs", "examples", "scripts")
LOCAL = {
    path.stem for folder in ("benchmarks", "docs", "tests") for path in (ROOT / folder).glob("*.py")
}
LOCAL |= {path.parent.name for path in (ROOT / "tests").glob("*/__init__.py")}
OURS = LOCAL | {"pacsent"}


def imports(path):
    """(line, module, name or None) of every import of our own modules in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, None
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield node.lineno, node.module, alias.name


def unresolved(path):
    found = []
    for line, module, name in imports(path):
        if module.partition(".")[0] not in OURS:
            continue
        try:
            loaded = importlib.import_module(module)
            if name is not None and not hasattr(loaded, name):
                importlib.import_module(f"{module}.{name}")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in OURS:
                found.append(f"{path.relative_to(ROOT)}:{line}: {module} has no {name or ''}")
        except ImportError as error:
            if "install" not in str(error):  # an extra that is not there says so
                found.append(f"{path.relative_to(ROOT)}:{line}: {error}")
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_import_of_our_own_modules_resolves(folder, monkeypatch):
    for name in ("benchmarks", "docs", "tests"):
        monkeypatch.syspath_prepend(ROOT / name)
    monkeypatch.setattr(sys, "argv", ["test", "--help"])  # benchmarks that look for a GPU
    paths = [p for p in sorted((ROOT / folder).rglob("*.py")) if p.name != "conf.py"]
    assert [wrong for path in paths for wrong in unresolved(path)] == []


def test_an_import_that_does_not_resolve_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    path = tmp_path / "bad.py"
    path.write_text("def f():\n    from pacsent.paper.method_rows import Source, Row\n")
    [line] = unresolved(path)
    assert line == "bad.py:2: pacsent.paper.method_rows has no Source"
