"""Kernels that join rows of a sparse matrix whose cosine is large."""

import numpy as np

from pacsent._kernels.compiling import njit


@njit(cache=True, nogil=True)
def root_of(parent, i):
    """The root of the tree that i is in, with paths halved on the way."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(work=lambda _, columns, *__: (np.diff(columns[0]) ** 2).sum(), cache=True, nogil=True)
def join_near(rows, columns, near, rest, parent):
    """Join all rows of length 1 whose product is at least `near`, in the forest `parent`.

    `rows` and `columns` are (indptr, indices, data) of the matrix by rows and by columns, the
    columns of a row in the order in which they are compared: `rest` is the length of its last
    ones, which only count for rows whose product without them is at least near - rest.
    """
    indptr, indices, data = rows
    starts, members, weights = columns
    n = parent.size
    product = np.zeros(n)
    touched = np.empty(n, np.int64)
    for i in range(n):
        first, last, left = indptr[i], indptr[i + 1], 0.0
        while last > first and left + data[last - 1] ** 2 <= rest * rest:
            last -= 1
            left += data[last] ** 2
        n_touched = 0
        for at in range(first, last):
            column, weight = indices[at], data[at]
            for place in range(starts[column], starts[column + 1]):
                j = members[place]
                if j >= i:
                    break
                if product[j] == 0.0:
                    touched[n_touched] = j
                    n_touched += 1
                product[j] += weight * weights[place]
        for k in range(n_touched):
            j = touched[k]
            total, product[j] = product[j], 0.0
            if total < near - rest or root_of(parent, i) == root_of(parent, j):
                continue
            total = 0.0
            a, b = first, indptr[j]
            while a < indptr[i + 1] and b < indptr[j + 1]:
                if indices[a] == indices[b]:
                    total += data[a] * data[b]
                    a += 1
                    b += 1
                elif indices[a] < indices[b]:
                    a += 1
                else:
                    b += 1
            if total >= near:
                parent[root_of(parent, i)] = root_of(parent, j)
