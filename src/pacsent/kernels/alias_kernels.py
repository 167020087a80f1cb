"""Walker's alias table, from which negatives are drawn: the one that every trainer uses."""

import numpy as np

from pacsent.kernels.compiling import njit


@njit(cache=True, nogil=True)
def alias_table(p, keep, other):
    """Fill Walker's table: with i uniform, i with chance keep[i] and else other[i] follows p."""
    n = p.size
    small, large = np.empty(n, np.int64), np.empty(n, np.int64)
    n_small, n_large = 0, 0
    total = 0.0
    for i in range(n):
        total += p[i]
    for i in range(n):
        keep[i] = p[i] * n / total
        other[i] = i
        if keep[i] < 1.0:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        i = small[n_small]
        j = large[n_large - 1]
        other[i] = j
        keep[j] -= 1.0 - keep[i]
        if keep[j] < 1.0:
            n_large -= 1
            small[n_small] = j
            n_small += 1
    for i in range(n_small):  # rounding left these a hair below 1
        keep[small[i]] = 1.0
    for i in range(n_large):
        keep[large[i]] = 1.0
