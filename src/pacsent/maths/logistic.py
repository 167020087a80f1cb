"""Gaussian expectations of the logistic loss: a score x ~ N(a, v), and what it costs on average.

    f(a, v)  = E softplus(x)              the expected loss of a noise word with score x
    f1(a, v) = E sigmoid(x)     = df/da
    f2(a, v) = E sigmoid'(x)    = d2f/da2 = 2 df/dv

A true word costs E softplus(-x) = f(-a, v) = f(a, v) - a. All are accurate to about 1e-12. The
compiled versions that the solvers use are in `_kernels/negative_sampling.py`.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import erfc, erfcx, expit, ndtr

from pacsent.maths.arrays import Numbers

_SERIES_ABOVE = 1.0  # v beyond which Gauss-Hermite needs too many nodes for 1e-12
_N_TERMS = 24  # of the alternating series; its error falls as 5.8^-n


def softplus(x: Numbers) -> Any:
    """log(1 + e^x), without overflow.

    Examples
    --------
    >>> round(float(softplus(0.0)), 6)
    0.693147
    """
    return np.logaddexp(0.0, x)


def sigmoid(x: Numbers) -> Any:
    """1 / (1 + e^-x), without overflow.

    Examples
    --------
    >>> float(sigmoid(0.0)), float(sigmoid(-800.0))
    (0.5, 0.0)
    """
    return expit(x)


@lru_cache
def gauss_hermite(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """(nodes, weights) with E g(Z) = sum weights * g(nodes) for Z ~ N(0, 1).

    Examples
    --------
    >>> nodes, weights = gauss_hermite(3)
    >>> round(float((weights * nodes**2).sum()), 6)  # the variance of a standard normal
    1.0
    """
    nodes, weights = np.polynomial.hermite.hermgauss(n_nodes)
    nodes, weights = nodes * np.sqrt(2.0), weights / np.sqrt(np.pi)
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def n_nodes_for(largest_variance: float, precision: float = 1e-12) -> int:
    """Gauss-Hermite nodes that keep f and f1 within `precision` up to this variance.

    The rows were measured for |a| <= 6; the last entry of each keeps f2 as well. Beyond the last
    row the error is larger; use `gaussian_logistic`, which changes to a series there.

    Examples
    --------
    >>> n_nodes_for(0.01) < n_nodes_for(1.0)
    True
    """
    deviation = np.sqrt(largest_variance)
    for limit, wanted in (
        (0.1, ((2e-9, 3), (1e-13, 8))),
        (0.3, ((2e-6, 3), (1e-9, 5), (1e-13, 12))),
        (0.5, ((3e-5, 3), (1e-7, 5), (5e-10, 8), (2e-13, 20))),
        (1.0, ((5e-5, 5), (1e-6, 8), (6e-8, 12), (3e-11, 20), (1e-14, 32))),
        (2.0, ((5e-5, 12), (3e-6, 20), (1e-7, 32), (1e-10, 64))),
        (3.0, ((1e-4, 20), (1e-5, 32), (1e-7, 64))),
        (5.0, ((8e-4, 32), (2e-5, 64))),
    ):
        if deviation <= limit:
            for error, n_nodes in wanted:
                if error <= precision:
                    return n_nodes
            return wanted[-1][1]
    return 96


@lru_cache
def alternating_weights(n_terms: int = _N_TERMS) -> np.ndarray:
    """Weights c_k with sum_k (-1)^k t_k = sum_k c_k t_k to 5.8^-n for a moment sequence t.

    Cohen, Villegas and Zagier (2000), Convergence acceleration of alternating series, algorithm 1.
    """
    scale = (3.0 + np.sqrt(8.0)) ** n_terms
    scale = (scale + 1.0 / scale) / 2.0
    b, c, weights = -1.0, -scale, np.empty(n_terms)
    for k in range(n_terms):
        c = b - c
        weights[k] = c / scale
        b *= (k + n_terms) * (k - n_terms) / ((k + 0.5) * (k + 1.0))
    weights.flags.writeable = False
    return weights


def gaussian_logistic(a: Numbers, v: Numbers) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(f, f1, f2): expected softplus, sigmoid and sigmoid' of x ~ N(a, v).

    Parameters
    ----------
    a, v : arrays that broadcast against each other
        Mean and variance of the score; v >= 0.

    Returns
    -------
    f, f1, f2 : arrays of the broadcast shape

    Examples
    --------
    >>> f, f1, f2 = gaussian_logistic(0.7, 150.0)
    >>> round(float(f), 9), round(float(f1), 9)
    (5.297096194, 0.522544957)
    """
    a, v = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(v, dtype=float))
    if np.any(v < 0):
        raise ValueError(f"v must be a variance, 0 or more. Got {v.min()} instead.")
    out = np.empty((3, *a.shape))
    wide = v > _SERIES_ABOVE
    if wide.any():
        out[:, wide] = _series(a[wide], v[wide])
    narrow = ~wide
    if narrow.any():
        out[:, narrow] = _quadrature(a[narrow], v[narrow])
    return out[0], out[1], out[2]


def higher_derivatives(a: Numbers, v: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """(f3, f4) = (E sigmoid''(x), E sigmoid'''(x)) for x ~ N(a, v), by 64 Gauss-Hermite nodes.

    Only used for control variates, which need no accuracy of their own.
    """
    f3, f4 = np.zeros(np.shape(a)), np.zeros(np.shape(a))
    deviation = np.sqrt(v)
    nodes, weights = gauss_hermite(n_nodes_for(float(np.max(v, initial=0.0)), 1e-6))
    for node, weight in zip(nodes, weights):
        s = expit(a + deviation * node)
        s1 = s * (1.0 - s)
        f3 += weight * s1 * (1.0 - 2.0 * s)
        f4 += weight * s1 * (1.0 - 6.0 * s1)
    return f3, f4


def _quadrature(a, v):
    nodes, weights = gauss_hermite(n_nodes_for(float(v.max())))
    f, f1, f2 = np.zeros(a.shape), np.zeros(a.shape), np.zeros(a.shape)
    deviation = np.sqrt(v)
    for node, weight in zip(nodes, weights):
        x = a + deviation * node
        s = expit(x)
        f += weight * softplus(x)
        f1 += weight * s
        f2 += weight * s * expit(-x)
    return f, f1, f2


def _series(a, v):
    """relu part + E of sum_k (-1)^(k+1) e^(-k|x|)/k, each term an exact Gaussian integral."""
    s = np.sqrt(v)
    z = a / s
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    f = a * ndtr(z) + s * density
    f1 = ndtr(z)
    f2 = np.zeros(a.shape)
    for i, weight in enumerate(alternating_weights()):
        k = i + 1.0
        above = _tail(a, s, z, k)  # E e^(-kx), x > 0
        below = _tail(-a, s, -z, k)  # E e^(kx), x < 0
        f += weight * (above + below) / k
        f1 += weight * (below - above)
        f2 += weight * k * (above + below)
    return f, f1, f2


def _tail(a, s, z, k):
    """E[e^(-kx); x > 0] = e^(-ka + k^2 v/2) Phi(z - ks), where neither factor may overflow."""
    t = (k * s - z) / np.sqrt(2.0)
    # for t > 0: e^(-z^2/2) erfcx(t)/2, the same number with the exponents joined
    joined = 0.5 * np.exp(-0.5 * z * z) * erfcx(np.maximum(t, 0.0))
    exponent = np.where(t > 0, 0.0, k * (0.5 * k * s * s - a))
    apart = np.exp(exponent) * 0.5 * erfc(np.minimum(t, 0.0))
    return np.where(t > 0, joined, apart)
