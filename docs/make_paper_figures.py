"""Draw docs/figures/paper-dots.svg and paper-lambda.svg from the results of the reproduction.

The first has our accuracies and those of Nozawa and Sato as dots; the second the cross-validated
accuracy of each method by lambda. `--check` only compares.
"""

import argparse
from pathlib import Path

from pacsent.paper.method_rows import PAPER_DATASETS, ROWS
from pacsent.paper.reproduction import read_results

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
TITLES = {"20news": "20news", "imdb": "IMDb", "subj": "SUBJ"}
INK, SOFT, LINE = "#1f2328", "#59636e", "#d0d7de"
OURS, PAPER = "#1f6feb", "#bc4c00"
LINES = ("#1f6feb", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#57606a", "#0a7ea4")
ROW_HEIGHT, PANEL_WIDTH, LEFT, TOP = 26, 210, 170, 56


def cells():
    """(row, data set) -> result, of the rows and data sets of the paper."""
    results = read_results(ROOT / "benchmarks" / "results" / "reproduce")
    return {
        (result["row"], result["dataset"]): result
        for result in results
        if result["kind"] == "classification"
        and result["dataset"] in PAPER_DATASETS
        and ROWS[result["row"]].in_paper
    }


def text(x, y, content, *, size=13, fill=INK, anchor="start"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" '
        f'text-anchor="{anchor}">{content}</text>'
    )


def line(x1, y1, x2, y2, color=LINE, width=1.0):
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
        f'stroke-width="{width}"/>'
    )


def drawing(width, height, title, parts):
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="system-ui, sans-serif">\n<title>{title}</title>\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def dots(found):
    """Accuracies of fourteen methods on three data sets: ours filled, the paper's as rings."""
    names = [name for name, row in ROWS.items() if row.in_paper]
    height = TOP + ROW_HEIGHT * len(names) + 40
    parts = [
        f'<circle cx="{LEFT + 6}" cy="18" r="5" fill="{OURS}"/>',
        text(LEFT + 18, 22, "ours, with standard deviation", fill=SOFT),
        f'<circle cx="{LEFT + 236}" cy="18" r="5" fill="none" stroke="{PAPER}" stroke-width="2"/>',
        text(LEFT + 248, 22, "Nozawa and Sato", fill=SOFT),
    ]
    for i, name in enumerate(names):
        y = TOP + ROW_HEIGHT * (i + 0.5)
        parts.append(text(LEFT - 14, y + 4, ROWS[name].label, anchor="end"))

    bottom = TOP + ROW_HEIGHT * len(names)
    for panel, dataset in enumerate(TITLES):
        values = [found[name, dataset] for name in names]
        numbers = [v["accuracy"] for v in values] + [v["paper"] for v in values]
        low, high = min(numbers) - 0.008, max(numbers) + 0.008
        start = LEFT + panel * (PANEL_WIDTH + 24)

        def place(value, low=low, high=high, start=start):
            return start + PANEL_WIDTH * (value - low) / (high - low)

        parts.append(text(start + PANEL_WIDTH / 2, TOP - 12, TITLES[dataset], anchor="middle"))
        tick = -(-int(low * 1000) // 10) * 10
        while tick / 1000 <= high:
            x = place(tick / 1000)
            parts.append(line(x, TOP, x, bottom))
            label = f"{tick / 1000:.2f}".lstrip("0")
            parts.append(text(x, bottom + 18, label, size=11, fill=SOFT, anchor="middle"))
            tick += 10
        for i, value in enumerate(values):
            y = TOP + ROW_HEIGHT * (i + 0.5)
            ours, sd = value["accuracy"], value["sd"]
            parts.append(line(place(ours - sd), y, place(ours + sd), y, OURS, 2))
            parts.append(f'<circle cx="{place(ours):.1f}" cy="{y}" r="5" fill="{OURS}"/>')
            parts.append(
                f'<circle cx="{place(value["paper"]):.1f}" cy="{y}" r="5" fill="none" '
                f'stroke="{PAPER}" stroke-width="2"/>'
            )
    width = LEFT + 3 * (PANEL_WIDTH + 24)
    return drawing(width, height, "Accuracy of each method, ours and the paper's", parts)


def curves(found):
    """Cross-validated accuracy by lambda, for the methods that have one."""
    names = [name for name, row in ROWS.items() if row.in_paper and row.lams]
    plot_height, width = 220, LEFT + 3 * (PANEL_WIDTH + 44)
    parts = []
    for number, name in enumerate(names):
        y = TOP + 24 * number + 12
        color = LINES[number % len(LINES)]
        parts.append(line(14, y - 4, 38, y - 4, color, 2.5))
        parts.append(text(46, y, ROWS[name].label))

    for panel, dataset in enumerate(TITLES):
        start = LEFT + 20 + panel * (PANEL_WIDTH + 44)
        points = {n: found[n, dataset]["lam_curve"] for n in names}
        values = [point["cv_accuracy"] for curve in points.values() for point in curve]
        low, high = min(values) - 0.002, max(values) + 0.002
        lams = [point["lam"] for point in points[names[0]]]
        step = PANEL_WIDTH / (len(lams) - 1)

        def place(value, low=low, high=high):
            return TOP + plot_height * (1 - (value - low) / (high - low))

        parts.append(text(start + PANEL_WIDTH / 2, TOP - 16, TITLES[dataset], anchor="middle"))
        for value in (low, (low + high) / 2, high):
            y = place(value)
            parts.append(line(start, y, start + PANEL_WIDTH, y))
            label = f"{value:.3f}".lstrip("0")
            parts.append(text(start - 6, y + 4, label, size=11, fill=SOFT, anchor="end"))
        for i, lam in enumerate(lams):
            x, y = start + i * step, TOP + plot_height + 18
            parts.append(text(x, y, f"{lam:g}", size=11, fill=SOFT, anchor="middle"))
        for number, curve in enumerate(points.values()):
            path = " ".join(
                f"{start + i * step:.1f},{place(point['cv_accuracy']):.1f}"
                for i, point in enumerate(curve)
            )
            color = LINES[number % len(LINES)]
            parts.append(
                f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
            )
    parts.append(text(LEFT + 20, TOP + plot_height + 42, "λ", fill=SOFT))
    return drawing(width, TOP + plot_height + 60, "Cross-validated accuracy by lambda", parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    found = cells()
    for name, figure in (("paper-dots", dots(found)), ("paper-lambda", curves(found))):
        path = FIGURES / f"{name}.svg"
        if check and (not path.exists() or path.read_text(encoding="utf-8") != figure):
            raise SystemExit(f"{path.name} is out of date: make pages")
        path.write_text(figure, encoding="utf-8")
