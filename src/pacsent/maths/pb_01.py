"""PB-01: posteriors that minimise the zero-one Gibbs risk itself, or a bound on it.

The paper trains on log-loss, which neither is nor bounds what its theorem speaks of. Averaged over
a Gaussian, the zero-one risk is smooth (`risks.gibbs_risk`), so it can be minimised directly. It is
not convex: the search starts at the PB-neg optimum and finds a local one.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import sparse

from pacsent.maths import bounds
from pacsent.maths.gaussians import kl_gaussians
from pacsent.maths.lbfgs import minimise_all
from pacsent.maths.risks import gibbs_risk, row_norms
from pacsent.progress import bar

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
    norms = row_norms(A_hat) if norms is None else norms
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
    x, n_iter, _, converged = minimise_all(
        evaluate, precondition, start, tol, max_iter, np.arange(len(start))
    )
    # where the last, untested step went up, the start is better
    kept = evaluate(np.arange(len(x)), x)[1] <= evaluate(np.arange(len(x)), start)[1]
    x = np.where(kept[:, None], x, start)
    return prior_means + x[:, :-1], np.exp(x[:, -1]), n_iter, converged


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
    table, norms = single(A_hat), row_norms(A_hat)
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


def single(table):
    # numba knows no float16
    return np.asarray(table, dtype=np.float64 if table.dtype == np.float64 else np.float32)
