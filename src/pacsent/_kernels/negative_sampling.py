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
def true_terms(counts, A, mu, var_Q, rule, grad, value, trace):
    """Add the loss of the sentences' own words, in place.

    counts = (rows, indptr, indices, weights), some rows of a sparse matrix; W is their dense form:
    f, f1, f2 = gaussian_logistic(mu @ A.T, v);  v = var_Q[:, None] * nu,  nu = (A * A).sum(1)
    value += (W * (f - mu @ A.T)).sum(1); grad += (W * (f1 - 1)) @ A; trace += (W * f2) @ nu
    """
    rows, indptr, indices, weights = counts
    n_dims = A.shape[1]
    cell = np.zeros(2, mu.dtype)  # numbers of mu's own type, so that loops stay in one precision
    for s in range(mu.shape[0]):
        total = 0.0
        spread = 0.0
        for j in range(indptr[rows[s]], indptr[rows[s] + 1]):
            w = indices[j]
            a = cell[0]
            nu = cell[0]
            for d in range(n_dims):
                a += mu[s, d] * A[w, d]
                nu += A[w, d] * A[w, d]
            f, f1, f2 = expected_logistic(float(a), float(var_Q[s] * nu), rule)
            total += weights[j] * (f - a)
            spread += weights[j] * nu * f2
            cell[1] = weights[j] * (f1 - 1.0)
            step = cell[1]
            for d in range(n_dims):
                grad[s, d] += step * A[w, d]
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
    n_words = nu.size
    size = 512
    f1 = np.empty(size, np.float32)
    f2 = np.empty(size, np.float32)
    for s in range(shifts.shape[0]):
        var = _F(var_Q[s])
        D = _F(var_Q[s] - var_0)
        spread = 0.0
        squares = 0.0
        for begin in range(0, n_words, size):
            n = min(size, n_words - begin)
            largest = var * nu[begin + n - 1]
            if largest <= _F(0.2):
                # Taylor in v: E g(a + sqrt(v) Z) = g + v/2 g'' + v^2/8 g + v^3/48 g'' ...
                for i in range(n):
                    u = begin + i
                    v = _F(0.5) * var * nu[u]
                    x = _sigmoid32(a[u] + shifts[s, u])
                    p = x * (_F(1.0) - x)
                    q = p * (_F(1.0) - x - x)
                    v3 = v * _F(0.33333334)
                    v2 = v * _F(0.5)
                    # sigmoid^(n) = p gn for odd n, q gn for even n
                    g3 = _F(1.0) - _F(6.0) * p
                    g4 = _F(1.0) - _F(12.0) * p
                    g5 = _F(1.0) + p * (_F(-30.0) + _F(120.0) * p)
                    g6 = _F(1.0) + p * (_F(-60.0) + _F(360.0) * p)
                    g7 = _F(1.0) + p * (_F(-126.0) + p * (_F(1680.0) - _F(5040.0) * p))
                    f1[i] = x + v * q * (_F(1.0) + v2 * (g4 + v3 * g6))
                    f2[i] = p * (_F(1.0) + v * (g3 + v2 * (g5 + v3 * g7)))
            else:
                level = 0
                while level < limits.size - 1 and largest > limits[level]:
                    level += 1
                for i in range(n):
                    f1[i] = _F(0.0)
                    f2[i] = _F(0.0)
                for j in range(starts[level], starts[level + 1]):
                    node = _F(nodes[j])
                    weight = _F(weights[j])
                    for i in range(n):
                        u = begin + i
                        x = _sigmoid32(a[u] + shifts[s, u] + _F(math.sqrt(var * nu[u])) * node)
                        f1[i] += weight * x
                        f2[i] += weight * x * (_F(1.0) - x)
            block_spread = _F(0.0)
            block_squares = _F(0.0)
            for i in range(n):
                u = begin + i
                d = shifts[s, u]
                rest = f1[i] - b0[u] - b1[u] * d - b2[u] * D
                block_spread += w[u] * nu[u] * (f2[i] - t0[u] - t1[u] * d - t2[u] * D)
                block_squares += e[u] * rest * rest
                shifts[s, u] = w[u] * rest
            spread += block_spread
            squares += block_squares
        trace[s] = spread
        error[s] = squares
