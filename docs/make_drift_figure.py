"""Draw docs/figures/drift.svg from benchmarks/results/simulate/drift: bound against true risk.

`--check` only compares.
"""

import json
from pathlib import Path

from svg import Panel, key, sheet, text, write_figures

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "simulate" / "drift.json"
LIMITS = (0.36, 0.48)
TICKS = (0.36, 0.4, 0.44, 0.48)
WIDTH = 400  # a phone's


def figure(rows: list[dict]) -> str:
    """One point per replicate, and the line on which bound and true risk are equal."""
    panel = Panel((46, 60, WIDTH - 66, 280), LIMITS, LIMITS)
    panel.axes("true risk", "certified bound", TICKS, TICKS)
    panel.curve(LIMITS, LIMITS, "ink", width=1.2)
    parts = key(14, 20, [("A, words independent", "b"), ("continuation", "a")])
    for kind, color in (("A", "b"), ("continuation", "a")):
        points = [row for row in rows if row["kind"] == kind]
        risks = [row["true risk"] for row in points]
        bounds = [row["bound"] for row in points]
        panel.dots(risks, bounds, color, 2.5, 0.6)
    n_replicates = sum(row["kind"] == "A" for row in rows)
    note = f"{n_replicates} simulated corpora each; violated below the line"
    parts += [*panel.parts, text(14, 394, note, "quiet", size=12)]
    return sheet(WIDTH, 406, "Certified bound against true risk", parts)


def drawn() -> str:
    """The figure of the stored result."""
    return figure(json.loads(RESULT.read_text(encoding="utf-8"))["rows"])


if __name__ == "__main__":
    write_figures({"drift.svg": drawn}, __doc__)
