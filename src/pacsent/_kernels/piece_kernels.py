"""Kernels for `unknown="pieces"`: an unknown word becomes the ids of pieces that it consists of.

A piece that continues a word is a word of the table with the mark `##` in front. An unknown word
becomes the longest known word that it begins with, then the longest marked piece that follows, and
so on; where no piece fits, the whole word stays unknown.
"""

import numpy as np

from pacsent._kernels.compiling import njit
from pacsent._kernels.text_kernels import (
    _HASHED,
    LOWER,
    _find,
    _hash,
    _key,
    _keys,
    _shift,
    _short_slot,
    _words,
    places_and_keys,
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
    starts, ends, keys = places_and_keys()
    word = np.empty(LONGEST + 2, dtype=np.uint8)
    n = np.int64(0)
    for s in range(bounds.size - 1):
        start = bounds[s]
        unknown = 0
        while start < bounds[s + 1]:
            n_words, start = _words(data, start, bounds[s + 1], starts, ends)
            _keys(data, starts, ends, n_words, keys, table, shift)
            for j in range(n_words):
                first = starts[j]
                size = ends[j] - first
                if keys[j] < _HASHED:
                    slot = _short_slot(keys[j], table, shift)
                else:
                    slot = _find(keys[j], data, first, ends[j], LOWER, words)
                ids[n] = np.int64(table[slot, 1]) - 1
                if ids[n] >= 0:
                    n += 1
                    continue
                before = n
                if data[first] > 57 and size <= LONGEST:
                    for c in range(size):
                        word[c + 2] = data[first + c] | LOWER
                    n = _split(word, size, words, ids, n)
                unknown += n == before
        offsets[s + 1] = n
        n_unknown[s] = unknown
    return n
