"""Vocabulary: words, counts, and the way from sentences to token ids or a count matrix."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from pacsent import text


class Encoded(NamedTuple):
    """Sentences as token ids: sentence s is ids[offsets[s]:offsets[s + 1]], unknown words left out.

    Every vectorizer takes an `Encoded` where it takes an iterable of sentences.
    """

    ids: np.ndarray  # (n_tokens,) int32
    offsets: np.ndarray  # (n_sentences + 1,) int64
    n_unknown: np.ndarray  # (n_sentences,) int64, tokens that are not in the vocabulary

    @property
    def n_sentences(self) -> int:
        return self.offsets.size - 1

    @property
    def coverage(self) -> float:
        """Known tokens over all tokens; nan when there is no token at all."""
        n_all = self.ids.size + int(self.n_unknown.sum())
        return self.ids.size / n_all if n_all else float("nan")


class Vocabulary:
    """Words and their counts, most frequent first; frozen.

    Parameters
    ----------
    words : sequence of str
        The words; position is the token id.
    counts : array of int, shape (n_words,), or None
        How often each occurred in the source corpus. None when unknown: never invented.
    normalise : {"paper", "unicode"} or callable str -> list of str, default="paper"
        How raw text becomes tokens.
    """

    def __init__(
        self,
        words: Sequence[str],
        counts=None,
        *,
        normalise: str | Callable[[str], list[str]] = "paper",
    ):
        self.words = list(words)
        self.counts = None if counts is None else np.asarray(counts, dtype=np.int64)
        self.normalise = normalise
        self.index = {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word) -> bool:
        return word in self.index

    def __repr__(self) -> str:
        return f"Vocabulary(n_words={len(self)}, normalise={self.normalise!r})"

    def __sklearn_clone__(self):
        return self

    @property
    def n_words(self) -> int:
        return len(self)

    @property
    def n_tokens(self) -> int:
        """Tokens counted in the source corpus."""
        return int(self._known_counts("n_tokens").sum())

    def _known_counts(self, what: str) -> np.ndarray:
        if self.counts is None:
            raise ValueError(
                f"{what} needs word counts, and this vocabulary has none. Read the vectors "
                "together with their counts (a vocab.tsv), or pass counts to Vocabulary."
            )
        return self.counts

    def keep_probabilities(self, subsample: float) -> np.ndarray:
        """Chance to keep a word: min(1, (sqrt(f/t) + 1) t/f), f = count/n_tokens, t = subsample."""
        counts = self._known_counts("sub-sampling")
        if subsample == 0:
            return np.ones(len(self))
        threshold = subsample * counts.sum()
        counts = np.maximum(counts, 1)
        return np.minimum(1.0, (np.sqrt(counts / threshold) + 1.0) * threshold / counts)

    def noise_probabilities(self, power: float = 0.75) -> np.ndarray:
        """p_n(w) proportional to count(w)^power."""
        weights = self._known_counts("the noise distribution").astype(float) ** power
        return weights / weights.sum()

    def tokens(self, sentence: str | Sequence[str]) -> Sequence[str]:
        """Tokens of one sentence; a token list is taken as it is."""
        if not isinstance(sentence, str):
            return sentence
        if callable(self.normalise):
            return self.normalise(sentence)
        return text.TOKENISERS[self.normalise](sentence)

    def encode(self, X: Iterable[str | Sequence[str]]) -> Encoded:
        """Sentences to token ids."""
        if isinstance(X, Encoded):
            return X
        if isinstance(X, str):
            raise ValueError(
                f"X must be an iterable of sentences. Got the single string {X[:40]!r} instead. "
                f"Pass [{X[:40]!r}] to embed one sentence."
            )
        ids: list[int] = []
        offsets = [0]
        n_unknown = []
        for sentence in X:
            tokens = self.tokens(sentence)
            known = [self.index[token] for token in tokens if token in self.index]
            ids.extend(known)
            offsets.append(len(ids))
            n_unknown.append(len(tokens) - len(known))
        return Encoded(
            np.array(ids, dtype=np.int32),
            np.array(offsets, dtype=np.int64),
            np.array(n_unknown, dtype=np.int64),
        )

    def digest(self, X) -> str:
        """sha256 of the words of this vocabulary and of the sentences as token ids."""
        ids, offsets, _ = self.encode(X)
        total = hashlib.sha256("\n".join(self.words).encode() + b"\0")
        total.update(np.ascontiguousarray(ids, dtype="<i4").data)
        total.update(np.ascontiguousarray(offsets, dtype="<i8").data)
        return total.hexdigest()

    def count(self, X) -> sparse.csr_matrix:
        """Sentences to a sparse count matrix, (n_sentences, n_words)."""
        ids, offsets, _ = self.encode(X)
        shape = (offsets.size - 1, len(self))
        matrix = sparse.csr_matrix((np.ones(ids.size), ids, offsets), shape=shape)
        matrix.sum_duplicates()
        return matrix


class Corpus:
    """A text turned once into token ids on disk, memory-mapped: what every epoch reads.

    `Corpus.build` makes it, `Corpus.open` opens it. Words rarer than `min_count` are left out of
    `ids` and counted in `n_unknown`; a line of a file is a document, and so is each text.

    Attributes
    ----------
    vocabulary : Vocabulary
        Most frequent first; equal counts in alphabetical order (of the UTF-8 bytes).
    ids : memmap of int32, shape (n_tokens,)
    offsets : memmap of int64, shape (n_documents + 1,)
        Document s is ids[offsets[s]:offsets[s + 1]].
    n_tokens, n_unknown : int
        Tokens in `ids`; tokens of words that are not in the vocabulary.
    digest : str
        sha256 of vocabulary, ids and offsets; the same as `vocabulary.digest(documents)`.
    """

    def __init__(self, directory):
        self.directory = Path(directory)
        about = json.loads((self.directory / "corpus.json").read_text())
        words, counts = [], []
        for line in (self.directory / "vocabulary.tsv").read_bytes().splitlines():
            word, count = line.decode("utf-8").split("\t")
            words.append(word)
            counts.append(int(count))
        self.vocabulary = Vocabulary(words, counts, normalise=about["normalise"])
        self.ids = np.memmap(self.directory / "ids.i32", dtype="<i4", mode="r")
        self.offsets = np.memmap(self.directory / "offsets.i64", dtype="<i8", mode="r")
        self.n_tokens = about["n_tokens"]
        self.n_unknown = about["n_unknown"]
        self.digest = about["digest"]

    @property
    def n_documents(self) -> int:
        return self.offsets.size - 1

    @classmethod
    def open(cls, directory) -> "Corpus":
        """Open a corpus made by `build`."""
        return cls(directory)

    @classmethod
    def build(
        cls, source, directory, min_count=5, normalise="paper", n_jobs=None, verbose=False
    ) -> "Corpus":
        """Count words, give ids, write the folder.

        `source` is a path ('-' for stdin), a list of `Path`, or an iterable of texts or token
        lists.
        """
        if isinstance(source, str | Path):
            source = [Path(source)]
        tokens_of = Vocabulary([], normalise=normalise).tokens
        provisional: dict[str, int] = {}
        seen: list[int] = []
        ends = [0]
        for item in source:
            for document in text.read_lines(item) if isinstance(item, Path) else [item]:
                for token in tokens_of(document):
                    seen.append(provisional.setdefault(token, len(provisional)))
                ends.append(len(seen))
        all_ids = np.array(seen, dtype=np.int64)
        all_counts = np.bincount(all_ids, minlength=len(provisional))
        kept = [word for word, i in provisional.items() if all_counts[i] >= min_count]
        if not kept:
            raise ValueError(
                f"No word occurs at least min_count={min_count} times in these {len(seen):,} "
                "tokens, so the vocabulary would be empty. Lower min_count or train on more text."
            )
        kept.sort(key=lambda word: (-all_counts[provisional[word]], word.encode()))
        final = np.full(len(provisional), -1, dtype=np.int32)
        final[[provisional[word] for word in kept]] = np.arange(len(kept))
        counts = all_counts[[provisional[word] for word in kept]]
        ids = final[all_ids]
        known = np.concatenate([[0], np.cumsum(ids >= 0)])
        offsets = known[np.array(ends)].astype("<i8")
        ids = ids[ids >= 0].astype("<i4")

        directory = Path(directory)
        partial = directory.with_name(directory.name + ".part")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        ids.tofile(partial / "ids.i32")
        offsets.tofile(partial / "offsets.i64")
        (partial / "vocabulary.tsv").write_text(
            "".join(f"{word}\t{count}\n" for word, count in zip(kept, counts))
        )
        vocabulary = Vocabulary(kept, counts, normalise=normalise)
        about = {
            "format_version": 1,
            "n_documents": offsets.size - 1,
            "n_words": len(kept),
            "n_tokens": ids.size,
            "n_unknown": len(seen) - ids.size,
            "min_count": min_count,
            "normalise": normalise,
            "digest": vocabulary.digest(Encoded(ids, offsets, np.zeros(0))),
        }
        (partial / "corpus.json").write_text(json.dumps(about, indent=1) + "\n")
        if directory.exists():
            shutil.rmtree(directory)
        os.replace(partial, directory)
        return cls(directory)
