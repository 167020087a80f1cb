"""Exact statements from counts: limits on a share, ranks for sets, tests in a fixed order."""

import math

import numpy as np
from scipy.special import gammaln

from pacsent.bounds.pac_bayes import binomial_tail_inverse

MOST_TEXTS = 10**12  # that a message says are needed; more cannot be collected


def upper_limit(n_errors: int, n: int, delta: float) -> float:
    """Clopper-Pearson: with probability 1 - delta the share is at most this.

    >>> round(upper_limit(20, 200, 0.05), 4)
    0.142
    """
    return 1.0 if n == 0 else float(binomial_tail_inverse(n_errors, n, delta))


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
    from scipy import stats  # here, because it takes a second to import

    fewest, most = n_errors, batch_size - (n - n_errors)
    level = delta * (1.0 - _rounding(batch_size))
    while fewest < most:  # the probability falls with the number of errors
        middle = (fewest + most + 1) // 2
        is_possible = stats.hypergeom.cdf(n_errors, batch_size, middle, n) > level
        fewest, most = (middle, most) if is_possible else (fewest, middle - 1)
    return fewest


def _rounding(batch_size: int) -> float:
    """More than the relative error of a computed hypergeometric probability.

    Levels are lowered by it, so that limits are never on the unsafe side.
    """
    return 1e-9 + 1e-13 * batch_size


def hypergeometric(k: np.ndarray, n: int, n_marked: np.ndarray, n_rows: int) -> np.ndarray:
    """P(k of n rows drawn without replacement are marked), (k.size, n_marked.size)."""
    others, k = n_rows - n_marked, k[:, None]
    columns = gammaln(n_marked + 1) + gammaln(others + 1)
    rows = gammaln(k + 1) + gammaln(n - k + 1)
    total = gammaln(n_rows + 1) - gammaln(n + 1) - gammaln(n_rows - n + 1)
    # the gamma function is infinite where there are too few rows to draw: probability 0
    left = gammaln(n_marked - k + 1) + gammaln(others - n + k + 1)
    return np.exp(columns - rows - total - left)


# Part of delta that limits the nuisance parameter of `stratified_limit`; set by simulation.
_NUISANCE_FRACTION = 0.1


def stratified_limit(
    n_errors: tuple[int, int], n: tuple[int, int], n_rows: tuple[int, int], delta: float
) -> float:
    """With probability 1 - delta the fraction of errors in a batch of two strata is at most this.

    The n examples are drawn from the batch of `n_rows` at random, without replacement: Theorem 29
    of docs/theory.md. A stratum of which no row was drawn counts as wrong.

    >>> round(stratified_limit((9, 1), (18, 82), (1800, 8200), 0.05), 4)
    0.1604
    """
    (k_a, k_b), (n_a, n_b), (size_a, size_b), size = n_errors, n, n_rows, sum(n_rows)
    if not n_a or not n_b:
        limits = (most_errors(*stratum, delta) for stratum in zip(n_errors, n, n_rows))
        return sum(limits) / size
    part = _NUISANCE_FRACTION * delta / 2
    fewest_a, most_a = size_a - most_errors(n_a - k_a, n_a, size_a, part), size_a - (n_a - k_a)
    fewest_b, most_b = k_b, most_errors(k_b, n_b, size_b, part)
    # draws whose estimate of the errors, in units of 1 / (n_a n_b), is at most the observed one
    weight_a, weight_b = size_a * n_b, size_b * n_a
    of_b = np.arange(min(n_b, k_b + weight_a * k_a // weight_b) + 1)
    of_a = np.minimum((weight_a * k_a + weight_b * (k_b - of_b)) // weight_a, n_a)
    level = (1.0 - _NUISANCE_FRACTION) * delta * (1.0 - _rounding(size))

    def chance(errors_a, errors_b):
        up_to = hypergeometric(np.arange(of_a[0] + 1), n_a, errors_a, size_a).cumsum(axis=0)
        return (hypergeometric(of_b, n_b, errors_b, size_b) * up_to[of_a]).sum(axis=0)

    def is_possible(total):
        """Whether some division of the errors among the strata has a chance above the level.

        The chance falls with the errors of either stratum, so that of an interval of divisions is
        at most that of both strata's fewest errors in it: intervals are halved until all are known.
        """
        edges = np.linspace(max(fewest_b, total - most_a), min(most_b, total - fewest_a) + 1, 9)
        first, stop = edges[:-1].astype(int), edges[1:].astype(int)
        while (first < stop).any():
            first, stop = first[first < stop], stop[first < stop]
            if (chance(total - first, first) > level).any():
                return True
            is_open = chance(total - stop + 1, first) > level
            middle = (first + 1 + stop)[is_open] // 2
            first = np.concatenate([first[is_open] + 1, middle])
            stop = np.concatenate([middle, stop[is_open]])
        return False

    fewest, most = fewest_a + fewest_b, most_a + most_b
    while fewest < most:
        middle = (fewest + most + 1) // 2
        fewest, most = (middle, most) if is_possible(middle) else (fewest, middle - 1)
    return fewest / size


def n_needed(error: float, delta: float) -> int:
    """Texts without a single miss that are enough to guarantee `error`: ln(delta) / ln(1 - error).

    >>> n_needed(0.05, 0.05)
    59
    """
    ratio = math.log(delta) / math.log1p(-error)
    return math.ceil(min(ratio, 2 * MOST_TEXTS))  # the ratio is infinite for the smallest floats


def format_needed(n: int) -> str:
    """What `n_needed` returned, in words where it is too large to be collected.

    >>> format_needed(n_needed(0.05, 0.05)), format_needed(n_needed(5e-324, 0.05))
    ('59', 'more than 1,000,000,000,000')
    """
    return f"{n:,}" if n <= MOST_TEXTS else f"more than {MOST_TEXTS:,}"


def rank_for_sets(n: int, error: float, delta: float) -> int | None:
    """The rank of the calibration score up to which labels are in a set; None where there is none.

    The smallest k with P(Beta(k, n + 1 - k) < 1 - error) <= delta: Theorem 13 of docs/theory.md.

    >>> rank_for_sets(100, 0.1, 0.05), rank_for_sets(20, 0.1, 0.05)
    (96, None)
    """
    from scipy import stats  # here, because it takes a second to import

    if n < n_needed(error, delta):
        return None
    k = np.arange(1, n + 1)
    is_enough = stats.beta.cdf(1.0 - error, k, n + 1 - k) <= delta
    if not is_enough.any():  # (1 - error)^n is delta to the last digits: rounding decides
        return None
    return int(k[np.argmax(is_enough)])


def passes(
    n_accepted: np.ndarray, n_errors: np.ndarray, error: float, delta: float, coin: float
) -> np.ndarray:
    """Whether errors are significantly rarer than `error`: the randomised test of level delta.

    `coin` is a uniform draw from [0, 1] that is independent of the errors: Theorem 14 of
    docs/theory.md, where it is called u.

    >>> passes([40, 60, 60], [0, 2, 3], 0.1, 0.05, coin=0.2)  # p-values 0.015, 0.053, 0.137
    array([ True,  True, False])
    >>> passes([40, 60, 60], [0, 2, 3], 0.1, 0.05, coin=1.0)
    array([ True, False, False])
    """
    from scipy import stats  # here, because it takes a second to import

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
    from scipy import stats  # here, because it takes a second to import

    n_accepted = np.asarray(n_accepted)
    most = stats.binom.ppf(delta, n_accepted, error)  # the smallest count whose p is >= delta
    most = np.where(stats.binom.cdf(most, n_accepted, error) <= delta, most, most - 1)
    return stats.binom.cdf(most, n_accepted, rate) * (n_accepted > 0)
