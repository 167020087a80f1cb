"""The state of a fitted method: learned values, their form in files, values derived from them."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pacsent.storage import checked_tensor
from pacsent.words.fingerprint import Fingerprint
from pacsent.words.vectors import WordVectors


@dataclass(frozen=True)
class Learned:
    """An array that `fit` learns and that is saved: `name` is the attribute `name_`.

    `shape` consists of numbers, None for any length, "n_words" or "n_dims" of the word vectors, and
    names of arrays before it that are as long; () is a plain number. `dtype` None is that of the
    tables. `is_words`: ids of different words.
    """

    dtype: Any
    shape: tuple[int | str | None, ...]
    low: float | None = None
    finite: bool = True
    is_words: bool = False

    def read(
        self, tensors: Mapping[str, np.ndarray], name: str, method: Any, values: Mapping[str, Any]
    ) -> Any:
        """The value in a saved state, if it is what the method relies on.

        `values` are those that were read before.
        """
        words = method.word_vectors
        sizes = {"n_words": words.n_words, "n_dims": words.n_dims}
        shape: list[int | None] = []
        for size in self.shape:
            if not isinstance(size, str):
                shape.append(size)
            elif size in sizes:
                shape.append(sizes[size])
            else:
                shape.append(len(values[size]))

        limits = {"low": 0, "below": words.n_words} if self.is_words else {"low": self.low}
        dtype = self.dtype or method._dtype
        array = checked_tensor(tensors, name, dtype, tuple(shape), finite=self.finite, **limits)
        if self.is_words and np.unique(array).size != array.size:
            raise ValueError(f"{name} names a word twice")
        return array if shape else array.item()


WORD_IDS = Learned(np.int64, (None,), is_words=True)


class FitReport(NamedTuple):
    """Counts of the sentences that `fit` was given."""

    n_sentences: int
    n_empty: int
    coverage: float


@dataclass(frozen=True)
class FittedState:
    """Result of `fit`. The next `fit` replaces it as a whole.

    `values` are the attributes `name_` by name; those that the class lists as `learned` are saved.
    They hold for `word_vectors` and `swap_roles` alone.
    """

    values: Mapping[str, Any]
    report: FitReport
    word_vectors: WordVectors
    swap_roles: bool
    fingerprint: Fingerprint | None = None  # of the sentences, if the method learns from them


class DerivedValues:
    """Values that follow from the parameters and from what `fit` learned.

    A value is made when it is first needed, once for all threads, and dropped as soon as `key`
    changes: the parameters and whatever else the values depend on. Copies and pickles start empty.
    """

    def __init__(self) -> None:
        self._key: tuple = ()
        self._values: dict[str, Any] = {}
        self._lock = threading.RLock()

    def get(self, key: tuple, name: str, make: Callable[[], Any]) -> Any:
        """Return the value with this name; `make` it if there is none for this key."""
        with self._lock:
            is_same_key = len(key) == len(self._key) and all(map(_is_same, key, self._key))
            if not is_same_key:
                self._key = key
                self._values = {}
            if name not in self._values:
                self._values[name] = make()
            return self._values[name]

    def __reduce__(self) -> tuple[type["DerivedValues"], tuple[()]]:
        return DerivedValues, ()


def _is_same(a: Any, b: Any) -> bool:
    """Numbers and strings are compared by value, anything else by identity."""
    if a is b:
        return True
    plain = (bool, int, float, str)
    return isinstance(a, plain) and isinstance(b, plain) and a == b
