"""PB-neg solved with the whole noise distribution in double precision: the reference solver."""

import numpy as np
from scipy import sparse

from pacsent.maths.arrays import Numbers
from pacsent.maths.lbfgs import minimise_all
from pacsent.maths.pb_neg_objective import (
    Noise,
    SentenceProblems,
    Solution,
    noise_terms,
    own_terms,
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

    def evaluate(rows, x):
        mu, var_Q = sentences.m[rows] + x[:, :-1], np.exp(x[:, -1])
        value, grad, spread = own_terms(shares[rows], A, nu, mu, var_Q)
        for part in sentences.blocks(len(rows), len(noise.nu)):
            terms = noise_terms(mu[part], var_Q[part], noise.A, noise.nu, noise.kp)
            for total, more in zip((value, grad, spread), terms):
                total[part] += more
        return sentences.add_penalty(rows, x, grad, value, spread)

    x = sentences.start(trace)
    if start is not None:
        # A start that overflows, or that is worse than the prior mean, is not used.
        usable = np.flatnonzero(np.isfinite(start).all(axis=1))
        with np.errstate(over="ignore", invalid="ignore"):
            guess = start[usable].astype(float)
            lower = evaluate(usable, guess)[1] < evaluate(usable, x[usable])[1]
        x[usable[lower]] = guess[lower]
    x, n_iter, norm, converged = minimise_all(
        evaluate,
        sentences.preconditioner(eigenvalues, U),
        x,
        tol,
        max_iter,
        np.arange(counts.shape[0]),
        sentences.error_bound,
    )
    mu, var_Q = sentences.m + x[:, :-1], np.exp(x[:, -1])
    return Solution(mu, var_Q, n_iter, norm, converged, np.zeros(len(x)))
