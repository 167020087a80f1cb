"""Many one-vs-rest logistic regressions on one design matrix, solved together.

    minimise over w, b:   ||w||^2 / 2 + C * sum_i log(1 + exp(-s_i (x_i.w + b))),   s_i = +-1

which is what scikit-learn's `LogisticRegression(C=C)` minimises. A problem here is a column: one
class, one C, one set of rows (a training fold). All columns share the matrix products; each has its
own L-BFGS, started at the solution on all rows and preconditioned by the Hessian there. The search
is in float32; what is reported is solved again in float64 (`fit`).

Rounding can make the Hessians of features that repeat each other indefinite. So every diagonal is
raised a little, more where the factorisation fails, and a problem that does not converge is begun
again where it stands with a Hessian of its own. What is still not solved is flagged, with a
warning.
"""

import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse

from pacsent.maths.lbfgs import minimise
from pacsent.threads import n_threads, one_blas_thread

CS = (0.1, 0.316, 1.0, 3.16, 10.0, 31.6, 100.0, 316.0, 1000.0)
BLOCK = 512  # rows of one matrix product: block x columns stays in the cache
_MEMORY = 8  # pairs kept by L-BFGS
_COLUMNS = 400  # problems solved side by side
_SPARSE_COLUMNS = 32  # of a sparse design
_SHARED = 64  # problems for each thread: from there on threads share them instead of rows
_STALE = 15  # iterations after which borrowed curvature is made afresh
_DAMPING = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-13}  # of a Hessian's diagonal
# of a sigmoid: beyond, products in single precision leave the normal numbers and take twice as long
_LARGEST_EXPONENT = {np.dtype(np.float32): 40.0, np.dtype(np.float64): 600.0}
_STRONG_DAMPING = 1e-3  # where a problem is begun again


@dataclass(frozen=True)
class Path:
    """Solutions on all rows, for every C and class: coefficients, intercept last."""

    Cs: tuple[float, ...]
    weights: np.ndarray  # (n_Cs, n_columns, n_features + 1); one column for two classes
    preconditioners: list | None = field(default=None, repr=False)  # [C][column], to start others
    converged: np.ndarray | None = None  # (n_Cs, n_columns)


@dataclass(frozen=True)
class GridResult:
    """Cross-validated accuracy of every C, for every repeat of the folds."""

    Cs: tuple[float, ...]
    accuracy: np.ndarray  # (n_repeats, n_folds, n_Cs)
    path: Path
    n_iterations: int
    converged: np.ndarray | None = None  # (n_repeats, n_folds, n_Cs): every class of the fold


# ---- The shared pass over the rows --------------------------------------------------------------


class _Design:
    """Rows sorted by class with a column of ones; residuals and gradients, block by block."""

    def __init__(self, X, y, n_classes, dtype, threads):
        self.order = np.argsort(y, kind="stable")
        self.y = np.asarray(y)[self.order]
        self.n_rows, n_features = X.shape
        self.n_weights = n_features + 1
        self.n_columns = 1 if n_classes == 2 else n_classes
        self.n_classes = n_classes
        self.dtype = dtype
        self.is_sparse = sparse.issparse(X)
        if self.is_sparse:
            ones = sparse.csr_matrix(np.ones((self.n_rows, 1), dtype=dtype))
            Z = sparse.hstack([X[self.order].astype(dtype), ones], format="csr")
        else:
            Z = np.empty((self.n_rows, self.n_weights), dtype=dtype)
            Z[:, :-1] = X[self.order]
            Z[:, -1] = 1.0
        self.Z = Z
        self.threads = threads
        # a sparse block costs a dense gradient: one block, and threads share the columns instead
        size = self.n_rows if self.is_sparse else BLOCK
        starts = range(0, self.n_rows, size)
        self.blocks = [slice(start, min(start + size, self.n_rows)) for start in starts]
        if self.is_sparse:
            self.squares = Z.multiply(Z).tocsr()
        else:
            self.gram = (Z.T @ Z).astype(np.float64)
        # the share of each class among the rows: its log-odds start the intercepts
        counts = np.bincount(self.y, minlength=n_classes)
        self.share = (counts[1:] if n_classes == 2 else counts) / self.n_rows

    def positive(self, column):
        """Which class is the positive one of a column."""
        return column + 1 if self.n_classes == 2 else column

    def _block(self, number):
        return self.Z if self.is_sparse else self.Z[self.blocks[number]]

    def run(self, work):
        """work(block numbers) on every thread, each with its own share of the blocks."""
        if self.is_sparse:
            return [work(range(1))]
        n = min(self.threads.n, len(self.blocks))
        return self.threads.map(work, [range(t, len(self.blocks), n) for t in range(n)])

    def gradient(self, W, C, column, fold=None, held_out=None):
        """Gradients of all columns, (n, n_weights).

        W (n, n_weights); C, column, fold (n,), sorted by fold; held_out[number][fold]: rows of
        block `number` that the fold leaves out.
        """
        members = [np.flatnonzero(column == k) for k in range(self.n_columns)]
        folds = _slices(fold) if fold is not None else []
        negative = np.ascontiguousarray(-W.T, dtype=self.dtype)
        limit = _LARGEST_EXPONENT[np.dtype(self.dtype)]

        def work(numbers):
            total = np.zeros((W.shape[0], self.n_weights), dtype=self.dtype)
            for number in numbers:
                rows, Z = self.blocks[number], self._block(number)
                R = Z @ negative  # (n_block, n)
                np.minimum(R, limit, out=R)
                np.exp(R, out=R)
                R += 1.0
                np.reciprocal(R, out=R)  # sigmoid of the decision values
                y = self.y[rows]
                for k in np.unique(y):
                    at = k - 1 if self.n_classes == 2 else k
                    if at >= 0:
                        first, last = np.searchsorted(y, [k, k + 1])
                        if members[at].size == W.shape[0]:
                            R[first:last] -= 1.0
                        else:
                            R[first:last, members[at]] -= 1.0
                for f, where in folds:
                    R[held_out[number][f], where] = 0.0
                total += (Z.T @ R).T if self.is_sparse else R.T @ Z
            return total

        data = sum(self.run(work))
        G = C[:, None].astype(self.dtype) * data
        G[:, :-1] += W[:, :-1]
        return G

    def curvature(self, w):
        """p (1 - p) of every row for the weights of one column, (n_rows,)."""
        decision = self.Z @ w.astype(self.dtype)
        with np.errstate(over="ignore"):
            p = 1.0 / (1.0 + np.exp(-decision))
        return p * (1.0 - p)


def _slices(sorted_values):
    """(value, slice) of every run of equal values."""
    values, starts = np.unique(sorted_values, return_index=True)
    ends = [*starts[1:], sorted_values.size]
    return [(v, slice(a, b)) for v, a, b in zip(values, starts, ends)]


class _Threads:
    """A pool whose threads do what they are given alone: a map inside a map is one of Python."""

    def __init__(self, n: int, pool: ThreadPoolExecutor):
        self.n, self.pool = n, pool
        self._own = threading.local()

    def map(self, work, items):
        if self.n == 1 or getattr(self._own, "at_work", False):
            return [work(item) for item in items]
        return list(self.pool.map(partial(self._at_work, work), items))

    def _at_work(self, work, item):
        self._own.at_work = True
        try:
            return work(item)
        finally:
            self._own.at_work = False


@contextmanager
def _threads(n_jobs):
    """A pool of threads, each with matrix products of its own.

    Products that are threaded inside lose most of their speed where the cores are shared with
    other work; several products side by side do not.
    """
    n = n_threads(n_jobs)
    with one_blas_thread(), ThreadPoolExecutor(n) as pool:
        yield _Threads(n, pool)


# ---- Preconditioners ----------------------------------------------------------------------------


def _hessian(design, w):
    """The Hessian of the data term of one column at its weights; only the diagonal if sparse."""
    curvature = design.curvature(w)
    if design.is_sparse:
        return design.squares.T @ curvature
    heavy = curvature > 0.05 * curvature.max()
    if heavy.mean() < 0.6:  # rows of little curvature enter by their mean, through the Gram
        rest = float(curvature[~heavy].mean())
        A = design.Z[heavy] * np.sqrt(curvature[heavy] - rest)[:, None].astype(design.dtype)
        return (A.T @ A).astype(np.float64) + rest * design.gram
    A = design.Z * np.sqrt(curvature)[:, None].astype(design.dtype)
    return (A.T @ A).astype(np.float64)


def _preconditioner(design, H, C, share, damping=0.0):
    """G -> G M^-1, M = diag(penalty) + C * share * H, its diagonal raised by a factor 1 + damping.

    For a sparse design H and M are diagonals, which need no raising.
    """
    penalty = np.ones(design.n_weights)
    penalty[-1] = 1e-6  # the intercept is free; a crumb keeps the factorisation safe
    if design.is_sparse:
        inverse = (1.0 / (C * share * H + penalty)).astype(design.dtype)
        return lambda G: G * inverse
    M, at = C * share * H, np.diag_indices(design.n_weights)
    diagonal = M[at] + penalty
    damping = max(damping, _DAMPING[np.dtype(design.dtype)])
    while True:
        M[at] = diagonal * (1.0 + damping)
        lower = _inverse(M)
        # a raised diagonal dominates in the end, so this ends, unless H is not finite
        if lower is not None or not damping < 1e9:
            break
        damping *= 10.0
    if lower is None:
        lower = np.diag(1.0 / np.where(np.isfinite(diagonal), diagonal, np.inf))
    inverse = (np.tril(lower) + np.tril(lower, -1).T).astype(design.dtype)
    return lambda G: G @ inverse


def _inverse(M):
    """Lower triangle of the inverse of a positive definite matrix; None where it is not one."""
    # potri makes the inverse in half the operations of solving for the identity
    factor, info = linalg.lapack.dpotrf(M.T, lower=1, overwrite_a=0)
    if info != 0:
        return None
    lower, info = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    return lower if info == 0 and np.isfinite(np.diagonal(lower)).all() else None


def _hessians(design, W):
    """`_hessian` of every column."""
    return design.threads.map(lambda w: _hessian(design, w), W)


def _preconditioners(design, hessians, C, share):
    return design.threads.map(lambda H: _preconditioner(design, H, C, share), hessians)


@dataclass(frozen=True)
class _Problems:
    """Columns to solve side by side: what makes their gradients, and how they are conditioned."""

    gradient: Callable[[np.ndarray, np.ndarray], np.ndarray]  # (W, columns) -> G
    groups: np.ndarray  # (n,): which preconditioner a column uses
    preconditioners: list
    C: np.ndarray  # (n,)
    share: float  # of the rows that a problem sees
    scale: np.ndarray  # (n,): the unit of an objective, for tol

    def take(self, some):
        """Some of them."""
        return _Problems(
            lambda w, at: self.gradient(w, some[at]),
            self.groups[some],
            self.preconditioners,
            self.C[some],
            self.share,
            self.scale[some],
        )

    def own(self, design, W, some):
        """Some of them, each with a damped Hessian of its own at W."""

        def made(at):
            H = _hessian(design, W[at])
            return _preconditioner(design, H, self.C[at], self.share, damping=_STRONG_DAMPING)

        conditioned = design.threads.map(made, some)
        return replace(self.take(some), groups=np.arange(some.size), preconditioners=conditioned)

    def minimise(self, W, tol, max_iterations):
        """Every row of W to its own minimum; the rows, iterations, and which rows converged.

        A column is done when half its squared Newton decrement, which estimates how far its
        objective lies above the minimum, is below tol * scale. One whose steps lead nowhere is
        left where it was last.
        """

        def precondition(columns, G):
            out = np.empty_like(G)
            which = self.groups[columns]
            for group in np.unique(which):
                rows = np.flatnonzero(which == group)
                out[rows] = self.preconditioners[group](G[rows])
            return out

        def is_solved(columns, _, G, D):
            decrement = -np.einsum("ij,ij->i", G, D)
            return 0.5 * decrement <= tol * self.scale[columns]

        found = minimise(
            lambda columns, w: (self.gradient(w, columns), None),
            precondition,
            W,
            is_solved,
            max_iter=max_iterations + 1,
            memory=_MEMORY,
        )
        return found.x, max(0, int(found.n_iter.max(initial=1)) - 1), found.converged


def _solved(design, problems: _Problems, W, tol, max_iterations):
    """The problems' minima, their iterations, and which converged.

    Many problems are shared by the threads; for few, the threads share the rows. A sparse design
    has many weights, so that the pairs of a few problems at a time are kept.
    """
    n = design.threads.n
    if design.is_sparse:
        n_parts = max(-(-len(W) // _SPARSE_COLUMNS), min(n, len(W)))
        parts = np.array_split(np.arange(len(W)), n_parts)
    elif len(W) < _SHARED * n:
        return _solved_together(design, problems, W, tol, max_iterations)
    else:
        parts = [np.arange(t, len(W), n) for t in range(n)]
    found = design.threads.map(
        lambda at: _solved_together(design, problems.take(at), W[at], tol, max_iterations), parts
    )
    solved, n_iterations, converged = zip(*found)
    back = np.argsort(np.concatenate(parts))
    return np.concatenate(solved)[back], max(n_iterations), np.concatenate(converged)[back]


def _solved_together(design, problems, W, tol, max_iterations):
    """As `_solved`, all side by side; those left unsolved are begun again where they stand."""
    W, n_iterations, converged = problems.minimise(W, tol, max_iterations)
    failed = np.flatnonzero(~converged)
    if failed.size:
        own = problems.own(design, W, failed)
        W[failed], more, converged[failed] = own.minimise(W[failed], tol, max_iterations)
        n_iterations += more
    return W, n_iterations, converged


def _warn(converged, max_iterations):
    """One warning for all problems that were not solved."""
    n_failed = int(np.count_nonzero(~converged))
    if n_failed:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"{n_failed:,} of {converged.size:,} logistic regressions did not converge in twice "
            f"{max_iterations} iterations; their scores may be too low. Scale the features, drop "
            "columns that repeat others, or raise max_iterations.",
            ConvergenceWarning,
            stacklevel=4,
        )


# ---- What others call ---------------------------------------------------------------------------


def _entropy(share):
    share = np.clip(share, 1e-12, 1 - 1e-12)
    return -(share * np.log(share) + (1 - share) * np.log1p(-share))


def check_design(X: Any, y: np.ndarray, n_classes: int) -> None:
    """Refuse labels that do not fit the rows, or are not the numbers 0 to n_classes - 1."""
    if X.shape[0] != len(y):
        raise ValueError(
            f"X and y must have the same number of rows. Got {X.shape[0]:,} and {len(y):,} "
            "instead. Pass one label for each row."
        )
    found = np.unique(y)
    if not np.array_equal(found, np.arange(n_classes)) or n_classes < 2:
        raise ValueError(
            f"y must hold every class from 0 to n_classes - 1 = {n_classes - 1}, at least two. "
            f"Got {found[:8].tolist()} instead. Leave out classes without examples."
        )
    if not sparse.issparse(X) and not np.isfinite(X).all():
        raise ValueError(
            "X must be finite. Got NaN or infinity instead. Check the vectors of the sentences."
        )


def _solve(design, W, Cs, preconditioners, tol, max_iterations):
    """All rows, several C: W (n_Cs, n_columns, n_weights); preconditioners [C][column]."""
    K = design.n_columns
    C = np.repeat(np.asarray(Cs), K)
    column = np.tile(np.arange(K), len(Cs))
    problems = _Problems(
        lambda w, at: design.gradient(w, C[at], column[at]),
        np.arange(C.size),
        [one for those in preconditioners for one in those],
        C,
        1.0,
        C * design.n_rows * _entropy(design.share)[column],
    )
    start = W.reshape(-1, design.n_weights).astype(design.dtype)
    solved, n_iterations, converged = _solved(design, problems, start, tol, max_iterations)
    return solved.reshape(W.shape), n_iterations, converged.reshape(len(Cs), K)


def _solve_path(design, Cs, start, share, tol, max_iterations):
    """Solutions on all rows for every C, with preconditioners for `share` of the rows (or None).

    From nothing: one C after the other, each started at its neighbour. From `start`: all together,
    with the preconditioners of `start` unless they have become stale.
    """

    def made(weights, share):
        every = zip(weights, Cs)
        return [_preconditioners(design, _hessians(design, W), C, share) for W, C in every]

    if start is not None:
        kept = start.preconditioners or made(start.weights, 1.0 if share is None else share)
        weights, total, converged = _solve(design, start.weights, Cs, kept, tol, max_iterations)
        if share is not None and total > _STALE:
            kept = made(weights, share)
        return Path(tuple(Cs), weights, kept if share is not None else None, converged), total

    W = np.zeros((1, design.n_columns, design.n_weights), dtype=design.dtype)
    W[0, :, -1] = np.log(design.share / (1 - design.share))
    hessians = _hessians(design, W[0])
    weights, kept, flags, total = [], [], [], 0
    for C in Cs:
        here = _preconditioners(design, hessians, C, 1.0)
        W, n_iterations, converged = _solve(design, W, (C,), [here], tol, max_iterations)
        total += n_iterations
        weights.append(W[0])
        flags.append(converged[0])
        if share is not None or Cs[-1] != C:
            hessians = _hessians(design, W[0])
        if share is not None:
            kept.append(_preconditioners(design, hessians, C, share))
    return Path(tuple(Cs), np.stack(weights), kept or None, np.stack(flags)), total


def grid_search(
    X: Any,
    y: ArrayLike,
    folds: ArrayLike,
    *,
    n_classes: int,
    Cs: Sequence[float] = CS,
    start: Path | None = None,
    tol: float = 1e-6,
    max_iterations: int = 100,
    n_jobs: int | None = None,
) -> GridResult:
    """Cross-validated accuracy for every C, all folds of all repeats in one go.

    X is an array or a CSR matrix of shape (n_rows, n_features), `y` holds the classes 0 to
    n_classes - 1, and `folds`, (n_repeats, n_rows), the fold that holds a row out. `Cs` are inverse
    penalties, ascending; `start` holds solutions for similar features (a neighbouring lam). An
    objective may stay above its minimum by `tol`, relative to C * n_rows * entropy of the class.
    Warns (ConvergenceWarning) where problems were not solved; `GridResult.converged` says which.
    """
    y = np.asarray(y)
    folds = np.atleast_2d(np.asarray(folds))
    check_design(X, y, n_classes)
    Cs = tuple(float(C) for C in Cs)
    if start is not None and start.Cs != Cs:
        raise ValueError(
            f"start must have the same Cs, {Cs}. Got {start.Cs} instead. Leave it out."
        )
    with _threads(n_jobs) as threads:
        design = _Design(X, y, n_classes, np.float32, threads)
        found = _search(design, folds, Cs, start, tol, max_iterations)
    _warn(found.converged, max_iterations)
    return found


def _search(design, folds, Cs, start, tol, max_iterations):
    n_repeats, n_folds = folds.shape[0], int(folds.max()) + 1
    share = 1.0 - 1.0 / n_folds
    path, total = _solve_path(design, Cs, start, share, tol, max_iterations)
    sorted_folds = folds[:, design.order]
    n_sets = n_repeats * n_folds
    held_out = [
        [
            np.flatnonzero(sorted_folds[repeat, rows] == fold)
            for repeat in range(n_repeats)
            for fold in range(n_folds)
        ]
        for rows in design.blocks
    ]
    K = design.n_columns
    hits = np.zeros((n_sets, len(Cs)))
    solved = np.zeros((n_sets, len(Cs)), dtype=bool)
    at_once = max(1, _COLUMNS // (n_sets * K))  # few classes: several C share the products
    for first in range(0, len(Cs), at_once):
        chosen = range(first, min(first + at_once, len(Cs)))
        n = len(chosen)
        column = np.tile(np.arange(K), n_sets * n)  # sorted by fold, then C, then class
        which = np.tile(np.repeat(np.arange(n), K), n_sets)
        fold = np.repeat(np.arange(n_sets), n * K)
        C = np.array([Cs[number] for number in chosen])[which]

        def gradient(w, at, C=C, column=column, fold=fold):
            return design.gradient(w, C[at], column[at], fold[at], held_out)

        problems = _Problems(
            gradient,
            which * K + column,
            [one for number in chosen for one in path.preconditioners[number]],
            C,
            share,
            C * share * design.n_rows * _entropy(design.share)[column],
        )
        begin = np.tile(path.weights[chosen.start : chosen.stop].reshape(n * K, -1), (n_sets, 1))
        W, n_iterations, converged = _solved(design, problems, begin, tol, max_iterations)
        total += n_iterations
        W = W.reshape(n_sets, n, K, -1)
        solved[:, chosen.start : chosen.stop] = converged.reshape(n_sets, n, K).all(axis=2)
        hits[:, chosen.start : chosen.stop] = _held_out_hits(design, W, held_out)
    sizes = np.array([np.bincount(row, minlength=n_folds) for row in folds])  # (n_repeats, n_folds)
    accuracy = hits.reshape(n_repeats, n_folds, len(Cs)) / sizes[:, :, None]
    return GridResult(Cs, accuracy, path, total, solved.reshape(accuracy.shape))


def _held_out_hits(design, W, held_out):
    """How many held-out rows each fold classifies rightly, (n_sets, n_Cs)."""
    n_sets, n, K, n_weights = W.shape
    weights = [np.ascontiguousarray(w.reshape(n * K, n_weights).T, design.dtype) for w in W]

    def work(numbers):
        hits = np.zeros((n_sets, n))
        for number in numbers:
            rows, Z = design.blocks[number], design._block(number)
            y = design.y[rows]
            for f in range(n_sets):
                out = held_out[number][f]
                F = (Z[out] @ weights[f]).reshape(out.size, n, K)
                guess = (F[:, :, 0] > 0) if design.n_classes == 2 else F.argmax(axis=2)
                hits[f] += np.count_nonzero(guess == y[out][:, None], axis=0)
        return hits

    return sum(design.run(work))


def fit(
    X: Any,
    y: ArrayLike,
    C: float,
    *,
    n_classes: int,
    start: Path | None = None,
    tol: float = 1e-13,
    max_iterations: int = 200,
    n_jobs: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(coef, intercept) of one-vs-rest logistic regression in float64, to the last digits.

    Their shapes are (n_classes or 1, n_features) and (n_classes or 1,). Warns where a class was not
    solved to `tol`.
    """
    y = np.asarray(y)
    check_design(X, y, n_classes)
    if start is not None:
        near = int(np.argmin(np.abs(np.log(np.array(start.Cs) / C))))
        # the curvature of the search will do: it was taken at this very solution, in float32
        kept = start.preconditioners
        if kept is not None:
            kept = [kept[near]] if np.isclose(start.Cs[near], C) else None
        start = Path((C,), start.weights[near : near + 1].astype(np.float64), kept)
    with _threads(n_jobs) as threads:
        design = _Design(X, y, n_classes, np.float64, threads)
        if start is None:
            start, _ = _solve_path(design, (C,), None, None, 1e-6, max_iterations)
        # with the Hessian near the solution the last digits come in a few steps
        path, _ = _solve_path(design, (C,), start, None, tol, max_iterations)
    _warn(path.converged, max_iterations)
    weights = path.weights[0]
    return weights[:, :-1].copy(), weights[:, -1].copy()


def predict(X: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """The class of every row."""
    decision = X @ coef.T + intercept
    return (decision[:, 0] > 0).astype(np.int64) if coef.shape[0] == 1 else decision.argmax(axis=1)
