"""Exact statements from counts: limits on a share, ranks for sets, tests in a fixed order."""

import math

import numpy as np
from scipy import stats

from pacsent.maths.bounds import binomial_tail


def upper_limit(n_errors: int, n: int, delta: float) -> float:
    """Clopper-Pearson: with probability 1 - delta the share is at most this.

    >>> round(upper_limit(20, 200, 0.05), 4)
    0.142
    """
    return 1.0 if n == 0 else float(binomial_tail(n_errors, n, delta))


def lower_limit(n_errors: int, n: int, delta: float) -> float:
    """Clopper-Pearson: with probability 1 - delta the share is at least this.

    >>> round(lower_limit(5, 100, 0.05), 4)
    0.0199
    """
    return 1.0 - upper_limit(n - n_errors, n, delta)


def two_sided_limits(n_errors: int, n: int, delta: float) -> tuple[float, float]:
    """Clopper-Pearson: the share lies between these with probability 1 - delta.

    >>> [round(end, 4) for end in two_sided_limits(0, 1000, 0.05)]
    [0.0, 0.0037]
    """
    return lower_limit(n_errors, n, delta / 2), upper_limit(n_errors, n, delta / 2)


def batch_limit(n_errors: int, n: int, batch_size: int, delta: float) -> float:
    """With probability 1 - delta the fraction of errors in a batch is at most this.

    The n examples are drawn from the batch at random, without replacement: the largest M / N with
    P(Hypergeometric(N, M, n) <= n_errors) > delta.

    >>> round(batch_limit(20, 200, 400, 0.05), 4), batch_limit(20, 200, 200, 0.05)
    (0.13, 0.1)
    """
    return most_errors(n_errors, n, batch_size, delta) / batch_size


def most_errors(n_errors: int, n: int, batch_size: int, delta: float) -> int:
    """The number of errors in the batch of `batch_limit`."""
    fewest, most = n_errors, batch_size - (n - n_errors)
    while fewest < most:  # the probability falls with the number of errors
        middle = (fewest + most + 1) // 2
        is_possible = stats.hypergeom.cdf(n_errors, batch_size, middle, n) > delta
        fewest, most = (middle, most) if is_possible else (fewest, middle - 1)
    return fewest


def n_needed(error: float, delta: float) -> int:
    """Texts without a single miss that are enough to guarantee `error`: ln(delta) / ln(1 - error).

    >>> n_needed(0.05, 0.05)
    59
    """
    return math.ceil(math.log(delta) / math.log1p(-error))


def rank_for_sets(n: int, error: float, delta: float) -> int | None:
    """The rank of the calibration score up to which labels are in a set; None where there is none.

    The smallest k with P(Beta(k, n + 1 - k) < 1 - error) <= delta: Theorem 13 of docs/theory.md.

    >>> rank_for_sets(100, 0.1, 0.05), rank_for_sets(20, 0.1, 0.05)
    (96, None)
    """
    if n < n_needed(error, delta):
        return None
    k = np.arange(1, n + 1)
    return int(k[np.argmax(stats.beta.cdf(1.0 - error, k, n + 1 - k) <= delta)])


def passes(
    n_accepted: np.ndarray, n_errors: np.ndarray, error: float, delta: float, coin: float
) -> np.ndarray:
    """Whether errors are significantly rarer than `error`: the randomised test of level delta.

    `coin` is a uniform draw from [0, 1] that is independent of the errors: Theorem 14 of
    docs/theory.md, where it is called u.

    Examples
    --------
    >>> passes([40, 60, 60], [0, 2, 3], 0.1, 0.05, coin=0.2)  # p-values 0.015, 0.053, 0.137
    array([ True,  True, False])
    >>> passes([40, 60, 60], [0, 2, 3], 0.1, 0.05, coin=1.0)
    array([ True, False, False])
    """
    p = stats.binom.cdf(n_errors, n_accepted, error)
    fewer = stats.binom.cdf(np.asarray(n_errors) - 1, n_accepted, error)
    return ((1.0 - coin) * fewer + coin * p <= delta) & (p <= 2.0 * delta)


def chance_to_pass(
    n_accepted: np.ndarray, rate: np.ndarray, error: float, delta: float
) -> np.ndarray:
    """The probability of a p-value of at most delta where errors have the given rate.

    >>> chance_to_pass([100, 100, 20], [0.01, 0.1, 0.01], 0.1, 0.05).round(3)
    array([0.997, 0.024, 0.   ])
    """
    n_accepted = np.asarray(n_accepted)
    most = stats.binom.ppf(delta, n_accepted, error)  # the smallest count whose p is >= delta
    most = np.where(stats.binom.cdf(most, n_accepted, error) <= delta, most, most - 1)
    return stats.binom.cdf(most, n_accepted, rate) * (n_accepted > 0)


def mcnemar(n_first: int, n_second: int) -> float:
    """Exact McNemar test: the two-sided p-value that two kinds of disagreement are equally likely.

    >>> round(mcnemar(12, 3), 4)
    0.0352
    """
    n = n_first + n_second
    return min(1.0, 2.0 * float(stats.binom.cdf(min(n_first, n_second), n, 0.5)))
