"""Procedures behind guarantees, on arrays: each holds in simulation, and its misuse is noticed."""

from dataclasses import dataclass, field
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
    n_wrong = np.array([0, 2, 60, 0])
    is_wrong = np.arange(100) < n_wrong[:, None]

    last = lowest_valid_threshold(
        thresholds[rows], confidence, is_wrong.reshape(400), 0.05, 0.05, 0.5
    )

    assert last == n_passed


@pytest.fixture(scope="module")
def three_classes():
    """Calibration texts of three classes, 200 of each, with random probabilities."""
    rng = np.random.default_rng(0)
    log_proba = np.log(rng.dirichlet([2, 1, 1], 600))
    return Calibration(log_proba=log_proba, labels=np.arange(600) % 3)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_sets_that_hold_for_each_class_have_thresholds_of_its_texts_at_its_part_of_delta(
    three_classes, number
):
    rows = np.flatnonzero(three_classes.labels == number)
    of_class = three_classes.select(rows)

    thresholds = prediction_set_thresholds(three_classes, 0.1, DELTA, per_class=True)
    alone = prediction_set_thresholds(of_class, 0.1, DELTA / 3, per_class=False)

    assert thresholds[number] == alone[number]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_sets_that_hold_for_each_class_miss_few_of_its_texts(three_classes, number):
    rows = np.flatnonzero(three_classes.labels == number)
    log_proba = three_classes.log_proba[rows, number]

    thresholds = prediction_set_thresholds(three_classes, 0.1, DELTA, per_class=True)

    n_missed = np.count_nonzero(log_proba < thresholds[number])
    assert 0 < stats.binom.cdf(n_missed, 200, 0.1) <= DELTA / 3


def test_the_chance_to_pass_is_that_of_simulation(rng):
    n = np.array([150, 60])
    rates = np.array([0.03, 0.02])
    n_wrong = rng.binomial(n, rates, (20_000, 2))

    chances = binomial.chance_to_pass(n, rates, 0.1, 0.05)

    is_passed = stats.binom.cdf(n_wrong, n, 0.1) <= 0.05
    frequencies = is_passed.mean(axis=0)
    np.testing.assert_allclose(frequencies, chances, atol=0.015)


@pytest.fixture(scope="module")
def answers():
    """Confidences of 500 answers, and which are wrong: as many as the confidences say."""
    rng = np.random.default_rng(4)
    confidence = rng.beta(4, 1.5, 500) / 2 + 0.5
    is_wrong = rng.random(500) < 1.0 - confidence
    return confidence, is_wrong


def test_planned_thresholds_answer_a_fraction_of_texts(answers):
    confidence, is_wrong = answers

    thresholds = plan(confidence, is_wrong, 300, 0.1, DELTA, least=0.5)

    is_answered = confidence >= thresholds[0]
    assert is_answered.mean() >= 0.5


def test_planned_thresholds_are_in_decreasing_order(answers):
    confidence, is_wrong = answers

    thresholds = plan(confidence, is_wrong, 300, 0.1, DELTA, least=0.5)

    assert (np.diff(thresholds) < 0).all()


def test_more_calibration_texts_allow_to_begin_with_a_higher_threshold(answers):
    confidence, is_wrong = answers

    with_many = plan(confidence, is_wrong, 3000, 0.1, DELTA)
    with_few = plan(confidence, is_wrong, 30, 0.1, DELTA)

    assert with_many[0] > with_few[0]


def draw_class(rng, n):
    """Probabilities of a class, and which texts are of it: right on average."""
    proba = rng.beta(0.7, 1.3, n)
    is_class = rng.random(n) < proba
    return proba, is_class


def make_calibration(proba, is_class):
    of_both = np.stack([1 - proba, proba], axis=1)
    labels = is_class.astype(int)
    return Calibration(np.log(of_both), labels)


def find_threshold(classifier, calibration, precision=None, recall=None):
    """The threshold of class 1 for a precision or a recall."""
    rule = class_thresholds(
        classifier,
        {"": calibration},
        precision=precision,
        recall=recall,
        classes=[1],
        delta=DELTA,
    )
    return rule.thresholds[1]


def find_thresholds(rng, proba, is_class):
    """The thresholds of class 1 for a precision of 0.8, and for a recall of 0.7."""
    other_proba, other_is_class = draw_class(rng, 400)
    classifier = SimpleNamespace(
        classes_=np.arange(2),
        out_of_fold_=make_calibration(other_proba, other_is_class),
        seed_=int(rng.integers(2**32)),
    )
    calibration = make_calibration(proba, is_class)
    for_precision = find_threshold(classifier, calibration, precision=0.8)
    for_recall = find_threshold(classifier, calibration, recall=0.7)
    return for_precision, for_recall


def read_off_thresholds(rng, proba, is_class):
    """The thresholds at which the calibration texts show just the precision and recall."""
    order = np.argsort(-proba)
    n_named = np.arange(1, proba.size + 1)
    precision = np.cumsum(is_class[order]) / n_named
    last = np.flatnonzero(precision >= 0.8)[-1]
    for_precision = proba[order[last]]
    for_recall = np.quantile(proba[is_class], 0.3)
    return for_precision, for_recall


@dataclass
class Counts:
    """How often of 300 precision, and recall, are below what was asked for; and the recalls."""

    low_precision: int = 0
    low_recall: int = 0
    recalls: list[float] = field(default_factory=list)


def count_class_violations(choose_thresholds):
    """Choose the thresholds 300 times, each time from 400 texts."""
    rng = np.random.default_rng(8)
    true_proba, is_true = draw_class(np.random.default_rng(98), 200_000)
    counts = Counts()
    for _ in range(300):
        proba, is_class = draw_class(rng, 400)
        for_precision, for_recall = choose_thresholds(rng, proba, is_class)

        if for_precision is not None:
            is_named = true_proba >= for_precision
            true_precision = is_true[is_named].mean()
            true_recall = is_named[is_true].mean()
            counts.low_precision += true_precision < 0.8
            counts.recalls.append(true_recall)

        is_found = true_proba[is_true] >= for_recall
        counts.low_recall += is_found.mean() < 0.7
    return counts


@pytest.mark.slow
def test_precision_and_recall_of_class_thresholds_hold():
    counts = count_class_violations(find_thresholds)

    allowed = most_violations(300)
    assert counts.low_precision <= allowed
    assert counts.low_recall <= allowed
    assert np.mean(counts.recalls) > 0.2


@pytest.mark.slow
def test_thresholds_that_are_read_off_are_noticed():
    counts = count_class_violations(read_off_thresholds)

    allowed = most_violations(300)
    assert counts.low_precision > allowed
    assert counts.low_recall > allowed


def test_probabilities_of_several_temperatures_are_averaged():
    z = np.array([[1.0, 0.0, -2.0], [0.5, 3.0, 0.1]])
    scales = [0.5, 1.0, 4.0]
    of_scales = [special.softmax(scale * z, axis=1) for scale in scales]

    averaged = np.exp(scores.log_probabilities(z, scales))
    of_first = np.exp(scores.log_probabilities(z, 0.5))

    assert np.allclose(averaged, np.mean(of_scales, axis=0))
    assert np.allclose(of_first, of_scales[0])


@pytest.mark.parametrize("n_columns", [1, 3])
def test_probabilities_of_a_text_do_not_depend_on_the_texts_beside_it(rng, n_columns):
    z = rng.normal(size=(2500, n_columns))
    scales = np.array([0.5, 1.0, 3.0])

    together = scores.log_probabilities(z, scales)

    for row, expected in zip(z, together):
        [alone] = scores.log_probabilities(row[None], scales)
        assert np.array_equal(alone, expected)


@pytest.mark.parametrize(("n_columns", "factor"), [(1, 1), (1, 30), (3, 1), (5, 0.2)])
def test_the_best_temperature_is_what_a_blind_minimiser_finds(n_columns, factor):
    rng = np.random.default_rng(n_columns)
    z = factor * rng.normal(size=(200, n_columns))
    noisy = z + 2 * factor * rng.gumbel(size=z.shape)
    labels = (noisy[:, 0] > 0).astype(int) if n_columns == 1 else noisy.argmax(axis=1)
    weights = rng.uniform(0.2, 3, size=200)

    def loss(log_scale):
        scale = np.exp(log_scale)
        return scores.log_loss(z, labels, weights, scale)

    scale = temperature.fit_inverse_temperature(z, labels, weights)

    log_scale = np.log(scale)
    best = optimize.minimize_scalar(loss, bounds=(-4, 5), method="bounded")
    assert log_scale == pytest.approx(best.x, abs=1e-3)
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
    probabilities = special.expit(z[:, 0])
    is_positive = rng.random(n) < probabilities
    return 3.0 * z, is_positive.astype(int)


@pytest.mark.slow
def test_averaging_over_temperatures_loses_less_with_few_labels():
    rng = np.random.default_rng(11)
    new_values, new_labels = draw_decisions(rng, 20_000)
    weights = np.ones(20)
    new_weights = np.ones(20_000)
    losses_of_best = []
    losses_of_average = []

    for _ in range(60):
        values, labels = draw_decisions(rng, 20)
        best = temperature.fit_inverse_temperature(values, labels, weights)
        scales = temperature.inverse_temperatures(values, labels, weights)
        losses_of_best.append(scores.log_loss(new_values, new_labels, new_weights, best))
        losses_of_average.append(scores.log_loss(new_values, new_labels, new_weights, scales))

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


def test_rows_left_out_are_as_long_as_new_texts(rng):
    """Decision values of texts left out have the spread of those of new texts; if not scaled, not.

    With few labels probabilities are then not overconfident.
    """
    weights = 1.0 / np.arange(1, 3001)
    frequencies = weights / weights.sum()
    numbers = rng.choice(3000, (1120, 12), p=frequencies)
    texts = [" ".join(f"w{number}" for number in row) for row in numbers]
    training_texts = texts[:120]
    grams = NGrams.of(training_texts, (1, 2))
    X = grams.tf_idf(training_texts)
    coef = rng.normal(size=(len(grams), 1))
    coef = coef.astype(np.float32)
    n_texts_with = np.bincount(X.indices, minlength=len(grams))
    growth = fitting.growth(X, np.arange(120))

    of_new_texts = grams.scores(texts[120:], coef)
    unscaled = X.multiply(n_texts_with > 1) @ coef
    scaled = growth[:, None] * unscaled

    spread = np.std(of_new_texts)
    assert 0.85 < np.std(scaled) / spread < 1.2
    assert np.std(unscaled) / spread < 0.75


def passing_rate(rng, n_wrong, n_coins):
    """How often a randomised test of 55 answers passes with one of these coins at least."""
    n_passed = 0
    for number in n_wrong.tolist():
        coins = rng.random(n_coins)
        passes = [binomial.passes([55], [number], 0.1, 0.05, coin)[0] for coin in coins]
        n_passed += any(passes)
    return n_passed / n_wrong.size


@pytest.mark.slow
def test_randomised_tests_pass_as_often_as_allowed(rng):
    n_wrong = rng.binomial(55, 0.1, 4000)

    rate = passing_rate(rng, n_wrong, n_coins=1)

    passes_without_coin = stats.binom.cdf(n_wrong, 55, 0.1) <= 0.05
    assert passes_without_coin.mean() < rate <= 0.062


@pytest.mark.slow
def test_a_second_coin_of_randomised_tests_is_noticed(rng):
    n_wrong = rng.binomial(55, 0.1, 4000)

    rate = passing_rate(rng, n_wrong, n_coins=5)

    assert rate > 0.062
