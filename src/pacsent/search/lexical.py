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
from typing import Any

import numpy as np
from scipy import sparse

from pacsent._kernels.ngram_kernels import hash_tokens
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

    def of_word(self, hashed: np.uint64) -> slice:
        """The slice of a word's rows; empty for a word that no text contains."""
        at = int(np.searchsorted(self.hashes, hashed))
        if at == self.hashes.size or self.hashes[at] != hashed:
            return slice(0, 0)
        return slice(int(self.ends[at]), int(self.ends[at + 1]))


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


def length_norms(lengths: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """k1 * (1 - b + b * length / mean) of each row; the mean is over the rows that are kept."""
    mean = float(lengths[kept].mean()) if kept.any() else 1.0
    return (_K1 * (1 - _B + _B * lengths / max(mean, 1e-12))).astype(np.float32)


def scores(
    parts: Sequence[Postings],
    norms: np.ndarray,
    excluded: np.ndarray,
    query: str,
    background: Background | None = None,
) -> tuple[np.ndarray, float]:
    """BM25 of every row, (n_rows,) float32, and the sum of the idf of the query's words.

    The rows are in `parts`, one after the other, and `norms` are their `length_norms`. Those that
    the mask `excluded`, which may be empty, says were deleted count neither as texts nor for the
    frequency of a word. `background` says how rare words are if there are fewer than 300 texts.
    """
    out = np.zeros(norms.size, np.float32)
    n_texts = norms.size - int(np.count_nonzero(excluded))
    starts = np.concatenate([[0], np.cumsum([part.lengths.size for part in parts])]).tolist()
    n_added, mean_length = 0, 0.0
    if background is not None and 0 < n_texts < MIN_TEXTS:
        kept = np.ones(norms.size, bool) if not excluded.size else ~excluded
        masks = [kept[start + part.rows] for start, part in zip(starts, parts)]
        words = [np.repeat(p.hashes, np.diff(p.ends))[mask] for p, mask in zip(parts, masks)]
        tokens = np.concatenate([part.counts[mask] for part, mask in zip(parts, masks)])
        if background.covers(np.concatenate(words), tokens):
            n_added, mean_length = MIN_TEXTS - n_texts, float(tokens.sum()) / n_texts

    data, _ = as_bytes([query])
    hashes, spans = np.empty(data.size + 2, np.uint64), np.empty((data.size + 2, 2), np.int64)
    n = hash_tokens(data, 0, data.size, _SETTINGS, hashes, spans)
    total = 0.0
    for hashed, n_times in zip(*np.unique(hashes[1 : max(n, 1)], return_counts=True)):
        places = [(start, part, part.of_word(hashed)) for start, part in zip(starts, parts)]
        n_with = sum(here.stop - here.start for _, _, here in places)
        if excluded.size:
            n_with -= sum(int(excluded[start + p.rows[here]].sum()) for start, p, here in places)
        if n_added and background is not None:
            # An added text of independent words contains the word with 1 - exp(-length * p).
            [p] = background.frequencies_of(np.array([hashed]))
            n_with -= n_added * float(np.expm1(-mean_length * p))
        idf = np.log1p((n_texts + n_added - n_with + 0.5) / (n_with + 0.5))
        weight = np.float32(n_times * idf)
        total += float(weight)
        for start, part, here in places:
            rows, counts = start + part.rows[here], part.counts[here]
            out[rows] += weight * (counts / (counts + norms[rows]))
    return out, total
