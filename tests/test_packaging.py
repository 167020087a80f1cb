"""What is imported is declared and the other way round; the version stands in one place."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pacsent

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGE_OF = {
    "sklearn": "scikit-learn",
    "compression": "python",
    "vl_convert": "vl-convert-python",
    "faiss": "faiss-cpu",
    "sentence_transformers": "sentence-transformers",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",
    "lazy_loader": "lazy-loader",
}  # where names differ


def names(requirements) -> set[str]:
    return {re.split(r"[<>=!\[;~ ]", requirement)[0] for requirement in requirements}


def imported() -> dict[str, set[str]]:
    """Other people's packages that src imports -> the files that do."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module or ""]
            else:
                continue
            for module in modules:
                top = module.partition(".")[0]
                if top not in sys.stdlib_module_names and top not in ("pacsent", "compression"):
                    found.setdefault(PACKAGE_OF.get(top, top), set()).add(path.name)
    return found


def test_what_is_imported_is_declared():
    declared = names(PROJECT["dependencies"])
    for extra in PROJECT["optional-dependencies"].values():
        declared |= names(extra)
    unknown = {name: files for name, files in imported().items() if name not in declared}
    assert not unknown


def test_what_every_installation_gets_is_imported():
    assert names(PROJECT["dependencies"]) <= set(imported())


def test_the_version_stands_in_one_place():
    assert "version" in PROJECT["dynamic"]
    assert pacsent.__version__
    for name in ("pyproject.toml", "CITATION.cff", "README.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(rf"^version\W+{re.escape(pacsent.__version__)}", text, re.M), name
