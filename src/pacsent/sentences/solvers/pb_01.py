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

# Values of the risk are this precise, because its noise term is summed in single precision.
_VALUE_NOISE = 1e-7


@dataclass(frozen=True)
class Documents:
    """Word counts of sentences, the prior N(mean, variance I) of each, and the weight of its KL."""

    counts: sparse.csr_matrix  # (n_sentences, n_words)
    prior_means: np.ndarray  # (n_sentences, n_dims)
    prior_variances: np.ndarray  # (n_sentences,)
    lam: np.ndarray  # (n_sentences,)

    def take(self, rows: np.ndarray) -> "Documents":
        """Return these sentences alone."""
        return Documents(
            counts=self.counts[rows],
            prior_means=self.prior_means[rows],
            prior_variances=self.prior_variances[rows],
            lam=self.lam[rows],
        )


def direct_objective(
    mu: np.ndarray, rho: np.ndarray, documents: Documents, risk: Callable[..., GibbsRisk]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values, gradients in mu, gradients in rho) of w+ R+ + w- R- + KL(Q||P) / lam.

    The posterior of a sentence is N(mu, e^rho I); `risk` is `risks.gibbs_risk` with all but its
    first three arguments given.
    """
    mu = np.asarray(mu, dtype=float)
    var_Q = np.exp(np.asarray(rho, dtype=float))
    var_P = documents.prior_variances
    lam = documents.lam

    gibbs = risk(mu, var_Q, documents.counts, gradients=True)
    kl = kl_gaussians(mu, var_Q, documents.prior_means, var_P)
    kl_grad_mu = (mu - documents.prior_means) / (var_P * lam)[:, None]
    kl_grad_rho = 0.5 * mu.shape[1] * (var_Q / var_P - 1.0) / lam
    return gibbs.risk + kl / lam, gibbs.grad_mu + kl_grad_mu, gibbs.grad_rho + kl_grad_rho


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
    n_sentences, n_dims = np.shape(mu)
    prior_means = documents.prior_means
    lam = documents.lam
    counts = sparse.csr_matrix(documents.counts)
    documents = Documents(counts, prior_means, documents.prior_variances, lam)

    # A row of unknowns is x = (mu - prior mean, rho), as for PB-neg.
    start_variances = np.asarray(var_Q, dtype=float)
    start_displacements = np.asarray(mu, dtype=float) - prior_means
    start = np.column_stack([start_displacements, np.log(start_variances)])
    values: list[np.ndarray] = []  # of each evaluation; the first is the start

    def evaluate(rows: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        part = documents.take(rows)
        means = part.prior_means + x[:, :-1]
        value, grad_mu, grad_rho = direct_objective(means, x[:, -1], part, risk)
        values.append(value)
        return np.column_stack([grad_mu, grad_rho]), value

    # Curvature of the KL, plus that of the risk where it is steepest: 0.24 / var_Q.
    kl_curvature = 1.0 / (documents.prior_variances * lam)
    curvature = kl_curvature + 0.25 / (start_variances * n_dims)
    curvature_rho = 0.5 * n_dims / lam + 0.1

    def precondition(rows: np.ndarray, q: np.ndarray) -> np.ndarray:
        out = q / curvature[rows, None]
        out[:, -1] = q[:, -1] / curvature_rho[rows]
        return out

    all_rows = np.arange(n_sentences)
    minima = minimise_all(
        evaluate, precondition, start, tol, max_iter, all_rows, noise=_VALUE_NOISE
    )

    # Where the last, untested step went up, the start is better.
    _, last_values = evaluate(all_rows, minima.x)
    is_lower = last_values <= values[0]
    x = np.where(is_lower[:, None], minima.x, start)
    return prior_means + x[:, :-1], np.exp(x[:, -1]), minima.n_iter, minima.converged
