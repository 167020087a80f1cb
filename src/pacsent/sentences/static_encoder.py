"""`StaticEncoder`: sentence vectors from a distilled table of word vectors."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np

from pacsent import registry
from pacsent.sentences.encoding import BatchPosterior
from pacsent.sentences.methods.closed_forms import ClosedForm
from pacsent.sentences.pooling import pool, to_unit_length, token_sums
from pacsent.sentences.sentence_vectorizer import SentenceVectorizer
from pacsent.storage import State, checked_tensor
from pacsent.text.encoded import Encoded
from pacsent.words import compress
from pacsent.words.vector_table import VectorTable


@dataclass(eq=False, repr=False, kw_only=True)
class StaticEncoder(ClosedForm):
    """Sentence vectors distilled from another encoder: the direction of the sum of word vectors.

        x_S = sum of A_hat over the words of S,  mu_S = x_S / |x_S|
        var_Q = sum of the words' variances / |x_S|^2

    Words outside the vocabulary are read as subwords. `pacsent.distill` makes one. It is fitted
    from the start, and works wherever an encoder does.

    Parameters
    ----------
    word_vectors : WordVectors
        The distilled table as input vectors.
    teacher : str, default="unknown"
        Name of the encoder that it was distilled from.
    on_empty, batch_size, n_jobs
        As in AverageVectorizer.

    Attributes
    ----------
    word_variances_ : array, shape (n_words,), or None
        Variance of each number of a word's vector, if it is known.
    certificate_ : str or None
        JSON of the certificate that `pacsent.distill` measured on held-out texts;
        `pacsent.certify.read_certificate` reads it.

    Examples
    --------
    >>> import numpy as np
    >>> from pacsent import Vocabulary, WordVectors
    >>> vocabulary = Vocabulary(["good", "film", "##s"], unknown="pieces")
    >>> table = np.array([[1, 0], [0, 2], [0, 0.5]], dtype=np.float32)
    >>> StaticEncoder(WordVectors(vocabulary, table)).encode(["films", "a good film"]).round(2)
    array([[0.  , 1.  ],
           [0.45, 0.89]], dtype=float32)
    """

    kind = "StaticEncoder"
    _parameter_constraints: ClassVar[dict] = {
        **SentenceVectorizer._parameter_constraints,
        "teacher": [str],
    }

    teacher: str = "unknown"

    # Not a dataclass field: it is no parameter.
    word_variances_ = cast(np.ndarray | None, None)

    @property
    def _paper_name(self) -> str:
        return "distilled"

    def summed_table(self) -> VectorTable:
        return self.word_vectors.tables["input"]

    def _needs_prior_table(self) -> bool:
        return False

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> "StaticEncoder":
        return copy.copy(self)  # it learns nothing from `fit`

    def _prepared(self) -> BatchPosterior:
        table, _ = self._pool_tables()
        word_variances = self._variances()

        def posterior(encoded: Encoded, means: np.ndarray) -> tuple[np.ndarray, Any]:
            scale = np.ones(encoded.n_sentences, means.dtype)
            pool(encoded, [(table, None, scale)], means)
            squares = to_unit_length(means)
            return token_sums(encoded, word_variances) / squares, None

        return posterior

    def compress(
        self, *, n_words: int | None = None, n_dims: int | None = None, bits: int | None = None
    ) -> "StaticEncoder":
        """Return a smaller encoder: fewer words, fewer dimensions, fewer bits per number.

        The table is rotated, so that its first columns contain most of every product, and cut.
        Vectors are no longer in the teacher's space; cosines stay near those before. The
        certificate does not cover the result and is dropped; `certify_student` makes another.

        Parameters
        ----------
        n_words : int or None
            The first words are kept, and all subwords.
        n_dims : int or None
        bits : {1, 2, 4, 8} or None

        Returns
        -------
        StaticEncoder
        """
        smaller = copy.copy(self)
        smaller.word_vectors = compress(
            self.word_vectors, n_words=n_words, n_dims=n_dims, bits=bits
        )
        rows = [self.word_vectors.vocabulary.id_of(word) for word in smaller.word_vectors.words]
        smaller.word_variances_ = self._variances()[rows]
        smaller.certificate_ = None
        return smaller

    def state(self) -> State:
        """The state that `pacsent.save` writes.

        Returns
        -------
        State
            Parameters, the certificate and the word vectors.
        """
        state = super().state()
        state.config["certificate"] = self.certificate_
        return state

    @classmethod
    def from_state(cls, state: State) -> "StaticEncoder":
        """Make the encoder from its saved state.

        Parameters
        ----------
        state : State

        Returns
        -------
        StaticEncoder
        """
        encoder = super().from_state(state)
        encoder.certificate_ = state.config.get("certificate")
        return encoder

    def _variances(self) -> np.ndarray:
        if self.word_variances_ is None:
            return np.zeros(self.word_vectors.n_words)
        return self.word_variances_

    def _state(self) -> dict[str, np.ndarray]:
        return {"word_variances": self._variances().astype(np.float32)}

    def _restore(self, state: Mapping[str, np.ndarray]) -> None:
        shape = (self.word_vectors.n_words,)
        variances = checked_tensor(state, "word_variances", np.float32, shape, low=0)
        self.word_variances_ = variances.astype(np.float64)


registry.register("model", "StaticEncoder", StaticEncoder.from_state)
registry.register("sentence encoder", "unit", partial(StaticEncoder, teacher="static"))
