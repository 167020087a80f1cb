"""Posteriors of sentences: closed forms, divergences and similarities of isotropic Gaussians.

Formulas only: arrays and numbers in, arrays and numbers out. A posterior is N(mu, var_Q I), one row
of `mu` and one entry of `var_Q` per sentence. `A_hat` is the table in the loss and `B_hat` the
table of prior means (input and output vectors; swapped for the methods named `i-`).
"""

from typing import Any

import numpy as np

from pacsent.maths.arrays import Numbers

# ---- Closed forms: squared loss -----------------------------------------------------------------


def l2_coefficients(known: Any, weight: Numbers, precision: Numbers, lam: Numbers) -> Any:
    """The posterior under a weighted squared loss and a Gaussian prior: (c_A, c_B, var_Q).

        loss = sum_w beta_w / 2 E|A_w - h|^2 + KL(Q || P) / lam,    P = product of N(B_w, 1/p_w I)
        mu = c_A * sum_w beta_w A_w + c_B * sum_w p_w B_w
        c_A = 1 / (weight + precision/lam),  c_B = c_A / lam,  var_Q = 1 / (lam*weight + precision)

    Parameters
    ----------
    known : array of bool, shape (n_sentences,)
        Whether a sentence has a token. The others get 0, 0 and nan.
    weight, precision : array, shape (n_sentences,)
        Sums over the tokens of beta_w and of p_w.
    lam : float or array, shape (n_sentences,)
        Weight of the data; `inf` leaves the prior out.

    Examples
    --------
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


# ---- The prior, and divergences from it ---------------------------------------------------------


def kl_gaussians(mu_Q: Numbers, var_Q: Numbers, mu_P: Numbers, var_P: Numbers) -> Any:
    """KL(N(mu_Q, var_Q I) || N(mu_P, var_P I)) in nats, row by row.

        KL = |mu_Q - mu_P|^2 / (2 var_P) + n_dims/2 (r - 1 - ln r),   r = var_Q / var_P

    With the prior of `product_of_experts` this is the exact KL of every method here.

    >>> float(kl_gaussians([1.0, 0.0], 1.0, [0.0, 0.0], 1.0))
    0.5
    """
    mu_Q, mu_P = np.asarray(mu_Q, dtype=float), np.asarray(mu_P, dtype=float)
    return _kl(((mu_Q - mu_P) ** 2).sum(axis=-1), var_Q, var_P, mu_Q.shape[-1])


def _kl(squared_distance, var_Q, var_P, n_dims):
    var_Q, var_P = np.asarray(var_Q, dtype=float), np.asarray(var_P, dtype=float)
    excess = var_Q / var_P - 1.0
    with np.errstate(divide="ignore"):  # a posterior without spread is infinitely far: ln 0
        return squared_distance / (2 * var_P) + 0.5 * n_dims * (excess - np.log1p(excess))


# ---- Similarities of posteriors -----------------------------------------------------------------
#
# Each takes two posteriors (means, variances) as `SentenceVectorizer.posterior` returns them, and
# compares row by row, or every row with every row where `pairwise` is true.


def cosine_of_means(Q: tuple, R: tuple, *, pairwise: bool = False) -> Any:
    """Cosine of the angle between the means; 0 where one of them is 0.

    >>> Q, R = (np.array([[1.0, 0.0]]), np.ones(1)), (np.array([[1.0, 1.0]]), np.ones(1))
    >>> cosine_of_means(Q, R).round(4)
    array([0.7071])
    """
    mu_Q, mu_R = _means(Q), _means(R)
    norms_Q, norms_R = np.linalg.norm(mu_Q, axis=1), np.linalg.norm(mu_R, axis=1)
    products = mu_Q @ mu_R.T if pairwise else (mu_Q * mu_R).sum(axis=1)
    norms = norms_Q[:, None] * norms_R if pairwise else norms_Q * norms_R
    return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)


def log_likelihood_kernel(Q: tuple, R: tuple, *, pairwise: bool = False) -> Any:
    """ln of the normalised expected-likelihood kernel: 0 for equal posteriors, below otherwise.

        ln int(QR) - (ln int(QQ) + ln int(RR)) / 2
            = -|mu_Q - mu_R|^2 / (2 v) + n_dims/2 ln(2 sqrt(var_Q var_R) / v),  v = var_Q + var_R

    Divided by the square root of the self-terms, as a kernel must be before its values are
    compared: posteriors of one mean are the more similar the closer their variances are, and no
    length is nearer to everything than another.

    >>> Q = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.5, 0.01])
    >>> np.abs(log_likelihood_kernel(Q, Q))
    array([0., 0.])
    """
    squared, var_Q, var_R, n_dims = _compared(Q, R, pairwise)
    v = var_Q + var_R
    with np.errstate(divide="ignore", invalid="ignore"):  # points: ln 0
        # (var_Q - var_R)^2 / v^2 = 1 - 4 var_Q var_R / v^2, which keeps the digits near 0
        return -squared / (2 * v) + 0.25 * n_dims * np.log1p(-(((var_Q - var_R) / v) ** 2))


def kl_divergence(Q: tuple, R: tuple, *, pairwise: bool = False) -> Any:
    """KL(Q || R) in nats.

    >>> Q, R = (np.array([[1.0, 0.0]]), np.ones(1)), (np.array([[1.0, 1.0]]), np.ones(1))
    >>> kl_divergence(Q, R)
    array([0.5])
    """
    squared, var_Q, var_R, n_dims = _compared(Q, R, pairwise)
    with np.errstate(divide="ignore", invalid="ignore"):
        return _kl(squared, var_Q, var_R, n_dims)


def wasserstein_distance(Q: tuple, R: tuple, *, pairwise: bool = False) -> Any:
    """2-Wasserstein distance: sqrt(|mu_Q - mu_R|^2 + n_dims (sd_Q - sd_R)^2).

    >>> Q, R = (np.array([[1.0, 0.0]]), np.ones(1)), (np.array([[1.0, 1.0]]), np.ones(1))
    >>> wasserstein_distance(Q, R)
    array([1.])
    """
    squared, var_Q, var_R, n_dims = _compared(Q, R, pairwise)
    return np.sqrt(squared + n_dims * (np.sqrt(var_Q) - np.sqrt(var_R)) ** 2)


SIMILARITIES = {
    "cosine": cosine_of_means,
    "expected-likelihood": log_likelihood_kernel,
    "kl": kl_divergence,
    "wasserstein": wasserstein_distance,
}


def _means(Q):
    return np.asarray(Q[0], dtype=float)


def _compared(Q, R, pairwise):
    """Squared distances of the means and the two variances, of one shape, and n_dims."""
    mu_Q, mu_R = _means(Q), _means(R)
    var_Q, var_R = np.asarray(Q[1], dtype=float), np.asarray(R[1], dtype=float)
    n_dims = mu_Q.shape[1]
    if not pairwise:
        return ((mu_Q - mu_R) ** 2).sum(axis=1), var_Q, var_R, n_dims
    # |a - b|^2 = |a|^2 + |b|^2 - 2ab loses digits far from the origin, so go to the middle first
    middle = (mu_Q.sum(axis=0) + mu_R.sum(axis=0)) / (len(mu_Q) + len(mu_R)) if len(mu_Q) else 0.0
    a, b = mu_Q - middle, mu_R - middle
    squared = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * (a @ b.T)
    return np.maximum(squared, 0.0), var_Q[:, None], var_R[None, :], n_dims
