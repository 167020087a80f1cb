"""Closed-form posteriors with dense arrays."""

import numpy as np
from scipy import sparse

from pacsent.sentences.solvers.gaussians import l2_coefficients, l2_lam


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
