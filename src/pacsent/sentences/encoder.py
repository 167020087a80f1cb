"""The protocol of an encoder of sentences, `Encoder`, and a mixin that derives most of it."""

from collections.abc import Iterator
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from sklearn.base import TransformerMixin

from pacsent.arrays import unit_rows
from pacsent.sentences.encoding import Posteriors
from pacsent.sentences.probe import PROBE
from pacsent.storage import State
from pacsent.words.vector_table import VectorTable
from pacsent.words.vectors import WordVectors


class Encoder(Protocol):
    """Texts in, vectors out.

    `as_encoder` returns an object that has all of this for whatever it takes, so that nothing
    that uses encoders asks again what an object can do.

    Attributes
    ----------
    method_name : str
        Name in messages and reports.
    n_dims : int
        Numbers of a vector.
    word_vectors : WordVectors or None
        The word vectors that are combined; None if the encoder reads texts by itself.
    parts : tuple of Encoder
        The encoders whose vectors are concatenated; the encoder itself if it is a single one.
    learns_from_text : bool
        Whether `fit` learns from the texts that it is given.
    is_fitted : bool
        Whether it can encode texts.
    on_empty : {"warn", "error", "ignore"}
        What happens if a text has no vector.
    certificate_ : str or None
        JSON of a certificate about its vectors.
    """

    @property
    def method_name(self) -> str: ...
    @property
    def n_dims(self) -> int: ...
    @property
    def word_vectors(self) -> WordVectors | None: ...
    @property
    def parts(self) -> "tuple[Encoder, ...]": ...
    @property
    def learns_from_text(self) -> bool: ...
    @property
    def is_fitted(self) -> bool: ...
    @property
    def on_empty(self) -> str: ...
    @property
    def certificate_(self) -> str | None: ...

    def fit(self, X: Any, y: Any = None) -> "Encoder":
        """Learn from texts, if there is something to learn."""

    def fit_if_stateless(self) -> "Encoder":
        """Fit an encoder that learns nothing from text, if that was not done."""

    def encode(self, texts: Any) -> np.ndarray:
        """Vectors of the texts, (n, n_dims); zeros for a text without an in-vocabulary word."""

    def transform(self, X: Any) -> np.ndarray:
        """The same as `encode`, as scikit-learn names it."""

    def posterior(self, X: Any) -> Posteriors:
        """The vectors, and their variances, nan if there are none, (n,)."""

    def stream(self, X: Any) -> Iterator[Posteriors]:
        """`posterior`, batch by batch."""

    def summed_table(self) -> VectorTable | None:
        """The table of which a vector is a multiple of the sum of rows; None where it is not."""

    def probe_vectors(self) -> np.ndarray:
        """Vectors of ten fixed sentences, computed now, by which encoders are distinguished."""

    def accept_probe(self, vectors: np.ndarray) -> None:
        """Take notice that these vectors of the ten sentences are those that were expected."""

    def set_params(self, **params: Any) -> Any:
        """Set parameters; one that the encoder does not have is an error."""

    def set_known_params(self, **params: Any) -> "Encoder":
        """Set those of the parameters that the encoder has."""

    def state(self) -> State:
        """The state that `pacsent.save` writes."""


def check_encoder(part: Any) -> Encoder:
    """Return a part of a saved model if it is an encoder, or raise ValueError."""
    if not isinstance(part, EncoderMixin):
        raise ValueError(f"encoder must be an encoder of sentences. It is a {type(part).__name__}")
    return cast(Encoder, part)


class EncoderMixin(TransformerMixin):
    """The methods that every encoder derives from its method `posterior`."""

    # Defaults of the protocol, which classes overwrite.
    learns_from_text: ClassVar[bool] = False
    certificate_ = cast(str | None, None)

    @property
    def parts(self) -> "tuple[Encoder, ...]":
        """The encoders whose vectors are concatenated: this one."""
        return (cast(Encoder, self),)

    def fit_if_stateless(self: Any) -> Any:
        """Fit an encoder that learns nothing from text, if that was not done; returns self."""
        if not self.learns_from_text and not self.is_fitted:
            self.fit([])
        return self

    def transform(self: Any, X: Any) -> np.ndarray:
        """Means of the posteriors.

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded
            Sentences. A generator is read in batches.

        Returns
        -------
        means : array, shape (n_sentences, n_dims), float32 (float64 if the word vectors are)
            Zero for sentences without an in-vocabulary word.
        """
        return self.posterior(X)[0]

    def encode(self: Any, texts: Any) -> np.ndarray:
        """The same as `transform`, under the name that other libraries give it.

        Parameters
        ----------
        texts : iterable of str or of token lists, table of one column, or Encoded

        Returns
        -------
        means : array, shape (n_sentences, n_dims)
        """
        return self.posterior(texts)[0]

    def similarity(self, a: Any, b: Any) -> np.ndarray:
        """Cosines of the vectors of sentences.

        Parameters
        ----------
        a, b : iterable of str or of token lists, table of one column, or Encoded

        Returns
        -------
        cosines : array, shape (n_a, n_b), float32
            Within [-1, 1]; 0 for sentences without an in-vocabulary word.
        """
        A = unit_rows(np.asarray(self.encode(a), np.float32))
        B = unit_rows(np.asarray(self.encode(b), np.float32))
        return np.clip(A @ B.T, -1.0, 1.0)

    def summed_table(self) -> VectorTable | None:
        """Table of which a sentence vector is a multiple of the sum of rows.

        Returns
        -------
        VectorTable or None
            None where a vector is no such sum.
        """
        return None

    def probe_vectors(self) -> np.ndarray:
        """Vectors of the ten sentences of the probe, computed now, (10, n_dims)."""
        return np.asarray(self.encode(list(PROBE)), np.float32)

    def accept_probe(self, vectors: np.ndarray) -> None:
        """Nothing, for an encoder without a cache."""

    def set_known_params(self: Any, **params: Any) -> Any:
        """Set those of the parameters that the encoder has; returns self."""
        own_params = self.get_params(deep=False)
        known_params = {name: value for name, value in params.items() if name in own_params}
        return self.set_params(**known_params)

    @property
    def _n_features_out(self: Any) -> int:
        return self.n_dims  # read by scikit-learn, for get_feature_names_out
