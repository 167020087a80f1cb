"""Kernels between words and sentences: rows pooled into vectors, gradients summed back, Adam.

A table of float16 numbers is handed over as its bits (uint16), because numba has no such type, and
widened by the processor's own instruction: half the memory, nothing converted beforehand
(`half_precision.HALF_PRECISION`).
"""

import numpy as np

from pacsent.kernels.compiling import njit
from pacsent.kernels.intrinsics import sum_1, sum_4, sum_8, weigh_1, weigh_4

_BLOCK = 64  # tokens summed on their own: rounding errors grow with a block, not with the text


@njit(cache=True, nogil=True)
def pool_rows(ids, offsets, table, weights, scale, out, add):
    """Weighted sum of each sentence's rows, put into `out` or added to it, in place.

    Equivalent to out[s] = add * out[s] + scale[s] * (weights[i, None] * table[i]).sum(0), i the
    ids of sentence s; an empty `weights` stands for ones
    """
    n_dims = table.shape[1]
    weighted = weights.size > 0
    total = np.empty(n_dims, out.dtype)
    for s in range(offsets.size - 1):
        if not add:
            for d in range(n_dims):
                out[s, d] = 0
        t = offsets[s]
        while t < offsets[s + 1]:
            stop = min(t + _BLOCK, offsets[s + 1])
            for d in range(n_dims):
                total[d] = 0
            while not weighted and t + 8 <= stop:
                sum_8(total, table, ids, t, weights)
                t += 8
            while t + 4 <= stop:
                if weighted:
                    weigh_4(total, table, ids, t, weights)
                else:
                    sum_4(total, table, ids, t, weights)
                t += 4
            while t < stop:
                if weighted:
                    weigh_1(total, table, ids, t, weights)
                else:
                    sum_1(total, table, ids, t, weights)
                t += 1
            for d in range(n_dims):
                out[s, d] += scale[s] * total[d]


@njit(cache=True, nogil=True)
def sum_gradients(sentences, starts, gradients, out):
    """Gradient of each word, the sum over its occurrences, in place.

    Equivalent to out[j] = gradients[sentences[starts[j]:starts[j + 1]]].sum(0)
    """
    n_dims = gradients.shape[1]
    for j in range(starts.size - 1):
        for d in range(n_dims):
            out[j, d] = 0
        for t in range(starts[j], starts[j + 1]):
            s = sentences[t]
            for d in range(n_dims):
                out[j, d] += gradients[s, d]


@njit(cache=True, nogil=True)
def adam_step(rows, gradients, table, first, second, rates):
    """One step of Adam on some rows of a table, in place; the other rows stay as they are.

    Equivalent to, with rate, bias1, bias2 = rates and r one of `rows`:
    first[r] += 0.1 * (g - first[r]); second[r] += 0.001 * (g * g - second[r]);
    table[r] -= rate * (first[r] / bias1) / (sqrt(second[r] / bias2) + 1e-8)
    """
    rate, bias1, bias2 = rates
    scale = np.float32(rate / bias1)
    shrink = np.float32(1.0 / bias2)
    tiny = np.float32(1e-8)
    keep1, keep2 = np.float32(0.1), np.float32(0.001)
    for j in range(rows.size):
        r = rows[j]
        for d in range(table.shape[1]):
            g = gradients[j, d]
            m = first[r, d] + keep1 * (g - first[r, d])
            v = second[r, d] + keep2 * (g * g - second[r, d])
            first[r, d] = m
            second[r, d] = v
            table[r, d] -= scale * m / (np.sqrt(v * shrink) + tiny)
