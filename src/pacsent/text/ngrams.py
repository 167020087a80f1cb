"""N-grams of words or characters as sparse features: counted, weighted by tf-idf, looked up."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

from pacsent.kernels import ngrams as kernels
from pacsent.kernels.library import BoundArray
from pacsent.kernels.ngrams import HashTable, Settings
from pacsent.memory import return_freed_memory
from pacsent.threads import in_order

MARKS = '!?,.-:;()"'
# Signs of currencies, symbols and emoji: tokens by themselves, as in kernels/ngrams.c.
SYMBOLS = "\xa2-\xa5\u20a0-\u20cf\u2190-\u2bff\U0001f000-\U0001faff"
# Tokens that are drawn with the character before them: skin tones, joined emoji, letters of flags.
_FLAG = "[\U0001f1e6-\U0001f1ff]"
JOINED = re.compile(rf"[\U0001f3fb-\U0001f3ff]|(?<=\u200d)[{SYMBOLS}]|(?<={_FLAG}){_FLAG}")
_FOREIGN_MARKS = re.compile(rf"(\w?)([^\x00-\x7f\w{SYMBOLS}]+)")
_JOINING = "\u200c\u200d\u0e33\u0eb3"  # joiners, and the vowels am of Thai and Lao
_SMALL = 1 << 22  # bytes that one thread counts as fast as several
_BLOCK_TEXTS = 1 << 13  # that a thread counts and weighs at once
_BLOCKS_TO_RETURN = 8  # copied blocks, after which their memory is returned to the system


def byte_kinds(marks: str = MARKS) -> np.ndarray:
    """What each byte is: a separator, part of a word, or a token by itself (the marks)."""
    kinds = np.zeros(256, np.int8)
    for first, last in ((48, 57), (65, 90), (97, 122), (128, 255)):
        kinds[first : last + 1] = kernels.WORD
    kinds[ord("_")] = kernels.WORD
    for mark in marks:
        kinds[ord(mark)] = kernels.MARK
    return kinds


@cache
def _word_settings(marks: str = MARKS) -> Settings:
    return Settings.of(byte_kinds(marks), (1, 1), of_characters=False)


def as_bytes(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """All texts one after the other as UTF-8, and where each begins.

    Letters beyond ASCII are lower-cased here, marks beyond ASCII that are no symbols become spaces
    (a curly apostrophe a straight one); the kernels do the same for ASCII.
    """
    joined = "".join(texts)
    parts: Sequence = texts
    if joined.isascii():
        data = bytearray(joined, "ascii")
    else:
        parts = [
            text.encode() if text.isascii() else _lowered(text).encode("utf-8", "replace")
            for text in texts
        ]
        data = bytearray().join(parts)
    bounds = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=bounds[1:])
    return np.frombuffer(data, np.uint8), bounds


def _lowered(text):
    def separated(match):
        """Marks as spaces; vowel signs, accents and joiners stay in the word."""
        word, marks = match.groups()
        n = 0
        while word and n < len(marks) and continues(marks[n]):
            n += 1
        return word + marks[:n] + " " * (len(marks) - n)

    return _FOREIGN_MARKS.sub(separated, text.replace("’", "'").lower())


def continues(character: str) -> bool:
    """Whether a character is drawn as a part of the one before it.

    >>> continues("\u0301"), continues("e")
    (True, False)
    """
    return unicodedata.category(character)[0] == "M" or character in _JOINING


_TOKEN = re.compile(rf"[\w{re.escape(MARKS)}{SYMBOLS}]")


def is_empty(text: str) -> bool:
    """Whether a text has no token: no letter, digit, symbol or common punctuation mark.

    Such texts have no label, are no duplicates of each other, and are counted and named once.

    >>> is_empty(" \u200b"), is_empty("---"), is_empty("?")
    (True, False, False)
    """
    return _TOKEN.search(text) is None


def nonempty_rows(texts: Sequence[str]) -> np.ndarray:
    """The rows of the texts that are not empty, (n_rows,)."""
    return np.flatnonzero([not is_empty(text) for text in texts])


def fingerprints(texts: Sequence[str]) -> np.ndarray:
    """A 64-bit hash of each text's words in order, the same for other spacing and capitals."""
    return kernels.hash_whole_texts(*as_bytes(texts), _word_settings())


def word_sequences(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the words of all texts in order, without marks, and the bounds of each text."""
    tokens = kernels.hash_texts(*as_bytes(texts), _word_settings())
    words = np.flatnonzero(tokens.is_word)
    return tokens.hashes[words], np.searchsorted(words, tokens.begins)


class _Rows(NamedTuple):
    """Sparse rows one after the other."""

    indices: np.ndarray  # (n_entries,) columns
    values: np.ndarray  # (n_entries,)
    sizes: np.ndarray  # (n_rows,), entries of each row


class NGrams:
    """The n-grams of training texts, each a column; texts to rows of tf-idf.

    `sizes` are the smallest and the largest number of words, `marks` those that are words by
    themselves. With `characters` the n-grams are of characters, each inside a word or at an edge of
    it. `hashes` (uint64) and `idf` (float32) have the shape (n_columns,).
    """

    def __init__(
        self,
        sizes: tuple[int, int],
        hashes: np.ndarray,
        idf: np.ndarray,
        marks: str = MARKS,
        characters: bool = False,
    ):
        self.sizes = sizes
        self.hashes = np.asarray(hashes, np.uint64)
        self.idf = np.asarray(idf, np.float32)
        self._settings = Settings.of(byte_kinds(marks), sizes, characters)

    @cached_property
    def table(self) -> HashTable:
        """The column of each n-gram."""
        return HashTable(self.hashes)

    @cached_property
    def _bound_idf(self) -> BoundArray:
        return BoundArray(np.ascontiguousarray(self.idf))

    def __len__(self) -> int:
        return self.hashes.size

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        sizes: tuple[int, int],
        *,
        min_texts: int = 1,
        n_threads: int = 1,
        marks: str = MARKS,
        characters: bool = False,
    ) -> "NGrams":
        """The n-grams that occur in at least `min_texts` of these texts."""
        data, bounds = as_bytes(texts)
        settings = Settings.of(byte_kinds(marks), sizes, characters)
        if data.size < _SMALL:  # every thread reads all of the text
            n_threads = 1

        def count(part):
            return kernels.count_texts(data, bounds, settings, part, n_threads)

        parts = list(in_order(count, range(n_threads), n_threads))
        hashes, n_texts = map(np.concatenate, zip(*parts))
        order = np.argsort(hashes)  # the same columns for any number of threads
        order = order[n_texts[order] >= min_texts]
        idf = np.log((1.0 + len(texts)) / (1.0 + n_texts[order])) + 1.0
        return cls(sizes, hashes[order], idf, marks, characters)

    def counts(self, texts: Sequence[str], n_threads: int = 1) -> sparse.csr_matrix:
        """How often each text holds each n-gram, (n_texts, n_columns)."""
        return self._join(list(self._map_blocks(self._count, texts, n_threads)), len(texts))

    def _map_blocks(self, function: Callable, texts: Sequence[str], n_threads: int) -> Iterator:
        """function(block) of blocks of texts, in order: an array for all would be needed twice."""
        n_blocks = max(1, min(n_threads, len(texts)), -(-len(texts) // _BLOCK_TEXTS))
        bounds = np.linspace(0, len(texts), n_blocks + 1).astype(int).tolist()
        blocks = (texts[begin:end] for begin, end in pairwise(bounds))
        return in_order(function, blocks, n_threads)

    def _count(self, texts: Sequence[str]) -> "_Rows":
        indices, counts, starts = kernels.count_grams(*as_bytes(texts), self._settings, self.table)
        return _Rows(indices, counts.astype(np.float32), np.diff(starts))

    def _join(self, blocks: "list[_Rows]", n_texts: int) -> sparse.csr_matrix:
        """The rows of all blocks, (n_texts, n_columns); the list is emptied."""
        sizes = np.concatenate([block.sizes for block in blocks])
        starts = np.concatenate([[0], np.cumsum(sizes)])  # (n_texts + 1,)
        indices = np.empty(starts[-1], np.int32)
        values = np.empty(starts[-1], np.float32)
        n = 0
        while blocks:
            block = blocks.pop(0)
            indices[n : n + block.indices.size] = block.indices
            values[n : n + block.indices.size] = block.values
            n += block.indices.size
            if len(blocks) % _BLOCKS_TO_RETURN == _BLOCKS_TO_RETURN - 1:
                return_freed_memory()
        return sparse.csr_matrix((values, indices, starts), shape=(n_texts, len(self)))

    def tf_idf(self, texts: Sequence[str], n_threads: int = 1) -> sparse.csr_matrix:
        """Rows of (1 + ln count) * idf, scaled to length 1."""
        return self.tf_idf_and_lengths(texts, n_threads)[0]

    def tf_idf_and_lengths(
        self, texts: Sequence[str], n_threads: int = 1
    ) -> tuple[sparse.csr_matrix, np.ndarray]:
        """Rows of length 1, and how long they were before, (n_texts,)."""
        blocks = list(self._map_blocks(self._weigh, texts, n_threads))
        lengths = np.concatenate([lengths for _, lengths in blocks])
        rows = [rows for rows, _ in blocks]
        blocks.clear()
        return self._join(rows, len(texts)), lengths

    def _weigh(self, texts: Sequence[str]) -> tuple["_Rows", np.ndarray]:
        """`tf_idf_and_lengths` of a block."""
        rows = self._count(texts)
        values = (1.0 + np.log(rows.values)) * self.idf[rows.indices]
        row = np.repeat(np.arange(len(texts)), rows.sizes)
        lengths = np.sqrt(np.bincount(row, values.astype(np.float64) ** 2, len(texts)))
        values /= np.repeat(np.maximum(lengths, 1e-30), rows.sizes).astype(np.float32)
        return rows._replace(values=values), lengths

    def scores(self, texts: Sequence[str], coef: np.ndarray) -> np.ndarray:
        """tf_idf(texts) @ coef without the matrix, (n_texts, n_outputs)."""
        return self.scores_and_unknown(texts, coef, None)[0]

    def scores_and_unknown(
        self, texts: Sequence[str], coef: np.ndarray, known: HashTable | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """`scores`, and `unknown_shares` by these n-grams and `known`; 0 where `known` is None."""
        data, bounds = as_bytes(texts)
        weights = self._bound_idf, coef
        return kernels.score_texts(data, bounds, self._settings, self.table, known, *weights)

    def occurrences(self, text: str) -> "Occurrences":
        """Every n-gram of one text, its column, and the words that it is made of."""
        hashes, spans, _, _ = kernels.hash_texts(*as_bytes([text]), self._settings)
        columns = self.table.find(kernels.hash_grams(hashes, *self._settings[1:3]))

        n_tokens = hashes.size
        sizes = np.arange(self.sizes[0], self.sizes[1] + 1)
        first, size = np.repeat(np.arange(n_tokens), sizes.size), np.tile(sizes, n_tokens)
        edges = np.append(np.flatnonzero(hashes == kernels.EDGE), n_tokens)
        next_edge = edges[np.searchsorted(edges, first + 1)] if n_tokens else first
        run = (first + size <= np.minimum(next_edge + 1, n_tokens)) & (
            (size > 1) | (hashes[first] != kernels.EDGE)
        )
        places = _places(text, spans[1:]) if n_tokens else []
        return Occurrences(columns, first[run], size[run], places)


class Occurrences(NamedTuple):
    """The n-grams of one text. Token 0 is the place before the first word.

    The tokens of n-grams of characters are characters and edges of words, which are empty.
    """

    columns: np.ndarray  # (n,), -1 where the n-gram is unknown
    first: np.ndarray  # (n,), the first token
    size: np.ndarray  # (n,), the number of tokens
    spans: list[tuple[int, int]]  # where each word stands in the text

    def shared(self, values: np.ndarray) -> np.ndarray:
        """Values of n-grams, each shared evenly by its words or characters, (n_words,)."""
        n_real = np.cumsum([0, 0, *(end > start for start, end in self.spans)])  # not edges
        share = values / np.maximum(n_real[self.first + self.size] - n_real[self.first], 1)
        out = np.zeros(len(self.spans) + 1)
        for k in range(int(self.size.max(initial=0))):
            inside = self.size > k
            np.add.at(out, self.first[inside] + k, share[inside])
        return np.where(np.diff(n_real), out, 0.0)[1:] if len(self.spans) else out[:0]

    def named(self, text: str, values: np.ndarray) -> list[tuple[str, float]]:
        """The known n-grams and the sums of their values, the largest first."""
        known = np.flatnonzero((self.columns >= 0) & (values != 0))
        _, at, back = np.unique(self.columns[known], return_index=True, return_inverse=True)
        sums = np.bincount(back, values[known], at.size)
        parts = []
        for i, value in zip(known[at], sums.tolist()):
            tokens = range(self.first[i], self.first[i] + self.size[i])
            words = [text[slice(*self.spans[t - 1])].lower() if t else "^" for t in tokens]
            parts.append((" ".join(words), value))
        return sorted(parts, key=lambda item: -abs(item[1]))


def _places(text, spans):
    """Places in `as_bytes([text])` as places in the text itself, whose case may change lengths."""
    if text.isascii():
        return [(int(a), int(b)) for a, b in spans]
    lengths = [len(character.lower()) for character in text]
    owner = np.append(np.repeat(np.arange(len(text)), lengths), len(text))
    lowered = np.frombuffer(_lowered(text).encode("utf-32-le", "replace"), np.uint32)
    widths = 1 + (lowered >= 0x80) + (lowered >= 0x800) + (lowered >= 0x10000)
    starts = np.concatenate([[0], np.cumsum(widths)])
    first, last = np.searchsorted(starts, spans[:, 0]), np.searchsorted(starts, spans[:, 1])
    return list(zip(owner[first].tolist(), (owner[last - 1] + 1).tolist()))


def unknown_shares(texts: Sequence[str], known: Sequence[HashTable]) -> np.ndarray:
    """The part of each text's words that none of the tables holds, (n_texts,)."""
    hashes, bounds = word_sequences(texts)
    is_unknown = np.ones(hashes.size, bool)
    for table in known:
        is_unknown &= table.find(hashes) < 0
    n_unknown = np.diff(np.searchsorted(np.flatnonzero(is_unknown), bounds))
    return n_unknown / np.maximum(np.diff(bounds), 1)


def names(
    texts: Sequence[str], sizes: tuple[int, int], hashes: np.ndarray, marks: str = MARKS
) -> list[str]:
    """What the n-grams with these hashes look like, from texts that hold them."""
    data, bounds = as_bytes(texts)
    tokens = kernels.hash_texts(data, bounds, _word_settings(marks))
    places = np.full((hashes.size, 2), -1, np.int64)
    table, run, n = HashTable(hashes), tokens.hashes, tokens.hashes.size
    text = np.repeat(np.arange(len(texts)), np.diff(tokens.begins))
    for size in range(1, sizes[1] + 1):
        last = np.arange(size - 1, n)  # the last token of each run
        if size > 1:
            with np.errstate(over="ignore"):
                run = kernels.join_hashes(run[: last.size], tokens.hashes[last])
        if size < sizes[0]:
            continue
        columns = table.find(run)
        same_text = text[: last.size] == text[last]
        first = np.flatnonzero((columns >= 0) & same_text)[::-1]  # the first occurrence stays
        ends = tokens.spans[last[first], 1]
        places[columns[first]] = np.column_stack([tokens.spans[first, 0], ends])
    raw = data.tobytes()
    return [
        " ".join(raw[a:b].decode("utf-8", "replace").lower().split()) if a >= 0 else ""
        for a, b in places.tolist()
    ]


def word_hashes(words: Sequence[str]) -> np.ndarray:
    """The hash of each word as a feature by itself, (n_words,); 0 where it is not one token."""
    return hashes_of_words(*as_bytes(words))


def hashes_of_words(data: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """`word_hashes` of words that `as_bytes` returned, or that are ASCII."""
    tokens = kernels.hash_texts(data, bounds, _word_settings())
    out = np.zeros(bounds.size - 1, np.uint64)
    single = np.diff(tokens.begins) == 2  # the edge in front, and the word
    out[single] = tokens.hashes[tokens.begins[:-1][single] + 1]
    return out
