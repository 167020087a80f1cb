"""Several labels per text: one linear problem per label on shared features, solved together.

Every label has its own calibrated probability, sigmoid(slope * f + shift), and its own threshold:
`mixed_thresholds`.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit, log_expit, logit

from pacsent.classify import fitting
from pacsent.classify.inputs import as_classes, as_column, as_labels, check_length, few

_SETS = (set, frozenset, list, tuple, np.ndarray)
_AVERAGED = 4  # candidates that are averaged for each label
_COMMON = np.arange(2, 61) / 100  # thresholds for all labels that are tried
_MIXES = (0.0, 0.25, 0.5, 0.75, 1.0)  # weights of each label's own threshold that are tried


class LabelMatrix(NamedTuple):
    """Whether each text has each label, and the labels' names; none for a matrix without names."""

    names: list | None
    has: np.ndarray  # (n, n_labels) of bool
    are_sets: bool


def label_matrix(labels: Any, n_texts: int) -> LabelMatrix | None:
    """Labels as a matrix; None where every text has one label of its own.

    Sets, lists, tuples or arrays of labels, one for each text; or an indicator matrix, a table or
    array of 0 and 1 with a column for each label (its name, or its number).
    """
    columns = getattr(labels, "column_names", None)
    columns = list(getattr(labels, "columns", []) if columns is None else columns)
    if sparse.issparse(labels):
        labels = labels.toarray()
    if len(columns) > 1 or (getattr(labels, "ndim", 1) == 2 and labels.shape[1] > 1):
        return _indicator(labels, columns, n_texts)
    values = as_column(labels, "labels")
    of_several = [isinstance(value, _SETS) for value in values]
    if not any(of_several):
        return None
    if not all(of_several):
        row = of_several.index(False)
        raise ValueError(
            "labels must be one label for each text, or one set of labels for each text. Got both "
            f"instead ({values[row]!r} in row {row:,}). Turn single labels into sets: {{label}}."
        )
    check_length(values, n_texts, "labels")
    sets = [value.tolist() if isinstance(value, np.ndarray) else list(value) for value in values]
    if (
        not any(isinstance(value, (set, frozenset)) for value in values)
        and len(set(map(len, sets))) == 1
        and len(sets[0]) > 1
        and all(type(x) in (int, bool, float) and x in (0, 1) for row in sets for x in row)
    ):
        raise ValueError(
            "labels must be clear. Got lists of 0 and 1 that are all of one length, which may be "
            "sets of labels or rows of an indicator matrix. Pass sets, or np.array(labels)."
        )
    flat = as_labels([label for label_set in sets for label in label_set])
    names = sorted(set(flat))
    place = {name: at for at, name in enumerate(names)}
    has = np.zeros((n_texts, len(names)), bool)
    of_row = np.repeat(np.arange(n_texts), [len(label_set) for label_set in sets])
    has[of_row, [place[name] for name in flat]] = True
    return LabelMatrix(names, has, True)


def _indicator(labels, columns, n_texts):
    matrix = np.asarray(labels.to_pandas() if hasattr(labels, "to_pandas") else labels)
    try:
        numbers = matrix.astype(float)
    except (TypeError, ValueError):
        numbers = np.full(matrix.shape, np.nan)
    wrong = np.argwhere((numbers != 0) & (numbers != 1))
    if wrong.size:
        row, column = wrong[0]
        shown = f"the columns {few(columns)}" if columns else f"{matrix.shape[1]} columns"
        raise ValueError(
            f"labels with {shown} must be an indicator matrix of 0 and 1. Got "
            f"{matrix[row, column]!s} in row {row:,} instead. Pass one column, or one set of "
            "labels for each text."
        )
    check_length(matrix, n_texts, "labels")
    names = as_labels(columns, name="names of labels") if columns else None
    if names and len(set(names)) < len(names):
        raise ValueError(f"Columns of labels must have different names. Got {few(names)} instead.")
    return LabelMatrix(names, numbers == 1, False)


def encoded_sets(labels: LabelMatrix) -> tuple[np.ndarray, np.ndarray]:
    """(classes, whether each text has each label): what a classifier is fitted on."""
    has = labels.has
    names = list(range(has.shape[1])) if labels.names is None else labels.names
    if len(names) < 2:
        raise ValueError(
            f"labels must have at least two different labels. Got {few(names) or 'none'} instead. "
            "For a single label, give every text one of two classes."
        )
    classes = as_classes(names)
    n_with = has.sum(axis=0)
    rare = (n_with < 2) | (len(has) - n_with < 2)
    if rare.any():
        raise ValueError(
            "Every label must have at least two texts with it and two without. Got fewer of "
            f"{few(classes[rare])} instead. Add texts, or leave the label out."
        )
    return classes, has


def known_sets(classes: Any, labels: Any, n_texts: int, n_labels: int) -> np.ndarray:
    """Whether each text has each label of `classes`, (n_texts, n_labels) of bool.

    The columns of a matrix without names are the classes in order. Without classes, any matrix is
    taken as it is.
    """
    matrix = label_matrix(labels, n_texts)
    if matrix is None or (matrix.are_sets and classes is None):
        problem = ". Got one label for each text instead."
        if matrix is not None:
            problem = ": sets need classes=, the label of each column. Got none instead."
        raise ValueError(
            f"labels must be one set of labels for each text, or a matrix of 0 and 1{problem}"
        )
    if classes is None or matrix.names is None:
        if matrix.has.shape[1] != n_labels:
            raise ValueError(
                f"labels must have a column for each of the {n_labels} labels. Got "
                f"{matrix.has.shape[1]} instead."
            )
        return matrix.has
    place = {name: at for at, name in enumerate(as_labels(classes, name="classes"))}
    if len(place) != n_labels:
        raise ValueError(
            f"classes must be {n_labels} different labels, one for each column. Got "
            f"{len(place)} instead."
        )
    unknown = [name for name in matrix.names if name not in place]
    if unknown:
        raise ValueError(
            f"labels must be among the known ones ({few(place)}). Got {few(unknown)} instead. "
            "Correct the labels, or fit again with those texts."
        )
    has = np.zeros((n_texts, n_labels), bool)
    has[:, [place[name] for name in matrix.names]] = matrix.has
    return has


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
