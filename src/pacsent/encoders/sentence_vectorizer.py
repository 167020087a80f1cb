"""Sentence vectorizers: scikit-learn transformers from text to Gaussian posteriors.

Here are the base class, the closed forms (`AverageVectorizer`, `IDFVectorizer`), the paper's
names (`METHODS`) and `make`. The formulas are in `posterior`; the methods with negative sampling
are in `negative_sampling` and are importable from here.
"""

import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count, islice
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pacsent.parameter_checks import Interval, StrOptions, fit_context
from pacsent.text.encoded import Encoded, LowCoverageWarning
from pacsent.text.texts import as_sentences, n_sentences
from pacsent.threads import in_order, n_threads
from pacsent.words.fingerprint import MOST, Fingerprint
from pacsent.words.vectors import WordVectors

# parameters that change no number
_INDIFFERENT = frozenset({"on_empty", "batch_size", "n_jobs", "verbose"})


class EmptySentenceWarning(UserWarning):
    """Some sentences hold no known word, so they have no posterior."""


class SentenceVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """What all vectorizers share: sentences in, Gaussian posteriors out.

    A subclass sets its parameters in `__init__`, extends `_parameter_constraints`, and writes
    `_fit(encoded)` and `_posterior(encoded)`; `_state` and `_restore` where it learns arrays.

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

    in_table_space: ClassVar[bool] = True  # whether products with rows of the tables mean something
    learns_from_text: ClassVar[bool] = False  # whether `fit` reads more than the parameters

    _parameter_constraints: ClassVar[dict] = {
        "word_vectors": [WordVectors],
        "swap_roles": ["boolean"],
        "on_empty": [StrOptions({"warn", "error", "ignore"})],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
    }

    # attributes that follow from the parameters and from what was learned: made when needed, kept
    # until one of them changes, never stored
    _remade: ClassVar[tuple[str, ...]] = ()
    # whether what `fit` learns depends on the numbers of the tables, or on the words alone
    _learns_from_tables: ClassVar[bool] = True

    # ---- to be written by subclasses -----------------------------------------------------------

    def _fit(self, encoded: Encoded) -> None:
        """Learn from the training sentences; nothing by default."""

    @abstractmethod
    def _posterior(self, encoded: Encoded):
        """(means, variances) of one batch. Empty sentences are overwritten by the caller."""

    def _prepared(self):
        """The function encoded, out -> (means, variances), with what all batches share done.

        `out` is where the means go, or None. It runs on several threads at once and keeps nothing
        on `self`: whatever else a method reports about a batch it returns after the variances, and
        its own `_batches` takes that off.
        """

        def posterior(encoded, out=None):
            means, variances = self._posterior(encoded)
            if out is None:
                return means, variances
            out[...] = means
            return out, variances

        return posterior

    @property
    def _paper_name(self) -> str:
        """What the paper calls the method, without the `i-` of swapped roles; "" for others."""
        return ""

    def _is_empty(self, encoded: Encoded) -> np.ndarray:
        """Which sentences of the batch have nothing to go on."""
        return encoded.offsets[1:] == encoded.offsets[:-1]

    def _state(self) -> dict[str, np.ndarray]:
        """What `fit` learned, as arrays; `pacsent.save` stores it beside the parameters."""
        self._verify_state()
        self._check_fitted_on()
        state = {"fit_report": np.array(self._fit_report, dtype=np.float64)}
        if hasattr(self, "fingerprint_"):
            seen = self.fingerprint_
            state["fingerprint.documents"], state["fingerprint.runs"] = seen.documents, seen.runs
            state["fingerprint.counts"] = np.array(list(seen.counts().values()), dtype=np.int64)
        return state

    def _restore(self, state: dict[str, np.ndarray]) -> None:
        """The inverse of `_state`, on an estimator that has its parameters."""
        report = self._taken(state, "fit_report", np.float64, (3,), finite=False)
        n_sentences, n_empty, coverage = report.tolist()
        self._report(int(n_sentences), int(n_empty), coverage)
        self._remember_fit()
        if "fingerprint.documents" in state:
            self.fingerprint_ = Fingerprint(
                self._taken(state, "fingerprint.documents", np.uint64, (None,)),
                self._taken(state, "fingerprint.runs", np.uint64, (None,)),
                *self._taken(state, "fingerprint.counts", np.int64, (3,)).tolist(),
            )

    def _taken(self, state, name, dtype, shape, *, finite=True) -> np.ndarray:
        """An array of a saved state, if it has this type and shape; None fits any length.

        ids of words are asked for by dtype "words": all different and below `n_words`.
        """
        found = np.asarray(state[name])
        ids = isinstance(dtype, str)
        kind = np.dtype(np.int64 if ids else dtype)
        lengths = zip(found.shape, shape)
        if found.dtype.kind != kind.kind or found.ndim != len(shape):
            raise ValueError(f"{name} is {found.dtype} of shape {found.shape}")
        if any(expected is not None and n != expected for n, expected in lengths):
            raise ValueError(f"{name} has shape {found.shape} where {shape} is needed")
        if kind.kind == "f" and finite and not np.isfinite(found).all():
            raise ValueError(f"{name} holds NaN or infinity")
        if ids and found.size:
            if found.min() < 0 or found.max() >= self.word_vectors.n_words:
                raise ValueError(f"{name} holds numbers of words that are not there")
            if np.unique(found).size != found.size:
                raise ValueError(f"{name} names a word twice")
        return found.astype(kind, copy=False)

    def _verify_state(self):
        """Once, before the first use: what was loaded must be what was saved."""
        verify = self.__dict__.get("_unverified")
        if verify is not None:
            verify()
            self._unverified = None

    def __getstate__(self):
        self._verify_state()  # nobody checks a copy again
        return {k: v for k, v in super().__getstate__().items() if k not in self._remade}

    # ---- the public methods --------------------------------------------------------------------

    @property
    def method_name(self) -> str:
        """The name in `METHODS` of the estimator with these parameters."""
        return ("i-" if getattr(self, "swap_roles", False) else "") + self._paper_name

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
        encoded = self._encode(X)
        rows = np.flatnonzero(np.diff(encoded.offsets) == 0)
        self._n_tokenless = _n_tokenless(encoded)
        self._check_empty((encoded.n_sentences, rows.size, encoded.coverage, rows[:3].tolist()))
        self._check_coverage(encoded.ids.size, int(encoded.n_unknown.sum()))
        self._forget_remade()
        self._fit(encoded)
        self._remember_fit()
        if self.learns_from_text:
            self.fingerprint_ = Fingerprint.of(self.word_vectors.vocabulary, encoded, MOST // 4)
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """`fit(X)`, then `transform(X)`, tokenising once; so `X` may be a generator."""
        encoded = self._encode(X)
        if self.on_empty != "warn":
            return self.fit(encoded, y)._gather(encoded)[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmptySentenceWarning)
            warnings.simplefilter("ignore", LowCoverageWarning)
            self.fit(encoded, y)
        return self._gather(encoded)[0]  # an array: scikit-learn gives it the index of X

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
        return self._gather(X)[0]

    def posterior(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the posteriors N(mean, variance I).

        Returns
        -------
        means : array, shape (n_sentences, n_dims)
        variances : array, shape (n_sentences,), float64
            nan for sentences without a known word.
        """
        return self._gather(X)

    def stream(self, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (means, variances) batch by batch, `batch_size` sentences at a time.

        Memory does not grow with the number of sentences. The attributes of the report
        (`n_empty_`, `coverage_`) are set when the last batch has been taken.
        """
        return self._stream(self._sentences(X))

    def _stream(self, X, out=None):
        check_is_fitted(self)
        self._verify_state()
        self._check_fitted_on()
        self._tables()
        n_done = n_known = n_unknown = n_empty = n_tokenless = n_lost = 0
        first_empty: list[int] = []
        for encoded, means, variances in self._batches(X, out):
            empty = self._is_empty(encoded)
            if empty.any():
                rows = np.flatnonzero(empty)
                means[rows] = 0
                variances[rows] = np.nan
                n_empty += rows.size
                n_tokenless += _n_tokenless(encoded)
                first_empty += [int(row) + n_done for row in rows[: 3 - len(first_empty)]]
                if self.on_empty == "error":
                    self._check_empty((n_done + empty.size, n_empty, 0.0, first_empty))
            with np.errstate(over="ignore", invalid="ignore"):
                if not np.isfinite(means.sum()):  # one pass; rows are looked at only then
                    n_lost += self._n_lost(encoded, means)
            n_done += empty.size
            n_known += encoded.ids.size
            n_unknown += int(encoded.n_unknown.sum())
            yield means, variances
        self._n_tokenless = n_tokenless
        n_all = n_known + n_unknown
        coverage = n_known / n_all if n_all else float("nan")
        self._check_empty((n_done, n_empty, coverage, first_empty))
        self._check_coverage(n_known, n_unknown)
        if n_lost:
            warnings.warn(
                f"{n_lost:,} of {n_done:,} vectors are not finite numbers, though those of their "
                "words are: the method went astray on them. Choose other parameters.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _n_lost(self, encoded, means) -> int:
        """Number of vectors that are not finite; an error where a word's own vector is not."""
        lost = np.flatnonzero(~np.isfinite(means).all(axis=1))
        if lost.size:
            self.word_vectors.check_rows(encoded.take(lost).ids)
        return lost.size

    def prepared(self) -> Callable[[Encoded], tuple[np.ndarray, np.ndarray]]:
        """The function Encoded -> (means, variances), for asking again and again.

        What all calls share is done beforehand; nothing is reported and nothing warned of, and
        several threads may call it at once. Change no parameter while it is in use.

        Examples
        --------
        >>> from pacsent import make
        >>> vectorizer = make("SIF-sum", "english").fit([])
        >>> solve = vectorizer.prepared()
        >>> means, variances = solve(vectorizer.word_vectors.vocabulary.encode(["good wine"]))
        >>> bool((means == vectorizer.transform(["good wine"])).all())
        True
        """
        check_is_fitted(self)
        self._verify_state()
        self._check_fitted_on()
        self._tables()
        posterior = self._prepared()

        def solve(encoded: Encoded):
            means, variances = posterior(encoded, None)[:2]
            empty = self._is_empty(encoded)
            if empty.any():
                means[empty] = 0
                variances[empty] = np.nan
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

    # ---- what a change of parameters does -----------------------------------------------------

    def __setattr__(self, name, value):
        if name in self._parameter_constraints and name not in _INDIFFERENT:
            self._forget_remade()
        super().__setattr__(name, value)

    def _forget_remade(self):
        for name in self._remade:
            self.__dict__.pop(name, None)

    def _learns(self) -> bool:
        return type(self)._fit is not SentenceVectorizer._fit

    def _remember_fit(self):
        """Keep what was fitted on, and its report: a later `transform` changes neither."""
        self._fit_report = self.n_sentences_, self.n_empty_, self.coverage_
        self._fitted_on = (self.word_vectors, self.swap_roles) if self._learns() else None

    def _check_fitted_on(self):
        """Refuse word vectors that took the place of those which the method learned from."""
        fitted_on = getattr(self, "_fitted_on", None)
        if fitted_on is None:
            return
        old, swapped = fitted_on
        new = self.word_vectors
        changed = None
        if new is not old:
            if self._learns_from_tables:
                changed = "word_vectors" if new.digest() != old.digest() else None
            elif new.vocabulary is not old.vocabulary and new.words != old.words:
                changed = "word_vectors, with other words,"
        elif self._learns_from_tables and self.swap_roles != swapped:
            changed = "swap_roles"
        if changed:
            raise ValueError(
                f"{type(self).__name__} must be fitted with the word vectors it is used with. Got "
                f"other {changed} after fit instead. Call fit again."
            )
        self._fitted_on = new, swapped

    # ---- how it works --------------------------------------------------------------------------

    @property
    def _n_features_out(self):
        return self.word_vectors.n_dims

    @property
    def _dtype(self):
        tables = (self.word_vectors.input_vectors, self.word_vectors.output_vectors)
        wide = any(table is not None and table.dtype == np.float64 for table in tables)
        return np.dtype(np.float64 if wide else np.float32)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    def _needs_prior_table(self) -> bool:
        """Whether these settings read `B_hat` at all."""
        return True

    def _tables(self):
        """(A_hat, B_hat); B_hat may be None where these settings do not read it."""
        words = self.word_vectors
        if words.output_vectors is None and not self.swap_roles and not self._needs_prior_table():
            return words.input_vectors, None
        return words.roles(swap=self.swap_roles, method=type(self).__name__)

    def _encode(self, X) -> Encoded:
        return self.word_vectors.vocabulary.encode(X)

    def _sentences(self, X):
        """What `X` holds, ready to be cut into batches: sentences, or an Encoded that fits."""
        if isinstance(X, Encoded):
            return X.checked(self.word_vectors.n_words)
        return as_sentences(X)

    def _batches(self, X, out=None):
        """Yield (encoded, means, variances) for each batch, in order, computed by threads."""
        posterior = self._prepared()

        vocabulary = self.word_vectors.vocabulary

        def work(start, part):
            if isinstance(part, Encoded):
                encoded = part
            else:
                encoded = vocabulary._encode_rows(part, start, n_jobs=1)
            where = None if out is None else out[start : start + encoded.n_sentences]
            return encoded, *posterior(encoded, where)

        n_jobs = self._n_threads()
        size = self._batch_size(_length(X), n_jobs)
        parts = zip(count(0, size), _parts(X, size))
        # a few batches ahead, so that no thread waits and memory stays bounded
        yield from in_order(lambda part: work(*part), parts, n_jobs, ahead=n_jobs + 1)

    def _batch_size(self, n_sentences, n_jobs) -> int:
        """Sentences a batch, where there are so many (None: nobody knows) for so many threads."""
        return self.batch_size

    def _n_threads(self) -> int:
        return n_threads(self.n_jobs)

    def _gather(self, X):
        n_dims = self._n_features_out
        X = self._sentences(X)
        n = _length(X)
        if n is not None:  # the batches are computed in their place
            means, variances = np.empty((n, n_dims), self._dtype), np.empty(n)
            done = 0
            for _, some in self._stream(X, means):
                variances[done : done + some.size] = some
                done += some.size
            return means, variances
        pieces = deque(self._stream(X))
        n = sum(some.size for _, some in pieces)
        means, variances = np.empty((n, n_dims), self._dtype), np.empty(n)
        done = 0
        while pieces:  # each piece is freed once copied: never twice the result
            some_means, some = pieces.popleft()
            means[done : done + some.size], variances[done : done + some.size] = some_means, some
            done += some.size
        return means, variances

    def _check_coverage(self, n_known, n_unknown):
        self.word_vectors.vocabulary.warn_if_few_known(n_known, n_unknown, stacklevel=5)

    def _report(self, n_sentences, n_empty, coverage):
        self.n_sentences_, self.n_empty_, self.coverage_ = n_sentences, n_empty, coverage

    def _tokenless_cause(self) -> str:
        """Why sentences of the last call gave not even an unknown word; empty where none did."""
        n = getattr(self, "_n_tokenless", 0)
        if not n:
            return ""
        if self.word_vectors.vocabulary.normalise_name == "paper":
            return (
                f"; {n:,} give no word at all: they are empty, or in another script, of which "
                "normalise='paper' keeps nothing (use word vectors made with normalise='unicode')"
            )
        return f"; {n:,} give no word at all: they are empty or without letters and digits"

    def _check_empty(self, counted):
        n_sentences, n_empty, coverage, first = counted
        self._report(n_sentences, n_empty, coverage)
        if not n_empty or self.on_empty == "ignore":
            return
        rows = ", ".join(map(str, first)) + (", ..." if n_empty > len(first) else "")
        message = (
            f"{n_empty:,} of {n_sentences:,} sentences hold no known word (row {rows}), so they "
            f"have no posterior{self._tokenless_cause()}"
        )
        if self.on_empty == "error":
            raise ValueError(f"{message}. Drop them, or pass on_empty='warn' to get mean 0.")
        warnings.warn(
            f"{message}: mean 0, variance nan. Drop them, or pass on_empty='ignore'.",
            EmptySentenceWarning,
            stacklevel=4,
        )


def _n_tokenless(encoded: Encoded) -> int:
    """Sentences without a token, known or not."""
    return int((np.diff(encoded.offsets) + encoded.n_unknown == 0).sum())


def _length(X) -> int | None:
    """Number of sentences, where that is known beforehand."""
    return X.n_sentences if isinstance(X, Encoded) else n_sentences(X)


def _parts(X, size) -> Iterator:
    """X cut into batches of `size` sentences; as many in all as its length says, or an error."""
    if isinstance(X, Encoded):
        for start in range(0, X.n_sentences, size):
            stop = min(start + size, X.n_sentences)
            offsets = X.offsets[start : stop + 1]
            ids = X.ids[offsets[0] : offsets[-1]]
            yield Encoded(ids, offsets - offsets[0], X.n_unknown[start:stop])
        return
    expected = n_sentences(X)
    rest, done = iter(X), 0
    while part := list(islice(rest, size)):
        done += len(part)
        if expected is not None and done > expected:  # there is no room for them
            break
        yield part
    if expected is not None and done != expected:
        more = "more" if done > expected else f"{done:,}"
        raise ValueError(
            f"X must hold as many sentences as its length says, {expected:,}. Got {more} instead "
            f"from this {type(X).__name__}. Pass list(X)."
        )
