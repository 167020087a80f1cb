"""L-BFGS for many problems side by side, each with its own step.

A problem has a few hundred unknowns, and there are thousands of them: solved one by one, most of
the time would be the interpreter's. So a problem is a row, all rows that are not yet solved are
evaluated together by matrix products, and a row leaves as soon as it is solved.

Values of the objective are optional. Where it is convex, the slopes at both ends of a step say
whether it fell, and a solver that samples its gradients has no values as precise as these.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

Evaluate = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]]
Precondition = Callable[[np.ndarray, np.ndarray], np.ndarray]
Pair = tuple[np.ndarray, np.ndarray, np.ndarray]

# A step must reach this fraction of the predicted decrease.
_MIN_DECREASE = 1e-4

# Fractions between which a rejected step is cut.
_MIN_CUT = 0.1
_MAX_CUT = 0.7


class Minima(NamedTuple):
    """Final point of each row, and its quality."""

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
    hand. Values are known to within `noise`, by which they may rise. Rows without a descent
    direction are returned unchanged.
    """
    n = len(start)
    value = np.full_like(start[:, 0], np.inf)
    minima = Minima(
        x=start.copy(),
        n_iter=np.zeros(n, dtype=np.int64),
        norm=value.copy(),
        converged=np.zeros(n, dtype=bool),
    )

    rows = np.arange(n)  # still worked on; the arrays below have one row for each
    x = start  # best point
    trial = start  # next point to evaluate
    g = np.zeros_like(start)  # gradient at x
    pairs: list[Pair] = []
    for turn in range(max_iter):
        if not rows.size:
            break
        is_first = turn == 0
        g_trial, value_trial = evaluate(rows, trial)
        minima.n_iter[rows] += 1

        # Which rows keep their step?
        step = trial - x
        slope_before = _dot(g, step)
        slope_after = _dot(g_trial, step)
        if is_first:
            is_accepted = np.ones(rows.size, dtype=bool)
        elif value_trial is not None:
            rounding = 1e-13 * np.abs(value) + 1e-300
            is_accepted = value_trial <= value + rounding + noise
        else:
            # Convex: F(new) <= F(old) + after; to third order F(new) - F(old) = (before + after)/2.
            falls_enough = slope_before + slope_after <= _MIN_DECREASE * slope_before
            is_accepted = (slope_after <= 0) | falls_enough

        if not is_first:
            newest = _new_pair(step, g_trial - g, is_accepted)
            pairs = [*pairs[1 - memory :], newest]

        # A rejected step is cut, without values to where the secant of the slopes vanishes.
        cut = np.full_like(slope_before, 0.5)
        if value_trial is None:
            cut = _secant_cut(slope_before, slope_after)
        is_rejected = ~is_accepted
        shorter = x[is_rejected] + cut[is_rejected, None] * step[is_rejected]

        # The others move on.
        x = _where_rows(is_accepted, trial, x)
        g = _where_rows(is_accepted, g_trial, g)
        if value_trial is not None:
            value = np.where(is_accepted, value_trial, value)
        largest_entries = np.abs(g[is_accepted]).max(axis=1, initial=0.0)
        minima.norm[rows[is_accepted]] = largest_entries

        # The next direction of every row.
        used_pairs = [pair for pair in pairs if pair[2].any()]
        direction = -two_loop(g, used_pairs, partial(precondition, rows))
        is_uphill = ~(_dot(direction, g) <= 0)
        if is_uphill.any():  # the pairs of these rows mislead, and are forgotten
            for _, _, r in pairs:
                r[is_uphill] = 0.0
            direction[is_uphill] = -precondition(rows[is_uphill], g[is_uphill])
            is_uphill = ~(_dot(direction, g) <= 0)
        if limit is not None:
            limit(direction)
        trial = x + direction
        trial[is_rejected] = shorter

        # Solved rows leave, and those that no direction leads down from.
        solved = is_accepted & is_solved(rows, x, g, direction)
        minima.converged[rows[solved]] = True
        if last_step:
            x = _where_rows(solved, trial, x)
        is_stuck = is_uphill & is_accepted
        is_active = ~solved & ~is_stuck
        if not is_active.all():
            minima.x[rows] = x
            rows = rows[is_active]
            x = x[is_active]
            trial = trial[is_active]
            g = g[is_active]
            value = value[is_active]
            pairs = [(s[is_active], y[is_active], r[is_active]) for s, y, r in pairs]
    minima.x[rows] = x
    return minima


def _new_pair(step: np.ndarray, change: np.ndarray, is_accepted: np.ndarray) -> Pair:
    """(s, y, 1 / (s.y)); 0 for a row that stayed, or whose pair has no curvature."""
    products = _dot(step, change)
    lengths = (_dot(step, step) * _dot(change, change)) ** 0.5  # |s| |y|
    has_curvature = is_accepted & (products > 1e-10 * lengths)
    r = np.zeros_like(products)
    r[has_curvature] = 1.0 / products[has_curvature]
    return step, change, r


def _secant_cut(slope_before: np.ndarray, slope_after: np.ndarray) -> np.ndarray:
    """Fraction of a step at which a line through the slopes at its ends is 0, within limits."""
    slope_after = np.nan_to_num(slope_after, nan=np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        cut = slope_before / (slope_before - slope_after)
    return np.clip(np.nan_to_num(cut, nan=_MIN_CUT), _MIN_CUT, _MAX_CUT)


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Products row by row."""
    return np.einsum("ij,ij->i", a, b)


def _where_rows(which: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Rows `which` of `new`, the others of `old`; no copy if all are new."""
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

    def evaluate_subset(rows: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        return evaluate(subset[rows], x)

    def precondition_subset(rows: np.ndarray, q: np.ndarray) -> np.ndarray:
        return precondition(subset[rows], q)

    def is_solved(
        rows: np.ndarray, x: np.ndarray, g: np.ndarray, direction: np.ndarray
    ) -> np.ndarray:
        if bound is not None:
            return bound(subset[rows], x, g) <= tol

        step = direction[:, :-1]  # in mu
        length = np.linalg.norm(step, axis=1)
        displacement = np.linalg.norm(x[:, :-1] + step, axis=1)
        is_mu_solved = length <= tol * displacement
        is_rho_solved = np.abs(direction[:, -1]) <= tol
        return is_mu_solved & is_rho_solved

    def limit_rho(direction: np.ndarray) -> None:
        direction[:, -1] = direction[:, -1].clip(-1.0, 1.0)

    return minimise(
        evaluate_subset,
        precondition_subset,
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
