"""Draw docs/figures/front.svg, accuracy against labels, from result files; `--check` compares."""

import argparse
import json
from pathlib import Path

from drawing import Panel, sheet, text

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "classify"
PICTURE = ROOT / "docs" / "figures" / "front.svg"
SETS = {"subj": "SUBJ", "imdb": "IMDb", "mr": "MR", "trec": "TREC", "20news": "20news"}
WHO = {"TextClassifier": "a", "Average": "b", "tf-idf 1-2-grams": "d"}
WIDTH, HEIGHT, COLUMNS, TOP = 196, 196, 3, 56


def panel(name: str, rows: list[dict], corner: tuple[float, float]) -> list[str]:
    """One dataset: three lines, a tick for each number of labels."""
    labels = [row["labels"] for row in rows]
    values = [row[who] for row in rows for who in WHO]
    left, top = corner
    place = (left + 38, top + 34, WIDTH - 56, HEIGHT - 74)
    drawn = Panel(place, (labels[0], labels[-1]), (min(values) - 0.02, max(values) + 0.02), True)
    shown = labels if len(labels) <= 4 else [labels[0], labels[len(labels) // 2], labels[-1]]
    drawn.axes("", "", x_ticks=shown)
    for who, kind in reversed(WHO.items()):
        ys = [row[who] for row in rows]
        drawn.curve(labels, ys, kind, width=2.2).dots(labels, ys, kind, 3.2)
    return [text(left + 38, top + 22, name, bold=True, size=14), *drawn.parts]


def key() -> list[str]:
    """Which line is whose, above the panels."""
    parts, x = [text(12, 24, "Test accuracy against the number of labels", "quiet")], 12
    for who, kind in WHO.items():
        parts.append(f'<rect class="{kind}" x="{x}" y="36" width="14" height="14" rx="3"/>')
        parts.append(text(x + 20, 48, who, size=14))
        x += 52 + 8 * len(who)
    return parts


def picture() -> str:
    found = {
        name: json.loads((RESULTS / f"few-{key}.json").read_text(encoding="utf-8"))["rows"]
        for key, name in SETS.items()
        if (RESULTS / f"few-{key}.json").exists()
    }
    parts = key()
    for number, (name, rows) in enumerate(found.items()):
        parts += panel(name, rows, (number % COLUMNS * WIDTH, TOP + number // COLUMNS * HEIGHT))
    height = TOP + -(-len(found) // COLUMNS) * HEIGHT - 14
    title = "Test accuracy against the number of labels: TextClassifier, Average and tf-idf"
    return sheet(COLUMNS * WIDTH, height, title, parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        up_to_date = PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == picture()
        raise SystemExit(0 if up_to_date else "docs/figures/front.svg is out of date: make pages")
    PICTURE.write_text(picture(), encoding="utf-8")
