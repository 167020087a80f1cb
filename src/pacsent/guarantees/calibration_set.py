"""The calibration set of a classifier: rows that nothing was fitted or chosen on."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pacsent.maths.temperature import log_probabilities

ROUND_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Calibration:
    """Log-probabilities of rows that nothing was fitted or chosen on, their classes, and answers.

    `predicted` are the classifier's answers, -1 for one that is no class; by default the likeliest
    class. `planned` says which rows plan abstaining, so that it is tested on the others.
    """

    log_proba: Any  # (n, n_classes), or None for a classifier that gives labels alone
    labels: np.ndarray  # (n,); of several labels a text (n, n_labels) of bool
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
        """The rows that abstaining is tested on."""
        if self.planned is None:
            return self
        rest = ~self.planned
        predicted = None if self.predicted is None else self.predicted[rest]
        return replace(
            self,
            log_proba=self.log_proba[rest],
            labels=self.labels[rest],
            predicted=predicted,
            planned=None,
        )


def calibration_of(classifier: Any) -> Calibration:
    """The calibration set of a fitted classifier, or an error that says how to get one."""
    check_is_fitted(classifier)
    if not hasattr(classifier, "calibration_"):
        raise ValueError(
            "This needs labelled texts that nothing was fitted on, and the classifier has none. "
            "Train with holdout='auto' (CertifiedClassifier)."
        )
    return classifier.calibration_


def nothing_read(classifier: Any, log_proba: np.ndarray) -> np.ndarray:
    """Which texts hold no n-gram and no word that a TextClassifier knows, (n,).

    Their decision values are the intercepts alone. No rule answers them, on calibration texts
    neither, so that a guarantee is about the texts that are answered.
    """
    model = getattr(classifier, "estimator_", classifier)
    if not hasattr(model, "inverse_temperature_"):
        return np.zeros(len(log_proba), bool)
    share, of_characters = model.character_share_.least, model.intercept_characters_
    intercept = model.intercept_ + share * (of_characters - model.intercept_)
    alone = log_probabilities(intercept[None, :], model.inverse_temperature_)
    return np.isclose(log_proba, alone, rtol=1e-12, atol=1e-12).all(axis=1)
