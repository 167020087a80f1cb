"""Kernel on two sequences of words: the edit distance between them."""

import numpy as np

from pacsent.kernels.library import INT32, SIZE, entry_point

_edit_distance = entry_point(
    "edit_distance",
    *(INT32, SIZE),  # the words of a, their number
    *(INT32, SIZE),  # the words of b, their number
    SIZE,  # limit
    INT32,  # room for n_b + 1 numbers
    returns=SIZE,
)


def edit_distance(a: np.ndarray, b: np.ndarray, limit: int) -> int:
    """Insertions, deletions and replacements of words between a and b; limit + 1 if more."""
    room = np.empty(b.size + 1, np.int32)
    return _edit_distance(a, a.size, b, b.size, limit, room)


def edit_distance_plainly(a: np.ndarray, b: np.ndarray, limit: int) -> int:
    """As `edit_distance`: the textbook's recursion over prefixes, row by row."""
    steps = np.arange(b.size + 1)
    costs = steps
    for i, word in enumerate(a, start=1):
        replaced = costs[:-1] + (b != word)
        deleted = costs[1:] + 1
        costs = np.concatenate([[i], np.minimum(replaced, deleted)])

        # An insertion costs one more than the cell to the left: a running minimum.
        costs = np.minimum.accumulate(costs - steps) + steps
    return int(min(costs[-1], limit + 1))
