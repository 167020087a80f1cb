"""The calibration set of a classifier: texts that nothing was fitted or chosen on."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pacsent.maths.temperature import log_probabilities

ROUND_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Calibration:
    """Log-probabilities of texts that nothing was fitted or chosen on, and their classes."""

    log_proba: np.ndarray  # (n, n_classes)
    labels: np.ndarray  # (n,)

    @property
    def wrong(self) -> np.ndarray:
        """Which texts' likeliest class is not theirs, (n,)."""
        return self.log_proba.argmax(axis=1) != self.labels


def calibration_of(classifier: Any) -> Calibration:
    """The calibration set of a fitted classifier, or an error that says how to get one."""
    check_is_fitted(classifier)
    if not hasattr(classifier, "calibration_"):
        raise ValueError(
            "This needs labelled texts that nothing was fitted on, and the classifier has none. "
            "Fit with holdout=0.2, or give some: calibrate(texts, labels)."
        )
    return classifier.calibration_


def nothing_read(classifier: Any, log_proba: np.ndarray) -> np.ndarray:
    """Which texts hold no n-gram and no word that the classifier knows, (n,).

    Their decision values are the intercept alone. No rule answers them, on calibration texts
    neither, so that a guarantee is about the texts that are answered.
    """
    alone = log_probabilities(classifier.intercept_[None, :], classifier.inverse_temperature_)
    return np.isclose(log_proba, alone, rtol=1e-12, atol=1e-12).all(axis=1)
