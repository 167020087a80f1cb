"""Limits on the difference between two error rates: coverage, monotony, two routes."""

import itertools

import numpy as np
import pytest
from scipy import stats

from pacsent.bounds.paired_difference import difference_limits, difference_p_value, score_statistic
from pacsent.certify.count_certificates import Comparison

DELTA = 0.1
ERROR_RATES = [(p, q) for p in (0.0, 0.02, 0.1, 0.3, 0.6) for q in (0.0, 0.02, 0.1, 0.3)]


def outcomes(n: int) -> list[tuple[int, int]]:
    """All numbers of texts that only the first, and only the second, classifies correctly."""
    pairs = itertools.product(range(n + 1), repeat=2)
    return [(x, y) for x, y in pairs if x + y <= n]


def probabilities(n: int, p: float, q: float) -> np.ndarray:
    """The probability of each outcome, (n_outcomes,)."""
    cells = [(x, y, n - x - y) for x, y in outcomes(n)]
    return stats.multinomial.pmf(cells, n, [p, q, 1.0 - p - q])


def all_limits(n: int, delta: float) -> np.ndarray:
    """Of each outcome, (n_outcomes, 2)."""
    return np.array([difference_limits(x, y, n, delta) for x, y in outcomes(n)])


def all_p_values(n: int) -> np.ndarray:
    """Of each outcome, (n_outcomes,)."""
    return np.array([difference_p_value(x, y, n) for x, y in outcomes(n)])


def largest_probability_of_a_false_limit(limits: np.ndarray, n: int) -> float:
    """Over a grid of error rates; `limits` are those of each outcome, (n_outcomes, 2)."""
    lower, upper = limits.T
    largest = 0.0
    for p, q in ERROR_RATES:
        is_false = (lower > p - q) | (upper < p - q)
        false = probabilities(n, p, q)[is_false]
        largest = max(largest, false.sum())
    return largest


@pytest.mark.parametrize("n", [1, 4, 12, pytest.param(30, marks=pytest.mark.slow)])
def test_the_limits_hold_for_every_pair_of_error_rates(n):
    limits = all_limits(n, DELTA)

    assert largest_probability_of_a_false_limit(limits, n) <= DELTA


@pytest.mark.parametrize("n", [4, 12])
def test_the_limits_of_wald_do_not_hold(n):
    x, y = np.array(outcomes(n)).T
    difference = (x - y) / n
    variance = np.maximum(x + y - n * difference**2, 0.0)
    margin = stats.norm.ppf(1.0 - DELTA / 2) * np.sqrt(variance) / n
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
    limits = all_limits(12, 0.5)

    one_is_false = largest_probability_of_a_false_limit(limits, 12)

    assert 1.0 - (1.0 - one_is_false) ** 12 > 0.5


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.3, 0.5])
def test_equal_classifiers_are_called_different_no_more_often_than_allowed(rate):
    p_values = all_p_values(12)
    probability = probabilities(12, rate, rate)

    for delta in (0.01, 0.05, 0.2):
        assert probability[p_values <= delta].sum() <= delta


def test_a_side_that_is_chosen_after_looking_is_called_different_too_often():
    one_sided = all_p_values(12) / 2
    is_called_different = one_sided <= 0.05

    probability = probabilities(12, 0.3, 0.3)  # of equal classifiers

    assert probability[is_called_different].sum() > 0.05


@pytest.mark.parametrize("counts", [(3, 0, 10), (7, 2, 20), (12, 3, 100), (30, 12, 400)])
def test_limits_exclude_zero_only_where_the_p_value_is_small(counts):
    p_value = difference_p_value(*counts)

    lower_above, _ = difference_limits(*counts, 0.9 * p_value)
    assert lower_above <= 0

    lower_below, _ = difference_limits(*counts, min(1.1 * p_value, 0.99))
    assert lower_below > -0.02


@pytest.fixture(scope="module", params=[7, 25])
def statistics(request):
    """(is_possible, statistics at many differences) of all x and y, each (n + 1, n + 1)."""
    n = request.param
    x, y = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    differences = np.linspace(-0.99, 0.99, 45)
    return x + y <= n, [score_statistic(x, y, n, theta) for theta in differences]


def test_the_statistic_rises_with_x(statistics):
    is_possible, of_differences = statistics

    for statistic in of_differences:
        rises = statistic[1:] >= statistic[:-1] - 1e-9
        assert rises[is_possible[1:]].all()


def test_the_statistic_falls_with_y(statistics):
    is_possible, of_differences = statistics

    for statistic in of_differences:
        falls = statistic[:, 1:] <= statistic[:, :-1] + 1e-9
        assert falls[is_possible[:, 1:]].all()


def test_the_p_value_is_the_maximum_over_error_rates_of_the_probability_of_more_extreme_outcomes():
    """By another route: all outcomes are listed, and error rates are taken from a dense grid."""
    x, y = np.array(outcomes(20)).T
    statistic = score_statistic(x, y, 20, 0.0)
    threshold = score_statistic(np.float64(9), np.float64(2), 20, 0.0)
    is_extreme = statistic >= threshold - 1e-9
    one_sided = 0.0
    for rate in np.linspace(0.03, 0.5, 200):
        extreme = probabilities(20, rate, rate)[is_extreme]
        one_sided = max(one_sided, extreme.sum())

    p_value = difference_p_value(9, 2, 20)

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
