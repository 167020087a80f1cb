"""Bounds on the mean of losses in [0, 1]: by hand, by properties, and by counting failures."""

import itertools
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from pacsent.bounds import means
from pacsent.bounds.means import betting, log_wealth, mean_is_below

POPULATIONS = {  # (mean, losses)
    "documents": (0.27, lambda rng, n: np.clip(rng.normal(0.27, 0.04, n), 0, 1)),
    "beta": (2 / 7, lambda rng, n: rng.beta(2, 5, n)),
    "coins": (0.3, lambda rng, n: (rng.random(n) < 0.3).astype(float)),
    "rare": (0.02, lambda rng, n: (rng.random(n) < 0.02).astype(float)),
}


@pytest.mark.parametrize("m", [0.1, 0.5, 0.8])
def test_the_wealth_is_a_test_martingale(m):
    """Over all sequences of 8 losses of 0 or 1 with the mean m, its expectation is 1."""
    total = 0.0
    for losses in itertools.product((0.0, 1.0), repeat=8):
        probability = np.prod(np.where(losses, m, 1 - m))
        total += probability * np.exp(log_wealth(np.array(losses), np.array([m]), np.log(20)))[0]
    assert_allclose(total, 1.0, rtol=1e-12)


def test_betting_is_the_edge_of_what_the_wealth_allows(rng):
    losses = rng.beta(2, 5, 300)
    means_tested = np.arange(1, 10_000)[::-1] / 10_000

    found = betting(losses, 0.05)

    above = means_tested[means_tested >= found]
    below = np.array([found - 1e-4])
    assert (log_wealth(losses, above, np.log(20)) >= np.log(20) - 1e-9).all()
    assert log_wealth(losses, below, np.log(20)) < np.log(20)


def test_the_largest_mean_that_is_tested_can_be_the_bound():
    assert betting(np.full(1200, 0.999), 0.05) == 0.9999


@pytest.mark.parametrize("bound", [betting, means.differing_means])
def test_a_bound_is_never_below_the_mean_and_shrinks_with_n(bound, rng):
    losses = rng.beta(2, 5, 100)
    assert losses.mean() <= bound(losses, 0.05) <= 1
    assert bound(np.tile(losses, 10), 0.05) < bound(losses, 0.05) + 1e-9
    assert bound(losses, 0.01) >= bound(losses, 0.2)
    with warnings.catch_warnings(action="error"):  # a bound at the mean is none below it
        assert bound(np.ones(20), 0.05) == 1.0


def test_one_mean_is_ruled_out_by_plug_in_bets(rng):
    losses = rng.beta(2, 5, 200)
    sizes = np.sqrt(2 * np.log(10) / (means._variances_before(losses) * 200))

    def largest_wealth(mean):
        bets = np.minimum(sizes, 0.5 / (1 - mean))
        return np.log(np.cumprod(1 + bets * (mean - losses)).max())

    edge = brentq(lambda mean: largest_wealth(mean) - np.log(10), 0.2, 0.9)
    assert mean_is_below(losses, edge + 1e-6, 0.1) and not mean_is_below(losses, edge - 1e-6, 0.1)
    assert not mean_is_below(np.array([]), 0.5, 0.1)


@pytest.mark.filterwarnings("ignore:The bound")
def test_bets_aimed_at_the_missing_wealth_are_tight():
    rng = np.random.default_rng(0)  # plug-in bets give 0.181 here
    bounds = [betting((rng.random(100) < 0.1).astype(float), 0.05) for _ in range(150)]
    assert np.mean(bounds) < 0.178


@pytest.mark.filterwarnings("ignore:The bound")
@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.slow
def test_the_bounds_fail_no_more_often_than_they_may(name):
    rng, (mean, losses) = np.random.default_rng(3), POPULATIONS[name]
    failures = sum(betting(losses(rng, 100), 0.1) < mean for _ in range(600))
    assert failures <= 60 + 3 * np.sqrt(600 * 0.09)  # three deviations


@pytest.mark.filterwarnings("ignore:The bound")
def test_a_bettor_who_knows_the_loss_breaks_the_promise(monkeypatch):
    """The test above would notice bets that look ahead."""
    peeking = lambda losses: np.where(losses < 0.3, 0.01, 1e9)  # noqa: E731
    monkeypatch.setattr(means, "_variances_before", peeking)
    rng = np.random.default_rng(3)
    failures = sum(betting(rng.random(100) < 0.3, 0.1) < 0.3 for _ in range(100))
    assert failures > 50


@pytest.mark.parametrize(
    ("losses", "delta", "message"),
    [
        ([0.5, 1.5], 0.05, r"losses must be in \[0, 1\]. Got 1.5 instead"),
        ([np.nan], 0.05, r"losses must be in \[0, 1\]. Got nan instead"),
        ([], 0.05, r"at least one number. Got shape \(0,\)"),
        ([0.5], 0, r"strictly between 0 and 1. Got 0 instead"),
    ],
)
def test_wrong_losses_and_deltas_are_named(losses, delta, message):
    with pytest.raises(ValueError, match=message):
        betting(losses, delta)


def test_a_part_larger_than_the_whole_is_refused():
    with pytest.raises(ValueError, match="between 0 and whole"):
        means.ratio_at_least(np.array([2.0]), np.array([1.0]), 3, 0.1)


@pytest.mark.filterwarnings("ignore:The bound")
def test_differing_means_are_bounded_on_average_and_not_by_betting():
    rng = np.random.default_rng(6)
    p = np.repeat([0.05, 0.4], 150)
    failures = dict.fromkeys((means.differing_means, betting), 0)
    for _ in range(150):
        losses = (rng.random(300) < p).astype(float)
        for bound in failures:
            failures[bound] += bound(losses, 0.1) < p.mean()
    assert failures[means.differing_means] <= 15 + 3 * np.sqrt(150 * 0.09)
    assert failures[betting] > 75  # the negative control: betting is about one mean


def test_means_that_depend_on_the_past_are_bounded_at_all_times():
    """The classifier learns: each error makes the next less likely."""
    rng = np.random.default_rng(7)
    broken = 0
    for _ in range(60):
        p, losses = [], []
        for _ in range(120):
            p.append(0.6 / (1 + sum(losses)) + 0.05)
            losses.append(float(rng.random() < p[-1]))
        ends = (10, 30, 60, 120)
        broken += any(means.differing_means(losses[:n], 0.1) < np.mean(p[:n]) for n in ends)
    assert broken <= 6 + 3 * np.sqrt(60 * 0.09)


def test_differing_means_by_the_formula_of_one_lambda(monkeypatch):
    monkeypatch.setattr(means, "_TILTS", np.array([0.7]))
    losses = np.array([0.2, 0.9, 0.4] * 30)
    by_hand = (1 - np.exp(-(0.7 * losses.sum() + np.log(20)) / 90)) / (1 - np.exp(-0.7))
    assert_allclose(means.differing_means(losses, 0.05), by_hand, rtol=1e-9)


def test_a_bound_below_the_mean_of_its_losses_is_explained():
    losses = np.repeat([0.0, 1.0], [150, 60])
    with pytest.warns(UserWarning, match=r"is below the mean 0.2857 .* differing_means"):
        assert betting(losses, 0.05) < losses.mean()
    assert means.differing_means(losses, 0.05) > losses.mean()


def test_bets_use_the_variance_of_the_losses_before_each(rng):
    losses = rng.random(6)
    by_hand = [0.25]
    for t in range(1, 6):
        means_so_far = [(0.5 + losses[: i + 1].sum()) / (i + 2) for i in range(t)]
        by_hand.append((0.25 + ((losses[:t] - means_so_far) ** 2).sum()) / (t + 1))
    assert_allclose(means._variances_before(losses), by_hand)


def test_the_bound_of_a_ratio_is_the_edge_of_what_its_wealth_allows(rng):
    whole = rng.integers(1, 4, 600)  # so many that the cap does not decide the bets
    part = rng.binomial(whole, 0.8)
    low = means.ratio_at_least(part, whole, 3.0, 0.1)

    def largest_wealth(r):
        wealth, largest, pairs = 0.0, 0.0, [(0.5, 1.0)]
        for i, pair in enumerate(zip(part, whole)):
            past = np.array(pairs)
            ratio = past[:, 0].sum() / past[:, 1].sum()
            # of the pair that came before all others the square of 1/2 is counted
            squares = 0.25 + ((past[1:, 0] - ratio * past[1:, 1]) ** 2).sum()
            size = np.sqrt(2 * np.log(10) / (squares / (i + 1) * 600))
            wealth += np.log1p(min(size, means._CAP / (r * 3)) * (pair[0] - r * pair[1]))
            largest = max(largest, wealth)
            pairs.append(pair)
        return largest

    assert 0.5 < low < part.sum() / whole.sum()
    assert largest_wealth(low - 1e-6) > np.log(10) > largest_wealth(low + 1e-6)
