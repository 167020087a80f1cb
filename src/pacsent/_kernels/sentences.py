"""Kernels that pool rows of a word table into sentence vectors."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sum_weights(ids, offsets, weights, out):
    """Sum the words' weights of each sentence, in place.

    Equivalent to out[s] = weights[ids[offsets[s]:offsets[s + 1]]].sum()
    """
    for s in range(offsets.size - 1):
        total = 0.0
        for t in range(offsets[s], offsets[s + 1]):
            total += weights[ids[t]]
        out[s] = total


@njit(cache=True, nogil=True)
def add_rows(ids, offsets, table, weights, scale, out):
    """Add each sentence's weighted rows to its vector, in place; no weights means all are one.

    Equivalent to out[s] += scale[s] * (weights[i, None] * table[i]).sum(0), i = ids of sentence s
    """
    n_dims = table.shape[1]
    total = np.empty(n_dims, out.dtype)
    for s in range(offsets.size - 1):
        total[:] = 0
        for t in range(offsets[s], offsets[s + 1]):
            i = ids[t]
            if weights.size:
                w = weights[i]
                for d in range(n_dims):
                    total[d] += w * table[i, d]
            else:
                for d in range(n_dims):
                    total[d] += table[i, d]
        for d in range(n_dims):
            out[s, d] += scale[s] * total[d]
