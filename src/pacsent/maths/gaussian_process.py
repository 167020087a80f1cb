"""Gaussian processes that classify: Laplace's approximation, its evidence, scales averaged by it.

A classifier linear in n-grams x and vectors e with a Gaussian prior on its weights is a Gaussian
process over texts with kernel s K_x + d K_e + 1. Few texts make it a small problem whatever the
number of features, and the evidence says how far to lean on either part without any text held out.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

SPARSE_VARIANCES = tuple(10.0 ** np.linspace(-1.0, 2.5, 7))
DENSE_VARIANCES = tuple(10.0 ** np.linspace(-2.0, 2.0, 7))
_FAR = 6.0  # nats of evidence below the best from where nobody looks further


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
        gradient = signs / (1.0 + np.exp(signs * self.f))
        precision = np.maximum(1.0 / v - self.curvature, 1e-12)
        return (self.f / v - (self.curvature * self.f + gradient)) / precision


def laplace(K: np.ndarray, signs: np.ndarray, weights=None, tol: float = 1e-4) -> Laplace:
    """Mode and evidence for signs +-1 under the kernel K, by Newton's method (Rasmussen, alg. 3.1).

    Parameters
    ----------
    K : array, (n, n)
    signs : array of +-1, (n,)
    weights : array, (n,), optional
        How much each text counts.
    """
    n = signs.size
    weights = np.ones(n) if weights is None else weights
    f = np.zeros(n)
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-f))
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
    """Coefficients of the labelled texts, averaged over the scales with the evidence as weights."""

    sparse: np.ndarray  # (n,): f(x) = K_x(x, .) @ sparse + K_e(x, .) @ dense + intercept
    dense: np.ndarray  # (n,)
    intercept: float
    left_out: np.ndarray  # (n,), at the best scales
    evidence: float  # of the best scales
    best: tuple[float, float]  # the variances (s, d) with the most evidence
    n_scales: int  # how many were tried


def averaged(K_sparse, K_dense, signs, weights=None) -> Averaged:
    """Average over the grid of variances (s, d), walking from its middle to all that matters."""
    n = signs.size
    grid = np.array(SPARSE_VARIANCES), np.array(DENSE_VARIANCES)
    has_dense = bool(np.any(np.diag(K_dense) > 0))
    if not has_dense:
        grid = (grid[0], np.zeros(1))
    shape = (grid[0].size, grid[1].size)
    jitter = 1.0 + 1e-6 * np.eye(n)
    found: dict[tuple[int, int], tuple[float, np.ndarray]] = {}
    best = -np.inf
    best_fit: Any = None
    waiting = [(shape[0] // 2, shape[1] // 2)]
    while waiting:
        # the most promising neighbour first: fewer are ever looked at
        i, j = waiting.pop()
        if (i, j) in found:
            continue
        fit = laplace(grid[0][i] * K_sparse + grid[1][j] * K_dense + jitter, signs, weights)
        found[i, j] = fit.evidence, fit.a
        if fit.evidence > best:
            best, best_fit = fit.evidence, (i, j, fit)
        waiting = _neighbours(found, best, shape)
    weight = {at: np.exp(evidence - best) for at, (evidence, _) in found.items()}
    total = sum(weight.values())
    sparse = sum(w * grid[0][i] * found[i, j][1] for (i, j), w in weight.items()) / total
    dense = sum(w * grid[1][j] * found[i, j][1] for (i, j), w in weight.items()) / total
    intercept = sum(w * found[at][1].sum() for at, w in weight.items()) / total
    i, j, fit = best_fit
    K = grid[0][i] * K_sparse + grid[1][j] * K_dense + jitter
    scales = float(grid[0][i]), float(grid[1][j])
    left_out = fit.left_out(K, signs)
    return Averaged(sparse, dense, float(intercept), left_out, best, scales, len(found))


def _neighbours(found, best, shape):
    """Places next to one whose evidence is near the best, those next to the best last."""
    around = {}
    for (i, j), (evidence, _) in found.items():
        if evidence < best - _FAR:
            continue
        for at in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
            inside = 0 <= at[0] < shape[0] and 0 <= at[1] < shape[1]
            if inside and at not in found:
                around[at] = max(evidence, around.get(at, -np.inf))
    return sorted(around, key=around.get)
