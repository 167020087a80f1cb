"""PB-01: posteriors that minimise the zero-one Gibbs risk itself, or a bound on it.

The paper trains on log-loss, which neither is nor bounds what its theorem speaks of. Averaged over
a Gaussian, the zero-one risk is smooth (`risks.gibbs_risk`), so it can be minimised directly. It is
not convex: the search starts at the PB-neg optimum and finds a local one.
"""

import math
from copy import copy
from numbers import Integral, Real
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from threadpoolctl import threadpool_limits

from pacsent import bounds
from pacsent.logistic_posterior import _minimise
from pacsent.negative_sampling import PBNegVectorizer
from pacsent.posterior import kl_gaussians
from pacsent.progress import bar
from pacsent.risks import _norms, gibbs_risk, paper_weights
from pacsent.sentence_vectors import SentenceVectorizer

OBJECTIVES = ("risk", "bound")


class Direct(NamedTuple):
    """An objective of each sentence, and its gradients."""

    value: np.ndarray  # (n_sentences,)
    grad_mu: np.ndarray  # (n_sentences, n_dims)
    grad_rho: np.ndarray  # (n_sentences,)


def direct_objective(
    mu, rho, counts, A_hat, p_noise, prior_means, prior_variances, lam, *, objective="risk",
    delta=0.05, bias=0.0, weights=(0.5, 0.5), noise_words=None, noise_table=None, norms=None,
) -> Direct:  # fmt: skip
    """What PB-01 minimises, for many sentences at once.

        "risk":   w+ R+ + w- R- + KL(Q||P) / lam
        "bound":  w+ kl_inverse(R+, (KL(Q||P) + ln(xi(n)/delta)) / n) + w- R-,  n = tokens

    Parameters
    ----------
    mu, rho : arrays, shapes (n_sentences, n_dims) and (n_sentences,)
        Posterior N(mu, e^rho I).
    counts, A_hat, p_noise, bias, weights, noise_words, noise_table, norms
        As in `risks.gibbs_risk`.
    prior_means, prior_variances : arrays, shapes (n_sentences, n_dims) and (n_sentences,)
    lam : float or array, shape (n_sentences,)
        For "risk".
    delta : float
        For "bound". A bound whose prior has seen the sentence is an objective, not a certificate.

    Returns
    -------
    Direct
    """
    mu, rho = np.asarray(mu, dtype=float), np.asarray(rho, dtype=float)
    var_Q, var_P = np.exp(rho), np.asarray(prior_variances, dtype=float)
    n_dims = mu.shape[1]
    shared = {"bias": bias, "noise_words": noise_words, "noise_table": noise_table, "norms": norms}
    kl = kl_gaussians(mu, var_Q, prior_means, var_P)
    kl_mu = (mu - prior_means) / var_P[:, None]
    kl_rho = 0.5 * n_dims * (var_Q / var_P - 1.0)
    if objective == "risk":
        found = gibbs_risk(
            mu, var_Q, counts, A_hat, p_noise, weights=weights, gradients=True, **shared
        )
        lam = np.broadcast_to(np.asarray(lam, dtype=float), kl.shape)
        return Direct(
            found.risk + kl / lam,
            found.grad_mu + kl_mu / lam[:, None],
            found.grad_rho + kl_rho / lam,
        )
    # the gradients of R+ and of R- apart, because the bound bends the first
    own = gibbs_risk(
        mu, var_Q, counts, A_hat, p_noise, weights=(1.0, 0.0), gradients=True, **shared
    )
    other = gibbs_risk(
        mu, var_Q, sparse.csr_matrix(counts.shape), A_hat, p_noise, weights=(0.0, 1.0),
        gradients=True, **shared,
    )  # fmt: skip
    n = np.maximum(1, np.rint(np.asarray(sparse.csr_matrix(counts).sum(axis=1)).ravel()))
    c = (kl + bounds.ln_xi(n) - math.log(delta)) / n
    q = np.clip(own.positive, 1e-12, 1.0)
    p, dp_dq, dp_dc = bounds.kl_inverse(q, c, derivatives=True)
    value = weights[0] * p + weights[1] * other.noise
    grad_mu = weights[0] * (dp_dq[:, None] * own.grad_mu + (dp_dc / n)[:, None] * kl_mu)
    grad_rho = weights[0] * (dp_dq * own.grad_rho + dp_dc / n * kl_rho)
    return Direct(
        value, grad_mu + weights[1] * other.grad_mu, grad_rho + weights[1] * other.grad_rho
    )


def minimise(
    mu, var_Q, counts, A_hat, p_noise, prior_means, prior_variances, lam, *, tol=1e-3,
    max_iter=60, norms=None, **settings,
):  # fmt: skip
    """L-BFGS from (mu, var_Q) on `direct_objective`, all sentences at once; values never rise.

    Returns
    -------
    mu, var_Q, n_iter, converged
    """
    counts = sparse.csr_matrix(counts)
    prior_means = np.asarray(prior_means, dtype=float)
    prior_variances = np.asarray(prior_variances, dtype=float)
    norms = _norms(A_hat) if norms is None else norms
    lam = np.broadcast_to(np.asarray(lam, dtype=float), (len(mu),))
    if "noise_words" in settings and settings["noise_words"] is not None:
        settings["noise_words"] = np.asarray(settings["noise_words"])

    def evaluate(rows, x):
        found = direct_objective(
            prior_means[rows] + x[:, :-1], x[:, -1], counts[rows], A_hat, p_noise,
            prior_means[rows], prior_variances[rows], lam[rows], norms=norms, **settings,
        )  # fmt: skip
        return np.column_stack([found.grad_mu, found.grad_rho]), found.value

    # curvature of the KL, plus that of the risk where it is steepest: 0.24 / var_Q
    start_variance = np.asarray(var_Q, dtype=float)
    curvature = 1.0 / (prior_variances * lam) + 0.25 / (start_variance * A_hat.shape[1])
    curvature_rho = 0.5 * A_hat.shape[1] / lam + 0.1

    def precondition(rows, q):
        out = q / curvature[rows, None]
        out[:, -1] = q[:, -1] / curvature_rho[rows]
        return out

    start = np.column_stack([np.asarray(mu, dtype=float) - prior_means, np.log(start_variance)])
    x, n_iter, _, converged = _minimise(
        evaluate, precondition, start, tol, max_iter, np.arange(len(start))
    )
    # where the last, untested step went up, the start is better
    kept = evaluate(np.arange(len(x)), x)[1] <= evaluate(np.arange(len(x)), start)[1]
    x = np.where(kept[:, None], x, start)
    return prior_means + x[:, :-1], np.exp(x[:, -1]), n_iter, converged


class PB01Vectorizer(SentenceVectorizer):
    """Posteriors that minimise the zero-one Gibbs risk plus KL/lam; our own method.

        w+ mean_w Phi(-z_w) + w- sum_u p_n(u) Phi(z_u) + KL(Q||P_S) / lam
        z_w = (mu.A_w + bias) / (sd_Q |A_w|),   P_S = N(mean of B_hat, prior_variance/n_tokens I)

    Parameters
    ----------
    word_vectors : WordVectors
    lam : float, default=1.0
        Weight of the data. Larger values let a sentence move further from its prior.
    lam_mode : {"fixed", "per-token"}, default="per-token"
        Whether lambda is `lam`, or `lam * n_tokens`.
    prior_variance : float, default=1.0
        Variance of each word's prior; that of the sentence is prior_variance / n_tokens.
    objective : {"risk", "bound"}, default="risk"
        "bound" replaces risk + KL/lam by the kl bound on R+ plus R-; `lam` is then not used, except
        by the PB-neg start. Here its prior has seen the sentence, so it is no certificate.
    bias : float or None, default=None
        Added to every score; None is ln(n_negatives), which undoes the offset of Skip-gram.
    weighting : {"balanced", "paper"}, default="balanced"
        True words and noise weigh 1/2 each, or 1/(k+1) and k/(k+1) with k = n_negatives.
    n_negatives : int, default=15
    noise_power : float, default=0.75
        p_n is the training counts to this power.
    n_noise : int, default=2048
        Noise words, drawn once from p_n, that stand for all of them while searching; a smaller
        vocabulary is used whole.
    delta : float, default=0.05
        For objective="bound".
    max_iter : int, default=60
    tol : float, default=1e-3
    swap_roles, on_empty, batch_size, n_jobs
        As in AverageVectorizer.
    random_state : int or None, default=0
        Seed of the noise words.

    Attributes
    ----------
    start_ : PBNegVectorizer
        Where the search starts, fitted on the same sentences.
    noise_words_, noise_weights_ : arrays
    """

    _parameter_constraints: ClassVar[dict] = {
        **SentenceVectorizer._parameter_constraints,
        "lam": [Interval(Real, 0, None, closed="neither")],
        "lam_mode": [StrOptions({"fixed", "per-token"})],
        "prior_variance": [Interval(Real, 0, None, closed="neither")],
        "objective": [StrOptions(set(OBJECTIVES))],
        "bias": [Real, None],
        "weighting": [StrOptions({"balanced", "paper"})],
        "n_negatives": [Interval(Integral, 1, None, closed="left")],
        "noise_power": [Interval(Real, 0, None, closed="left")],
        "n_noise": [Interval(Integral, 1, None, closed="left")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        word_vectors,
        *,
        lam=1.0,
        lam_mode="per-token",
        prior_variance=1.0,
        objective="risk",
        bias=None,
        weighting="balanced",
        n_negatives=15,
        noise_power=0.75,
        n_noise=2048,
        delta=0.05,
        max_iter=60,
        tol=1e-3,
        swap_roles=False,
        on_empty="warn",
        batch_size=256,
        n_jobs=None,
        random_state=0,
    ):
        self.word_vectors = word_vectors
        self.lam = lam
        self.lam_mode = lam_mode
        self.prior_variance = prior_variance
        self.objective = objective
        self.bias = bias
        self.weighting = weighting
        self.n_negatives = n_negatives
        self.noise_power = noise_power
        self.n_noise = n_noise
        self.delta = delta
        self.max_iter = max_iter
        self.tol = tol
        self.swap_roles = swap_roles
        self.on_empty = on_empty
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _new_start(self):
        return PBNegVectorizer(
            self.word_vectors,
            lam=self.lam,
            lam_mode=self.lam_mode,
            prior_variance=self.prior_variance,
            n_negatives=self.n_negatives,
            noise_power=self.noise_power,
            tol=1e-2,
            swap_roles=self.swap_roles,
            on_empty="ignore",
            n_jobs=1,
            random_state=0,
        )

    def _fit(self, encoded):
        self.start_ = self._new_start().fit(encoded)
        counts = self.start_.noise_counts_.astype(float)
        p_noise = np.where(counts > 0, counts, 0.0) ** self.noise_power * (counts > 0)
        p_noise /= p_noise.sum()
        support = np.flatnonzero(p_noise)
        if support.size <= self.n_noise:
            self.noise_words_, self.noise_weights_ = support, p_noise[support]
            return
        rng = check_random_state(self.random_state)
        drawn = rng.choice(support, self.n_noise, p=p_noise[support])
        self.noise_words_, times = np.unique(drawn, return_counts=True)
        self.noise_weights_ = times / self.n_noise

    def _state(self):
        start = {f"start_{key}": value for key, value in self.start_._state().items()}
        own = {"noise_words": self.noise_words_, "noise_weights": self.noise_weights_}
        return {**super()._state(), **own, **start}

    def _restore(self, state):
        super()._restore(state)
        self.noise_words_ = np.asarray(state["noise_words"], dtype=np.int64)
        self.noise_weights_ = np.asarray(state["noise_weights"], dtype=np.float64)
        self.start_ = self._new_start()
        self.start_._restore(
            {key.removeprefix("start_"): v for key, v in state.items() if key.startswith("start_")}
        )

    def _prepared(self):
        A_hat, B_hat = map(_single, self._tables())
        start = copy(self.start_)  # its reports are per call: not shared
        start._prepare()
        start._reports = {}
        k = self.n_negatives
        settings = {
            "objective": self.objective,
            "delta": self.delta,
            "bias": math.log(k) if self.bias is None else self.bias,
            "weights": (0.5, 0.5) if self.weighting == "balanced" else paper_weights(k),
            "noise_words": self.noise_words_,
            "noise_table": A_hat[self.noise_words_].astype(float),
            "norms": _norms(A_hat),
            "tol": self.tol,
            "max_iter": self.max_iter,
        }

        def posterior(encoded, out=None):
            n = encoded.n_sentences
            full = np.flatnonzero(np.diff(encoded.offsets) > 0)
            means = np.zeros((n, self.word_vectors.n_dims), self._dtype) if out is None else out
            means[...], variances = 0.0, np.full(n, np.nan)
            if full.size:
                counts = self.word_vectors.vocabulary.count(encoded)[full]
                n_tokens = np.asarray(counts.sum(axis=1)).ravel()
                m = np.asarray(counts.astype(B_hat.dtype) @ B_hat) / n_tokens[:, None]
                var_P = self.prior_variance / n_tokens
                lam = self.lam * (n_tokens if self.lam_mode == "per-token" else np.ones(full.size))
                with np.errstate(over="ignore", invalid="ignore"):  # such steps are not taken
                    mu, var_Q = (part[full] for part in start._posterior(encoded))
                    start._reports.pop(id(encoded))
                    lost = ~(np.isfinite(mu).all(axis=1) & np.isfinite(var_Q) & (var_Q > 0))
                    mu[lost], var_Q[lost] = m[lost], var_P[lost]  # start at the prior then
                    means[full], variances[full], _, _ = minimise(
                        mu, var_Q, counts, A_hat, self.noise_weights_, m, var_P, lam, **settings
                    )
            return means, variances

        return posterior

    def _posterior(self, encoded):
        return self._prepared()(encoded)

    def _batches(self, X, *where):
        with threadpool_limits(1, user_api="blas"):  # the batches are the threads
            yield from super()._batches(X, *where)


def _single(table):
    # numba knows no float16
    return np.asarray(table, dtype=np.float64 if table.dtype == np.float64 else np.float32)


def minimise_bound(
    mu, prior, variance, sample, A_hat, p_noise, *, bias, price, weights, rng, verbose=False,
    n_noise=400, n_pilot=500,
):  # fmt: skip
    """Posteriors of many documents that make one aggregated certificate smaller, if any do.

    The bound is linear in R+ and KL to first order, with the slopes of the kl inverse, so its
    minimiser solves one direct objective per document with lam_s = n_s / (w+ dp/dc). The slopes
    depend on the total KL: several totals are tried on some documents and the best on all.
    Any outcome is a valid Q; noise words are sampled here, because this only searches.

    Returns
    -------
    mu, var_Q : arrays, float32 means
    """
    n_words = A_hat.shape[0]
    n_s = np.diff(sample.offsets)
    n = int(n_s.sum())
    counts = sparse.csr_matrix(
        (np.ones(sample.ids.size), sample.ids.copy(), sample.offsets), shape=(n_s.size, n_words)
    )
    counts.sum_duplicates()
    words, times = np.unique(rng.choice(n_words, n_noise, p=p_noise), return_counts=True)
    table, norms = _single(A_hat), _norms(A_hat)
    settings = {"noise_words": words, "bias": bias, "norms": norms}
    p_words = times / n_noise

    def estimate(rows, mu, var_Q):
        """The aggregated bound if all documents were like these."""
        found = gibbs_risk(mu, var_Q, counts[rows], table, p_words, **settings)
        share = n_s[rows] / n_s[rows].sum()
        kl = kl_gaussians(mu, var_Q, prior[rows], np.full(len(mu), variance)).sum()
        kl *= n / n_s[rows].sum()
        q = min(1.0, float(share @ found.positive))
        return weights[0] * bounds.kl_inverse(q, (kl + price) / n) + weights[1] * float(
            share @ found.noise
        ), q

    def solve(rows, dp_dq, dp_dc):
        lam = n_s[rows] / (weights[0] * dp_dc)
        start = np.asarray(mu[rows], dtype=float), np.full(rows.size, variance)
        return minimise(
            *start, counts[rows], table, p_words, prior[rows], np.full(rows.size, variance), lam,
            weights=(weights[0] * dp_dq, weights[1]), max_iter=25, tol=1e-2, **settings,
        )[:2]  # fmt: skip

    pilot = np.sort(rng.choice(n_s.size, min(n_pilot, n_s.size), replace=False))
    at_start, q = estimate(pilot, np.asarray(mu[pilot], float), np.full(pilot.size, variance))
    best = (at_start, None)
    for budget in (price / n, 0.003, 0.01, 0.03, 0.1):
        _, dp_dq, dp_dc = bounds.kl_inverse(max(q, 1e-9), budget, derivatives=True)
        value, _ = estimate(pilot, *solve(pilot, dp_dq, dp_dc))
        if value < best[0]:
            best = (value, (dp_dq, dp_dc))
    var_Q = np.full(n_s.size, float(variance))
    if best[1] is None:
        return mu, var_Q
    out = np.array(mu, dtype=np.float32)
    with bar("bound", total=n_s.size, unit="documents", enabled=verbose) as progress:
        for start in range(0, n_s.size, 1024):
            rows = np.arange(start, min(start + 1024, n_s.size))
            found, var_Q[rows] = solve(rows, *best[1])
            out[rows] = found
            progress.advance(rows.size)
    return out, var_Q
