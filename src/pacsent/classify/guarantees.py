"""Label sets and abstaining with a guaranteed error, from a calibration set."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pacsent.maths.binomial import last_passed, n_needed, rank_for_sets
from pacsent.maths.checks import check_probability
from pacsent.maths.temperature import log_probabilities

ROUND_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
_SET_ERROR = 0.05  # of label sets by default, where there are enough calibration texts
_HALF = 0.5  # share of the calibration texts that are answered with the default error
_MOST_MISSING = 20  # times the calibration texts: larger estimates of missing ones are not stated


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


@dataclass(frozen=True)
class Abstaining:
    """A classifier that answers only where at most `error` of its answers are wrong.

    Attributes
    ----------
    error, delta : float
        With confidence 1 - delta, at most this share of the answers to new texts is wrong.
    threshold : float
        Smallest probability of the answer with which it answers; above 1 where it never does.
    coverage : float
        Share of the calibration texts it answers.
    n : int
        Number of calibration texts.
    curve : list of (threshold, coverage, error)
        What answering from each threshold on gave on the calibration texts; for looking at, not
        for choosing.
    n_errors : int
        Number of errors that this one was chosen from by the calibration texts; `delta` is shared
        by all of them.
    no_answers : str or None
        Why it abstains from every text, and what the calibration texts do guarantee; None where it
        answers.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = TextClassifier().fit(texts, ["up", "down"] * 40, holdout=0.5, seed=0)
    >>> careful = classifier.abstain(error=0.1)
    >>> careful.predict(["a good film"])
    ['up']
    >>> classifier.abstain().error  # the smallest round error that answers half of the texts
    0.15
    """

    classifier: Any
    error: float
    delta: float
    threshold: float
    coverage: float
    n: int
    curve: list
    n_errors: int = 1
    no_answers: str | None = None

    def predict(self, texts: Iterable[str]) -> list:
        """The class of each text, None where it abstains; it does where it can read nothing."""
        log_proba = self.classifier.predict_log_proba(texts)
        names = self.classifier.classes_[log_proba.argmax(axis=1)]
        answers = np.exp(log_proba.max(axis=1)) >= self.threshold
        answers &= ~nothing_read(self.classifier, log_proba)
        return [name if answer else None for name, answer in zip(names.tolist(), answers)]

    @property
    def statement(self) -> str:
        """What is guaranteed about the answers, in one sentence or two."""
        if self.no_answers:
            return self.no_answers
        said = (
            f"With {100 * (1 - self.delta):g} % confidence, at most {100 * self.error:g} % of its "
            f"answers are wrong; it answers {100 * self.coverage:.1f} % of the calibration texts "
            f"(those with a probability of at least {self.threshold:.4f})."
        )
        if self.n_errors > 1:
            said += (
                f" The error is the smallest of {self.n_errors} round ones with which it answers "
                "at least half of them; the guarantee is corrected for this choice."
                if self.coverage >= _HALF
                else f" Of {self.n_errors} round errors it answers most with this one; the "
                "guarantee is corrected for this choice."
            )
        return said

    def __str__(self) -> str:
        if self.no_answers:
            return self.no_answers
        return (
            f"{self.statement} Not checked: whether new texts come from the same distribution "
            "(StreamWatcher and check_exchangeable do)."
        )


def abstain(
    classifier: Any, calibration: Calibration, error: float | None, delta: float
) -> Abstaining:
    """The lowest threshold that fixed-sequence testing allows, strictest first.

    With error=None the error is the smallest of `ROUND_ERRORS` with which at least half of the
    calibration texts are answered; where there is none, the one that answers most. As it is chosen
    by looking at these texts, each of the errors gets an equal share of delta (union bound).
    """
    check_probability("delta", delta)
    if error is not None:
        check_probability("error", error)
    n = calibration.labels.size
    record = _Record.of(classifier, calibration)
    reached = record.reached(delta)
    n_errors = 1
    if error is None:
        n_errors = len(ROUND_ERRORS)
        coverages = [coverage for _, _, coverage in reached]
        best = int(np.argmax(np.minimum(coverages, _HALF)))
        chosen, threshold, coverage = reached[best]
    else:
        chosen, threshold, coverage = record.lowest(float(error), delta)
    return Abstaining(
        classifier, chosen, delta, threshold, coverage, n, record.curve(), n_errors,
        None if coverage else record.why_none(error, delta),
    )  # fmt: skip


@dataclass(frozen=True)
class _Record:
    """How many calibration texts each threshold, strictest first, accepts, and gets wrong."""

    thresholds: np.ndarray
    n_accepted: np.ndarray
    n_wrong: np.ndarray
    n: int

    @classmethod
    def of(cls, classifier, calibration):
        confidence = np.exp(calibration.log_proba.max(axis=1))
        # the order is fixed without these texts: quantiles of training's own confidences
        thresholds = np.unique(classifier.confidence_quantiles_)[::-1]
        accepted = confidence >= thresholds[:, None]
        accepted &= ~nothing_read(classifier, calibration.log_proba)
        wrong = accepted & calibration.wrong
        return cls(thresholds, accepted.sum(axis=1), wrong.sum(axis=1), confidence.size)

    def lowest(self, error, delta, first=0):
        """(error, threshold, coverage) of the lowest threshold that may be used."""
        last = first + last_passed(self.n_accepted[first:], self.n_wrong[first:], error, delta)
        if last < first:
            return error, 2.0, 0.0
        return error, float(self.thresholds[last]), float(self.n_accepted[last] / self.n)

    def reached(self, delta):
        """`lowest` for every round error; all of them hold together with 1 - delta.

        They are tested from the median confidence of training on: errors with which fewer texts are
        answered are not wanted, and tests on few texts would spoil the sequence.
        """
        first = int(np.argmax(self.thresholds <= np.median(self.thresholds)))
        share = delta / len(ROUND_ERRORS)
        return [self.lowest(error, share, first) for error in ROUND_ERRORS]

    def curve(self):
        """(threshold, coverage, error) of each threshold that accepts a text."""
        some = self.n_accepted > 0
        rows = zip(self.thresholds[some], self.n_accepted[some], self.n_wrong[some])
        return [(float(t), float(a / self.n), float(k / a)) for t, a, k in rows]

    def why_none(self, error, delta):
        """Why no threshold may be used, what is reachable, and how many labels are missing."""
        chosen = error is None
        error = ROUND_ERRORS[-1] if chosen else error
        said = (
            f"It abstains from every text: {self.n:,} calibration texts cannot guarantee an error "
            f"of {error:g} with confidence {1 - delta:g}"
        )
        said += ", corrected for the choice of the error." if chosen else "."
        larger = [] if chosen else [self.lowest(e, delta) for e in ROUND_ERRORS if e > error]
        reached = [(e, coverage) for e, _, coverage in larger if coverage]
        if reached:
            smallest, coverage = reached[0]
            said += (
                f" The smallest round error that they guarantee is {smallest:g}, with "
                f"{100 * coverage:.0f} % of the texts answered, if it was chosen before looking at "
                "them; without an error given, one is chosen and the guarantee is corrected for "
                "the choice."
            )
        missing = self.n_missing(error, delta / len(ROUND_ERRORS) if chosen else delta)
        if missing is None and not reached:
            said += " More labels alone do not help: its surest answers are wrong as often."
        elif missing and missing <= _MOST_MISSING * self.n:
            texts = "text is" if missing == 1 else "texts are"
            said += f" About {missing:,} more calibration {texts} needed for an error of {error:g}."
        return said

    def n_missing(self, error, delta):
        """Calibration texts that are missing if further ones are as often wrong; None: no number.

        Thresholds that accept few texts say too little about how often further ones are wrong; it
        is 0, which is no estimate, where only such thresholds stand in the way.
        """
        some = self.n_accepted >= max(self.n / 5, 1)
        for factor in np.geomspace(1.0, 1000.0, 400):
            n_accepted = np.floor(self.n_accepted[some] * factor)
            n_wrong = np.minimum(np.rint(self.n_wrong[some] * factor), n_accepted)
            if last_passed(n_accepted, n_wrong, error, delta) >= 0:
                return int(self.n * factor) - self.n
        return None


# ------------------------------------------------------------------------------------------------
# answers to texts
# ------------------------------------------------------------------------------------------------


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
    classifier : TextClassifier
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
    >>> from pacsent import TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = TextClassifier().fit(texts, ["up", "down"] * 40, holdout=0.5, seed=0)
    >>> rule = AnswerRule(classifier)
    >>> rule.error, rule.set_error
    (0.15, 0.1)
    >>> rule.of_log_proba(classifier.predict_log_proba(["a good film"])).abstained.tolist()
    [False]
    """

    def __init__(self, classifier: Any, *, error: float | None = None, delta: float = 0.05):
        self.delta = delta
        self.error: float | None = None
        self.set_error: float | None = None
        self.threshold: float | None = None
        self.set_thresholds: np.ndarray | None = None
        self.no_sets: str | None = None
        self.no_answers: str | None = None
        self.statement: str | None = None
        self._classifier = classifier
        if not hasattr(classifier, "calibration_"):
            if error is not None:
                raise ValueError(
                    "error must be left out for a classifier without a calibration set. Got "
                    f"{error:g} instead. Train the classifier with holdout=0.2."
                )
            return
        abstaining = classifier.abstain(error=error, delta=delta)
        self.error, self.threshold = abstaining.error, abstaining.threshold
        self.no_answers, self.statement = abstaining.no_answers, abstaining.statement
        calibration = classifier.calibration_
        if error is None:
            error = _reachable(calibration.labels.size, delta)
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
        temperature = self._classifier.inverse_temperature_
        return self.of_log_proba(log_probabilities(decisions, temperature))

    def of_log_proba(self, log_proba: np.ndarray) -> Answered:
        """Answers from logarithms of class probabilities."""
        probability = np.exp(log_proba.max(axis=1))
        thresholds, abstained = self.set_thresholds, None
        if self.threshold is not None:
            abstained = ~(probability >= self.threshold)
            abstained |= nothing_read(self._classifier, log_proba)
        return Answered(
            log_proba.argmax(axis=1),
            probability,
            None if thresholds is None else log_proba >= thresholds,
            abstained,
        )


def _reachable(n, delta):
    """The error of label sets: by the number of texts alone, so that it needs no correction."""
    errors = [error for error in ROUND_ERRORS if error >= _SET_ERROR]
    return next((error for error in errors if n >= n_needed(error, delta)), errors[-1])
