"""Make the table of fits to the expected sigmoid that PB-neg's fast solver reads.

    python scripts/make_sigmoid_fits.py

For a score x ~ N(a, v) and start <= v <= 2 start, with p = sigmoid(scale a), P = p (1 - p) and
t = 2 v / start - 3, a number in [-1, 1],

    E sigmoid(x) = p + P (1 - 2p) sum_km coefficients[k, m] (4 P)^k t^m

is fitted by least squares at Chebyshev nodes of a and t. The starts are sqrt(2) apart, so that
variances within a factor of sqrt(2) of each other have a fit in common.
"""

from pathlib import Path

import numpy as np
from scipy.special import expit

from pacsent.sentences.solvers.logistic import gaussian_logistic

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "src" / "pacsent" / "sentences" / "solvers" / "sigmoid_fits.txt"

# Variances that are fitted: 0.1 * 2^(j/2), up to 18,000. Below, the kernel uses Taylor's series.
FIRST_START = 0.1
N_FITS = 34

N_POWERS = 7  # of 4 P
N_VARIANCE_POWERS = 5  # of t

N_SCORE_NODES = 72
N_VARIANCE_NODES = 7


def chebyshev_nodes(n: int) -> np.ndarray:
    """n nodes in [-1, 1]."""
    return np.cos(np.pi * (np.arange(n) + 0.5) / n)


def scale_of(start: float) -> float:
    """Factor of the score: sigmoid(scale a) is near the expected sigmoid.

    1 and 1/2 for small variances: sigmoid(a) and its derivatives are rational functions of
    sigmoid(a/2). For others, the usual approximation at the middle of the variances.
    """
    if start < 0.19:
        return 1.0
    if start < 0.75:
        return 0.5
    return 0.56 / np.sqrt(1.0 + np.pi / 8.0 * np.sqrt(2.0) * start)


def fit(start: float, scale: float) -> np.ndarray:
    """Coefficients for variances from `start` to 2 `start`, (N_POWERS, N_VARIANCE_POWERS)."""
    t = chebyshev_nodes(N_VARIANCE_NODES)  # (n_t,)
    fraction = 0.5 + 0.5 * chebyshev_nodes(N_SCORE_NODES)  # of the largest score that matters
    a = (10.0 + 6.0 * np.sqrt(2.0 * start)) * fraction[:, None]  # (n_a, 1)
    p = expit(scale * a)
    P = p * (1.0 - p)

    score_terms = P * (1.0 - 2.0 * p) * (4.0 * P) ** np.arange(N_POWERS)  # (n_a, n_powers)
    variance_terms = t[:, None] ** np.arange(N_VARIANCE_POWERS)  # (n_t, n_variance_powers)
    # (n_a, n_t, n_powers, n_variance_powers)
    design = score_terms[:, None, :, None] * variance_terms[None, :, None, :]

    _, expected_sigmoid, _ = gaussian_logistic(a, 0.5 * start * (t + 3.0))  # (n_a, n_t)
    target = expected_sigmoid - p
    matrix = design.reshape(target.size, -1)
    coefficients, *_ = np.linalg.lstsq(matrix, target.ravel(), rcond=1e-12)
    return coefficients.reshape(N_POWERS, N_VARIANCE_POWERS)


def main() -> None:
    starts = FIRST_START * 2.0 ** (0.5 * np.arange(N_FITS))
    lines = [
        "# start, scale, coefficients of 4 P (rows) and t (columns); made by make_sigmoid_fits.py"
    ]
    for start in starts:
        scale = scale_of(start)
        row = np.float32([start, scale, *fit(start, scale).ravel()])
        lines.append(" ".join(map(str, row)))
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
