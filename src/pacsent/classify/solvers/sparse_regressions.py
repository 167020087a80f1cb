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
_FIRST_FRACTIONS = (0.03, 0.03, 0.1, 0.1)
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
        return Solutions(
            sparse_weights=self.sparse_weights[:, columns],
            dense_weights=self.dense_weights[:, columns],
            intercepts=self.intercepts[columns],
            n_epochs=self.n_epochs,
        )

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
    problem = _Problem(
        X,
        E,
        labels,
        Cs,
        dense_scales,
        positive=positive,
        left_out=left_out,
        folds=folds,
        text_weights=text_weights,
    )
    n_moving = np.maximum(problem.count_moving(), 1)  # (n_padded,)

    rng = np.random.default_rng(0)
    n_epochs = 0
    while n_epochs < max_epochs:
        n_epochs += 1
        problem.epoch(rng.permutation(problem.order))
        mean_moves = problem.work[kernel.MOVED] / n_moving  # (n_padded,)
        if mean_moves.max() < tol:
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
    problem = _Problem(
        X,
        E,
        labels,
        Cs,
        dense_scales,
        positive=positive,
        left_out=left_out,
        folds=folds,
        text_weights=text_weights,
    )
    rng = np.random.default_rng(0)
    has_weight = problem.cells[problem.order, kernel.C] > 0  # (n_order, n_padded)
    order = problem.order[has_weight.any(axis=1)]

    # First passes: all positive texts, and a growing part of the others.
    is_positive = np.isin(np.asarray(labels)[order], positive)
    positives = order[is_positive]
    negatives = rng.permutation(order[~is_positive])
    for fraction in _FIRST_FRACTIONS:
        n_visited = round(fraction * negatives.size)
        visited = np.concatenate([positives, negatives[:n_visited]])
        problem.epoch(rng.permutation(visited))

    n_epochs = 0
    while n_epochs < max_epochs:
        n_epochs += 1
        problem.epoch(rng.permutation(order))
        if problem.work[kernel.MOVED].sum() <= tol * problem.sum_duals():
            break
    return problem.solutions(n_epochs)


class _Problem:
    """Arrays that the passes of the kernel read and write; the columns are those of `solve`."""

    def __init__(
        self,
        X: sparse.csr_matrix,
        E: np.ndarray,
        labels: np.ndarray,
        Cs: np.ndarray,
        dense_scales: np.ndarray,
        *,
        positive: np.ndarray | None,
        left_out: np.ndarray | None,
        folds: np.ndarray | None,
        text_weights: np.ndarray | None,
    ):
        n = X.shape[0]
        self.n_features = X.shape[1]
        self.n_columns = len(Cs)
        labels = np.asarray(labels)
        self.has_label_sets = labels.ndim == 2

        weights = np.ones(n) if text_weights is None else np.asarray(text_weights)
        self.order = np.flatnonzero(weights > 0)

        # Columns, the last repeated until there are as many as vector code likes.
        n_padded = -(-self.n_columns // kernel.LANES) * kernel.LANES
        padded = np.minimum(np.arange(n_padded), self.n_columns - 1)

        self.work = aligned_room(kernel.N_WORK, n_padded)
        self.work[:] = 0.0
        self.work[kernel.VARIANCES] = np.asarray(dense_scales)[padded] ** 2

        # Duals begin with next to nothing: to begin at p = 1/2 needs the weights of that start.
        self.cells = aligned_room(n, 5, n_padded)
        self.cells[:, kernel.DUAL] = 0.0
        self.cells[:, kernel.LOGIT] = -7.0

        C_of_cells = self.cells[:, kernel.C]  # (n, n_padded), a view
        C_of_cells[:] = np.multiply.outer(weights, np.asarray(Cs)[padded])
        if folds is not None and left_out is not None:
            is_left_out = np.equal.outer(folds, np.asarray(left_out)[padded])
            C_of_cells[is_left_out] = 0.0

        is_positive = _find_positive(labels, positive, padded)
        self.cells[:, kernel.SIGN] = np.where(is_positive, 1.0, -1.0)

        data = X.data.astype(np.float32, copy=False)
        variances = self.work[kernel.VARIANCES]  # (n_padded,), in single precision
        self.cells[:, kernel.SQUARES] = _squared_lengths(X, data, E, variances)

        self.features = kernel.FeatureRows(
            X.indptr.astype(np.int64),
            X.indices.astype(np.int32, copy=False),
            data,
            np.ascontiguousarray(E, np.float32),
            self.n_features,
        )
        self.W = aligned_room(self.features.n_weights, n_padded)
        self.W[:] = 0.0

    def count_moving(self) -> np.ndarray:
        """Texts of each column whose duals move, (n_padded,)."""
        has_weight = self.cells[self.order, kernel.C] > 0  # (n_order, n_padded)
        n_moving = has_weight.sum(axis=0)
        if not self.has_label_sets:
            return n_moving

        # Most texts have none of the rare labels and hardly move.
        is_positive = self.cells[self.order, kernel.SIGN] > 0  # (n_order, n_padded)
        moving_fractions = np.clip(2 * is_positive.mean(axis=0), _MIN_POSITIVE, 1.0)
        return n_moving * moving_fractions

    def epoch(self, order: np.ndarray) -> None:
        """One pass over the texts in this order."""
        kernel.epoch(self.features, order, self.cells, self.W, self.work)

    def sum_duals(self) -> float:
        """The sum over texts and columns of the duals divided by their C."""
        duals = self.cells[:, kernel.DUAL]  # (n, n_padded)
        Cs = self.cells[:, kernel.C] + 1e-30  # (n, n_padded)
        return float((duals / Cs).sum())

    def solutions(self, n_epochs: int) -> Solutions:
        """The weights of the columns, without those that fill up."""
        W = self.W[:, : self.n_columns]
        return Solutions(
            sparse_weights=W[: self.n_features],
            dense_weights=W[self.n_features : -1],
            intercepts=W[-1],
            n_epochs=n_epochs,
        )


def _find_positive(
    labels: np.ndarray, positive: np.ndarray | None, padded: np.ndarray
) -> np.ndarray:
    """Texts with the label of each column, (n, n_padded), or (n, 1) without `positive`."""
    if positive is None:
        return (labels > 0)[:, None]

    label_of_column = np.asarray(positive, np.int64)[padded]
    if labels.ndim == 2:
        return labels[:, label_of_column]
    return labels[:, None] == label_of_column


def _squared_lengths(
    X: sparse.csr_matrix, data: np.ndarray, E: np.ndarray, variances: np.ndarray
) -> np.ndarray:
    """1 + |x_i|^2 + d^2 |e_i|^2 of each text and column, (n, n_padded); `data` are those of X."""
    squared = sparse.csr_matrix((data * data, X.indices, X.indptr), X.shape)
    sparse_squares = squared @ np.ones(X.shape[1])  # (n,)
    dense_squares = np.einsum("ij,ij->i", E, E)  # (n,)
    return 1.0 + sparse_squares[:, None] + np.outer(dense_squares, variances)


def log_ratios(X: sparse.csr_matrix, positive: np.ndarray, smoothing: float = 1.0) -> np.ndarray:
    """Naive Bayes' log-ratio of each feature in positive and in other texts, (n_features,).

    ln(a_j / A) - ln(b_j / B), where a_j and b_j are `smoothing` plus the numbers of positive and of
    other texts that have feature j, and A and B are their sums.
    """
    has_feature = sparse.csr_matrix((np.ones_like(X.data), X.indices, X.indptr), shape=X.shape)
    n_positive = has_feature.T @ positive.astype(np.float32)  # (n_features,)
    n_others = has_feature.T @ (~positive).astype(np.float32)  # (n_features,)

    a = smoothing + np.asarray(n_positive, np.float64)
    b = smoothing + np.asarray(n_others, np.float64)
    return np.log(a / a.sum()) - np.log(b / b.sum())
