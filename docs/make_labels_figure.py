"""Draw docs/figures/labels.svg from benchmarks/results/labels/next: error by number of labels.

`--check` only compares.
"""

import argparse
import json
import math

from make_paper_figures import FIGURES, INK, OURS, PAPER, ROOT, SOFT, drawing, line, text

RESULT = ROOT / "benchmarks" / "results" / "labels" / "next.json"
SIZES = (50, 100, 200, 500)
PERCENTAGES = (0, 15, 30, 45, 60, 75, 90)
LEFT, TOP, WIDTH, HEIGHT = 52, 30, 420, 250
NAMES = {"subj": "SUBJ", "mr": "MR", "trec": "TREC", "20news": "20news", "imdb": "IMDb"}
COLOURS = {"subj": OURS, "mr": PAPER, "trec": "#1a7f37", "20news": "#8250df", "imdb": INK}


def place(n_labels: int, percentage: float) -> tuple[float, float]:
    across = math.log(n_labels / SIZES[0]) / math.log(SIZES[-1] / SIZES[0])
    return LEFT + WIDTH * across, TOP + HEIGHT * (1 - percentage / PERCENTAGES[-1])


def figure(rows: list[dict]) -> str:
    """One line per dataset, with its name and its last error at the right end."""
    parts = [text(LEFT, TOP - 12, "error of new texts, %", size=12, fill=SOFT)]
    for percentage in PERCENTAGES:
        _, y = place(SIZES[0], percentage)
        parts.append(line(LEFT, y, LEFT + WIDTH, y))
        parts.append(text(LEFT - 8, y + 4, str(percentage), size=11, fill=SOFT, anchor="end"))
    for n_labels in SIZES:
        x, y = place(n_labels, 0)
        parts.append(text(x, y + 18, str(n_labels), size=11, fill=SOFT, anchor="middle"))
    parts.append(
        text(LEFT + WIDTH / 2, TOP + HEIGHT + 38, "labels", size=12, fill=SOFT, anchor="middle")
    )

    label_y = -math.inf
    drawn = [row for row in rows if row["chosen by"] == "random"]
    for row in sorted(drawn, key=lambda row: row["500 labels"]):
        errors = [100 - row[f"{n_labels} labels"] for n_labels in SIZES]
        points = [place(*point) for point in zip(SIZES, errors, strict=True)]
        colour = COLOURS[row["dataset"]]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        )
        for x, y in points:
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>')

        last_x, last_y = points[-1]
        label_y = max(last_y + 4, label_y + 15)  # names do not overlap
        name = f"{NAMES[row['dataset']]} {errors[-1]:.1f}"
        parts.append(text(last_x + 10, label_y, name, size=12, fill=colour))
    return drawing(LEFT + WIDTH + 110, TOP + HEIGHT + 50, "Error by number of labels", parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    drawn = figure(json.loads(RESULT.read_text(encoding="utf-8"))["rows"])
    path = FIGURES / "labels.svg"
    if check and (not path.exists() or path.read_text(encoding="utf-8") != drawn):
        raise SystemExit(f"{path.name} is out of date: make pages")
    path.write_text(drawn, encoding="utf-8")
