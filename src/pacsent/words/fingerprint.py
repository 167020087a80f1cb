"""Fingerprints: which documents a model was trained on, in any order, in a few megabytes.

A document leaves a 64-bit hash of its words, and so does every run of twenty words in it. Of these,
the smallest are kept: an even sample, the same for every text, so that two texts which share
documents or long passages share kept hashes, whatever the order and however they were cut.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pacsent.arrays import GOLDEN, splitmix64
from pacsent.text.encoded import Encoded

if TYPE_CHECKING:
    from pacsent.words.vocabulary import Vocabulary

# Words of a run. Two independent texts share so long a run only where one quotes the other.
RUN_WORDS = 20

# Words of a document that is compared as a whole; shorter ones coincide by chance.
MIN_DOCUMENT_WORDS = 8

MAX_HASHES = 1 << 17  # of each kind that are kept: 1 MB
_BLOCK_TOKENS = 1 << 17  # hashed at once: a few megabytes

_BASE = GOLDEN  # odd, so it has an inverse modulo 2^64
_INVERSE = np.uint64(pow(int(GOLDEN), -1, 1 << 64))


@dataclass(frozen=True)
class Fingerprint:
    """Kept hashes of documents and of runs of words, sorted, and how many there were."""

    documents: np.ndarray  # uint64, sorted
    runs: np.ndarray  # uint64, sorted
    n_documents: int  # seen and compared as a whole
    n_runs: int
    most: int = MAX_HASHES

    def counts(self) -> dict[str, int]:
        """The counts that a file keeps next to the hashes."""
        return {"n_documents": self.n_documents, "n_runs": self.n_runs, "most": self.most}

    @classmethod
    def of(cls, vocabulary: "Vocabulary", encoded: Any, most: int = MAX_HASHES) -> "Fingerprint":
        """The fingerprint of texts that were encoded by `vocabulary`: an Encoded, or a Corpus."""
        documents = np.zeros(0, np.uint64)
        runs = np.zeros(0, np.uint64)
        n_documents = 0
        n_runs = 0

        for block in _iter_blocks(vocabulary, encoded.ids, encoded.offsets):
            n_documents += block.documents.size
            n_runs += block.runs.size
            documents = _keep_smallest(documents, block.documents, most)
            runs = _keep_smallest(runs, block.runs, most)

        return cls(documents, runs, n_documents, n_runs, most)

    def overlap(self, vocabulary: "Vocabulary", encoded: Encoded) -> np.ndarray:
        """Mask of the documents that were seen, as a whole or by a run of words, (n_documents,)."""
        is_seen = np.zeros(encoded.n_sentences, dtype=bool)
        for block in _iter_blocks(vocabulary, encoded.ids, encoded.offsets):
            is_known_document = _is_kept(block.documents, self.documents)
            is_known_run = _is_kept(block.runs, self.runs)
            is_seen[block.document_rows[is_known_document]] = True
            is_seen[block.run_rows[is_known_run]] = True
        return is_seen

    def chance_to_notice(self, n_words: int) -> float:
        """Probability that a document of `n_words` words from the training text is recognised."""
        p_document = self._kept_fraction(self.documents)
        if n_words < MIN_DOCUMENT_WORDS:  # shorter ones are not compared
            p_document = 0.0

        p_run = self._kept_fraction(self.runs)
        n_runs = max(0, n_words - RUN_WORDS + 1)
        return 1.0 - (1.0 - p_document) * (1.0 - p_run) ** n_runs

    def _kept_fraction(self, kept: np.ndarray) -> float:
        """Fraction of all hashes that were kept: those up to the largest kept one."""
        if kept.size < self.most:
            return 1.0
        return int(kept[-1]) / 2.0**64


def spelling_hashes(vocabulary: "Vocabulary") -> np.ndarray:
    """A 64-bit number for each word, by its letters alone, (n_words,) uint64."""
    data, offsets = vocabulary.table.arrays
    lengths = np.diff(offsets)
    place_in_word = np.arange(data.size) - np.repeat(offsets[:-1], lengths)
    max_length = int(lengths.max(initial=1))

    # The sum of (letter + 1) base^place over a word, as a difference of running sums.
    powers = _powers(_BASE, max_length)
    terms = (data.astype(np.uint64) + np.uint64(1)) * powers[place_in_word]
    sums = np.zeros(data.size + 1, np.uint64)
    np.cumsum(terms, out=sums[1:], dtype=np.uint64)
    return splitmix64(sums[offsets[1:]] - sums[offsets[:-1]])


def _powers(base: np.uint64, n: int) -> np.ndarray:
    """base^0 to base^(n - 1), modulo 2^64."""
    powers = np.full(n, base, dtype=np.uint64)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint64)


def _keep_smallest(kept: np.ndarray, hashes: np.ndarray, n_hashes: int) -> np.ndarray:
    """The smallest of both, sorted, each once."""
    if kept.size >= n_hashes:
        hashes = hashes[hashes <= kept[-1]]
    return np.union1d(kept, hashes)[:n_hashes]


def _is_kept(hashes: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Mask of the hashes that are among the kept ones, which are sorted."""
    if not kept.size:
        return np.zeros(hashes.size, dtype=bool)
    positions = np.searchsorted(kept, hashes)
    positions = np.minimum(positions, kept.size - 1)
    return kept[positions] == hashes


class _Hashes(NamedTuple):
    """Hashes of some documents, and the documents they are of."""

    documents: np.ndarray  # (n,) uint64
    runs: np.ndarray  # (n_runs,) uint64
    document_rows: np.ndarray  # (n,)
    run_rows: np.ndarray  # (n_runs,)


def _iter_blocks(
    vocabulary: "Vocabulary", ids: np.ndarray, offsets: np.ndarray
) -> Iterator[_Hashes]:
    """Hashes of all documents, about _BLOCK_TOKENS at a time."""
    word_numbers = spelling_hashes(vocabulary)
    n_documents = len(offsets) - 1
    start = 0

    while start < n_documents:
        limit = offsets[start] + _BLOCK_TOKENS
        stop = max(start + 1, int(np.searchsorted(offsets, limit, "right")) - 1)
        stop = min(stop, n_documents)
        begin = int(offsets[start])
        end = int(offsets[stop])

        if end - begin <= 2 * _BLOCK_TOKENS:
            numbers = word_numbers[ids[begin:end]]
            bounds = np.asarray(offsets[start : stop + 1], dtype=np.int64) - begin
            yield _hash_documents(numbers, bounds, start)
        else:
            yield from _iter_huge_document(word_numbers, ids[begin:end], start)

        start = stop


def _iter_huge_document(
    word_numbers: np.ndarray, ids: np.ndarray, document: int
) -> Iterator[_Hashes]:
    """Hashes of a document of many blocks, which is recognised by its runs alone."""
    for start in range(0, len(ids), _BLOCK_TOKENS):
        # Runs that begin in this block end in the next one.
        part = ids[start : start + _BLOCK_TOKENS + RUN_WORDS - 1]
        bounds = np.array([0, part.size])
        hashes = _hash_documents(word_numbers[part], bounds, document)
        yield hashes._replace(
            documents=hashes.documents[:0],
            document_rows=hashes.document_rows[:0],
        )


def _hash_documents(numbers: np.ndarray, bounds: np.ndarray, first_row: int) -> _Hashes:
    """Hashes of the documents numbers[bounds[s]:bounds[s + 1]], the first being `first_row`."""
    n_tokens = numbers.size
    lengths = np.diff(bounds)
    powers = _powers(_BASE, n_tokens + 1)
    inverse_powers = _powers(_INVERSE, n_tokens + 1)

    # sum over j < i of numbers[j] base^j; a run from i is (sums[i + RUN_WORDS] - sums[i]) base^-i
    sums = np.zeros(n_tokens + 1, np.uint64)
    np.cumsum(numbers * powers[:-1], out=sums[1:], dtype=np.uint64)

    rows = np.flatnonzero(lengths >= MIN_DOCUMENT_WORDS)
    starts = bounds[rows]
    ends = bounds[rows + 1]
    documents = (sums[ends] - sums[starts]) * inverse_powers[starts]
    documents = splitmix64(documents ^ lengths[rows].astype(np.uint64))

    # Runs may begin where their last word is of the same document.
    row_of_token = np.repeat(np.arange(lengths.size), lengths)
    begins = np.arange(max(0, n_tokens - RUN_WORDS + 1))
    is_inside = row_of_token[begins] == row_of_token[begins + RUN_WORDS - 1]
    begins = begins[is_inside]
    runs = (sums[begins + RUN_WORDS] - sums[begins]) * inverse_powers[begins]

    return _Hashes(
        documents=documents,
        runs=splitmix64(runs),
        document_rows=rows + first_row,
        run_rows=row_of_token[begins] + first_row,
    )
