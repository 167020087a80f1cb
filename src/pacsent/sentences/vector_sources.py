"""Sources of vectors outside of pacsent: objects, functions, computed vectors."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from pacsent.sentences.probe import PROBE
from pacsent.text.texts import as_texts


class VectorSource(ABC):
    """Something that gives vectors of texts, and of the ten sentences by which it is recognised."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in messages and saved models."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Any:
        """Vectors of the texts, as the source gives them: nothing about them is checked."""

    def probe(self) -> Any:
        """Vectors of the ten sentences; those that were received before are good enough."""
        return self.encode(list(PROBE))

    def current_probe(self) -> Any:
        """Vectors of the ten sentences, computed now."""
        return self.probe()

    def accept_probe(self, vectors: np.ndarray) -> None:  # noqa: B027 - most have no cache
        """Take notice that these vectors of the ten sentences are those that were expected."""


class ForeignSource(VectorSource):
    """An object of another library with `encode` or `transform`, or a function.

    Raises TypeError if there is no such function.

    >>> ForeignSource(len).name
    'len'
    """

    def __init__(self, encoder: Any):
        self._name = getattr(encoder, "__name__", type(encoder).__name__)
        self._function = _find_function(encoder)

    @property
    def name(self) -> str:
        return self._name

    def encode(self, texts: Sequence[str]) -> Any:
        """Return the output of its function for the texts."""
        return self._function(texts)


def _find_function(encoder: Any) -> Callable[[Sequence[str]], Any]:
    """The function of an object from a list of str to vectors."""
    if not isinstance(encoder, type | str):
        methods = (getattr(encoder, "encode", None), getattr(encoder, "transform", None))
        for function in (*methods, encoder):
            if callable(function):
                return function
    raise TypeError(
        "encoder must be an object with encode or transform, a function from texts to vectors, a "
        f"URL, or a model of pacsent. Got {type(encoder).__name__} instead. Pass 'english', for "
        "example."
    )


class StoredVectors(VectorSource):
    """Vectors computed elsewhere, looked up by their texts."""

    def __init__(self, texts: Iterable[str], vectors: Any):
        texts = as_texts(texts)
        self.vectors = np.asarray(vectors)
        if self.vectors.ndim != 2 or len(self.vectors) != len(texts):
            raise ValueError(
                f"vectors must have shape ({len(texts)}, n_dims), one row for each text. Got "
                f"{self.vectors.shape} instead."
            )

        self._rows: dict[str, int] = {}
        for row, text in enumerate(texts):
            first = self._rows.setdefault(text, row)
            if not np.array_equal(self.vectors[first], self.vectors[row]):
                raise ValueError(
                    f"A text must have one vector. Got two for {text[:40]!r}, in rows {first} and "
                    f"{row}. Remove one of them."
                )

    @property
    def name(self) -> str:
        return "stored vectors"

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """The rows of the texts."""
        missing = [text for text in texts if text not in self._rows]
        if missing:
            raise ValueError(
                f"{len(missing):,} of {len(texts):,} texts have no vector (first: "
                f"{missing[0][:40]!r}). Give the vectors of these texts too."
            )
        return self.vectors[[self._rows[text] for text in texts]]

    def probe(self) -> np.ndarray:
        """Zeros: nothing can be encoded, only looked up."""
        return np.zeros((len(PROBE), self.vectors.shape[1]), np.float32)


def as_float_array(output: Any) -> np.ndarray:
    """Return vectors of another library in single precision; TypeError if they are no numbers.

    >>> as_float_array([[1, 2.5]])
    array([[1. , 2.5]], dtype=float32)
    """
    values = output.toarray() if hasattr(output, "toarray") else output
    if np.ma.isMaskedArray(values):
        values = np.ma.filled(values.astype(np.float32), np.nan)  # not a number: rejected later
    vectors = np.asarray(values)

    # Strings would be read as numbers, and complex numbers cut to real ones.
    if vectors.dtype.kind == "O":
        is_number_array = all(isinstance(value, Real) for value in vectors.ravel())
    else:
        is_number_array = vectors.dtype.kind in "biuf"
    if not is_number_array:
        raise TypeError(f"vectors must be numbers. Got an array of {vectors.dtype} instead.")
    return vectors.astype(np.float32)
