"""Kernel: logistic regressions on sparse and dense features, by coordinate ascent in the dual.

    minimise over w:   sum_j w_j^2 / (2 v_j) + sum_i C_i log(1 + exp(-s_i x_i.w)),   s_i = +-1

One coordinate is one text. With a_i in (0, C_i) the weights are w_j = v_j sum_i a_i s_i x_ij; the
best a_i, all others held, is C_i / (1 + exp(-u)) where u solves

    u + s_i x_i.w + q_i (C_i / (1 + exp(-u)) - a_i) = 0,   q_i = sum_j v_j x_ij^2

which rises in u, so a few steps of Newton inside a bracket find it. Several problems that share
texts stand side by side as columns, with their own C, scale of the dense part, signs, and fold that
is left out: a row of sparse weights is read once for all, and all that is done for a column is
vector code over the columns.

`ridge_epoch` is the same for squares, sum_i C_i (y_i - x_i.w)^2 / 2: the weights are w_j = v_j
sum_i a_i x_ij, and the best a_i is a_i + (C_i (y_i - x_i.w) - a_i) / (1 + q_i C_i).
"""

import numpy as np

from pacsent._kernels.compiling import njit

LANES = 8  # a multiple of this is the best number of columns
_ROUNDS = 15  # of two steps of Newton; one is nearly always enough
_CLOSE = np.float32(1e-2)  # squares of the last steps, summed: what is left is about their squares
_ONE, _HALF = np.float32(1.0), np.float32(0.5)
_LIMIT, _PART = np.float32(30.0), np.float32(1.0 / 512.0)
_TERMS = tuple(np.float32(1.0 / n) for n in (6, 24, 120))
_VECTORS = {
    "cache": True, "nogil": True, "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz"},
}  # fmt: skip


@njit(**_VECTORS, forceinline=True)
def _exp_minus(u):
    """exp(-u) to a relative 3e-5 where |u| < 30, without a branch: loops of it become vector code.

    exp(x) = exp(x / 512)^512, by a polynomial and nine squarings.
    """
    x = min(max(-u, -_LIMIT), _LIMIT) * _PART
    e = _ONE + x * (_ONE + x * (_HALF + x * (_TERMS[0] + x * (_TERMS[1] + x * _TERMS[2]))))
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


@njit(**_VECTORS, forceinline=True)
def _newton(rest, qC, u, low, high):
    """One step towards the root of u + rest + qC / (1 + exp(-u)) within (low, high).

    Returns (u, low, high, step). The numerator and the denominator of the step are multiplied by
    (1 + exp(-u))^2, which saves two divisions.
    """
    e = _exp_minus(u)
    above = (u + rest) * (_ONE + e) + qC  # has the sign of the function
    step = above * (_ONE + e) / ((_ONE + e) * (_ONE + e) + qC * e)
    high = u if above > 0 else high
    low = low if above > 0 else u
    new = u - step
    middle = _HALF * (low + high)
    new = new if new >= low else middle
    new = new if new <= high else middle
    return new, low, high, step


@njit(**_VECTORS)
def _best(margin, q, C, a, u):
    """The roots u above, one for each column, from the u before, in place; single precision."""
    for _ in range(_ROUNDS):
        moved = np.float32(0.0)
        for c in range(u.size):
            rest, qC = margin[c] - q[c] * a[c], q[c] * C[c]
            low, high = -rest - qC, -rest
            v = u[c]
            v = v if v >= low else _HALF * (low + high)
            v = v if v <= high else _HALF * (low + high)
            v, low, high, step = _newton(rest, qC, v, low, high)
            v, low, high, step = _newton(rest, qC, v, low, high)
            u[c] = v
            moved += step * step
        if moved < _CLOSE:
            break


@njit(**_VECTORS)
def epoch(rows, order, texts, columns, state, work, moved):
    """One pass over the texts in `order`, in place; `moved` becomes the sums of |a change| / C.

    rows is (indptr, indices, data, dense): sparse and dense features, data with the prior's
    standard deviations multiplied in; texts is (whether positive (n, n_columns), weights (n,),
    folds (n,)); columns is (C, dense variances, folds left out, variance of the intercept), all but
    the last (n_columns,); state is (sparse weights (n_features, n_columns), dense weights
    (n_dims, n_columns), intercepts, a and u (n, n_columns)); work is room, (8, n_columns), and
    moved (n_columns,), made by the caller because `np.zeros` takes half a second to compile.
    Everything real is float32, but `moved`.
    """
    indptr, indices, data, dense = rows
    positive, text_weights, folds = texts
    Cs, dense_variances, left_out, bias_variance = columns
    sparse_w, dense_w, intercepts, dual, logits = state
    n_columns = Cs.size
    z, change, margin, q, C, a, u, sign = (
        work[0], work[1], work[2], work[3], work[4], work[5], work[6], work[7],
    )  # fmt: skip
    for c in range(n_columns):
        moved[c] = 0.0
    for place in range(order.size):
        i = order[place]
        weight = text_weights[i]
        if weight <= 0:
            continue
        for c in range(n_columns):  # assigning whole arrays would compile their error messages too
            z[c], a[c], u[c] = intercepts[c], dual[i, c], logits[i, c]
        q_sparse = _add_sparse(indptr[i], indptr[i + 1], indices, data, sparse_w, z)
        q_dense = _add_dense(dense[i], dense_w, z)
        fold = folds[i]
        for c in range(n_columns):
            sign[c] = _ONE if positive[i, c] else -_ONE
            C[c] = np.float32(0.0) if left_out[c] == fold else Cs[c] * weight
        for c in range(n_columns):
            q[c] = q_sparse + dense_variances[c] * q_dense + bias_variance
            margin[c] = sign[c] * z[c]
        _best(margin, q, C, a, u)
        for c in range(n_columns):
            logits[i, c] = u[c]
        total = np.float32(0.0)
        for c in range(n_columns):
            step = C[c] / (_ONE + _exp_minus(u[c])) - a[c]
            change[c] = sign[c] * step
            share = abs(step) / (Cs[c] * weight)
            moved[c] += share
            total += share
        if total < 1e-5:
            continue
        for c in range(n_columns):
            dual[i, c] = a[c] + sign[c] * change[c]
        for c in range(n_columns):
            intercepts[c] += bias_variance * change[c]
        _change_sparse(indptr[i], indptr[i + 1], indices, data, sparse_w, change)
        _change_dense(dense[i], dense_w, dense_variances, change)


@njit(**_VECTORS)
def ridge_epoch(rows, order, texts, columns, state, work, moved):
    """As `epoch` for squares; `moved` becomes the sums of |residual change|.

    texts is (targets, weights, folds), each (n,); u is not used.
    """
    indptr, indices, data, dense = rows
    targets, text_weights, folds = texts
    Cs, dense_variances, left_out, bias_variance = columns
    sparse_w, dense_w, intercepts, dual, _ = state
    n_columns = Cs.size
    z, change = work[0], work[1]
    for c in range(n_columns):
        moved[c] = 0.0
    for place in range(order.size):
        i = order[place]
        weight, fold = text_weights[i], folds[i]
        for c in range(n_columns):
            z[c] = intercepts[c]
        q_sparse = _add_sparse(indptr[i], indptr[i + 1], indices, data, sparse_w, z)
        q_dense = _add_dense(dense[i], dense_w, z)
        for c in range(n_columns):
            C = np.float32(0.0) if left_out[c] == fold else Cs[c] * weight
            q = q_sparse + dense_variances[c] * q_dense + bias_variance
            change[c] = (C * (targets[i] - z[c]) - dual[i, c]) / (_ONE + q * C)
            dual[i, c] += change[c]
            intercepts[c] += bias_variance * change[c]
            moved[c] += abs(change[c]) / (Cs[c] * weight)
        _change_sparse(indptr[i], indptr[i + 1], indices, data, sparse_w, change)
        _change_dense(dense[i], dense_w, dense_variances, change)


@njit(**_VECTORS)
def _add_sparse(first, last, indices, data, sparse_w, z):
    """z += the text's features times their weights, in place; the sum of the features' squares."""
    q = np.float32(0.0)
    t = first
    while t + 1 < last:  # two at a time: z is read and written half as often
        x, y = data[t], data[t + 1]
        j, k = np.uint64(indices[t]), np.uint64(indices[t + 1])
        q += x * x + y * y
        for c in range(z.size):
            z[c] += x * sparse_w[j, c] + y * sparse_w[k, c]
        t += 2
    if t < last:
        x, j = data[t], np.uint64(indices[t])
        q += x * x
        for c in range(z.size):
            z[c] += x * sparse_w[j, c]
    return q


@njit(**_VECTORS)
def _change_sparse(first, last, indices, data, sparse_w, change):
    """The weights of the text's features += feature times change, in place."""
    for t in range(first, last):
        x, j = data[t], np.uint64(indices[t])
        for c in range(change.size):
            sparse_w[j, c] += x * change[c]


@njit(**_VECTORS)
def _change_dense(row, dense_w, variances, change):
    """The weights of the text's vector += vector times change times variance, in place."""
    for c in range(change.size):
        change[c] *= variances[c]
    for d in range(row.size):
        x = row[d]
        for c in range(change.size):
            dense_w[d, c] += x * change[c]


@njit(**_VECTORS)
def _add_dense(row, dense_w, z):
    """z += row @ dense_w, in place; the sum of the row's squares."""
    q = np.float32(0.0)
    for d in range(row.size):
        x = row[d]
        q += x * x
        for c in range(z.size):
            z[c] += x * dense_w[d, c]
    return q
