"""Closed-form posteriors and the terms of their objectives, with dense arrays."""

import numpy as np
from scipy import sparse

from pacsent.maths.gaussians import kl_gaussians, l2_coefficients, l2_lam


def l2_posterior(counts, A_hat, B_hat, *, lam=1.0, alpha=None, var_P=1.0, lam_mode="fixed"):
    """Average and PB-L2: the exact posterior under squared loss.

    mu_S = (mean of A_hat + alpha * mean of B_hat) / (1 + alpha),  alpha = n_tokens/(var_P*lam)
    var_Q = 1 / (lam * (1 + alpha))
    """
    counts = sparse.csr_array(counts, dtype=float)
    n_tokens = _row_sums(counts)
    lam = l2_lam(n_tokens, lam=lam, alpha=alpha, var_P=var_P, lam_mode=lam_mode)
    precision = n_tokens / var_P
    c_A, c_B, var_Q = l2_coefficients(n_tokens > 0, 1.0, precision, lam)
    share = c_A / np.where(n_tokens > 0, n_tokens, 1.0)  # beta_w = 1 / n_tokens
    mu = share[:, None] * (counts @ _table(A_hat))  # (n_sentences, n_dims)
    if c_B.any():
        mu += (c_B / var_P)[:, None] * (counts @ _table(B_hat))
    return mu, var_Q


def idf_l2_posterior(counts, A_hat, B_hat, idf_weights, *, lam=1.0, var_P=1.0, lam_mode="fixed"):
    """IDF-Average and PB-IDF-L2: squared loss and prior precision both weighted by IDF.

        mu_S = sum of IDF * (A_hat + B_hat/lam) / ((1 + 1/lam) * b),   b = sum of IDF(w), var_P = 1
        var_Q = 1 / (b * (1 + lam))

    The prior of a word is N(B_w, var_P/IDF(w) I). A word of weight 0 is left out of the sentence.
    """
    idf_weights = np.asarray(idf_weights, dtype=float)
    counts = sparse.csr_array(counts, dtype=float)
    seen = counts @ sparse.diags_array((idf_weights > 0).astype(float))
    weighted = counts @ sparse.diags_array(idf_weights)
    n_tokens, b = _row_sums(seen), _row_sums(weighted)
    lam = l2_lam(n_tokens, lam=lam, lam_mode=lam_mode)
    precision = b / var_P
    c_A, c_B, var_Q = l2_coefficients(n_tokens > 0, b, precision, lam)
    mu = c_A[:, None] * (weighted @ _table(A_hat))  # (n_sentences, n_dims)
    if c_B.any():
        mu += (c_B / var_P)[:, None] * (weighted @ _table(B_hat))
    return mu, var_Q


def _row_sums(matrix):
    return np.asarray(matrix.sum(axis=1), dtype=float).ravel()


def _table(table):
    # scipy's sparse product knows no float16
    return np.asarray(table, dtype=np.float64)


def product_of_experts(counts, B_hat, var_P=1.0):
    """The normalised product of the words' priors N(B_w, var_P_w I): its mean and its variance.

        precision = sum_w 1/var_P_w,   mean = sum_w B_w/var_P_w / precision

    `var_P` is a number or one variance per word, shape (n_words,). Sentences without tokens have
    no prior: mean 0, variance inf.
    """
    counts = sparse.csr_array(counts, dtype=float)
    precisions = 1.0 / np.broadcast_to(np.asarray(var_P, dtype=float), (counts.shape[1],))
    weighted = counts @ sparse.diags_array(precisions)
    precision = _row_sums(weighted)  # (n_sentences,)
    with np.errstate(divide="ignore"):
        variance = 1.0 / precision
    mean = (weighted @ _table(B_hat)) / np.where(precision > 0, precision, 1.0)[:, None]
    return mean, variance


def log_normaliser(counts, B_hat, var_P=1.0):
    """log Z of the product of experts: log of the integral of prod_w N(h; B_w, var_P_w I)."""
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


def gaussian_entropy(var_Q, n_dims):
    """H(Q) = n_dims/2 * ln(2 pi e var_Q), in nats."""
    return 0.5 * n_dims * np.log(2 * np.pi * np.e * np.asarray(var_Q, dtype=float))


def kl_experts(mu, var_Q, counts, B_hat, var_P=1.0):
    """Sum over tokens of KL(Q || N(B_w, var_P_w I)).

    Identity: KL(Q || product of experts) = kl_experts + log_normaliser + (n_tokens - 1) entropy.
    """
    counts = sparse.csr_array(counts, dtype=float)
    B_hat, mu = _table(B_hat), np.asarray(mu, dtype=float)
    var_P = np.broadcast_to(np.asarray(var_P, dtype=float), (counts.shape[1],))
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    words = counts.indices
    each = kl_gaussians(mu[rows], np.asarray(var_Q, dtype=float)[rows], B_hat[words], var_P[words])
    return np.bincount(rows, weights=each * counts.data, minlength=counts.shape[0])


def paper_penalty(mu, var_Q, prior_mean, n_tokens, var_P=1.0):
    """lam times the penalty in the paper's loss; not a KL, see the Notes.

        n/(2 var_P) |mu - m|^2 + n n_dims/2 (ln var_P - ln var_Q + var_Q/var_P)

    Notes
    -----
    The paper counts `log Q` once per word, so its logarithm is n times too large. What it writes
    equals n * KL(Q || N(m, var_P I)) + n * n_dims / 2: an exact KL for the geometric mean of the
    words' priors, at the temperature lam/n.
    """
    mu, n_tokens = np.asarray(mu, dtype=float), np.asarray(n_tokens, dtype=float)
    return n_tokens * (kl_gaussians(mu, var_Q, prior_mean, var_P) + 0.5 * mu.shape[-1])
