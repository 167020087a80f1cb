"""Binomial limits where rounding decides, and in large batches."""

import math
from fractions import Fraction

import pytest

from pacsent.bounds import binomial


@pytest.mark.parametrize(
    ("n", "error", "delta"), [(5, 0.1, 0.59049), (2, 0.3, 0.49), (3, 0.2, 0.512), (1, 0.4, 0.6)]
)
def test_a_rank_that_only_rounding_decides_is_the_last_one_or_none(n, error, delta):
    """delta is (1 - error)^n: rank n is right, and any lower one gives sets of almost nothing."""
    assert binomial.rank_for_sets(n, error, delta) in (n, None)


def exact_chance(n_errors, n, batch_size, n_wrong):
    """P(at most n_errors of n rows drawn without replacement are wrong), a fraction."""
    ways = sum(
        math.comb(n_wrong, k) * math.comb(batch_size - n_wrong, n - k) for k in range(n_errors + 1)
    )
    return Fraction(ways, math.comb(batch_size, n))


@pytest.mark.parametrize("batch_size", [10**8, 10**9])
@pytest.mark.parametrize(("n_errors", "n"), [(0, 20), (1, 60), (4, 40), (10, 120)])
@pytest.mark.parametrize("delta", [0.05, 0.01, 1e-6])
def test_limits_of_large_batches_are_never_on_the_unsafe_side(n_errors, n, batch_size, delta):
    most = binomial.most_errors(n_errors, n, batch_size, delta)

    assert exact_chance(n_errors, n, batch_size, most + 1) <= delta
    assert exact_chance(n_errors, n, batch_size, int(most * (1 - 1e-4))) > delta
