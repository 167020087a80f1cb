"""What a fitted method keeps: derived values, the word vectors of `fit`, and its saved form."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pacsent.storage import State, checked_tensor
from pacsent.words.fingerprint import Fingerprint
from pacsent.words.vectors import WordVectors

# Parameters that change no number.
_INDIFFERENT = frozenset({"on_empty", "batch_size", "n_jobs", "verbose"})


class DerivedValues:
    """Values that follow from the parameters and from what `fit` learned.

    A value is made when it is first needed, once for all threads, and dropped as soon as `key`
    changes: the parameters and whatever else the values depend on. Copies and pickles start empty.
    """

    def __init__(self):
        self._key: tuple = ()
        self._values: dict[str, Any] = {}
        self._lock = threading.RLock()

    def get(self, key: tuple, name: str, make: Callable[[], Any]) -> Any:
        """Return the value with this name; `make` it if there is none for this key."""
        with self._lock:
            if not _is_same(key, self._key):
                self._key, self._values = key, {}
            if name not in self._values:
                self._values[name] = make()
            return self._values[name]

    def __reduce__(self):
        return DerivedValues, ()


def _is_same(a: tuple, b: tuple) -> bool:
    """Numbers and names are compared by value, anything else by identity."""
    plain = (bool, int, float, str)
    return len(a) == len(b) and all(
        x is y or (isinstance(x, plain) and isinstance(y, plain) and x == y) for x, y in zip(a, b)
    )


class FittedState:
    """How a method remembers what it was fitted on, and how it is saved."""

    kind = "SentenceVectorizer"
    # Attributes of the methods that this class uses.
    word_vectors: WordVectors
    swap_roles: bool
    n_sentences_: int
    n_empty_: int
    coverage_: float
    fingerprint_: Fingerprint
    _parameter_constraints: ClassVar[dict]
    get_params: Callable
    _validate_params: Callable
    _check_ready: Callable
    _learns: Callable
    # Whether what `fit` learns depends on the numbers of the word vectors, or on the words alone.
    _learns_from_tables = True
    # (word vectors, swap_roles) of `fit`; None for a method that learns nothing.
    _fitted_on: tuple[WordVectors, bool] | None = None

    def _derived(self, name: str, make: Callable[[], Any]) -> Any:
        """A value that follows from the parameters and from `fit`; made when first needed."""
        values = self.__dict__.setdefault("_derived_values", DerivedValues())
        parameters = (p for p in self._parameter_constraints if p not in _INDIFFERENT)
        key = (getattr(self, "_fit_number", 0), *(getattr(self, p) for p in parameters))
        return values.get(key, name, make)

    def _remember_fit(self, learns: bool):
        """Keep what was fitted on, and its report: a later `transform` changes neither."""
        self._fit_report = self.n_sentences_, self.n_empty_, self.coverage_
        self._fitted_on = (self.word_vectors, self.swap_roles) if learns else None

    def _check_fitted(self):
        """Raise an error if it is not fitted, or was fitted with other word vectors."""
        check_is_fitted(self)
        if self._fitted_on is None:
            return
        (fitted, swap_roles), words, changed = self._fitted_on, self.word_vectors, None
        if words is not fitted:
            if self._learns_from_tables:
                changed = "word_vectors" if words.digest() != fitted.digest() else None
            elif words.vocabulary is not fitted.vocabulary and words.words != fitted.words:
                changed = "word_vectors, with other words,"
        elif self._learns_from_tables and swap_roles != self.swap_roles:
            changed = "swap_roles"
        if changed:
            raise ValueError(
                f"{type(self).__name__} must be fitted with the word vectors it is used with. Got "
                f"other {changed} after fit instead. Call fit again."
            )
        self._fitted_on = words, swap_roles  # the same numbers: not compared again

    def state(self) -> State:
        """What `pacsent.save` writes: parameters, what `fit` learned, the word vectors."""
        check_is_fitted(self)
        parameters = dict(self.get_params(deep=False))
        words = parameters.pop("word_vectors")
        config = {
            "class": type(self).__name__,
            "parameters": parameters,
            "corpus_digest": words.corpus_digest,
        }
        arrays = {name: np.asarray(array) for name, array in self._state().items()}
        return State(config, arrays, parts={"words": words})

    @classmethod
    def from_state(cls, state: State) -> Any:
        """The inverse of `state`."""
        construct: Any = cls
        try:
            method = construct(state.parts["words"], **state.config["parameters"])
        except TypeError as error:
            raise ValueError(
                f"it holds parameters that {cls.__name__} does not take ({error})"
            ) from None
        method._validate_params()
        method._restore(state.tensors)
        return method

    def _state(self) -> dict[str, np.ndarray]:
        """What `fit` learned, as arrays; subclasses add their own."""
        self._check_ready()
        state = {"fit_report": np.array(self._fit_report, dtype=np.float64)}
        if hasattr(self, "fingerprint_"):
            fingerprint = self.fingerprint_
            state["fingerprint.documents"] = fingerprint.documents
            state["fingerprint.runs"] = fingerprint.runs
            counts = list(fingerprint.counts().values())
            state["fingerprint.counts"] = np.array(counts, dtype=np.int64)
        return state

    def _restore(self, state: Mapping[str, np.ndarray]) -> None:
        """The inverse of `_state`, on an estimator that has its parameters."""
        report = checked_tensor(state, "fit_report", np.float64, (3,), finite=False).tolist()
        self.n_sentences_, self.n_empty_, self.coverage_ = int(report[0]), int(report[1]), report[2]
        self._remember_fit(self._learns())
        if "fingerprint.documents" in state:
            self.fingerprint_ = Fingerprint(
                checked_tensor(state, "fingerprint.documents", np.uint64, (None,)),
                checked_tensor(state, "fingerprint.runs", np.uint64, (None,)),
                *checked_tensor(state, "fingerprint.counts", np.int64, (3,)).tolist(),
            )

    def _saved_words(self, state, name) -> np.ndarray:
        """Ids of words in a saved state, all different and below `n_words`."""
        n_words = self.word_vectors.n_words
        words = checked_tensor(state, name, np.int64, (None,), low=0, below=n_words)
        if np.unique(words).size != words.size:
            raise ValueError(f"{name} names a word twice")
        return words
