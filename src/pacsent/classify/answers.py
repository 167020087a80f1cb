"""Answers of a classifier to texts: the likeliest class, its probability, label set, abstention."""

from typing import Any, NamedTuple

import numpy as np

from pacsent.classify.sets import set_thresholds
from pacsent.maths.temperature import log_probabilities


class Answered(NamedTuple):
    """Answers to some texts.

    `inside` says which classes are in the label set, (n, n_classes), and `abstained` where the
    classifier keeps silent; None where the model has no labels kept back for that.
    """

    best: np.ndarray  # (n,) positions in `classes_`
    probability: np.ndarray  # (n,)
    inside: np.ndarray | None
    abstained: np.ndarray | None


class Answering:
    """Turns the decision values of `TextClassifier.stream` into answers.

    Parameters
    ----------
    classifier : TextClassifier
    error, delta : float
        What label sets and answers may get wrong, and the chance that this promise fails.

    Attributes
    ----------
    missing : str or None
        Why there are no label sets, where too few labels were kept back for them.
    silent : str or None
        Why every answer is withheld, where no threshold keeps what is asked.
    """

    def __init__(self, classifier: Any, *, error: float = 0.05, delta: float = 0.05):
        self.temperature = classifier.temperature_
        self.thresholds = self.least = self.missing = self.silent = None
        if hasattr(classifier, "calibration_"):
            abstaining = classifier.abstain(error=error, delta=delta)
            self.least, self.silent = abstaining.threshold, abstaining.why_silent
            try:
                self.thresholds = set_thresholds(classifier.calibration_, error, delta, False)
            except ValueError as missing:
                self.missing = str(missing)

    def __call__(self, values: np.ndarray) -> Answered:
        log_proba = log_probabilities(values, self.temperature)
        sure = np.exp(log_proba.max(axis=1))
        return Answered(
            log_proba.argmax(axis=1),
            sure,
            None if self.thresholds is None else log_proba >= self.thresholds,
            None if self.least is None else ~(sure >= self.least),
        )
