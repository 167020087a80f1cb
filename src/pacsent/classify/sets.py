"""Answers that say how sure they are: sets of labels, and answering only where it is safe."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pacsent.classify.inputs import as_labels
from pacsent.classify.ngrams import fingerprints
from pacsent.classify.promises import note_of, unseen
from pacsent.maths.binomial import last_passed, n_needed, rank_for_sets, upper_limit
from pacsent.maths.checks import check_probability
from pacsent.maths.rounding import rounded_down, rounded_up
from pacsent.text.texts import as_texts

ROUND_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
_HALF = 0.5  # share of the calibration texts that are answered with the default error


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
        return np.full(n_classes, -_kth(scores, error, delta, "labels to calibrate with"))
    share = delta / n_classes
    found = [
        _kth(scores[calibration.labels == c], error, share, f"labels of class number {c}")
        for c in range(n_classes)
    ]
    return -np.array(found)


def _kth(scores, error, delta, what):
    k = rank_for_sets(scores.size, error, delta)
    if k is None:
        needed = n_needed(error, delta)
        raise ValueError(
            f"Sets that miss at most {error:g} with confidence {1 - delta:g} need {needed:,} "
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
        """The class of each text, None where it abstains."""
        proba = self.classifier.predict_proba(texts)
        names = self.classifier.classes_[proba.argmax(axis=1)]
        return [
            name if p >= self.threshold else None
            for name, p in zip(names.tolist(), proba.max(axis=1))
        ]

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
    record = _Record.of(classifier.confidence_quantiles_, calibration)
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
        None if coverage else record.why_none(error, delta, reached),
    )  # fmt: skip


@dataclass(frozen=True)
class _Record:
    """How many calibration texts each threshold, strictest first, accepts, and gets wrong."""

    thresholds: np.ndarray
    n_accepted: np.ndarray
    n_wrong: np.ndarray
    n: int

    @classmethod
    def of(cls, quantiles, calibration):
        confidence = np.exp(calibration.log_proba.max(axis=1))
        # the order is fixed without these texts: quantiles of training's own confidences
        thresholds = np.unique(quantiles)[::-1]
        accepted = confidence >= thresholds[:, None]
        wrong = accepted & calibration.wrong
        return cls(thresholds, accepted.sum(axis=1), wrong.sum(axis=1), confidence.size)

    def lowest(self, error, delta):
        """(error, threshold, coverage) of the lowest threshold that may be used."""
        last = last_passed(self.n_accepted, self.n_wrong, error, delta)
        if last < 0:
            return error, 2.0, 0.0
        return error, float(self.thresholds[last]), float(self.n_accepted[last] / self.n)

    def reached(self, delta):
        """`lowest` for every round error; all of them hold together with 1 - delta."""
        return [self.lowest(error, delta / len(ROUND_ERRORS)) for error in ROUND_ERRORS]

    def curve(self):
        """(threshold, coverage, error) of each threshold that accepts a text."""
        some = self.n_accepted > 0
        rows = zip(self.thresholds[some], self.n_accepted[some], self.n_wrong[some])
        return [(float(t), float(a / self.n), float(k / a)) for t, a, k in rows]

    def why_none(self, error, delta, reached):
        """Why no threshold may be used, what is reachable, and how many labels are missing."""
        answered = [(e, coverage) for e, _, coverage in reached if coverage]
        asked = "any of the errors up to 0.5" if error is None else f"an error of {error:g}"
        said = (
            f"It abstains from every text: {self.n:,} calibration texts cannot guarantee {asked} "
            f"with confidence {1 - delta:g}."
        )
        if answered:
            smallest, coverage = answered[0]
            said += (
                f" The smallest error that they guarantee is {smallest:g}, with "
                f"{100 * coverage:.0f} % of the texts answered."
            )
        missing = self.n_missing(ROUND_ERRORS[-1] if error is None else error, delta)
        if missing is None:
            return f"{said} More labels alone do not help: its surest answers are wrong as often."
        return f"{said} About {missing:,} more calibration texts are needed for {asked}."

    def n_missing(self, error, delta):
        """Calibration texts that are missing if further ones are as often wrong; None: no number.

        Thresholds that accept few texts say too little about how often further ones are wrong.
        """
        some = self.n_accepted >= max(self.n / 5, 1)
        for factor in np.geomspace(1.0, 1000.0, 400):
            n_accepted = np.floor(self.n_accepted[some] * factor)
            n_wrong = np.minimum(np.rint(self.n_wrong[some] * factor), n_accepted)
            if last_passed(n_accepted, n_wrong, error, delta) >= 0:
                return max(math.ceil(self.n * factor) - self.n, 1)
        return None


@dataclass(frozen=True)
class Comparison:
    """What is certain about the difference of two classifiers' errors.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = TextClassifier().fit(texts, ["up", "down"] * 40, holdout=0.5, seed=0)
    >>> from pacsent.classify import compare
    >>> fresh = [f"a {word} film, the {n}th" for n in range(30) for word in ("good", "bad")]
    >>> compare(classifier, classifier, fresh, ["up", "down"] * 30).difference
    0.0
    """

    n: int
    only_a_right: int
    only_b_right: int
    delta: float
    exchangeable: str = "not checked"
    n_duplicates: int = 0  # copies of other texts among the n

    @property
    def difference(self) -> float:
        """Error of b minus error of a on these texts."""
        return (self.only_a_right - self.only_b_right) / self.n

    @property
    def bounds(self) -> tuple[float, float]:
        """Error of b minus error of a lies between these, with probability 1 - delta.

        Four limits, each at delta / 4.
        """
        share = self.delta / 4
        up_a, up_b = (upper_limit(k, self.n, share) for k in (self.only_a_right, self.only_b_right))
        low_a = 1.0 - upper_limit(self.n - self.only_a_right, self.n, share)
        low_b = 1.0 - upper_limit(self.n - self.only_b_right, self.n, share)
        return low_a - up_b, up_a - low_b

    def __str__(self) -> str:
        low, high = self.bounds
        seen = f"(observed {self.difference:+.4f} on {self.n:,} texts)"
        sure = f"With {100 * (1 - self.delta):g} % confidence"
        if low > 0:
            found = f"{sure}, a errs less than b, by at least {rounded_down(low)} {seen}."
        elif high < 0:
            found = f"{sure}, b errs less than a, by at least {rounded_down(-high)} {seen}."
        else:
            found = (
                f"{sure}, the errors of b and a differ by {rounded_down(low)} to "
                f"{rounded_up(high)} {seen}: these texts are too few to say which is better."
            )
        if self.n_duplicates:
            found += (
                f"\n{self.n_duplicates:,} of these texts are copies of others; each was counted, "
                "so this holds only if new texts repeat as often."
            )
        return f"{found}\nNew texts being alike: {self.exchangeable}."


def compare(
    a: Any,
    b: Any,
    texts: Iterable[str],
    labels: Sequence,
    *,
    delta: float = 0.05,
    overlap: str = "refuse",
    checked: Any = None,
) -> Comparison:
    """Which of two fitted classifiers errs less on texts neither has seen, and by how much.

    `checked`, of `check_exchangeable`, is about the texts that the answer is for, as in `certify`.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = TextClassifier().fit(texts, ["up", "down"] * 40, holdout=0.5, seed=0)
    >>> never = TextClassifier().fit([text[::-1] for text in texts], ["up", "down"] * 40)
    >>> fresh = [f"a {word} film, the {n}th" for n in range(60) for word in ("good", "bad")]
    >>> low, high = compare(classifier, never, fresh, ["up", "down"] * 60).bounds
    >>> low <= high
    True
    """
    check_probability("delta", delta)
    exchangeable = note_of(checked)
    texts = as_texts(texts, "texts")
    true = as_labels(labels, len(texts))
    for classifier in (a, b):
        if hasattr(classifier, "training_fingerprints_"):
            found = unseen(classifier, texts, true, overlap)
            texts, true = found.texts, classifier.classes_[found.y].tolist()
    if not texts:
        raise ValueError("texts must hold at least one text. Got none instead.")
    right_a, right_b = (_right(classifier, texts, true) for classifier in (a, b))
    only_a, only_b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    n_duplicates = len(texts) - np.unique(fingerprints(texts)).size
    return Comparison(len(texts), only_a, only_b, float(delta), exchangeable, n_duplicates)


def _right(classifier, texts, true):
    """Which texts a classifier, maybe not one of pacsent, gives the right class, (n,)."""
    found = np.asarray(classifier.predict(texts)).tolist()
    if not isinstance(found, list) or len(found) != len(texts):
        raise ValueError(
            f"predict must give one class for each of the {len(texts):,} texts. "
            f"{type(classifier).__name__} gave others."
        )
    return np.array([one == label for one, label in zip(found, true)], bool)
