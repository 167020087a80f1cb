"""Limits on the difference between two error rates: coverage, monotony, two routes."""

import numpy as np
import pytest
from scipy import stats

from pacsent.bounds.paired_difference import difference_limits, difference_p_value, score_statistic
from pacsent.certify.count_certificates import Comparison

DELTA = 0.1
ERROR_RATES = [(p, q) for p in (0.0, 0.02, 0.1, 0.3, 0.6) for q in (0.0, 0.02, 0.1, 0.3)]


def outcomes(n: int) -> list[tuple[int, int]]:
    """All numbers of texts that only the first, and only the second, classifies correctly."""
    return [(x, y) for x in range(n + 1) for y in range(n + 1 - x)]


def probabilities(n: int, p: float, q: float) -> np.ndarray:
    """The probability of each outcome, (n_outcomes,)."""
    cells = [(x, y, n - x - y) for x, y in outcomes(n)]
    return stats.multinomial.pmf(cells, n, [p, q, 1.0 - p - q])


def largest_probability_of_a_false_limit(limits: np.ndarray, n: int) -> float:
    """Over a grid of error rates; `limits` are those of each outcome, (n_outcomes, 2)."""
    false = []
    for p, q in ERROR_RATES:
        is_false = (limits[:, 0] > p - q) | (limits[:, 1] < p - q)
        false.append(probabilities(n, p, q)[is_false].sum())
    return max(false)


@pytest.mark.parametrize("n", [1, 4, 12, pytest.param(30, marks=pytest.mark.slow)])
def test_the_limits_hold_for_every_pair_of_error_rates(n):
    limits = np.array([difference_limits(x, y, n, DELTA) for x, y in outcomes(n)])

    assert largest_probability_of_a_false_limit(limits, n) <= DELTA


@pytest.mark.parametrize("n", [4, 12])
def test_the_limits_of_wald_do_not_hold(n):
    x, y = np.array(outcomes(n)).T
    difference = (x - y) / n
    standard_error = np.sqrt(np.maximum(x + y - (x - y) ** 2 / n, 0.0)) / n
    margin = stats.norm.ppf(1.0 - DELTA / 2) * standard_error
    limits = np.column_stack([difference - margin, difference + margin])

    assert largest_probability_of_a_false_limit(limits, n) > 2 * DELTA


@pytest.mark.slow
def test_the_limits_hold_for_two_thousand_texts():
    rng = np.random.default_rng(0)
    draws = rng.multinomial(2_000, [0.05, 0.03, 0.92], 100)
    n_false = 0
    for x, y, _ in draws:
        lower, upper = difference_limits(x, y, 2_000, DELTA)
        n_false += not lower <= 0.02 <= upper

    assert n_false <= stats.binom.ppf(0.999, 100, DELTA)


@pytest.mark.slow
def test_twelve_comparisons_that_are_not_paid_for_are_false_too_often():
    n = 12
    limits = np.array([difference_limits(x, y, n, 0.5) for x, y in outcomes(n)])
    one_is_false = largest_probability_of_a_false_limit(limits, n)

    assert 1.0 - (1.0 - one_is_false) ** 12 > 0.5


def test_equal_classifiers_are_called_different_no_more_often_than_allowed():
    n = 12
    p_values = np.array([difference_p_value(x, y, n) for x, y in outcomes(n)])

    for rate in (0.01, 0.1, 0.3, 0.5):
        probability = probabilities(n, rate, rate)
        for delta in (0.01, 0.05, 0.2):
            assert probability[p_values <= delta].sum() <= delta


def test_a_side_that_is_chosen_after_looking_is_called_different_too_often():
    n = 12
    one_sided = np.array([difference_p_value(x, y, n) / 2 for x, y in outcomes(n)])

    assert max(probabilities(n, r, r)[one_sided <= 0.05].sum() for r in (0.1, 0.3, 0.5)) > 0.05


@pytest.mark.parametrize("counts", [(3, 0, 10), (7, 2, 20), (12, 3, 100), (30, 12, 400)])
def test_limits_exclude_zero_only_where_the_p_value_is_small(counts):
    p_value = difference_p_value(*counts)

    lower_above, _ = difference_limits(*counts, 0.9 * p_value)
    assert lower_above <= 0

    lower_below, _ = difference_limits(*counts, min(1.1 * p_value, 0.99))
    assert lower_below > -0.02


@pytest.mark.parametrize("n", [7, 25])
def test_the_statistic_rises_with_x_and_falls_with_y(n):
    x, y = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    is_possible = x + y <= n
    for theta in np.linspace(-0.99, 0.99, 45):
        statistic = score_statistic(x, y, n, theta)
        rises = statistic[1:] >= statistic[:-1] - 1e-9
        falls = statistic[:, 1:] <= statistic[:, :-1] + 1e-9
        assert rises[is_possible[1:]].all()
        assert falls[is_possible[:, 1:]].all()


def test_the_p_value_is_the_maximum_over_error_rates_of_the_probability_of_more_extreme_outcomes():
    """By another route: all outcomes are listed, and error rates are taken from a dense grid."""
    n, observed = 20, (9, 2)
    x, y = np.array(outcomes(n)).T
    statistic = score_statistic(x, y, n, 0.0)
    threshold = score_statistic(np.float64(9), np.float64(2), n, 0.0)
    is_extreme = statistic >= threshold - 1e-9
    rates = np.linspace(0.03, 0.5, 200)
    one_sided = max(probabilities(n, rate, rate)[is_extreme].sum() for rate in rates)

    p_value = difference_p_value(*observed, n)

    # the rest is what the rectangle costs (a fiftieth) and the safe side of the maximum
    assert 2 * one_sided <= p_value <= 1.06 * 2 * one_sided


def test_exchanging_the_classifiers_changes_the_sign():
    lower, upper = difference_limits(12, 3, 100, 0.05)

    assert difference_limits(3, 12, 100, 0.05) == (-upper, -lower)


@pytest.mark.parametrize(
    ("counts", "limits"), [((0, 0, 1), (-0.98, 0.98)), ((5, 0, 5), (-0.05, 1))]
)
def test_few_texts_say_little(counts, limits):
    assert difference_limits(*counts, 0.05) == pytest.approx(limits, abs=0.005)


def test_the_limits_are_closer_than_those_of_a_union_bound():
    """Clopper-Pearson limits for each of the two rates, at half of delta, are valid as well."""
    comparison = Comparison(n=100, only_a_right=12, only_b_right=3, delta=0.05)
    a_lower = stats.beta.ppf(0.05 / 4, 12, 89)
    b_upper = stats.beta.ppf(1 - 0.05 / 4, 4, 97)

    assert comparison.difference_lower > a_lower - b_upper + 0.04
