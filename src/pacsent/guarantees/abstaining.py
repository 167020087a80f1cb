"""Answers whose error is guaranteed: the texts that are not sure enough are left unanswered.

Thresholds and their order are planned on training texts (predictions by models that were not fitted
on them) and tested on the calibration texts: Theorem 13 of docs/theory.md. `plan` and
`lowest_valid_threshold` work on arrays: the confidence of each answer, and whether it is wrong.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from pacsent.guarantees.calibration_set import ROUND_ERRORS, Calibration, has_no_features
from pacsent.guarantees.delta import divide_delta
from pacsent.maths.binomial import chance_to_pass, passes
from pacsent.maths.checks import check_probability

_N_THRESHOLDS = 30  # more of them fail by chance, fewer lie too far apart
# Quantiles of the posterior of an error rate over which the chance to pass is averaged.
_RATE_QUANTILES = (np.arange(5) + 0.5) / 5
_DEFAULT_COVERAGE = 0.5  # fraction of the texts that are answered with the default error
# Predicted chance of an answer above which the guarantee needs no further words.
_LIKELY_CHANCE = 0.95
# Times the calibration texts: larger estimates of missing ones are not stated.
_MAX_MISSING_RATIO = 20


class Plan(NamedTuple):
    """Thresholds in the order in which they are tested, strictest first.

    `chance` is the predicted probability that the first of them passes.
    """

    thresholds: np.ndarray  # (m,), falling
    chance: float


def accepted(
    thresholds: np.ndarray, confidence: np.ndarray, wrong: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(n accepted, n wrong among them) at each threshold, thresholds falling."""
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
    """
    thresholds = np.unique(
        np.quantile(confidence, np.linspace(0.0, 1.0 - least, _N_THRESHOLDS + 1))
    )[::-1]
    n_accepted, n_wrong = accepted(thresholds, confidence, wrong)
    coverage = n_accepted / confidence.size
    # the rate of wrong answers is not known exactly: five values of its posterior are averaged
    rates = stats.beta.ppf(_RATE_QUANTILES[:, None], n_wrong + 0.5, n_accepted - n_wrong + 0.5)
    passes = chance_to_pass(np.rint(n * coverage).astype(int), rates, error, delta).mean(axis=0)
    first = int(np.argmax(passes))
    return Plan(thresholds[first:], float(passes[first]))


def lowest_valid_threshold(
    planned: Plan, confidence: np.ndarray, wrong: np.ndarray, error: float, delta: float
) -> int | None:
    """Position of the lowest threshold that may be used; None where none may.

    Fixed-sequence testing: thresholds pass in their order up to the first that fails. With
    probability 1 - delta over the calibration texts, none that passes has a larger rate of wrong
    answers than `error`. Tests are randomised by one number that is made of the confidences, not of
    the labels: they pass at level delta exactly, where counts alone would waste a part of it.
    """
    counts = accepted(planned.thresholds, confidence, wrong)
    # by SHA-256: the same number in [0, 1) for everybody who has the confidences
    digest = hashlib.sha256(np.ascontiguousarray(confidence, "<f8").tobytes()).digest()
    uniform = int.from_bytes(digest[:6], "big") / 2**48
    failed = ~passes(*counts, error, delta, uniform)
    n_passed = int(np.argmax(failed)) if failed.any() else failed.size
    return n_passed - 1 if n_passed else None


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
        labels, log_proba = self.classifier.predict_with_scores(texts)
        is_answered = np.exp(log_proba.max(axis=1)) >= self.threshold
        is_answered &= ~has_no_features(self.classifier, log_proba)
        return [label if answer else None for label, answer in zip(labels.tolist(), is_answered)]

    @property
    def statement(self) -> str:
        """What is guaranteed about the answers, in one sentence or two."""
        if self.no_answers:
            return self.no_answers
        text = (
            f"With {100 * (1 - self.delta):g} % confidence, at most {100 * self.error:g} % of its "
            f"answers are wrong; it answers {100 * self.coverage:.1f} % of the calibration texts "
            f"(those with a probability of at least {self.threshold:.4f})."
        )
        if self.n_errors > 1:
            choice = f" Of {self.n_errors} round errors it answers most with this one"
            if self.coverage >= _DEFAULT_COVERAGE:
                choice = (
                    f" The error is the smallest of {self.n_errors} round ones with which it "
                    "answers at least half of them"
                )
            text += f"{choice}; the guarantee is corrected for this choice."
        if self.chance < _LIKELY_CHANCE:
            confidence = max(0.0, 1.0 - self.delta / max(self.chance, self.delta))
            text += (
                f" Answers were predicted for only {100 * self.chance:.0f} % of calibration sets "
                "like this one; if so, the confidence among those that do answer is "
                f"{100 * confidence:.0f} % (abstaining from every text counts as kept)."
            )
        return text

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
    """The lowest threshold that passes the test of `lowest_valid_threshold`.

    With error=None the error is the smallest of `ROUND_ERRORS` with which at least half of the
    calibration texts are answered; where there is none, the one that answers most. As it is chosen
    by looking at these texts, each of the errors gets an equal share of delta (union bound).
    """
    check_probability("delta", delta)
    if error is not None:
        check_probability("error", error)
    test = _AbstentionTest(classifier, calibration)
    if error is None:
        each = divide_delta(delta, len(ROUND_ERRORS))
        rules = [test.lowest(error, each, _DEFAULT_COVERAGE) for error in ROUND_ERRORS]
        best = int(np.argmax([min(rule.coverage, _DEFAULT_COVERAGE) for rule in rules]))
        rule, n_errors = rules[best], len(ROUND_ERRORS)
        rule = rule._replace(chance=max(rule.chance for rule in rules))
    else:
        rule, n_errors = test.lowest(float(error), delta), 1
    return Abstaining(
        classifier=classifier,
        delta=delta,
        n=test.confidence.size,
        n_errors=n_errors,
        no_answers=None if rule.coverage else test.why_none(error, delta),
        **rule._asdict(),
    )


class _Rule(NamedTuple):
    error: float
    threshold: float
    coverage: float
    chance: float
    curve: list


class _AbstentionTest:
    """Planning and calibration texts: how sure each answer is, and whether it is wrong."""

    def __init__(self, classifier, calibration):
        planning = classifier.out_of_fold_
        self.planning: tuple[np.ndarray, np.ndarray] = (
            np.exp(planning.log_proba.max(axis=1)),
            planning.log_proba.argmax(axis=1) != planning.labels,
        )
        self.confidence = np.exp(calibration.log_proba.max(axis=1))
        self.confidence[has_no_features(classifier, calibration.log_proba)] = -1.0  # no answer
        self.wrong = calibration.wrong

    def lowest(self, error, delta, least=0.0) -> _Rule:
        """The lowest threshold that passes; one above 1 and a coverage of 0 where none does."""
        n = self.confidence.size
        planned = plan(*self.planning, n, error, delta, least)
        n_accepted, n_wrong = accepted(planned.thresholds, self.confidence, self.wrong)
        rows = zip(planned.thresholds, n_accepted, n_wrong)
        curve = [(float(t), float(a / n), float(k / a)) for t, a, k in rows if a]
        place = lowest_valid_threshold(planned, self.confidence, self.wrong, error, delta)
        threshold, coverage = 2.0, 0.0
        if place is not None:
            threshold, coverage = float(planned.thresholds[place]), float(n_accepted[place] / n)
        return _Rule(error, threshold, coverage, planned.chance, curve)

    def why_none(self, error, delta) -> str:
        """Why no threshold may be used, what is reachable, and how many labels are missing."""
        n, is_default = self.confidence.size, error is None
        if is_default:
            error = ROUND_ERRORS[-1]
        text = (
            f"It abstains from every text: {n:,} calibration texts cannot guarantee an error "
            f"of {error:g} with confidence {1 - delta:g}"
        )
        text += ", corrected for the choice of the error." if is_default else "."
        larger = () if is_default else (e for e in ROUND_ERRORS if e > error)
        rules = (self.lowest(e, delta) for e in larger)
        reachable = next((rule for rule in rules if rule.coverage), None)
        if reachable is not None:
            text += (
                f" The smallest round error that they guarantee is {reachable.error:g}, with "
                f"{100 * reachable.coverage:.0f} % of the texts answered, if it was chosen before "
                "looking at them; without an error given, one is chosen and the guarantee is "
                "corrected for the choice."
            )
        if is_default:
            delta = divide_delta(delta, len(ROUND_ERRORS))
        # Calibration texts with which an answer is as likely as not. A fifth of the texts is
        # answered at least: fewer planning texts say too little.
        needed = next(
            (
                int(size)
                for size in np.unique(np.geomspace(10, 1e6, 120).astype(int))
                if plan(*self.planning, int(size), error, delta, 0.2).chance >= 0.5
            ),
            None,
        )
        if needed is None and reachable is None:
            text += " More labels alone do not help: its surest answers are wrong as often."
        elif needed and n < needed <= (_MAX_MISSING_RATIO + 1) * n:
            texts = "text is" if needed - n == 1 else "texts are"
            text += (
                f" About {needed - n:,} more calibration {texts} needed for an error of {error:g}."
            )
        return text
