"""Class probabilities from decision values, and their mean loss."""

import numpy as np
from numpy.typing import ArrayLike

_BATCH_ROWS = 1024  # whose values at all temperatures are held at a time


def log_probabilities(decisions: ArrayLike, inverse_temperature: ArrayLike) -> np.ndarray:
    """Logarithms of class probabilities, (n, n_classes).

    Decision values are multiplied by the inverse temperature, then normalised so that the
    probabilities sum to one. Of several inverse temperatures, the probabilities are averaged.

    Parameters
    ----------
    decisions : array
        (n, 1) are of two classes, log-odds of the second; (n, n_classes) are of each class against
        the others.
    inverse_temperature : float, or array, (n_temperatures,)

    Returns
    -------
    array, (n, n_classes)
    """
    decisions = np.asarray(decisions, np.float64)
    scales = np.atleast_1d(inverse_temperature)
    if scales.size == 1:
        return _normalize(decisions * scales[0])

    n, n_columns = decisions.shape
    n_classes = max(n_columns, 2)
    total = np.empty((n, n_classes))
    for start in range(0, n, _BATCH_ROWS):
        rows = slice(start, start + _BATCH_ROWS)
        scaled = decisions[rows] * scales[:, None, None]  # (n_scales, n_rows, n_columns)
        log_proba = _normalize(scaled)
        total[rows] = np.logaddexp.reduce(log_proba, axis=0)
    return total - np.log(scales.size)


def _normalize(z: np.ndarray) -> np.ndarray:
    """Logarithms of class probabilities from decision values; classes are the last axis."""
    if z.shape[-1] == 1:
        log_odds_against = np.concatenate([z, -z], axis=-1)
        return -np.logaddexp(0.0, log_odds_against)

    shifted = z - z.max(axis=-1, keepdims=True)
    sums = np.exp(shifted).sum(axis=-1, keepdims=True)
    return shifted - np.log(sums)


def log_loss(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray, inverse_temperature: float = 1.0
) -> float:
    """Mean of -ln(probability of the right class).

    Parameters
    ----------
    decisions, inverse_temperature : see `log_probabilities`
    labels : array of int, (n,)
    weights : array, (n,)

    Returns
    -------
    float
    """
    log_proba = log_probabilities(decisions, inverse_temperature)  # (n, n_classes)
    of_right_class = log_proba[np.arange(len(labels)), labels]
    return float(-(weights * of_right_class).sum() / weights.sum())
