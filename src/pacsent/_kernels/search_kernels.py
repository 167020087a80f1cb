"""Kernels of search: the k largest products of unit rows, decided in double precision; BM25.

Products come in single precision, from BLAS or from here. One that could be among the k best, given
how far rounding can have moved it, is computed again in double; the heaps hold only such numbers.
A heap's root is its worst entry: the smallest product, of equal ones the later row.
"""

import numpy as np

from pacsent._kernels.compiling import njit


@njit(cache=True, nogil=True)
def _worse(values, rows, i, j):
    return values[i] < values[j] or (values[i] == values[j] and rows[i] > rows[j])


@njit(cache=True, nogil=True)
def _replace_root(values, rows, value, row):
    """Put a new entry in the place of the worst and restore the order of the heap."""
    values[0], rows[0] = value, row
    i, n = np.int64(0), values.size
    while 2 * i + 1 < n:
        child = 2 * i + 1
        if child + 1 < n and _worse(values, rows, child + 1, child):
            child += 1
        if not _worse(values, rows, child, i):
            break
        values[i], values[child] = values[child], values[i]
        rows[i], rows[child] = rows[child], rows[i]
        i = child


@njit(cache=True, nogil=True)
def _offer(q, x, row, values, rows):
    """Enter a row into a heap if its product, in double, is among the best so far."""
    product = 0.0
    for d in range(q.size):
        product += np.float64(q[d]) * np.float64(x[d])
    if product == 0.0:  # a text without a known word is near no other
        empty = True
        for d in range(x.size):
            if x[d] != 0:
                empty = False
                break
        if empty:
            return
    if product > values[0] or (product == values[0] and row < rows[0]):
        _replace_root(values, rows, product, row)


@njit(cache=True, nogil=True)
def keep_best(products, Q, X, start, gone, slack, values, rows):
    """Enter the rows of a block into the heap of each query, in place.

    products (n_queries, n_rows) = Q @ X.T in single precision, each within `slack` of the true
    one; start is the number of the first row; gone says which rows must not be found, empty for
    none; values and rows (n_queries, k) are the heaps.
    """
    masked = gone.size > 0
    for i in range(products.shape[0]):
        least = values[i, 0] - slack
        line = products[i]
        for j in range(line.size):
            if line[j] >= least and not (masked and gone[j]):
                _offer(Q[i], X[j], start + j, values[i], rows[i])
                least = values[i, 0] - slack


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _product(q, x):
    total = np.float32(0)
    for d in range(q.size):
        total += q[d] * x[d]
    return total


@njit(cache=True, nogil=True)
def scan(Q, X, start, gone, slack, values, rows):
    """As `keep_best`, with the products made here: for few queries, where memory is the limit."""
    masked = gone.size > 0
    for j in range(X.shape[0]):
        for i in range(Q.shape[0]):
            if _product(Q[i], X[j]) >= values[i, 0] - slack and not (masked and gone[j]):
                _offer(Q[i], X[j], start + j, values[i], rows[i])


@njit(cache=True, nogil=True, error_model="numpy")
def add_postings(rows, counts, norms, weight, scores):
    """scores[rows] += weight * counts / (counts + norms[rows]), in place: one word of BM25."""
    for j in range(rows.size):
        row = rows[j]
        scores[row] += weight * counts[j] / (counts[j] + norms[row])


@njit(cache=True, nogil=True)
def keep_largest(scores, gone, values, rows):
    """Enter scores into one heap, in place; rows that are gone or -inf are left out."""
    masked = gone.size > 0
    for j in range(scores.size):
        if scores[j] > values[0] and not (masked and gone[j]):
            _replace_root(values, rows, np.float64(scores[j]), j)
