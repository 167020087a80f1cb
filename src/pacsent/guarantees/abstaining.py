"""Answers whose error is guaranteed, from a calibration set: abstain from the other texts."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacsent.guarantees.calibration_set import ROUND_ERRORS, Calibration, nothing_read
from pacsent.maths.binomial import last_passed
from pacsent.maths.checks import check_probability

_HALF = 0.5  # share of the calibration texts that are answered with the default error
_MOST_MISSING = 20  # times the calibration texts: larger estimates of missing ones are not stated


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
    >>> from pacsent import CertifiedClassifier, TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = CertifiedClassifier(TextClassifier(), holdout=0.5, random_state=0)
    >>> _ = classifier.fit(texts, ["up", "down"] * 40)
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
        thresholds = np.unique(
            np.quantile(
                np.exp(classifier.out_of_fold_.log_proba.max(axis=1)), np.linspace(0, 1, 201)
            )
        )[::-1]
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
