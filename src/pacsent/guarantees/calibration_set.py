"""The calibration set of a classifier, on which nothing was fitted or chosen; prediction sets."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pacsent.guarantees.delta import divide_delta
from pacsent.maths.binomial import n_needed, rank_for_sets
from pacsent.maths.checks import check_probability

# From which an error is chosen where none is given.
ROUND_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Calibration:
    """Log-probabilities and labels of rows that nothing was fitted or chosen on."""

    log_proba: Any  # (n, n_classes), or None for a classifier that gives labels alone
    labels: np.ndarray  # (n,); multi-label (n, n_labels) of bool
    planned: np.ndarray | None = None  # (n,) of bool: rows that plan abstention
    monitors: np.ndarray | None = None  # (n, 3) of `drift_monitor.MONITORS`, where these are texts

    @property
    def wrong(self) -> np.ndarray:
        """Which rows' likeliest class is not their label, (n,)."""
        return self.log_proba.argmax(axis=1) != self.labels

    @property
    def tested(self) -> "Calibration":
        """The rows that abstention is tested on: those that did not plan it."""
        if self.planned is None:
            return self
        return Calibration(self.log_proba[~self.planned], self.labels[~self.planned])


def confidences(classifier: Any, log_proba: np.ndarray) -> np.ndarray:
    """The probability of each likeliest class, (n,); -1, never answered, without known features."""
    confidence = np.exp(log_proba.max(axis=1))
    model = getattr(classifier, "estimator_", classifier)
    if hasattr(model, "has_no_features"):
        confidence[model.has_no_features(log_proba)] = -1.0
    return confidence


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
    log_proba = calibration.log_proba[np.arange(calibration.labels.size), calibration.labels]
    parts = {"calibration texts": np.ones(log_proba.size, bool)}
    if per_class:
        delta = divide_delta(delta, n_classes)
        parts = {
            f"calibration texts of class number {c}": calibration.labels == c
            for c in range(n_classes)
        }
    thresholds = []
    for name, rows in parts.items():
        scores = np.sort(-log_proba[rows])
        k = rank_for_sets(scores.size, error, delta)
        if k is None:
            needed = n_needed(error, delta)
            raise ValueError(
                f"Prediction sets that miss at most {error:g} with confidence {1 - delta:g} need "
                f"{needed:,} {name}. Got {scores.size:,}, so {needed - scores.size:,} are missing. "
                "Label more texts, or allow a larger error."
            )
        thresholds.append(-scores[k - 1])
    return np.broadcast_to(thresholds, n_classes).copy()
