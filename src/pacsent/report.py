"""Results in, tables, plots and one HTML page out. Nothing is computed here but averages.

The page is one file that opens offline: styles and pictures are inside it.
"""

from pathlib import Path

from pacsent.evaluation import PAPER_DATASETS, ROWS

TITLES = {
    "20news": "20news",
    "imdb": "IMDb",
    "subj": "SUBJ",
    "mr": "MR",
    "trec": "TREC",
    "stsb": "STS-B",
}
FORMATS = ("text", "md", "latex", "html")


def _of_kind(results, kind):
    return [result for result in results if result["kind"] == kind]


def _scores(results) -> dict:
    """(row, dataset) -> result, classification only."""
    return {(r["row"], r["dataset"]): r for r in _of_kind(results, "classification")}


def _datasets(results) -> list[str]:
    found = {r["dataset"] for r in _of_kind(results, "classification")}
    known = [name for name in TITLES if name in found]
    return known + sorted(found - set(known))


def _row_names(results) -> list[str]:
    found = {r["row"]: r["label"] for r in _of_kind(results, "classification")}
    known = [name for name in ROWS if name in found]
    return known + sorted(set(found) - set(known))


def cells(results) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table: ours ± sd, the paper's number where there is one."""
    scores, names = _scores(results), _datasets(results)
    header = ["method"]
    for name in names:
        header.append(TITLES.get(name, name))
        if name in PAPER_DATASETS:
            header.append("paper")
    rows = []
    for row in _row_names(results):
        line = [next(r["label"] for r in scores.values() if r["row"] == row)]
        for name in names:
            result = scores.get((row, name))
            line.append(f"{result['accuracy']:.3f} ± {result['sd']:.3f}" if result else "")
            if name in PAPER_DATASETS:
                paper = result["paper"] if result else None
                line.append(f"{paper:.3f}" if paper is not None else "")
        rows.append(line)
    return header, rows


def table(results, table_format: str = "text") -> str:
    """The table of accuracies as text, Markdown, LaTeX or HTML."""
    header, rows = cells(results)
    if table_format == "md":
        lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
        return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
    if table_format == "latex":
        body = [" & ".join(row).replace("±", r"$\pm$") + r" \\" for row in rows]
        for greek, command in (("α", r"$\alpha$"), ("λ", r"$\lambda$")):
            body = [line.replace(greek, command) for line in body]
        return "\n".join(
            [
                rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
                r"\toprule",
                " & ".join(header) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
            ]
        )
    if table_format == "html":
        return html_table(results)
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in [header, *rows]
    )


def html_table(results) -> str:
    raise NotImplementedError


def write(results, out, run=None) -> Path:
    raise NotImplementedError
