"""Results about labels: suspicious ones, an audit, and a learning curve."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pacsent.bounds.binomial import upper_limit
from pacsent.bounds.checks import check_count, check_probability
from pacsent.bounds.rounding import format_count, percent

_CONFIDENCE = 0.9
_SMALL_CLASS = 20  # texts; with fewer, what is suspicious about a label is less certain
_MAX_NAMED_CLASSES = 5
_MAX_EXTRAPOLATION = 20  # curves are not extrapolated to more than 20 times the labels at hand
# Fractions of the labels to hold out that are compared.
_HOLDOUT_FRACTIONS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)


class SuspiciousLabel(NamedTuple):
    """A label that is probably wrong; `score` is the log-odds of the suggested class against it.

    Examples
    --------
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
    """Problems of labelled texts; a section of `TextClassifier.report`.

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
        suspicious = []
        for suspicion in self.suspicious:
            fields = suspicion._asdict()
            fields["row"] = self.position(suspicion.row)
            suspicious.append(fields)
        return {
            "n": len(self.texts),
            "classes": {str(name): n for name, n in self.counts.items()},
            "suspicious": suspicious,
            "duplicates": [self._positions(group) for group in self.duplicates],
            "near_duplicates": [self._positions(group) for group in self.near_duplicates],
            "empty": self._positions(self.empty),
            "unknown": [self.position(row) for row, _ in self.unknown],
            "small_classes": {str(name): n for name, n in self.small_classes().items()},
        }

    def small_classes(self) -> dict[Any, int]:
        """Classes with fewer than 20 texts that a suspicious label has or suggests.

        Returns
        -------
        dict
            The number of texts of each.
        """
        named = {name for found in self.suspicious for name in (found.label, found.suggested)}
        return {name: n for name, n in self.counts.items() if n < _SMALL_CLASS and name in named}

    def how_to_read(self) -> str:
        """Sentences on how to read the list of suspicious labels; empty if there are none.

        Returns
        -------
        str
        """
        if not self.suspicious:
            return ""
        advice = "The most suspicious labels come first: stop where you agree with the labels."
        small = self.small_classes()
        if not small:
            return advice
        counts = [f"{name} has {format_count(n, 'text')}" for name, n in small.items()]
        shown = ", ".join(counts[:_MAX_NAMED_CLASSES])
        if len(counts) > _MAX_NAMED_CLASSES:
            shown += f", and {len(counts) - _MAX_NAMED_CLASSES:,} more classes have as few"
        return f"{advice} {shown}: suspicious labels of so small a class are less certain."

    def _positions(self, rows: list[int]) -> list[int]:
        return list(map(self.position, rows))

    def __str__(self) -> str:
        n_copies = _count_copies(self.duplicates)
        n_near_copies = _count_copies(self.near_duplicates)
        return (
            f"{len(self.texts):,} texts, {len(self.counts)} classes. Suspicious labels: "
            f"{len(self.suspicious):,}; duplicates: {n_copies:,}; near-duplicates: "
            f"{n_near_copies:,}; empty: {len(self.empty):,}; mostly OOV words: "
            f"{len(self.unknown):,}"
        )


def _count_copies(groups: list[list[int]]) -> int:
    """The texts of all groups but one of each."""
    return sum(map(len, groups)) - len(groups)


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
        """Low end, median and high end of the error with this number of labels.

        Parameters
        ----------
        n_labels : int

        Returns
        -------
        (float, float, float)
        """
        at_n, b, c = self.curves.T
        n_labels = check_count("n_labels", n_labels)
        errors = c + (at_n - c) * (n_labels / self.n) ** -b  # (n_draws,)
        return _interval(np.clip(errors, 0.0, 1.0))

    def labels_for(self, error: float) -> tuple[float, float, float]:
        """Low end, median and high end of the labels that this error needs.

        Parameters
        ----------
        error : float

        Returns
        -------
        (float, float, float)
            inf: no number of labels is enough.
        """
        error = check_probability("error", error)
        at_n, b, c = self.curves.T
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = (at_n - c) / (error - c)
            needed = np.where(error > c, self.n * ratio ** (1 / b), np.inf)
        return _interval(np.ceil(np.maximum(needed, 1.0)))

    def calibration_cost(self, n_held_out: int) -> tuple[float, float, float]:
        """Low end, median and high end of the accuracy lost by fitting on that many labels less.

        Parameters
        ----------
        n_held_out : int

        Returns
        -------
        (float, float, float)
        """
        at_n, b, c = self.curves.T
        n_fitted = max(1, self.n - check_count("n_held_out", n_held_out))
        growth = (n_fitted / self.n) ** -b - 1  # (n_draws,)
        return _interval((at_n - c) * growth)

    def describe_calibration_cost(self, n_held_out: int) -> str:
        """Sentence about what holding out labels costs in accuracy.

        Parameters
        ----------
        n_held_out : int
            Number of labels that are held out.

        Returns
        -------
        str
            The median cost in points of accuracy, with a credible interval.
        """
        low, middle, high = (100 * cost for cost in self.calibration_cost(n_held_out))
        smallest = self.sizes[0]
        largest = self.sizes[-1]
        return (
            f"Holding out {n_held_out:,} of {self.n:,} labels costs about {middle:.1f} points of "
            f"accuracy ({low:.1f} to {high:.1f}), by the errors of fits on {smallest:,.0f} and "
            f"{largest:,.0f} labels."
        )

    def best_calibration_size(self, delta: float = 0.05) -> tuple[float, float]:
        """Fraction of the labels to hold out that certifies the smallest error, on average.

        With a fraction f of n labels held out, the classifier has (1 - f) n labels and its Clopper-
        Pearson bound f n.

        Parameters
        ----------
        delta : float, default=0.05
            Probability that the bound may be violated.

        Returns
        -------
        fraction : float
            Fraction of the labels to hold out.
        error : float
            The certified error with this fraction, averaged over the posterior of the curve.
        """
        bounds = [self._mean_certified_error(fraction, delta) for fraction in _HOLDOUT_FRACTIONS]
        bound, fraction = min(zip(bounds, _HOLDOUT_FRACTIONS))
        return fraction, bound

    def _mean_certified_error(self, fraction: float, delta: float) -> float:
        """The mean Clopper-Pearson bound if a fraction of the labels is held out."""
        from scipy import stats  # here, because it takes a second to import

        n_held_out = max(1, round(fraction * self.n))
        _, error, _ = self.error_at(max(1, self.n - n_held_out))

        # The distribution of the number of errors, without numbers that hardly ever occur.
        fewest = stats.binom.ppf(1e-4, n_held_out, error)
        n_errors = np.arange(fewest, n_held_out + 1)
        probabilities = stats.binom.pmf(n_errors, n_held_out, error)
        is_likely = probabilities > 1e-5
        likely = probabilities[is_likely]
        bounds = [upper_limit(int(k), n_held_out, delta) for k in n_errors[is_likely]]
        return float(likely @ bounds / likely.sum())

    def summary(self, error: float | None = None) -> str:
        """The number of labels that an error rate needs, in a sentence; or the whole curve.

        Parameters
        ----------
        error : float, optional

        Returns
        -------
        str
        """
        if error is None:
            return self._describe_curve()

        low, middle, high = (max(0.0, size - self.n) for size in self.labels_for(error))
        largest = _MAX_EXTRAPOLATION * self.n
        if middle == 0:
            return f"The labels are probably enough for an error rate of {error:.1%}."
        if middle > largest:
            return self._describe_limit(largest)

        shown_low = _format_more_labels(low, largest)
        shown_middle = _format_more_labels(middle, largest)
        shown_high = _format_more_labels(high, largest)
        return (
            f"An error rate of {error:.1%} needs about {shown_middle} more labels ({shown_low} to "
            f"{shown_high})."
        )

    def _describe_curve(self) -> str:
        low, middle, high = self.error_at(self.n)
        fraction, bound = self.best_calibration_size()
        more_labels = self.summary(max(0.75 * middle, 1e-3))
        n_held_out = max(1, round(fraction * self.n))
        return (
            f"With {self.n:,} labels the error rate is about {middle:.1%} ({low:.1%} to "
            f"{high:.1%}). {more_labels} To certify with the labels at hand, hold out "
            f"{fraction:.0%} of them: at most about {percent(bound, 1)}. "
            f"{self.describe_calibration_cost(n_held_out)}"
        )

    def _describe_limit(self, n_labels: int) -> str:
        low, middle, high = self.error_at(n_labels)
        return (
            f"More labels of this kind will hardly help: with {_MAX_EXTRAPOLATION} times the "
            f"labels, the error rate levels off at about {middle:.1%} ({low:.1%} to {high:.1%})."
        )

    __str__ = summary

    def points(self) -> list[dict[str, float]]:
        """The curve with its interval at 40 sizes, and the errors that were measured.

        Returns
        -------
        list of dict
        """
        points = []
        smallest = max(self.sizes[0], 2)
        for size in np.geomspace(smallest, 8 * self.n, 40).tolist():
            low, middle, high = self.error_at(max(1, round(size)))
            points.append({"labels": size, "low": low, "error": middle, "high": high})

        error_rates = self.n_errors / self.n_tested  # (n_sizes,)
        for size, error in zip(self.sizes.tolist(), error_rates.tolist()):
            points.append({"labels": size, "measured": error})
        return points


def _format_more_labels(n: float, largest: int) -> str:
    """A number of labels in two digits, as an estimate deserves."""
    if not n <= largest:
        return f"more than {largest:,}"
    n_digits = math.floor(math.log10(max(n, 1.0)))
    return f"{int(round(n, -max(0, n_digits - 1))):,}"


def _interval(values: np.ndarray) -> tuple[float, float, float]:
    """Low end, median and high end of a 90% interval."""
    quantiles = ((1 - _CONFIDENCE) / 2, 0.5, (1 + _CONFIDENCE) / 2)
    low, middle, high = np.quantile(values, quantiles, method="inverted_cdf")
    return float(low), float(middle), float(high)
