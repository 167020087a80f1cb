"""Weights of words by their frequency p, and linear maps that damp what all words share."""

import numpy as np
from numpy.typing import ArrayLike

_BLOCK_ROWS = 1 << 14  # rows of a table worked on at once
_TINY = np.finfo(float).tiny

# Variances of dimensions are raised to this fraction of the largest before a division by them.
_MIN_RELATIVE_VARIANCE = 1e-9


def sif_weights(p: ArrayLike, a: float) -> np.ndarray:
    """Smooth inverse frequency, a / (a + p): frequent words weigh less.

    Parameters
    ----------
    p : array, shape (n_words,)
        Fraction of each word in the corpus.
    a : float
        The frequency at which a word weighs one half.

    Returns
    -------
    weights : array, shape (n_words,)

    References
    ----------
    Arora, Liang and Ma (2017), A simple but tough-to-beat baseline for sentence embeddings.
    """
    return a / (a + np.asarray(p, dtype=float))


def usif_a(p: ArrayLike, n_tokens: float) -> float:
    """The `a` of unsupervised SIF, from the vocabulary and a sentence's length.

        threshold = 1 - (1 - 1/n_words)^n_tokens,  alpha = fraction of words with p > threshold
        a = (1 - alpha) / (alpha * n_words / 2)

    Its weights are a / (a/2 + p).

    Parameters
    ----------
    p : array, shape (n_words,)
        Fraction of each word in the corpus.
    n_tokens : float
        Tokens of a typical sentence.

    Returns
    -------
    a : float

    References
    ----------
    Ethayarajh (2018), Unsupervised random walk sentence embeddings.
    """
    p = np.asarray(p, dtype=float)
    threshold = -np.expm1(n_tokens * np.log1p(-1.0 / max(p.size, 2)))
    n_above = int(np.count_nonzero(p > threshold))
    alpha = max(n_above, 1) / p.size

    # Where every word is above the threshold nothing is left to smooth.
    smoothed_fraction = max(1.0 - alpha, 1.0 / p.size)
    return smoothed_fraction / (alpha * 0.5 * p.size)


def heaviest(q: np.ndarray, mass: float = 0.95) -> np.ndarray:
    """The fewest rows that have this fraction of the sum of the weights `q`, in order.

    Parameters
    ----------
    q : array, shape (n_rows,)
        Weights, 0 or more.
    mass : float, default=0.95

    Returns
    -------
    rows : array of int
        Increasing.
    """
    order = np.argsort(-q, kind="stable")
    total = np.cumsum(q[order])
    n_rows = 1 + np.searchsorted(total, mass * total[-1])
    return np.sort(order[:n_rows])


def moments(table: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and second moment of the rows of `table` under the weights `q`, in float64.

    Parameters
    ----------
    table : array, shape (n_rows, n_dims)
    q : array, shape (n_rows,)
        Weights that sum to 1.

    Returns
    -------
    mean : array, shape (n_dims,)
    second : array, shape (n_dims, n_dims)
    """
    n_dims = table.shape[1]
    mean = np.zeros(n_dims)
    second = np.zeros((n_dims, n_dims))
    for start in range(0, len(q), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        rows = np.asarray(table[block], dtype=np.float32)
        block_weights = np.asarray(q[block], dtype=np.float32)
        weighted = rows * block_weights[:, None]
        mean += weighted.sum(axis=0, dtype=float)
        second += weighted.T @ rows
    return mean, second


def sentence_moment(mean: np.ndarray, second: np.ndarray, n_tokens: float) -> np.ndarray:
    """Second moment of the mean of `n_tokens` independent rows with these moments.

    Parameters
    ----------
    mean : array, shape (n_dims,)
    second : array, shape (n_dims, n_dims)
    n_tokens : float

    Returns
    -------
    second : array, shape (n_dims, n_dims)
    """
    return second / n_tokens + (1.0 - 1.0 / n_tokens) * np.outer(mean, mean)


def main_directions(second: np.ndarray, n_directions: int) -> tuple[np.ndarray, np.ndarray]:
    """The first eigenvectors of a second moment, and the fraction of each in their eigenvalues.

    Parameters
    ----------
    second : array, shape (n_dims, n_dims)
    n_directions : int
        At most n_dims are returned.

    Returns
    -------
    directions : array, shape (n_directions, n_dims)
        With a positive largest entry, so that signs are the same on every machine.
    fractions : array, shape (n_directions,)
        Of the sum of the eigenvalues of these directions.
    """
    n_directions = min(n_directions, len(second))
    eigenvalues, eigenvectors = np.linalg.eigh(second)  # smallest first
    values = np.maximum(eigenvalues[::-1][:n_directions], 0.0)
    vectors = eigenvectors[:, ::-1][:, :n_directions]  # (n_dims, n_directions)

    largest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[largest, np.arange(n_directions)])
    directions = (vectors * signs).T.copy()
    fractions = values / max(values.sum(), _TINY)
    return directions, fractions


def main_plane(vectors: np.ndarray) -> np.ndarray:
    """Coordinates on the first two principal components, (n, 2); (0, 0) of a single vector.

    Parameters
    ----------
    vectors : array, shape (n, n_dims)

    Returns
    -------
    coordinates : array, shape (n, 2)
    """
    X = np.asarray(vectors, dtype=np.float32)
    coordinates = np.zeros((len(X), 2))
    if len(X) == 0:
        return coordinates

    centre = X.mean(axis=0, dtype=np.float64)
    second = X.T.astype(np.float64) @ X / len(X)
    directions, _ = main_directions(second - np.outer(centre, centre), 2)
    plane = directions.T  # (n_dims, 2), or (1, 1) for vectors of one number
    coordinates[:, : plane.shape[1]] = X @ plane - centre @ plane
    return coordinates


def damping(mean: np.ndarray, second: np.ndarray, aperture: float) -> np.ndarray:
    """The map x -> x D that evens out dimensions and damps what the rows share.

        s_d^2 = variance of dimension d,  R = second moment of x/s, divided by its mean eigenvalue
        D = diag(1/s) (I + aperture^2 R)^-1

    Parameters
    ----------
    mean : array, shape (n_dims,)
    second : array, shape (n_dims, n_dims)
    aperture : float
        How strongly shared directions are damped; 0 only rescales dimensions.

    Returns
    -------
    D : array, shape (n_dims, n_dims)

    References
    ----------
    The second factor is the negation of a conceptor of this aperture: Liu, Ungar and Sedoc (2019),
    Unsupervised post-processing of word vectors via conceptor negation.
    """
    variances = np.diag(second) - mean**2
    floor = max(_MIN_RELATIVE_VARIANCE * variances.max(initial=0.0), _TINY)
    scale = 1.0 / np.sqrt(np.maximum(variances, floor))  # 1/s

    R = second * np.outer(scale, scale)
    R /= max(np.trace(R) / len(R), _TINY)
    negation = np.linalg.inv(np.eye(len(R)) + aperture**2 * R)
    return scale[:, None] * negation
