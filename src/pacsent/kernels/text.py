"""Kernels on bytes: words to ids through a hash table, and the tokenisers of text in ASCII.

The hash table is an array (n_slots, 2) of uint64, n_slots a power of two, open addressing with
linear probing: column 0 is the key of a word, column 1 its id plus one, 0 for a free slot. The key
of a word of one to twelve letters a-z is the word itself, five bits a letter, so that equal keys
are equal words; any other word has a hash with the highest bit set, and its bytes are compared.

Texts and words lie in an array of bytes, one after the other: i is data[bounds[i]:bounds[i + 1]].
"""

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import pairwise

import numpy as np

from pacsent.kernels.library import (
    INT32,
    INT64,
    SIZE,
    UINT8,
    UINT64,
    BoundArray,
    entry_point,
    needs_twins,
)

MAX_SPLIT_BYTES = 64  # of a word that is split into subwords
NEW_WORDS = 1025  # that a piece of text can have, for which `count_paper` needs room
DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

_MAX_PACKED = 12
_GOLDEN = 0x9E3779B97F4A7C15
_FNV_START = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_WORD_OR_DIGIT = re.compile("[a-z]+|[0-9]")
_ASCII_TOKEN = re.compile(rb"(?:[a-z](?:[.':](?=[a-z]))?|[0-9](?:[.',;](?=[0-9]))?|_)+")

_TABLE = UINT64, SIZE  # the hash table, n_slots
_WORDS = *_TABLE, UINT8, INT64  # with the bytes and the offsets of its words

_build_table = entry_point("build_table", *_WORDS, SIZE, returns=SIZE)  # n_words
_find_words = entry_point(
    "find_words",
    *(UINT8, INT64, SIZE),  # data, starts, their number
    *_WORDS,
    INT32,  # ids
)
_ENCODING = (
    *(UINT8, INT64, SIZE),  # data, bounds, n_texts
    *_WORDS,
    SIZE,  # whether words are split
    *(INT32, INT64, INT64),  # ids, offsets, n_unknown
)
_encode_paper = entry_point("encode_paper", *_ENCODING, returns=SIZE)
_encode_ascii = entry_point("encode_ascii", *_ENCODING, UINT8, returns=SIZE)  # room for a text
_count_paper = entry_point(
    "count_paper",
    *(UINT8, SIZE, INT64, SIZE),  # data and its size, bounds, n_texts
    *_WORDS,
    *(INT64, SIZE),  # counts and their room
    *(INT32, INT64, INT64),  # ids, ends, state
    returns=SIZE,
)
_merge_words = entry_point(
    "merge_words",
    *(UINT8, INT64, SIZE),  # data, starts, their number
    *_WORDS,
    SIZE,  # n_words
    INT32,  # ids
    returns=SIZE,
)
_renumber = entry_point(
    "renumber",
    *(INT32, SIZE, INT64, SIZE),  # ids and ends, with their numbers
    *(INT32, SIZE),  # final ids
    returns=SIZE,
)
_split_ascii = entry_point(
    "split_ascii",
    *(UINT8, INT64, SIZE),  # data, bounds, n_texts
    *(UINT8, INT64, INT64),  # bytes of the tokens, starts, ends
    returns=SIZE,
)


# ---- The hash table -----------------------------------------------------------------------------


class Words:
    """Different words as the kernels look them up: the table and the words that it is of."""

    def __init__(self, table: np.ndarray, word_bytes: np.ndarray, word_offsets: np.ndarray) -> None:
        _check_table(table, word_bytes, word_offsets, word_offsets.size - 1)
        self.table = table
        self.word_bytes = word_bytes
        self.word_offsets = word_offsets
        self.arguments = (
            BoundArray(table),
            len(table),
            BoundArray(word_bytes),
            BoundArray(word_offsets),
        )

    @cached_property
    def index(self) -> dict[str, int]:
        """Word to id, for the functions in Python."""
        words = _cut(self.word_bytes, self.word_offsets)
        return {_decode(word): i for i, word in enumerate(words)}


def build_table(
    word_bytes: np.ndarray, word_offsets: np.ndarray, n_slots: int
) -> tuple[np.ndarray, int]:
    """The hash table of words; the first id of a repeated word, or -1 where all differ.

    Equals {word: i for i, word in enumerate(words)}.
    """
    if needs_twins():
        return build_table_plainly(word_bytes, word_offsets, n_slots)

    table = np.zeros((n_slots, 2), dtype=np.uint64)
    n_words = word_offsets.size - 1
    _check_table(table, word_bytes, word_offsets, n_words)
    repeated = _build_table(table, n_slots, word_bytes, word_offsets, n_words)
    return table, repeated


def key_plainly(word: bytes) -> int:
    """The key of a word: its letters, or its FNV-1a hash with the highest bit set."""
    if 0 < len(word) <= _MAX_PACKED and all(97 <= byte <= 122 for byte in word):
        return sum((byte & 31) << 5 * i for i, byte in enumerate(word))
    key = _FNV_START
    for byte in word:
        key = (key ^ byte) * _FNV_PRIME % 2**64
    return key | 1 << 63


def build_table_plainly(
    word_bytes: np.ndarray, word_offsets: np.ndarray, n_slots: int
) -> tuple[np.ndarray, int]:
    """As `build_table`: a word goes to the first free slot from the highest bits of its key on."""
    slots: dict[int, tuple[int, int]] = {}
    seen: set[bytes] = set()
    repeated = -1
    for i, word in enumerate(_cut(word_bytes, word_offsets)):
        if word in seen:
            repeated = i
            break
        seen.add(word)
        key = key_plainly(word)
        slot = key * _GOLDEN % 2**64 * n_slots >> 64
        while slot in slots:
            slot = (slot + 1) % n_slots
        slots[slot] = key, i + 1

    table = np.zeros((n_slots, 2), dtype=np.uint64)
    for slot, pair in slots.items():
        table[slot] = pair
    return table, repeated


def find_words(data: np.ndarray, starts: np.ndarray, words: Words) -> np.ndarray:
    """Ids of words, -1 where unknown: [index.get(word, -1) for word in words]."""
    if needs_twins():
        return find_words_plainly(data, starts, words)

    _check_bounds(data, starts)
    ids = np.empty(starts.size - 1, dtype=np.int32)
    _find_words(data, starts, ids.size, *words.arguments, ids)
    return ids


def find_words_plainly(data: np.ndarray, starts: np.ndarray, words: Words) -> np.ndarray:
    """As `find_words`."""
    ids = [words.index.get(_decode(word), -1) for word in _cut(data, starts)]
    return np.array(ids, dtype=np.int32)


def _check_table(
    table: np.ndarray, word_bytes: np.ndarray, word_offsets: np.ndarray, n_words: int
) -> None:
    n_slots = len(table)
    is_power = n_slots >= 2 and n_slots & (n_slots - 1) == 0
    is_large = n_slots > n_words and word_offsets.size > n_words
    if table.shape != (n_slots, 2) or not is_power or not is_large:
        raise ValueError(
            f"The hash table must have a power of two of slots, more than {n_words:,} words. Got "
            f"shape {table.shape} instead."
        )
    if n_words < 0 or word_offsets[n_words] > word_bytes.size:
        raise ValueError("Words must lie in their bytes.")


def _check_bounds(data: np.ndarray, bounds: np.ndarray) -> int:
    """The number of bytes of texts whose bounds never fall; who makes bounds sees to that."""
    if bounds.size == 0 or bounds[0] < 0 or bounds[-1] > data.size:
        raise ValueError(f"Texts must lie in their {data.size:,} bytes.")
    return int(bounds[-1] - bounds[0])


def _cut(data: np.ndarray, bounds: np.ndarray) -> list[bytes]:
    return [data[start:end].tobytes() for start, end in pairwise(bounds.tolist())]


def _decode(word: bytes) -> str:
    return word.decode("utf-8", "surrogatepass")


# ---- Text to ids --------------------------------------------------------------------------------


def encode_paper(
    data: np.ndarray, bounds: np.ndarray, words: Words, splits: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Token ids of texts, where those of each text begin and end, and how many are unknown.

    Letters a-z of either case are words, each digit is a word of its own, the rest separates:
    [index[t] for t in tokenise_paper(text) if t in index]. With `splits`, an OOV word becomes
    its `subword_ids`, if it has any.
    """
    if needs_twins():
        return encode_paper_plainly(data, bounds, words, splits)

    return _encode(_encode_paper, data, bounds, words, splits)


def _encode(
    kernel: Callable[..., int],
    data: np.ndarray,
    bounds: np.ndarray,
    words: Words,
    splits: bool,
    *room: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n_bytes = _check_bounds(data, bounds)
    n_texts = bounds.size - 1
    ids = np.empty(n_bytes, dtype=np.int32)
    offsets = np.empty(n_texts + 1, dtype=np.int64)
    n_unknown = np.empty(n_texts, dtype=np.int64)

    n = kernel(
        *(data, bounds, n_texts),
        *words.arguments,
        splits,
        *(ids, offsets, n_unknown),
        *room,
    )
    return ids[:n].copy(), offsets, n_unknown


def encode_paper_plainly(
    data: np.ndarray, bounds: np.ndarray, words: Words, splits: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `encode_paper`, with a dict."""
    token_lists = map(_paper_tokens, _cut(data, bounds))
    return _encode_plainly(token_lists, words, splits)


def _encode_plainly(
    token_lists: Iterable[list[str]], words: Words, splits: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    index = words.index
    ids: list[int] = []
    offsets = [0]
    n_unknown = []

    for tokens in token_lists:
        n_unknown_tokens = 0
        for token in tokens:
            token_ids = []
            if token in index:
                token_ids = [index[token]]
            elif splits:
                token_ids = subword_ids(token, index)
            ids += token_ids
            n_unknown_tokens += not token_ids
        offsets.append(len(ids))
        n_unknown.append(n_unknown_tokens)
    return np.array(ids, np.int32), np.array(offsets), np.array(n_unknown, np.int64)


def subword_ids(word: str, index: dict[str, int]) -> list[int]:
    """Ids of the longest known beginning of a word, of the longest subword after it, ...

    >>> subword_ids("tourists", {"tour": 0, "t": 1, "##is": 2, "##ist": 3, "##s": 4})
    [0, 3, 4]
    """
    ids: list[int] = []
    start = 0
    if len(word.encode("utf-8", "surrogatepass")) > MAX_SPLIT_BYTES:
        return ids
    while start < len(word):
        mark = "##" if start else ""
        end = len(word)
        while end > start and mark + word[start:end] not in index:
            end -= 1
        if end == start:
            return []
        ids.append(index[mark + word[start:end]])
        start = end
    return ids


def _paper_tokens(text: bytes) -> list[str]:
    tokens = _WORD_OR_DIGIT.findall(text.lower().decode("latin-1"))
    return [DIGIT_NAMES[int(token)] if token.isdigit() else token for token in tokens]


def encode_ascii(
    data: np.ndarray, bounds: np.ndarray, words: Words, splits: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `encode_paper`, for the tokens of the unicode normalisation of texts in ASCII."""
    if needs_twins():
        return encode_ascii_plainly(data, bounds, words, splits)

    lowered = np.empty(data.size, dtype=np.uint8)
    return _encode(_encode_ascii, data, bounds, words, splits, lowered)


def encode_ascii_plainly(
    data: np.ndarray, bounds: np.ndarray, words: Words, splits: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `encode_ascii`, with a dict."""
    token_lists = map(_ascii_tokens, _cut(data, bounds))
    return _encode_plainly(token_lists, words, splits)


def _ascii_tokens(text: bytes) -> list[str]:
    return [token.decode() for token in _ASCII_TOKEN.findall(text.lower())]


def split_ascii(data: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens of the unicode normalisation of texts in ASCII.

    Their bytes, where each begins and ends in these, and how many there are after each text.
    """
    if needs_twins():
        return split_ascii_plainly(data, bounds)

    n_bytes = _check_bounds(data, bounds)
    out = np.empty(n_bytes, dtype=np.uint8)
    starts = np.empty(n_bytes + 1, dtype=np.int64)
    ends = np.empty(bounds.size - 1, dtype=np.int64)
    n = _split_ascii(data, bounds, ends.size, out, starts, ends)
    return out[: starts[n]], starts[: n + 1], ends


def split_ascii_plainly(
    data: np.ndarray, bounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `split_ascii`: the rules of UAX 29 for ASCII."""
    tokens: list[str] = []
    n_tokens = []
    for text in _cut(data, bounds):
        text_tokens = _ascii_tokens(text)
        tokens += text_tokens
        n_tokens.append(len(text_tokens))

    token_bytes = np.frombuffer("".join(tokens).encode(), np.uint8)
    starts = np.cumsum([0, *map(len, tokens)])
    ends = np.cumsum(n_tokens, dtype=np.int64)
    return token_bytes, starts, ends


# ---- Growing tables -----------------------------------------------------------------------------


def count_paper(
    data: np.ndarray,
    bounds: np.ndarray,
    words: tuple[np.ndarray, np.ndarray, np.ndarray],
    counts: np.ndarray,
    ids: np.ndarray,
    ends: np.ndarray,
    state: np.ndarray,
) -> bool:
    """Ids of all words, by the rules of `encode_paper`, new words added; whether all is done.

    `words` are the table, bytes and offsets of a growing vocabulary whose ten first words are
    DIGIT_NAMES; they and `counts` are changed in place. `state`, text, place in the data, number of
    ids and of words, says where to begin and, then, where it ended: early where `counts` or the
    table had no room for NEW_WORDS more. ends[s] is the number of ids after text s.
    """
    table, word_bytes, word_offsets = words
    _, place, _, n_words = state.tolist()
    _check_bounds(data, bounds)
    _check_table(table, word_bytes, word_offsets, n_words)
    n_texts = bounds.size - 1
    n_counts = min(counts.size, word_offsets.size - 1)
    n_free_bytes = word_bytes.size - word_offsets[n_words]
    is_room_for_words = n_counts >= n_words and n_free_bytes >= data.size - place
    is_room_for_ids = ids.size == data.size and ends.size == n_texts
    if not (is_room_for_words and is_room_for_ids):
        raise ValueError("The arrays have no room for the words of this text.")

    is_done = _count_paper(
        *(data, data.size, bounds, n_texts),
        *(table, len(table), word_bytes, word_offsets),
        *(counts, n_counts, ids, ends, state),
    )
    return bool(is_done)


def count_paper_plainly(
    data: np.ndarray, bounds: np.ndarray
) -> tuple[list[str], list[int], list[int]]:
    """Words, ids and ends, as `count_paper` finds them from the ten first words on."""
    index = {name: i for i, name in enumerate(DIGIT_NAMES)}
    ids: list[int] = []
    ends = []
    for text in _cut(data, bounds):
        ids += [index.setdefault(token, len(index)) for token in _paper_tokens(text)]
        ends.append(len(ids))
    return list(index), ids, ends


def merge_words(
    data: np.ndarray,
    starts: np.ndarray,
    words: tuple[np.ndarray, np.ndarray, np.ndarray],
    n_words: int,
) -> tuple[np.ndarray, int]:
    """Ids of words in a growing vocabulary, new ones added in place; and how many there are then.

    Equals [index.setdefault(word, len(index)) for word in words].
    """
    table, word_bytes, word_offsets = words
    n = starts.size - 1
    _check_bounds(data, starts)
    _check_table(table, word_bytes, word_offsets, n_words + n)
    if word_bytes.size - word_offsets[n_words] < data.size:
        raise ValueError("The arrays have no room for these words.")

    ids = np.empty(n, dtype=np.int32)
    n_merged = _merge_words(
        *(data, starts, n),
        *(table, len(table), word_bytes, word_offsets),
        n_words,
        ids,
    )
    return ids, n_merged


def renumber(ids: np.ndarray, ends: np.ndarray, final: np.ndarray) -> int:
    """Final ids in place, those below zero left out; their number; `ends` moved with them."""
    n = _renumber(ids, ids.size, ends, ends.size, final, final.size)
    if n < 0:
        # The ids before the first wrong one are renumbered by now. The last wrong one is not.
        wrong_ids = ids[(ids < 0) | (ids >= final.size)]
        raise ValueError(
            f"Ids must be numbers of {final.size:,} words. Got {wrong_ids[-1]} instead."
        )
    return n


def renumber_plainly(
    ids: np.ndarray, ends: np.ndarray, final: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """New ids and ends, as `renumber` leaves them."""
    final_ids = final[ids]
    is_kept = final_ids >= 0
    n_kept_before = np.concatenate([[0], np.cumsum(is_kept)])
    return final_ids[is_kept], n_kept_before[ends]
