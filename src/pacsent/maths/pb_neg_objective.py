"""PB-neg: the objective of a sentence under the negative sampling loss, and its noise distribution.

A sentence S has n tokens; `A_hat` is the matrix in the loss, `B_hat` the matrix of prior means,
`rho = log var_Q`, and h ~ N(mu, var_Q I):

    data     = E (1/n) sum_{w in S} [softplus(-h.A_w) + k E_{u ~ noise} softplus(h.A_u)]
    PB-neg   = data + KL(Q || P)/lam,    P = N(m, var_P/n I),    m = mean of B_w
             = data + kappa/2 |mu - m|^2 + c (precision e^rho - rho) + constant

with kappa = n/(var_P lam), c = d/(2 lam), precision = n/var_P. It is strictly convex in (mu, rho).
`solve` is the reference, with all noise words in double precision; `pb_neg_sampled` is fast.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse
from scipy.special import expit

from pacsent.maths.arrays import Numbers, frozen
from pacsent.maths.lbfgs import minimise_all
from pacsent.maths.logistic import gaussian_logistic
from pacsent.maths.noise import noise_probabilities

# Scores (sentences times noise words) computed at once, which bounds the memory; at least 128
# sentences, so that the matrix products stay efficient.
MAX_SCORES, MIN_SENTENCES = 1 << 20, 128

# Directions along which the third order of the noise term is expanded (`pb_neg_sampled`).
_N_DIRECTIONS = 32


@dataclass(frozen=True)
class Noise:
    """The noise distribution on its support, and where documents lie on average."""

    words: np.ndarray  # (n_support,), those with positive probability
    kp: np.ndarray  # (n_support,), n_negatives times their probabilities
    A: np.ndarray  # (n_support, n_dims), C-contiguous: their rows of A_hat
    centre: np.ndarray  # (n_dims,), a typical mean, around which curvature is measured
    frequency: np.ndarray  # (n_support,), fraction of the tokens
    directions: np.ndarray  # (n_dims, n_directions), orthonormal, along which sentences differ most

    @cached_property
    def nu(self) -> np.ndarray:
        """Squared lengths of the rows."""
        return squared_lengths(self.A)

    @cached_property
    def curvature(self) -> tuple[np.ndarray, np.ndarray, float]:
        """(eigenvalues, eigenvectors) of a typical Hessian of the data term, and its trace."""
        s = expit(self.A @ self.centre)
        # 0.2: sigmoid' at the usual score of a sentence's own word
        weight = self.kp * s * (1.0 - s) + 0.2 * self.frequency
        H = (self.A * weight[:, None].astype(self.A.dtype)).T @ self.A
        values, vectors = np.linalg.eigh(H.astype(float))
        return np.maximum(values, 0.0), vectors, float(weight @ self.nu)


def noise_of(
    counts: ArrayLike,
    tables: tuple[np.ndarray, np.ndarray],
    centre: ArrayLike,
    *,
    n_negatives: int = 15,
    noise_power: float = 0.75,
    dtype: DTypeLike = np.float64,
) -> Noise:
    """The Noise of word counts, probability proportional to count^noise_power.

    `tables` are (A_hat, B_hat).
    """
    A_hat, B_hat = tables
    counts = np.asarray(counts, dtype=float)
    words = np.flatnonzero(counts > 0)
    frequency = counts[words] / counts.sum()
    # The largest eigenvectors of the covariance of B_hat's rows under these frequencies.
    weights, rows = frequency.astype(np.float32), B_hat[words].astype(np.float32)
    rows -= weights @ rows
    covariance = (rows * weights[:, None]).T @ rows
    return Noise(
        words=words,
        kp=n_negatives * noise_probabilities(counts[words], noise_power),
        A=np.ascontiguousarray(A_hat[words], dtype=dtype),
        centre=np.asarray(centre, dtype=dtype),
        frequency=frequency,
        directions=np.linalg.eigh(covariance.astype(float))[1][:, -_N_DIRECTIONS:],
    )


class Solution(NamedTuple):
    """Posteriors, and how well each was found."""

    mu: np.ndarray  # (n_sentences, n_dims)
    var_Q: np.ndarray  # (n_sentences,)
    n_iter: np.ndarray  # evaluations of the objective
    gradient_norm: np.ndarray  # largest entry of the gradient where it was last evaluated
    converged: np.ndarray
    error: np.ndarray  # relative error of mu - m caused by sampling the noise words; 0 without


class SentenceProblems:
    """One batch: counts, priors and penalties.

    `table` is (A_hat, squared lengths of its rows). A row of unknowns is x = (mu - m, rho): the
    displacement, not mu, because single precision would lose it where mu is close to m.
    """

    def __init__(self, counts, table, m, *, lam, var_P, dtype):
        self.counts, self.dtype = counts, dtype
        self.table = frozen(table[0]), table[1]
        n_tokens = np.add.reduceat(np.append(counts.data, 0.0), counts.indptr[:-1])
        self.n_tokens = np.where(np.diff(counts.indptr) > 0, n_tokens, 1.0)
        self.n_dims = table[0].shape[1]
        self.m = np.asarray(m, dtype=dtype)
        self.lam = np.broadcast_to(np.asarray(lam, dtype=float), self.n_tokens.shape)
        self.precision = self.n_tokens / var_P
        self.kappa, self.c = self.precision / self.lam, 0.5 * self.n_dims / self.lam
        self.rounding = 0.0  # of gradients, in single precision
        self.shares = counts.data / np.repeat(self.n_tokens, np.diff(counts.indptr))

    def add_penalty(self, rows, x, grad_h, value, trace):
        """Gradient in (mu, rho) and objective, from those of the data term."""
        away, rho = x[:, :-1], x[:, -1].astype(float)
        pull = self.precision[rows] * np.exp(rho)
        grad = np.empty_like(x)
        grad[:, :-1] = grad_h + self.kappa[rows, None].astype(x.dtype) * away
        grad[:, -1] = 0.5 * np.exp(rho) * trace + self.c[rows] * (pull - 1.0)
        if value is not None:
            value = value + 0.5 * self.kappa[rows] * np.einsum("sd,sd->s", away, away)
            value = value + self.c[rows] * (pull - rho)
        return grad, value

    def error_bound(self, rows, x, grad):
        """Upper bound on the relative error of mu - m, or of the variance where that is larger.

        The objective is kappa-strongly convex in mu, and its penalty has the second derivative
        c precision e^rho in rho, so that
        |mu - mu*| <= |grad_mu|/kappa + |grad_rho|/sqrt(2 c precision e^rho kappa).
        What the last digit of rho stands for in grad_rho is no error: single precision has no rho
        in between.
        """
        kappa, c, rho = self.kappa[rows], self.c[rows], x[:, -1]
        slope = np.maximum(np.abs(grad[:, -1].astype(float)) - np.spacing(np.abs(rho)) * c, 0.0)
        bend = c * self.precision[rows] * np.exp(rho.astype(float))
        away, pull = (
            np.sqrt(np.einsum("sd,sd->s", part, part).astype(float))
            for part in (x[:, :-1], grad[:, :-1])
        )
        distance = (pull + self.rounding) / kappa + slope / np.sqrt(2.0 * bend * kappa)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.where(away > distance, distance / (away - distance), np.inf)
        error[distance <= self.rounding / kappa] = 0.0  # nothing pulls: at the prior mean
        return np.maximum(error, slope / c)

    def start(self, trace: Numbers) -> np.ndarray:
        """No displacement, and the variance that is stationary for this trace."""
        x = np.zeros((self.m.shape[0], self.n_dims + 1), dtype=self.dtype)
        x[:, -1] = -np.log(self.precision + self.lam / self.n_dims * trace)
        return x

    def preconditioner(self, eigenvalues: np.ndarray, U: np.ndarray) -> Callable:
        """The map (rows, q) -> H0^-1 q: U (kappa + eigenvalues)^-1 U' for mu, 1/c for rho.

        Eigenvalues that are close to each other compared with kappa are taken for one, whose
        directions need no product.
        """
        kappa = self.kappa[:, None]
        apart = eigenvalues > 1.05 * eigenvalues.min() + 0.05 * kappa.min()
        among = np.zeros((len(kappa), 1), self.dtype)
        if not apart.all():
            among = (1.0 / (kappa + float(np.mean(eigenvalues[~apart])))).astype(self.dtype)
            U, eigenvalues = U[:, apart], eigenvalues[apart]
        U, scale = U.astype(self.dtype), (1.0 / (kappa + eigenvalues)).astype(self.dtype) - among
        curvature = self.c.astype(self.dtype)

        def apply(rows, q):
            out = np.empty_like(q)
            out[:, :-1] = ((q[:, :-1] @ U) * scale[rows]) @ U.T
            out[:, :-1] += among[rows] * q[:, :-1]
            out[:, -1] = q[:, -1] / curvature[rows]
            return out

        return apply


def squared_lengths(A_hat: np.ndarray) -> np.ndarray:
    """|A_w|^2 of each row."""
    return np.einsum("wd,wd->w", A_hat, A_hat)


def solve(
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    noise: Noise,
    *,
    lam: Numbers = 1.0,
    var_P: float = 1.0,
    tol: float = 1e-8,
    max_iter: int = 200,
    start: np.ndarray | None = None,
) -> Solution:
    """PB-neg posteriors of many sentences, the noise words integrated over the whole vocabulary.

    L-BFGS in (mu, rho) for all sentences at once, preconditioned by the curvature of the noise term
    at `noise.centre`; the objective of a sentence never rises.

    Every row of `counts` must contain a word; the caller overwrites those that do not. `m` are the
    means of the priors, `noise` is from `noise_of`, and `start` is (mu - m, log var_Q) to start
    from. A sentence is solved when strong convexity bounds the error of mu by tol |mu - m|:
    |mu - mu*| <= |gradient|/kappa, kappa = n/(var_P lam).
    """
    A, nu = np.asarray(A_hat, dtype=float), squared_lengths(A_hat).astype(float)
    sentences = SentenceProblems(counts, (A, nu), m, lam=lam, var_P=var_P, dtype=np.float64)
    shares = sparse.csr_matrix((sentences.shares, counts.indices, counts.indptr), counts.shape)
    eigenvalues, U, trace = noise.curvature
    step = max(MIN_SENTENCES, MAX_SCORES // len(noise.nu))

    def evaluate(rows, x):
        mu, var_Q = sentences.m[rows] + x[:, :-1], np.exp(x[:, -1])
        own = shares[rows]
        row, words = np.repeat(np.arange(len(rows)), np.diff(own.indptr)), own.indices
        scores = np.empty(words.size)
        for start in range(0, words.size, 1 << 14):  # bounds the memory of the rows
            part = slice(start, start + (1 << 14))
            np.einsum("td,td->t", A[words[part]], mu[row[part]], out=scores[part])
        f, f1, f2 = gaussian_logistic(scores, var_Q[row] * nu[words])
        value = np.bincount(row, own.data * (f - scores), len(rows))
        spread = np.bincount(row, own.data * nu[words] * f2, len(rows))
        grad = sparse.csr_matrix((own.data * (f1 - 1.0), words, own.indptr), own.shape) @ A
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            f, f1, f2 = gaussian_logistic(mu[part] @ noise.A.T, var_Q[part, None] * noise.nu)
            value[part] += f @ noise.kp
            grad[part] += (f1 * noise.kp) @ noise.A
            spread[part] += f2 @ (noise.kp * noise.nu)
        return sentences.add_penalty(rows, x, grad, value, spread)

    x = sentences.start(trace)
    if start is not None:
        # A start that overflows, or that is worse than the prior mean, is not used.
        usable = np.flatnonzero(np.isfinite(start).all(axis=1))
        with np.errstate(over="ignore", invalid="ignore"):
            guess = start[usable].astype(float)
            lower = evaluate(usable, guess)[1] < evaluate(usable, x[usable])[1]
        x[usable[lower]] = guess[lower]
    precondition, rows = sentences.preconditioner(eigenvalues, U), np.arange(counts.shape[0])
    x, n_iter, norm, converged = minimise_all(
        evaluate, precondition, x, tol, max_iter, rows, sentences.error_bound
    )
    mu, var_Q = sentences.m + x[:, :-1], np.exp(x[:, -1])
    return Solution(mu, var_Q, n_iter, norm, converged, np.zeros(len(x)))
