"""WordVectors: the frozen pair of tables, and nothing that trains."""

from dataclasses import dataclass, field

import numpy as np

from pacsent.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False, repr=False)
class WordVectors:
    """A vocabulary with its input vectors and, where known, its output vectors.

    Parameters
    ----------
    vocabulary : Vocabulary
    input_vectors : array, shape (n_words, n_dims), float32 or float16
    output_vectors : array of the same shape, or None
    corpus_digest : str or None
        Digest of the text the vectors were trained on; certificates refuse the same text.
    training : dict
        What is known about how they were trained (n_negatives, window, ...).
    """

    vocabulary: Vocabulary
    input_vectors: np.ndarray
    output_vectors: np.ndarray | None = None
    corpus_digest: str | None = None
    training: dict = field(default_factory=dict)

    def __repr__(self) -> str:
        only = "" if self.output_vectors is not None else ", input table only"
        return f"WordVectors(n_words={self.n_words}, n_dims={self.n_dims}{only})"

    def __sklearn_clone__(self):
        return self

    @property
    def n_words(self) -> int:
        return self.input_vectors.shape[0]

    @property
    def n_dims(self) -> int:
        return self.input_vectors.shape[1]

    def roles(self, *, swap: bool = False):
        """(A_hat, B_hat): the table of the loss and the table of the prior; swapped for `i-`."""
        if swap:
            return self.output_vectors, self.input_vectors
        return self.input_vectors, self.output_vectors
