"""Kernel: logistic regressions on sparse and dense features, by coordinate ascent in the dual.

    minimise over w:   sum_j w_j^2 / (2 v_j) + sum_i C_i log(1 + exp(-s_i x_i.w)),   s_i = +-1

One coordinate is one text. With a_i in (0, C_i) the weights are w_j = v_j sum_i a_i s_i x_ij; the
best a_i, all others held, is C_i / (1 + exp(-u)) where u solves

    u + s_i x_i.w + q_i (C_i / (1 + exp(-u)) - a_i) = 0,   q_i = sum_j v_j x_ij^2

which rises in u, so a few steps of Newton inside a bracket find it. Several problems that share
texts stand side by side as columns, with their own C, scale of the dense part, signs, and fold that
is left out: a row of sparse weights is read once for all, and all that is done for a column is
vector code over the columns.

The kernel is one function of few arrays because it then takes less time to compile.
"""

import numpy as np

from pacsent.kernels.compiling import njit
from pacsent.kernels.intrinsics import add_outer_8, add_outer_16, add_products_8, add_products_16

LANES = 8  # a multiple of this is the best number of columns
DUAL, LOGIT, C, SIGN, SQUARES = range(5)  # the cells of a text: a, u, C, s, q
VARIANCES, MOVED = range(2)  # rows of `work` that are not only room
N_WORK = 6
_STEPS = 30  # of Newton; two are nearly always enough
_CLOSE = np.float32(1e-2)  # squares of the last steps, summed: what is left is about their squares
_ZERO, _ONE, _HALF = np.float32(0.0), np.float32(1.0), np.float32(0.5)
_LIMIT, _PART = np.float32(30.0), np.float32(1.0 / 512.0)
_THIRD, _FOURTH, _FIFTH = (np.float32(1.0 / n) for n in (6, 24, 120))
_TINY = np.float32(1e-30)
_FASTMATH = {"contract", "reassoc", "nsz"}
_VECTORS = {"nogil": True, "error_model": "numpy", "fastmath": _FASTMATH}


@njit(**_VECTORS, forceinline=True)
def _exp_minus(u):
    """exp(-u) to a relative 3e-5 where |u| < 30, without a branch: loops of it become vector code.

    exp(x) = exp(x / 512)^512, by a polynomial and nine squarings.
    """
    x = _LIMIT if u < -_LIMIT else -u
    x = _PART * (-_LIMIT if x < -_LIMIT else x)
    e = _ONE + x * (_ONE + x * (_HALF + x * (_THIRD + x * (_FOURTH + x * _FIFTH))))
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    return e


@njit(**_VECTORS, cache=True)
def epoch(features, order, cells, weights, work):
    """One pass over the texts in `order`, in place.

    features are indptr, indices and data of the sparse part, the dense part (n, n_dims), and the
    rows of its weights. cells is (n, 5, n_columns), see `DUAL`; C is 0 where a column leaves a text
    out. weights is (n_features + n_dims + 1, n_columns), the intercept last. work is (N_WORK,
    n_columns): the variances of the dense weights, then the sums of |a change| / C of this pass,
    then room. Everything real is float32.
    """
    indptr, indices, data, dense, dense_rows = features
    n_columns, intercept = weights.shape[1], weights.shape[0] - 1
    n_wide, whole = n_columns // 16 * 16, (0, dense.shape[1])
    variances, moved, z, constant, low, high = work[0], work[1], work[2], work[3], work[4], work[5]
    for c in range(n_columns):
        moved[c] = _ZERO
    for i in order:
        dual, logit, C, sign, q = cells[i, 0], cells[i, 1], cells[i, 2], cells[i, 3], cells[i, 4]
        vector, sparse = dense[i], (indptr[i], indptr[i + 1])
        for c in range(n_columns):
            z[c] = weights[intercept, c]
        for c in range(0, n_wide, 16):
            add_products_16(z, c, weights, indices, data, sparse)
            add_products_16(z, c, weights, dense_rows, vector, whole)
        if n_wide < n_columns:
            add_products_8(z, n_wide, weights, indices, data, sparse)
            add_products_8(z, n_wide, weights, dense_rows, vector, whole)
        for c in range(n_columns):
            constant[c] = sign[c] * z[c] - q[c] * dual[c]
            low[c], high[c] = -constant[c] - q[c] * C[c], -constant[c]
        for step in range(_STEPS):  # to the root of u + constant + qC / (1 + exp(-u))
            far = _ZERO
            for c in range(n_columns):
                u, middle = logit[c], _HALF * (low[c] + high[c])
                u = u if u >= low[c] else middle
                u = u if u <= high[c] else middle
                e, qC = _ONE + _exp_minus(u), q[c] * C[c]
                above = (u + constant[c]) * e + qC  # has the sign of the function
                by = above * e / (e * e + qC * (e - _ONE))
                high[c] = u if above > _ZERO else high[c]
                low[c] = low[c] if above > _ZERO else u
                logit[c] = u - by
                far += by * by
            if step > 0 and far < _CLOSE:
                break
        for c in range(n_columns):
            z[c] = C[c] / (_ONE + _exp_minus(logit[c])) - dual[c]
        total = _ZERO
        for c in range(n_columns):
            share = abs(z[c]) / (C[c] + _TINY)
            moved[c] += share
            total += share
        if total < 1e-5:
            continue
        for c in range(n_columns):
            dual[c] += z[c]
            z[c] *= sign[c]
            weights[intercept, c] += z[c]
        for c in range(0, n_wide, 16):
            add_outer_16(z, c, weights, indices, data, sparse)
        if n_wide < n_columns:
            add_outer_8(z, n_wide, weights, indices, data, sparse)
        for c in range(n_columns):
            z[c] *= variances[c]
        for c in range(0, n_wide, 16):
            add_outer_16(z, c, weights, dense_rows, vector, whole)
        if n_wide < n_columns:
            add_outer_8(z, n_wide, weights, dense_rows, vector, whole)
