"""The report of a reproduction: tables, charts and one HTML page that works offline."""

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from pacsent.bounds.delta import confidence
from pacsent.bounds.rounding import percent, rounded_up
from pacsent.files import replacing
from pacsent.optional import install_hint
from pacsent.paper.evaluation import score_text
from pacsent.paper.figures import accuracy_interval, chart_runtime, figures, n_test_of
from pacsent.paper.method_rows import PAPER_DATASETS, ROWS
from pacsent.text.pages import render

TITLES = {
    "20news": "20news",
    "imdb": "IMDb",
    "subj": "SUBJ",
    "mr": "MR",
    "trec": "TREC",
    "stsb": "STS-B",
    "books": "books",
    "generated": "generated text",
}
_FILE_WIDTH = 480  # of a chart in a file of its own, in points
_FULL_TINT = 0.03  # difference to the paper at which the tint of a cell is strongest


class ReportTable(NamedTuple):
    """Column names and rows of text."""

    header: list[str]
    rows: list[list[str]]


def _of_kind(results, kind):
    return [result for result in results if result["kind"] == kind]


def _dataset_names(results) -> list[str]:
    names = {r["dataset"] for r in _of_kind(results, "classification")}
    return [name for name in TITLES if name in names] + sorted(names - set(TITLES))


def _row_names(results) -> list[str]:
    """Rows of the table, in the paper's order if one of its datasets is there."""
    scored = _of_kind(results, "classification")
    names = list(dict.fromkeys(r["row"] for r in scored))
    if all(r["dataset"] not in PAPER_DATASETS for r in scored):
        return names
    return [name for name in ROWS if name in names] + sorted(set(names) - set(ROWS))


def accuracy_table(results: Sequence[dict]) -> ReportTable:
    """Accuracy ± sd of every row and dataset, beside the paper's number if there is one."""
    scores = {(r["row"], r["dataset"]): r for r in _of_kind(results, "classification")}
    labels = {row: r["label"] for (row, _), r in scores.items()}
    names = _dataset_names(results)
    header = ["method"]
    for name in names:
        header += [TITLES.get(name, name)] + ["paper"] * (name in PAPER_DATASETS)
    rows = []
    for row in _row_names(results):
        cells = [labels[row]]
        for name in names:
            result = scores.get((row, name))
            cells.append(score_text(result, 3) if result else "")
            if name in PAPER_DATASETS:
                paper = result["paper"] if result else None
                cells.append(f"{paper:.3f}" if paper is not None else "")
        rows.append(cells)
    return ReportTable(header, rows)


def format_table(table: ReportTable, table_format: str) -> str:
    """A table as Markdown ("md") or LaTeX ("latex")."""
    header, rows = table
    if table_format == "md":
        lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
        return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
    body = [" & ".join(row).replace("±", r"$\pm$") + r" \\" for row in rows]
    for greek, command in (("α", r"$\alpha$"), ("λ", r"$\lambda$")):
        body = [line.replace(greek, command) for line in body]
    begin = rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}"
    head = [begin, r"\toprule", " & ".join(header) + r" \\", r"\midrule"]
    return "\n".join([*head, *body, r"\bottomrule", r"\end{tabular}"])


def similarity_table(results: Sequence[dict]) -> ReportTable:
    """Correlations with human scores on sentence pairs."""
    pairs = _of_kind(results, "similarity")
    rows = [[r["label"], f"{r['spearman']:.3f}", f"{r['pearson']:.3f}"] for r in pairs]
    return ReportTable(["method", "Spearman", "Pearson"], rows)


def few_label_table(results: Sequence[dict]) -> ReportTable:
    """Accuracy by number of labels; the last column has all of them."""
    curves = _of_kind(results, "few-labels")
    sizes = sorted({point["n_labels"] for r in curves for point in r["curve"]})
    scores = {(r["row"], r["dataset"]): r for r in _of_kind(results, "classification")}
    order = {name: number for number, name in enumerate(TITLES)}
    rows = []
    for r in sorted(curves, key=lambda r: order.get(r["dataset"], len(order))):
        points = {point["n_labels"]: point for point in r["curve"]}
        cells = [
            f"{points[n]['accuracy']:.3f} ± {points[n]['sd']:.3f}" if n in points else ""
            for n in sizes
        ]
        full = scores.get((r["row"], r["dataset"]))
        title = TITLES.get(r["dataset"], r["dataset"])
        rows.append([title, r["label"], *cells, f"{full['accuracy']:.3f}" if full else ""])
    return ReportTable(["dataset", "method", *(f"{size:,}" for size in sizes), "all"], rows)


def certificate_table(results: Sequence[dict]) -> ReportTable:
    """Certified and held-out risk of every certificate."""
    rows = []
    for r in _of_kind(results, "certificate"):
        cells = [r["label"], TITLES.get(r["dataset"], r["dataset"]), f"{r['held_out_risk']:.4f}"]
        rows.append([*cells, rounded_up(r["risk_bound"], 4), f"{r['n']:,}", f"{r['delta']:g}"])
    header = ["method", "dataset", "held-out risk", "certificate", "n", "delta"]
    return ReportTable(header, rows)


def is_tied(result: dict, best: dict) -> bool:
    """Whether the intervals of two accuracies overlap."""
    return accuracy_interval(result)[1] >= accuracy_interval(best)[0]


def findings(results: Sequence[dict]) -> list[str]:
    """What the results show, in sentences; the most important first."""
    sentences = []
    leaders = []
    for name in _dataset_names(results):
        scored = [r for r in _of_kind(results, "classification") if r["dataset"] == name]
        best = max(scored, key=lambda r: r["accuracy"])
        n_tied = sum(r is not best and is_tied(r, best) for r in scored)
        part = f"{TITLES.get(name, name)}: {best['label']} {best['accuracy']:.3f}"

        # Without the number of test texts the intervals are those of the seeds, and prove nothing.
        if n_test_of(best) is None:
            leaders.append(part)
        elif n_tied:
            others = f"{n_tied} other{'s' * (n_tied > 1)}"
            leaders.append(f"{part}, tied with {others} (95% intervals overlap)")
        else:
            leaders.append(f"{part}, significantly ahead of every other method")
    if leaders:
        sentences.append(f"Best accuracy on {'; on '.join(leaders)}.")

    certificates = _of_kind(results, "certificate")
    if certificates:
        best = min(certificates, key=lambda r: r["risk_bound"])
        kept = [r["held_out_risk"] <= r["risk_bound"] for r in certificates]
        sentence = (
            f"With {confidence(best['delta']).replace(' ', '')} confidence, {best['label']}'s "
            "vectors distinguish words of a new document from random words with at most "
            f"{percent(best['risk_bound'])} errors (guessing: 50%); "
            f"measured: {100 * best['held_out_risk']:.1f}%"
        )
        if len(kept) > 1:
            sentence += f". {sum(kept)} of {len(kept)} such certificates held"
        sentences.append(sentence + ".")

    gaps = [r["accuracy"] - r["paper"] for r in results if r.get("paper") is not None]
    if gaps:
        near = sum(abs(gap) <= 0.02 for gap in gaps)
        sentences.append(
            f"Of {len(gaps)} accuracies that the paper prints, {near} are reproduced within 0.02 "
            f"and {sum(gap >= 0 for gap in gaps)} are at least as high (median difference "
            f"{median(gaps):+.3f})."
        )
    return sentences


def write(results: Sequence[dict], out: str | os.PathLike, run: dict | None = None) -> Path:
    """Write index.html, table.md, table.tex and, with Altair, plots/*.svg and *.pdf; the page.

    `results` are those of `reproduction.read_results`, `run` what `reproduction.reproduce` returns.
    """
    if not results:
        raise ValueError(
            "The report needs results. Got an empty folder. Run pacsent paper reproduce first."
        )
    folder = Path(out)
    charts = figures(results, TITLES)
    if charts:
        import vl_convert
    for chart in charts:
        spec = {**chart.spec, "width": _FILE_WIDTH, "background": "white"}
        stem = "-".join(part for part in (chart.kind, chart.dataset) if part)
        drawn = vl_convert.vegalite_to_svg(spec).encode(), vl_convert.vegalite_to_pdf(spec)
        for suffix, image in zip((".svg", ".pdf"), drawn):
            with replacing(folder / "plots" / f"{stem}{suffix}", parents=True) as file:
                file.write(image)
    table = accuracy_table(results)
    for name, content in (
        ("table.md", format_table(table, "md") + "\n"),
        ("table.tex", format_table(table, "latex") + "\n"),
        ("index.html", _page(results, charts, run)),
    ):
        with replacing(folder / name, parents=True) as file:
            file.write(content.encode())
    return folder / "index.html"


def _page(results, charts, run) -> str:
    # Rows of the main table: cells with the paper's number and the difference to it.
    scores = {(r["row"], r["dataset"]): r for r in _of_kind(results, "classification")}
    names = _dataset_names(results)
    best = {
        name: max((r for r in scores.values() if r["dataset"] == name), key=lambda r: r["accuracy"])
        for name in names
    }
    rows = []
    for row in _row_names(results):
        cells: list[dict[str, Any] | None] = []
        for name in names:
            result = scores.get((row, name))
            if result is None:
                cells.append(None)
                continue
            difference = None if result["paper"] is None else result["accuracy"] - result["paper"]
            tint = 0.0 if difference is None else min(abs(difference) / _FULL_TINT, 1.0) * 0.45
            cell = {"score": score_text(result, 3), "best": is_tied(result, best[name])}
            cells.append(cell | {"paper": result["paper"], "difference": difference, "tint": tint})
        label = next(r["label"] for r in scores.values() if r["row"] == row)
        in_paper = row in ROWS and ROWS[row].in_paper
        rows.append({"label": label, "in_paper": in_paper, "cells": cells})
    seconds = sum(
        r.get("provenance", {}).get("wall_seconds") or sum(r["seconds"].values())
        for r in scores.values()
    )
    provenance = results[0].get("provenance", {})
    return render(
        "report.html",
        title="pacsent: the paper's table, reproduced",
        findings=findings(results),
        minutes=seconds / 60,
        memory=(run or {}).get("peak_memory_bytes", 0) / 2**30,
        datasets={name: TITLES.get(name, name) for name in names},
        accuracy=rows,
        tables={
            "certificate": certificate_table(results),
            "few-labels": few_label_table(results),
            "similarity": similarity_table(results),
        },
        figures=charts,
        charts=[chart.spec for chart in charts],
        runtime=chart_runtime() if charts else "",
        install_hint=install_hint("report"),
        version=provenance.get("pacsent", ""),
        source="--data books" if names == ["books"] else "--data DATA --encoder ENCODER",
        words_digest=str(provenance.get("words_digest", ""))[:16],
    )
