"""Write the tables of docs/labels.md from result files; `--check` compares."""

import argparse
import json
import re
from pathlib import Path

from pacsent.classify.label_curve import MOST

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "labels", ROOT / "docs" / "labels.md"
BLOCK = re.compile(r"<!-- labels: (\w+) -->\n.*?<!-- /labels -->\n", re.S)
N_CURVE = 200  # labels that a curve is made from


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def draws_of(rows: list[dict]) -> str:
    n = rows[0]["draws"]
    return "one draw" if n == 1 else f"{n} draws"


def chosen(rows):
    """Accuracy after a number of labels, by what chose them."""
    sizes = [key.split()[0] for key in rows[0] if key.endswith(" labels")]
    said = (
        f"The table shows the accuracy in % on test texts after a number of labels, as mean and "
        f"standard error of {draws_of(rows)}.\nAll rows use the same classifier, whose settings "
        "are fixed (`benchmarks/labels.py --part next`):\n\n"
    )
    return said + table(["dataset", "chosen by", *(f"{n} labels" for n in sizes)], [
        [row["dataset"], row["chosen by"],
         *(f"{row[f'{n} labels']:.1f} ± {row[f'± {n}']:.1f}" for n in sizes)] for row in rows
    ])  # fmt: skip


def wrong(rows):
    """How many of the most suspicious labels were flipped."""
    ways = [key for key in rows[0] if key not in ("dataset", "draws", "flipped")]
    said = (
        f"In this measurement 5 % of 1,000 labels were flipped ({draws_of(rows)} of each dataset), "
        "and as many of the most\nsuspicious rows were looked at. The table shows the share of "
        "them that was flipped\n(`benchmarks/labels.py --part wrong`):\n\n"
    )
    return said + table(["dataset", "flipped", *ways], [
        [row["dataset"], str(row["flipped"]), *(f"{row[way]:.1f} %" for way in ways)]
        for row in rows
    ])  # fmt: skip


def curve(rows):
    """What a learning curve said, and what came true."""
    said = (
        f"The table compares the error that the learning curve of {N_CURVE} labels predicts for "
        f"400 and 800 labels with the true\nerror ({draws_of(rows)} of each dataset; medians). "
        '"inside" is how often the 90 % interval contained the true error\n'
        "(`benchmarks/labels.py --part curve`):\n\n"
    )
    head = ["dataset", *(name for n in (400, 800) for name in (f"predicted at {n}", "true error",
                                                               "inside"))]  # fmt: skip
    return said + table([*head, "predicted labels for the error at 400"], [
        [row["dataset"],
         *(cell for n in (400, 800) for cell in (f"{row[f'said at {n}']:.3f}",
           f"{row[f'came true at {n}']:.3f}", f"{row[f'inside at {n}']:.0f} %")),
         f"{row['labels said']:,.0f}" if row["labels said"] <= MOST * N_CURVE
         else "“will hardly help”"] for row in rows
    ])  # fmt: skip


def stop(rows):
    """How often the bound was false at some time."""
    head = [
        "judging texts",
        "repeats",
        "false at some time",
        "allowed",
        "measured minus true error",
    ]
    return table(head, [
        [row["stream"], f"{row['repeats']:,}", f"{row['false at some time, %']:.1f} %",
         f"{row['allowed, %']:.0f} %", f"{row['measured less true error, %']:+.1f} points"]
        for row in rows
    ])  # fmt: skip


PARTS = {"next": chosen, "wrong": wrong, "curve": curve, "stop": stop}


def written(match: re.Match) -> str:
    part = match[1]
    rows = json.loads((RESULTS / f"{part}.json").read_text(encoding="utf-8"))["rows"]
    return f"<!-- labels: {part} -->\n{PARTS[part](rows)}<!-- /labels -->\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    page = PAGE.read_text(encoding="utf-8")
    made = BLOCK.sub(written, page)
    if parser.parse_args().check:
        raise SystemExit(0 if made == page else "docs/labels.md is out of date: make pages")
    PAGE.write_text(made, encoding="utf-8")
