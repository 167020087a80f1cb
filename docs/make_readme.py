"""Write the numbers of README.md from benchmarks/results; `--check` compares.

A block begins with `<!-- numbers: NAME -->` and ends with `<!-- end -->`. Everything between them
is made here, from result files alone.
"""

import argparse
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md",)
BLOCK = re.compile(r"(<!-- numbers: ([a-z-]+) -->\n).*?(<!-- end -->)", re.S)


def result(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def row_of(name: str, column: str, value: str) -> dict:
    """The first row of a result whose `column` begins with `value`."""
    rows = result(name)["rows"]
    return next(row for row in rows if str(row[column]).startswith(value))


def short(number: float) -> str:
    """Three digits: what a noisy machine allows."""
    if number < 10:
        return f"{number:.2g}" if number < 1 else f"{number:.1f}"
    digits = max(0, len(str(int(number))) - 3)
    return f"{int(round(number, -digits)):,}"


def table(header, rows) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def speed() -> str:
    """Ours and the fastest baseline, measured in the same run."""
    rows = []
    for processor, name in (("AVX-512", "xeon-avx512"), ("ARM", "neoverse-n1")):
        train = result(f"train/{name}")["summary"]
        rows.append([
            f"train Skip-gram, d=300, k=15, {processor}",
            f"{short(train['words_per_second'])} words/s",
            f"gensim, {short(train['gensim_words_per_second'])} words/s", f"{train['ratio']:.1f}",
        ])  # fmt: skip
    ours, model2vec = (
        row_of("encode/two-cores", "contestant", who) for who in ("pacsent", "model2")
    )
    contestants = result("encode/two-cores")["rows"]
    others = [row for row in contestants if not row["contestant"].startswith("pacsent")]
    for dataset, unit in (("SUBJ", "sentences"), ("IMDb", "reviews")):
        key = f"{dataset} /s"
        baseline = max((r for r in others if r[key]), key=lambda r: r[key])
        rows.append([
            f"raw text to sentence means, {dataset}", f"{short(ours[key])} {unit}/s",
            f"{baseline['contestant']}, {short(baseline[key])}/s; "
            f"model2vec {short(model2vec[key])}/s",
            f"{ours[key] / baseline[key]:.1f}",
        ])  # fmt: skip
    solve = result("solve/two-cores")["summary"]
    rows.append([
        "PB-neg, 20news, within 1e-3 of the optimum", f"{short(solve['documents/s'])} documents/s",
        f"the paper's SGD in PyTorch, {short(solve['PyTorch documents/s'])}/s, which diverges",
        f"{solve['ratio']:.0f}",
    ])  # fmt: skip
    grid = result("grid/20news")
    first, second = grid["rows"][:2]
    rows.append([
        "a grid of 300 logistic regressions", f"{short(first['seconds'])} s",
        f"{second['solver']}, {short(second['seconds'])} s", f"{grid['summary']['ratio']:.0f}",
    ])  # fmt: skip
    return table(["job", "pacsent", "fastest baseline", "ratio"], rows)


BLOCKS = {"speed": speed}


def page(text: str) -> str:
    return BLOCK.sub(lambda m: m[1] + BLOCKS[m[2]]() + m[3], text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        if not check:
            path.write_text(page(text), encoding="utf-8")
        elif page(text) != text:
            raise SystemExit(f"{path.relative_to(ROOT)} is out of date: make pages")
