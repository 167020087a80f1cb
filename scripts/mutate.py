"""Mutation testing: change one operator or constant at a time, and count the changes tests notice.

    python scripts/mutate.py bounds/pac_bayes.py tests/bounds/test_bounds.py [--most 20] [--seed 0]

The package is copied to a temporary folder, where the file gets one mutation after the other, drawn
at random without repetition; the tests run there until the first failure, in a child of a process
that has imported what is not ours. A mutation that no test notices is printed with its line: either
a test is missing, or the mutation changes nothing. One that never ends counts as noticed.
"""

import argparse
import ast
import copy
import os
import random
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import hypothesis  # noqa: F401
import pytest
import scipy.optimize
import scipy.sparse.linalg
import scipy.stats  # noqa: F401
import sklearn.model_selection  # noqa: F401

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


def passes(folder: str, root: Path, tests: list[str], seconds: int) -> bool:
    """Whether the tests pass with the package in this folder, in a child with a time limit."""
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        os.chdir(root)
        sys.path[:0] = [folder, str(root / "tests")]
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
        marks = "not slow and not extra and not gpu"
        status = 1
        with suppress(BaseException):
            status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", marks, *tests])
        os._exit(int(status))
    return os.waitpid(child, 0)[1] == 0


def main() -> None:
    """Print the mutations that survive, and the score."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", help="below src/pacsent")
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--most", type=int, default=20, help="mutations to try")
    parser.add_argument("--seconds", type=int, default=120, help="for the tests, each time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--root", type=Path, default=ROOT, help="of the checkout")
    given = parser.parse_args()
    source = (given.root / "src" / "pacsent" / given.file).read_text(encoding="utf-8")
    places = [node for node in ast.walk(ast.parse(source)) if mutated(node) is not None]
    order = random.Random(given.seed).sample(range(len(places)), min(given.most, len(places)))
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(given.root / "src" / "pacsent", Path(folder, "pacsent"))
        if not passes(folder, given.root, given.tests, given.seconds):
            sys.exit("The tests must pass without a mutation. They do not.")
        for number in order:
            tree = ast.parse(source)
            old = [node for node in ast.walk(tree) if mutated(node) is not None][number]
            new = mutated(old)
            assert new is not None
            Path(folder, "pacsent", given.file).write_text(
                ast.unparse(Replace(old, new).visit(tree))
            )
            if passes(folder, given.root, given.tests, given.seconds):
                what = f"{ast.unparse(old)} -> {ast.unparse(new)}"
                print(f"survives, line {old.lineno}: {what}", flush=True)
            else:
                killed += 1
    print(f"{given.file}: {killed} of {len(order)} mutations noticed, of {len(places)} possible")


if __name__ == "__main__":
    main()
