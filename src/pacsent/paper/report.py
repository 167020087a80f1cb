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
from pacsent.paper.figures import Figure, accuracy_interval, chart_runtime, figures, n_test_of
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
# Width in points of a chart in a file of its own.
_FILE_WIDTH = 480
# Difference to the paper's accuracy at which the tint of a cell is strongest, and that tint.
_FULL_TINT = 0.03
_MAX_OPACITY = 0.45


class ReportTable(NamedTuple):
    """Column names and rows of text."""

    header: list[str]
    rows: list[list[str]]


def _of_kind(results: Sequence[dict], kind: str) -> list[dict]:
    return [result for result in results if result["kind"] == kind]


def _scores_by_cell(results: Sequence[dict]) -> dict[tuple[str, str], dict]:
    """Results of classification by row and dataset."""
    scores = {}
    for result in _of_kind(results, "classification"):
        scores[result["row"], result["dataset"]] = result
    return scores


def _title(dataset: str) -> str:
    return TITLES.get(dataset, dataset)


def _dataset_names(results: Sequence[dict]) -> list[str]:
    """Datasets with accuracies: those with a title first, in the order of the titles."""
    names = {result["dataset"] for result in _of_kind(results, "classification")}
    titled = [name for name in TITLES if name in names]
    return titled + sorted(names - set(TITLES))


def _row_names(results: Sequence[dict]) -> list[str]:
    """Rows of the table, in the paper's order if one of its datasets is there."""
    scored = _of_kind(results, "classification")
    names = list(dict.fromkeys(result["row"] for result in scored))
    if all(result["dataset"] not in PAPER_DATASETS for result in scored):
        return names
    in_table = [name for name in ROWS if name in names]
    return in_table + sorted(set(names) - set(ROWS))


def accuracy_table(results: Sequence[dict]) -> ReportTable:
    """Accuracy ± sd of every row and dataset, beside the paper's number if there is one."""
    scores = _scores_by_cell(results)
    labels = {row: result["label"] for (row, _), result in scores.items()}
    names = _dataset_names(results)
    header = ["method"]
    for name in names:
        header.append(_title(name))
        if name in PAPER_DATASETS:
            header.append("paper")

    rows = []
    for row in _row_names(results):
        cells = [labels[row]]
        for name in names:
            result = scores.get((row, name))
            cells.append(score_text(result, 3) if result else "")
            if name in PAPER_DATASETS:
                cells.append(_format_paper(result))
        rows.append(cells)
    return ReportTable(header, rows)


def _format_paper(result: dict | None) -> str:
    """The paper's accuracy of a cell; empty without one."""
    if result is None or result["paper"] is None:
        return ""
    return f"{result['paper']:.3f}"


def format_table(table: ReportTable, table_format: str) -> str:
    """A table as Markdown ("md") or LaTeX ("latex")."""
    if table_format == "md":
        return _format_markdown(table)
    return _format_latex(table)


def _format_markdown(table: ReportTable) -> str:
    n_numbers = len(table.header) - 1
    lines = ["| " + " | ".join(table.header) + " |"]
    lines.append("|---|" + "---:|" * n_numbers)
    for row in table.rows:
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def _format_latex(table: ReportTable) -> str:
    alignment = "l" + "r" * (len(table.header) - 1)
    lines = [
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        " & ".join(table.header) + r" \\",
        r"\midrule",
    ]
    for row in table.rows:
        line = " & ".join(row)
        for symbol, command in (("±", r"$\pm$"), ("α", r"$\alpha$"), ("λ", r"$\lambda$")):
            line = line.replace(symbol, command)
        lines.append(line + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines)


def similarity_table(results: Sequence[dict]) -> ReportTable:
    """Correlations with human scores on sentence pairs."""
    rows = []
    for result in _of_kind(results, "similarity"):
        spearman = f"{result['spearman']:.3f}"
        pearson = f"{result['pearson']:.3f}"
        rows.append([result["label"], spearman, pearson])
    return ReportTable(["method", "Spearman", "Pearson"], rows)


def few_label_table(results: Sequence[dict]) -> ReportTable:
    """Accuracy by number of labels; the last column has all of them."""
    curves = _of_kind(results, "few-labels")
    sizes = sorted({point["n_labels"] for result in curves for point in result["curve"]})
    scores = _scores_by_cell(results)
    order = {name: number for number, name in enumerate(TITLES)}
    curves.sort(key=lambda result: order.get(result["dataset"], len(order)))

    rows = []
    for result in curves:
        points = {point["n_labels"]: point for point in result["curve"]}
        cells = [_format_point(points.get(size)) for size in sizes]
        with_all_labels = scores.get((result["row"], result["dataset"]))
        last_cell = f"{with_all_labels['accuracy']:.3f}" if with_all_labels else ""
        rows.append([_title(result["dataset"]), result["label"], *cells, last_cell])

    columns = [f"{size:,}" for size in sizes]
    return ReportTable(["dataset", "method", *columns, "all"], rows)


def _format_point(point: dict | None) -> str:
    """Accuracy ± sd with some labels; empty if it was not measured."""
    if point is None:
        return ""
    return f"{point['accuracy']:.3f} ± {point['sd']:.3f}"


def certificate_table(results: Sequence[dict]) -> ReportTable:
    """Certified and held-out risk of every certificate."""
    rows = []
    for result in _of_kind(results, "certificate"):
        cells = [
            result["label"],
            _title(result["dataset"]),
            f"{result['held_out_risk']:.4f}",
            rounded_up(result["risk_bound"], 4),
            f"{result['n']:,}",
            f"{result['delta']:g}",
        ]
        rows.append(cells)
    header = ["method", "dataset", "held-out risk", "certificate", "n", "delta"]
    return ReportTable(header, rows)


def is_tied(result: dict, best: dict) -> bool:
    """Return True if the intervals of two accuracies overlap."""
    _, high = accuracy_interval(result)
    low_of_best, _ = accuracy_interval(best)
    return high >= low_of_best


def findings(results: Sequence[dict]) -> list[str]:
    """Sentences that say what the results show; the most important first."""
    sentences = [
        _find_best(results),
        _find_certified(_of_kind(results, "certificate")),
        _find_reproduced(results),
    ]
    return [sentence for sentence in sentences if sentence]


def _find_best(results: Sequence[dict]) -> str:
    """The best method on every dataset."""
    leaders = []
    for name in _dataset_names(results):
        scored = [r for r in _of_kind(results, "classification") if r["dataset"] == name]
        best = max(scored, key=lambda r: r["accuracy"])
        n_tied = sum(r is not best and is_tied(r, best) for r in scored)
        leader = f"{_title(name)}: {best['label']} {best['accuracy']:.3f}"

        # Without the number of test texts the intervals are those of the seeds, and prove nothing.
        if n_test_of(best) is not None:
            leader += _compare_to_others(n_tied)
        leaders.append(leader)
    if not leaders:
        return ""
    return f"Best accuracy on {'; on '.join(leaders)}."


def _compare_to_others(n_tied: int) -> str:
    if n_tied == 0:
        return ", significantly ahead of every other method"
    others = "1 other" if n_tied == 1 else f"{n_tied} others"
    return f", tied with {others} (95% intervals overlap)"


def _find_certified(certificates: list[dict]) -> str:
    """The smallest certified risk, and how many held-out estimates are below their bound."""
    if not certificates:
        return ""
    best = min(certificates, key=lambda r: r["risk_bound"])
    level = confidence(best["delta"]).replace(" ", "")
    sentence = (
        f"With {level} confidence, {best['label']}'s "
        "vectors distinguish words of a new document from random words with at most "
        f"{percent(best['risk_bound'])} errors (guessing: 50%); "
        f"estimated on held-out documents: {100 * best['held_out_risk']:.1f}%"
    )
    if len(certificates) > 1:
        n_below = sum(r["held_out_risk"] <= r["risk_bound"] for r in certificates)
        sentence += (
            f". {n_below} of {len(certificates)} such estimates are below their bound, and an "
            "estimate from few documents can exceed a bound that holds"
        )
    return f"{sentence}."


def _find_reproduced(results: Sequence[dict]) -> str:
    """Distance of the accuracies to those that the paper prints."""
    gaps = [r["accuracy"] - r["paper"] for r in results if r.get("paper") is not None]
    if not gaps:
        return ""
    n_near = sum(abs(gap) <= 0.02 for gap in gaps)
    n_as_high = sum(gap >= 0 for gap in gaps)
    return (
        f"Of {len(gaps)} accuracies that the paper prints, {n_near} are reproduced within 0.02 "
        f"and {n_as_high} are at least as high (median difference "
        f"{median(gaps):+.3f})."
    )


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
        _write_charts(charts, folder / "plots")

    table = accuracy_table(results)
    page = folder / "index.html"
    _write_file(folder / "table.md", format_table(table, "md") + "\n")
    _write_file(folder / "table.tex", format_table(table, "latex") + "\n")
    _write_file(page, _page(results, charts, run))
    return page


def _write_charts(charts: list[Figure], folder: Path) -> None:
    """Every chart as SVG and PDF."""
    import vl_convert

    for chart in charts:
        spec = {**chart.spec, "width": _FILE_WIDTH, "background": "white"}
        stem = f"{chart.kind}-{chart.dataset}" if chart.dataset else chart.kind
        svg = vl_convert.vegalite_to_svg(spec)
        pdf = vl_convert.vegalite_to_pdf(spec)
        _write_file(folder / f"{stem}.svg", svg)
        _write_file(folder / f"{stem}.pdf", pdf)


def _write_file(path: Path, content: str | bytes) -> None:
    if isinstance(content, str):
        content = content.encode()
    with replacing(path, parents=True) as file:
        file.write(content)


def _page(results: Sequence[dict], charts: list[Figure], run: dict | None) -> str:
    scores = _scores_by_cell(results)
    names = _dataset_names(results)
    seconds = sum(_seconds_of(result) for result in scores.values())
    peak_memory = (run or {}).get("peak_memory_bytes", 0)
    provenance = results[0].get("provenance", {})
    words_digest = str(provenance.get("words_digest", ""))

    source = "--data DATA --encoder ENCODER"
    if names == ["books"]:
        source = "--data books"
    return render(
        "report.html",
        title="pacsent: the paper's table, reproduced",
        findings=findings(results),
        minutes=seconds / 60,
        memory=peak_memory / 2**30,
        datasets={name: _title(name) for name in names},
        accuracy=_accuracy_rows(results),
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
        source=source,
        words_digest=words_digest[:16],
    )


def _seconds_of(result: dict) -> float:
    """Time that a result took: that on the clock, or the sum of its steps."""
    wall_seconds = result.get("provenance", {}).get("wall_seconds")
    return wall_seconds or sum(result["seconds"].values())


def _accuracy_rows(results: Sequence[dict]) -> list[dict[str, Any]]:
    """Rows of the page's main table."""
    scores = _scores_by_cell(results)
    names = _dataset_names(results)
    best = {}
    for name in names:
        scored = [r for r in scores.values() if r["dataset"] == name]
        best[name] = max(scored, key=lambda r: r["accuracy"])

    rows = []
    for row in _row_names(results):
        label = next(r["label"] for r in scores.values() if r["row"] == row)
        in_paper = row in ROWS and ROWS[row].in_paper
        cells = [_accuracy_cell(scores.get((row, name)), best[name]) for name in names]
        rows.append({"label": label, "in_paper": in_paper, "cells": cells})
    return rows


def _accuracy_cell(result: dict | None, best: dict) -> dict[str, Any] | None:
    """An accuracy with the paper's number and the difference to it, which tints the cell."""
    if result is None:
        return None
    paper = result["paper"]
    difference = None
    tint = 0.0
    if paper is not None:
        difference = result["accuracy"] - paper
        tint = min(abs(difference) / _FULL_TINT, 1.0) * _MAX_OPACITY
    return {
        "score": score_text(result, 3),
        "best": is_tied(result, best),
        "paper": paper,
        "difference": difference,
        "tint": tint,
    }
