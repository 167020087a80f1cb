"""Class probabilities from decision values, and their mean loss."""

import numpy as np
from numpy.typing import ArrayLike


def log_probabilities(decisions: ArrayLike, inverse_temperature: ArrayLike) -> np.ndarray:
    """Logarithms of class probabilities, (n, n_classes).

    decisions (n, 1) are of two classes, log-odds of the second; (n, n_classes) are of each class
    against the rest. They are multiplied by the inverse temperature, then normalised to sum to one.
    Of several inverse temperatures, the probabilities are averaged.
    """
    decisions, scales = np.asarray(decisions, np.float64), np.atleast_1d(inverse_temperature)
    total = _normalized(decisions * scales[0])
    for scale in scales[1:]:
        total = np.logaddexp(total, _normalized(decisions * scale))
    return total - np.log(scales.size) if scales.size > 1 else total


def _normalized(z):
    if z.shape[1] == 1:
        return -np.logaddexp(0.0, np.hstack([z, -z]))
    z = z - z.max(axis=1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


def log_loss(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray, inverse_temperature: float = 1.0
) -> float:
    """Mean of -ln(probability of the right class)."""
    right = log_probabilities(decisions, inverse_temperature)[np.arange(len(labels)), labels]
    return float(-(weights * right).sum() / weights.sum())
