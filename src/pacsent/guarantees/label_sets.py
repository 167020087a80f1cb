"""Label sets that miss the right class for a guaranteed share of texts, from a calibration set."""

import numpy as np

from pacsent.guarantees.calibration_set import Calibration
from pacsent.maths.binomial import n_needed, rank_for_sets
from pacsent.maths.checks import check_probability


def set_thresholds(
    calibration: Calibration, error: float, delta: float, per_class: bool
) -> np.ndarray:
    """Smallest log-probability with which a class enters a set, (n_classes,).

    Scores are -log p, smaller is more plausible; the k-th smallest of the true labels' scores is
    the threshold (`rank_for_sets`). Per class: only that class's texts, delta shared.
    """
    check_probability("delta", delta)
    check_probability("error", error)
    n_classes = calibration.log_proba.shape[1]
    scores = -calibration.log_proba[np.arange(calibration.labels.size), calibration.labels]
    if not per_class:
        return np.full(n_classes, -_kth(scores, error, delta, "calibration texts"))
    share = delta / n_classes
    found = [
        _kth(
            scores[calibration.labels == c], error, share, f"calibration texts of class number {c}"
        )
        for c in range(n_classes)
    ]
    return -np.array(found)


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
