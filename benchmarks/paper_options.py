"""What the paper mentions in passing, each beside the row it changes, by the paper's protocol.

    python benchmarks/paper_options.py [--data FOLDER] [--save] [--n-jobs N]

The loss divided by its largest value, PB-neg as the paper trains it, PV-DBOW from the word vectors
and from scratch beside gensim's Doc2Vec, sub-sampling in the target task, lambda per token on a
wide grid; and accuracy against lambda for the zero-one loss and the log-loss
(docs/figures/lambda.png). Vectors: the English model of the package.

One seed; lam, C and normalisation by five-fold cross-validation; SUBJ also over `--splits` splits
where vectors are cheap. w-PB-neg and SGD choose among two values of lambda.
A cell is one file in results/paper_options/cells, written when it is done; a cell that is there is
not computed again. `--tables` writes the tables of all cells, and the figure.
"""

import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, wait
from fractions import Fraction
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

import pacsent
from harness import RESULTS, finish, machine, parser_for
from pacsent.files import replacing
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper import evaluation
from pacsent.paper import method_rows as rows
from pacsent.paper.method_rows import LAMS, PAPER_DATASETS, Row
from pacsent.paper.report import TITLES
from pacsent.text.normalise import tokenise_paper
from pacsent.threads import n_threads

TOKEN_LAMS = (1 / 16, 0.25, 1.0, 4.0, 16.0, 64.0, 256.0)
TWO_LAMS = (0.5, 8.0)
# where the best λ per token was the largest tried, larger ones are tried too
FURTHER_LAMS = {("token", "subj"): (1024.0, 4096.0), ("PB-01", "trec"): (1024.0, 4096.0)}
LARGEST = 25.0  # half the squared distance that hardly any two words of the tables exceed
TOKEN = {"lam_mode": "per-token"}
NEG_TOKEN = {**TOKEN, "max_iter": 500}  # large lambda takes more steps
ROWS = [
    Row("PB-L2", "PB-L2", "PB-L2", lams=LAMS),
    Row("largest", "PB-L2, loss / 25", "PB-L2", lams=tuple(lam / LARGEST for lam in LAMS)),
    Row("subsample", "PB-L2, subsample 1e-4", "PB-L2", {"subsample": 1e-4}, lams=LAMS),
    Row("token", "PB-L2, λ per token", "PB-L2", TOKEN, lams=TOKEN_LAMS),
    Row("PB-IDF-L2", "PB-IDF-L2", "PB-IDF-L2", lams=LAMS),
    Row("PB-neg", "PB-neg, solved", "PB-neg", lams=LAMS),
    Row("neg-subsample", "PB-neg, subsample 1e-4", "PB-neg", {"subsample": 1e-4}, lams=LAMS),
    Row("neg-token", "PB-neg, λ per token", "PB-neg", NEG_TOKEN, lams=TOKEN_LAMS),
    Row("PB-01", "PB-01, λ per token", "PB-01", TOKEN, lams=TOKEN_LAMS),
    Row("w-PB-neg", "w-PB-neg, T/freq", "w-PB-neg", {"prior_variance": "paper"}, lams=TWO_LAMS),
    Row("PV-DBOW", "PV-DBOW from the vectors, 20 epochs", "PV-DBOW", {"n_epochs": 20}),
    Row("scratch", "PV-DBOW from scratch, 20 epochs", "PV-DBOW",
        {"n_epochs": 20, "start": "scratch"}),
    Row("Doc2Vec", "gensim Doc2Vec (dbow), 20 epochs", "Doc2Vec"),
]  # fmt: skip
SETS = ("20news", "imdb", "subj", "mr", "trec", "stsb")
LONG = ("20news", "imdb")
CURVE_SETS = ("subj", "mr", "trec")
CURVES = ("PB-neg, λ per token", "PB-01, λ per token")
CHEAP = ("PB-L2", "largest", "subsample", "token", "PB-IDF-L2", "PB-neg")
SLOW = {"PV-DBOW": 60, "Doc2Vec": 40, "PB-01": 20, "w-PB-neg": 20, "PB-neg": 10}
SIZES = {"imdb": 30, "20news": 15, "subj": 3, "mr": 3, "stsb": 1, "trec": 1}
CELLS = RESULTS / "paper_options" / "cells"


class Case(NamedTuple):
    """One cell: a row on a dataset, with the values of lambda to choose from, over some seeds."""

    row: Row
    dataset: str
    lams: tuple
    seeds: tuple = (0,)
    threads: int = 1
    part: str = "rows"

    @property
    def path(self) -> Path:
        suffix = "" if self.part == "rows" else f"-{self.part}"
        return CELLS / f"{self.row.name}-{self.dataset}{suffix}.json"

    @property
    def cost(self) -> float:
        """Roughly how long it takes, to order them."""
        own = {"neg-token": 60}.get(self.row.name, SLOW.get(self.row.method, 1))
        return own * SIZES[self.dataset] * len(self.seeds) / self.threads


# ------------------------------------------------------------------------------------------------
# Scoring
# ------------------------------------------------------------------------------------------------


class Doc2VecVectors:
    """gensim's paragraph vectors with the same size, noise words and epochs."""

    def __init__(self, n_dims, workers):
        self.settings = {"vector_size": n_dims, "workers": workers}

    def fit(self, texts):
        from gensim.models.doc2vec import Doc2Vec, TaggedDocument

        documents = [TaggedDocument(tokenise_paper(text), [i]) for i, text in enumerate(texts)]
        self.model_ = Doc2Vec(
            documents, dm=0, negative=15, epochs=20, min_count=1, sample=0, seed=1, **self.settings
        )
        return self

    def transform(self, texts):
        """Inferred vectors, of training texts too, as ours are."""

        def vector(text):
            return self.model_.infer_vector(tokenise_paper(text))

        with ThreadPoolExecutor(self.settings["workers"]) as pool:
            return np.array(list(pool.map(vector, texts)))


def made(row, source, lam, seed):
    """`rows.features`, and those of gensim's baseline."""
    if row.method != "Doc2Vec":
        return rows.features(row, source, lam, seed)
    vectorizer = Doc2VecVectors(source.words.n_dims, source.n_jobs)
    return rows.from_estimator(vectorizer, source.train_texts, source.test_texts)


@lru_cache(1)
def words():
    return pacsent.load("english")


@lru_cache(2)
def prepared(name, folder, threads):
    dataset = datasets.load(name, folder)
    if name == "stsb":
        return dataset
    return evaluation.Prepared(dataset, words(), n_jobs=threads)


def spread_of(accuracies) -> dict:
    """Mean over the splits and how far one split, and the mean, may be off."""
    scores = np.array(accuracies)
    sd = float(scores.std(ddof=1))
    return {"splits": len(scores), "mean": float(scores.mean()), "sd of a split": sd,
            "standard error": sd / len(scores) ** 0.5,
            "seeds 0-2": float(scores[:3].mean())}  # fmt: skip


def score(case: Case, folder, target=None) -> dict:
    """Test accuracy of a case (Spearman correlation for pairs), what was chosen, and its curve."""
    started = time.perf_counter()
    row = case.row
    on = prepared(case.dataset, folder, case.threads)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case.dataset == "stsb":
            some = Row(row.name, row.label, row.method, row.params, lams=case.lams)
            found = evaluation.similarity(some, on, words(), n_jobs=case.threads)
            curve = [{"lam": p["lam"], "cv_accuracy": p["train"]["spearman"]}
                     for p in found["lam_curve"]]  # fmt: skip
            result = {"value": found["spearman"], "lam": found["lam"]}
        else:
            protocol = evaluation.Protocol(case.lams or (None,), case.seeds, n_jobs=case.threads)
            found = evaluation.run_row(row, on, protocol, made)
            curve = found.lam_curve
            result = {"value": found.accuracy, "lam": found.scores[0]["lam"]}
            if case.part == "splits":
                result |= spread_of([s["accuracy"] for s in found.scores])
    seconds = round(time.perf_counter() - started, 1)
    print(f"{row.label} on {case.dataset}: {result['value']:.4f}, {seconds:.0f} s", flush=True)
    made_of = {"row": row.label, "dataset": case.dataset, "part": case.part, "lams": case.lams,
               "vectors": "english", "machine": machine(),
               "pacsent": pacsent.__version__, "date": time.strftime("%Y-%m-%d")}  # fmt: skip
    cell = {**made_of, **result, "curve": curve, "seconds": seconds}
    if target is not None:
        with replacing(target, parents=True) as file:
            file.write((json.dumps(cell, indent=1) + "\n").encode())
    return cell


def compute(cases, options):
    """Score all cases; what is not done when the time is up stays open."""
    end = time.monotonic() + 60 * options.minutes
    # slow rows on long datasets have threads and processes of their own: nothing waits for them
    sizes = {"many": n_threads(options.n_jobs), "long": sum(case.threads > 1 for case in cases)}
    pools = {
        name: ProcessPoolExecutor(size, mp_context=get_context("spawn"))
        for name, size in sizes.items()
        if size
    }
    work = {}
    for case in sorted(cases, key=lambda case: case.cost, reverse=True):
        place = "long" if case.threads > 1 else "many"
        target = case.path if options.save else None
        work[pools[place].submit(score, case, options.data, target)] = case
    wait(work, timeout=max(0.0, end - time.monotonic()))
    for future, case in work.items():
        if future.done() and not future.cancelled() and future.exception() is not None:
            print(f"{case.row.label} on {case.dataset} failed: {future.exception()!r}")
    for pool in pools.values():
        for process in list(pool._processes.values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)


def all_cases(options) -> list[Case]:
    """Every cell, and SUBJ over splits for the rows that are cheap."""
    cases = []
    several = max(1, min(n_threads(options.n_jobs), options.threads_each))
    for row in ROWS:
        for name in SETS:
            if (row.name, name) in (("Doc2Vec", "stsb"), ("PB-01", "20news"), ("PB-01", "imdb")):
                continue
            slow = row.method in SLOW and name in LONG
            threads = several if slow and name == "imdb" else 2 if slow else 1
            lams = row.lams + FURTHER_LAMS.get((row.name, name), ())
            cases.append(Case(row, name, lams, (0,), threads))
        if row.name in CHEAP and options.splits > 1:
            seeds = tuple(range(options.splits))
            cases.append(Case(row, "subj", row.lams, seeds, 1, "splits"))
    return cases


# ------------------------------------------------------------------------------------------------
# Tables and the figure
# ------------------------------------------------------------------------------------------------


def table_of_rows(cells):
    lines = {row.label: {"row": row.label, **dict.fromkeys(SETS)} for row in ROWS}
    for cell in cells:
        if cell["part"] == "rows":
            lines[cell["row"]][cell["dataset"]] = cell["value"]
    return list(lines.values())


def table_of_splits(cells):
    names = ("row", "splits", "mean", "sd of a split", "standard error", "seeds 0-2")
    return [{name: cell[name] for name in names} for cell in cells if cell["part"] == "splits"]


def table_of_lams(cells):
    """Rows with lambda per token: every value of it, and the test score of the one chosen."""
    return [
        {"dataset": cell["dataset"], "row": cell["row"], "λ": point["lam"],
         "cross-validated": point["cv_accuracy"],
         "test": cell["value"] if point["lam"] == cell["lam"] else None}
        for cell in cells
        if cell["part"] == "rows" and "λ per token" in cell["row"]
        for point in cell["curve"]
    ]  # fmt: skip


def table_curves():
    """(dataset, row) -> points of lambda and accuracy, of the rows of the paper's table."""
    found = {}
    for row, name in zip(CURVES, ("PB-neg-token", "PB-01")):
        for path in sorted((RESULTS / "reproduce" / name).glob("*.json")):
            points = json.loads(path.read_text()).get("lam_curve") or []
            found[path.stem, row] = [(p["lam"], p["cv_accuracy"]) for p in points if "lam" in p]
    return found


def figure(lines):
    """docs/figures/lambda.png: zero-one loss and log-loss against lambda, a panel a dataset."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    here: dict = {}
    for line in lines:
        place = here.setdefault((line["dataset"], line["row"]), [])
        place.append((line["λ"], line["cross-validated"]))
    shown = Figure(figsize=(9.6, 5.6), dpi=110)
    FigureCanvasAgg(shown)
    axes = shown.subplots(2, 3)
    parts = (("vectors of the table", table_curves(), PAPER_DATASETS),
             ("English model", here, CURVE_SETS))  # fmt: skip
    for places, (title, curves, names) in zip(axes, parts):
        for axis, name in zip(places, names):
            for row, colour in zip(CURVES, ("#1b6e9c", "#d95f02")):
                if points := sorted(curves.get((name, row), ())):
                    axis.plot(*zip(*points), marker="o", color=colour, label=row.split(",")[0])
            axis.set(xscale="log", xlabel="λ per token", title=f"{TITLES[name]}, {title}")
            ticks = sorted({lam for row in CURVES for lam, _ in curves.get((name, row), ())})
            axis.set_xticks(ticks, [str(Fraction(lam)) for lam in ticks], fontsize=7)
            axis.minorticks_off()
            axis.legend(frameon=False)
        places[0].set_ylabel("cross-validated accuracy")
    shown.tight_layout()
    path = Path(__file__).parents[1] / "docs" / "figures" / "lambda.png"
    shown.savefig(path, metadata={"Software": None})


def tables(cases, options):
    """The tables of all cells that there are."""
    there = [case for case in cases if case.path.exists()]
    cells = [json.loads(case.path.read_text()) for case in there]
    machines = dict.fromkeys(
        f"{c['machine']['cpu']}, device {c.get('device', 'cpu')}" for c in cells
    )
    missing = [f"{case.row.label} on {case.dataset}" for case in cases if case not in there]
    summary = {"ratio": None, "cells": f"{len(cells)} of {len(cases)}", "vectors": "english"}
    lams = table_of_lams(cells)
    parts = [
        ("", "test accuracy (STS-B: Spearman)", table_of_rows(cells)),
        ("-splits", "SUBJ over random splits", table_of_splits(cells)),
        ("-tokens", "λ per token, cross-validated accuracy (STS-B: Spearman on the training part) "
         "and the test score of the λ chosen", lams),
    ]  # fmt: skip
    for name, title, lines in parts:
        if lines:
            finish("paper_options", lines, title=f"What the paper mentions in passing: {title}",
                   summary=summary | ({} if name else {"not run": "; ".join(missing) or "none"}),
                   where={"machines": "; ".join(machines)}, save=options.save,
                   name=options.name + name)  # fmt: skip
    if options.save:
        figure(lams)


def main():
    parser = parser_for(__doc__, name="english")
    parser.add_argument("--n-jobs", type=int, help="Processes.  [default: all cores]")
    parser.add_argument("--threads-each", type=int, default=4,
                        help="Threads of a slow row on a long dataset.")  # fmt: skip
    parser.add_argument("--minutes", type=float, default=600.0, help="Stop after so long.")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--rows", nargs="+", choices=[row.name for row in ROWS])
    parser.add_argument("--tables", action="store_true", help="Tables of the cells; no run.")
    options = parser.parse_args()
    cases = all_cases(options)
    if not options.tables:
        wanted = options.rows or [row.name for row in ROWS]
        todo = [c for c in cases if c.dataset in options.only and c.row.name in wanted
                and not c.path.exists()]  # fmt: skip
        compute(todo, options)
    tables(cases, options)


if __name__ == "__main__":
    main()
