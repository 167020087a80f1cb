"""Kernels on bytes: words to ids through a hash table, and the paper's filter for wiki dumps.

The hash table is an array (n_slots, 2) of uint64, n_slots a power of two, open addressing with
linear probing: column 0 is the key of a word, column 1 its id plus one, 0 for a free slot. The key
of a word of one to twelve letters a-z is the word itself, five bits a letter, so that equal keys
are equal words; any other word has a hash with the highest bit set, and its bytes are compared.
"""

import numpy as np
from numba import njit

PACKED = 12  # letters of five bits that fit below the highest bit
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FNV_START = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_HASHED = np.uint64(1 << 63)
_PIECE = 2048  # bytes split into words at a time: the words stay in the first-level cache
_DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DIGIT_KEYS = np.array(  # zero to nine, packed
    [
        sum((ord(letter) - 96) << 5 * i for i, letter in enumerate(reversed(name)))
        for name in _DIGIT_NAMES
    ]
)


# ------------------------------------------------------------------------------------------------
# words and ids
# ------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _letter(byte):
    """1..26 for a-z and A-Z, otherwise anything else.

    Equivalent to: (byte | 32) - 96.
    """
    return (np.int64(byte) | 32) - 96


@njit(cache=True, nogil=True)
def _hash(data, start, end, lower):
    """FNV-1a of data[start:end] with the highest bit set; `lower` is or-ed to each byte."""
    h = _FNV_START
    for i in range(start, end):
        h = (h ^ np.uint64(data[i] | lower)) * _FNV_PRIME
    return h | _HASHED


@njit(cache=True, nogil=True)
def _key(data, start, end):
    """Key of the word data[start:end], any bytes."""
    key = 0
    if 0 < end - start <= PACKED:
        for i in range(start, end):
            if not 97 <= data[i] <= 122:
                return _hash(data, start, end, np.uint8(0))
            key = (key << 5) | _letter(data[i])
        return np.uint64(key)
    return _hash(data, start, end, np.uint8(0))


@njit(cache=True, nogil=True)
def _shift(table):
    """64 - log2(n_slots): a product's highest bits, which every bit of the key reaches."""
    shift = 64
    n_slots = table.shape[0]
    while n_slots > 1:
        n_slots >>= 1
        shift -= 1
    return np.uint64(shift)


@njit(cache=True, nogil=True)
def _same(data, start, end, word_bytes, first, last, lower):
    """Equivalent to: data[start:end] | lower == word_bytes[first:last]."""
    if end - start != last - first:
        return False
    for i in range(end - start):  # noqa: SIM110
        if data[start + i] | lower != word_bytes[first + i]:
            return False
    return True


@njit(cache=True, nogil=True)
def _find(key, data, start, end, lower, words):
    """Slot of the word data[start:end], or the free slot where it would go."""
    table, word_bytes, word_offsets = words
    mask = table.shape[0] - 1
    slot = np.int64((key * _GOLDEN) >> _shift(table))
    while table[slot, 1] != 0:
        if table[slot, 0] == key:
            if key < _HASHED:
                return slot
            i = np.int64(table[slot, 1]) - 1
            if _same(data, start, end, word_bytes, word_offsets[i], word_offsets[i + 1], lower):
                return slot
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, nogil=True)
def build_table(table, word_bytes, word_offsets):
    """Fill an empty table in place; the first id of a word met twice, or -1 where all differ.

    Equivalent to: {word: i for i, word in enumerate(words)}.
    """
    words = (table, word_bytes, word_offsets)
    for i in range(word_offsets.size - 1):
        start, end = word_offsets[i], word_offsets[i + 1]
        key = _key(word_bytes, start, end)
        slot = _find(key, word_bytes, start, end, np.uint8(0), words)
        if table[slot, 1] != 0:
            return i
        table[slot, 0] = key
        table[slot, 1] = np.uint64(i + 1)
    return -1


@njit(cache=True, nogil=True)
def find_words(data, starts, words):
    """Ids of the words data[starts[i]:starts[i + 1]], -1 where unknown.

    Equivalent to: [index.get(word, -1) for word in words].
    """
    found = np.empty(starts.size - 1, dtype=np.int32)
    for i in range(found.size):
        key = _key(data, starts[i], starts[i + 1])
        slot = _find(key, data, starts[i], starts[i + 1], np.uint8(0), words)
        found[i] = np.int64(words[0][slot, 1]) - 1
    return found


@njit(cache=True, nogil=True)
def _split(data, start, stop, word, found):
    """Words that end in data[start:stop], without a branch a letter; their number.

    `word` holds the key and the length of the word that is still open, in place: a word may go on
    in the next piece. Row i of `found` gets key, end and length of a word.
    """
    key, length = word[0], word[1]
    n = 0
    for i in range(start, stop):
        byte = np.int64(data[i])
        letter = (byte | 32) - 96
        inside = (letter > 0) & (letter < 27)
        found[n, 0] = key
        found[n, 1] = i
        found[n, 2] = length
        n += (length > 0) & (not inside)
        if 48 <= byte <= 57:
            found[n, 0] = _DIGIT_KEYS[byte - 48]
            found[n, 1] = i
            found[n, 2] = 1
            n += 1
        key = (key << 5) | letter if inside else 0
        length = length + 1 if inside else 0
    word[0], word[1] = key, length
    return n


@njit(cache=True, nogil=True)
def encode_paper(data, bounds, words, ids, offsets, n_unknown):
    """Ids of the known words of data[bounds[s]:bounds[s + 1]], in place; their number.

    Letters a-z of either case are words, each digit is a word of its own, the rest separates.
    Equivalent to: [index[t] for t in tokenise_paper(sentence) if t in index] for each sentence.
    """
    table = words[0]
    mask = table.shape[0] - 1
    shift = _shift(table)
    lower = np.uint8(32)
    found = np.empty((2 * _PIECE + 2, 3), dtype=np.int64)
    word = np.zeros(2, dtype=np.int64)
    n = 0
    for s in range(bounds.size - 1):
        start = bounds[s]
        unknown = 0
        while start < bounds[s + 1]:
            stop = min(start + _PIECE, bounds[s + 1])
            m = _split(data, start, stop, word, found)
            if stop == bounds[s + 1] and word[1] > 0:
                found[m, 0], found[m, 1], found[m, 2] = word[0], stop, word[1]
                m += 1
                word[0] = word[1] = 0
            start = stop
            for j in range(m):
                if found[j, 2] <= PACKED:
                    key = np.uint64(found[j, 0])
                    slot = np.int64((key * _GOLDEN) >> shift)
                    while table[slot, 1] != 0 and table[slot, 0] != key:
                        slot = (slot + 1) & mask
                else:
                    first = found[j, 1] - found[j, 2]
                    key = _hash(data, first, found[j, 1], lower)
                    slot = _find(key, data, first, found[j, 1], lower, words)
                i = np.int64(table[slot, 1]) - 1
                ids[n] = i
                n += i >= 0
                unknown += i < 0
        offsets[s + 1] = n
        n_unknown[s] = unknown
    return n


@njit(cache=True, nogil=True)
def count_paper(data, bounds, words, counts, n_words, ids, ends):
    """Ids of all words, new ones added to table, word bytes and counts in place; sizes.

    Returns how many ids were written and how many words there are then. The table and the arrays
    must have room for (size of data) / 2 + 1 more words and their bytes; the ten first words
    are the names of the digits. ends[s] is the number of ids after data[bounds[s]:bounds[s + 1]].
    """
    table, word_bytes, word_offsets = words
    mask = table.shape[0] - 1
    shift = _shift(table)
    lower = np.uint8(32)
    found = np.empty((2 * _PIECE + 2, 3), dtype=np.int64)
    word = np.zeros(2, dtype=np.int64)
    n = 0
    for s in range(bounds.size - 1):
        start = bounds[s]
        while start < bounds[s + 1]:
            stop = min(start + _PIECE, bounds[s + 1])
            m = _split(data, start, stop, word, found)
            if stop == bounds[s + 1] and word[1] > 0:
                found[m, 0], found[m, 1], found[m, 2] = word[0], stop, word[1]
                m += 1
                word[0] = word[1] = 0
            start = stop
            for j in range(m):
                end = found[j, 1]
                first = end - found[j, 2]
                if found[j, 2] <= PACKED:
                    key = np.uint64(found[j, 0])
                    slot = np.int64((key * _GOLDEN) >> shift)
                    while table[slot, 1] != 0 and table[slot, 0] != key:
                        slot = (slot + 1) & mask
                else:
                    key = _hash(data, first, end, lower)
                    slot = _find(key, data, first, end, lower, words)
                if table[slot, 1] == 0:
                    # not a digit's name: those are in the table from the start
                    table[slot, 0] = key
                    table[slot, 1] = np.uint64(n_words + 1)
                    place = word_offsets[n_words]
                    for c in range(end - first):
                        word_bytes[place + c] = data[first + c] | lower
                    word_offsets[n_words + 1] = place + end - first
                    n_words += 1
                i = np.int64(table[slot, 1]) - 1
                counts[i] += 1
                ids[n] = i
                n += 1
        ends[s] = n
    return n, n_words


@njit(cache=True, nogil=True)
def merge_words(data, starts, words, n_words):
    """Ids of words in a growing table, new ones added in place; and how many there are then.

    Equivalent to: [index.setdefault(word, len(index)) for word in words].
    """
    table, word_bytes, word_offsets = words
    merged = np.empty(starts.size - 1, dtype=np.int32)
    for i in range(merged.size):
        start, end = starts[i], starts[i + 1]
        key = _key(data, start, end)
        slot = _find(key, data, start, end, np.uint8(0), words)
        if table[slot, 1] == 0:
            table[slot, 0] = key
            table[slot, 1] = np.uint64(n_words + 1)
            place = word_offsets[n_words]
            for j in range(end - start):
                word_bytes[place + j] = data[start + j]
            word_offsets[n_words + 1] = place + end - start
            n_words += 1
        merged[i] = np.int64(table[slot, 1]) - 1
    return merged, n_words


@njit(cache=True, nogil=True)
def renumber(ids, ends, final):
    """Final ids in place, those below zero left out; their number; ends moved with them.

    Equivalent to: f = final[ids]; ends[:] = np.cumsum(f >= 0)[ends - 1]; ids[:n] = f[f >= 0].
    """
    n = 0
    s = 0
    for i in range(ids.size):
        while s < ends.size and ends[s] == i:
            ends[s] = n
            s += 1
        new = final[ids[i]]
        if new >= 0:
            ids[n] = new
            n += 1
    for rest in range(s, ends.size):
        ends[rest] = n
    return n
