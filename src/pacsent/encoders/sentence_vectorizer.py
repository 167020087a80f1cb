"""SentenceVectorizer: the base class of every sentence method, a scikit-learn transformer.

The methods themselves are the files of the folder `encoders/methods`.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from itertools import count
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pacsent.encoders.batching import batches, gathered, joined, length
from pacsent.encoders.prepared import Derived, FittedOn
from pacsent.encoders.text_report import EmptySentenceWarning, TextReport
from pacsent.maths.arrays import unit_rows
from pacsent.parameter_checks import Interval, StrOptions, fit_context
from pacsent.storage import State, checked_tensor
from pacsent.text.encoded import Encoded, LowCoverageWarning
from pacsent.text.texts import as_sentences
from pacsent.threads import in_order, n_threads
from pacsent.words.fingerprint import MOST, Fingerprint
from pacsent.words.vectors import WordVectors

# parameters that change no number
_INDIFFERENT = frozenset({"on_empty", "batch_size", "n_jobs", "verbose"})
ROLES: dict = {"swap_roles": ["boolean"]}  # the constraint of methods whose tables can be swapped


@dataclass(frozen=True)
class Name:
    """What a name in `METHODS` stands for: parameters that it fixes, and its own defaults.

    `swaps`: whether `i-` before the name swaps the roles of the tables. `elsewhere` maps a
    parameter that the name does not take to the name that does.
    """

    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    swaps: bool = True


@dataclass(eq=False, repr=False)  # fields are the parameters; equality is identity
class SentenceVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base class of all methods: sentences in, Gaussian posteriors out.

    A subclass is a dataclass whose fields are its parameters. It extends
    `_parameter_constraints`, declares its `names` in `METHODS`, and writes `_fit(encoded)` and
    `_posterior(encoded)`; `_state` and `_restore` where it learns arrays.

    Attributes
    ----------
    n_empty_ : int
        Sentences without a known word in the last `fit`, `transform` or `posterior`.
    coverage_ : float
        Known tokens over all tokens there; nan when there was no token.
    n_sentences_ : int
        Sentences there.
    fingerprint_ : Fingerprint
        Of the training sentences, where the method learns from them (`learns_from_text`): a
        certificate that uses the method as it is refuses sentences that are among them.
    """

    names: ClassVar[Mapping[str, Name]] = {}
    in_table_space: ClassVar[bool] = True  # whether products with rows of the tables mean something
    learns_from_text: ClassVar[bool] = False  # whether `fit` reads more than the parameters
    swap_roles = False  # a parameter of methods with the constraint ROLES

    _parameter_constraints: ClassVar[dict] = {
        "word_vectors": [WordVectors],
        "on_empty": [StrOptions({"warn", "error", "ignore"})],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
    }
    # whether what `fit` learns depends on the numbers of the tables, or on the words alone
    _learns_from_tables: ClassVar[bool] = True

    word_vectors: WordVectors
    _: KW_ONLY
    on_empty: str = "warn"
    batch_size: int = 1024
    n_jobs: int | None = None

    # ---- to be written by subclasses -----------------------------------------------------------

    def _fit(self, encoded: Encoded) -> None:
        """Learn from the training sentences; nothing by default."""

    @abstractmethod
    def _posterior(self, encoded: Encoded):
        """(means, variances) of one batch. Empty sentences are overwritten by the caller."""

    def _prepared(self):
        """The function encoded, out -> (means, variances), with what all batches share done.

        `out` is where the means go, or None. The function runs on several threads at once and
        keeps nothing on `self`: whatever else a method reports about a batch it returns after the
        variances, and `_record` is given it.
        """

        def posterior(encoded, out=None):
            means, variances = self._posterior(encoded)
            if out is None:
                return means, variances
            out[...] = means
            return out, variances

        return posterior

    def _record(self, reports: list) -> None:
        """Set attributes from what `_prepared` returned about each batch."""

    @property
    def _paper_name(self) -> str:
        """The name in `METHODS` with these parameters, without `i-`; "" for none."""
        return next(iter(self.names), "")

    def _is_empty(self, encoded: Encoded) -> np.ndarray:
        """Which sentences of the batch have no word that the method uses."""
        return encoded.offsets[1:] == encoded.offsets[:-1]

    def summed_table(self) -> np.ndarray | None:
        """The table of which a vector is a multiple of the sum of rows; None where it is not."""
        return None

    def _needs_prior_table(self) -> bool:
        """Whether these settings read `B_hat` at all."""
        return True

    def _batch_size(self, n_sentences: int | None, n_jobs: int) -> int:
        """Sentences per batch, for a number of sentences (None: unknown) and of threads."""
        return self.batch_size

    def _n_threads(self) -> int:
        return n_threads(self.n_jobs)

    @property
    def _n_features_out(self):
        return self.word_vectors.n_dims

    # ---- saving --------------------------------------------------------------------------------

    kind = "SentenceVectorizer"

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
    def from_state(cls, state: State) -> "SentenceVectorizer":
        """The inverse of `state`."""
        try:
            made = cls(state.parts["words"], **state.config["parameters"])
        except TypeError as error:
            raise ValueError(
                f"it holds parameters that {cls.__name__} does not take ({error})"
            ) from None
        made._validate_params()
        made._restore(state.tensors)
        return made

    def _state(self) -> dict[str, np.ndarray]:
        """What `fit` learned, as arrays; `pacsent.save` stores it with the parameters."""
        self._check_ready()
        state = {"fit_report": np.array(self._fit_report, dtype=np.float64)}
        if hasattr(self, "fingerprint_"):
            seen = self.fingerprint_
            state["fingerprint.documents"], state["fingerprint.runs"] = seen.documents, seen.runs
            state["fingerprint.counts"] = np.array(list(seen.counts().values()), dtype=np.int64)
        return state

    def _restore(self, state: Mapping[str, np.ndarray]) -> None:
        """The inverse of `_state`, on an estimator that has its parameters."""
        report = checked_tensor(state, "fit_report", np.float64, (3,), finite=False).tolist()
        self.n_sentences_, self.n_empty_, self.coverage_ = int(report[0]), int(report[1]), report[2]
        self._remember_fit()
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

    # ---- the public methods --------------------------------------------------------------------

    @property
    def method_name(self) -> str:
        """The name in `METHODS` of the estimator with these parameters."""
        return ("i-" if self.swap_roles else "") + self._paper_name

    def __repr__(self, N_CHAR_MAX=700):
        name = f"{self.method_name}: " if self._paper_name else ""
        return name + super().__repr__(N_CHAR_MAX).replace("\n", "\n" + " " * len(name))

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> "SentenceVectorizer":
        """Learn what the method needs from training sentences.

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded
            Sentences. Token lists are taken as they are.
        y : ignored
        """
        self._tables()
        encoded = self.word_vectors.vocabulary.encode(X)
        report = TextReport()
        report.add(encoded, np.diff(encoded.offsets) == 0)
        self._finish(report, stacklevel=4)
        self._fit_number = getattr(self, "_fit_number", 0) + 1
        self._fit(encoded)
        self._remember_fit()
        if self.learns_from_text:
            self.fingerprint_ = Fingerprint.of(self.word_vectors.vocabulary, encoded, MOST // 4)
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """`fit(X)`, then `transform(X)`, tokenising once; so `X` may be a generator."""
        encoded = self.word_vectors.vocabulary.encode(X)
        with warnings.catch_warnings():
            if self.on_empty == "warn":  # `transform` warns of the same sentences
                warnings.simplefilter("ignore", EmptySentenceWarning)
                warnings.simplefilter("ignore", LowCoverageWarning)
            self.fit(encoded, y)
        return self.posterior(encoded)[0]  # an array: scikit-learn gives it the index of X

    def transform(self, X: Any) -> np.ndarray:
        """Means of the posteriors.

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded
            Sentences. A generator is read in batches of `batch_size`.

        Returns
        -------
        means : array, shape (n_sentences, n_dims), float32 (float64 if the tables are)
            Zero for sentences without a known word.
        """
        return self.posterior(X)[0]

    def encode(self, texts: Any) -> np.ndarray:
        """The same as `transform`, under the name that other libraries give it."""
        return self.posterior(texts)[0]

    def similarity(self, a: Any, b: Any) -> np.ndarray:
        """Cosines of the vectors of sentences, (n_a, n_b), within [-1, 1]."""
        A, B = (unit_rows(np.asarray(self.posterior(X)[0], np.float32)) for X in (a, b))
        return np.clip(A @ B.T, -1.0, 1.0)

    def posterior(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the posteriors N(mean, variance I).

        Returns
        -------
        means : array, shape (n_sentences, n_dims)
        variances : array, shape (n_sentences,), float64
            nan for sentences without a known word.
        """
        X, n_dims = self._sentences(X), self._n_features_out
        n = length(X)
        if n is None:
            return gathered(self._stream(X), n_dims, self._dtype)
        means = np.empty((n, n_dims), self._dtype)  # the batches are computed in their place
        return joined(self._stream(X, means), means)

    def stream(self, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (means, variances) batch by batch, `batch_size` sentences at a time.

        Memory does not grow with the number of sentences. The attributes of the report
        (`n_empty_`, `coverage_`) are set when the last batch has been taken.
        """
        return self._stream(self._sentences(X))

    def prepared(self) -> Callable[[Encoded], tuple[np.ndarray, np.ndarray]]:
        """Return the function Encoded -> (means, variances), for many calls.

        What all calls share is done beforehand; nothing is reported and no warning is issued, and
        several threads may call it at once. Change no parameter while it is in use.

        >>> from pacsent import make
        >>> vectorizer = make("SIF-sum", "english").fit([])
        >>> solve = vectorizer.prepared()
        >>> means, variances = solve(vectorizer.word_vectors.vocabulary.encode(["good wine"]))
        >>> bool((means == vectorizer.transform(["good wine"])).all())
        True
        """
        self._check_ready()
        posterior = self._prepared()

        def solve(encoded: Encoded):
            means, variances = posterior(encoded, None)[:2]
            _clear(means, variances, self._is_empty(encoded))
            return means, variances

        return solve

    def sample(
        self, X: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> np.ndarray:
        """Draw from the posteriors.

        Returns
        -------
        samples : array, shape (n_samples, n_sentences, n_dims)
            Sentences without a known word have no posterior: nan.
        """
        rng = check_random_state(random_state)
        means, variances = self.posterior(X)
        noise = rng.standard_normal((n_samples, *means.shape))
        noise *= np.sqrt(variances)[:, None]
        noise += means
        return noise.astype(means.dtype)

    # ---- how it works --------------------------------------------------------------------------

    def _sentences(self, X):
        """What `X` holds, ready to be cut into batches: sentences, or an Encoded that fits."""
        if isinstance(X, Encoded):
            return X.checked(self.word_vectors.n_words)
        return as_sentences(X)

    def _stream(self, X, out=None):
        self._check_ready()
        report, n_lost, reports = TextReport(), 0, []
        for encoded, finite, means, variances, *more in self._batches(X, out):
            empty = self._is_empty(encoded)
            _clear(means, variances, empty)
            report.add(encoded, empty)
            report.refuse_empty(self.on_empty, self.word_vectors.vocabulary)
            if not finite:  # rows are looked at only then
                n_lost += self._n_lost(encoded, means)
            reports += more
            yield means, variances
        self._record(reports)
        self._finish(report, stacklevel=4)
        if n_lost:
            warnings.warn(
                f"{n_lost:,} of {report.n_sentences:,} vectors are not finite numbers, although "
                "those of their words are: the method diverged. Choose other parameters.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _batches(self, X, out=None):
        """Yield (encoded, whether all is finite, means, variances, ...), batch by batch, in order.

        Threads compute them.
        """
        posterior, vocabulary = self._prepared(), self.word_vectors.vocabulary

        def work(start_and_part):
            start, part = start_and_part
            encoded = part
            if not isinstance(part, Encoded):
                encoded = vocabulary._encode_rows(part, start, n_jobs=1)
            place = None if out is None else out[start : start + encoded.n_sentences]
            means, *more = posterior(encoded, place)
            with np.errstate(over="ignore", invalid="ignore"):
                finite = np.isfinite(means.sum())  # one pass, while the numbers are in the cache
            return encoded, finite, means, *more

        n_jobs = self._n_threads()
        size = self._batch_size(length(X), n_jobs)
        parts = zip(count(0, size), batches(X, size))
        # a few batches ahead, so that no thread waits and memory stays bounded
        return in_order(work, parts, n_jobs, ahead=n_jobs + 1)

    def _n_lost(self, encoded, means) -> int:
        """Number of vectors that are not finite; an error where a word's own vector is not."""
        lost = np.flatnonzero(~np.isfinite(means).all(axis=1))
        if lost.size:
            self.word_vectors.check_rows(encoded.take(lost).ids)
        return lost.size

    def _finish(self, report: TextReport, stacklevel: int):
        """Set the attributes of the report, and warn of what it found."""
        self.n_sentences_, self.n_empty_ = report.n_sentences, report.n_empty
        self.coverage_ = report.coverage
        report.warn(self.on_empty, self.word_vectors.vocabulary, stacklevel + 1)

    def _remember_fit(self):
        """Keep what was fitted on, and its report: a later `transform` changes neither."""
        self._fit_report = self.n_sentences_, self.n_empty_, self.coverage_
        learns = type(self)._fit is not SentenceVectorizer._fit
        self._fitted_on = None
        if learns:
            self._fitted_on = FittedOn(self.word_vectors, self.swap_roles, self._learns_from_tables)

    def _check_ready(self):
        """Refuse an estimator that is not fitted, or whose word vectors were replaced."""
        check_is_fitted(self)
        if self._fitted_on is not None:
            self._fitted_on.check(self.word_vectors, self.swap_roles, type(self).__name__)
        self._tables()

    def _derived(self, name: str, make: Callable[[], Any]) -> Any:
        """A value that follows from the parameters and from `fit`; made when first needed."""
        kept = self.__dict__.setdefault("_derived_values", Derived())
        parameters = (p for p in self._parameter_constraints if p not in _INDIFFERENT)
        key = (getattr(self, "_fit_number", 0), *(getattr(self, p) for p in parameters))
        return kept.get(key, name, make)

    @property
    def _dtype(self):
        tables = (self.word_vectors.input_vectors, self.word_vectors.output_vectors)
        wide = any(table is not None and table.dtype == np.float64 for table in tables)
        return np.dtype(np.float64 if wide else np.float32)

    def _tables(self):
        """(A_hat, B_hat); B_hat may be None where these settings do not read it."""
        words = self.word_vectors
        if words.output_vectors is None and not self.swap_roles and not self._needs_prior_table():
            return words.input_vectors, None
        return words.roles(swap=self.swap_roles, method=type(self).__name__)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


def _clear(means, variances, empty):
    """Mean 0 and variance nan for sentences without a posterior."""
    if empty.any():
        means[empty], variances[empty] = 0, np.nan
