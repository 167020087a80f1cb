"""TextClassifier with few labels, with the Gaussian process and without: accuracy and log-loss.

    python benchmarks/few_labels.py [--sets subj ...] [--labels 20 50 100 300] [--draws 20]
        [--jobs N] [--save]

Ways to fit:

- process: as `TextClassifier` does by default, a Gaussian process below 80 texts, and from there on
  its mean with the candidates that have the least loss on folds;
- folds: as `TextClassifier` does with many labels, the candidates with the fewest errors on folds;
- losses: the mean of the eight candidates with the least loss on folds;
- wide: the mean of the sixteen candidates with the least loss, of which some have larger scales of
  the vectors.

Labels are drawn from the training part of a dataset, as many of each class, and the other texts of
the training part are what accuracy is measured on (at most 2,000): no test text chooses how the
classifier is fitted. All ways get the same draws; differences and their standard errors are paired
over draws. Where a set has too many classes for the process at a number of labels, there is no row.
"""

import os

# Before NumPy is imported: threads that wait in loops would count as CPU time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
import warnings
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import numpy as np

from harness import finish, parser_for, run_jobs
from pacsent import TextClassifier, datasets
from pacsent import load as open_model
from pacsent.classify import fitting
from pacsent.paper import benchmark_datasets

SETS = ["subj", "mr", "imdb", "trec", "20news", "books", "banking77-12"]
WAYS = ("process", "folds", "losses", "wide")
WIDE = {"Cs": (1.0, 6.0, 36.0, 216.0), "dense_scales": (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)}
N_AVERAGED = {"losses": 8, "wide": 16}
MAX_HELD_OUT = 2000


@cache
def load_training_part(name, data):
    """Texts and the numbers of their classes."""
    if name == "books":
        passages = datasets.load_books()
        texts = [passage.text for passage in passages]
        names = [passage.author for passage in passages]
    elif name == "banking77-12":
        all_texts, all_names = datasets.load_banking("train")
        chosen = set(np.random.default_rng(12).permutation(np.unique(all_names))[:12].tolist())
        rows = [row for row, intent in enumerate(all_names) if intent in chosen]
        texts = [all_texts[row] for row in rows]
        names = [all_names[row] for row in rows]
    else:
        split = benchmark_datasets.load(name, Path(data) / "datasets").split(0)
        texts, names = split.train_texts, split.train_labels
    return np.array(texts, object), np.unique(names, return_inverse=True)[1]


def draw(name, data, n, seed):
    """n labelled texts, the classes as even as they can be, and other texts of the same set."""
    texts, labels = load_training_part(name, data)
    rng = np.random.default_rng([seed, n])
    classes = np.unique(labels)
    n_of_class = np.full(classes.size, n // classes.size)
    n_of_class[rng.permutation(classes.size)[: n - n_of_class.sum()]] += 1
    rows = [rng.permutation(np.flatnonzero(labels == c))[:k] for c, k in zip(classes, n_of_class)]
    train = rng.permutation(np.concatenate(rows))
    others = rng.permutation(np.setdiff1d(np.arange(len(texts)), train))[:MAX_HELD_OUT]
    return list(texts[train]), labels[train], list(texts[others]), labels[others]


def fit_by_losses(n_averaged, rows, candidates, n_threads, groups=None, copies=None):
    """A stand-in for `fitting.fit_by_folds`: equal weights for those with the least loss."""
    part, folds, chosen = fitting.selected(rows, rows.labels, groups, copies)
    tried = fitting.try_all(part, candidates, folds, n_threads)
    best = np.argsort(tried.losses(), kind="stable")[:n_averaged]
    shares = tried.shares(best, 1.0)
    model = fitting.fit_mixture(rows, tried.table, shares, n_threads)
    values = tried.values @ shares
    report = tried.table[int(best[0])] | fitting._judged(values, part, tried.tested)
    report |= {"selection": "folds", "n_candidates": len(tried.table)}
    return fitting.replace(model, report=report, left_out=(chosen[tried.tested], values))


@contextmanager
def fitted_by(way):
    """TextClassifier with another way to fit few labels."""
    max_cost, fit_by_folds = fitting.MAX_PROCESS_COST, fitting.fit_by_folds
    if way != "process":
        fitting.MAX_PROCESS_COST = 0.0
    if way in N_AVERAGED:
        fitting.fit_by_folds = partial(fit_by_losses, N_AVERAGED[way])
    try:
        yield
    finally:
        fitting.MAX_PROCESS_COST, fitting.fit_by_folds = max_cost, fit_by_folds


def measure(job):
    """Accuracy, log-loss and CPU seconds of every way on one draw."""
    name, n, seed, data = job
    warnings.simplefilter("ignore")
    texts, labels, held_out, truth = draw(name, data, n, seed)
    results = {}
    for way in np.roll(WAYS, seed).tolist():
        scales = WIDE if way == "wide" else {}
        with fitted_by(way):
            start = time.process_time()
            model = TextClassifier(_words(), n_jobs=1, **scales).fit(texts, labels)
            seconds = time.process_time() - start
        proba = model.predict_proba(held_out)
        right = proba[np.arange(truth.size), truth]
        results[way] = {
            "accuracy": float(np.mean(proba.argmax(axis=1) == truth)),
            "loss": float(-np.log(np.maximum(right, 1e-12)).mean()),
            "seconds": seconds,
        }
    return results


@cache
def _words():
    return open_model("english")


def summarize(name, n, draws):
    """One row for each way to fit; differences are those of the process from that way."""
    accuracy, loss, seconds = (
        {way: np.array([draw[way][key] for draw in draws]) for way in WAYS}
        for key in ("accuracy", "loss", "seconds")
    )
    rows = []
    for way in WAYS:
        gain = accuracy["process"] - accuracy[way]
        loss_gain = loss[way] - loss["process"]
        rows.append({
            "set": name,
            "labels": n,
            "draws": len(draws),
            "fitted by": way,
            "accuracy": float(accuracy[way].mean()),
            "gain of process": float(gain.mean()),
            "standard error": standard_error(gain),
            "log-loss": float(loss[way].mean()),
            "log-loss gain": float(loss_gain.mean()),
            "its standard error": standard_error(loss_gain),
            "CPU s": float(np.median(seconds[way])),
        })  # fmt: skip
    return rows


def standard_error(values):
    """Of the mean; None for one value."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else None


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--labels", type=int, nargs="*", default=[20, 50, 100, 300])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    given = parser.parse_args()
    data = str(given.data)
    # compile before anything is timed
    texts, labels = ["good", "bad", "so"] * 10, [0, 1, 2] * 10
    TextClassifier(_words(), selection="folds").fit(texts, labels).predict(texts)
    sizes = []
    for name in given.sets:
        n_classes = load_training_part(name, data)[1].max() + 1
        sizes += [
            (name, n) for n in given.labels if n >= 2 * n_classes and fitting.is_few(n, n_classes)
        ]
    jobs = [(name, n, seed, data) for name, n in sizes for seed in range(given.draws)]
    results = run_jobs(measure, jobs, given.jobs)
    rows = []
    for name, n in sizes:
        draws = [result for job, result in zip(jobs, results) if job[:2] == (name, n)]
        rows += summarize(name, n, draws)
    gains = {
        f"{row['set']}, {row['labels']}": round(row["gain of process"], 4)
        for row in rows
        if row["fitted by"] == "folds"
    }
    finish(
        "few_labels", rows, title="Few labels: accuracy with the Gaussian process and without",
        summary=gains, save=given.save, name=given.name,
    )  # fmt: skip


if __name__ == "__main__":
    main()
