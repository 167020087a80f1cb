"""Draw docs/figures/few-labels.svg and tools.svg from result files; `--check` only compares.

The first has accuracies with 100 and 1,000 labels as dots, the second the accuracy of each tool of
the README by the CPU seconds that it takes to fit.
"""

import json
from pathlib import Path

from svg import Panel, key, line, sheet, text, write_figures

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
WIDTH, LEFT, TOP, ROW_HEIGHT = 400, 150, 78, 26
NAMES = {"subj": "SUBJ", "mr": "MR", "trec": "TREC", "imdb": "IMDb", "20news": "20news"}
NAMES["books-another-book"] = "another book"
TOOLS = (("tf-idf 1-2-grams", "b"), ("Average", "c"), ("TextClassifier", "a"))


def rows_of(name: str) -> list[dict]:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]


def few_labels() -> str:
    """A line for each set and number of labels; baselines are rings, TextClassifier a dot."""
    rows = rows_of("classify/few")
    shown = [row for row in rows if row["set"] in NAMES]
    shown.sort(key=lambda row: list(NAMES).index(row["set"]))
    panel = Panel((LEFT, TOP, WIDTH - LEFT - 20, ROW_HEIGHT * len(shown)), (0.3, 1), (0, 1))
    panel.axes("test accuracy", "", (0.4, 0.6, 0.8, 1), ())
    parts = key(14, 24, [(name, kind) for name, kind in TOOLS])
    parts.append(text(14, 46, "set, number of labels", "quiet", size=12))
    for number, row in enumerate(shown):
        y = TOP + ROW_HEIGHT * (number + 0.5)
        if row["labels"] == 100 and number:
            ends = [(14, y - ROW_HEIGHT / 2), (WIDTH - 20, y - ROW_HEIGHT / 2)]
            panel.parts.append(line(ends, "rule", 1))
        name = f"{NAMES[row['set']]}, {row['labels']:,}"
        panel.parts.append(text(LEFT - 12, y + 4, name, size=12, anchor="end"))
        places = [panel.at(row[tool], 0)[0] for tool, _ in TOOLS]
        panel.parts.append(line([(min(places), y), (max(places), y)], "rule", 2))
        for (tool, kind), x in zip(TOOLS, places, strict=True):
            style = f'class="{kind}-line" stroke-width="2"'
            if tool == "TextClassifier":
                style = f'class="{kind}"'
            panel.parts.append(f'<circle {style} cx="{x:.1f}" cy="{y:.1f}" r="5"/>')
    height = TOP + ROW_HEIGHT * len(shown) + 46
    return sheet(WIDTH, height, "Accuracy with 100 and 1,000 labels", [*parts, *panel.parts])


def tools() -> str:
    """Accuracy by CPU seconds of a fit, a dot for each tool."""
    panel = Panel((38, 40, WIDTH - 66, 230), (0.03, 20_000), (84, 96), log_x=True)
    panel.axes("CPU seconds to fit 500 messages", "accuracy, %", (0.1, 1, 10, 100, 1000, 10_000))
    for row in rows_of("alternatives/banking"):
        name = row["tool"]
        kind = "a" if name.startswith("pacsent") else "b"
        seconds, accuracy = row["fit (s)"], row["accuracy (%)"]
        panel.dots([seconds], [accuracy], kind, 5.5)
        x, y = panel.at(seconds, accuracy)
        label = name.partition(" + ")[0].partition(" (")[0]
        panel.parts.append(text(x, y - 11, label, kind, size=12, bold=True, anchor="middle"))
    return sheet(WIDTH, 316, "Accuracy by the time to fit", panel.parts)


DRAWINGS = {"few-labels.svg": few_labels, "tools.svg": tools}


if __name__ == "__main__":
    write_figures(DRAWINGS, __doc__)
