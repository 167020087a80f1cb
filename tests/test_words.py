"""The vocabulary of the field, and names in docstrings that exist."""

import ast
import builtins
import importlib
import re
from contextlib import suppress
from functools import cache
from operator import attrgetter
from pathlib import Path

import pytest

import pacsent

ROOT = Path(__file__).parents[1]
PACKAGE = Path(pacsent.__file__).parent

# word -> what to write instead; whole words, in any case
INSTEAD = {
    r"promis(e|es|ed|ing)": "guarantee, bound, certificate",
    r"rivals?": "baseline",
    r"aloud": "state it",
    r"slips": "errata",
    r"the house|rooms": "architecture, package",
    r"kept back|keeps? back|held back": "held out, calibration set",
    r"told": "given, reported",
    r"carried": "passed through, extra columns",
    r"so many": "a number of",
    r"nobody": "say who or what",
}
PROSE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
CODE = sorted(PACKAGE.rglob("*.py"))


def offences(path):
    """`path:line: word` of every word that has a better one."""
    name = path.relative_to(ROOT).as_posix()
    return [
        f"{name}:{number}: {match[0]!r}, write: {better}"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for word, better in INSTEAD.items()
        for match in re.finditer(rf"(?<![\w-])({word})(?![\w-])", line, re.IGNORECASE)
    ]


@pytest.mark.parametrize("paths", [PROSE, CODE], ids=["documents", "src"])
def test_documents_and_code_use_the_words_of_the_field(paths):
    found = [line for path in paths for line in offences(path)]
    assert not found, "\n" + "\n".join(found)


def test_a_word_that_has_a_better_one_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("A Promise.\nCompromises and unpromising are other words.\nIts rivals\n")
    assert [line.split(": ")[0] for line in offences(page)] == ["page.md:1", "page.md:3"]


NAME = re.compile(r"`([A-Za-z_][\w.]*)(?:\(\))?`")
ELSEWHERE = {"otel", "mu", "A_hat", "B_hat", "reassoc"}  # an extra, symbols, a flag of LLVM


@cache
def defined():
    """Every name that the package defines: functions, classes, arguments, attributes, modules."""
    found = set(dir(builtins)) | ELSEWHERE | {path.stem for path in CODE}
    found |= {path.name for path in PACKAGE.rglob("*") if "__pycache__" not in path.parts}
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for field in ("name", "arg", "attr", "id"):
                value = getattr(node, field, None)
                if isinstance(value, str):
                    found.add(value)
    return found


def resolves(name, known):
    """Whether the package defines a name, or a dotted one leads to something."""
    if name in known:
        return True
    first, _, rest = name.partition(".")
    with suppress(ImportError):
        return importlib.import_module(name) is not None
    homes = {".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts) for p in CODE}
    packages = {home.removesuffix(".__init__").rpartition(".")[0] for home in homes}
    for prefix in ("", *(f"{package}." for package in packages if package)):
        try:
            attrgetter(rest)(importlib.import_module(prefix + first))
        except (ImportError, AttributeError, ValueError):
            continue
        return True
    return first in known and all(part in known for part in rest.split(".")) and first[0].isupper()


def unresolved(path, known):
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return [
        f"{path.relative_to(ROOT)}: `{name}`"
        for name in NAME.findall(text)
        if not resolves(name, known)
    ]


def test_names_in_module_docstrings_exist():
    known = defined()
    assert [line for path in CODE for line in unresolved(path, known)] == []


def test_a_name_that_does_not_exist_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "x.py"
    path.write_text('"""See `certify`, `maths.bounds.no_such_bound` and `NoSuchClass`."""')
    assert [line.split("`")[1] for line in unresolved(path, defined())] == [
        "maths.bounds.no_such_bound", "NoSuchClass"
    ]  # fmt: skip
