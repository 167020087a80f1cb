"""Draw docs/figures/front.svg, accuracy against labels, from result files; `--check` compares."""

import argparse
import json
from math import log
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "classify"
PICTURE = ROOT / "docs" / "figures" / "front.svg"
SETS = {"subj": "SUBJ", "imdb": "IMDb", "mr": "MR", "trec": "TREC", "20news": "20news"}
WHO = {"TextClassifier": "#0a7d91", "Average": "#e08a1e", "tf-idf 1-2-grams": "#7a7f87"}
WIDTH, HEIGHT, GAP, TOP, LEFT = 196, 150, 26, 56, 40


def panel(name: str, rows: list[dict], at: int) -> list[str]:
    """One dataset: three lines, a tick for each number of labels."""
    labels = [row["labels"] for row in rows]
    values = [row[who] for row in rows for who in WHO]
    low, high = min(values) - 0.02, max(values) + 0.02
    x0, x1 = log(labels[0]), log(labels[-1])

    def place(n, value):
        x = at + 6 + (WIDTH - 12) * (log(n) - x0) / (x1 - x0)
        return f"{x:.1f},{TOP + HEIGHT * (high - value) / (high - low):.1f}"

    parts = [
        f'<rect x="{at}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>',
        f'<text x="{at + 8}" y="{TOP + 18}" font-weight="bold">{name}</text>',
    ]
    for n in labels:
        x = place(n, low).split(",")[0]
        parts.append(f'<text x="{x}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{n:,}</text>')
    for value in (low + 0.02, high - 0.02):
        y = place(labels[0], value).split(",")[1]
        parts.append(f'<text x="{at - 4}" y="{y}" dy="4" text-anchor="end">{value:.2f}</text>')
    for who, colour in WHO.items():
        points = " ".join(place(row["labels"], row[who]) for row in rows)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        )
        for point in points.split():
            x, y = point.split(",")
            parts.append(f'<circle cx="{x}" cy="{y}" r="3.2" fill="{colour}"/>')
    return parts


def picture() -> str:
    found = {
        name: json.loads((RESULTS / f"few-{key}.json").read_text(encoding="utf-8"))["rows"]
        for key, name in SETS.items()
        if (RESULTS / f"few-{key}.json").exists()
    }
    parts, x = [], LEFT
    for who, colour in WHO.items():
        parts.append(f'<rect x="{x}" y="16" width="14" height="14" fill="{colour}"/>')
        parts.append(f'<text x="{x + 20}" y="28">{who}</text>')
        x += 60 + 8 * len(who)
    for number, (name, rows) in enumerate(found.items()):
        parts += panel(name, rows, LEFT + number * (WIDTH + GAP + 16))
    width = LEFT + len(found) * (WIDTH + GAP + 16)
    height = TOP + HEIGHT + 40
    middle = f'x="{width / 2:.0f}" y="{height - 6}" text-anchor="middle"'
    parts.append(f"<text {middle}>labels, test accuracy</text>")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13" role="img">'
        "<title>Test accuracy against the number of labels</title>"
        f'<rect width="{width}" height="{height}" fill="white"/>' + "\n".join(parts) + "</svg>\n"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        up_to_date = PICTURE.exists() and PICTURE.read_text(encoding="utf-8") == picture()
        raise SystemExit(0 if up_to_date else "docs/figures/front.svg is out of date: make pages")
    PICTURE.write_text(picture(), encoding="utf-8")
