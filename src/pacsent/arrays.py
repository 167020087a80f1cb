"""Small things about arrays that several formulas share."""

import numpy as np
from numpy.typing import ArrayLike

Numbers = float | np.ndarray  # one, or one for each row

# 2^64 over the golden ratio, the step of splitmix64, and the multipliers of its finaliser.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST_MULTIPLIER = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_MULTIPLIER = np.uint64(0x94D049BB133111EB)


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Return the rows of `X` divided by their lengths; rows of zeros stay as they are."""
    lengths = np.sqrt(np.einsum("ij,ij->i", X, X))  # faster than np.linalg.norm along an axis
    lengths[lengths == 0] = 1.0
    return X / lengths[:, None]


def are_among(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """True for values that are among `known`, which are sorted: `np.isin` without a sort.

    >>> are_among(np.array([3, 4]), np.array([1, 3, 9]))
    array([ True, False])
    """
    if not known.size:
        return np.zeros(values.shape, bool)
    places = np.searchsorted(known, values)
    places = np.minimum(places, known.size - 1)
    return known[places] == values


def splitmix64(x: ArrayLike) -> np.ndarray:
    """The finaliser of splitmix64: every bit of the input changes every bit of the output."""
    z = np.asarray(x, dtype=np.uint64)
    with np.errstate(over="ignore"):  # multiplication modulo 2^64
        z = (z ^ (z >> np.uint64(30))) * _FIRST_MULTIPLIER
        z = (z ^ (z >> np.uint64(27))) * _SECOND_MULTIPLIER
        return z ^ (z >> np.uint64(31))
