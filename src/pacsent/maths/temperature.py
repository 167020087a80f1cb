"""Temperature scaling: calibrated class probabilities from decision values."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp


def log_probabilities(decisions: np.ndarray, inverse_temperature: float) -> np.ndarray:
    """Logarithms of class probabilities, (n, n_classes).

    decisions (n, 1) are of two classes, log-odds of the second; (n, n_classes) are of each class
    against the rest. They are multiplied by the inverse temperature,
    then normalised to sum to one.

    Examples
    --------
    >>> import numpy as np
    >>> np.exp(log_probabilities([[0.0]], inverse_temperature=1.0))
    array([[0.5, 0.5]])
    """
    z = np.asarray(decisions, np.float64) * inverse_temperature
    if z.shape[1] == 1:
        return -np.logaddexp(0.0, np.hstack([z, -z]))
    return z - logsumexp(z, axis=1, keepdims=True)


def log_loss(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray, inverse_temperature: float = 1.0
) -> float:
    """Mean of -ln(probability of the right class).

    Examples
    --------
    >>> import numpy as np
    >>> round(log_loss(np.array([[0.0]]), np.array([1]), np.ones(1)), 4)
    0.6931
    """
    right = log_probabilities(decisions, inverse_temperature)[np.arange(len(labels)), labels]
    return float(-(weights * right).sum() / weights.sum())


def fit_inverse_temperature(
    decisions: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> float:
    """The inverse temperature that maximises the likelihood of the labels.

    The decision values must come from a model that was not fitted on these texts.

    Examples
    --------
    >>> import numpy as np
    >>> decisions, labels = np.array([[4.0], [4.0], [4.0], [-4.0]]), np.array([1, 1, 0, 0])
    >>> fit_inverse_temperature(decisions, labels, np.ones(4)) < 1  # overconfident
    True
    """

    def loss(log_temperature):
        return log_loss(decisions, labels, weights, np.exp(log_temperature))

    return float(np.exp(minimize_scalar(loss, bounds=(-4.0, 5.0), method="bounded").x))
