"""What the paper mentions in passing, each beside the row it changes, by the paper's protocol.

    python benchmarks/paper_options.py [--data FOLDER] [--save] [--n-jobs N] [--device cuda]

The loss divided by its largest value, the sum as prior mean, the unit prior of PB-IDF-L2, PB-neg as
the paper trains it and with the paper's KL, w-PB-neg with constant prior variance, PV-DBOW from the
word vectors and from scratch beside gensim's Doc2Vec, sub-sampling in the target task, lambda per
token on a wide grid; and accuracy against lambda for the zero-one loss and the log-loss
(docs/figures/lambda.png: `--figure`). Vectors: the English model of the package.

One seed; lam, C and normalisation by five-fold cross-validation; SUBJ also over `--splits` splits
where vectors are cheap. w-PB-neg chooses among two values of lambda; SGD on the two long datasets
has one. Four files: the rows, SUBJ over the splits, lambda per token, and the curves.
"""

import itertools
import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, wait
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

import pacsent
from harness import RESULTS, finish, parser_for
from pacsent import datasets
from pacsent.bench import evaluation, rows
from pacsent.bench.report import TITLES
from pacsent.bench.rows import LAMS, Row
from pacsent.text.normalise import tokenise_paper
from pacsent.threads import n_threads

TOKEN_LAMS = (1 / 16, 0.25, 1.0, 4.0, 16.0, 64.0, 256.0)
TWO_LAMS = (0.5, 8.0)
LONG_SGD_LAMS = (8.0,)  # SGD on the long datasets: the value at which sentences move most
SGD = {"solver": "sgd", "n_epochs": 40}
LARGEST = 25.0  # half the squared distance that hardly any two words of the tables exceed
TOKEN = {"lam_mode": "per-token"}
NEG_TOKEN = {**TOKEN, "max_iter": 500}  # large lambda takes more steps
ROWS = [
    Row("PB-L2", "PB-L2", "PB-L2", lams=LAMS),
    Row("largest", "PB-L2, loss / 25", "PB-L2", {"largest_loss": LARGEST}, lams=LAMS),
    Row("sum", "PB-L2, sum as prior mean", "PB-L2", {"prior_mean": "sum"}, lams=LAMS),
    Row("subsample", "PB-L2, subsample 1e-4", "PB-L2", {"subsample": 1e-4}, lams=LAMS),
    Row("token", "PB-L2, λ per token", "PB-L2", TOKEN, lams=TOKEN_LAMS),
    Row("PB-IDF-L2", "PB-IDF-L2", "PB-IDF-L2", lams=LAMS),
    Row("unit", "PB-IDF-L2, unit prior", "PB-IDF-L2", {"unit_prior": True}, lams=LAMS),
    Row("PB-neg", "PB-neg, solved", "PB-neg", lams=LAMS),
    Row("sgd", "PB-neg, 40 epochs of stable SGD", "PB-neg", SGD, lams=LAMS),
    Row("paper-kl", "PB-neg, the paper's KL", "PB-neg", {"kl": "paper"}, lams=LAMS),
    Row("neg-subsample", "PB-neg, subsample 1e-4", "PB-neg", {"subsample": 1e-4}, lams=LAMS),
    Row("neg-token", "PB-neg, λ per token", "PB-neg", NEG_TOKEN, lams=TOKEN_LAMS),
    Row("w-PB-neg", "w-PB-neg, T/freq", "w-PB-neg", {"prior_variance": "paper"}, lams=TWO_LAMS),
    Row("constant", "w-PB-neg, constant prior variance", "w-PB-neg",
        {"prior_variance": "paper", "prior_shape": "constant"}, lams=TWO_LAMS),
    Row("PV-DBOW", "PV-DBOW from the vectors, 20 epochs", "PV-DBOW", {"n_epochs": 20}),
    Row("scratch", "PV-DBOW from scratch, 20 epochs", "PV-DBOW",
        {"n_epochs": 20, "start": "scratch"}),
    Row("Doc2Vec", "gensim Doc2Vec (dbow), 20 epochs", "Doc2Vec"),
]  # fmt: skip
SETS = ("20news", "imdb", "subj", "mr", "trec", "stsb")
LONG = ("20news", "imdb")
CURVE_SETS = ("subj", "mr", "trec")
CURVES = [
    Row("PB-neg-curve", "PB-neg", "PB-neg", NEG_TOKEN, lams=TOKEN_LAMS),
    Row("PB-01-curve", "PB-01", "PB-01", TOKEN, lams=TOKEN_LAMS),
]
CHEAP = ("PB-L2", "largest", "sum", "subsample", "token", "PB-IDF-L2", "unit", "PB-neg")
ON_GPU = ("PB-neg", "paper-kl", "neg-subsample", "neg-token", "w-PB-neg", "constant",
          "PB-neg-curve")  # fmt: skip
SLOW = {"PV-DBOW": 60, "Doc2Vec": 40, "PB-01": 20, "w-PB-neg": 20, "PB-neg": 10}
SIZES = {"imdb": 30, "20news": 15, "subj": 3, "mr": 3, "stsb": 1, "trec": 1}
SPLIT_KEY = "splits"


class Case(NamedTuple):
    """One cell: a row on a dataset, with the values of lambda to choose from, over some seeds."""

    row: Row
    dataset: str
    lams: tuple
    seeds: tuple = (0,)
    threads: int = 1
    device: str | None = None
    part: str = "rows"

    @property
    def cost(self) -> float:
        """Roughly how long it takes, to order them."""
        own = 80 if self.row.name == "sgd" else SLOW.get(self.row.method, 1)
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
        self.trained_ = {text: i for i, text in enumerate(texts)}
        return self

    def transform(self, texts):
        known = self.trained_
        return np.array([
            self.model_.dv.vectors[known[text]] if text in known
            else self.model_.infer_vector(tokenise_paper(text))
            for text in texts
        ])  # fmt: skip


def made(row, source, lam, seed):
    """`rows.features`, and those of gensim's rival."""
    if row.method != "Doc2Vec":
        return rows.features(row, source, lam, seed)
    vectorizer = Doc2VecVectors(source.words.n_dims, source.n_jobs)
    return rows.from_estimator(vectorizer, source.train_texts, source.test_texts)


@lru_cache(1)
def words():
    return pacsent.load("english")


@lru_cache(2)
def prepared(name, folder, threads, device):
    dataset = datasets.load(name, folder)
    if name == "stsb":
        return dataset
    return evaluation.Prepared(dataset, words(), n_jobs=threads, device=device)


def score(case: Case, folder) -> dict:
    """Test accuracy of a case (Spearman correlation for pairs), what was chosen, and its curve."""
    started = time.perf_counter()
    row, device = case.row, case.device
    on = prepared(case.dataset, folder, case.threads, device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case.dataset == "stsb":
            some = Row(row.name, row.label, row.method, row.params, lams=case.lams)
            found = evaluation.similarity(some, on, words(), n_jobs=case.threads, device=device)
            curve = [{"lam": p["lam"], "cv_accuracy": p["train"]["spearman"]}
                     for p in found["lam_curve"]]  # fmt: skip
            result = {"value": found["spearman"], "accuracies": [], "lam": found["lam"]}
        else:
            protocol = evaluation.Protocol(
                case.lams or (None,), case.seeds, n_jobs=case.threads, device=device
            )
            found = evaluation.run_row(row, on, protocol, made)
            curve = found.lam_curve
            result = {"value": found.accuracy, "lam": found.scores[0]["lam"],
                      "accuracies": [s["accuracy"] for s in found.scores]}  # fmt: skip
    seconds = round(time.perf_counter() - started, 1)
    print(f"{row.label} on {case.dataset}: {result['value']:.4f}, {seconds:.0f} s", flush=True)
    return {**result, "curve": curve, "seconds": seconds}


def computed(cases, options) -> dict:
    """The scores of all cases; what is not done when the time is up stays open."""
    end = time.monotonic() + 60 * options.minutes
    # slow rows on long datasets have threads and processes of their own: nothing waits for them
    sizes = {"many": n_threads(options.n_jobs), "long": sum(case.threads > 1 for case in cases)}
    sizes["device"] = options.gpu_processes * (options.device is not None)
    pools = {
        name: ProcessPoolExecutor(size, mp_context=get_context("spawn"))
        for name, size in sizes.items()
        if size
    }
    work = {}
    for number in sorted(range(len(cases)), key=lambda i: cases[i].cost, reverse=True):
        case = cases[number]
        place = "device" if case.device else "long" if case.threads > 1 else "many"
        work[number] = pools[place].submit(score, case, options.data)
    wait(work.values(), timeout=max(0.0, end - time.monotonic()))
    found = {}
    for number, future in work.items():
        if not future.done() or future.cancelled():
            continue
        if (error := future.exception()) is not None:  # the other cells are not lost with it
            print(f"{cases[number].row.label} on {cases[number].dataset} failed: {error!r}")
        else:
            found[number] = future.result()
    for pool in pools.values():
        for process in list(pool._processes.values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
    return found


def all_cases(options) -> list[Case]:
    """Every cell, the splits of SUBJ, and the curves, one value of lambda each."""
    cases = []
    several = max(1, min(n_threads(options.n_jobs), options.threads_each))
    for row, name in itertools.product(ROWS, options.only):
        if row.method == "Doc2Vec" and name == "stsb":
            continue
        slow = row.name == "sgd" and name in LONG
        device = options.device if row.name in ON_GPU else None
        slow_row = row.method in SLOW and name in LONG and not device
        threads = several if slow_row and name == "imdb" else 2 if slow_row else 1
        cases.append(Case(row, name, LONG_SGD_LAMS if slow else row.lams, (0,), threads, device))
    if "subj" in options.only:
        seeds = tuple(range(options.splits))
        for row in ROWS:
            if row.name in CHEAP and options.splits > 1:
                device = options.device if row.name in ON_GPU else None
                cases.append(Case(row, "subj", row.lams, seeds, 1, device, SPLIT_KEY))
    for row, name in itertools.product(CURVES, CURVE_SETS):
        if name in options.only:
            device = options.device if row.name in ON_GPU else None
            cases += [Case(row, name, (lam,), (0,), 1, device, "curve") for lam in TOKEN_LAMS]
    return cases


# ------------------------------------------------------------------------------------------------
# Tables and the figure
# ------------------------------------------------------------------------------------------------


def table_of_rows(cases, found):
    lines = []
    for row in ROWS:
        line = {"row": row.label, **dict.fromkeys(SETS)}
        seconds = 0.0
        for number, case in enumerate(cases):
            if case.part == "rows" and case.row is row and number in found:
                line[case.dataset] = found[number]["value"]
                seconds += found[number]["seconds"]
        lines.append({**line, "seconds": round(seconds, 1)})
    return lines


def table_of_splits(cases, found):
    lines = []
    for number, case in enumerate(cases):
        if case.part == SPLIT_KEY and number in found:
            scores = np.array(found[number]["accuracies"])
            lines.append({
                "row": case.row.label, "splits": len(scores), "mean": float(scores.mean()),
                "sd of a split": float(scores.std(ddof=1)),
                "standard error": float(scores.std(ddof=1) / np.sqrt(len(scores))),
                "seeds 0-2": float(scores[:3].mean()),
            })  # fmt: skip
    return lines


def table_of_lams(cases, found):
    """Per-token rows: each value of lambda, with which is chosen, and whether it ends the grid."""
    lines = []
    for number, case in enumerate(cases):
        if number not in found or case.row.params.get("lam_mode") != "per-token":
            continue
        result = found[number]
        if case.part == "curve":  # one value of lambda a case
            lines.append({"dataset": case.dataset, "row": case.row.label, "λ": case.lams[0],
                          "cross-validated": None, "test": result["value"]})  # fmt: skip
        elif case.part == "rows":
            for point in result["curve"]:
                lines.append({"dataset": case.dataset, "row": case.row.label, "λ": point["lam"],
                              "cross-validated": point["cv_accuracy"],
                              "test": result["value"] if point["lam"] == result["lam"] else None,
                              })  # fmt: skip
    return lines


def figure(lines):
    """docs/figures/lambda.png: zero-one loss and log-loss against lambda, a panel a dataset."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = Figure(figsize=(9.6, 3.4), dpi=110)
    FigureCanvasAgg(shown)
    names = [name for name in CURVE_SETS if any(line["dataset"] == name for line in lines)]
    for axis, name in zip(shown.subplots(1, len(names), squeeze=False)[0], names):
        for row, colour in zip(CURVES, ("#1b6e9c", "#d95f02")):
            points = sorted((line["λ"], line["test"]) for line in lines
                            if (line["dataset"], line["row"]) == (name, row.label))  # fmt: skip
            axis.plot(*zip(*points), marker="o", color=colour, label=row.label)
        axis.set(xscale="log", xlabel="λ per token", title=TITLES[name])
    axis.legend(frameon=False)
    shown.axes[0].set_ylabel("test accuracy")
    shown.tight_layout()
    path = Path(__file__).parents[1] / "docs" / "figures" / "lambda.png"
    shown.savefig(path, metadata={"Software": None})


def run(options):
    """Score every case and write the four files."""
    started = time.perf_counter()
    cases = all_cases(options)
    found = computed(cases, options)
    open_cells = [f"{c.row.label} on {c.dataset} ({c.part})" for i, c in enumerate(cases)
                  if i not in found]  # fmt: skip
    summary = {"ratio": None, "vectors": "english", "device": options.device or "cpu",
               "seconds": round(time.perf_counter() - started), "cells": len(found),
               "cells not run": "; ".join(open_cells) or 0}  # fmt: skip
    lams = table_of_lams(cases, found)
    curves = [line for line in lams if line["cross-validated"] is None]
    parts = [
        (options.name, "What the paper mentions in passing: test accuracy (STS-B: Spearman), the "
         "English model's vectors", table_of_rows(cases, found)),
        (f"{options.name}-splits", "The same on SUBJ over random splits", table_of_splits(cases,
                                                                                        found)),
        (f"{options.name}-tokens", "λ per token: cross-validated accuracy (STS-B: Spearman on the "
         "training part), and the test score of the chosen λ",
         [line for line in lams if line["cross-validated"] is not None]),
        (f"{options.name}-curves", "Test accuracy against λ per token: zero-one loss and log-loss",
         curves),
    ]  # fmt: skip
    for name, title, lines in parts:
        if lines:
            finish("paper_options", lines, summary=summary, title=title, save=options.save,
                   name=name)  # fmt: skip


def main():
    parser = parser_for(__doc__, name="english")
    parser.add_argument("--n-jobs", type=int, help="Processes.  [default: all cores]")
    parser.add_argument("--threads-each", type=int, default=4,
                        help="Threads of a slow row on a long dataset.")  # fmt: skip
    parser.add_argument("--device", help="cuda: PB-neg and w-PB-neg, and their searches, on a GPU")
    parser.add_argument("--gpu-processes", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=600.0, help="Stop after so long.")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--figure", action="store_true", help="Draw the saved curves; no run.")
    options = parser.parse_args()
    if options.figure:
        saved = RESULTS / "paper_options" / f"{options.name}-curves.json"
        figure(json.loads(saved.read_text())["rows"])
    else:
        run(options)


if __name__ == "__main__":
    main()
