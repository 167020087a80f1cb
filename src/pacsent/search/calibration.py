"""Guarantees for search, from queries whose right answer is known.

`pacsent.guarantees.SearchCertificate` bounds how often the right text is not among the first k. A
rule says how many hits a query needs, and when no text answers it, from the order of the
calibration scores; docs/theory.md has the proof.
"""

from typing import NamedTuple

import numpy as np

from pacsent.guarantees.delta import divide_delta
from pacsent.maths.binomial import n_needed, rank_for_sets
from pacsent.maths.checks import check_probability


class CalibrationQueries(NamedTuple):
    """Queries with a known answer: the best score of each, and that of its right text."""

    best: np.ndarray  # (n,); -inf where nothing was found
    right: np.ndarray  # (n,)


class ThresholdRule(NamedTuple):
    """Which hits a query needs.

    All texts are returned whose score is at most `width` below the best, and none where the best is
    below `floor`.
    """

    width: float
    floor: float
    statement: str

    @classmethod
    def of(cls, queries: CalibrationQueries, guarantee: float, delta: float) -> "ThresholdRule":
        """The narrowest rule that finds the right text for this fraction of queries.

        Half of the queries that it may miss are for hits that are too few, half for queries that
        are taken for ones without an answer; each half has half of delta.

        >>> rng = np.random.default_rng(0)
        >>> best = rng.normal(3, 1, 500)
        >>> rule = ThresholdRule.of(CalibrationQueries(best, best - 1), 0.9, 0.05)
        >>> print(rule.statement)
        With 95 % confidence, the right text is among the hits for at least 90 % of new queries ...
        """
        check_probability("guarantee", guarantee)
        check_probability("delta", delta)
        error, each = (1 - guarantee) / 2, divide_delta(delta, 2)
        n, k = queries.best.size, rank_for_sets(queries.best.size, error, each)
        sure = f"{100 * (1 - delta):g} %"
        if k is None:
            raise ValueError(
                f"guarantee must be smaller for {n:,} queries. Got {guarantee:g} instead. With "
                f"{sure} confidence it needs {n_needed(error, each):,} queries with answers."
            )
        finite = np.isfinite(queries.right)
        gaps = np.full(n, np.inf)
        gaps[finite] = queries.best[finite] - queries.right[finite]
        width, floor = float(np.sort(gaps)[k - 1]), -float(np.sort(-queries.best)[k - 1])
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

    def threshold(self, scores: np.ndarray) -> float:
        """The smallest score of a hit; inf where there is none."""
        best = float(scores.max(initial=-np.inf))
        return best - self.width if best >= self.floor else np.inf
