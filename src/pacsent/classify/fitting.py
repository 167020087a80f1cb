"""From rows and labels to one linear model: by evidence for few labels, by folds for many."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from pacsent.maths.gaussian_process import averaged, scales
from pacsent.maths.sparse_regressions import log_ratios, solve
from pacsent.maths.temperature import fit_temperature, log_loss, log_probabilities

CS = (1.0, 6.0, 36.0, 216.0)
DENSE_SCALES = (0.1, 0.2, 0.4, 0.8)
WEIGHTINGS = ("tf-idf", "naive-bayes", "both")
N_FOLDS = 5
FEW = 1e9  # classes * texts^3 up to which the Gaussian process is used
_HELD_OUT = 4000  # texts held out in all from where fewer of the folds are enough
_SIDE_BY_SIDE = 32  # problems that share one reading of the features
MOST_SELECTED = 10_000  # texts looked at to choose; the solution uses all of them


@dataclass(frozen=True)
class Labelled:
    """Rows of training texts with their classes and weights."""

    X: sparse.csr_matrix  # (n, n_features), tf-idf
    E: np.ndarray  # (n, n_dims)
    labels: np.ndarray  # (n,), 0 .. n_classes - 1
    n_classes: int
    weights: np.ndarray  # (n,)

    def take(self, rows: np.ndarray) -> "Labelled":
        weights = self.weights[rows]
        return Labelled(self.X[rows], self.E[rows], self.labels[rows], self.n_classes, weights)

    @property
    def columns(self) -> list[int]:
        """Classes that have a decision value: the second of two, or all."""
        return [1] if self.n_classes == 2 else list(range(self.n_classes))


@dataclass(frozen=True)
class Linear:
    """Decision values are X @ sparse + E @ dense + intercept; probabilities by the temperature."""

    sparse: np.ndarray  # (n_features, n_columns)
    dense: np.ndarray  # (n_dims, n_columns)
    intercept: np.ndarray  # (n_columns,)
    temperature: float
    report: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Candidates:
    """What is tried: every C with every scale of the vectors, under every weighting."""

    Cs: tuple[float, ...] = CS
    dense_scales: tuple[float, ...] = DENSE_SCALES
    weightings: tuple[str, ...] = WEIGHTINGS

    def pairs(self, has_dense: bool) -> np.ndarray:
        return np.array(list(product(self.Cs, self.dense_scales if has_dense else (1.0,))))

    @property
    def solved(self) -> list[str]:
        """Weightings that are solved; the rest are sums of these."""
        both = "both" in self.weightings
        return [w for w in WEIGHTINGS[:2] if both or w in self.weightings]


def is_few(n_texts: int, n_classes: int) -> bool:
    """Whether the Gaussian process is cheap enough."""
    return (1 if n_classes == 2 else n_classes) * float(n_texts) ** 3 <= FEW


# ------------------------------------------------------------------------------------------------
# few labels
# ------------------------------------------------------------------------------------------------


def fit_by_evidence(rows: Labelled, n_threads: int = 1) -> Linear:
    """A Gaussian process for each column, its scales averaged and not chosen."""
    K_sparse = (rows.X @ rows.X.T).toarray().astype(np.float64)
    K_dense = (rows.E @ rows.E.T).astype(np.float64)
    grid = scales(rows.labels.size, len(rows.columns), rows.E.shape[1] > 0)
    # threads inside matrix products lose their speed where cores are shared with other work
    with threadpool_limits(limits=1, user_api="blas"):
        found = averaged(
            K_sparse, K_dense, rows.labels, grid, n_classes=rows.n_classes, weights=rows.weights,
            n_threads=n_threads,
        )  # fmt: skip
    temperature = fit_temperature(found.left_out, rows.labels, rows.weights)
    return Linear(
        (rows.X.T @ found.sparse).astype(np.float32),
        (rows.E.T @ found.dense).astype(np.float32),
        found.intercept,
        temperature,
        {
            "selection": "evidence",
            "variances": found.best,
            "n_candidates": sum(map(len, grid)),
            "accuracy": _accuracy(found.left_out, rows),
            "confidences": _quantiles(found.left_out, temperature),
        },
    )


# ------------------------------------------------------------------------------------------------
# many labels
# ------------------------------------------------------------------------------------------------


def fit_by_folds(rows: Labelled, candidates: Candidates, n_threads: int, seed: int) -> Linear:
    """The candidate with the best accuracy on folds held out, solved on all rows."""
    rng = np.random.default_rng(seed)
    looked_at = rng.permutation(rows.labels.size)[:MOST_SELECTED]
    part = rows.take(np.sort(looked_at)) if looked_at.size < rows.labels.size else rows
    choice = select(part, candidates, n_threads, rng)
    model = fit_one(rows, choice, n_threads)
    return Linear(model.sparse, model.dense, model.intercept, choice["temperature"], choice)


def select(
    rows: Labelled, candidates: Candidates, n_threads: int, rng: np.random.Generator
) -> dict:
    """Try every candidate on folds; the chosen one with its temperature."""
    held_out = [held for _, held in folds_for(rows.labels, rng)]
    return choose(rows, candidates, held_out, n_threads)


def folds_for(labels: np.ndarray, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """(rows to learn from, rows to judge by) of each fold; fewer folds where texts are many."""
    folds = _folds(labels, rng)
    n_used = int(np.clip(-(-_HELD_OUT * N_FOLDS // labels.size), 1, N_FOLDS))
    return [(np.flatnonzero(folds != f), np.flatnonzero(folds == f)) for f in range(n_used)]


def choose(
    rows: Labelled, candidates: Candidates, held_out: list[np.ndarray], n_threads: int
) -> dict:
    """The candidate that errs least on the rows of `held_out`, each learnt without them."""
    pairs = candidates.pairs(rows.E.shape[1] > 0)
    tested = np.concatenate(held_out)
    decisions = {w: _tried(rows, pairs, w, held_out, n_threads) for w in candidates.solved}
    if "both" in candidates.weightings:
        decisions["both"] = (decisions["tf-idf"] + decisions["naive-bayes"]) / 2
    labels, weights = rows.labels[tested], rows.weights[tested]
    table: list[dict] = []
    best: Any = None
    for weighting in candidates.weightings:
        for at, (C, scale) in enumerate(pairs):
            values = decisions[weighting][:, :, at]
            hits = predicted(values) == labels
            accuracy = float((weights * hits).sum() / weights.sum())
            loss = log_loss(values, labels, weights)
            row = {
                "weighting": weighting, "C": float(C), "dense_scale": float(scale),
                "accuracy": accuracy, "n_errors": int((~hits).sum()),
            }  # fmt: skip
            table.append(row)
            if best is None or (accuracy, -loss) > best[0]:
                best = (accuracy, -loss), row, values
    _, row, values = best
    temperature = fit_temperature(values, labels, weights)
    return {
        **row,
        "selection": "folds",
        "n_candidates": len(table),
        "n_tested": int(tested.size),
        "temperature": temperature,
        "confidences": _quantiles(values, temperature),
        "candidates": table,
    }


def fit_one(rows: Labelled, choice: dict, n_threads: int = 1) -> Linear:
    """Solve one candidate on all rows, tightly."""
    both = choice["weighting"] == "both"
    weightings = WEIGHTINGS[:2] if both else (choice["weighting"],)

    def work(task):
        weighting, classes = task
        X, r = _weighted(rows, weighting, classes[0], np.arange(rows.labels.size))
        found = solve(
            X, rows.E, rows.labels, np.full(len(classes), choice["C"]),
            np.full(len(classes), choice["dense_scale"]), positive=classes,
            text_weights=rows.weights, tol=5e-4, max_epochs=100,
        )  # fmt: skip
        w = found.sparse_weights if r is None else found.sparse_weights * r[:, None]
        return w, found.dense_weights, found.intercepts

    tasks = [(w, some) for w in weightings for some in _together(rows.columns, w)]
    solved = _in_threads(work, tasks, n_threads)

    def mean(part):
        of_weighting = [
            np.concatenate(
                [found[part] for (w, _), found in zip(tasks, solved) if w == weighting], axis=-1
            )
            for weighting in weightings
        ]
        return sum(of_weighting) / np.float32(len(weightings))

    return Linear(mean(0), mean(1), mean(2).astype(np.float64), 1.0)


def _tried(rows, pairs, weighting, held_out, n_threads):
    """Decision values of the rows held out under every pair, (n_tested, n_columns, n_pairs).

    Under tf-idf all folds, classes and pairs have the same features, and stand side by side;
    naive Bayes' ratios are another for each fold and class.
    """
    folds = np.full(rows.labels.size, len(held_out))
    for f, some in enumerate(held_out):
        folds[some] = f
    n_pairs = len(pairs)
    problems = list(product(range(len(held_out)), rows.columns, range(n_pairs)))
    group = _SIDE_BY_SIDE if weighting == "tf-idf" else n_pairs
    tasks = [problems[i : i + group] for i in range(0, len(problems), group)]

    def work(problems):
        fold, classes, at = np.array(problems).T
        learnt_from = np.flatnonzero(folds != fold[0])
        X, _ = _weighted(rows, weighting, classes[0], learnt_from)
        found = solve(
            X, rows.E, rows.labels, pairs[at, 0], pairs[at, 1], positive=classes, left_out=fold,
            folds=folds, text_weights=rows.weights, tol=2e-3, max_epochs=30,
        )  # fmt: skip
        return [
            found.take(fold == f).decisions(X[held_out[f]], rows.E[held_out[f]])
            for f in np.unique(fold)
        ]

    values = {f: [] for f in range(len(held_out))}
    for some, found in zip(tasks, _in_threads(work, tasks, n_threads)):
        for f, part in zip(sorted({problem[0] for problem in some}), found):
            values[f].append(part)
    n_columns = len(rows.columns)
    return np.concatenate(
        [np.concatenate(v, axis=1).reshape(-1, n_columns, n_pairs) for v in values.values()]
    )


def _together(classes, weighting):
    """Classes that are solved side by side."""
    size = _SIDE_BY_SIDE if weighting == "tf-idf" else 1
    return [classes[i : i + size] for i in range(0, len(classes), size)]


def _in_threads(work, tasks, n_threads):
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, tasks))


def _weighted(rows, weighting, column, learnt_from):
    """The sparse part times naive Bayes' ratios (and these), or as it is (and None)."""
    if weighting == "tf-idf":
        return rows.X, None
    r = np.abs(log_ratios(rows.X[learnt_from], rows.labels[learnt_from] == column))
    data = rows.X.data * r[rows.X.indices].astype(np.float32)
    # texts keep their length on average, so that C means the same under either weighting
    of_row = np.repeat(np.arange(rows.labels.size), np.diff(rows.X.indptr))
    squares = np.bincount(of_row, data.astype(np.float64) ** 2, rows.labels.size)
    factor = 1.0 / np.sqrt(max(squares[learnt_from].mean(), 1e-30))
    data *= np.float32(factor)
    r = (r * factor).astype(np.float32)
    return sparse.csr_matrix((data, rows.X.indices, rows.X.indptr), shape=rows.X.shape), r


def predicted(decisions: np.ndarray) -> np.ndarray:
    """The class of each row of decision values."""
    if decisions.shape[1] == 1:
        return (decisions[:, 0] > 0).astype(np.int64)
    return decisions.argmax(axis=1)


def _accuracy(decisions, rows):
    hits = predicted(decisions) == rows.labels
    return float((rows.weights * hits).sum() / rows.weights.sum())


def _quantiles(decisions, temperature):
    """How sure it is of texts it has not seen: 201 quantiles of the largest probability."""
    confidence = np.exp(log_probabilities(decisions, temperature).max(axis=1))
    return np.quantile(confidence, np.linspace(0, 1, 201)).tolist()


def _folds(labels, rng):
    """A fold for each row, every class spread over all of them."""
    folds = np.empty(labels.size, np.int64)
    for c in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == c))
        folds[rows] = (np.arange(rows.size) + rng.integers(N_FOLDS)) % N_FOLDS
    return folds
