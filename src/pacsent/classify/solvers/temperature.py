"""Temperature scaling: calibrated class probabilities from decision values.

With few labels the temperature itself is uncertain: probabilities are averaged over its posterior.
"""

import numpy as np
from scipy.special import ndtri

from pacsent.certify.scores import log_loss, log_probabilities
from pacsent.classify.options import MAX_FEW_CLASSES

# Logarithms of the smallest and the largest inverse temperature.
_MIN_LOG_SCALE = -4.0
_MAX_LOG_SCALE = 5.0
# Newton's steps to the best temperature at most, and the relative change that ends them.
_MAX_STEPS = 60
_TOLERANCE = 1e-9
# Temperatures that are averaged.
_N_NODES = 9
# Standard deviation of the logarithm below which one temperature is enough.
_MIN_DEVIATION = 0.02
# Points of the grid on which the posterior of the logarithm is integrated, and its half-width.
_N_GRID_POINTS = 121
_GRID_HALF_WIDTH = 3.0


def fit_inverse_temperature(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> float:
    """The inverse temperature that maximises the likelihood of the labels.

    The decision values must come from a model that was not fitted on these texts.
    """
    low, high = np.exp([_MIN_LOG_SCALE, _MAX_LOG_SCALE])
    slope_at_high, _ = _slope_and_curvature(decisions, labels, weights, high)
    if slope_at_high <= 0:  # for example if all predictions are right
        return float(high)

    slope_at_low, _ = _slope_and_curvature(decisions, labels, weights, low)
    if slope_at_low >= 0:
        return float(low)

    # Newton's method; a step that leaves the interval is replaced by the interval's middle.
    scale = 1.0
    for _ in range(_MAX_STEPS):
        slope, curvature = _slope_and_curvature(decisions, labels, weights, scale)
        step = slope / curvature if curvature > 0 else np.inf
        if abs(step) <= _TOLERANCE * scale:
            break

        if slope < 0:
            low = scale
        else:
            high = scale

        is_inside = low < scale - step < high
        scale = scale - step if is_inside else np.sqrt(low * high)
    return float(scale)


def _slope_and_curvature(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray, scale: float
) -> tuple[float, float]:
    """Derivatives of `log_loss`, which is convex, with respect to the inverse temperature."""
    proba = np.exp(log_probabilities(decisions, scale))  # (n, n_classes)
    if decisions.shape[1] == 1:
        decisions = np.hstack([np.zeros_like(decisions), decisions])
    label_decisions = decisions[np.arange(len(labels)), labels]  # (n,)

    # Of each text, the mean and the variance of the decision values under its probabilities, (n,).
    mean = (proba * decisions).sum(axis=1)
    deviations = decisions - mean[:, None]
    variance = (proba * deviations**2).sum(axis=1)

    fractions = weights / weights.sum()
    return fractions @ (mean - label_decisions), fractions @ variance


def inverse_temperatures(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Inverse temperatures at even steps of their posterior; one alone where it is certain.

    The prior is flat in the logarithm. The decision values must come from models that were not
    fitted on these texts.
    """
    best = np.log(fit_inverse_temperature(decisions, labels, weights))
    quantiles = (np.arange(_N_NODES) + 0.5) / _N_NODES

    # With many classes, the loss at every point of a grid would take long.
    if decisions.shape[1] > MAX_FEW_CLASSES:
        deviation = _posterior_deviation(decisions, labels, weights, best)
        nodes = np.clip(best + deviation * ndtri(quantiles), _MIN_LOG_SCALE, _MAX_LOG_SCALE)
    else:
        nodes = _posterior_quantiles(decisions, labels, weights, best, quantiles)

    is_uncertain = nodes.std() > _MIN_DEVIATION
    return np.exp(nodes if is_uncertain else [best])


def _posterior_deviation(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray, best: float
) -> float:
    """Standard deviation of the logarithm, if the loss is a parabola of it around the best one."""
    scale = np.exp(best)
    _, curvature = _slope_and_curvature(decisions, labels, weights, scale)
    log_curvature = np.exp(2 * best) * curvature  # second derivative by the logarithm
    return 1.0 / np.sqrt(labels.size * max(log_curvature, 1e-12))


def _posterior_quantiles(
    decisions: np.ndarray,
    labels: np.ndarray,
    weights: np.ndarray,
    best: float,
    quantiles: np.ndarray,
) -> np.ndarray:
    """Quantiles of the logarithm by its posterior on a grid around the best one, (n_quantiles,)."""
    offsets = np.linspace(-_GRID_HALF_WIDTH, _GRID_HALF_WIDTH, _N_GRID_POINTS)
    grid = np.unique(np.clip(best + offsets, _MIN_LOG_SCALE, _MAX_LOG_SCALE))
    losses = np.array([log_loss(decisions, labels, weights, np.exp(point)) for point in grid])
    density = np.exp(-labels.size * (losses - losses.min()))

    # The distribution function by the trapezoidal rule.
    mean_density = (density[1:] + density[:-1]) / 2
    mass = np.cumsum(mean_density * np.diff(grid))
    distribution = np.concatenate([[0.0], mass])
    return np.interp(quantiles, distribution / distribution[-1], grid)
