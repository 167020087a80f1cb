"""Kernels that teach a word table: gradients of sentences to their words, and a step of Adam."""

import numpy as np

from pacsent._kernels.compiling import njit


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
