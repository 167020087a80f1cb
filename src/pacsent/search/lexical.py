"""BM25: texts scored by the words that they share with a query, from inverted lists.

    score = sum over the query's words of  idf * count / (count + k1 * (1 - b + b * length / mean))
    idf = ln(1 + (n - n_with + 0.5) / (n_with + 0.5))

as Lucene and bm25s compute it. Words are stored by their hash. Fewer than 300 texts say little
about how rare a word is: n and n_with are then filled up to 300 texts by what the vocabulary of the
encoder expects, if most tokens of the texts are in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from pacsent.kernels.bm25_kernels import add_postings, find_best
from pacsent.kernels.ngram_kernels import hash_tokens
from pacsent.text.ngrams import NGrams, as_bytes, byte_kinds, word_hashes
from pacsent.threads import n_cores

_K1, _B = 1.5, 0.75  # the usual parameters of BM25
_CHUNK_TEXTS = 1 << 16  # counted at a time
_SETTINGS = byte_kinds(""), 1, 1, 0  # of `hash_tokens`

# Texts below which the vocabulary of the encoder is consulted. Of 0, 100, 300 and 1,000 the best
# compromise on training queries of 20news and of books.
MIN_TEXTS = 300

# Fraction of tokens that must be in the vocabulary: in the English one are 0.92 of the tokens of
# 20news, 0.53 of German and Spanish texts.
_MIN_COVERAGE = 0.8


@dataclass(frozen=True)
class Postings:
    """Which rows contain each word, and how often: rows[ends[i]:ends[i + 1]] for hashes[i]."""

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
        starts = range(0, len(texts), _CHUNK_TEXTS)
        parts = [grams.counts(texts[at : at + _CHUNK_TEXTS], n_cores()) for at in starts]
        return cls._of(grams.hashes, sparse.vstack(parts, format="csc", dtype=np.float32))

    @classmethod
    def _of(cls, hashes, counts: sparse.csc_matrix) -> "Postings":
        lengths = np.asarray(counts.sum(axis=1), np.float32).ravel()
        ends, rows = counts.indptr.astype(np.int64), counts.indices.astype(np.int32)
        return cls(hashes, ends, rows, counts.data.astype(np.float32, copy=False), lengths)

    def append(self, other: "Postings") -> "Postings":
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

    def select(self, rows: np.ndarray) -> "Postings":
        """The words of some rows, in this order."""
        shape = (self.lengths.size, self.hashes.size)
        matrix = sparse.csc_matrix((self.counts, self.rows, self.ends), shape=shape)
        return self._of(self.hashes, matrix.tocsr()[rows].tocsc())


@dataclass(frozen=True)
class Background:
    """Words of a vocabulary and their frequencies in the corpus that it was counted in."""

    hashes: np.ndarray  # (n_words,) uint64, increasing
    frequencies: np.ndarray  # (n_words,) fractions of all tokens

    @classmethod
    @lru_cache(maxsize=4)
    def of(cls, vocabulary: Any) -> "Background":
        """The words of a `Vocabulary` with counts."""
        hashes, counts = word_hashes(vocabulary.words), vocabulary.counts
        order = np.argsort(hashes)
        return cls(hashes[order], counts[order] / counts.sum())

    def frequencies_of(self, hashes: np.ndarray) -> np.ndarray:
        """The frequencies of words, 0 for unknown ones, (n,)."""
        at = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
        return np.where(self.hashes[at] == hashes, self.frequencies[at], 0.0)

    def covers(self, hashes: np.ndarray, counts: np.ndarray) -> bool:
        """Whether most tokens of texts, given their words and counts, are in the vocabulary."""
        known = counts[self.frequencies_of(hashes) > 0].sum()
        return float(known) >= _MIN_COVERAGE * max(counts.sum(), 1)


class QueryWords(NamedTuple):
    """The distinct words of a query, in decreasing order of their weights."""

    weights: np.ndarray  # (n_words,) float32: the idf, times how often the query has the word
    limits: np.ndarray  # (n_words,) float32: at least what a row can get from the word
    spans: list[np.ndarray]  # (n_words, 2) for each part: begin and end of the word's postings


class BM25:
    """BM25 of the rows of `parts`, one part after the other.

    Rows that the mask `excluded`, which may be empty, says were deleted count neither as texts nor
    for the frequency of a word, and score 0. What a posting contributes, per unit of idf, is
    computed when a query first has its word: the mean length changes with every text.
    """

    def __init__(self, parts: Sequence[Postings], excluded: np.ndarray):
        lengths = np.concatenate([np.empty(0, np.float32), *(part.lengths for part in parts)])
        self.parts, self._kept = parts, ~excluded if excluded.size else np.ones(lengths.size, bool)
        self.n_texts = int(self._kept.sum())
        self._mean_length = max(float(lengths[self._kept].mean()) if self.n_texts else 1.0, 1e-12)
        self.norms = (_K1 * (1 - _B + _B * lengths / self._mean_length)).astype(np.float32)
        self._starts = np.cumsum([0, *(part.lengths.size for part in parts)]).tolist()
        self._impacts = [np.empty(part.rows.size, np.float32) for part in parts]
        # For each word the number of its rows, -1 until impacts are known, and the largest impact.
        self._statistics = [np.full((part.hashes.size, 2), -1.0) for part in parts]

    def words(self, query: str, background: Background | None = None) -> QueryWords:
        """The words of a query; `background` says how rare they are among fewer than 300 texts."""
        data, _ = as_bytes([query])
        hashes, spans = np.empty(data.size + 2, np.uint64), np.empty((data.size + 2, 2), np.int64)
        n = hash_tokens(data, 0, data.size, _SETTINGS, hashes, spans)
        hashes, n_times = np.unique(hashes[1 : max(n, 1)], return_counts=True)
        n_with, largest, places = np.zeros(hashes.size), np.zeros(hashes.size), []
        for i, part in enumerate(self.parts):
            at = np.searchsorted(part.hashes, hashes)
            known = np.flatnonzero(at < part.hashes.size)
            known = known[part.hashes[at[known]] == hashes[known]]
            columns, statistics = at[known], self._statistics[i]
            for column in columns[statistics[columns, 0] < 0]:
                here = slice(part.ends[column], part.ends[column + 1])
                rows, counts = self._starts[i] + part.rows[here], part.counts[here]
                impacts = self._kept[rows] * counts / (counts + self.norms[rows])
                self._impacts[i][here] = impacts
                statistics[column] = np.count_nonzero(impacts), impacts.max(initial=0)
            n_with[known] += statistics[columns, 0]
            largest[known] = np.maximum(largest[known], statistics[columns, 1])
            places.append(np.zeros((hashes.size, 2), np.int64))
            places[i][known] = np.column_stack([part.ends[columns], part.ends[columns + 1]])
        n_texts = self.n_texts
        if background is not None and 0 < n_texts < MIN_TEXTS:
            tokens = [p.counts * self._kept[at + p.rows] for at, p in zip(self._starts, self.parts)]
            owners = [np.repeat(part.hashes, np.diff(part.ends)) for part in self.parts]
            if background.covers(np.concatenate(owners), np.concatenate(tokens)):
                # An added text of independent words contains a word with 1 - exp(-length * p).
                absent = np.expm1(-self._mean_length * background.frequencies_of(hashes))
                n_with -= (MIN_TEXTS - n_texts) * absent
                n_texts = MIN_TEXTS
        idf = np.log1p((n_texts - n_with + 0.5) / (n_with + 0.5))
        weights = (n_times * idf).astype(np.float32)
        limits = (weights * largest).astype(np.float32)
        order = np.argsort(-weights, kind="stable")
        return QueryWords(weights[order], limits[order], [spans[order] for spans in places])

    def scores(self, words: QueryWords) -> np.ndarray:
        """BM25 of every row, (n_rows,) float32."""
        scores = np.zeros(self.norms.size, np.float32)
        for i, part in enumerate(self.parts):
            out = scores[self._starts[i] : self._starts[i + 1]]
            add_postings(part.rows, self._impacts[i], words.spans[i], words.weights, out)
        return scores

    def best(
        self, words: QueryWords, k: int, excluded: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(rows, scores) of the k rows with the largest scores above 0 that are not excluded.

        The best come first, and of equal scores the earlier row. They are those of `scores`; rows
        that cannot be among them are skipped.
        """
        best = np.zeros((min(k, self.norms.size), 2))
        for i, part in enumerate(self.parts):
            start, stop = self._starts[i : i + 2]
            postings = part.rows, self._impacts[i], words.spans[i]
            find_best(*postings, words.weights, words.limits, start, excluded[start:stop], best)
        scores, rows = best[best[:, 0] > 0].T
        order = np.lexsort((-rows, -scores))
        return -rows[order].astype(np.int64), scores[order]
