"""SentenceVectorizer: the base class of every sentence method, a scikit-learn transformer.

The methods themselves are the files of the folder `encoders/methods`.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_random_state

from pacsent.encoders.encoding import (
    EmptySentenceWarning,
    EncoderMixin,
    EncodingReport,
    clear_empty,
    collect,
    length,
    stream_posteriors,
)
from pacsent.encoders.fitted_state import FittedState
from pacsent.parameter_checks import Interval, StrOptions, fit_context
from pacsent.text.encoded import Encoded, LowCoverageWarning
from pacsent.text.texts import as_sentences
from pacsent.threads import n_threads
from pacsent.words.fingerprint import MOST, Fingerprint
from pacsent.words.vectors import WordVectors

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
class SentenceVectorizer(
    ClassNamePrefixFeaturesOutMixin, EncoderMixin, FittedState, BaseEstimator, ABC
):
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
    is_distilled: ClassVar[bool] = False  # whether the vectors are those of another encoder
    learns_from_text: ClassVar[bool] = False  # whether `fit` reads more than the parameters
    swap_roles = False  # a parameter of methods with the constraint ROLES

    _parameter_constraints: ClassVar[dict] = {
        "word_vectors": [WordVectors],
        "on_empty": [StrOptions({"warn", "error", "ignore"})],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
    }

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
        report = EncodingReport()
        report.add(encoded, np.diff(encoded.offsets) == 0)
        self._finish(report, stacklevel=4)
        self._fit_number = getattr(self, "_fit_number", 0) + 1
        self._fit(encoded)
        self._remember_fit(self._learns())
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
            return collect(self._stream(X), n_dims, self._dtype)
        means = np.empty((n, n_dims), self._dtype)  # the batches are computed in their place
        variances = [np.empty(0), *(part for _, part in self._stream(X, means))]
        return means, np.concatenate(variances)

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
            clear_empty(means, variances, self._is_empty(encoded))
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
        report = EncodingReport()
        yield from stream_posteriors(self, X, report, out)
        self._finish(report, stacklevel=4)

    def _finish(self, report: EncodingReport, stacklevel: int):
        """Set the attributes of the report, and warn of what it found."""
        self.n_sentences_, self.n_empty_ = report.n_sentences, report.n_empty
        self.coverage_ = report.coverage
        report.warn(self.on_empty, self.word_vectors.vocabulary, stacklevel + 1)

    def _learns(self) -> bool:
        return type(self)._fit is not SentenceVectorizer._fit

    def _check_ready(self):
        """Raise an error if it is not fitted, or word vectors were replaced or lack a table."""
        self._check_fitted()
        self._tables()

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
