"""Fingerprints: which documents a model was trained on, in any order, in a few megabytes.

A document leaves a 64-bit hash of its words, and so does every run of twenty words in it. Of these,
the smallest are kept: an even sample, the same for every text, so that two texts which share
documents or long passages share kept hashes, whatever the order and however they were cut.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pacsent.arrays import GOLDEN, splitmix64
from pacsent.text.encoded import Encoded

if TYPE_CHECKING:
    from pacsent.words.vocabulary import Vocabulary

RUN = 20  # words; two independent texts share so long a run only where one quotes the other
LEAST_WORDS = 8  # of a document that is compared as a whole: shorter ones coincide by chance
MOST = 1 << 17  # hashes of each kind that are kept: 1 MB
_BASE = GOLDEN  # odd, so it has an inverse modulo 2^64
_INVERSE = np.uint64(pow(int(GOLDEN), -1, 1 << 64))
_BLOCK = 1 << 17  # tokens hashed at once: a few megabytes


@dataclass(frozen=True)
class Fingerprint:
    """Kept hashes of documents and of runs of words, sorted, and how many there were."""

    documents: np.ndarray  # uint64, sorted
    runs: np.ndarray  # uint64, sorted
    n_documents: int  # seen and compared as a whole
    n_runs: int
    most: int = MOST

    def counts(self) -> dict[str, int]:
        """The counts that a file keeps next to the hashes."""
        return {"n_documents": self.n_documents, "n_runs": self.n_runs, "most": self.most}

    @classmethod
    def of(cls, vocabulary: "Vocabulary", encoded: Any, most: int = MOST) -> "Fingerprint":
        """The fingerprint of texts that were encoded by `vocabulary`: an Encoded, or a Corpus."""
        kept = [np.zeros(0, np.uint64), np.zeros(0, np.uint64)]
        n = [0, 0]
        for block in _blocks(vocabulary, encoded.ids, encoded.offsets):
            for i, hashes in enumerate(block[:2]):
                n[i] += hashes.size
                if kept[i].size >= most:
                    hashes = hashes[hashes <= kept[i][-1]]
                kept[i] = np.union1d(kept[i], hashes)[:most]
        return cls(kept[0], kept[1], n[0], n[1], most)

    def overlap(self, vocabulary: "Vocabulary", encoded: Encoded) -> np.ndarray:
        """Which documents were seen, as a whole or by a run of words, (n_documents,) bool."""
        seen = np.zeros(encoded.n_sentences, dtype=bool)
        for block in _blocks(vocabulary, encoded.ids, encoded.offsets):
            for hashes, rows, kept in zip(block[:2], block[2:], (self.documents, self.runs)):
                if kept.size:
                    place = np.minimum(np.searchsorted(kept, hashes), kept.size - 1)
                    seen[rows[kept[place] == hashes]] = True
        return seen

    def chance_to_notice(self, n_words: int) -> float:
        """Probability that a document of `n_words` words from the training text is recognised."""
        documents, runs = (
            int(kept[-1]) / 2.0**64 if kept.size >= self.most else 1.0
            for kept in (self.documents, self.runs)
        )
        if n_words < LEAST_WORDS:  # shorter ones are not compared
            documents = 0.0
        return 1.0 - (1.0 - documents) * (1.0 - runs) ** max(0, n_words - RUN + 1)


def word_hashes(vocabulary: "Vocabulary") -> np.ndarray:
    """A 64-bit number for each word, by its letters alone, (n_words,) uint64."""
    data, offsets = vocabulary.table.arrays
    lengths = np.diff(offsets)
    place = np.arange(data.size) - np.repeat(offsets[:-1], lengths)
    powers = _powers(_BASE, int(lengths.max(initial=1)))
    terms = (data.astype(np.uint64) + np.uint64(1)) * powers[place]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return splitmix64(sums[offsets[1:]] - sums[offsets[:-1]])


def _powers(base: np.uint64, n: int) -> np.ndarray:
    powers = np.full(n, base, dtype=np.uint64)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint64)


def _blocks(vocabulary, ids, offsets):
    """(document hashes, run hashes, their documents), about _BLOCK tokens at a time."""
    numbers = word_hashes(vocabulary)
    start, n_documents = 0, len(offsets) - 1
    while start < n_documents:
        stop = max(start + 1, int(np.searchsorted(offsets, offsets[start] + _BLOCK, "right")) - 1)
        stop = min(stop, n_documents)
        begin, end = int(offsets[start]), int(offsets[stop])
        if end - begin <= 2 * _BLOCK:
            edges = np.asarray(offsets[start : stop + 1], dtype=np.int64) - begin
            yield _hashes(numbers[ids[begin:end]], edges, start)
        else:  # one huge document is recognised by its runs alone
            for place in range(begin, end, _BLOCK):
                part = numbers[ids[place : min(end, place + _BLOCK + RUN - 1)]]
                documents, runs, _, rows = _hashes(part, np.array([0, part.size]), start)
                yield documents[:0], runs, rows[:0], rows
        start = stop


def _hashes(numbers, edges, first):
    n = np.diff(edges)
    forward = _powers(_BASE, numbers.size + 1)
    back = _powers(_INVERSE, numbers.size + 1)
    # sum over j < i of numbers[j] base^j; a run from i is (sums[i + RUN] - sums[i]) base^-i
    sums = np.zeros(numbers.size + 1, np.uint64)
    np.cumsum(numbers * forward[:-1], out=sums[1:], dtype=np.uint64)
    long = np.flatnonzero(n >= LEAST_WORDS)
    starts, ends = edges[long], edges[long + 1]
    documents = (sums[ends] - sums[starts]) * back[starts]
    documents = splitmix64(documents ^ n[long].astype(np.uint64))
    row = np.repeat(np.arange(n.size), n)
    at = np.arange(max(0, numbers.size - RUN + 1))
    at = at[row[at] == row[at + RUN - 1]]
    runs = splitmix64((sums[at + RUN] - sums[at]) * back[at])
    return documents, runs, long + first, row[at] + first
