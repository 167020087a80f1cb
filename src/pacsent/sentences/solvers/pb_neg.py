"""PB-neg: the objective of a sentence under the negative sampling loss, and its two solvers.

A sentence S has n tokens; `A_hat` is the matrix in the loss, `B_hat` the matrix of prior means,
`rho = log var_Q`, and h ~ N(mu, var_Q I):

    data     = E (1/n) sum_{w in S} [softplus(-h.A_w) + k E_{u ~ noise} softplus(h.A_u)]
    PB-neg   = data + KL(Q || P)/lam,    P = N(m, var_P/n I),    m = mean of B_w
             = data + kappa/2 |mu - m|^2 + c (precision e^rho - rho) + constant

with kappa = n/(var_P lam), c = d/(2 lam), precision = n/var_P. It is strictly convex in (mu, rho).
`solve` is the reference, with all negatives in double precision.

`solve_sampled` is up to 60 times as fast, in single precision. The noise term G(mu, var_Q) is the
same function for all sentences. Around a centre (mu_0, var_0) it is written as an expansion, summed
once over the whole vocabulary, plus a remainder, summed over a fixed sample of a few hundred words,
each weighted by 1/inclusion probability. The expansion is of second order, with the third order
along the directions in which sentences differ most and in mu and var_Q together. The error of the
remainder is computed for each sentence; where it is too large, all negatives are used.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse
from scipy.special import expit

from pacsent.arrays import Numbers, frozen
from pacsent.sentences.solvers.lbfgs import minimise_all
from pacsent.sentences.solvers.logistic import gaussian_logistic, higher_derivatives, sigmoid_fits
from pacsent.words.noise import noise_probabilities

# Scores (sentences times negatives) computed at once, which bounds the memory; at least 128
# sentences, so that the matrix products stay efficient.
_MAX_SCORES, _MIN_SENTENCES = 1 << 20, 128

_N_DIRECTIONS = 32  # along which the third order of the noise term is expanded
_MIN_SAMPLED_WORDS = 2048  # of a vocabulary; fewer are summed completely
_MAX_STEPS = 30  # of L-BFGS with the remainder held fixed; five are usual

# Variances of the expansions are powers of this base; below the lowest they hardly matter.
_VAR_BASE, _MIN_LEVEL = 4.0, -4

_LOCK = Lock()  # of the expansions, which threads share


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
    error: np.ndarray  # relative error of mu - m caused by sampling the negatives; 0 without


class SentenceProblems:
    """One batch: counts, priors and penalties.

    `table` is (A_hat, squared lengths of its rows). A row of unknowns is x = (mu - m, rho): the
    displacement, not mu, because single precision would lose it where mu is close to m.
    """

    def __init__(self, counts: Any, table: tuple, m: Any, *, lam: Any, var_P: Numbers, dtype: Any):
        self.counts, self.dtype = counts, dtype
        self.table = frozen(table[0]), table[1]
        n_tokens = np.add.reduceat(np.append(counts.data, 0.0), counts.indptr[:-1])
        self.n_tokens = np.where(np.diff(counts.indptr) > 0, n_tokens, 1.0)
        self.n_dims = table[0].shape[1]
        self.m = np.asarray(m, dtype=dtype)
        self.lam = np.broadcast_to(np.asarray(lam, dtype=float), self.n_tokens.shape)
        self.precision = self.n_tokens / np.asarray(var_P, dtype=float)
        self.kappa, self.c = self.precision / self.lam, 0.5 * self.n_dims / self.lam
        self.rounding = 0.0  # of gradients, in single precision
        self.shares = counts.data / np.repeat(self.n_tokens, np.diff(counts.indptr))

    def add_penalty(self, rows: Any, x: Any, grad_h: Any, value: Any, trace: Any) -> tuple:
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

    def error_bound(self, rows: Any, x: np.ndarray, grad: np.ndarray) -> np.ndarray:
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
    step = max(1, _MAX_SCORES // max(1, len(words)))
    for start in range(0, len(mu), step):
        part = slice(start, start + step)
        scores = mu[part] @ rows[noise].T  # (n_rows, n_noise)
        f, _, _ = gaussian_logistic(scores, var_Q[part, None] * nu[noise])
        losses[part] = f @ kp
    for start in range(0, own.size, 1 << 14):  # bounds the memory of the rows
        part = slice(start, start + (1 << 14))
        place = sentence[part]
        scores = np.einsum("td,td->t", rows[own[part]], mu[place])
        f, _, _ = gaussian_logistic(-scores, var_Q[place] * nu[own[part]])
        shares = counts.data[part] / n_tokens[place]
        losses += np.bincount(place, shares * f, len(mu))
    return losses


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
    bounds the error of mu by tol |mu - m|: |mu - mu*| <= |gradient|/kappa, kappa = n/(var_P lam).
    """
    A, nu = np.asarray(A_hat, dtype=float), squared_lengths(A_hat).astype(float)
    sentences = SentenceProblems(counts, (A, nu), m, lam=lam, var_P=var_P, dtype=np.float64)
    shares = sparse.csr_matrix((sentences.shares, counts.indices, counts.indptr), counts.shape)
    eigenvalues, U, trace = noise.curvature
    step = max(_MIN_SENTENCES, _MAX_SCORES // len(noise.nu))

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
    precondition, rows = sentences.preconditioner(eigenvalues, U), np.arange(counts.shape[0])
    x, n_iter, norm, converged = minimise_all(
        evaluate, precondition, x, tol, max_iter, rows, sentences.error_bound
    )
    mu, var_Q = sentences.m + x[:, :-1], np.exp(x[:, -1])
    return Solution(mu, var_Q, n_iter, norm, converged, np.zeros(len(x)))


# ---- The fast solver ----------------------------------------------------------------------------


@dataclass(frozen=True)
class NoiseSample:
    """Some negatives that stand for all, with a control variate that is exact for all."""

    noise: Noise  # in single precision, rows sorted by their length
    chosen: np.ndarray  # (n_sample,), increasing: rows of `noise` in the sample
    inclusion: np.ndarray  # (n_sample,), probability to be in it; 1 for those that always are
    cache: dict = field(default_factory=dict)  # of `_cached`, common with `whole`

    @cached_property
    def rows(self) -> np.ndarray:
        """Rows of A_hat of the sampled words, (n_sample, n_dims)."""
        is_whole = self.chosen.size == self.noise.kp.size
        return self.noise.A if is_whole else self.noise.A[self.chosen]

    @cached_property
    def weights(self) -> np.ndarray:
        """(nu, w, e) of the sampled words: squared length, weight, and weight in the error."""
        nu, w = self.noise.nu[self.chosen], self.noise.kp[self.chosen] / self.inclusion
        e = (1.0 - self.inclusion) * w**2 * nu
        return np.stack([nu, w, e]).astype(np.float32)

    @cached_property
    def whole(self) -> "NoiseSample":
        """All negatives: nothing is left to chance."""
        n = self.noise.kp.size
        if self.chosen.size == n:
            return self
        return NoiseSample(self.noise, np.arange(n), np.ones(n), self.cache)

    def _cached(self, key, make):
        with _LOCK:
            if key not in self.cache:
                self.cache[key] = make()
            return self.cache[key]

    def in_double(self, A_hat: np.ndarray) -> Noise:
        """The same noise in double precision, for sentences that need it."""

        def make():
            A, centre = A_hat[self.noise.words].astype(float), self.noise.centre.astype(float)
            return replace(self.noise, A=A, centre=centre)

        return self._cached("double", make)

    def expansion(self, level: int) -> "_Expansion":
        """The noise term at (centre, 4^level), its sums over all words."""
        return self._cached(level, lambda: _Expansion(self.noise, _VAR_BASE**level))

    def control(self, level: int) -> tuple[np.ndarray, np.ndarray]:
        """(what the sampled words must subtract there, their rows along the main directions)."""
        terms, chosen = self.expansion(level), self.chosen
        return self._cached(
            (level, chosen.size),
            lambda: (np.ascontiguousarray(terms.by_word[:, chosen]), terms.low[chosen]),
        )


class _Expansion:
    """The noise term to second order at (centre, var_0), to third order along main directions."""

    def __init__(self, noise: Noise, var_0: float):
        A, kp, nu = noise.A, noise.kp, noise.nu.astype(float)
        a = (A @ noise.centre).astype(float)
        _, f1, f2 = gaussian_logistic(a, var_0 * nu)
        f3, f4 = higher_derivatives(a, var_0 * nu)

        def vector(weight):  # sum_u weight_u A_u
            return weight.astype(np.float32) @ A

        def matrix(weight):  # sum_u weight_u A_u A_u'
            return (A * weight[:, None].astype(np.float32)).T @ A

        self.var_0 = var_0
        self.gradient, self.gradient_by_var = vector(kp * f1), vector(0.5 * kp * nu * f3)
        self.trace, self.trace_by_mu = float(kp @ (nu * f2)), vector(kp * nu * f3)
        self.trace_by_var = float(0.5 * kp @ (nu * nu * f4))
        self.hessian, self.hessian_by_var = matrix(kp * f2), matrix(0.5 * kp * nu * f4)
        # 0.2: sigmoid' at the usual score of a sentence's own word
        own = matrix(0.2 * noise.frequency)
        values, self.U = np.linalg.eigh((self.hessian + own).astype(float))
        self.eigenvalues = np.maximum(values, 0.0)
        self.cubic = _largest_cubic(A, kp * f3)
        self.P = noise.directions.astype(np.float32)
        low = self.low = A @ self.P  # (n_support, n_directions)
        i, j = self.pairs = np.triu_indices(low.shape[1])
        weight = (0.5 * kp * f3).astype(np.float32)
        self.third = np.zeros((i.size, A.shape[1]), np.float32)
        for at in range(0, len(low), 4096):  # pairs of directions are many: a block at a time
            block = low[at : at + 4096]
            pairs = (block * weight[at : at + 4096, None])[:, i] * block[:, j]
            self.third += pairs.T @ A[at : at + 4096]
        self.third[i != j] *= 2.0
        # The columns that the kernel `sampled_noise_terms` calls a, b0 ... b3, t0 ... t2.
        by_word = (a, f1, f2, 0.5 * nu * f3, 0.5 * f3, f2, f3, 0.5 * nu * f4)
        self.by_word = np.stack(by_word).astype(np.float32)


def _largest_cubic(A, weight):
    """Maximum over unit vectors v of sum_u |weight_u (A_u.v)^3|: how fast the Hessian can change.

    Climbed by power iteration from the two heaviest words.
    """
    weight = np.abs(weight).astype(A.dtype)
    tiny = np.finfo(A.dtype).tiny
    largest = 0.0
    for u in np.argsort(weight * np.einsum("ud,ud->u", A, A) ** 1.5)[:-3:-1]:
        v = A[u] / max(float(np.linalg.norm(A[u])), tiny)
        for _ in range(6):
            along = A @ v
            v = (weight * along * np.abs(along)) @ A
            v /= max(float(np.linalg.norm(v)), tiny)
        largest = max(largest, float(weight @ np.abs(A @ v) ** 3))
    return largest


def _sorted_by_length(noise: Noise) -> Noise:
    """The same noise in single precision with its rows sorted by |A_u|, as the kernels want it."""
    order = np.argsort(noise.nu, kind="stable")
    return replace(
        noise,
        words=noise.words[order],
        kp=noise.kp[order],
        A=noise.A[order].astype(np.float32),
        centre=noise.centre.astype(np.float32),
        frequency=noise.frequency[order],
    )


def sample_of(noise: Noise, words: np.ndarray, inclusion: ArrayLike) -> NoiseSample:
    """The NoiseSample of these words of `noise`, as `draw_sample` once drew them."""
    noise = _sorted_by_length(noise)
    place = np.full(int(noise.words.max()) + 1, -1)
    place[noise.words] = np.arange(noise.words.size)
    order = np.argsort(place[words])
    return NoiseSample(noise, place[words][order], np.asarray(inclusion)[order])


def inclusion_probabilities(importance: ArrayLike, size: int) -> np.ndarray:
    """min(1, c * importance) with c such that they sum to `size`."""
    importance = np.asarray(importance, dtype=float)
    if size >= np.count_nonzero(importance):
        return (importance > 0).astype(float)
    always = np.zeros(importance.size, dtype=bool)
    while True:
        other = np.where(always, 0.0, importance)
        p = np.where(always, 1.0, (size - always.sum()) * other / other.sum())
        if np.all(p <= 1.0):
            return p
        always |= p > 1.0


def draw_sample(
    noise: Noise,
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    *,
    lam: Numbers,
    var_P: Numbers,
    error: float,
    rng: np.random.Generator,
) -> NoiseSample:
    """The sample of the negatives that saves most; all of them if none saves a fifth.

    On the pilot sentences (`counts`, `m`) the remainder of every word is computed, hence how likely
    a word should be in the sample. A sentence whose relative error of mu - m is above `error` is
    solved with all words too, so that a sample costs its size plus the fraction of such sentences
    times the vocabulary.
    """
    noise = _sorted_by_length(noise)
    n_words = noise.kp.size
    whole = NoiseSample(noise, np.arange(n_words), np.ones(n_words))
    if n_words <= _MIN_SAMPLED_WORDS:
        return whole
    table = A_hat, squared_lengths(A_hat)
    pilot = SentenceProblems(counts, table, m, lam=lam, var_P=var_P, dtype=np.float32)
    x, levels = _levels(pilot, noise)
    squares = np.zeros((len(x), n_words), dtype=np.float32)  # of kp * remainder * |A_u|
    data_gradient = np.empty(len(x))
    for level in np.unique(levels):
        rows = np.flatnonzero(levels == level)
        model = _Model(pilot, whole, level)
        squares[rows] = np.concatenate(model.measure(rows, x[rows])) ** 2 * noise.nu
        grad, _ = model.evaluate(rows, x[rows])
        data_gradient[rows] = np.linalg.norm(grad[:, :-1], axis=1)  # at m the penalty is 0
    importance = np.sqrt(squares.mean(axis=0, dtype=float))
    lowest_cost, p = 0.8 * n_words, None
    for size in np.geomspace(512, n_words, 24)[:-1]:
        candidate = inclusion_probabilities(importance, int(size))
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(candidate > 0, (1.0 - candidate) / candidate, 0.0)
        relative = np.sqrt(squares @ factor.astype(np.float32)) / data_gradient
        cost = size + n_words * np.mean(relative > error)
        if cost < lowest_cost:
            lowest_cost, p = cost, candidate
    if p is None:
        return whole
    # Systematic sampling in order of frequency: every stretch of it is represented.
    order = np.argsort(noise.words)
    ticks = np.cumsum(p[order]) + rng.random()
    inside = np.floor(ticks) > np.floor(np.concatenate([[ticks[0] - p[order[0]]], ticks[:-1]]))
    chosen = np.sort(order[inside])
    return NoiseSample(noise, chosen, p[chosen])


def _levels(sentences, noise):
    """Where to start, and the expansion whose variance is nearest to each start's."""
    trace = float(noise.kp @ (noise.nu * 0.06))  # 0.06: sigmoid' at a negative's usual score
    x = sentences.start(trace)
    levels = np.rint(x[:, -1] / np.log(_VAR_BASE))
    return x, np.maximum(levels, _MIN_LEVEL).astype(int)


class _Model:
    """The noise term as expansion plus a remainder that is held fixed, so that steps are cheap."""

    def __init__(self, sentences, sample, level):
        self.sentences, self.sample, self.level = sentences, sample, level
        self.expansion = sample.expansion(level)
        n, n_dims = sentences.m.shape
        self.remainder, self.remainder_trace = np.zeros((n, n_dims), np.float32), np.zeros(n)
        self.errors = np.zeros(n)  # squared sampling error of the remainder
        self.precondition = sentences.preconditioner(self.expansion.eigenvalues, self.expansion.U)

    def _place(self, rows, x):
        mu = self.sentences.m[rows] + x[:, :-1]
        return mu, np.exp(x[:, -1]).astype(np.float32), mu - self.sample.noise.centre

    def evaluate(self, rows, x):
        """Gradients, no values, of the objective with the remainder as it was last measured."""
        from pacsent.kernels.sampling_kernels import own_slopes

        mu, var_Q, away = self._place(rows, x)
        around = self.expansion
        change = var_Q - np.float32(around.var_0)
        grad = away @ around.hessian
        grad += around.gradient + change[:, None] * around.gradient_by_var
        grad += self.remainder[rows]
        trace = around.trace + away @ around.trace_by_mu + change * around.trace_by_var
        # E sigmoid' >= 0: a negative trace is the expansion's error, and would send rho to infinity
        trace = np.maximum(trace.astype(float) + self.remainder_trace[rows], 0.0)
        counts = self.sentences.counts
        own = (rows, counts.indptr, counts.indices, self.sentences.shares)
        own_slopes(own, self.sentences.table, mu, var_Q, sigmoid_fits(), grad, trace)
        return self.sentences.add_penalty(rows, x, grad, None, trace)

    def third_order(self, rows, x):
        """(gradient of the third order as far as it is expanded, shifts along main directions)."""
        _, var_Q, away = self._place(rows, x)
        along = away @ self.expansion.P
        i, j = self.expansion.pairs
        grad = (along[:, i] * along[:, j]) @ self.expansion.third
        change = var_Q - np.float32(self.expansion.var_0)
        grad += change[:, None] * (away @ self.expansion.hessian_by_var)
        return grad, along

    def measure(self, rows, x):
        """Measure the remainder at x by the sample; the terms of each word, block by block."""
        from pacsent.kernels.sampling_kernels import sampled_noise_terms

        _, var_Q, away = self._place(rows, x)
        third, along = self.third_order(rows, x)
        by_word, low_rows = self.sample.control(self.level)
        control = np.float32(self.expansion.var_0), by_word
        blocks, step = [], max(_MIN_SENTENCES, _MAX_SCORES // len(self.sample.chosen))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            shifts = away[part] @ self.sample.rows.T  # (n_block, n_sample)
            low = along[part] @ low_rows.T
            spread, square = np.empty((2, len(shifts)))
            weights, fits = self.sample.weights, sigmoid_fits()
            sampled_noise_terms(shifts, low, var_Q[part], control, weights, fits, spread, square)
            self.remainder[rows[part]] = third[part] + shifts @ self.sample.rows
            self.remainder_trace[rows[part]], self.errors[rows[part]] = spread, square
            blocks.append(shifts)
        return blocks

    def evaluate_anew(self, rows, x):
        """Gradients with the remainder measured at x itself."""
        self.measure(rows, x)
        return self.evaluate(rows, x)

    def drift(self, rows, x, y):
        """About how much the remainder's gradient differs between x and y, at most."""
        _, var_x, away = self._place(rows, x)
        distance = np.linalg.norm(away, axis=1) * np.linalg.norm(x[:, :-1] - y[:, :-1], axis=1)
        change = np.abs(var_x - np.exp(y[:, -1]))
        # 0.25: on the five datasets the difference was at most 0.7 of this
        by_var = np.linalg.norm(self.expansion.gradient_by_var) * change
        return 0.25 * self.expansion.cubic * distance + by_var

    def minimise(self, evaluate, x, rows, tol, max_iter):
        """L-BFGS from rows of x."""
        bound = self.sentences.error_bound
        return minimise_all(evaluate, self.precondition, x, tol, max_iter, rows, bound)


def _settle(model, x, rows, tol, max_iter, progress, *, measured=False):
    """Solve, measure the remainder there, and solve again until it would hardly change, in place.

    Where the remainder weighs too much for that, as in phrases of a few words, it is measured at
    every step. `progress` is (evaluations, largest entries of the gradients, converged) of all
    sentences; `measured` says that the remainder at x is known already.
    """
    sentences = model.sentences
    n_iter, norm, converged = progress
    converged[rows] = False
    for turn in range(int(measured), 3):
        goal = 0.25 * tol if turn else max(0.25 * tol, 3e-3)
        y, more, norm[rows], solved = model.minimise(
            model.evaluate, x, rows, goal, min(max_iter, _MAX_STEPS)
        )
        n_iter[rows] += more
        if turn:
            moved = sentences.kappa[rows] * np.linalg.norm(y[:, :-1], axis=1)
            settled = solved & (model.drift(rows, x[rows], y) <= 0.75 * tol * moved)
            converged[rows[settled]] = True
        x[rows] = y
        rows = rows[~converged[rows] & (solved | (turn == 0))]
        if not rows.size or turn == 2:
            break
        model.measure(rows, x[rows])
        n_iter[rows] += 1
        # Far from the centre, with large lam, a sample is useless: its error exceeds the pull.
        pull = sentences.kappa[rows] * np.linalg.norm(x[rows, :-1], axis=1)
        rows = rows[np.sqrt(model.errors[rows]) <= np.maximum(pull, np.finfo(x.dtype).tiny)]
    if rows.size:
        x[rows], more, norm[rows], converged[rows] = model.minimise(
            model.evaluate_anew, x, rows, tol, max_iter
        )
        n_iter[rows] += more


def solve_sampled(
    counts: sparse.csr_matrix,
    A_hat: np.ndarray,
    m: np.ndarray,
    sample: NoiseSample,
    *,
    lam: Numbers = 1.0,
    var_P: Numbers = 1.0,
    tol: float = 1e-3,
    max_iter: int = 200,
    nu: np.ndarray | None = None,
) -> Solution:
    """PB-neg posteriors of many sentences by a sample of the negatives, in single precision.

    As `solve`, with the expansion of this module followed exactly and the remainder measured where
    the solution lies, once for most sentences. A sentence whose estimated error is above `tol`, or
    that does not settle, as with large lam, is solved with all negatives at every step, or by
    `solve`. `nu` is `squared_lengths(A_hat)` where it is known already.
    """
    table = A_hat, squared_lengths(A_hat) if nu is None else nu
    sentences = SentenceProblems(counts, table, m, lam=lam, var_P=var_P, dtype=np.float32)
    sentences.rounding = 1e-6 * float(sample.noise.kp @ np.sqrt(sample.noise.nu))
    start, levels = _levels(sentences, sample.noise)
    n, x = len(start), start.copy()
    error = np.zeros(n)
    progress = np.zeros(n, dtype=np.int64), np.full(n, np.inf), np.zeros(n, dtype=bool)
    n_iter, norm, converged = progress
    # Sentences that run away overflow; they are solved again.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for level in np.unique(levels):
            rows = np.flatnonzero(levels == level)
            model = _Model(sentences, sample, level)
            model.remainder[rows], _ = model.third_order(rows, x[rows])  # the first guess
            _settle(model, x, rows, tol, max_iter, progress)
            moved = sentences.kappa[rows] * np.linalg.norm(x[rows, :-1], axis=1)
            squares = model.errors[rows]
            error[rows] = np.where(squares > 0, np.sqrt(squares) / moved, 0.0)
            # Where the sample is too small, all negatives measure the remainder.
            model = _Model(sentences, sample.whole, level)
            imprecise = rows[converged[rows] & ~(error[rows] <= tol)]
            if imprecise.size:
                model.measure(imprecise, x[imprecise])
                n_iter[imprecise] += 1
                _settle(model, x, imprecise, tol, max_iter, progress, measured=True)
                error[imprecise] = 0.0
            rows = rows[~converged[rows]]
            if rows.size:
                lost = rows[~np.isfinite(x[rows]).all(axis=1)]
                x[lost] = start[lost]
                x[rows], more, norm[rows], converged[rows] = model.minimise(
                    model.evaluate_anew, x, rows, tol, max_iter
                )
                n_iter[rows] += more
                error[rows] = 0.0
    mu, var_Q = np.asarray(m, dtype=float) + x[:, :-1], np.exp(x[:, -1].astype(float))
    rows = np.flatnonzero(~converged)
    if rows.size:
        noise, lam = sample.in_double(A_hat), sentences.lam[rows]
        var_P = np.broadcast_to(var_P, n)[rows]
        settings: dict[str, Any] = {"lam": lam, "var_P": var_P, "tol": tol, "max_iter": max_iter}
        double = solve(counts[rows], A_hat, m[rows], noise, **settings)
        mu[rows], var_Q[rows], norm[rows] = double.mu, double.var_Q, double.gradient_norm
        converged[rows] = double.converged
        n_iter[rows] += double.n_iter
    return Solution(mu, var_Q, n_iter, norm, converged, error)
