"""Public functions say what they take and return, and mypy checks their bodies."""

import ast
import tomllib
from pathlib import Path

import pytest

import pacsent

PACKAGE = Path(pacsent.__file__).parent
# numba's kernels and click's commands say what they take in their own way
ELSEWHERE = ("_kernels", "cli")


def is_annotated(node: ast.FunctionDef) -> bool:
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    every += [a for a in (node.args.vararg, node.args.kwarg) if a is not None]
    given = [a for a in every if a.arg not in ("self", "cls")]
    returns = node.returns is not None or node.name == "__init__"
    return returns and all(a.annotation is not None for a in given)


def public_functions(path: Path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    homes = [tree, *[n for n in tree.body if isinstance(n, ast.ClassDef) and n.name[0] != "_"]]
    for home in homes:
        for node in home.body:
            if isinstance(node, ast.FunctionDef) and (
                node.name[0] != "_" or node.name == "__init__"
            ):
                yield node


def test_public_functions_are_annotated_in_full():
    missing = [
        f"{path.relative_to(PACKAGE).as_posix()}: {node.name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.parent.name not in ELSEWHERE
        for node in public_functions(path)
        if not is_annotated(node)
    ]
    assert not missing


@pytest.mark.parametrize(
    "source, annotated",
    [
        ("def f(a: int, *b: int, c: str = '', **d: float) -> int: ...", True),
        ("def f(a, *, c: str = '') -> int: ...", False),
        ("def f(a: int, **d) -> int: ...", False),
        ("def f(a: int): ...", False),
        ("def __init__(self, a: int): ...", True),
    ],
)
def test_a_missing_annotation_is_noticed(source, annotated):
    assert is_annotated(ast.parse(source).body[0]) is annotated


def test_mypy_checks_every_annotated_body():
    root = PACKAGE.parent.parent
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mypy"]
    assert settings["files"] == ["src/pacsent"] and "exclude" not in settings
    ours = [m for part in settings["overrides"] for m in part["module"] if "pacsent" in m]
    assert not ours  # no file of ours is let off
    check = (root / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    assert "/mypy" in check
