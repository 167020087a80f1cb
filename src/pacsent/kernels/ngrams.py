"""Kernels on bytes: n-grams of words or of characters as 64-bit hashes, counted and looked up.

A token is a run of word bytes, lower-cased, an apostrophe between two of them included, or a single
mark such as "!", or a single emoji, symbol or character of a script written without spaces. Where
n-grams are of characters, every character of such a run is a token, and an edge stands after every
run. A text with any token has an edge in front. An n-gram is known by a hash of its tokens' hashes:
among ten million n-grams two share one with probability 3e-6.

`data` and `bounds` are texts: their UTF-8 one after the other, and the n_texts + 1 places between
them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pacsent.kernels.library import (
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    SIZE,
    UINT8,
    UINT64,
    Array,
    BoundArray,
    entry_point,
    needs_twins,
)

SEPARATOR = 0
WORD = 1
MARK = 2
EDGE = np.uint64(0xA0761D6478BD642F)  # the hash of an edge
_FNV_START = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_ORDER = np.uint64(0x9E3779B97F4A7C15)

_COUNTED = np.dtype([("key", np.uint64), ("n_texts", np.int32), ("last_text", np.int32)])
_FIRST_SLOTS = 1 << 16  # of a table of counts, which grows
_BATCH_BYTES = 1 << 23  # of texts in a call: Ctrl-C works between calls

_TEXTS = (UINT8, INT64, SIZE, SIZE)  # data, bounds, texts begin to end
_SETTINGS = (INT8, SIZE, SIZE, SIZE)  # as in Settings
_TABLE = (UINT64, INT32, SIZE)  # keys, columns, number of slots

_longest_text = entry_point("longest_text", INT64, SIZE, SIZE, returns=SIZE)
_hash_texts = entry_point(
    "hash_texts",
    *_TEXTS,
    *(INT8, SIZE),  # kinds, of_characters
    SIZE,  # tokens before
    *(UINT64, INT64, UINT8, INT64),  # hashes, spans, is_word, begins
    returns=SIZE,
)
_hash_grams = entry_point("hash_grams", UINT64, SIZE, SIZE, SIZE, UINT64, returns=SIZE)
_hash_whole_texts = entry_point(
    "hash_whole_texts",
    *_TEXTS,
    INT8,  # kinds
    SIZE,  # longest text
    *(UINT64, UINT64),  # room, hashes
)
_fill_hash_table = entry_point("fill_hash_table", UINT64, SIZE, *_TABLE)
_find_hashes = entry_point("find_hashes", UINT64, SIZE, *_TABLE, INT32)
_move_counts = entry_point("move_counts", Array(_COUNTED), SIZE, Array(_COUNTED), SIZE)
_count_texts = entry_point(
    "count_texts",
    *(UINT8, INT64, SIZE),  # data, bounds, texts to end
    *_SETTINGS,
    SIZE,  # longest text
    *(SIZE, SIZE),  # part, number of parts
    *(Array(_COUNTED), SIZE),  # table, number of slots
    INT64,  # state: text to go on with, slots in use
    UINT64,  # room
)
_count_grams = entry_point(
    "count_grams",
    *_TEXTS,
    *_SETTINGS,
    SIZE,  # longest text
    *_TABLE,
    SIZE,  # entries before
    *(INT32, INT32, INT64),  # indices, counts, starts
    UINT64,  # room
    returns=SIZE,
)
_score_texts = entry_point(
    "score_texts",
    *_TEXTS,
    *_SETTINGS,
    SIZE,  # longest text
    *_TABLE,
    *(UINT64, SIZE),  # keys of other words, number of slots
    *(FLOAT32, FLOAT32, SIZE),  # idf, coef, number of outputs
    UINT64,  # room
    *(FLOAT64, FLOAT64),  # scores, unknown
)


class Settings(NamedTuple):
    """Settings of n-grams: of low to high tokens, words and marks, or the characters of words."""

    kinds: BoundArray  # (256,) int8, of each byte: SEPARATOR, WORD or MARK
    low: int
    high: int
    of_characters: bool

    @classmethod
    def of(cls, kinds: np.ndarray, sizes: tuple[int, int], of_characters: bool) -> "Settings":
        """Settings that the kernels can rely on."""
        low, high = map(int, sizes)
        if kinds.shape != (256,):
            raise ValueError("There must be a kind for each of the 256 bytes.")
        if not 1 <= low <= high:
            raise ValueError(f"There are no n-grams of {low} to {high} tokens.")
        return cls(BoundArray(np.ascontiguousarray(kinds, np.int8)), low, high, of_characters)

    @property
    def n_sizes(self) -> int:
        return self.high - self.low + 1


# ---- Texts --------------------------------------------------------------------------------------


def _check_texts(data: np.ndarray, bounds: BoundArray) -> int:
    """The number of bytes of the longest text."""
    longest = _longest_text(bounds, bounds.array.size - 1, data.size)
    if longest < 0:
        raise ValueError("The bounds are not those of texts in the data.")
    return longest


def _batches(data: np.ndarray, bounds: np.ndarray) -> Iterator[tuple[int, int]]:
    """The texts (begin, end) of each call."""
    n_texts = bounds.size - 1
    if data.size <= _BATCH_BYTES:
        yield 0, n_texts
        return
    begin = 0
    while begin < n_texts:
        end = int(np.searchsorted(bounds, bounds[begin] + _BATCH_BYTES))
        yield begin, min(end, n_texts)
        begin = end


def _room(longest: int, settings: Settings, n_outputs: int = 0) -> np.ndarray:
    """The buffers of `divide_room` in ngrams.c."""
    n_tokens = longest + 2
    n_grams = n_tokens * settings.n_sizes
    n_words = 3 * n_tokens + n_grams
    n_halves = 3 * n_grams + (4 * n_grams + 2) + n_outputs
    return np.empty(n_words + (n_halves + 1) // 2, np.uint64)


# ---- Hashes -------------------------------------------------------------------------------------


def mix_bits(h: np.ndarray) -> np.ndarray:
    """Every bit of h reaches every bit of the result (the finisher of MurmurHash3); never 0."""
    half = np.uint64(33)
    h = (h ^ (h >> half)) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> half)) * np.uint64(0xC4CEB9FE1A85EC53)
    return (h ^ (h >> half)) | np.uint64(1)


def join_hashes(runs: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """The hashes of runs of tokens, each with one more token."""
    return mix_bits(runs * _ORDER + tokens)


class Tokens(NamedTuple):
    """The tokens of all texts one after the other, an edge in front of each text that has any."""

    hashes: np.ndarray  # (n_tokens,)
    spans: np.ndarray  # (n_tokens, 2), in the data
    is_word: np.ndarray  # (n_tokens,) of bool, neither an edge nor a mark nor a symbol
    begins: np.ndarray  # (n_texts + 1,): those of text s are begins[s] to begins[s + 1]


def hash_texts(data: np.ndarray, bounds: np.ndarray, settings: Settings) -> Tokens:
    """The tokens of all texts."""
    if needs_twins():
        return hash_texts_plainly(data, bounds, settings)

    n_texts = bounds.size - 1
    room = data.size + 2 * n_texts  # each byte a token, or what separates it from the next
    hashes = np.empty(room, np.uint64)
    spans = np.empty((room, 2), np.int64)
    is_word = np.empty(room, np.uint8)
    begins = np.zeros(n_texts + 1, np.int64)
    bound_bounds = BoundArray(bounds)
    _check_texts(data, bound_bounds)
    n = 0
    for begin, end in _batches(data, bounds):
        n = _hash_texts(
            *(data, bound_bounds, begin, end),
            *(settings.kinds, settings.of_characters),
            n,
            *(hashes, spans, is_word, begins),
        )
    return Tokens(hashes[:n], spans[:n], is_word[:n].view(bool), begins)


def hash_texts_plainly(data: np.ndarray, bounds: np.ndarray, settings: Settings) -> Tokens:
    """As `hash_texts`, with regular expressions on bytes."""
    pattern = _token_pattern(settings)
    hashes: list[int] = []
    spans: list[tuple[int, int]] = []
    is_word: list[bool] = []
    begins = [0]

    def add_edge(place: int) -> None:
        hashes.append(int(EDGE))
        spans.append((place, place))
        is_word.append(False)

    for start, stop in pairwise(bounds.tolist()):
        text = data[start:stop].tobytes()
        runs = list(re.finditer(pattern, text, re.DOTALL))
        if runs:
            add_edge(start)
        for run in runs:
            parts: Iterable[re.Match[bytes]] = [run]
            if settings.of_characters:
                parts = _CHARACTER.finditer(text, *run.span())
            for part in parts:
                first, last = part.span()
                kind = settings.kinds.array[text[first]]
                hashes.append(_hash_token(part[0].lower()))
                spans.append((start + first, start + last))
                is_word.append(kind == WORD and _SYMBOL.match(part[0]) is None)
            if settings.of_characters:
                add_edge(start + run.end())
        begins.append(len(hashes))
    return Tokens(
        hashes=np.array(hashes, np.uint64),
        spans=np.array(spans, np.int64).reshape(-1, 2),
        is_word=np.array(is_word, bool),
        begins=np.array(begins, np.int64),
    )


def _token_pattern(settings: Settings) -> bytes:
    """A regular expression for one token, or for one run of word bytes."""
    kinds = settings.kinds.array
    any_word = _byte_class(kinds == WORD)
    any_mark = _byte_class(kinds == MARK)
    in_word = any_word
    if not settings.of_characters:
        in_word = rb"(?!%s)%s" % (_WHOLE, any_word)
    word = rb"%s(?:%s|'(?=%s))*" % (in_word, in_word, any_word)
    if settings.of_characters:
        return word
    return rb"%s|%s|%s" % (_WHOLE, any_mark, word)


_CHARACTER = re.compile(rb".[\x80-\xbf]*", re.DOTALL)
_SYMBOL = re.compile(rb"\xc2[\xa2-\xa5]|\xe2.|\xf0\x9f", re.DOTALL)
# Characters that are tokens by themselves: `whole_size` in ngrams.c names them.
_WHOLE = rb"""(?:\xc2[\xa2-\xa5]|\xe0[\xb8-\xbb].|\xe1[\x80-\x82\x9e\x9f].|\xe2[\x87-\xaf].
|\xe2\x86[\x90-\xff]|\xe2\x82[\xa0-\xff]|\xe2\x83[\x00-\x8f]|\xe3[\x00-\x84\x90-\xff].
|[\xe4-\xe9]..|\xf0\x9f[\x00-\xab].)""".replace(b"\n", b"")


def _byte_class(is_in: np.ndarray) -> bytes:
    """A regular expression for one of some bytes; one that never matches for none."""
    members = np.flatnonzero(is_in).astype(np.uint8).tobytes()
    if not members:
        return b"(?!)"
    return b"[" + re.escape(members) + b"]"


@lru_cache(1 << 16)
def _hash_token(token: bytes) -> int:
    h = _FNV_START
    for byte in token:
        h = (h ^ byte) * _FNV_PRIME % (1 << 64)
    return int(mix_bits(np.array([h], np.uint64))[0])


def hash_grams(hashes: np.ndarray, low: int, high: int) -> np.ndarray:
    """Hashes of all runs of low to high tokens of one text.

    In the order of their first token, shorter ones first; an edge is none by itself, and none goes
    on after an edge.
    """
    if needs_twins():
        return hash_grams_plainly(hashes, low, high)

    grams = np.empty(hashes.size * (high - low + 1), np.uint64)
    n_grams = _hash_grams(hashes, hashes.size, low, high, grams)
    return grams[:n_grams]


def hash_grams_plainly(hashes: np.ndarray, low: int, high: int) -> np.ndarray:
    """As `hash_grams`: all runs of one size at a time."""
    runs = np.zeros((hashes.size, high), np.uint64)
    is_gram = np.zeros((hashes.size, high), bool)
    run = hashes
    goes_on = np.ones(hashes.size, bool)
    for size in range(1, min(high, hashes.size) + 1):
        last_token = hashes[size - 1 :]
        n = last_token.size  # runs of this size
        if size > 1:
            run = join_hashes(run[:n], last_token)
        runs[:n, size - 1] = run
        is_gram[:n, size - 1] = goes_on[:n] & (run != EDGE)
        goes_on = goes_on[:n] & ((last_token != EDGE) | (size == 1))
    sizes = slice(low - 1, high)
    return runs[:, sizes][is_gram[:, sizes]]


def hash_whole_texts(data: np.ndarray, bounds: np.ndarray, settings: Settings) -> np.ndarray:
    """One hash for the sequence of words of each text, (n_texts,); 0 for a text without any."""
    if needs_twins():
        return hash_whole_texts_plainly(data, bounds, settings)

    bound_bounds = BoundArray(bounds)
    longest = _check_texts(data, bound_bounds)
    hashes = np.empty(bounds.size - 1, np.uint64)
    room = _room(longest, settings)
    for begin, end in _batches(data, bounds):
        _hash_whole_texts(
            *(data, bound_bounds, begin, end),
            settings.kinds,
            longest,
            *(room, hashes),
        )
    return hashes


def hash_whole_texts_plainly(
    data: np.ndarray, bounds: np.ndarray, settings: Settings
) -> np.ndarray:
    """As `hash_whole_texts`: the i-th tokens of all texts at a time."""
    tokens = hash_texts_plainly(data, bounds, settings._replace(of_characters=False))
    begins = tokens.begins[:-1]
    lengths = np.diff(tokens.begins)
    hashes = np.zeros(lengths.size, np.uint64)
    for i in range(lengths.max(initial=0)):
        longer = np.flatnonzero(lengths > i)
        hashes[longer] = join_hashes(hashes[longer], tokens.hashes[begins[longer] + i])
    return hashes


# ---- Tables -------------------------------------------------------------------------------------


class HashTable:
    """The position of each of some hashes, all different.

    Open addressing with linear probing: the number of slots is a power of two, at least twice that
    of hashes; the key of a free slot is 0.
    """

    def __init__(self, hashes: np.ndarray):
        hashes = np.ascontiguousarray(hashes)
        n_slots = 1024
        while n_slots < 2 * hashes.size:
            n_slots *= 2

        keys = np.zeros(n_slots, np.uint64)
        columns = np.zeros(n_slots, np.int32)
        self.n_hashes = hashes.size
        self.n_slots = n_slots
        self.keys = BoundArray(keys)
        self.columns = BoundArray(columns)
        if needs_twins():
            fill_plainly(hashes, keys, columns)
        else:
            _fill_hash_table(hashes, hashes.size, *self.arguments)

    @property
    def arguments(self) -> tuple[BoundArray, BoundArray, int]:
        """Arguments of kernels that stand for the table."""
        return self.keys, self.columns, self.n_slots

    def find(self, hashes: np.ndarray) -> np.ndarray:
        """The position of each hash, -1 for unknown ones, (n,) of int32."""
        if needs_twins():
            return find_plainly(self, hashes)

        columns = np.empty(hashes.size, np.int32)
        _find_hashes(hashes, hashes.size, *self.arguments, columns)
        return columns


def _first_slots(hashes: np.ndarray, n_slots: int) -> np.ndarray:
    return (hashes >> np.uint64(1)).astype(np.int64) & (n_slots - 1)


def fill_plainly(hashes: np.ndarray, keys: np.ndarray, columns: np.ndarray) -> None:
    """Put hashes into an empty table: each into the next free slot, all a step at a time."""
    slots = _first_slots(hashes, keys.size)
    waiting = np.arange(hashes.size)  # hashes that have no slot
    while waiting.size:
        # Of several hashes that want one free slot, the last one gets it.
        is_free = keys[slots[waiting]] == 0
        candidates = waiting[is_free]
        keys[slots[candidates]] = hashes[candidates]

        is_placed = keys[slots[waiting]] == hashes[waiting]
        placed = waiting[is_placed]
        columns[slots[placed]] = placed

        waiting = waiting[~is_placed]
        slots[waiting] = (slots[waiting] + 1) % keys.size


def find_plainly(table: HashTable, hashes: np.ndarray) -> np.ndarray:
    """As `HashTable.find`, all hashes a step at a time."""
    keys = table.keys.array
    columns = table.columns.array
    slots = _first_slots(hashes, keys.size)
    while True:
        slot_keys = keys[slots]
        has_other_key = (slot_keys != 0) & (slot_keys != hashes)
        if not has_other_key.any():
            return np.where(slot_keys == hashes, columns[slots], np.int32(-1))
        slots[has_other_key] = (slots[has_other_key] + 1) % keys.size


# ---- Counts and scores --------------------------------------------------------------------------


def count_texts(
    data: np.ndarray, bounds: np.ndarray, settings: Settings, part: int = 0, n_parts: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """The hashes of n-grams, in any order, and in how many texts each of them occurs.

    Only those whose hash belongs to a part of n_parts, so that threads can share the work.
    """
    if needs_twins():
        return count_texts_plainly(data, bounds, settings, part, n_parts)

    bound_bounds = BoundArray(bounds)
    longest = _check_texts(data, bound_bounds)
    table = np.zeros(_FIRST_SLOTS, _COUNTED)
    state = np.zeros(2, np.int64)
    room = _room(longest, settings)
    for _, end in _batches(data, bounds):
        while True:
            _count_texts(
                *(data, bound_bounds, end),
                *settings,
                longest,
                *(part, n_parts),
                *(table, table.size),
                state,
                room,
            )
            if state[0] == end:
                break
            larger = np.zeros(4 * table.size, _COUNTED)
            _move_counts(table, table.size, larger, larger.size)
            table = larger
    used = table[table["key"] != 0]
    return used["key"], used["n_texts"]


def count_texts_plainly(
    data: np.ndarray, bounds: np.ndarray, settings: Settings, part: int = 0, n_parts: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """As `count_texts`, in the order of the hashes."""
    text_grams = [np.unique(grams) for grams in _grams_plainly(data, bounds, settings)]
    all_grams = np.concatenate([np.empty(0, np.uint64), *text_grams])
    hashes, n_texts = np.unique(all_grams, return_counts=True)
    is_of_part = (hashes >> np.uint64(48)) % np.uint64(n_parts) == part
    return hashes[is_of_part], n_texts[is_of_part].astype(np.int32)


def _grams_plainly(
    data: np.ndarray, bounds: np.ndarray, settings: Settings
) -> Iterator[np.ndarray]:
    """The hashes of the n-grams of each text."""
    tokens = hash_texts_plainly(data, bounds, settings)
    for begin, end in pairwise(tokens.begins):
        yield hash_grams_plainly(tokens.hashes[begin:end], settings.low, settings.high)


def count_grams(
    data: np.ndarray, bounds: np.ndarray, settings: Settings, table: HashTable
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Known n-grams of each text and their counts, as (indices, counts, starts) of sparse rows.

    Rows are in the order of first occurrence.
    """
    if needs_twins():
        return count_grams_plainly(data, bounds, settings, table)

    n_texts = bounds.size - 1
    bound_bounds = BoundArray(bounds)
    longest = _check_texts(data, bound_bounds)
    n_most = (data.size + 2 * n_texts) * settings.n_sizes
    indices = np.empty(n_most, np.int32)
    counts = np.empty(n_most, np.int32)
    starts = np.zeros(n_texts + 1, np.int64)
    room = _room(longest, settings)
    n = 0
    for begin, end in _batches(data, bounds):
        n = _count_grams(
            *(data, bound_bounds, begin, end),
            *settings,
            longest,
            *table.arguments,
            n,
            *(indices, counts, starts),
            room,
        )
    return indices[:n].copy(), counts[:n].copy(), starts


def count_grams_plainly(
    data: np.ndarray, bounds: np.ndarray, settings: Settings, table: HashTable
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `count_grams`, with a `Counter`."""
    indices: list[int] = []
    counts: list[int] = []
    starts = [0]
    for grams in _grams_plainly(data, bounds, settings):
        columns = find_plainly(table, grams)
        counter = Counter(columns[columns >= 0].tolist())
        indices += counter.keys()
        counts += counter.values()
        starts.append(len(indices))
    return np.array(indices, np.int32), np.array(counts, np.int32), np.array(starts, np.int64)


def score_texts(
    data: np.ndarray,
    bounds: np.ndarray,
    settings: Settings,
    table: HashTable,
    known: HashTable | None,
    idf: BoundArray,
    coef: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores of texts, (n_texts, n_outputs): their rows of tf-idf of length 1, times `coef`.

    And the part of each text's words that neither `table` nor `known` has, (n_texts,), counted here
    because the words are hashed already; 0 where `known` is None. A text's frequencies enter as
    1 + ln(count); `idf` (n_columns,) and `coef` (n_columns, n_outputs) are float32.
    """
    n_outputs = coef.shape[1]
    if idf.array.shape != (table.n_hashes,) or coef.shape != (table.n_hashes, n_outputs):
        raise ValueError(f"The weights must be those of {table.n_hashes:,} n-grams.")
    if known is not None and settings.of_characters:
        raise ValueError("OOV words are counted among n-grams of words only.")
    if needs_twins():
        return score_texts_plainly(data, bounds, settings, table, known, idf, coef)

    n_texts = bounds.size - 1
    bound_bounds = BoundArray(bounds)
    longest = _check_texts(data, bound_bounds)
    scores = np.empty((n_texts, n_outputs))
    unknown = np.zeros(n_texts)
    room = _room(longest, settings, n_outputs)
    other_keys = table.keys  # with no slots, they are not read
    n_other_slots = 0
    if known is not None:
        other_keys = known.keys
        n_other_slots = known.n_slots
    for begin, end in _batches(data, bounds):
        _score_texts(
            *(data, bound_bounds, begin, end),
            *settings,
            longest,
            *table.arguments,
            *(other_keys, n_other_slots),
            *(idf, coef, n_outputs),
            room,
            *(scores, unknown),
        )
    return scores, unknown


def score_texts_plainly(
    data: np.ndarray,
    bounds: np.ndarray,
    settings: Settings,
    table: HashTable,
    known: HashTable | None,
    idf: BoundArray,
    coef: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """As `score_texts`, text by text."""
    n_texts = bounds.size - 1
    scores = np.zeros((n_texts, coef.shape[1]))
    indices, counts, starts = count_grams_plainly(data, bounds, settings, table)
    values = idf.array[indices] * (1.0 + np.log(counts)).astype(np.float32)
    for s, (begin, end) in enumerate(pairwise(starts)):
        row = values[begin:end].astype(np.float64)
        if row.any():
            scores[s] = row @ coef[indices[begin:end]] / np.sqrt(row @ row)

    if known is None:
        return scores, np.zeros(n_texts)

    hashes, _, is_word, begins = hash_texts_plainly(data, bounds, settings)
    is_in_table = find_plainly(table, hashes) >= 0
    is_in_known = find_plainly(known, hashes) >= 0
    is_unknown_word = is_word & ~(is_in_table | is_in_known)
    n_words = _count_per_text(is_word, begins)
    n_unknown = _count_per_text(is_unknown_word, begins)
    return scores, n_unknown / np.maximum(n_words, 1)


def _count_per_text(is_counted: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """Number of tokens of each text for which `is_counted` is true, (n_texts,)."""
    n_before = np.append(0, np.cumsum(is_counted))  # (n_tokens + 1,)
    return np.diff(n_before[begins])
