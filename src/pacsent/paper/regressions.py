"""Many one-vs-rest logistic regressions on one design matrix, solved together.

    minimise over w, b:   ||w||^2 / 2 + C * sum_i log(1 + exp(-s_i (x_i.w + b))),   s_i = +-1

which is what scikit-learn's `LogisticRegression(C=C)` minimises. A problem here is a column: one
class, one C, one set of rows (a training fold). All columns share the matrix products; each has its
own L-BFGS, started at the solution on all rows and preconditioned by the Hessian there. The search
is in float32; what is reported is solved again in float64 (`fit`).

Rounding can make Hessians indefinite: diagonals are raised a little, more where the factorisation
fails, and a problem that does not converge is begun again where it stands with a Hessian of its
own. What is still not solved is flagged, with a warning.
"""

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse
from scipy.special import entr

from pacsent.sentences.solvers.lbfgs import minimise
from pacsent.threads import n_threads, one_blas_thread

CS = (0.1, 0.316, 1.0, 3.16, 10.0, 31.6, 100.0, 316.0, 1000.0)

_BLOCK_ROWS = 512  # of one matrix product: block x columns stays in the cache
_MEMORY = 8  # pairs that L-BFGS keeps
_MAX_COLUMNS, _MAX_SPARSE_COLUMNS = 400, 32  # side by side; a sparse design has more weights
_MAX_BORROWED_ITERATIONS = 15  # after which the curvature of a neighbouring path is computed anew

# Relative raise of a Hessian's diagonal, and where a problem is begun again.
_DAMPING = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-13}
_STRONG_DAMPING = 1e-3

# Exponents are cut here: beyond, products in single precision leave the normal numbers and take
# twice as long.
_MAX_EXPONENT = {np.dtype(np.float32): 40.0, np.dtype(np.float64): 600.0}


class Path(NamedTuple):
    """Solutions on all rows, for every C and class: coefficients, intercept last."""

    Cs: tuple[float, ...]
    weights: np.ndarray  # (n_Cs, n_columns, n_features + 1); one column for two classes
    preconditioners: list | None = None  # one for each C and column, to start others


class GridResult(NamedTuple):
    """Cross-validated accuracy of every C, for every repeat of the folds."""

    accuracy: np.ndarray  # (n_repeats, n_folds, n_Cs)
    path: Path
    converged: np.ndarray  # (n_repeats, n_folds, n_Cs): every class of the fold


class _Problems(NamedTuple):
    """Columns to solve side by side, sorted by fold; all arrays have shape (n_problems,)."""

    C: np.ndarray
    column: np.ndarray  # its class
    group: np.ndarray  # which preconditioner it uses
    fold: np.ndarray  # which rows it leaves out; -1 for none

    def take(self, rows):
        return _Problems(*(array[rows] for array in self))


class _Design:
    """Rows sorted by class with a column of ones; gradients and Hessians of columns.

    `folds`, (n_repeats, n_rows), number the fold that leaves a row out. `map` runs on a pool of
    threads, each with matrix products of its own, which is faster than threads inside products.
    """

    def __init__(self, X, y, n_classes, dtype, threads=(None, 1), folds=None):
        order = np.argsort(y, kind="stable")
        y = y[order]
        self.pool, self.n_threads = threads
        self.n_rows, n_features = X.shape
        self.n_weights, self.dtype = n_features + 1, np.dtype(dtype)
        self.n_columns = 1 if n_classes == 2 else n_classes
        self.is_sparse = sparse.issparse(X)
        if self.is_sparse:
            ones = sparse.csr_matrix(np.ones((self.n_rows, 1), dtype=dtype))
            self.Z = sparse.hstack([X[order].astype(dtype), ones], format="csr")
            self.squares = self.Z.multiply(self.Z).tocsr()
        else:
            self.Z = np.ones((self.n_rows, self.n_weights), dtype=dtype)
            self.Z[:, :-1] = X[order]
            self.gram = (self.Z.T @ self.Z).astype(np.float64)
        counts = np.bincount(y, minlength=n_classes)
        self.fraction = counts[-self.n_columns :] / self.n_rows  # of each column's positive rows
        sets = np.empty((0, self.n_rows), dtype=bool)
        if folds is not None:
            sets = folds[:, None, order] == np.arange(folds.max() + 1)[:, None]
            sets = sets.reshape(-1, self.n_rows)
        # A sparse block costs a dense gradient, so that all rows are one block.
        size = self.n_rows if self.is_sparse else _BLOCK_ROWS
        self.blocks = []  # (rows of Z, their classes, which of them each fold leaves out)
        for start in range(0, self.n_rows, size):
            rows = slice(start, start + size)
            Z = self.Z if self.is_sparse else self.Z[rows]
            self.blocks.append((Z, y[rows], [np.flatnonzero(held_out[rows]) for held_out in sets]))

    def map(self, work, *items):
        return list(self.pool.map(work, *items))

    def gradient(self, problems, W):
        """Gradients of the objectives at the rows of W, (n_problems, n_weights)."""
        members = [np.flatnonzero(problems.column == k) for k in range(self.n_columns)]
        numbers, starts = np.unique(problems.fold, return_index=True)
        ends = [*starts[1:], len(W)]
        folds = [(f, slice(a, b)) for f, a, b in zip(numbers, starts, ends) if f >= 0]
        negative = np.ascontiguousarray(-W.T, dtype=self.dtype)
        G = np.zeros((len(W), self.n_weights), dtype=self.dtype)
        for Z, y, left_out in self.blocks:
            R = Z @ negative  # (n_block, n_problems)
            np.minimum(R, _MAX_EXPONENT[self.dtype], out=R)
            np.exp(R, out=R)
            R += 1.0
            np.reciprocal(R, out=R)  # sigmoid of the decision values
            for label in np.unique(y):
                k = label - 1 if self.n_columns == 1 else label
                if k >= 0:
                    positive = slice(*np.searchsorted(y, [label, label + 1]))
                    if members[k].size == len(W):
                        R[positive] -= 1.0
                    else:
                        R[positive, members[k]] -= 1.0
            for f, columns in folds:
                R[left_out[f], columns] = 0.0
            G += (Z.T @ R).T if self.is_sparse else R.T @ Z
        G *= problems.C[:, None].astype(self.dtype)
        G[:, :-1] += W[:, :-1]
        return G

    def hessian(self, w):
        """Hessian of the data term of one column at its weights; only the diagonal if sparse."""
        decision = self.Z @ w.astype(self.dtype)
        with np.errstate(over="ignore"):
            p = 1.0 / (1.0 + np.exp(-decision))
        curvature = p * (1.0 - p)
        if self.is_sparse:
            return self.squares.T @ curvature
        large = curvature > 0.05 * curvature.max()
        if large.mean() < 0.6:  # rows of little curvature enter by their mean, through the Gram
            mean = float(curvature[~large].mean())
            A = self.Z[large] * np.sqrt(curvature[large] - mean)[:, None].astype(self.dtype)
            return (A.T @ A).astype(np.float64) + mean * self.gram
        A = self.Z * np.sqrt(curvature)[:, None].astype(self.dtype)
        return (A.T @ A).astype(np.float64)


def _preconditioner(H, C, dtype, damping=0.0):
    """G -> G M^-1, M = diag(penalty) + C * H, its diagonal raised by a factor 1 + damping.

    Where H is a diagonal, of a sparse design, so is M, which needs no raising.
    """
    penalty = np.ones(len(H))
    penalty[-1] = 1e-6  # the intercept is free; a crumb keeps the factorisation safe
    if H.ndim == 1:
        inverse = (1.0 / (C * H + penalty)).astype(dtype)
        return lambda G: G * inverse
    M, at = C * H, np.diag_indices(len(H))
    diagonal = M[at] + penalty
    damping = max(damping, _DAMPING[np.dtype(dtype)])
    while damping < 1e9:  # a raised diagonal dominates in the end, unless H is not finite
        M[at] = diagonal * (1.0 + damping)
        # potri makes the inverse in half the operations of solving for the identity
        factor, failed = linalg.lapack.dpotrf(M.T, lower=1, overwrite_a=0)
        if not failed:
            lower, failed = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
            if not failed and np.isfinite(np.diagonal(lower)).all():
                break
        damping *= 10.0
    else:
        lower = np.diag(1.0 / np.where(np.isfinite(diagonal), diagonal, np.inf))
    inverse = (np.tril(lower) + np.tril(lower, -1).T).astype(dtype)
    return lambda G: G @ inverse


def _solve(design, problems, preconditioners, W, fraction, tol, max_iterations):
    """Minima of the problems, (W, n_iterations, converged), from the rows of W.

    `fraction` of the rows are those that a problem sees. The problems are divided among the
    threads; a sparse design has many weights, so that the L-BFGS pairs of only a few problems fit
    into memory.
    """

    def solve_part(part):
        x, n_iterations, converged = minimise_part(part, W[part], preconditioners, problems.group)
        failed = part[~converged]
        if failed.size:  # begun again where they stand
            C = problems.C * fraction
            own = {
                row: _preconditioner(design.hessian(w), C[row], design.dtype, _STRONG_DAMPING)
                for row, w in zip(failed, x[~converged])
            }
            again = minimise_part(failed, x[~converged], own, np.arange(len(W)))
            x[~converged], converged[~converged] = again[0], again[2]
            n_iterations += again[1]
        return x, n_iterations, converged

    def minimise_part(part, x, preconditioners, group):
        groups, part_problems = group[part], problems.take(part)
        p = design.fraction[part_problems.column]
        entropy = np.maximum(entr(p) + entr(1 - p), 1e-11)
        scale = part_problems.C * fraction * design.n_rows * entropy

        def precondition(columns, G):
            out = np.empty_like(G)
            for number in np.unique(groups[columns]):
                at = np.flatnonzero(groups[columns] == number)
                out[at] = preconditioners[number](G[at])
            return out

        def is_solved(columns, _, G, D):
            # half the squared Newton decrement estimates how far an objective is above its minimum
            return -0.5 * np.einsum("ij,ij->i", G, D) <= tol * scale[columns]

        minima = minimise(
            lambda columns, w: (design.gradient(part_problems.take(columns), w), None),
            precondition,
            x,
            is_solved,
            max_iter=max_iterations + 1,
            memory=_MEMORY,
        )
        return minima.x, minima.n_iter.max(initial=1) - 1, minima.converged

    n_parts = min(design.n_threads, len(W))
    if design.is_sparse:
        n_parts = max(n_parts, -(-len(W) // _MAX_SPARSE_COLUMNS))
    parts = [np.arange(start, len(W), n_parts) for start in range(n_parts)]
    solved, n_iterations, converged = zip(*design.map(solve_part, parts))
    back = np.argsort(np.concatenate(parts))
    return np.concatenate(solved)[back], max(n_iterations), np.concatenate(converged)[back]


def _solve_path(design, Cs, start, fraction, tol, max_iterations):
    """(Path on all rows, converged), with preconditioners for `fraction` of the rows.

    Without a start, one C after the other, each begun at its neighbour. From `start`, all together,
    with the preconditioners of `start` unless they have become stale.
    """
    K = design.n_columns

    def condition(hessians, Cs):
        return design.map(lambda H, C: _preconditioner(H, C, design.dtype), hessians, Cs)

    def solve(Cs, W, preconditioners):
        C, column = np.repeat(Cs, K), np.tile(np.arange(K), len(Cs))
        problems = _Problems(C, column, np.arange(C.size), np.full(C.size, -1))
        return _solve(design, problems, preconditioners, W, 1.0, tol, max_iterations)

    if start is not None:
        C = np.repeat(Cs, K) * fraction
        W = start.weights.reshape(-1, design.n_weights).astype(design.dtype)
        preconditioners = start.preconditioners or condition(design.map(design.hessian, W), C)
        W, n_iterations, converged = solve(Cs, W, preconditioners)
        if n_iterations > _MAX_BORROWED_ITERATIONS:
            preconditioners = condition(design.map(design.hessian, W), C)
        return Path(Cs, W.reshape(len(Cs), K, -1), preconditioners), converged

    W = np.zeros((K, design.n_weights), dtype=design.dtype)
    W[:, -1] = np.log(design.fraction / (1 - design.fraction))
    hessians = design.map(design.hessian, W)
    weights, preconditioners, flags = [], [], []
    for C in Cs:
        W, _, converged = solve((C,), W, condition(hessians, [C] * K))
        hessians = design.map(design.hessian, W)
        weights.append(W)
        flags.append(converged)
        preconditioners += condition(hessians, [C * fraction] * K)
    return Path(Cs, np.stack(weights), preconditioners), np.concatenate(flags)


def _warn(converged, max_iterations):
    n_failed = int(np.count_nonzero(~converged))
    if n_failed:
        from sklearn.exceptions import ConvergenceWarning

        message = (
            f"{n_failed:,} of {converged.size:,} logistic regressions did not converge in twice "
            f"{max_iterations} iterations; their scores may be too low. Scale the features."
        )
        warnings.warn(message, ConvergenceWarning, stacklevel=3)


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

    X is an array or a CSR matrix of shape (n_rows, n_features), `y` are the classes 0 to
    n_classes - 1, each of which occurs, and `folds`, (n_repeats, n_rows), the fold that leaves a
    row out. `Cs` are inverse penalties, ascending; `start` are solutions for similar features and
    the same Cs (a neighbouring lam). An objective may stay above its minimum by `tol`, relative to
    C * n_rows * entropy of the class. Warns (ConvergenceWarning) where problems were not solved;
    `GridResult.converged` says which.
    """
    y = np.asarray(y)
    folds, Cs = np.atleast_2d(np.asarray(folds)), tuple(float(C) for C in Cs)
    n_repeats, n_folds = len(folds), int(folds.max()) + 1
    n_sets, fraction = n_repeats * n_folds, 1.0 - 1.0 / n_folds
    hits, converged = np.zeros((n_sets, len(Cs))), np.zeros((n_sets, len(Cs)), dtype=bool)
    n_jobs = n_threads(n_jobs)
    with one_blas_thread(), ThreadPoolExecutor(n_jobs) as pool:
        design = _Design(X, y, n_classes, np.float32, (pool, n_jobs), folds)
        K = design.n_columns
        path, _ = _solve_path(design, Cs, start, fraction, tol, max_iterations)
        step = max(1, _MAX_COLUMNS // (n_sets * K))  # few classes: several C share the products
        for first in range(0, len(Cs), step):
            chosen = slice(first, min(first + step, len(Cs)))
            n = chosen.stop - first
            group = np.tile(np.arange(n * K), n_sets)  # sorted by fold, then C, then class
            C = np.array(Cs[chosen])[group // K]
            problems = _Problems(C, group % K, group, np.repeat(np.arange(n_sets), n * K))
            W = np.tile(path.weights[chosen].reshape(n * K, -1), (n_sets, 1))
            conditions = path.preconditioners[first * K : chosen.stop * K]
            W, _, solved = _solve(design, problems, conditions, W, fraction, tol, max_iterations)
            converged[:, chosen] = solved.reshape(n_sets, n, K).all(axis=2)
            weights = np.moveaxis(W.reshape(n_sets, n * K, -1), 1, 2)

            def count_hits(f, weights=weights, n=n):
                """How many of the rows that it leaves out a fold classifies rightly, by C."""
                total = np.zeros(n)
                for Z, labels, left_out in design.blocks:
                    rows = left_out[f]
                    decision = (Z[rows] @ np.ascontiguousarray(weights[f])).reshape(-1, n, K)
                    guess = (decision[:, :, 0] > 0) if K == 1 else decision.argmax(axis=2)
                    total += np.count_nonzero(guess == labels[rows][:, None], axis=0)
                return total

            hits[:, chosen] = design.map(count_hits, range(n_sets))
    _warn(converged, max_iterations)
    sizes = np.array([np.bincount(row, minlength=n_folds) for row in folds])  # (n_repeats, n_folds)
    shape = n_repeats, n_folds, len(Cs)
    return GridResult(hits.reshape(shape) / sizes[:, :, None], path, converged.reshape(shape))


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
    y, n_jobs = np.asarray(y), n_threads(n_jobs)
    with one_blas_thread(), ThreadPoolExecutor(n_jobs) as pool:
        design = _Design(X, y, n_classes, np.float64, (pool, n_jobs))
        if start is None:
            start, _ = _solve_path(design, (C,), None, 1.0, 1e-6, max_iterations)
        else:
            near = int(np.argmin(np.abs(np.log(np.array(start.Cs) / C))))
            start = Path((C,), start.weights[near : near + 1])
        # with the Hessian near the solution the last digits come in a few steps
        path, converged = _solve_path(design, (C,), start, 1.0, tol, max_iterations)
    _warn(converged, max_iterations)
    weights = path.weights[0]
    return weights[:, :-1].copy(), weights[:, -1].copy()


def predict(X: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """The class of every row."""
    decision = X @ coef.T + intercept
    return (decision[:, 0] > 0).astype(np.int64) if coef.shape[0] == 1 else decision.argmax(axis=1)
