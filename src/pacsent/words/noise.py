"""From counts to negatives: their probabilities, and the table that they are drawn from."""

import numpy as np
from numpy.typing import ArrayLike

from pacsent.kernels.alias import alias_table


def noise_probabilities(counts: ArrayLike, power: float = 0.75) -> np.ndarray:
    """p(w) proportional to count(w)^power; 0 where a word does not occur, whatever the power."""
    counts = np.asarray(counts, dtype=float)
    occurs = counts > 0
    weights = np.where(occurs, counts, 1.0) ** power * occurs
    return weights / weights.sum()


def alias(p: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """(keep, other): with i uniform, i with chance keep[i] and else other[i] follows p."""
    return alias_table(np.ascontiguousarray(p, dtype=float))


def alias_thresholds(p: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """`alias` for draws of 32 bits: i where a draw is below its threshold (uint64), else other."""
    keep, other = alias(p)
    thresholds = np.clip(keep, 0.0, 1.0) * 2.0**32
    return thresholds.astype(np.uint64), other
