"""Vectorizers with the negative sampling loss: PB-neg, w-PB-neg and PV-DBOW.

The formulas and solvers are in `logistic_posterior` and `word_posterior`; the base class is in
`sentence_vectors`.
"""

import warnings
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from threadpoolctl import threadpool_limits

from pacsent import logistic_posterior as posterior
from pacsent import word_posterior
from pacsent.progress import bar
from pacsent.sentence_vectors import SentenceVectorizer
from pacsent.vocabulary import Encoded

_REMADE = (
    "_noise",
    "_sample",
    "_nu",
    "_alias",
    "_floats",
    "_pooled",
)  # attributes that follow from others: not pickled
_SAMPLED_FROM = 1 << 21  # numbers in the noise words' rows from which a sample may stand for all
_POSITIVE = Interval(Real, 0, None, closed="neither")
_GPU_BATCH = 1 << 16  # sentences handed to a GPU at once; it makes its own batches


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
        self.seed_ = int(check_random_state(self.random_state).randint(2**31))
        for name in _REMADE:
            self.__dict__.pop(name, None)

    def _state(self):
        learned = {"noise_counts": self.noise_counts_, "seed": np.array([self.seed_])}
        return {**super()._state(), **learned}

    def _restore(self, state):
        super()._restore(state)
        self.noise_counts_ = np.asarray(state["noise_counts"], dtype=np.int64)
        self.seed_ = int(np.asarray(state["seed"])[0])

    def __getstate__(self):
        state = super().__getstate__()
        return {key: state[key] for key in state if key not in _REMADE}

    def _float_tables(self):
        """(A_hat, B_hat) in a precision the kernels know, widened once."""
        tables = self._tables()
        if all(table is None or table.dtype in (np.float32, np.float64) for table in tables):
            return tables
        if not hasattr(self, "_floats"):
            self._floats = tuple(np.asarray(table, dtype=np.float32) for table in tables)
        return self._floats

    def _noise_probabilities(self):
        """(words, probabilities) of the noise distribution, on its support."""
        words = np.flatnonzero(self.noise_counts_)
        p = self.noise_counts_[words].astype(float) ** self.noise_power
        return words, p / p.sum()

    def _alias_table(self):
        """(words, keep, other, n_negatives), from which kernels draw noise words."""
        if not hasattr(self, "_alias"):
            words, p = self._noise_probabilities()
            self._alias = (words, *posterior.alias(p), self.n_negatives)
        return self._alias


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
    solver : {"exact", "sgd", "sgd-literal"}, default="exact"
        "exact" minimises the objective with noise words and h integrated out. "sgd" follows the
        paper's schedule, one sampled gradient per epoch, with steps that are stable at every
        length. "sgd-literal" takes the paper's own steps, which diverge for long sentences: for
        comparison only, and it warns.
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
    device : {"cpu", "cuda"}, default="cpu"
        "cuda" solves on a GPU (extra `[gpu]`), all noise words summed, in single precision.
    swap_roles : bool, default=False
        Whether output vectors take the place of input vectors and the reverse (`i-`).
    on_empty : {"warn", "error", "ignore"}, default="warn"
    batch_size : int, default=1024
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
        The noise words that stand for all in large problems, in single precision; None where all
        are used in double precision, which is always so with tol < 1e-4.
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
        "solver": [StrOptions({"exact", "sgd", "sgd-literal"})],
        "subsample": [Interval(Real, 0, None, closed="left")],
        "device": [StrOptions({"cpu", "cuda"})],
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
        device="cpu",
        swap_roles=False,
        on_empty="warn",
        batch_size=1024,
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
        self.device = device
        self.swap_roles = swap_roles
        self.on_empty = on_empty
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ---- fitting -------------------------------------------------------------------------------

    def _fit(self, encoded):
        _refuse_no_penalty(self, "PB-neg")
        if self.device != "cpu":
            from pacsent import gpu

            gpu.require(self.device)
            if self.solver != "exact":
                raise ValueError(
                    f"solver must be 'exact' with device={self.device!r}. Got {self.solver!r} "
                    "instead. Use device='cpu'."
                )
        super()._fit(encoded)
        _, _, means = self._problem(_spread(encoded, 2048))
        self.centre_ = means.mean(axis=0, dtype=float)
        self.noise_sample_ = None
        if self._sampling():
            self._draw(_spread(encoded, 256))

    def _sampling(self):
        """Whether a sample of the noise words may be good enough and saves time."""
        size = np.count_nonzero(self.noise_counts_) * self.word_vectors.n_dims
        on_cpu = self.device == "cpu"
        return on_cpu and self.solver == "exact" and self.tol >= 1e-4 and size > _SAMPLED_FROM

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
        if self.solver != "exact":
            self._alias_table()
            return
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
        settings = {"lam": self._lam(n_tokens), "var_P": self.prior_variance, "kl": self.kl}
        if self.solver != "exact":
            steps = posterior.learning_rates(self.n_epochs, self.learning_rate)
            literal = self.solver == "sgd-literal"
            settings.update(steps=steps, seed=self.seed_, literal=literal)
            return posterior.solve_sgd(counts, A_hat, means, self._alias_table(), **settings)
        if self.device != "cpu":
            from pacsent import gpu

            settings.update(tol=self.tol, max_iter=self.max_iter, device=self.device)
            return gpu.solve_pb_neg(counts, A_hat, means, self._noise, **settings)
        exact = self.noise_sample_ is None
        solve = posterior.solve if exact else posterior.solve_sampled
        return solve(
            counts,
            A_hat,
            means,
            self._noise if exact else self._sample,
            tol=self.tol,
            max_iter=self.max_iter,
            nu=self._nu,
            **settings,
        )

    def _posterior(self, encoded):
        n = encoded.n_sentences
        full = np.flatnonzero(np.diff(encoded.offsets) > 0)
        means, variances = np.zeros((n, self.word_vectors.n_dims), self._dtype), np.full(n, np.nan)
        n_iter, norm = np.zeros(n, dtype=np.int64), np.full(n, np.nan)
        error = np.full(n, np.nan)
        n_unconverged = n_diverging = 0
        if full.size:
            counts, n_tokens, m = self._problem(encoded)
            solution = self._solve(counts[full], n_tokens[full], m[full])
            means[full], variances[full] = solution.mu, solution.var_Q
            n_iter[full], norm[full] = solution.n_iter, solution.gradient_norm
            error[full] = solution.error
            n_unconverged = int(np.sum(~solution.converged))
            settings = {"lam": self._lam(n_tokens[full]), "var_P": self.prior_variance}
            settings["learning_rate"] = self.learning_rate
            n_diverging = int(np.sum(posterior.diverging(n_tokens[full], **settings)))
        self._reports[id(encoded)] = n_iter, norm, error, n_unconverged, n_diverging
        return means, variances

    def _n_threads(self):
        return super()._n_threads() if self.device == "cpu" else 1

    def _batch_size(self, n_sentences, n_jobs):
        return self.batch_size if self.device == "cpu" else max(self.batch_size, _GPU_BATCH)

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
        n_iter, norms, errors, n_unconverged, n_diverging = zip(*reports) if reports else [()] * 5
        self.n_iter_ = np.concatenate([np.empty(0, dtype=np.int64), *n_iter])
        self.gradient_norm_ = np.concatenate([np.empty(0), *norms])
        self.error_ = np.concatenate([np.empty(0), *errors])
        self.n_unconverged_ = sum(n_unconverged)
        if self.solver == "sgd-literal":
            if sum(n_diverging):
                warnings.warn(
                    f"{sum(n_diverging):,} of {self.n_iter_.size:,} sentences are too long for "
                    "the paper's update (n_tokens > 184 * lam with its learning rate): their "
                    "vectors diverge. Use solver='exact' or solver='sgd'.",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        elif self.n_unconverged_:
            warnings.warn(
                f"{self.n_unconverged_:,} of {self.n_iter_.size:,} sentences did not reach tol="
                f"{self.tol:g} within max_iter={self.max_iter} evaluations; see n_iter_ and "
                "gradient_norm_. Raise max_iter or tol, or lower lam.",
                ConvergenceWarning,
                stacklevel=2,
            )


def _spread(encoded: Encoded, n: int) -> Encoded:
    """At most n sentences that are not empty, evenly spread."""
    lengths = np.diff(encoded.offsets)
    rows = np.flatnonzero(lengths > 0)
    if rows.size > n:
        rows = rows[np.linspace(0, rows.size - 1, n).astype(int)]
    ids = [encoded.ids[encoded.offsets[row] : encoded.offsets[row + 1]] for row in rows]
    offsets = np.concatenate([[0], np.cumsum(lengths[rows])])
    return Encoded(np.concatenate(ids), offsets, np.zeros(rows.size, dtype=np.int64))


class WordPBNegVectorizer(_NegativeSampling):
    """Sentence vectors as means of word posteriors, learned from the training texts (w-PB-neg).

        mu_S = mean of mu_w over the tokens of S;  var_S = sum over types of (count/n)^2 var_w

    Every word of the training sentences has a posterior N(mu_w, var_w I), all learned together
    under the negative sampling loss of the sentences; see `pacsent.word_posterior`. A new sentence
    costs no more than an average. Words that training never met keep their prior mean, `B_hat`,
    as if it were certain.

    Parameters
    ----------
    word_vectors : WordVectors
    lam : float, default=1.0
        Weight of the data. Larger values let words move further from their prior means.
    prior_variance : "paper" or float, default="paper"
        The prior variance of a word is T/count(w), T the number of training tokens; or, given a
        number, that number times (median p)/p(w), p = count/T. The paper's is so wide that the
        Gibbs classifier is near chance; numbers such as 0.01 to 0.1 are for certificates.
    weighting : {"sentence", "token"}, default="sentence"
        Whether every training sentence counts the same, or every token.
    solver : {"sgd", "exact"}, default="sgd"
        Stochastic gradients with exponential-integrator steps, one per sentence and epoch; or
        L-BFGS on the expected loss, for small problems.
    n_negatives, noise_power
        As in PBNegVectorizer.
    n_epochs : int, default=40
    learning_rate : float, default=0.025
    block_size : int, default=64
        Sentences whose gradients are taken together, with common noise words. 1 is the strict
        order of the paper, and slower.
    max_iter, tol
        Of the exact solver: most iterations, and the largest entry of the scaled gradient.
    device : {"cpu", "cuda"}, default="cpu"
        "cuda" trains on a GPU (extra `[gpu]`): the same schedule with noise words and h integrated
        out, 256 sentences side by side.
    swap_roles, on_empty, batch_size
        As in PBNegVectorizer.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. With more than one, training is not repeatable to the
        last digit: threads update common words without locks.
    random_state : int, RandomState instance or None, default=0
    verbose : bool, default=False
        Whether to show progress on stderr.

    Attributes
    ----------
    words_ : array of int, shape (n_trained,)
        The words of the training sentences.
    word_means_ : array, shape (n_trained, n_dims)
    word_variances_, prior_variances_ : array, shape (n_trained,)
    n_iter_ : int
        Epochs, or iterations of the exact solver.
    gradient_norm_ : float
        Of the exact solver; nan otherwise.
    noise_counts_ : array, shape (n_words,)
    """

    _parameter_constraints: ClassVar[dict] = {
        **_NegativeSampling._parameter_constraints,
        "prior_variance": [StrOptions({"paper"}), _POSITIVE],
        "weighting": [StrOptions(set(word_posterior.WEIGHTINGS))],
        "solver": [StrOptions({"sgd", "exact"})],
        "block_size": [Interval(Integral, 1, None, closed="left")],
        "device": [StrOptions({"cpu", "cuda"})],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        word_vectors,
        *,
        lam=1.0,
        prior_variance="paper",
        weighting="sentence",
        solver="sgd",
        n_negatives=15,
        noise_power=0.75,
        n_epochs=40,
        learning_rate=0.025,
        block_size=64,
        max_iter=1000,
        tol=1e-6,
        device="cpu",
        swap_roles=False,
        on_empty="warn",
        batch_size=1024,
        n_jobs=None,
        random_state=0,
        verbose=False,
    ):
        self.word_vectors = word_vectors
        self.lam = lam
        self.prior_variance = prior_variance
        self.weighting = weighting
        self.solver = solver
        self.n_negatives = n_negatives
        self.noise_power = noise_power
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.block_size = block_size
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.swap_roles = swap_roles
        self.on_empty = on_empty
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, encoded):
        _refuse_no_penalty(self, "w-PB-neg")
        super()._fit(encoded)
        A_hat, B_hat = self._float_tables()
        words, p = self._noise_probabilities()
        counts = self.word_vectors.vocabulary.count(encoded).tocsc()[:, words].tocsr()
        counts = counts[np.diff(counts.indptr) > 0]
        scale = None if self.prior_variance == "paper" else self.prior_variance
        var_P = word_posterior.prior_variances(self.noise_counts_, scale)[words]
        settings = {
            "n_negatives": self.n_negatives,
            "lam": self.lam,
            "weighting": self.weighting,
            "n_threads": self._n_threads(),
        }
        with threadpool_limits(1, user_api="blas"):
            if self.device != "cpu":
                found = self._fit_on_gpu(counts, A_hat[words], B_hat[words], var_P)
            elif self.solver == "exact":
                found = word_posterior.solve(
                    counts, A_hat[words], B_hat[words], var_P, p,
                    tol=self.tol, max_iter=self.max_iter, **settings,
                )  # fmt: skip
            else:
                with bar("w-PB-neg", total=self.n_epochs, unit="epochs", enabled=self.verbose) as b:
                    found = word_posterior.train(
                        counts, A_hat[words].astype(np.float32), B_hat[words].astype(np.float32),
                        var_P, p, n_epochs=self.n_epochs, learning_rate=self.learning_rate,
                        block=self.block_size, rng=np.random.default_rng(self.seed_),
                        callback=lambda epoch: b.advance(), **settings,
                    )  # fmt: skip
        self.words_, self.prior_variances_ = words, var_P
        self.word_means_, self.word_variances_ = found.mu.astype(self._dtype), np.exp(found.rho)
        self.n_iter_, self.gradient_norm_ = found.n_iter, found.gradient_norm
        unsolved = not found.gradient_norm <= self.tol
        if self.device != "cpu":  # which stops by the size of its steps
            unsolved = found.n_iter >= self.max_iter
        if self.solver == "exact" and unsolved:
            warnings.warn(
                f"The scaled gradient is {found.gradient_norm:.2g} after {found.n_iter} iterations,"
                f" not below tol={self.tol:g}. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _fit_on_gpu(self, counts, A, B, var_P):
        from pacsent import gpu

        frequency = np.asarray(counts.sum(axis=0)).ravel()
        noise = posterior.noise_of(
            frequency, A, B.mean(axis=0),
            n_negatives=self.n_negatives, noise_power=self.noise_power,
        )  # fmt: skip
        _, mu, var_Q, n_iter = gpu.fit_w_pb_neg(
            counts, A, B, noise, var_P, lam=self.lam, n_epochs=self.n_epochs,
            learning_rate=self.learning_rate, weighting=self.weighting, solver=self.solver,
            tol=self.tol, max_iter=self.max_iter, random_state=self.seed_, device=self.device,
        )  # fmt: skip
        return word_posterior.WordSolution(mu, np.log(var_Q), n_iter, float("nan"))

    def _state(self):
        learned = {
            "words": self.words_,
            "word_means": self.word_means_,
            "word_variances": self.word_variances_,
            "prior_variances": self.prior_variances_,
            "training": np.array([self.n_iter_, self.gradient_norm_], dtype=float),
        }
        return {**super()._state(), **learned}

    def _restore(self, state):
        super()._restore(state)
        self.words_ = np.asarray(state["words"], dtype=np.int64)
        self.word_means_ = np.asarray(state["word_means"])
        self.word_variances_ = np.asarray(state["word_variances"], dtype=np.float64)
        self.prior_variances_ = np.asarray(state["prior_variances"], dtype=np.float64)
        n_iter, norm = np.asarray(state["training"]).tolist()
        self.n_iter_, self.gradient_norm_ = int(n_iter), norm

    def _pooling_tables(self):
        """(means, variances) of all words: learned ones, and the prior mean of the others."""
        if not hasattr(self, "_pooled"):
            _, B_hat = self._float_tables()
            means = B_hat.astype(self._dtype)  # a copy
            means[self.words_] = self.word_means_
            variances = np.zeros(self.word_vectors.n_words)
            variances[self.words_] = self.word_variances_
            self._pooled = means, variances
        return self._pooled

    def _batches(self, X, *where):
        self._pooling_tables()  # before the threads need them
        return super()._batches(X, *where)

    def _posterior(self, encoded):
        from pacsent._kernels.sentences import pool_rows

        table, word_variances = self._pooling_tables()
        n_tokens = np.maximum(np.diff(encoded.offsets), 1)
        means = np.empty((encoded.n_sentences, self.word_vectors.n_dims), self._dtype)
        ones = np.ones(self.word_vectors.n_words, self._dtype)
        scale = (1.0 / n_tokens).astype(self._dtype)
        pool_rows(encoded.ids, encoded.offsets, table, ones, scale, means, False)
        counts = self.word_vectors.vocabulary.count(encoded)
        variances = (counts.power(2) @ word_variances) / n_tokens.astype(float) ** 2
        return means, variances


def _refuse_no_penalty(estimator, method):
    if np.isinf(estimator.lam):
        raise ValueError(
            f"lam must be finite for {method}. Got inf instead. Without a penalty the loss may "
            "have no minimiser; use a large lam, or PVDBOWVectorizer."
        )


class PVDBOWVectorizer(_NegativeSampling):
    """Paragraph vectors by negative sampling (PV-DBOW), starting from the word vectors.

        minimise the sum over sentences and tokens of
            softplus(-h_S.A_w) + sum over noise words of softplus(h_S.A_u),      in h_S and A

    What PB-neg becomes without a prior (lam to infinity), without an expectation over h, and with
    word vectors that are trained too. `fit` trains A on the training sentences; `transform` infers
    the vector of any sentence with A fixed, from random numbers that depend on its words only, so
    the same sentence always gets the same vector. There is no posterior: variances are 0.

    Parameters
    ----------
    word_vectors : WordVectors
        `A` starts at its input vectors (output vectors with `swap_roles`).
    train_words : bool, default=True
        Whether `fit` trains the word vectors, or leaves them as they are.
    n_negatives, noise_power, n_epochs, learning_rate
        As in PBNegVectorizer; the learning rate falls linearly to 0.
    swap_roles, on_empty, batch_size
        As in PBNegVectorizer.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. With more than one, training is not repeatable to the
        last digit: threads update common words without locks. Inference always is.
    random_state : int, RandomState instance or None, default=0
    verbose : bool, default=False
        Whether to show progress on stderr.

    Attributes
    ----------
    words_ : array of int, shape (n_trained,)
        The words of the training sentences.
    word_vectors_ : array, shape (n_trained, n_dims)
        Their trained vectors; all others keep theirs.
    noise_counts_ : array, shape (n_words,)
    """

    _parameter_constraints: ClassVar[dict] = {
        **SentenceVectorizer._parameter_constraints,
        "train_words": ["boolean"],
        "n_negatives": _NegativeSampling._parameter_constraints["n_negatives"],
        "noise_power": _NegativeSampling._parameter_constraints["noise_power"],
        "n_epochs": _NegativeSampling._parameter_constraints["n_epochs"],
        "learning_rate": _NegativeSampling._parameter_constraints["learning_rate"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        word_vectors,
        *,
        train_words=True,
        n_negatives=15,
        noise_power=0.75,
        n_epochs=40,
        learning_rate=0.025,
        swap_roles=False,
        on_empty="warn",
        batch_size=1024,
        n_jobs=None,
        random_state=0,
        verbose=False,
    ):
        self.word_vectors = word_vectors
        self.train_words = train_words
        self.n_negatives = n_negatives
        self.noise_power = noise_power
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.swap_roles = swap_roles
        self.on_empty = on_empty
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _needs_prior_table(self):
        return False

    def _start(self, counts):
        """Random states and small random vectors, from the sentences' words alone."""
        seeds = posterior.sentence_seeds(counts, self.seed_)
        n_dims = self.word_vectors.n_dims
        start = [np.random.default_rng(seed).random(n_dims) - 0.5 for seed in seeds]
        return seeds, (np.array(start).reshape(-1, n_dims) / n_dims).astype(self._dtype)

    def _fit(self, encoded):
        from pacsent._kernels.negative_sampling import pv_dbow

        super()._fit(encoded)
        A = np.array(self._tables()[0], dtype=self._dtype)  # a copy, to be trained
        self.words_ = np.flatnonzero(self.noise_counts_)
        if self.train_words:
            states, vectors = self._start(self.word_vectors.vocabulary.count(encoded))
            sentences = (encoded.ids, encoded.offsets, states)
            rng, n_threads = np.random.default_rng(self.seed_), self._n_threads()
            with (
                bar("PV-DBOW", total=self.n_epochs, unit="epochs", enabled=self.verbose) as shown,
                ThreadPoolExecutor(n_threads) as pool,
            ):
                for eta in posterior.learning_rates(self.n_epochs, self.learning_rate):
                    order = rng.permutation(encoded.n_sentences)
                    work = [
                        pool.submit(
                            pv_dbow, order[t::n_threads], sentences, A, self._alias_table(), eta,
                            True, vectors,
                        )
                        for t in range(n_threads)
                    ]  # fmt: skip
                    for future in work:
                        future.result()
                    shown.advance()
        self.word_vectors_ = A[self.words_]
        self._pooled = A

    def _state(self):
        return {**super()._state(), "words": self.words_, "trained": self.word_vectors_}

    def _restore(self, state):
        super()._restore(state)
        self.words_ = np.asarray(state["words"], dtype=np.int64)
        self.word_vectors_ = np.asarray(state["trained"])

    def _trained_table(self):
        if not hasattr(self, "_pooled"):
            A = np.array(self._tables()[0], dtype=self._dtype)
            A[self.words_] = self.word_vectors_
            self._pooled = A
        return self._pooled

    def _batches(self, X, *where):
        self._trained_table(), self._alias_table()  # before the threads need them
        return super()._batches(X, *where)

    def _posterior(self, encoded):
        from pacsent._kernels.negative_sampling import pv_dbow

        counts = self.word_vectors.vocabulary.count(encoded)
        states, vectors = self._start(counts)
        # sorted, so that the order of the words changes nothing
        ids = np.repeat(counts.indices, counts.data.astype(np.int64))
        sentences = (ids, encoded.offsets, states)
        rows = np.arange(encoded.n_sentences)
        for eta in posterior.learning_rates(self.n_epochs, self.learning_rate):
            pv_dbow(
                rows, sentences, self._trained_table(), self._alias_table(), eta, False, vectors
            )
        return vectors, np.zeros(encoded.n_sentences)
