"""Bounds on the difference between the error rates of two classifiers, from the same texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacsent.classify.inputs import counted
from pacsent.guarantees.delta import divide_delta
from pacsent.guarantees.error_bounds import unseen
from pacsent.guarantees.estimators import predict_any, samples_for
from pacsent.guarantees.samples import n_samples, row_fingerprints, select_rows
from pacsent.maths.binomial import mcnemar, two_sided_limits
from pacsent.maths.checks import check_probability
from pacsent.maths.rounding import rounded_down, rounded_up

# Fraction of delta for how often exactly one of the two classifiers is right.
_DISCORDANT_FRACTION = 0.1


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
    n_duplicates: int = 0  # copies of the n texts, which were not counted

    @property
    def difference(self) -> float:
        """Error of b minus error of a on these texts."""
        return (self.only_a_right - self.only_b_right) / self.n

    @property
    def p_value(self) -> float:
        """Of the exact McNemar test that both err equally often.

        If they do, a text on which only one is right is as likely to be that of either.
        """
        return mcnemar(self.only_a_right, self.only_b_right)

    @property
    def bounds(self) -> tuple[float, float]:
        """Error of b minus error of a lies between these, with probability 1 - delta.

        The difference is s (2 f - 1): s is the share of texts on which only one is right, and f the
        share of these on which a is. Clopper-Pearson limits for f get nine tenths of delta, those
        for s one tenth, so that the sign is found about as often as by McNemar's test.
        """
        n_apart = self.only_a_right + self.only_b_right
        of_size = divide_delta(self.delta, fraction=_DISCORDANT_FRACTION)
        of_sign = divide_delta(self.delta, fraction=1.0 - _DISCORDANT_FRACTION)
        low, high = two_sided_limits(self.only_a_right, n_apart, of_sign)
        least, most = two_sided_limits(n_apart, self.n, of_size)
        low, high = 2.0 * low - 1.0, 2.0 * high - 1.0
        return (least if low > 0 else most) * low, (most if high > 0 else least) * high

    def __str__(self) -> str:
        low, high = self.bounds
        observed = f"(observed {self.difference:+.4f} on {self.n:,} texts; p = {self.p_value:.2g})"
        confidence = f"With {100 * (1 - self.delta):g} % confidence"
        better, worse = ("a", "b") if self.difference > 0 else ("b", "a")
        least = max(low, -high)
        if least > 0:
            by = f"by at least {rounded_down(least)}"
            text = f"{confidence}, {better} errs less than {worse}, {by} {observed}."
        elif self.p_value <= self.delta:
            text = (
                f"{confidence}, {better} errs less than {worse} {observed}; by how much is not "
                "certain."
            )
        else:
            text = (
                f"{confidence}, the errors of b and a differ by {rounded_down(low)} to "
                f"{rounded_up(high)} {observed}: these texts are too few to say which is better."
            )
        if self.n_duplicates:
            text += (
                f"\n{self.n_duplicates:,} further texts are copies of these and were not counted."
            )
        return text


def compare(
    a: Any,
    b: Any,
    X: Any,
    y: Sequence,
    *,
    delta: float = 0.05,
    overlap: str = "refuse",
) -> Comparison:
    """Bound the difference between the error rates of two classifiers.

    Neither may have been fitted on the texts. Of classifiers that give sets of labels, a set is
    right where it is exactly right. Anything that has `predict`, or is a function from
    rows to labels, can be compared.

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
    X, y = samples_for(a, X), counted(y)
    for classifier in (a, b):
        rows = unseen(classifier, X, y, overlap)
        X, y = rows.X, select_rows(y if hasattr(y, "shape") else list(y), rows.rows)
    right = []
    for classifier in (a, b):
        rows = unseen(classifier, X, y, overlap)
        predictions = predict_any(classifier, rows.classes, X).labels
        if rows.y.ndim == 2:
            right.append((predictions == rows.y).all(axis=1))
        else:
            right.append(predictions == rows.classes[rows.y])
    once = np.unique(np.column_stack([row_fingerprints(X), *right]).astype(np.uint64), axis=0)
    only_a = int((once[:, 1] > once[:, 2]).sum())
    only_b = int((once[:, 1] < once[:, 2]).sum())
    n_duplicates = n_samples(X) - len(once)
    return Comparison(len(once), only_a, only_b, float(delta), n_duplicates)
