"""w-PB-neg and PV-DBOW as they are written down, and the flow of w-PB-neg's penalty."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from pacsent.maths.arrays import Numbers
from pacsent.maths.logistic import gaussian_logistic
from pacsent.maths.w_pb_neg_objective import sentence_weights
from reference.pb_neg_reference import negative_sampling_loss


class WordObjective(NamedTuple):
    """Parts of the loss and its gradients, one row or entry per word."""

    data: float
    mean_penalty: float
    var_penalty: float
    kl: float  # sum of KL(Q_v || P_v), in nats
    grad_mu: np.ndarray  # (n_words, n_dims)
    grad_rho: np.ndarray  # (n_words,)

    @property
    def total(self) -> float:
        return self.data + self.mean_penalty + self.var_penalty


def _penalties(mu, rho, B_hat, var_P, lam):
    d = mu.shape[1]
    away = mu - B_hat
    squares = np.sum(away**2, axis=1) / var_P
    spread = d * (np.log(var_P) - rho + np.exp(rho) / var_P)
    return {
        "mean_penalty": 0.5 / lam * squares.sum(),
        "var_penalty": 0.5 / lam * spread.sum(),
        "kl": 0.5 * (squares.sum() + spread.sum() - d * len(rho)),
        "grad_mu": away / (var_P[:, None] * lam),
        "grad_rho": 0.5 * d / lam * (np.exp(rho) / var_P - 1.0),
    }


def sampled_objective(
    mu: np.ndarray,
    rho: np.ndarray,
    eps: np.ndarray,
    sentences: Sequence[np.ndarray],
    negatives: Sequence[np.ndarray],
    tables: tuple[np.ndarray, np.ndarray],
    var_P: np.ndarray,
    *,
    lam: float,
    weighting: str = "token",
) -> WordObjective:
    """The loss for one draw of the noise words and of every h_v = mu_v + e^(rho_v/2) eps_v.

    Parameters
    ----------
    mu : array, shape (n_words, n_dims)
    rho, var_P : array, shape (n_words,)
    eps : array, shape (n_sentences, n_words, n_dims)
        One draw for each sentence and word.
    sentences : list of token lists
    negatives : list of arrays, shape (n_tokens, n_negatives)
    tables : (A_hat, B_hat), arrays of shape (n_words, n_dims)
    """
    A_hat, B_hat = tables
    parts = _penalties(mu, rho, B_hat, np.asarray(var_P, dtype=float), lam)
    omega = sentence_weights([len(S) for S in sentences], weighting)
    deviation = np.exp(0.5 * rho)
    data = 0.0
    for s, S in enumerate(sentences):
        share = np.bincount(S, minlength=len(rho)) / len(S)
        h = share @ (mu + deviation[:, None] * eps[s])
        loss, g = negative_sampling_loss(h, np.asarray(S), np.asarray(negatives[s]), A_hat)
        data += omega[s] * loss / len(S)
        step = omega[s] * share[:, None] * g / len(S)  # (n_words, n_dims)
        parts["grad_mu"] = parts["grad_mu"] + step
        parts["grad_rho"] = parts["grad_rho"] + 0.5 * deviation * np.sum(step * eps[s], axis=1)
    return WordObjective(data=data, **parts)


def expected_objective(
    mu: np.ndarray,
    rho: np.ndarray,
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    B_hat: np.ndarray,
    var_P: np.ndarray,
    noise: np.ndarray,
    *,
    n_negatives: int = 15,
    lam: float = 1.0,
    weighting: str = "token",
) -> WordObjective:
    """The loss with the noise words and all h_v integrated out.

    Parameters
    ----------
    counts : sparse array, shape (n_sentences, n_words)
    noise : array, shape (n_words,)
        Probabilities of the noise words.
    """
    n_tokens = np.asarray(counts.sum(axis=1)).ravel()
    share = sparse.diags(1.0 / np.maximum(n_tokens, 1.0)) @ counts.tocsr()
    omega = sentence_weights(n_tokens, weighting)
    means = share @ mu
    variances = share.power(2) @ np.exp(rho)
    nu = np.sum(A_hat**2, axis=1)
    a = means @ A_hat.T  # (n_sentences, n_words)
    f, f1, f2 = gaussian_logistic(a, variances[:, None] * nu)
    noise = n_negatives * np.asarray(noise)
    share_dense = share.toarray()
    data = f @ noise + np.sum(share_dense * (f - a), axis=1)
    grad = (noise * f1 + share_dense * (f1 - 1.0)) @ A_hat  # (n_sentences, n_dims)
    trace = f2 @ (noise * nu) + (share_dense * f2) @ nu
    parts = _penalties(mu, rho, B_hat, np.asarray(var_P, dtype=float), lam)
    parts["grad_mu"] = parts["grad_mu"] + share.T @ (omega[:, None] * grad)
    parts["grad_rho"] = parts["grad_rho"] + 0.5 * np.exp(rho) * (share.power(2).T @ (omega * trace))
    return WordObjective(data=float(omega @ data), **parts)


def mean_flow(D: np.ndarray, rate: Numbers, tau: Numbers) -> np.ndarray:
    """D = mu - B after the penalty alone acted for time tau; rate = 1/(var_P lam).

    Examples
    --------
    >>> import numpy as np
    >>> mean_flow(np.array([1.0]), rate=1.0, tau=0.0)
    array([1.])
    """
    return D * np.exp(-rate * tau)


def mean_euler(D: np.ndarray, rate: float, steps: ArrayLike) -> np.ndarray:
    """D after plain steps D -= eta rate D for each eta in steps.

    Examples
    --------
    >>> import numpy as np
    >>> mean_euler(np.array([1.0]), rate=1.0, steps=[0.5, 0.5]).round(6)
    array([0.25])
    """
    return D * np.exp(np.sum(np.log1p(-np.asarray(steps) * rate)))


def rho_flow(u: Numbers, tau: Numbers) -> Any:
    """u = rho - log var_P after the penalty alone acted for tau = (d/(2 lam)) * time.

    Examples
    --------
    >>> float(rho_flow(0.0, 1.0)) == 0.0  # at the prior's variance nothing moves
    True
    """
    return -np.log1p(np.expm1(-u) * np.exp(-tau))


def mean_step(D: np.ndarray, rate: Numbers, gradient: Numbers, eta: float) -> np.ndarray:
    """D after time eta of D' = -rate D - gradient, the data gradient held fixed.

    Examples
    --------
    >>> import numpy as np
    >>> mean_step(np.array([1.0]), rate=1.0, gradient=-1.0, eta=5.0)  # stays where they balance
    array([1.])
    """
    return D * np.exp(-rate * eta) + np.expm1(-rate * eta) / rate * gradient


def rho_step(u: Numbers, c: Numbers, gradient: Numbers, eta: float) -> Any:
    """u after time eta of the penalty's flow with the data gradient in rho held fixed.

    z = e^-u obeys z' = c - (c - gradient) z, c = d/(2 lam), which is linear.
    """
    x = (c - gradient) * eta
    phi = eta * np.where(np.abs(x) < 1e-12, 1.0, -np.expm1(-x) / np.where(x == 0, 1.0, x))
    return -np.log(np.exp(-u - x) + c * phi)


def precision_step(u: Numbers, c: Numbers, push: Numbers, eta: float) -> Any:
    """u after time eta of the penalty's flow with the data's gradient in the variance held fixed.

    push = var_P dL/dvar, never negative; z = e^-u obeys z' = c (1 - z) + push, so that no step,
    however large, can overshoot.
    """
    return -np.log1p(np.expm1(-u) * np.exp(-c * eta) - push * np.expm1(-c * eta) / c)


def pv_dbow_objective(
    h: np.ndarray, sentences: Sequence[np.ndarray], negatives: Sequence[np.ndarray], A: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """(loss, gradient in h, gradient in A): l_neg summed over sentences and tokens.

    Parameters
    ----------
    h : array, shape (n_sentences, n_dims)
        Vectors of the sentences.
    sentences : list of token lists
    negatives : list of arrays, shape (n_tokens, n_negatives)
    A : array, shape (n_words, n_dims)
        Vectors of the words, which are trained too.
    """
    loss, grad_h, grad_A = 0.0, np.zeros_like(h), np.zeros_like(A)
    for s, S in enumerate(sentences):
        tokens, noise = np.asarray(S), np.asarray(negatives[s])
        value, grad_h[s] = negative_sampling_loss(h[s], tokens, noise, A)
        loss += value
        np.add.at(grad_A, tokens, -np.outer(1.0 / (1.0 + np.exp(A[tokens] @ h[s])), h[s]))
        np.add.at(grad_A, noise, (1.0 / (1.0 + np.exp(-(A[noise] @ h[s]))))[..., None] * h[s])
    return loss, grad_h, grad_A
