"""Kernels of BM25 on postings: the rows that contain a word, increasing, and their impacts.

A row's score is the sum of weight * impact over the words of a query, in the order of the words and
in single precision everywhere. `spans` are the places of the words' postings, (n_words, 2).
"""

import numpy as np

from pacsent.kernels.library import (
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    SIZE,
    Array,
    BoundArray,
    entry_point,
    needs_twins,
)

_find_best = entry_point(
    "find_best",
    *(INT32, FLOAT32, SIZE),  # rows, impacts, number of postings
    *(INT64, FLOAT32, FLOAT32, SIZE),  # spans, weights, limits, number of words
    SIZE,  # first row
    *(Array(np.bool_), SIZE),  # excluded rows, their number
    *(FLOAT64, SIZE),  # best, their number
    *(INT64, FLOAT64),  # room: places, remaining
    returns=SIZE,
)


def add_postings(
    rows: np.ndarray,
    impacts: np.ndarray,
    spans: np.ndarray,
    weights: np.ndarray,
    scores: np.ndarray,
) -> None:
    """Add what the words contribute to the scores of all rows."""
    for (begin, end), weight in zip(spans.tolist(), weights):
        np.add.at(scores, rows[begin:end], weight * impacts[begin:end])


def find_best(
    rows: BoundArray,
    impacts: BoundArray,
    spans: np.ndarray,
    weights: np.ndarray,
    limits: np.ndarray,
    first: int,
    excluded: np.ndarray,
    best: np.ndarray,
) -> None:
    """Replace the worst of `best`, a heap of (score, -row), (k, 2), by better rows, first + row.

    Word w contributes at most limits[w]; rows that cannot be among the best are skipped. `excluded`
    says which rows are left out, (n_rows,), or is empty.
    """
    if needs_twins():
        find_best_plainly(rows.array, impacts.array, spans, weights, limits, first, excluded, best)
        return

    n_words = weights.size
    n_postings = min(rows.array.size, impacts.array.size)
    if spans.shape != (n_words, 2) or limits.shape != (n_words,) or best.shape[1:] != (2,):
        raise ValueError("The words do not belong together.")
    if len(best) == 0:
        return

    places = np.empty(n_words, np.int64)
    remaining = np.empty(n_words + 1)
    is_done = _find_best(
        *(rows, impacts, n_postings),
        *(spans, weights, limits, n_words),
        first,
        *(excluded, excluded.size),
        *(best, len(best)),
        *(places, remaining),
    )
    if not is_done:
        raise ValueError("The words have other postings.")


def find_best_plainly(
    rows: np.ndarray,
    impacts: np.ndarray,
    spans: np.ndarray,
    weights: np.ndarray,
    limits: np.ndarray,
    first: int,
    excluded: np.ndarray,
    best: np.ndarray,
) -> None:
    """As `find_best`, from the scores of all rows, and in order."""
    scores = np.zeros(rows.max(initial=-1) + 1, np.float32)
    add_postings(rows, impacts, spans, weights, scores)
    excluded_rows = np.flatnonzero(excluded[: scores.size])
    scores[excluded_rows] = 0

    matches = np.flatnonzero(scores > 0)
    new_pairs = np.column_stack([scores[matches], -(first + matches)])
    pairs = np.concatenate([best, new_pairs])  # (n, 2): score, -row
    order = np.lexsort(pairs.T[::-1])
    best[:] = pairs[order[len(pairs) - len(best) :]]
