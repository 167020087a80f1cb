"""Kernel: logistic regressions on sparse and dense features, by coordinate ascent in the dual.

    minimise over w:   sum_j w_j^2 / (2 v_j) + sum_i C_i log(1 + exp(-s_i x_i.w)),   s_i = +-1

One coordinate is one text. With a_i in (0, C_i) the weights are w_j = v_j sum_i a_i s_i x_ij; the
best a_i, all others held, is C_i / (1 + exp(-u)) where u solves

    u + s_i x_i.w + q_i (C_i / (1 + exp(-u)) - a_i) = 0,   q_i = sum_j v_j x_ij^2

which rises in u, so a few steps of Newton inside a bracket find it. Several problems that share
texts and signs stand side by side as columns: a row of sparse weights is read once for all.
"""

import numpy as np

from pacsent._kernels.compiling import njit

_STEPS = 30


@njit(cache=True, nogil=True, inline="always")
def _best(margin, q, C, a, u):
    """The root u above, from the u before."""
    low, high = -margin - q * max(C - a, 0.0), -margin + q * max(a, 0.0)
    if not low <= u <= high:
        u = 0.5 * (low + high)
    for _ in range(_STEPS):
        p = 1.0 / (1.0 + np.exp(-u))
        g = u + margin + q * (C * p - a)
        if g > 0:
            high = u
        else:
            low = u
        step = g / (1.0 + q * C * p * (1.0 - p))
        u -= step
        if abs(step) < 1e-3:
            break
        if not low < u < high:
            u = 0.5 * (low + high)
    return u


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def epoch(rows, order, signs, problem, state):
    """One pass over the texts in `order`, in place; for each column the mean of |a change| / C.

    rows is (indptr, indices, data, dense): sparse and dense features, data with the prior's
    standard deviations multiplied in; signs (n,) of +-1; problem is (C (n_columns,), text weights
    (n,), dense variances (n_columns,), variance of the intercept); state is (sparse weights
    (n_features, n_columns), dense weights (n_dims, n_columns), intercepts, a and u (n, n_columns)).
    """
    indptr, indices, data, dense = rows
    Cs, text_weights, dense_variances, bias_variance = problem
    sparse_w, dense_w, intercepts, dual, logits = state
    n_columns = Cs.size
    n_dims = dense.shape[1]
    z = np.empty(n_columns, np.float32)
    change = np.empty(n_columns, np.float32)
    moved = np.zeros(n_columns)
    for place in range(order.size):
        i = order[place]
        if text_weights[i] <= 0:
            continue
        sign = np.float64(signs[i])
        z[:] = intercepts
        q_sparse = 0.0
        for t in range(indptr[i], indptr[i + 1]):
            x = data[t]
            q_sparse += x * x
            w = sparse_w[indices[t]]
            for c in range(n_columns):
                z[c] += x * w[c]
        q_dense = 0.0
        for d in range(n_dims):
            x = dense[i, d]
            q_dense += x * x
            w = dense_w[d]
            for c in range(n_columns):
                z[c] += x * w[c]
        largest = 0.0
        for c in range(n_columns):
            C = Cs[c] * text_weights[i]
            q = q_sparse + dense_variances[c] * q_dense + bias_variance
            u = _best(sign * z[c], q, C, np.float64(dual[i, c]), np.float64(logits[i, c]))
            a = C / (1.0 + np.exp(-u))
            step = a - dual[i, c]
            dual[i, c] = a
            logits[i, c] = u
            moved[c] += abs(step) / C
            largest = max(largest, abs(step) / C)
            change[c] = sign * step
        if largest < 1e-5:
            for c in range(n_columns):
                dual[i, c] -= sign * change[c]
            continue
        for c in range(n_columns):
            intercepts[c] += bias_variance * change[c]
        for t in range(indptr[i], indptr[i + 1]):
            x = data[t]
            w = sparse_w[indices[t]]
            for c in range(n_columns):
                w[c] += x * change[c]
        for c in range(n_columns):
            change[c] *= dense_variances[c]
        for d in range(n_dims):
            x = dense[i, d]
            w = dense_w[d]
            for c in range(n_columns):
                w[c] += x * change[c]
    return moved / max(order.size, 1)
