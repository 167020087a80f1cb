"""Vectorizers with the negative sampling loss: PB-neg, w-PB-neg and PV-DBOW.

The formulas and solvers are in `logistic_posterior`; the base class is in `sentence_vectors`.
"""

import warnings
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from threadpoolctl import threadpool_limits

from pacsent import logistic_posterior as posterior
from pacsent.sentence_vectors import SentenceVectorizer
from pacsent.vocabulary import Encoded

_REMADE = ("_noise", "_sample", "_nu")  # attributes that follow from others: not pickled
_POSITIVE = Interval(Real, 0, None, closed="neither")


class _NegativeSampling(SentenceVectorizer):
    """What the three share: noise words from the training counts, and the paper's schedule."""

    _parameter_constraints: ClassVar[dict] = {
        **SentenceVectorizer._parameter_constraints,
        "lam": [Interval(Real, 0, None, closed="right")],
        "n_negatives": [Interval(Integral, 1, None, closed="left")],
        "noise_power": [Interval(Real, 0, None, closed="left")],
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [_POSITIVE],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [_POSITIVE],
        "random_state": ["random_state"],
    }

    def _fit(self, encoded):
        if not encoded.ids.size:
            raise ValueError(
                f"X must hold words that the vectors know. Got {encoded.n_sentences:,} sentences "
                "without any instead. Check the language and the normalisation of the text."
            )
        self.noise_counts_ = np.bincount(encoded.ids, minlength=self.word_vectors.n_words)

    def _state(self):
        return {**super()._state(), "noise_counts": self.noise_counts_}

    def _restore(self, state):
        super()._restore(state)
        self.noise_counts_ = np.asarray(state["noise_counts"], dtype=np.int64)

    def _float_tables(self):
        return tuple(_as_float(table) for table in self._tables())


def _as_float(table):
    # numba knows no float16
    return np.asarray(table, dtype=np.float64 if table.dtype == np.float64 else np.float32)


class PBNegVectorizer(_NegativeSampling):
    """Sentence vectors as posterior means under the negative sampling loss (PB-neg).

        mu_S, var_Q = argmin of
            (1/n) sum_w E[softplus(-h.A_w)] + n_negatives * E_{u ~ noise} E[softplus(h.A_u)]
            + n/(2 var_P lam) |mu_S - mean of B_hat|^2 + V(var_Q),      h ~ N(mu_S, var_Q I)

    Each sentence is a convex problem of its own, so new sentences need no training: `fit` only
    learns the noise distribution, count^noise_power over the training sentences.

    Parameters
    ----------
    word_vectors : WordVectors
    lam : float, default=1.0
        Weight of the data. Larger values let a sentence move further from the mean of `B_hat`.
    lam_mode : {"fixed", "per-token"}, default="fixed"
        With "per-token", lambda is `lam * n_tokens`. With "fixed", as in the paper, the posterior
        of a long sentence is its prior plus a displacement of order lam/n_tokens.
    prior_variance : float, default=1.0
        Variance of each word's prior. Larger values let a sentence move further from it.
    kl : {"exact", "paper"}, default="exact"
        The true KL divergence from the prior, or the penalty that the paper prints, which counts
        its logarithm n_tokens times. They differ in the variance, and through it in the mean.
    solver : {"exact"}, default="exact"
        "exact" minimises the objective with noise words and h integrated out.
    n_negatives : int, default=15
        Noise words per token.
    noise_power : float, default=0.75
        The noise distribution is count^noise_power over the training sentences.
    subsample : float, default=0
        Threshold of the source's sub-sampling, such as 1e-4, used here too: every token counts
        with its chance to be kept, so frequent words weigh less. 0 counts every token fully.
    n_epochs : int, default=40
        Passes of the stochastic solvers.
    learning_rate : float, default=0.025
        First step of the stochastic solvers; it falls linearly, epoch by epoch.
    max_iter : int, default=200
        Most evaluations of the objective per sentence.
    tol : float, default=1e-3
        Relative error of mu_S - (prior mean) at which a sentence counts as solved.
    swap_roles : bool, default=False
        Whether output vectors take the place of input vectors and the reverse (`i-`).
    on_empty : {"warn", "error", "ignore"}, default="warn"
    batch_size : int, default=2048
        Sentences worked on at once. The result does not depend on it (to 1e-5).
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. The result does not depend on it.
    random_state : int, RandomState instance or None, default=0
        Draws the sample of the noise words in `fit`.

    Attributes
    ----------
    noise_counts_ : array, shape (n_words,)
        Counts of the training sentences; the noise distribution is their power.
    noise_sample_ : (words, inclusion probabilities) or None
        The noise words that stand for all in large problems; None where all are used, which is
        always so with tol < 1e-4.
    n_iter_, gradient_norm_ : array, shape (n_sentences,)
        Evaluations of the objective, and the largest entry of its gradient, for each sentence of
        the last `transform` or `posterior`; 0 and nan for sentences without a known word.
    error_ : array, shape (n_sentences,)
        Estimated relative error of mu_S - (prior mean) there that comes from summing over a
        sample of the noise words; 0 where all of them were used.
    n_unconverged_ : int
        Sentences there that did not reach `tol` within `max_iter`.
    """

    _parameter_constraints: ClassVar[dict] = {
        **_NegativeSampling._parameter_constraints,
        "lam_mode": [StrOptions({"fixed", "per-token"})],
        "prior_variance": [_POSITIVE],
        "kl": [StrOptions(set(posterior.KLS))],
        "solver": [StrOptions({"exact"})],
        "subsample": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        word_vectors,
        *,
        lam=1.0,
        lam_mode="fixed",
        prior_variance=1.0,
        kl="exact",
        solver="exact",
        n_negatives=15,
        noise_power=0.75,
        subsample=0.0,
        n_epochs=40,
        learning_rate=0.025,
        max_iter=200,
        tol=1e-3,
        swap_roles=False,
        on_empty="warn",
        batch_size=2048,
        n_jobs=None,
        random_state=0,
    ):
        self.word_vectors = word_vectors
        self.lam = lam
        self.lam_mode = lam_mode
        self.prior_variance = prior_variance
        self.kl = kl
        self.solver = solver
        self.n_negatives = n_negatives
        self.noise_power = noise_power
        self.subsample = subsample
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.tol = tol
        self.swap_roles = swap_roles
        self.on_empty = on_empty
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, encoded):
        if np.isinf(self.lam):
            raise ValueError(
                "lam must be finite for PB-neg. Got inf instead. Without a penalty the loss may "
                "have no minimiser; use a large lam, or PVDBOWVectorizer."
            )
        super()._fit(encoded)
        _, _, means = self._problem(_spread(encoded, 2048))
        self.centre_ = means.mean(axis=0, dtype=float)
        self.noise_sample_ = None
        for name in _REMADE:
            self.__dict__.pop(name, None)
        if self._sampling():
            self._draw(_spread(encoded, 256))

    def _sampling(self):
        """Whether a sample of the noise words may be good enough and saves time."""
        size = np.count_nonzero(self.noise_counts_) * self.word_vectors.n_dims
        return self.solver == "exact" and self.tol >= 1e-4 and size > 1 << 21

    def _draw(self, pilot):
        """Draw the sample of the noise words by which all sentences will be solved."""
        A_hat, _ = self._float_tables()
        counts, n_tokens, means = self._problem(pilot)
        self._sample = posterior.draw_sample(
            self._noise_of(np.float32),
            counts,
            A_hat,
            means,
            lam=self._lam(n_tokens),
            var_P=self.prior_variance,
            kl=self.kl,
            error=0.5 * self.tol,
            rng=check_random_state(self.random_state),
        )
        if self._sample is not None:
            chosen = self._sample.chosen
            self.noise_sample_ = self._sample.noise.words[chosen], self._sample.inclusion

    def _noise_of(self, dtype):
        A_hat, _ = self._float_tables()
        return posterior.noise_of(
            self.noise_counts_,
            A_hat,
            self.centre_,
            n_negatives=self.n_negatives,
            noise_power=self.noise_power,
            dtype=dtype,
        )

    def _prepare(self):
        """What all batches share, made anew after loading."""
        if not hasattr(self, "_nu"):
            self._nu = posterior.squared_lengths(self._float_tables()[0])
        if self.noise_sample_ is None:
            if not hasattr(self, "_noise"):
                self._noise = self._noise_of(np.float64)
        elif not hasattr(self, "_sample"):
            self._sample = posterior.sample_of(self._noise_of(np.float32), *self.noise_sample_)

    def _state(self):
        words, inclusion = self.noise_sample_ or (np.empty(0, dtype=np.int64), np.empty(0))
        learned = {"centre": self.centre_, "sample_words": words, "sample_inclusion": inclusion}
        return {**super()._state(), **learned}

    def _restore(self, state):
        super()._restore(state)
        self.centre_ = np.asarray(state["centre"], dtype=np.float64)
        words = np.asarray(state["sample_words"], dtype=np.int64)
        inclusion = np.asarray(state["sample_inclusion"], dtype=np.float64)
        self.noise_sample_ = (words, inclusion) if words.size else None

    # ---- solving -------------------------------------------------------------------------------

    def _problem(self, encoded):
        """(counts, n_tokens, prior means) of one batch; sub-sampling weighs the counts."""
        _, B_hat = self._float_tables()
        counts = self.word_vectors.vocabulary.count(encoded)
        if self.subsample:
            keep = self.word_vectors.vocabulary.keep_probabilities(self.subsample)
            counts.data *= keep[counts.indices]
        n_tokens = np.asarray(counts.sum(axis=1), dtype=float).ravel()
        share = sparse.csr_matrix(
            (
                counts.data / np.repeat(n_tokens, np.diff(counts.indptr)),
                counts.indices,
                counts.indptr,
            ),
            shape=counts.shape,
        )
        return counts, n_tokens, share.astype(B_hat.dtype) @ B_hat

    def _lam(self, n_tokens):
        return self.lam * (n_tokens if self.lam_mode == "per-token" else np.ones_like(n_tokens))

    def _solve(self, counts, n_tokens, means):
        A_hat, _ = self._float_tables()
        exact = self.noise_sample_ is None
        solve = posterior.solve if exact else posterior.solve_sampled
        return solve(
            counts,
            A_hat,
            means,
            self._noise if exact else self._sample,
            lam=self._lam(n_tokens),
            var_P=self.prior_variance,
            kl=self.kl,
            tol=self.tol,
            max_iter=self.max_iter,
            nu=self._nu,
        )

    def _posterior(self, encoded):
        n = encoded.n_sentences
        full = np.flatnonzero(np.diff(encoded.offsets) > 0)
        means, variances = np.zeros((n, self.word_vectors.n_dims), self._dtype), np.full(n, np.nan)
        n_iter, norm = np.zeros(n, dtype=np.int64), np.full(n, np.nan)
        error = np.full(n, np.nan)
        n_unconverged = 0
        if full.size:
            counts, n_tokens, m = self._problem(encoded)
            solution = self._solve(counts[full], n_tokens[full], m[full])
            means[full], variances[full] = solution.mu, solution.var_Q
            n_iter[full], norm[full] = solution.n_iter, solution.gradient_norm
            error[full] = solution.error
            n_unconverged = int(np.sum(~solution.converged))
        self._reports[id(encoded)] = n_iter, norm, error, n_unconverged
        return means, variances

    def _batches(self, X, *where):
        """The base class's batches, with a report of how each sentence was solved."""
        self._prepare()
        self._reports = {}
        reports = []
        with threadpool_limits(1, user_api="blas"):  # the batches are the threads
            for batch in super()._batches(X, *where):
                reports.append(self._reports.pop(id(batch[0])))
                yield batch
        del self._reports
        n_iter, norms, errors, n_unconverged = zip(*reports) if reports else ((), (), (), ())
        self.n_iter_ = np.concatenate([np.empty(0, dtype=np.int64), *n_iter])
        self.gradient_norm_ = np.concatenate([np.empty(0), *norms])
        self.error_ = np.concatenate([np.empty(0), *errors])
        self.n_unconverged_ = sum(n_unconverged)
        if self.n_unconverged_:
            warnings.warn(
                f"{self.n_unconverged_:,} of {self.n_iter_.size:,} sentences did not reach tol="
                f"{self.tol:g} within max_iter={self.max_iter} evaluations; see n_iter_ and "
                "gradient_norm_. Raise max_iter or tol, or lower lam.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def __getstate__(self):
        state = super().__getstate__()
        return {key: state[key] for key in state if key not in _REMADE}


def _spread(encoded: Encoded, n: int) -> Encoded:
    """At most n sentences that are not empty, evenly spread."""
    lengths = np.diff(encoded.offsets)
    rows = np.flatnonzero(lengths > 0)
    if rows.size > n:
        rows = rows[np.linspace(0, rows.size - 1, n).astype(int)]
    ids = [encoded.ids[encoded.offsets[row] : encoded.offsets[row + 1]] for row in rows]
    offsets = np.concatenate([[0], np.cumsum(lengths[rows])])
    return Encoded(np.concatenate(ids), offsets, np.zeros(rows.size, dtype=np.int64))
