"""The best rows by BM25: the compiled code against all scores in NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pacsent.kernels import bm25
from pacsent.kernels.library import BoundArray


def random_postings(rng, shares, n_rows):
    """Rows and impacts of words that are in these shares of the rows, and their spans."""
    rows = [np.flatnonzero(rng.random(n_rows) < share).astype(np.int32) for share in shares]
    ends = np.cumsum([0, *map(len, rows)])
    impacts = rng.integers(1, 9, size=ends[-1]) / np.float32(8)  # so that many scores are equal
    spans = np.column_stack([ends[:-1], ends[1:]])
    return np.concatenate(rows), impacts.astype(np.float32), spans


@pytest.mark.parametrize("shares", [[0.5], [0.0], [0.001, 0.01, 0.5, 0.9], [0.0, 0.3, 0.0002]])
@pytest.mark.parametrize("n_rows", [1, 300, 20_000])
@pytest.mark.parametrize("k", [1, 10, 500])
def test_the_best_rows_are_those_of_all_scores(rng, shares, n_rows, k):
    weights = np.sort(rng.uniform(0.01, 5, size=len(shares)).astype(np.float32))[::-1].copy()
    best, expected = np.zeros((k, 2)), np.zeros((k, 2))
    for first in (0, n_rows):  # the second part begins with the best of the first
        rows, impacts, spans = random_postings(rng, shares, n_rows)
        excluded = rng.random(n_rows) < 0.3 if first else np.zeros(0, bool)
        words = spans, weights, weights, first, excluded

        bm25.find_best(BoundArray(rows), BoundArray(impacts), *words, best)
        bm25.find_best_plainly(rows, impacts, *words, expected)

    found = best[np.lexsort(best.T[::-1])]
    assert_array_equal(found, expected)


def test_rows_of_equal_scores_far_apart_are_found_in_their_order():
    rows = np.array([7, 5000, 5001, 2_000_000_000], np.int32)
    best = np.zeros((3, 2))

    bm25.find_best(
        *(BoundArray(rows), BoundArray(np.ones(4, np.float32)), np.array([[0, 4]])),
        *(np.ones(1, np.float32), np.ones(1, np.float32), 10, np.zeros(0, bool), best),
    )

    assert sorted(best.tolist()) == [[1.0, -5011.0], [1.0, -5010.0], [1.0, -17.0]]


def test_a_query_without_words_finds_nothing():
    nothing, best = np.zeros(0, np.float32), np.zeros((2, 2))
    rows, impacts = BoundArray(np.arange(3, dtype=np.int32)), BoundArray(np.ones(3, np.float32))

    for few in (best, best[:0]):
        bm25.find_best(
            rows, impacts, np.zeros((0, 2), np.int64), nothing, nothing, 0, np.zeros(0, bool), few
        )

    assert_array_equal(best, 0)


def test_postings_of_others_are_refused():
    rows, impacts = BoundArray(np.arange(3, dtype=np.int32)), BoundArray(np.ones(3, np.float32))
    one, best = np.ones(1, np.float32), np.zeros((2, 2))

    for span in ([0, 4], [-1, 2]):
        with pytest.raises(ValueError, match="other postings"):
            bm25.find_best(rows, impacts, np.array([span]), one, one, 0, np.zeros(0, bool), best)
    with pytest.raises(ValueError, match="do not belong together"):
        bm25.find_best(rows, impacts, np.array([[0, 3]]), one, one[:0], 0, np.zeros(0, bool), best)
