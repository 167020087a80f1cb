"""PB-neg: the objective of a sentence under the negative sampling loss, and its noise words.

A sentence S has n tokens; `A_hat` is
the table in the loss, `B_hat` the table of prior means, `rho = log var_Q`, and h ~ N(mu, var_Q I):

    data     = E (1/n) sum_{w in S} [softplus(-h.A_w) + k E_{u ~ noise} softplus(h.A_u)]
    PB-neg   = data + n/(2 var_P lam) |mu - m|^2 + V(rho),    m = mean of B_w
    V(rho)   = d/(2 lam) (n e^rho/var_P - 1 - log n - rho + log var_P)      kl="exact"
             = n d/(2 lam) (log var_P - rho + e^rho/var_P)                  kl="paper"

With "exact", PB-neg = data + KL(Q || P)/lam for the prior P = N(m, var_P/n I); "paper" is what the
paper prints, which counts the logarithm n times. Both are strictly convex in (mu, rho).

The solvers are `pb_neg_exact`, `pb_neg_sampled` and `pb_neg_sgd`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from pacsent.maths.arrays import Numbers, frozen
from pacsent.maths.logistic import alternating_weights, gauss_hermite, n_nodes_for, sigmoid
from pacsent.maths.noise import noise_probabilities

KLS = ("exact", "paper")
SCORES_AT_ONCE = 1 << 20  # scores worked on at once, or 128 sentences: bounds the memory


def penalty_coefficients(
    n_tokens: Numbers, n_dims: int, *, lam: Numbers, var_P: Numbers = 1.0, kl: str = "exact"
) -> tuple[Any, Any, Any, Any]:
    """(kappa, c, A, B): the mean feels kappa (mu - m), rho feels c (A e^rho - B).

    >>> [float(x) for x in penalty_coefficients(4, 2, lam=2.0)]
    [2.0, 0.5, 4.0, 1.0]
    """
    if kl not in KLS:
        raise ValueError(f"kl must be one of {KLS}. Got {kl!r} instead.")
    n_tokens, lam = np.asarray(n_tokens, dtype=float), np.asarray(lam, dtype=float)
    A = n_tokens / var_P
    return A / lam, 0.5 * n_dims / lam, A, n_tokens if kl == "paper" else np.ones_like(n_tokens)


def quadrature_rule() -> tuple[np.ndarray, ...]:
    """(limits, starts, nodes, weights, series): how many nodes at which variance, for kernels."""
    limits = (0.01, 0.09, 0.25, 1.0)
    parts = [gauss_hermite(n_nodes_for(limit)) for limit in limits]
    starts = np.cumsum([0, *(len(nodes) for nodes, _ in parts)])
    nodes = np.concatenate([nodes for nodes, _ in parts])
    weights = np.concatenate([weights for _, weights in parts])
    return np.array(limits), starts, nodes, weights, alternating_weights().copy()


@dataclass(frozen=True)
class Noise:
    """The noise distribution on its support, and where documents lie on average."""

    words: np.ndarray  # (n_support,), those with positive probability
    kp: np.ndarray  # (n_support,), n_negatives times their probabilities
    A: np.ndarray  # (n_support, n_dims), C-contiguous: their rows of A_hat
    centre: np.ndarray  # (n_dims,), a typical mean, around which curvature is measured
    frequency: np.ndarray  # (n_support,), share of each word among the tokens
    # (n_dims, n_directions), orthonormal, along which sentences differ most
    directions: np.ndarray | None = None

    @cached_property
    def nu(self) -> np.ndarray:
        """Squared lengths of the rows."""
        return squared_lengths(self.A)

    @cached_property
    def curvature(self) -> tuple[np.ndarray, np.ndarray, float]:
        """(eigenvalues, eigenvectors) of a typical Hessian of the data term, and its trace."""
        s = sigmoid(self.A @ self.centre)
        # 0.2: sigmoid' at a true word's usual score
        weight = self.kp * s * (1.0 - s) + 0.2 * self.frequency
        H = (self.A * weight[:, None].astype(self.A.dtype)).T @ self.A
        values, vectors = np.linalg.eigh(H.astype(float))
        return np.maximum(values, 0.0), vectors, float(weight @ self.nu)


def main_directions(counts: ArrayLike, B_hat: np.ndarray, n_directions: int = 32) -> np.ndarray:
    """Orthonormal columns along which rows of B_hat, drawn by these counts, differ most."""
    words = np.flatnonzero(counts)
    p = np.asarray(counts, dtype=float)[words] / np.sum(counts)
    rows = B_hat[words].astype(np.float32)
    rows -= p.astype(np.float32) @ rows
    spread = (rows * p[:, None].astype(np.float32)).T @ rows
    return np.linalg.eigh(spread.astype(float))[1][:, -n_directions:]


def noise_of(
    counts: ArrayLike,
    A_hat: np.ndarray,
    centre: ArrayLike,
    *,
    n_negatives: int = 15,
    noise_power: float = 0.75,
    dtype: DTypeLike = np.float64,
    directions: np.ndarray | None = None,
) -> Noise:
    """The Noise of word counts: probability proportional to count^noise_power."""
    counts = np.asarray(counts, dtype=float)
    words = np.flatnonzero(counts > 0)
    return Noise(
        words=words,
        kp=n_negatives * noise_probabilities(counts[words], noise_power),
        A=np.ascontiguousarray(A_hat[words], dtype=dtype),
        centre=np.asarray(centre, dtype=dtype),
        frequency=counts[words] / counts.sum(),
        directions=directions,
    )


class Solution(NamedTuple):
    """Posteriors and how well each was found."""

    mu: np.ndarray  # (n_sentences, n_dims)
    var_Q: np.ndarray  # (n_sentences,)
    n_iter: np.ndarray  # evaluations of the objective
    gradient_norm: np.ndarray  # largest entry of the gradient where it was last evaluated
    converged: np.ndarray
    error: np.ndarray  # relative error of mu - m caused by sampling the noise words; 0 without


class Penalty(NamedTuple):
    """What holds posteriors to their priors: lam, the prior's variance, and the form of the KL."""

    lam: Numbers
    var_P: float
    kl: str


class SentenceProblems:
    """One batch: counts, priors and penalties, and the loss of the sentences' own words."""

    def __init__(
        self, counts: sparse.csr_matrix, table: tuple, m: ArrayLike, penalty: Penalty,
        rule: tuple | None, dtype: DTypeLike,
    ):  # fmt: skip
        self.counts, self.rule, self.dtype = counts, rule, dtype
        A_hat, lengths = table  # rows of A_hat, and their squared lengths
        self.table = frozen(A_hat), lengths
        n_tokens = np.add.reduceat(np.append(counts.data, 0.0), counts.indptr[:-1])
        self.n_tokens = np.where(np.diff(counts.indptr) > 0, n_tokens, 1.0)
        self.n_dims = A_hat.shape[1]
        self.m = np.asarray(m, dtype=dtype)
        self.lam = np.broadcast_to(np.asarray(penalty.lam, dtype=float), self.n_tokens.shape)
        self.kappa, self.c, self.A, self.B = penalty_coefficients(
            self.n_tokens, self.n_dims, lam=self.lam, var_P=penalty.var_P, kl=penalty.kl
        )
        self.rounding = 0.0  # of gradients, in single precision
        self.shares = counts.data / np.repeat(self.n_tokens, np.diff(counts.indptr))

    def add_own_words(
        self, rows: np.ndarray, mu: np.ndarray, var_Q: np.ndarray, grad: np.ndarray,
        value: np.ndarray | None, trace: np.ndarray,
    ) -> None:  # fmt: skip
        """Add the loss of the sentences' own words to the data term and its derivatives."""
        from pacsent._kernels.sampling_kernels import own_slopes, true_terms

        counts = (rows, self.counts.indptr, self.counts.indices, self.shares)
        if value is None:
            own_slopes(counts, self.table, mu, var_Q, self.rule, grad, trace)
        else:
            true_terms(counts, self.table, mu, var_Q, self.rule, grad, value, trace)

    def finish(
        self, rows: np.ndarray, x: np.ndarray, grad_h: np.ndarray,
        value: np.ndarray | None, trace: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray | None]:  # fmt: skip
        """Gradient in (mu, rho) and objective, penalties included."""
        away, rho = x[:, :-1], x[:, -1].astype(float)
        var_Q = np.exp(rho)
        grad = np.empty_like(x)
        grad[:, :-1] = grad_h + self.kappa[rows, None].astype(x.dtype) * away
        grad[:, -1] = 0.5 * var_Q * trace + self.c[rows] * (self.A[rows] * var_Q - self.B[rows])
        if value is not None:
            value = value + 0.5 * self.kappa[rows] * np.einsum("sd,sd->s", away, away)
            value = value + self.c[rows] * (self.A[rows] * var_Q - self.B[rows] * rho)
        return grad, value

    def error_bound(self, rows: np.ndarray, x: np.ndarray, grad: np.ndarray) -> np.ndarray:
        """Upper bound on the relative error of mu - m, or of the variance where that is larger.

        The objective is kappa-strongly convex in mu, and its penalty bends by c A e^rho in rho, so
        that |mu - mu*| <= |grad_mu|/kappa + |grad_rho|/sqrt(2 c A e^rho kappa). What the last
        digit of rho stands for in grad_rho is no error: single precision has no rho between.
        """
        kappa, c, rho = self.kappa[rows], self.c[rows], x[:, -1]
        slope = np.abs(grad[:, -1].astype(float)) - np.spacing(np.abs(rho)) * c * self.B[rows]
        slope = np.maximum(slope, 0.0)
        bend = c * self.A[rows] * np.exp(rho.astype(float))
        mean, pull = x[:, :-1], grad[:, :-1]
        away = np.sqrt(np.einsum("sd,sd->s", mean, mean).astype(float))
        pull = np.sqrt(np.einsum("sd,sd->s", pull, pull).astype(float))
        distance = (pull + self.rounding) / kappa + slope / np.sqrt(2.0 * bend * kappa)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.where(away > distance, distance / (away - distance), np.inf)
        error[distance <= self.rounding / kappa] = 0.0  # nothing pulls: at the prior mean
        return np.maximum(error, slope / (c * self.B[rows]))

    def start(self, trace: Numbers) -> np.ndarray:
        """x = (mu - m, rho): no displacement, and the variance stationary for this trace.

        The displacement, not mu, because single precision would lose it where mu is close to m.
        """
        x = np.zeros((self.m.shape[0], self.n_dims + 1), dtype=self.dtype)
        x[:, -1] = np.log(self.B / (self.A + self.lam / self.n_dims * trace))
        return x


def squared_lengths(A_hat: np.ndarray) -> np.ndarray:
    """|A_w|^2 of each row."""
    return np.einsum("wd,wd->w", A_hat, A_hat)
