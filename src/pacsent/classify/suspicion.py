"""`suspicious_labels`: which labels of a dataset are probably wrong, and why."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from pacsent.classify import inputs
from pacsent.classify.classifier import TextClassifier
from pacsent.text.near_duplicates import text_units
from pacsent.text.texts import as_texts

_FOLDS = 5
_COPIES = 1.0  # nats that every near-duplicate with another label adds


class SuspiciousLabel(NamedTuple):
    """A label that is probably wrong.

    `score` is the logarithm of the odds of the suggested class against the given one, by
    classifiers that were not fitted on the text, less what is usual in the two classes; with what
    near-duplicates add.

    >>> SuspiciousLabel(7, "up", "down", 3.2, "1 near-duplicate with another label").row
    7
    """

    row: int
    label: Any
    suggested: Any
    score: float
    reason: str


def suspicious_labels(
    texts: Iterable[str],
    labels: Sequence,
    *,
    model: Any = None,
    random_state: int = 0,
) -> list[SuspiciousLabel]:
    """Rows whose label is probably wrong, the most suspicious first, with a reason each.

    Every text gets probabilities from a classifier that was fitted on other texts (five folds, with
    near-duplicates in one). A label is suspicious where another class is likelier, each class
    compared with the probability that its own texts usually get (confident learning, Northcutt et
    al. 2021). A near-duplicate with another label makes a label suspicious as well.

    Parameters
    ----------
    texts : iterable of str
    labels : array of str or int, one for each text
    model : unfitted classifier with `predict_proba`, optional
        `TextClassifier("english")` by default.
    random_state : int, default=0
        Decides the folds.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> from pacsent.classify import suspicious_labels
    >>> texts = [f"a {word} film, number {n}" for n in range(30) for word in ("good", "bad")]
    >>> labels = ["up", "down"] * 30
    >>> labels[7] = "up"
    >>> found = suspicious_labels(texts, labels, model=TextClassifier())
    >>> found[0].row, found[0].suggested
    (7, 'down')
    """
    texts = as_texts(texts)
    classes, y = inputs.encoded_labels(labels, texts)
    units = text_units(texts)
    log_p = left_out_log_proba(texts, y, units, model, random_state)
    score, other = _odds(log_p, y)
    n_other, votes = _copies(units, y, classes.size)
    among = np.where(votes > 0, np.log(np.maximum(votes, 1)), -np.inf)
    suggested = np.where(n_other > 0, np.where(score > 0, other, among.argmax(axis=1)), other)
    score = score + _COPIES * n_other
    rows = np.argsort(-score, kind="stable")
    names = classes.tolist()
    return [
        SuspiciousLabel(
            int(i),
            names[y[i]],
            names[suggested[i]],
            float(score[i]),
            _reason(np.exp(log_p[i]), names, int(y[i]), int(suggested[i]), int(n_other[i])),
        )
        for i in rows
        if score[i] > 0
    ]


def left_out_log_proba(
    texts: Sequence[str],
    y: np.ndarray,
    units: np.ndarray,
    model: Any = None,
    random_state: int = 0,
) -> np.ndarray:
    """Log-probabilities of all classes for every text, by models fitted on other folds.

    Texts of a unit are in one fold. A class that has fewer than two texts to fit has probability 0.
    """
    model = TextClassifier("english") if model is None else model
    rng = np.random.default_rng(random_state)
    fold_of_unit = rng.permutation(int(units.max()) + 1) % _FOLDS
    folds = fold_of_unit[units]
    n_classes = int(y.max()) + 1
    log_p = np.full((y.size, n_classes), np.log(1e-9))
    for fold in range(_FOLDS):
        tested, fitted = (np.flatnonzero(part) for part in (folds == fold, folds != fold))
        counts = np.bincount(y[fitted], minlength=n_classes)
        fitted = fitted[counts[y[fitted]] >= 2]
        known = np.unique(y[fitted])
        if not tested.size:
            continue
        if known.size < 2:
            raise ValueError(
                "texts must hold two classes with at least two different texts each, in every "
                f"{_FOLDS - 1} of {_FOLDS} folds. Got fewer instead. Add texts."
            )
        fold_model = clone(model).fit([texts[i] for i in fitted.tolist()], y[fitted])
        proba = np.asarray(
            fold_model.predict_proba([texts[i] for i in tested.tolist()]), np.float64
        )
        log_p[np.ix_(tested, known)] = np.log(np.maximum(proba, 1e-9))
    return log_p


def _odds(log_p: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds of the best other class against the given one, and that class.

    Each class is measured by the mean probability that its own texts get.
    """
    n_classes = log_p.shape[1]
    rows = np.arange(y.size)
    own = np.exp(log_p[rows, y])
    usual = np.array([own[y == c].mean() if (y == c).any() else 1.0 for c in range(n_classes)])
    relative = log_p - np.log(np.maximum(usual, 1e-9))
    given = relative[rows, y]
    relative[rows, y] = -np.inf
    other = relative.argmax(axis=1)
    return relative[rows, other] - given, other


def _copies(units, y, n_classes) -> tuple[np.ndarray, np.ndarray]:
    """How many near-duplicates of each text have another label; votes of a text's unit, (n, k)."""
    votes = np.zeros((int(units.max()) + 1, n_classes), np.int64)
    np.add.at(votes, (units, y), 1)
    of_text = votes[units]
    same = of_text[np.arange(y.size), y].copy()
    of_text[np.arange(y.size), y] = 0
    return np.maximum(of_text.sum(axis=1) - (same - 1), 0), of_text


def _reason(proba, names, given, suggested, n_other) -> str:
    probabilities = (
        f"without this text, {names[suggested]} has probability {proba[suggested]:.2f} and "
        f"{names[given]} {proba[given]:.2f}"
    )
    if n_other:
        return (
            f"{n_other:,} near-duplicate{'s' * (n_other > 1)} with another label; {probabilities}"
        )
    return probabilities
