"""Weights of words by their frequency p, and linear maps that damp what all words share."""

import numpy as np
from numpy.typing import ArrayLike

_BLOCK = 1 << 14  # rows of a table handled at once


def sif_weights(p: ArrayLike, a: float) -> np.ndarray:
    """Smooth inverse frequency, a / (a + p): frequent words weigh less (Arora et al., 2017)."""
    return a / (a + np.asarray(p, dtype=float))


def usif_a(p: ArrayLike, n_tokens: float) -> float:
    """The `a` of unsupervised SIF, from the vocabulary and a sentence's length (Ethayarajh, 2018).

        threshold = 1 - (1 - 1/n_words)^n_tokens,  alpha = share of words with p > threshold
        a = (1 - alpha) / (alpha * n_words / 2)

    Its weights are a / (a/2 + p).
    """
    p = np.asarray(p, dtype=float)
    threshold = -np.expm1(n_tokens * np.log1p(-1.0 / max(p.size, 2)))
    alpha = max(int(np.count_nonzero(p > threshold)), 1) / p.size
    # where every word is above the threshold nothing is left to smooth
    return max(1.0 - alpha, 1.0 / p.size) / (alpha * 0.5 * p.size)


def heaviest(q: np.ndarray, mass: float = 0.95) -> np.ndarray:
    """The fewest rows that hold this share of the weights `q`, in order."""
    order = np.argsort(-q, kind="stable")
    total = np.cumsum(q[order])
    return np.sort(order[: 1 + np.searchsorted(total, mass * total[-1])])


def moments(table: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mean, second moment) of the rows of `table` under the weights `q`, in float64."""
    n_dims = table.shape[1]
    mean, second = np.zeros(n_dims), np.zeros((n_dims, n_dims))
    for start in range(0, len(q), _BLOCK):
        rows = np.asarray(table[start : start + _BLOCK], dtype=np.float32)
        weighted = rows * np.asarray(q[start : start + _BLOCK], dtype=np.float32)[:, None]
        mean += weighted.sum(axis=0, dtype=float)
        second += weighted.T @ rows
    return mean, second


def sentence_moment(mean: np.ndarray, second: np.ndarray, n_tokens: float) -> np.ndarray:
    """Second moment of the mean of `n_tokens` independent rows with these moments."""
    return second / n_tokens + (1.0 - 1.0 / n_tokens) * np.outer(mean, mean)


def main_directions(second: np.ndarray, n_directions: int) -> tuple[np.ndarray, np.ndarray]:
    """(directions, shares): the first eigenvectors, and the part of each in their sum of values."""
    n_directions = min(n_directions, len(second))
    values, vectors = np.linalg.eigh(second)
    values, vectors = values[::-1][:n_directions], vectors[:, ::-1][:, :n_directions]
    values = np.maximum(values, 0.0)
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(n_directions)])  # one sign, everywhere
    return vectors.T.copy(), values / max(values.sum(), np.finfo(float).tiny)


def main_plane(vectors: np.ndarray) -> np.ndarray:
    """Coordinates on the first two principal components, (n, 2); (0, 0) of a single vector."""
    X = np.asarray(vectors, dtype=np.float32)
    coordinates = np.zeros((len(X), 2))
    if len(X):
        centre = X.mean(axis=0, dtype=np.float64)
        covariance = X.T.astype(np.float64) @ X / len(X) - np.outer(centre, centre)
        plane = main_directions(covariance, 2)[0].T
        coordinates[:, : plane.shape[1]] = X @ plane - centre @ plane
    return coordinates


def damping(mean: np.ndarray, second: np.ndarray, aperture: float) -> np.ndarray:
    """The map x -> x D that evens out dimensions and damps what the rows share.

        s_d^2 = variance of dimension d,  R = second moment of x/s, divided by its mean eigenvalue
        D = diag(1/s) (I + aperture^2 R)^-1

    The second factor is the negation of a conceptor of this aperture (Liu et al., 2019).
    """
    variance = np.diag(second) - mean**2
    floor = max(1e-9 * variance.max(initial=0.0), np.finfo(float).tiny)
    scale = 1.0 / np.sqrt(np.maximum(variance, floor))
    R = second * np.outer(scale, scale)
    R /= max(np.trace(R) / len(R), np.finfo(float).tiny)
    return scale[:, None] * np.linalg.inv(np.eye(len(R)) + aperture**2 * R)
