"""Kernels on bytes: n-grams of words or of characters as 64-bit hashes, counted and looked up.

A token is a run of word bytes, lower-cased, an apostrophe between two of them included, or a single
mark such as "!", or a single emoji, symbol or character of a script written without spaces. Where
n-grams are of characters, every character of such a run is a token, and an edge stands between two
runs. An n-gram is known by a hash of its tokens' hashes: among ten million n-grams two
share one with probability 3e-6. A table is an array of keys (0 for a free slot), its size a
power of two, open addressing with linear probing; what belongs to a key stands at the same
place of other arrays.
"""

import numpy as np

from pacsent.kernels.compiling import njit

SEPARATOR, WORD, MARK = 0, 1, 2
FNV_START = np.uint64(0xCBF29CE484222325)
FNV_PRIME = np.uint64(0x100000001B3)
ORDER = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
HALF = np.uint64(33)
APOSTROPHE = 39
EDGE = np.uint64(0xA0761D6478BD642F)  # before the first token, and at both ends of runs


def mix_array(h):
    """Every bit of h reaches every bit of the result (the finisher of MurmurHash3); never 0."""
    h = (h ^ (h >> HALF)) * MIX_1
    h = (h ^ (h >> HALF)) * MIX_2
    return (h ^ (h >> HALF)) | np.uint64(1)


_mixed = njit(nogil=True)(mix_array)


@njit(nogil=True)
def _whole_size(data, i, stop):
    """Bytes of the character that begins here if it is a token by itself, else 0.

    Han, kana and bopomofo (U+3005 to U+312F, U+3400 to U+9FFF), Thai and Lao, Burmese, Khmer:
    their words are written without spaces. Signs of currencies (U+00A2 to U+00A5, U+20A0 to
    U+20CF), symbols (U+2190 to U+2BFF) and emoji (U+1F000 to U+1FAFF), as in `ngrams.SYMBOLS`.
    """
    if i + 1 >= stop or data[i] < 0xC2:
        return 0
    lead, next_ = data[i], data[i + 1]
    if lead == 0xC2:
        return 2 if 0xA2 <= next_ <= 0xA5 else 0
    if i + 2 >= stop or lead < 0xE0:
        return 0
    if lead == 0xF0:
        return 4 if next_ == 0x9F and data[i + 2] <= 0xAB else 0
    if lead > 0xE9:
        return 0
    is_whole = lead > 0xE3
    if lead == 0xE3:
        is_whole = next_ <= 0x84 or next_ >= 0x90
    elif lead == 0xE2:
        is_whole = 0x87 <= next_ <= 0xAF or (
            (next_ == 0x86 and data[i + 2] >= 0x90)
            or (next_ == 0x82 and data[i + 2] >= 0xA0)
            or (next_ == 0x83 and data[i + 2] <= 0x8F)
        )
    elif lead == 0xE1:
        is_whole = 0x80 <= next_ <= 0x82 or 0x9E <= next_ <= 0x9F
    elif lead == 0xE0:
        is_whole = 0xB8 <= next_ <= 0xBB
    return 3 if is_whole else 0


@njit(cache=True, nogil=True)
def hash_tokens(data, start, stop, settings, hashes, spans):
    """Hashes and places of the tokens of data[start:stop], in place; their number.

    settings[0] says of each byte whether it separates, belongs to a word or is a token by itself.
    Where settings[3] is not 0, the characters of words are the tokens, with an edge after every
    word. A text with any token has an edge in front. The arrays need room for stop - start + 2
    tokens. Functions are called for bytes beyond ASCII only: calls for all take four times as long.
    """
    kinds, of_characters = settings[0], settings[3] != 0
    hashes[0] = EDGE
    spans[0, 0] = spans[0, 1] = start
    n = np.int64(1)
    i = start
    while i < stop:
        kind = kinds[data[i]]
        if kind == SEPARATOR or (of_characters and kind == MARK):
            i += 1
            continue
        h = FNV_START
        spans[n, 0] = begin = i
        size = 1 if kind == MARK else 0
        if data[i] >= 0x80 and not of_characters:
            size = _whole_size(data, i, stop)
        for _ in range(size):
            h = (h ^ np.uint64(data[i])) * FNV_PRIME
            i += 1
        while size == 0 and i < stop:
            byte = data[i]
            if kinds[byte] != WORD:
                if byte != APOSTROPHE or i + 1 >= stop or kinds[data[i + 1]] != WORD:
                    break
            elif byte >= 0x80 and not of_characters and _whole_size(data, i, stop) > 0:
                break
            if of_characters and i > begin and not 0x80 <= byte < 0xC0:  # the next character
                hashes[n] = _mixed(h)
                spans[n, 1] = i
                n += 1
                h = FNV_START
                spans[n, 0] = i
            h = (h ^ np.uint64(byte | np.uint8(32) if 65 <= byte <= 90 else byte)) * FNV_PRIME
            i += 1
        hashes[n] = _mixed(h)
        spans[n, 1] = i
        n += 1
        if of_characters:
            hashes[n] = EDGE
            spans[n, 0] = spans[n, 1] = i
            n += 1
    return n if n > 1 else 0


@njit(nogil=True)
def hash_grams(hashes, n_tokens, low, high, grams):
    """Hashes of all runs of low to high tokens, in place; their number.

    In the order of their first token, shorter ones first; an edge is none by itself, and none goes
    on after an edge.
    """
    n = 0
    for i in range(n_tokens):
        h = np.uint64(0)
        for size in range(1, min(high, n_tokens - i) + 1):
            token = hashes[i + size - 1]
            h = token if size == 1 else _mixed(h * ORDER + token)
            if size >= low and h != EDGE:
                grams[n] = h
                n += 1
            if token == EDGE and size > 1:
                break
    return n


@njit(cache=True, nogil=True)
def hash_texts(data, bounds, settings, hashes, spans, ends):
    """Hashes and places of the tokens of all texts, in place; ends[s] is their number after text s.

    The arrays need room for data.size + 2 * n_texts tokens.
    """
    n = np.int64(0)
    for s in range(bounds.size - 1):
        n += hash_tokens(data, bounds[s], bounds[s + 1], settings, hashes[n:], spans[n:])
        ends[s] = n


@njit(cache=True, nogil=True)
def fold_hashes(hashes, begins, out):
    """One hash for the sequence of tokens of each text, in place; 0 for a text without any.

    The tokens of text s are hashes[begins[s]:begins[s + 1]].
    """
    for s in range(out.size):
        h = np.uint64(0)
        for i in range(begins[s], begins[s + 1]):
            h = _mixed(h * ORDER + hashes[i])
        out[s] = h


@njit(cache=True, nogil=True)
def look_up(hashes, lookup, out):
    """Column of each hash in place, -1 for unknown ones; lookup is (keys, columns)."""
    keys, columns = lookup
    for i in range(hashes.size):
        slot = _slot(keys, hashes[i])
        out[i] = columns[slot] if keys[slot] == hashes[i] else -1


@njit(nogil=True)
def _slot(keys, h):
    """Where a key is in a table, or the free slot where it would go."""
    mask = keys.size - 1
    slot = np.int64(h >> np.uint64(1)) & mask
    while keys[slot] != 0 and keys[slot] != h:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, nogil=True)
def count_texts(data, bounds, settings, first, table, n_used, share, room):
    """In how many texts each n-gram occurs, new ones added, in place.

    settings is (kinds, low, high, whether n-grams are of characters); table is (keys, n_texts, last
    text), and must have free slots; share is (part, n_parts): only n-grams whose hash belongs to
    the part are counted, so that threads share the work. Begins at text `first` and stops before a
    text that may not fit; returns the text to go on with and how many n-grams there are.
    """
    _, low, high, _ = settings
    keys, n_texts, last = table
    part, n_parts = share
    hashes, spans, grams, _ = room
    for s in range(first, bounds.size - 1):
        n_tokens = hash_tokens(data, bounds[s], bounds[s + 1], settings, hashes, spans)
        n = hash_grams(hashes, n_tokens, low, high, grams)
        if (n_used + n) * 10 > keys.size * 6:
            return s, n_used
        for j in range(n):
            h = grams[j]
            if np.int64((h >> np.uint64(48)) % np.uint64(n_parts)) != part:
                continue
            slot = _slot(keys, h)
            if keys[slot] == 0:
                keys[slot] = h
                n_used += 1
                n_texts[slot] = 1
                last[slot] = s
            elif last[slot] != s:
                n_texts[slot] += 1
                last[slot] = s
    return bounds.size - 1, n_used


@njit(cache=True, nogil=True)
def grow(table, larger):
    """Put all that is in the table into an empty larger one, in place."""
    keys, n_texts, last = table
    new_keys, new_n_texts, new_last = larger
    for old in range(keys.size):
        h = keys[old]
        if h != 0:
            slot = _slot(new_keys, h)
            new_keys[slot], new_n_texts[slot], new_last[slot] = h, n_texts[old], last[old]


@njit(cache=True, nogil=True)
def fill_columns(hashes, keys, columns):
    """A table from n-gram to its position in `hashes`, in place."""
    for i in range(hashes.size):
        slot = _slot(keys, hashes[i])
        keys[slot] = hashes[i]
        columns[slot] = i


@njit(cache=True, nogil=True)
def find_grams(data, start, stop, settings, lookup, room):
    """Columns of the n-grams of data[start:stop], in place, -1 where unknown; (tokens, n-grams).

    room is (token hashes, spans, n-gram hashes, columns): buffers that the caller allocates.
    """
    _, low, high, _ = settings
    keys, columns = lookup
    hashes, spans, grams, gram_columns = room
    n_tokens = hash_tokens(data, start, stop, settings, hashes, spans)
    n = hash_grams(hashes, n_tokens, low, high, grams)
    for j in range(n):
        slot = _slot(keys, grams[j])
        gram_columns[j] = columns[slot] if keys[slot] == grams[j] else -1
    return n_tokens, n


@njit(cache=True, nogil=True)
def count_grams(data, bounds, settings, lookup, place, room, out):
    """Which known n-grams each text holds and how often, as the rows of a sparse matrix, in place.

    lookup is (keys, columns); place is one -1 for each column; out is (columns, counts, row ends).
    Rows are in the order of first occurrence. Returns the number of entries.
    """
    indices, counts, ends = out
    gram_columns = room[3]
    n = np.int64(0)
    for s in range(bounds.size - 1):
        _, n_grams = find_grams(data, bounds[s], bounds[s + 1], settings, lookup, room)
        begin = n
        for j in range(n_grams):
            column = gram_columns[j]
            if column < 0:
                continue
            at = place[column]
            if at >= begin:
                counts[at] += 1
            else:
                place[column] = n
                indices[n] = column
                counts[n] = 1
                n += 1
        ends[s] = n
    return n


@njit(nogil=True)
def _is_symbol(data, i):
    """Whether the token that begins at i is one of `ngrams.SYMBOLS`."""
    if data[i] == 0xC2:
        return 0xA2 <= data[i + 1] <= 0xA5
    return data[i] == 0xE2 or (data[i] == 0xF0 and data[i + 1] == 0x9F)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"})
def add_scores(data, bounds, settings, lookup, weights, room, scratch, out):
    """Scores of texts from their n-grams, in place: tf-idf rows of length 1 times the weights.

    weights is (idf, coef, known): coef (n_columns, n_outputs) is the weight of a unit of tf-idf. A
    text's term frequencies enter as 1 + ln(count). scratch is one zero (int32) for each column, and
    room for the scores of one text. out is (scores, unknown): scores (n_texts, n_outputs), unknown
    (n_texts,) the part of each text's words that neither `lookup` nor the table `known` holds,
    counted here because the words are hashed already; not counted where `known` is empty.
    """
    idf, coef, known = weights
    hashes, spans, _, gram_columns = room
    kinds, keys = settings[0], lookup[0]
    counts, score = scratch
    out, unknown = out
    n_outputs = coef.shape[1]
    for s in range(bounds.size - 1):
        n_tokens, n = find_grams(data, bounds[s], bounds[s + 1], settings, lookup, room)
        n_words = n_unknown = 0
        for i in range(1, n_tokens if known.size else 0):
            first, h = data[spans[i, 0]], hashes[i]
            if kinds[first] == WORD and (first < 0x80 or not _is_symbol(data, spans[i, 0])):
                n_words += 1
                if known[_slot(known, h)] == 0 and keys[_slot(keys, h)] == 0:
                    n_unknown += 1
        if n_unknown > 0:
            unknown[s] = n_unknown / n_words
        for j in range(n):
            if gram_columns[j] >= 0:
                counts[gram_columns[j]] += 1
        score[:] = 0.0
        squares = 0.0
        for j in range(n):
            column = gram_columns[j]
            if column < 0 or counts[column] == 0:
                continue
            value = idf[column]
            if counts[column] > 1:
                value *= np.float32(1.0 + np.log(counts[column]))
            counts[column] = 0
            squares += np.float64(value) * np.float64(value)
            row = np.uint64(column)
            for k in range(n_outputs):
                score[k] += value * coef[row, k]
        if squares > 0:
            length = 1.0 / np.sqrt(squares)
            for k in range(n_outputs):
                out[s, k] += score[k] * length
