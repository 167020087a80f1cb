"""The KL of Theorem 2: as the paper derives it (appendix A.1), and as it is.

A sentence has n words with prior means `B`, the rows o_w, each with the prior N(o_w, var_P I).
Their product, normalised, is the prior P_S; Q = N(mu, var_Q I) is the posterior.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pacsent.sentences.solvers.gaussians import kl_gaussians


def product_prior(B: ArrayLike, var_P: ArrayLike = 1.0) -> tuple[np.ndarray, float]:
    """Mean and variance of P_S, the normalised product of N(o_w, var_P I) over the words.

    mean = (sum of o_w / var_P) / (sum of 1 / var_P),   variance = 1 / (sum of 1 / var_P)

    Parameters
    ----------
    B : array, shape (n_tokens, n_dims)
        The rows o_w of the sentence's words.
    var_P : float or array, shape (n_tokens,)
        Variance of the prior of every word, or of each.

    Returns
    -------
    mean : array, shape (n_dims,)
    variance : float

    Examples
    --------
    >>> product_prior([[0.0, 2.0], [2.0, 0.0]], var_P=1.0)
    (array([1., 1.]), 0.5)
    """
    B = np.asarray(B, dtype=float)
    var_P = np.asarray(var_P, dtype=float)
    precisions = np.broadcast_to(1.0 / var_P, len(B))  # (n_tokens,)

    total_precision = float(precisions.sum())
    mean = precisions @ B / total_precision
    return mean, 1.0 / total_precision


def sum_prior(B: ArrayLike, var_P: float = 1.0) -> tuple[np.ndarray, float]:
    """Mean and variance of the paper's first prior (section 3.1), N(sum of o_w, var_P I).

    Theorem 2 uses the product instead, whose mean is the average of the o_w.

    Parameters
    ----------
    B : array, shape (n_tokens, n_dims)
        The rows o_w of the sentence's words.
    var_P : float, default=1.0
        Variance of the prior.

    Returns
    -------
    mean : array, shape (n_dims,)
    variance : float

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> mean, variance = sum_prior(ex.O_hat[ex.sentences[0]])
    >>> mean.round(3), variance
    (array([-0.788, -0.988, -0.679,  0.094]), 1.0)
    """
    B = np.asarray(B, dtype=float)
    return B.sum(axis=0), var_P


def log_normaliser(B: ArrayLike, var_P: float = 1.0) -> float:
    """Logarithm of Z, the integral over h of the product of the densities N(h; o_w, var_P I).

    -n d/2 ln(2 pi var_P) + d/2 ln(2 pi var_P/n) - sum of |o_w - m|^2 / (2 var_P)

    Parameters
    ----------
    B : array, shape (n_tokens, n_dims)
        The rows o_w of the sentence's words.
    var_P : float, default=1.0
        Variance of the prior of a word.

    Returns
    -------
    float

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> round(log_normaliser(ex.O_hat[ex.sentences[0]]), 4)
    -19.585
    """
    B = np.asarray(B, dtype=float)
    n, d = B.shape
    m = B.mean(axis=0)  # (n_dims,)
    words_term = -0.5 * n * d * np.log(2.0 * np.pi * var_P)
    product_term = 0.5 * d * np.log(2.0 * np.pi * var_P / n)
    distance_term = np.sum((B - m) ** 2) / (2.0 * var_P)
    return float(words_term + product_term - distance_term)


def kl_exact(mu: ArrayLike, var_Q: float, B: ArrayLike, var_P: ArrayLike = 1.0) -> float:
    """KL(Q || P_S), P_S the normalised product of the words' priors.

    n/(2 var_P) |mu - m|^2 + d/2 (r - 1 - ln r),   m = mean of o_w,  r = n var_Q/var_P

    Parameters
    ----------
    mu : array, shape (n_dims,)
        Mean of Q.
    var_Q : float
        Variance of Q.
    B : array, shape (n_tokens, n_dims)
        The rows o_w of the sentence's words.
    var_P : float or array, shape (n_tokens,), default=1.0
        Variance of the prior of every word, or of each.

    Returns
    -------
    float

    Examples
    --------
    >>> kl_exact([0.0, 0.0], 0.5, [[1.0, 0.0], [-1.0, 0.0]])  # Q = P_S
    0.0
    """
    mean, variance = product_prior(B, var_P)
    kl = kl_gaussians(np.asarray(mu), var_Q, mean, variance)
    return float(kl)


def kl_printed(mu: ArrayLike, var_Q: float, B: ArrayLike, var_P: float = 1.0) -> float:
    """KL as the paper has it in eq. 32; it can be negative.

        sum_w KL(Q || N(o_w, var_P I)) + n ln Z

    The integral of Q ln(Q Z / product of N_w) is written as one of a sum over words of
    Q ln(Q Z / N_w), which counts ln Q and ln Z once for each word. The identity is

        KL(Q || P_S) = sum_w KL(Q || N(o_w, var_P I)) + ln Z + (n - 1) H(Q).

    Parameters
    ----------
    mu : array, shape (n_dims,)
        Mean of Q.
    var_Q : float
        Variance of Q.
    B : array, shape (n_tokens, n_dims)
        The rows o_w of the sentence's words.
    var_P : float, default=1.0
        Variance of the prior of a word.

    Returns
    -------
    float

    References
    ----------
    Nozawa and Sato (2019), equation 32.

    Examples
    --------
    >>> round(kl_printed([0.0, 0.0], 0.5, [[1.0, 0.0], [-1.0, 0.0]]), 2)  # Q = P_S: it is 0
    -5.68
    """
    B = np.asarray(B, dtype=float)
    n = len(B)
    kl_of_words = kl_gaussians(np.asarray(mu), var_Q, B, var_P)  # (n_tokens,)
    kl = kl_of_words.sum() + n * log_normaliser(B, var_P)
    return float(kl)


def entropy(var_Q: float, n_dims: int) -> float:
    """Entropy H(Q) of N(mu, var_Q I): d/2 ln(2 pi e var_Q).

    Parameters
    ----------
    var_Q : float
        Variance of Q.
    n_dims : int
        Number of dimensions d.

    Returns
    -------
    float

    Examples
    --------
    >>> round(entropy(0.5, n_dims=4), 4)
    4.2895
    """
    logarithm = float(np.log(2.0 * np.pi * np.e * var_Q))
    return 0.5 * n_dims * logarithm


def penalty_printed(
    mu: ArrayLike, var_Q: float, B: ArrayLike, *, lam: float = 1.0, var_P: float = 1.0
) -> tuple[float, float]:
    """Second and third term of Theorem 2 (eq. 12) as printed, without its constant C.

        n/(2 var_P lam) |mu - m|^2,    n d/(2 lam) (ln(var_P/var_Q) + var_Q/var_P)

    Exactly, their sum is n/lam KL(Q || N(m, var_P I)) + n d/(2 lam): the penalty of the prior
    N(m, var_P I), the *geometric mean* of the words' priors, at the temperature lam/n.

    Parameters
    ----------
    mu : array, shape (n_dims,)
        Mean of Q.
    var_Q : float
        Variance of Q.
    B : array, shape (n_tokens, n_dims)
        The rows o_w of the sentence's words.
    lam : float, default=1.0
        Inverse temperature.
    var_P : float, default=1.0
        Variance of the prior of a word.

    Returns
    -------
    mean_term : float
    variance_term : float

    References
    ----------
    Nozawa and Sato (2019), Theorem 2.

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> O_S = ex.O_hat[ex.sentences[0]]
    >>> np.round(penalty_printed(O_S.mean(axis=0), 0.5, O_S, lam=2.0), 4)
    array([0.    , 5.9657])
    """
    mu = np.asarray(mu, dtype=float)
    B = np.asarray(B, dtype=float)
    n, d = B.shape
    m = B.mean(axis=0)  # (n_dims,)
    square_distance = np.sum((mu - m) ** 2)

    mean_term = n / (2.0 * var_P * lam) * square_distance
    variance_term = n * d / (2.0 * lam) * (np.log(var_P / var_Q) + var_Q / var_P)
    return float(mean_term), float(variance_term)


def penalty_exact(
    mu: ArrayLike, var_Q: float, B: ArrayLike, *, lam: float = 1.0, var_P: float = 1.0
) -> tuple[float, float]:
    """The same two terms of KL(Q || P_S)/lam, corrected.

    n/(2 var_P lam) |mu - m|^2,    d/(2 lam) (r - 1 - ln r),   r = n var_Q/var_P

    Parameters
    ----------
    mu, var_Q, B, lam, var_P
        As in `penalty_printed`.

    Returns
    -------
    mean_term : float
    variance_term : float

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> O_S = ex.O_hat[ex.sentences[0]]
    >>> np.round(penalty_exact(O_S.mean(axis=0), 0.5, O_S, lam=2.0), 4)
    array([0.    , 0.5837])
    """
    B = np.asarray(B, dtype=float)
    n, d = B.shape
    mean_term, _ = penalty_printed(mu, var_Q, B, lam=lam, var_P=var_P)
    r = n * var_Q / var_P
    variance_term = d / (2.0 * lam) * (r - 1.0 - np.log(r))
    return mean_term, float(variance_term)


PENALTIES: dict[str, Any] = {"printed": penalty_printed, "exact": penalty_exact}
