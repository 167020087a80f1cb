"""PB-neg by the paper's schedule of stochastic gradients, and the random numbers of a sentence."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from pacsent.maths.arrays import Numbers
from pacsent.maths.mixing import GOLDEN, splitmix64
from pacsent.maths.pb_neg_objective import Penalty, SentenceProblems, Solution


def learning_rates(n_epochs: int, learning_rate: float) -> np.ndarray:
    """learning_rate * (1 - e/n_epochs), e = 0 ... n_epochs - 1."""
    return learning_rate * (1.0 - np.arange(n_epochs) / n_epochs)


def sentence_seeds(counts: sparse.csr_matrix, seed: int) -> np.ndarray:
    """A seed for each row that depends on its words and counts, not on their order or the batch."""
    with np.errstate(over="ignore"):
        mixed = splitmix64(counts.indices.astype(np.uint64) + np.uint64(seed) + GOLDEN)
        mixed *= np.rint(counts.data * 256.0).astype(np.uint64) * np.uint64(2) + np.uint64(1)
        totals = np.concatenate([[np.uint64(0)], np.cumsum(mixed, dtype=np.uint64)])
        seeds = splitmix64(totals[counts.indptr[1:]] - totals[counts.indptr[:-1]] + GOLDEN)
    return np.maximum(seeds, np.uint64(1))


def diverging(
    n_tokens: ArrayLike, *, lam: Numbers, var_P: Numbers = 1.0, learning_rate: float = 0.025
) -> np.ndarray:
    """Sentences for which the paper's own update, `solver="sgd-literal"`, moves away.

    Each step multiplies mu - m by 1 - x (1 - e/n_epochs), x = learning_rate n/(var_P lam); the
    product over the epochs is below one only for x < 4.591, the root of (x-1) log(x-1) = x.

    >>> diverging([10, 1000], lam=1.0)
    array([False,  True])
    """
    return learning_rate * np.asarray(n_tokens) / (var_P * np.asarray(lam)) >= 4.591


def solve_sgd(
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    noise: tuple,
    *,
    lam: Numbers = 1.0,
    var_P: float = 1.0,
    kl: str = "exact",
    steps: np.ndarray,
    seed: int = 0,
    literal: bool = False,
) -> Solution:
    """PB-neg posteriors by the paper's schedule: one sampled gradient per epoch and sentence.

    Each step draws h once and n_negatives noise words per token. The step is an exponential
    integrator: the penalty is integrated exactly while the sampled gradient is held, so it is
    stable for every n and lam. `literal` subtracts step * gradient instead, as the paper does,
    which diverges for long sentences (see `diverging`).

    `noise` is (words, keep, other, n_negatives), the noise words with `noise.alias` of their
    probabilities; `steps` are `learning_rates`. With a sentence's words `seed` determines that
    sentence's random numbers. Of the solution, `gradient_norm` is nan, as the gradient is never
    seen, and `converged` says whether the posterior is finite.
    """
    from pacsent._kernels.sampling_kernels import pb_neg_sgd

    sentences = SentenceProblems(
        counts, (A_hat, None), m, Penalty(lam, var_P, kl), None, A_hat.dtype
    )
    seeds = sentence_seeds(counts, seed)
    mu, rho = np.empty(sentences.m.shape, A_hat.dtype), np.empty(len(seeds))
    for s, own in enumerate(splitmix64(seeds + GOLDEN)):  # the paper's start: U(-1/2, 1/2)/n_dims
        start = (np.random.default_rng(own).random(A_hat.shape[1] + 1) - 0.5) / A_hat.shape[1]
        mu[s], rho[s] = start[:-1], start[-1]
    columns = (sentences.kappa, sentences.c, sentences.A, sentences.B)
    penalties = np.stack(np.broadcast_arrays(*columns), axis=1)
    rows = (counts.indptr, counts.indices, sentences.shares, sentences.n_tokens, seeds)
    pb_neg_sgd(rows, A_hat, sentences.m, penalties, noise, (steps, literal), mu, rho)
    var_Q = np.exp(np.minimum(rho, 700.0))
    finite = np.isfinite(mu).all(axis=1) & np.isfinite(var_Q)
    n_iter = np.full(len(rho), len(steps))
    return Solution(mu, var_Q, n_iter, np.full(len(rho), np.nan), finite, np.zeros(len(rho)))
