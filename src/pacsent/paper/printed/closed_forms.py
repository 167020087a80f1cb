"""Posteriors under the squared loss: PB-L2 and PB-IDF-L2 as printed, and what minimises.

The means that the paper prints are right. Its variances are not: it differentiates
E|i_w - h|^2 / 2 by var_Q and finds 0, where E|i_w - h|^2 = |i_w - mu|^2 + d var_Q has the
derivative d/2. Each function takes `form`:

- "printed": the variance of eq. 14 or eq. 17;
- "printed loss": the variance that minimises the loss the paper prints, with its KL;
- "exact": the one that minimises data + KL(Q || P_S)/lam, as pacsent does elsewhere.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

FORMS = ("printed", "printed loss", "exact")


def _variance(form: str, n: float, weight: float, precision: float, lam: float) -> float:
    """Variance var_Q of a form.

    `weight` and `precision` are sums over words of beta_w/n and of 1/var_P of w.
    """
    if form == "printed":
        return n / precision
    if form == "printed loss":
        return n / (precision + lam * weight)
    if form == "exact":
        return 1.0 / (precision + lam * weight)
    raise ValueError(f"form must be one of {FORMS}. Got {form!r} instead.")


def l2_posterior(
    A: ArrayLike, B: ArrayLike, *, lam: float = 1.0, var_P: float = 1.0, form: str = "exact"
) -> tuple[np.ndarray, float]:
    """PB-L2: mean (eq. 13) and variance (eq. 14) of one sentence.

        mu = (mean of i_w + alpha mean of o_w) / (1 + alpha),   alpha = n/(var_P lam)
        var_Q = var_P as printed;  1/(lam + n/var_P) exactly

    Parameters
    ----------
    A, B : array, shape (n_tokens, n_dims)
        Rows i_w and o_w of the sentence's words, repeated as often as they occur.
    lam : float, default=1.0
        Inverse temperature: the larger, the closer the mean is to the data.
    var_P : float, default=1.0
        Variance of the prior of a word.
    form : {"printed", "printed loss", "exact"}, default="exact"
        The variance, as the module describes.

    Returns
    -------
    mu : array, shape (n_dims,)
    var_Q : float

    References
    ----------
    Nozawa and Sato (2019), equations 13 and 14.

    Examples
    --------
    >>> l2_posterior([[1.0], [1.0]], [[0.0], [0.0]], lam=2.0, form="printed")
    (array([0.5]), 1.0)
    >>> l2_posterior([[1.0], [1.0]], [[0.0], [0.0]], lam=2.0)
    (array([0.5]), 0.25)
    """
    A = np.asarray(A, dtype=float)
    B = np.asarray(B, dtype=float)
    n = len(A)

    alpha = n / (var_P * lam)
    mu = (A.mean(axis=0) + alpha * B.mean(axis=0)) / (1.0 + alpha)
    var_Q = _variance(form, n, weight=1.0, precision=n / var_P, lam=lam)
    return mu, var_Q


def idf_l2_posterior(
    A: ArrayLike,
    B: ArrayLike,
    idf: ArrayLike,
    *,
    lam: float = 1.0,
    form: str = "exact",
    unit_prior: bool = False,
    factor: str = "appendix",
) -> tuple[np.ndarray, float]:
    """PB-IDF-L2: mean (eq. 16) and variance (eq. 17) of one sentence.

        mu = sum of (beta_w i_w + n/lam o_w/var_w) / sum of (beta_w + n/lam 1/var_w)
        beta_w = n IDF(w),  var_w = 1/IDF(w)

    Parameters
    ----------
    A, B : array, shape (n_tokens, n_dims)
    idf : array, shape (n_tokens,)
        IDF of each token.
    lam : float, default=1.0
    form : {"printed", "printed loss", "exact"}, default="exact"
        The variance, as the module describes.
    unit_prior : bool, default=False
        Whether var_w = 1, as the paper's experiments say of all methods under the squared loss.
        Then the mean is no longer eq. 16, by which the paper defines PB-IDF-L2.
    factor : {"appendix", "main text"}, default="appendix"
        The appendix weights the loss by beta/2 and arrives at eq. 16. The main text
        weights it by beta, which is the same with 2 lam in place of lam.

    Returns
    -------
    mu : array, shape (n_dims,)
    var_Q : float

    References
    ----------
    Nozawa and Sato (2019), equations 16 and 17.

    Examples
    --------
    >>> idf_l2_posterior([[1.0], [0.0]], [[0.0], [0.0]], [3.0, 1.0])[0]
    array([0.375])
    """
    if factor not in ("appendix", "main text"):
        raise ValueError(f"factor must be 'appendix' or 'main text'. Got {factor!r} instead.")
    if factor == "main text":
        lam = 2.0 * lam
    A = np.asarray(A, dtype=float)
    B = np.asarray(B, dtype=float)
    idf = np.asarray(idf, dtype=float)
    precisions = np.ones(len(A)) if unit_prior else idf  # (n_tokens,)

    # all divided by n: beta_w/n = IDF(w)
    weight = float(idf.sum())
    precision = float(precisions.sum())
    mu = (idf @ A + precisions @ B / lam) / (weight + precision / lam)
    var_Q = _variance(form, len(A), weight=weight, precision=precision, lam=lam)
    return mu, var_Q


def sum_prior_posterior(
    A: ArrayLike, B: ArrayLike, *, lam: float = 1.0, var_P: float = 1.0
) -> tuple[np.ndarray, float]:
    """PB-L2 with the paper's first prior, N(sum of o_w, var_P I), in place of the product.

    mu = (mean of i_w + c sum of o_w) / (1 + c),   c = 1/(var_P lam),   var_Q = 1/(lam + 1/var_P)

    Parameters
    ----------
    A, B : array, shape (n_tokens, n_dims)
        Rows i_w and o_w of the sentence's words.
    lam : float, default=1.0
        Inverse temperature.
    var_P : float, default=1.0
        Variance of the prior.

    Returns
    -------
    mu : array, shape (n_dims,)
    var_Q : float

    References
    ----------
    Nozawa and Sato (2019), section 3.1.

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> tokens = ex.sentences[0]
    >>> mean, variance = sum_prior_posterior(ex.I_hat[tokens], ex.O_hat[tokens], lam=3.0)
    >>> mean.round(3), variance
    (array([-0.17 , -0.266, -0.22 , -0.02 ]), 0.25)
    """
    A = np.asarray(A, dtype=float)
    B = np.asarray(B, dtype=float)

    c = 1.0 / (var_P * lam)
    mu = (A.mean(axis=0) + c * B.sum(axis=0)) / (1.0 + c)
    var_Q = 1.0 / (lam + 1.0 / var_P)
    return mu, var_Q


def squared_loss(mu: ArrayLike, var_Q: float, A: ArrayLike, beta: Any = 1.0) -> float:
    """Data term of appendix A.2 and A.3, h ~ N(mu, var_Q I).

        (1/n) sum_w beta_w/2 E|i_w - h|^2,   E|i_w - h|^2 = |i_w - mu|^2 + d var_Q

    The appendix omits the square and writes h_w for i_w in the definition of this loss; what it
    then differentiates has both.

    Parameters
    ----------
    mu : array, shape (n_dims,)
        Mean of Q.
    var_Q : float
        Variance of Q.
    A : array, shape (n_tokens, n_dims)
        The rows i_w of the sentence's words.
    beta : float or array, shape (n_tokens,), default=1.0
        Weight of each word.

    Returns
    -------
    float

    References
    ----------
    Nozawa and Sato (2019), appendices A.2 and A.3.

    Examples
    --------
    >>> from pacsent.paper.printed import example
    >>> ex = example()
    >>> I_S = ex.I_hat[ex.sentences[0]]
    >>> round(squared_loss(I_S.mean(axis=0), 0.5, I_S), 4)
    1.539
    """
    A = np.asarray(A, dtype=float)
    mu = np.asarray(mu, dtype=float)
    beta = np.asarray(beta)
    n_dims = A.shape[1]

    square_distances = np.sum((A - mu) ** 2, axis=1)  # (n_tokens,)
    expected = square_distances + n_dims * var_Q
    losses = 0.5 * beta * expected
    return float(np.mean(losses))


def rescaled_loss_lambda(lam: float, largest: float) -> float:
    """Lambda that dividing the loss by its maximum amounts to: lam/largest.

    The paper's footnote divides a loss that exceeds 1 by its largest value, so that Theorem 1
    applies: R_hat/l_max + KL/lam has the minimiser of R_hat + KL/(lam/l_max). Under a Gaussian the
    squared loss has no largest value.

    Parameters
    ----------
    lam : float
        Lambda for the loss divided by its maximum.
    largest : float
        Largest value of the loss.

    Returns
    -------
    float

    Examples
    --------
    >>> rescaled_loss_lambda(8.0, largest=25.0)
    0.32
    """
    return lam / largest
