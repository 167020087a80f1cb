"""Which label sets and answers a fitted classifier gives with a guarantee, text after text."""

from typing import Any, NamedTuple

import numpy as np

from pacsent.guarantees.calibration_set import ROUND_ERRORS, has_no_features, set_thresholds
from pacsent.maths.binomial import n_needed
from pacsent.maths.temperature import log_probabilities

_SET_ERROR = 0.05  # of label sets by default, where there are enough calibration texts


class Answered(NamedTuple):
    """Answers to some texts.

    `inside` says which classes are in the label set, (n, n_classes), and `abstained` where the
    classifier abstains; None where the model has no calibration set.
    """

    best: np.ndarray  # (n,) positions in `classes_`
    probability: np.ndarray  # (n,)
    inside: np.ndarray | None
    abstained: np.ndarray | None


class AnswerRule:
    """Which label sets and answers a fitted classifier can give with a guarantee.

    Parameters
    ----------
    classifier : CertifiedClassifier of a TextClassifier, or a TextClassifier alone
    error : float or None
        How often label sets may miss the right class, and answers may be wrong. None chooses both:
        for label sets 0.05, or the smallest round error that the number of calibration texts
        allows; for answers the smallest round error with which at least half of the calibration
        texts are answered, corrected for this choice. A number needs a calibration set.
    delta : float
        Chance that a guarantee fails.

    Attributes
    ----------
    error, set_error : float or None
        The guaranteed errors of answers and of label sets; None without a calibration set.
    threshold : float or None
        Smallest probability with which it answers.
    set_thresholds : array or None
        Log-probability from which on each class is in the label set.
    no_sets, no_answers : str or None
        Why a calibration set is too small for label sets, and for any answer.
    statement : str or None
        What is guaranteed, in plain words; None without a calibration set.

    Examples
    --------
    >>> from pacsent import CertifiedClassifier, TextClassifier
    >>> texts = [f"a {('good', 'bad')[n % 2]} film, number {n}" for n in range(80)]
    >>> classifier = CertifiedClassifier(TextClassifier(), holdout=0.5, random_state=0)
    >>> rule = AnswerRule(classifier.fit(texts, ["up", "down"] * 40))
    >>> rule.error, rule.set_error
    (0.15, 0.1)
    >>> rule.of_log_proba(classifier.predict_log_proba(["a good film"])).abstained.tolist()
    [False]
    """

    error: float | None = None
    set_error: float | None = None
    threshold: float | None = None
    set_thresholds: np.ndarray | None = None
    no_sets: str | None = None
    no_answers: str | None = None
    statement: str | None = None

    def __init__(self, classifier: Any, *, error: float | None = None, delta: float = 0.05):
        self.delta = delta
        self._classifier = classifier
        if getattr(classifier, "targets_", "classes") != "classes":
            raise ValueError(
                "classifier must give one class to each text. Got one that gives several labels "
                "instead. Use predict, or classify predict with one file or stdin."
            )
        if not hasattr(classifier, "calibration_"):
            if error is not None:
                raise ValueError(
                    "error must be left out for a classifier without a calibration set. Got "
                    f"{error:g} instead. Train with holdout='auto' (CertifiedClassifier)."
                )
            return
        abstaining = classifier.abstain(error=error, delta=delta)
        self.error, self.threshold = abstaining.error, abstaining.threshold
        self.no_answers, self.statement = abstaining.no_answers, abstaining.statement
        calibration = classifier.calibration_
        if error is None:  # by the number of texts alone, so that it needs no correction
            n, errors = calibration.labels.size, [e for e in ROUND_ERRORS if e >= _SET_ERROR]
            error = next((e for e in errors if n >= n_needed(e, delta)), errors[-1])
        try:
            self.set_thresholds = set_thresholds(calibration, error, delta, False)
        except ValueError as missing:
            self.no_sets = str(missing)
            return
        self.set_error = error
        self.statement += (
            f" Label sets miss the right class for at most {100 * error:g} % of texts."
        )

    def __call__(self, decisions: np.ndarray) -> Answered:
        """Answers from decision values, as `TextClassifier.stream` gives them."""
        model = getattr(self._classifier, "estimator_", self._classifier)
        return self.of_log_proba(log_probabilities(decisions, model.inverse_temperature_))

    def of_log_proba(self, log_proba: np.ndarray) -> Answered:
        """Answers from logarithms of class probabilities."""
        probability = np.exp(log_proba.max(axis=1))
        thresholds, abstained = self.set_thresholds, None
        if self.threshold is not None:
            abstained = ~(probability >= self.threshold)
            abstained |= has_no_features(self._classifier, log_proba)
        return Answered(
            log_proba.argmax(axis=1),
            probability,
            None if thresholds is None else log_proba >= thresholds,
            abstained,
        )
