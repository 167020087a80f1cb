"""Write docs/architecture.md: rooms, floors and arrows from imports, one text's way from a run.

`--check` only says whether the page is up to date. `--measure FOLDER` prints the rooms of another
checkout's package as JSON, which is how figures/house_before.json was made.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
from pathlib import Path

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
    "loading": "save and load any model",
    "sentences": "methods: texts to vectors",
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


def picture(house: dict[str, set[str]]) -> str:
    lines = ["```mermaid", "flowchart TD"]
    for number, level in reversed(list(enumerate(floors(house)))):
        lines.append(f"  subgraph f{number}[floor {number}]")
        for room in level:
            says = f"<br/><small>{PICTURE_SAYS[room]}</small>" if room in PICTURE_SAYS else ""
            lines.append(f'    {_id(room)}["{room}{says}"]')
        lines.append("  end")
    lines += [f"  {_id(a)} --> {_id(b)}" for a, b in drawn(house)]
    return "\n".join([*lines, "```"])


def _id(room: str) -> str:
    return f"r_{room.strip('_')}"


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


# ------------------------------------------------------------------------------------------------
# The page
# ------------------------------------------------------------------------------------------------


def page() -> str:
    house = rooms(PACKAGE)
    before = {room: set(others) for room, others in json.loads(BEFORE.read_text()).items()}
    (r0, f0, a0), (r1, f1, a1) = numbers(before), numbers(house)
    circles = sum(room in _reach(before, room) for room in before)
    parts = [
        HEAD,
        "## Rooms, floors, arrows\n\n",
        "| | rooms | floors | arrows |\n|---|--:|--:|--:|\n",
        f"| one flat folder, commit 6fdc1a0 | {r0} | {f0} | {a0} |\n",
        f"| today | {r1} | {f1} | {a1} |\n\n",
        "Arrows that follow from others are counted and not drawn.\n\n### Today\n\n",
        picture(house),
        f"\n\n### Before\n\n{circles} of the {r0} rooms needed themselves through others. "
        "Counted with `docs/make_house.py --measure` on that commit.\n\n"
        if circles
        else "\n\n### Before\n\nCounted with `docs/make_house.py --measure` on that commit.\n\n",
        picture(before),
        "\n\n## The way of one text\n\n",
        "What `pacsent embed MODEL --method PB-L2` calls, in this order, to turn the line\n"
        f"“{TEXT}” into its vector. A step is the first call of a function from another\n"
        "file, traced in a run; private helpers and what has no description are left out.\n\n",
    ]
    for number, (file, name, says) in enumerate(way(), 1):
        module = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        parts.append(f"{number}. `{module}`: `{name}` — {says}\n")
    return "".join(parts)


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
    out = HERE / "architecture.md"
    text = page()
    if not given.check:
        out.write_text(text, encoding="utf-8")
    elif not out.exists() or out.read_text(encoding="utf-8") != text:
        raise SystemExit("docs/architecture.md is out of date. Run: python docs/make_house.py")


if __name__ == "__main__":
    main()
