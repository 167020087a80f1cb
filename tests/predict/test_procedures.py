"""Procedures behind guarantees, on arrays: each holds in simulation, and its misuse is noticed."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize, special, stats

from pacsent.bounds import binomial
from pacsent.certify import scores
from pacsent.classify import fitting
from pacsent.classify.solvers import temperature
from pacsent.predict.abstaining import (
    lowest_valid_threshold,
    plan,
    prediction_set_thresholds,
)
from pacsent.predict.calibration import Calibration
from pacsent.predict.thresholds import class_thresholds
from pacsent.text.ngrams import NGrams

DELTA = 0.1


def most_violations(n, delta=DELTA):
    """More violations than this have probability below 1e-4 where the guarantee holds."""
    return stats.binom.isf(1e-4, n, delta)


@pytest.mark.parametrize(
    ("rows", "n_passed"), [(slice(None), 1), (slice(2, 4), None), (slice(2), 1)]
)
def test_thresholds_pass_in_order_up_to_the_first_that_fails(rows, n_passed):
    thresholds = np.array([0.85, 0.75, 0.65, 0.55])
    confidence = np.repeat([0.9, 0.8, 0.7, 0.6], 100)
    is_wrong = np.concatenate([np.arange(100) < n_wrong for n_wrong in (0, 2, 60, 0)])

    last = lowest_valid_threshold(thresholds[rows], confidence, is_wrong, 0.05, 0.05, 0.5)

    assert last == n_passed


def test_sets_that_hold_for_each_class_have_thresholds_of_its_texts_at_its_part_of_delta():
    labels = np.arange(600) % 3
    log_proba = np.log(np.random.default_rng(0).dirichlet([2, 1, 1], 600))
    calibration = Calibration(log_proba=log_proba, labels=labels)

    thresholds = prediction_set_thresholds(calibration, 0.1, DELTA, per_class=True)

    for class_number in range(3):
        of_class = calibration.select(np.flatnonzero(labels == class_number))
        alone = prediction_set_thresholds(of_class, 0.1, DELTA / 3, per_class=False)
        n_missed = (of_class.log_proba[:, class_number] < thresholds[class_number]).sum()
        assert thresholds[class_number] == alone[class_number]
        assert 0 < stats.binom.cdf(n_missed, 200, 0.1) <= DELTA / 3


def test_the_chance_to_pass_is_that_of_simulation():
    n = np.array([150, 60])
    rates = np.array([0.03, 0.02])
    n_wrong = np.random.default_rng(1).binomial(n, rates, (20_000, 2))

    chances = binomial.chance_to_pass(n, rates, 0.1, 0.05)

    is_passed = stats.binom.cdf(n_wrong, n, 0.1) <= 0.05
    assert np.abs(is_passed.mean(axis=0) - chances).max() < 0.015


def draw_answers(rng, n):
    """Confidences, and which answers are wrong."""
    confidence = rng.beta(4, 1.5, n) / 2 + 0.5
    return confidence, rng.random(n) < 1.0 - confidence


def test_planned_thresholds_answer_a_fraction_of_texts():
    confidence, is_wrong = draw_answers(np.random.default_rng(4), 500)

    thresholds = plan(confidence, is_wrong, 300, 0.1, DELTA, least=0.5)

    assert (np.diff(thresholds) < 0).all()
    assert (confidence >= thresholds[0]).mean() >= 0.5


def test_more_calibration_texts_allow_to_begin_with_a_higher_threshold():
    confidence, is_wrong = draw_answers(np.random.default_rng(4), 500)

    with_many = plan(confidence, is_wrong, 3000, 0.1, DELTA)
    with_few = plan(confidence, is_wrong, 30, 0.1, DELTA)

    assert with_many[0] > with_few[0]


def draw_class(rng, n):
    """Probabilities of a class, and which texts are of it: right on average."""
    proba = rng.beta(0.7, 1.3, n)
    return proba, rng.random(n) < proba


def make_calibration(proba, is_class):
    log_proba = np.log(np.stack([1 - proba, proba], axis=1))
    return Calibration(log_proba, is_class.astype(int))


def find_threshold(classifier, calibration, **options):
    """The threshold of class 1 for a precision or a recall."""
    rule = class_thresholds(
        classifier,
        {"": calibration},
        **{"precision": None, "recall": None, **options},
        classes=[1],
        delta=DELTA,
    )
    return rule.thresholds[1]


def read_off_thresholds(proba, is_class):
    """The thresholds at which the calibration texts show just the precision and recall."""
    precision = np.cumsum(is_class[np.argsort(-proba)]) / np.arange(1, proba.size + 1)
    last = np.flatnonzero(precision >= 0.8)[-1]
    return np.sort(proba)[::-1][last], np.quantile(proba[is_class], 0.3)


def count_class_violations(seed, is_read_off=False):
    """How often precision, and recall, are below what was asked for; and the mean recall."""
    rng = np.random.default_rng(seed)
    true_proba, is_true = draw_class(np.random.default_rng(98), 200_000)
    counts = np.zeros(2, int)
    recalls = []
    for _ in range(300):
        proba, is_class = draw_class(rng, 400)
        classifier = SimpleNamespace(
            classes_=np.arange(2),
            out_of_fold_=make_calibration(*draw_class(rng, 400)),
            seed_=int(rng.integers(2**32)),
        )
        if is_read_off:
            for_precision, for_recall = read_off_thresholds(proba, is_class)
        else:
            calibration = make_calibration(proba, is_class)
            for_precision = find_threshold(classifier, calibration, precision=0.8)
            for_recall = find_threshold(classifier, calibration, recall=0.7)

        if for_precision is not None:
            is_named = true_proba >= for_precision
            counts[0] += is_true[is_named].mean() < 0.8
            recalls.append(is_named[is_true].mean())
        counts[1] += (true_proba >= for_recall)[is_true].mean() < 0.7
    return counts, np.mean(recalls)


@pytest.mark.slow
@pytest.mark.parametrize("is_read_off", [False, True])
def test_precision_and_recall_hold_and_thresholds_read_off_are_noticed(is_read_off):
    counts, mean_recall = count_class_violations(8, is_read_off)

    holds = counts <= most_violations(300)
    assert (holds == (not is_read_off)).all()
    assert is_read_off or mean_recall > 0.2


def test_probabilities_of_several_temperatures_are_averaged():
    z = np.array([[1.0, 0.0, -2.0], [0.5, 3.0, 0.1]])
    scales = [0.5, 1.0, 4.0]
    of_scales = [special.softmax(scale * z, axis=1) for scale in scales]

    averaged = np.exp(scores.log_probabilities(z, scales))
    of_first = np.exp(scores.log_probabilities(z, 0.5))

    assert np.allclose(averaged, np.mean(of_scales, axis=0))
    assert np.allclose(of_first, of_scales[0])


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

    def loss(log_scale):
        return scores.log_loss(z, labels, weights, np.exp(log_scale))

    log_scale = np.log(temperature.fit_inverse_temperature(z, labels, weights))

    best = optimize.minimize_scalar(loss, bounds=(-4, 5), method="bounded")
    assert abs(log_scale - best.x) < 1e-3
    assert loss(log_scale) <= best.fun + 1e-12


@pytest.mark.parametrize(("labels", "log_scale"), [([1, 0], 5), ([0, 1], -4)])
@pytest.mark.parametrize("factor", [1, 1e3])
def test_the_best_temperature_stays_within_its_limits(labels, log_scale, factor):
    z = factor * np.array([[0.1], [-0.1]])

    scale = temperature.fit_inverse_temperature(z, np.array(labels), np.ones(2))

    assert scale == np.exp(log_scale)


def draw_decisions(rng, n):
    """Decision values that are 3 times too large, and labels."""
    z = 1.5 * rng.normal(size=(n, 1))
    labels = rng.random(n) < special.expit(z[:, 0])
    return 3.0 * z, labels.astype(int)


@pytest.mark.slow
def test_averaging_over_temperatures_loses_less_with_few_labels():
    rng = np.random.default_rng(11)
    new_values, new_labels = draw_decisions(rng, 20_000)
    weights = np.ones(20_000)
    losses_of_best = []
    losses_of_average = []

    for _ in range(60):
        values, labels = draw_decisions(rng, 20)
        best = temperature.fit_inverse_temperature(values, labels, np.ones(20))
        scales = temperature.inverse_temperatures(values, labels, np.ones(20))
        losses_of_best.append(scores.log_loss(new_values, new_labels, weights, best))
        losses_of_average.append(scores.log_loss(new_values, new_labels, weights, scales))

    assert np.mean(losses_of_average) < np.mean(losses_of_best) - 0.005


@pytest.mark.slow
def test_temperatures_spread_less_with_many_labels():
    rng = np.random.default_rng(11)
    scales = {}
    for n in (20, 200, 20_000):
        values, labels = draw_decisions(rng, n)
        scales[n] = temperature.inverse_temperatures(values, labels, np.ones(n))

    spreads = {n: np.log(of_n).std() for n, of_n in scales.items()}
    assert spreads[20] > 1.5 * spreads[200] > 0
    assert spreads[20_000] < 0.05
    assert abs(np.median(scales[20_000]) - 1 / 3) < 0.02


def test_rows_left_out_are_as_long_as_new_texts():
    """Decision values of texts left out have the spread of those of new texts; if not scaled, not.

    With few labels probabilities are then not overconfident.
    """
    rng = np.random.default_rng(0)
    frequencies = 1.0 / np.arange(1, 3001)
    words = rng.choice(3000, (1120, 12), p=frequencies / frequencies.sum())
    texts = [" ".join(f"w{k}" for k in row) for row in words]
    grams = NGrams.of(texts[:120], (1, 2))
    X = grams.tf_idf(texts[:120])
    coef = rng.normal(size=(len(grams), 1)).astype(np.float32)
    occurs_elsewhere = np.bincount(X.indices, minlength=len(grams)) > 1

    of_new_texts = grams.scores(texts[120:], coef)
    unscaled = X.multiply(occurs_elsewhere) @ coef
    scaled = fitting.growth(X, np.arange(120))[:, None] * unscaled

    spread = np.std(of_new_texts)
    assert 0.85 < np.std(scaled) / spread < 1.2
    assert np.std(unscaled) / spread < 0.75


@pytest.mark.slow
@pytest.mark.parametrize("n_coins", [1, 5])
def test_randomised_tests_pass_as_often_as_allowed_and_a_second_coin_is_noticed(n_coins):
    rng = np.random.default_rng(0)
    n_wrong = rng.binomial(55, 0.1, 4000)

    n_passed = 0
    for k in n_wrong.tolist():
        coins = rng.random(n_coins)
        n_passed += any(binomial.passes([55], [k], 0.1, 0.05, coin)[0] for coin in coins)

    rate = n_passed / 4000
    rate_without_coin = np.mean(stats.binom.cdf(n_wrong, 55, 0.1) <= 0.05)
    assert (rate > 0.062) == (n_coins > 1)
    assert rate > rate_without_coin
