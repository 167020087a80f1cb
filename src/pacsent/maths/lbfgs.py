"""L-BFGS for many small problems side by side, each with its own step."""

import numpy as np

_MEMORY = 6  # pairs that L-BFGS remembers


def minimise_all(evaluate, precondition, start, tol, max_iter, subset, bound=None):
    """Batched L-BFGS on rows x = (mu - m, rho) of a subset; each row's objective falls or stays.

    `evaluate(rows, x)` gives gradients and values (None where they are not computed: then a step
    is kept if the gradients at its ends say that a convex function fell). A row has converged when
    `bound(rows, x, gradients)`, an upper bound on its relative error, is at most tol; without a
    bound, when the next step is that small, which is then taken.
    """
    x, trial = start[subset], start[subset]
    n, width = x.shape
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
        g_new, value_new = evaluate(subset[active], trial[active])
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

        direction = _two_loop(rows, subset, g[rows], S, Y, R, t, precondition)
        uphill = np.einsum("ij,ij->i", direction, g[rows]) >= 0
        if uphill.any():
            R[:, rows[uphill]] = 0.0
            direction[uphill] = -precondition(subset[rows[uphill]], g[rows[uphill]])
        direction[:, -1] = np.clip(direction[:, -1], -1.0, 1.0)
        trial[rows] = x[rows] + direction
        if bound is not None:
            small = bound(subset[rows], x[rows], g[rows]) <= tol
            converged[rows[small]] = True
        else:
            length = np.linalg.norm(direction[:, :-1], axis=1)
            moved = np.linalg.norm(trial[rows, :-1], axis=1)
            small = (length <= tol * moved) & (np.abs(direction[:, -1]) <= tol)
            done = rows[small]
            converged[done] = True
            x[done] = trial[done]  # the last step costs nothing more
        active = np.union1d(rows[~small], stuck)
    return x, n_iter, norm, converged


def _two_loop(rows, subset, g, S, Y, R, t, precondition):
    """The L-BFGS direction of each row, downhill."""
    slots = [(t - i) % _MEMORY for i in reversed(range(min(t + 1, _MEMORY)))]
    slots = [slot for slot in slots if R[slot, rows].any()]
    pairs = [(S[slot, rows], Y[slot, rows], R[slot, rows]) for slot in slots]
    return -two_loop(g, pairs, lambda q: precondition(subset[rows], q))


def two_loop(g, pairs, precondition):
    """The inverse Hessian that `pairs` and `precondition` stand for, times g, row by row.

    Parameters
    ----------
    g : array, shape (n, width)
        A gradient in each row.
    pairs : list of (s, y, r), the oldest first
        Steps, changes of the gradient, and 1 / (s.y) of each row; 0 where a row has no such pair.
    precondition : callable
        The inverse Hessian to begin with: rows to rows.
    """
    q = g.copy()
    alphas = []
    for s, y, r in reversed(pairs):
        alpha = r * np.einsum("ij,ij->i", s, q)
        q -= alpha[:, None] * y
        alphas.append(alpha)
    q = precondition(q)
    for (s, y, r), alpha in zip(pairs, reversed(alphas)):
        beta = r * np.einsum("ij,ij->i", y, q)
        q += (alpha - beta)[:, None] * s
    return q
