"""Results about labels: suspicious ones, an audit, and a learning curve."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pacsent.bounds.binomial import upper_limit
from pacsent.bounds.checks import check_count, check_probability
from pacsent.bounds.rounding import percent

_CONFIDENCE = 0.9
_MAX_EXTRAPOLATION = 20  # curves are not extrapolated to more than 20 times the labels at hand
_HOLDOUTS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)


class SuspiciousLabel(NamedTuple):
    """A label that is probably wrong; `score` is the log-odds of the suggested class against it.

    >>> SuspiciousLabel(3, "ham", "spam", 4.2, "near-duplicates have other labels").suggested
    'spam'
    """

    row: int
    label: Any
    suggested: Any
    score: float
    reason: str


@dataclass(frozen=True, eq=False)
class Audit:
    """What is wrong with labelled texts; a section of `TextClassifier.report`.

    Attributes
    ----------
    texts, labels : lists
    counts : dict
        Texts of each class, without empty ones.
    suspicious : list of SuspiciousLabel
    duplicates, near_duplicates : list of lists of int
        Rows that have the same words, and those that almost have.
    empty : list of int
        Rows of empty texts, which are listed nowhere else.
    unknown : list of (int, float)
        Rows of which less than half of the words are in the vocabulary, and that fraction; empty
        without word vectors.
    rows : sequence of int
        The position in the file of each text, from 0; empty if these are all of it.
    """

    texts: list[str]
    labels: list
    counts: dict[Any, int]
    suspicious: list[SuspiciousLabel]
    duplicates: list[list[int]]
    near_duplicates: list[list[int]]
    empty: list[int]
    unknown: list[tuple[int, float]]
    rows: Sequence[int] = ()

    def position(self, row: int) -> int:
        """The position in the file of a text, from 0."""
        return self.rows[row] if len(self.rows) else row

    def to_dict(self) -> dict[str, Any]:
        """The numbers, and the suspicious rows; rows are counted from 0."""
        return {
            "n": len(self.texts),
            "classes": {str(k): n for k, n in self.counts.items()},
            "suspicious": [
                {**suspicion._asdict(), "row": self.position(suspicion.row)}
                for suspicion in self.suspicious
            ],
            "duplicates": [list(map(self.position, group)) for group in self.duplicates],
            "near_duplicates": [list(map(self.position, group)) for group in self.near_duplicates],
            "empty": list(map(self.position, self.empty)),
            "unknown": [self.position(row) for row, _ in self.unknown],
        }

    def __str__(self) -> str:
        groups = self.duplicates, self.near_duplicates
        n_copies, n_near = (sum(map(len, each)) - len(each) for each in groups)
        return (
            f"{len(self.texts):,} texts, {len(self.counts)} classes. Suspicious labels: "
            f"{len(self.suspicious):,}; duplicates: {n_copies:,}; near-duplicates: {n_near:,}; "
            f"empty: {len(self.empty):,}; mostly OOV words: {len(self.unknown):,}"
        )


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """The error as a function of the number of labels, c + a n^-b, with its uncertainty.

    `curves` are draws of (error at `n`, b, c) from their posterior, given the errors at `sizes` on
    held-out texts; three numbers of an answer are the ends of a 90% interval around the median.

    Attributes
    ----------
    n : int
        Labels that were given.
    sizes, n_tested, n_errors : arrays
        Labels fitted on, held-out texts and errors on them.

    Examples
    --------
    >>> draws = np.array([[0.12, 0.5, 0.02]])  # an error of 0.12 with 400 labels, 0.02 in the end
    >>> curve = LearningCurve(400, np.ones(1), np.ones(1), np.ones(1), draws)
    >>> curve.summary(error=0.07)
    'An error rate of 7.0% needs about 1,200 more labels (1,200 to 1,200).'
    """

    n: int
    sizes: np.ndarray  # (n_sizes,)
    n_tested: np.ndarray  # (n_sizes,)
    n_errors: np.ndarray  # (n_sizes,)
    curves: np.ndarray  # (n_draws, 3)

    def error_at(self, n_labels: int) -> tuple[float, float, float]:
        """Low end, median and high end of the error with this number of labels."""
        at_n, b, c = self.curves.T
        n_labels = check_count("n_labels", n_labels)
        return _interval(np.clip(c + (at_n - c) * (n_labels / self.n) ** -b, 0.0, 1.0))

    def labels_for(self, error: float) -> tuple[float, float, float]:
        """Low end, median and high end of the labels that this error needs; inf: no number does."""
        error = check_probability("error", error)
        at_n, b, c = self.curves.T
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = (at_n - c) / (error - c)
            needed = np.where(error > c, self.n * ratio ** (1 / b), np.inf)
        return _interval(np.ceil(np.maximum(needed, 1.0)))

    def calibration_cost(self, n_held_out: int) -> tuple[float, float, float]:
        """Low end, median and high end of the accuracy lost by fitting on that many labels less."""
        at_n, b, c = self.curves.T
        n_fitted = max(1, self.n - check_count("n_held_out", n_held_out))
        return _interval((at_n - c) * ((n_fitted / self.n) ** -b - 1))

    def describe_calibration_cost(self, n_held_out: int) -> str:
        """What holding out that many labels costs, in a sentence."""
        low, middle, high = (100 * cost for cost in self.calibration_cost(n_held_out))
        sizes = " and ".join(f"{size:,.0f}" for size in self.sizes[[0, -1]])
        return (
            f"Holding out {n_held_out:,} of {self.n:,} labels costs about {middle:.1f} points of "
            f"accuracy ({low:.1f} to {high:.1f}), by the errors of fits on {sizes} labels."
        )

    def best_calibration_size(self, delta: float = 0.05) -> tuple[float, float]:
        """The fraction to hold out that certifies the smallest error, and that error, on average.

        With a fraction f of n labels held out, the classifier has (1 - f) n labels and its Clopper-
        Pearson bound f n.
        """
        from scipy import stats  # here, because it takes a second to import

        n, candidates = self.n, []
        for fraction in _HOLDOUTS:
            n_held_out = max(1, round(fraction * n))
            error = self.error_at(max(1, n - n_held_out))[1]
            k = np.arange(stats.binom.ppf(1e-4, n_held_out, error), n_held_out + 1)
            chance = stats.binom.pmf(k, n_held_out, error)
            likely = chance > 1e-5
            bounds = [upper_limit(int(i), n_held_out, delta) for i in k[likely]]
            candidates.append((float(chance[likely] @ bounds / chance[likely].sum()), fraction))
        bound, fraction = min(candidates)
        return fraction, bound

    def summary(self, error: float | None = None) -> str:
        """How many more labels an error rate needs, in a sentence; without one, the whole curve."""
        if error is None:
            low, middle, high = self.error_at(self.n)
            fraction, bound = self.best_calibration_size()
            return (
                f"With {self.n:,} labels the error rate is about {middle:.1%} ({low:.1%} to "
                f"{high:.1%}). {self.summary(max(0.75 * middle, 1e-3))} To certify with the labels "
                f"at hand, hold out {fraction:.0%} of them: at most about {percent(bound, 1)}. "
                f"{self.describe_calibration_cost(max(1, round(fraction * self.n)))}"
            )
        low, middle, high = (max(0.0, size - self.n) for size in self.labels_for(error))
        largest = _MAX_EXTRAPOLATION * self.n
        if middle == 0:
            return f"The labels are probably enough for an error rate of {error:.1%}."
        if middle > largest:
            low, middle, high = self.error_at(largest)
            return (
                f"More labels of this kind will hardly help: with {_MAX_EXTRAPOLATION} times the "
                f"labels, the error rate levels off at about {middle:.1%} ({low:.1%} to "
                f"{high:.1%})."
            )
        # two digits, as an estimate deserves
        shown = [f"more than {largest:,}"] * 3
        for at, value in enumerate((low, middle, high)):
            if value <= largest:
                digits = max(0, math.floor(math.log10(max(value, 1.0))) - 1)
                shown[at] = f"{int(round(value, -digits)):,}"
        return (
            f"An error rate of {error:.1%} needs about {shown[1]} more labels ({shown[0]} to "
            f"{shown[2]})."
        )

    __str__ = summary

    def points(self) -> list[dict[str, float]]:
        """The curve with its interval at 40 sizes, and the errors that were measured."""
        sizes = np.geomspace(max(self.sizes[0], 2), 8 * self.n, 40)
        curve = [(n, *self.error_at(max(1, round(n)))) for n in sizes.tolist()]
        fitted = [{"labels": n, "low": a, "error": b, "high": c} for n, a, b, c in curve]
        measured = zip(self.sizes.tolist(), (self.n_errors / self.n_tested).tolist())
        return fitted + [{"labels": n, "measured": error} for n, error in measured]


def _interval(values) -> tuple[float, float, float]:
    ends = (1 - _CONFIDENCE) / 2, 0.5, (1 + _CONFIDENCE) / 2
    low, middle, high = np.quantile(values, ends, method="inverted_cdf")
    return float(low), float(middle), float(high)
