"""Draw the figures of guarantees from result files; `--check` only compares.

docs/figures/guaranteed.svg, split.svg and risk-coverage.svg show one certified classifier (the
example of docs/start.md), set-misses.svg 400 calibration sets, violations.svg every guarantee,
repeats.svg simulated repeats, and bound.svg the bound by the number of held-out labels.
"""

import json
import math
from pathlib import Path

from svg import Panel, key, line, sheet, text, write_figures

from pacsent.bounds.binomial import upper_limit
from pacsent.bounds.rounding import percent

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
WIDTH = 400  # a phone's
ALLOWED = 5  # %
BIN_WIDTH = 0.5  # points of a histogram of misses


def result(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def bar(left: float, top: float, width: float, height: float, kind: str, faint: float = 1) -> str:
    """A filled rectangle."""
    return (
        f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" fill-opacity="{faint:g}"/>'
    )


def guaranteed() -> str:
    """Three guarantees as bars, and the error of the new messages as dots."""
    rows = result("banking_example/default")["rows"]
    left, top, row_height = 16, 62, 58
    panel = Panel((left, top, WIDTH - 2 * left - 6, row_height * len(rows)), (0, 25), (0, 1))
    panel.axes("wrong or missed, % of new messages", "", (0, 5, 10, 15, 20, 25), ())
    parts = key(left, 24, [("guaranteed, at most", "b"), ("measured", "a")])
    parts.append(text(left, 42, "ring: without repeated messages", "quiet", size=12))
    for number, row in enumerate(rows):
        y = top + row_height * number + 20
        bound, _ = panel.at(100 * row["at most"], 0)
        measured, _ = panel.at(100 * row["new messages"], 0)
        distinct, _ = panel.at(100 * row["distinct new messages"], 0)
        limit = percent(row["at most"], 1)
        numbers = f"{100 * row['new messages']:.1f}%"
        panel.parts += [
            text(left, y - 5, row["guarantee"], size=12.5),
            bar(left, y + 2, bound - left, 18, "b", 0.22),
            line([(bound, y - 1), (bound, y + 23)], "b", 2.5),
            text(bound + 6, y + 16, f"≤ {limit}", "b", size=12.5, bold=True),
            line([(left, y + 11), (measured, y + 11)], "a", 3),
            f'<circle class="a" cx="{measured:.1f}" cy="{y + 11:.1f}" r="5"/>',
            f'<circle class="a-line" cx="{distinct:.1f}" cy="{y + 11:.1f}" r="5" '
            'stroke-width="1.6"/>',
            text(measured - 8, y + 33, numbers, "a", size=12, bold=True, anchor="middle"),
        ]
    height = top + row_height * len(rows) + 44
    return sheet(WIDTH, height, "Guaranteed and measured error", [*parts, *panel.parts])


def split() -> str:
    """How 500 labels become a training part, a held-out part, errors and a bound."""
    numbers = result("banking_example/default")["split"]
    left, width, height = 16, WIDTH - 32, 34
    n_training = numbers["training"]
    n_held_out = numbers["held out"]
    n_counted = numbers["counted"]
    n_errors = numbers["errors"]
    n_repeats = n_held_out - n_counted

    cut = left + width * n_training / numbers["labelled"]
    parts = [
        text(left, 24, f"{numbers['labelled']} labelled messages", bold=True),
        bar(left, 34, cut - left - 1, height, "d", 0.35),
        bar(cut + 1, 34, left + width - cut - 1, height, "a", 0.35),
        text((left + cut) / 2, 56, f"{n_training} train", anchor="middle"),
        text((cut + left + width) / 2, 56, f"{n_held_out} held out", anchor="middle"),
        line([(cut, 70), (left, 106)], "rule", 1.2),
        line([(left + width, 70), (left + width, 106)], "rule", 1.2),
    ]

    right = left + width * n_counted / n_held_out
    wrong = left + width * n_errors / n_held_out
    parts += [
        text(left + 52, 98, f"{n_counted} distinct texts count", "a", bold=True, size=12.5),
        bar(left, 108, wrong - left - 1, height, "b", 0.45),
        bar(wrong + 1, 108, right - wrong - 2, height, "a", 0.35),
        bar(right + 1, 108, left + width - right - 1, height, "d", 0.35),
        text((left + wrong) / 2, 130, f"{n_errors} wrong", anchor="middle", size=12),
        text((wrong + right) / 2, 130, f"{n_counted - n_errors} right", anchor="middle"),
        text(
            left + width,
            158,
            f"{n_repeats} near-duplicates, not counted",
            "quiet",
            anchor="end",
            size=12,
        ),
    ]

    panel = Panel((left, 188, width, 46), (0, 25), (0, 1))
    panel.axes("error rate, %", "", (0, 5, 10, 15, 20, 25), ())
    observed = 100 * n_errors / n_counted
    bound = 100 * numbers["bound"]
    at_observed, _ = panel.at(observed, 0)
    at_bound, _ = panel.at(bound, 0)
    parts += panel.parts
    parts += [
        bar(left, 202, at_bound - left, 18, "b", 0.22),
        line([(at_bound, 198), (at_bound, 224)], "b", 2.5),
        f'<circle class="a" cx="{at_observed:.1f}" cy="211" r="5"/>',
        text(at_observed, 192, f"{n_errors} of {n_counted}", "a", size=12, bold=True, anchor="end"),
        text(at_bound, 192, f"≤ {percent(numbers['bound'], 1)}", "b", size=12.5, bold=True,
             anchor="middle"),
    ]  # fmt: skip
    return sheet(WIDTH, 284, "From 500 labels to a bound", parts)


def risk_coverage() -> str:
    """The fraction of wrong answers by the fraction of texts answered, and the certified point."""
    numbers = result("banking_example/default")["abstention"]
    limit = 100 * numbers["error"]
    panel = Panel((38, 96, WIDTH - 58, 250), (0, 100), (0, 16))
    panel.axes("texts answered, %, the surest first", "wrong answers, %", (0, 25, 50, 75, 100))
    parts = key(14, 22, [("calibration texts", "c"), ("new messages", "a")])
    for name, kind in (("calibration curve", "c"), ("new curve", "a")):
        points = numbers[name]
        coverages = [100 * coverage for coverage, _ in points]
        risks = [100 * risk for _, risk in points]
        panel.curve(coverages, risks, kind, width=2.2)
    panel.curve((0, 100), (limit, limit), "b", dash="5 4", width=1.6)
    panel.label(2, limit + 0.5, f"guaranteed: at most {limit:g}%", "b")

    coverage = 100 * numbers["calibration coverage"]
    panel.curve((coverage, coverage), (0, limit), "b", dash="2 3", width=1.4)
    panel.dots([coverage], [limit], "b", 5.5)
    panel.label(coverage, limit + 0.9, f"certified, {coverage:.0f}%", "b", anchor="middle")
    new_coverage = 100 * numbers["new coverage"]
    new_risk = 100 * numbers["new risk"]
    panel.dots([new_coverage], [new_risk], "a", 5.5)
    measured = f"At that threshold: {new_coverage:.0f}% of the new messages answered,"
    parts.append(text(14, 42, measured, "quiet", size=12))
    parts.append(
        text(14, 58, f"{new_risk:.1f}% of these answers wrong (the dot)", "quiet", size=12)
    )
    return sheet(WIDTH, 390, "Risk by coverage, with the certified point", [*parts, *panel.parts])


def misses() -> str:
    """Histograms of what the prediction sets of 400 calibration sets miss, of two programs."""
    content = result("alternatives/sets")
    parts = []
    highest = 0
    counts = {}
    for name, values in content["missed in each draw (%)"].items():
        bins = [math.floor(value / BIN_WIDTH) for value in values]
        counts[name] = [bins.count(i) for i in range(max(bins) + 1)]
        highest = max(highest, *counts[name])
    last = max(len(heights) for heights in counts.values()) * BIN_WIDTH
    for number, row in enumerate(content["rows"]):
        name = row["prediction sets"]
        top = 46 + 178 * number
        panel = Panel((38, top, WIDTH - 58, 108), (0, math.ceil(last)), (0, highest * 1.08))
        panel.axes("texts missed, %", "", range(0, math.ceil(last) + 1, 2), (0, 25, 50, 75))
        _, bottom = panel.at(0, 0)
        for i, count in enumerate(counts[name]):
            start, upper = panel.at(i * BIN_WIDTH, count)
            end, _ = panel.at((i + 1) * BIN_WIDTH, count)
            kind = "b" if i * BIN_WIDTH >= ALLOWED else "a"
            if count:
                panel.parts.append(bar(start, upper, end - start - 1, bottom - upper, kind, 0.85))
        x, _ = panel.at(ALLOWED, 0)
        panel.parts.append(line([(x, top - 6), (x, bottom)], "ink", 1.8))
        above = row[f"missed more than {ALLOWED} % (% of draws)"]
        sets = row["draws"]
        head = [
            text(14, top - 24, name, bold=True, size=14),
            text(
                x + 6, top + 22, f"{above:.0f}% of {sets} sets miss more", "b", bold=True, size=12
            ),
        ]
        if number == 0:
            panel.parts.append(text(x, top - 10, f"allowed: {ALLOWED}%", anchor="middle", size=12))
        parts += [*head, *panel.parts]
    return sheet(WIDTH, 24 + 178 * len(counts), "Misses of 400 calibration sets", parts)


def violations() -> str:
    """Every guarantee a row, every condition a dot, against the 5% that are allowed."""
    rows = result("guarantees/calibration")["rows"]
    left, top, row_height = 192, 58, 25
    panel = Panel((left, top, WIDTH + 30 - left - 16, row_height * len(rows)), (0, 30), (0, 1))
    panel.axes("violated, % of draws", "", (0, 10, 20, 30), ())
    _, bottom = panel.at(0, 0)
    limit, _ = panel.at(ALLOWED, 0)
    parts = key(14, 24, [("guarantee", "a"), ("control without its correction", "b")])
    panel.parts.append(line([(limit, top - 6), (limit, bottom)], "ink", 1.6))
    panel.parts.append(text(limit, top - 10, f"{ALLOWED}%", anchor="middle", size=12, bold=True))
    for number, row in enumerate(rows):
        y = top + row_height * (number + 0.5)
        name = row["guarantee"].removeprefix("control: ")
        kind = "b" if name != row["guarantee"] else "a"
        values = [value for value in list(row.values())[1:] if value is not None]
        panel.parts.append(text(left - 8, y + 4, name, size=12, anchor="end"))
        panel.parts.append(line([(left, y), (left + panel.width, y)], "rule", 0.8))
        for value in values:
            x, _ = panel.at(value, 0)
            panel.parts.append(
                f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4" fill-opacity="0.6"/>'
            )
    height = top + row_height * len(rows) + 44
    return sheet(WIDTH + 30, height, "How often each guarantee is violated", [*parts, *panel.parts])


def repeats() -> str:
    """The most violated guarantee of each simulated world, by what is stated of its repeats."""
    rows = result("repeats/simulation")["rows"]
    left, row_height, top = 16, 40, 66
    parts = key(left, 24, [("default", "a"), ("right reason", "c"), ("wrong reason", "b")])
    parts.append(text(left, 44, "ring: one split (of fit alone)", "quiet", size=12))
    for reason in ("traffic", "copies"):
        worlds = list(dict.fromkeys(row["world"] for row in rows if row["reason"] == reason))
        panel = Panel(
            (left, top + 22, WIDTH - 2 * left - 6, row_height * len(worlds)), (0, 100), (0, 1)
        )
        panel.axes("violated, % of draws", "", (0, 25, 50, 75, 100), ())
        limit, bottom = panel.at(ALLOWED, 0)
        panel.parts.append(line([(limit, top + 18), (limit, bottom)], "ink", 1.4))
        parts.append(text(left, top + 10, f"Repeats are {reason}", bold=True))
        for number, world in enumerate(worlds):
            y = top + 22 + row_height * number + 28
            panel.parts.append(text(left + 24, y - 11, world, size=12))
            panel.parts.append(line([(left, y), (left + panel.width, y)], "rule", 0.8))
            for row in (row for row in rows if row["world"] == world):
                values = [row[name] for name in ("error", "prediction sets", "abstention", "fit")]
                x, _ = panel.at(max(value for value in values if value is not None), 0)
                kinds = {"default": "a", reason: "c", "one split": "d"}
                kind = kinds.get(row["repeats"], "b")
                style = f'class="{kind}" fill-opacity="0.75"'
                if row["repeats"] == "one split":
                    style = f'class="{kind}-line" stroke-width="1.8"'
                panel.parts.append(f'<circle {style} cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>')
        parts += panel.parts
        top += 22 + row_height * len(worlds) + 58
    return sheet(WIDTH, top - 12, "Violations where texts repeat", parts)


def bound_by_labels() -> str:
    """The Clopper-Pearson limit by the number of held-out labels, for four observed errors."""
    sizes = (20, 40, 60, 80, 100, 140, 200, 300, 500, 700, 1000, 2000)
    panel = Panel((38, 42, WIDTH - 128, 280), (20, 2000), (0, 40), log_x=True)
    panel.axes("held-out labels", "bound on the error rate, %", (20, 60, 200, 500, 2000))
    for rate, kind in ((0, "a"), (0.05, "c"), (0.1, "b"), (0.2, "d")):
        bounds = [100 * upper_limit(round(rate * n), n, 0.05) for n in sizes]
        panel.curve(sizes, bounds, kind)
        panel.dots(sizes, bounds, kind, 2.6)
        panel.curve((20, 2000), (100 * rate, 100 * rate), kind, dash="3 4", width=1)
        x, y = panel.at(2000, (bounds[-1] + 100 * rate) / 2)
        name = f"{100 * rate:g}% wrong" if rate else "no error"
        panel.parts.append(text(x + 6, y + 4, name, kind, size=12, bold=True))
    return sheet(WIDTH, 370, "Bound by the number of held-out labels", panel.parts)


DRAWINGS = {
    "guaranteed.svg": guaranteed,
    "split.svg": split,
    "risk-coverage.svg": risk_coverage,
    "set-misses.svg": misses,
    "violations.svg": violations,
    "repeats.svg": repeats,
    "bound.svg": bound_by_labels,
}


if __name__ == "__main__":
    write_figures(DRAWINGS, __doc__)
