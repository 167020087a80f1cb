"""BM25: texts scored by the words that they share with a query, from inverted lists.

    score = sum over the query's words of  idf * count / (count + k1 * (1 - b + b * length / mean))
    idf = ln(1 + (n - n_with + 0.5) / (n_with + 0.5))

as Lucene and bm25s compute it. A word is known by its hash, as an n-gram of a classifier is. Fewer
than 300 texts say little about how rare a word is: n and n_with are then filled up to 300 texts by
what the vocabulary of the encoder expects, if it knows most words of the texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from pacsent._kernels.ngram_kernels import hash_tokens
from pacsent._kernels.search_kernels import add_postings
from pacsent.maths.arrays import frozen
from pacsent.text.ngrams import NGrams, as_bytes, byte_kinds, word_hashes
from pacsent.threads import n_cores

K1, B = 1.5, 0.75
_CHUNK = 1 << 16  # texts counted at once
_KINDS = byte_kinds("")
FEW = 300  # texts; of 0, 100, 300 and 1,000 the best compromise on training queries
_KNOWN = 0.8  # share of tokens: 0.92 of those of 20news are known, 0.53 of German and Spanish


@dataclass(frozen=True)
class Postings:
    """Which rows hold each word, and how often: rows[ends[i]:ends[i + 1]] for hashes[i]."""

    hashes: np.ndarray  # (n_words,) uint64, increasing
    ends: np.ndarray  # (n_words + 1,) int64
    rows: np.ndarray  # (n,) int32
    counts: np.ndarray  # (n,) float32
    lengths: np.ndarray  # (n_rows,) float32, words of each row

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Postings":
        """The words of these texts.

        >>> Postings.of(["red wine", "red, red roses"]).lengths
        array([2., 3.], dtype=float32)
        """
        grams = NGrams.of(texts, (1, 1), n_threads=n_cores(), marks="")
        parts = [
            grams.counts(texts[at : at + _CHUNK], n_cores()) for at in range(0, len(texts), _CHUNK)
        ]
        return cls._of(grams.hashes, sparse.vstack(parts, format="csc", dtype=np.float32))

    @classmethod
    def _of(cls, hashes, counts: sparse.csc_matrix) -> "Postings":
        lengths = np.asarray(counts.sum(axis=1), np.float32).ravel()
        ends, rows = counts.indptr.astype(np.int64), counts.indices.astype(np.int32)
        return cls(hashes, ends, rows, counts.data.astype(np.float32, copy=False), lengths)

    @property
    def _matrix(self) -> sparse.csc_matrix:
        shape = (self.lengths.size, self.hashes.size)
        return sparse.csc_matrix((self.counts, self.rows, self.ends), shape=shape)

    def joined(self, other: "Postings") -> "Postings":
        """The words of both, the rows of `other` after those of this."""
        hashes = np.union1d(self.hashes, other.hashes)
        spread = []
        for part in (self, other):
            columns = np.searchsorted(hashes, part.hashes)
            sizes = np.zeros(hashes.size, np.int64)
            sizes[columns] = np.diff(part.ends)
            ends = np.concatenate([[0], np.cumsum(sizes)])
            shape = (part.lengths.size, hashes.size)
            spread.append(sparse.csc_matrix((part.counts, part.rows, ends), shape=shape))
        return self._of(hashes, sparse.vstack(spread, format="csc"))

    def taken(self, rows: np.ndarray) -> "Postings":
        """The words of some rows, in this order."""
        return self._of(self.hashes, self._matrix.tocsr()[rows].tocsc())

    def of_word(self, hashed: np.uint64) -> slice:
        """Where the rows of a word stand; empty for a word that no text has."""
        at = int(np.searchsorted(self.hashes, hashed))
        if at == self.hashes.size or self.hashes[at] != hashed:
            return slice(0, 0)
        return slice(int(self.ends[at]), int(self.ends[at + 1]))


@dataclass(frozen=True)
class Background:
    """Words of a vocabulary and their shares of all tokens of the text that it was counted in."""

    hashes: np.ndarray  # (n_words,) uint64, increasing
    shares: np.ndarray  # (n_words,)

    @classmethod
    @lru_cache(maxsize=4)
    def of(cls, vocabulary: Any) -> "Background":
        """The words of a `Vocabulary` with counts."""
        hashes, counts = word_hashes(vocabulary.words), vocabulary.counts
        order = np.argsort(hashes)
        return cls(hashes[order], counts[order] / counts.sum())

    def shares_of(self, hashes: np.ndarray) -> np.ndarray:
        """The shares of words, 0 for unknown ones, (n,)."""
        at = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
        return np.where(self.hashes[at] == hashes, self.shares[at], 0.0)

    def knows(self, hashes: np.ndarray, counts: np.ndarray) -> bool:
        """Whether texts with these words, so often each, are of the language of the vocabulary."""
        return float(counts[self.shares_of(hashes) > 0].sum()) >= _KNOWN * max(counts.sum(), 1)


def words_of(text: str) -> tuple[np.ndarray, np.ndarray]:
    """The hashes of the words of a text, and how often each occurs."""
    data, _ = as_bytes([text])
    hashes, spans = np.empty(data.size + 1, np.uint64), np.empty((data.size + 1, 2), np.int64)
    n = hash_tokens(data, 0, data.size, _KINDS, hashes, spans)
    return np.unique(hashes[1 : max(n, 1)], return_counts=True)


def norms(lengths: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """k1 * (1 - b + b * length / mean) of each row; the mean is over the rows that are kept."""
    mean = float(lengths[kept].mean()) if kept.any() else 1.0
    return (K1 * (1 - B + B * lengths / max(mean, 1e-12))).astype(np.float32)


def _tokens(parts, starts, gone) -> tuple[np.ndarray, np.ndarray]:
    """Words of the texts that are not gone, and how often each occurs there."""
    hashes, counts = [], []
    for start, part in zip(starts, parts):
        there = ~gone[start + part.rows] if gone.size else slice(None)
        hashes.append(np.repeat(part.hashes, np.diff(part.ends))[there])
        counts.append(part.counts[there])
    return np.concatenate(hashes), np.concatenate(counts)


def scores(
    parts: Sequence[Postings], norms: np.ndarray, gone: np.ndarray, query: str,
    background: Background | None = None,
) -> np.ndarray:  # fmt: skip
    """BM25 of every row, (n_rows,) float32.

    `parts` are the rows one after the other; `gone` says which were deleted (empty for none): they
    count neither for the number of texts nor for that of a word. `background` says how rare words
    are where there are few texts.
    """
    out = np.zeros(norms.size, np.float32)
    n_texts = norms.size - int(np.count_nonzero(gone))
    starts = np.concatenate([[0], np.cumsum([part.lengths.size for part in parts])]).tolist()
    n_more, length = 0, 0.0
    if background is not None and 0 < n_texts < FEW:
        hashes, counts = _tokens(parts, starts, gone)
        if background.knows(hashes, counts):
            n_more, length = FEW - n_texts, float(counts.sum()) / n_texts
    for hashed, times in zip(*words_of(query)):
        found = [(start, part, part.of_word(hashed)) for start, part in zip(starts, parts)]
        n_with = sum(here.stop - here.start for _, _, here in found)
        if gone.size:
            n_with -= sum(int(gone[start + part.rows[here]].sum()) for start, part, here in found)
        if n_more and background is not None:  # words come at random: a text of L of them has it
            [share] = background.shares_of(np.array([hashed]))
            n_with -= n_more * float(np.expm1(-length * share))
        rare = np.log1p((n_texts + n_more - n_with + 0.5) / (n_with + 0.5))
        weight = np.float32(times * rare)
        for start, part, here in found:
            stop = start + part.lengths.size
            own = frozen(norms[start:stop]), weight, out[start:stop]
            add_postings(frozen(part.rows[here]), frozen(part.counts[here]), *own)
    return out
