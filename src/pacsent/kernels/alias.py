"""Kernel of Walker's alias table, from which negatives are drawn."""

import numpy as np

from pacsent.kernels.library import FLOAT64, INT32, SIZE, entry_point, needs_twins

_alias_table = entry_point(
    "alias_table",
    *(FLOAT64, SIZE),  # p, its size
    *(FLOAT64, INT32),  # keep, other
    *(INT32, INT32),  # room for as many numbers each
)


def alias_table(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(keep, other): with i uniform, i with chance keep[i] and else other[i] follows p.

    p : (n,) float64 array of weights, not all of them 0
    """
    if needs_twins():
        return alias_table_plainly(p)
    if p.ndim != 1 or p.size >= 2**31:
        raise ValueError(f"The weights must be fewer than 2^31, in a row. Got {p.shape} instead.")

    keep = np.empty(p.size)
    other = np.empty(p.size, np.int32)
    room = np.empty_like(other)
    more_room = np.empty_like(other)
    _alias_table(p, p.size, keep, other, room, more_room)
    return keep, other


def alias_table_plainly(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `alias_table`: a column with less than the mean is filled up by one with more."""
    keep = p * p.size / np.cumsum(p)[-1:]  # the sum of `cumsum` is in order
    other = np.arange(p.size, dtype=np.int32)
    is_small = keep < 1.0
    small = np.flatnonzero(is_small).tolist()
    large = np.flatnonzero(~is_small).tolist()
    while small and large:
        i = small.pop()
        j = large[-1]
        other[i] = j
        keep[j] -= 1.0 - keep[i]
        if keep[j] < 1.0:
            small.append(large.pop())
    keep[small + large] = 1.0
    return keep, other
