"""Kernels that pool rows of a word table into sentence vectors.

A table of float16 numbers is handed over as its bits (uint16), because numba has no such type, and
widened one number at a time by the processor's own instruction: half the memory, nothing converted
beforehand (`small_work.HALF_PRECISION`).
"""

import numpy as np

from pacsent._kernels.compiling import njit
from pacsent._kernels.intrinsics import fetch_line, widened


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
def document_frequency(ids, offsets, frequency):
    """Add to each word the number of sentences that hold it, in place.

    Equivalent to frequency[np.unique(ids of sentence s)] += 1 for each s
    """
    last = np.full(frequency.size, -1, dtype=np.int64)  # the last sentence that holds a word
    for s in range(offsets.size - 1):
        for t in range(offsets[s], offsets[s + 1]):
            if last[ids[t]] != s:
                last[ids[t]] = s
                frequency[ids[t]] += 1


_BLOCK = 64  # tokens summed on their own: rounding errors grow with a block, not with the text
_AHEAD = 8  # tokens whose rows are asked for before they are summed
_LINE_BYTES = 64


@njit(cache=True, nogil=True)
def pool_rows(ids, offsets, table, weights, scale, out, add):
    """Weighted sum of each sentence's rows, put into `out` or added to it, in place.

    Equivalent to out[s] = add * out[s] + scale[s] * (weights[i, None] * table[i]).sum(0), i the
    ids of sentence s; an empty `weights` stands for ones
    """
    n_dims = table.shape[1]
    in_a_line = _LINE_BYTES // table.itemsize
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
            while t + 4 <= stop:  # four rows for each time the sum is read and written
                for n in range(t + _AHEAD, min(t + _AHEAD + 4, ids.size)):
                    for d in range(0, n_dims, in_a_line):
                        fetch_line(table, ids[n], d)
                i, j, k, l = ids[t], ids[t + 1], ids[t + 2], ids[t + 3]
                a, b, e, f = table[i], table[j], table[k], table[l]
                u = v = w = x = scale.dtype.type(1)
                if weighted:
                    u, v, w, x = weights[i], weights[j], weights[k], weights[l]
                for d in range(n_dims):
                    total[d] += (u * widened(a[d]) + v * widened(b[d])) + (
                        w * widened(e[d]) + x * widened(f[d])
                    )
                t += 4
            while t < stop:
                i = ids[t]
                a = table[i]
                u = weights[i] if weighted else scale.dtype.type(1)
                for d in range(n_dims):
                    total[d] += u * widened(a[d])
                t += 1
            for d in range(n_dims):
                out[s, d] += scale[s] * total[d]
