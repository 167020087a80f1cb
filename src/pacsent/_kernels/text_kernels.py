"""Kernels on bytes: words to ids through a hash table, and the paper's filter for wiki dumps.

The hash table is an array (n_slots, 2) of uint64, n_slots a power of two, open addressing with
linear probing: column 0 is the key of a word, column 1 its id plus one, 0 for a free slot. The key
of a word of one to twelve letters a-z is the word itself, five bits a letter, so that equal keys
are equal words; any other word has a hash with the highest bit set, and its bytes are compared.
"""

import numpy as np

from pacsent._kernels.compiling import njit
from pacsent._kernels.intrinsics import byte_classes, eight_bytes, fetch_line, lowest_bit, set_bits

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


def _packed_name(name):
    return sum((ord(letter) - 96) << 5 * i for i, letter in enumerate(name))


_DIGIT_KEYS = np.array([_packed_name(name) for name in _DIGIT_NAMES], dtype=np.uint64)
_KEY_MASKS = np.array([(1 << 5 * size) - 1 for size in range(PACKED + 1)], dtype=np.uint64)
_SEPARATOR, _LETTER, _DIGIT = 0, 1, 2
_CLASSES = np.zeros(256, dtype=np.int64)
_CLASSES[65:91] = _CLASSES[97:123] = _LETTER
_CLASSES[48:58] = _DIGIT
_JOINTS = np.zeros(256, dtype=np.int64)  # what a sign may stand between and stay in one token
_JOINTS[[39, 46]] = _LETTER | _DIGIT  # apostrophe, point
_JOINTS[58] = _LETTER  # colon
_JOINTS[[44, 59]] = _DIGIT  # comma, semicolon


# ---- words and ids ------------------------------------------------------------------------------


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
    found = np.empty(starts.size - 1, dtype=np.int32)
    for i in range(found.size):
        key = _key(data, starts[i], starts[i + 1])
        slot = _find(key, data, starts[i], starts[i + 1], np.uint8(0), words)
        found[i] = np.int64(words[0][slot, 1]) - 1
    return found


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
    one = np.uint64(1)
    letter_before = digit_before = np.uint64(0)
    for i in range(start, stop, 64):
        if i + 64 <= data.size:
            letters, digits = byte_classes(data, i)
        else:
            letters, digits = _end_classes(data, i)
        if stop - i < 64:
            inside = (one << np.uint64(stop - i)) - one
            letters, digits = letters & inside, digits & inside
        before = (letters << one) | letter_before
        n = _places((letters & ~before) | digits, i, starts, n)
        ended = (before & ~letters) | (digits << one) | digit_before
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

    The longest known word that it begins with, then the longest subword (marked by `##`) that
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
    An unknown word of at most scratch[0].size - 2 letters becomes its subwords, if it has any; an
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
    for rest in range(s, ends.size):
        ends[rest] = n
    return n


# ------------------------------------------------------------------------------------------------
# the paper's filter: wiki dumps to plain words
#
# A record is the bytes up to and with the next '>'. One look over it finds its marks, the bytes
# that the rules are about. A kept record becomes a list of items: a mark and the run of plain bytes
# after it, data[first:last]. Each rule is one pass over the items, in place; bytes are not moved.
# Where a rule takes out a mark, the plain run after it stays as an item without a mark (_NONE), so
# a plain run may go on in the next item, and words are compared across such seams.
# ------------------------------------------------------------------------------------------------

# of one type, so that each function below is compiled once
_NONE, _NEWLINE, _SPACE, _HASH_SIGN = np.uint8(0), np.uint8(10), np.uint8(32), np.uint8(35)
_AMP, _MINUS, _COLON, _SEMICOLON = np.uint8(38), np.uint8(45), np.uint8(58), np.uint8(59)
_LESS, _GREATER, _OPEN, _CLOSE = np.uint8(60), np.uint8(62), np.uint8(91), np.uint8(93)
_OPEN_BRACE, _BAR, _CLOSE_BRACE = np.uint8(123), np.uint8(124), np.uint8(125)


def _array(word):
    return np.frombuffer(word, dtype=np.uint8).copy()


_TEXT, _END, _REDIRECT = _array(b"<text "), _array(b"</text>"), _array(b"#redirect")
_AMP_REST, _LT_REST, _GT_REST = _array(b"amp;"), _array(b"lt;"), _array(b"gt;")
_REF, _REF_END, _HTTP, _PX = _array(b"ref"), _array(b"/ref"), _array(b"http:"), _array(b"px")
_THUMB, _LEFT, _RIGHT = _array(b"thumb"), _array(b"left"), _array(b"right")
_IMAGE, _CATEGORY = _array(b"image:"), _array(b"category:")
_NUMBER = np.zeros(0, dtype=np.uint8)  # stands for <digits>px

_MARKS = np.zeros(256, dtype=np.int64)
_MARKS[np.frombuffer(b"#&<>[]|{}", dtype=np.uint8)] = 1
_NAMES = np.zeros((10, 6), dtype=np.uint8)
_NAME_SIZES = np.array([len(name) for name in _DIGIT_NAMES])
for _digit in range(10):
    _NAMES[_digit, : _NAME_SIZES[_digit]] = _array(_DIGIT_NAMES[_digit].encode())


@njit(nogil=True)
def _at(data, i, end, word):
    """Equivalent to: data[i:end].startswith(word)."""
    if i + word.size > end:
        return False
    for j in range(word.size):  # noqa: SIM110
        if data[i + j] != word[j]:
            return False
    return True


@njit(nogil=True)
def _lower(byte):
    """Equivalent to: bytes([byte]).lower()[0]."""
    return byte | np.uint8(32) if 65 <= byte <= 90 else byte


@njit(nogil=True)
def _at_any_case(data, i, end, word):
    """Equivalent to: data[i:end].lower().startswith(word)."""
    if i + word.size > end:
        return False
    for j in range(word.size):  # noqa: SIM110
        if _lower(data[i + j]) != word[j]:
            return False
    return True


@njit(cache=True, nogil=True)
def find_marks(data, start, end, marks):
    """Places of the marks of the record that begins at start; its end and their number."""
    n = 0
    for i in range(start, end):
        byte = data[i]
        marks[n] = i
        n += _MARKS[byte]  # no branch: where marks are cannot be predicted
        if byte == _GREATER:
            return i + 1, n
    return end, n


@njit(cache=True, nogil=True)
def look_over(data, start, end, marks, n):
    """What of a record is kept if any, and whether it has <text, </text> and #redirect.

    Returns (end without the last tag, three flags).
    Equivalent to: re.sub(b"<.*>", b"", record, count=1), and three searches.
    """
    has_text = has_end = has_redirect = False
    first = end  # the first '<'
    for m in range(n):
        i = marks[m]
        if data[i] == _LESS:
            first = min(first, i)
            has_text |= _at(data, i, end, _TEXT)
            has_end |= _at(data, i, end, _END)
        elif data[i] == _HASH_SIGN:
            has_redirect |= _at_any_case(data, i, end, _REDIRECT)
    kept = end
    if data[end - 1] == _GREATER:  # else the input ended within a record
        i = end - 1
        while i >= first and data[i] != _NEWLINE:
            if data[i] == _LESS:
                kept = i
            i -= 1
    return kept, has_text, has_end, has_redirect


@njit(nogil=True)
def _itemise(data, start, end, marks, n_marks, items):
    """Items of a kept record, &amp; &lt; &gt; decoded in this order; their number."""
    mark, first, last = items
    mark[0] = _NONE
    first[0] = start
    n = 1
    for m in range(n_marks):
        i = marks[m]
        if i >= end:
            break
        byte = data[i]
        if byte == _HASH_SIGN:
            continue
        last[n - 1] = i
        i += 1
        if byte == _AMP:
            if _at(data, i, end, _AMP_REST):
                i += 4
            if _at(data, i, end, _LT_REST):
                byte = _LESS
                i += 3
            elif _at(data, i, end, _GT_REST):
                byte = _GREATER
                i += 3
        mark[n] = byte
        first[n] = i
        n += 1
    last[n - 1] = end
    return n


@njit(nogil=True)
def _put(items, w, mark, first, last):
    """Write item w in place; w + 1."""
    items[0][w] = mark
    items[1][w] = first
    items[2][w] = last
    return w + 1


@njit(nogil=True)
def _follows(data, items, n, k, word):
    """Where the word that the plain bytes after mark k begin with ends: (item, place) or (-1, 0).

    The word is lower case, the bytes may be of any.
    """
    mark, first, last = items
    i = first[k]
    for j in range(word.size):
        while i == last[k]:
            k += 1
            if k == n or mark[k] != _NONE:
                return -1, 0
            i = first[k]
        if _lower(data[i]) != word[j]:
            return -1, 0
        i += 1
    return k, i


@njit(nogil=True)
def _follows_exactly(data, items, n, k, word):
    """Whether the plain bytes after mark k begin with the word, in lower case."""
    mark, first, last = items
    i = first[k]
    for j in range(word.size):
        while i == last[k]:
            k += 1
            if k == n or mark[k] != _NONE:
                return False
            i = first[k]
        if data[i] != word[j]:
            return False
        i += 1
    return True


@njit(nogil=True)
def _beside(items, n, k):
    """The mark right after mark k, without a plain byte between: its item, or -1."""
    mark, first, last = items
    while first[k] == last[k]:
        k += 1
        if k == n:
            return -1
        if mark[k] != _NONE:
            return k
    return -1


@njit(nogil=True)
def _next_item(items, n, k, one, other):
    """The first item from k on with either of two marks, or n."""
    mark = items[0]
    while k < n and mark[k] != one and mark[k] != other:
        k += 1
    return k


@njit(nogil=True)
def _drop_references(data, items, n):
    """Equivalent to: re.sub(b"<ref[^<]*</ref>", b"", text)."""
    mark, first, last = items
    w = k = np.int64(0)
    while k < n:
        if mark[k] == _LESS and _follows_exactly(data, items, n, k, _REF):
            close = _next_item(items, n, k + 1, _LESS, _LESS)
            if close < n and _follows_exactly(data, items, n, close, _REF_END):
                e, i = _follows(data, items, n, close, _REF_END)
                if i == last[e] and e + 1 < n and mark[e + 1] == _GREATER:
                    w = _put(items, w, _NONE, first[e + 1], last[e + 1])
                    k = e + 2
                    continue
        w = _put(items, w, mark[k], first[k], last[k])
        k += 1
    return w


@njit(nogil=True)
def _drop_between(items, n, opening, closing):
    """Equivalent to: re.sub(b"<[^>]*>", b"", text), for any two marks."""
    mark, first, last = items
    w = k = np.int64(0)
    while k < n:
        if mark[k] == opening:
            close = _next_item(items, n, k + 1, closing, closing)
            if close < n:
                k = close
                w = _put(items, w, _NONE, first[k], last[k])
                k += 1
                continue
            while k < n:  # no further one is closed
                w = _put(items, w, mark[k], first[k], last[k])
                k += 1
            return w
        w = _put(items, w, mark[k], first[k], last[k])
        k += 1
    return w


@njit(nogil=True)
def _drop_addresses(data, items, n):
    """Equivalent to: re.sub(rb"\\[http:[^\\] ]*", b"[", text)."""
    mark, first, last = items
    w = k = np.int64(0)
    while k < n:
        if mark[k] == _OPEN and _follows_exactly(data, items, n, k, _HTTP):
            e, i = _follows(data, items, n, k, _HTTP)
            while True:
                while i < last[e] and data[i] != _SPACE:
                    i += 1
                if i < last[e]:
                    w = _put(items, w, _OPEN, i, last[e])
                    break
                if e + 1 == n or mark[e + 1] == _CLOSE:
                    w = _put(items, w, _OPEN, i, i)
                    break
                e += 1
                i = first[e]
            k = e + 1
            continue
        w = _put(items, w, mark[k], first[k], last[k])
        k += 1
    return w


@njit(nogil=True)
def _digits(data, items, n, k):
    """Where one or more digits after mark k and px of any case end: (item, place) or (-1, 0)."""
    mark, first, last = items
    i = first[k]
    n_digits = 0
    n_letters = 0
    while n_letters < 2:
        while i == last[k]:
            k += 1
            if k == n or mark[k] != _NONE:
                return -1, 0
            i = first[k]
        byte = data[i]
        if n_letters == 0 and 48 <= byte <= 57:
            n_digits += 1
        elif n_digits > 0 and _lower(byte) == _PX[n_letters]:
            n_letters += 1
        else:
            return -1, 0
        i += 1
    return k, i


@njit(nogil=True)
def _drop_option(data, items, n, word):
    """Equivalent to: re.sub(rb"\\|word", b"", text, re.I); |<digits>px for _NUMBER."""
    mark, first, last = items
    w = k = np.int64(0)
    while k < n:
        if mark[k] == _BAR:
            if word.size > 0:
                e, i = _follows(data, items, n, k, word)
            else:
                e, i = _digits(data, items, n, k)
            if e >= 0:
                w = _put(items, w, _NONE, i, last[e])
                k = e + 1
                continue
        w = _put(items, w, mark[k], first[k], last[k])
        k += 1
    return w


@njit(nogil=True)
def _drop_images(data, items, n):
    """Equivalent to: re.sub(rb"\\[\\[image:[^\\[\\]]*\\|", b"", text, re.I)."""
    mark, first, last = items
    w = k = np.int64(0)
    while k < n:
        if mark[k] == _OPEN:
            second = _beside(items, n, k)
            if second >= 0 and mark[second] == _OPEN:
                e, _ = _follows(data, items, n, second, _IMAGE)
                if e >= 0:
                    bar = -1
                    j = e + 1
                    while j < n and mark[j] != _OPEN and mark[j] != _CLOSE:
                        if mark[j] == _BAR:
                            bar = j
                        j += 1
                    if bar >= 0:
                        w = _put(items, w, _NONE, first[bar], last[bar])
                        k = bar + 1
                        continue
        w = _put(items, w, mark[k], first[k], last[k])
        k += 1
    return w


@njit(nogil=True)
def _show_categories(data, items, n):
    """[[category:X|...]] -> [[X]].

    Equivalent to: re.sub(rb"\\[\\[category:([^|\\]]*)[^\\]]*\\]\\]", rb"[[\\1]]", text, re.I).
    """
    mark, first, last = items
    w = k = np.int64(0)
    close = 0
    while k < n:
        if mark[k] == _OPEN:
            second = _beside(items, n, k)
            if second >= 0 and mark[second] == _OPEN:
                e, i = _follows(data, items, n, second, _CATEGORY)
                if e >= 0:
                    close = _next_item(items, n, max(close, e + 1), _CLOSE, _CLOSE)
                    end = _beside(items, n, close) if close < n else -1
                    if end >= 0 and mark[end] == _CLOSE:
                        w = _put(items, w, _OPEN, i, i)
                        w = _put(items, w, _OPEN, i, last[e])
                        k = e + 1
                        while k < close and mark[k] != _BAR:
                            w = _put(items, w, mark[k], first[k], last[k])
                            k += 1
                        w = _put(items, w, _CLOSE, i, i)
                        w = _put(items, w, _CLOSE, first[end], last[end])
                        k = end + 1
                        continue
        w = _put(items, w, mark[k], first[k], last[k])
        k += 1
    return w


@njit(nogil=True)
def _names_language(data, items, n, k):
    """Item of the colon if a-z and minus, none or more, and it follow mark k; else -1."""
    mark, first, last = items
    i = first[k]
    while True:
        while i == last[k]:
            k += 1
            if k == n or mark[k] != _NONE:
                return -1
            i = first[k]
        byte = data[i]
        if byte == _COLON:
            return k
        if not (97 <= byte <= 122 or byte == _MINUS):
            return -1
        i += 1


@njit(nogil=True)
def _drop_languages(data, items, n):
    """Equivalent to: re.sub(rb"\\[\\[[a-z-]*:[^\\]]*\\]\\]", b"", text)."""
    mark, first, last = items
    w = k = np.int64(0)
    close = 0
    while k < n:
        if mark[k] == _OPEN:
            second = _beside(items, n, k)
            if second >= 0 and mark[second] == _OPEN:
                e = _names_language(data, items, n, second)
                if e >= 0:
                    close = _next_item(items, n, max(close, e + 1), _CLOSE, _CLOSE)
                    end = _beside(items, n, close) if close < n else -1
                    if end >= 0 and mark[end] == _CLOSE:
                        w = _put(items, w, _NONE, first[end], last[end])
                        k = end + 1
                        continue
        w = _put(items, w, mark[k], first[k], last[k])
        k += 1
    return w


@njit(nogil=True)
def _show_links(items, n):
    """Equivalent to: re.sub(rb"\\[\\[[^|\\]]*\\|", b"[[", text)."""
    mark, first, last = items
    w = k = np.int64(0)
    stop = 0
    while k < n:
        if mark[k] == _OPEN:
            second = _beside(items, n, k)
            if second >= 0 and mark[second] == _OPEN:
                stop = _next_item(items, n, max(stop, second + 1), _BAR, _CLOSE)
                if stop < n and mark[stop] == _BAR:
                    w = _put(items, w, _OPEN, first[stop], first[stop])
                    w = _put(items, w, _OPEN, first[stop], last[stop])
                    k = stop + 1
                    continue
        w = _put(items, w, mark[k], first[k], last[k])
        k += 1
    return w


@njit(nogil=True)
def _drop_templates(items, n):
    """Equivalent to: re.sub(rb"{{[^}]*}}", b"", text)."""
    mark, first, last = items
    w = k = np.int64(0)
    close = 0
    while k < n:
        if mark[k] == _OPEN_BRACE:
            second = _beside(items, n, k)
            if second >= 0 and mark[second] == _OPEN_BRACE:
                close = _next_item(items, n, max(close, second + 1), _CLOSE_BRACE, _CLOSE_BRACE)
                end = _beside(items, n, close) if close < n else -1
                if end >= 0 and mark[end] == _CLOSE_BRACE:
                    w = _put(items, w, _NONE, first[end], last[end])
                    k = end + 1
                    continue
        w = _put(items, w, mark[k], first[k], last[k])
        k += 1
    return w


@njit(cache=True, nogil=True)
def strip_markup(data, start, end, marks, n_marks, items):
    """Items of a kept record after all rules for markup; their number."""
    n = _itemise(data, start, end, marks, n_marks, items)
    n = _drop_references(data, items, n)
    n = _drop_between(items, n, _LESS, _GREATER)
    n = _drop_addresses(data, items, n)
    n = _drop_option(data, items, n, _THUMB)
    n = _drop_option(data, items, n, _LEFT)
    n = _drop_option(data, items, n, _RIGHT)
    n = _drop_option(data, items, n, _NUMBER)
    n = _drop_images(data, items, n)
    n = _show_categories(data, items, n)
    n = _drop_languages(data, items, n)
    n = _show_links(items, n)
    n = _drop_templates(items, n)
    return _drop_between(items, n, _OPEN_BRACE, _CLOSE_BRACE)


@njit(nogil=True)
def _spell(data, start, end, new, out, n):
    """Each word of data[start:end] after a space, digits spelled, into out[n:].

    `new` is 1 if the first letter begins a word. Returns the same for what follows, and new n.
    """
    for i in range(start, end):
        byte = data[i]
        letter = byte | np.uint8(32)
        inside = np.int64((letter >= 97) & (letter <= 122))
        out[n] = _SPACE
        n += inside & new
        out[n] = letter
        n += inside
        new = 1 - inside  # no branch where a word ends: it cannot be predicted
        if 48 <= byte <= 57:
            out[n] = _SPACE
            digit = byte - 48
            for j in range(_NAME_SIZES[digit]):
                out[n + 1 + j] = _NAMES[digit, j]
            n += 1 + _NAME_SIZES[digit]
    return new, n


@njit(cache=True, nogil=True)
def spell_items(data, items, n_items, state, out):
    """The last rules: brackets dropped, &...; to a space, then each word after a space.

    Writes until `out` is nearly full and returns the size. `state` holds where to go on, in place:
    item, place in it or -1 for its mark, whether a letter begins a word, whether no ';' follows.
    """
    mark, first, last = items
    k, i, new, no_semicolon = state[0], state[1], state[2], state[3]
    n = np.int64(0)
    while k < n_items:
        if i < 0:
            i = first[k]
            if mark[k] == _AMP and no_semicolon == 0:
                new = 1
                e = k
                j = i
                while e < n_items:
                    while j < last[e] and data[j] != _SEMICOLON:
                        j += 1
                    if j < last[e]:
                        break
                    e += 1
                    if e < n_items:
                        j = first[e]
                if e < n_items:
                    k = e
                    i = j + 1
                else:
                    no_semicolon = 1
            elif mark[k] != _NONE and mark[k] != _OPEN and mark[k] != _CLOSE:
                new = 1
        end = min(last[k], i + (out.size - n) // 6 - 1)  # a digit becomes six bytes at most
        if end > i:
            new, n = _spell(data, i, end, new, out, n)
            i = end
        if i < last[k]:
            break
        k += 1
        i = -1
    state[0], state[1], state[2], state[3] = k, i, new, no_semicolon
    return n


@njit(cache=True, nogil=True)
def filter_wiki(data, marks, items, out):
    """The filter for whole records, not knowing whether the first ones are kept.

    Returns (size of the output if they are kept, size of what comes of these first ones, 1 or 0
    if text is kept after the last record, -1 if that is as it was before the first one). The other
    arrays need room: one item more than there are bytes, six bytes of output for each and six more.
    """
    n = n_first = np.int64(0)
    keep = -1
    state = np.zeros(4, dtype=np.int64)
    i = np.int64(0)
    while i < data.size:
        start = i
        i, n_marks = find_marks(data, start, data.size, marks)
        end, has_text, has_end, has_redirect = look_over(data, start, i, marks, n_marks)
        if has_text or has_redirect:
            if keep < 0:
                n_first = n
            keep = 0 if has_redirect else 1
        if keep != 0:
            n_items = strip_markup(data, start, end, marks, n_marks, items)
            state[:] = 0
            state[1] = -1
            state[2] = 1
            n += spell_items(data, items, n_items, state, out[n:])
            if has_end:
                if keep < 0:
                    n_first = n
                keep = 0
    if keep < 0:
        n_first = n
    return n, n_first, keep


@njit(cache=True, nogil=True)
def clean_lines(data, out):
    """The last stage of the filter for each line, newlines kept; the size of the output.

    Equivalent to: b"\\n".join(clean(line) for line in data.split(b"\\n")).
    """
    n = 0
    new = 0  # whether a space comes before the next letter
    begun = 0  # whether the line has a word
    for i in range(data.size):
        byte = data[i]
        letter = byte | np.uint8(32)
        inside = np.int64((letter >= 97) & (letter <= 122))
        out[n] = _SPACE
        n += inside & new & begun
        out[n] = letter
        n += inside
        begun |= inside
        new = 1 - inside
        if 48 <= byte <= 57:
            out[n] = _SPACE
            n += begun
            digit = byte - 48
            for j in range(_NAME_SIZES[digit]):
                out[n + j] = _NAMES[digit, j]
            n += _NAME_SIZES[digit]
            begun = 1
        elif byte == _NEWLINE:
            out[n] = _NEWLINE
            n += 1
            new = begun = 0
    return n
