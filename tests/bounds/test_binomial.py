"""Binomial probabilities: against 40 digits and against scipy.stats, over the whole range."""

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

from pacsent.bounds import binomial


def draw_binomials(rng, size, largest_n):
    """Successes, trials and probabilities over their whole range, the ends included."""
    n = np.floor(10.0 ** rng.uniform(0, np.log10(largest_n), size)).astype(int)
    n[:20] = 0
    k = np.floor(rng.random(size) * (n + 3)).astype(int) - 1  # from -1 to n + 1

    # Most of the probabilities are those for which k is neither certain nor impossible.
    deviation = rng.normal(size=size) * np.sqrt(np.maximum(k, 1))
    p = np.clip((k + deviation) / np.maximum(n, 1), 0.0, 1.0)
    p[::5] = rng.random(p[::5].size)
    p[1::10] = 10.0 ** rng.uniform(-12, -1, p[1::10].size)
    return k, n, p


def true_cdf(k, n, p):
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    with mpmath.workdps(40):
        return float(mpmath.betainc(k + 1, n - k, mpmath.mpf(p), 1, regularized=True))


def test_the_binomial_cdf_is_right_to_thirteen_digits():
    k, n, p = draw_binomials(np.random.default_rng(0), 300, largest_n=2_000)

    cdf = binomial.binomial_cdf(k, n, p)

    true = np.array([true_cdf(*point) for point in zip(k.tolist(), n.tolist(), p.tolist())])
    is_representable = true > 1e-30  # below, the digits of the reference are lost
    assert_allclose(cdf[is_representable], true[is_representable], rtol=1e-13, atol=0)
    assert (cdf[~is_representable] <= 1e-29).all()


@pytest.mark.parametrize(("largest_n", "rtol"), [(300, 2e-13), (10_000, 5e-12), (1_000_000, 5e-10)])
def test_the_binomial_cdf_is_that_of_scipy_up_to_the_rounding_of_one_minus_p(largest_n, rtol):
    k, n, p = draw_binomials(np.random.default_rng(1), 50_000, largest_n)

    cdf = binomial.binomial_cdf(k, n, p)

    assert_allclose(cdf, stats.binom.cdf(k, n, p), rtol=rtol, atol=1e-100)


@pytest.mark.parametrize(
    ("k", "n", "p", "expected"),
    [
        (-1, 0, 0.3, 0.0),
        (0, 0, 0.3, 1.0),
        (-1, 5, 0.0, 0.0),
        (0, 5, 0.0, 1.0),
        (4, 5, 1.0, 0.0),
        (5, 5, 1.0, 1.0),
        (6, 5, 0.3, 1.0),
    ],
)
def test_the_binomial_cdf_at_the_ends_of_its_range_is_exact(k, n, p, expected):
    assert binomial.binomial_cdf(k, n, p) == expected
    assert stats.binom.cdf(k, n, p) == expected


def test_the_beta_cdf_of_ranks_is_bit_for_bit_that_of_scipy():
    rng = np.random.default_rng(2)
    k, n, p = draw_binomials(rng, 50_000, largest_n=1_000_000)
    ranks = np.clip(k, 1, np.maximum(n, 1))
    n_above = np.maximum(n, 1) + 1 - ranks

    cdf = special.betainc(ranks, n_above, p)

    assert_array_equal(cdf, stats.beta.cdf(p, ranks, n_above))


def test_quantiles_of_error_rates_are_bit_for_bit_those_of_scipy():
    rng = np.random.default_rng(3)
    n_wrong = np.floor(10.0 ** rng.uniform(-0.2, 5.5, 5_000))
    n_right = np.floor(10.0 ** rng.uniform(-0.2, 5.5, 5_000))
    quantiles = np.array([0.1, 0.3, 0.5, 0.7, 0.9])[:, None]

    rates = special.betaincinv(n_wrong + 0.5, n_right + 0.5, quantiles)

    assert_array_equal(rates, stats.beta.ppf(quantiles, n_wrong + 0.5, n_right + 0.5))


@pytest.mark.parametrize("delta", [1e-8, 0.0005, 0.005, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("error", [1e-9, 0.01, 0.05, 0.1, 0.3, 0.5, 0.9, 1.0 - 1e-9])
def test_the_chance_to_pass_is_that_by_quantiles_of_scipy(error, delta):
    rng = np.random.default_rng(4)
    n = np.floor(10.0 ** rng.uniform(-0.3, 5, 300)).astype(int)
    rate = np.clip(error * rng.uniform(0, 2, (5, 300)), 0.0, 1.0)
    rate[0, :50] = 0.0
    rate[1, :50] = 1.0

    chance = binomial.chance_to_pass(n, rate, error, delta)

    quantile = stats.binom.ppf(delta, n, error)
    is_passing = stats.binom.cdf(quantile, n, error) <= delta
    most = np.where(is_passing, quantile, quantile - 1)
    expected = stats.binom.cdf(most, n, rate) * (n > 0)
    assert_allclose(chance, expected, rtol=5e-11, atol=1e-100)
