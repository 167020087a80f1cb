"""`Encoded`: sentences as token ids, the form in which text travels between the rooms."""

import warnings
from typing import NamedTuple

import numpy as np


class LowCoverageWarning(UserWarning):
    """Most words of a text are not in the vocabulary: it is likely the wrong one."""


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

    def warn_if_low_coverage(self, vocabulary=None, stacklevel: int = 2):
        """Warn once where under half of the tokens are known, and name the likely cause."""
        if not self.coverage < 0.5:  # nan, no token at all, is no reason to warn
            return
        n_all = self.ids.size + int(self.n_unknown.sum())
        cause = "another normalisation (case, punctuation) or another language than this text"
        if vocabulary is not None:
            cause = vocabulary._likely_cause()
        warnings.warn(
            f"Only {100 * self.coverage:.0f} % of these {n_all:,} tokens are in the vocabulary. "
            f"The likely cause: {cause}. Coverage is fine from about 90 %.",
            LowCoverageWarning,
            stacklevel=stacklevel + 1,
        )
