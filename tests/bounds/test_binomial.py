"""Limits of error rates from counts: each against its definition."""

import pytest
from scipy import stats

from pacsent.bounds import binomial


@pytest.mark.parametrize(("n_errors", "n"), [(0, 40), (3, 40), (17, 200), (40, 40)])
def test_two_sided_limits_leave_half_of_delta_on_each_side(n_errors, n):
    delta = 0.1

    low, high = binomial.two_sided_limits(n_errors, n, delta)

    exact = stats.binomtest(n_errors, n).proportion_ci(confidence_level=0.9, method="exact")
    assert low == pytest.approx(exact.low, rel=1e-6)
    assert high == pytest.approx(exact.high, rel=1e-6)
