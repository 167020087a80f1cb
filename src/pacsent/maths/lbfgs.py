"""L-BFGS for many problems side by side, each with its own step.

A problem is a row. All rows still worked on are evaluated together; what is solved leaves, and the
work shrinks with it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Evaluate = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]]
Precondition = Callable[[np.ndarray, np.ndarray], np.ndarray]
Pair = tuple[np.ndarray, np.ndarray, np.ndarray]

_MEMORY = 6  # pairs that are remembered
_FELL = 1e-4  # share of the predicted decrease that a step must reach
_SHORTEST, _LONGEST = 0.1, 0.7  # to what share a step that went too far is cut


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
    memory: int = _MEMORY,
    limit: Callable[[np.ndarray], Any] | None = None,
    last_step: bool = False,
) -> Minima:
    """Every row of `start` to its own minimum; a row's objective falls or stays.

    Parameters
    ----------
    evaluate : callable
        `evaluate(rows, x)` gives gradients and values, or None for values: then a step is kept if
        the gradients at its ends say that a convex function fell.
    precondition : callable
        `precondition(rows, q)`: the inverse Hessian to begin with, row by row.
    start : array, shape (n, width)
    is_solved : callable
        `is_solved(rows, x, gradients, directions)`: which rows are where they should be.
    max_iter : int
        Evaluations of a row at most.
    memory : int, default=6
        Pairs that are remembered.
    limit : callable or None
        Shortens directions in place.
    last_step : bool, default=False
        A row that is solved takes the step that is at hand: it costs nothing more.

    Notes
    -----
    A row whose preconditioned gradient leads uphill, or nowhere, is left where it is.
    """
    n = len(start)
    found = Minima(
        start.copy(), np.zeros(n, dtype=np.int64), np.full(n, np.inf), np.zeros(n, dtype=bool)
    )
    rows, x, trial = np.arange(n), start, start
    g, value = np.zeros_like(start), np.full(n, np.inf)
    pairs: list[Pair] = []
    for turn in range(max_iter):
        if not rows.size:
            break
        g_new, value_new = evaluate(rows, trial)
        found.n_iter[rows] += 1
        step = trial - x
        slopes = _dot(g, step), _dot(g_new, step)
        fell = _fell(*slopes, value, value_new) if turn else np.ones(rows.size, dtype=bool)
        if turn:
            pairs = [*pairs[1 - memory :], _pair(step, g_new - g, fell)]
        shorter = x[~fell] + _cut(*slopes, value_new)[~fell, None] * step[~fell]
        x, g = _moved(x, trial, fell), _moved(g, g_new, fell)
        if value_new is not None:
            value = np.where(fell, value_new, value)
        found.norm[rows[fell]] = np.abs(g[fell]).max(axis=1)

        direction, lost = _downhill(rows, g, pairs, precondition)
        if limit is not None:
            limit(direction)
        trial = x + direction
        trial[~fell] = shorter
        solved = fell & is_solved(rows, x, g, direction)
        found.converged[rows[solved]] = True
        if last_step:
            x = _moved(x, trial, solved)
        going = ~solved & ~(lost & fell)
        if not going.all():
            found.x[rows] = x
            rows, x, trial, g, value = (a[going] for a in (rows, x, trial, g, value))
            pairs = [(s[going], y[going], r[going]) for s, y, r in pairs]
    found.x[rows] = x
    return found


def _dot(a, b):
    return np.einsum("ij,ij->i", a, b)


def _moved(old, new, which):
    """Rows `which` of `new`, the others of `old`; no copy where all move."""
    return new if which.all() else np.where(which[:, None], new, old)


def _fell(before, after, value, value_new):
    """Whether the objective of each row fell, by its values or by the slopes along the step."""
    if value_new is not None:
        return value_new <= value + 1e-13 * np.abs(value) + 1e-300
    # convex: F(new) <= F(old) + after; to third order F(new) - F(old) = (before + after)/2
    return (after <= 0) | (before + after <= _FELL * before)


def _cut(before, after, value_new):
    """To what share a step is cut: half by values alone, by slopes where the secant vanishes."""
    if value_new is not None:
        return np.full(before.size, 0.5, dtype=before.dtype)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = before / (before - np.nan_to_num(after, nan=np.inf))
    return np.clip(np.nan_to_num(share, nan=_SHORTEST), _SHORTEST, _LONGEST).astype(before.dtype)


def _pair(s, y, fell) -> Pair:
    """(s, y, 1 / (s.y)); 0 for a row that stayed, or whose pair says nothing about a bend."""
    sy = _dot(s, y)
    good = fell & (sy > 1e-10 * np.sqrt(_dot(s, s) * _dot(y, y)))
    return s, y, np.where(good, 1.0 / np.where(good, sy, 1.0), 0.0).astype(s.dtype)


def _downhill(rows, g, pairs, precondition):
    """(directions, which of them lead nowhere); a row whose pairs mislead forgets them."""
    used = [pair for pair in pairs if pair[2].any()]
    direction = -two_loop(g, used, lambda q: precondition(rows, q))
    lost = ~(_dot(direction, g) <= 0)
    if lost.any():
        for _, _, r in pairs:
            r[lost] = 0.0
        direction[lost] = -precondition(rows[lost], g[lost])
        lost = ~(_dot(direction, g) <= 0)
    return direction, lost


def minimise_all(
    evaluate: Evaluate,
    precondition: Precondition,
    start: np.ndarray,
    tol: float,
    max_iter: int,
    subset: np.ndarray,
    bound: Callable[..., np.ndarray] | None = None,
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

    def one_at_most(direction):
        np.clip(direction[:, -1], -1.0, 1.0, out=direction[:, -1])

    return minimise(
        lambda rows, x: evaluate(subset[rows], x),
        lambda rows, q: precondition(subset[rows], q),
        start[subset],
        is_solved,
        max_iter=max_iter,
        limit=one_at_most,
        last_step=bound is None,
    )


def two_loop(
    g: np.ndarray, pairs: list[Pair], precondition: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
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
        alpha = r * _dot(s, q)
        q -= alpha[:, None] * y
        alphas.append(alpha)
    q = precondition(q)
    for (s, y, r), alpha in zip(pairs, reversed(alphas)):
        beta = r * _dot(y, q)
        q += (alpha - beta)[:, None] * s
    return q
