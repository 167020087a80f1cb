"""Thresholds on label probabilities with a guaranteed share of labels missed, or given wrongly.

Conformal risk control in its high-probability form: thresholds are tested in an order fixed without
the calibration texts, by betting on the mean of one loss in [0, 1] for each text, until the first
that fails. The chance that any threshold with a mean above `error` passes is at most delta.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from pacsent.classify.multilabel import known_sets
from pacsent.guarantees.delta import divide_delta
from pacsent.maths.checks import check_probability
from pacsent.maths.means import mean_is_below

GRID = expit(np.linspace(-8.0, 8.0, 321))  # thresholds that are tested, rising
STARTS = (0.3, 0.5, 0.7, 0.9)  # where tests of false discoveries begin without a planning part
# Fractions of `error` on the planning part at which they begin with one.
_PLANNED_FRACTIONS = (0.4, 0.6, 0.75, 0.9)
_MIN_PLANNING_TEXTS = 30  # that get labels, for the planning part to say anything


@dataclass(frozen=True)
class LabelThreshold:
    """A threshold on the probabilities of labels, and what is guaranteed about it.

    Attributes
    ----------
    threshold : float or None
        Labels of at least this probability are given; None gives none.
    about : {"false negatives", "false discoveries"}
    error, delta : float
        With probability 1 - delta, the mean over new texts of the share of their labels that are
        missed (or of the labels given that are wrong) is at most `error`.
    n : int
        Calibration texts.
    n_labels : float
        Labels given to a calibration text, on average.

    Examples
    --------
    >>> has = np.tile([[True, False], [False, True]], (100, 1))
    >>> found = control_false_negatives(has, np.where(has, 0.9, 0.2), error=0.1)
    >>> 0.5 < found.threshold <= 0.9, found.predict(np.array([[0.95, 0.1]])).tolist()
    (True, [[True, False]])
    """

    threshold: float | None
    about: str
    error: float
    delta: float
    n: int
    n_labels: float

    def predict(self, probabilities: np.ndarray) -> np.ndarray:
        """Whether each text is given each label, (n, n_labels) of bool."""
        probabilities = np.asarray(probabilities, float)
        if self.threshold is None:
            return np.zeros(probabilities.shape, bool)
        return probabilities >= self.threshold

    def __str__(self) -> str:
        sure = f"With {100 * (1 - self.delta):g} % confidence"
        if self.threshold is None:
            return (
                f"No threshold can be guaranteed at {self.error:g} {self.about} from {self.n:,} "
                "texts: no label is given. Allow a larger error, or label more texts."
            )
        what = {
            "false negatives": "of the labels of a new text, on average over texts, at most "
            f"{self.error:g} are missed",
            "false discoveries": "of the labels given to a new text that gets any, on average "
            f"over such texts, at most {self.error:g} are wrong",
        }[self.about]
        return (
            f"{sure}, {what}: labels of probability {self.threshold:.4f} and above are given "
            f"({self.n_labels:.2f} a text, {self.n:,} calibration texts)."
        )


def control_false_negatives(
    labels: Any,
    probabilities: np.ndarray,
    *,
    classes: Any = None,
    error: float = 0.1,
    delta: float = 0.05,
) -> LabelThreshold:
    """The strictest threshold with which at most `error` of a text's labels are missed.

    A text's loss is the share of its labels below the threshold (0 where it has none), which
    rises with the threshold. Thresholds are tested from the lowest up to the first that fails.

    Parameters
    ----------
    labels : sets of labels, or an indicator matrix, of calibration texts
        Nothing may have been fitted or chosen on these texts.
    probabilities : array, (n, n_labels)
    classes : array, optional
        The label of each column, for sets.
    error, delta : float

    Examples
    --------
    >>> labels = [{"joy"}, {"love"}] * 100
    >>> proba = np.tile([[0.9, 0.2], [0.1, 0.8]], (100, 1))
    >>> found = control_false_negatives(labels, proba, classes=["joy", "love"])
    >>> 0.2 < found.threshold <= 0.8
    True
    """
    has, proba = _checked(labels, probabilities, classes, error, delta)
    n_labels = np.maximum(has.sum(axis=1), 1)
    last = None
    for threshold in GRID:
        losses = (has & (proba < threshold)).sum(axis=1) / n_labels
        if not mean_is_below(losses, error, delta):
            break
        last = float(threshold)
    return _label_threshold(last, "false negatives", error, delta, proba)


def control_false_discoveries(
    labels: Any,
    probabilities: np.ndarray,
    *,
    classes: Any = None,
    error: float = 0.2,
    delta: float = 0.05,
    planning: tuple[Any, np.ndarray] | None = None,
) -> LabelThreshold:
    """The lowest threshold with which at most `error` of the labels given to a text are wrong.

    A text's loss is the share of the labels given to it that are wrong; texts that get none are
    not counted. The loss may rise or fall with the threshold, so tests begin at four places, each
    with delta / 4, and go down from each to the first that fails.

    Parameters
    ----------
    labels, probabilities, classes : as of `control_false_negatives`
    planning : (labels, probabilities), optional
        Of texts other than the calibration texts, such as predictions for training texts that were
        left out: the places are where these have 0.4, 0.6, 0.75 and 0.9 of `error`. Without them,
        the thresholds 0.9, 0.7, 0.5 and 0.3.

    Examples
    --------
    >>> labels = [{"joy"}, {"love"}] * 100
    >>> proba = np.tile([[0.9, 0.2], [0.1, 0.8]], (100, 1))
    >>> found = control_false_discoveries(labels, proba, classes=["joy", "love"])
    >>> 0.2 < found.threshold < 0.3
    True
    """
    has, proba = _checked(labels, probabilities, classes, error, delta)
    starts = np.searchsorted(GRID, STARTS)
    if planning is not None:
        known, chances = _checked(*planning, classes, error, delta)
        starts = _planned(known, chances, error)
    lowest = GRID.size
    for start in set(starts.tolist()):
        at = start
        while at >= 0 and mean_is_below(
            _discoveries(has, proba, GRID[at]), error, divide_delta(delta, len(starts))
        ):
            at -= 1
        if at < start:
            lowest = min(lowest, at + 1)
    threshold = None if lowest == GRID.size else float(GRID[lowest])
    return _label_threshold(threshold, "false discoveries", error, delta, proba)


def _discoveries(has, proba, threshold):
    """Share of the labels given that are wrong, of the texts that get any."""
    given = proba >= threshold
    n_given = given.sum(axis=1)
    rows = n_given > 0
    return (given & ~has).sum(axis=1)[rows] / n_given[rows]


def _planned(has, proba, error):
    losses = np.ones(GRID.size)
    for i, threshold in enumerate(GRID):
        discoveries = _discoveries(has, proba, threshold)
        losses[i] = discoveries.mean() if discoveries.size >= _MIN_PLANNING_TEXTS else 0.0
    # the lowest threshold from which on all are below the share
    worst = np.maximum.accumulate(losses[::-1])[::-1]
    return np.minimum(
        np.array([np.argmax(worst <= s * error) for s in _PLANNED_FRACTIONS]), GRID.size - 1
    )


def _checked(labels, probabilities, classes, error, delta):
    check_probability("error", error)
    check_probability("delta", delta)
    proba = np.asarray(probabilities, float)
    if proba.ndim != 2 or not ((proba >= 0) & (proba <= 1)).all():
        raise ValueError(
            "probabilities must be numbers in [0, 1], a row for each text and a column for each "
            f"label. Got shape {proba.shape} or other numbers instead."
        )
    return known_sets(classes, labels, *proba.shape), proba


def _label_threshold(threshold, about, error, delta, proba):
    n_labels = 0.0 if threshold is None else float((proba >= threshold).sum(axis=1).mean())
    return LabelThreshold(threshold, about, float(error), float(delta), len(proba), n_labels)
