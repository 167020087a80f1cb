"""L-BFGS for many problems side by side, each with its own step.

A problem is a row. All rows still worked on are evaluated together; what is solved leaves.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

Evaluate = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]]
Precondition = Callable[[np.ndarray, np.ndarray], np.ndarray]
Pair = tuple[np.ndarray, np.ndarray, np.ndarray]

# A step must reach this fraction of the predicted decrease, or is cut to a fraction between these.
_MIN_DECREASE, _MIN_CUT, _MAX_CUT = 1e-4, 0.1, 0.7


class Minima(NamedTuple):
    """Where each row ended, and how well."""

    x: np.ndarray  # (n, width)
    n_iter: np.ndarray  # evaluations of each row
    norm: np.ndarray  # largest entry of the gradient where it was last evaluated
    converged: np.ndarray


def minimise(
    evaluate: Evaluate,
    precondition: Precondition,
    start: np.ndarray,
    is_solved: Callable[..., np.ndarray],
    *,
    max_iter: int,
    memory: int = 6,
    limit: Callable[[np.ndarray], Any] | None = None,
    last_step: bool = False,
    noise: float = 0.0,
) -> Minima:
    """Every row of `start` to its own minimum; a row's objective falls or stays.

    `evaluate(rows, x)` gives gradients and values, or None for values: then a step is kept if the
    gradients at its ends say that a convex function fell. `precondition(rows, q)` is the inverse
    Hessian to begin with, and `is_solved(rows, x, gradients, directions)` says which rows are where
    they should be. A row is evaluated `max_iter` times at most, `memory` pairs are kept, and
    `limit` shortens directions in place. With `last_step` a row that is solved takes the step at
    hand. Values are known to within `noise`, by which they may rise. A row whose preconditioned
    gradient leads uphill, or nowhere, is left where it is.
    """
    n = len(start)
    value, n_iter = np.full_like(start[:, 0], np.inf), np.zeros(n, dtype=np.int64)
    minima = Minima(start.copy(), n_iter, value.copy(), np.zeros(n, dtype=bool))
    rows, x, trial, g = np.arange(n), start, start, np.zeros_like(start)
    pairs: list[Pair] = []
    for turn in range(max_iter):
        if not rows.size:
            break
        g_new, value_new = evaluate(rows, trial)
        n_iter[rows] += 1
        step = trial - x
        before, after = _dot(g, step), _dot(g_new, step)
        if turn == 0:
            fell = np.ones(rows.size, dtype=bool)
        elif value_new is not None:
            fell = value_new <= value + 1e-13 * np.abs(value) + 1e-300 + noise
        else:
            # Convex: F(new) <= F(old) + after; to third order F(new) - F(old) = (before + after)/2.
            fell = (after <= 0) | (before + after <= _MIN_DECREASE * before)
        if turn:  # (s, y, 1 / (s.y)); 0 for a row that stayed, or whose pair has no curvature
            y = g_new - g
            sy, r = _dot(step, y), np.zeros_like(before)
            good = fell & (sy > 1e-10 * (_dot(step, step) * _dot(y, y)) ** 0.5)
            r[good] = 1.0 / sy[good]
            pairs = [*pairs[1 - memory :], (step, y, r)]
        cut = np.full_like(before, 0.5)
        if value_new is None:  # to where the secant of the slopes vanishes
            with np.errstate(invalid="ignore", divide="ignore"):
                cut = before / (before - np.nan_to_num(after, nan=np.inf))
            cut = np.clip(np.nan_to_num(cut, nan=_MIN_CUT), _MIN_CUT, _MAX_CUT)
        shorter = x[~fell] + cut[~fell, None] * step[~fell]
        x, g = _moved(x, trial, fell), _moved(g, g_new, fell)
        if value_new is not None:
            value = np.where(fell, value_new, value)
        minima.norm[rows[fell]] = np.abs(g[fell]).max(axis=1, initial=0.0)

        used = [pair for pair in pairs if pair[2].any()]
        direction = -two_loop(g, used, partial(precondition, rows))
        lost = ~(_dot(direction, g) <= 0)
        if lost.any():  # the pairs of these rows mislead, and are forgotten
            for _, _, r in pairs:
                r[lost] = 0.0
            direction[lost] = -precondition(rows[lost], g[lost])
            lost = ~(_dot(direction, g) <= 0)
        if limit is not None:
            limit(direction)
        trial = x + direction
        trial[~fell] = shorter
        solved = fell & is_solved(rows, x, g, direction)
        minima.converged[rows[solved]] = True
        if last_step:
            x = _moved(x, trial, solved)
        going = ~solved & ~(lost & fell)
        if not going.all():
            minima.x[rows] = x
            rows, x, trial, g, value = (a[going] for a in (rows, x, trial, g, value))
            pairs = [(s[going], y[going], r[going]) for s, y, r in pairs]
    minima.x[rows] = x
    return minima


def _dot(a, b):
    return np.einsum("ij,ij->i", a, b)


def _moved(old, new, which):
    """Rows `which` of `new`, the others of `old`; no copy where all move."""
    return new if which.all() else np.where(which[:, None], new, old)


def minimise_all(
    evaluate: Evaluate,
    precondition: Precondition,
    start: np.ndarray,
    tol: float,
    max_iter: int,
    subset: np.ndarray,
    bound: Callable[..., np.ndarray] | None = None,
    *,
    noise: float = 0.0,
) -> Minima:
    """`minimise` on rows x = (mu - m, rho) of a subset of sentences; rho moves by 1 at most.

    A row has converged when `bound(rows, x, gradients)`, an upper bound on its relative error, is
    at most tol; without a bound, when the next step is that small, which is then taken.
    """

    def is_solved(rows, x, g, direction):
        if bound is not None:
            return bound(subset[rows], x, g) <= tol
        length = np.linalg.norm(direction[:, :-1], axis=1)
        moved = np.linalg.norm(x[:, :-1] + direction[:, :-1], axis=1)
        return (length <= tol * moved) & (np.abs(direction[:, -1]) <= tol)

    def limit_rho(direction):
        direction[:, -1] = direction[:, -1].clip(-1.0, 1.0)

    return minimise(
        lambda rows, x: evaluate(subset[rows], x),
        lambda rows, q: precondition(subset[rows], q),
        start[subset],
        is_solved,
        max_iter=max_iter,
        limit=limit_rho,
        last_step=bound is None,
        noise=noise,
    )


def two_loop(
    g: np.ndarray, pairs: list[Pair], precondition: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """The inverse Hessian that `pairs` and `precondition` stand for, times g, row by row.

    `pairs` are (s, y, r), the oldest first: steps, changes of the gradient, and 1 / (s.y) of each
    row, 0 where a row has no such pair. `precondition` is the inverse Hessian to begin with.
    """
    q = g.copy()
    alphas = []
    for s, y, r in reversed(pairs):
        alpha = r * _dot(s, q)
        q -= alpha[:, None] * y
        alphas.append(alpha)
    q = precondition(q)
    for (s, y, r), alpha in zip(pairs, reversed(alphas)):
        beta = r * _dot(y, q)
        q += (alpha - beta)[:, None] * s
    return q
