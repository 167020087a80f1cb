"""The classifier's coordinate ascent against scikit-learn's solvers: fit time and accuracy.

    python benchmarks/solver.py [--shapes subj-200 ...] [--ways ...] [--seeds 5] [--jobs N] [--save]

The same search (folds, candidates, selection rule, calibration) is run with every way to solve its
logistic regressions; only `pacsent.classify.fitting.solve` differs. Ways, all of them public
solvers of scikit-learn:

- dual: LogisticRegression(solver="liblinear", dual=True), one against the rest;
- primal: the same with dual=False (trust-region Newton);
- lbfgs: one against the rest in float32, every C started at the solution of the C before;
- softmax: one multinomial model for all classes by L-BFGS, started likewise; naive Bayes, whose
  features differ by class, by `dual`.

Training texts and held-out texts are both from the training part of a dataset, so that no test
text chooses a solver. Every seed draws its own texts, on which our solver and another one are run
one after the other, in an order that alternates. Seconds are CPU seconds of one thread, medians
over the seeds; scores are means of held-out accuracy (micro F1 with several labels per text).
"search" are the seconds in the solver, "fit" those of the whole `TextClassifier.fit` from raw
text. Of 1,000 classes with 20 texts each only the time of 16 classes is measured, for one C.
"""

import os

# Before NumPy is imported: threads that wait in loops would count as CPU time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import time
import warnings
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sklearn
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from harness import finish, parser_for, run_jobs
from pacsent import TextClassifier, datasets
from pacsent import load as open_model
from pacsent.classify import fitting
from pacsent.classify.solvers.sparse_regressions import Solutions
from pacsent.paper import benchmark_datasets
from target_data import load_goemotions

MAX_HELD_OUT = 3000  # texts that accuracy is measured on
# Tolerances of the search and of the final solution, as loose as accuracy allows.
TOLERANCES = {
    "dual": (0.1, 0.03),
    "primal": (0.03, 0.01),
    "lbfgs": (1e-3, 3e-4),
    "softmax": (1e-3, 3e-4),
}


class Shape(NamedTuple):
    """Training data of a size that people have."""

    dataset: str
    n_texts: int | None  # None: four fifths of the training part
    n_classes: int | None = None  # None: all of them


SHAPES = {
    "subj": Shape("subj", None),
    "mr": Shape("mr", None),
    "trec": Shape("trec", None),
    "banking77-12": Shape("banking77", None, 12),
    "books": Shape("books", None),
    "20news-1000": Shape("20news", 1000),
    "goemotions-2000": Shape("goemotions", 2000),
    "200-in-2": Shape("subj", 200),
    "500-in-12": Shape("banking77", 500, 12),
    "1000-in-77": Shape("banking77", 1000),
}
MANY = "20-each-in-1000"
N_TIMED_CLASSES = 16


# ---- data ----------------------------------------------------------------------------------------


@cache
def load_training_part(dataset, data):
    """Texts and labels: numbers of classes, (n,), or whether each text has each, (n, n_classes)."""
    if dataset == "banking77":
        texts, names = datasets.load_banking("train")
        return np.array(texts, object), np.unique(names, return_inverse=True)[1]
    if dataset == "books":
        passages = datasets.load_books()
        names = [passage.author for passage in passages]
        texts = [passage.text for passage in passages]
        return np.array(texts, object), np.unique(names, return_inverse=True)[1]
    if dataset == "goemotions":
        emotions = load_goemotions(Path(data) / "datasets")
        return np.array(emotions.texts["train"], object), emotions.targets["train"]
    split = benchmark_datasets.load(dataset, Path(data) / "datasets").split(0)
    return np.array(split.train_texts, object), np.asarray(split.train_labels)


def draw(shape, data, seed):
    """(texts, labels, held-out texts, their labels) of one seed."""
    texts, labels = load_training_part(shape.dataset, data)
    rng = np.random.default_rng([seed, 20])
    if shape.n_classes is not None:
        classes = np.sort(rng.permutation(np.unique(labels))[: shape.n_classes])
        is_chosen = np.isin(labels, classes)
        texts, labels = texts[is_chosen], np.searchsorted(classes, labels[is_chosen])
    order = rng.permutation(len(texts))
    n_train = min(shape.n_texts or len(texts) * 4 // 5, len(texts) * 4 // 5)
    train = order[:n_train]
    held_out = order[n_train:][:MAX_HELD_OUT]
    if labels.ndim == 2:
        # a label must occur in several texts to be learnt
        labels = labels[:, labels[train].sum(axis=0) >= 5]
    else:
        train = _with_two_of_each(train, order[n_train:], labels)
        held_out = np.setdiff1d(order[n_train:], train)[:MAX_HELD_OUT]
    return list(texts[train]), labels[train], list(texts[held_out]), labels[held_out]


def _with_two_of_each(train, others, labels):
    """`train` and, of classes with fewer than two texts there, enough of the others."""
    added = []
    for c in np.unique(labels):
        n_missing = 2 - np.count_nonzero(labels[train] == c)
        if n_missing > 0:
            added.append(others[labels[others] == c][:n_missing])
    return np.concatenate([train, *added])


# ---- scikit-learn's solvers ----------------------------------------------------------------------


def solve_by(way):
    """A function like `sparse_regressions.solve` that asks scikit-learn."""

    def solve(
        X, E, labels, Cs, dense_scales, *, positive, left_out=None, folds=None, text_weights=None,
        tol, max_epochs,
    ):  # fmt: skip
        n_rows, n_features = X.shape
        n_dims = E.shape[1]
        weights = np.ones(n_rows) if text_weights is None else np.asarray(text_weights)
        left_out = np.full(len(Cs), -1) if left_out is None else np.asarray(left_out)
        is_search = tol > 1e-3
        W = np.zeros((n_features + n_dims, len(Cs)), np.float32)
        intercepts = np.zeros(len(Cs), np.float32)

        # columns that share a design matrix: the same rows, the same scale of the vectors
        keys = list(zip(left_out.tolist(), np.asarray(dense_scales).tolist()))
        for key in sorted(set(keys)):
            fold, dense_scale = key
            columns = np.array([at for at, other in enumerate(keys) if other == key])
            is_row = weights > 0
            if folds is not None:
                is_row &= np.asarray(folds) != fold
            parts = X[is_row], sparse.csr_matrix(E[is_row] * np.float32(dense_scale))
            design = _Design(sparse.hstack(parts, format="csr"), weights[is_row])
            chosen = labels[is_row]
            jobs = [(int(positive[at]), float(Cs[at]), at) for at in columns]
            work = _solve_softmax if way == "softmax" else _solve_each
            solutions = work(design, chosen, jobs, way, TOLERANCES[way][0 if is_search else 1])
            for at, coef, intercept in solutions:
                W[:, at] = coef
                W[n_features:, at] *= np.float32(dense_scale)
                intercepts[at] = intercept
        return Solutions(W[:n_features], W[n_features:], intercepts, 0)

    return solve


class _Design:
    """A design matrix in the forms that solvers ask for."""

    def __init__(self, Z, weights):
        self.Z = Z
        self.weights = None if (weights == 1).all() else weights

    @property
    def double(self):
        if not hasattr(self, "_double"):
            self._double = self.Z.astype(np.float64)
        return self._double


def _signs(labels, c):
    return labels[:, c] if labels.ndim == 2 else labels == c


def _solve_each(design, labels, jobs, way, tol):
    """One regression for each job (class, C, column), all C of a class one after the other."""
    settings = {
        "dual": {"solver": "liblinear", "dual": True, "max_iter": 100},
        "primal": {"solver": "liblinear", "dual": False, "max_iter": 100},
        "lbfgs": {"solver": "lbfgs", "warm_start": True, "max_iter": 200},
    }[way]
    Z = design.Z if way == "lbfgs" else design.double
    for c, of_class in groupby(sorted(jobs), lambda job: job[0]):
        y = _signs(labels, c)
        model = LogisticRegression(tol=tol, random_state=0, **settings)
        for _, C, at in of_class:
            if y.all() or not y.any():  # the rows of a fold may have no text of a class
                yield at, np.float32(0.0), 10.0 if y.all() else -10.0
                continue
            model.set_params(C=C).fit(Z, y, design.weights)
            yield at, model.coef_[0], model.intercept_[0]


def _solve_softmax(design, labels, jobs, way, tol):
    """One multinomial model for all classes of the same C."""
    n_classes = len({c for c, _, _ in jobs})
    if labels.ndim == 2 or n_classes < 3:
        other = "lbfgs" if labels.ndim == 2 else "dual"
        yield from _solve_each(design, labels, jobs, other, TOLERANCES[other][0])
        return
    model = LogisticRegression(solver="lbfgs", warm_start=True, tol=tol, max_iter=200)
    for C, of_C in groupby(sorted(jobs, key=lambda job: job[1]), lambda job: job[1]):
        model.set_params(C=C).fit(design.Z, labels, design.weights)
        place = {c: at for at, c in enumerate(model.classes_)}
        for c, _, at in of_C:
            if c in place:
                yield at, model.coef_[place[c]], model.intercept_[place[c]]
            else:
                yield at, np.float32(0.0), -10.0


@contextmanager
def solver(way):
    """The search with another solver; yields the seconds spent in it."""
    own_solve = fitting.solve
    own_tasks = fitting._make_tasks
    used = {"seconds": 0.0}
    solve = own_solve if way == "pacsent" else solve_by(way)

    def timed(X, E, labels, Cs, *others, **options):
        start = time.process_time()
        solutions = solve(X, E, labels, Cs, *others, **options)
        used["seconds"] += time.process_time() - start
        return solutions

    def tasks_of_folds(weighting, problems, are_rare):
        """Everything that can share a design in one call."""
        if weighting != "tf-idf":
            return own_tasks(weighting, problems, are_rare)
        by_fold = groupby(problems, lambda problem: problem.fold)
        return [fitting._Task(weighting, list(part)) for _, part in by_fold]

    fitting.solve = timed
    if way != "pacsent":
        fitting._make_tasks = tasks_of_folds
    try:
        with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
            yield used
    finally:
        fitting.solve = own_solve
        fitting._make_tasks = own_tasks


# ---- measuring -----------------------------------------------------------------------------------


def score(model, texts, labels):
    """Accuracy; with several labels per text, micro F1."""
    if labels.ndim == 1:
        return float(np.mean(model.predict(texts) == labels))
    given = model.predict(texts) > 0
    return float(2 * (given & labels).sum() / (given.sum() + labels.sum()))


def measure(job):
    """Seconds and score of our solver and of another way, on the texts of one seed."""
    name, seed, way, data = job
    warnings.simplefilter("ignore")
    work = time_many_classes if name == MANY else fit_and_score
    order = ["pacsent", way] if seed % 2 == 0 else [way, "pacsent"]
    results = {each: work(name, seed, each, data) for each in order}
    print(json.dumps({"shape": name, "seed": seed, "way": way} | results), flush=True)
    return results


def fit_and_score(name, seed, way, data):
    """A whole fit, and its score on held-out texts."""
    texts, labels, held_out, truth = draw(SHAPES[name], data, seed)
    with solver(way) as used:
        start = time.process_time()
        model = TextClassifier(_words(), n_jobs=1).fit(texts, labels.astype(int))
        seconds = time.process_time() - start
    return {"fit": seconds, "search": used["seconds"], "score": score(model, held_out, truth)}


def time_many_classes(name, seed, way, data):
    """Seconds for one C and 1,000 classes, from those of 16: texts of words at random."""
    n_classes, n_each, n_features, n_words = 1000, 20, 50_000, 30
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_classes), n_each)
    n_texts = labels.size
    # Half of a text's words are from the 25 of its class.
    words = rng.integers(n_features, size=(n_texts, n_words))
    words[:, ::2] = 25 * labels[:, None] + rng.integers(25, size=(n_texts, n_words // 2))
    values = np.full(n_texts * n_words, n_words**-0.5, np.float32)
    starts = np.arange(0, n_texts * n_words + 1, n_words)
    X = sparse.csr_matrix((values, words.ravel().astype(np.int32), starts), (n_texts, n_features))
    centers = rng.normal(size=(n_classes, 512))
    E = (centers[labels] + rng.normal(size=(n_texts, 512))).astype(np.float32) / 32

    Cs, scales = np.full(N_TIMED_CLASSES, 6.0), np.full(N_TIMED_CLASSES, 0.2)
    how = {"positive": np.arange(N_TIMED_CLASSES), "tol": 2e-3, "max_epochs": 30}
    with solver(way) as used:
        fitting.solve(X, E, labels, Cs, scales, **how)
    seconds = used["seconds"] * n_classes / N_TIMED_CLASSES
    return {"fit": seconds, "search": seconds, "score": None}


@cache
def _words():
    return open_model("english")


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--shapes", nargs="*", default=[*SHAPES, MANY])
    parser.add_argument("--ways", nargs="*", default=list(TOLERANCES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    given = parser.parse_args()
    # compile before anything is timed
    texts, labels = ["good", "bad", "so"] * 10, [0, 1, 2] * 10
    TextClassifier(_words(), selection="folds").fit(texts, labels).predict(texts)
    pairs = [(name, way) for name in given.shapes for way in given.ways if is_different(name, way)]
    jobs = [(*pair, seed) for pair in pairs for seed in range(given.seeds)]
    jobs = [(name, seed, way, str(given.data)) for name, way, seed in jobs]
    results = run_jobs(measure, jobs, given.jobs)
    rows = []
    for name, way in pairs:
        of_pair = [result for job, result in zip(jobs, results) if job[::2] == (name, way)]
        rows.append(summarize(name, way, of_pair))
    ratios = {f"{row['shape']}, {row['way']}": round(row["fit ratio"], 2) for row in rows}
    finish(
        "solver", rows, title="Fit with our solver and with scikit-learn's", summary=ratios,
        save=given.save, name=given.name,
    )  # fmt: skip


def is_different(name, way):
    """Whether a way is one of its own: softmax needs more than two classes, one for each text."""
    one_against_rest = ("subj", "mr", "200-in-2", "goemotions-2000", MANY)
    return way != "softmax" or name not in one_against_rest


def summarize(name, way, of_pair):
    """One row: medians of seconds, means of scores, paired differences from our solver."""
    fit, search = (
        np.array([[result[each][key] for result in of_pair] for each in ("pacsent", way)])
        for key in ("fit", "search")
    )
    n = len(of_pair)
    row = {
        "shape": name,
        "way": way,
        "seeds": n,
        "our fit CPU s": float(np.median(fit[0])),
        "fit CPU s": float(np.median(fit[1])),
        "fit ratio": float(np.median(fit[1] / fit[0])),
        "search ratio": float(np.median(search[1] / search[0])),
        "our score": None,
        "score": None,
        "difference": None,
        "standard error": None,
    }
    if name != MANY:
        ours, theirs = (
            np.array([result[each]["score"] for result in of_pair]) for each in ("pacsent", way)
        )
        difference = theirs - ours
        row["our score"] = float(ours.mean())
        row["score"] = float(theirs.mean())
        row["difference"] = float(difference.mean())
        if n > 1:
            row["standard error"] = float(difference.std(ddof=1) / np.sqrt(n))
    return row


if __name__ == "__main__":
    main()
