"""Regressions on n-grams and vectors together, many settings of one problem at once.

    minimise   |w|^2 / 2 + |v|^2 / (2 d^2) + b^2 / 2 + C * sum_i m_i loss_i,
    f_i = x_i.w + e_i.v + b,   loss_i = log(1 + exp(-s_i f_i))

x_i is the sparse part of a text, e_i the dense one, m_i its weight, s_i = +-1 its sign. Every pair
(C, d) is a column; all columns share one reading of the features.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from pacsent.kernels import coordinate_descent as kernel
from pacsent.kernels.library import aligned_room

# Parts of the texts without a rare label that its first passes visit, before all of them (chosen on
# training parts: as good as twelve passes over all texts after two).
_FIRST_SHARES = (0.03, 0.03, 0.1, 0.1)
_MIN_POSITIVE = 0.02  # fraction of texts below which a label is not solved more tightly


@dataclass(frozen=True)
class Solutions:
    """Weights of every column."""

    sparse_weights: np.ndarray  # (n_features, n_columns)
    dense_weights: np.ndarray  # (n_dims, n_columns)
    intercepts: np.ndarray  # (n_columns,)
    n_epochs: int

    def take(self, columns: np.ndarray | list[int]) -> "Solutions":
        """Some of the columns."""
        weights = (self.sparse_weights[:, columns], self.dense_weights[:, columns])
        return Solutions(*weights, self.intercepts[columns], self.n_epochs)

    def decisions(self, X: sparse.csr_matrix, E: np.ndarray) -> np.ndarray:
        """f of every text and column, (n, n_columns)."""
        return X @ self.sparse_weights + E @ self.dense_weights + self.intercepts


def solve(
    X: sparse.csr_matrix,
    E: np.ndarray,
    labels: np.ndarray,
    Cs: np.ndarray,
    dense_scales: np.ndarray,
    *,
    positive: np.ndarray | None = None,
    left_out: np.ndarray | None = None,
    folds: np.ndarray | None = None,
    text_weights: np.ndarray | None = None,
    tol: float = 1e-3,
    max_epochs: int = 60,
) -> Solutions:
    """Solve all columns (Cs[c], dense_scales[c]) by coordinate ascent in the dual.

    X is (n, n_features), E (n, n_dims). The sign of a text is +1 in column c where its label is
    positive[c] (or where it has that label, for `labels` of bool, (n, n_labels)), -1 elsewhere;
    without `positive`, +1 where its label is above 0.

    Column c does not learn from texts whose fold is left_out[c]; a weight of 0 in `text_weights`
    leaves a text out of all columns. It stops once the duals of a pass move by less than `tol`
    times C, on average, in every column; of several labels per text, on average over about as many
    texts as have the label.
    """
    problem = _Problem(X, E, labels, Cs, dense_scales, positive, left_out, folds, text_weights)
    n_moving = problem.count_moving()
    rng = np.random.default_rng(0)
    n_epochs = 0
    while n_epochs < max_epochs:
        n_epochs += 1
        problem.epoch(rng.permutation(problem.order))
        if (problem.work[kernel.MOVED] / np.maximum(n_moving, 1)).max() < tol:
            break
    return problem.solutions(n_epochs)


def solve_rare(
    X: sparse.csr_matrix,
    E: np.ndarray,
    labels: np.ndarray,
    Cs: np.ndarray,
    dense_scales: np.ndarray,
    *,
    positive: np.ndarray,
    left_out: np.ndarray | None = None,
    folds: np.ndarray | None = None,
    text_weights: np.ndarray | None = None,
    tol: float = 0.1,
    max_epochs: int = 30,
) -> Solutions:
    """Solve what `solve` does, for labels that few of the texts have.

    Nearly all texts of such a column are negative and hardly move: their average says nothing about
    the positive ones. So it stops once the duals of a pass move by less than `tol` times their sum.

    A first pass over all texts would fit the negative ones to weights that are not there yet. So
    the first passes go over the positive texts of the columns and a small part of the others, which
    grows.
    """
    problem = _Problem(X, E, labels, Cs, dense_scales, positive, left_out, folds, text_weights)
    rng = np.random.default_rng(0)
    order = problem.order[(problem.cells[problem.order, kernel.C] > 0).any(axis=1)]
    is_positive = np.isin(np.asarray(labels)[order], positive)
    positives = order[is_positive]
    others = rng.permutation(order[~is_positive])
    for share in _FIRST_SHARES:
        some = others[: round(share * others.size)]
        problem.epoch(rng.permutation(np.concatenate([positives, some])))

    n_epochs = 0
    while n_epochs < max_epochs:
        n_epochs += 1
        problem.epoch(rng.permutation(order))
        if problem.work[kernel.MOVED].sum() <= tol * problem.sum_duals():
            break
    return problem.solutions(n_epochs)


class _Problem:
    """What the passes of the kernel read and write; its columns are those of `solve`."""

    def __init__(
        self, X, E, labels, Cs, dense_scales, positive=None, left_out=None, folds=None, weights=None
    ):
        n, self.n_features = X.shape
        self.n_columns = len(Cs)
        # Columns, the last repeated until there are as many as vector code likes.
        n_padded = -(-self.n_columns // kernel.LANES) * kernel.LANES
        padded = np.minimum(np.arange(n_padded), self.n_columns - 1)
        weights = np.ones(n) if weights is None else np.asarray(weights)
        self.order = np.flatnonzero(weights > 0)

        self.work = aligned_room(kernel.N_WORK, n_padded)
        self.work[:] = 0.0
        variances = np.asarray(dense_scales)[padded] ** 2
        self.work[kernel.VARIANCES] = variances

        self.cells = aligned_room(n, 5, n_padded)
        cells = self.cells
        cells[:, kernel.DUAL] = 0.0
        # begin at p = 1/2 would need the weights of that start: begin with next to nothing instead
        cells[:, kernel.LOGIT] = -7.0
        cells[:, kernel.C] = np.multiply.outer(weights, np.asarray(Cs)[padded])
        if folds is not None and left_out is not None:
            cells[:, kernel.C][np.equal.outer(folds, np.asarray(left_out)[padded])] = 0.0

        labels = np.asarray(labels)
        self.has_label_sets = labels.ndim == 2
        if positive is None:
            is_positive = (labels > 0)[:, None]
        else:
            positive = np.asarray(positive, np.int64)[padded]
            is_positive = labels[:, positive] if labels.ndim == 2 else labels[:, None] == positive
        cells[:, kernel.SIGN] = np.where(is_positive, 1.0, -1.0)

        data = X.data.astype(np.float32, copy=False)
        squared = sparse.csr_matrix((data * data, X.indices, X.indptr), X.shape)
        squares = squared @ np.ones(self.n_features)
        dense_squares = np.einsum("ij,ij->i", E, E)
        cells[:, kernel.SQUARES] = (
            1.0 + squares[:, None] + np.outer(dense_squares, self.work[kernel.VARIANCES])
        )

        dense = np.ascontiguousarray(E, np.float32)
        indices = X.indices.astype(np.int32, copy=False)
        indptr = X.indptr.astype(np.int64)
        self.features = kernel.FeatureRows(indptr, indices, data, dense, self.n_features)
        self.W = aligned_room(self.features.n_weights, n_padded)
        self.W[:] = 0.0

    def count_moving(self) -> np.ndarray:
        """Texts of each column whose duals move, (n_padded,)."""
        n_moving = (self.cells[self.order, kernel.C] > 0).sum(axis=0)
        if not self.has_label_sets:
            return n_moving
        # most texts have none of the rare labels and hardly move
        share_positive = (self.cells[self.order, kernel.SIGN] > 0).mean(axis=0)
        return n_moving * np.clip(2 * share_positive, _MIN_POSITIVE, 1.0)

    def epoch(self, order: np.ndarray) -> None:
        """One pass over the texts in this order."""
        kernel.epoch(self.features, order, self.cells, self.W, self.work)

    def sum_duals(self) -> float:
        """The sum over texts and columns of the duals divided by their C."""
        return float((self.cells[:, kernel.DUAL] / (self.cells[:, kernel.C] + 1e-30)).sum())

    def solutions(self, n_epochs: int) -> Solutions:
        """The weights of the columns, without those that fill up."""
        W = self.W[:, : self.n_columns]
        n = self.n_features
        return Solutions(W[:n], W[n:-1], W[-1], n_epochs)


def log_ratios(X: sparse.csr_matrix, positive: np.ndarray, smoothing: float = 1.0) -> np.ndarray:
    """How much likelier each feature is in positive texts: naive Bayes' log-ratios, (n_features,).

    ln((smoothing + a_j) / A) - ln((smoothing + b_j) / B), a_j and b_j the numbers of positive and
    other texts that hold feature j, A and B their sums.
    """
    present = sparse.csr_matrix((np.ones_like(X.data), X.indices, X.indptr), shape=X.shape)
    a = smoothing + np.asarray(present.T @ positive.astype(np.float32), np.float64)
    b = smoothing + np.asarray(present.T @ (~positive).astype(np.float32), np.float64)
    return np.log(a / a.sum()) - np.log(b / b.sum())
