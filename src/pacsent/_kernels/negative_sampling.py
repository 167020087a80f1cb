"""Kernels of the methods with negative sampling. Nothing here draws a random number of its own.

`rule` is the tuple (limits, starts, nodes, weights) of `logistic_posterior.quadrature_rule`: for
variances up to limits[i], the Gauss-Hermite nodes starts[i]:starts[i + 1]; beyond the last limit
an alternating series. Sums may be reassociated by the compiler (`reassoc`), nothing else.
"""

import math

import numpy as np
from numba import njit

_F = np.float32
_SQRT_HALF = math.sqrt(0.5)
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
_FLAGS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}


# ------------------------------------------------------------------------------------------------
# Expectations of the logistic loss
# ------------------------------------------------------------------------------------------------


@njit(**_FLAGS)
def _erfcx(t):
    """e^(t^2) erfc(t) for t >= 0."""
    if t < 25.0:
        return math.exp(t * t) * math.erfc(t)
    inverse = 1.0 / (t * t)
    return (1.0 - 0.5 * inverse * (1.0 - 1.5 * inverse)) / (t * math.sqrt(math.pi))


@njit(**_FLAGS)
def _tail(a, s, z, k):
    """E[e^(-kx); x > 0], as in logistic._tail."""
    t = (k * s - z) * _SQRT_HALF
    if t > 0.0:
        return 0.5 * math.exp(-0.5 * z * z) * _erfcx(t)
    return 0.5 * math.exp(k * (0.5 * k * s * s - a)) * math.erfc(t)


@njit(**_FLAGS)
def expected_logistic(a, v, rule):
    """(f, f1, f2) for one score x ~ N(a, v), as logistic.gaussian_logistic."""
    limits, starts, nodes, weights, series = rule
    f = 0.0
    f1 = 0.0
    f2 = 0.0
    level = 0
    while level < limits.size and v > limits[level]:
        level += 1
    if level == limits.size:
        s = math.sqrt(v)
        z = a / s
        phi = 0.5 * math.erfc(-z * _SQRT_HALF)
        f = a * phi + s * math.exp(-0.5 * z * z) / _ROOT_TWO_PI
        f1 = phi
        for i in range(series.size):
            k = i + 1.0
            above = _tail(a, s, z, k)
            below = _tail(-a, s, -z, k)
            f += series[i] * (above + below) / k
            f1 += series[i] * (below - above)
            f2 += series[i] * k * (above + below)
        return f, f1, f2
    s = math.sqrt(v)
    for j in range(starts[level], starts[level + 1]):
        x = a + s * nodes[j]
        e = math.exp(-abs(x))
        p = 1.0 / (1.0 + e)  # sigmoid(|x|)
        f += weights[j] * (max(x, 0.0) + math.log1p(e))
        f1 += weights[j] * (p if x >= 0.0 else e * p)
        f2 += weights[j] * e * p * p
    return f, f1, f2


@njit(**_FLAGS)
def expected_sigmoid(a, v, rule):
    """(f1, f2) alone, which needs no logarithm."""
    limits, starts, nodes, weights, _ = rule
    level = 0
    while level < limits.size and v > limits[level]:
        level += 1
    if level == limits.size:
        _, f1, f2 = expected_logistic(a, v, rule)
        return f1, f2
    f1 = 0.0
    f2 = 0.0
    s = math.sqrt(v)
    for j in range(starts[level], starts[level + 1]):
        x = a + s * nodes[j]
        e = math.exp(-abs(x))
        p = 1.0 / (1.0 + e)
        f1 += weights[j] * (p if x >= 0.0 else e * p)
        f2 += weights[j] * e * p * p
    return f1, f2


# ------------------------------------------------------------------------------------------------
# PB-neg: the two halves of the data term, for many sentences
# ------------------------------------------------------------------------------------------------


@njit(**_FLAGS)
def noise_terms(scores, var_Q, nu, kp, rule, value, trace):
    """Overwrite scores a with kp * f1(a, v), v = var_Q * nu; sums of kp f and kp nu f2 per row.

    f, f1, f2 = gaussian_logistic(scores, var_Q[:, None] * nu)
    value[:] = f @ kp;  trace[:] = f2 @ (kp * nu);  scores[:] = kp * f1
    """
    for s in range(scores.shape[0]):
        total = 0.0
        spread = 0.0
        for u in range(scores.shape[1]):
            f, f1, f2 = expected_logistic(scores[s, u], var_Q[s] * nu[u], rule)
            total += kp[u] * f
            spread += kp[u] * nu[u] * f2
            scores[s, u] = kp[u] * f1
        value[s] = total
        trace[s] = spread


@njit(**_FLAGS)
def true_terms(counts, table, mu, var_Q, rule, grad, value, trace):
    """Add the loss of the sentences' own words, in place; table = (A, nu), no value if it is empty.

    counts = (rows, indptr, indices, weights), some rows of a sparse matrix; W is their dense form:
    f, f1, f2 = gaussian_logistic(mu @ A.T, v);  v = var_Q[:, None] * nu
    value += (W * (f - mu @ A.T)).sum(1); grad += (W * (f1 - 1)) @ A; trace += (W * f2) @ nu
    """
    rows, indptr, indices, weights = counts
    A, nu = table
    n_dims = A.shape[1]
    cell = np.zeros(2, mu.dtype)  # numbers of mu's own type, so that loops stay in one precision
    for s in range(mu.shape[0]):
        total = 0.0
        spread = 0.0
        mean, slope = mu[s], grad[s]
        for j in range(indptr[rows[s]], indptr[rows[s] + 1]):
            w = indices[j]
            row = A[w]
            a = cell[0]
            for d in range(n_dims):
                a += mean[d] * row[d]
            v = float(var_Q[s] * nu[w])
            if value.size:
                f, f1, f2 = expected_logistic(float(a), v, rule)
                total += weights[j] * (f - a)
            else:
                f1, f2 = expected_sigmoid(float(a), v, rule)
            spread += weights[j] * nu[w] * f2
            cell[1] = weights[j] * (f1 - 1.0)
            step = cell[1]
            for d in range(n_dims):
                slope[d] += step * row[d]
        if value.size:
            value[s] += total
        trace[s] += spread


# ------------------------------------------------------------------------------------------------
# PB-neg, fast: single precision, a sample of the noise words with a control variate
# ------------------------------------------------------------------------------------------------


@njit(inline="always", **_FLAGS)
def _sigmoid32(x):
    """1 / (1 + e^-x) to 4e-6 relative, in operations that the compiler turns into vectors."""
    t = x * _F(-1.4426950408889634)
    t = _F(-125.0) if t < _F(-125.0) else t
    t = _F(125.0) if t > _F(125.0) else t
    shifted = t + _F(12582912.0)  # 1.5 * 2^23: the last bits now hold round(t)
    r = t - (shifted - _F(12582912.0))
    p = _F(0.0013333558)  # 2^r on [-1/2, 1/2]
    p = p * r + _F(0.009618129)
    p = p * r + _F(0.05550411)
    p = p * r + _F(0.24022651)
    p = p * r + _F(0.6931472)
    p = p * r + _F(1.0)
    whole = np.int32(np.float32(shifted).view(np.int32) - np.int32(0x4B400000) + np.int32(127))
    return _F(1.0) / (_F(1.0) + p * np.int32(whole << np.int32(23)).view(np.float32))


@njit(**_FLAGS)
def _small_variance32(scores, shifts, v, f1, f2):
    """f1, f2 = gaussian_logistic(scores + shifts, 2 * v)[1:] for v <= 0.1, in place.

    Taylor: E g(a + sqrt(2v) Z) = g + v g^(2) + v^2/2 g^(4) + v^3/6 g^(6) + ...
    """
    for i in range(scores.size):
        x = _sigmoid32(scores[i] + shifts[i])
        p = x * (_F(1.0) - x)
        q = p * (_F(1.0) - x - x)
        # sigmoid^(n) = p gn for odd n, q gn for even n
        g3 = _F(1.0) - _F(6.0) * p
        g4 = _F(1.0) - _F(12.0) * p
        g5 = _F(1.0) + p * (_F(-30.0) + _F(120.0) * p)
        g6 = _F(1.0) + p * (_F(-60.0) + _F(360.0) * p)
        g7 = _F(1.0) + p * (_F(-126.0) + p * (_F(1680.0) - _F(5040.0) * p))
        v2 = v[i] * _F(0.5)
        v3 = v[i] * _F(0.33333334)
        f1[i] = x + v[i] * q * (_F(1.0) + v2 * (g4 + v3 * g6))
        f2[i] = p * (_F(1.0) + v[i] * (g3 + v2 * (g5 + v3 * g7)))


@njit(**_FLAGS)
def _one_node32(scores, shifts, deviation, node, weight, f1, f2):
    """Add one Gauss-Hermite node to f1 and f2, in place."""
    for i in range(scores.size):
        x = _sigmoid32(scores[i] + shifts[i] + deviation[i] * node)
        f1[i] += weight * x
        f2[i] += weight * x * (_F(1.0) - x)


@njit(**_FLAGS)
def sampled_noise_terms(shifts, var_Q, centre, sample, rule, trace, error):
    """Overwrite shifts d with w * (f1 - control); sums for the trace and for the error per row.

    centre = (var_0, a, b0, b1, b2, t0, t1, t2); sample = (nu, w, e), sorted by nu; D = var_Q-var_0
    f, f1, f2 = gaussian_logistic(a + shifts, var_Q[:, None] * nu)
    rest = f1 - b0 - b1 * shifts - b2 * D[:, None]
    trace[:] = (f2 - t0 - t1 * shifts - t2 * D[:, None]) @ (w * nu)
    error[:] = rest**2 @ e;  shifts[:] = w * rest
    """
    var_0, a, b0, b1, b2, t0, t1, t2 = centre
    nu, w, e = sample
    limits, starts, nodes, weights, _ = rule
    size = 512
    buffer = np.empty((3, size), np.float32)
    trace[:] = 0.0
    error[:] = 0.0
    for begin in range(0, nu.size, size):
        end = min(begin + size, nu.size)
        f1, f2, spare = buffer[0, : end - begin], buffer[1, : end - begin], buffer[2, : end - begin]
        a_, nu_, w_, e_ = a[begin:end], nu[begin:end], w[begin:end], e[begin:end]
        b0_, b1_, b2_ = b0[begin:end], b1[begin:end], b2[begin:end]
        t0_, t1_, t2_ = t0[begin:end], t1[begin:end], t2[begin:end]
        for s in range(shifts.shape[0]):
            var = _F(var_Q[s])
            D = _F(var_Q[s] - var_0)
            d = shifts[s, begin:end]
            largest = var * nu_[-1]
            if largest <= _F(0.2):
                for i in range(spare.size):
                    spare[i] = _F(0.5) * var * nu_[i]
                _small_variance32(a_, d, spare, f1, f2)
            else:
                level = 0
                while level < limits.size - 1 and largest > limits[level]:
                    level += 1
                for i in range(spare.size):
                    spare[i] = math.sqrt(var * nu_[i])
                    f1[i] = _F(0.0)
                    f2[i] = _F(0.0)
                for j in range(starts[level], starts[level + 1]):
                    _one_node32(a_, d, spare, _F(nodes[j]), _F(weights[j]), f1, f2)
            spread = _F(0.0)
            squares = _F(0.0)
            for i in range(d.size):
                rest = f1[i] - b0_[i] - b1_[i] * d[i] - b2_[i] * D
                spread += w_[i] * nu_[i] * (f2[i] - t0_[i] - t1_[i] * d[i] - t2_[i] * D)
                squares += e_[i] * rest * rest
                d[i] = w_[i] * rest
            trace[s] += spread
            error[s] += squares
