"""Exact statements from counts: limits on a share, ranks for sets, tests in a fixed order.

References
----------
C. J. Clopper and E. S. Pearson, The use of confidence or fiducial limits illustrated in the case of
the binomial, Biometrika 26, 1934.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import betainc, betaincc, gammaln

from pacsent.arrays import Numbers
from pacsent.bounds.pac_bayes import binomial_tail_inverse

# The largest number of texts that a message says are needed; more cannot be collected.
MOST_TEXTS = 10**12


def upper_limit(n_errors: int, n: int, delta: float) -> float:
    """Clopper-Pearson limit that the error rate does not exceed, with probability 1 - delta.

        sup {p : P(Binomial(n, p) <= n_errors) >= delta};   1 for n = 0

    Parameters
    ----------
    n_errors, n : int
        Errors, and independent examples.
    delta : float
        Probability that the limit is false.

    Returns
    -------
    float
        In [0, 1], rounded up.

    References
    ----------
    Clopper and Pearson (1934); Theorem 12 of docs/theory.md.

    Examples
    --------
    >>> round(upper_limit(20, 200, 0.05), 4)
    0.142
    """
    if n == 0:
        return 1.0
    return float(binomial_tail_inverse(n_errors, n, delta))


def lower_limit(n_errors: int, n: int, delta: float) -> float:
    """Clopper-Pearson limit that the error rate does not fall below, with probability 1 - delta.

        1 - upper_limit(n - n_errors, n, delta)

    Parameters and References as those of `upper_limit`.

    >>> round(lower_limit(5, 100, 0.05), 4)
    0.0199
    """
    return 1.0 - upper_limit(n - n_errors, n, delta)


def two_sided_limits(n_errors: int, n: int, delta: float) -> tuple[float, float]:
    """Clopper-Pearson limits of the error rate; both hold together with probability 1 - delta.

    Each limit has delta / 2. Parameters and References as those of `upper_limit`.

    >>> [round(end, 4) for end in two_sided_limits(0, 1000, 0.05)]
    [0.0, 0.0037]
    """
    lower = lower_limit(n_errors, n, delta / 2)
    upper = upper_limit(n_errors, n, delta / 2)
    return lower, upper


def batch_limit(n_errors: int, n: int, batch_size: int, delta: float) -> float:
    """Limit that the fraction of errors in a batch does not exceed, with probability 1 - delta.

    The n examples are drawn from the batch at random, without replacement.

        max {M / N : P(Hypergeometric(N, M, n) <= n_errors) > delta},   N = batch_size

    References
    ----------
    Theorem 23 (batches) of docs/theory.md.

    Examples
    --------
    >>> round(batch_limit(20, 200, 400, 0.05), 4), batch_limit(20, 200, 200, 0.05)
    (0.13, 0.1)
    """
    return most_errors(n_errors, n, batch_size, delta) / batch_size


def most_errors(n_errors: int, n: int, batch_size: int, delta: float) -> int:
    """Largest number of errors in the batch of `batch_limit` that is possible at level delta."""
    from scipy import stats  # here, because it takes a second to import

    level = delta * (1.0 - _rounding(batch_size))

    def is_possible(n_errors_in_batch: int) -> bool:
        probability = stats.hypergeom.cdf(n_errors, batch_size, n_errors_in_batch, n)
        return bool(probability > level)

    n_correct = n - n_errors
    return _largest_possible(n_errors, batch_size - n_correct, is_possible)


def _largest_possible(fewest: int, most: int, is_possible: Callable[[int], bool]) -> int:
    """Largest possible number from `fewest`, which is, to `most`, by bisection.

    The numbers above an impossible one are impossible, because probabilities of so few observed
    errors fall with the number of errors in the batch.
    """
    while fewest < most:
        middle = (fewest + most + 1) // 2
        if is_possible(middle):
            fewest = middle
        else:
            most = middle - 1
    return fewest


def _rounding(batch_size: int) -> float:
    """More than the relative error of a computed hypergeometric probability.

    Levels are lowered by it, so that limits are never on the unsafe side.
    """
    return 1e-9 + 1e-13 * batch_size


def hypergeometric(k: np.ndarray, n: int, n_marked: np.ndarray, n_rows: int) -> np.ndarray:
    """P(k of n rows drawn without replacement are marked), by the logarithm of the gamma function.

        C(n_marked, k) C(n_rows - n_marked, n - k) / C(n_rows, n)

    Parameters
    ----------
    k : array of int, shape (n_k,)
    n : int
        Rows drawn.
    n_marked : array of int, shape (n_numbers,)
        Marked rows among all.
    n_rows : int
        All rows.

    Returns
    -------
    array, shape (n_k, n_numbers)
    """
    n_others = n_rows - n_marked
    k = k[:, None]

    of_marked = gammaln(n_marked + 1) + gammaln(n_others + 1)
    of_drawn = gammaln(k + 1) + gammaln(n - k + 1)
    of_all = gammaln(n_rows + 1) - gammaln(n + 1) - gammaln(n_rows - n + 1)

    # the gamma function is infinite where there are too few rows to draw: probability 0
    of_left = gammaln(n_marked - k + 1) + gammaln(n_others - n + k + 1)
    return np.exp(of_marked - of_drawn - of_all - of_left)


# Part of delta that limits the nuisance parameter of `stratified_limit`; set by simulation.
_NUISANCE_FRACTION = 0.1


def stratified_limit(
    n_errors: tuple[int, int], n: tuple[int, int], n_rows: tuple[int, int], delta: float
) -> float:
    """Limit of the fraction of errors in a batch of two strata, with probability 1 - delta.

    The n examples are drawn from the batch of `n_rows` at random, without replacement. A stratum of
    which no row was drawn counts as wrong. Of strata a and b with W_a and W_b errors the limit is

        max {(W_a + W_b) / size : P(T' <= T) > 0.9 delta, W_a >= fewest_a, W_b <= most_b},
        T = size_a k_a / n_a + size_b k_b / n_b;   T' is a new draw of T

    where fewest_a and most_b are false with probability 0.1 delta / 2 each.

    Parameters
    ----------
    n_errors, n, n_rows : pair of int
        Errors, examples and rows of each stratum.
    delta : float
        Probability that the limit is false.

    Returns
    -------
    float

    References
    ----------
    Theorem 29 of docs/theory.md.

    Examples
    --------
    >>> round(stratified_limit((9, 1), (18, 82), (1800, 8200), 0.05), 4)
    0.1604
    """
    k_a, k_b = n_errors
    n_a, n_b = n
    size_a, size_b = n_rows
    size = size_a + size_b

    if not n_a or not n_b:
        most_of_a = most_errors(k_a, n_a, size_a, delta)
        most_of_b = most_errors(k_b, n_b, size_b, delta)
        return (most_of_a + most_of_b) / size

    nuisance_delta = _NUISANCE_FRACTION * delta / 2
    n_correct_a = n_a - k_a
    fewest_a = size_a - most_errors(n_correct_a, n_a, size_a, nuisance_delta)
    most_a = size_a - n_correct_a
    fewest_b = k_b
    most_b = most_errors(k_b, n_b, size_b, nuisance_delta)

    # Draws whose estimate T' is at most T, in units of 1 / (n_a n_b): for each number of errors
    # drawn from b the largest number drawn from a.
    weight_a = size_a * n_b
    weight_b = size_b * n_a
    most_drawn_b = min(n_b, k_b + weight_a * k_a // weight_b)
    drawn_b = np.arange(most_drawn_b + 1)
    weight_left = weight_a * k_a + weight_b * (k_b - drawn_b)
    most_drawn_a = np.minimum(weight_left // weight_a, n_a)
    level = (1.0 - _NUISANCE_FRACTION) * delta * (1.0 - _rounding(size))

    def probability(errors_a: np.ndarray, errors_b: np.ndarray) -> np.ndarray:
        """P(T' <= T) for each division of the errors among the strata, (n_divisions,)."""
        drawn_a = np.arange(most_drawn_a[0] + 1)
        up_to_a = hypergeometric(drawn_a, n_a, errors_a, size_a).cumsum(axis=0)
        of_b = hypergeometric(drawn_b, n_b, errors_b, size_b)
        return (of_b * up_to_a[most_drawn_a]).sum(axis=0)

    def is_possible(n_total: int) -> bool:
        """True if a division of the errors among the strata has a probability above the level.

        The probability falls with the errors of either stratum, so that of an interval of divisions
        is at most that of both strata's fewest errors in it: intervals are halved until all are
        known.
        """
        first_b = max(fewest_b, n_total - most_a)
        last_b = min(most_b, n_total - fewest_a)
        edges = np.linspace(first_b, last_b + 1, 9)

        # Interval i has first[i] to stop[i] - 1 errors in b, and the others in a.
        first = edges[:-1].astype(int)
        stop = edges[1:].astype(int)
        while (first < stop).any():
            is_empty = first >= stop
            first = first[~is_empty]
            stop = stop[~is_empty]
            if (probability(n_total - first, first) > level).any():
                return True

            is_open = probability(n_total - stop + 1, first) > level
            middle = (first + 1 + stop)[is_open] // 2
            first = np.concatenate([first[is_open] + 1, middle])
            stop = np.concatenate([middle, stop[is_open]])
        return False

    return _largest_possible(fewest_a + fewest_b, most_a + most_b, is_possible) / size


def n_needed(error: float, delta: float) -> int:
    """Number of texts without a single miss that is enough to guarantee `error`.

        the smallest n with (1 - error)^n <= delta:   ln(delta) / ln(1 - error), rounded up

    References
    ----------
    Theorem 13 of docs/theory.md.

    Examples
    --------
    >>> n_needed(0.05, 0.05)
    59
    """
    ratio = math.log(delta) / math.log1p(-error)
    return math.ceil(min(ratio, 2 * MOST_TEXTS))  # the ratio is infinite for the smallest floats


def format_needed(n: int) -> str:
    """Text for a result of `n_needed`, in words where it is too large to be collected.

    >>> format_needed(n_needed(0.05, 0.05)), format_needed(n_needed(5e-324, 0.05))
    ('59', 'more than 1,000,000,000,000')
    """
    if n > MOST_TEXTS:
        return f"more than {MOST_TEXTS:,}"
    return f"{n:,}"


def rank_for_sets(n: int, error: float, delta: float) -> int | None:
    """Rank of the calibration score up to which labels are in a set; None where there is none.

        min {k : P(Beta(k, n + 1 - k) < 1 - error) <= delta}

    References
    ----------
    Theorem 13 of docs/theory.md.

    Examples
    --------
    >>> rank_for_sets(100, 0.1, 0.05), rank_for_sets(20, 0.1, 0.05)
    (96, None)
    """
    if n < n_needed(error, delta):
        return None

    k = np.arange(1, n + 1)
    is_enough = betainc(k, n + 1 - k, 1.0 - error) <= delta  # (n,)

    # (1 - error)^n can be delta to the last digits: then rounding decides
    if not is_enough.any():
        return None
    return int(k[np.argmax(is_enough)])


def binomial_cdf(k: Numbers, n: Numbers, p: Numbers) -> np.ndarray:
    """P(Binomial(n, p) <= k), by the regularised incomplete beta function.

        I_{1-p}(n - k, k + 1);   0 for k < 0, 1 for k >= n

    `scipy.stats`, which takes a second to import, has the same function. It rounds 1 - p first, so
    that its last digits are wrong; those of this one are right (tests/bounds/test_binomial.py).

    Parameters
    ----------
    k, n : int or array of int
        Successes and trials, n >= 0.
    p : float or array
        Probability of a success, in [0, 1].

    Returns
    -------
    array
        Of the shape to which the arguments broadcast.

    Examples
    --------
    >>> binomial_cdf([-1, 0, 1, 2], 2, 0.5)
    array([0.  , 0.25, 0.75, 1.  ])
    """
    k = np.asarray(k)
    n = np.asarray(n)
    is_between = (k >= 0) & (k < n)

    # Outside of the range the parameters would not be positive: others take their place.
    n_failures = np.where(is_between, n - k, 1)
    n_successes = np.where(is_between, k + 1, 1)
    between = betaincc(n_successes, n_failures, p)
    outside = np.where(k < n, 0.0, 1.0)
    return np.where(is_between, between, outside)


def passes(
    n_accepted: np.ndarray, n_errors: np.ndarray, error: float, delta: float, coin: float
) -> np.ndarray:
    """Randomised test of level delta: True if errors are significantly rarer than `error`.

        (1 - coin) p_fewer + coin p <= delta  and  p <= 2 delta,
        p = P(Binomial(n_accepted, error) <= n_errors),   p_fewer = the same for n_errors - 1

    Parameters
    ----------
    n_accepted, n_errors : array of int, shape (n_thresholds,)
        Accepted calibration texts and errors among them, at each threshold.
    error : float
        Error rate to be guaranteed.
    delta : float
        Level of the test.
    coin : float
        A uniform draw from [0, 1] that is independent of the errors, u of the theorem; with 1 the
        test is not randomised.

    Returns
    -------
    array of bool, shape (n_thresholds,)

    References
    ----------
    Theorem 14 of docs/theory.md.

    Examples
    --------
    >>> passes([40, 60, 60], [0, 2, 3], 0.1, 0.05, coin=0.2)  # p-values 0.015, 0.053, 0.137
    array([ True,  True, False])
    >>> passes([40, 60, 60], [0, 2, 3], 0.1, 0.05, coin=1.0)
    array([ True, False, False])
    """
    p = binomial_cdf(n_errors, n_accepted, error)
    p_fewer = binomial_cdf(np.asarray(n_errors) - 1, n_accepted, error)
    is_rejected = (1.0 - coin) * p_fewer + coin * p <= delta
    return is_rejected & (p <= 2.0 * delta)


def chance_to_pass(
    n_accepted: np.ndarray, rate: np.ndarray, error: float, delta: float
) -> np.ndarray:
    """Probability of a p-value of at most delta where errors have the given rate.

        P(Binomial(n_accepted, rate) <= most),
        most = max {k : P(Binomial(n_accepted, error) <= k) <= delta}

    >>> chance_to_pass([100, 100, 20], [0.01, 0.1, 0.01], 0.1, 0.05).round(3)
    array([0.997, 0.024, 0.   ])
    """
    n_accepted = np.asarray(n_accepted)
    most = _most_passing_errors(n_accepted, error, delta)
    return binomial_cdf(most, n_accepted, rate) * (n_accepted > 0)


def _most_passing_errors(n: np.ndarray, error: float, delta: float) -> np.ndarray:
    """max {k : P(Binomial(n, error) <= k) <= delta} by bisection; -1 where there is none."""
    fewest = np.full(n.shape, -1)
    too_many = n.copy()  # P(Binomial(n, error) <= n) = 1
    while (too_many - fewest > 1).any():
        middle = (fewest + too_many) // 2
        is_passing = binomial_cdf(middle, n, error) <= delta
        fewest = np.where(is_passing, middle, fewest)
        too_many = np.where(is_passing, too_many, middle)
    return fewest
