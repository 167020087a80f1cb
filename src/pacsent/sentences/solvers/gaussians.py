"""Posteriors of sentences, N(mu, var_Q I): closed forms under the squared loss, and their KL."""

from typing import Any

import numpy as np

from pacsent.arrays import Numbers


def l2_coefficients(known: Any, weight: Numbers, precision: Numbers, lam: Numbers) -> Any:
    """The posterior under a weighted squared loss and a Gaussian prior: (c_A, c_B, var_Q).

        loss = sum_w beta_w / 2 E|A_w - h|^2 + KL(Q || P) / lam,    P = product of N(B_w, 1/p_w I)
        mu = c_A * sum_w beta_w A_w + c_B * sum_w p_w B_w
        c_A = 1 / (weight + precision/lam),  c_B = c_A / lam,  var_Q = 1 / (lam*weight + precision)

    `weight` and `precision` are the sums over a sentence's tokens of beta_w and of p_w; `lam` is
    the weight of the data, `inf` leaves the prior out. A sentence without a token, for which
    `known` is false, gets 0, 0 and nan. All have the shape (n_sentences,).

    >>> [float(x) for x in l2_coefficients(True, 1.0, 2.0, lam=2.0)]  # PB-L2 of two words
    [0.5, 0.25, 0.25]
    """
    known, weight, precision, lam = np.broadcast_arrays(
        known, *(np.asarray(x, dtype=float) for x in (weight, precision, lam))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        inv_lam = np.where(np.isinf(lam), 0.0, 1.0 / lam)
        c_A = np.where(known, 1.0 / (weight + precision * inv_lam), 0.0)
        c_B = c_A * inv_lam
    # var_Q = (lam*weight + precision)^-1, written so that lam = inf gives 0
    return c_A, c_B, np.where(known, c_B, np.nan)


def l2_lam(
    n_tokens: Numbers,
    *,
    lam: Numbers = 1.0,
    alpha: Numbers | None = None,
    var_P: Numbers = 1.0,
    lam_mode: str = "fixed",
) -> Any:
    """The lambda of each sentence: fixed, lam * n_tokens, or the one that gives `alpha`.

    alpha = n_tokens / (var_P * lam)

    >>> l2_lam([2, 5], lam=3.0, lam_mode='per-token')
    array([ 6., 15.])
    """
    n_tokens = np.asarray(n_tokens, dtype=float)
    if alpha is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(n_tokens > 0, n_tokens / (var_P * np.float64(alpha)), np.inf)
    if lam_mode == "per-token":
        return np.where(n_tokens > 0, lam * np.maximum(n_tokens, np.finfo(float).tiny), np.inf)
    return np.full(n_tokens.shape, float(lam))


def idf(document_frequency: Numbers, n_sentences: int) -> Any:
    """IDF(w) = ln(n_sentences / document_frequency(w)) + 1.

    A word that no sentence contains counts as if one did.

    >>> idf([1, 5, 10], 10).round(3)
    array([3.303, 1.693, 1.   ])
    """
    document_frequency = np.asarray(document_frequency, dtype=float)
    return np.log(max(n_sentences, 1) / np.maximum(document_frequency, 1.0)) + 1.0


def kl_gaussians(mu_Q: Numbers, var_Q: Numbers, mu_P: Numbers, var_P: Numbers) -> Any:
    """KL(N(mu_Q, var_Q I) || N(mu_P, var_P I)) in nats, row by row.

        KL = |mu_Q - mu_P|^2 / (2 var_P) + n_dims/2 (r - 1 - ln r),   r = var_Q / var_P

    >>> float(kl_gaussians([1.0, 0.0], 1.0, [0.0, 0.0], 1.0))
    0.5
    """
    mu_Q, mu_P = np.asarray(mu_Q, dtype=float), np.asarray(mu_P, dtype=float)
    var_Q, var_P = np.asarray(var_Q, dtype=float), np.asarray(var_P, dtype=float)
    excess = var_Q / var_P - 1.0
    with np.errstate(divide="ignore"):  # a posterior without spread is infinitely far: ln 0
        spread = 0.5 * mu_Q.shape[-1] * (excess - np.log1p(excess))
    return ((mu_Q - mu_P) ** 2).sum(axis=-1) / (2 * var_P) + spread
