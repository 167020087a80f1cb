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
    return float(binomial_tail(n_errors, n, delta)) if n else 1.0


def lower_limit(n_errors: int, n: int, delta: float) -> float:
    """Clopper-Pearson: with probability 1 - delta the share is at least this.

    Examples
    --------
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


def n_needed(error: float, delta: float) -> int:
    """Texts without a single miss that are enough to guarantee `error`: ln(delta) / ln(1 - error).

    >>> n_needed(0.05, 0.05)
    59
    """
    return math.ceil(math.log(delta) / math.log1p(-error))


def rank_for_sets(n: int, error: float, delta: float) -> int | None:
    """The smallest k with P(Beta(k, n + 1 - k) < 1 - error) <= delta; None where there is none.

    A set of all labels whose score is at most the k-th smallest calibration score then misses at
    most `error` of new texts, with probability 1 - delta over the calibration texts.

    Examples
    --------
    >>> rank_for_sets(100, 0.1, 0.05), rank_for_sets(20, 0.1, 0.05)
    (96, None)
    """
    if n < n_needed(error, delta):
        return None
    k = np.arange(1, n + 1)
    return int(k[np.argmax(stats.beta.cdf(1.0 - error, k, n + 1 - k) <= delta)])


def last_passed(n_accepted: np.ndarray, n_errors: np.ndarray, error: float, delta: float) -> int:
    """Fixed-sequence testing: the last of the thresholds, strictest first, that may be used.

    Threshold t accepts n_accepted[t] texts with n_errors[t] wrong among them. It passes where
    P(Binomial(n_accepted[t], error) <= n_errors[t]) <= delta, and everything after the first that
    fails is refused. It begins where a perfect record could pass. -1: none may be used.

    Examples
    --------
    >>> last_passed([40, 80, 120], [0, 1, 30], 0.1, 0.05)
    1
    """
    n_accepted, n_errors = np.asarray(n_accepted), np.asarray(n_errors)
    begin = np.flatnonzero(n_accepted >= n_needed(error, delta))
    if begin.size == 0:
        return -1
    passed = stats.binom.cdf(n_errors, n_accepted, error) <= delta
    failed = np.flatnonzero(~passed[begin[0] :])
    end = begin[0] + failed[0] if failed.size else passed.size
    return int(end) - 1 if end > begin[0] else -1
