"""PB-01: posteriors that minimise the zero-one Gibbs risk itself.

Nozawa and Sato (2019) train on log-loss, which neither is nor bounds the risk of their theorem.
Averaged over a Gaussian, the zero-one risk is smooth (`risks.gibbs_risk`), so it can be minimised
directly. It is not convex: the search starts at the PB-neg optimum and finds a local minimum.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from pacsent.sentences.solvers.gaussians import kl_gaussians
from pacsent.sentences.solvers.lbfgs import minimise_all
from pacsent.sentences.solvers.risks import GibbsRisk


@dataclass(frozen=True)
class Documents:
    """Word counts of sentences, the prior N(mean, variance I) of each, and the weight of its KL."""

    counts: sparse.csr_matrix  # (n_sentences, n_words)
    prior_means: np.ndarray  # (n_sentences, n_dims)
    prior_variances: np.ndarray  # (n_sentences,)
    lam: np.ndarray  # (n_sentences,)


def direct_objective(
    mu: np.ndarray, rho: np.ndarray, documents: Documents, risk: Callable[..., GibbsRisk]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values, gradients in mu, gradients in rho) of w+ R+ + w- R- + KL(Q||P) / lam.

    The posterior of a sentence is N(mu, e^rho I); `risk` is `risks.gibbs_risk` with all but its
    first three arguments given.
    """
    mu, rho = np.asarray(mu, dtype=float), np.asarray(rho, dtype=float)
    var_Q, var_P, lam = np.exp(rho), documents.prior_variances, documents.lam
    kl = kl_gaussians(mu, var_Q, documents.prior_means, var_P)
    gibbs = risk(mu, var_Q, documents.counts, gradients=True)
    return (
        gibbs.risk + kl / lam,
        gibbs.grad_mu + (mu - documents.prior_means) / (var_P * lam)[:, None],
        gibbs.grad_rho + 0.5 * mu.shape[1] * (var_Q / var_P - 1.0) / lam,
    )


def minimise(
    mu: np.ndarray,
    var_Q: np.ndarray,
    documents: Documents,
    risk: Callable[..., GibbsRisk],
    *,
    tol: float = 1e-3,
    max_iter: int = 60,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(mu, var_Q, n_iter, converged): L-BFGS on `direct_objective`, all sentences at once.

    It starts at the given mu and var_Q; values never rise but by the rounding of single precision.
    """
    n, n_dims = np.shape(mu)
    means, var_P, lam = documents.prior_means, documents.prior_variances, documents.lam
    counts = sparse.csr_matrix(documents.counts)
    values: list[np.ndarray] = []  # of each evaluation; the first is the start

    def evaluate(rows, x):
        part = Documents(counts[rows], means[rows], var_P[rows], lam[rows])
        value, grad_mu, grad_rho = direct_objective(means[rows] + x[:, :-1], x[:, -1], part, risk)
        values.append(value)
        return np.column_stack([grad_mu, grad_rho]), value

    # Curvature of the KL, plus that of the risk where it is steepest: 0.24 / var_Q.
    start_variance = np.asarray(var_Q, dtype=float)
    curvature = 1.0 / (var_P * lam) + 0.25 / (start_variance * n_dims)
    curvature_rho = 0.5 * n_dims / lam + 0.1

    def precondition(rows, q):
        out = q / curvature[rows, None]
        out[:, -1] = q[:, -1] / curvature_rho[rows]
        return out

    start = np.column_stack([np.asarray(mu, dtype=float) - means, np.log(start_variance)])
    rows = np.arange(n)
    x, n_iter, _, converged = minimise_all(
        evaluate, precondition, start, tol, max_iter, rows, noise=1e-7
    )
    # Where the last, untested step went up, the start is better.
    fell = evaluate(rows, x)[1] <= values[0]
    x = np.where(fell[:, None], x, start)
    return means + x[:, :-1], np.exp(x[:, -1]), n_iter, converged
