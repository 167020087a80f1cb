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
from typing import NamedTuple

import numpy as np

from pacsent.logistic import (
    alternating_weights,
    gauss_hermite,
    gaussian_logistic,
    n_nodes_for,
    sigmoid,
    softplus,
)

KLS = ("exact", "paper")
_MEMORY = 6  # pairs that L-BFGS remembers
_SCORES_AT_ONCE = 1 << 20  # scores worked on at once: bounds the memory


# ------------------------------------------------------------------------------------------------
# PB-neg: what is minimised
# ------------------------------------------------------------------------------------------------


class Objective(NamedTuple):
    """Parts of an objective and its gradients; one entry or row per sentence where batched."""

    data: np.ndarray
    mean_penalty: np.ndarray
    var_penalty: np.ndarray
    grad_mu: np.ndarray
    grad_rho: np.ndarray
    grad_h: np.ndarray  # of the data term alone
    trace: np.ndarray | None = None  # of the expected Hessian of the data term

    @property
    def total(self):
        return self.data + self.mean_penalty + self.var_penalty


def penalty_coefficients(n_tokens, n_dims, *, lam, var_P=1.0, kl="exact"):
    """(kappa, c, A, B): the mean feels kappa (mu - m), rho feels c (A e^rho - B)."""
    if kl not in KLS:
        raise ValueError(f"kl must be one of {KLS}. Got {kl!r} instead.")
    n_tokens, lam = np.asarray(n_tokens, dtype=float), np.asarray(lam, dtype=float)
    A = n_tokens / var_P
    return A / lam, 0.5 * n_dims / lam, A, n_tokens if kl == "paper" else np.ones_like(n_tokens)


def variance_penalty(rho, n_tokens, n_dims, *, lam, var_P=1.0, kl="exact"):
    """V(rho); see the top of this module."""
    if kl == "paper":
        return 0.5 * n_dims * n_tokens / lam * (np.log(var_P) - rho + np.exp(rho) / var_P)
    ratio = n_tokens / var_P
    return 0.5 * n_dims / lam * (ratio * np.exp(rho) - 1.0 - np.log(ratio) - rho)


def sampled_objective(mu, rho, eps, tokens, negatives, A_hat, B_hat, *, lam, var_P=1.0, kl="exact"):
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


def negative_sampling_loss(h, tokens, negatives, A_hat):
    """(loss, gradient in h): sum over tokens of softplus(-h.A_w) + sum_j softplus(h.A_{n_j})."""
    true, noise = A_hat[tokens], A_hat[negatives]  # (n_tokens, n_dims), (n_tokens, k, n_dims)
    a_true, a_noise = true @ h, noise @ h
    loss = softplus(-a_true).sum() + softplus(a_noise).sum()
    grad = np.einsum("tk,tkd->d", sigmoid(a_noise), noise) - sigmoid(-a_true) @ true
    return loss, grad


def expected_objective(
    mu, rho, counts, A_hat, m, noise, *, n_negatives=15, lam=1.0, var_P=1.0, kl="exact"
):
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


def quadrature_rule(precision: float):
    """(limits, starts, nodes, weights, series): how many nodes at which variance, for kernels."""
    if precision < 1e-8:
        limits = [0.01, 0.09, 0.25, 1.0]
    else:
        limits = [0.01, 0.09, 0.25, 1.0, 2.0, 4.0, 9.0, 25.0]
    rules = [gauss_hermite(n_nodes_for(limit, precision)) for limit in limits]
    starts = np.cumsum([0, *(len(nodes) for nodes, _ in rules)])
    nodes = np.concatenate([nodes for nodes, _ in rules])
    weights = np.concatenate([weights for _, weights in rules])
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
    """

    words: np.ndarray
    kp: np.ndarray
    A: np.ndarray
    centre: np.ndarray
    frequency: np.ndarray

    @property
    def nu(self):
        return np.einsum("ud,ud->u", self.A, self.A)

    def curvature(self, var_Q: float = 0.0):
        """(eigenvalues, eigenvectors) of a typical Hessian of the data term, and its trace."""
        nu = self.nu
        _, _, f2 = gaussian_logistic(self.A @ self.centre, var_Q * nu)
        weight = self.kp * f2 + 0.2 * self.frequency  # 0.2: sigmoid' at a true word's usual score
        H = (self.A * weight[:, None].astype(self.A.dtype)).T @ self.A
        values, vectors = np.linalg.eigh(H.astype(float))
        return np.maximum(values, 0.0), vectors, float(weight @ nu)


def noise_of(counts, A_hat, centre, *, n_negatives=15, noise_power=0.75, dtype=np.float64) -> Noise:
    """The Noise of word counts: probability proportional to count^noise_power."""
    counts = np.asarray(counts, dtype=float)
    words = np.flatnonzero(counts > 0)
    p = counts[words] ** noise_power
    return Noise(
        words=words,
        kp=n_negatives * p / p.sum(),
        A=np.ascontiguousarray(A_hat[words], dtype=dtype),
        centre=np.asarray(centre, dtype=dtype),
        frequency=counts[words] / counts.sum(),
    )


class Solution(NamedTuple):
    """Posteriors and how well each was found."""

    mu: np.ndarray  # (n_sentences, n_dims)
    var_Q: np.ndarray  # (n_sentences,)
    n_iter: np.ndarray  # evaluations of the objective
    gradient_norm: np.ndarray  # largest entry of the gradient where it was last evaluated
    converged: np.ndarray
    error: np.ndarray  # relative error of mu - m caused by sampling the noise words; 0 without


class _Sentences:
    """One batch: counts, priors and penalties, and the loss of the sentences' own words."""

    def __init__(self, counts, A_hat, m, lam, var_P, kl, rule, dtype):
        self.counts, self.A_hat, self.rule, self.dtype = counts, A_hat, rule, dtype
        n_tokens = np.add.reduceat(np.append(counts.data, 0.0), counts.indptr[:-1])
        self.n_tokens = np.where(np.diff(counts.indptr) > 0, n_tokens, 1.0)
        self.n_dims = A_hat.shape[1]
        self.m = np.asarray(m, dtype=dtype)
        lam = np.broadcast_to(np.asarray(lam, dtype=float), self.n_tokens.shape)
        self.kappa, self.c, self.A, self.B = penalty_coefficients(
            self.n_tokens, self.n_dims, lam=lam, var_P=var_P, kl=kl
        )
        self.lam = lam
        shares = counts.data / np.repeat(self.n_tokens, np.diff(counts.indptr))
        self.shares = shares

    def add_own_words(self, rows, mu, var_Q, grad, value, trace):
        from pacsent._kernels.negative_sampling import true_terms

        counts = (rows, self.counts.indptr, self.counts.indices, self.shares)
        true_terms(counts, self.A_hat, mu, var_Q, self.rule, grad, value, trace)

    def finish(self, rows, x, grad_h, value, trace):
        """Gradient in (mu, rho) and objective, penalties included."""
        mu, rho = x[:, :-1], x[:, -1].astype(float)
        var_Q = np.exp(rho)
        away = mu - self.m[rows]
        grad = np.empty_like(x)
        grad[:, :-1] = grad_h + self.kappa[rows, None].astype(x.dtype) * away
        grad[:, -1] = 0.5 * var_Q * trace + self.c[rows] * (self.A[rows] * var_Q - self.B[rows])
        if value is not None:
            value = value + 0.5 * self.kappa[rows] * np.einsum("sd,sd->s", away, away)
            value = value + self.c[rows] * (self.A[rows] * var_Q - self.B[rows] * rho)
        return grad, value

    def start(self, trace):
        """The prior mean, and the variance that is stationary for this trace of the Hessian."""
        x = np.empty((self.m.shape[0], self.n_dims + 1), dtype=self.dtype)
        x[:, :-1] = self.m
        x[:, -1] = np.log(self.B / (self.A + self.lam / self.n_dims * trace))
        return x


def solve(
    counts, A_hat, m, noise: Noise, *, lam=1.0, var_P=1.0, kl="exact", tol=1e-8, max_iter=200
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
        A sentence is solved when the next step would move mu by less than tol |mu - m| and
        log var_Q by less than tol.

    Returns
    -------
    Solution
    """
    from pacsent._kernels.negative_sampling import noise_terms

    rule = quadrature_rule(1e-12)
    sentences = _Sentences(counts, A_hat, m, lam, var_P, kl, rule, np.float64)
    eigenvalues, U, trace = noise.curvature()
    nu = noise.nu

    def evaluate(rows, x):
        mu, var_Q = np.ascontiguousarray(x[:, :-1]), np.exp(x[:, -1])
        grad = np.empty_like(mu)
        value, spread = np.empty(len(rows)), np.empty(len(rows))
        step = max(1, _SCORES_AT_ONCE // len(nu))
        for i in range(0, len(rows), step):
            part = slice(i, i + step)
            scores = mu[part] @ noise.A.T  # (some sentences, n_support)
            noise_terms(scores, var_Q[part], nu, noise.kp, rule, value[part], spread[part])
            grad[part] = scores @ noise.A
        sentences.add_own_words(rows, mu, var_Q, grad, value, spread)
        return sentences.finish(rows, x, grad, value, spread)

    x, n_iter, norm, converged = _minimise(
        evaluate, _preconditioner(sentences, eigenvalues, U), sentences.start(trace),
        sentences.m, tol, max_iter,
    )  # fmt: skip
    return Solution(x[:, :-1], np.exp(x[:, -1]), n_iter, norm, converged, np.zeros(len(x)))


def _preconditioner(sentences, eigenvalues, U):
    """Apply H0^-1: U (kappa + eigenvalues)^-1 U' to the mean, and rho's own curvature to rho."""
    U = U.astype(sentences.dtype)
    scale = (1.0 / (sentences.kappa[:, None] + eigenvalues)).astype(sentences.dtype)
    curvature = (sentences.c * sentences.B).astype(sentences.dtype)

    def apply(rows, q):
        out = np.empty_like(q)
        out[:, :-1] = ((q[:, :-1] @ U) * scale[rows]) @ U.T
        out[:, -1] = q[:, -1] / curvature[rows]
        return out

    return apply


def _minimise(evaluate, precondition, start, prior, tol, max_iter):
    """Batched L-BFGS on rows x = (mu, rho); each row's objective goes down or stays.

    `evaluate(rows, x)` gives gradients and values (None where they are not computed: then a step
    is kept if the gradients at its ends say that a convex function fell).
    """
    n, width = start.shape
    x, trial = start.copy(), start.copy()
    g, value = np.zeros_like(x), np.full(n, np.inf)
    S, Y = np.zeros((2, _MEMORY, n, width), dtype=x.dtype)
    R = np.zeros((_MEMORY, n), dtype=x.dtype)  # 1 / (s.y), 0 where there is no pair
    n_iter = np.zeros(n, dtype=np.int64)
    norm = np.full(n, np.inf)
    converged = np.zeros(n, dtype=bool)
    active = np.arange(n)
    for t in range(max_iter):
        if not active.size:
            break
        g_new, value_new = evaluate(active, trial[active])
        n_iter[active] += 1
        step = trial[active] - x[active]
        before = np.einsum("ij,ij->i", g[active], step)
        after = np.einsum("ij,ij->i", g_new, step)
        if t == 0:
            fell = np.ones(active.size, dtype=bool)
        elif value_new is not None:
            slack = 1e-13 * np.abs(value[active]) + 1e-300
            fell = value_new <= value[active] + slack
        else:
            # convex: F(new) <= F(old) + after; to third order F(new) - F(old) = (before+after)/2
            fell = (after <= 0) | (before + after <= 1e-4 * before)
        stuck = active[~fell]
        trial[stuck] = 0.5 * (x[stuck] + trial[stuck])

        slot = t % _MEMORY
        R[slot, active] = 0.0
        rows = active[fell]
        if t > 0 and rows.size:
            s, y = step[fell], g_new[fell] - g[rows]
            sy = after[fell] - before[fell]
            good = sy > 1e-12 * np.einsum("ij,ij->i", y, y)
            S[slot, rows], Y[slot, rows] = s, y
            R[slot, rows] = np.where(good, 1.0 / np.where(good, sy, 1.0), 0.0)
        x[rows], g[rows] = trial[rows], g_new[fell]
        norm[rows] = np.abs(g[rows]).max(axis=1)
        if value_new is not None:
            value[rows] = value_new[fell]

        direction = _two_loop(rows, g[rows], S, Y, R, t, precondition)
        uphill = np.einsum("ij,ij->i", direction, g[rows]) >= 0
        if uphill.any():
            R[:, rows[uphill]] = 0.0
            direction[uphill] = -precondition(rows[uphill], g[rows[uphill]])
        direction[:, -1] = np.clip(direction[:, -1], -1.0, 1.0)
        trial[rows] = x[rows] + direction
        length = np.linalg.norm(direction[:, :-1], axis=1)
        moved = np.linalg.norm(trial[rows, :-1] - prior[rows], axis=1)
        small = (length <= tol * moved) & (np.abs(direction[:, -1]) <= tol)
        done = rows[small]
        converged[done] = True
        x[done] = trial[done]  # the last step costs nothing more
        active = np.union1d(rows[~small], stuck)
    return x, n_iter, norm, converged


def _two_loop(rows, g, S, Y, R, t, precondition):
    """The L-BFGS direction of each row, newest pair first."""
    q = -g
    slots = [(t - i) % _MEMORY for i in range(min(t + 1, _MEMORY))]
    slots = [slot for slot in slots if R[slot, rows].any()]
    pairs = [(S[slot, rows], Y[slot, rows], R[slot, rows]) for slot in slots]
    alphas = []
    for s, y, r in pairs:
        alpha = r * np.einsum("ij,ij->i", s, q)
        q = q - alpha[:, None] * y
        alphas.append(alpha)
    q = precondition(rows, q)
    for (s, y, r), alpha in zip(reversed(pairs), reversed(alphas)):
        beta = r * np.einsum("ij,ij->i", y, q)
        q = q + (alpha - beta)[:, None] * s
    return q
