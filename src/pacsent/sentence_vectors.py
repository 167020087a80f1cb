"""Sentence vectorizers: scikit-learn transformers from text to Gaussian posteriors.

Here are the base class, the closed forms (`AverageVectorizer`, `IDFVectorizer`), the paper's
names (`METHODS`) and `make`. The formulas are in `posterior`; the methods with negative sampling
are in `negative_sampling` and are importable from here.
"""

import importlib
import os
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count, islice
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from pacsent.posterior import VARIANCES, idf, l2_coefficients, l2_lam
from pacsent.vocabulary import Encoded, LowCoverageWarning
from pacsent.word_vectors import WordVectors


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
    fit_digest_ : str
        Digest of the training sentences, where the method learns from them: a certificate that
        uses the method as it is refuses the same text.
    """

    _parameter_constraints: ClassVar[dict] = {
        "word_vectors": [WordVectors],
        "swap_roles": ["boolean"],
        "on_empty": [StrOptions({"warn", "error", "ignore"})],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
    }

    # ---- to be written by subclasses -----------------------------------------------------------

    def _fit(self, encoded: Encoded) -> None:
        """Learn from the training sentences; nothing by default."""

    @abstractmethod
    def _posterior(self, encoded: Encoded):
        """(means, variances) of one batch. Empty sentences are overwritten by the caller."""

    def _prepared(self):
        """The function encoded, out -> (means, variances), with what all batches share done.

        `out` is where the means go, or None.
        """

        def posterior(encoded, out=None):
            means, variances = self._posterior(encoded)
            if out is None:
                return means, variances
            out[...] = means
            return out, variances

        return posterior

    def _is_empty(self, encoded: Encoded) -> np.ndarray:
        """Which sentences of the batch have nothing to go on."""
        return np.diff(encoded.offsets) == 0

    def _state(self) -> dict[str, np.ndarray]:
        """What `fit` learned, as arrays; `pacsent.save` stores it beside the parameters."""
        report = [self.n_sentences_, self.n_empty_, self.coverage_]
        state = {"fit_report": np.array(report, dtype=np.float64)}
        if hasattr(self, "fit_digest_"):
            state["fit_digest"] = np.frombuffer(bytes.fromhex(self.fit_digest_), dtype=np.uint8)
        return state

    def _restore(self, state: dict[str, np.ndarray]) -> None:
        """The inverse of `_state`, on an estimator that has its parameters."""
        n_sentences, n_empty, coverage = np.asarray(state["fit_report"]).tolist()
        self._report(int(n_sentences), int(n_empty), coverage)
        if "fit_digest" in state:
            self.fit_digest_ = np.asarray(state["fit_digest"], dtype=np.uint8).tobytes().hex()

    # ---- the public methods --------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Learn what the method needs from training sentences.

        Parameters
        ----------
        X : iterable of str or of token lists, or Encoded
            Sentences. Token lists are taken as they are.
        y : ignored
        """
        self._tables()
        encoded = self._encode(X)
        rows = np.flatnonzero(np.diff(encoded.offsets) == 0)
        self._check_empty((encoded.n_sentences, rows.size, encoded.coverage, rows[:3].tolist()))
        self._check_coverage(encoded.ids.size, int(encoded.n_unknown.sum()))
        self._fit(encoded)
        if type(self)._fit is not SentenceVectorizer._fit:  # it learned from this text
            self.fit_digest_ = self.word_vectors.vocabulary.digest(encoded)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, X, y=None, **fit_params):
        """`fit(X)`, then `transform(X)`, tokenising once; so `X` may be a generator."""
        encoded = self._encode(X)
        if self.on_empty != "warn":
            return self.fit(encoded, y).transform(encoded)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmptySentenceWarning)
            warnings.simplefilter("ignore", LowCoverageWarning)
            self.fit(encoded, y)
        return self.transform(encoded)

    def transform(self, X):
        """Means of the posteriors.

        Parameters
        ----------
        X : iterable of str or of token lists, or Encoded
            Sentences. A generator is read in batches of `batch_size`.

        Returns
        -------
        means : array, shape (n_sentences, n_dims), float32 (float64 if the tables are)
            Zero for sentences without a known word.
        """
        return self._gather(X)[0]

    def posterior(self, X):
        """Means and variances of the posteriors N(mean, variance I).

        Returns
        -------
        means : array, shape (n_sentences, n_dims)
        variances : array, shape (n_sentences,), float64
            nan for sentences without a known word.
        """
        return self._gather(X)

    def stream(self, X):
        """Yield (means, variances) batch by batch, `batch_size` sentences at a time.

        Memory does not grow with the number of sentences. The attributes of the report
        (`n_empty_`, `coverage_`) are set when the last batch has been taken.
        """
        return self._stream(X)

    def _stream(self, X, out=None):
        check_is_fitted(self)
        self._tables()
        n_sentences = n_known = n_unknown = n_empty = 0
        first_empty: list[int] = []
        for encoded, means, variances in self._batches(X, out):
            empty = self._is_empty(encoded)
            if empty.any():
                rows = np.flatnonzero(empty)
                means[rows] = 0
                variances[rows] = np.nan
                n_empty += rows.size
                first_empty += [int(row) + n_sentences for row in rows[: 3 - len(first_empty)]]
                if self.on_empty == "error":
                    self._check_empty((n_sentences + empty.size, n_empty, 0.0, first_empty))
            n_sentences += empty.size
            n_known += encoded.ids.size
            n_unknown += int(encoded.n_unknown.sum())
            yield means, variances
        n_all = n_known + n_unknown
        coverage = n_known / n_all if n_all else float("nan")
        self._check_empty((n_sentences, n_empty, coverage, first_empty))
        self._check_coverage(n_known, n_unknown)

    def sample(self, X, n_samples=1, random_state=None):
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

    def _encode(self, X, n_jobs=None) -> Encoded:
        if isinstance(X, str):
            shown = X if len(X) <= 40 else X[:37] + "..."
            raise ValueError(
                f"X must be an iterable of sentences. Got the single string {shown!r} instead. "
                f"Pass [{shown!r}] to embed one sentence."
            )
        return self.word_vectors.vocabulary.encode(X, n_jobs=n_jobs)

    def _batches(self, X, out=None):
        """Yield (encoded, means, variances) for each batch, in order, computed by threads."""
        posterior = self._prepared()

        def work(start, part):
            encoded = self._encode(part, n_jobs=1)
            where = None if out is None else out[start : start + encoded.n_sentences]
            return encoded, *posterior(encoded, where)

        n_jobs = self._n_threads()
        size = self._batch_size(_length(X), n_jobs)
        parts = zip(count(0, size), _parts(X, size))
        first = list(islice(parts, 2))
        if n_jobs == 1 or len(first) < 2:  # nothing to share out: no threads to start
            for start, part in chain(first, parts):
                yield work(start, part)
            return
        parts = chain(first, parts)
        with ThreadPoolExecutor(n_jobs) as pool:
            # a few batches ahead, so that no thread waits and memory stays bounded
            waiting = deque(pool.submit(work, *part) for part in islice(parts, n_jobs + 1))
            try:
                while waiting:
                    done = waiting.popleft().result()
                    waiting.extend(pool.submit(work, *part) for part in islice(parts, 1))
                    yield done
            finally:
                for future in waiting:
                    future.cancel()

    def _batch_size(self, n_sentences, n_jobs) -> int:
        """Sentences a batch, where there are so many (None: nobody knows) for so many threads."""
        return self.batch_size

    def _n_threads(self) -> int:
        return n_threads(self.n_jobs)

    def _gather(self, X):
        n_dims = self.word_vectors.n_dims
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
        # stands for all batches together; a number broadcast to n_known places takes no memory
        ids = np.broadcast_to(np.int32(0), (n_known,))
        total = Encoded(ids, np.array([0, n_known]), np.array([n_unknown]))
        total.warn_if_low_coverage(self.word_vectors.vocabulary, stacklevel=5)

    def _report(self, n_sentences, n_empty, coverage):
        self.n_sentences_, self.n_empty_, self.coverage_ = n_sentences, n_empty, coverage

    def _check_empty(self, counted):
        n_sentences, n_empty, coverage, first = counted
        self._report(n_sentences, n_empty, coverage)
        if not n_empty or self.on_empty == "ignore":
            return
        rows = ", ".join(map(str, first)) + (", ..." if n_empty > len(first) else "")
        message = (
            f"{n_empty:,} of {n_sentences:,} sentences hold no known word (row {rows}), so they "
            "have no posterior"
        )
        if self.on_empty == "error":
            raise ValueError(f"{message}. Drop them, or pass on_empty='warn' to get mean 0.")
        warnings.warn(
            f"{message}: mean 0, variance nan. Drop them, or pass on_empty='ignore'.",
            EmptySentenceWarning,
            stacklevel=4,
        )


def _length(X) -> int | None:
    """Number of sentences, where that is known beforehand."""
    if isinstance(X, Encoded):
        return X.n_sentences
    return len(X) if hasattr(X, "__len__") and not isinstance(X, str) else None


def _parts(X, size) -> Iterator:
    """X cut into batches of `size` sentences."""
    if isinstance(X, Encoded):
        for start in range(0, X.n_sentences, size):
            stop = min(start + size, X.n_sentences)
            offsets = X.offsets[start : stop + 1]
            ids = X.ids[offsets[0] : offsets[-1]]
            yield Encoded(ids, offsets - offsets[0], X.n_unknown[start:stop])
        return
    if isinstance(X, str):
        yield X  # refused, with advice, where it is encoded
        return
    rest = iter(X)
    while part := list(islice(rest, size)):
        yield part


def n_threads(n_jobs) -> int:
    """Threads for `n_jobs`: all cores for None and -1, all but one for -2, and so on."""
    if hasattr(os, "sched_getaffinity"):
        n_cores = len(os.sched_getaffinity(0))
    else:
        n_cores = os.cpu_count() or 1
    if n_jobs is None:
        return n_cores
    if n_jobs == 0:
        raise ValueError("n_jobs must be a positive or negative integer or None. Got 0 instead.")
    return n_jobs if n_jobs > 0 else max(1, n_cores + 1 + n_jobs)


# ------------------------------------------------------------------------------------------------
# Closed forms
# ------------------------------------------------------------------------------------------------


class _ClosedForm(SentenceVectorizer):
    """Posteriors that are weighted sums of rows: mu = c_A sum beta_w A_w + c_B sum p_w B_w."""

    _parameter_constraints: ClassVar[dict] = {
        **SentenceVectorizer._parameter_constraints,
        "lam": [Interval(Real, 0, None, closed="right")],
        "lam_mode": [StrOptions({"fixed", "per-token"})],
        "prior_variance": [Interval(Real, 0, None, closed="neither")],
        "variance": [StrOptions(set(VARIANCES))],
        "subsample": [Interval(Real, 0, None, closed="left")],
    }

    def _token_weights(self) -> np.ndarray:
        """How much of each word is kept, (n_words,); empty where all of it is."""
        if not self.subsample:
            return np.empty(0)
        return self.word_vectors.vocabulary.keep_probabilities(self.subsample)

    def _posterior(self, encoded):
        return self._prepared()(encoded)

    def _batch_size(self, n_sentences, n_jobs):
        if n_sentences is None or n_jobs == 1:
            return self.batch_size
        # several batches a thread, or the last one is waited for alone
        return max(1, min(self.batch_size, max(64, n_sentences // (8 * n_jobs))))

    def _pool(self, encoded, parts, out):
        """Sum of scale * weights[w] * table[w] over tokens and over (table, weights, scale)."""
        from pacsent._kernels.sentences import pool_rows

        if out is None:
            out = np.empty((encoded.n_sentences, self.word_vectors.n_dims), self._dtype)
        add = False
        for table, weights, scale in parts:
            if table is not None and (scale.any() or not add):
                scale = scale.astype(self._dtype)
                pool_rows(encoded.ids, encoded.offsets, table, weights, scale, out, add)
                add = True
        return out


def _sums(encoded, weights):
    """Sum of the words' weights in each sentence; their number where there are no weights."""
    if not weights.size:
        return np.diff(encoded.offsets).astype(np.float64)
    from pacsent._kernels.sentences import sum_weights

    sums = np.empty(encoded.n_sentences)
    sum_weights(encoded.ids, encoded.offsets, weights, sums)
    return sums


def _for_kernel(table):
    """A table as the kernels take it: float16 as its bits, or widened once where they cannot."""
    from pacsent._kernels.sentences import HALF_PRECISION

    if table is None:
        return None
    table = np.ascontiguousarray(table)
    if table.dtype == np.float16 and HALF_PRECISION:
        return table.view(np.uint16)
    return table.astype(np.float64 if table.dtype == np.float64 else np.float32, copy=False)


class AverageVectorizer(_ClosedForm):
    """Sentence vectors as exact posterior means under squared loss (Average, PB-L2).

        mu_S = (mean of A_hat + alpha * mean of B_hat) / (1 + alpha),  alpha = n_tokens/(var_P*lam)
        var_Q = 1 / (lam * (1 + alpha))

    Parameters
    ----------
    word_vectors : WordVectors
    lam : float, default=1.0
        Weight of the data. Larger values pull from the prior to the mean of `A_hat`; `inf` gives
        that mean.
    alpha : float or None, default=None
        Weight of the prior, the same for every length. Given, it replaces `lam`.
    lam_mode : {"fixed", "per-token"}, default="fixed"
        With "per-token", lambda is `lam * n_tokens` and alpha is 1/(lam * prior_variance) at every
        length. With "fixed", as in the paper, longer sentences lean more to the prior.
    prior_variance : float, default=1.0
        Variance of each word's prior. Larger values let a sentence move further from it.
    variance : {"exact", "paper-loss", "printed"}, default="exact"
        Which variance `posterior` reports: the minimiser under the true KL; under the penalty the
        paper writes; or the formula the paper prints. The means are the same.
    swap_roles : bool, default=False
        Whether output vectors take the place of input vectors and the reverse (`i-`).
    subsample : float, default=0
        Threshold of the source's sub-sampling, such as 1e-4, used here too: every token counts
        with its chance to be kept, so frequent words weigh less. 0 counts every token fully.
    on_empty : {"warn", "error", "ignore"}, default="warn"
        What to do about sentences without a known word: mean 0, variance nan, and one warning;
        or stop.
    batch_size : int, default=1024
        Sentences worked on at once. The result does not depend on it.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from pacsent import AverageVectorizer, Vocabulary, WordVectors
    >>> vocabulary = Vocabulary(["good", "film"])
    >>> words = WordVectors(vocabulary, np.eye(2), -np.eye(2))
    >>> vectorizer = AverageVectorizer(words, lam=2.0).fit(["a good film"])
    >>> vectorizer.transform(["Good, good film!"])
    array([[-0.13333333, -0.06666667]])
    """

    _parameter_constraints: ClassVar[dict] = {
        **_ClosedForm._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        word_vectors,
        *,
        lam=1.0,
        alpha=None,
        lam_mode="fixed",
        prior_variance=1.0,
        variance="exact",
        swap_roles=False,
        subsample=0.0,
        on_empty="warn",
        batch_size=1024,
        n_jobs=None,
    ):
        self.word_vectors = word_vectors
        self.lam = lam
        self.alpha = alpha
        self.lam_mode = lam_mode
        self.prior_variance = prior_variance
        self.variance = variance
        self.swap_roles = swap_roles
        self.subsample = subsample
        self.on_empty = on_empty
        self.batch_size = batch_size
        self.n_jobs = n_jobs

    def _needs_prior_table(self):
        return self.alpha != 0 if self.alpha is not None else not np.isinf(self.lam)

    def _prepared(self):
        A_hat, B_hat = map(_for_kernel, self._tables())
        keep = self._token_weights()
        weights = keep.astype(self._dtype)
        settings = {"lam": self.lam, "alpha": self.alpha, "lam_mode": self.lam_mode}
        var_P = self.prior_variance

        def posterior(encoded, out=None):
            n_tokens = _sums(encoded, keep)
            lam = l2_lam(n_tokens, var_P=var_P, **settings)
            c_A, c_B, var_Q = l2_coefficients(
                n_tokens, np.ones_like(n_tokens), n_tokens / var_P, lam, self.variance
            )
            share = c_A / np.maximum(n_tokens, np.finfo(float).tiny)  # beta_w = 1 / n_tokens
            parts = [(A_hat, weights, share), (B_hat, weights, c_B / var_P)]
            return self._pool(encoded, parts, out), var_Q

        return posterior


class IDFVectorizer(_ClosedForm):
    """Posterior means where rare words weigh more (IDF-Average, PB-IDF-L2).

        mu_S = sum of IDF * (A_hat + B_hat/lam) / ((1 + 1/lam) * b),     b = sum of IDF(w)
        var_Q = 1 / (b * (1 + lam)),                                     prior_variance = 1

    IDF(w) = ln(n_sentences / number of training sentences with w) + 1, learned by `fit`.

    Parameters
    ----------
    word_vectors : WordVectors
    lam : float, default=1.0
        Weight of the data. Larger values pull from the prior to `A_hat`; `inf` leaves the prior
        out. The loss is a sum over tokens, so the balance is the same at every length.
    lam_mode : {"fixed", "per-token"}, default="fixed"
        With "per-token", lambda is `lam * n_tokens`: the prior fades with the length.
    prior_variance : float, default=1.0
        The prior of a word has variance prior_variance / IDF(w).
    unit_prior : bool, default=False
        The other reading of the paper: the prior of a word has variance prior_variance.
    unseen : {"clamp", "drop"}, default="clamp"
        A word that no training sentence holds counts as if one did, or is dropped.
    variance : {"exact", "paper-loss", "printed"}, default="exact"
        As in AverageVectorizer.
    swap_roles, subsample, on_empty, batch_size, n_jobs
        As in AverageVectorizer.

    Attributes
    ----------
    idf_ : array, shape (n_words,)
        The weights; 0 for dropped words.
    """

    _parameter_constraints: ClassVar[dict] = {
        **_ClosedForm._parameter_constraints,
        "unit_prior": ["boolean"],
        "unseen": [StrOptions({"clamp", "drop"})],
    }

    def __init__(
        self,
        word_vectors,
        *,
        lam=1.0,
        lam_mode="fixed",
        prior_variance=1.0,
        unit_prior=False,
        unseen="clamp",
        variance="exact",
        swap_roles=False,
        subsample=0.0,
        on_empty="warn",
        batch_size=1024,
        n_jobs=None,
    ):
        self.word_vectors = word_vectors
        self.lam = lam
        self.lam_mode = lam_mode
        self.prior_variance = prior_variance
        self.unit_prior = unit_prior
        self.unseen = unseen
        self.variance = variance
        self.swap_roles = swap_roles
        self.subsample = subsample
        self.on_empty = on_empty
        self.batch_size = batch_size
        self.n_jobs = n_jobs

    def _needs_prior_table(self):
        return not np.isinf(self.lam)

    def _fit(self, encoded):
        from pacsent._kernels.sentences import document_frequency

        frequency = np.zeros(self.word_vectors.n_words, dtype=np.int64)
        document_frequency(encoded.ids, encoded.offsets, frequency)
        self.idf_ = idf(frequency, encoded.n_sentences, self.unseen)

    def _state(self):
        return {**super()._state(), "idf": self.idf_}

    def _restore(self, state):
        super()._restore(state)
        self.idf_ = np.asarray(state["idf"], dtype=np.float64)

    def _is_empty(self, encoded):
        if self.unseen == "drop":
            return _sums(encoded, (self.idf_ > 0).astype(np.float64)) == 0
        return super()._is_empty(encoded)

    def _prepared(self):
        A_hat, B_hat = map(_for_kernel, self._tables())
        keep = self._token_weights()
        if self.unseen == "drop":
            keep = (self.idf_ > 0) * (keep if keep.size else 1.0)
        weights = keep * self.idf_ if keep.size else self.idf_
        experts = keep if self.unit_prior else weights
        weights_A, weights_B = weights.astype(self._dtype), experts.astype(self._dtype)
        var_P = self.prior_variance

        def posterior(encoded, out=None):
            n_tokens, b = _sums(encoded, keep), _sums(encoded, weights)
            precision = _sums(encoded, experts) / var_P
            lam = l2_lam(n_tokens, lam=self.lam, lam_mode=self.lam_mode)
            c_A, c_B, var_Q = l2_coefficients(n_tokens, b, precision, lam, self.variance)
            parts = [(A_hat, weights_A, c_A), (B_hat, weights_B, c_B / var_P)]
            return self._pool(encoded, parts, out), var_Q

        return posterior


# ------------------------------------------------------------------------------------------------
# The paper's names
# ------------------------------------------------------------------------------------------------

# name -> (module, class, parameters that the name stands for, defaults)
_METHODS: dict[str, tuple[str, str, dict, dict]] = {
    "Average": ("sentence_vectors", "AverageVectorizer", {}, {"alpha": 0.0}),
    "IDF-Average": ("sentence_vectors", "IDFVectorizer", {}, {"lam": float("inf")}),
    "PB-L2": ("sentence_vectors", "AverageVectorizer", {"alpha": None}, {}),
    "PB-IDF-L2": ("sentence_vectors", "IDFVectorizer", {}, {}),
    "PB-neg": ("negative_sampling", "PBNegVectorizer", {}, {}),
    "w-PB-neg": ("negative_sampling", "WordPBNegVectorizer", {}, {}),
    "PV-DBOW": ("negative_sampling", "PVDBOWVectorizer", {}, {}),
    "PB-01": ("direct", "PB01Vectorizer", {}, {}),
}
_ONE_TABLE = {"PV-DBOW"}  # no roles to swap

METHODS: tuple[str, ...] = (
    *_METHODS,
    *(f"i-{name}" for name in _METHODS if name not in _ONE_TABLE),
)

_ELSEWHERE = {
    "PBNegVectorizer": "negative_sampling",
    "WordPBNegVectorizer": "negative_sampling",
    "PVDBOWVectorizer": "negative_sampling",
    "PB01Vectorizer": "direct",
}


def __getattr__(name):
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(f"pacsent.{_ELSEWHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def make(name: str, word_vectors: WordVectors, **params) -> SentenceVectorizer:
    """The estimator that the paper calls `name`, one of METHODS.

    Parameters
    ----------
    name : str
        `i-` in front swaps the roles of the two tables. 'Average' starts with alpha=0 and
        'IDF-Average' with lam=inf, the plain means of the loss's table.
    word_vectors : WordVectors
    **params
        Parameters of the estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from pacsent import Vocabulary, WordVectors, make
    >>> words = WordVectors(Vocabulary(["good", "film"]), np.eye(2), -np.eye(2))
    >>> make("i-PB-L2", words, lam=2.0)
    AverageVectorizer(lam=2.0, swap_roles=True,
                      word_vectors=WordVectors(n_words=2, n_dims=2))
    """
    if name not in METHODS:
        raise ValueError(
            f"name must be a method of the paper. Got {name!r} instead. Choose from "
            f"{', '.join(METHODS)}."
        )
    module, class_name, fixed, defaults = _METHODS[name.removeprefix("i-")]
    if name not in _ONE_TABLE:
        fixed = {**fixed, "swap_roles": name.startswith("i-")}
    for key, value in fixed.items():
        if key in params and params[key] != value:
            raise ValueError(
                f"{key} must be {value!r} for the method {name!r}. Got {params[key]!r} instead. "
                f"Choose another name, or build a {class_name} yourself."
            )
    if name.endswith("Average") and "alpha" in defaults and "lam" in params:
        raise ValueError(
            f"{name!r} must be given alpha, not lam. Got lam={params['lam']!r} instead. Use "
            f"{name.replace('Average', 'PB-L2')!r} for a posterior that depends on lam."
        )
    estimator = getattr(importlib.import_module(f"pacsent.{module}"), class_name)
    return estimator(word_vectors, **{**defaults, **fixed, **params})
