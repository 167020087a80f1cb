"""Write docs/architecture.md and its pictures: rooms and arrows from imports, one text's way.

`--check` only says whether the page is up to date. `--measure FOLDER` prints the rooms of another
checkout's package as JSON, which is how figures/house_before.json was made.
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

from pacsent.bench.drawing import line, same_picture, sheet, text

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "src" / "pacsent"
BEFORE = HERE / "figures" / "house_before.json"
TEXT = "A quiet film about the sea."
NOT_ROOMS = ("__init__", "__main__", "lazy")  # doors and the helper that opens them
AT_IMPORT = ("lazy.py", "_kernels/compiling.py")  # called where a module is loaded, not by texts
PICTURE_SAYS = {
    "cli": "commands: parse, call, print",
    "bench": "datasets, protocol, report",
    "serve": "answers over HTTP",
    "scale": "texts of any number",
    "certificates": "promises about vectors",
    "classify": "classifiers with promises",
    "storage": "save and load any model",
    "encoders": "methods: texts to vectors",
    "words": "vocabulary, corpus, tables",
    "text": "reading, normalising",
    "gpu": "the same on a GPU",
    "maths": "formulas and solvers",
    "_kernels": "compiled loops",
}

HEAD = """# The house

Data flows one way. A room is a folder of `src/pacsent`, or a module beside the folders; an arrow
says that a room imports from another; a room stands one floor above the highest room it imports
from. Nothing imports uphill, no two rooms import each other, and `tests/test_layers.py` holds the
table of arrows against the code for equality. This page is made by `docs/make_house.py` from the
code.

"""


def rooms(package: Path) -> dict[str, set[str]]:
    """Who imports from whom, blocks for type checkers left out."""
    names = {
        path.stem if path.parent == package else path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
    } - set(NOT_ROOMS)
    found: dict[str, set[str]] = {name: set() for name in names}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).parts
        room = path.stem if len(parts) == 1 else parts[0]
        if room in names:
            found[room] |= {r for r in _imported(path, package.name) if r in names} - {room}
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


def floors(house: dict[str, set[str]]) -> list[list[str]]:
    """Rooms by floor, the ground floor first; rooms that import each other share a floor."""
    below = {room: _reach(house, room) for room in house}
    height: dict[str, int] = {}

    def floor(room):
        if room not in height:
            lower = [r for r in below[room] if room not in below[r]]
            height[room] = 1 + max((floor(r) for r in lower), default=-1)
        return height[room]

    levels = [floor(room) for room in house]
    return [sorted(r for r in house if height[r] == n) for n in range(max(levels) + 1)]


def _reach(house, room) -> set[str]:
    """All rooms that a room needs, through others as well."""
    seen: set[str] = set()
    left = list(house[room])
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            left += house[one]
    return seen


def drawn(house: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The arrows that do not follow from others."""
    kept = []
    for room, others in sorted(house.items()):
        through = set().union(*(_reach(house, other) for other in others)) if others else set()
        kept += [(room, other) for other in sorted(others - through)]
    return kept


# ------------------------------------------------------------------------------------------------
# The picture: floors as bands, rooms as boxes, arrows that go around the rooms between
# ------------------------------------------------------------------------------------------------


def lanes(house: dict[str, set[str]]) -> tuple[list[list[str]], list[list[str]]]:
    """(what stands on each floor from left to right, the stops of each arrow from top to bottom).

    An arrow that passes a floor without ending there gets a place on it, named "from>to>floor".
    """
    rows = [list(level) for level in floors(house)]
    height = {room: number for number, row in enumerate(rows) for room in row}
    arrows = []
    for above, below in drawn(house):
        between = range(height[above] - 1, height[below], -1)
        stops = [f"{above}>{below}>{number}" for number in between]
        for number, stop in zip(between, stops, strict=True):
            rows[number].append(stop)
        arrows.append([above, *stops, below])
    pairs = {pair for arrow in arrows for pair in itertools.pairwise(arrow)}
    best = [list(row) for row in rows]
    for sweep in range(24):  # each row by the middle of its neighbours, downwards, then upwards
        down = sweep % 2 == 0
        for number in reversed(range(len(rows))) if down else range(len(rows)):
            near = rows[number + 1 if down else number - 1 : number + 2 if down else number]
            where = {name: place for row in near for place, name in enumerate(row)}
            rows[number] = _by_middle(rows[number], where, pairs)
        if _crossings(rows, pairs) < _crossings(best, pairs):
            best = [list(row) for row in rows]
    return best, arrows


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


def places(rows: list[list[str]], arrows: list[list[str]]) -> dict[str, float]:
    """The middle of everything that stands on a floor, pulled under what leads to it."""
    near: dict[str, list[str]] = {name: [] for row in rows for name in row}
    for arrow in arrows:
        for a, b in itertools.pairwise(arrow):
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


def picture(house: dict[str, set[str]], title: str) -> str:
    """The house as SVG."""
    rows, arrows = lanes(house)
    x = places(rows, arrows)
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
    for arrow in arrows:
        parts.append(_arrow([(side + x[n], top[floor_of[n]], heights[floor_of[n]]) for n in arrow]))
    for name, number in floor_of.items():
        if ">" not in name:
            parts += _room(name, side + x[name], top[number], heights[number])
    return sheet(round(width), round(at - gap + 12), title, parts)


ARROW_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path class="quiet" d="M0 0.5 8 4 0 7.5z"/></marker></defs>'
)


def _room(name: str, x: float, y: float, height: float) -> list[str]:
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


def _arrow(stops: list[tuple[float, float, float]]) -> str:
    """From the floor of a room to the roof of another, straight through the floors between."""
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


def numbers(house: dict[str, set[str]]) -> tuple[int, int, int]:
    return len(house), len(floors(house)), sum(map(len, house.values()))


# ------------------------------------------------------------------------------------------------
# The way of one text: what a command really calls
# ------------------------------------------------------------------------------------------------


def way() -> list[tuple[str, str, str]]:
    """(file, function, what it says of itself) of every step, from a traced run of a command."""
    # kernels are plain Python without the compiler, so that the trace sees them
    settings = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(PACKAGE.parent)}
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
    told = [(file, name, _says(file, name)) for file, name in steps if file not in AT_IMPORT]
    return [step for step in told if step[2] and not step[1].split(".")[-1].startswith("_")]


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


def way_picture(steps: list[tuple[str, str, str]], house: dict[str, set[str]]) -> str:
    """A column for each room, the highest first; a row for each step, read downwards."""
    met = {file.partition("/")[0].removesuffix(".py") for file, _, _ in steps}
    columns = [room for level in reversed(floors(house)) for room in level if room in met]
    first, step, row = 24, 22, 21
    top = 26 + 8.6 * max(map(len, columns))
    names = first + step * len(columns)
    wide = names + 6.9 * max(len(name) for _, name, _ in steps) + 10
    bottom = top + row * len(steps)
    parts, path = [], []
    for number, room in enumerate(columns):
        x = first + step * number
        parts.append(line([(x, top - 6), (x, bottom - 6)], "rule", 1))
        parts.append(text(x + 4, top - 14, room, bold=True, turned=True))
    for number, (file, name, _) in enumerate(steps):
        x = first + step * columns.index(file.partition("/")[0].removesuffix(".py"))
        y = top + row * number + 4
        path.append((x, y))
        parts.append(line([(x + 6, y), (names - 6, y)], "rule", 1, "1 3"))
        parts.append(text(names, y + 4, name, size=12.5))
    parts.append(line(path, "a", 2))
    parts += [f'<circle class="a" cx="{x:g}" cy="{y:g}" r="4.5"/>' for x, y in path]
    title = f"The way of one text through {len(columns)} rooms in {len(steps)} steps"
    return sheet(round(wide), round(bottom + 6), title, parts)


# ------------------------------------------------------------------------------------------------
# The page
# ------------------------------------------------------------------------------------------------


def page(house: dict[str, set[str]], steps: list[tuple[str, str, str]]) -> str:
    before = _before()
    (r0, f0, a0), (r1, f1, a1) = numbers(before), numbers(house)
    circles = sum(room in _reach(before, room) for room in before)
    parts = [
        HEAD,
        "## Rooms, floors, arrows\n\n",
        "| | rooms | floors | arrows |\n|---|--:|--:|--:|\n",
        f"| one flat folder, before | {r0} | {f0} | {a0} |\n",
        f"| today | {r1} | {f1} | {a1} |\n\n",
        "Arrows that follow from others are counted and not drawn.\n\n### Today\n\n",
        "![Rooms of today by floor; arrows lead to what a room imports](figures/house.svg)",
        f"\n\n### Before\n\n{circles} of the {r0} rooms needed themselves through others. "
        "Counted with `docs/make_house.py --measure` on that commit.\n\n"
        if circles
        else "\n\n### Before\n\nCounted with `docs/make_house.py --measure` on that commit.\n\n",
        "![Modules of the flat folder by floor](figures/house_before.svg)",
        "\n\n## The way of one text\n\n",
        "What `pacsent embed MODEL --method PB-L2` calls, in this order, to turn the line\n"
        f"“{TEXT}” into its vector. A step is the first call of a function from another\n"
        "file, traced in a run; private helpers and what has no description are left out.\n\n",
    ]
    parts.append("![A column for each room, a row for each step](figures/way.svg)\n\n")
    for number, (file, name, says) in enumerate(steps, 1):
        module = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        parts.append(f"{number}. `{module}`: `{name}` — {says}\n")
    return "".join(parts)


def _before() -> dict[str, set[str]]:
    return {room: set(others) for room, others in json.loads(BEFORE.read_text()).items()}


def pictures(house: dict[str, set[str]], steps: list[tuple[str, str, str]]) -> dict[str, str]:
    """The files of figures/ that the page shows."""
    return {
        "house.svg": picture(house, "The rooms of the package by floor, and who imports whom"),
        "house_before.svg": picture(_before(), "The modules of the flat folder by floor"),
        "way.svg": way_picture(steps, house),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--measure", type=Path, metavar="FOLDER")
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.trace:
        print(json.dumps(trace()))
        return
    if given.measure:
        found = rooms(given.measure)
        print(json.dumps({room: sorted(others) for room, others in sorted(found.items())}))
        print(*numbers(found), file=sys.stderr)
        return
    house, steps = rooms(PACKAGE), way()
    out, drawn_now = HERE / "architecture.md", pictures(house, steps)
    made = page(house, steps)
    if not given.check:
        out.write_text(made, encoding="utf-8")
        for name, picture_ in drawn_now.items():
            (HERE / "figures" / name).write_text(picture_, encoding="utf-8")
        return
    same = out.exists() and out.read_text(encoding="utf-8") == made
    if not same or not all(same_picture(HERE / "figures" / n, p) for n, p in drawn_now.items()):
        raise SystemExit("docs/architecture.md is out of date. Run: python docs/make_house.py")


if __name__ == "__main__":
    main()
