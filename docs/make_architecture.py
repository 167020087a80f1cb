"""Write docs/architecture.md and its pictures: packages and imports from the code, one text's path.

`--check` only says whether the page is up to date.
"""

import argparse
import ast
import itertools
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from pictures import same_picture

from pacsent.text.drawing import line, sheet, text

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "src" / "pacsent"
TEXT = "A quiet film about the sea."
NOT_PACKAGES = (  # entry points, and small modules that every package may use
    "__init__", "__main__", "files", "lazy", "parameter_checks", "progress", "threads",
)  # fmt: skip
AT_IMPORT = ("lazy.py", "_kernels/compiling.py")  # called where a module is loaded, not by texts
PICTURE_SAYS = {
    "cli": "commands: parse, call, print",
    "bench": "datasets, protocol, report",
    "serve": "answers over HTTP",
    "scale": "folders of files",
    "certificates": "guarantees for vectors",
    "guarantees": "for any classifier",
    "labelling": "labels until a goal",
    "classify": "texts to labels",
    "storage": "save and load any model",
    "paper": "the paper's bounds",
    "maps": "maps of texts",
    "encoders": "methods: texts to vectors",
    "words": "vocabulary, corpus, tables",
    "text": "reading, normalising",
    "gpu": "kernels for a GPU",
    "maths": "formulas and solvers",
    "_kernels": "compiled loops",
}

HEAD = """# Architecture: packages and dependencies

After this page you know where to find a piece of code, what it may import, and which parts are
written by hand although a library exists. The page is made by `docs/make_architecture.py` from the
code.

A package is a folder of `src/pacsent`, or a module next to the folders. Dependencies go one way: a
package is drawn one layer above the highest package that it imports from, no two packages import
each other, and `tests/test_layers.py` compares the table of dependencies with the code.

"""
# what is written by hand although a library exists: part, library, measured reason, where measured
BY_HAND = (
    (
        "`_kernels`: pooling, tokenising, Skip-gram, PB-neg",
        "gensim, NumPy, PyTorch",
        "8.4 times as fast as gensim in training, 9.6 times as fast as NumPy in encoding, and "
        "253 times as fast as SGD in PyTorch in solving PB-neg",
        "`results/train`, `results/encode`, `results/solve`",
    ),
    (
        "`maths.regressions`: grids of logistic regressions",
        "scikit-learn's GridSearchCV",
        "14 times as fast on a grid of 300 fits",
        "`results/grid`",
    ),
    (
        "`search.index`: exact search",
        "FAISS (optional)",
        "the order is exact in double precision; 1.1 times as fast as FAISS's flat index",
        "`results/search`",
    ),
    (
        "`serve`: batches of several requests",
        "one call of the model for each request",
        "two workers answer 4,700 requests of one text a second; at half of that rate the median "
        "is 0.8 ms",
        "`results/serve/default`",
    ),
    (
        "`serve`: model swap and supervision of workers",
        "a process manager such as gunicorn",
        "no answer was wrong or lost in ten minutes of full load with 18 model swaps and 131 "
        "killed workers",
        "`results/serve/soak`",
    ),
    (
        "`storage`: memory-mapped safetensors reader with checksums in pieces",
        "safetensors' reader",
        "the library copies: a file of 400 MB opens in 0.5 ms instead of 1.1 s",
        "measured once, without a result file",
    ),
    (
        "`files`: write under a hidden name, then exchange",
        "none known",
        "an interrupted write leaves the old file or folder intact; tested with kill -9",
        "`tests/test_files.py`",
    ),
)


def packages(package: Path) -> dict[str, set[str]]:
    """Who imports from whom, blocks for type checkers left out."""
    names = {
        path.stem if path.parent == package else path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
    } - set(NOT_PACKAGES)
    found: dict[str, set[str]] = {name: set() for name in names}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).parts
        unit = path.stem if len(parts) == 1 else parts[0]
        if unit in names:
            found[unit] |= {r for r in _imported(path, package.name) if r in names} - {unit}
    return found


def _imported(path: Path, package: str):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hidden: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            hidden |= set(ast.walk(node))
    for node in ast.walk(tree):
        if node in hidden:
            continue
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == package and len(parts) > 1:
                yield parts[1]


def layers(graph: dict[str, set[str]]) -> list[list[str]]:
    """Rooms by layer, the ground layer first; packages that import each other share a layer."""
    below = {unit: _reach(graph, unit) for unit in graph}
    height: dict[str, int] = {}

    def layer(unit):
        if unit not in height:
            lower = [r for r in below[unit] if unit not in below[r]]
            height[unit] = 1 + max((layer(r) for r in lower), default=-1)
        return height[unit]

    levels = [layer(unit) for unit in graph]
    return [sorted(r for r in graph if height[r] == n) for n in range(max(levels) + 1)]


def _reach(graph, unit) -> set[str]:
    """All packages that a unit needs, through others as well."""
    seen: set[str] = set()
    left = list(graph[unit])
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            left += graph[one]
    return seen


def drawn(graph: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The edges that do not follow from others."""
    kept = []
    for unit, others in sorted(graph.items()):
        through = set().union(*(_reach(graph, other) for other in others)) if others else set()
        kept += [(unit, other) for other in sorted(others - through)]
    return kept


# ------------------------------------------------------------------------------------------------
# The picture: layers as bands, packages as boxes, edges that go around the packages between
# ------------------------------------------------------------------------------------------------


def lanes(graph: dict[str, set[str]]) -> tuple[list[list[str]], list[list[str]]]:
    """(what stands on each layer from left to right, the stops of each edge from top to bottom).

    An edge that passes a layer without ending there gets a place on it, named "from>to>layer".
    """
    rows = [list(level) for level in layers(graph)]
    height = {unit: number for number, row in enumerate(rows) for unit in row}
    edges = []
    for above, below in drawn(graph):
        between = range(height[above] - 1, height[below], -1)
        stops = [f"{above}>{below}>{number}" for number in between]
        for number, stop in zip(between, stops, strict=True):
            rows[number].append(stop)
        edges.append([above, *stops, below])
    pairs = {pair for edge in edges for pair in itertools.pairwise(edge)}
    best = [list(row) for row in rows]
    for sweep in range(24):  # each row by the middle of its neighbours, downwards, then upwards
        down = sweep % 2 == 0
        for number in reversed(range(len(rows))) if down else range(len(rows)):
            near = rows[number + 1 if down else number - 1 : number + 2 if down else number]
            where = {name: place for row in near for place, name in enumerate(row)}
            rows[number] = _by_middle(rows[number], where, pairs)
        if _crossings(rows, pairs) < _crossings(best, pairs):
            best = [list(row) for row in rows]
    return best, edges


def _by_middle(row: list[str], where: dict[str, int], pairs: set[tuple[str, str]]) -> list[str]:
    def middle(name):
        near = [
            where[b if a == name else a]
            for a, b in pairs
            if name in (a, b) and (b if a == name else a) in where
        ]
        return sum(near) / len(near) if near else float(row.index(name))

    return sorted(row, key=middle)


def _crossings(rows: list[list[str]], pairs: set[tuple[str, str]]) -> int:
    where = {
        name: (number, place) for number, row in enumerate(rows) for place, name in enumerate(row)
    }
    by_floor: dict[int, list[tuple[int, int]]] = {}
    for above, below in pairs:
        by_floor.setdefault(where[below][0], []).append((where[above][1], where[below][1]))
    return sum(
        (a - c) * (b - d) < 0
        for ends in by_floor.values()
        for (a, b), (c, d) in itertools.combinations(ends, 2)
    )


def places(rows: list[list[str]], edges: list[list[str]]) -> dict[str, float]:
    """The middle of everything that stands on a layer, pulled under what leads to it."""
    near: dict[str, list[str]] = {name: [] for row in rows for name in row}
    for edge in edges:
        for a, b in itertools.pairwise(edge):
            near[a].append(b)
            near[b].append(a)
    span = max(sum(map(_wide, row)) for row in rows)
    x: dict[str, float] = {}
    for row in rows:
        x.update(_spread(row, _packed(row, span), span))
    for _ in range(40):
        for row in [*rows, *reversed(rows)]:
            wish = [
                sum(x[n] for n in near[name]) / len(near[name]) if near[name] else x[name]
                for name in row
            ]
            x.update(_spread(row, wish, span))
    return x


def _wide(name: str) -> float:
    if ">" in name:
        return 16
    words = [name, *_wrapped(PICTURE_SAYS.get(name, ""))]
    return max(9 * len(words[0]), *(6.9 * len(line) for line in [*words[1:], ""])) + 24


def _packed(row: list[str], span: float) -> list[float]:
    ends = list(itertools.accumulate(map(_wide, row)))
    shift = (span - ends[-1]) / 2
    return [shift + end - _wide(name) / 2 for end, name in zip(ends, row, strict=True)]


def _spread(row: list[str], wish: list[float], span: float) -> dict[str, float]:
    """As near to the wishes as the order and the widths allow: pushed right, then left, halved."""
    right, left, edge = [], [], 0.0
    for name, x in zip(row, wish, strict=True):
        right.append(max(x, edge + _wide(name) / 2))
        edge = right[-1] + _wide(name) / 2
    edge = span
    for name, x in zip(reversed(row), reversed(wish), strict=True):
        left.append(min(x, edge - _wide(name) / 2))
        edge = left[-1] - _wide(name) / 2
    middle = [(a + b) / 2 for a, b in zip(right, reversed(left), strict=True)]
    made, edge = [], 0.0
    for number, (name, x) in enumerate(zip(row, middle, strict=True)):
        rest = span - sum(map(_wide, row[number:]))  # what comes after must fit
        made.append(min(max(x, edge + _wide(name) / 2), rest + _wide(name) / 2))
        edge = made[-1] + _wide(name) / 2
    return dict(zip(row, made, strict=True))


def _wrapped(says: str, width: int = 16) -> list[str]:
    return textwrap.wrap(says, width)


def picture(graph: dict[str, set[str]], title: str) -> str:
    """The graph as SVG."""
    rows, edges = lanes(graph)
    x = places(rows, edges)
    side, gap = 30, 26
    tall = [max((len(_wrapped(PICTURE_SAYS.get(n, ""))) for n in row), default=0) for row in rows]
    heights = [30 + 15 * lines for lines in tall]
    top, at = {}, 12.0
    for number in reversed(range(len(rows))):
        top[number] = at
        at += heights[number] + gap
    width = side + 12 + max(sum(map(_wide, row)) for row in rows)
    floor_of = {name: number for number, row in enumerate(rows) for name in row}
    parts = [ARROW_HEAD]
    for number, y in top.items():
        parts.append(
            f'<rect class="band" x="4" y="{y - 6:g}" width="{width - 8:g}" '
            f'height="{heights[number] + 12:g}" rx="6"/>'
        )
        parts.append(text(14, y + heights[number] / 2 + 4, str(number), "quiet", size=12))
    for edge in edges:
        parts.append(_edge([(side + x[n], top[floor_of[n]], heights[floor_of[n]]) for n in edge]))
    for name, number in floor_of.items():
        if ">" not in name:
            parts += _box(name, side + x[name], top[number], heights[number])
    return sheet(round(width), round(at - gap + 12), title, parts)


ARROW_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path class="quiet" d="M0 0.5 8 4 0 7.5z"/></marker></defs>'
)


def _box(name: str, x: float, y: float, height: float) -> list[str]:
    wide = _wide(name) - 12
    says = _wrapped(PICTURE_SAYS.get(name, ""))
    parts = [
        f'<rect class="box" x="{x - wide / 2:.1f}" y="{y:g}" width="{wide:g}" height="{height:g}" '
        'rx="5"/>',
        f'<rect class="a-line" x="{x - wide / 2:.1f}" y="{y:g}" width="{wide:g}" '
        f'height="{height:g}" rx="5" stroke-width="1.4"/>',
    ]
    base = y + height / 2 + 5 - 7.5 * len(says)
    parts.append(text(x, base, name, bold=True, size=14, anchor="middle"))
    for number, words in enumerate(says, 1):
        parts.append(text(x, base + 15 * number, words, "quiet", size=12, anchor="middle"))
    return parts


def _edge(stops: list[tuple[float, float, float]]) -> str:
    """From the layer of a unit to the roof of another, straight through the layers between."""
    x, y, height = stops[0]
    path = f"M{x:.1f} {y + height:g}"
    here = x, y + height
    for number, (x, y, height) in enumerate(stops[1:], 2):
        bend = (y - here[1]) / 2
        path += f"C{here[0]:.1f} {here[1] + bend:g} {x:.1f} {y - bend:g} {x:.1f} {y:g}"
        if number < len(stops):
            path += f"V{y + height:g}"
            here = x, y + height
    return f'<path class="quiet-line" d="{path}" stroke-width="1.3" marker-end="url(#head)"/>'


def numbers(graph: dict[str, set[str]]) -> tuple[int, int, int]:
    return len(graph), len(layers(graph)), sum(map(len, graph.values()))


# ------------------------------------------------------------------------------------------------
# The way of one text: what a command really calls
# ------------------------------------------------------------------------------------------------


def way() -> list[tuple[str, str, str]]:
    """(file, function, what it says of itself) of every step, from a traced run of a command."""
    # kernels are plain Python without the compiler, so that the trace sees them
    settings = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(PACKAGE.parent)}
    settings["PACSENT_COMPILE"] = "1"  # the way that many texts take
    command = [sys.executable, str(Path(__file__).resolve()), "--trace"]
    ran = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"The traced run must end well. It said: {ran.stderr[-2000:]}")
    return [tuple(step) for step in json.loads(ran.stdout.splitlines()[-1])]


def trace() -> list[tuple[str, str, str]]:
    """Steps of `pacsent embed MODEL` on one line of text, as calls from one file into another."""
    import tempfile

    import numpy as np
    from click.testing import CliRunner

    import pacsent
    from pacsent.cli import cli

    words = ["a", "quiet", "film", "about", "the", "sea"]
    rng = np.random.default_rng(0)
    tables = rng.standard_normal((2, len(words), 4), dtype=np.float32)
    vectors = pacsent.WordVectors(pacsent.Vocabulary(words, range(12, 6, -1)), *tables)
    steps: list[tuple[str, str]] = []
    home = str(PACKAGE) + os.sep

    def hook(frame, event, _):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(home):
            return
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(home):
            caller = caller.f_back
        crosses = caller is None or caller.f_code.co_filename != code.co_filename
        step = code.co_filename.removeprefix(home), code.co_qualname
        if crosses and step not in steps:
            steps.append(step)

    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model")
        pacsent.save(vectors, model)
        command = ["embed", model, "--method", "PB-L2", "--n-jobs", "1", "--quiet"]
        sys.setprofile(hook)
        try:
            result = CliRunner().invoke(cli, command, input=TEXT + "\n")
        finally:
            sys.setprofile(None)
    if result.exit_code:
        raise SystemExit(f"{result.output} {result.exception}")
    found = [(file, name, _says(file, name)) for file, name in steps
             if file not in AT_IMPORT and file.removesuffix(".py") not in NOT_PACKAGES]  # fmt: skip
    return [step for step in found if step[2] and not step[1].split(".")[-1].startswith("_")]


def _says(file: str, name: str) -> str:
    """The first line of a function's docstring; empty for properties and where there is none."""
    node: ast.AST | None = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    for part in name.split("."):
        inside = [n for n in ast.iter_child_nodes(node) if getattr(n, "name", None) == part]
        if not inside:
            return ""
        node = inside[0]
    if not isinstance(node, ast.FunctionDef):
        return ""
    if any(ast.unparse(d).endswith("property") for d in node.decorator_list):
        return ""
    return (ast.get_docstring(node) or "").partition("\n")[0]


def way_picture(steps: list[tuple[str, str, str]], graph: dict[str, set[str]]) -> str:
    """A column for each unit, the highest first; a row for each step, read downwards."""
    used = {file.partition("/")[0].removesuffix(".py") for file, _, _ in steps}
    columns = [unit for level in reversed(layers(graph)) for unit in level if unit in used]
    first, step, row = 24, 22, 21
    top = 26 + 8.6 * max(map(len, columns))
    names = first + step * len(columns)
    wide = names + 6.9 * max(len(name) for _, name, _ in steps) + 10
    bottom = top + row * len(steps)
    parts, path = [], []
    for number, unit in enumerate(columns):
        x = first + step * number
        parts.append(line([(x, top - 6), (x, bottom - 6)], "rule", 1))
        parts.append(text(x + 4, top - 14, unit, bold=True, turned=True))
    for number, (file, name, _) in enumerate(steps):
        x = first + step * columns.index(file.partition("/")[0].removesuffix(".py"))
        y = top + row * number + 4
        path.append((x, y))
        parts.append(line([(x + 6, y), (names - 6, y)], "rule", 1, "1 3"))
        parts.append(text(names, y + 4, name, size=12.5))
    parts.append(line(path, "a", 2))
    parts += [f'<circle class="a" cx="{x:g}" cy="{y:g}" r="4.5"/>' for x, y in path]
    title = f"The way of one text through {len(columns)} packages in {len(steps)} steps"
    return sheet(round(wide), round(bottom + 6), title, parts)


# ------------------------------------------------------------------------------------------------
# The page
# ------------------------------------------------------------------------------------------------


def page(graph: dict[str, set[str]], steps: list[tuple[str, str, str]]) -> str:
    n_packages, n_layers, n_edges = numbers(graph)
    parts = [
        HEAD,
        "## Packages\n\n",
        f"{n_packages} packages in {n_layers} layers with {n_edges} dependencies; those that "
        "follow from others are counted\nand not drawn. Small modules that every package may use "
        "(`files`, `lazy`, `parameter_checks`,\n`progress`, `threads`) are left out.\n\n",
        "![Packages by layer; arrows lead to what a package imports](figures/architecture.svg)\n\n",
        "## Written by hand, and why\n\nResult files are under `benchmarks`.\n\n",
        "| part | instead of | reason | measured in |\n|---|---|---|---|\n",
        *[f"| {' | '.join(row)} |\n" for row in BY_HAND],
        "\n## The path of one text\n\n",
        "The functions that `pacsent embed MODEL --method PB-L2` calls, in this order, to turn the "
        f"line\n“{TEXT}” into its vector. A step is the first call of a public function "
        "from\nanother file, recorded in a run.\n\n",
        "![A column for each package, a row for each step](figures/way.svg)\n",
    ]
    return "".join(parts)


def pictures(graph: dict[str, set[str]], steps: list[tuple[str, str, str]]) -> dict[str, str]:
    """The files of figures/ that the page shows."""
    return {
        "architecture.svg": picture(graph, "The packages by layer, and what they import"),
        "way.svg": way_picture(steps, graph),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.trace:
        print(json.dumps(trace()))
        return
    graph, steps = packages(PACKAGE), way()
    out, drawn_now = HERE / "architecture.md", pictures(graph, steps)
    made = page(graph, steps)
    if not given.check:
        out.write_text(made, encoding="utf-8")
        for name, picture_ in drawn_now.items():
            (HERE / "figures" / name).write_text(picture_, encoding="utf-8")
        return
    same = out.exists() and out.read_text(encoding="utf-8") == made
    if not same or not all(same_picture(HERE / "figures" / n, p) for n, p in drawn_now.items()):
        raise SystemExit(
            "docs/architecture.md is out of date. Run: python docs/make_architecture.py"
        )


if __name__ == "__main__":
    main()
