"""Posteriors of sentences, N(mu, var_Q I): closed forms under the squared loss, and their KL."""

from typing import Any

import numpy as np

from pacsent.arrays import Numbers

_TINY = np.finfo(float).tiny


def l2_coefficients(known: Any, weight: Numbers, precision: Numbers, lam: Numbers) -> Any:
    """The posterior under a weighted squared loss and a Gaussian prior: (c_A, c_B, var_Q).

        loss = sum_w beta_w / 2 E|A_w - h|^2 + KL(Q || P) / lam,    P = product of N(B_w, 1/p_w I)
        mu = c_A * sum_w beta_w A_w + c_B * sum_w p_w B_w
        c_A = 1 / (weight + precision/lam),  c_B = c_A / lam,  var_Q = 1 / (lam*weight + precision)

    All arguments broadcast, usually to (n_sentences,).

    Parameters
    ----------
    known : bool or array of bool
        Whether a sentence has a token. One without gets 0, 0 and nan.
    weight : float or array
        Sum over a sentence's tokens of beta_w.
    precision : float or array
        Sum over a sentence's tokens of p_w.
    lam : float or array
        Weight of the data; `inf` leaves the prior out.

    Returns
    -------
    c_A, c_B, var_Q : array

    References
    ----------
    Theorem 4 of docs/theory.md.

    Examples
    --------
    >>> [float(x) for x in l2_coefficients(True, 1.0, 2.0, lam=2.0)]  # PB-L2 of two words
    [0.5, 0.25, 0.25]
    """
    known, weight, precision, lam = np.broadcast_arrays(
        known,
        np.asarray(weight, dtype=float),
        np.asarray(precision, dtype=float),
        np.asarray(lam, dtype=float),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        inv_lam = np.where(np.isinf(lam), 0.0, 1.0 / lam)
        c_A = np.where(known, 1.0 / (weight + precision * inv_lam), 0.0)
        c_B = c_A * inv_lam

    # (lam*weight + precision)^-1, written so that lam = inf gives 0
    var_Q = np.where(known, c_B, np.nan)
    return c_A, c_B, var_Q


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

    Parameters
    ----------
    n_tokens : array, shape (n_sentences,)
    lam : float, default=1.0
        The lambda, or with lam_mode="per-token" the lambda per token.
    alpha : float or None, default=None
        Weight of the prior. Given, it replaces `lam`.
    var_P : float, default=1.0
        Variance of a word's prior; it matters with `alpha` alone.
    lam_mode : {"fixed", "per-token"}, default="fixed"

    Returns
    -------
    lam : array, shape (n_sentences,)

    Examples
    --------
    >>> l2_lam([2, 5], lam=3.0, lam_mode='per-token')
    array([ 6., 15.])
    """
    n_tokens = np.asarray(n_tokens, dtype=float)
    if alpha is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            lam_of_alpha = n_tokens / (var_P * np.float64(alpha))
        return np.where(n_tokens > 0, lam_of_alpha, np.inf)

    if lam_mode == "per-token":
        lam_of_length = lam * np.maximum(n_tokens, _TINY)
        return np.where(n_tokens > 0, lam_of_length, np.inf)
    return np.full(n_tokens.shape, float(lam))


def idf(document_frequency: Numbers, n_sentences: int) -> Any:
    """IDF(w) = ln(n_sentences / document_frequency(w)) + 1.

    Parameters
    ----------
    document_frequency : array, shape (n_words,)
        Number of sentences that contain each word. 0 counts as 1.
    n_sentences : int

    Returns
    -------
    idf : array, shape (n_words,)

    Examples
    --------
    >>> idf([1, 5, 10], 10).round(3)
    array([3.303, 1.693, 1.   ])
    """
    document_frequency = np.asarray(document_frequency, dtype=float)
    return np.log(max(n_sentences, 1) / np.maximum(document_frequency, 1.0)) + 1.0


def kl_gaussians(mu_Q: Numbers, var_Q: Numbers, mu_P: Numbers, var_P: Numbers) -> Any:
    """KL(N(mu_Q, var_Q I) || N(mu_P, var_P I)) in nats, row by row.

        KL = |mu_Q - mu_P|^2 / (2 var_P) + n_dims/2 (r - 1 - ln r),   r = var_Q / var_P

    Parameters
    ----------
    mu_Q, mu_P : array, shape (n, n_dims)
    var_Q, var_P : array, shape (n,)

    Returns
    -------
    kl : array, shape (n,)

    References
    ----------
    Theorem 2 of docs/theory.md.

    Examples
    --------
    >>> float(kl_gaussians([1.0, 0.0], 1.0, [0.0, 0.0], 1.0))
    0.5
    """
    mu_Q = np.asarray(mu_Q, dtype=float)
    var_Q = np.asarray(var_Q, dtype=float)
    mu_P = np.asarray(mu_P, dtype=float)
    var_P = np.asarray(var_P, dtype=float)

    # r - 1 - ln r loses all digits where r is close to 1, unless it is written in r - 1.
    excess = var_Q / var_P - 1.0
    with np.errstate(divide="ignore"):  # a posterior without spread is infinitely far: ln 0
        spread = 0.5 * mu_Q.shape[-1] * (excess - np.log1p(excess))

    squared_distance = ((mu_Q - mu_P) ** 2).sum(axis=-1)
    return squared_distance / (2 * var_P) + spread
