"""Exact risks of a Gaussian sentence vector: the zero-one loss of the Gibbs classifier.

The classifier draws h ~ N(mu, var_Q I) and answers "this word is of the sentence" where
h.A_w + bias > 0. Its probability of being wrong about a word needs no sampling, because h.A_w is
normal, and neither does that for noise, whose distribution is known. A score of exactly 0 counts as
an error for both answers. `A_hat` is the matrix in the loss; a word whose vector is zero always
scores `bias`.
"""

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
_MAX_SCORES, _MAX_SCORES_32 = 1_000_000, 32_000_000

# Numbers of the rows of tokens that are looked at together.
_MAX_NUMBERS = 100_000


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

    >>> round(float(gibbs_error(1.0, 0.5)), 12), float(gibbs_error(0.0, 0.0))
    (0.022750131948, 1.0)
    """
    score, sd = np.broadcast_arrays(np.asarray(score, dtype=float), np.asarray(sd, dtype=float))
    with np.errstate(divide="ignore", invalid="ignore"):
        error = ndtr(-y * score / sd)
    return np.where(sd > 0, error, (y * score <= 0).astype(float))


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

    R+ averages over the tokens of `counts`, (n_sentences, n_words), and is 0 for an empty row. A
    `bias` of ln(n_negatives) undoes the offset of Skip-gram's scores; `weights` are those of R+ and
    R- in `risk`. With `noise_words` only these are noise, with probabilities `p_noise`. `norms` are
    the lengths of the rows of `A_hat` and `noise_table` the negatives' rows, where they are at
    hand already; a float32 `noise_table` has R- and its gradient computed in single precision, to
    about 1e-6. With `gradients`, also those of `risk` by mu and by rho = ln var_Q. `noise_risk` is
    R- alone, many times faster.
    """
    mu, var_Q = (
        np.atleast_2d(np.ascontiguousarray(mu, dtype=float)),
        np.atleast_1d(var_Q).astype(float),
    )
    counts = sparse.csr_matrix(counts, dtype=float)
    p_noise = np.asarray(p_noise, dtype=float)
    n = len(mu)
    sd = np.sqrt(var_Q)
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    shares = counts.data / np.repeat(lengths, np.diff(counts.indptr))
    norms = row_norms(A_hat) if norms is None else norms
    positive, grad_mu, grad_rho = _own_words(mu, sd, A_hat, norms, counts, shares, bias)
    grad_mu *= weights[0]
    grad_rho *= weights[0]

    if noise_table is None:
        noise_table = np.asarray(A_hat if noise_words is None else A_hat[noise_words], dtype=float)
    noise_norms = norms if noise_words is None else norms[noise_words]
    noise = np.empty(n)
    size = max(1, _MAX_SCORES // max(noise_norms.size, 1))
    for start in range(0, n, size):
        rows = slice(start, start + size)
        score = mu[rows].astype(noise_table.dtype) @ noise_table.T  # (n_rows, n_noise)
        noise[rows], noise_rho = _noise_terms(score, bias, sd[rows], noise_norms, p_noise)
        if gradients:
            grad_mu[rows] += weights[1] * (score @ noise_table)
            grad_rho[rows] += weights[1] * noise_rho
    risk = weights[0] * positive + weights[1] * noise
    if not gradients:
        return GibbsRisk(positive, noise, risk)
    return GibbsRisk(positive, noise, risk, grad_mu, grad_rho)


def _own_words(mu, sd, A, norms, counts, shares, bias):
    """`own_errors` of each sentence with the words of its row of `counts`."""
    n, n_dims = mu.shape
    positive, grad_mu, grad_rho = np.empty(n), np.empty((n, n_dims)), np.empty(n)
    offsets = counts.indptr.astype(np.int64)
    for part, tokens in _parts(offsets, n_dims):
        ids = counts.indices[tokens]
        own_offsets = offsets[part.start : part.stop + 1] - tokens.start
        words = A[ids].astype(float)  # (n_tokens, n_dims)
        positive[part], grad_mu[part], grad_rho[part] = own_errors(
            mu[part], sd[part], float(bias), words, own_offsets, norms[ids], shares[tokens]
        )
    return positive, grad_mu, grad_rho


def _parts(offsets, n_dims):
    """Slices of the sentences and of their tokens, whose rows are not too large together."""
    n_tokens = max(1, _MAX_NUMBERS // n_dims)
    if offsets[-1] - offsets[0] <= n_tokens:
        yield slice(0, offsets.size - 1), slice(int(offsets[0]), int(offsets[-1]))
        return

    start = 0
    while start < offsets.size - 1:
        stop = int(np.searchsorted(offsets, offsets[start] + n_tokens, side="right")) - 1
        stop = max(stop, start + 1)
        yield slice(start, stop), slice(int(offsets[start]), int(offsets[stop]))
        start = stop


def _noise_terms(score, bias, sd, norms, p_noise):
    """R- and its gradient in rho, in the precision of the scores, which become that in mu."""
    bias = float(bias)
    norms, p_noise = np.ascontiguousarray(norms), np.ascontiguousarray(p_noise)
    if score.dtype != np.float32:
        return noise_errors(score, bias, sd, norms, p_noise)

    zero = norms == 0
    inverse, p = 1.0 / np.where(zero, 1.0, norms), np.where(zero, 0.0, p_noise)
    single = (array.astype(np.float32) for array in (1.0 / sd, inverse, p))
    noise, grad_rho = noise_errors_32(score, bias, *single)
    if bias >= 0:
        noise += p_noise[zero].sum()  # a zero vector scores `bias`, for every draw
    return noise, grad_rho


def word_scores(mu: np.ndarray, encoded: Any, A_hat: np.ndarray) -> np.ndarray:
    """mu_s.A_w of each token of `encoded`, (n_tokens,), in float64."""
    mu = np.asarray(mu, dtype=float)
    sentences = np.repeat(np.arange(len(mu)), np.diff(encoded.offsets))
    scores = np.empty(encoded.ids.size)
    for _, tokens in _parts(encoded.offsets, mu.shape[1]):
        words = A_hat[encoded.ids[tokens]].astype(float)
        scores[tokens] = np.einsum("ij,ij->i", words, mu[sentences[tokens]])
    return scores


def token_errors(
    mu: np.ndarray, var_Q: np.ndarray, encoded: Any, A_hat: np.ndarray, *, bias: float = 0.0
) -> np.ndarray:
    """Chance to be wrong about each token of `encoded`, (n_tokens,), in float64."""
    scores = word_scores(mu, encoded, A_hat)
    sd = np.repeat(np.sqrt(var_Q), np.diff(encoded.offsets))
    return gibbs_error(scores + bias, sd * row_norms(A_hat)[encoded.ids])


def token_margin(mu: np.ndarray, var_Q: np.ndarray) -> np.ndarray:
    """Numerical error of `token_errors` at most, for each sentence; see `noise_risk`."""
    length = np.sqrt(np.einsum("ij,ij->i", mu, mu, dtype=float))
    return _MAX_SLOPE * (np.shape(mu)[1] + 4) * 2.0**-53 * length / np.sqrt(var_Q) + 1e-14


def row_norms(table: np.ndarray) -> np.ndarray:
    """Euclidean norms of the rows in float64, a block at a time."""
    norms = np.empty(table.shape[0])
    for start in range(0, table.shape[0], 8192):
        block = np.asarray(table[start : start + 8192], dtype=float)
        norms[start : start + 8192] = np.sqrt(np.einsum("ij,ij->i", block, block))
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

    The exact R- is within `margin` of `risk`, both of shape (n_sentences,). In single precision,
    many times as fast as `gibbs_risk`: the means must be float32 numbers (of any dtype). `n_jobs`
    threads do the part outside the matrix product.

    A dot product of n_dims terms in arithmetic with unit u, summed in any order, is off by at most
    g |mu| |A_u|, g = n_dims u / (1 - n_dims u); z is then off by g |mu| / sd, and Phi, whose slope
    is at most 0.3990, by 0.3990 g |mu| / sd. Scaling and Phi itself (see the kernel) add less than
    1e-6.
    """
    mu, var_Q = np.asarray(mu), np.asarray(var_Q, dtype=float)
    if np.any(mu != mu.astype(np.float32)):
        raise ValueError(
            "mu must have float32 numbers. Got others instead. Round it first "
            "(mu.astype(np.float32)), so that the risk is that of the vector you keep."
        )
    if not (np.isfinite(var_Q).all() and (var_Q > 0).all()):
        raise ValueError("var_Q must be finite and > 0. Got others instead. Drop empty sentences.")
    n, n_dims = mu.shape
    p_noise, sd, norms = np.asarray(p_noise, dtype=float), np.sqrt(var_Q), row_norms(A_hat)
    means, rows = np.ascontiguousarray(mu, dtype=np.float32), np.asarray(A_hat, dtype=np.float32)
    risk = np.empty(n)

    def work(scores, part):
        risk[part], _ = _noise_terms(scores, bias, sd[part], norms, p_noise)

    size, n_threads = max(1, _MAX_SCORES_32 // max(1, len(rows))), max(1, n_jobs)
    with ThreadPoolExecutor(n_threads) as pool:
        for start in range(0, n, size):
            scores = means[start : start + size] @ rows.T  # (n_rows, n_words)
            edges = np.linspace(0, len(scores), n_threads + 1).astype(int)
            shares = [scores[a:b] for a, b in pairwise(edges)]
            list(pool.map(work, shares, [slice(a, b) for a, b in pairwise(start + edges)]))
            if progress is not None:
                progress.advance(len(scores))
    g = (n_dims + 2) * 2.0**-24 / (1 - (n_dims + 2) * 2.0**-24)
    off = g * np.sqrt(np.einsum("ij,ij->i", mu, mu, dtype=float))
    seen = norms > 0
    off += abs(float(np.float32(bias)) - bias) * (p_noise[seen] / norms[seen]).sum()
    return risk, _MAX_SLOPE * off / sd + 1e-6
