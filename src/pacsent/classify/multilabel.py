"""Several labels per text: one linear problem per label on shared features, solved together.

Every label has its own calibrated probability, sigmoid(slope * f + shift), and its own threshold:
`mixed_thresholds`.
"""

import numpy as np
from scipy.special import expit, log_expit, logit

from pacsent.classify import fitting

_AVERAGED = 4  # candidates that are averaged for each label
_COMMON = np.arange(2, 61) / 100  # thresholds for all labels that are tried
_MIXES = (0.0, 0.25, 0.5, 0.75, 1.0)  # weights of each label's own threshold that are tried


def fit(
    rows: fitting.Labelled,
    candidates: fitting.Candidates,
    n_threads: int,
    groups: np.ndarray | None = None,
    copies: np.ndarray | None = None,
) -> tuple[fitting.Linear, np.ndarray, int]:
    """The linear model, calibrated, the threshold of each label, and how many a text has at least.

    The candidates with the least loss on texts left out are averaged, for each label its own.
    """
    # Folds are kept even by the rarest label of each text; the last number where it has none.
    counts = np.where(rows.labels, rows.labels.sum(axis=0), len(rows.labels) + 1)
    rarest = np.where(rows.labels.any(axis=1), counts.argmin(axis=1), rows.n_classes)
    part, folds, _ = fitting.selected(rows, rarest, groups, copies)
    tried = fitting.try_all(part, candidates, folds, n_threads)
    has, weights = tried.labels, tried.weights
    scaled = [
        [_platt(f, y, weights) for f, y in zip(values.T, has.T)]
        for values in np.moveaxis(tried.values, 2, 0)
    ]
    losses = np.array([[loss for loss, _ in candidate] for candidate in scaled])
    shares = np.zeros_like(losses)
    np.put_along_axis(shares, np.argsort(losses, axis=0)[:_AVERAGED], 1.0, axis=0)
    spread = np.sqrt(np.mean(np.square(tried.values), axis=0)).T + 1e-12
    shares = shares / shares.sum(axis=0) / spread
    model = fitting.fit_mixture(rows, tried.table, shares, n_threads)
    values = np.einsum("nkc,ck->nk", tried.values, shares)
    slope, shift = np.array([_platt(f, y, weights)[1] for f, y in zip(values.T, has.T)]).T
    proba = expit(values * slope + shift)
    min_labels = int(rows.labels.any(axis=1).all())
    thresholds = mixed_thresholds(proba, has, weights, min_labels)
    hits = (given_labels(proba, thresholds, min_labels) == has).all(axis=1)
    report = tried.table[losses.sum(axis=1).argmin()] | {
        "selection": "folds",
        "n_candidates": len(tried.table),
        "n_tested": len(has),
        "accuracy": float(np.average(hits, weights=weights)),
        "candidates": tried.table,
        "out_of_fold": fitting.OutOfFold(log_expit(values * slope + shift), has),
    }
    linear = fitting.Linear(
        model.sparse * slope.astype(np.float32),
        model.dense * slope.astype(np.float32),
        model.intercept * slope + shift,
        report,
    )
    return linear, thresholds, min_labels


def given_labels(proba: np.ndarray, thresholds: np.ndarray, min_labels: int) -> np.ndarray:
    """Which labels each text gets, (n, n_labels) of bool.

    Those that reach their threshold; with min_labels = 1, the one that comes nearest where none
    does.
    """
    given = proba >= thresholds
    if min_labels:
        none = np.flatnonzero(~given.any(axis=1))
        given[none, (proba[none] / np.maximum(thresholds, 1e-12)).argmax(axis=1)] = True
    return given


def as_given(given: np.ndarray, classes: np.ndarray, targets: str) -> np.ndarray | list[tuple]:
    """Labels as `predict` returns them: tuples, or an indicator matrix where one was fitted."""
    if targets == "indicator":
        return given.astype(np.int64)
    return [tuple(classes[row].tolist()) for row in given]


def _platt(f, y, weights):
    """(log-loss, (slope, shift)) of the likeliest sigmoid(slope * f + shift), slope >= 0."""
    scale = max(float(np.sqrt(np.mean(f**2))), 1e-12)
    z = f / scale

    def loss(line):
        logits = line[0] * z + line[1]
        p = expit(logits)
        value = (weights * (np.logaddexp(0, logits) - y * logits)).sum() / weights.sum()
        slopes = weights * (p - y) / weights.sum()
        # a weak pull towards the line that was fitted, for labels with next to no text left out
        pull = line - np.array([scale, 0.0])
        return value + 1e-4 * pull @ pull, np.array([slopes @ z, slopes.sum()]) + 2e-4 * pull

    from scipy.optimize import minimize  # a quarter of a second to import

    bounds = [(0, None), (None, None)]
    result = minimize(loss, [scale, 0.0], jac=True, method="L-BFGS-B", bounds=bounds)
    return result.fun, (result.x[0] / scale, result.x[1])


def mixed_thresholds(
    proba: np.ndarray, has: np.ndarray, weights: np.ndarray, min_labels: int
) -> np.ndarray:
    """The threshold of each label, between its own and one for all, on the scale of log-odds.

    Its own has the best F1 of the label: the best macro F1, and too many labels. The common one
    has the best micro F1. The weight of its own is the one with the best mean of micro and
    macro F1 on these texts, which were left out.
    """

    def scores(thresholds):
        given = given_labels(proba, thresholds, min_labels)
        right, either = weights @ (has & given), weights @ has + weights @ given
        return 2 * right.sum() / either.sum(), (2 * right / np.maximum(either, 1e-12)).mean()

    n_labels = proba.shape[1]
    micro = np.array([scores(np.full(n_labels, column))[0] for column in _COMMON])
    common = float(np.median(_COMMON[micro >= micro.max() - 1e-12]))
    own = np.array([best_threshold(*column, weights) for column in zip(proba.T, has.T)])
    own = np.clip(own, 1e-9, 1 - 1e-9)
    mixes = [expit(w * logit(own) + (1 - w) * logit(common)) for w in _MIXES]
    return max(mixes, key=lambda thresholds: sum(scores(thresholds)))


def best_threshold(proba: np.ndarray, has: np.ndarray, weights: np.ndarray) -> float:
    """The threshold on calibrated probabilities with the best F1, between two of them.

    A text counts half by whether it has the label and half by its probability: few texts have a
    rare label.
    """
    order = np.argsort(-proba, kind="stable")
    p, w = proba[order], weights[order]
    y = (has[order] + p) / 2
    f1 = 2 * np.cumsum(w * y) / (np.cumsum(w) + (w * y).sum())
    f1[:-1][p[:-1] == p[1:]] = -1.0  # a threshold cannot separate ties
    at = int(np.argmax(f1))
    below = p[at + 1] if at + 1 < p.size else 0.0
    return float((p[at] + below) / 2)
