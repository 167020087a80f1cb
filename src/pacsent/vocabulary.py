"""Vocabulary: words, counts, and the way from sentences to token ids or a count matrix."""

from collections.abc import Callable, Iterable, Sequence
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

    def count(self, X) -> sparse.csr_matrix:
        """Sentences to a sparse count matrix, (n_sentences, n_words)."""
        ids, offsets, _ = self.encode(X)
        shape = (offsets.size - 1, len(self))
        matrix = sparse.csr_matrix((np.ones(ids.size), ids, offsets), shape=shape)
        matrix.sum_duplicates()
        return matrix
