"""Kernels on bytes: words to ids through a hash table, and the paper's filter for wiki dumps.

The hash table is an array (n_slots, 2) of uint64, n_slots a power of two, open addressing with
linear probing: column 0 is the key of a word, column 1 its id plus one, 0 for a free slot. The key
of a word of one to twelve letters a-z is the word itself, five bits a letter, so that equal keys
are equal words; any other word has a hash with the highest bit set, and its bytes are compared.
"""

import numpy as np

from pacsent.kernels.compiling import njit
from pacsent.kernels.intrinsics import byte_classes, eight_bytes, fetch_line, lowest_bit, set_bits

PACKED = 12  # letters of five bits that fit below the highest bit
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FNV_START = np.uint64(0xCBF29CE484222325)
_FNV_PRIME = np.uint64(0x100000001B3)
_HASHED = np.uint64(1 << 63)
_PIECE = 2048  # bytes split into words at a time: where they are stays in the first-level cache
ROOM = _PIECE // 2 + 1  # words that such a piece can have
LOWER = np.uint8(32)  # or-ed to a letter
_MARK, _ZERO, _NINE = np.uint8(ord("#")), np.uint8(0), ord("9")
_DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DIGIT_KEYS = np.array(
    [sum((ord(letter) - 96) << 5 * i for i, letter in enumerate(name)) for name in _DIGIT_NAMES],
    dtype=np.uint64,
)
_KEY_MASKS = np.array([(1 << 5 * size) - 1 for size in range(PACKED + 1)], dtype=np.uint64)
_SEPARATOR, _LETTER, _DIGIT = 0, 1, 2
_CLASSES = np.zeros(256, dtype=np.int64)
_CLASSES[65:91] = _CLASSES[97:123] = _LETTER
_CLASSES[48:58] = _DIGIT
_JOINTS = np.zeros(256, dtype=np.int64)  # what a sign may stand between and stay in one token
_JOINTS[[39, 46]] = _LETTER | _DIGIT  # apostrophe, point
_JOINTS[58] = _LETTER  # colon
_JOINTS[[44, 59]] = _DIGIT  # comma, semicolon


@njit(nogil=True)
def _hash(data, start, end, lower):
    """FNV-1a of data[start:end] with the highest bit set; `lower` is or-ed to each byte."""
    h = _FNV_START
    for i in range(start, end):
        h = (h ^ np.uint64(data[i] | lower)) * _FNV_PRIME
    return h | _HASHED


@njit(nogil=True, forceinline=True)
def _eight(data, start):
    """Lowest five bits of data[start:start + 8] side by side, the first byte lowest.

    Equivalent to: sum((data[start + i] & 31) << 5 * i for i in range(8)).
    """
    word = eight_bytes(data, start)
    # pairs, fours, eight: 5 bits in 8, 10 in 16, 20 in 32, 40 in 64
    low, high = np.uint64(0x001F001F001F001F), np.uint64(0x03E003E003E003E0)
    word = (word & low) | ((word >> np.uint64(3)) & high)
    low, high = np.uint64(0x000003FF000003FF), np.uint64(0x000FFC00000FFC00)
    word = (word & low) | ((word >> np.uint64(6)) & high)
    low, high = np.uint64(0x00000000000FFFFF), np.uint64(0x000000FFFFF00000)
    return (word & low) | ((word >> np.uint64(12)) & high)


@njit(nogil=True, forceinline=True)
def _packed(data, start, size):
    """Key of a word of at most twelve letters, of either case: five bits a letter."""
    if start + 16 <= data.size:
        both = _eight(data, start) | (_eight(data, start + 8) << np.uint64(40))
        return both & _KEY_MASKS[size]
    key = np.uint64(0)
    for i in range(size):
        key |= np.uint64(data[start + i] & 31) << np.uint64(5 * i)
    return key


@njit(nogil=True)
def _key(data, start, end):
    """Key of the word data[start:end], any bytes."""
    size = end - start
    if not 0 < size <= PACKED:
        return _hash(data, start, end, np.uint8(0))
    for i in range(start, end):
        if not 97 <= data[i] <= 122:
            return _hash(data, start, end, np.uint8(0))
    return _packed(data, start, size)


@njit(nogil=True)
def _shift(table):
    """64 - log2(n_slots): a product's highest bits, which every bit of the key reaches."""
    shift = 64
    n_slots = table.shape[0]
    while n_slots > 1:
        n_slots >>= 1
        shift -= 1
    return np.uint64(shift)


@njit(nogil=True)
def _same(data, start, end, word_bytes, first, last, lower):
    """Equivalent to: data[start:end] | lower == word_bytes[first:last]."""
    if end - start != last - first:
        return False
    for i in range(end - start):  # noqa: SIM110
        if data[start + i] | lower != word_bytes[first + i]:
            return False
    return True


@njit(nogil=True)
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
def build_table(table, words):
    """Fill an empty table in place; the first id of a repeated word, or -1 where all differ.

    Equivalent to: {word: i for i, word in enumerate(words)}. words[0] is a read-only view of
    `table`, so that words are looked up by the code that is compiled for encoding too.
    """
    _, word_bytes, word_offsets = words
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
    ids = np.empty(starts.size - 1, dtype=np.int32)
    for i in range(ids.size):
        key = _key(data, starts[i], starts[i + 1])
        slot = _find(key, data, starts[i], starts[i + 1], np.uint8(0), words)
        ids[i] = np.int64(words[0][slot, 1]) - 1
    return ids


def places_and_keys():
    """Room for what `_words` and `_keys` find in a piece; `_places` writes up to eight too many."""
    starts, ends = np.empty((2, _PIECE + 8), dtype=np.int64)
    return starts, ends, np.empty(_PIECE, dtype=np.uint64)


@njit(nogil=True)
def _end_classes(data, start):
    """`intrinsics.byte_classes` where fewer than 64 bytes are left."""
    letters = digits = np.uint64(0)
    for i in range(start, data.size):
        kind = _CLASSES[data[i]]
        letters |= np.uint64(kind == _LETTER) << np.uint64(i - start)
        digits |= np.uint64(kind == _DIGIT) << np.uint64(i - start)
    return letters, digits


@njit(nogil=True, forceinline=True)
def _places(bits, first, places, n):
    """Where bits are set, counted from `first`, into places[n:]; how many there are then.

    Eight at a time, of which the last ones may be none: a loop over the bits that are set would
    end at a place that cannot be predicted.
    """
    end = n + set_bits(bits)
    while n < end:
        for k in range(8):
            places[n + k] = first + lowest_bit(bits)
            bits &= bits - np.uint64(1)
        n += 8
    return end


@njit(nogil=True, forceinline=True)
def _words(data, start, last, starts, ends):
    """Words and digits in the next piece of data[start:last], its last word whole.

    Word j is data[starts[j]:ends[j]]. Their number, and where the piece ends. The classes of 64
    bytes are bits of one number, and words begin and end where a bit differs from the one before.
    """
    stop = min(start + _PIECE, last)
    n = n_ended = np.int64(0)
    bit = np.uint64(1)
    letter_before = digit_before = np.uint64(0)
    for i in range(start, stop, 64):
        if i + 64 <= data.size:
            letters, digits = byte_classes(data, i)
        else:
            letters, digits = _end_classes(data, i)
        if stop - i < 64:
            inside = (bit << np.uint64(stop - i)) - bit
            letters, digits = letters & inside, digits & inside
        before = (letters << bit) | letter_before
        n = _places((letters & ~before) | digits, i, starts, n)
        ended = (before & ~letters) | (digits << bit) | digit_before
        n_ended = _places(ended, i, ends, n_ended)
        letter_before, digit_before = letters >> np.uint64(63), digits >> np.uint64(63)
    if n_ended < n:
        ends[n_ended] = stop
    if stop < last and n > 0 and ends[n - 1] == stop and _CLASSES[data[stop - 1]] == _LETTER:
        if starts[n - 1] > start:  # leave the word to the next piece
            n -= 1
            stop = starts[n]
        else:  # longer than a piece
            while stop < last and _CLASSES[data[stop]] == _LETTER:
                stop += 1
            ends[n - 1] = stop
    return n, stop


@njit(nogil=True, forceinline=True)
def _keys(data, starts, ends, n, keys, table, shift):
    """Keys of the n words and digits data[starts[j]:ends[j]] of either case, in place.

    The slots where they will be looked up are asked for.
    """
    for j in range(n):
        first = starts[j]
        size = ends[j] - first
        if size > PACKED:
            keys[j] = _hash(data, first, ends[j], LOWER)
        elif data[first] <= 57:
            keys[j] = _DIGIT_KEYS[data[first] - 48]
        else:
            keys[j] = _packed(data, first, size)
        fetch_line(table, np.int64((keys[j] * _GOLDEN) >> shift), 0)


@njit(nogil=True, forceinline=True)
def _short_slot(key, table, shift):
    """`_find` for the key of at most twelve letters."""
    slot = np.int64((key * _GOLDEN) >> shift)
    while table[slot, 1] != 0 and table[slot, 0] != key:
        slot = (slot + 1) & (table.shape[0] - 1)
    return slot


@njit(nogil=True)
def _split(size, words, scratch, ids, n):
    """Append to ids[n:] the subwords of scratch[2:2 + size]; the number of ids after it.

    Its longest prefix in the vocabulary, then the longest subword (marked by `##`) that
    follows, and so on; none where no subword fits. The two bytes before a continuing subword, which
    are used up by then, become its mark. scratch is (array, read-only view of the same array).
    """
    writable, word = scratch
    at, start = n, np.int64(0)
    while start < size:
        first = start + 2
        if start:
            first = start
            writable[start] = writable[start + 1] = _MARK
        end, i = size, np.int64(-1)
        while end > start:
            key = _hash(word, first, end + 2, _ZERO) if start else _key(word, first, end + 2)
            i = np.int64(words[0][_find(key, word, first, end + 2, _ZERO, words), 1]) - 1
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
def encode_paper(data, bounds, words, room, scratch, out):
    """Ids of the words of data[bounds[s]:bounds[s + 1]], in place; their number.

    Letters a-z of either case are words, each digit is a word of its own, the rest separates.
    Equivalent to: [index[t] for t in tokenise_paper(sentence) if t in index] for each sentence.
    An OOV word of at most scratch[0].size - 2 letters becomes its subwords, if it has any; an
    empty scratch splits none. room is `places_and_keys()`; out is (ids, offsets, n_unknown).
    """
    table = words[0]
    shift = _shift(table)
    starts, ends, keys = room
    ids, offsets, n_unknown = out
    longest = scratch[0].size - 2
    n = np.int64(0)
    for s in range(bounds.size - 1):
        start = bounds[s]
        unknown = 0
        while start < bounds[s + 1]:
            n_words, start = _words(data, start, bounds[s + 1], starts, ends)
            _keys(data, starts, ends, n_words, keys, table, shift)
            for j in range(n_words):
                if keys[j] < _HASHED:
                    slot = _short_slot(keys[j], table, shift)
                else:
                    slot = _find(keys[j], data, starts[j], ends[j], LOWER, words)
                i = np.int64(table[slot, 1]) - 1
                ids[n] = i
                if i >= 0:
                    n += 1
                    continue
                before = n
                first, size = starts[j], ends[j] - starts[j]
                if size <= longest and data[first] > _NINE:
                    for c in range(size):
                        scratch[0][c + 2] = data[first + c] | LOWER
                    n = _split(size, words, scratch, ids, n)
                unknown += n == before
        offsets[s + 1] = n
        n_unknown[s] = unknown
    return n


@njit(cache=True, nogil=True)
def count_paper(data, bounds, words, counts, ids, ends, at, room):
    """Ids of all words, new ones added to table, word bytes and counts in place; whether all.

    `at` = (text, place in the data, ids written, words) says where to begin and, then, where it
    ended: early where there was no room for ROOM more words in `counts` and the table. The bytes
    of new words must have room. The ten first words are the names of the digits. ends[s] is the
    number of ids after data[bounds[s]:bounds[s + 1]].
    """
    table, word_bytes, word_offsets = words
    shift = _shift(table)
    starts, stops, keys = room
    most = min(counts.size, table.shape[0] >> 1) - ROOM
    start, n, n_words = at[1], at[2], at[3]
    for s in range(at[0], bounds.size - 1):
        while start < bounds[s + 1]:
            if n_words > most:
                at[0], at[1], at[2], at[3] = s, start, n, n_words
                return False
            n_found, start = _words(data, start, bounds[s + 1], starts, stops)
            _keys(data, starts, stops, n_found, keys, table, shift)
            for j in range(n_found):
                first, end, key = starts[j], stops[j], keys[j]
                if key < _HASHED:
                    slot = _short_slot(key, table, shift)
                else:
                    slot = _find(key, data, first, end, LOWER, words)
                if table[slot, 1] == 0:  # no digit: their names are there from the start
                    table[slot, 0] = key
                    table[slot, 1] = np.uint64(n_words + 1)
                    place = word_offsets[n_words]
                    for c in range(end - first):
                        word_bytes[place + c] = data[first + c] | LOWER
                    word_offsets[n_words + 1] = place + end - first
                    n_words += 1
                i = np.int64(table[slot, 1]) - 1
                counts[i] += 1
                ids[n] = i
                n += 1
        ends[s] = n
    at[2], at[3] = n, n_words
    return True


@njit(cache=True, nogil=True)
def split_ascii(data, bounds, out, starts, ends):
    """Tokens of the unicode normalisation for text in ASCII, one after the other, in place.

    Token i is out[starts[i]:starts[i + 1]]; ends[s] is the number of tokens after sentence s. The
    number of tokens. Equivalent to: tokenise_unicode(sentence) for each sentence.
    """
    n = size = 0
    starts[0] = 0
    for s in range(bounds.size - 1):
        last = bounds[s + 1]
        i = bounds[s]
        while i < last:
            byte = data[i]
            if not (_CLASSES[byte] != _SEPARATOR or byte == 95):
                i += 1
                continue
            while i < last:
                byte = data[i]
                kind = _CLASSES[byte]
                if kind == _LETTER:
                    byte |= np.uint8(32)
                elif kind != _DIGIT and byte != 95:
                    if i + 1 == last:
                        break
                    before, after = _CLASSES[data[i - 1]], _CLASSES[data[i + 1]]
                    if before != after or before & _JOINTS[byte] == 0:
                        break
                out[size] = byte
                size += 1
                i += 1
            n += 1
            starts[n] = size
        ends[s] = n
    return n


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
    for after in range(s, ends.size):
        ends[after] = n
    return n
