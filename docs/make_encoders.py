"""Write the comparison of docs/encoders.md and its figure from result files; `--check` compares."""

import argparse
import json
import re
from math import ceil, floor, log10
from pathlib import Path
from textwrap import fill

from drawing import Panel, sheet, text

from pacsent.maths.rounding import rounded_up

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE, PICTURE = ROOT / "docs" / "encoders.md", ROOT / "docs" / "figures" / "encoders.svg"
BLOCK = re.compile(r"<!-- encoders -->\n.*?<!-- /encoders -->\n", re.S)
SETS = ("subj", "imdb", "20news", "books")


def rows_of(benchmark: str, name: str) -> list[dict]:
    path = RESULTS / benchmark / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def vector_rows() -> list[dict]:
    """The newer run, and of the older one the encoder that the newer one lacks."""
    rows = {row["encoder"]: row for name in ("two-cores", "two-cores-use")
            for row in rows_of("encoders", name)}  # fmt: skip
    return list(rows.values())


def comparison() -> str:
    vectors = vector_rows()
    classes = rows_of("encoders", "16-cores-classify")
    parts = ["<!-- encoders -->\n"]
    if vectors:
        head = ["encoder", "STS-B test", "20news p@10", "books p@10", "texts/s", "MB"]
        parts.append(table(head, [
            [row["encoder"], f"{100 * row['STS-B test']:.1f}", f"{row['20news p@10']:.3f}",
             f"{row['books p@10']:.3f}", f"{row['texts/s']:,.0f}", f"{row['MB']:.0f}"]
            for row in vectors
        ]))  # fmt: skip
        parts.append(
            "\nThe next table shows the guarantee about the words that follow: the certified "
            "error, and the error\non documents that were not used:\n\n"
        )
        parts.append(table(["encoder", *SETS], [
            [row["encoder"],
             *(f"{rounded_up(row[f'{s} bound'], 3)} / {row[f'{s} risk']:.3f}" for s in SETS)]
            for row in vectors
        ]))  # fmt: skip
    if classes:
        numbers = [k.split()[1] for k in classes[0] if k.startswith("error, ")]
        parts.append(
            "\nThe next table shows the error of `TextClassifier` by the number of labels, and in "
            "brackets the\ncertified error:\n\n"
        )
        parts.append(table(["set", "encoder", *(f"{int(n):,}" for n in numbers)], [
            [row["set"], row["encoder"],
             *(f"{row[f'error, {n} labels']:.3f} ({rounded_up(row[f'certified, {n}'], 3)})"
               for n in numbers)]
            for one in SETS for row in classes if row["set"] == one
        ]))  # fmt: skip
        parts.append(worth(vectors, classes))
    parts += [gain(), index()]
    if vectors and classes:
        parts.append("\n![Accuracy against texts a second](figures/encoders.svg)\n")
    return "".join([*parts, "<!-- /encoders -->\n"])


def worth(vectors: list[dict], classes: list[dict]) -> str:
    """What context is worth, and what it costs, in words."""

    def error(encoder, n, sets=SETS):
        found = [row[f"error, {n} labels"] for row in classes
                 if row["encoder"] == encoder and row["set"] in sets]  # fmt: skip
        return sum(found) / len(found)

    speed = {row["encoder"]: row["texts/s"] for row in vectors}
    few, many = (100 * (error("english", n) - error("MiniLM", n)) for n in (100, 1000))
    news = 100 * (error("english", 100, ("20news",)) - error("MiniLM", 100, ("20news",)))
    imdb = 100 * (error("english", 100, ("imdb",)) - error("MiniLM", 100, ("imdb",)))
    three = {
        n: "{:.3f} with MiniLM, {:.3f} with the Universal Sentence Encoder (USE) and {:.3f} with "
        '`TextClassifier("english")`'.format(*(error(e, n) for e in ("MiniLM", "USE", "english")))
        for n in (100, 1000)
    }
    said = (
        f"**What context is worth.** The mean error on the four sets is {three[100]} with 100 "
        f"labels, and {three[1000]} with 1,000. The context that MiniLM reads is worth {few:.1f} "
        f"points with 100 labels and {many:.1f} with 1,000. It is worth most for topics (20news: "
        f"{news:.1f} points with 100 labels); on IMDb the English model is {-imdb:.1f} points "
        f"better. **What it costs.** MiniLM encodes {speed['MiniLM']:,.0f} texts a second on one "
        f"core, the sentence table of the English model {speed['distilled']:,.0f}."
    )
    split = (
        "In this run all draws and encoders share one split into calibration and test texts. Where "
        "a certified error is below the measured one (books with 1,000 labels, WordLlama on IMDb), "
        "it is one chance event that several rows show: a certificate fails with probability 5 %, "
        "and the measured error is that of 1,000 texts."
    )
    return f"\n{fill(said, 105)}\n\n{fill(split, 105)}\n"


def gain() -> str:
    rows = rows_of("encoders", "16-cores-gain")
    if not rows:
        return ""
    n, draws = rows[0]["labels"], rows[0]["draws"]
    said = (
        f'\nThe next table shows the accuracy of `TextClassifier("english")` with {n} '
        "labels, in per cent:\nwith the vectors of the method Average alone, and with the "
        f"distilled vectors as well (mean of {draws} draws,\nstandard error of the gain):\n\n"
    )
    return said + table(["set", "Average", "and distilled", "gain"], [
        [row["set"], f"{100 * row['Average']:.1f}", f"{100 * row['Average and distilled']:.1f}",
         f"{100 * row['gain']:+.1f} ± {100 * (row['standard error'] or 0):.1f}"]
        for row in rows
    ])  # fmt: skip


def index() -> str:
    rows = rows_of("encoders", "16-cores-index")
    if not rows:
        return ""
    said = (
        '\nThe next table shows p@10 of `Index("english")`, which joins two vectors, and '
        f"of each alone\n(20news: mean of {rows[0]['draws']} draws of queries and posts):\n\n"
    )
    return said + table(["vectors", "20news", "books"], [
        [row["index"], f"{row['20news p@10']:.3f} ± {row['standard error'] or 0:.3f}",
         f"{row['books p@10']:.3f}"] for row in rows
    ])  # fmt: skip


def picture() -> str:
    """Mean accuracy with 100 labels against texts a second."""
    classes = rows_of("encoders", "16-cores-classify")
    points = []
    for row in vector_rows():
        found = [1 - c["error, 100 labels"] for c in classes if c["encoder"] == row["encoder"]]
        if found:
            points.append((row["texts/s"], sum(found) / len(found), row["encoder"]))
    if not points:
        return ""
    xs, ys, _ = zip(*points)
    low, high = 10 ** floor(log10(min(xs))), 10 ** ceil(log10(max(xs)))
    panel = Panel((60, 66, 520, 240), (low, high), (min(ys) - 0.02, max(ys) + 0.02), True)
    ticks = [10**n for n in range(round(log10(low)), round(log10(high)) + 1)]
    panel.axes("texts a second, one core", "mean accuracy on four sets", ticks)
    panel.dots(xs, ys, "a", 4)
    for x, y, name in points:
        right = x > high / 10
        panel.says(
            x / 1.08 if right else x * 1.08, y, name, "a", anchor="end" if right else "start"
        )
    title = "Accuracy of a classifier with 100 labels against texts a second, by encoder"
    return sheet(630, 350, title, [text(12, 24, title, "quiet"), *panel.parts])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    page = PAGE.read_text(encoding="utf-8")
    made, drawn = BLOCK.sub(lambda _: comparison(), page), picture()
    if parser.parse_args().check:
        same = made == page and (not drawn or PICTURE.read_text(encoding="utf-8") == drawn)
        raise SystemExit(0 if same else "docs/encoders.md is out of date: make pages")
    PAGE.write_text(made, encoding="utf-8")
    if drawn:
        PICTURE.write_text(drawn, encoding="utf-8")
