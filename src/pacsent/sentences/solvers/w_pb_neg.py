"""Posteriors of words under the negative sampling loss (w-PB-neg).

Every word v of the training sentences has a posterior N(mu_v, e^rho_v I) and a
prior N(B_v, var_P[v] I). A sentence with counts c_v is h_S = sum_v fraction_v h_v, fraction_v =
c_v/n, hence Gaussian with mean sum fraction_v mu_v and variance s_S^2 = sum fraction_v^2 e^rho_v: a
word that occurs twice is drawn once.

    loss = sum_S omega_S (1/n) sum_{w in S} E l_neg(h_S, A_w)
           + 1/(2 lam) sum_v [|mu_v - B_v|^2/var_P[v] + d (log var_P[v] - rho_v + e^rho_v/var_P[v])]

omega_S is n/N (weighting="token", N tokens in all) or 1/M (weighting="sentence", M sentences).
The loss is strictly convex in all mu_v and rho_v together.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from pacsent.kernels import word_posteriors as kernels
from pacsent.sentences.solvers.pb_neg import squared_lengths
from pacsent.words.noise import alias

# Sentences whose gradients are taken together, with common negatives: their matrix products stay
# in the first cache, and larger blocks are cut more often (`stable_block_size`).
_BLOCK = 64


def prior_variances(counts: ArrayLike, median_variance: float | None = None) -> np.ndarray:
    """Variance of each word's prior; inf for words that do not occur.

    T/count, T the number of tokens: the paper's, under which frequent words are held tighter. Or,
    with a `median_variance`, median_variance * (median p)/p, p = count/T: the same shape, and this
    variance for a word of median frequency.
    """
    counts = np.asarray(counts, dtype=float)
    with np.errstate(divide="ignore"):
        inverse = counts.sum() / counts  # 1/p
    if median_variance is None:
        return inverse
    return median_variance * inverse / np.median(inverse[counts > 0])


def matched_scale(counts: sparse.csr_matrix) -> float:
    """The s for which prior variances s T/count make the median sentence's variance 1/n_tokens.

    That is the variance of PB-neg's prior; with s = 1, the paper's, it is in the hundreds. No row
    of `counts` may be empty.
    """
    n_tokens = np.asarray(counts.sum(axis=1), dtype=float).ravel()
    word_counts = np.asarray(counts.sum(axis=0)).ravel()
    word_variances = prior_variances(word_counts)
    word_variances[~np.isfinite(word_variances)] = 0.0  # of words that do not occur

    # The variance of h_S = sum of (c_v/n) h_v with s = 1.
    sentence_variances = counts.power(2) @ word_variances / n_tokens**2
    return float(np.median(1.0 / (n_tokens * sentence_variances)))


def sentence_weights(n_tokens: ArrayLike, weighting: str) -> np.ndarray:
    """omega_S; see the top of this module."""
    n_tokens = np.asarray(n_tokens, dtype=float)
    if weighting == "token":
        return n_tokens / n_tokens.sum()
    n_sentences = np.count_nonzero(n_tokens)
    return np.where(n_tokens > 0, 1.0 / n_sentences, 0.0)


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
) -> tuple[np.ndarray, np.ndarray]:
    """(mu, rho) of the words by stochastic gradients, one step per sentence and epoch.

    A step takes the sampled data gradient of one sentence with weight 1 (or n M/N, for
    weighting="token") and the whole penalty, which words that do not occur feel lazily: exactly, by
    its flow, when they next occur. Sentences come in a fresh order every epoch. `counts` are whole
    numbers, no row empty; `tables` are (A, B), float32; `steps` are the learning rates by epoch.

    The gradients of `block` sentences are taken at the same state of the words and with common
    negatives: n_negatives for each token of the longest, at most 320, weighted to stand for
    n_negatives per token of each, with a control variate that is linear in the scores. Where a
    common step would overshoot, a block is cut into smaller ones. 1 is strictly one by one. Threads
    work on the same words without locks: with more than one, the result differs a little from run
    to run.
    """
    A, B = tables
    n_sentences = counts.shape[0]
    n_tokens = np.asarray(counts.sum(axis=1)).ravel().astype(np.int64)
    fractions_data = counts.data / np.repeat(n_tokens, np.diff(counts.indptr))
    fractions = sparse.csr_matrix((fractions_data, counts.indices, counts.indptr), counts.shape)
    m = (fractions.astype(np.float32) @ B).astype(np.float32)  # (n_sentences, n_dims)
    weights = sentence_weights(n_tokens, weighting) * n_sentences

    words = kernels.LazyPosteriors.at_prior(A.shape[1], var_P, lam)
    noise_table, moment = _noise_table(A, noise, n_negatives)
    stiffness = _stiffness(A, fractions, n_tokens, moment, n_negatives)
    memories = _thread_memories(n_threads, rng)

    first_rows = np.arange(0, n_sentences, block)  # of the blocks
    now = 0.0
    with ThreadPoolExecutor(n_threads) as pool:
        for epoch, eta in enumerate(steps):
            order = rng.permutation(n_sentences)
            rows = fractions[order]
            sentences = kernels.EpochSentences(
                starts=rows.indptr.astype(np.int64),
                words=rows.indices.astype(np.int32, copy=False),
                fractions=rows.data,
                n_tokens=n_tokens[order],
                weights=weights[order],
                stiffness=stiffness[order],
                order=order,
                m=m,
            )
            schedule = kernels.EpochSchedule(now, eta, block, 1.0 / n_threads)
            futures = []
            for thread, memory in enumerate(memories):
                thread_rows = first_rows[thread::n_threads]
                future = pool.submit(
                    kernels.word_sgd, thread_rows, sentences, words, noise_table, schedule, memory
                )
                futures.append(future)
            for future in futures:
                future.result()

            now += eta * n_sentences
            if callback is not None:
                callback(epoch)

    kernels.apply_lazy_decay(words, now)
    rho = np.log(var_P) - np.log(words.states["z"])
    return B + words.D, rho


def _noise_table(
    A: np.ndarray, noise: np.ndarray, n_negatives: int
) -> tuple[kernels.NoiseTable, np.ndarray]:
    """The negatives as the kernel draws them, and their second moment E[A_j A_j']."""
    weighted = A * np.sqrt(noise, dtype=A.dtype)[:, None]
    moment = weighted.T @ weighted

    keep, other = alias(noise)
    table = kernels.NoiseTable(
        A=A,
        keep=keep,
        other=other,
        n_negatives=n_negatives,
        mean=np.ascontiguousarray(noise @ A, dtype=np.float32),
        moment=np.ascontiguousarray(moment, dtype=np.float32),
        lengths=squared_lengths(A),
    )
    return table, moment


def _stiffness(
    A: np.ndarray,
    fractions: sparse.csr_matrix,
    n_tokens: np.ndarray,
    moment: np.ndarray,
    n_negatives: int,
) -> np.ndarray:
    """Upper bound on the curvature in h of each sentence's sampled loss, (n_sentences,).

    sigmoid' <= 1/4; the negatives have the largest eigenvalue of their second moment, with an
    allowance for their number (that of Marchenko and Pastur), and the sentence's own words |A_w|^2.
    """
    moment = moment.astype(float)
    largest_eigenvalue = max(np.linalg.eigvalsh(moment)[-1], 0.0)
    n_draws = np.minimum(n_negatives * n_tokens, kernels.MAX_DRAWS)
    sampled = (np.sqrt(largest_eigenvalue) + np.sqrt(np.trace(moment) / n_draws)) ** 2
    own = fractions @ squared_lengths(A.astype(float))
    return 0.25 * (n_negatives * sampled + own)


def _thread_memories(n_threads: int, rng: np.random.Generator) -> list[kernels.Memory]:
    """Random numbers for each thread, and its line through the sigmoids on the scores."""
    lines = np.tile([0.5, 0.0], (n_threads, 1))
    drawn_states = rng.integers(0, 2**63, (n_threads, 1), dtype=np.uint64)
    states = np.maximum(drawn_states, np.uint64(1))  # a state of 0 would stay 0
    return [kernels.Memory(state, line) for state, line in zip(states, lines)]
