"""The best rows by BM25: the compiled code against all scores in NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pacsent.kernels import bm25
from pacsent.kernels.library import BoundArray


def random_postings(rng, fractions, n_rows):
    """Rows and impacts of words that are in these fractions of the rows, and their spans."""
    rows_of_words = []
    for fraction in fractions:
        rows = np.flatnonzero(rng.random(n_rows) < fraction)
        rows_of_words.append(rows.astype(np.int32))
    ends = np.cumsum([0, *map(len, rows_of_words)])

    eighths = rng.integers(1, 9, size=ends[-1])  # so that many scores are equal
    impacts = (eighths / 8).astype(np.float32)
    spans = np.column_stack([ends[:-1], ends[1:]])
    return np.concatenate(rows_of_words), impacts, spans


@pytest.mark.parametrize("fractions", [[0.5], [0.0], [0.001, 0.01, 0.5, 0.9], [0.0, 0.3, 0.0002]])
@pytest.mark.parametrize("n_rows", [1, 300, 20_000])
@pytest.mark.parametrize("k", [1, 10, 500])
def test_the_best_rows_are_those_of_all_scores(rng, fractions, n_rows, k):
    weights = rng.uniform(0.01, 5, size=len(fractions)).astype(np.float32)
    weights = np.sort(weights)[::-1].copy()
    best = np.zeros((k, 2))
    expected = np.zeros((k, 2))
    for first in (0, n_rows):  # the second part begins with the best of the first
        rows, impacts, spans = random_postings(rng, fractions, n_rows)
        excluded = rng.random(n_rows) < 0.3 if first else np.zeros(0, bool)
        query = (spans, weights, weights, first, excluded)

        bm25.find_best(BoundArray(rows), BoundArray(impacts), *query, best)
        bm25.find_best_plainly(rows, impacts, *query, expected)

    order = np.lexsort(best.T[::-1])
    assert_array_equal(best[order], expected)


NOTHING_EXCLUDED = np.zeros(0, bool)
ONE = np.ones(1, np.float32)  # the weight of a single word


def postings_of(rows):
    """Rows that contain a word, each with an impact of one."""
    rows = np.array(rows, np.int32)
    return BoundArray(rows), BoundArray(np.ones(rows.size, np.float32))


def test_rows_of_equal_scores_far_apart_are_found_in_their_order():
    rows, impacts = postings_of([7, 5000, 5001, 2_000_000_000])
    best = np.zeros((3, 2))

    bm25.find_best(rows, impacts, np.array([[0, 4]]), ONE, ONE, 10, NOTHING_EXCLUDED, best)

    assert sorted(best.tolist()) == [[1.0, -5011.0], [1.0, -5010.0], [1.0, -17.0]]


@pytest.mark.parametrize("k", [0, 2])
def test_a_query_without_words_finds_nothing(k):
    rows, impacts = postings_of([0, 1, 2])
    no_spans = np.zeros((0, 2), np.int64)
    no_weights = np.zeros(0, np.float32)
    best = np.zeros((k, 2))

    bm25.find_best(rows, impacts, no_spans, no_weights, no_weights, 0, NOTHING_EXCLUDED, best)

    assert_array_equal(best, 0)


@pytest.mark.parametrize("span", [[0, 4], [-1, 2]])
def test_spans_of_other_postings_are_rejected(span):
    rows, impacts = postings_of([0, 1, 2])
    best = np.zeros((2, 2))
    with pytest.raises(ValueError, match="other postings"):
        bm25.find_best(rows, impacts, np.array([span]), ONE, ONE, 0, NOTHING_EXCLUDED, best)


def test_weights_of_another_number_of_words_are_rejected():
    rows, impacts = postings_of([0, 1, 2])
    spans = np.array([[0, 3]])
    best = np.zeros((2, 2))
    with pytest.raises(ValueError, match="do not belong together"):
        bm25.find_best(rows, impacts, spans, ONE, ONE[:0], 0, NOTHING_EXCLUDED, best)
