"""Answers that say how sure they are: sets of labels, and answering only where it is safe."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacsent.classify.promises import alike, check_delta, fresh
from pacsent.maths.binomial import last_passed, n_needed, rank_for_sets, upper_limit
from pacsent.maths.rounding import rounded_down, rounded_up


@dataclass(frozen=True)
class Calibration:
    """Log-probabilities of texts that nothing was fitted or chosen on, and their classes."""

    log_proba: np.ndarray  # (n, n_classes)
    labels: np.ndarray  # (n,)

    @property
    def wrong(self) -> np.ndarray:
        """Which texts' likeliest class is not theirs, (n,)."""
        return self.log_proba.argmax(axis=1) != self.labels


def set_thresholds(
    calibration: Calibration, error: float, delta: float, per_class: bool
) -> np.ndarray:
    """Smallest log-probability with which a class enters a set, (n_classes,).

    Scores are -log p, smaller is more plausible; the k-th smallest of the true labels' scores is
    the threshold (`rank_for_sets`). Per class: only that class's texts, delta shared.
    """
    check_delta(delta)
    check_delta(error, "error")
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
    threshold : float
        Smallest probability of the answer with which it answers; above 1 where nothing is safe.
    coverage : float
        Share of the calibration texts it answers.
    curve : list of (threshold, coverage, error)
        What answering from each threshold on gave on the calibration texts; for looking at, not
        for choosing.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = TextClassifier().fit(texts, ["up", "down"] * 40, holdout=0.5, seed=0)
    >>> careful = classifier.abstain(error=0.1)
    >>> careful.predict(["a good film"])
    ['up']
    """

    classifier: Any
    error: float
    delta: float
    threshold: float
    coverage: float
    n: int
    curve: list

    def predict(self, texts: Iterable[str]) -> list:
        """The class of each text, None where it abstains."""
        proba = self.classifier.predict_proba(texts)
        names = self.classifier.classes_[proba.argmax(axis=1)]
        return [
            name if p >= self.threshold else None
            for name, p in zip(names.tolist(), proba.max(axis=1))
        ]

    @property
    def why_silent(self) -> str | None:
        """Why it never answers; None where it does."""
        if self.threshold <= 1:
            return None
        return (
            f"No answer is safe: with {self.n:,} calibration texts no threshold has at most "
            f"{self.error:g} wrong with confidence {1 - self.delta:g}."
        )

    def __str__(self) -> str:
        return self.why_silent or (
            f"With {100 * (1 - self.delta):g} % confidence, of the texts it answers at most "
            f"{100 * self.error:g} % are wrong. It answers {100 * self.coverage:.1f} % of texts "
            f"(those with probability >= {self.threshold:.4f}). New texts being alike: not "
            "checked; StreamWatcher and check_exchangeable do."
        )


def abstain(classifier: Any, calibration: Calibration, error: float, delta: float) -> Abstaining:
    """The lowest threshold that fixed-sequence testing allows, strictest first."""
    check_delta(delta)
    check_delta(error, "error")
    confidence = np.exp(calibration.log_proba.max(axis=1))
    wrong = calibration.wrong
    # the order is fixed without these texts: quantiles of training's own confidences
    thresholds = np.unique(classifier.confidence_quantiles_)[::-1]
    accepted = [confidence >= t for t in thresholds]
    n_accepted = np.array([a.sum() for a in accepted])
    n_errors = np.array([(a & wrong).sum() for a in accepted])
    last = last_passed(n_accepted, n_errors, error, delta)
    n = calibration.labels.size
    curve = [
        (float(t), float(a / n), float(k / a))
        for t, a, k in zip(thresholds, n_accepted, n_errors)
        if a > 0
    ]
    threshold = float(thresholds[last]) if last >= 0 else 2.0
    coverage = float(n_accepted[last] / n) if last >= 0 else 0.0
    return Abstaining(classifier, error, delta, threshold, coverage, n, curve)


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
    check_delta(delta)
    known = [c for c in (a, b) if hasattr(c, "training_fingerprints_")]
    some, true = list(texts), np.asarray(labels)
    for classifier in known:
        some, y, _ = fresh(classifier, some, true, overlap)
        true = classifier.classes_[y]
    right_a, right_b = a.predict(some) == true, b.predict(some) == true
    only_a, only_b = int((right_a & ~right_b).sum()), int((right_b & ~right_a).sum())
    return Comparison(len(some), only_a, only_b, float(delta), alike(checked))
