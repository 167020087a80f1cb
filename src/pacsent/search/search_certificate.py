"""Guarantees for search, from queries whose right answer is known.

A certificate bounds how often the right text is not among the first k, from the number of misses
(Clopper-Pearson). A rule says how many hits a query needs, and when no text answers it, from the
order of the calibration scores; docs/theory.md has the proof.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from pacsent.guarantees.certificate import Certificate
from pacsent.guarantees.certificate_page import ChartBar
from pacsent.maths.binomial import n_needed, rank_for_sets, upper_limit
from pacsent.maths.checks import check_probability
from pacsent.maths.rounding import rounded_down, rounded_up


@dataclass(frozen=True, kw_only=True)
class SearchCertificate(Certificate):
    """Upper bound on how often the right text is not among the first hits.

    Attributes
    ----------
    n_errors : int
        Queries whose right text was not among the first k.
    n_hits : int
        k.
    n_texts : int
        Texts in the index.

    Examples
    --------
    >>> found = SearchCertificate(bound=upper_limit(5, 100, 0.05), delta=0.05, n=100, n_errors=5)
    >>> found.verify()
    Verified: the bound follows from its parts. Not checked: n_hits, n_texts, ...
    """

    kind: ClassVar[str] = "search"
    assumption: ClassVar[str] = (
        "the queries and the new ones are drawn independently from one distribution, each with its "
        "right texts, and neither the index, its encoder nor the number of hits was chosen by them."
    )
    needs_texts: ClassVar[tuple[str, ...]] = ("n_hits", "n_texts", "n_duplicates", "provenance")

    n_errors: int
    n_hits: int = 10
    n_texts: int = 0

    @classmethod
    def measured(cls, missed: np.ndarray, k: int, delta: float, n_texts: int, copies: int) -> Self:
        """The certificate of queries, by which of them missed their answer."""
        check_probability("delta", delta)
        n, n_errors = missed.size, int(missed.sum())
        return cls(
            bound=upper_limit(n_errors, n, delta), delta=delta, n=n, n_errors=n_errors,
            n_hits=int(k), n_texts=n_texts, n_duplicates=copies,
        )  # fmt: skip

    def recompute(self) -> dict[str, Any]:
        return {"bound": upper_limit(self.n_errors, self.n, self.delta_each)}

    def _check(self) -> None:
        if self.n_errors > self.n:
            self._refuse("n_errors", f"at most {self.n}, the number of queries")

    def sentence(self) -> str:
        return (
            f"With {self.confidence} confidence, for at least "
            f"{rounded_down(100 * (1 - self.bound), 3)} % of new queries like these the right text "
            f"is among the first {self.n_hits:,} ({self.n - self.n_errors:,} of {self.n:,} queries "
            f"found it: {100 * (1 - self.n_errors / self.n):.2f} %)."
        )

    def rows(self) -> list[tuple[str, str]]:
        repeated = f" {self.n_duplicates:,} repeated queries are left out." * bool(
            self.n_duplicates
        )
        return [
            ("Index", f"{self.n_texts:,} texts."),
            ("Bound", f"misses at most {rounded_up(self.bound)} (Clopper-Pearson).{repeated}"),
            ("Choices corrected for", self.corrected_for()),
            ("Assumption", self.assumption),
        ]  # fmt: skip

    def bars(self) -> list[ChartBar]:
        return [
            ChartBar("queries that missed", self.n_errors / self.n, "#8ab"),
            ChartBar("certified", self.bound, "#1b6e9c"),
        ]


class Asked(NamedTuple):
    """Queries with a known answer: the best score of each, and that of its right text."""

    best: np.ndarray  # (n,); -inf where nothing was found
    right: np.ndarray  # (n,)

    @classmethod
    def of(cls, scores: Iterable[np.ndarray], right: Sequence[np.ndarray]) -> "Asked":
        """From the scores of all texts for each query, and the places of its right texts."""
        found = [
            (float(one.max(initial=-np.inf)), float(one[places].max()))
            for one, places in zip(scores, right)
        ]
        best, of_right = np.array(found, dtype=float).reshape(-1, 2).T
        return cls(best, of_right)


class ThresholdRule(NamedTuple):
    """Which hits a query needs.

    All texts are returned whose score is at most `width` below the best, and none where the best is
    below `floor`.
    """

    width: float
    floor: float
    statement: str

    @classmethod
    def of(cls, asked: Asked, guarantee: float, delta: float) -> "ThresholdRule":
        """The narrowest rule that finds the right text for this share of queries.

        Half of the queries that it may miss are for hits that are too few, half for queries that
        are taken for ones without an answer; each half has half of delta.

        >>> rng = np.random.default_rng(0)
        >>> best = rng.normal(3, 1, 500)
        >>> rule = ThresholdRule.of(Asked(best, best - rng.exponential(1, 500)), 0.9, 0.05)
        >>> print(rule.statement)
        With 95 % confidence, the right text is among the hits for at least 90 % of new queries ...
        """
        check_probability("guarantee", guarantee)
        check_probability("delta", delta)
        error = (1 - guarantee) / 2
        n, k = asked.best.size, rank_for_sets(asked.best.size, error, delta / 2)
        sure = f"{100 * (1 - delta):g} %"
        if k is None:
            raise ValueError(
                f"guarantee must be smaller for {n:,} queries. Got {guarantee:g} instead. With "
                f"{sure} confidence it needs {n_needed(error, delta / 2):,} queries with answers."
            )
        finite = np.isfinite(asked.right)
        gaps = np.full(n, np.inf)
        gaps[finite] = asked.best[finite] - asked.right[finite]
        width, floor = float(np.sort(gaps)[k - 1]), -float(np.sort(-asked.best)[k - 1])
        if not (np.isfinite(width) and np.isfinite(floor)):
            raise ValueError(
                f"guarantee must be smaller: {n - int(finite.sum()):,} of {n:,} queries cannot "
                f"find their right text at all. Got {guarantee:g} instead."
            )
        return cls(
            width,
            floor,
            f"With {sure} confidence, the right text is among the hits for at least "
            f"{100 * guarantee:g} % of new queries that have one, and at most {100 * error:g} % of "
            "them are answered with nothing.",
        )

    def least(self, scores: np.ndarray) -> float:
        """The smallest score of a hit; inf where there is none."""
        best = float(scores.max(initial=-np.inf))
        return best - self.width if best >= self.floor else np.inf
