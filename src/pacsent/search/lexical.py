"""BM25: texts scored by the words that they share with a query, from inverted lists.

    score = sum over the query's words of  idf * count / (count + k1 * (1 - b + b * length / mean))
    idf = ln(1 + (n - n_with + 0.5) / (n_with + 0.5))

as Lucene and bm25s compute it. Words are stored by their hash. Fewer than 300 texts say little
about how rare a word is: n and n_with are then filled up to 300 texts by what the vocabulary of the
encoder expects, if most tokens of the texts are in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from pacsent.kernels.bm25 import add_postings, find_best
from pacsent.kernels.library import BoundArray
from pacsent.kernels.ngrams import Settings, hash_texts
from pacsent.storage import checked_tensor
from pacsent.text.ngrams import NGrams, as_bytes, byte_kinds
from pacsent.threads import n_cores
from pacsent.words.word_hashes import vocabulary_hashes

# The usual parameters of BM25: saturation of counts, and normalisation by length.
_K1 = 1.5
_B = 0.75

_CHUNK_TEXTS = 1 << 16  # counted at a time

# Single words, without marks.
_KINDS = byte_kinds("")
_SETTINGS = Settings.of(_KINDS, (1, 1), of_characters=False)

# Texts below which the vocabulary of the encoder is consulted. Of 0, 100, 300 and 1,000 the best
# compromise on training queries of 20news and of books.
MIN_TEXTS = 300

# Fraction of tokens that must be in the vocabulary: in the English one are 0.92 of the tokens of
# 20news, 0.53 of German and Spanish texts.
_MIN_COVERAGE = 0.8


@dataclass(frozen=True)
class Postings:
    """Rows that contain each word, and their counts: rows[ends[i]:ends[i + 1]] for hashes[i]."""

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
        n_threads = n_cores()
        grams = NGrams.of(texts, (1, 1), n_threads=n_threads, marks="")
        parts = []
        for start in range(0, len(texts), _CHUNK_TEXTS):
            chunk = texts[start : start + _CHUNK_TEXTS]
            parts.append(grams.counts(chunk, n_threads))

        counts = sparse.vstack(parts, format="csc", dtype=np.float32)
        return cls.from_counts(grams.hashes, counts)

    @classmethod
    def from_counts(cls, hashes: np.ndarray, counts: sparse.csc_matrix) -> "Postings":
        """The words with these hashes and counts, (n_rows, n_words)."""
        lengths = np.asarray(counts.sum(axis=1), np.float32)
        return cls(
            hashes=hashes,
            ends=counts.indptr.astype(np.int64),
            rows=counts.indices.astype(np.int32),
            counts=counts.data.astype(np.float32, copy=False),
            lengths=lengths.ravel(),
        )

    def to_counts(self) -> sparse.csc_matrix:
        """The inverse of `from_counts`."""
        shape = (self.lengths.size, self.hashes.size)
        return sparse.csc_matrix((self.counts, self.rows, self.ends), shape=shape)

    def find(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions in `hashes` of the words that occur here, and their columns."""
        columns = np.searchsorted(self.hashes, hashes)
        positions = np.flatnonzero(columns < self.hashes.size)
        is_equal = self.hashes[columns[positions]] == hashes[positions]
        positions = positions[is_equal]
        return positions, columns[positions]

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, np.ndarray], n_rows: int) -> "Postings":
        """The inverse of `to_tensors`; ValueError if the arrays do not belong together."""
        hashes = checked_tensor(tensors, "word_hashes", np.int64, (None,))
        hashes = hashes.view(np.uint64)
        n_bounds = len(hashes) + 1
        ends = checked_tensor(tensors, "word_ends", np.int64, (n_bounds,), low=0)
        below = max(n_rows, 1)
        rows = checked_tensor(tensors, "word_rows", np.int32, (None,), low=0, below=below)
        counts = checked_tensor(tensors, "word_counts", np.float32, (len(rows),))
        lengths = checked_tensor(tensors, "word_lengths", np.float32, (n_rows,))

        covers_rows = ends[0] == 0 and ends[-1] == len(rows)
        if not covers_rows or (np.diff(ends) < 0).any():
            raise ValueError("word_ends must be the bounds of the words")
        if (hashes[1:] <= hashes[:-1]).any():
            raise ValueError("word_hashes must increase")

        # Rows may fall only where the next word begins.
        falls = np.flatnonzero(np.diff(rows) <= 0) + 1
        if not np.isin(falls, ends).all():
            raise ValueError("word_rows of a word must increase")
        return cls(hashes, ends, rows, counts, lengths)

    def to_tensors(self) -> dict[str, np.ndarray]:
        """The arrays that are saved."""
        return {
            "word_hashes": self.hashes.view(np.int64),
            "word_ends": self.ends,
            "word_rows": self.rows,
            "word_counts": self.counts,
            "word_lengths": self.lengths,
        }

    def append(self, other: "Postings") -> "Postings":
        """The words of both, the rows of `other` after those of this."""
        hashes = np.union1d(self.hashes, other.hashes)
        counts = self._with_words(hashes).to_counts()
        other_counts = other._with_words(hashes).to_counts()
        all_counts = sparse.vstack([counts, other_counts], format="csc")
        return self.from_counts(hashes, all_counts)

    def _with_words(self, hashes: np.ndarray) -> "Postings":
        """The same postings among more words; `hashes` contain those of this."""
        columns = np.searchsorted(hashes, self.hashes)
        n_postings = np.zeros(hashes.size, np.int64)
        n_postings[columns] = np.diff(self.ends)
        ends = np.concatenate([[0], np.cumsum(n_postings)])
        return replace(self, hashes=hashes, ends=ends)

    def select(self, rows: np.ndarray) -> "Postings":
        """The words of some rows, in this order."""
        counts = self.to_counts().tocsr()[rows]
        return self.from_counts(self.hashes, counts.tocsc())


@dataclass(frozen=True)
class Background:
    """Words of a vocabulary and their frequencies in the corpus that it was counted in."""

    hashes: np.ndarray  # (n_words,) uint64, increasing
    frequencies: np.ndarray  # (n_words,) fractions of all tokens

    @classmethod
    @lru_cache(maxsize=4)
    def of(cls, vocabulary: Any) -> "Background":
        """The words of a `Vocabulary` with counts."""
        hashes = vocabulary_hashes(vocabulary)
        counts = vocabulary.counts
        order = np.argsort(hashes)
        return cls(hashes[order], counts[order] / counts.sum())

    def frequencies_of(self, hashes: np.ndarray) -> np.ndarray:
        """The frequencies of words, 0 for OOV ones, (n,)."""
        places = np.searchsorted(self.hashes, hashes)
        places = np.minimum(places, self.hashes.size - 1)
        is_known = self.hashes[places] == hashes
        return np.where(is_known, self.frequencies[places], 0.0)

    def covers(self, hashes: np.ndarray, counts: np.ndarray) -> bool:
        """True if most tokens of texts, given their words and counts, are in the vocabulary."""
        is_known = self.frequencies_of(hashes) > 0
        n_known = float(counts[is_known].sum())
        n_tokens = max(counts.sum(), 1)
        return n_known >= _MIN_COVERAGE * n_tokens


class QueryWords(NamedTuple):
    """The distinct words of a query, in decreasing order of their weights."""

    weights: np.ndarray  # (n_words,) float32: the idf, times how often the query has the word
    limits: np.ndarray  # (n_words,) float32: upper bounds on what a row gets from the word
    spans: list[np.ndarray]  # (n_words, 2) for each part: begin and end of the word's postings


def query_terms(query: str) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the distinct words of a query, increasing, and how often each occurs.

    >>> sorted(query_terms("red, red roses")[1].tolist())
    [1, 2]
    """
    data, bounds = as_bytes([query])
    hashes = hash_texts(data, bounds, _SETTINGS).hashes
    words = hashes[1:]  # without the edge in front
    return np.unique(words, return_counts=True)


class BM25:
    """BM25 of the rows of `parts`, one part after the other.

    Rows that the mask `excluded`, which may be empty, says were deleted count neither as texts nor
    for the frequency of a word, and score 0. What a posting contributes, per unit of idf, is
    computed when a query first has its word: the mean length changes with every text.
    """

    def __init__(self, parts: Sequence[Postings], excluded: np.ndarray):
        self.parts = parts
        n_rows_of_parts = [part.lengths.size for part in parts]
        self._starts = np.cumsum([0, *n_rows_of_parts]).tolist()  # of the rows of each part
        n_rows = self._starts[-1]

        lengths_of_parts = [part.lengths for part in parts]
        lengths = np.empty(0, np.float32)  # (n_rows,)
        if lengths_of_parts:
            lengths = np.concatenate(lengths_of_parts)

        self._kept = np.ones(n_rows, bool)
        if excluded.size:
            self._kept = ~excluded
        self.n_texts = int(self._kept.sum())

        mean_length = 1.0
        if self.n_texts:
            mean_length = float(lengths[self._kept].mean())
        self._mean_length = max(mean_length, 1e-12)

        # What the length of a row adds to a count in the denominator of the score.
        norms = _K1 * (1 - _B + _B * lengths / self._mean_length)
        self.norms = norms.astype(np.float32)

        # What each posting contributes per unit of idf, made for a word when a query first has it.
        self._impacts = [np.empty(part.rows.size, np.float32) for part in parts]
        # For each word the number of its rows, -1 until impacts are known, and the largest impact.
        self._statistics = [np.full((part.hashes.size, 2), -1.0) for part in parts]

        self._bound_rows = [BoundArray(np.ascontiguousarray(part.rows)) for part in parts]
        self._bound_impacts = [BoundArray(impacts) for impacts in self._impacts]

    def words(self, query: str, background: Background | None = None) -> QueryWords:
        """The words of a query; `background` says how rare they are among fewer than 300 texts."""
        hashes, n_times = query_terms(query)
        n_with = np.zeros(hashes.size)  # rows that contain each word
        max_impacts = np.zeros(hashes.size)
        spans = []
        for i, part in enumerate(self.parts):
            positions, columns = part.find(hashes)  # of words of this part
            self._ensure_impacts(i, columns)
            n_rows, largest = self._statistics[i][columns].T
            n_with[positions] += n_rows
            max_impacts[positions] = np.maximum(max_impacts[positions], largest)

            part_spans = np.zeros((hashes.size, 2), np.int64)
            part_spans[positions, 0] = part.ends[columns]
            part_spans[positions, 1] = part.ends[columns + 1]
            spans.append(part_spans)

        idf = self._idf(hashes, n_with, background)
        weights = (n_times * idf).astype(np.float32)
        limits = (weights * max_impacts).astype(np.float32)
        order = np.argsort(-weights, kind="stable")
        return QueryWords(
            weights=weights[order],
            limits=limits[order],
            spans=[part_spans[order] for part_spans in spans],
        )

    def _ensure_impacts(self, i: int, columns: np.ndarray) -> None:
        """Compute what the postings of these words of a part contribute, if that is not known."""
        part = self.parts[i]
        statistics = self._statistics[i]
        is_missing = statistics[columns, 0] < 0
        for column in columns[is_missing]:
            postings = slice(part.ends[column], part.ends[column + 1])
            rows = self._starts[i] + part.rows[postings]
            counts = part.counts[postings]
            denominators = counts + self.norms[rows]
            impacts = self._kept[rows] * counts / denominators
            self._impacts[i][postings] = impacts
            n_rows = np.count_nonzero(impacts)
            statistics[column] = (n_rows, impacts.max(initial=0))

    def _idf(
        self, hashes: np.ndarray, n_with: np.ndarray, background: Background | None
    ) -> np.ndarray:
        """The idf of words by the number of rows that contain them, (n_words,)."""
        n_texts = self.n_texts
        has_few_texts = 0 < n_texts < MIN_TEXTS
        if background is not None and has_few_texts and self._is_covered(background):
            # An added text of independent words contains a word with 1 - exp(-length * p).
            frequencies = background.frequencies_of(hashes)
            minus_p_contains = np.expm1(-self._mean_length * frequencies)
            n_with = n_with - (MIN_TEXTS - n_texts) * minus_p_contains
            n_texts = MIN_TEXTS
        odds = (n_texts - n_with + 0.5) / (n_with + 0.5)
        return np.log1p(odds)

    def _is_covered(self, background: Background) -> bool:
        """True if most tokens of the kept rows are words of the background."""
        hashes = []
        counts = []
        for start, part in zip(self._starts, self.parts):
            n_postings = np.diff(part.ends)
            hashes.append(np.repeat(part.hashes, n_postings))
            counts.append(part.counts * self._kept[start + part.rows])
        return background.covers(np.concatenate(hashes), np.concatenate(counts))

    def scores(self, words: QueryWords) -> np.ndarray:
        """BM25 of every row, (n_rows,) float32."""
        scores = np.zeros(self.norms.size, np.float32)
        for i, part in enumerate(self.parts):
            start = self._starts[i]
            stop = self._starts[i + 1]
            part_scores = scores[start:stop]
            impacts = self._impacts[i]
            add_postings(part.rows, impacts, words.spans[i], words.weights, part_scores)
        return scores

    def best(
        self, words: QueryWords, k: int, excluded: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(rows, scores) of the k rows with the largest scores above 0 that are not excluded.

        The best come first, and of equal scores the earlier row. They are those of `scores`; rows
        that cannot be among them are skipped.
        """
        n_best = min(k, self.norms.size)
        heap = np.zeros((n_best, 2))  # (score, -row) of the best rows so far
        for i in range(len(self.parts)):
            start = self._starts[i]
            stop = self._starts[i + 1]
            find_best(
                self._bound_rows[i],
                self._bound_impacts[i],
                words.spans[i],
                words.weights,
                words.limits,
                start,
                excluded[start:stop],
                heap,
            )

        has_score = heap[:, 0] > 0
        scores, negative_rows = heap[has_score].T
        order = np.lexsort((-negative_rows, -scores))
        rows = -negative_rows[order].astype(np.int64)
        return rows, scores[order]
