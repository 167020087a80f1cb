"""N-grams of few texts in NumPy: the hashes and the order of `ngram_kernels`."""

import numpy as np

from pacsent._kernels import ngram_kernels as kernels
from pacsent._kernels.patience import Patience

PATIENCE = Patience(1 << 20)  # bytes of text


def grams_of_few(data, bounds, settings):
    """(hash, text) of every n-gram, as `ngram_kernels.hash_grams` orders them."""
    kinds, low, high, characters = settings
    tokens, text = (_characters if characters else _words)(data, bounds, kinds)
    edge = tokens == kernels.EDGE
    n = tokens.size
    grams = np.zeros((n, high - low + 1), np.uint64)
    wanted = np.zeros(grams.shape, bool)
    run, whole = tokens.copy(), np.ones(n, bool)
    for size in range(1, high + 1):
        if size > 1:
            after = min(size - 1, n)
            whole[n - after :] = False
            whole[: n - after] &= text[: n - after] == text[after:]
            run[: n - after] = _mixed(run[: n - after] * kernels.ORDER + tokens[after:])
        if size > 2:
            whole[: n - after] &= ~edge[after - 1 : n - 1]
        if size >= low:
            grams[:, size - low] = run
            wanted[:, size - low] = whole if size > 1 else ~edge
    return grams[wanted], np.repeat(text, wanted.sum(axis=1))


def _words(data, bounds, kinds):
    """(hash, text) of the tokens of each text in order, an edge in front."""
    data, hashes, sizes = data.tobytes(), [], []
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist()):
        found, _ = kernels.hashes_of_few(data, start, stop, kinds)
        hashes += [kernels.EDGE, *found] if found else []
        sizes.append(len(found) + 1 if found else 0)
    return np.array(hashes, np.uint64), np.repeat(np.arange(len(sizes)), sizes)


def _characters(data, bounds, kinds):
    """(hash, text) of the characters of words and of the edges around their runs, in order."""
    data = np.append(data, np.zeros(4, np.uint8))
    text = np.repeat(np.arange(bounds.size), np.diff(np.append(bounds, data.size)))
    inside = kinds[data] == kernels.WORD
    inside[-4:] = False
    here = np.flatnonzero(data[1:-4] == kernels.APOSTROPHE) + 1
    joins = inside[here - 1] & inside[here + 1]
    joins &= (text[here - 1] == text[here]) & (text[here] == text[here + 1])
    inside[here[joins]] = True
    follows = (data >= 0x80) & (data < 0xC0)
    first = np.flatnonzero(inside & ~follows)
    lower = np.where((data >= 65) & (data <= 90), data | 32, data).astype(np.uint64)
    hashes = (kernels.FNV_START ^ lower[first]) * kernels.FNV_PRIME
    more = np.ones(first.size, bool)
    for k in (1, 2, 3):
        more &= follows[first + k]
        hashes[more] = (hashes[more] ^ lower[first[more] + k]) * kernels.FNV_PRIME
    ends = np.flatnonzero(inside[:-1] & ~(inside[1:] & (text[:-1] == text[1:])))
    begins = np.unique(text[ends])
    places = np.concatenate([2 * ends + 2, 2 * bounds[begins], 2 * first + 1])
    order = np.argsort(places, kind="stable")  # the end of a text before the begin of the next
    edges = np.full(ends.size + begins.size, kernels.EDGE)
    found = np.concatenate([edges, _mixed(hashes)])[order]
    return found, np.concatenate([text[ends], begins, text[first]])[order]


def _mixed(h):
    """`ngram_kernels._mixed` of an array."""
    h = h ^ (h >> kernels.HALF)
    h = h * kernels.MIX_1
    h = h ^ (h >> kernels.HALF)
    h = h * kernels.MIX_2
    h = h ^ (h >> kernels.HALF)
    return h | np.uint64(1)
