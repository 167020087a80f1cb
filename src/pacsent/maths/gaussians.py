"""Posteriors of sentences: closed forms, divergences and similarities of isotropic Gaussians.

Formulas only: arrays and numbers in, arrays and numbers out. A posterior is N(mu, var_Q I), one
row of `mu` and one entry of `var_Q` per sentence. `A_hat` is the table in the loss and `B_hat` the
table of prior means (input and output vectors; swapped for the methods named `i-`). `counts` is a
(n_sentences, n_words) matrix, sparse or dense: how often each word occurs in each sentence. It
may hold weights that are not whole numbers.
"""

from typing import Any

import numpy as np
from scipy import sparse

from pacsent.maths.arrays import Numbers

VARIANCES = ("exact", "paper-loss", "printed")


# ------------------------------------------------------------------------------------------------
# Closed forms: squared loss
# ------------------------------------------------------------------------------------------------


def l2_coefficients(
    n_tokens: Numbers,
    weight: Numbers,
    precision: Numbers,
    lam: Numbers,
    variance: str = "exact",
) -> Any:
    """Where a weighted squared loss and a Gaussian prior meet.

        loss = sum_w beta_w / 2 E|A_w - h|^2 + KL(Q || P) / lam,    P = product of N(B_w, 1/p_w I)
        mu = c_A * sum_w beta_w A_w + c_B * sum_w p_w B_w
        c_A = 1 / (weight + precision/lam),  c_B = c_A / lam,  var_Q = 1 / (lam*weight + precision)

    Parameters
    ----------
    n_tokens : array, shape (n_sentences,)
        Number of experts in the prior. Only the paper's own variances depend on it.
    weight, precision : array, shape (n_sentences,)
        Sums over the tokens of beta_w and of p_w.
    lam : float or array, shape (n_sentences,)
        Weight of the data; `inf` leaves the prior out.
    variance : {"exact", "paper-loss", "printed"}
        The minimiser under the true KL; under the KL that the paper writes, which counts the
        logarithm n_tokens times; or the formula printed in the paper, which minimises neither.

    Returns
    -------
    c_A, c_B, var_Q : array, shape (n_sentences,)
        Sentences without tokens get 0, 0 and nan.

    Examples
    --------
    >>> [float(x) for x in l2_coefficients(2.0, 1.0, 2.0, lam=2.0)]  # PB-L2 of two words
    [0.5, 0.25, 0.25]
    """
    n_tokens, weight, precision, lam = np.broadcast_arrays(
        *(np.asarray(x, dtype=float) for x in (n_tokens, weight, precision, lam))
    )
    known = n_tokens > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        inv_lam = np.where(np.isinf(lam), 0.0, 1.0 / lam)
        c_A = np.where(known, 1.0 / (weight + precision * inv_lam), 0.0)
        c_B = c_A * inv_lam
        # (lam*weight + precision)^-1, written so that lam = inf gives 0
        var_Q = np.where(known, c_B, np.nan)
        if variance == "paper-loss":
            var_Q = n_tokens * var_Q
        elif variance == "printed":
            var_Q = np.where(known, n_tokens / precision, np.nan)
        elif variance != "exact":
            raise ValueError(f"variance must be one of {VARIANCES}. Got {variance!r} instead.")
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

    Examples
    --------
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


def l2_posterior(
    counts: Any,
    A_hat: np.ndarray,
    B_hat: np.ndarray,
    *,
    lam: Numbers = 1.0,
    alpha: Numbers | None = None,
    var_P: Numbers = 1.0,
    lam_mode: str = "fixed",
    variance: str = "exact",
) -> tuple[Any, Any]:
    """Average and PB-L2: the exact posterior under squared loss.

        mu_S = (mean of A_hat + alpha * mean of B_hat) / (1 + alpha),  alpha = n_tokens/(var_P*lam)
        var_Q = 1 / (lam * (1 + alpha))

    Parameters
    ----------
    counts : array or sparse matrix, shape (n_sentences, n_words)
    A_hat, B_hat : array, shape (n_words, n_dims)
        `B_hat` may be None where alpha is 0.
    lam : float or array, shape (n_sentences,)
        Weight of the data. Larger values pull from the prior to the mean of `A_hat`.
    alpha : float or None
        Given, it replaces `lam`.
    var_P : float
        Variance of each word's prior.
    lam_mode : {"fixed", "per-token"}
        Whether lambda is `lam` or `lam * n_tokens`.
    variance : {"exact", "paper-loss", "printed"}
        See `l2_coefficients`.

    Returns
    -------
    mu : array, shape (n_sentences, n_dims)
        Zero for sentences without tokens.
    var_Q : array, shape (n_sentences,)
        nan for sentences without tokens.

    Examples
    --------
    >>> import numpy as np
    >>> A, B = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 2.0], [2.0, 0.0]])
    >>> l2_posterior(np.array([[1, 1]]), A, B, lam=2.0)
    (array([[0.75, 0.75]]), array([0.25]))
    """
    counts = sparse.csr_array(counts, dtype=float)
    n_tokens = _row_sums(counts)
    lam = l2_lam(n_tokens, lam=lam, alpha=alpha, var_P=var_P, lam_mode=lam_mode)
    c_A, c_B, var_Q = l2_coefficients(
        n_tokens, np.ones_like(n_tokens), n_tokens / var_P, lam, variance
    )
    share = c_A / np.where(n_tokens > 0, n_tokens, 1.0)  # beta_w = 1 / n_tokens
    mu = share[:, None] * (counts @ _table(A_hat))  # (n_sentences, n_dims)
    if c_B.any():
        mu += (c_B / var_P)[:, None] * (counts @ _table(B_hat))
    return mu, var_Q


def idf(document_frequency: Numbers, n_sentences: int, unseen: str = "clamp") -> Any:
    """IDF(w) = ln(n_sentences / document_frequency(w)) + 1.

    A word that no sentence holds counts as if one did (`unseen="clamp"`), or weighs 0 ("drop").

    Examples
    --------
    >>> idf([1, 5, 10], 10).round(3)
    array([3.303, 1.693, 1.   ])
    """
    document_frequency = np.asarray(document_frequency, dtype=float)
    weights = np.log(max(n_sentences, 1) / np.maximum(document_frequency, 1.0)) + 1.0
    return np.where(document_frequency > 0, weights, 0.0) if unseen == "drop" else weights


def idf_l2_posterior(
    counts: Any,
    A_hat: np.ndarray,
    B_hat: np.ndarray,
    idf_weights: Numbers,
    *,
    lam: Numbers = 1.0,
    var_P: Numbers = 1.0,
    lam_mode: str = "fixed",
    unit_prior: bool = False,
    variance: str = "exact",
) -> tuple[Any, Any]:
    """IDF-Average and PB-IDF-L2: squared loss and prior precision both weighted by IDF.

        mu_S = sum of IDF * (A_hat + B_hat/lam) / ((1 + 1/lam) * b),   b = sum of IDF(w), var_P = 1
        var_Q = 1 / (b * (1 + lam))

    The prior of a word is N(B_w, var_P/IDF(w) I); with `unit_prior` it is N(B_w, var_P I), the
    other reading of the paper. A word of weight 0 is left out of the sentence altogether.
    The loss is a sum over tokens, so a fixed `lam` weighs data and prior alike at every length.

    Examples
    --------
    >>> import numpy as np
    >>> counts, A, B = np.array([[1, 1]]), np.eye(2), np.zeros((2, 2))
    >>> idf_l2_posterior(counts, A, B, [3.0, 1.0], lam=1.0)
    (array([[0.375, 0.125]]), array([0.125]))
    """
    idf_weights = np.asarray(idf_weights, dtype=float)
    counts = sparse.csr_array(counts, dtype=float)
    seen = counts @ sparse.diags_array((idf_weights > 0).astype(float))
    weighted = counts @ sparse.diags_array(idf_weights)
    n_tokens, b = _row_sums(seen), _row_sums(weighted)
    expert = seen if unit_prior else weighted
    lam = l2_lam(n_tokens, lam=lam, lam_mode=lam_mode)
    c_A, c_B, var_Q = l2_coefficients(n_tokens, b, _row_sums(expert) / var_P, lam, variance)
    mu = c_A[:, None] * (weighted @ _table(A_hat))  # (n_sentences, n_dims)
    if c_B.any():
        mu += (c_B / var_P)[:, None] * (expert @ _table(B_hat))
    return mu, var_Q


def _row_sums(matrix):
    return np.asarray(matrix.sum(axis=1), dtype=float).ravel()


def _table(table):
    # scipy's sparse product knows no float16
    return np.asarray(table, dtype=np.float64)


# ------------------------------------------------------------------------------------------------
# The prior, and divergences from it
# ------------------------------------------------------------------------------------------------


def product_of_experts(counts: Any, B_hat: np.ndarray, var_P: Numbers = 1.0) -> tuple[Any, Any]:
    """The normalised product of the words' priors N(B_w, var_P_w I): its mean and its variance.

        precision = sum_w 1/var_P_w,   mean = sum_w B_w/var_P_w / precision

    `var_P` is a number or one variance per word, shape (n_words,). Sentences without tokens have
    no prior: mean 0, variance inf.

    Examples
    --------
    >>> import numpy as np
    >>> product_of_experts(np.array([[1, 1]]), np.array([[0.0, 2.0], [2.0, 0.0]]), var_P=1.0)
    (array([[1., 1.]]), array([0.5]))
    """
    counts = sparse.csr_array(counts, dtype=float)
    precisions = 1.0 / np.broadcast_to(np.asarray(var_P, dtype=float), (counts.shape[1],))
    weighted = counts @ sparse.diags_array(precisions)
    precision = _row_sums(weighted)  # (n_sentences,)
    with np.errstate(divide="ignore"):
        variance = 1.0 / precision
    mean = (weighted @ _table(B_hat)) / np.where(precision > 0, precision, 1.0)[:, None]
    return mean, variance


def log_normaliser(counts: Any, B_hat: np.ndarray, var_P: Numbers = 1.0) -> Any:
    """log Z of the product of experts: log of the integral of prod_w N(h; B_w, var_P_w I).

    Examples
    --------
    >>> import numpy as np
    >>> log_normaliser(np.array([[1, 0]]), np.eye(2)).round(6) + 0.0  # one prior
    array([0.])
    """
    counts = sparse.csr_array(counts, dtype=float)
    B_hat = _table(B_hat)
    n_dims = B_hat.shape[1]
    var_P = np.broadcast_to(np.asarray(var_P, dtype=float), (counts.shape[1],))
    mean, variance = product_of_experts(counts, B_hat, var_P)
    n_tokens = _row_sums(counts)
    # sum_w |B_w - mean|^2 / var_P_w: no cancellation between large squares
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    words = counts.indices
    spread = ((B_hat[words] - mean[rows]) ** 2).sum(axis=1) / var_P[words] * counts.data
    spread = np.bincount(rows, weights=spread, minlength=counts.shape[0])
    logs = counts @ np.log(2 * np.pi * var_P)
    return np.where(
        n_tokens > 0,
        -0.5 * n_dims * logs + 0.5 * n_dims * np.log(2 * np.pi * variance) - 0.5 * spread,
        np.nan,
    )


def gaussian_entropy(var_Q: Numbers, n_dims: int) -> Any:
    """H(Q) = n_dims/2 * ln(2 pi e var_Q), in nats.

    Examples
    --------
    >>> round(float(gaussian_entropy(1.0, 2)), 4)
    2.8379
    """
    return 0.5 * n_dims * np.log(2 * np.pi * np.e * np.asarray(var_Q, dtype=float))


def kl_gaussians(mu_Q: Numbers, var_Q: Numbers, mu_P: Numbers, var_P: Numbers) -> Any:
    """KL(N(mu_Q, var_Q I) || N(mu_P, var_P I)) in nats, row by row.

        KL = |mu_Q - mu_P|^2 / (2 var_P) + n_dims/2 (r - 1 - ln r),   r = var_Q / var_P

    With the prior of `product_of_experts` this is the exact KL of every method here.

    Examples
    --------
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


def kl_experts(
    mu: Numbers,
    var_Q: Numbers,
    counts: Any,
    B_hat: np.ndarray,
    var_P: Numbers = 1.0,
) -> Any:
    """Sum over tokens of KL(Q || N(B_w, var_P_w I)).

    Identity: KL(Q || product of experts) = kl_experts + log_normaliser + (n_tokens - 1) entropy.

    Examples
    --------
    >>> import numpy as np
    >>> kl_experts([[0.0, 0.0]], [1.0], np.array([[1, 1]]), np.eye(2))
    array([1.])
    """
    counts = sparse.csr_array(counts, dtype=float)
    B_hat, mu = _table(B_hat), np.asarray(mu, dtype=float)
    var_P = np.broadcast_to(np.asarray(var_P, dtype=float), (counts.shape[1],))
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    words = counts.indices
    each = kl_gaussians(mu[rows], np.asarray(var_Q, dtype=float)[rows], B_hat[words], var_P[words])
    return np.bincount(rows, weights=each * counts.data, minlength=counts.shape[0])


def paper_penalty(
    mu: Numbers,
    var_Q: Numbers,
    prior_mean: Numbers,
    n_tokens: Numbers,
    var_P: Numbers = 1.0,
) -> Any:
    """lam times the penalty in the paper's loss; not a KL, see the Notes.

        n/(2 var_P) |mu - m|^2 + n n_dims/2 (ln var_P - ln var_Q + var_Q/var_P)

    Notes
    -----
    The paper counts `log Q` once per word, so its logarithm is n times too large. What it writes
    equals n * KL(Q || N(m, var_P I)) + n * n_dims / 2: an exact KL for the geometric mean of the
    words' priors, at the temperature lam/n.

    Examples
    --------
    >>> float(paper_penalty([0.0], 1.0, [0.0], 1))
    0.5
    """
    mu, n_tokens = np.asarray(mu, dtype=float), np.asarray(n_tokens, dtype=float)
    return n_tokens * (kl_gaussians(mu, var_Q, prior_mean, var_P) + 0.5 * mu.shape[-1])


# ------------------------------------------------------------------------------------------------
# Similarities of posteriors
# ------------------------------------------------------------------------------------------------
#
# Each takes two posteriors (means, variances) as `SentenceVectorizer.posterior` returns them, and
# compares row by row, or every row with every row where `pairwise` is true.


def cosine_of_means(Q: tuple, R: tuple, *, pairwise: bool = False) -> Any:
    """Cosine of the angle between the means; 0 where one of them is 0.

    Examples
    --------
    >>> import numpy as np
    >>> Q, R = (np.array([[1.0, 0.0]]), np.ones(1)), (np.array([[1.0, 1.0]]), np.ones(1))
    >>> cosine_of_means(Q, R).round(4)
    array([0.7071])
    """
    mu_Q, mu_R = _means(Q), _means(R)
    norms_Q, norms_R = np.linalg.norm(mu_Q, axis=1), np.linalg.norm(mu_R, axis=1)
    products = mu_Q @ mu_R.T if pairwise else (mu_Q * mu_R).sum(axis=1)
    norms = norms_Q[:, None] * norms_R if pairwise else norms_Q * norms_R
    return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)


def log_expected_likelihood(Q: tuple, R: tuple, *, pairwise: bool = False) -> Any:
    """ln of the integral of Q times R, as it is: no similarity, see `log_likelihood_kernel`.

        -|mu_Q - mu_R|^2 / (2 v) - n_dims/2 ln(2 pi v),   v = var_Q + var_R

    The second term is larger the narrower the two are, whatever their means: long texts would be
    similar to everything.

    Examples
    --------
    >>> import numpy as np
    >>> Q = (np.array([[0.0]]), np.ones(1))
    >>> log_expected_likelihood(Q, Q).round(4)  # ln of 1 / sqrt(4 pi)
    array([-1.2655])
    """
    squared, var_Q, var_R, n_dims = _compared(Q, R, pairwise)
    v = var_Q + var_R
    with np.errstate(divide="ignore", invalid="ignore"):  # two points: ln 0
        return -squared / (2 * v) - 0.5 * n_dims * np.log(2 * np.pi * v)


def log_likelihood_kernel(Q: tuple, R: tuple, *, pairwise: bool = False) -> Any:
    """ln of the normalised expected-likelihood kernel: 0 for equal posteriors, below otherwise.

        ln int(QR) - (ln int(QQ) + ln int(RR)) / 2
            = -|mu_Q - mu_R|^2 / (2 v) + n_dims/2 ln(2 sqrt(var_Q var_R) / v),  v = var_Q + var_R

    Divided by the square root of the self-terms, as a kernel must be before its values are
    compared: posteriors of one mean are the more alike the closer their variances are, and no
    length is nearer to everything than another.

    Examples
    --------
    >>> import numpy as np
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

    Examples
    --------
    >>> import numpy as np
    >>> Q, R = (np.array([[1.0, 0.0]]), np.ones(1)), (np.array([[1.0, 1.0]]), np.ones(1))
    >>> kl_divergence(Q, R)
    array([0.5])
    """
    squared, var_Q, var_R, n_dims = _compared(Q, R, pairwise)
    with np.errstate(divide="ignore", invalid="ignore"):
        return _kl(squared, var_Q, var_R, n_dims)


def wasserstein_distance(Q: tuple, R: tuple, *, pairwise: bool = False) -> Any:
    """2-Wasserstein distance: sqrt(|mu_Q - mu_R|^2 + n_dims (sd_Q - sd_R)^2).

    Examples
    --------
    >>> import numpy as np
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
    """Squared distances of the means and the two variances, shaped alike, and n_dims."""
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
