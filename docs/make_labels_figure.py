"""Draw docs/figures/labels.svg from benchmarks/results/labels/next: error by number of labels.

`--check` only compares.
"""

import json
import math
from pathlib import Path

from svg import Panel, sheet, text, write_figures

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "labels" / "next.json"
WIDTH = 400  # a phone's
SIZES = (50, 100, 200, 500)
PERCENTAGES = (0, 15, 30, 45, 60, 75, 90)
NAMES = {"subj": "SUBJ", "mr": "MR", "trec": "TREC", "20news": "20news", "imdb": "IMDb"}
COLOURS = {"subj": "a", "mr": "b", "trec": "c", "20news": "d", "imdb": "ink"}
NAME_HEIGHT = 16


def figure(rows: list[dict]) -> str:
    """One line per dataset, with its name and its last error at the right end."""
    panel = Panel((38, 40, WIDTH - 150, 270), (SIZES[0], SIZES[-1]), (0, 90), log_x=True)
    panel.axes("labels", "error of new texts, %", SIZES, PERCENTAGES)

    name_y = -math.inf
    drawn = [row for row in rows if row["chosen by"] == "random"]
    for row in sorted(drawn, key=lambda row: row["500 labels"], reverse=True):
        errors = [100 - row[f"{n_labels} labels"] for n_labels in SIZES]
        kind = COLOURS[row["dataset"]]
        panel.curve(SIZES, errors, kind)
        panel.dots(SIZES, errors, kind, 3.5)

    for row in sorted(drawn, key=lambda row: row["500 labels"]):
        error = 100 - row["500 labels"]
        last_x, last_y = panel.at(SIZES[-1], error)
        name_y = max(last_y + 4, name_y + NAME_HEIGHT)  # names do not overlap
        name = f"{NAMES[row['dataset']]} {error:.1f}"
        kind = COLOURS[row["dataset"]]
        panel.parts.append(text(last_x + 10, name_y, name, kind, size=12.5, bold=True))
    return sheet(WIDTH, 356, "Error by number of labels", panel.parts)


def drawn() -> str:
    """The figure of the stored result."""
    return figure(json.loads(RESULT.read_text(encoding="utf-8"))["rows"])


if __name__ == "__main__":
    write_figures({"labels.svg": drawn}, __doc__)
