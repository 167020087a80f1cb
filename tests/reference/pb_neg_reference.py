"""PB-neg as it is written down: one sentence or word after the other."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from pacsent.maths.arrays import Numbers
from pacsent.maths.logistic import gaussian_logistic, sigmoid, softplus


class Objective(NamedTuple):
    """Parts of an objective and its gradients; one entry or row per sentence where batched."""

    data: Numbers
    mean_penalty: Numbers
    var_penalty: Numbers
    grad_mu: np.ndarray
    grad_rho: np.ndarray
    grad_h: np.ndarray  # of the data term alone
    trace: np.ndarray | None = None  # of the expected Hessian of the data term

    @property
    def total(self) -> Numbers:
        return self.data + self.mean_penalty + self.var_penalty


def penalty_coefficients(n_tokens, n_dims, *, lam, var_P=1.0, kl="exact"):
    """(kappa, c, A, B): the mean feels kappa (mu - m), rho feels c (A e^rho - B).

    kl="exact" is KL(Q || P)/lam; "paper" is what the paper prints, which counts the logarithm
    n_tokens times.
    """
    n_tokens, lam = np.asarray(n_tokens, dtype=float), np.asarray(lam, dtype=float)
    A = n_tokens / var_P
    return A / lam, 0.5 * n_dims / lam, A, n_tokens if kl == "paper" else np.ones_like(n_tokens)


def variance_penalty(rho, n_tokens, n_dims, *, lam, var_P=1.0, kl="exact"):
    """V(rho), which is 0 at rho = log(var_P/n_tokens) for kl="exact"."""
    if kl == "paper":
        return 0.5 * n_dims * n_tokens / lam * (np.log(var_P) - rho + np.exp(rho) / var_P)
    ratio = n_tokens / var_P
    return 0.5 * n_dims / lam * (ratio * np.exp(rho) - 1.0 - np.log(ratio) - rho)


def sampled_objective(
    mu: np.ndarray,
    rho: float,
    eps: np.ndarray,
    tokens: ArrayLike,
    negatives: ArrayLike,
    A_hat: np.ndarray,
    B_hat: np.ndarray,
    *,
    lam: float,
    var_P: float = 1.0,
    kl: str = "exact",
) -> Objective:
    """PB-neg of one sentence for one draw of the noise words and of h = mu + e^(rho/2) eps.

    Parameters
    ----------
    mu, eps : array, shape (n_dims,)
    rho : float
    tokens : array of int, shape (n_tokens,)
    negatives : array of int, shape (n_tokens, n_negatives)
        The noise words of each token.
    A_hat, B_hat : array, shape (n_words, n_dims)

    Returns
    -------
    Objective
    """
    tokens, negatives = np.asarray(tokens), np.asarray(negatives)
    n_tokens, n_dims = tokens.size, A_hat.shape[1]
    deviation = np.exp(0.5 * rho)
    data, grad_h = negative_sampling_loss(mu + deviation * eps, tokens, negatives, A_hat)
    data, grad_h = data / n_tokens, grad_h / n_tokens
    m = B_hat[tokens].mean(axis=0)
    kappa, c, A, B = penalty_coefficients(n_tokens, n_dims, lam=lam, var_P=var_P, kl=kl)
    return Objective(
        data=data,
        mean_penalty=0.5 * kappa * np.sum((mu - m) ** 2),
        var_penalty=variance_penalty(rho, n_tokens, n_dims, lam=lam, var_P=var_P, kl=kl),
        grad_mu=grad_h + kappa * (mu - m),
        grad_rho=0.5 * deviation * (grad_h @ eps) + c * (A * np.exp(rho) - B),
        grad_h=grad_h,
    )


def negative_sampling_loss(
    h: np.ndarray, tokens: np.ndarray, negatives: np.ndarray, A_hat: np.ndarray
) -> tuple[float, np.ndarray]:
    """(loss, gradient in h): sum over tokens of softplus(-h.A_w) + sum_j softplus(h.A_{n_j})."""
    true, noise = A_hat[tokens], A_hat[negatives]  # (n_tokens, n_dims), (n_tokens, k, n_dims)
    a_true, a_noise = true @ h, noise @ h
    loss = softplus(-a_true).sum() + softplus(a_noise).sum()
    grad = np.einsum("tk,tkd->d", sigmoid(a_noise), noise) - sigmoid(-a_true) @ true
    return loss, grad


def expected_objective(
    mu: np.ndarray,
    rho: np.ndarray,
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    noise: ArrayLike,
    *,
    n_negatives: int = 15,
    lam: Numbers = 1.0,
    var_P: float = 1.0,
    kl: str = "exact",
) -> Objective:
    """PB-neg of many sentences with the noise words and h integrated out.

    Parameters
    ----------
    mu : array, shape (n_sentences, n_dims)
    rho : array, shape (n_sentences,)
    counts : sparse array, shape (n_sentences, n_words)
    A_hat : array, shape (n_words, n_dims)
    m : array, shape (n_sentences, n_dims)
        Means of the priors.
    noise : array, shape (n_words,)
        Probabilities of the noise words.

    Returns
    -------
    Objective
        One entry or row per sentence.
    """
    counts = counts.tocsr()
    n_tokens = np.asarray(counts.sum(axis=1)).ravel().astype(float)
    A_hat = np.asarray(A_hat, dtype=float)
    nu = np.sum(A_hat**2, axis=1)
    var_Q = np.exp(rho)
    data, trace = np.empty(len(mu)), np.empty(len(mu))
    grad_h = np.empty(np.shape(mu))
    words = np.flatnonzero(noise)
    kp = n_negatives * np.asarray(noise)[words]
    for s in range(len(mu)):
        f, f1, f2 = gaussian_logistic(A_hat[words] @ mu[s], var_Q[s] * nu[words])
        own = counts.indices[counts.indptr[s] : counts.indptr[s + 1]]
        share = counts.data[counts.indptr[s] : counts.indptr[s + 1]] / n_tokens[s]
        f_own, f1_own, f2_own = gaussian_logistic(-(A_hat[own] @ mu[s]), var_Q[s] * nu[own])
        data[s] = kp @ f + share @ f_own
        grad_h[s] = (kp * f1) @ A_hat[words] - (share * f1_own) @ A_hat[own]
        trace[s] = (kp * f2) @ nu[words] + (share * f2_own) @ nu[own]
    kappa, c, A, B = penalty_coefficients(n_tokens, A_hat.shape[1], lam=lam, var_P=var_P, kl=kl)
    return Objective(
        data=data,
        mean_penalty=0.5 * kappa * np.sum((mu - m) ** 2, axis=1),
        var_penalty=variance_penalty(rho, n_tokens, A_hat.shape[1], lam=lam, var_P=var_P, kl=kl),
        grad_mu=grad_h + kappa[:, None] * (mu - m),
        grad_rho=0.5 * var_Q * trace + c * (A * var_Q - B),
        grad_h=grad_h,
        trace=trace,
    )
