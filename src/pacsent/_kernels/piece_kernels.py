"""Kernels for `unknown="pieces"`: an unknown word becomes the ids of pieces that it consists of.

A piece that continues a word is a word of the table with the mark `##` in front. An unknown word
becomes the longest known word that it begins with, then the longest marked piece that follows, and
so on; where no piece fits, the whole word stays unknown.
"""

import numpy as np

from pacsent._kernels.compiling import njit
from pacsent._kernels.text_kernels import (
    _CLASSES,
    _DIGIT_KEYS,
    _GOLDEN,
    _PIECE,
    _SEPARATOR,
    PACKED,
    _find,
    _hash,
    _key,
    _packed,
    _shift,
    _words,
)

LONGEST = 64  # bytes of a word that is split
_MARK, _ZERO = np.uint8(35), np.uint8(0)  # "#"


@njit(cache=True, nogil=True)
def _split(word, size, words, ids, n):
    """Append to ids[n:] the pieces of word[2:2 + size], a scratch array; the number after it.

    The two bytes before a continuing piece, which are used up by then, become its mark.
    """
    table = words[0]
    at, start = n, np.int64(0)
    while start < size:
        first = start + 2
        if start:
            first = start
            word[start], word[start + 1] = _MARK, _MARK
        end, i = size, -1
        while end > start:
            key = _key(word, first, end + 2) if not start else _hash(word, first, end + 2, _ZERO)
            slot = _find(key, word, first, end + 2, _ZERO, words)
            i = np.int64(table[slot, 1]) - 1
            if i >= 0:
                break
            end -= 1
        if i < 0:
            return n
        ids[at] = i
        at += 1
        start = end
    return at


@njit(cache=True, nogil=True)
def split_words(data, starts, words, ids, offsets):
    """Pieces of the words data[starts[i]:starts[i + 1]]: ids[offsets[i]:offsets[i + 1]], in place.

    None where a word has no pieces.
    """
    word = np.empty(LONGEST + 2, dtype=np.uint8)
    n = np.int64(0)
    for i in range(starts.size - 1):
        size = starts[i + 1] - starts[i]
        if size <= LONGEST:
            for c in range(size):  # assigned to a part of the array, it takes seconds to compile
                word[c + 2] = data[starts[i] + c]
            n = _split(word, size, words, ids, n)
        offsets[i + 1] = n


@njit(cache=True, nogil=True)
def encode_pieces(data, bounds, words, ids, offsets, n_unknown):
    """`text_kernels.encode_paper`, where an unknown word becomes its pieces, if it has any."""
    table = words[0]
    shift = _shift(table)
    mask = table.shape[0] - 1
    lower = np.uint8(32)
    starts = np.empty(_PIECE + 1, dtype=np.int64)
    word = np.empty(LONGEST + 2, dtype=np.uint8)
    n = np.int64(0)
    for s in range(bounds.size - 1):
        start = bounds[s]
        unknown = 0
        while start < bounds[s + 1]:
            n_runs, start = _words(data, start, bounds[s + 1], starts)
            for j in range(n_runs):
                if _CLASSES[data[starts[j]]] == _SEPARATOR:
                    continue
                first, end = starts[j], starts[j + 1]
                size = end - first
                if size <= PACKED:
                    if data[first] <= 57:
                        key = _DIGIT_KEYS[data[first] - 48]
                    else:
                        key = _packed(data, first, size)
                    slot = np.int64((key * _GOLDEN) >> shift)
                    while table[slot, 1] != 0 and table[slot, 0] != key:
                        slot = (slot + 1) & mask
                else:
                    key = _hash(data, first, end, lower)
                    slot = _find(key, data, first, end, lower, words)
                ids[n] = np.int64(table[slot, 1]) - 1
                if ids[n] >= 0:
                    n += 1
                    continue
                before = n
                if data[first] > 57 and size <= LONGEST:
                    for c in range(size):
                        word[c + 2] = data[first + c] | lower
                    n = _split(word, size, words, ids, n)
                unknown += n == before
        offsets[s + 1] = n
        n_unknown[s] = unknown
    return n
