"""PB-neg: the objective of a sentence under the negative sampling loss, and its exact solver.

A sentence S has n tokens; `A_hat` is the matrix in the loss, `B_hat` the matrix of prior means,
`rho = log var_Q`, and h ~ N(mu, var_Q I):

    data     = E (1/n) sum_{w in S} [softplus(-h.A_w) + k E_{u ~ noise} softplus(h.A_u)]
    PB-neg   = data + KL(Q || P)/lam,    P = N(m, var_P/n I),    m = mean of B_w
             = data + kappa/2 |mu - m|^2 + c (precision e^rho - rho) + constant

with kappa = n/(var_P lam), c = d/(2 lam), precision = n/var_P. It is strictly convex in (mu, rho).

`ExactObjective` is this function: all negatives, in double precision. `solve` minimises it and is
the reference. Strong convexity in mu also says when to stop: it bounds the distance to the optimum
by the length of the gradient (`SentenceProblems.error_bound`), so that `tol` is an error of the
result, not the size of a step.

`pb_neg_sampled` has the solver that is used by default, up to 60 times as fast.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse
from scipy.special import expit

from pacsent.arrays import Numbers
from pacsent.kernels.pb_neg import OwnWords
from pacsent.sentences.solvers.lbfgs import minimise_all
from pacsent.sentences.solvers.logistic import gaussian_logistic
from pacsent.words.noise import noise_probabilities

# Scores (sentences times negatives) computed at once, which bounds the memory; at least 128
# sentences, so that the matrix products stay efficient.
MAX_SCORES = 1 << 20
MIN_SENTENCES = 128

_MAX_GATHERED_ROWS = 1 << 14  # of A_hat, one per token, copied at once
_N_DIRECTIONS = 32  # along which the fast solver expands the third order of the noise term

# sigmoid' at the usual score of a sentence's own word.
OWN_WORD_SLOPE = 0.2


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
        weight = self.kp * s * (1.0 - s) + OWN_WORD_SLOPE * self.frequency
        weighted = self.A * weight[:, None].astype(self.A.dtype)
        H = weighted.T @ self.A
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
    weights = frequency.astype(np.float32)
    rows = B_hat[words].astype(np.float32)  # (n_support, n_dims)
    rows -= weights @ rows
    covariance = (rows * weights[:, None]).T @ rows
    _, eigenvectors = np.linalg.eigh(covariance.astype(float))  # smallest first

    return Noise(
        words=words,
        kp=n_negatives * noise_probabilities(counts[words], noise_power),
        A=np.ascontiguousarray(A_hat[words], dtype=dtype),
        centre=np.asarray(centre, dtype=dtype),
        frequency=frequency,
        directions=eigenvectors[:, -_N_DIRECTIONS:],
    )


class Solution(NamedTuple):
    """Posteriors, and how well each was found."""

    mu: np.ndarray  # (n_sentences, n_dims)
    var_Q: np.ndarray  # (n_sentences,)
    n_iter: np.ndarray  # evaluations of the objective
    gradient_norm: np.ndarray  # largest entry of the gradient where it was last evaluated
    converged: np.ndarray
    error: np.ndarray  # relative error of mu - m caused by sampling the negatives; 0 without


class SentenceProblems:
    """One batch: counts, priors and penalties.

    A row of unknowns is x = (mu - m, rho): the displacement, not mu, because single precision would
    lose it where mu is close to m. `nu` are the squared lengths of the rows of `A_hat`.
    """

    def __init__(
        self,
        counts: Any,
        A_hat: np.ndarray,
        nu: np.ndarray,
        m: Any,
        *,
        lam: Any,
        var_P: Numbers,
        dtype: Any,
    ):
        self.counts = counts
        self.A = A_hat
        self.nu = nu
        self.m = np.asarray(m, dtype=dtype)
        self.dtype = dtype
        self.n_dims = A_hat.shape[1]

        n_words = np.diff(counts.indptr)  # different words of each sentence
        n_tokens = np.add.reduceat(np.append(counts.data, 0.0), counts.indptr[:-1])
        self.n_tokens = np.where(n_words > 0, n_tokens, 1.0)
        self.fractions = counts.data / np.repeat(self.n_tokens, n_words)  # of each stored count

        self.lam = np.broadcast_to(np.asarray(lam, dtype=float), self.n_tokens.shape)
        self.precision = self.n_tokens / np.asarray(var_P, dtype=float)
        self.kappa = self.precision / self.lam
        self.c = 0.5 * self.n_dims / self.lam
        self.rounding = 0.0  # of gradients, in single precision

    @cached_property
    def own_words(self) -> OwnWords:
        """Words, fractions and vectors as the compiled solver wants them, in single precision."""
        counts = self.counts
        return OwnWords(counts.indptr, counts.indices, self.fractions, self.A, self.nu)

    def add_penalty(self, rows: Any, x: Any, grad_h: Any, value: Any, trace: Any) -> tuple:
        """Gradient in (mu, rho) and objective: the data term, and the penalty added to it.

            penalty = kappa/2 |mu - m|^2 + c (precision e^rho - rho)

        Of the data term there are the gradient in mu (`grad_h`), the trace of its Hessian in mu,
        whose half is its derivative in var_Q = e^rho, and the value, or None if none is needed.
        """
        displacement = x[:, :-1]
        rho = x[:, -1].astype(float)
        kappa = self.kappa[rows]
        c = self.c[rows]
        variance_ratio = self.precision[rows] * np.exp(rho)  # of Q to P

        grad = np.empty_like(x)
        grad[:, :-1] = grad_h + kappa[:, None].astype(x.dtype) * displacement
        grad[:, -1] = 0.5 * np.exp(rho) * trace + c * (variance_ratio - 1.0)
        if value is not None:
            squared_length = np.einsum("sd,sd->s", displacement, displacement)
            value = value + 0.5 * kappa * squared_length
            value = value + c * (variance_ratio - rho)
        return grad, value

    def error_bound(self, rows: Any, x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        """Upper bound on the relative error of mu - m, or of the variance where that is larger.

        The objective is kappa-strongly convex in mu, and its penalty has the second derivative
        c precision e^rho in rho, so that
        |mu - mu*| <= |grad_mu|/kappa + |grad_rho|/sqrt(2 c precision e^rho kappa).
        What the last digit of rho stands for in grad_rho is no error: single precision has no rho
        in between.
        """
        kappa = self.kappa[rows]
        c = self.c[rows]
        rho = x[:, -1]
        curvature = c * self.precision[rows] * np.exp(rho.astype(float))  # in rho

        displacement = _row_norms(x[:, :-1])
        gradient_norm = _row_norms(grad[:, :-1])
        last_digit = np.spacing(np.abs(rho)) * c
        grad_rho = np.abs(grad[:, -1].astype(float))
        slope = np.maximum(grad_rho - last_digit, 0.0)

        distance = (gradient_norm + self.rounding) / kappa
        distance = distance + slope / np.sqrt(2.0 * curvature * kappa)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = distance / (displacement - distance)
        error = np.where(displacement > distance, relative, np.inf)
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
        is_distinct = eigenvalues > 1.05 * eigenvalues.min() + 0.05 * kappa.min()
        common = np.zeros((len(kappa), 1), self.dtype)  # inverse curvature of the other directions
        if not is_distinct.all():
            mean = float(np.mean(eigenvalues[~is_distinct]))
            common = (1.0 / (kappa + mean)).astype(self.dtype)
            U = U[:, is_distinct]
            eigenvalues = eigenvalues[is_distinct]
        U = U.astype(self.dtype)
        excess = (1.0 / (kappa + eigenvalues)).astype(self.dtype) - common
        curvature = self.c.astype(self.dtype)  # in rho

        def apply(rows: np.ndarray, q: np.ndarray) -> np.ndarray:
            out = np.empty_like(q)
            out[:, :-1] = ((q[:, :-1] @ U) * excess[rows]) @ U.T
            out[:, :-1] += common[rows] * q[:, :-1]
            out[:, -1] = q[:, -1] / curvature[rows]
            return out

        return apply


def _row_norms(rows: np.ndarray) -> np.ndarray:
    """Length of each row, in double precision."""
    return np.sqrt(np.einsum("sd,sd->s", rows, rows).astype(float))


def squared_lengths(A_hat: np.ndarray) -> np.ndarray:
    """|A_w|^2 of each row."""
    return np.einsum("wd,wd->w", A_hat, A_hat)


def expected_loss(
    mu: np.ndarray,
    var_Q: np.ndarray,
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    noise_words: np.ndarray,
    kp: np.ndarray,
) -> np.ndarray:
    """The data term of each sentence, h and the negatives integrated out, (n_sentences,).

        (1/n) sum_{w in S} E softplus(-h.A_w) + sum_u kp_u E softplus(h.A_u),   h ~ N(mu, var_Q I)

    `kp` are n_negatives times the probabilities of `noise_words`. No row of `counts` may be empty.
    """
    counts = sparse.csr_matrix(counts, dtype=float)
    n_tokens = np.asarray(counts.sum(axis=1)).ravel()
    sentence = np.repeat(np.arange(len(mu)), np.diff(counts.indptr))  # of each stored count

    words = np.unique(np.concatenate([counts.indices, noise_words]))
    rows = np.asarray(A_hat[words], dtype=float)  # (n_used, n_dims)
    nu = squared_lengths(rows)
    own = np.searchsorted(words, counts.indices)
    noise = np.searchsorted(words, noise_words)

    losses = np.zeros(len(mu))
    step = max(1, MAX_SCORES // max(1, len(words)))
    for start in range(0, len(mu), step):
        part = slice(start, start + step)
        scores = mu[part] @ rows[noise].T  # (n_rows, n_noise)
        variances = var_Q[part, None] * nu[noise]
        f, _, _ = gaussian_logistic(scores, variances)
        losses[part] = f @ kp

    for start in range(0, own.size, _MAX_GATHERED_ROWS):
        part = slice(start, start + _MAX_GATHERED_ROWS)
        own_part = own[part]
        place = sentence[part]
        scores = np.einsum("td,td->t", rows[own_part], mu[place])
        variances = var_Q[place] * nu[own_part]
        f, _, _ = gaussian_logistic(-scores, variances)
        fractions = counts.data[part] / n_tokens[place]
        losses += np.bincount(place, fractions * f, len(mu))
    return losses


class ExactObjective:
    """The objective of a batch of sentences: all negatives, in double precision."""

    def __init__(self, sentences: SentenceProblems, noise: Noise):
        counts = sentences.counts
        parts = sentences.fractions, counts.indices, counts.indptr
        self.fractions = sparse.csr_matrix(parts, counts.shape)  # (n_sentences, n_words)
        self.sentences = sentences
        self.noise = noise
        self.n_rows = max(MIN_SENTENCES, MAX_SCORES // len(noise.nu))  # scored at once

    def evaluate(self, rows: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradients in (mu, rho) and values of these sentences at x."""
        mu = self.sentences.m[rows] + x[:, :-1]
        var_Q = np.exp(x[:, -1])

        grad, value, trace = self._own_words(rows, mu, var_Q)
        self._add_negatives(mu, var_Q, grad, value, trace)
        return self.sentences.add_penalty(rows, x, grad, value, trace)

    def _own_words(
        self, rows: np.ndarray, mu: np.ndarray, var_Q: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gradient in mu, value, and trace of the Hessian in mu: of the sentences' own words."""
        A = self.sentences.A
        own = self.fractions[rows]
        words = own.indices
        row = np.repeat(np.arange(len(rows)), np.diff(own.indptr))  # of each stored fraction

        scores = np.empty(words.size)
        for start in range(0, words.size, _MAX_GATHERED_ROWS):
            part = slice(start, start + _MAX_GATHERED_ROWS)
            np.einsum("td,td->t", A[words[part]], mu[row[part]], out=scores[part])

        nu = self.sentences.nu[words]
        f, f1, f2 = gaussian_logistic(scores, var_Q[row] * nu)
        value = np.bincount(row, own.data * (f - scores), len(rows))
        trace = np.bincount(row, own.data * nu * f2, len(rows))
        slope_data = own.data * (f1 - 1.0)
        slopes = sparse.csr_matrix((slope_data, words, own.indptr), own.shape)
        return slopes @ A, value, trace

    def _add_negatives(
        self,
        mu: np.ndarray,
        var_Q: np.ndarray,
        grad: np.ndarray,
        value: np.ndarray,
        trace: np.ndarray,
    ) -> None:
        """Add the noise term, in place."""
        noise = self.noise

        for start in range(0, len(mu), self.n_rows):
            part = slice(start, start + self.n_rows)
            scores = mu[part] @ noise.A.T  # (n_rows, n_support)
            variances = var_Q[part, None] * noise.nu
            f, f1, f2 = gaussian_logistic(scores, variances)
            value[part] += f @ noise.kp
            grad[part] += (f1 * noise.kp) @ noise.A
            trace[part] += f2 @ (noise.kp * noise.nu)


def solve(
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    noise: Noise,
    *,
    lam: Numbers = 1.0,
    var_P: Numbers = 1.0,
    tol: float = 1e-8,
    max_iter: int = 200,
) -> Solution:
    """PB-neg posteriors of many sentences, the negatives integrated over the whole vocabulary.

    L-BFGS in (mu, rho) for all sentences at once, preconditioned by the curvature of the noise term
    at `noise.centre`; the objective of a sentence never rises.

    Every row of `counts` must contain a word; the caller overwrites those that do not. `m` are the
    means of the priors, and `noise` is from `noise_of`. A sentence is solved when strong convexity
    bounds the error of mu by tol |mu - m| (`error_bound`), kappa = n/(var_P lam).
    """
    A = np.asarray(A_hat, dtype=float)
    nu = squared_lengths(A_hat).astype(float)
    sentences = SentenceProblems(counts, A, nu, m, lam=lam, var_P=var_P, dtype=np.float64)
    objective = ExactObjective(sentences, noise)
    eigenvalues, U, trace = noise.curvature

    x, n_iter, norm, converged = minimise_all(
        objective.evaluate,
        sentences.preconditioner(eigenvalues, U),
        sentences.start(trace),
        tol,
        max_iter,
        np.arange(counts.shape[0]),
        sentences.error_bound,
    )
    return Solution(
        mu=sentences.m + x[:, :-1],
        var_Q=np.exp(x[:, -1]),
        n_iter=n_iter,
        gradient_norm=norm,
        converged=converged,
        error=np.zeros(len(x)),
    )
