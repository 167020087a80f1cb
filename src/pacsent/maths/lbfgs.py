"""L-BFGS for many problems side by side, each with its own step.

A problem is a row of an array of NumPy or a tensor of torch. All rows still worked on are evaluated
together; what is solved leaves, and the work shrinks with it.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = Any  # of NumPy, or a tensor of torch
Evaluate = Callable[[Array, Array], tuple[Array, Array | None]]
Precondition = Callable[[Array, Array], Array]
Pair = tuple[Array, Array, Array]

_MEMORY = 6  # pairs that are remembered
_FELL = 1e-4  # share of the predicted decrease that a step must reach
_SHORTEST, _LONGEST = 0.1, 0.7  # to what share a step that went too far is cut


class Minima(NamedTuple):
    """Where each row ended, and how well."""

    x: Array  # (n, width)
    n_iter: Array  # evaluations of each row
    norm: Array  # largest entry of the gradient where it was last evaluated
    converged: Array


def minimise(
    evaluate: Evaluate,
    precondition: Precondition,
    start: Array,
    is_solved: Callable[..., Array],
    *,
    max_iter: int,
    memory: int = _MEMORY,
    limit: Callable[[Array], Any] | None = None,
    last_step: bool = False,
    noise: float = 0.0,
) -> Minima:
    """Every row of `start` to its own minimum; a row's objective falls or stays.

    `evaluate(rows, x)` gives gradients and values, or None for values: then a step is kept if the
    gradients at its ends say that a convex function fell. `precondition(rows, q)` is the inverse
    Hessian to begin with, and `is_solved(rows, x, gradients, directions)` says which rows are where
    they should be. A row is evaluated `max_iter` times at most, `memory` pairs are remembered, and
    `limit` shortens directions in place. With `last_step` a row that is solved takes the step that
    is at hand: it costs nothing more. Values are known to within `noise`, by which they may rise. A
    row whose preconditioned gradient leads uphill, or nowhere, is left where it is.
    """
    xp = _library(start)
    value, n_iter = xp.full_like(start[:, 0], np.inf), xp.zeros_like(start[:, 0], dtype=xp.int64)
    found = Minima(xp.zeros_like(start) + start, n_iter, xp.zeros_like(value) + value, n_iter > 0)
    rows, x, trial = xp.where(n_iter == 0)[0], start, start
    g = xp.zeros_like(start)
    pairs: list[Pair] = []
    for turn in range(max_iter):
        if not len(rows):
            break
        g_new, value_new = evaluate(rows, trial)
        found.n_iter[rows] += 1
        step = trial - x
        slopes = _dot(g, step), _dot(g_new, step)
        fell = _fell(*slopes, value, value_new, noise) | (turn == 0)
        if turn:
            pairs = [*pairs[1 - memory :], _pair(step, g_new - g, fell)]
        shorter = x[~fell] + _cut(*slopes, value_new)[~fell, None] * step[~fell]
        x, g = _moved(x, trial, fell), _moved(g, g_new, fell)
        if value_new is not None:
            value = xp.where(fell, value_new, value)
        found.norm[rows[fell]] = xp.amax(xp.abs(g[fell]), 1)

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


def _library(x: Array) -> Any:
    """NumPy or torch, whichever `x` is of; what is called here has the same name in both."""
    return np if isinstance(x, np.ndarray) else sys.modules["torch"]


def _dot(a, b):
    return _library(a).einsum("ij,ij->i", a, b)


def _moved(old, new, which):
    """Rows `which` of `new`, the others of `old`; no copy where all move."""
    return new if which.all() else _library(old).where(which[:, None], new, old)


def _fell(before, after, value, value_new, noise):
    """Whether the objective of each row fell, by its values or by the slopes along the step."""
    if value_new is not None:
        return value_new <= value + 1e-13 * np.abs(value) + 1e-300 + noise
    # convex: F(new) <= F(old) + after; to third order F(new) - F(old) = (before + after)/2
    return (after <= 0) | (before + after <= _FELL * before)


def _cut(before, after, value_new):
    """To what share a step is cut: half by values alone, by slopes where the secant vanishes."""
    xp = _library(before)
    if value_new is not None:
        return xp.full_like(before, 0.5)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = before / (before - xp.nan_to_num(after, nan=np.inf))
    return xp.clip(xp.nan_to_num(share, nan=_SHORTEST), _SHORTEST, _LONGEST)


def _pair(s, y, fell) -> Pair:
    """(s, y, 1 / (s.y)); 0 for a row that stayed, or whose pair says nothing about a bend."""
    sy = _dot(s, y)
    good = fell & (sy > 1e-10 * (_dot(s, s) * _dot(y, y)) ** 0.5)
    r = _library(s).zeros_like(sy)
    r[good] = 1.0 / sy[good]
    return s, y, r


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


def one_at_most(direction: Array) -> None:
    """Let the last column, rho, move by 1 at most."""
    direction[:, -1] = direction[:, -1].clip(-1.0, 1.0)


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

    return minimise(
        lambda rows, x: evaluate(subset[rows], x),
        lambda rows, q: precondition(subset[rows], q),
        start[subset],
        is_solved,
        max_iter=max_iter,
        limit=one_at_most,
        last_step=bound is None,
        noise=noise,
    )


def two_loop(g: Array, pairs: list[Pair], precondition: Callable[[Array], Array]) -> Array:
    """The inverse Hessian that `pairs` and `precondition` stand for, times g, row by row.

    `pairs` are (s, y, r), the oldest first: steps, changes of the gradient, and 1 / (s.y) of each
    row, 0 where a row has no such pair. `precondition` is the inverse Hessian to begin with.
    """
    q = _library(g).zeros_like(g) + g
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
