"""PB-neg solved with all noise words, in the precision of its arguments."""

from collections.abc import Callable

import numpy as np
from scipy import sparse

from pacsent.maths.arrays import Numbers
from pacsent.maths.lbfgs import minimise_all
from pacsent.maths.pb_neg_objective import (
    SCORES_AT_ONCE,
    Noise,
    Penalty,
    SentenceProblems,
    Solution,
    quadrature_rule,
    squared_lengths,
)


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

    L-BFGS in (mu, rho) for all sentences at once, preconditioned by the curvature of the noise term
    at `noise.centre`; the objective of a sentence never rises. Double precision.

    Every row of `counts` must hold a word; the caller overwrites those that do not. `m` are the
    means of the priors, `noise` is from `noise_of`, `nu` is `squared_lengths(A_hat)` where they are
    known already, and `start` is (mu - m, log var_Q) to start from. A sentence is solved when
    strong convexity says that mu is within tol |mu - m| of the minimiser: |mu - mu*| <=
    |gradient|/kappa, kappa = n/(var_P lam).
    """
    from pacsent._kernels.sampling_kernels import noise_terms

    rule = quadrature_rule()
    lengths = squared_lengths(A_hat) if nu is None else nu
    sentences = SentenceProblems(
        counts, (A_hat, lengths), m, Penalty(lam, var_P, kl), rule, np.float64
    )
    eigenvalues, U, trace = noise.curvature

    def evaluate(rows, x):
        mu, var_Q = sentences.m[rows] + x[:, :-1], np.exp(x[:, -1])
        grad = np.empty_like(mu)
        value, spread = np.empty(len(rows)), np.empty(len(rows))
        step = max(128, SCORES_AT_ONCE // len(noise.nu))
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
        evaluate, preconditioner(sentences, eigenvalues, U), x,
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


def preconditioner(
    sentences: SentenceProblems, eigenvalues: np.ndarray, U: np.ndarray
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Apply H0^-1: U (kappa + eigenvalues)^-1 U' to the mean, and rho's own curvature to rho.

    Eigenvalues that are close to each other compared with kappa are taken for one, whose
    directions need no product.
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
