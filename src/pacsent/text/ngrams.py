"""N-grams of words or characters as sparse features: counted, weighted by tf-idf, looked up."""

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from pacsent.arrays import frozen
from pacsent.kernels import ngram_kernels as kernels
from pacsent.threads import in_order

MARKS = '!?,.-:;()"'
# Signs of currencies, symbols and emoji: tokens by themselves, as in `kernels.hash_tokens`.
SYMBOLS = "\xa2-\xa5\u20a0-\u20cf\u2190-\u2bff\U0001f000-\U0001faff"
# Tokens that are drawn with the character before them: skin tones, joined emoji, letters of flags.
_FLAG = "[\U0001f1e6-\U0001f1ff]"
JOINED = re.compile(rf"[\U0001f3fb-\U0001f3ff]|(?<=\u200d)[{SYMBOLS}]|(?<={_FLAG}){_FLAG}")
_FOREIGN_MARKS = re.compile(rf"(\w?)([^\x00-\x7f\w{SYMBOLS}]+)")
_JOINING = "\u200c\u200d\u0e33\u0eb3"  # joiners, and the vowels am of Thai and Lao
_FIRST_SLOTS = 1 << 16
_SMALL = 1 << 22  # bytes that one thread counts as fast as several


def byte_kinds(marks: str = MARKS) -> np.ndarray:
    """What each byte is: a separator, part of a word, or a token by itself (the marks)."""
    kinds = np.zeros(256, np.int8)
    for first, last in ((48, 57), (65, 90), (97, 122), (128, 255)):
        kinds[first : last + 1] = kernels.WORD
    kinds[ord("_")] = kernels.WORD
    for mark in marks:
        kinds[ord(mark)] = kernels.MARK
    return kinds


def as_bytes(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """All texts one after the other as UTF-8, and where each begins.

    Letters beyond ASCII are lower-cased here, marks beyond ASCII that are no symbols become spaces
    (a curly apostrophe a straight one); the kernels do the same for ASCII.
    """
    joined = "".join(texts)
    parts: Sequence = texts
    if joined.isascii():
        data = joined.encode()
    else:
        parts = [
            text.encode() if text.isascii() else _lowered(text).encode("utf-8", "replace")
            for text in texts
        ]
        data = b"".join(parts)
    sizes = np.fromiter(map(len, parts), np.int64, len(parts))
    return np.frombuffer(data, np.uint8), np.concatenate([[0], np.cumsum(sizes)])


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
    tokens = _tokens(texts)
    out = np.empty(len(texts), np.uint64)
    kernels.fold_hashes(tokens.hashes, tokens.begins, out)
    return out


def word_sequences(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the words of all texts in order, without marks, and the bounds of each text."""
    tokens = _tokens(texts)
    words = np.flatnonzero(tokens.is_word)
    return tokens.hashes[words], np.searchsorted(words, tokens.begins)


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
        self._settings = byte_kinds(marks), int(sizes[0]), int(sizes[1]), int(characters)

    @cached_property
    def _table(self):
        return _lookup(self.hashes)

    @property
    def keys(self) -> np.ndarray:
        """`word_keys` of the hashes."""
        return self._table[0]

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
        settings = byte_kinds(marks), int(sizes[0]), int(sizes[1]), int(characters)
        if data.size < _SMALL:  # every thread reads all of the text
            n_threads = 1

        def empty_table(n):
            return np.zeros(n, np.uint64), np.zeros(n, np.int32), np.zeros(n, np.int32)

        def count(part):
            """(hashes, number of texts) of the n-grams of one part of all hashes."""
            room, share = _room(bounds, sizes), (part, n_threads)
            table, n_used, text = empty_table(_FIRST_SLOTS), 0, 0
            while text < len(texts):
                text, n_used = kernels.count_texts(
                    data, bounds, settings, text, table, n_used, share, room
                )
                if text < len(texts):
                    larger = empty_table(4 * table[0].size)
                    kernels.grow(table, larger)
                    table = larger
            used = table[0] != 0
            return table[0][used], table[1][used]

        parts = list(in_order(count, range(n_threads), n_threads))
        hashes, n_texts = map(np.concatenate, zip(*parts))
        order = np.argsort(hashes)  # the same columns for any number of threads
        order = order[n_texts[order] >= min_texts]
        idf = np.log((1.0 + len(texts)) / (1.0 + n_texts[order])) + 1.0
        return cls(sizes, hashes[order], idf, marks, characters)

    def counts(self, texts: Sequence[str], n_threads: int = 1) -> sparse.csr_matrix:
        """How often each text holds each n-gram, (n_texts, n_columns)."""
        parts = np.array_split(np.arange(len(texts)), max(1, min(n_threads, len(texts))))
        rows = list(in_order(lambda part: self._count([texts[i] for i in part]), parts, n_threads))
        return sparse.vstack(rows, format="csr") if len(rows) > 1 else rows[0]

    def _count(self, texts):
        data, bounds = as_bytes(texts)
        # two bytes at least make a token and what separates it from the next
        room = int((data.size + 2 * len(texts)) * (self.sizes[1] - self.sizes[0] + 1))
        out = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(len(texts), np.int64)
        place, room = np.full(len(self), -1, np.int64), _room(bounds, self.sizes)
        n = kernels.count_grams(data, bounds, self._settings, self._table, place, room, out)
        entries = out[1][:n].astype(np.float32), out[0][:n].copy(), np.concatenate([[0], out[2]])
        return sparse.csr_matrix(entries, shape=(len(texts), len(self)))

    def tf_idf(self, texts: Sequence[str], n_threads: int = 1) -> sparse.csr_matrix:
        """Rows of (1 + ln count) * idf, scaled to length 1."""
        return self.tf_idf_and_lengths(texts, n_threads)[0]

    def tf_idf_and_lengths(
        self, texts: Sequence[str], n_threads: int = 1
    ) -> tuple[sparse.csr_matrix, np.ndarray]:
        """Rows of length 1, and how long they were before, (n_texts,)."""
        rows = self.counts(texts, n_threads)
        rows.data = (1.0 + np.log(rows.data)) * self.idf[rows.indices]
        row = np.repeat(np.arange(len(texts)), np.diff(rows.indptr))
        lengths = np.sqrt(np.bincount(row, rows.data.astype(np.float64) ** 2, len(texts)))
        rows.data /= np.repeat(np.maximum(lengths, 1e-30), np.diff(rows.indptr)).astype(np.float32)
        return rows, lengths

    def scores(self, texts: Sequence[str], coef: np.ndarray) -> np.ndarray:
        """tf_idf(texts) @ coef without the matrix, (n_texts, n_outputs)."""
        return self.scores_and_unknown(texts, coef, np.empty(0, np.uint64))[0]

    def scores_and_unknown(
        self, texts: Sequence[str], coef: np.ndarray, known: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """`scores`, and `unknown_shares` by these n-grams and `known`; 0 where `known` is empty."""
        data, bounds = as_bytes(texts)
        out = np.zeros((len(texts), coef.shape[1])), np.zeros(len(texts))
        weights, room = (frozen(self.idf), frozen(coef), known), _room(bounds, self.sizes)
        scratch = np.zeros(len(self), np.int32), np.empty(coef.shape[1], np.float32)
        kernels.add_scores(data, bounds, self._settings, self._table, weights, room, scratch, out)
        return out

    def occurrences(self, text: str) -> "Occurrences":
        """Every n-gram of one text, its column, and the words that it is made of."""
        data, bounds = as_bytes([text])
        room = _room(bounds, self.sizes)
        n_tokens, n = kernels.find_grams(data, 0, data.size, self._settings, self._table, room)
        hashes, spans, _, columns = room
        sizes = np.arange(self.sizes[0], self.sizes[1] + 1)
        first, size = np.repeat(np.arange(n_tokens), sizes.size), np.tile(sizes, n_tokens)
        edges = np.append(np.flatnonzero(hashes[:n_tokens] == kernels.EDGE), n_tokens)
        next_edge = edges[np.searchsorted(edges, first + 1)] if n_tokens else first
        run = (first + size <= np.minimum(next_edge + 1, n_tokens)) & (
            (size > 1) | (hashes[first] != kernels.EDGE)
        )
        places = _places(text, spans[1:n_tokens]) if n_tokens else []
        return Occurrences(columns[:n], first[run], size[run], places)


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


def unknown_shares(texts: Sequence[str], known: Sequence[np.ndarray]) -> np.ndarray:
    """The part of each text's words that none of the tables of `word_keys` holds, (n_texts,)."""
    hashes, bounds = word_sequences(texts)
    is_unknown = np.ones(hashes.size, bool)
    for keys in known:
        columns = np.empty(hashes.size, np.int32)
        kernels.look_up(hashes, (keys, np.zeros(keys.size, np.int32)), columns)
        is_unknown &= columns < 0
    n_unknown = np.diff(np.searchsorted(np.flatnonzero(is_unknown), bounds))
    return n_unknown / np.maximum(np.diff(bounds), 1)


def word_keys(hashes: np.ndarray) -> np.ndarray:
    """The hashes as a table in which `unknown_shares` looks words up."""
    return _lookup(hashes)[0]


def _lookup(hashes):
    """Keys, and the column of each."""
    n_slots = 1024
    while n_slots < 2 * hashes.size:
        n_slots *= 2
    keys, columns = np.zeros(n_slots, np.uint64), np.zeros(n_slots, np.int32)
    kernels.fill_columns(hashes, keys, columns)
    return keys, columns


def names(
    texts: Sequence[str], sizes: tuple[int, int], hashes: np.ndarray, marks: str = MARKS
) -> list[str]:
    """What the n-grams with these hashes look like, from texts that hold them."""
    tokens = _tokens(texts, marks)
    places = np.full((hashes.size, 2), -1, np.int64)
    lookup, run, n = _lookup(hashes), tokens.hashes, tokens.hashes.size
    text = np.repeat(np.arange(len(texts)), np.diff(tokens.begins))
    for size in range(1, sizes[1] + 1):
        last = np.arange(size - 1, n)  # the last token of each run
        if size > 1:
            with np.errstate(over="ignore"):
                run = kernels.mix_array(run[: last.size] * kernels.ORDER + tokens.hashes[last])
        if size < sizes[0]:
            continue
        columns = np.empty(run.size, np.int32)
        kernels.look_up(run, lookup, columns)
        same_text = text[: last.size] == text[last]
        first = np.flatnonzero((columns >= 0) & same_text)[::-1]  # the first occurrence stays
        ends = tokens.spans[last[first], 1]
        places[columns[first]] = np.column_stack([tokens.spans[first, 0], ends])
    raw = tokens.data.tobytes()
    return [
        " ".join(raw[a:b].decode("utf-8", "replace").lower().split()) if a >= 0 else ""
        for a, b in places.tolist()
    ]


def word_hashes(words: Sequence[str]) -> np.ndarray:
    """The hash of each word as a feature by itself, (n_words,); 0 where it is not one token."""
    tokens = _tokens(words)
    out = np.zeros(len(words), np.uint64)
    single = np.diff(tokens.begins) == 2  # the edge in front, and the word
    out[single] = tokens.hashes[tokens.begins[:-1][single] + 1]
    return out


class _Tokens(NamedTuple):
    """The tokens of all texts one after the other, an edge in front of each text that has any."""

    data: np.ndarray
    hashes: np.ndarray  # (n_tokens,)
    spans: np.ndarray  # (n_tokens, 2), in the data
    begins: np.ndarray  # (n_texts + 1,)
    is_word: np.ndarray  # (n_tokens,), neither an edge nor a mark nor a symbol


def _tokens(texts, marks=MARKS):
    data, bounds = as_bytes(texts)
    room = data.size + 2 * len(texts)
    hashes, spans = np.empty(room, np.uint64), np.empty((room, 2), np.int64)
    begins = np.zeros(len(texts) + 1, np.int64)
    settings = byte_kinds(marks), 1, 1, 0
    kernels.hash_texts(data, bounds, settings, hashes, spans, begins[1:])
    hashes, spans = hashes[: begins[-1]], spans[: begins[-1]]
    lead = data[spans[:, 0]]
    is_word = (settings[0][lead] == kernels.WORD) & (hashes != kernels.EDGE)
    foreign = np.flatnonzero(lead >= 0xC2)
    lead, second = lead[foreign], data[spans[foreign, 0] + 1]
    is_symbol = (lead == 0xE2) | (lead == 0xF0) & (second == 0x9F)
    is_symbol |= (lead == 0xC2) & (second >= 0xA2) & (second <= 0xA5)
    is_word[foreign[is_symbol]] = False
    return _Tokens(data, hashes, spans, begins, is_word)


def _room(bounds, sizes):
    """(hashes, spans, grams, columns) for the tokens and n-grams of any of the texts."""
    n = int(np.diff(bounds).max(initial=0)) + 2
    n_grams = n * (sizes[1] - sizes[0] + 1)
    return (
        np.empty(n, np.uint64),
        np.empty((n, 2), np.int64),
        np.empty(n_grams, np.uint64),
        np.empty(n_grams, np.int32),
    )
