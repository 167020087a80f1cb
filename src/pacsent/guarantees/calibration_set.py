"""The calibration set of a classifier, and the prediction sets that follow from it.

Nothing was fitted or chosen on its rows.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pacsent.guarantees.delta import divide_delta
from pacsent.maths.binomial import n_needed, rank_for_sets
from pacsent.maths.checks import check_probability

# From which an error is chosen where none is given.
ROUND_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Calibration:
    """Log-probabilities of rows that nothing was fitted or chosen on, their classes, and answers.

    `predicted` are the classifier's answers, -1 for one that is no class; by default the likeliest
    class. `planned` marks the rows that plan abstention, which is tested on the others.
    """

    log_proba: Any  # (n, n_classes), or None for a classifier that gives labels alone
    labels: np.ndarray  # (n,); multi-label (n, n_labels) of bool
    predicted: np.ndarray | None = None  # (n,)
    planned: np.ndarray | None = None  # (n,) of bool
    monitors: np.ndarray | None = None  # (n, 3) of `stream_watcher.MONITORS`, where these are texts

    @property
    def wrong(self) -> np.ndarray:
        """Which rows' answer is not their class, (n,)."""
        answers = self.log_proba.argmax(axis=1) if self.predicted is None else self.predicted
        return answers != self.labels

    @property
    def tested(self) -> "Calibration":
        """The rows that abstention is tested on."""
        if self.planned is None:
            return self
        rows = ~self.planned
        return replace(
            self,
            log_proba=self.log_proba[rows],
            labels=self.labels[rows],
            predicted=None if self.predicted is None else self.predicted[rows],
            planned=None,
        )


def has_no_features(classifier: Any, log_proba: np.ndarray) -> np.ndarray:
    """Which texts have no n-gram and no word that the classifier knows, if it can tell, (n,).

    No rule answers them, on calibration texts neither, so that a guarantee is about the texts that
    are answered.
    """
    model = getattr(classifier, "estimator_", classifier)
    if not hasattr(model, "has_no_features"):
        return np.zeros(len(log_proba), bool)
    return model.has_no_features(log_proba)


def set_thresholds(
    calibration: Calibration, error: float, delta: float, per_class: bool
) -> np.ndarray:
    """Smallest log-probability with which a class enters a prediction set, (n_classes,).

    Scores are -log p, smaller is more plausible; the k-th smallest of the true labels' scores is
    the threshold (`rank_for_sets`). Per class: only that class's texts, delta shared.
    """
    check_probability("delta", delta)
    check_probability("error", error)
    n_classes = calibration.log_proba.shape[1]
    scores = -calibration.log_proba[np.arange(calibration.labels.size), calibration.labels]
    if not per_class:
        return np.full(n_classes, -_kth(scores, error, delta, "calibration texts"))
    each = divide_delta(delta, n_classes)
    thresholds = [
        _kth(scores[calibration.labels == c], error, each, f"calibration texts of class number {c}")
        for c in range(n_classes)
    ]
    return -np.array(thresholds)


def _kth(scores, error, delta, what):
    k = rank_for_sets(scores.size, error, delta)
    if k is None:
        needed = n_needed(error, delta)
        raise ValueError(
            f"Label sets that miss at most {error:g} with confidence {1 - delta:g} need {needed:,} "
            f"{what}. Got {scores.size:,}, so {needed - scores.size:,} are missing. Label more "
            "texts, or allow a larger error."
        )
    return np.sort(scores)[k - 1]
