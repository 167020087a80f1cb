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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse
from scipy.special import entr

from pacsent.sentences.solvers.lbfgs import minimise
from pacsent.threads import n_threads, one_blas_thread

CS = (0.1, 0.316, 1.0, 3.16, 10.0, 31.6, 100.0, 316.0, 1000.0)

# Rows of one matrix product: a block times all columns stays in the cache.
_BLOCK_ROWS = 512
# Pairs that L-BFGS keeps.
_MEMORY = 8
# Problems that are solved side by side; fewer of a sparse design, which has more weights.
_MAX_COLUMNS = 400
_MAX_SPARSE_COLUMNS = 32
# Iterations after which the curvature that a neighbouring path lent is computed anew.
_MAX_BORROWED_ITERATIONS = 15

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

    def take(self, rows: np.ndarray) -> "_Problems":
        """The problems at these rows, in this order."""
        return _Problems(*(array[rows] for array in self))


class _Design:
    """Rows sorted by class with a column of ones; gradients and Hessians of columns.

    `folds`, (n_repeats, n_rows), number the fold that leaves a row out. `map` runs on a pool of
    threads, each with matrix products of its own, which is faster than threads inside products.
    """

    def __init__(
        self,
        X: Any,
        y: np.ndarray,
        n_classes: int,
        dtype: Any,
        threads: tuple[Any, int] = (None, 1),
        folds: np.ndarray | None = None,
    ):
        order = np.argsort(y, kind="stable")
        y = y[order]
        self.pool, self.n_threads = threads

        self.n_rows, n_features = X.shape
        self.n_weights = n_features + 1
        self.n_columns = 1 if n_classes == 2 else n_classes
        self.dtype = np.dtype(dtype)
        self.is_sparse = sparse.issparse(X)

        # Z has the features and the column of ones; what Hessians need of it is computed once.
        if self.is_sparse:
            sorted_X = X[order].astype(dtype)
            ones = sparse.csr_matrix(np.ones((self.n_rows, 1), dtype=dtype))
            self.Z = sparse.hstack([sorted_X, ones], format="csr")
            self.squares = self.Z.multiply(self.Z).tocsr()
        else:
            self.Z = np.ones((self.n_rows, self.n_weights), dtype=dtype)
            self.Z[:, :-1] = X[order]
            gram = self.Z.T @ self.Z
            self.gram = gram.astype(np.float64)

        counts = np.bincount(y, minlength=n_classes)
        self.fraction = counts[-self.n_columns :] / self.n_rows  # of each column's positive rows

        # A set for each fold of each repeat, the rows it leaves out, (n_sets, n_rows).
        held_out_sets = np.empty((0, self.n_rows), dtype=bool)
        if folds is not None:
            fold_numbers = np.arange(folds.max() + 1)
            held_out_sets = folds[:, None, order] == fold_numbers[:, None]
            held_out_sets = held_out_sets.reshape(-1, self.n_rows)

        # A sparse block costs a dense gradient, so that all rows are one block.
        n_block_rows = self.n_rows if self.is_sparse else _BLOCK_ROWS
        self.blocks = []  # (rows of Z, their classes, which of them each fold leaves out)
        for start in range(0, self.n_rows, n_block_rows):
            rows = slice(start, start + n_block_rows)
            Z = self.Z if self.is_sparse else self.Z[rows]
            held_out_rows = [np.flatnonzero(is_held_out[rows]) for is_held_out in held_out_sets]
            self.blocks.append((Z, y[rows], held_out_rows))

    def map(self, work: Callable, *items: Any) -> list:
        """The results of `work` on the items, by all threads."""
        return list(self.pool.map(work, *items))

    def gradient(self, problems: _Problems, W: np.ndarray) -> np.ndarray:
        """Gradients of the objectives at the rows of W, (n_problems, n_weights)."""
        # The problems of each class, and those of each fold, which lie side by side.
        classes = range(self.n_columns)
        problems_of_class = [np.flatnonzero(problems.column == k) for k in classes]
        fold_numbers, starts = np.unique(problems.fold, return_index=True)
        ends = [*starts[1:], len(W)]
        problems_of_fold = []
        for fold, start, end in zip(fold_numbers, starts, ends):
            if fold >= 0:
                problems_of_fold.append((fold, slice(start, end)))

        n_problems = len(W)
        negative = np.ascontiguousarray(-W.T, dtype=self.dtype)  # (n_weights, n_problems)
        G = np.zeros((n_problems, self.n_weights), dtype=self.dtype)
        for Z, y, held_out_rows in self.blocks:
            # R is the sigmoid of the decision values, (n_block, n_problems), computed in place.
            R = Z @ negative
            np.minimum(R, _MAX_EXPONENT[self.dtype], out=R)
            np.exp(R, out=R)
            R += 1.0
            np.reciprocal(R, out=R)

            # Minus one at the rows of a problem's own class. Rows are sorted by class.
            for label in np.unique(y):
                k = label - 1 if self.n_columns == 1 else label
                if k < 0:
                    continue
                first, end = np.searchsorted(y, [label, label + 1])
                own_problems = problems_of_class[k]
                if own_problems.size == n_problems:
                    R[first:end] -= 1.0
                else:
                    R[first:end, own_problems] -= 1.0

            for fold, columns in problems_of_fold:
                R[held_out_rows[fold], columns] = 0.0
            if self.is_sparse:
                G += (Z.T @ R).T
            else:
                G += R.T @ Z

        G *= problems.C[:, None].astype(self.dtype)
        G[:, :-1] += W[:, :-1]  # of the penalty, which has no intercept
        return G

    def hessian(self, w: np.ndarray) -> np.ndarray:
        """Hessian of the data term of one column at its weights; only the diagonal if sparse."""
        decision = self.Z @ w.astype(self.dtype)
        with np.errstate(over="ignore"):
            p = 1.0 / (1.0 + np.exp(-decision))
        curvature = p * (1.0 - p)  # (n_rows,)
        if self.is_sparse:
            return self.squares.T @ curvature

        is_large = curvature > 0.05 * curvature.max()
        if is_large.mean() < 0.6:
            # Rows of little curvature enter by their mean, through the Gram matrix.
            mean = float(curvature[~is_large].mean())
            root = np.sqrt(curvature[is_large] - mean).astype(self.dtype)
            A = self.Z[is_large] * root[:, None]
            H = (A.T @ A).astype(np.float64)
            return H + mean * self.gram

        root = np.sqrt(curvature).astype(self.dtype)
        A = self.Z * root[:, None]
        return (A.T @ A).astype(np.float64)


def _preconditioner(
    H: np.ndarray, C: float, dtype: Any, damping: float = 0.0
) -> Callable[[np.ndarray], np.ndarray]:
    """G -> G M^-1, M = diag(penalty) + C * H, its diagonal raised by a factor 1 + damping.

    Where H is a diagonal, of a sparse design, so is M, which needs no raising.
    """
    penalty = np.ones(len(H))
    penalty[-1] = 1e-6  # the intercept is free; a crumb keeps the factorisation safe
    if H.ndim == 1:
        M_diagonal = C * H + penalty
        inverse = (1.0 / M_diagonal).astype(dtype)
        return lambda G: G * inverse

    M = C * H
    on_diagonal = np.diag_indices(len(H))
    diagonal = M[on_diagonal] + penalty
    damping = max(damping, _DAMPING[np.dtype(dtype)])
    while damping < 1e9:  # a raised diagonal dominates in the end, unless H is not finite
        M[on_diagonal] = diagonal * (1.0 + damping)

        # potri computes the inverse in half the operations of solving for the identity.
        factor, failed = linalg.lapack.dpotrf(M.T, lower=1, overwrite_a=0)
        if not failed:
            lower, failed = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
            if not failed and np.isfinite(np.diagonal(lower)).all():
                break
        damping *= 10.0
    else:
        finite_diagonal = np.where(np.isfinite(diagonal), diagonal, np.inf)
        lower = np.diag(1.0 / finite_diagonal)

    # LAPACK fills the lower triangle; the inverse is symmetric.
    upper = np.tril(lower, -1).T
    inverse = (np.tril(lower) + upper).astype(dtype)
    return lambda G: G @ inverse


class _Solver:
    """L-BFGS for problems of a design, each to `tol` relative to the objective of a constant.

    `fraction` of the rows are those that a problem sees.
    """

    def __init__(self, design: _Design, fraction: float, tol: float, max_iterations: int):
        self.design = design
        self.fraction = fraction
        self.tol = tol
        self.max_iterations = max_iterations

    def solve(
        self, problems: _Problems, preconditioners: list, W: np.ndarray
    ) -> tuple[np.ndarray, int, np.ndarray]:
        """Minima of the problems, (W, n_iterations, converged), from the rows of W.

        The problems are divided among the threads; a sparse design has many weights, so that the
        L-BFGS pairs of only a few problems fit into memory.
        """
        n_problems = len(W)
        n_parts = min(self.design.n_threads, n_problems)
        if self.design.is_sparse:
            n_parts = max(n_parts, -(-n_problems // _MAX_SPARSE_COLUMNS))
        parts = [np.arange(start, n_problems, n_parts) for start in range(n_parts)]

        solve_part = partial(self._solve_part, problems, preconditioners, W)
        solutions_of_parts = self.design.map(solve_part, parts)
        solved, n_iterations, converged = zip(*solutions_of_parts)

        # Back to the order of the problems.
        order = np.argsort(np.concatenate(parts))
        minima = np.concatenate(solved)[order]
        is_converged = np.concatenate(converged)[order]
        return minima, max(n_iterations), is_converged

    def _solve_part(
        self, all_problems: _Problems, preconditioners: list, W: np.ndarray, part: np.ndarray
    ) -> tuple[np.ndarray, int, np.ndarray]:
        """`solve` for the problems of one part; what does not converge is begun again once."""
        problems = all_problems.take(part)
        x, n_iterations, converged = self._minimise(problems, preconditioners, W[part])
        failed = np.flatnonzero(~converged)
        if not failed.size:
            return x, n_iterations, converged

        # Begun again where they stand, each with a strongly damped Hessian of its own.
        own_groups = np.arange(failed.size)
        failed_problems = problems.take(failed)._replace(group=own_groups)
        own_preconditioners = []
        for C, w in zip(failed_problems.C * self.fraction, x[failed]):
            H = self.design.hessian(w)
            own = _preconditioner(H, C, self.design.dtype, _STRONG_DAMPING)
            own_preconditioners.append(own)

        x_again, n_more, converged_again = self._minimise(
            failed_problems, own_preconditioners, x[failed]
        )
        x[failed] = x_again
        converged[failed] = converged_again
        return x, n_iterations + n_more, converged

    def _minimise(
        self, problems: _Problems, preconditioners: list, start: np.ndarray
    ) -> tuple[np.ndarray, int, np.ndarray]:
        """Minima of the problems from the rows of `start`, with the preconditioners of groups."""
        # An objective is measured against that of the best constant: n C entropy.
        p = self.design.fraction[problems.column]
        entropy = np.maximum(entr(p) + entr(1 - p), 1e-11)
        scale = problems.C * self.fraction * self.design.n_rows * entropy

        def gradient(columns: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, None]:
            return self.design.gradient(problems.take(columns), w), None

        def precondition(columns: np.ndarray, G: np.ndarray) -> np.ndarray:
            groups = problems.group[columns]
            out = np.empty_like(G)
            for group in np.unique(groups):
                members = np.flatnonzero(groups == group)
                out[members] = preconditioners[group](G[members])
            return out

        def is_solved(columns: np.ndarray, _: Any, G: np.ndarray, D: np.ndarray) -> np.ndarray:
            # Half the squared Newton decrement estimates the distance to the minimum.
            distance = -0.5 * np.einsum("ij,ij->i", G, D)
            return distance <= self.tol * scale[columns]

        minima = minimise(
            gradient,
            precondition,
            start,
            is_solved,
            max_iter=self.max_iterations + 1,
            memory=_MEMORY,
        )
        n_iterations = minima.n_iter.max(initial=1) - 1
        return minima.x, n_iterations, minima.converged


def _path_problems(Cs: tuple[float, ...], n_columns: int) -> _Problems:
    """One problem on all rows for each C and column, each with its own preconditioner."""
    n_problems = len(Cs) * n_columns
    return _Problems(
        C=np.repeat(Cs, n_columns),
        column=np.tile(np.arange(n_columns), len(Cs)),
        group=np.arange(n_problems),
        fold=np.full(n_problems, -1),
    )


def _precondition_all(design: _Design, hessians: Any, Cs: Any) -> list:
    """The preconditioner of each Hessian with its C."""
    invert = partial(_preconditioner, dtype=design.dtype)
    return design.map(invert, hessians, Cs)


def _solve_path(
    design: _Design, Cs: tuple[float, ...], fraction: float, tol: float, max_iterations: int
) -> tuple[Path, np.ndarray]:
    """(Path on all rows, converged), with preconditioners for `fraction` of the rows.

    One C is solved after the other, each begun at its neighbour.
    """
    solver = _Solver(design, 1.0, tol, max_iterations)
    n_columns = design.n_columns

    # The best constant: no weights, and the log odds as the intercept.
    W = np.zeros((n_columns, design.n_weights), dtype=design.dtype)
    odds = design.fraction / (1 - design.fraction)
    W[:, -1] = np.log(odds)
    hessians = design.map(design.hessian, W)

    weights = []
    preconditioners = []
    flags = []
    for C in Cs:
        problems = _path_problems((C,), n_columns)
        preconditioners_of_C = _precondition_all(design, hessians, [C] * n_columns)
        W, _, converged = solver.solve(problems, preconditioners_of_C, W)
        hessians = design.map(design.hessian, W)
        weights.append(W)
        flags.append(converged)
        preconditioners += _precondition_all(design, hessians, [C * fraction] * n_columns)
    path = Path(Cs, np.stack(weights), preconditioners)
    return path, np.concatenate(flags)


def _continue_path(
    design: _Design,
    Cs: tuple[float, ...],
    start: Path,
    fraction: float,
    tol: float,
    max_iterations: int,
) -> tuple[Path, np.ndarray]:
    """`_solve_path` from the solutions of `start`, all C together.

    The preconditioners are those of `start`, unless they have become stale.
    """
    solver = _Solver(design, 1.0, tol, max_iterations)
    n_columns = design.n_columns
    problems = _path_problems(Cs, n_columns)
    C_on_fraction = problems.C * fraction

    W = start.weights.reshape(-1, design.n_weights)
    W = W.astype(design.dtype)
    preconditioners = start.preconditioners
    if not preconditioners:
        hessians = design.map(design.hessian, W)
        preconditioners = _precondition_all(design, hessians, C_on_fraction)

    W, n_iterations, converged = solver.solve(problems, preconditioners, W)
    if n_iterations > _MAX_BORROWED_ITERATIONS:
        hessians = design.map(design.hessian, W)
        preconditioners = _precondition_all(design, hessians, C_on_fraction)
    weights_of_Cs = W.reshape(len(Cs), n_columns, -1)
    return Path(Cs, weights_of_Cs, preconditioners), converged


def _warn(converged: np.ndarray, max_iterations: int) -> None:
    """Warn (ConvergenceWarning) if problems were not solved."""
    n_failed = int(np.count_nonzero(~converged))
    if not n_failed:
        return

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
    folds = np.atleast_2d(np.asarray(folds))
    Cs = tuple(float(C) for C in Cs)
    n_jobs = n_threads(n_jobs)

    n_repeats = len(folds)
    n_folds = int(folds.max()) + 1
    n_sets = n_repeats * n_folds
    fraction = 1.0 - 1.0 / n_folds  # of the rows that a problem sees

    n_right = np.zeros((n_sets, len(Cs)))
    converged = np.zeros((n_sets, len(Cs)), dtype=bool)
    with one_blas_thread(), ThreadPoolExecutor(n_jobs) as pool:
        design = _Design(X, y, n_classes, np.float32, (pool, n_jobs), folds)
        K = design.n_columns
        if start is None:
            path, _ = _solve_path(design, Cs, fraction, tol, max_iterations)
        else:
            path, _ = _continue_path(design, Cs, start, fraction, tol, max_iterations)
        assert path.preconditioners is not None

        # With few classes several C share the matrix products.
        solver = _Solver(design, fraction, tol, max_iterations)
        step = max(1, _MAX_COLUMNS // (n_sets * K))
        for first in range(0, len(Cs), step):
            chosen = slice(first, min(first + step, len(Cs)))
            n = chosen.stop - first

            # Problems are sorted by fold, then C, then class.
            n_problems_of_set = n * K
            group = np.tile(np.arange(n_problems_of_set), n_sets)
            chosen_Cs = np.array(Cs[chosen])
            problems = _Problems(
                C=chosen_Cs[group // K],
                column=group % K,
                group=group,
                fold=np.repeat(np.arange(n_sets), n_problems_of_set),
            )
            start_of_fold = path.weights[chosen].reshape(n_problems_of_set, -1)
            W = np.tile(start_of_fold, (n_sets, 1))
            preconditioners = path.preconditioners[first * K : chosen.stop * K]
            W, _, solved = solver.solve(problems, preconditioners, W)
            solved_classes = solved.reshape(n_sets, n, K)
            converged[:, chosen] = solved_classes.all(axis=2)

            W_of_sets = W.reshape(n_sets, n_problems_of_set, -1)
            weights = np.moveaxis(W_of_sets, 1, 2)  # (n_sets, n_weights, n_problems_of_set)
            count_right = partial(_count_right, design, n)
            n_right[:, chosen] = design.map(count_right, range(n_sets), weights)
    _warn(converged, max_iterations)

    # Accuracy of the rows that each fold leaves out.
    shape = (n_repeats, n_folds, len(Cs))
    fold_sizes = [np.bincount(fold_of_row, minlength=n_folds) for fold_of_row in folds]
    n_held_out = np.array(fold_sizes)  # (n_repeats, n_folds)
    accuracy = n_right.reshape(shape) / n_held_out[:, :, None]
    return GridResult(accuracy, path, converged.reshape(shape))


def _count_right(design: _Design, n_Cs: int, fold: int, weights: np.ndarray) -> np.ndarray:
    """Number of the rows that a fold leaves out and classifies rightly, for each C, (n_Cs,).

    `weights` are (n_weights, n_Cs * n_columns).
    """
    total = np.zeros(n_Cs)
    for Z, labels, held_out_rows in design.blocks:
        rows = held_out_rows[fold]
        decision = Z[rows] @ np.ascontiguousarray(weights)
        decision = decision.reshape(-1, n_Cs, design.n_columns)

        if design.n_columns == 1:
            predicted = decision[:, :, 0] > 0
        else:
            predicted = decision.argmax(axis=2)
        is_right = predicted == labels[rows][:, None]  # (n_held_out, n_Cs)
        total += np.count_nonzero(is_right, axis=0)
    return total


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
    n_jobs = n_threads(n_jobs)
    with one_blas_thread(), ThreadPoolExecutor(n_jobs) as pool:
        design = _Design(X, y, n_classes, np.float64, (pool, n_jobs))
        if start is None:
            start, _ = _solve_path(design, (C,), 1.0, 1e-6, max_iterations)
        else:
            log_ratios = np.log(np.array(start.Cs) / C)
            nearest = int(np.argmin(np.abs(log_ratios)))
            start = Path((C,), start.weights[nearest : nearest + 1])

        # With the Hessian near the solution the last digits take a few steps.
        path, converged = _continue_path(design, (C,), start, 1.0, tol, max_iterations)
    _warn(converged, max_iterations)

    weights = path.weights[0]
    coef = weights[:, :-1].copy()
    intercept = weights[:, -1].copy()
    return coef, intercept


def predict(X: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """The class of every row."""
    decision = X @ coef.T + intercept
    if coef.shape[0] == 1:
        return (decision[:, 0] > 0).astype(np.int64)
    return decision.argmax(axis=1)
