"""Posteriors of words under the negative sampling loss (w-PB-neg).

Every word v of the training sentences has a posterior N(mu_v, e^rho_v I) and a
prior N(B_v, var_P[v] I). A sentence with counts c_v is h_S = sum_v share_v h_v, share_v = c_v/n,
hence Gaussian with mean sum share_v mu_v and variance s_S^2 = sum share_v^2 e^rho_v: a word that
occurs twice is drawn once.

    loss = sum_S omega_S (1/n) sum_{w in S} E l_neg(h_S, A_w)
           + 1/(2 lam) sum_v [|mu_v - B_v|^2/var_P[v] + d (log var_P[v] - rho_v + e^rho_v/var_P[v])]

omega_S is n/N (weighting="token", N tokens in all) or 1/M (weighting="sentence", M sentences).
The loss is strictly convex in all mu_v and rho_v together.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from pacsent.maths.noise import alias
from pacsent.maths.pb_neg_objective import noise_terms, own_terms, squared_lengths

WEIGHTINGS = ("sentence", "token")

# Sentences whose gradients are taken together, with common noise words: their matrix products stay
# in the first cache, and larger blocks are cut more often (`common_step`).
_BLOCK = 64


def prior_variances(counts: ArrayLike, scale: float | None = None) -> np.ndarray:
    """Variance of each word's prior; inf for words that do not occur.

    T/count, T the number of tokens: the paper's, under which frequent words are held tighter. Or,
    with a `scale`, scale * (median p)/p, p = count/T: the same shape at a size of one's choice.

    >>> prior_variances([3, 1, 0])
    array([1.33333333, 4.        ,        inf])
    """
    counts = np.asarray(counts, dtype=float)
    with np.errstate(divide="ignore"):
        inverse = counts.sum() / counts  # 1/p
    if scale is None:
        return inverse
    return scale * inverse / np.median(inverse[counts > 0])


def matched_scale(counts: sparse.csr_matrix) -> float:
    """The s for which prior variances s T/count make the median sentence's variance 1/n_tokens.

    That is the variance of PB-neg's prior, under which a score h.A_w is about as wide as it is
    long; with s = 1, the paper's, the median sentence's variance is in the hundreds. No row of
    `counts` may be empty.
    """
    n_tokens = np.asarray(counts.sum(axis=1), dtype=float).ravel()
    inverse = prior_variances(np.asarray(counts.sum(axis=0)).ravel())
    spread = counts.power(2) @ np.where(np.isfinite(inverse), inverse, 0.0) / n_tokens**2
    return float(np.median(1.0 / (n_tokens * spread)))


def sentence_weights(n_tokens: ArrayLike, weighting: str) -> np.ndarray:
    """omega_S; see the top of this module."""
    n_tokens = np.asarray(n_tokens, dtype=float)
    if weighting == "token":
        return n_tokens / n_tokens.sum()
    if weighting == "sentence":
        return np.where(n_tokens > 0, 1.0 / np.count_nonzero(n_tokens), 0.0)
    raise ValueError(f"weighting must be one of {WEIGHTINGS}. Got {weighting!r} instead.")


def _shares(counts: sparse.csr_matrix) -> tuple[np.ndarray, sparse.csr_matrix]:
    """(tokens of each sentence, counts over these); no row may be empty."""
    n_tokens = np.asarray(counts.sum(axis=1)).ravel()
    shares = counts.data / np.repeat(n_tokens, np.diff(counts.indptr))
    return n_tokens, sparse.csr_matrix((shares, counts.indices, counts.indptr), shape=counts.shape)


class WordSolution(NamedTuple):
    """Posteriors of the words, and how they were found."""

    mu: np.ndarray  # (n_words, n_dims)
    rho: np.ndarray  # (n_words,)
    n_iter: int
    gradient_norm: float


def second_moment(A: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """E[A_j A_j'] over the noise words j, shape (n_dims, n_dims), in the precision of A."""
    weighted = A * np.sqrt(noise, dtype=A.dtype)[:, None]
    return weighted.T @ weighted


def stiffness(
    share: sparse.csr_matrix,
    n_tokens: np.ndarray,
    A: np.ndarray,
    moment: np.ndarray,
    n_negatives: int,
) -> np.ndarray:
    """Upper bound on the curvature in h of each sentence's sampled loss.

    sigmoid' <= 1/4; the rest is the largest eigenvalue of the second moment of the noise words,
    with an allowance for their number (that of Marchenko and Pastur), and |A_w|^2 of its own.
    """
    from pacsent._kernels.sampling_kernels import MAX_DRAWS

    moment = np.asarray(moment, dtype=float)
    largest, total = np.linalg.eigvalsh(moment)[-1], np.trace(moment)
    n_draws = np.minimum(n_negatives * n_tokens, MAX_DRAWS)
    sampled = (np.sqrt(max(largest, 0.0)) + np.sqrt(total / n_draws)) ** 2
    return 0.25 * (n_negatives * sampled + share @ squared_lengths(np.asarray(A, dtype=float)))


def train(
    counts: sparse.csr_matrix,
    tables: tuple[np.ndarray, np.ndarray],
    var_P: np.ndarray,
    noise: np.ndarray,
    *,
    steps: np.ndarray,
    n_negatives: int = 15,
    lam: float = 1.0,
    weighting: str = "sentence",
    block: int = _BLOCK,
    n_threads: int = 1,
    rng: np.random.Generator,
    callback: Callable | None = None,
) -> WordSolution:
    """Posteriors of the words by stochastic gradients, one step per sentence and epoch.

    A step takes the sampled data gradient of one sentence with weight 1 (or n M/N, for
    weighting="token") and the whole penalty, which words that do not occur feel lazily: exactly, by
    its flow, when they next occur. Sentences come in a fresh order every epoch. `counts` are whole
    numbers, no row empty; `tables` are (A, B), float32; `steps` are the learning rates by epoch.

    The gradients of `block` sentences are taken at the same state of the words and with common
    noise words: n_negatives for each token of the longest, at most 320, weighted to stand for
    n_negatives per token of each, with a control variate that is linear in the scores. Where a
    common step would overshoot, a block is cut into smaller ones. 1 is strictly one by one. Threads
    work on the same words without locks: with more than one, the result differs a little from run
    to run.
    """
    from pacsent._kernels.sampling_kernels import apply_lazy_decay, word_sgd

    A, B = tables
    n_sentences, n_dims = counts.shape[0], A.shape[1]
    n_tokens, share = _shares(counts)
    n_tokens = n_tokens.astype(np.int64)
    m = (share.astype(np.float32) @ B).astype(np.float32)
    weights = sentence_weights(n_tokens, weighting) * n_sentences
    D = np.zeros(A.shape, dtype=np.float32)
    # z = var_P/var; what belongs to a word lies side by side, where one read from memory finds it
    numbers = np.stack([np.ones(len(A)), np.zeros(len(A)), 1.0 / (var_P * lam), var_P], axis=1)
    z, clock, rates, widths = numbers.T
    prior = (rates, widths, 0.5 * n_dims / lam)
    moment = second_moment(A, noise)
    table = (
        *alias(noise), n_negatives, np.float32(noise @ A), np.float32(moment), squared_lengths(A)
    )  # fmt: skip
    stiff = stiffness(share, n_tokens, A, moment, n_negatives)
    lines = np.tile([0.5, 0.0], (n_threads, 1))  # of the sigmoids on the scores
    states = np.maximum(rng.integers(0, 2**63, (n_threads, 1), dtype=np.uint64), np.uint64(1))
    now = 0.0
    with ThreadPoolExecutor(n_threads) as pool:
        for epoch, eta in enumerate(steps):
            order = rng.permutation(n_sentences)
            rows = share[order]
            sentences = (
                rows.indptr, rows.indices, rows.data, n_tokens[order], weights[order],
                stiff[order], order, m,
            )  # fmt: skip
            begins = np.arange(0, n_sentences, block)
            work = [
                pool.submit(
                    word_sgd, begins[t::n_threads].copy(), sentences, A, (D, z, clock), prior,
                    table, (now, eta, block, 1.0 / n_threads), (states[t], lines[t]),
                )
                for t in range(n_threads)
            ]  # fmt: skip
            for future in work:
                future.result()
            now += eta * n_sentences
            if callback is not None:
                callback(epoch)
    apply_lazy_decay(D, z, clock, prior[0], prior[2], now)
    return WordSolution(B + D, np.log(var_P) - np.log(z), len(steps), float("nan"))


def solve(
    counts: sparse.csr_matrix,
    A: np.ndarray,
    B: np.ndarray,
    var_P: np.ndarray,
    noise: np.ndarray,
    *,
    n_negatives: int = 15,
    lam: float = 1.0,
    weighting: str = "token",
    tol: float = 1e-6,
    max_iter: int = 1000,
    n_threads: int = 1,
) -> WordSolution:
    """Posteriors of the words by L-BFGS on the expected loss, in double precision.

    Every evaluation sums over all pairs of a sentence and a noise word: for small and middling
    problems. `tol` bounds the largest entry of the gradient, relative to where it started at the
    priors, in coordinates in which the typical curvature is 1; `gradient_norm` is that ratio.
    """
    A, B, var_P = (np.ascontiguousarray(x, dtype=float) for x in (A, B, var_P))
    n_tokens, share = _shares(counts)
    share_2 = share.power(2)
    omega = sentence_weights(n_tokens, weighting)
    nu, kp = squared_lengths(A), n_negatives * np.asarray(noise, dtype=float)
    n_words, n_dims = A.shape
    rates, c = 1.0 / (var_P * lam), 0.5 * n_dims / lam
    support = np.flatnonzero(kp)
    A_noise, nu_noise, kp_noise = np.ascontiguousarray(A[support]), nu[support], kp[support]
    chunk = max(1, min(256, (1 << 22) // support.size))

    def part(rows, means, variances):
        terms = noise_terms(means, variances, A_noise, nu_noise, kp_noise)
        own = own_terms(share[rows], A, nu, means, variances)
        return tuple(x + y for x, y in zip(terms, own))

    # the data's share of the curvature, for coordinates in which no word is much stiffer
    typical = 0.06 * (kp @ nu) / n_dims
    stiffness = np.sqrt(rates + typical * (share_2.T @ omega))
    scale = np.concatenate([np.repeat(stiffness, n_dims), np.full(n_words, np.sqrt(c))])

    def loss(x):
        x = x / scale
        D, u = x[: n_words * n_dims].reshape(n_words, n_dims), x[n_words * n_dims :]
        var = var_P * np.exp(u)
        means, variances = share @ (B + D), share_2 @ var
        blocks = [np.arange(i, min(i + chunk, len(means))) for i in range(0, len(means), chunk)]
        with ThreadPoolExecutor(n_threads) as pool:
            found = pool.map(lambda rows: part(rows, means[rows], variances[rows]), blocks)
            value, grad, trace = (np.concatenate(parts) for parts in zip(*found))
        total = omega @ value + 0.5 * rates @ np.sum(D * D, axis=1) + c * np.sum(np.exp(u) - u)
        grad_D = share.T @ (omega[:, None] * grad) + rates[:, None] * D
        grad_u = 0.5 * var * (share_2.T @ (omega * trace)) + c * np.expm1(u)
        return total, np.concatenate([grad_D.ravel(), grad_u]) / scale

    from scipy import optimize  # a quarter of a second to import

    x, n_iter = np.zeros(scale.size), 0
    steepest = max(np.abs(loss(x)[1]).max(), np.finfo(float).tiny)
    for _ in range(4):  # scipy's line search may give up a little early: forget and go on
        options = {"maxiter": max_iter - n_iter, "maxfun": 2 * max_iter, "maxcor": 20}
        found = optimize.minimize(
            lambda y: tuple(part / steepest for part in loss(y)), x, jac=True,
            method="L-BFGS-B", options={**options, "ftol": 0.0, "gtol": tol},
        )  # fmt: skip
        x, n_iter = found.x, n_iter + int(found.nit)
        if np.abs(found.jac).max() <= tol or n_iter >= max_iter:
            break
    x = found.x / scale
    mu = B + x[: n_words * n_dims].reshape(n_words, n_dims)
    rho = np.log(var_P) + x[n_words * n_dims :]
    return WordSolution(mu, rho, n_iter, float(np.abs(found.jac).max()))
