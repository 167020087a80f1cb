"""Kernels of BM25 on postings: the rows that contain a word, increasing, and their impacts.

A row's score is the sum of weight * impact over the words of a query, in the order of the words and
in single precision in both kernels. `spans` are the places of the words' postings, (n_words, 2).
"""

from heapq import heapreplace

import numpy as np

from pacsent.kernels.compiling import njit

_WINDOW = 4096  # rows at a time, whose scores fit into the cache


@njit(cache=True, nogil=True)
def add_postings(rows, impacts, spans, weights, out):
    """Add what the words contribute to the scores of all rows."""
    for w in range(weights.size):
        weight = weights[w]
        for i in range(spans[w, 0], spans[w, 1]):
            out[rows[i]] += weight * impacts[i]


@njit(cache=True, nogil=True)
def find_best(rows, impacts, spans, weights, limits, first, excluded, best):
    """Replace the worst of `best`, a heap of (score, -row), (k, 2), by better rows, first + row.

    MaxScore (Turtle and Flood 1995) in windows of rows. Word w contributes at most limits[w], and
    the last words together less than the k-th best score so far: only rows with one of the others,
    the essential words, are candidates. The last words are looked up for candidates, which are
    dropped as soon as they cannot reach that score.
    """
    heap = [(best[i, 0], best[i, 1]) for i in range(len(best))]
    n_words = n_essential = weights.size
    remaining = np.zeros(n_words + 1)  # what the words from here on contribute at most
    for w in range(n_words - 1, -1, -1):
        remaining[w] = remaining[w + 1] + limits[w]
    rounding = 1.0 - (n_words + 2) * 2.0**-22
    scores, candidates = np.zeros(_WINDOW, np.float32), np.empty(_WINDOW, np.int64)
    at, ends = spans[:, 0].copy(), spans[:, 1]
    start = 0
    while start >= 0:
        threshold = heap[0][0] * rounding
        while n_essential and remaining[n_essential - 1] < threshold:
            n_essential -= 1
        start = -1
        for w in range(n_essential):
            if at[w] < ends[w] and (start < 0 or rows[at[w]] < start):
                start = rows[at[w]]
        for w in range(n_essential):
            i, end, weight, stop = at[w], ends[w], weights[w], start + _WINDOW
            while i < end and rows[i] < stop:
                scores[rows[i] - start] += weight * impacts[i]
                i += 1
            at[w] = i
        n, least = 0, np.float32(max(threshold - remaining[n_essential], 1e-30))
        for j in range(_WINDOW):
            if scores[j] >= least:
                candidates[n] = j
                n += 1
        for w in range(n_essential, n_words):
            i, end, weight, least = at[w], ends[w], weights[w], threshold - remaining[w + 1]
            n_before, n = n, 0
            for j in candidates[:n_before]:
                row = start + j
                if i < end and rows[i] < row:
                    # Rows increase: the row is at most as many postings away as rows.
                    i += np.searchsorted(rows[i : min(end, i + row - rows[i])], row)
                if i < end and rows[i] == row:
                    scores[j] += weight * impacts[i]
                if scores[j] >= least:
                    candidates[n] = j
                    n += 1
            at[w] = i
        for j in candidates[:n]:
            if scores[j] > heap[0][0] and not (excluded.size and excluded[start + j]):
                heapreplace(heap, (np.float64(scores[j]), -np.float64(first + start + j)))
        scores[:] = 0
    for i in range(len(best)):
        best[i, 0], best[i, 1] = heap[i]
