"""PB-neg: one posterior for each sentence under the negative sampling loss, solved exactly."""

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from pacsent.arrays import Numbers
from pacsent.parameter_checks import StrOptions
from pacsent.sentences.encoding import BatchPosterior
from pacsent.sentences.fitted_state import WORD_IDS, Learned
from pacsent.sentences.methods.closed_forms import sum_rows
from pacsent.sentences.methods.sampled_methods import MINIMISED, POSITIVE, NegativeSampling
from pacsent.sentences.posterior_terms import ObjectiveTerms, Sentences
from pacsent.sentences.sentence_vectorizer import Name
from pacsent.sentences.solvers import pb_neg, pb_neg_sampled
from pacsent.text.encoded import Encoded
from pacsent.threads import one_blas_thread

# Smallest `tol` that single precision and a sample of the negative samples reach.
_MIN_SAMPLED_TOL = 1e-4

# Training sentences whose prior means are averaged, and for which the sample is chosen.
_N_CENTRE_SENTENCES = 2048
_N_PILOT_SENTENCES = 256

# Error of a sample that is aimed at, as a fraction of the tolerance: some sentences have more.
_SAMPLE_ERROR = 0.9


@dataclass(eq=False, repr=False, kw_only=True)
class PBNegVectorizer(ObjectiveTerms, NegativeSampling):
    """Sentence vectors as posterior means under the negative sampling loss (PB-neg).

        mu_S, var_Q = argmin of
            (1/n) sum_w E[softplus(-h.A_w)] + n_negatives * E_{u ~ noise} E[softplus(h.A_u)]
            + n/(2 var_P lam) |mu_S - mean of B_hat|^2 + V(var_Q),      h ~ N(mu_S, var_Q I)
        V(var_Q) = d/(2 lam) (r - 1 - ln r),   r = n var_Q/var_P,   d = n_dims

    The last two terms are KL(Q || P)/lam. The paper prints n d/(2 lam) (s - ln s), s = var_Q/var_P,
    instead of V (`pacsent.paper.printed`).

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
    n_negatives : int, default=15
        Negative samples per token.
    noise_power : float, default=0.75
        The noise distribution is count^noise_power over the training sentences.
    max_iter : int, default=200
        Most evaluations of the objective per sentence.
    tol : float, default=1e-3
        Relative error of mu_S - (prior mean) at which a sentence counts as solved, as the
        gradient and the strong convexity of the objective bound it.
    swap_roles : bool, default=False
        Whether output vectors take the place of input vectors and the reverse (`i-`).
    on_empty : {"warn", "error", "ignore"}, default="warn"
    batch_size : int, default=1024
        Sentences worked on at once. The result does not depend on it (to 1e-5).
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Draws the sample of the negative samples in `fit`.

    Attributes
    ----------
    noise_counts_ : array, shape (n_words,)
        Counts of the training sentences; the noise distribution is their power.
    sample_words_, sample_inclusion_ : array, shape (n_sampled,)
        The negative samples that stand for all, in single precision, or all of them where few are
        enough, and their inclusion probabilities; empty with tol < 1e-4, where all are used in
        double precision.
    n_iter_, gradient_norm_ : array, shape (n_sentences,)
        Evaluations of the objective, and the largest entry of its gradient, for each sentence of
        the last `transform` or `posterior`; 0 and nan for sentences without an in-vocabulary word.
    error_ : array, shape (n_sentences,)
        Estimated relative error of mu_S - (prior mean) there that comes from summing over a
        sample of the negative samples; 0 where all of them were used.
    n_unconverged_ : int
        Sentences there that did not reach `tol` within `max_iter`.

    Examples
    --------
    >>> from pacsent import make_encoder
    >>> vectorizer = make_encoder("PB-neg", "english").fit(["a good film", "a quiet film"])
    >>> means, variances = vectorizer.posterior(["good film"])
    >>> means.shape, vectorizer.n_unconverged_
    ((1, 256), 0)
    """

    names: ClassVar = {"PB-neg": Name()}
    learned: ClassVar = {
        **NegativeSampling.learned,
        "centre": Learned(np.float64, ("n_dims",)),
        "sample_words": WORD_IDS,
        "sample_inclusion": Learned(np.float64, ("sample_words",)),
    }
    derived: ClassVar = ("sample",)
    _parameter_constraints: ClassVar[dict] = {
        **NegativeSampling._parameter_constraints,
        **MINIMISED,
        "lam_mode": [StrOptions({"fixed", "per-token"})],
        "prior_variance": [POSITIVE],
    }

    lam: float = 1.0
    lam_mode: str = "fixed"
    prior_variance: float = 1.0
    max_iter: int = 200
    tol: float = 1e-3

    def _learn(self, encoded: Encoded) -> dict[str, Any]:
        values = super()._learn(encoded)
        centre_sentences = _spread(encoded, _N_CENTRE_SENTENCES)
        _, _, means = self._problem(centre_sentences)
        values["centre"] = means.mean(axis=0, dtype=float)
        if self.tol < _MIN_SAMPLED_TOL:
            values["sample_words"] = np.empty(0, np.int64)
            values["sample_inclusion"] = np.empty(0)
            return values

        sample = self._draw_sample(encoded, values["noise_counts"], values["centre"])
        values["sample_words"] = sample.noise.words[sample.chosen]
        values["sample_inclusion"] = sample.inclusion
        values["sample"] = sample
        return values

    def _draw_sample(
        self, encoded: Encoded, noise_counts: np.ndarray, centre: np.ndarray
    ) -> pb_neg_sampled.NoiseSample:
        """Negative samples that stand for all, as precise as `tol` asks for these sentences."""
        pilot_sentences = _spread(encoded, _N_PILOT_SENTENCES)
        counts, n_tokens, means = self._problem(pilot_sentences)
        A_hat, _ = self._float_tables()
        with one_blas_thread():  # small products: more threads would mostly wait
            noise = self._make_noise(noise_counts, centre, np.float32)
            return pb_neg_sampled.draw_sample(
                noise,
                counts,
                A_hat,
                means,
                error=_SAMPLE_ERROR * self.tol,
                rng=check_random_state(self.random_state),
                lam=self._lam(n_tokens),
                var_P=self._prior_variances(n_tokens),
            )

    def _make_noise(
        self, noise_counts: np.ndarray, centre: np.ndarray, dtype: DTypeLike
    ) -> pb_neg.Noise:
        return pb_neg.noise_of(
            noise_counts,
            self._float_tables(),
            centre,
            dtype=dtype,
            n_negatives=self.n_negatives,
            noise_power=self.noise_power,
        )

    def _exact_noise(self) -> pb_neg.Noise:
        """All negative samples, in double precision."""
        make = partial(self._make_noise, self.noise_counts_, self.centre_, np.float64)
        return self._derived("noise", make)

    def _sample(self) -> pb_neg_sampled.NoiseSample:
        """The negative samples that stand for all, in single precision."""

        def make() -> pb_neg_sampled.NoiseSample:
            noise = self._make_noise(self.noise_counts_, self.centre_, np.float32)
            return pb_neg_sampled.sample_of(noise, self.sample_words_, self.sample_inclusion_)

        return self._derived("sample", make)

    def _problem(self, encoded: Encoded) -> tuple[sparse.csr_matrix, np.ndarray, np.ndarray]:
        """(counts, n_tokens, prior means) of one batch."""
        _, B_hat = self._float_tables()
        counts = self.word_vectors.vocabulary.count(encoded)
        n_tokens = np.asarray(counts.sum(axis=1), dtype=float).ravel()

        # In double precision, the rows that occur widened, not the whole table.
        words, places = np.unique(counts.indices, return_inverse=True)
        n_entries = np.diff(counts.indptr)  # (n_sentences,)
        fractions_data = counts.data / np.repeat(n_tokens, n_entries)
        shape = (counts.shape[0], words.size)
        fractions = sparse.csr_matrix((fractions_data, places, counts.indptr), shape=shape)
        means = fractions @ B_hat[words].astype(float)
        return counts, n_tokens, means

    def _lam(self, n_tokens: np.ndarray) -> np.ndarray:
        if self.lam_mode == "per-token":
            return self.lam * n_tokens
        return self.lam * np.ones_like(n_tokens)

    def _prior_terms(self, counts: sparse.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        n_tokens = np.asarray(counts.sum(axis=1)).ravel()
        _, B_hat = self._float_tables()
        fractions = sparse.diags_array(1.0 / n_tokens) @ counts
        means = sum_rows(fractions, B_hat)
        return means, self.prior_variance / n_tokens

    def _lambda_of(self, n_tokens: np.ndarray) -> np.ndarray:
        return self._lam(n_tokens)

    def _data_terms(self, sentences: Sentences) -> Any:
        noise = self._exact_noise()
        A_hat, _ = self._float_tables()
        return pb_neg.expected_loss(
            sentences.mu, sentences.var_Q, sentences.counts, A_hat, noise.words, noise.kp
        )

    def _prior_variances(self, n_tokens: np.ndarray) -> Numbers:
        """Variance of each word's prior, one for all sentences or one for each."""
        return self.prior_variance

    def _solve(
        self, counts: sparse.csr_matrix, n_tokens: np.ndarray, means: np.ndarray
    ) -> pb_neg.Solution:
        A_hat, _ = self._float_tables()
        lam = self._lam(n_tokens)
        var_P = self._prior_variances(n_tokens)
        if not self.sample_words_.size or self.tol < _MIN_SAMPLED_TOL:
            return pb_neg.solve(
                counts,
                A_hat,
                means,
                self._exact_noise(),
                lam=lam,
                var_P=var_P,
                tol=self.tol,
                max_iter=self.max_iter,
            )

        nu = self._derived("squared lengths", lambda: pb_neg.squared_lengths(A_hat))
        return pb_neg_sampled.solve_sampled(
            counts,
            A_hat,
            means,
            self._sample(),
            lam=lam,
            var_P=var_P,
            tol=self.tol,
            max_iter=self.max_iter,
            nu=nu,
        )

    def _prepared(self) -> BatchPosterior:
        def posterior(encoded: Encoded, means: np.ndarray) -> tuple[np.ndarray, Any]:
            n = encoded.n_sentences
            variances, norm, error = np.full((3, n), np.nan)
            n_iter = np.zeros(n, dtype=np.int64)
            converged = np.ones(n, dtype=bool)

            rows = np.flatnonzero(np.diff(encoded.offsets) > 0)  # of sentences with a word
            if rows.size:
                with one_blas_thread():  # the batches are the threads
                    counts, n_tokens, m = self._problem(encoded)
                    solution = self._solve(counts[rows], n_tokens[rows], m[rows])
                means[rows] = solution.mu
                variances[rows] = solution.var_Q
                n_iter[rows] = solution.n_iter
                norm[rows] = solution.gradient_norm
                error[rows] = solution.error
                converged[rows] = solution.converged
            return variances, (n_iter, norm, error, converged)

        return posterior

    def _record(self, reports: list[tuple[np.ndarray, ...]]) -> None:
        # The first of each fixes the type, also of no reports.
        no_floats = np.empty(0)
        no_report = (np.empty(0, int), no_floats, no_floats, np.empty(0, bool))
        n_iter, norms, errors, converged = zip(no_report, *reports)
        self.n_iter_ = np.concatenate(n_iter)
        self.gradient_norm_ = np.concatenate(norms)
        self.error_ = np.concatenate(errors)

        is_converged = np.concatenate(converged)
        self.n_unconverged_ = int((~is_converged).sum())
        if self.n_unconverged_:
            warnings.warn(
                f"{self.n_unconverged_:,} of {is_converged.size:,} sentences did not reach tol="
                f"{self.tol:g} within max_iter={self.max_iter} evaluations; see n_iter_ and "
                "gradient_norm_. Raise max_iter or tol, or lower lam.",
                ConvergenceWarning,
                stacklevel=3,
            )


def _spread(encoded: Encoded, n: int) -> Encoded:
    """At most n sentences that are not empty, evenly spread."""
    lengths = np.diff(encoded.offsets)
    rows = np.flatnonzero(lengths > 0)
    if rows.size > n:
        places = np.linspace(0, rows.size - 1, n).astype(int)
        rows = rows[places]
    return encoded.take(rows)
