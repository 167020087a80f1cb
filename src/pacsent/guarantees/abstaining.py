"""Answers whose error is guaranteed: the texts that are not sure enough are left unanswered.

Thresholds and their order are planned on training texts (predictions by models that were not fitted
on them) and tested on the calibration texts: Theorem 13 of docs/theory.md. `plan` and
`widest_passed` work on arrays: the confidence of each answer, and whether it is wrong.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from pacsent.guarantees.calibration_set import ROUND_ERRORS, Calibration, nothing_read
from pacsent.maths.binomial import chance_to_pass, passes
from pacsent.maths.checks import check_probability

_N_THRESHOLDS = 30  # more of them fail by chance, fewer lie too far apart
_MIDDLES = (np.arange(5) + 0.5) / 5
_HALF = 0.5  # share of the texts that are answered with the default error
_LIKELY = 0.95  # predicted chance of an answer above which the guarantee needs no further words
_MOST_MISSING = 20  # times the calibration texts: larger estimates of missing ones are not stated


class Plan(NamedTuple):
    """Thresholds in the order in which they are tested, strictest first.

    `chance` is the predicted probability that the first of them passes.
    """

    thresholds: np.ndarray  # (m,), falling
    chance: float


def accepted(
    thresholds: np.ndarray, confidence: np.ndarray, wrong: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(n accepted, n wrong among them) at each threshold, thresholds falling.

    Examples
    --------
    >>> accepted(np.array([0.9, 0.5]), np.array([0.6, 0.9, 0.4]), np.array([True, False, True]))
    (array([1, 2]), array([0, 1]))
    """
    order = np.argsort(-confidence, kind="stable")
    n = np.searchsorted(-confidence[order], -thresholds, side="right")
    return n, np.concatenate([[0], np.cumsum(wrong[order])])[n]


def plan(
    confidence: np.ndarray,
    wrong: np.ndarray,
    n: int,
    error: float,
    delta: float,
    least: float = 0.0,
) -> Plan:
    """Choose thresholds and their order by texts that are not tested on.

    The test starts where a threshold most probably passes with n calibration texts: stricter ones
    accept too few texts, others too many that are wrong.

    Parameters
    ----------
    confidence, wrong : arrays of floats and of bool, shape (n_planned,)
        Of answers to texts of the training part by models that were not fitted on them.
    n : int
        Number of calibration texts.
    error, delta : float
        What is to be guaranteed.
    least : float
        Share of texts that must be answered; stricter thresholds are left out.

    Examples
    --------
    >>> confidence = np.linspace(0.5, 1.0, 400)
    >>> wrong = np.arange(400) % 10 >= 10 * confidence  # one in ten at 0.9
    >>> planned = plan(confidence, wrong, 300, 0.1, 0.05)
    >>> planned.thresholds[:1].round(2), round(planned.chance, 2)
    (array([0.92]), 0.93)
    """
    thresholds = np.unique(
        np.quantile(confidence, np.linspace(0.0, 1.0 - least, _N_THRESHOLDS + 1))
    )[::-1]
    n_accepted, n_wrong = accepted(thresholds, confidence, wrong)
    coverage = n_accepted / confidence.size
    # the rate of wrong answers is not known exactly: five values of its posterior are averaged
    rates = stats.beta.ppf(_MIDDLES[:, None], n_wrong + 0.5, n_accepted - n_wrong + 0.5)
    passes = chance_to_pass(np.rint(n * coverage).astype(int), rates, error, delta).mean(axis=0)
    first = int(np.argmax(passes))
    return Plan(thresholds[first:], float(passes[first]))


def widest_passed(
    planned: Plan, confidence: np.ndarray, wrong: np.ndarray, error: float, delta: float
) -> int | None:
    """Position of the lowest threshold that may be used; None where none may.

    Fixed-sequence testing: thresholds pass in their order up to the first that fails. With
    probability 1 - delta over the calibration texts, none that passes has a larger rate of wrong
    answers than `error`. Tests are randomised by one number that is made of the confidences, not of
    the labels: they pass at level delta exactly, where counts alone would waste a part of it.

    Examples
    --------
    >>> planned = Plan(np.array([0.9, 0.8, 0.5]), 1.0)
    >>> confidence, wrong = np.repeat([0.95, 0.85, 0.6], 50), np.repeat([False, False, True], 50)
    >>> widest_passed(planned, confidence, wrong, 0.1, 0.05)
    1
    """
    counts = accepted(planned.thresholds, confidence, wrong)
    failed = ~passes(*counts, error, delta, coin_of(confidence))
    n_passed = int(np.argmax(failed)) if failed.any() else failed.size
    return n_passed - 1 if n_passed else None


def coin_of(values: np.ndarray) -> float:
    """A number in [0, 1) made of these, by SHA-256: the same for everybody who has them.

    Examples
    --------
    >>> round(coin_of(np.array([0.5, 0.9])), 4)
    0.7463
    """
    written = np.ascontiguousarray(values, "<f8").tobytes()
    return int.from_bytes(hashlib.sha256(written).digest()[:6], "big") / 2**48


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
    chance : float
        Chance of answering at all with this number of calibration texts, predicted before they
        were looked at.
    n_errors : int
        Number of errors that this one was chosen from by the calibration texts; `delta` is shared
        by all of them.
    no_answers : str or None
        Why it abstains from every text, and what the calibration texts do guarantee; None where it
        answers.

    Examples
    --------
    >>> from pacsent import CertifiedClassifier, TextClassifier
    >>> texts = [f"a {('good', 'bad')[n % 2]} film, number {n}" for n in range(80)]
    >>> classifier = CertifiedClassifier(TextClassifier(), holdout=0.5, random_state=0)
    >>> _ = classifier.fit(texts, ["up", "down"] * 40)
    >>> careful = classifier.abstain(error=0.3)
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
    chance: float
    n_errors: int = 1
    no_answers: str | None = None

    def predict(self, texts: Iterable[str]) -> list:
        """The class of each text, None where it abstains; it does where it can read nothing."""
        found = self.classifier.answers(texts)
        answers = np.exp(found.log_proba.max(axis=1)) >= self.threshold
        answers &= ~nothing_read(self.classifier, found.log_proba)
        return [name if answer else None for name, answer in zip(found.labels.tolist(), answers)]

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
        if self.chance < _LIKELY:
            given = max(0.0, 1.0 - self.delta / max(self.chance, self.delta))
            said += (
                f" Answers were predicted for only {100 * self.chance:.0f} % of calibration sets "
                "like this one; if so, the confidence among those that do answer is "
                f"{100 * given:.0f} % (abstaining from every text counts as kept)."
            )
        return said

    def __str__(self) -> str:
        if self.no_answers:
            return self.no_answers
        return (
            f"{self.statement} Not checked: whether new texts come from the same distribution "
            "(StreamWatcher does)."
        )


def abstain(
    classifier: Any, calibration: Calibration, error: float | None, delta: float
) -> Abstaining:
    """The lowest threshold that passes the test of `widest_passed`.

    With error=None the error is the smallest of `ROUND_ERRORS` with which at least half of the
    calibration texts are answered; where there is none, the one that answers most. As it is chosen
    by looking at these texts, each of the errors gets an equal share of delta (union bound).
    """
    check_probability("delta", delta)
    if error is not None:
        check_probability("error", error)
    test = _Test.of(classifier, calibration)
    if error is None:
        share = delta / len(ROUND_ERRORS)
        tried = [test.widest(error, share, _HALF) for error in ROUND_ERRORS]
        best = int(np.argmax([min(one.coverage, _HALF) for one in tried]))
        found, chosen, n_errors = tried[best], ROUND_ERRORS[best], len(ROUND_ERRORS)
        found = found._replace(chance=max(one.chance for one in tried))
    else:
        found, chosen, n_errors = test.widest(float(error), delta), float(error), 1
    return Abstaining(
        classifier, chosen, delta, found.threshold, found.coverage, test.confidence.size,
        found.curve, found.chance, n_errors,
        None if found.coverage else test.why_none(error, delta),
    )  # fmt: skip


class _Widest(NamedTuple):
    threshold: float
    coverage: float
    chance: float
    curve: list


@dataclass(frozen=True)
class _Test:
    """Planning and calibration texts: how sure each answer is, and whether it is wrong."""

    planning: tuple[np.ndarray, np.ndarray]
    confidence: np.ndarray
    wrong: np.ndarray

    @classmethod
    def of(cls, classifier, calibration):
        out_of_fold = classifier.out_of_fold_
        confidence = np.exp(calibration.log_proba.max(axis=1))
        confidence[nothing_read(classifier, calibration.log_proba)] = -1.0  # never answered
        return cls(
            (
                np.exp(out_of_fold.log_proba.max(axis=1)),
                out_of_fold.log_proba.argmax(axis=1) != out_of_fold.labels,
            ),
            confidence,
            calibration.wrong,
        )

    def widest(self, error, delta, least=0.0):
        n = self.confidence.size
        planned = plan(*self.planning, n, error, delta, least)
        n_accepted, n_wrong = accepted(planned.thresholds, self.confidence, self.wrong)
        rows = zip(planned.thresholds, n_accepted, n_wrong)
        curve = [(float(t), float(a / n), float(k / a)) for t, a, k in rows if a]
        at = widest_passed(planned, self.confidence, self.wrong, error, delta)
        if at is None:
            return _Widest(2.0, 0.0, planned.chance, curve)
        threshold = float(planned.thresholds[at])
        return _Widest(threshold, float(n_accepted[at] / n), planned.chance, curve)

    def why_none(self, error, delta):
        """Why no threshold may be used, what is reachable, and how many labels are missing."""
        n, chosen = self.confidence.size, error is None
        error = ROUND_ERRORS[-1] if chosen else error
        said = (
            f"It abstains from every text: {n:,} calibration texts cannot guarantee an error "
            f"of {error:g} with confidence {1 - delta:g}"
        )
        said += ", corrected for the choice of the error." if chosen else "."
        larger = [] if chosen else [(e, self.widest(e, delta)) for e in ROUND_ERRORS if e > error]
        reached = [(e, found.coverage) for e, found in larger if found.coverage]
        if reached:
            smallest, coverage = reached[0]
            said += (
                f" The smallest round error that they guarantee is {smallest:g}, with "
                f"{100 * coverage:.0f} % of the texts answered, if it was chosen before looking at "
                "them; without an error given, one is chosen and the guarantee is corrected for "
                "the choice."
            )
        needed = self.n_predicted(error, delta / len(ROUND_ERRORS) if chosen else delta)
        if needed is None and not reached:
            said += " More labels alone do not help: its surest answers are wrong as often."
        elif needed and n < needed <= (_MOST_MISSING + 1) * n:
            missing = needed - n
            texts = "text is" if missing == 1 else "texts are"
            said += f" About {missing:,} more calibration {texts} needed for an error of {error:g}."
        return said

    def n_predicted(self, error, delta):
        """Calibration texts with which an answer is as likely as not; None where no number is.

        A fifth of the texts is answered at least: fewer planning texts say too little.
        """
        for n in np.unique(np.geomspace(10, 1e6, 120).astype(int)):
            if plan(*self.planning, int(n), error, delta, 0.2).chance >= 0.5:
                return int(n)
        return None
