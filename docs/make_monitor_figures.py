"""Draw docs/figures/evidence.svg and drift-found.svg from result files; `--check` only compares.

The first shows the evidence of a drift monitor along three streams, the second how many files with
texts of another kind are found.
"""

import json
import math
from pathlib import Path

from svg import Panel, key, sheet, text, write_figures

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
WIDTH = 400  # a phone's
POWERS = (-4, 10)  # of ten, from the lowest evidence to the highest that is drawn
SUPERSCRIPTS = str.maketrans("0123456789\u2212", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
STREAMS = {"the same intents": "a", "other intents": "b", "passages of books": "c"}
KINDS = {"three hardest intents": "a", "other intents": "b", "books": "c"}


def result(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def evidence() -> str:
    """Evidence of a change by rows read, on a scale of powers of ten, with the alarm."""
    drift = result("banking_example/default")["drift"]
    n_rows = max(rows[-1][0] for rows in drift["evidence"].values())
    change = drift["change after"]
    needed = math.log10(1 / drift["alpha"])
    panel = Panel((52, 90, WIDTH - 72, 260), (0, n_rows), POWERS)
    panel.axes("rows read", "evidence", (0, 100, 200, 300, 400, 500, 600), ())
    for power in range(POWERS[0], POWERS[1] + 1, 2):
        x, y = panel.at(0, power)
        exponent = str(power).replace("-", "\u2212").translate(SUPERSCRIPTS)
        panel.parts.append(text(x - 5, y + 4, f"10{exponent}", "quiet", anchor="end", size=12))

    parts = []
    for number, (name, kind) in enumerate(STREAMS.items()):
        alarm = drift["alarms"][name]
        alarm_words = "no alarm" if alarm is None else f"alarm at row {alarm}"
        parts.append(text(14, 22 + 17 * number, f"{name}: {alarm_words}", kind, bold=True))
    panel.curve((change, change), POWERS, "quiet", dash="2 3", width=1.2)
    panel.label(change - 4, POWERS[1] - 0.8, "the texts change", "quiet", anchor="end")
    panel.curve((0, n_rows), (needed, needed), "ink", dash="5 4", width=1.4)
    panel.label(4, needed + 0.25, f"alarm at {1 / drift['alpha']:g}", "ink")
    for name, kind in STREAMS.items():
        rows, powers = [], []
        for n_read, value in drift["evidence"][name]:
            power = math.log10(value)
            if rows and power > POWERS[1]:  # the line leaves the figure here
                step = (POWERS[1] - powers[-1]) / (power - powers[-1])
                rows.append(rows[-1] + step * (n_read - rows[-1]))
                powers.append(POWERS[1])
                break
            rows.append(n_read)
            powers.append(power)
        panel.curve(rows, powers, kind, width=2.2)
    return sheet(WIDTH, 396, "Evidence of drift along three streams", [*parts, *panel.parts])


def found() -> str:
    """Files found and files with a violated bound that were not, by the fraction of other texts."""
    content = result("drift/kinds")
    parts = key(14, 24, list(KINDS.items()))
    titles = (
        ("found (%)", "files in which drift is found, %"),
        ("broken and not found (%)", "files above the bound, nothing found, %"),
    )
    unchanged = [row for row in content["rows"] if row["kind"] == "none"]
    for number, (column, title) in enumerate(titles):
        panel = Panel((46, 66 + 206 * number, WIDTH - 66, 130), (0, 100), (0, 100))
        panel.axes("texts of another kind, %", title, (0, 10, 20, 30, 50, 100), (0, 50, 100))
        for name, kind in KINDS.items():
            rows = [*unchanged, *(row for row in content["rows"] if row["kind"] == name)]
            fractions = [row["of the texts (%)"] for row in rows]
            values = [row[column] for row in rows]
            panel.curve(fractions, values, kind, width=2)
            panel.dots(fractions, values, kind, 3.2, 0.8)
        if column == "found (%)":
            stated = [row for row in content["rows"] if row["kind"] == "books"]
            fractions = [row["of the texts (%)"] for row in stated]
            powers = [row["stated (%)"] for row in stated]
            panel.curve(fractions, powers, "ink", dash="5 4", width=1.4)
            panel.label(52, 84, "stated by the message", "ink", bold=False)
        parts += panel.parts
    return sheet(WIDTH, 458, "Files with texts of another kind", parts)


DRAWINGS = {"evidence.svg": evidence, "drift-found.svg": found}


if __name__ == "__main__":
    write_figures(DRAWINGS, __doc__)
