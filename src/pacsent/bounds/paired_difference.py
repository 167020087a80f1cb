"""Exact limits on the difference between two error rates that were measured on the same texts.

Of n independent texts, X are classified correctly by the first classifier only and Y by the second
only: cells of a multinomial distribution with probabilities p and q. The difference of the error
rates (second minus first) is theta = p - q. For every theta there is an exact unconditional test;
the limits are the ends of what the tests do not reject.

Test of theta (Tango 1998; Berger and Boos 1994). Outcomes are ordered by Tango's score statistic.
The p-value is the largest probability, over all (p, q) with p - q = theta in a rectangle that
contains the true pair with probability 1 - beta, of an outcome at least as extreme as the observed
one; beta is paid for. With more X, or fewer Y, an outcome is at least as extreme, so that this
probability rises with p and falls with q. Two consequences make the computation exact:

- Between two values of q on the line p = q + theta, the probability is at most that of the larger
  p and the smaller q. Intervals are halved until this bound, or the probability itself, decides.
- With a fixed order of outcomes, rejecting theta rejects every smaller difference. The range from
  -1 to 1 is divided into cells that depend on n alone, with one order for each cell, so that the
  infimum of all differences that are not rejected is found by testing the ends of cells.

References
----------
T. Tango, Equivalence test and confidence interval for the difference in proportions for the
paired-sample design, Statistics in Medicine 17, 1998.
R. L. Berger and D. D. Boos, P values maximized over a confidence set for the nuisance parameter,
Journal of the American Statistical Association 89, 1994.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, gammaln

from pacsent.bounds.binomial import lower_limit, upper_limit

# Fraction of delta with which the rectangle of (p, q) may miss the truth. The expected limit hardly
# depends on it between 0.005 and 0.1 (benchmarks/comparison.py).
_RECTANGLE_FRACTION = 0.02
# Width of a cell of differences in units of 1 / sqrt(n): standard errors are proportional to it.
_CELL_WIDTH = 0.05
# The limit is found up to this, in the same unit, on the safe side.
_RESOLUTION = 0.001
# The nuisance parameter is resolved to this part of its range. Larger samples have longer sums.
_MAX_STEPS = 300
_MIN_STEPS = 40
_N_WITH_MAX_STEPS = 2_000
# More than the rounding errors and the omitted tails of the sums.
_ROUNDING = 1e-11
_SMALLEST_P_VALUE = 1e-12


class Rectangle(NamedTuple):
    """Joint confidence limits of p (only the first is right) and q (only the second is right)."""

    p_lower: float
    p_upper: float
    q_lower: float
    q_upper: float


def difference_limits(
    n_only_first: int, n_only_second: int, n: int, delta: float
) -> tuple[float, float]:
    """Exact limits of the error of the second classifier minus that of the first.

    Both limits hold together with probability 1 - delta.

    Parameters
    ----------
    n_only_first, n_only_second : int
        Texts that only the first, and only the second, classifies correctly.
    n : int
        All texts.
    delta : float
        Probability that a limit is false.

    Returns
    -------
    lower, upper : float

    References
    ----------
    Tango (1998); Berger and Boos (1994); Theorem 15 of docs/theory.md.

    Examples
    --------
    >>> [round(limit, 3) for limit in difference_limits(12, 3, 100, 0.05)]
    [0.014, 0.174]
    """
    # Plain numbers, whatever their types are, are the keys of the cache.
    n_first = int(n_only_first)
    n_second = int(n_only_second)
    n = int(n)
    delta = float(delta)

    lower = _lower_limit(n_first, n_second, n, delta)
    upper = -_lower_limit(n_second, n_first, n, delta)
    return lower, upper


@lru_cache(maxsize=1024)
def difference_p_value(n_only_first: int, n_only_second: int, n: int) -> float:
    """Smallest delta with which the test of a difference of 0 rejects, two-sided.

    Parameters as those of `difference_limits`.

    References
    ----------
    Berger and Boos (1994); Theorem 15 of docs/theory.md.

    Examples
    --------
    >>> round(difference_p_value(12, 3, 100), 3)
    0.021
    """
    larger = max(n_only_first, n_only_second)
    smaller = min(n_only_first, n_only_second)
    if larger == smaller:
        return 1.0

    def is_rejected(delta: float) -> bool:
        """A difference of 0 is, if no pair p = q makes such outcomes likelier than the level."""
        rectangle, level = _rectangle_and_level(larger, smaller, n, delta)
        outcomes = _extreme_outcomes(larger, smaller, n, 0.0, rectangle)
        may_be_likelier = _may_exceed(outcomes, n, 0.0, rectangle, level)
        return not may_be_likelier

    almost_one = 1.0 - 1e-9
    if not is_rejected(almost_one):
        return 1.0

    # Bisection of ln(delta): 0 is accepted at one end and rejected at the other, which is the
    # answer.
    accepted = np.log(_SMALLEST_P_VALUE)
    rejected = 0.0  # ln(1)
    while rejected - accepted > 0.005:
        middle = (accepted + rejected) / 2
        if is_rejected(float(np.exp(middle))):
            rejected = middle
        else:
            accepted = middle
    return float(np.exp(rejected))


@lru_cache(maxsize=1024)
def _lower_limit(n_only_first: int, n_only_second: int, n: int, delta: float) -> float:
    """Infimum of the differences that are not rejected because of a larger observed one."""
    rectangle, level = _rectangle_and_level(n_only_first, n_only_second, n, delta)
    least = rectangle.p_lower - rectangle.q_upper
    most = rectangle.p_upper - rectangle.q_lower

    # An odd number of cells: one of them has its center, which orders the outcomes, at 0.
    n_cells_of_side = int(np.ceil(np.sqrt(n) / _CELL_WIDTH))
    n_cells = 2 * n_cells_of_side + 1
    width = 2.0 / n_cells
    cell = int((least + 1.0) / width)

    while True:
        start = max(least, -1.0 + cell * width)
        stop = min(most, -1.0 + (cell + 1) * width)
        if start >= stop:
            return start

        center = -1.0 + (cell + 0.5) * width
        outcomes = _extreme_outcomes(n_only_first, n_only_second, n, center, rectangle)
        if _may_exceed(outcomes, n, stop, rectangle, level):
            break
        cell += 1

    rejected = start
    accepted = stop
    while accepted - rejected > _RESOLUTION / np.sqrt(n):
        middle = (rejected + accepted) / 2
        if _may_exceed(outcomes, n, middle, rectangle, level):
            accepted = middle
        else:
            rejected = middle
    return float(rejected)


def _rectangle_and_level(
    n_only_first: int, n_only_second: int, n: int, delta: float
) -> tuple[Rectangle, float]:
    """The rectangle, at a part of delta, and what the rest leaves for each side."""
    beta = _RECTANGLE_FRACTION * delta
    rectangle = Rectangle(
        p_lower=lower_limit(n_only_first, n, beta / 4),
        p_upper=upper_limit(n_only_first, n, beta / 4),
        q_lower=lower_limit(n_only_second, n, beta / 4),
        q_upper=upper_limit(n_only_second, n, beta / 4),
    )
    return rectangle, (delta - beta) / 2


def score_statistic(x: ArrayLike, y: ArrayLike, n: int, theta: float) -> np.ndarray:
    """Tango's score statistic of the difference theta: large if x - y is larger than expected.

        (x - y - n theta) / sqrt(n (2 q + theta (1 - theta)))

    q is the most likely one among pairs with p - q = theta, the larger root of

        2 n q^2 + linear q + constant = 0,
        linear = (2 n - x + y) theta - x - y,   constant = -y theta (1 - theta)

    Parameters
    ----------
    x, y : array of int
        Texts that only the first, and only the second, classifies correctly.
    n : int
        All texts.
    theta : float
        Difference to be tested, p - q.

    Returns
    -------
    array
        Infinite where the variance is 0 and the difference is another.

    References
    ----------
    Tango (1998).
    """
    x = np.asarray(x, dtype=float)
    y = np.asarray(y, dtype=float)
    linear = (2 * n - x + y) * theta - x - y
    constant = -y * theta * (1.0 - theta)
    root = np.sqrt(np.maximum(linear**2 - 8.0 * n * constant, 0.0))
    q = (root - linear) / (4.0 * n)
    variance = n * np.maximum(2.0 * q + theta * (1.0 - theta), 0.0)
    excess = x - y - n * theta

    is_random = variance > 1e-12
    without_variance = np.zeros_like(excess)
    without_variance = np.where(excess > 1e-9, np.inf, without_variance)
    without_variance = np.where(excess < -1e-9, -np.inf, without_variance)
    standard_deviation = np.sqrt(np.where(is_random, variance, 1.0))
    return np.where(is_random, excess / standard_deviation, without_variance)


class Outcomes(NamedTuple):
    """Outcomes at least as extreme as the observed one: y <= most_y for each x."""

    x: np.ndarray  # (n_x,), all that have a chance in the rectangle
    most_y: np.ndarray  # (n_x,), -1 where there is none


def _extreme_outcomes(
    n_only_first: int, n_only_second: int, n: int, theta: float, rectangle: Rectangle
) -> Outcomes:
    """Outcomes whose statistic is at least that of what was observed.

    The statistic falls with y, so that the largest y is found by bisection; it rises with x.
    """
    observed = float(score_statistic(n_only_first, n_only_second, n, theta))
    if np.isfinite(observed):
        observed -= 1e-9 * max(1.0, abs(observed))  # equal values round differently

    # The probability of all other x is below 1e-13 for every p of the rectangle.
    spread = 8.0 * np.sqrt(n * rectangle.p_upper * (1.0 - rectangle.p_lower))
    first_x = max(0, int(n * rectangle.p_lower - spread - 10))
    last_x = min(n, int(n * rectangle.p_upper + spread + 40))
    x = np.arange(first_x, last_x + 1)

    most_y = np.full(x.size, -1)
    candidate = n - x
    while (most_y < candidate).any():
        middle = (most_y + candidate + 1) // 2
        is_open = most_y < candidate
        is_extreme = score_statistic(x, middle, n, theta) >= observed
        most_y = np.where(is_open & is_extreme, middle, most_y)
        candidate = np.where(is_open & ~is_extreme, middle - 1, candidate)
    return Outcomes(x, most_y)


def _tail_probability(outcomes: Outcomes, n: int, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """P(Y <= most_y of X) for each pair of p and q, (n_pairs,)."""
    x, most_y = outcomes

    p = np.clip(p, 1e-300, 1.0 - 1e-12)[:, None]
    log_coefficient = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
    probability_of_x = np.exp(log_coefficient + x * np.log(p) + (n - x) * np.log1p(-p))

    # Y given X is binomial
    rate = np.clip(q[:, None] / (1.0 - p), 0.0, 1.0)
    probability_of_y = bdtr(np.maximum(most_y, 0), n - x, rate)
    probability_of_y = np.where(most_y >= n - x, 1.0, probability_of_y)
    probability_of_y = np.where(most_y < 0, 0.0, probability_of_y)
    return (probability_of_x * probability_of_y).sum(axis=1)


def _may_exceed(
    outcomes: Outcomes, n: int, theta: float, rectangle: Rectangle, level: float
) -> bool:
    """True if the tail probability may exceed the level for a pair with p - q = theta.

    False is certain; True is also returned where the finest intervals do not decide.
    """
    q_start = max(rectangle.q_lower, rectangle.p_lower - theta, 0.0, -theta)
    q_stop = min(rectangle.q_upper, rectangle.p_upper - theta)
    if q_start > q_stop:
        return False

    steps = _MAX_STEPS * np.sqrt(min(1.0, _N_WITH_MAX_STEPS / n))
    sides = rectangle.q_upper - rectangle.q_lower + rectangle.p_upper - rectangle.p_lower
    finest = sides / 2.0 / max(steps, _MIN_STEPS)
    safe_level = level - _ROUNDING

    # Interval i of q reaches from low[i] to high[i].
    edges = np.linspace(q_start, q_stop, 9)
    low = edges[:-1]
    high = edges[1:]
    while low.size:
        p_most = np.minimum(high + theta, 1.0 - low)
        is_open = _tail_probability(outcomes, n, p_most, low) > safe_level
        low = low[is_open]
        high = high[is_open]
        if not low.size:
            return False
        if (high - low).max() <= finest:
            return True

        middle = (low + high) / 2
        p_middle = np.minimum(middle + theta, 1.0 - middle)
        if (_tail_probability(outcomes, n, p_middle, middle) > safe_level).any():
            return True

        quarters = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, 5)
        low = quarters[:, :-1].ravel()
        high = quarters[:, 1:].ravel()
    return False
