"""Mutation testing: change one operator or constant at a time, and count the changes tests notice.

    python scripts/mutate.py maths/bounds.py tests/test_bounds.py [--seconds 150] [--seed 0]

The package is copied to a temporary folder, where the file gets one mutation after the other, drawn
at random without repetition; the tests run there until the first failure. A mutation that no test
notices is printed with its line: either a test is missing, or the mutation changes nothing.
"""

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SWAPS: dict = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def mutated(node: ast.AST) -> ast.AST | None:
    """A copy of the node with one change; None where there is nothing to change."""
    new = copy.deepcopy(node)
    if isinstance(new, ast.BinOp | ast.BoolOp) and type(new.op) in SWAPS:
        new.op = SWAPS[type(new.op)]()
    elif isinstance(new, ast.Compare) and type(new.ops[0]) in SWAPS:
        new.ops[0] = SWAPS[type(new.ops[0])]()
    elif isinstance(new, ast.Constant) and isinstance(new.value, int | float):
        new.value = not new.value if isinstance(new.value, bool) else new.value + 1
    else:
        return None
    return new


class Replace(ast.NodeTransformer):
    """Puts `new` where `old` is."""

    def __init__(self, old: ast.AST, new: ast.AST):
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def main() -> None:
    """Print the mutations that survive, and the score."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", help="below src/pacsent")
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--root", type=Path, default=ROOT, help="of the checkout")
    given = parser.parse_args()
    until = time.monotonic() + given.seconds
    source = (given.root / "src" / "pacsent" / given.file).read_text(encoding="utf-8")
    places = [node for node in ast.walk(ast.parse(source)) if mutated(node) is not None]
    order = random.Random(given.seed).sample(range(len(places)), len(places))
    killed = tried = 0
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(given.root / "src" / "pacsent", Path(folder, "pacsent"))
        environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{given.root / 'tests'}"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider",
                   "-m", "not slow and not extra and not gpu", *given.tests]  # fmt: skip
        while order and time.monotonic() < until:
            tree = ast.parse(source)
            nodes = [node for node in ast.walk(tree) if mutated(node) is not None]
            old = nodes[order.pop()]
            new = mutated(old)
            assert new is not None
            Path(folder, "pacsent", given.file).write_text(
                ast.unparse(Replace(old, new).visit(tree))
            )
            done = subprocess.run(command, cwd=given.root, env=environment, capture_output=True)
            tried += 1
            killed += done.returncode != 0
            if done.returncode == 0:
                print(f"survives, line {old.lineno}: {ast.unparse(old)} -> {ast.unparse(new)}")
    print(f"{given.file}: {killed} of {tried} mutations noticed, of {len(places)} possible")


if __name__ == "__main__":
    main()
