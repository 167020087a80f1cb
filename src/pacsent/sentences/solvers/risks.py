"""Exact risks of a Gaussian sentence vector: the zero-one loss of the Gibbs classifier.

The classifier draws h ~ N(mu, var_Q I) and answers "this word is of the sentence" where
h.A_w + bias > 0. Its probability of being wrong about a word needs no sampling, because h.A_w is
normal, and neither does that for noise, whose distribution is known. A score of exactly 0 counts as
an error for both answers. `A_hat` is the matrix in the loss; a word whose vector is zero always
scores `bias`.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import ndtr

from pacsent.arrays import Numbers
from pacsent.kernels.risks import noise_errors, noise_errors_32, own_errors

_MAX_SLOPE = 0.3990  # largest slope of Phi, rounded up

# Scores (sentences times negatives) computed at once, in double and in single precision.
_MAX_SCORES_64 = 1_000_000
_MAX_SCORES_32 = 32_000_000

# Numbers in the rows of tokens that are gathered at once.
_MAX_GATHERED_NUMBERS = 100_000

_NORM_BLOCK_ROWS = 8192  # rows of a table whose lengths are computed at once

# What the scaling and Phi of the single-precision kernel add to the numerical error of a risk.
_KERNEL_ERROR = 1e-6


class GibbsRisk(NamedTuple):
    """Risks of each sentence, shape (n_sentences,), and their gradients on request."""

    positive: np.ndarray  # R+, mean over the sentence's tokens
    noise: np.ndarray  # R-, over the noise distribution
    risk: np.ndarray  # weights[0] * positive + weights[1] * noise
    grad_mu: Any = None  # (n_sentences, n_dims)
    grad_rho: Any = None  # (n_sentences,), rho = ln var_Q


def gibbs_error(score: Numbers, sd: Numbers, y: int = 1) -> np.ndarray:
    """P(y x <= 0) for a score x ~ N(score, sd^2): the chance to be wrong about one word.

        Phi(-y score / sd)

    Parameters
    ----------
    score, sd : float or array
        They broadcast. With sd = 0 the answer is certain, and a score of 0 is an error.
    y : {1, -1}, default=1
        1 for a word of the sentence, -1 for a negative sample.

    Returns
    -------
    error : array

    Examples
    --------
    >>> round(float(gibbs_error(1.0, 0.5)), 12), float(gibbs_error(0.0, 0.0))
    (0.022750131948, 1.0)
    """
    score, sd = np.broadcast_arrays(np.asarray(score, dtype=float), np.asarray(sd, dtype=float))
    with np.errstate(divide="ignore", invalid="ignore"):
        error = ndtr(-y * score / sd)
    certain_error = (y * score <= 0).astype(float)
    return np.where(sd > 0, error, certain_error)


def gibbs_risk(
    mu: np.ndarray,
    var_Q: Numbers,
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    p_noise: ArrayLike,
    *,
    bias: float = 0.0,
    weights: tuple[float, float] = (0.5, 0.5),
    noise_words: np.ndarray | None = None,
    norms: np.ndarray | None = None,
    noise_table: np.ndarray | None = None,
    gradients: bool = False,
) -> GibbsRisk:
    """Zero-one Gibbs risk of each sentence, in float64 unless asked otherwise, with its gradient.

        R+ = mean_w Phi(-z_w),  R- = sum_u p_noise(u) Phi(z_u),  z_w = (mu.A_w + bias)/(sd |A_w|)

    `noise_risk` is R- alone, many times faster.

    Parameters
    ----------
    mu : array, shape (n_sentences, n_dims)
    var_Q : array, shape (n_sentences,)
    counts : sparse matrix, shape (n_sentences, n_words)
        R+ averages over these tokens, and is 0 for an empty row.
    A_hat : array, shape (n_words, n_dims)
        The matrix in the loss.
    p_noise : array, shape (n_words,) or that of `noise_words`
        Probabilities of the negatives.
    bias : float, default=0.0
        ln(n_negatives) undoes the offset of Skip-gram's scores.
    weights : (float, float), default=(0.5, 0.5)
        Weights of R+ and R- in `risk`.
    noise_words : array of int or None, default=None
        The words that are noise; None for all.
    norms : array, shape (n_words,), or None, default=None
        Lengths of the rows of `A_hat`, if the caller has them already.
    noise_table : array, shape (n_noise, n_dims), or None, default=None
        The negatives' rows, if the caller has them already. With float32, R- and its gradient are
        computed in single precision, to about 1e-6.
    gradients : bool, default=False
        Whether to compute the gradients of `risk` in mu and in rho = ln var_Q.

    Returns
    -------
    GibbsRisk

    References
    ----------
    Theorem 6 of docs/theory.md.
    """
    mu = np.atleast_2d(np.ascontiguousarray(mu, dtype=float))
    sd = np.sqrt(np.atleast_1d(var_Q).astype(float))
    counts = sparse.csr_matrix(counts, dtype=float)
    p_noise = np.asarray(p_noise, dtype=float)
    if norms is None:
        norms = row_norms(A_hat)
    positive_weight, noise_weight = weights

    n_tokens = np.asarray(counts.sum(axis=1)).ravel()
    fractions = counts.data / np.repeat(n_tokens, np.diff(counts.indptr))  # of each stored count
    positive, grad_mu, grad_rho = _own_words(mu, sd, A_hat, norms, counts, fractions, bias)
    grad_mu *= positive_weight
    grad_rho *= positive_weight

    if noise_table is None:
        noise_rows = A_hat if noise_words is None else A_hat[noise_words]
        noise_table = np.asarray(noise_rows, dtype=float)
    noise_norms = norms if noise_words is None else norms[noise_words]

    noise = np.empty(len(mu))
    n_block_rows = max(1, _MAX_SCORES_64 // max(noise_norms.size, 1))
    for start in range(0, len(mu), n_block_rows):
        block = slice(start, start + n_block_rows)
        scores = mu[block].astype(noise_table.dtype) @ noise_table.T  # (n_block, n_noise)
        noise[block], noise_grad_rho = _noise_terms(scores, bias, sd[block], noise_norms, p_noise)
        if gradients:  # the scores have become derivatives in the scores
            grad_mu[block] += noise_weight * (scores @ noise_table)
            grad_rho[block] += noise_weight * noise_grad_rho

    risk = positive_weight * positive + noise_weight * noise
    if not gradients:
        return GibbsRisk(positive, noise, risk)
    return GibbsRisk(positive, noise, risk, grad_mu, grad_rho)


def _own_words(
    mu: np.ndarray,
    sd: np.ndarray,
    A: np.ndarray,
    norms: np.ndarray,
    counts: sparse.csr_matrix,
    fractions: np.ndarray,
    bias: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`own_errors` of each sentence with the words of its row of `counts`."""
    n_sentences, n_dims = mu.shape
    positive = np.empty(n_sentences)
    grad_mu = np.empty((n_sentences, n_dims))
    grad_rho = np.empty(n_sentences)
    offsets = counts.indptr.astype(np.int64)

    for part, tokens in _iter_parts(offsets, n_dims):
        ids = counts.indices[tokens]
        words = A[ids].astype(float)  # (n_tokens, n_dims)
        own_offsets = offsets[part.start : part.stop + 1] - tokens.start
        errors = own_errors(
            mu[part], sd[part], float(bias), words, own_offsets, norms[ids], fractions[tokens]
        )
        positive[part], grad_mu[part], grad_rho[part] = errors
    return positive, grad_mu, grad_rho


def _iter_parts(offsets: np.ndarray, n_dims: int) -> Iterator[tuple[slice, slice]]:
    """Slices of the sentences and of their tokens, whose rows are not too large together."""
    max_tokens = max(1, _MAX_GATHERED_NUMBERS // n_dims)
    n_sentences = offsets.size - 1
    if offsets[-1] - offsets[0] <= max_tokens:
        yield slice(0, n_sentences), slice(int(offsets[0]), int(offsets[-1]))
        return

    start = 0
    while start < n_sentences:
        last_offset = offsets[start] + max_tokens
        stop = int(np.searchsorted(offsets, last_offset, side="right")) - 1
        stop = max(stop, start + 1)
        yield slice(start, stop), slice(int(offsets[start]), int(offsets[stop]))
        start = stop


def _noise_terms(
    scores: np.ndarray, bias: float, sd: np.ndarray, norms: np.ndarray, p_noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """R- and its gradient in rho, in the precision of the scores, which become that in mu."""
    bias = float(bias)
    norms = np.ascontiguousarray(norms)
    p_noise = np.ascontiguousarray(p_noise)
    if scores.dtype != np.float32:
        return noise_errors(scores, bias, sd, norms, p_noise)

    is_zero = norms == 0
    inverse_norms = 1.0 / np.where(is_zero, 1.0, norms)
    p_nonzero = np.where(is_zero, 0.0, p_noise)
    noise, grad_rho = noise_errors_32(
        scores,
        bias,
        (1.0 / sd).astype(np.float32),
        inverse_norms.astype(np.float32),
        p_nonzero.astype(np.float32),
    )
    if bias >= 0:
        noise += p_noise[is_zero].sum()  # a zero vector scores `bias`, for every draw
    return noise, grad_rho


def word_scores(mu: np.ndarray, encoded: Any, A_hat: np.ndarray) -> np.ndarray:
    """mu_s.A_w of each token, in float64.

    Parameters
    ----------
    mu : array, shape (n_sentences, n_dims)
    encoded : Encoded
        The sentences.
    A_hat : array, shape (n_words, n_dims)

    Returns
    -------
    scores : array, shape (n_tokens,)
    """
    mu = np.asarray(mu, dtype=float)
    sentences = np.repeat(np.arange(len(mu)), np.diff(encoded.offsets))
    scores = np.empty(encoded.ids.size)
    for _, tokens in _iter_parts(encoded.offsets, mu.shape[1]):
        words = A_hat[encoded.ids[tokens]].astype(float)
        scores[tokens] = np.einsum("ij,ij->i", words, mu[sentences[tokens]])
    return scores


def token_errors(
    mu: np.ndarray, var_Q: np.ndarray, encoded: Any, A_hat: np.ndarray, *, bias: float = 0.0
) -> np.ndarray:
    """Chance to be wrong about each token, in float64.

    Parameters
    ----------
    mu : array, shape (n_sentences, n_dims)
    var_Q : array, shape (n_sentences,)
    encoded : Encoded
        The sentences.
    A_hat : array, shape (n_words, n_dims)
    bias : float, default=0.0

    Returns
    -------
    errors : array, shape (n_tokens,)
    """
    scores = word_scores(mu, encoded, A_hat)
    sd = np.repeat(np.sqrt(var_Q), np.diff(encoded.offsets))
    norms = row_norms(A_hat)[encoded.ids]
    return gibbs_error(scores + bias, sd * norms)


def token_margin(mu: np.ndarray, var_Q: np.ndarray) -> np.ndarray:
    """Numerical error of `token_errors` at most, for each sentence; see `noise_risk`.

    Parameters
    ----------
    mu : array, shape (n_sentences, n_dims)
    var_Q : array, shape (n_sentences,)

    Returns
    -------
    margin : array, shape (n_sentences,)
    """
    length = np.sqrt(np.einsum("ij,ij->i", mu, mu, dtype=float))
    return _MAX_SLOPE * (np.shape(mu)[1] + 4) * 2.0**-53 * length / np.sqrt(var_Q) + 1e-14


def row_norms(table: np.ndarray) -> np.ndarray:
    """Euclidean norms of the rows in float64, a block at a time.

    Parameters
    ----------
    table : array, shape (n_rows, n_dims)

    Returns
    -------
    norms : array, shape (n_rows,)
    """
    norms = np.empty(table.shape[0])
    for start in range(0, table.shape[0], _NORM_BLOCK_ROWS):
        block = slice(start, start + _NORM_BLOCK_ROWS)
        rows = np.asarray(table[block], dtype=float)
        norms[block] = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return norms


def noise_risk(
    mu: ArrayLike,
    var_Q: ArrayLike,
    A_hat: np.ndarray,
    p_noise: ArrayLike,
    *,
    bias: float = 0.0,
    n_jobs: int = 1,
    progress: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """R- of each sentence over the whole vocabulary, and a bound on its numerical error.

        R-_s = sum_u p_noise(u) Phi((mu_s.A_u + bias) / (sd_s |A_u|))

    In single precision, many times as fast as `gibbs_risk`.

    Parameters
    ----------
    mu : array, shape (n_sentences, n_dims)
        Numbers that float32 represents, in any dtype.
    var_Q : array, shape (n_sentences,)
    A_hat : array, shape (n_words, n_dims)
    p_noise : array, shape (n_words,)
    bias : float, default=0.0
    n_jobs : int, default=1
        Threads for the part outside the matrix product.
    progress : object or None, default=None
        Its `advance` is called with the number of sentences after each block.

    Returns
    -------
    risk, margin : array, shape (n_sentences,)
        The exact R- is within `margin` of `risk`.

    Notes
    -----
    A dot product of n_dims terms in arithmetic with unit u, summed in any order, is off by at most
    g |mu| |A_u|, g = n_dims u / (1 - n_dims u); z is then off by g |mu| / sd, and Phi, whose slope
    is at most 0.3990, by 0.3990 g |mu| / sd. Scaling and Phi itself (see the kernel) add less than
    1e-6.

    References
    ----------
    Theorem 6 of docs/theory.md.
    """
    mu = np.asarray(mu)
    var_Q = np.asarray(var_Q, dtype=float)
    is_inexact = mu != mu.astype(np.float32)  # (n_sentences, n_dims)
    if is_inexact.any():
        row = int(np.argwhere(is_inexact)[0, 0])
        number = mu[is_inexact].flat[0].item()
        raise ValueError(
            f"mu must have float32 numbers. Got {number!r} in row {row} instead. Round it first "
            "(mu.astype(np.float32)), so that the risk is that of the vector you keep."
        )
    is_valid = np.isfinite(var_Q) & (var_Q > 0)  # (n_sentences,)
    if not is_valid.all():
        row = int(np.argmin(is_valid))
        raise ValueError(
            f"var_Q must be finite and > 0. Got {var_Q[row]:g} in row {row} instead. Drop empty "
            "sentences."
        )

    n_sentences, n_dims = mu.shape
    p_noise = np.asarray(p_noise, dtype=float)
    sd = np.sqrt(var_Q)
    norms = row_norms(A_hat)
    means = np.ascontiguousarray(mu, dtype=np.float32)
    rows = np.asarray(A_hat, dtype=np.float32)
    risk = np.empty(n_sentences)

    def add_up(scores: np.ndarray, part: slice) -> None:
        risk[part], _ = _noise_terms(scores, bias, sd[part], norms, p_noise)

    n_block_rows = max(1, _MAX_SCORES_32 // max(1, len(rows)))
    n_threads = max(1, n_jobs)
    with ThreadPoolExecutor(n_threads) as pool:
        for start in range(0, n_sentences, n_block_rows):
            scores = means[start : start + n_block_rows] @ rows.T  # (n_block, n_words)
            edges = np.linspace(0, len(scores), n_threads + 1).astype(int)
            score_parts = [scores[a:b] for a, b in pairwise(edges)]
            risk_parts = [slice(a, b) for a, b in pairwise(start + edges)]
            list(pool.map(add_up, score_parts, risk_parts))
            if progress is not None:
                progress.advance(len(scores))

    g = (n_dims + 2) * 2.0**-24 / (1 - (n_dims + 2) * 2.0**-24)
    score_error = g * np.sqrt(np.einsum("ij,ij->i", mu, mu, dtype=float))  # (n_sentences,)
    # The kernel rounds the bias as well.
    bias_error = abs(float(np.float32(bias)) - bias)
    is_nonzero = norms > 0
    score_error += bias_error * (p_noise[is_nonzero] / norms[is_nonzero]).sum()
    return risk, _MAX_SLOPE * score_error / sd + _KERNEL_ERROR
