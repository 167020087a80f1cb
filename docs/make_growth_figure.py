"""Draw docs/figures/growth.svg from benchmarks/results/growth: seconds by the number of texts.

`--check` only compares.
"""

import argparse
import json
import math
from itertools import groupby

from make_paper_figures import FIGURES, INK, OURS, PAPER, ROOT, SOFT, drawing, line, text

RESULT = ROOT / "benchmarks" / "results" / "growth" / "default.json"
COLUMNS, LEFT, TOP = 4, 46, 84
PANEL_WIDTH, PANEL_HEIGHT, GAP_ACROSS, GAP_DOWN = 170, 130, 64, 76
SIZES = ((2_000, "2k"), (8_000, ""), (32_000, "32k"), (128_000, ""), (512_000, "512k"))
SECONDS = (0.01, 0.1, 1, 10, 100)


def figure(rows: list[dict]) -> str:
    """One panel for each task: ours as a line, another program as a dashed one, log by log."""
    tasks = list(dict.fromkeys(row["task"] for row in rows if row["slope"] is not None))
    parts = [
        line(LEFT, 20, LEFT + 26, 20, OURS, 2.5),
        text(LEFT + 34, 24, "pacsent, with the slope", fill=SOFT),
        dashed([(LEFT + 210, 20), (LEFT + 236, 20)]),
        text(LEFT + 244, 24, "another program", fill=SOFT),
    ]
    for number, task in enumerate(tasks):
        column, row_number = number % COLUMNS, number // COLUMNS
        x = LEFT + column * (PANEL_WIDTH + GAP_ACROSS)
        y = TOP + row_number * (PANEL_HEIGHT + GAP_DOWN)
        parts += panel(x, y, task, [row for row in rows if row["task"] == task])
    n_rows = -(-len(tasks) // COLUMNS)
    width = LEFT + COLUMNS * (PANEL_WIDTH + GAP_ACROSS)
    height = TOP + n_rows * (PANEL_HEIGHT + GAP_DOWN)
    return drawing(width, height, "CPU seconds of each task by the number of texts", parts)


def panel(left: float, top: float, task: str, rows: list[dict]) -> list[str]:
    """The lines of one task, with axes."""

    def place(n: float, seconds: float) -> tuple[float, float]:
        across = math.log(n / SIZES[0][0]) / math.log(SIZES[-1][0] / SIZES[0][0])
        up = math.log(max(seconds, SECONDS[0]) / SECONDS[0]) / math.log(SECONDS[-1] / SECONDS[0])
        return left + PANEL_WIDTH * across, top + PANEL_HEIGHT * (1 - up)

    name, _, detail = task.partition(", ")
    parts = [text(left, top - 26, name, size=12), text(left, top - 11, detail, size=11, fill=SOFT)]
    for seconds in SECONDS:
        _, y = place(SIZES[0][0], seconds)
        parts.append(line(left, y, left + PANEL_WIDTH, y))
        parts.append(text(left - 6, y + 4, f"{seconds:g}", size=10, fill=SOFT, anchor="end"))
    for n, label in SIZES:
        x, y = place(n, SECONDS[0])
        parts.append(text(x, y + 16, label, size=10, fill=SOFT, anchor="middle"))

    ours = [place(row["n"], row["seconds"]) for row in rows if row["program"] == "pacsent"]
    label_y = ours[-1][1] - 4
    for program, measured in groupby(rows, key=lambda row: row["program"]):
        if program == "pacsent":
            continue
        points = [place(row["n"], row["seconds"]) for row in measured]
        last_x, last_y = points[-1]
        parts.append(dashed(points))
        parts.append(text(last_x + 3, last_y + 4, program, size=10, fill=PAPER))
        if last_x == ours[-1][0] and abs(last_y + 4 - label_y) < 12:
            label_y = last_y + 16  # below the name of the other program

    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in ours)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{OURS}" stroke-width="2.5"/>')
    slope = rows[0]["slope"]
    if slope is not None:
        parts.append(text(ours[-1][0] + 3, label_y, f"{slope:.2f}", size=10, fill=INK))
    return parts


def dashed(points: list[tuple[float, float]]) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{PAPER}" stroke-width="2" '
        'stroke-dasharray="5 4"/>'
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    drawn = figure(json.loads(RESULT.read_text(encoding="utf-8"))["rows"])
    path = FIGURES / "growth.svg"
    if check and (not path.exists() or path.read_text(encoding="utf-8") != drawn):
        raise SystemExit(f"{path.name} is out of date: make pages")
    path.write_text(drawn, encoding="utf-8")
