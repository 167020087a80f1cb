"""Posteriors under the logistic (negative sampling) loss: objectives, gradients and solvers.

Formulas only: arrays and numbers in, arrays and numbers out. A sentence S has n tokens; `A_hat` is
the table in the loss, `B_hat` the table of prior means, `rho = log var_Q`, and h ~ N(mu, var_Q I):

    data     = E (1/n) sum_{w in S} [softplus(-h.A_w) + k E_{u ~ noise} softplus(h.A_u)]
    PB-neg   = data + n/(2 var_P lam) |mu - m|^2 + V(rho),    m = mean of B_w
    V(rho)   = d/(2 lam) (n e^rho/var_P - 1 - log n - rho + log var_P)      kl="exact"
             = n d/(2 lam) (log var_P - rho + e^rho/var_P)                  kl="paper"

With "exact", PB-neg = data + KL(Q || P)/lam for the prior P = N(m, var_P/n I); "paper" is what the
paper prints, which counts the logarithm n times. Both are strictly convex in (mu, rho).
"""

from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from pacsent.maths.arrays import Numbers
from pacsent.maths.lbfgs import minimise_all
from pacsent.maths.logistic import (
    alternating_weights,
    gauss_hermite,
    gaussian_logistic,
    higher_derivatives,
    n_nodes_for,
    sigmoid,
    sigmoid_fits,
    softplus,
)
from pacsent.maths.mixing import GOLDEN, splitmix64
from pacsent.maths.noise import noise_probabilities

KLS = ("exact", "paper")
_SCORES_AT_ONCE = 1 << 20  # scores worked on at once, or 128 sentences: bounds the memory
_WHOLE_BELOW = 2048  # noise words that no sample need stand for
_LOCK = Lock()  # of the expansions that threads share


# ------------------------------------------------------------------------------------------------
# PB-neg: what is minimised
# ------------------------------------------------------------------------------------------------


class Objective(NamedTuple):
    """Parts of an objective and its gradients; one entry or row per sentence where batched."""

    data: Numbers
    mean_penalty: Numbers
    var_penalty: Numbers
    grad_mu: np.ndarray
    grad_rho: np.ndarray
    grad_h: np.ndarray  # of the data term alone
    trace: np.ndarray | None = None  # of the expected Hessian of the data term

    @property
    def total(self) -> Numbers:
        return self.data + self.mean_penalty + self.var_penalty


def penalty_coefficients(
    n_tokens: Numbers, n_dims: int, *, lam: Numbers, var_P: Numbers = 1.0, kl: str = "exact"
) -> tuple[Any, Any, Any, Any]:
    """(kappa, c, A, B): the mean feels kappa (mu - m), rho feels c (A e^rho - B).

    Examples
    --------
    >>> [float(x) for x in penalty_coefficients(4, 2, lam=2.0)]
    [2.0, 0.5, 4.0, 1.0]
    """
    if kl not in KLS:
        raise ValueError(f"kl must be one of {KLS}. Got {kl!r} instead.")
    n_tokens, lam = np.asarray(n_tokens, dtype=float), np.asarray(lam, dtype=float)
    A = n_tokens / var_P
    return A / lam, 0.5 * n_dims / lam, A, n_tokens if kl == "paper" else np.ones_like(n_tokens)


def variance_penalty(
    rho: Numbers,
    n_tokens: Numbers,
    n_dims: int,
    *,
    lam: Numbers,
    var_P: Numbers = 1.0,
    kl: str = "exact",
) -> Any:
    """V(rho); see the top of this module.

    Examples
    --------
    >>> round(float(variance_penalty(0.0, 1, 2, lam=1.0)), 6)
    0.0
    """
    if kl == "paper":
        return 0.5 * n_dims * n_tokens / lam * (np.log(var_P) - rho + np.exp(rho) / var_P)
    ratio = n_tokens / var_P
    return 0.5 * n_dims / lam * (ratio * np.exp(rho) - 1.0 - np.log(ratio) - rho)


def sampled_objective(
    mu: np.ndarray,
    rho: float,
    eps: np.ndarray,
    tokens: ArrayLike,
    negatives: ArrayLike,
    A_hat: np.ndarray,
    B_hat: np.ndarray,
    *,
    lam: float,
    var_P: float = 1.0,
    kl: str = "exact",
) -> Objective:
    """PB-neg of one sentence for one draw of the noise words and of h = mu + e^(rho/2) eps.

    Parameters
    ----------
    mu, eps : array, shape (n_dims,)
    rho : float
    tokens : array of int, shape (n_tokens,)
    negatives : array of int, shape (n_tokens, n_negatives)
        The noise words of each token.
    A_hat, B_hat : array, shape (n_words, n_dims)

    Returns
    -------
    Objective
    """
    tokens, negatives = np.asarray(tokens), np.asarray(negatives)
    n_tokens, n_dims = tokens.size, A_hat.shape[1]
    deviation = np.exp(0.5 * rho)
    data, grad_h = negative_sampling_loss(mu + deviation * eps, tokens, negatives, A_hat)
    data, grad_h = data / n_tokens, grad_h / n_tokens
    m = B_hat[tokens].mean(axis=0)
    kappa, c, A, B = penalty_coefficients(n_tokens, n_dims, lam=lam, var_P=var_P, kl=kl)
    return Objective(
        data=data,
        mean_penalty=0.5 * kappa * np.sum((mu - m) ** 2),
        var_penalty=variance_penalty(rho, n_tokens, n_dims, lam=lam, var_P=var_P, kl=kl),
        grad_mu=grad_h + kappa * (mu - m),
        grad_rho=0.5 * deviation * (grad_h @ eps) + c * (A * np.exp(rho) - B),
        grad_h=grad_h,
    )


def negative_sampling_loss(
    h: np.ndarray, tokens: np.ndarray, negatives: np.ndarray, A_hat: np.ndarray
) -> tuple[float, np.ndarray]:
    """(loss, gradient in h): sum over tokens of softplus(-h.A_w) + sum_j softplus(h.A_{n_j})."""
    true, noise = A_hat[tokens], A_hat[negatives]  # (n_tokens, n_dims), (n_tokens, k, n_dims)
    a_true, a_noise = true @ h, noise @ h
    loss = softplus(-a_true).sum() + softplus(a_noise).sum()
    grad = np.einsum("tk,tkd->d", sigmoid(a_noise), noise) - sigmoid(-a_true) @ true
    return loss, grad


def expected_objective(
    mu: np.ndarray,
    rho: np.ndarray,
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    noise: ArrayLike,
    *,
    n_negatives: int = 15,
    lam: Numbers = 1.0,
    var_P: float = 1.0,
    kl: str = "exact",
) -> Objective:
    """PB-neg of many sentences with the noise words and h integrated out.

    Parameters
    ----------
    mu : array, shape (n_sentences, n_dims)
    rho : array, shape (n_sentences,)
    counts : sparse array, shape (n_sentences, n_words)
    A_hat : array, shape (n_words, n_dims)
    m : array, shape (n_sentences, n_dims)
        Means of the priors.
    noise : array, shape (n_words,)
        Probabilities of the noise words.

    Returns
    -------
    Objective
        One entry or row per sentence.
    """
    counts = counts.tocsr()
    n_tokens = np.asarray(counts.sum(axis=1)).ravel().astype(float)
    A_hat = np.asarray(A_hat, dtype=float)
    nu = np.sum(A_hat**2, axis=1)
    var_Q = np.exp(rho)
    data, trace = np.empty(len(mu)), np.empty(len(mu))
    grad_h = np.empty(np.shape(mu))
    words = np.flatnonzero(noise)
    kp = n_negatives * np.asarray(noise)[words]
    for s in range(len(mu)):
        f, f1, f2 = gaussian_logistic(A_hat[words] @ mu[s], var_Q[s] * nu[words])
        own = counts.indices[counts.indptr[s] : counts.indptr[s + 1]]
        share = counts.data[counts.indptr[s] : counts.indptr[s + 1]] / n_tokens[s]
        f_own, f1_own, f2_own = gaussian_logistic(-(A_hat[own] @ mu[s]), var_Q[s] * nu[own])
        data[s] = kp @ f + share @ f_own
        grad_h[s] = (kp * f1) @ A_hat[words] - (share * f1_own) @ A_hat[own]
        trace[s] = (kp * f2) @ nu[words] + (share * f2_own) @ nu[own]
    kappa, c, A, B = penalty_coefficients(n_tokens, A_hat.shape[1], lam=lam, var_P=var_P, kl=kl)
    return Objective(
        data=data,
        mean_penalty=0.5 * kappa * np.sum((mu - m) ** 2, axis=1),
        var_penalty=variance_penalty(rho, n_tokens, A_hat.shape[1], lam=lam, var_P=var_P, kl=kl),
        grad_mu=grad_h + kappa[:, None] * (mu - m),
        grad_rho=0.5 * var_Q * trace + c * (A * var_Q - B),
        grad_h=grad_h,
        trace=trace,
    )


# ------------------------------------------------------------------------------------------------
# PB-neg: the noise words, all of them or a sample with a control variate
# ------------------------------------------------------------------------------------------------


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
    """The noise distribution on its support, and where documents lie on average.

    Parameters
    ----------
    words : array of int, shape (n_support,)
        Words with positive probability.
    kp : array, shape (n_support,)
        n_negatives times their probabilities.
    A : array, shape (n_support, n_dims), C-contiguous
        Their rows of A_hat.
    centre : array, shape (n_dims,)
        A typical mean, around which curvature is measured.
    frequency : array, shape (n_support,)
        Share of each word among the tokens.
    directions : array, shape (n_dims, n_directions), or None
        Orthonormal, along which sentences differ most.
    """

    words: np.ndarray
    kp: np.ndarray
    A: np.ndarray
    centre: np.ndarray
    frequency: np.ndarray
    directions: np.ndarray | None = None

    @cached_property
    def nu(self) -> np.ndarray:
        """Squared lengths of the rows."""
        return np.einsum("ud,ud->u", self.A, self.A)

    @cached_property
    def curvature(self) -> tuple[np.ndarray, np.ndarray, float]:
        """(eigenvalues, eigenvectors) of a typical Hessian of the data term, and its trace."""
        nu = self.nu
        s = sigmoid(self.A @ self.centre)
        f2 = s * (1.0 - s)
        weight = self.kp * f2 + 0.2 * self.frequency  # 0.2: sigmoid' at a true word's usual score
        H = (self.A * weight[:, None].astype(self.A.dtype)).T @ self.A
        values, vectors = np.linalg.eigh(H.astype(float))
        return np.maximum(values, 0.0), vectors, float(weight @ nu)


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


class _Sentences:
    """One batch: counts, priors and penalties, and the loss of the sentences' own words."""

    def __init__(self, counts, table, m, penalty: Penalty, rule, dtype):
        self.counts, self.rule, self.dtype = counts, rule, dtype
        self.table = A_hat, _ = table  # rows of A_hat, and their squared lengths
        n_tokens = np.add.reduceat(np.append(counts.data, 0.0), counts.indptr[:-1])
        self.n_tokens = np.where(np.diff(counts.indptr) > 0, n_tokens, 1.0)
        self.n_dims = A_hat.shape[1]
        self.m = np.asarray(m, dtype=dtype)
        self.lam = np.broadcast_to(np.asarray(penalty.lam, dtype=float), self.n_tokens.shape)
        self.kappa, self.c, self.A, self.B = penalty_coefficients(
            self.n_tokens, self.n_dims, lam=self.lam, var_P=penalty.var_P, kl=penalty.kl
        )
        self.rounding = 0.0  # of gradients, in single precision
        shares = counts.data / np.repeat(self.n_tokens, np.diff(counts.indptr))
        self.shares = shares

    def add_own_words(self, rows, mu, var_Q, grad, value, trace):
        from pacsent._kernels.sampling_kernels import own_slopes, true_terms

        counts = (rows, self.counts.indptr, self.counts.indices, self.shares)
        if value is None:
            own_slopes(counts, self.table, mu, var_Q, self.rule, grad, trace)
        else:
            true_terms(counts, self.table, mu, var_Q, self.rule, grad, value, trace)

    def finish(self, rows, x, grad_h, value, trace):
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

    def error_bound(self, rows, x, grad):
        """Upper bound on the relative error of mu - m, or of the variance where that is larger.

        The objective is kappa-strongly convex in mu, and its penalty bends by c A e^rho in rho, so
        that |mu - mu*| <= |grad_mu|/kappa + |grad_rho|/sqrt(2 c A e^rho kappa). What the last
        digit of rho stands for in grad_rho is no error: single precision has no rho between.
        """
        digit = np.spacing(np.abs(x[:, -1])) * self.c[rows] * self.B[rows]
        kappa, x, grad = self.kappa[rows], x.astype(float), grad.astype(float)
        grad[:, -1] = np.maximum(np.abs(grad[:, -1]) - digit, 0.0)
        bend = self.c[rows] * self.A[rows] * np.exp(x[:, -1])
        away = np.linalg.norm(x[:, :-1], axis=1)
        distance = (np.linalg.norm(grad[:, :-1], axis=1) + self.rounding) / kappa
        distance += np.abs(grad[:, -1]) / np.sqrt(2.0 * bend * kappa)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.where(away > distance, distance / (away - distance), np.inf)
        error[distance <= self.rounding / kappa] = 0.0  # nothing pulls: at the prior mean
        return np.maximum(error, np.abs(grad[:, -1]) / (self.c[rows] * self.B[rows]))

    def start(self, trace):
        """x = (mu - m, rho): no displacement, and the variance stationary for this trace.

        The displacement, not mu, because single precision would lose it where mu is close to m.
        """
        x = np.zeros((self.m.shape[0], self.n_dims + 1), dtype=self.dtype)
        x[:, -1] = np.log(self.B / (self.A + self.lam / self.n_dims * trace))
        return x


def squared_lengths(A_hat: np.ndarray) -> np.ndarray:
    """|A_w|^2 of each row.

    Examples
    --------
    >>> import numpy as np
    >>> squared_lengths(np.array([[3.0, 4.0]]))
    array([25.])
    """
    return np.einsum("wd,wd->w", A_hat, A_hat)


def solve(
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    noise: Noise,
    *,
    lam: Numbers = 1.0,
    var_P: float = 1.0,
    kl: str = "exact",
    tol: float = 1e-8,
    max_iter: int = 200,
    nu: np.ndarray | None = None,
    start: np.ndarray | None = None,
) -> Solution:
    """PB-neg posteriors of many sentences, the noise words integrated over the whole vocabulary.

    L-BFGS in (mu, rho) for all sentences at once, preconditioned by the curvature of the noise
    term at `noise.centre`; the objective of a sentence never rises. Double precision.

    Parameters
    ----------
    counts : sparse array, shape (n_sentences, n_words)
        Every sentence must hold a word; the caller overwrites those that do not.
    A_hat : array, shape (n_words, n_dims)
    m : array, shape (n_sentences, n_dims)
        Means of the priors.
    noise : Noise
        From `noise_of`, in double precision.
    lam : float or array, shape (n_sentences,)
    tol : float
        A sentence is solved when strong convexity says that mu is within tol |mu - m| of the
        minimiser: |mu - mu*| <= |gradient|/kappa, kappa = n/(var_P lam).
    nu : array, shape (n_words,), or None
        `squared_lengths(A_hat)`, where they are known already.
    start : array, shape (n_sentences, n_dims + 1), or None
        (mu - m, log var_Q) to start from.

    Returns
    -------
    Solution
    """
    from pacsent._kernels.sampling_kernels import noise_terms

    rule = quadrature_rule()
    lengths = squared_lengths(A_hat) if nu is None else nu
    sentences = _Sentences(counts, (A_hat, lengths), m, Penalty(lam, var_P, kl), rule, np.float64)
    eigenvalues, U, trace = noise.curvature

    def evaluate(rows, x):
        mu, var_Q = sentences.m[rows] + x[:, :-1], np.exp(x[:, -1])
        grad = np.empty_like(mu)
        value, spread = np.empty(len(rows)), np.empty(len(rows))
        step = max(128, _SCORES_AT_ONCE // len(noise.nu))
        for i in range(0, len(rows), step):
            part = slice(i, i + step)
            scores = mu[part] @ noise.A.T  # (some sentences, n_support)
            noise_terms(scores, var_Q[part], noise.nu, noise.kp, rule, value[part], spread[part])
            grad[part] = scores @ noise.A
        sentences.add_own_words(rows, mu, var_Q, grad, value, spread)
        return sentences.finish(rows, x, grad, value, spread)

    x = sentences.start(trace)
    if start is not None:
        x = _better(evaluate, np.asarray(start, dtype=float), x)
    x, n_iter, norm, converged = minimise_all(
        evaluate, _preconditioner(sentences, eigenvalues, U), x,
        tol, max_iter, np.arange(counts.shape[0]), sentences.error_bound,
    )  # fmt: skip
    return Solution(
        sentences.m + x[:, :-1], np.exp(x[:, -1]), n_iter, norm, converged, np.zeros(len(x))
    )


def _better(evaluate, given, plain):
    """Each row of `given`, or of `plain` where its objective is not smaller, or not a number."""
    out, fine = plain.copy(), np.flatnonzero(np.isfinite(given).all(axis=1))
    if fine.size:
        with np.errstate(over="ignore", invalid="ignore"):
            lower = evaluate(fine, given[fine])[1] < evaluate(fine, plain[fine])[1]
        out[fine[lower]] = given[fine[lower]]
    return out


@dataclass(frozen=True)
class NoiseSample:
    """Some noise words that stand for all, with a control variate that is exact for all.

    The noise term G(mu, var_Q) is common to all sentences. Around a centre (mu_0, var_0) it is
    written as its second-order expansion, and the third order along a few directions and in mu and
    var_Q together, summed once over the whole vocabulary, plus the rest, summed over a fixed sample
    of words, each weighted by 1/inclusion. The rest is small, so the sample's error is; it is
    estimated for each sentence from the sample itself.

    Parameters
    ----------
    noise : Noise
        Single precision, rows sorted by their length.
    chosen : array of int, shape (n_sample,), increasing
        Rows of `noise` in the sample.
    inclusion : array, shape (n_sample,)
        Chance of each to be in it; 1 for those that always are.
    """

    noise: Noise
    chosen: np.ndarray
    inclusion: np.ndarray

    @cached_property
    def rows(self) -> np.ndarray:
        return np.ascontiguousarray(self.noise.A[self.chosen])  # (n_sample, n_dims)

    @cached_property
    def weights(self) -> np.ndarray:
        """(nu, w, e) of the sampled words: squared length, weight, and weight in the error."""
        nu, w = self.noise.nu[self.chosen], self.noise.kp[self.chosen] / self.inclusion
        e = (1.0 - self.inclusion) * w**2 * nu
        return np.stack([nu, w, e]).astype(np.float32)

    @cached_property
    def whole(self) -> "NoiseSample":
        """All noise words, nothing left to the expansion."""
        everything = NoiseSample(
            self.noise, np.arange(self.noise.kp.size), np.ones(self.noise.kp.size)
        )
        everything.__dict__["rows"] = self.noise.A  # they are all there: no copy
        everything.__dict__["_expansions"] = self._expansions  # sums over all words: the same
        return everything

    def double(self, A_hat: np.ndarray) -> Noise:
        """All noise words in double precision, for sentences that need it; made once."""
        with _LOCK:
            if "_double" not in self.__dict__:
                noise = self.noise
                A, centre = A_hat[noise.words].astype(float), noise.centre.astype(float)
                self.__dict__["_double"] = Noise(noise.words, noise.kp, A, centre, noise.frequency)
            return self.__dict__["_double"]

    @cached_property
    def _expansions(self):
        return {}

    @cached_property
    def _controls(self):
        return {}

    def expansion(self, var_0: float) -> "_Expansion":
        """The noise term at (centre, var_0), its sums over all words."""
        with _LOCK:
            if var_0 not in self._expansions:
                self._expansions[var_0] = _Expansion(self.noise, var_0)
            return self._expansions[var_0]

    def control(self, var_0: float) -> tuple[tuple, np.ndarray]:
        """(what the sampled words must subtract there, their rows along the main directions)."""
        expansion = self.expansion(var_0)
        with _LOCK:
            if var_0 not in self._controls:
                parts = np.ascontiguousarray(expansion.by_word[:, self.chosen])
                low = np.ascontiguousarray(expansion.low[self.chosen])
                self._controls[var_0] = (np.float32(var_0), parts), low
            return self._controls[var_0]


class _Expansion:
    """The noise term to second order at (centre, var_0), to third order along main directions."""

    def __init__(self, noise: Noise, var_0: float):
        nu = noise.nu.astype(float)
        a = (noise.A @ noise.centre).astype(float)
        _, f1, f2 = gaussian_logistic(a, var_0 * nu)
        f3, f4 = higher_derivatives(a, var_0 * nu)
        single = np.float32

        def total(weight):
            return (weight.astype(single) @ noise.A).astype(single)

        self.var_0 = var_0
        self.gradient = total(noise.kp * f1)
        self.gradient_by_var = total(0.5 * noise.kp * nu * f3)
        self.trace = float(noise.kp @ (nu * f2))
        self.trace_by_mu = total(noise.kp * nu * f3)
        self.trace_by_var = float(0.5 * noise.kp @ (nu * nu * f4))
        self.hessian = (noise.A * (noise.kp * f2)[:, None].astype(single)).T @ noise.A
        by_var = (0.5 * noise.kp * nu * f4)[:, None].astype(single)
        self.hessian_by_var = (noise.A * by_var).T @ noise.A
        own = (noise.A * (0.2 * noise.frequency)[:, None].astype(single)).T @ noise.A
        values, self.U = np.linalg.eigh((self.hessian + own).astype(float))
        self.eigenvalues = np.maximum(values, 0.0)
        self.bend = _largest_bend(noise.A, noise.kp * f3)
        P = np.zeros((noise.A.shape[1], 1)) if noise.directions is None else noise.directions
        self.P = P.astype(single)
        low = self.low = noise.A @ self.P  # (n_support, n_directions)
        i, j = self.pairs = np.triu_indices(low.shape[1])
        weight, twice = (noise.kp * 0.5 * f3).astype(single), np.where(i == j, 1.0, 2.0)
        self.third = np.zeros((i.size, noise.A.shape[1]), single)
        for at in range(0, len(low), 4096):  # pairs of directions are many: a part at a time
            part = low[at : at + 4096]
            pairs = (part * weight[at : at + 4096, None])[:, i] * part[:, j]
            self.third += pairs.T @ noise.A[at : at + 4096]
        self.third *= twice[:, None].astype(single)
        by_word = (a, f1, f2, 0.5 * nu * f3, 0.5 * f3, f2, f3, 0.5 * nu * f4)
        self.by_word = np.stack(by_word).astype(single)


def _largest_bend(A, weight):
    """Largest change of sum_u weight_u A_u A_u' (A_u.v), as an operator, over unit vectors v.

    The maximum of the cubic form sum weight (A.v)^3, climbed by power iteration from a few starts.
    """
    weight = np.abs(weight).astype(A.dtype)
    best = 0.0
    for u in np.argsort(weight * np.einsum("ud,ud->u", A, A) ** 1.5)[:-3:-1]:
        v = A[u] / max(float(np.linalg.norm(A[u])), np.finfo(A.dtype).tiny)
        for _ in range(6):
            along = A @ v
            v = (weight * along * np.abs(along)) @ A
            v /= max(float(np.linalg.norm(v)), np.finfo(A.dtype).tiny)
        best = max(best, float(weight @ np.abs(A @ v) ** 3))
    return best


def _sorted_by_length(noise: Noise) -> Noise:
    """The same noise in single precision with its rows sorted by |A_u|, as the kernels want it."""
    order = np.argsort(noise.nu, kind="stable")
    return Noise(
        words=noise.words[order],
        kp=noise.kp[order],
        A=np.ascontiguousarray(noise.A[order], dtype=np.float32),
        centre=noise.centre.astype(np.float32),
        frequency=noise.frequency[order],
        directions=noise.directions,
    )


def sample_of(noise: Noise, words: np.ndarray, inclusion: ArrayLike) -> NoiseSample:
    """The NoiseSample of these words of `noise`, as `draw_sample` once drew them."""
    noise = _sorted_by_length(noise)
    place = np.full(int(noise.words.max()) + 1, -1)
    place[noise.words] = np.arange(noise.words.size)
    chosen = place[words]
    order = np.argsort(chosen)
    return NoiseSample(noise, chosen[order], np.asarray(inclusion)[order])


def inclusion_probabilities(importance: ArrayLike, size: int) -> np.ndarray:
    """min(1, c * importance) with c such that they sum to `size`."""
    importance = np.asarray(importance, dtype=float)
    if size >= np.count_nonzero(importance):
        return (importance > 0).astype(float)
    sure = np.zeros(importance.size, dtype=bool)
    while True:
        rest = np.where(sure, 0.0, importance)
        p = np.where(sure, 1.0, (size - sure.sum()) * rest / rest.sum())
        if np.all(p <= 1.0):
            return p
        sure |= p > 1.0


def draw_sample(
    noise: Noise,
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    *,
    lam: Numbers,
    var_P: float,
    kl: str,
    error: float,
    rng: np.random.Generator,
) -> NoiseSample:
    """The sample of the noise words that saves most; all of them if none saves a fifth.

    The pilot sentences (`counts`, `m`) say how large the rest of the expansion is for each word,
    hence how likely a word should be in the sample. A sentence whose relative error of mu - m is
    above `error` is solved with all words too, so that a size costs itself and their share of all.
    """
    noise = _sorted_by_length(noise)
    whole = NoiseSample(noise, np.zeros(0, dtype=int), np.zeros(0)).whole
    if noise.kp.size <= _WHOLE_BELOW:
        return whole
    nu = squared_lengths(A_hat)
    rule, penalty = sigmoid_fits(), Penalty(lam, var_P, kl)
    pilot = _Sentences(counts, (A_hat, nu), m, penalty, rule, np.float32)
    x, levels = _levels(pilot, noise)
    squares = np.zeros((len(x), noise.kp.size), dtype=np.float32)  # of kp * rest * |A_u|
    size_of_data = np.empty(len(x))
    for level in np.unique(levels):
        rows = np.flatnonzero(levels == level)
        keep: list[np.ndarray] = []
        model = _Model(pilot, whole, whole.expansion(4.0**level))
        model.measure(rows, x[rows], keep)
        grad, _ = model.evaluate(rows, x[rows])
        squares[rows] = np.concatenate(keep) ** 2 * noise.nu
        size_of_data[rows] = np.linalg.norm(grad[:, :-1], axis=1)  # at m the penalty is 0
    importance = np.sqrt(squares.mean(axis=0, dtype=float))
    everything = noise.kp.size
    cheapest, p = 0.8 * everything, None
    for size in np.geomspace(512, everything, 24)[:-1]:
        chances = inclusion_probabilities(importance, int(size))
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(chances > 0, (1.0 - chances) / chances, 0.0)
        relative = np.sqrt(squares @ factor.astype(np.float32)) / size_of_data
        cost = size + everything * np.mean(relative > error)
        if cost < cheapest:
            cheapest, p = cost, chances
    if p is None:
        return whole
    # systematic sampling in order of frequency: every stretch of it has its share
    order = np.argsort(noise.words)
    ticks = np.cumsum(p[order]) + rng.random()
    inside = np.floor(ticks) > np.floor(np.concatenate([[ticks[0] - p[order[0]]], ticks[:-1]]))
    chosen = np.sort(order[inside])
    return NoiseSample(noise, chosen, p[chosen])


def _levels(sentences, noise):
    """Where to start, and the power of four nearest to each start's variance."""
    trace = float(noise.kp @ (noise.nu * 0.06))  # 0.06: sigmoid' at a noise word's usual score
    x = sentences.start(trace)
    # below 4^-4 the expectation hardly differs from the value at the mean: one centre for all
    return x, np.maximum(np.rint(x[:, -1] / np.log(4.0)), -4).astype(int)


class _Model:
    """The noise term as its expansion plus a rest that is held, so that an evaluation is cheap."""

    def __init__(self, sentences, sample, expansion):
        self.sentences, self.sample, self.expansion = sentences, sample, expansion
        n, n_dims = sentences.m.shape
        self.rest, self.rest_trace = np.zeros((n, n_dims), np.float32), np.zeros(n)
        self.errors = np.zeros(n)  # squared, of the rest's gradient, from sampling

    def _place(self, rows, x):
        mu = self.sentences.m[rows] + x[:, :-1]
        return mu, np.exp(x[:, -1]).astype(np.float32), mu - self.sample.noise.centre

    def evaluate(self, rows, x):
        """Gradients, no values, of the objective with the rest as it was last measured."""
        mu, var_Q, away = self._place(rows, x)
        around = self.expansion
        change = var_Q - np.float32(around.var_0)
        grad = away @ around.hessian
        grad += around.gradient + change[:, None] * around.gradient_by_var
        grad += self.rest[rows]
        trace = around.trace + away @ around.trace_by_mu + change * around.trace_by_var
        # E sigmoid' >= 0: a negative trace is the expansion's error, and would send rho to infinity
        trace = np.maximum(trace.astype(float) + self.rest_trace[rows], 0.0)
        self.sentences.add_own_words(rows, mu, var_Q, grad, None, trace)
        return self.sentences.finish(rows, x, grad, None, trace)

    def _third_order(self, away, var_Q):
        """(gradient of the third order, as far as it is expanded, away along main directions)."""
        along = away @ self.expansion.P
        i, j = self.expansion.pairs
        grad = (along[:, i] * along[:, j]) @ self.expansion.third
        change = var_Q - np.float32(self.expansion.var_0)
        grad += change[:, None] * (away @ self.expansion.hessian_by_var)
        return grad, along

    def guess(self, rows, x):
        """Take the third order, as far as it is expanded, for the rest at x."""
        _, var_Q, away = self._place(rows, x)
        self.rest[rows], _ = self._third_order(away, var_Q)

    def measure(self, rows, x, keep=None):
        """Measure the rest at x by the sample; each word's part is appended to `keep`."""
        from pacsent._kernels.sampling_kernels import sampled_noise_terms

        _, var_Q, away = self._place(rows, x)
        nu = self.sample.weights[0]
        third, along = self._third_order(away, var_Q)
        control, low_rows = self.sample.control(self.expansion.var_0)
        step = max(128, _SCORES_AT_ONCE // len(nu))
        for i in range(0, len(rows), step):
            part = slice(i, i + step)
            shifts = away[part] @ self.sample.rows.T  # (some sentences, n_sample)
            low = along[part] @ low_rows.T
            spread, square = np.empty(len(shifts)), np.empty(len(shifts))
            sampled_noise_terms(
                shifts, low, var_Q[part], control, self.sample.weights,
                self.sentences.rule, spread, square,
            )  # fmt: skip
            self.rest[rows[part]] = third[part] + shifts @ self.sample.rows
            self.rest_trace[rows[part]], self.errors[rows[part]] = spread, square
            if keep is not None:
                keep.append(shifts)

    def evaluate_anew(self, rows, x):
        """Gradients with the rest measured at x itself."""
        self.measure(rows, x)
        return self.evaluate(rows, x)

    def drift(self, rows, x, y):
        """About how much the rest's gradient differs between x and y, at most."""
        _, var_x, away = self._place(rows, x)
        distance = np.linalg.norm(away, axis=1) * np.linalg.norm(x[:, :-1] - y[:, :-1], axis=1)
        var_y = np.exp(y[:, -1])
        by_var = np.linalg.norm(self.expansion.gradient_by_var) * np.abs(var_x - var_y)
        return 0.25 * self.expansion.bend * distance + by_var  # measured: at most 0.7 of it


def _settle(model, x, rows, tol, max_iter, first=0):
    """Solve, measure the rest there, and solve again, until the rest would hardly change, in place.

    Where the rest weighs too much for that, as in phrases of a few words, it is measured at every
    step. Returns (evaluations, largest entries of the gradients, converged) of all sentences.
    `first=1`: the rest at x is measured already.
    """
    sentences, expansion = model.sentences, model.expansion
    precondition = _preconditioner(sentences, expansion.eigenvalues, expansion.U)
    n_iter, norm = np.zeros(len(x), dtype=np.int64), np.full(len(x), np.inf)
    converged = np.zeros(len(x), dtype=bool)
    for turn in range(first, 3):
        goal = 0.25 * tol if turn else max(0.25 * tol, 3e-3)
        y, more, norm[rows], good = minimise_all(
            model.evaluate, precondition, x, goal, max_iter, rows, sentences.error_bound
        )
        n_iter[rows] += more
        if turn:
            moved = sentences.kappa[rows] * np.linalg.norm(y[:, :-1], axis=1)
            settled = good & (model.drift(rows, x[rows], y) <= 0.75 * tol * moved)
            converged[rows[settled]] = True
        x[rows] = y
        rows = rows[~converged[rows] & (good | (turn == 0))]
        if not rows.size or turn == 2:
            break
        model.measure(rows, x[rows])
        n_iter[rows] += 1
        # far from the centre, with large lam, a sample says nothing: its error exceeds the pull
        pull = sentences.kappa[rows] * np.linalg.norm(x[rows, :-1], axis=1)
        rows = rows[np.sqrt(model.errors[rows]) <= np.maximum(pull, np.finfo(x.dtype).tiny)]
    if rows.size:
        x[rows], more, norm[rows], converged[rows] = minimise_all(
            model.evaluate_anew, precondition, x, tol, max_iter, rows, sentences.error_bound
        )
        n_iter[rows] += more
    return n_iter, norm, converged


def solve_sampled(
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    sample: NoiseSample,
    *,
    lam: Numbers = 1.0,
    var_P: float = 1.0,
    kl: str = "exact",
    tol: float = 1e-3,
    max_iter: int = 200,
    nu: np.ndarray | None = None,
) -> Solution:
    """PB-neg posteriors of many sentences by a sample of the noise words, single precision.

    As `solve`, with the noise term of `NoiseSample`: its expansion is followed exactly, and the
    rest measured where the solution lies, once for most sentences, because it changes little on the
    way. A sentence whose estimated error is above `tol` is solved further with all noise words; one
    that does not settle, as with large lam, by `solve`.
    """
    nu = squared_lengths(A_hat) if nu is None else nu
    rule, penalty = sigmoid_fits(), Penalty(lam, var_P, kl)
    sentences = _Sentences(counts, (A_hat, nu), m, penalty, rule, np.float32)
    sentences.rounding = 1e-6 * float(sample.noise.kp @ np.sqrt(sample.noise.nu))
    x, levels = _levels(sentences, sample.noise)
    n = len(x)
    n_iter, norm = np.zeros(n, dtype=np.int64), np.empty(n)
    converged, error = np.zeros(n, dtype=bool), np.zeros(n)
    for level in np.unique(levels):
        rows = np.flatnonzero(levels == level)
        model = _Model(sentences, sample, sample.expansion(4.0**level))
        model.guess(rows, x[rows])
        # what runs away is solved below
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            found = _settle(model, x, rows, tol, max_iter)
            n_iter[rows], norm[rows], converged[rows] = (part[rows] for part in found)
            moved = sentences.kappa[rows] * np.linalg.norm(x[rows, :-1], axis=1)
            squares = model.errors[rows]
            error[rows] = np.where(squares > 0, np.sqrt(squares) / moved, 0.0)
        rows = rows[converged[rows] & ~(error[rows] <= tol)]
        if rows.size:
            model = _Model(sentences, sample.whole, sample.whole.expansion(4.0**level))
            model.measure(rows, x[rows])
            more, norms, good = _settle(model, x, rows, tol, max_iter, first=1)
            n_iter[rows] += more[rows] + 1
            norm[rows], converged[rows], error[rows] = norms[rows], good[rows], 0.0
    mu, var_Q = np.asarray(m, dtype=float) + x[:, :-1], np.exp(x[:, -1].astype(float))
    unsure = np.flatnonzero(~converged)
    if unsure.size:
        lam = np.broadcast_to(np.asarray(lam, dtype=float), n)
        found = solve(
            counts[unsure], A_hat, m[unsure], sample.double(A_hat), lam=lam[unsure], var_P=var_P,
            kl=kl, tol=tol, max_iter=max_iter, nu=nu, start=x[unsure],
        )  # fmt: skip
        mu[unsure], var_Q[unsure], norm[unsure] = found.mu, found.var_Q, found.gradient_norm
        converged[unsure], error[unsure] = found.converged, 0.0
        n_iter[unsure] += found.n_iter
    return Solution(mu, var_Q, n_iter, norm, converged, error)


# ------------------------------------------------------------------------------------------------
# PB-neg: stochastic solvers
# ------------------------------------------------------------------------------------------------


def learning_rates(n_epochs: int, learning_rate: float) -> np.ndarray:
    """learning_rate * (1 - e/n_epochs), e = 0 ... n_epochs - 1.

    Examples
    --------
    >>> learning_rates(4, 0.4)
    array([0.4, 0.3, 0.2, 0.1])
    """
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

    Examples
    --------
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

    Parameters
    ----------
    noise : (words, keep, other, n_negatives)
        The noise words with `noise.alias` of their probabilities.
    steps : array, shape (n_epochs,)
        From `learning_rates`.
    seed : int
        With a sentence's words it determines that sentence's random numbers.

    Returns
    -------
    Solution
        `gradient_norm` is nan: these solvers never see the gradient. `converged` says whether the
        posterior is finite.
    """
    from pacsent._kernels.sampling_kernels import pb_neg_sgd

    sentences = _Sentences(counts, (A_hat, None), m, Penalty(lam, var_P, kl), None, A_hat.dtype)
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


# ------------------------------------------------------------------------------------------------
# Batched L-BFGS
# ------------------------------------------------------------------------------------------------


def _preconditioner(sentences, eigenvalues, U):
    """Apply H0^-1: U (kappa + eigenvalues)^-1 U' to the mean, and rho's own curvature to rho.

    Eigenvalues that hardly differ beside kappa are taken for one, whose directions need no product.
    """
    kappa, dtype = sentences.kappa[:, None], sentences.dtype
    apart = eigenvalues > 1.05 * eigenvalues.min() + 0.05 * kappa.min()
    if not apart.all():
        common = float(np.mean(eigenvalues[~apart]))
        U, eigenvalues = U[:, apart], eigenvalues[apart]
        among = (1.0 / (kappa + common)).astype(dtype)
    else:
        among = np.zeros((len(kappa), 1), dtype)
    U, scale = U.astype(dtype), (1.0 / (kappa + eigenvalues)).astype(dtype) - among
    curvature = (sentences.c * sentences.B).astype(dtype)

    def apply(rows, q):
        out = np.empty_like(q)
        out[:, :-1] = ((q[:, :-1] @ U) * scale[rows]) @ U.T
        out[:, :-1] += among[rows] * q[:, :-1]
        out[:, -1] = q[:, -1] / curvature[rows]
        return out

    return apply
