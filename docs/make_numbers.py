"""Fill the tables of README.md and docs/*.md that come from result files; `--check` only compares.

A table stands between two comments. The first names the file under benchmarks/results, what to
keep, and the columns; `as` renames one, and a backslash stands before a comma of a name:

    <!-- from classify/few where labels=100: set, lead over the better as lead -->
    <!-- end -->

Below the table stands what was measured: the commit, the date and the processor of the file.
Tables that join several files are made by functions: `<!-- numbers: paper-accuracy -->`; captions
of figures are those of captions.py: `<!-- numbers: caption-split -->`.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from captions import caption

from pacsent.bounds.rounding import rounded_up
from pacsent.paper import report
from pacsent.paper.method_rows import ROWS
from pacsent.paper.reproduction import read_results

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT / "benchmarks"))

from harness import BOUNDS, cell  # noqa: E402

BLOCK = re.compile(
    r"(?P<head><!-- (?:numbers: (?P<name>[a-z-]+)"
    r"|from (?P<file>[\w./-]+)(?: where (?P<where>[^:]+))?: (?P<columns>[^>]+?)) -->\n)"
    r".*?(?P<end><!-- end -->)",
    re.DOTALL,
)


def result(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def markdown(header, rows) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def version(content: dict) -> str:
    """The version and the machine that a result describes, as a sentence below its table."""
    commit = content.get("commit") or content["added"]  # which of the two: scripts/check_results.py
    machine = content["machine"]
    where = f"{machine['cpu']}, {machine['cores']} cores".lstrip(", ")
    if "cores" in machine["cpu"]:
        where = machine["cpu"]
    return f"\nMeasured: commit {commit[:7]} of {content['date']}, {where}.\n"


def column_cells(values: list, name: str) -> list[str]:
    """The cells of a column; proportions with three digits have three decimals in every row."""
    cells = [cell(value, name) for value in values]
    if BOUNDS.match(name):
        return cells  # rounded up
    floats = [value for value in values if isinstance(value, float)]
    if any(len(text) == 5 and text.startswith("0.") for text in cells) and max(floats) <= 1:
        return [
            f"{value:.3f}" if isinstance(value, float) and abs(value) >= 0.1 else text
            for value, text in zip(values, cells, strict=True)
        ]
    return cells


def columns_of(match: re.Match) -> str:
    """The table of one result file."""
    content = result(match["file"])
    rows = content["rows"]
    for condition in (match["where"] or "").split(","):
        if condition:
            key, _, value = condition.partition("=")
            rows = [row for row in rows if str(row[key.strip()]) in value.strip().split("|")]
    names = re.split(r"(?<!\\),", match["columns"])
    columns = [name.replace("\\,", ",").strip().partition(" as ") for name in names]
    cells = [column_cells([row[old] for row in rows], old) for old, *_ in columns]
    table = markdown([new or old for old, _, new in columns], list(zip(*cells, strict=True)))
    return table + version(content)


def paper_accuracy() -> str:
    table = report.format_table(report.accuracy_table(read_results(RESULTS / "reproduce")), "md")
    return re.sub(r" ± [\d.]+", "", table)  # the page states the largest standard deviation


# What the README says of the tools that it compares.
CERTIFIED = {
    "tf-idf + logistic regression": "if wrapped",
    "potion-base-8M + logistic regression": "if wrapped",
    "MiniLM + logistic regression": "if wrapped",
    "SetFit (fine-tuned MiniLM)": "if wrapped",
    "pacsent TextClassifier": "yes",
}


def seconds(value: float) -> str:
    """A duration with two digits: 0.031 s, 12 s, 2.0 h."""
    return f"{value / 3600:.1f} h" if value >= 3600 else f"{value:.2g} s"


def alternatives() -> str:
    rows = []
    for row in sorted(result("alternatives/banking")["rows"], key=lambda row: row["accuracy (%)"]):
        tool = row["tool"]
        name = f"**{tool}**" if tool.startswith("pacsent") else tool
        accuracy = f"{row['accuracy (%)'] / 100:.3f}"
        costs = [seconds(row["fit (s)"]), seconds(row["predict (s)"])]
        rows.append([name, accuracy, *costs, CERTIFIED[tool]])
    return markdown(["tool", "accuracy", "fit", "classify 1,500", "certificate"], rows)


def dense_parts() -> str:
    """Differences between dense parts of the classifier, a column for each set."""
    content = result("vectors_in_classifier/default")
    rows = content["rows"]
    sets = list(dict.fromkeys((row["set"], row["labels"]) for row in rows))
    table = []
    for part in dict.fromkeys(row["dense part"] for row in rows):
        cells = []
        for name, _ in sets:
            [row] = [row for row in rows if (row["set"], row["dense part"]) == (name, part)]
            difference = f"{row['difference in points']:+.2f} ± {row['standard error']:.2f}"
            is_default = row["difference in points"] == row["standard error"] == 0
            cells.append(f"{row['accuracy']:.3f}" if is_default else difference)
        table.append([part, *cells])
    titles = [f"{name}, {n_labels} labels" for name, n_labels in sets]
    return markdown(["dense part of `TextClassifier`", *titles], table) + version(content)


SETS = {"20news": "20news", "imdb": "IMDb", "subj": "SUBJ"}


def paper_differences() -> str:
    """Ours minus the paper's accuracy in thousandths, with our standard deviation, all 42 cells."""
    results = read_results(RESULTS / "reproduce")
    scored = {(r["row"], r["dataset"]): r for r in results if r["kind"] == "classification"}
    rows = []
    for name, row in ROWS.items():
        if not row.in_paper:
            continue
        cells = [row.label]
        for dataset in SETS:
            found = scored[name, dataset]
            difference = round(1000 * (found["accuracy"] - found["paper"]))
            cells += [f"{difference:+d}".replace("+0", "0"), f"{1000 * found['sd']:.0f}"]
        rows.append(cells)
    header = ["method"]
    for title in SETS.values():
        header += [title, "sd"]
    return markdown(header, rows)


def growth_slopes() -> str:
    """Seconds and memory of each task at its largest size, and the slope over all sizes."""
    content = result("growth/default")
    rows = []
    by_task: dict[tuple[str, str], list[dict]] = {}
    for row in content["rows"]:
        by_task.setdefault((row["task"], row["program"]), []).append(row)
    for (task, program), measured in by_task.items():
        largest = measured[-1]
        slope = "" if largest["slope"] is None else f"{largest['slope']:.2f}"
        name = task if program == "pacsent" else f"{task}: {program}"
        size = f"{largest['n']:,}"
        rows.append([name, size, cell(largest["seconds"]), f"{largest['memory']:,}", slope])
    table = markdown(["task", "largest number of texts", "CPU s", "MB", "slope"], rows)
    return table + version(content)


def idf_cost() -> str:
    """Accuracy of averages and what IDF weights take from it, by the size of the source corpus."""
    content = result("idf_cost/default")
    rows = []
    for row in content["rows"]:
        cost = 1000 * row["cost of IDF"]
        error = 1000 * row["standard error"]
        paper = 1000 * row["cost in the paper"]
        accuracies = [f"{row['accuracy']:.3f}", f"{row['with IDF']:.3f}"]
        costs = [f"{cost:.1f}", f"{error:.1f}", f"{paper:.0f}"]
        title = SETS[row["dataset"]]
        rows.append([title, row["method"], row["vectors"], *accuracies, *costs])
    header = ["data set", "method", "tokens", "accuracy", "with IDF", "cost", "se", "cost, paper"]
    return markdown(header, rows) + version(content)


def pac_bayes() -> str:
    """One line for each method: certified / true risk / bounds below the true risk."""
    content = result("pac_bayes/default")
    rows = content["rows"]
    cells: dict[str, list[str]] = {}
    for row in rows:
        cell_text = (
            f"{rounded_up(row['certified'], 3)} / {row['true risk']:.3f} / {row['broken']} of "
            f"{row['draws']}"
        )
        cells.setdefault(row["method"], []).append(cell_text)
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    header = ["certified / true / violated", *(SETS[name] for name in names)]
    table = markdown(header, [[method, *texts] for method, texts in cells.items()])
    return table + version(content)


def setfit() -> str:
    """SetFit beside others, MiniLM with a logistic regression among them."""
    content = result("alternatives/setfit")
    others = {row["tool"]: row for row in result("alternatives/banking")["rows"]}
    tools = ("tf-idf", "TextClassifier", "SetFit", "MiniLM + logistic regression")
    rows = []
    for row in content["rows"]:
        accuracies = [f"{row[name]:.3f}" for name in tools]
        rows.append([row["set"], str(row["labels"]), *accuracies])
    fine_tuned = others["SetFit (fine-tuned MiniLM)"]["measured at"][:7]
    commits = f"SetFit at {fine_tuned} on a GPU"
    return (
        markdown(["set", "labels", *tools], rows)
        + version(content).rstrip(".\n")
        + f"; {commits}.\n"
    )


LABEL_CHECKING = {"subj": "SUBJ", "20news": "20news", "trec": "TREC", "banking77": "Banking77"}
LABEL_CHECKING["mr"] = "MR"


def label_checking() -> str:
    """Fractions of labels that a person reads: classifiers and random noise on five sets."""
    rows, commits = [], {}
    for name, title in LABEL_CHECKING.items():
        content = result(f"label_checking/{name}")
        commits[content["commit"][:7]] = content
        by_labels: dict[str, dict[str, dict]] = {}
        for row in content["rows"]:
            by_labels.setdefault(row["machine"], {})[row["score"]] = row
        for labels, by_score in by_labels.items():
            fitted, own = by_score["ours"], by_score.get("own")
            read = [f"{row['read, checked']:.0%}" if row else "" for row in (fitted, own)]
            violated = max(row["broken, checked"] for row in by_score.values())
            source = labels.replace(" %", "%")
            rows.append([title, source, f"{fitted['wrong']:.0%}", *read, f"{violated:.1%}"])
    header = ["set", "labels by", "wrong", "read, fitted scores", "read, its scores", "violated"]
    lines = "".join(version(content) for content in commits.values())
    return markdown(header, rows) + lines


def label_checking_range() -> str:
    """The rows in a sentence: what real classifiers cost, and what uncorrected thresholds do."""
    rows = [row for name in LABEL_CHECKING for row in result(f"label_checking/{name}")["rows"]]
    read = [row["read, checked"] for row in rows if row["machine"] == "classifier, 2,000"]
    few = [row["read, checked"] for row in rows if row["machine"] == "classifier, 200"]
    threshold = max(row["broken, threshold"] for row in rows)
    return (
        f"Of the labels of a classifier fitted on 2,000 texts, {min(read):.0%} to {max(read):.0%} "
        f"are read, with 200 texts\n{min(few):.0%} to {max(few):.0%}; random noise is found with "
        "fewer. A threshold that is chosen on the same sample without a\ncorrection is violated in "
        f"up to {threshold:.0%} of redraws.\n"
    )


def misses_of_sets() -> str:
    """What the prediction sets of MAPIE and of pacsent miss, in a sentence."""
    mapie, ours = result("alternatives/sets")["rows"]
    above = "missed more than 5 % (% of draws)"
    return (
        f"The prediction sets of MAPIE miss {mapie['missed (%)']:.0f}% on average over calibration "
        "sets; those of pacsent miss at most 5% for *your*\ncalibration set, with 95% confidence: "
        f"of {ours['draws']} sets of 200 messages, {ours[above]:.0f}% missed more, with MAPIE "
        f"{mapie[above]:.0f}%, at {ours['classes in a set']:.1f} and\n"
        f"{mapie['classes in a set']:.1f} classes per set "
        "([histograms](docs/prediction-sets.md#prediction-sets)).\n"
    )


def comparison() -> str:
    """Lower limits of the difference of two classifiers, a column for each kind of limit."""
    content = result("comparison/default")
    rows = content["rows"]
    kinds = list(dict.fromkeys(row["limits"] for row in rows))
    table = []
    for errors in dict.fromkeys(row["errors"] for row in rows):
        cells = []
        for kind in kinds:
            [row] = [row for row in rows if (row["limits"], row["errors"]) == (kind, errors)]
            cells.append(f"{row['expected lower limit']:.3f} ({row['above 0']:.3f})")
        table.append([errors, *cells])
    worst = {row["limits"]: row["false, worst of all rates"] for row in rows}
    table.append(["a limit is false, at worst", *(f"{worst[kind]:.3f}" for kind in kinds)])
    return markdown(["error rates", *kinds], table) + version(content)


def flood() -> str:
    """Bounds before and after one wrong text was copied, a column for each `repeats`."""
    content = result("repeats/flood")
    statements = ("default", "traffic", "copies")
    rows = []
    for row in content["rows"]:
        cells = []
        for statement in statements:
            before = rounded_up(row[statement], 3)
            after = rounded_up(row[f"{statement}, one wrong text copied"], 3)
            cells.append(f"{before}, {after}")
        rows.append([row["set"], *cells])
    return markdown(["before, after", *statements], rows) + version(content)


def cold_start() -> str:
    """What a new process costs, in a sentence."""
    rows = {(r["task"], r["program"]): r for r in result("cold/fresh")["rows"]}
    encode = rows["encode ten sentences", "pacsent"]
    certify = rows["fit and certify 500 texts", "pacsent"]
    return (
        "**Nothing is compiled at the first call.** A new process encodes ten sentences in "
        f"{encode['process']:.2f} s\nof CPU time and {encode['memory']:.0f} MB, and fits and "
        f"certifies a classifier on 500 texts in {certify['process']:.1f} s, imports included\n"
        "([measurements](docs/which.md#the-first-call)).\n"
    )


def printed_loss() -> str:
    """How far the optimum of the printed loss lies from that of the corrected one."""
    content = result("printed/loss")
    rows = []
    for row in content["rows"]:
        rows.append([
            f"{row['method']}, {row['lam']:g}",
            f"{row['displacement, of |m|']:.3f}",
            f"{row['distance in displacements']:.1f}",
            f"{row['cosine']:.3f}",
            f"{row['variance']:.3f}",
            f"{row['variance, printed']:.3f}",
        ])  # fmt: skip
    header = [
        "method, λ",
        r"displacement from the prior, of \|m\|",
        "printed loss: distance, in displacements",
        "cosine",
        "variance",
        "printed loss: variance",
    ]
    return markdown(header, rows) + version(content)


def percentage(value: float) -> str:
    """A proportion in per cent, with three digits."""
    return f"{100 * value:.3g}%" if value else "0"


def printed_optimiser() -> str:
    """What the literal steps of the printed optimiser lead to, by lambda."""
    content = result("printed/optimiser")
    rows = []
    for row in content["rows"]:
        rows.append([
            f"{row['lam']:g}",
            percentage(row["n >= 184 lam"]),
            percentage(row["mean lost, literal"]),
            percentage(row["variance not positive, literal"]),
            percentage(row["median error, stable"]),
        ])  # fmt: skip
    header = [
        "λ",
        "n ≥ 184 λ, all training sentences",
        "mean further from the optimum than 0 is, or not a number",
        "variance 0 in the end",
        "stable steps: median error of the mean",
    ]
    return markdown(header, rows) + version(content)


TABLES = {
    "printed-loss": printed_loss,
    "printed-optimiser": printed_optimiser,
    "cold-start": cold_start,
    "comparison": comparison,
    "misses-of-sets": misses_of_sets,
    "label-checking": label_checking,
    "label-checking-range": label_checking_range,
    "setfit": setfit,
    "dense-parts": dense_parts,
    "paper-accuracy": paper_accuracy,
    "paper-differences": paper_differences,
    "idf-cost": idf_cost,
    "flood": flood,
    "growth-slopes": growth_slopes,
    "pac-bayes": pac_bayes,
    "alternatives": alternatives,
}


def block(match: re.Match) -> str:
    name = match["name"] or ""
    if name.startswith("caption-"):
        table = caption(name.removeprefix("caption-"), version)
    else:
        table = TABLES[name]() if name else columns_of(match)
    return match["head"] + table.rstrip("\n") + "\n" + match["end"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        made = BLOCK.sub(block, text)
        if made != text and check:
            raise SystemExit(f"{page.name} is out of date: make pages")
        page.write_text(made, encoding="utf-8")
