"""Gaussian processes that classify: Laplace's approximation, and scales averaged, not chosen.

A classifier linear in n-grams x and vectors e with a Gaussian prior on its weights is a Gaussian
process over texts with kernel s K_x + d K_e + 1: a small problem where texts are few.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import expit, softmax

from pacsent.arrays import Numbers
from pacsent.certify.scores import log_loss
from pacsent.classify.solvers.temperature import fit_inverse_temperature

TOTALS = (-1.5, 2.5)  # powers of ten between which the variance of both parts is tried
RATIOS = (-2.0, 2.0)  # and that of n-grams over that of vectors
_QUICK = 3e7  # columns * texts^3 up to which the grid is fine


@dataclass(frozen=True)
class Laplace:
    """Laplace's approximation at the mode f = K a: what a bound or a choice needs."""

    a: np.ndarray  # (n,)
    f: np.ndarray  # (n,)
    evidence: float
    curvature: np.ndarray  # W, (n,)
    L: np.ndarray  # Cholesky factor of B = I + W^1/2 K W^1/2

    def left_out(self, K: np.ndarray) -> np.ndarray:
        """What f of each text would be, about, had its label not been seen, (n,)."""
        V = solve_triangular(self.L, np.sqrt(self.curvature)[:, None] * K, lower=True)
        v = np.maximum(np.diag(K) - (V**2).sum(0), 1e-12)  # posterior variances of f
        precision = np.maximum(1.0 / v - self.curvature, 1e-12)
        # a is the gradient of the weighted log-likelihood at the mode
        return (self.f / v - (self.curvature * self.f + self.a)) / precision


def laplace(
    K: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    start: np.ndarray | None = None,
    tol: float = 1e-4,
) -> Laplace:
    """Mode and evidence for signs +-1 under the kernel K, by Newton's method (Rasmussen, alg. 3.1).

    `weights` say how much each text counts, and `start` is a guess of the mode.
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

    sparse: np.ndarray  # (n, k): f(x) = K_x(x, .) @ sparse + K_e(x, .) @ dense + intercept
    dense: np.ndarray  # (n, k)
    intercept: np.ndarray  # (k,)
    left_out: np.ndarray  # (n, k), about what f would be without a text's own label
    best: tuple[float, float]  # the variances (s, d) with the most weight


def scales(n: int, n_columns: int, has_dense: bool) -> list[list[tuple[float, float]]]:
    """Variances (s, d) to average over: for each share of the n-grams, totals that rise.

    Seven totals where that is quick, else five.
    """
    size = 7 if n_columns * float(n) ** 3 <= _QUICK else 5
    totals = np.logspace(*TOTALS, size)
    ratios = np.logspace(*RATIOS, 5) if has_dense else np.array([np.inf])
    shares = 1.0 / (1.0 + 1.0 / ratios)
    return [[(share * total, (1.0 - share) * total) for total in totals] for share in shares]


def averaged(
    K_sparse: np.ndarray,
    K_dense: Numbers,
    labels: np.ndarray,
    grid: list[list[tuple[float, float]]],
    *,
    n_classes: int,
    weights: np.ndarray | None = None,
    n_threads: int = 1,
    folds: tuple[np.ndarray, np.ndarray] | None = None,
    growth: Numbers = 1.0,
) -> Averaged:
    """Average f over the grid, each place weighing by what it says about the labels.

    Two classes have one f, more have one for each against the rest; all have the same weights. With
    `folds`, (the fold of each text, whether it is judged), texts are left out fold by fold and not
    one by one, and only those judged count in the likelihood. `growth`, (n,), is what the n-grams
    of a text that is left out are multiplied by.
    """
    n = labels.size
    weights = np.ones(n) if weights is None else weights
    columns = [1] if n_classes == 2 else range(n_classes)
    signs = [np.where(labels == c, 1.0, -1.0) for c in columns]
    jitter = 1.0 + 1e-6 * np.eye(n)
    judged = np.arange(n) if folds is None else np.flatnonzero(folds[1])

    def explore(line):
        """Places of one line of the grid, each started at the solution of the one before."""
        starts: list = [None] * len(signs)
        places = []
        for s, d in line:
            K = s * K_sparse + d * K_dense + jitter
            # Newton's steps shrink quadratically: after one of 1e-2 about 1e-4 is missing.
            fits = [laplace(K, y, weights, start=f, tol=1e-2) for y, f in zip(signs, starts)]
            starts = [fit.f for fit in fits]
            more = s * (growth - 1.0)
            if folds is None:
                others = K_sparse - np.diag(np.diag(K_sparse))
                values = [fit.left_out(K) + more * (others @ fit.a) for fit in fits]
            else:
                rows = K + np.reshape(more, (-1, 1)) * K_sparse
                values = [_without_folds(K, y, weights, folds[0], rows) for y in signs]
            left_out = np.stack(values, axis=1)
            sample = left_out[judged], labels[judged], weights[judged]
            inverse_temperature = fit_inverse_temperature(*sample)
            likelihood = -log_loss(*sample, inverse_temperature) * weights[judged].sum()
            evidence = sum(fit.evidence for fit in fits)
            a = np.stack([fit.a for fit in fits], axis=1)
            places.append((s, d, evidence, likelihood, left_out, a))
        return places

    with ThreadPoolExecutor(n_threads) as pool:
        places = [place for line in pool.map(explore, grid) for place in line]
    s, d, evidence, likelihood, left_out, a = (np.array(column) for column in zip(*places))
    share = weigh(evidence, likelihood)
    # Each f is scaled to the same spread first, or the most confident would decide alone.
    spread = np.sqrt(np.mean(np.square(left_out), axis=(1, 2))) + 1e-12
    scaled = share / spread * (share @ spread)
    best = int(np.argmax(share))
    return Averaged(
        np.einsum("g,gnk->nk", scaled * s, a),
        np.einsum("g,gnk->nk", scaled * d, a),
        np.einsum("g,gnk->k", scaled, a),
        np.einsum("g,gnk->nk", scaled, left_out),
        (float(s[best]), float(d[best])),
    )


def _without_folds(K, signs, weights, folds, rows):
    """f of each text by the texts of all other folds, (n,); `rows` are K of texts left out."""
    f = np.zeros(signs.size)
    for fold in np.unique(folds):
        inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        fit = laplace(K[np.ix_(outside, outside)], signs[outside], weights[outside])
        f[inside] = rows[np.ix_(inside, outside)] @ fit.a
    return f


def weigh(evidence: np.ndarray, likelihood: np.ndarray) -> np.ndarray:
    """Weights of the places, from log evidences and log-likelihoods of left-out labels.

    A third of the weight is shared equally, a third by the likelihood, a third by that times the
    evidence, which may not decide alone where the model is wrong.
    """
    equal = np.full(evidence.size, 1.0 / evidence.size)
    return (equal + softmax(likelihood) + softmax(evidence + likelihood)) / 3.0
