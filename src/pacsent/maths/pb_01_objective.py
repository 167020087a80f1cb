"""PB-01: posteriors that minimise the zero-one Gibbs risk itself, or a bound on it.

The paper trains on log-loss, which neither is nor bounds what its theorem speaks of. Averaged over
a Gaussian, the zero-one risk is smooth (`risks.gibbs_risk`), so it can be minimised directly. It is
not convex: the search starts at the PB-neg optimum and finds a local one.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from pacsent.maths import bounds
from pacsent.maths.gaussians import kl_gaussians
from pacsent.maths.lbfgs import minimise_all
from pacsent.maths.risks import GibbsRisk, gibbs_risk, row_norms
from pacsent.progress import bar
from pacsent.text.encoded import Encoded

OBJECTIVES = ("risk", "bound")


class Direct(NamedTuple):
    """An objective of each sentence, and its gradients."""

    value: np.ndarray  # (n_sentences,)
    grad_mu: np.ndarray  # (n_sentences, n_dims)
    grad_rho: np.ndarray  # (n_sentences,)


@dataclass(frozen=True)
class ZeroOneLoss:
    """What a sentence's posterior is judged by: the table, the noise, and the form of the bound.

    Parameters are those of `risks.gibbs_risk`; `objective` is one of OBJECTIVES, `delta` is for
    "bound". A bound whose prior has seen the sentence is an objective, not a certificate.
    """

    A_hat: np.ndarray
    p_noise: np.ndarray
    bias: float = 0.0
    weights: tuple[float, float] = (0.5, 0.5)
    noise_words: np.ndarray | None = None
    noise_table: np.ndarray | None = None
    norms: np.ndarray | None = None
    objective: str = "risk"
    delta: float = 0.05

    def risks(
        self, mu: np.ndarray, var_Q: np.ndarray, counts: sparse.csr_matrix, **other: Any
    ) -> GibbsRisk:
        """`risks.gibbs_risk` of some sentences; `other` takes the place of what is held here."""
        names = ("bias", "weights", "noise_words", "noise_table", "norms")
        settings = {name: getattr(self, name) for name in names} | other
        return gibbs_risk(mu, var_Q, counts, self.A_hat, self.p_noise, **settings)


@dataclass(frozen=True)
class Documents:
    """Word counts of sentences, the prior N(mean, variance I) of each, and the weight of its KL."""

    counts: sparse.csr_matrix  # (n_sentences, n_words)
    prior_means: np.ndarray  # (n_sentences, n_dims)
    prior_variances: np.ndarray  # (n_sentences,)
    lam: np.ndarray  # (n_sentences,), or one number

    def take(self, rows: np.ndarray) -> "Documents":
        """Some of them."""
        lam = np.broadcast_to(self.lam, (self.counts.shape[0],))
        return Documents(
            self.counts[rows], self.prior_means[rows], self.prior_variances[rows], lam[rows]
        )


def direct_objective(
    mu: np.ndarray, rho: np.ndarray, documents: Documents, loss: ZeroOneLoss
) -> Direct:
    """What PB-01 minimises, for many sentences at once.

        "risk":   w+ R+ + w- R- + KL(Q||P) / lam
        "bound":  w+ kl_inverse(R+, (KL(Q||P) + ln(xi(n)/delta)) / n) + w- R-,  n = tokens

    The posterior of a sentence is N(mu, e^rho I); lam is for "risk".
    """
    mu, rho = np.asarray(mu, dtype=float), np.asarray(rho, dtype=float)
    var_Q, var_P = np.exp(rho), np.asarray(documents.prior_variances, dtype=float)
    kl = kl_gaussians(mu, var_Q, documents.prior_means, var_P)
    kl_mu = (mu - documents.prior_means) / var_P[:, None]
    kl_rho = 0.5 * mu.shape[1] * (var_Q / var_P - 1.0)
    if loss.objective == "risk":
        found = loss.risks(mu, var_Q, documents.counts, gradients=True)
        lam = np.broadcast_to(np.asarray(documents.lam, dtype=float), kl.shape)
        return Direct(
            found.risk + kl / lam,
            found.grad_mu + kl_mu / lam[:, None],
            found.grad_rho + kl_rho / lam,
        )
    # the gradients of R+ and of R- apart, because the bound bends the first
    own = loss.risks(mu, var_Q, documents.counts, weights=(1.0, 0.0), gradients=True)
    nothing = sparse.csr_matrix(documents.counts.shape)
    other = loss.risks(mu, var_Q, nothing, weights=(0.0, 1.0), gradients=True)
    n = np.maximum(1, np.rint(np.asarray(sparse.csr_matrix(documents.counts).sum(axis=1)).ravel()))
    c = (kl + bounds.ln_xi(n) - math.log(loss.delta)) / n
    q = np.clip(own.positive, 1e-12, 1.0)
    p, dp_dq, dp_dc = bounds.kl_inverse(q, c, derivatives=True)
    plus, minus = loss.weights
    return Direct(
        plus * p + minus * other.noise,
        plus * (dp_dq[:, None] * own.grad_mu + (dp_dc / n)[:, None] * kl_mu)
        + minus * other.grad_mu,
        plus * (dp_dq * own.grad_rho + dp_dc / n * kl_rho) + minus * other.grad_rho,
    )


def minimise(
    mu: np.ndarray,
    var_Q: np.ndarray,
    documents: Documents,
    loss: ZeroOneLoss,
    *,
    tol: float = 1e-3,
    max_iter: int = 60,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(mu, var_Q, n_iter, converged): L-BFGS on `direct_objective`, all sentences at once.

    It starts at the given mu and var_Q; values never rise but by rounding, which is that of single
    precision with a `noise_table` in it.
    """
    n, n_dims = np.shape(mu)
    documents = Documents(
        sparse.csr_matrix(documents.counts),
        np.asarray(documents.prior_means, dtype=float),
        np.asarray(documents.prior_variances, dtype=float),
        np.broadcast_to(np.asarray(documents.lam, dtype=float), (n,)),
    )
    if loss.norms is None:
        loss = replace(loss, norms=row_norms(loss.A_hat))
    means = documents.prior_means

    at_start: list[np.ndarray] = []  # values, once they are known

    def evaluate(rows, x):
        found = direct_objective(means[rows] + x[:, :-1], x[:, -1], documents.take(rows), loss)
        if not at_start:
            at_start.append(found.value)
        return np.column_stack([found.grad_mu, found.grad_rho]), found.value

    # curvature of the KL, plus that of the risk where it is steepest: 0.24 / var_Q
    start_variance = np.asarray(var_Q, dtype=float)
    of_kl = 1.0 / (documents.prior_variances * documents.lam)
    curvature = of_kl + 0.25 / (start_variance * n_dims)
    curvature_rho = 0.5 * n_dims / documents.lam + 0.1

    def precondition(rows, q):
        out = q / curvature[rows, None]
        out[:, -1] = q[:, -1] / curvature_rho[rows]
        return out

    start = np.column_stack([np.asarray(mu, dtype=float) - means, np.log(start_variance)])
    single_noise = loss.noise_table is not None and loss.noise_table.dtype == np.float32
    x, n_iter, _, converged = minimise_all(
        evaluate, precondition, start, tol, max_iter, np.arange(n),
        noise=1e-7 if single_noise else 0.0,
    )  # fmt: skip
    # where the last, untested step went up, the start is better
    kept = evaluate(np.arange(n), x)[1] <= at_start[0]
    x = np.where(kept[:, None], x, start)
    return means + x[:, :-1], np.exp(x[:, -1]), n_iter, converged


_N_PILOT = 500  # documents on which the totals of the KL are compared


def minimise_bound(
    mu: np.ndarray,
    prior: np.ndarray,
    variance: float,
    sample: Encoded,
    A_hat: np.ndarray,
    p_noise: np.ndarray,
    *,
    bias: float,
    price: float,
    weights: tuple[float, float],
    rng: np.random.Generator,
    verbose: bool = False,
    n_noise: int = 400,
) -> tuple[np.ndarray, np.ndarray]:
    """Posteriors of many documents that make one aggregated certificate smaller, if any do.

    The bound is linear in R+ and KL to first order, with the slopes of the kl inverse, so its
    minimiser solves one direct objective per document with lam_s = n_s / (w+ dp/dc). The slopes
    depend on the total KL: several totals are tried on some documents and the best on all. Any
    outcome is a valid Q, (mu, var_Q); noise words are sampled here, because this only searches.
    """
    n_words = A_hat.shape[0]
    n_s = np.diff(sample.offsets)
    n = int(n_s.sum())
    counts = sparse.csr_matrix(
        (np.ones(sample.ids.size), sample.ids.copy(), sample.offsets), shape=(n_s.size, n_words)
    )
    counts.sum_duplicates()
    words, times = np.unique(rng.choice(n_words, n_noise, p=p_noise), return_counts=True)
    loss = ZeroOneLoss(
        single(A_hat), times / n_noise, bias=bias, noise_words=words, norms=row_norms(A_hat)
    )

    def estimate(rows, mu, var_Q):
        """The aggregated bound if all documents were like these."""
        found = loss.risks(mu, var_Q, counts[rows])
        share = n_s[rows] / n_s[rows].sum()
        kl = kl_gaussians(mu, var_Q, prior[rows], np.full(len(mu), variance)).sum()
        kl *= n / n_s[rows].sum()
        q = min(1.0, float(share @ found.positive))
        return weights[0] * bounds.kl_inverse(q, (kl + price) / n) + weights[1] * float(
            share @ found.noise
        ), q

    def solve(rows, dp_dq, dp_dc):
        lam = n_s[rows] / (weights[0] * dp_dc)
        var_P = np.full(rows.size, variance)
        documents = Documents(counts[rows], prior[rows], var_P, lam)
        bent = replace(loss, weights=(weights[0] * dp_dq, weights[1]))
        start = np.asarray(mu[rows], dtype=float), var_P
        return minimise(*start, documents, bent, max_iter=25, tol=1e-2)[:2]

    pilot = np.sort(rng.choice(n_s.size, min(_N_PILOT, n_s.size), replace=False))
    at_start, q = estimate(pilot, np.asarray(mu[pilot], float), np.full(pilot.size, variance))
    best: tuple[float, tuple | None] = (at_start, None)
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


def single(table: np.ndarray) -> np.ndarray:
    """The table in single precision, or double where it is double: numba knows no float16."""
    return np.asarray(table, dtype=np.float64 if table.dtype == np.float64 else np.float32)
