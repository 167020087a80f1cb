"""Class probabilities from decision values, and their mean loss."""

import numpy as np
from numpy.typing import ArrayLike

_BATCH_ROWS = 1024  # whose values at all temperatures are held at a time


def log_probabilities(decisions: ArrayLike, inverse_temperature: ArrayLike) -> np.ndarray:
    """Logarithms of class probabilities, (n, n_classes).

    decisions (n, 1) are of two classes, log-odds of the second; (n, n_classes) are of each class
    against the rest. They are multiplied by the inverse temperature, then normalised to sum to one.
    Of several inverse temperatures, the probabilities are averaged.
    """
    decisions = np.asarray(decisions, np.float64)
    scales = np.atleast_1d(inverse_temperature)
    if scales.size == 1:
        return _normalized(decisions * scales[0])

    n, n_columns = decisions.shape
    total = np.empty((n, max(n_columns, 2)))
    for start in range(0, n, _BATCH_ROWS):
        rows = slice(start, start + _BATCH_ROWS)
        scaled = decisions[rows] * scales[:, None, None]  # (n_scales, n_rows, n_columns)
        total[rows] = np.logaddexp.reduce(_normalized(scaled), axis=0)
    return total - np.log(scales.size)


def _normalized(z):
    """Logarithms of class probabilities from decision values; classes are the last axis."""
    if z.shape[-1] == 1:
        return -np.logaddexp(0.0, np.concatenate([z, -z], axis=-1))
    z = z - z.max(axis=-1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def log_loss(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray, inverse_temperature: float = 1.0
) -> float:
    """Mean of -ln(probability of the right class)."""
    right = log_probabilities(decisions, inverse_temperature)[np.arange(len(labels)), labels]
    return float(-(weights * right).sum() / weights.sum())
