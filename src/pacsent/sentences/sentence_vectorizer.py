"""SentenceVectorizer: the base class of every sentence method, a scikit-learn transformer.

The methods themselves are the files of the folder `sentences/methods`.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pacsent.parameter_checks import Interval, StrOptions, check_before, check_parameters
from pacsent.sentences.encoder import EncoderMixin, Posteriors
from pacsent.sentences.encoding import (
    BatchPosterior,
    EmptySentenceWarning,
    EncodingReport,
    clear_empty,
    stream_posteriors,
)
from pacsent.sentences.fitted_state import DerivedValues, FitReport, FittedState, Learned
from pacsent.sentences.posterior_terms import PosteriorTerms
from pacsent.storage import State, checked_tensor
from pacsent.text.encoded import Encoded, LowCoverageWarning
from pacsent.text.texts import as_sentences
from pacsent.words.fingerprint import MAX_HASHES, Fingerprint
from pacsent.words.vector_table import VectorTable
from pacsent.words.vectors import WordVectors

ROLES: dict = {"swap_roles": ["boolean"]}  # the constraint of methods whose tables can be swapped

# Parameters that change no number.
_NON_RESULT_PARAMS = frozenset({"on_empty", "batch_size", "n_jobs", "verbose"})


@dataclass(frozen=True)
class Name:
    """Meaning of a name in `METHODS`: parameters that it fixes, and its own defaults.

    `swaps`: whether `i-` before the name swaps the roles of the tables.
    """

    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    swaps: bool = True


@dataclass(eq=False, repr=False)  # fields are the parameters; equality is identity
class SentenceVectorizer(
    ClassNamePrefixFeaturesOutMixin, EncoderMixin, PosteriorTerms, BaseEstimator, ABC
):
    """Base class of all methods: sentences in, Gaussian posteriors out.

    A subclass is a dataclass whose fields are its parameters. It has `_parameter_constraints`, its
    `names`, what it has `learned`, `_learn(encoded)` and `_prepared()`.

    Attributes
    ----------
    n_empty_ : int
        Sentences without an in-vocabulary word in the last `fit`, `transform` or `posterior`.
    coverage_ : float
        Known tokens over all tokens there; nan when there was no token.
    n_sentences_ : int
        Sentences there.
    fingerprint_ : Fingerprint
        Of the training sentences, where the method learns from them (`learns_from_text`): a
        certificate that uses the method as it is refuses sentences that are among them.

    >>> SentenceVectorizer.learns_from_text  # PB-IDF-L2 and others do
    False
    """

    kind = "SentenceVectorizer"
    names: ClassVar[Mapping[str, Name]] = {}
    learned: ClassVar[Mapping[str, Learned]] = {}  # what `fit` sets and `pacsent.save` writes
    # What else `_learn` returns that can be made again from what is learned, and is not saved.
    derived: ClassVar[tuple[str, ...]] = ()
    in_table_space: ClassVar[bool] = True  # whether products with rows of the tables mean something
    swap_roles = False  # a parameter of methods with the constraint ROLES

    _parameter_constraints: ClassVar[dict] = {
        "word_vectors": [WordVectors],
        "on_empty": [StrOptions({"warn", "error", "ignore"})],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
    }

    _fitted = cast(FittedState | None, None)  # not annotated: it is no field

    word_vectors: WordVectors
    _: KW_ONLY
    on_empty: str = "warn"
    batch_size: int = 1024
    n_jobs: int | None = None

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Learned attributes, such as `idf_`: `_assign` sets them by their names."""

    # ---- to be written by subclasses -----------------------------------------------------------

    def _learn(self, encoded: Encoded) -> dict[str, Any]:
        """Return what is learned from the training sentences, by name: nothing by default.

        The value `name` becomes the attribute `name_`; a name in `derived` a derived value.
        """
        return {}

    @abstractmethod
    def _prepared(self) -> BatchPosterior:
        """Return a function (encoded, means) -> (variances, report) of one batch.

        It writes the means; the caller overwrites those of empty sentences. What all batches share
        is done beforehand. The function runs on several threads at once and keeps nothing on
        `self`: `_record` receives the reports about the batches, None for most methods.
        """

    def _record(self, reports: list) -> None:
        """Set attributes from the reports about the batches."""

    @property
    def _paper_name(self) -> str:
        """The name in `METHODS` with these parameters, without `i-`; "" for none."""
        return next(iter(self.names), "")

    def _needs_prior_table(self) -> bool:
        """True if these settings read `B_hat` at all."""
        return True

    def _batch_size(self, n_sentences: int, n_jobs: int) -> int:
        """Sentences per batch, for a number of sentences (-1: unknown) and of threads."""
        return self.batch_size

    @property
    def n_dims(self) -> int:
        """Numbers of a vector."""
        return self.word_vectors.n_dims

    @property
    def is_fitted(self) -> bool:
        """True if it can encode sentences."""
        return self.__sklearn_is_fitted__()

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    # ---- the public methods --------------------------------------------------------------------

    @property
    def method_name(self) -> str:
        """The name in `METHODS` of the estimator with these parameters."""
        return ("i-" if self.swap_roles else "") + self._paper_name

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = super().__repr__(N_CHAR_MAX)
        if not self._paper_name:
            return text
        name = f"{self.method_name}: "
        indent = " " * len(name)
        return name + text.replace("\n", "\n" + indent)

    @check_before
    def fit(self, X: Any, y: Any = None) -> "SentenceVectorizer":
        """Learn what the method needs from training sentences.

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded
            Sentences. Token lists are taken as they are.
        y : ignored

        Returns
        -------
        self
        """
        self._check_tables()
        encoded = self.word_vectors.vocabulary.encode(X)
        report = EncodingReport()
        report.add(encoded, np.diff(encoded.offsets) == 0)
        report.warn(self.on_empty, self.word_vectors.vocabulary, stacklevel=4)

        values = self._learn(encoded)
        derived = {name: values.pop(name) for name in self.derived if name in values}
        self._assign(self._fitted_state(values, report, encoded))
        for name, value in derived.items():
            self._derived(name, partial(_identity, value))
        return self

    def _fitted_state(
        self, values: dict[str, Any], report: EncodingReport, encoded: Encoded
    ) -> FittedState:
        fingerprint = None
        if self.learns_from_text:
            fingerprint = Fingerprint.of(self.word_vectors.vocabulary, encoded, MAX_HASHES // 4)
        return FittedState(
            values=values,
            report=FitReport(report.n_sentences, report.n_empty, report.coverage),
            word_vectors=self.word_vectors,
            swap_roles=self.swap_roles,
            fingerprint=fingerprint,
        )

    def _assign(self, fitted: FittedState) -> None:
        """Use what `fit` computed, or what was saved: the only place that sets what is learned."""
        self._fitted = fitted
        for name, value in fitted.values.items():
            setattr(self, f"{name}_", value)
        self.n_sentences_, self.n_empty_, self.coverage_ = fitted.report
        if fitted.fingerprint is not None:
            self.fingerprint_ = fitted.fingerprint

    @check_before
    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """`fit(X)`, then `transform(X)`, tokenising once; so `X` may be a generator.

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded
        y : ignored

        Returns
        -------
        means : array, shape (n_sentences, n_dims)
        """
        encoded = self.word_vectors.vocabulary.encode(X)
        with warnings.catch_warnings():
            if self.on_empty == "warn":  # `transform` warns of the same sentences
                warnings.simplefilter("ignore", EmptySentenceWarning)
                warnings.simplefilter("ignore", LowCoverageWarning)
            self.fit(encoded, y)
        return self.posterior(encoded)[0]  # an array: scikit-learn gives it the index of X

    def posterior(self, X: Any) -> Posteriors:
        """Means and variances of the posteriors N(mean, variance I).

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded

        Returns
        -------
        means : array, shape (n_sentences, n_dims)
        variances : array, shape (n_sentences,), float64
            nan for sentences without an in-vocabulary word.
        """
        X = self._sentences(X)
        X = X if isinstance(X, Encoded) else list(X)
        n_sentences = X.n_sentences if isinstance(X, Encoded) else len(X)
        means = np.empty((n_sentences, self.n_dims), self._dtype)

        variances = [np.empty(0)]
        for _, batch_variances in self._stream(X, means):
            variances.append(batch_variances)
        return means, np.concatenate(variances)

    def stream(self, X: Any) -> Iterator[Posteriors]:
        """Yield (means, variances) batch by batch, `batch_size` sentences at a time.

        Memory does not grow with the number of sentences. The attributes of the report
        (`n_empty_`, `coverage_`) are set when the last batch has been taken.

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded

        Yields
        ------
        means : array, shape (n_batch, n_dims)
        variances : array, shape (n_batch,)
        """
        return self._stream(self._sentences(X))

    def prepared(self) -> Callable[[Encoded], Posteriors]:
        """Return the function Encoded -> (means, variances), for many calls.

        What all calls share is done beforehand; nothing is reported and no warning is issued, and
        several threads may call it at once. Change no parameter while it is in use.

        Returns
        -------
        callable
        """
        self._check_ready()
        posterior = self._prepared()
        n_dims = self.n_dims
        dtype = self._dtype

        def solve(encoded: Encoded) -> Posteriors:
            means = np.empty((encoded.n_sentences, n_dims), dtype)
            variances, _ = posterior(encoded, means)
            clear_empty(means, variances, encoded)
            return means, variances

        return solve

    def sample(
        self, X: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> np.ndarray:
        """Draw from the posteriors.

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded
        n_samples : int, default=1
            Draws from each posterior.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        samples : array, shape (n_samples, n_sentences, n_dims)
            Sentences without an in-vocabulary word have no posterior: nan.
        """
        rng = check_random_state(random_state)
        means, variances = self.posterior(X)
        noise = rng.standard_normal((n_samples, *means.shape))
        noise *= np.sqrt(variances)[:, None]
        noise += means
        return noise.astype(means.dtype)

    # ---- how it works --------------------------------------------------------------------------

    def _sentences(self, X: Any) -> Any:
        """`X`, ready to be cut into batches: sentences, or an Encoded that fits."""
        if isinstance(X, Encoded):
            return X.checked(self.word_vectors.n_words)
        return as_sentences(X)

    def _stream(self, X: Any, out: np.ndarray | None = None) -> Iterator[Posteriors]:
        self._check_ready()
        report = EncodingReport()
        yield from stream_posteriors(self, X, report, out)
        self._finish(report, stacklevel=4)

    def _finish(self, report: EncodingReport, stacklevel: int) -> None:
        """Set the attributes of the report, and warn of what it found."""
        self.n_sentences_ = report.n_sentences
        self.n_empty_ = report.n_empty
        self.coverage_ = report.coverage
        report.warn(self.on_empty, self.word_vectors.vocabulary, stacklevel + 1)

    def _derived(self, name: str, make: Callable[[], Any]) -> Any:
        """A value that follows from the parameters and from `fit`; made when first needed."""
        values = self.__dict__.setdefault("_derived_values", DerivedValues())
        parameters = [p for p in self._parameter_constraints if p not in _NON_RESULT_PARAMS]
        # What was learned is compared by identity, and stays the same for equal word vectors.
        learned = None if self._fitted is None else self._fitted.values
        settings = [getattr(self, parameter) for parameter in parameters]
        return values.get((learned, *settings), name, make)

    def _check_ready(self) -> None:
        """Raise an error if it is not fitted, or word vectors were replaced or lack a table."""
        if not self.is_fitted:
            check_is_fitted(self)  # raises
        if self._fitted is not None and self._fitted.values:
            self._check_word_vectors(self._fitted)
        self._check_tables()

    def _check_word_vectors(self, fitted: FittedState) -> None:
        """Raise an error if what was learned belongs to other word vectors or roles."""
        words = self.word_vectors
        is_same_object = words is fitted.word_vectors
        changed = ""
        if fitted.swap_roles != self.swap_roles:
            changed = "swap_roles"
        elif not is_same_object and words.digest() != fitted.word_vectors.digest():
            changed = "word_vectors"
        if changed:
            raise ValueError(
                f"{type(self).__name__} must be fitted with the word vectors it is used with. "
                f"Got other {changed} after fit instead. Call fit again."
            )
        if not is_same_object:  # the same numbers: they are not compared again
            self._fitted = replace(fitted, word_vectors=words)

    @property
    def _dtype(self) -> np.dtype:
        is_wide = any(table.is_double for table in self.word_vectors.tables.values())
        return np.dtype(np.float64 if is_wide else np.float32)

    def _tables(self) -> Any:
        """(A_hat, B_hat); B_hat may be None where these settings do not read it."""
        return tuple(None if table is None else table.array for table in self._vector_tables())

    def _vector_tables(self) -> tuple[VectorTable, VectorTable | None]:
        """`_tables`, of which nothing is read yet."""
        words = self.word_vectors
        if "output" not in words.tables:
            needs_output = self.swap_roles or self._needs_prior_table()
            if not needs_output:
                return words.tables["input"], None
        return words.role_tables(swap=self.swap_roles, method=type(self).__name__)

    def _check_tables(self) -> None:
        """Raise an error if the word vectors lack a table that these settings read."""
        self._vector_tables()

    # ---- files ---------------------------------------------------------------------------------

    def state(self) -> State:
        """The state that `pacsent.save` writes.

        Returns
        -------
        State
            Parameters, learned arrays and the word vectors.
        """
        parameters = dict(self.get_params(deep=False))
        words = parameters.pop("word_vectors")
        config = {"class": type(self).__name__, "parameters": parameters}
        return State(config, self._state(), parts={"words": words})

    @classmethod
    def from_state(cls, state: State) -> Any:
        """Make the method from its saved state.

        Parameters
        ----------
        state : State
            As `state` returns it; every value is checked.

        Returns
        -------
        SentenceVectorizer
        """
        try:
            method = cls(state.parts["words"], **state.config["parameters"])
        except TypeError as error:
            message = f"it holds parameters that {cls.__name__} does not take ({error})"
            raise ValueError(message) from None
        check_parameters(method)
        method._restore(state.tensors)
        return method

    def _state(self) -> dict[str, np.ndarray]:
        """Learned values, as arrays."""
        self._check_ready()
        fitted = cast(FittedState, self._fitted)
        state = {name: np.asarray(fitted.values[name]) for name in self.learned}
        state["fit_report"] = np.array(fitted.report, dtype=np.float64)
        if fitted.fingerprint is not None:
            state["fingerprint.documents"] = fitted.fingerprint.documents
            state["fingerprint.runs"] = fitted.fingerprint.runs
            counts = list(fitted.fingerprint.counts().values())
            state["fingerprint.counts"] = np.array(counts, dtype=np.int64)
        return state

    def _restore(self, state: Mapping[str, np.ndarray]) -> None:
        """The inverse of `_state`, on an estimator that has its parameters."""
        values = self._read_values(state)
        report = checked_tensor(state, "fit_report", np.float64, (3,), finite=False).tolist()

        fingerprint = None
        if "fingerprint.documents" in state:
            documents = checked_tensor(state, "fingerprint.documents", np.uint64, (None,))
            runs = checked_tensor(state, "fingerprint.runs", np.uint64, (None,))
            counts = checked_tensor(state, "fingerprint.counts", np.int64, (3,))
            fingerprint = Fingerprint(documents, runs, *counts.tolist())

        self._assign(
            FittedState(
                values=values,
                report=FitReport(int(report[0]), int(report[1]), report[2]),
                word_vectors=self.word_vectors,
                swap_roles=self.swap_roles,
                fingerprint=fingerprint,
            )
        )

    def _read_values(self, state: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Learned values of a saved state; each is checked."""
        values: dict[str, Any] = {}
        for name, spec in self.learned.items():
            values[name] = spec.read(state, name, self, values)
        return values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


def _identity(value: Any) -> Any:
    return value
