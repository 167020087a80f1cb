"""Vectorizers with the negative sampling loss: PB-neg, w-PB-neg and PV-DBOW.

The formulas and solvers are in `maths.pb_neg` and `maths.w_pb_neg`; the base class is in
`sentence_vectors`.
"""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from pacsent.encoders.sentence_vectorizer import SentenceVectorizer
from pacsent.maths.noise import alias, noise_probabilities
from pacsent.parameter_checks import Interval

POSITIVE = Interval(Real, 0, None, closed="neither")


class NegativeSampling(SentenceVectorizer):
    """What the three share: noise words from the training counts, and the paper's schedule."""

    _remade = ("_noise", "_sample", "_nu", "_alias", "_floats", "_pooled")
    learns_from_text: ClassVar[bool] = True

    _parameter_constraints: ClassVar[dict] = {
        **SentenceVectorizer._parameter_constraints,
        "lam": [Interval(Real, 0, None, closed="right")],
        "n_negatives": [Interval(Integral, 1, 10_000, closed="both")],
        "noise_power": [Interval(Real, 0, None, closed="left")],
        "n_epochs": [Interval(Integral, 1, 100_000, closed="both")],
        "learning_rate": [POSITIVE],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [POSITIVE],
        "random_state": ["random_state"],
    }

    def _fit(self, encoded):
        if not encoded.ids.size:
            raise ValueError(
                f"X must hold words that the vectors know. Got {encoded.n_sentences:,} sentences "
                "without any instead. Check the language and the normalisation of the text."
            )
        self.noise_counts_ = np.bincount(encoded.ids, minlength=self.word_vectors.n_words)
        self.seed_ = int(check_random_state(self.random_state).randint(2**31))

    def _state(self):
        learned = {"noise_counts": self.noise_counts_, "seed": np.array([self.seed_])}
        return {**super()._state(), **learned}

    def _restore(self, state):
        super()._restore(state)
        self.noise_counts_ = self._taken(
            state, "noise_counts", np.int64, (self.word_vectors.n_words,)
        )
        if self.noise_counts_.min() < 0 or not self.noise_counts_.any():
            raise ValueError("noise_counts must be at least 0, and some of them more")
        self.seed_ = int(self._taken(state, "seed", np.int64, (1,))[0])
        if not 0 <= self.seed_ < 2**31:
            raise ValueError(f"seed is {self.seed_}")

    def _float_tables(self):
        """(A_hat, B_hat) in a precision the kernels know, widened once."""
        tables = self._tables()
        if all(table is None or table.dtype in (np.float32, np.float64) for table in tables):
            return tables
        if not hasattr(self, "_floats"):
            self._floats = tuple(np.asarray(table, dtype=np.float32) for table in tables)
        return self._floats

    def _noise_probabilities(self):
        """(words, probabilities) of the noise distribution, on its support."""
        words = np.flatnonzero(self.noise_counts_)
        return words, noise_probabilities(self.noise_counts_[words], self.noise_power)

    def _alias_table(self):
        """(words, keep, other, n_negatives), from which kernels draw noise words."""
        if not hasattr(self, "_alias"):
            words, p = self._noise_probabilities()
            self._alias = (words, *alias(p), self.n_negatives)
        return self._alias


def refuse_no_penalty(estimator: Any, method: str) -> None:
    """Refuse an infinite lam: without a penalty the loss may have no minimiser."""
    if np.isinf(estimator.lam):
        raise ValueError(
            f"lam must be finite for {method}. Got inf instead. Without a penalty the loss may "
            "have no minimiser; use a large lam, or PVDBOWVectorizer."
        )
