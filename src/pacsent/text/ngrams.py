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
_MIN_PARALLEL_BYTES = 1 << 22  # below this one thread counts as fast as several
_BLOCK_TEXTS = 1 << 13  # that a thread counts and weighs at once
_BLOCKS_TO_RETURN = 8  # copied blocks, after which their memory is returned to the system
_MIN_LENGTH = 1e-30  # of a row of tf-idf that is divided by its length; a row of zeros stays


def byte_kinds(marks: str = MARKS) -> np.ndarray:
    """Kind of each byte, (256,): a separator, part of a word, or a token by itself (the marks)."""
    kinds = np.zeros(256, np.int8)

    # Digits, capitals, small letters, and all bytes of characters beyond ASCII.
    kinds[ord("0") : ord("9") + 1] = kernels.WORD
    kinds[ord("A") : ord("Z") + 1] = kernels.WORD
    kinds[ord("a") : ord("z") + 1] = kernels.WORD
    kinds[128:] = kernels.WORD
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

    Parameters
    ----------
    texts : sequence of str

    Returns
    -------
    data : ndarray of uint8, shape (n_bytes,)
    bounds : ndarray of int64, shape (n_texts + 1,)
        Text i is ``data[bounds[i] : bounds[i + 1]]``.
    """
    joined = "".join(texts)
    parts: Sequence = texts  # each as long as the bytes of its text
    if joined.isascii():
        data = bytearray(joined, "ascii")
    else:
        parts = [_encode(text) for text in texts]
        data = bytearray().join(parts)

    n_bytes = np.fromiter(map(len, parts), np.int64, len(parts))  # (n_texts,)
    bounds = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(n_bytes, out=bounds[1:])
    return np.frombuffer(data, np.uint8), bounds


def _encode(text: str) -> bytes:
    if text.isascii():
        return text.encode()
    return _fold_case(text).encode("utf-8", "replace")


def _fold_case(text: str) -> str:
    """The text in lower case, and its marks beyond ASCII as spaces."""
    lower_case = text.replace("’", "'").lower()
    return _FOREIGN_MARKS.sub(_replace_marks, lower_case)


def _replace_marks(match: re.Match[str]) -> str:
    """Marks as spaces; vowel signs, accents and joiners stay in the word."""
    word, marks = match.groups()
    n_continuing = 0
    while word and n_continuing < len(marks) and continues(marks[n_continuing]):
        n_continuing += 1

    spaces = " " * (len(marks) - n_continuing)
    return word + marks[:n_continuing] + spaces


def continues(character: str) -> bool:
    """True if a character is drawn as a part of the one before it.

    >>> continues("\u0301"), continues("e")
    (True, False)
    """
    return unicodedata.category(character)[0] == "M" or character in _JOINING


_TOKEN = re.compile(rf"[\w{re.escape(MARKS)}{SYMBOLS}]")


def is_empty(text: str) -> bool:
    """True if a text has no token: no letter, digit, symbol or common punctuation mark.

    Such texts have no label, are no duplicates of each other, and are counted and named once.

    >>> is_empty(" \u200b"), is_empty("---"), is_empty("?")
    (True, False, False)
    """
    return _TOKEN.search(text) is None


def nonempty_rows(texts: Sequence[str]) -> np.ndarray:
    """The rows of the texts that are not empty, (n_rows,)."""
    has_token = [not is_empty(text) for text in texts]
    return np.flatnonzero(has_token)


def fingerprints(texts: Sequence[str]) -> np.ndarray:
    """A 64-bit hash of each text's words in order, the same for other spacing and capitals."""
    data, bounds = as_bytes(texts)
    return kernels.hash_whole_texts(data, bounds, _word_settings())


def word_sequences(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the words of all texts in order, without marks, and the bounds of each text."""
    data, text_bounds = as_bytes(texts)
    tokens = kernels.hash_texts(data, text_bounds, _word_settings())
    words = np.flatnonzero(tokens.is_word)  # (n_words,), their tokens
    bounds = np.searchsorted(words, tokens.begins)  # (n_texts + 1,)
    return tokens.hashes[words], bounds


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
        """The n-grams that occur in at least `min_texts` of these texts.

        Parameters
        ----------
        texts : sequence of str
        sizes : (int, int)
            The smallest and the largest number of tokens of an n-gram.
        min_texts : int, default=1
            N-grams of fewer texts get no column.
        n_threads : int, default=1
            The columns are the same for any number.
        marks : str
            Punctuation that counts as a token.
        characters : bool, default=False
            If True, the tokens are characters and edges of words.

        Returns
        -------
        NGrams
        """
        data, bounds = as_bytes(texts)
        settings = Settings.of(byte_kinds(marks), sizes, characters)
        if data.size < _MIN_PARALLEL_BYTES:  # every thread reads all of the text
            n_threads = 1

        def count(part: int) -> tuple[np.ndarray, np.ndarray]:
            return kernels.count_texts(data, bounds, settings, part, n_threads)

        parts = list(in_order(count, range(n_threads), n_threads))
        hashes = np.concatenate([part_hashes for part_hashes, _ in parts])  # (n_all,)
        n_texts = np.concatenate([part_counts for _, part_counts in parts])  # (n_all,)

        # Sorted by hash, the columns are the same for any number of threads.
        order = np.argsort(hashes)
        columns = order[n_texts[order] >= min_texts]  # (n_columns,)

        # idf = ln((1 + n) / (1 + n_with)) + 1, as scikit-learn computes it.
        ratios = (1.0 + len(texts)) / (1.0 + n_texts[columns])
        idf = np.log(ratios) + 1.0
        return cls(sizes, hashes[columns], idf, marks, characters)

    def counts(self, texts: Sequence[str], n_threads: int = 1) -> sparse.csr_matrix:
        """Number of times that each text contains each n-gram, (n_texts, n_columns)."""
        blocks = list(self._map_blocks(self._count, texts, n_threads))
        return self._join(blocks, len(texts))

    def _map_blocks(self, function: Callable, texts: Sequence[str], n_threads: int) -> Iterator:
        """function(block) of blocks of texts, in order: an array for all would be needed twice."""
        n_full_blocks = -(-len(texts) // _BLOCK_TEXTS)  # rounded up
        n_blocks = max(1, min(n_threads, len(texts)), n_full_blocks)
        bounds = np.linspace(0, len(texts), n_blocks + 1).astype(int)

        blocks = (texts[begin:end] for begin, end in pairwise(bounds.tolist()))
        return in_order(function, blocks, n_threads)

    def _count(self, texts: Sequence[str]) -> "_Rows":
        data, bounds = as_bytes(texts)
        indices, counts, starts = kernels.count_grams(data, bounds, self._settings, self.table)
        values = counts.astype(np.float32)
        sizes = np.diff(starts)
        return _Rows(indices, values, sizes)

    def _join(self, blocks: "list[_Rows]", n_texts: int) -> sparse.csr_matrix:
        """The rows of all blocks, (n_texts, n_columns); the list is emptied."""
        sizes = np.concatenate([block.sizes for block in blocks])
        starts = np.concatenate([[0], np.cumsum(sizes)])  # (n_texts + 1,)
        indices = np.empty(starts[-1], np.int32)
        values = np.empty(starts[-1], np.float32)

        start = 0
        while blocks:
            block = blocks.pop(0)
            end = start + block.indices.size
            indices[start:end] = block.indices
            values[start:end] = block.values
            start = end
            if len(blocks) % _BLOCKS_TO_RETURN == _BLOCKS_TO_RETURN - 1:
                return_freed_memory()

        shape = (n_texts, len(self))
        return sparse.csr_matrix((values, indices, starts), shape=shape)

    def tf_idf(self, texts: Sequence[str], n_threads: int = 1) -> sparse.csr_matrix:
        """Rows of (1 + ln count) * idf, scaled to length 1, (n_texts, n_columns)."""
        rows, _ = self.tf_idf_and_lengths(texts, n_threads)
        return rows

    def tf_idf_and_lengths(
        self, texts: Sequence[str], n_threads: int = 1
    ) -> tuple[sparse.csr_matrix, np.ndarray]:
        """Rows of length 1, and their lengths before, (n_texts,)."""
        blocks = list(self._map_blocks(self._weigh, texts, n_threads))
        lengths = np.concatenate([block_lengths for _, block_lengths in blocks])
        row_blocks = [block_rows for block_rows, _ in blocks]

        # `_join` frees one block after the other, which nothing else may keep.
        blocks.clear()
        return self._join(row_blocks, len(texts)), lengths

    def _weigh(self, texts: Sequence[str]) -> tuple["_Rows", np.ndarray]:
        """`tf_idf_and_lengths` of a block."""
        rows = self._count(texts)
        term_frequency = 1.0 + np.log(rows.values)  # (n_entries,)
        values = term_frequency * self.idf[rows.indices]

        row_of_entry = np.repeat(np.arange(len(texts)), rows.sizes)  # (n_entries,)
        squares = values.astype(np.float64) ** 2
        squared_lengths = np.bincount(row_of_entry, squares, len(texts))  # (n_texts,)
        lengths = np.sqrt(squared_lengths)

        divisors = np.maximum(lengths, _MIN_LENGTH)
        values /= np.repeat(divisors, rows.sizes).astype(np.float32)
        return rows._replace(values=values), lengths

    def scores(self, texts: Sequence[str], coef: np.ndarray) -> np.ndarray:
        """tf_idf(texts) @ coef without the matrix, (n_texts, n_outputs)."""
        scores, _ = self.scores_and_unknown(texts, coef, None)
        return scores

    def scores_and_unknown(
        self, texts: Sequence[str], coef: np.ndarray, known: HashTable | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """`scores`, and `unknown_shares` by these n-grams and `known`; 0 where `known` is None."""
        data, bounds = as_bytes(texts)
        return kernels.score_texts(
            data, bounds, self._settings, self.table, known, self._bound_idf, coef
        )

    def occurrences(self, text: str) -> "Occurrences":
        """Every n-gram of one text, its column, and the words that it is made of."""
        data, bounds = as_bytes([text])
        hashes, spans, _, _ = kernels.hash_texts(data, bounds, self._settings)
        grams = kernels.hash_grams(hashes, self._settings.low, self._settings.high)
        columns = self.table.find(grams)
        n_tokens = hashes.size
        if not n_tokens:
            nothing = np.zeros(0, np.int64)
            return Occurrences(columns, nothing, nothing, [])

        # Every run of tokens that `hash_grams` could have hashed, (n_tokens * n_sizes,).
        sizes = np.arange(self.sizes[0], self.sizes[1] + 1)
        first = np.repeat(np.arange(n_tokens), sizes.size)
        size = np.tile(sizes, n_tokens)

        # A run ends at an edge of a word at the latest, and is not an edge alone.
        edges = np.append(np.flatnonzero(hashes == kernels.EDGE), n_tokens)
        next_edge = edges[np.searchsorted(edges, first + 1)]
        is_inside = first + size <= np.minimum(next_edge + 1, n_tokens)
        is_edge_alone = (size == 1) & (hashes[first] == kernels.EDGE)

        is_gram = is_inside & ~is_edge_alone
        word_spans = _spans_in_text(text, spans[1:])
        return Occurrences(columns, first[is_gram], size[is_gram], word_spans)


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
        if not self.spans:
            return np.zeros(0)

        # Tokens before each one that are no edges, (n_tokens + 1,); token 0 is an edge.
        is_real = [end > start for start, end in self.spans]
        n_real_before = np.cumsum([0, 0, *is_real])
        end = self.first + self.size
        n_real = n_real_before[end] - n_real_before[self.first]
        value_per_token = values / np.maximum(n_real, 1)

        totals = np.zeros(len(self.spans) + 1)
        largest = int(self.size.max(initial=0))
        for offset in range(largest):
            reaches = self.size > offset
            tokens = self.first[reaches] + offset
            np.add.at(totals, tokens, value_per_token[reaches])

        return np.where(is_real, totals[1:], 0.0)

    def named(self, text: str, values: np.ndarray) -> list[tuple[str, float]]:
        """The known n-grams and the sums of their values, the largest first."""
        is_known = (self.columns >= 0) & (values != 0)
        known = np.flatnonzero(is_known)
        _, first_of_column, column_of = np.unique(
            self.columns[known], return_index=True, return_inverse=True
        )
        sums = np.bincount(column_of, values[known], first_of_column.size)

        # An n-gram is spelt as where it occurs first.
        grams = known[first_of_column]
        named_sums = []
        for gram, value in zip(grams, sums.tolist()):
            spelling = self._spelling(text, gram)
            named_sums.append((spelling, value))
        return sorted(named_sums, key=lambda item: -abs(item[1]))

    def _spelling(self, text: str, gram: int) -> str:
        """The words of an n-gram, lower-cased; ^ is the place before the first word."""
        first = self.first[gram]
        end = first + self.size[gram]
        words = []
        for token in range(first, end):
            if token == 0:
                words.append("^")
                continue
            word_start, word_end = self.spans[token - 1]
            words.append(text[word_start:word_end].lower())
        return " ".join(words)


def _spans_in_text(text: str, spans: np.ndarray) -> list[tuple[int, int]]:
    """Spans in `as_bytes([text])` as spans in the text itself, whose case may change lengths."""
    if text.isascii():
        return [(int(start), int(end)) for start, end in spans]

    # The character of the text that each character of the lower-cased text comes from.
    lengths = [len(character.lower()) for character in text]
    owner = np.repeat(np.arange(len(text)), lengths)
    owner = np.append(owner, len(text))

    # The byte of UTF-8 at which each character of the lower-cased text begins.
    code_bytes = _fold_case(text).encode("utf-32-le", "replace")
    codes = np.frombuffer(code_bytes, np.uint32)
    widths = 1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000)
    byte_starts = np.concatenate([[0], np.cumsum(widths)])

    first = np.searchsorted(byte_starts, spans[:, 0])  # (n_spans,)
    end = np.searchsorted(byte_starts, spans[:, 1])  # (n_spans,)
    starts = owner[first]
    ends = owner[end - 1] + 1
    return list(zip(starts.tolist(), ends.tolist()))


def unknown_shares(texts: Sequence[str], known: Sequence[HashTable]) -> np.ndarray:
    """The OOV rate of each text: the fraction of its words that no table contains, (n_texts,)."""
    hashes, bounds = word_sequences(texts)
    is_unknown = np.ones(hashes.size, bool)
    for table in known:
        is_unknown &= table.find(hashes) < 0

    unknown_words = np.flatnonzero(is_unknown)
    unknown_bounds = np.searchsorted(unknown_words, bounds)  # (n_texts + 1,)
    n_unknown = np.diff(unknown_bounds)  # (n_texts,)
    n_words = np.diff(bounds)  # (n_texts,)
    return n_unknown / np.maximum(n_words, 1)


def names(
    texts: Sequence[str], sizes: tuple[int, int], hashes: np.ndarray, marks: str = MARKS
) -> list[str]:
    """Spellings of the n-grams with these hashes, from texts that contain them.

    An n-gram that no text contains is "".
    """
    data, bounds = as_bytes(texts)
    tokens = kernels.hash_texts(data, bounds, _word_settings(marks))
    n_tokens = tokens.hashes.size
    n_tokens_of_text = np.diff(tokens.begins)
    text_of_token = np.repeat(np.arange(len(texts)), n_tokens_of_text)  # (n_tokens,)

    table = HashTable(hashes)
    spans = np.full((hashes.size, 2), -1, np.int64)  # in bytes; -1: not found yet
    run_hashes = tokens.hashes  # of `size` tokens from each one on
    for size in range(1, sizes[1] + 1):
        last = np.arange(size - 1, n_tokens)  # (n_runs,), the last token of each run
        n_runs = last.size
        if size > 1:
            with np.errstate(over="ignore"):
                run_hashes = kernels.join_hashes(run_hashes[:n_runs], tokens.hashes[last])
        if size < sizes[0]:
            continue

        columns = table.find(run_hashes)  # (n_runs,)
        is_in_one_text = text_of_token[:n_runs] == text_of_token[last]
        runs = np.flatnonzero((columns >= 0) & is_in_one_text)

        # Written backwards, so that the first occurrence stays.
        runs = runs[::-1]
        starts = tokens.spans[runs, 0]
        ends = tokens.spans[last[runs], 1]
        spans[columns[runs]] = np.column_stack([starts, ends])

    raw = data.tobytes()
    return [_spell(raw[start:end]) if start >= 0 else "" for start, end in spans.tolist()]


def _spell(data: bytes) -> str:
    """The text in lower case, with one space between its words."""
    text = data.decode("utf-8", "replace").lower()
    return " ".join(text.split())


def word_hashes(words: Sequence[str]) -> np.ndarray:
    """The hash of each word as a feature by itself, (n_words,); 0 where it is not one token."""
    return hashes_of_words(*as_bytes(words))


def hashes_of_words(data: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """`word_hashes` of words that `as_bytes` returned, or that are ASCII."""
    tokens = kernels.hash_texts(data, bounds, _word_settings())
    is_single = np.diff(tokens.begins) == 2  # the edge in front, and the word
    single_tokens = tokens.begins[:-1][is_single] + 1

    hashes = np.zeros(bounds.size - 1, np.uint64)
    hashes[is_single] = tokens.hashes[single_tokens]
    return hashes
