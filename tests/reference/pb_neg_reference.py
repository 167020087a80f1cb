"""PB-neg as it is written down: one sentence after the other."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from pacsent.sentences.solvers.logistic import gaussian_logistic


class Objective(NamedTuple):
    """Parts of an objective and its gradients, one entry or row per sentence."""

    data: np.ndarray
    mean_penalty: np.ndarray
    var_penalty: np.ndarray
    grad_mu: np.ndarray
    grad_rho: np.ndarray
    trace: np.ndarray  # of the expected Hessian of the data term

    @property
    def total(self):
        return self.data + self.mean_penalty + self.var_penalty


def negative_sampling_loss(h, tokens, negatives, A_hat):
    """(loss, gradient in h): sum over tokens of softplus(-h.A_w) + sum_j softplus(h.A_{n_j})."""
    true = A_hat[tokens]  # (n_tokens, n_dims)
    noise = A_hat[negatives]  # (n_tokens, k, n_dims)
    a_true = true @ h
    a_noise = noise @ h
    loss = np.logaddexp(0.0, -a_true).sum() + np.logaddexp(0.0, a_noise).sum()
    grad = np.einsum("tk,tkd->d", expit(a_noise), noise) - expit(-a_true) @ true
    return loss, grad


def expected_objective(
    mu, rho, counts, A_hat, m, noise, *, n_negatives=15, lam=1.0, var_P=1.0, kl="exact"
):
    """PB-neg of many sentences with the negatives, of these probabilities, and h integrated out.

    kl="exact" is KL(Q || P)/lam, P = N(m, var_P/n I); "paper" is what the paper prints, which
    counts the logarithm n times.
    """
    counts = counts.tocsr()
    n_tokens = np.asarray(counts.sum(axis=1)).ravel().astype(float)
    A_hat = np.asarray(A_hat, dtype=float)
    n_dims = A_hat.shape[1]
    nu = np.sum(A_hat**2, axis=1)
    var_Q = np.exp(rho)
    kp = n_negatives * np.asarray(noise)

    data = np.empty(len(mu))
    trace = np.empty(len(mu))
    grad_h = np.empty(np.shape(mu))
    for s in range(len(mu)):
        own = counts[[s]].indices
        share = counts[[s]].data / n_tokens[s]
        f, f1, f2 = gaussian_logistic(A_hat @ mu[s], var_Q[s] * nu)
        own_scores = A_hat[own] @ mu[s]
        f_own, f1_own, f2_own = gaussian_logistic(-own_scores, var_Q[s] * nu[own])
        data[s] = kp @ f + share @ f_own
        grad_h[s] = (kp * f1) @ A_hat - (share * f1_own) @ A_hat[own]
        trace[s] = (kp * f2) @ nu + (share * f2_own) @ nu[own]

    away = mu - m
    kappa = n_tokens / (var_P * lam)
    c = 0.5 * n_dims / lam
    ratio = n_tokens / var_P
    if kl == "paper":
        times = n_tokens
        var_penalty = c * n_tokens * (np.log(var_P) - rho + var_Q / var_P)
    else:
        times = 1.0
        var_penalty = c * (ratio * var_Q - 1.0 - np.log(ratio) - rho)
    return Objective(
        data=data,
        mean_penalty=0.5 * kappa * np.sum(away**2, axis=1),
        var_penalty=var_penalty,
        grad_mu=grad_h + kappa[:, None] * away,
        grad_rho=0.5 * var_Q * trace + c * (ratio * var_Q - times),
        trace=trace,
    )
