"""The plane on which vectors differ most: the first two principal components."""

import numpy as np


def main_plane(vectors: np.ndarray) -> np.ndarray:
    """Coordinates on the first two principal components of the vectors, (n, 2).

    The sign of a component is chosen so that its largest loading is positive: the same vectors give
    the same picture everywhere. A single vector has the coordinates (0, 0).

    >>> main_plane(np.array([[0.0, 0.0, 1.0], [4.0, 0.0, 1.0], [2.0, 1.0, 1.0]])).round(2).tolist()
    [[-2.0, -0.33], [2.0, -0.33], [0.0, 0.67]]
    """
    X = np.asarray(vectors, dtype=np.float32)
    if not len(X):
        return np.zeros((0, 2))
    centre = X.mean(axis=0, dtype=np.float64)
    covariance = X.T.astype(np.float64) @ X / len(X) - np.outer(centre, centre)
    _, directions = np.linalg.eigh(covariance)
    plane = directions[:, ::-1][:, :2]
    signs = np.sign(plane[np.abs(plane).argmax(axis=0), np.arange(plane.shape[1])])
    plane = plane * np.where(signs == 0, 1.0, signs)
    found = np.zeros((len(X), 2))
    found[:, : plane.shape[1]] = X @ plane - centre @ plane
    return found
