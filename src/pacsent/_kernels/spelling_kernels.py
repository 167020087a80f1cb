"""The word of a vocabulary that a mistyped word was meant to be."""

import numpy as np

from pacsent._kernels.compiling import njit

LONGEST = 40  # bytes of a word that is looked at


@njit(cache=True, nogil=True)
def letters_of(data, starts, masks):
    """One bit for each byte value modulo 32 that a word holds, in place."""
    for i in range(starts.size - 1):
        mask = np.uint32(0)
        for k in range(starts[i], starts[i + 1]):
            mask |= np.uint32(1) << np.uint32(data[k] & 31)
        masks[i] = mask


@njit(cache=True, nogil=True)
def _n_bits(x):
    n = 0
    while x:
        x &= x - np.uint32(1)
        n += 1
    return n


@njit(cache=True, nogil=True)
def edits(a, b, most, rows):
    """Insertions, deletions, replacements and swaps of neighbours from a to b; most + 1 if more.

    Equivalent to the optimal string alignment distance. `rows` is scratch, (3, LONGEST + 1).
    """
    n, m = a.size, b.size
    if abs(n - m) > most:
        return most + 1
    before, last, now = 0, 1, 2
    for j in range(m + 1):
        rows[last, j] = j
    for i in range(1, n + 1):
        rows[now, 0] = i
        least = i
        for j in range(1, m + 1):
            cost = min(rows[last, j] + 1, rows[now, j - 1] + 1)
            cost = min(cost, rows[last, j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                cost = min(cost, rows[before, j - 2] + 1)
            rows[now, j] = cost
            least = min(least, cost)
        if least > most:
            return most + 1
        before, last, now = last, now, before
    return min(rows[last, m], most + 1)


@njit(cache=True, nogil=True)
def nearest(data, starts, masks, word, mask, most, shortest):
    """The first word of the vocabulary with the fewest edits, `most` at most; -1 for none.

    Words shorter than `shortest` are no candidates.
    """
    rows = np.empty((3, LONGEST + 1), np.int64)
    found = -1
    for i in range(starts.size - 1):
        length = starts[i + 1] - starts[i]
        if length < shortest or length > LONGEST or abs(length - word.size) > most:
            continue
        # an edit changes the set of letters by two at most
        if _n_bits(masks[i] ^ mask) > 2 * most:
            continue
        n = edits(word, data[starts[i] : starts[i + 1]], most, rows)
        if n <= most:
            found = i
            most = n - 1  # only fewer edits are better: the first of equals is the most frequent
            if most < 1:
                break
    return found
