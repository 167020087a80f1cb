"""Gaussian expectations of the logistic loss: a score x ~ N(a, v), and what it costs on average.

    f(a, v)  = E softplus(x)              the expected loss of a negative with score x
    f1(a, v) = E sigmoid(x)     = df/da
    f2(a, v) = E sigmoid'(x)    = d2f/da2 = 2 df/dv

A true word costs E softplus(-x) = f(-a, v) = f(a, v) - a. All are accurate to about 1e-12. The
compiled version of the fast solver, in single precision, is in `pacsent.kernels.pb_neg`.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.special import erfc, erfcx, expit, ndtr

from pacsent.arrays import Numbers

# Gauss-Hermite nodes that keep f, f1 and f2 within 1e-12 up to a variance, measured for |a| <= 6;
# beyond the last variance a series takes over.
_NODES = ((0.01, 8), (0.09, 12), (0.25, 20), (1.0, 32))

_FIT_TERMS = (7, 5)  # powers of 4 p (1 - p), and of the variance, in a fit


@lru_cache
def gauss_hermite(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Hermite rule: E g(Z) = sum weights * g(nodes) for Z ~ N(0, 1).

    Parameters
    ----------
    n_nodes : int

    Returns
    -------
    nodes, weights : array, shape (n_nodes,)
    """
    nodes, weights = np.polynomial.hermite.hermgauss(n_nodes)
    return nodes * np.sqrt(2.0), weights / np.sqrt(np.pi)


@lru_cache
def alternating_weights(n_terms: int = 24) -> np.ndarray:
    """Weights c_k with sum_k (-1)^k t_k = sum_k c_k t_k to 5.8^-n for a moment sequence t.

    Parameters
    ----------
    n_terms : int, default=24
        n above.

    Returns
    -------
    weights : array, shape (n_terms,)

    References
    ----------
    Cohen, Villegas and Zagier (2000), Convergence acceleration of alternating series, algorithm 1.
    """
    scale = (3.0 + np.sqrt(8.0)) ** n_terms
    scale = (scale + 1.0 / scale) / 2.0
    weights = np.empty(n_terms)
    b = -1.0
    c = -scale
    for k in range(n_terms):
        c = b - c
        weights[k] = c / scale
        b *= (k + n_terms) * (k - n_terms) / ((k + 0.5) * (k + 1.0))
    return weights


def gaussian_logistic(a: Numbers, v: Numbers) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Expected softplus, sigmoid and sigmoid' of a Gaussian score x ~ N(a, v).

    Parameters
    ----------
    a : float or array
        Means.
    v : float or array
        Variances, 0 or more. Both broadcast.

    Returns
    -------
    f, f1, f2 : array
        See the top of this module.

    References
    ----------
    Theorem 5 of docs/theory.md.

    Examples
    --------
    >>> f, f1, f2 = gaussian_logistic(0.7, 150.0)
    >>> round(float(f), 9), round(float(f1), 9)
    (5.297096194, 0.522544957)
    """
    a, v = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(v, dtype=float))
    if np.any(v < 0):
        raise ValueError(f"v must be a variance, 0 or more. Got {v.min()} instead.")

    # A quadrature with more nodes the wider the Gaussian is; beyond them, a series.
    out = np.empty((3, *a.shape))
    low = -np.inf
    for limit, n_nodes in _NODES:
        inside = (v > low) & (v <= limit)
        if inside.any():
            out[:, inside] = _quadrature(a[inside], v[inside], n_nodes)
        low = limit
    wide = v > low
    if wide.any():
        out[:, wide] = _series(a[wide], v[wide])
    return out[0], out[1], out[2]


def higher_derivatives(a: Numbers, v: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """Expected second and third derivative of the sigmoid at x ~ N(a, v).

    By Gauss-Hermite quadrature with 32 nodes. Only used for control variates, which need no
    accuracy of their own.

    Parameters
    ----------
    a, v : float or array
        Means and variances.

    Returns
    -------
    f3, f4 : array
        E sigmoid''(x) and E sigmoid'''(x).
    """
    f3, f4 = np.zeros((2, *np.shape(a)))
    deviation = np.sqrt(v)
    for node, weight in zip(*gauss_hermite(32)):
        s = expit(a + deviation * node)
        s1 = s * (1.0 - s)
        f3 += weight * s1 * (1.0 - 2.0 * s)
        f4 += weight * s1 * (1.0 - 6.0 * s1)
    return f3, f4


@lru_cache
def sigmoid_fits() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(starts, scales, coefficients): E sigmoid(x), x ~ N(a, v), for kernels; within 1e-5.

    For starts[j] <= v <= 2 starts[j], with p = sigmoid(scales[j] a), P = p (1 - p) and t = 2 v /
    starts[j] - 3, a number in [-1, 1],

        E sigmoid(x) = p + P (1 - 2p) sum_km coefficients[j, k, m] (4 P)^k t^m

    and E sigmoid'(x) is its derivative in a. The starts are sqrt(2) apart, so that variances within
    a factor of sqrt(2) of each other have a fit in common. `scripts/make_sigmoid_fits.py` made the
    table; it ships, so that results do not depend on the library that solves least squares.

    Returns
    -------
    starts, scales : array of float32, shape (34,)
    coefficients : array of float32, shape (34, 7, 5)
    """
    text = Path(__file__).with_name("sigmoid_fits.txt").read_text()
    lines = text.splitlines()[1:]  # without the header
    table = np.array([line.split() for line in lines], dtype=float).astype(np.float32)
    starts = table[:, 0].copy()
    scales = table[:, 1].copy()
    coefficients = table[:, 2:].reshape(len(table), *_FIT_TERMS)
    return starts, scales, np.ascontiguousarray(coefficients)


def _quadrature(
    a: np.ndarray, v: np.ndarray, n_nodes: int = 32
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(f, f1, f2) by Gauss-Hermite quadrature, every term written so that nothing overflows."""
    f, f1, f2 = np.zeros((3, *a.shape))
    deviation = np.sqrt(v)
    for node, weight in zip(*gauss_hermite(n_nodes)):
        x = a + deviation * node
        e = np.exp(-np.abs(x))
        p = 1.0 / (1.0 + e)  # sigmoid(|x|)
        f += weight * (np.maximum(x, 0.0) + np.log1p(e))
        f1 += weight * np.where(x >= 0, p, e * p)
        f2 += weight * (e * p * p)
    return f, f1, f2


def _series(a: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def _tail(a: np.ndarray, s: np.ndarray, z: np.ndarray, k: float) -> np.ndarray:
    """E[e^(-kx); x > 0] = e^(-ka + k^2 v/2) Phi(z - ks), where neither factor may overflow."""
    t = (k * s - z) / np.sqrt(2.0)
    # For t > 0: e^(-z^2/2) erfcx(t)/2, the same number with the exponents joined.
    out = 0.5 * np.exp(-0.5 * z * z) * erfcx(np.maximum(t, 0.0))
    apart = t < 0
    exponent = k * (0.5 * k * s[apart] ** 2 - a[apart])
    out[apart] = 0.5 * np.exp(exponent) * erfc(t[apart])
    return out
