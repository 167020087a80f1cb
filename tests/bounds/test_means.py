"""Bounds on the mean of losses in [0, 1]: by hand, by properties, and by counting failures."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from pacsent.bounds import means
from pacsent.bounds.means import betting, log_wealth, mean_is_below

N_DEVIATIONS = 3  # by which a count of failures may lie above its expectation


def draw_documents(rng, n):
    return np.clip(rng.normal(0.27, 0.04, n), 0, 1)


def draw_beta(rng, n):
    return rng.beta(2, 5, n)


def draw_coins(rng, n, mean=0.3):
    """Losses of 0 or 1."""
    is_wrong = rng.random(n) < mean
    return is_wrong.astype(float)


def draw_rare(rng, n):
    return draw_coins(rng, n, mean=0.02)


def most_failures(n_trials, delta):
    """Where each fails with a probability of at most delta."""
    deviation = np.sqrt(n_trials * delta * (1 - delta))
    return n_trials * delta + N_DEVIATIONS * deviation


@pytest.mark.parametrize("mean", [0.1, 0.5, 0.8])
def test_the_wealth_is_a_test_martingale(mean):
    """Over all sequences of 8 losses of 0 or 1 with this mean, its expectation is 1."""
    expectation = 0.0
    for sequence in itertools.product((0.0, 1.0), repeat=8):
        losses = np.array(sequence)
        [wealth] = np.exp(log_wealth(losses, np.array([mean]), np.log(20)))
        probability = np.prod(np.where(losses == 1, mean, 1 - mean))
        expectation += probability * wealth

    assert_allclose(expectation, 1.0, rtol=1e-12)


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


BOUNDS = [betting, means.differing_means]


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_lies_between_the_mean_and_one(bound, rng):
    losses = rng.beta(2, 5, 100)

    assert losses.mean() <= bound(losses, 0.05) <= 1


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_shrinks_with_the_number_of_losses(bound, rng):
    losses = rng.beta(2, 5, 100)
    ten_times = np.tile(losses, 10)

    assert bound(ten_times, 0.05) < bound(losses, 0.05) + 1e-9


@pytest.mark.parametrize("bound", BOUNDS)
def test_more_confidence_costs_more(bound, rng):
    losses = rng.beta(2, 5, 100)

    assert bound(losses, 0.01) >= bound(losses, 0.2)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_at_the_mean_is_none_below_it(bound):
    assert bound(np.ones(20), 0.05) == 1.0


def test_one_mean_is_ruled_out_by_plug_in_bets(rng):
    losses = rng.beta(2, 5, 200)
    variances = means._variances_before(losses)
    sizes = np.sqrt(2 * np.log(10) / (variances * 200))

    def missing_wealth(mean):
        bets = np.minimum(sizes, 0.5 / (1 - mean))
        wealth = np.cumprod(1 + bets * (mean - losses))
        return np.log(wealth.max()) - np.log(10)

    edge = brentq(missing_wealth, 0.2, 0.9)
    assert mean_is_below(losses, edge + 1e-6, 0.1)
    assert not mean_is_below(losses, edge - 1e-6, 0.1)


def test_no_mean_is_ruled_out_by_no_losses():
    assert not mean_is_below(np.array([]), 0.5, 0.1)


@pytest.mark.filterwarnings("ignore:The bound")
def test_bets_aimed_at_the_missing_wealth_are_tight():
    rng = np.random.default_rng(0)  # plug-in bets give 0.181 here

    bounds = [betting(draw_coins(rng, 100, mean=0.1), 0.05) for _ in range(150)]

    assert np.mean(bounds) < 0.178


@pytest.mark.filterwarnings("ignore:The bound")
@pytest.mark.parametrize(
    ("draw", "mean"),
    [(draw_documents, 0.27), (draw_beta, 2 / 7), (draw_coins, 0.3), (draw_rare, 0.02)],
)
@pytest.mark.slow
def test_the_bounds_fail_no_more_often_than_they_may(draw, mean):
    rng = np.random.default_rng(3)

    bounds = np.array([betting(draw(rng, 100), 0.1) for _ in range(600)])

    n_failures = np.sum(bounds < mean)
    assert n_failures <= most_failures(600, 0.1)


@pytest.mark.filterwarnings("ignore:The bound")
def test_a_bettor_who_knows_the_loss_breaks_the_guarantee(monkeypatch):
    """The test above would notice bets that look ahead."""

    def peeking(losses):
        return np.where(losses < 0.3, 0.01, 1e9)

    monkeypatch.setattr(means, "_variances_before", peeking)
    rng = np.random.default_rng(3)

    bounds = np.array([betting(draw_coins(rng, 100), 0.1) for _ in range(100)])

    n_failures = np.sum(bounds < 0.3)
    assert n_failures > 50


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
    mean_of_each = np.repeat([0.05, 0.4], 150)
    average = mean_of_each.mean()
    n_failures = 0
    n_failures_of_betting = 0

    for _ in range(150):
        losses = draw_coins(rng, 300, mean_of_each)
        n_failures += means.differing_means(losses, 0.1) < average
        n_failures_of_betting += betting(losses, 0.1) < average

    assert n_failures <= most_failures(150, 0.1)
    assert n_failures_of_betting > 75  # betting is about one mean


def draw_learner(rng, n):
    """The means and the losses of a classifier that learns: an error makes the next less likely."""
    means_of_each = []
    losses = []
    for _ in range(n):
        means_of_each.append(0.6 / (1 + sum(losses)) + 0.05)
        losses.append(float(rng.random() < means_of_each[-1]))
    return means_of_each, losses


def fails_at_some_time(means_of_each, losses):
    """The bound is below the average mean so far at one of four times."""
    for end in (10, 30, 60, 120):
        if means.differing_means(losses[:end], 0.1) < np.mean(means_of_each[:end]):
            return True
    return False


def test_means_that_depend_on_the_past_are_bounded_at_all_times():
    rng = np.random.default_rng(7)

    failures = [fails_at_some_time(*draw_learner(rng, 120)) for _ in range(60)]

    assert sum(failures) <= most_failures(60, 0.1)


def test_differing_means_by_the_formula_of_one_lambda(monkeypatch):
    monkeypatch.setattr(means, "_TILTS", np.array([0.7]))
    losses = np.array([0.2, 0.9, 0.4] * 30)

    bound = means.differing_means(losses, 0.05)

    exponent = (0.7 * losses.sum() + np.log(20)) / 90
    by_hand = (1 - np.exp(-exponent)) / (1 - np.exp(-0.7))
    assert_allclose(bound, by_hand, rtol=1e-9)


def test_a_bound_below_the_mean_of_its_losses_is_explained():
    losses = np.repeat([0.0, 1.0], [150, 60])

    with pytest.warns(UserWarning, match=r"is below the mean 0.2857 .* differing_means"):
        bound = betting(losses, 0.05)

    assert bound < losses.mean()
    assert means.differing_means(losses, 0.05) > losses.mean()


def test_bets_use_the_variance_of_the_losses_before_each(rng):
    losses = rng.random(6)

    variances = means._variances_before(losses)

    squares = 0.25  # of a loss that came before all others, of 0.5 from its mean
    by_hand = [squares]
    for t in range(1, 6):
        mean = (0.5 + losses[:t].sum()) / (t + 1)
        squares += (losses[t - 1] - mean) ** 2
        by_hand.append(squares / (t + 1))
    assert_allclose(variances, by_hand)


def largest_log_wealth_of_ratio(ratio_tested, part, whole):
    """Of bets against a ratio, where a whole is at most 3 and delta is 0.1."""
    parts = np.array([0.5, *part])  # one pair came before all others
    wholes = np.array([1.0, *whole])
    wealth = 0.0
    largest = 0.0
    for i in range(1, len(parts)):
        ratio = parts[:i].sum() / wholes[:i].sum()
        residuals = parts[1:i] - ratio * wholes[1:i]
        squares = 0.25 + (residuals**2).sum()
        size = np.sqrt(2 * np.log(10) / (squares / i * len(part)))
        bet = min(size, means._CAP / (ratio_tested * 3))
        wealth += np.log1p(bet * (parts[i] - ratio_tested * wholes[i]))
        largest = max(largest, wealth)
    return largest


def test_the_bound_of_a_ratio_is_the_edge_of_what_its_wealth_allows(rng):
    whole = rng.integers(1, 4, 600)  # so many that the cap does not decide the bets
    part = rng.binomial(whole, 0.8)

    low = means.ratio_at_least(part, whole, 3.0, 0.1)

    below = largest_log_wealth_of_ratio(low - 1e-6, part, whole)
    above = largest_log_wealth_of_ratio(low + 1e-6, part, whole)
    assert 0.5 < low < part.sum() / whole.sum()
    assert below > np.log(10) > above
