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
    n, n_features = X.shape
    # Columns, the last repeated until there are as many as vector code likes.
    padded = np.minimum(np.arange(-(-len(Cs) // kernel.LANES) * kernel.LANES), len(Cs) - 1)
    weights = np.ones(n) if text_weights is None else np.asarray(text_weights)
    order = np.flatnonzero(weights > 0)
    data = X.data.astype(np.float32, copy=False)
    work = np.zeros((kernel.N_WORK, padded.size), np.float32)
    work[kernel.VARIANCES] = np.asarray(dense_scales)[padded] ** 2
    cells = np.empty((n, 5, padded.size), np.float32)
    cells[:, kernel.DUAL] = 0.0
    # begin at p = 1/2 would need the weights of that start: begin with next to nothing instead
    cells[:, kernel.LOGIT] = -7.0
    cells[:, kernel.C] = np.multiply.outer(weights, np.asarray(Cs)[padded])
    if folds is not None and left_out is not None:
        cells[:, kernel.C][np.equal.outer(folds, np.asarray(left_out)[padded])] = 0.0
    labels = np.asarray(labels)
    if positive is None:
        is_positive = (labels > 0)[:, None]
    else:
        positive = np.asarray(positive, np.int64)[padded]
        is_positive = labels[:, positive] if labels.ndim == 2 else labels[:, None] == positive
    cells[:, kernel.SIGN] = np.where(is_positive, 1.0, -1.0)
    squares = sparse.csr_matrix((data * data, X.indices, X.indptr), X.shape) @ np.ones(n_features)
    dense_squares = np.einsum("ij,ij->i", E, E)
    cells[:, kernel.SQUARES] = (
        1.0 + squares[:, None] + np.outer(dense_squares, work[kernel.VARIANCES])
    )
    n_moving = (cells[order, kernel.C] > 0).sum(axis=0)
    if labels.ndim == 2:
        # most texts have none of the rare labels and hardly move
        n_moving = n_moving * np.clip(
            2 * (cells[order, kernel.SIGN] > 0).mean(axis=0), _MIN_POSITIVE, 1.0
        )
    dense = np.ascontiguousarray(E, np.float32)
    indices = X.indices.astype(np.int32, copy=False)
    features = kernel.FeatureRows(X.indptr.astype(np.int64), indices, data, dense, n_features)
    W = np.zeros((features.n_weights, padded.size), np.float32)
    rng = np.random.default_rng(0)
    n_epochs = 0
    while n_epochs < max_epochs:
        n_epochs += 1
        kernel.epoch(features, rng.permutation(order), cells, W, work)
        if (work[kernel.MOVED] / np.maximum(n_moving, 1)).max() < tol:
            break
    W = W[:, : len(Cs)]
    return Solutions(W[:n_features], W[n_features:-1], W[-1], n_epochs)


def log_ratios(X: sparse.csr_matrix, positive: np.ndarray, smoothing: float = 1.0) -> np.ndarray:
    """How much likelier each feature is in positive texts: naive Bayes' log-ratios, (n_features,).

    ln((smoothing + a_j) / A) - ln((smoothing + b_j) / B), a_j and b_j the numbers of positive and
    other texts that hold feature j, A and B their sums.
    """
    present = sparse.csr_matrix((np.ones_like(X.data), X.indices, X.indptr), shape=X.shape)
    a = smoothing + np.asarray(present.T @ positive.astype(np.float32), np.float64)
    b = smoothing + np.asarray(present.T @ (~positive).astype(np.float32), np.float64)
    return np.log(a / a.sum()) - np.log(b / b.sum())
