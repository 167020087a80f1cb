"""Functions drawn at random, as they were at a commit and as they are, side by side.

    python scripts/compare_functions.py BEFORE [--functions 20] [--tests 10] [--seed 58] > page.html

To judge by reading whether a rewrite made code easier to read. Functions of src with 15 lines or
more and tests with 8 lines or more are drawn from those that exist, by file name and name, at both
places; a file may have moved.
"""

import argparse
import ast
import html
import random
import subprocess
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
STYLE = (
    "body{font:14px system-ui;margin:2em} pre{font:12px monospace;margin:0;white-space:pre-wrap}"
    "td{vertical-align:top;width:50%;border:1px solid #d0d7de;padding:8px} table{width:100%}"
)


class Source(NamedTuple):
    """A function, and the file that it is in."""

    path: str
    code: str


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def read_functions(commit: str, folder: str, prefix: str) -> dict[tuple[str, str], Source]:
    """The functions and methods of a commit, by the name of their file and their own."""
    functions = {}
    for path in git("ls-tree", "-r", "--name-only", commit, folder).splitlines():
        if not path.endswith(".py"):
            continue
        text = git("show", f"{commit}:{path}")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith(prefix):
                code = "\n".join(lines[node.lineno - 1 : node.end_lineno])
                functions[PurePosixPath(path).name, node.name] = Source(path, code)
    return functions


def draw(
    before: dict[tuple[str, str], Source],
    after: dict[tuple[str, str], Source],
    n: int,
    least_lines: int,
    rng: random.Random,
) -> list[tuple[Source, Source]]:
    """Pairs of functions that were long enough before, in random order."""
    names = sorted(
        name
        for name in before.keys() & after.keys()
        if before[name].code.count("\n") + 1 >= least_lines
    )
    return [(before[name], after[name]) for name in rng.sample(names, n)]


def cell(source: Source) -> str:
    return f"<td><b>{source.path}</b><pre>{html.escape(source.code)}</pre></td>"


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", help="commit")
    parser.add_argument("--after", default="HEAD", help="commit (default: HEAD)")
    parser.add_argument("--functions", type=int, default=20)
    parser.add_argument("--tests", type=int, default=10)
    parser.add_argument("--seed", type=int, default=58)
    options = parser.parse_args()

    rng = random.Random(options.seed)
    pairs = []
    for folder, prefix, n, least in (
        ("src/pacsent", "", options.functions, 15),
        ("tests", "test_", options.tests, 8),
    ):
        before = read_functions(options.before, folder, prefix)
        after = read_functions(options.after, folder, prefix)
        pairs += draw(before, after, n, least, rng)

    rows = "\n".join(f"<tr>{cell(before)}{cell(after)}</tr>" for before, after in pairs)
    title = f"{options.before} and {options.after}, seed {options.seed}"
    print(f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>")
    print(f"<h1>{title}</h1><table>{rows}</table>")


if __name__ == "__main__":
    main()
