"""Procedures behind guarantees, on arrays: each holds in simulation, and its misuse is noticed."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize, special, stats

from pacsent.bounds import binomial
from pacsent.certify import scores
from pacsent.classify import fitting
from pacsent.classify.solvers import temperature
from pacsent.predict.abstaining import lowest_valid_threshold, plan
from pacsent.predict.calibration import Calibration
from pacsent.predict.thresholds import class_thresholds
from pacsent.text.ngrams import NGrams

DELTA = 0.1


def allowed(n, delta=DELTA):
    """More violations than this have probability below 1e-4 where the guarantee holds."""
    return stats.binom.isf(1e-4, n, delta)


def test_thresholds_pass_in_order_up_to_the_first_that_fails():
    confidence = np.repeat([0.9, 0.8, 0.7, 0.6], 100)
    wrong = np.concatenate([np.arange(100) < k for k in (0, 2, 60, 0)])
    thresholds = np.array([0.85, 0.75, 0.65, 0.55])
    for some, expected in ((thresholds, 1), (thresholds[2:], None), (thresholds[:2], 1)):
        assert lowest_valid_threshold(some, confidence, wrong, 0.05, 0.05, 0.5) == expected


def test_the_chance_to_pass_is_that_of_simulation():
    rng = np.random.default_rng(1)
    n, rate = np.array([150, 60]), np.array([0.03, 0.02])
    passed = stats.binom.cdf(rng.binomial(n, rate, (20_000, 2)), n, 0.1) <= 0.05
    chance = binomial.chance_to_pass(n, rate, 0.1, 0.05)
    assert np.abs(passed.mean(axis=0) - chance).max() < 0.015


def answers(rng, n):
    """Confidences, and which answers are wrong."""
    confidence = rng.beta(4, 1.5, n) / 2 + 0.5
    return confidence, rng.random(n) < 1.0 - confidence


def test_thresholds_are_planned_without_the_calibration_texts_and_answer_a_share():
    rng = np.random.default_rng(4)
    planning = answers(rng, 500)
    thresholds = plan(*planning, 300, 0.1, DELTA, least=0.5)
    assert (np.diff(thresholds) < 0).all()
    assert (planning[0] >= thresholds[0]).mean() >= 0.5
    assert plan(*planning, 3000, 0.1, DELTA)[0] > plan(*planning, 30, 0.1, DELTA)[0]


def of_a_class(rng, n):
    """Probabilities of a class, and which texts are of it: right on average."""
    proba = rng.beta(0.7, 1.3, n)
    return proba, rng.random(n) < proba


def calibration(proba, is_class):
    return Calibration(np.log(np.stack([1 - proba, proba], axis=1)), is_class.astype(int))


def class_violations(seed, after=False):
    """How often precision, and recall, are below what was asked for; and the mean recall."""
    rng = np.random.default_rng(seed)
    proba, true = of_a_class(np.random.default_rng(98), 200_000)
    counts, reached = np.zeros(2, int), []
    for _ in range(300):
        drawn, is_class = of_a_class(rng, 400)
        classifier = SimpleNamespace(
            classes_=np.arange(2),
            out_of_fold_=calibration(*of_a_class(rng, 400)),
            seed_=int(rng.integers(2**32)),
        )
        low, high = (
            class_thresholds(
                classifier,
                {"": calibration(drawn, is_class)},
                precision=precision,
                recall=recall,
                classes=[1],
                delta=DELTA,
            ).thresholds[1]
            for precision, recall in ((0.8, None), (None, 0.7))
        )
        if after:  # the thresholds at which the calibration texts show just what is asked for
            shown = np.cumsum(is_class[np.argsort(-drawn)]) / np.arange(1, 401)
            low = np.sort(drawn)[::-1][np.flatnonzero(shown >= 0.8)[-1]]
            high = np.quantile(drawn[is_class], 0.3)
        if low is not None:
            counts[0] += true[proba >= low].mean() < 0.8
            reached.append((proba >= low)[true].mean())
        counts[1] += (proba >= high)[true].mean() < 0.7
    return counts, np.mean(reached)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_precision_and_recall_hold_and_thresholds_read_off_are_noticed(after):
    counts, reached = class_violations(8, after)
    assert ((counts <= allowed(300)) == (not after)).all()
    assert after or reached > 0.2


def test_probabilities_of_several_temperatures_are_averaged():
    z, scales = np.array([[1.0, 0.0, -2.0], [0.5, 3.0, 0.1]]), [0.5, 1.0, 4.0]
    each = [special.softmax(s * z, axis=1) for s in scales]
    assert np.allclose(np.exp(scores.log_probabilities(z, scales)), np.mean(each, axis=0))
    assert np.allclose(np.exp(scores.log_probabilities(z, 0.5)), each[0])


@pytest.mark.parametrize("n_columns", [1, 3])
def test_probabilities_of_a_text_do_not_depend_on_the_texts_beside_it(n_columns):
    z = np.random.default_rng(0).normal(size=(2500, n_columns))
    scales = np.array([0.5, 1.0, 3.0])

    together = scores.log_probabilities(z, scales)

    one_by_one = [scores.log_probabilities(row[None], scales)[0] for row in z]
    assert np.array_equal(together, one_by_one)


@pytest.mark.parametrize(("n_columns", "factor"), [(1, 1), (1, 30), (3, 1), (5, 0.2)])
def test_the_best_temperature_is_what_a_blind_minimiser_finds(n_columns, factor):
    rng = np.random.default_rng(n_columns)
    z = factor * rng.normal(size=(200, n_columns))
    noisy = z + 2 * factor * rng.gumbel(size=z.shape)
    labels = (noisy[:, 0] > 0).astype(int) if n_columns == 1 else noisy.argmax(axis=1)
    weights = rng.uniform(0.2, 3, size=200)
    found = temperature.fit_inverse_temperature(z, labels, weights)

    def loss(log_scale):
        return scores.log_loss(z, labels, weights, np.exp(log_scale))

    best = optimize.minimize_scalar(loss, bounds=(-4, 5), method="bounded")
    assert abs(np.log(found) - best.x) < 1e-3
    assert loss(np.log(found)) <= best.fun + 1e-12


def test_the_best_temperature_stays_within_its_limits():
    right, wrong, ones = np.array([1, 0]), np.array([0, 1]), np.ones(2)
    z = np.array([[0.1], [-0.1]])
    for factor in (1, 1e3):
        assert temperature.fit_inverse_temperature(factor * z, right, ones) == np.exp(5)
        assert temperature.fit_inverse_temperature(factor * z, wrong, ones) == np.exp(-4)


@pytest.mark.slow
def test_averaging_over_temperatures_loses_less_with_few_labels():
    rng = np.random.default_rng(11)

    def decisions(rng, n):
        """Decision values that are 3 times too large, and labels."""
        z = 1.5 * rng.normal(size=(n, 1))
        return 3.0 * z, (rng.random(n) < special.expit(z[:, 0])).astype(int)

    new, y = decisions(rng, 20_000)
    losses, spreads = [], {}
    for n in [20] * 60 + [200]:
        known, labels = decisions(rng, n)
        scales = temperature.inverse_temperatures(known, labels, np.ones(n))
        one = temperature.fit_inverse_temperature(known, labels, np.ones(n))
        spreads[n] = np.log(scales).std()
        if n == 20:
            losses.append([scores.log_loss(new, y, np.ones(y.size), s) for s in (one, scales)])
    assert np.mean(losses, axis=0)[1] < np.mean(losses, axis=0)[0] - 0.005
    assert spreads[20] > 1.5 * spreads[200] > 0
    many = decisions(rng, 20_000)
    found = temperature.inverse_temperatures(*many, np.ones(20_000))
    assert np.log(found).std() < 0.05 and abs(np.median(found) - 1 / 3) < 0.02


def test_rows_left_out_are_as_long_as_new_texts():
    """Decision values of texts left out have the spread of those of new texts; if not scaled, not.

    With few labels probabilities are then not overconfident.
    """
    rng = np.random.default_rng(0)
    chances = 1.0 / np.arange(1, 3001)
    drawn = rng.choice(3000, (1120, 12), p=chances / chances.sum())
    texts = [" ".join(f"w{k}" for k in row) for row in drawn]
    grams = NGrams.of(texts[:120], (1, 2))
    X = grams.tf_idf(texts[:120])
    coef = rng.normal(size=(len(grams), 1)).astype(np.float32)
    spread = np.std(grams.scores(texts[120:], coef))
    learnt = X.multiply(np.bincount(X.indices, minlength=len(grams)) > 1) @ coef
    longer = fitting.growth(X, np.arange(120))[:, None] * learnt
    assert 0.85 < np.std(longer) / spread < 1.2 and np.std(learnt) / spread < 0.75


@pytest.mark.slow
@pytest.mark.parametrize(("n_coins", "most"), [(1, 0.062), (5, 1.0)])
def test_randomised_tests_pass_as_often_as_allowed_and_a_second_coin_is_noticed(n_coins, most):
    rng = np.random.default_rng(0)
    wrong = rng.binomial(55, 0.1, 4000)
    passed = [
        any(binomial.passes([55], [k], 0.1, 0.05, coin)[0] for coin in rng.random(n_coins))
        for k in wrong.tolist()
    ]
    share = np.mean(passed)
    assert share <= most and (share > 0.062) == (n_coins > 1)
    assert share > np.mean(stats.binom.cdf(wrong, 55, 0.1) <= 0.05)
