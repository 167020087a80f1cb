"""Base class of the methods with the negative sampling loss: PB-neg, w-PB-neg and PV-DBOW."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from pacsent.parameter_checks import Interval
from pacsent.sentences.fitted_state import Learned
from pacsent.sentences.sentence_vectorizer import ROLES, SentenceVectorizer
from pacsent.text.encoded import Encoded
from pacsent.words.noise import alias, noise_probabilities

POSITIVE = Interval(Real, 0, None, closed="neither")


@dataclass(eq=False, repr=False, kw_only=True)
class NegativeSampling(SentenceVectorizer):
    """A method with a noise distribution, which it learns from the training counts."""

    learns_from_text: ClassVar[bool] = True
    learned: ClassVar = {
        "noise_counts": Learned(np.int64, ("n_words",), low=0),
        "seed": Learned(np.int64, (), low=0),
    }

    _parameter_constraints: ClassVar[dict] = {
        **SentenceVectorizer._parameter_constraints,
        **ROLES,
        "n_negatives": [Interval(Integral, 1, 10_000, closed="both")],
        "noise_power": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    n_negatives: int = 15
    noise_power: float = 0.75
    swap_roles: bool = False
    random_state: int | np.random.RandomState | None = None

    def _learn(self, encoded: Encoded) -> dict[str, Any]:
        if not encoded.ids.size:
            raise ValueError(
                f"X must have words that the vectors know. Got {encoded.n_sentences:,} sentences "
                "without any instead. Check the language and the normalisation of the text."
            )
        noise_counts = np.bincount(encoded.ids, minlength=self.word_vectors.n_words)
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31))
        return {"noise_counts": noise_counts, "seed": seed}

    def _read_values(self, state: Mapping[str, np.ndarray]) -> dict[str, Any]:
        values = super()._read_values(state)
        if not values["noise_counts"].any():
            raise ValueError("noise_counts must have a number above 0")
        return values

    def _float_tables(self) -> Any:
        """(A_hat, B_hat) in a precision the kernels know, widened once."""
        tables = self._tables()
        dtypes = {table.dtype for table in tables if table is not None}
        if dtypes <= {np.dtype(np.float32), np.dtype(np.float64)}:
            return tables

        def widen() -> tuple[np.ndarray, ...]:
            return tuple(np.asarray(table, dtype=np.float32) for table in tables)

        return self._derived("floats", widen)

    def _n_negatives_of_theorem(self) -> int:
        return self.n_negatives

    def _noise_power_of_theorem(self) -> float:
        return self.noise_power

    def _noise_counts_of_theorem(self) -> np.ndarray:
        return self.noise_counts_

    def _noise_of_counts(self, noise_counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(words, probabilities) of the noise distribution, on its support."""
        words = np.flatnonzero(noise_counts)
        p_noise = noise_probabilities(noise_counts[words], self.noise_power)
        return words, p_noise

    def _alias_table(
        self, noise_counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """(words, keep, other, n_negatives), from which kernels draw negative samples."""
        words, p = self._noise_of_counts(noise_counts)
        keep, other = alias(p)
        return words, keep, other, self.n_negatives


# The constraints of the methods that minimise an objective with a penalty.
MINIMISED: dict = {
    "lam": [POSITIVE],  # finite: without a penalty the loss may have no minimiser
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [POSITIVE],
}

# The constraints of the methods that are trained by stochastic gradients.
SCHEDULED: dict = {
    "n_epochs": [Interval(Integral, 1, 100_000, closed="both")],
    "learning_rate": [POSITIVE],
    "verbose": ["verbose"],
}


def learning_rates(n_epochs: int, learning_rate: float) -> np.ndarray:
    """Steps of the epochs, falling linearly: learning_rate * (1 - e/n_epochs)."""
    return learning_rate * (1.0 - np.arange(n_epochs) / n_epochs)
