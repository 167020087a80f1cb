"""Results in, tables, plots and one HTML page out. Nothing is computed here but averages.

The page is one file that opens offline: styles, figures and the runtime that draws them are in it.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pacsent.files import replacing
from pacsent.maths.rounding import rounded_up
from pacsent.optional import install_hint
from pacsent.paper.evaluation import score_text
from pacsent.paper.figures import Figure, bundle, figures
from pacsent.paper.findings import findings, tied
from pacsent.paper.method_rows import PAPER_DATASETS, ROWS
from pacsent.text.html import escaped, fill, script_json

TITLES = {
    "20news": "20news",
    "imdb": "IMDb",
    "subj": "SUBJ",
    "mr": "MR",
    "trec": "TREC",
    "stsb": "STS-B",
    "generated": "generated text",
}
_WIDTH = 480  # of a figure in a file of its own, in points


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
    if all(r["dataset"] not in PAPER_DATASETS for r in _of_kind(results, "classification")):
        return list(found)
    known = [name for name in ROWS if name in found]
    return known + sorted(set(found) - set(known))


def cells(results: Sequence[dict]) -> tuple[list[str], list[list[str]]]:
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
            line.append(score_text(result, 3) if result else "")
            if name in PAPER_DATASETS:
                paper = result["paper"] if result else None
                line.append(f"{paper:.3f}" if paper is not None else "")
        rows.append(line)
    return header, rows


def table(results: Sequence[dict], table_format: str) -> str:
    """The table of accuracies as Markdown ("md"), LaTeX ("latex") or HTML ("html")."""
    header, rows = cells(results)
    if table_format == "md":
        lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
        return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
    if table_format == "latex":
        body = [" & ".join(row).replace("±", r"$\pm$") + r" \\" for row in rows]
        for greek, command in (("α", r"$\alpha$"), ("λ", r"$\lambda$")):
            body = [line.replace(greek, command) for line in body]
        begin = rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}"
        head = [begin, r"\toprule", " & ".join(header) + r" \\", r"\midrule"]
        return "\n".join([*head, *body, r"\bottomrule", r"\end{tabular}"])
    return html_table(results)


# ---- The page ------------------------------------------------------------------------------------

_FOLDER = Path(__file__).parent


def _shade(difference: float) -> str:
    """A tint that grows with the difference and is full at 0.03."""
    strength = min(abs(difference) / 0.03, 1.0) * 0.45
    return f"background:rgba(var(--{'up' if difference >= 0 else 'down'}),{strength:.2f})"


def html_table(results: Sequence[dict]) -> str:
    """The table with the paper's numbers under ours; the difference is coloured and written."""
    scores, names = _scores(results), _datasets(results)
    best: dict[str, dict] = {}
    for result in sorted(scores.values(), key=lambda r: -r["accuracy"]):
        best.setdefault(result["dataset"], result)
    head = "".join(f"<th>{escaped(TITLES.get(name, name))}</th>" for name in names)
    body = []
    seen_group = None
    rows = _row_names(results)
    grouped = any(r["paper"] is not None for r in scores.values())
    for row in rows:
        in_paper = row in ROWS and ROWS[row].in_paper
        group = "the paper's rows" if in_paper else "not in the paper"
        if grouped and group != seen_group:
            body.append(f'<tr class="group"><td colspan="{len(names) + 1}">{group}</td></tr>')
            seen_group = group
        label = next(r["label"] for r in scores.values() if r["row"] == row)
        line = [f"<td>{escaped(label)}</td>"]
        for name in names:
            result = scores.get((row, name))
            if result is None:
                line.append("<td></td>")
                continue
            mark = ' class="best"' if tied(result, best[name]) else ""
            text = f"{result['accuracy']:.3f}"
            several = len(result["scores"]) > 1
            below = f"± {result['sd']:.3f}" if several else ""
            style = ""
            if result["paper"] is not None:
                difference = result["accuracy"] - result["paper"]
                against = f"paper {result['paper']:.3f} ({difference:+.3f})"
                below += f"{'<i> · </i>' if several else ''}<span>{against}</span>"
                style = f' style="{_shade(difference)}"'
            line.append(f"<td{mark}{style}>{text}<small>{below}</small></td>")
        body.append(f"<tr>{''.join(line)}</tr>")
    return _whole_table(f"<th>method</th>{head}", "".join(body))


def _whole_table(head: str, body: str) -> str:
    whole = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{whole}</div>'


def _plain_table(header, rows) -> str:
    # columns of words from the left, columns of numbers from the right
    mark = [' class="words"' if all(any(map(str.isalpha, c)) for c in column) else ""
            for column in zip(*rows)]  # fmt: skip

    def line(tag, cells):
        return "".join(f"<{tag}{m}>{escaped(c)}</{tag}>" for c, m in zip(cells, mark))

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return _whole_table(line("th", header), body)


def similarity_rows(results: Sequence[dict]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table of sentence pairs."""
    titles = {
        "log_likelihood_kernel": "exp. likelihood",
        "log_expected_likelihood": "not normalised",  # in results of older versions
        "kl_divergence": "−KL",
        "wasserstein_distance": "−Wasserstein",
    }
    found = _of_kind(results, "similarity")
    made = {name for r in found for name in r["posterior_similarities"]}
    names = [name for name in titles if name in made]
    header = ["method", "Spearman", "Pearson", *[titles[name] for name in names]]
    rows = []
    for r in found:
        others = [r["posterior_similarities"].get(name) for name in names]
        rows.append(
            [r["label"], f"{r['spearman']:.3f}", f"{r['pearson']:.3f}"]
            + ["" if value is None else f"{value:.3f}" for value in others]
        )
    return header, rows


def few_label_rows(results: Sequence[dict]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table of few labels; the last column has all of them."""
    found = _of_kind(results, "few-labels")
    sizes = sorted({point["n_labels"] for r in found for point in r["curve"]})
    scores = _scores(results)
    header = ["dataset", "method", *[f"{size:,}" for size in sizes], "all"]
    rows = []
    known = list(TITLES)
    for r in sorted(
        found, key=lambda r: known.index(r["dataset"]) if r["dataset"] in known else 99
    ):
        at = {point["n_labels"]: point for point in r["curve"]}
        whole = scores.get((r["row"], r["dataset"]))
        rows.append(
            [TITLES.get(r["dataset"], r["dataset"]), r["label"]]
            + [f"{at[n]['accuracy']:.3f} ± {at[n]['sd']:.3f}" if n in at else "" for n in sizes]
            + [f"{whole['accuracy']:.3f}" if whole else ""]
        )
    return header, rows


def certificate_rows(results: Sequence[dict]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the certificates."""
    found = _of_kind(results, "certificate")
    known = any("true_risk" in r for r in found)
    check = "true_risk" if known else "held_out_risk"
    header = ["method", "dataset", "true risk" if known else "held-out risk", "certificate"]
    header += ["kind", "KL", "n", "delta"]
    rows = []
    for r in found:
        risks = "" if r.get(check) is None else f"{r[check]:.4f}", rounded_up(r["risk_bound"], 4)
        about = r["certificate_kind"], f"{r.get('kl', 0.0):.1f}", f"{r['n']:,}", f"{r['delta']:g}"
        rows.append([r["label"], TITLES.get(r["dataset"], r["dataset"]), *risks, *about])
    return header, rows


def time_rows(results: Sequence[dict]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the run times, in seconds."""
    header = ["method", "dataset", "fit", "encode", "grid", "final fit"]
    rows = []
    for r in _of_kind(results, "classification"):
        spent = r["seconds"]
        rows.append(
            [r["label"], TITLES.get(r["dataset"], r["dataset"])]
            + [f"{spent.get(key, 0.0):.1f}" for key in ("fit", "encode", "search", "final")]
        )
    return header, rows


def write(results: Sequence[dict], out: str | os.PathLike, run: dict | None = None) -> Path:
    """OUT/index.html, OUT/table.md, OUT/table.tex and, with Altair, OUT/plots/*.svg and *.pdf.

    `results` come from `reproduction.read_results`, `run` from `reproduction.reproduce`. Returns
    the path of the page.
    """
    if not results:
        raise ValueError(
            "The report needs results. Got an empty folder instead. Run pacsent reproduce first."
        )
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    charts = figures(results, TITLES)
    plots(charts, out / "plots")
    page = _page(results, charts, run)
    for name, content in (
        ("table.md", table(results, "md") + "\n"),
        ("table.tex", table(results, "latex") + "\n"),
        ("index.html", page),
    ):
        with replacing(out / name) as file:
            file.write(content.encode())
    return out / "index.html"


def _found(results, run) -> str:
    """What to conclude, before anything else."""
    spent = sum(
        r.get("provenance", {}).get("wall_seconds") or sum(r["seconds"].values())
        for r in _of_kind(results, "classification")
    )
    cost = f"The table of accuracies took {spent / 60:.1f} minutes"
    if run and run.get("peak_memory_bytes"):
        cost += f" and at most {run['peak_memory_bytes'] / 2**30:.1f} GB of memory"
    said = "".join(f"<li>{escaped(text)}</li>" for text in findings(results, TITLES))
    said = f"<h2>Findings</h2><ol>{said}</ol><p class='soft'>{cost}.</p>"
    return f'<section class="findings">{said}</section>'


def _controls(results) -> str:
    names = _datasets(results)
    boxes = "".join(
        f'<label><input type="checkbox" checked data-toggle="{escaped(name)}"> '
        f"{escaped(TITLES.get(name, name))}</label>"
        for name in names
    )
    boxes = f"<fieldset><legend>Datasets</legend>{boxes}</fieldset>" if len(names) > 1 else ""
    return (
        '<form class="controls" onsubmit="return false"><label>Methods with '
        '<input id="wanted" type="search" placeholder="any name, e.g. PB" autocomplete="off">'
        f"</label>{boxes}</form>"
    )


def _charts(charts, kind) -> str:
    parts = [
        f'<figure data-dataset="{escaped(chart.dataset)}"><div class="chart" role="img" '
        f'aria-label="{escaped(chart.caption)}" data-chart="{number}"></div>'
        f"<figcaption>{escaped(chart.caption)}</figcaption></figure>"
        for number, chart in enumerate(charts)
        if chart.kind == kind
    ]
    return f'<div class="plots">{"".join(parts)}</div>' if parts else ""


def _section(heading, text, *content) -> str:
    parts = "".join(part for part in content if part)
    return f"<h2>{heading}</h2><p class='soft'>{text}</p>{parts}" if parts else ""


def _table_if_any(header, rows) -> str:
    return _plain_table(header, rows) if rows else ""


def _folded(header, rows) -> str:
    shown = _table_if_any(header, rows)
    return f"<details><summary>The numbers</summary>{shown}</details>" if shown else ""


def _without_constants(header, rows) -> str:
    """The table without columns that say the same in every row; a line says it once."""
    if len(rows) < 2:
        return _plain_table(header, rows)
    same = [len(set(column)) == 1 for column in zip(*rows)]
    kept = [i for i, constant in enumerate(same) if not constant or i == 0]
    once = ", ".join(f"{header[i]} {rows[0][i]}" for i in range(1, len(header)) if same[i])
    table_ = _plain_table([header[i] for i in kept], [[row[i] for i in kept] for row in rows])
    return f"<p class='soft'>In every row: {escaped(once)}.</p>{table_}" if once else table_


def _sections(results, charts) -> Iterator[str]:
    """The parts of the page; empty where there is nothing to show."""
    if scored := _of_kind(results, "classification"):
        beside = any(r["paper"] is not None for r in scored)
        yield _section(
            "Test accuracy",
            "Mean over the seeds; λ, C and L2 normalisation by five-fold cross-validation on the "
            "training part. Best first.",
            _charts(charts, "accuracy"),
            "<details><summary>The numbers</summary><p class='soft'>"
            + ("Below each number the paper's and the difference to it. " if beside else "")
            + "Bold: the best of a column, and whatever chance does not tell from it (overlapping "
            f"95 % intervals).</p>{html_table(results)}</details>",
        )
    certificates = certificate_rows(results)
    if certificates[1]:
        yield _section(
            "Certificates",
            "The bound on the error of telling words of a document apart from random words, with "
            "confidence 1 - delta; next to it the true risk of generated text, or the risk on a "
            "tenth of the documents (kind A: of the words) that was held out. Guessing has risk "
            "0.5. Kind A holds where words are independent draws, which real text is not.",
            _charts(charts, "certificate"),
            _without_constants(*certificates),
        )
    yield _section(
        "Few labels",
        "The classifier sees only some labels: mean ± sd over the draws. The vectors are learned "
        "without labels, from all training texts; lam = 1.",
        _charts(charts, "few-labels"),
        _folded(*few_label_rows(results)),
    )
    for heading, text, kind in _PLOTTED:
        yield _section(heading, text, _charts(charts, kind))
    yield _section(
        "Sentence pairs (STS-B)",
        "Correlation of cosine similarity with human scores on the test part; λ chosen on the "
        "training part. The last columns are Spearman correlations of similarities between the "
        "whole posteriors.",
        _table_if_any(*similarity_rows(results)),
    )
    header, times = time_rows(results)
    if times:
        yield _section(
            "Run times",
            "Seconds, all seeds and all values of λ together.",
            f"<details><summary>{len(times)} rows</summary>{_plain_table(header, times)}</details>",
        )


_PLOTTED = (
    (
        "Posterior variance against length",
        "Median variance of test documents in bins of equal size: longer documents are known "
        "more exactly.",
        "variance",
    ),
    ("Accuracy against λ", "Cross-validated accuracy on the training part at the best C.", "lam"),
    (
        "Size, speed and accuracy",
        "All seeds and all values of λ together; hover for the values.",
        "speed",
    ),
    (
        "A map of the documents",
        "t-SNE of the vectors of some test documents, coloured by class. Hover reads one, the "
        "wheel zooms, a click on a class singles it out.",
        "map",
    ),
)


def _page(results, charts, run) -> str:
    sections = list(_sections(results, charts))
    if not charts:
        sections.append(
            "<p class='soft'>There are no figures because Altair is not installed. "
            f"{install_hint('report')}</p>"
        )
    first = results[0].get("provenance", {})
    return fill(
        (_FOLDER / "report.html").read_text(encoding="utf-8"),
        STYLE=(_FOLDER / "report.css").read_text(encoding="utf-8"),
        FINDINGS=_found(results, run),
        CONTROLS=_controls(results) if charts else "",
        SECTIONS="".join(sections),
        VERSION=escaped(first.get("pacsent", "")),
        DIGEST=escaped(str(first.get("words_digest", ""))[:16]),
        SCRIPTS=_drawing(charts),
    )


def _drawing(charts) -> str:
    """The scripts that draw: the runtime, the specifications, and a few lines of our own."""
    own = (_FOLDER / "report.js").read_text(encoding="utf-8")
    if not charts:
        return f"<script>{{ {own} }}</script>"
    specs = script_json([chart.spec for chart in charts])
    runtime = bundle().replace("</script", "<\\/script")
    return f"<script>{runtime}</script><script>{{ const CHARTS = {specs}; {own} }}</script>"


# ---- Plots ---------------------------------------------------------------------------------------


def plots(charts: Sequence[Figure], folder: str | os.PathLike) -> list[Path]:
    """Write every figure as .svg and .pdf; the paths of the .svg files."""
    if not charts:
        return []
    import vl_convert

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for chart in charts:
        spec = {**chart.spec, "width": _WIDTH, "background": "white"}
        path = folder / f"{chart.kind}{f'-{chart.dataset}' if chart.dataset else ''}.svg"
        drawn = {".svg": vl_convert.vegalite_to_svg(spec).encode(),
                 ".pdf": vl_convert.vegalite_to_pdf(spec)}  # fmt: skip
        for suffix, content in drawn.items():
            with replacing(path.with_suffix(suffix)) as file:
                file.write(content)
        made.append(path)
    return made
