"""Bounds on the difference between the error rates of two classifiers, from the same texts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacsent.classify.inputs import as_labels
from pacsent.classify.ngrams import fingerprints
from pacsent.guarantees.error_bounds import note_of, unseen
from pacsent.maths.binomial import lower_limit, upper_limit
from pacsent.maths.checks import check_probability
from pacsent.maths.rounding import rounded_down, rounded_up
from pacsent.text.texts import as_texts


@dataclass(frozen=True)
class Comparison:
    """Bounds on the difference between the error rates of two classifiers.

    Examples
    --------
    >>> from pacsent import CertifiedClassifier, TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = CertifiedClassifier(TextClassifier(), holdout=0.5, random_state=0)
    >>> _ = classifier.fit(texts, ["up", "down"] * 40)
    >>> from pacsent.guarantees import compare
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
        low_a, low_b = (
            lower_limit(k, self.n, share) for k in (self.only_a_right, self.only_b_right)
        )
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
        return f"{found}\nNew texts from the same distribution: {self.exchangeable}."


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
    """Bound the difference between the error rates of two classifiers.

    Neither may have been fitted on the texts.

    `checked` is the result of `check_exchangeable`, as in `certify`.

    Examples
    --------
    >>> from pacsent import CertifiedClassifier, TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = CertifiedClassifier(TextClassifier(), holdout=0.5, random_state=0)
    >>> _ = classifier.fit(texts, ["up", "down"] * 40)
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
            texts, true = found.X, classifier.classes_[found.y].tolist()
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
