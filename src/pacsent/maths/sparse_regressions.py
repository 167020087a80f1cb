"""Logistic regressions on n-grams and vectors together, many settings of one problem at once.

    minimise   |w|^2 / 2 + |v|^2 / (2 d^2) + b^2 / 2 + C * sum_i m_i log(1 + exp(-s_i f_i)),
    f_i = x_i.w + e_i.v + b

x_i is the sparse part of a text, e_i the dense one, m_i its weight, s_i = +-1 its sign. Every pair
(C, d) is a column; all columns share one reading of the features.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from pacsent._kernels.coordinate_descent import epoch


@dataclass(frozen=True)
class Solutions:
    """Weights of every column."""

    sparse_weights: np.ndarray  # (n_features, n_columns)
    dense_weights: np.ndarray  # (n_dims, n_columns)
    intercepts: np.ndarray  # (n_columns,)
    n_epochs: int

    def decisions(self, X: sparse.csr_matrix, E: np.ndarray) -> np.ndarray:
        """f of every text and column, (n, n_columns)."""
        return X @ self.sparse_weights + E @ self.dense_weights + self.intercepts


def solve(
    X: sparse.csr_matrix,
    E: np.ndarray,
    signs: np.ndarray,
    Cs: np.ndarray,
    dense_scales: np.ndarray,
    *,
    text_weights: np.ndarray | None = None,
    tol: float = 1e-3,
    max_epochs: int = 60,
    seed: int = 0,
) -> Solutions:
    """Solve all columns (Cs[c], dense_scales[c]) by coordinate ascent in the dual.

    Parameters
    ----------
    X : sparse matrix, (n, n_features)
    E : array, (n, n_dims)
    signs : array of +-1, (n,)
    Cs, dense_scales : arrays, (n_columns,)
    text_weights : array, (n,), optional
        0 leaves a text out.
    tol : float
        Stops once the duals of a pass move by less than this share of C, on average.
    """
    n, n_features = X.shape
    n_columns = len(Cs)
    weights = np.ones(n, np.float32) if text_weights is None else text_weights.astype(np.float32)
    Cs = np.asarray(Cs, np.float32)
    variances = np.asarray(dense_scales, np.float32) ** 2
    W = np.zeros((n_features, n_columns), np.float32)
    V = np.zeros((E.shape[1], n_columns), np.float32)
    b = np.zeros(n_columns, np.float32)
    # begin at p = 1/2 would need the weights of that start: begin with next to nothing instead
    start = np.float32(-7.0)
    logits = np.full((n, n_columns), start, np.float32)
    dual = np.zeros((n, n_columns), np.float32)
    rows = X.indptr.astype(np.int64), X.indices, X.data.astype(np.float32, copy=False), E
    problem = Cs, weights, variances, np.float32(1.0)
    order = np.flatnonzero(weights > 0)
    rng = np.random.default_rng(seed)
    signs = np.asarray(signs, np.float32)
    n_epochs = 0
    while n_epochs < max_epochs:
        n_epochs += 1
        moved = epoch(rows, rng.permutation(order), signs, problem, (W, V, b, dual, logits))
        if moved.max() < tol:
            break
    return Solutions(W, V, b, n_epochs)


def log_ratios(X: sparse.csr_matrix, positive: np.ndarray, smoothing: float = 1.0) -> np.ndarray:
    """How much likelier each feature is in positive texts: naive Bayes' log-ratios, (n_features,).

    ln((smoothing + a_j) / A) - ln((smoothing + b_j) / B), a_j and b_j the numbers of positive and
    other texts that hold feature j, A and B their sums.
    """
    present = sparse.csr_matrix((np.ones_like(X.data), X.indices, X.indptr), shape=X.shape)
    a = smoothing + np.asarray(present.T @ positive.astype(np.float32), np.float64)
    b = smoothing + np.asarray(present.T @ (~positive).astype(np.float32), np.float64)
    return np.log(a / a.sum()) - np.log(b / b.sum())
