"""Guarantees for search, from queries whose right answer is known.

`pacsent.search.SearchCertificate` bounds how often the right text is not among the first k. A
rule says how many hits a query needs, and when no text answers it, from the order of the
calibration scores; docs/theory.md has the proof.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pacsent.bounds.binomial import format_needed, n_needed, rank_for_sets
from pacsent.bounds.checks import check_probability
from pacsent.bounds.delta import confidence, divide_delta

# Fractions of the error and of delta for the floor, below which no text answers a query. The other
# part decides how many hits there are. Chosen by simulation with 500 queries.
FLOOR_ERROR = 0.15
FLOOR_DELTA = 0.2


class CalibrationQueries(NamedTuple):
    """Queries with a known answer: the best score of each, and that of its right text."""

    best: np.ndarray  # (n,); -inf where nothing was found
    right: np.ndarray  # (n,)


class ThresholdRule(NamedTuple):
    """Rule that says which hits a query needs.

    All texts are returned whose score is at most `width` below the best, and none where the best is
    below `floor`.
    """

    width: float
    floor: float
    statement: str

    @classmethod
    def of(
        cls,
        samples: Sequence[CalibrationQueries],
        guarantee: float,
        delta: float,
        new_queries: str = "new queries",
        n_candidates: int = 1,
    ) -> "ThresholdRule":
        """The narrowest rule that finds the right text for this fraction of queries.

        Of the queries that it may miss, 15% may be taken for ones without an answer, with 20% of
        delta, the others for hits that are too few. If there are too few queries for such a floor,
        it is -inf, and every query is for hits. Of several samples, the widest width and the lowest
        floor: these find what the rule of each would find. Each of `n_candidates` indexes has its
        part of delta.

        >>> rng = np.random.default_rng(0)
        >>> best = rng.normal(3, 1, 500)
        >>> rule = ThresholdRule.of([CalibrationQueries(best, best - 1)], 0.9, 0.05)
        >>> print(rule.statement)
        With 95% confidence, the right text is among the hits for at least 90% of new queries ...
        """
        check_probability("guarantee", guarantee)
        check_probability("delta", delta)

        rules = [
            cls._of_sample(queries, guarantee, delta, new_queries, n_candidates)
            for queries in samples
        ]

        # The shortest statement is about the sample that is too small for a floor.
        floor, statement = min((rule.floor, rule.statement) for rule in rules)
        return cls(max(rule.width for rule in rules), floor, statement)

    @classmethod
    def _of_sample(
        cls,
        queries: CalibrationQueries,
        guarantee: float,
        delta: float,
        new_queries: str,
        n_candidates: int,
    ) -> "ThresholdRule":
        n = queries.best.size
        sure = confidence(delta)
        delta = divide_delta(delta, n_candidates)

        # Error and delta are divided between floor and width by the number of queries alone, so
        # that no data choose.
        floor_error = FLOOR_ERROR * (1 - guarantee)
        floor_delta = FLOOR_DELTA * delta
        floor_rank = rank_for_sets(n, floor_error, floor_delta)
        if floor_rank is None:
            floor_error = 0.0
            floor_delta = 0.0
        width_error = 1 - guarantee - floor_error
        width_delta = delta - floor_delta
        width_rank = rank_for_sets(n, width_error, width_delta)
        if width_rank is None:
            needed = format_needed(n_needed(width_error, width_delta))
            raise ValueError(
                f"guarantee must be smaller for {n:,} queries. Got {guarantee:g} instead. With "
                f"{sure} confidence it needs {needed} queries with answers."
            )

        # How far the right text is below the best one: inf if it was not found at all, (n,).
        is_found = np.isfinite(queries.right)
        gaps = np.full(n, np.inf)
        gaps[is_found] = queries.best[is_found] - queries.right[is_found]
        width = float(np.sort(gaps)[width_rank - 1])
        floor = -np.inf
        if floor_rank is not None:
            floor = -float(np.sort(-queries.best)[floor_rank - 1])
        is_floor_infinite = floor_rank is not None and not np.isfinite(floor)
        if not np.isfinite(width) or is_floor_infinite:
            n_missed = np.count_nonzero(~is_found)
            raise ValueError(
                f"guarantee must be smaller: {n_missed:,} of {n:,} queries "
                f"cannot find their right text at all. Got {guarantee:g} instead."
            )

        statement = (
            f"With {sure} confidence, the right text is among the hits for at least "
            f"{100 * guarantee:g}% of {new_queries} that have one"
        )
        if floor_rank is None:
            return cls(width, floor, f"{statement}.")
        unanswered = f"at most {100 * floor_error:g}% of them are answered with nothing"
        return cls(width, floor, f"{statement}, and {unanswered}.")

    def threshold(self, scores: np.ndarray) -> float:
        """The smallest score of a hit; inf where there is none."""
        best = float(scores.max(initial=-np.inf))
        if best >= self.floor:
            return best - self.width
        return np.inf
