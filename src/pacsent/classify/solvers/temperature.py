"""Temperature scaling: calibrated class probabilities from decision values.

With few labels the temperature itself is uncertain: probabilities are averaged over its posterior.
"""

import numpy as np
from scipy.special import ndtri

from pacsent.certify.scores import log_loss, log_probabilities
from pacsent.classify.options import MAX_FEW_CLASSES

_LOWEST, _HIGHEST = -4.0, 5.0  # logarithms of the inverse temperature
_STEPS, _SETTLED = 60, 1e-9  # most steps to the best temperature; relative change that ends them
_N_NODES = 9  # temperatures that are averaged
_CERTAIN = 0.02  # standard deviation of the logarithm below which one temperature is enough


def fit_inverse_temperature(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> float:
    """The inverse temperature that maximises the likelihood of the labels.

    The decision values must come from a model that was not fitted on these texts.
    """
    low, high = np.exp([_LOWEST, _HIGHEST])
    if _slope_and_curvature(decisions, labels, weights, high)[0] <= 0:  # as where all are right
        return float(high)
    if _slope_and_curvature(decisions, labels, weights, low)[0] >= 0:
        return float(low)
    scale = 1.0
    for _ in range(_STEPS):  # of Newton's; one that leaves the interval is replaced by its middle
        slope, curvature = _slope_and_curvature(decisions, labels, weights, scale)
        step = slope / curvature if curvature > 0 else np.inf
        if abs(step) <= _SETTLED * scale:
            break
        low, high = (scale, high) if slope < 0 else (low, scale)
        scale = scale - step if low < scale - step < high else np.sqrt(low * high)
    return float(scale)


def _slope_and_curvature(decisions, labels, weights, scale):
    """Derivatives of `log_loss`, which is convex, with respect to the inverse temperature."""
    proba = np.exp(log_probabilities(decisions, scale))
    if decisions.shape[1] == 1:
        decisions = np.hstack([np.zeros_like(decisions), decisions])
    mean = (proba * decisions).sum(axis=1)
    variance = (proba * (decisions - mean[:, None]) ** 2).sum(axis=1)
    share = weights / weights.sum()
    return share @ (mean - decisions[np.arange(len(labels)), labels]), share @ variance


def inverse_temperatures(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Inverse temperatures at even steps of their posterior; one alone where it is certain.

    The prior is flat in the logarithm. The decision values must come from models that were not
    fitted on these texts.
    """
    best = np.log(fit_inverse_temperature(decisions, labels, weights))
    quantiles = (np.arange(_N_NODES) + 0.5) / _N_NODES
    if decisions.shape[1] > MAX_FEW_CLASSES:  # the loss at every step of a grid would take long
        # The loss as a parabola of the logarithm, whose second derivative is this at the best one.
        curvature = _slope_and_curvature(decisions, labels, weights, np.exp(best))[1]
        deviation = 1.0 / np.sqrt(labels.size * max(np.exp(2 * best) * curvature, 1e-12))
        nodes = np.clip(best + deviation * ndtri(quantiles), _LOWEST, _HIGHEST)
        return np.exp(nodes if nodes.std() > _CERTAIN else [best])

    grid = np.unique(np.clip(best + np.linspace(-3.0, 3.0, 121), _LOWEST, _HIGHEST))
    losses = np.array([log_loss(decisions, labels, weights, np.exp(point)) for point in grid])
    density = np.exp(-labels.size * (losses - losses.min()))
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    nodes = np.interp(quantiles, mass / mass[-1], grid)
    return np.exp(nodes if nodes.std() > _CERTAIN else [best])
