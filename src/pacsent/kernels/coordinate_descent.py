"""Kernel: logistic regressions on sparse and dense features, by coordinate ascent in the dual.

    minimise over w:   sum_j w_j^2 / (2 v_j) + sum_i C_i log(1 + exp(-s_i x_i.w)),   s_i = +-1

One coordinate is one text. With a_i in (0, C_i) the weights are w_j = v_j sum_i a_i s_i x_ij; the
best a_i, all others held, is C_i / (1 + exp(-u)) where u solves

    u + s_i x_i.w + q_i (C_i / (1 + exp(-u)) - a_i) = 0,   q_i = sum_j v_j x_ij^2

which rises in u, so a few steps of Newton inside a bracket find it. Several problems that share
texts stand side by side as columns, with their own C, scale of the dense part, signs, and fold that
is left out.
"""

from dataclasses import dataclass

import numpy as np

from pacsent.kernels.library import FLOAT32, INT32, INT64, SIZE, entry_point

LANES = 8  # the number of columns is a multiple of this
DUAL, LOGIT, C, SIGN, SQUARES = range(5)  # the cells of a text: a, u, C, s, q
VARIANCES, MOVED = range(2)  # rows of `work` that are not only room
N_WORK = 6
_BATCH_TEXTS = 8192  # texts in a call: Ctrl-C works between calls

_dual_epoch = entry_point(
    "dual_epoch",
    *(INT64, INT32, FLOAT32),  # indptr, indices, data
    *(FLOAT32, SIZE, INT32),  # dense, its columns, the rows of their weights
    *(INT64, SIZE),  # order, its size
    FLOAT32,  # cells
    *(FLOAT32, SIZE, SIZE),  # weights, rows and columns
    FLOAT32,  # work
)


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Features of the texts: a sparse part (indptr, indices, data) and a dense one.

    The rows of the weights are those of the sparse features, of the dense ones, and the intercept.
    """

    indptr: np.ndarray  # (n + 1,) int64
    indices: np.ndarray  # int32
    data: np.ndarray  # float32
    dense: np.ndarray  # (n, n_dims) float32
    n_sparse: int

    def __post_init__(self) -> None:
        n_texts = len(self.dense)
        is_cut = self.indptr.size == n_texts + 1 and self.indptr[0] == 0
        is_cut = is_cut and self.indptr[-1] == self.indices.size == self.data.size
        if not is_cut or (self.indptr[1:] < self.indptr[:-1]).any():
            raise ValueError(f"The sparse features are not those of {n_texts} texts.")
        if self.indices.size and not 0 <= self.indices.min() <= self.indices.max() < self.n_sparse:
            raise ValueError(f"A sparse feature is not one of {self.n_sparse}.")

    @property
    def dense_rows(self) -> np.ndarray:
        """Rows of the weights of the dense part."""
        return np.arange(self.n_sparse, self.n_sparse + self.dense.shape[1], dtype=np.int32)

    @property
    def n_weights(self) -> int:
        return self.n_sparse + self.dense.shape[1] + 1


def epoch(
    features: FeatureRows,
    order: np.ndarray,
    cells: np.ndarray,
    weights: np.ndarray,
    work: np.ndarray,
) -> None:
    """One pass over the texts in `order`, in place.

    Parameters
    ----------
    features : FeatureRows
    order : int64 array
        Numbers of texts.
    cells : array, shape (n_texts, 5, n_columns)
        See `DUAL`. C is 0 where a column leaves a text out.
    weights : array, shape (features.n_weights, n_columns)
    work : array, shape (N_WORK, n_columns)
        The variances of the dense weights; the sums of |a change| / C of this pass; room.

    Everything real is float32.
    """
    n_texts, n_dims = features.dense.shape
    n_weights, n_columns = weights.shape
    shapes = cells.shape, weights.shape, work.shape
    expected = (n_texts, 5, n_columns), (features.n_weights, n_columns), (N_WORK, n_columns)
    if shapes != expected or n_columns % LANES:
        raise ValueError(f"Cells, weights and room must have shapes {expected}. Got {shapes}.")
    if order.size and not 0 <= order.min() <= order.max() < n_texts:
        raise ValueError(f"The order names a text that is not one of {n_texts}.")

    work[MOVED] = 0.0
    dense_rows = features.dense_rows
    for begin in range(0, order.size, _BATCH_TEXTS):
        batch = order[begin : begin + _BATCH_TEXTS]
        _dual_epoch(
            *(features.indptr, features.indices, features.data),
            *(features.dense, n_dims, dense_rows),
            *(batch, batch.size),
            *(cells, weights, n_weights, n_columns, work),
        )


def epoch_plainly(
    features: FeatureRows,
    order: np.ndarray,
    cells: np.ndarray,
    weights: np.ndarray,
    work: np.ndarray,
) -> None:
    """As `epoch`, with roots found by halving brackets."""
    work[MOVED] = 0.0
    intercept = features.n_weights - 1
    for i in order:
        sparse = slice(features.indptr[i], features.indptr[i + 1])
        rows = np.concatenate([features.indices[sparse], features.dense_rows, [intercept]])
        x = np.concatenate([features.data[sparse], features.dense[i], [1.0]])
        variances = np.ones((x.size, weights.shape[1]))
        variances[sparse.stop - sparse.start : -1] = work[VARIANCES]

        dual, _, C_, sign, q = cells[i]
        constant = sign * (x @ weights[rows]) - q * dual
        low = -constant - q * C_
        high = -constant
        for _ in range(60):
            u = 0.5 * (low + high)
            is_above = u + constant + q * C_ / (1.0 + np.exp(-u)) > 0
            low = np.where(is_above, low, u)
            high = np.where(is_above, u, high)

        changes = C_ / (1.0 + np.exp(-u)) - dual
        work[MOVED] += abs(changes) / (C_ + 1e-30)
        cells[i, DUAL] += changes
        cells[i, LOGIT] = u
        weights[rows] += variances * np.outer(x, sign * changes)
