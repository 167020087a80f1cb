"""Gaussian processes that classify: Laplace's approximation, and scales averaged, not chosen.

A classifier linear in n-grams x and vectors e with a Gaussian prior on its weights is a Gaussian
process over texts with kernel s K_x + d K_e + 1. Few texts make it a small problem whatever the
number of features, and all of them can be used to say how far to lean on either part.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import expit

SPARSE_RANGE = (-1.0, 2.5)  # powers of ten between which variances are tried
DENSE_RANGE = (-2.0, 2.0)
_QUICK = 3e7  # columns * texts^3 up to which the grid is fine
_TEMPERATURES = np.logspace(-1.5, 1.5, 31)


@dataclass(frozen=True)
class Laplace:
    """Laplace's approximation at the mode f = K a: what a bound or a choice needs."""

    a: np.ndarray  # (n,)
    f: np.ndarray  # (n,)
    evidence: float
    curvature: np.ndarray  # W, (n,)
    L: np.ndarray  # Cholesky factor of B = I + W^1/2 K W^1/2

    def variances(self, K: np.ndarray) -> np.ndarray:
        """Posterior variances of f, (n,)."""
        V = solve_triangular(self.L, np.sqrt(self.curvature)[:, None] * K, lower=True)
        return np.diag(K) - (V**2).sum(0)

    def kl(self) -> float:
        """KL(Q || P) = (ln det B + tr B^-1 - n + f.a) / 2 in nats."""
        n = self.f.size
        trace = (solve_triangular(self.L, np.eye(n), lower=True) ** 2).sum()
        log_det = 2.0 * np.log(np.diag(self.L)).sum()
        return float(0.5 * (log_det + trace - n + self.f @ self.a))

    def left_out(self, K: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """What f of each text would be, about, had its label not been seen, (n,)."""
        v = np.maximum(self.variances(K), 1e-12)
        gradient = self.a  # of the weighted log-likelihood at the mode
        precision = np.maximum(1.0 / v - self.curvature, 1e-12)
        return (self.f / v - (self.curvature * self.f + gradient)) / precision


def laplace(
    K: np.ndarray, signs: np.ndarray, weights=None, *, start=None, tol: float = 1e-4
) -> Laplace:
    """Mode and evidence for signs +-1 under the kernel K, by Newton's method (Rasmussen, alg. 3.1).

    Parameters
    ----------
    K : array, (n, n)
    signs : array of +-1, (n,)
    weights : array, (n,), optional
        How much each text counts.
    start : array, (n,), optional
        A guess of the mode.
    """
    n = signs.size
    weights = np.ones(n) if weights is None else weights
    f = np.zeros(n) if start is None else start
    for _ in range(50):
        p = expit(f)
        W = np.maximum(weights * p * (1.0 - p), 1e-12)
        root = np.sqrt(W)
        B = root[:, None] * K * root
        B[np.diag_indices(n)] += 1.0
        L = cholesky(B, lower=True, overwrite_a=True, check_finite=False)
        b = W * f + weights * ((signs + 1.0) / 2.0 - p)
        a = b - root * cho_solve((L, True), root * (K @ b), check_finite=False)
        before, f = f, K @ a
        if np.abs(f - before).max() < tol:
            break
    fit = -(weights * np.logaddexp(0.0, -signs * f)).sum()
    evidence = float(fit - 0.5 * a @ f - np.log(np.diag(L)).sum())
    return Laplace(a, f, evidence, W, L)


@dataclass(frozen=True)
class Averaged:
    """Coefficients of the labelled texts, averaged over the scales of the two parts."""

    sparse: np.ndarray  # (n,): f(x) = K_x(x, .) @ sparse + K_e(x, .) @ dense + intercept
    dense: np.ndarray  # (n,)
    intercept: float
    left_out: np.ndarray  # (n,), about what f would be without a text's own label
    best: tuple[float, float]  # the variances (s, d) with the most weight
    n_scales: int  # how many were tried


def scales(n: int, n_columns: int, has_dense: bool) -> list[tuple[float, float]]:
    """The grid of variances (s, d): 7 x 7 where that is quick, else 5 x 5."""
    size = 7 if n_columns * float(n) ** 3 <= _QUICK else 5
    dense = np.logspace(*DENSE_RANGE, size) if has_dense else np.zeros(1)
    return list(product(np.logspace(*SPARSE_RANGE, size).tolist(), dense.tolist()))


def averaged(K_sparse, K_dense, signs, grid, weights=None) -> Averaged:
    """Average f over the grid, each place weighing by what it says about texts left out.

    Half of the weight is shared by the evidence, half by the likelihood of left-out labels: the
    evidence is the steadier with very few labels, the other is right about more where the model is
    not. Each f is scaled to the same spread first, or the most confident would decide alone.
    """
    n = signs.size
    weights = np.ones(n) if weights is None else weights
    jitter = 1.0 + 1e-6 * np.eye(n)
    evidence, likelihood, left_out, coefficients = [], [], [], []
    f, before = None, np.inf
    for s, d in grid:
        if d < before:  # the next value of s: its neighbour is far away
            f = None
        before = d
        K = s * K_sparse + d * K_dense + jitter
        fit = laplace(K, signs, weights, start=f)
        f = fit.f
        values = fit.left_out(K, signs)
        loss = _best_loss(signs * values, weights)
        evidence.append(fit.evidence)
        likelihood.append(-loss)
        left_out.append(values)
        coefficients.append(fit.a)
    share = 0.5 * _softmax(np.array(evidence)) + 0.5 * _softmax(np.array(likelihood))
    spread = np.sqrt(np.mean(np.square(left_out), axis=1)) + 1e-12
    share_of = share / spread * (share @ spread)
    A = np.array(coefficients)  # (n_scales, n)
    variances = np.array(grid)  # (n_scales, 2)
    best = int(np.argmax(share))
    return Averaged(
        (share_of * variances[:, 0]) @ A,
        (share_of * variances[:, 1]) @ A,
        float(share_of @ A.sum(axis=1)),
        share_of @ np.array(left_out),
        (float(variances[best, 0]), float(variances[best, 1])),
        len(grid),
    )


def _softmax(values):
    weights = np.exp(values - values.max())
    return weights / weights.sum()


def _best_loss(margins, weights):
    """Sum of ln(1 + exp(-t margin)) at the best t."""
    losses = [(weights * np.logaddexp(0.0, -t * margins)).sum() for t in _TEMPERATURES]
    return float(min(losses))
