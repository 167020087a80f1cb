"""Procedures behind guarantees, on arrays: each holds in simulation, and its misuse is noticed."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize, stats

from pacsent.classify import fitting
from pacsent.guarantees.abstaining import Calibration, accepted, lowest_valid_threshold, plan
from pacsent.guarantees.count_certificates import Comparison
from pacsent.guarantees.thresholds import class_thresholds, for_precision, for_recall
from pacsent.maths import binomial, temperature
from pacsent.text.ngrams import NGrams

DELTA = 0.1


def allowed(n, delta=DELTA):
    """More violations than this have probability below 1e-4 where the guarantee holds."""
    return stats.binom.isf(1e-4, n, delta)


# ---- testing in an order -----------------------------------------------------------------------


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


# ---- abstaining --------------------------------------------------------------------------------


def answers(rng, n):
    """Confidences, and which answers are wrong."""
    confidence = rng.beta(4, 1.5, n) / 2 + 0.5
    return confidence, rng.random(n) < 1.0 - confidence


TRUTH = answers(np.random.default_rng(99), 400_000)


def abstaining(rng, n_runs, one_start=False, n=300, error=0.1):
    """(coverage, runs in which more than `error` of the answers are wrong)."""
    order = np.argsort(-TRUTH[0])
    sure, wrong = TRUTH[0][order], np.cumsum(TRUTH[1][order])
    covered, broken = [], 0
    for _ in range(n_runs):
        planning = answers(rng, 600)
        thresholds = plan(*planning, n, error, DELTA)
        if one_start:  # where a perfect record could pass
            thresholds = np.unique(np.quantile(planning[0], np.linspace(0, 1, 201)))[::-1]
            share = accepted(thresholds, *planning)[0] / 600
            first = np.argmax(n * share >= binomial.n_needed(error, DELTA))
            thresholds = thresholds[first:]
        at = lowest_valid_threshold(thresholds, *answers(rng, n), error, DELTA, rng.random())
        n_answered = 0
        if at is not None:
            n_answered = np.searchsorted(-sure, -thresholds[at], side="right")
            broken += wrong[n_answered - 1] / n_answered > error
        covered.append(n_answered / sure.size)
    return np.mean(covered), broken


@pytest.mark.slow
def test_planned_thresholds_hold_and_cover_more_than_one_start():
    coverage, broken = abstaining(np.random.default_rng(2), 200)
    before, _ = abstaining(np.random.default_rng(2), 200, one_start=True)
    assert broken <= allowed(200)
    assert coverage > 1.4 * before > 0.15


def test_a_start_chosen_by_the_calibration_texts_is_noticed():
    """Where no threshold is good enough, the best-looking one passes too often."""
    rng = np.random.default_rng(3)
    count = 0
    for _ in range(400):
        confidence, wrong = rng.random(300), rng.random(300) < 0.1001
        thresholds = np.unique(np.quantile(rng.random(500), np.linspace(0, 1, 31)))[::-1]
        n_accepted, n_wrong = accepted(thresholds, confidence, wrong)
        best = np.argmin(stats.binom.cdf(n_wrong, n_accepted, 0.1))
        tested = confidence, wrong, 0.1, DELTA, rng.random()
        count += lowest_valid_threshold(thresholds[best:], *tested) is not None
    assert count > allowed(400)


def test_thresholds_are_planned_without_the_calibration_texts_and_answer_a_share():
    rng = np.random.default_rng(4)
    planning = answers(rng, 500)
    thresholds = plan(*planning, 300, 0.1, DELTA, least=0.5)
    assert (np.diff(thresholds) < 0).all()
    assert (planning[0] >= thresholds[0]).mean() >= 0.5
    assert plan(*planning, 3000, 0.1, DELTA)[0] > plan(*planning, 30, 0.1, DELTA)[0]


# ---- comparing ---------------------------------------------------------------------------------


def test_mcnemar_is_the_binomial_test_of_the_texts_on_which_one_is_right():
    for n_a, n_b in [(12, 3), (0, 0), (5, 5), (0, 9), (40, 22)]:
        expected = stats.binomtest(n_a, n_a + n_b).pvalue if n_a + n_b else 1.0
        assert binomial.mcnemar(n_a, n_b) == pytest.approx(expected)
        assert Comparison(200, n_a, n_b, 0.05).p_value == binomial.mcnemar(n_a, n_b)


def test_comparing_finds_a_difference_more_often_than_limits_on_each_share():
    rng = np.random.default_rng(6)
    found = before = by_interval = 0
    for _ in range(300):
        n_a, n_b, _ = rng.multinomial(200, [0.12, 0.05, 0.83]).tolist()
        found += binomial.mcnemar(n_a, n_b) <= 0.05
        by_interval += Comparison(200, n_a, n_b, 0.05).bounds[0] > 0
        share = 0.05 / 4
        before += binomial.lower_limit(n_a, 200, share) > binomial.upper_limit(n_b, 200, share)
    assert found >= by_interval > 0.9 * found > 2 * before


def test_equal_classifiers_are_called_different_no_more_often_than_allowed():
    rng = np.random.default_rng(7)
    draws = rng.multinomial(200, [0.1, 0.1, 0.8], 2000)
    count = sum(binomial.mcnemar(int(a), int(b)) <= DELTA for a, b, _ in draws)
    assert count <= allowed(2000)
    one_sided = sum(binomial.mcnemar(int(a), int(b)) / 2 <= DELTA for a, b, _ in draws)
    assert one_sided > allowed(2000)  # the side chosen after looking


# ---- precision and recall of a class -----------------------------------------------------------


def of_a_class(rng, n):
    """Probabilities of a class, and which texts are of it: right on average."""
    proba = rng.beta(0.7, 1.3, n)
    return proba, rng.random(n) < proba


def class_violations(seed, after=False):
    """How often precision, and recall, are below what was asked for; and the mean recall."""
    rng = np.random.default_rng(seed)
    proba, true = of_a_class(np.random.default_rng(98), 200_000)
    counts, reached = np.zeros(2, int), []
    for _ in range(300):
        drawn, is_class = of_a_class(rng, 400)
        planning = of_a_class(rng, 400)
        low = for_precision((planning[0], ~planning[1]), drawn, is_class, 0.8, DELTA, rng.random())
        high = for_recall(drawn[is_class], 0.7, DELTA)
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
def test_precision_and_recall_of_a_class_hold():
    counts, reached = class_violations(8)
    assert (counts <= allowed(300)).all()
    assert reached > 0.2


@pytest.mark.slow
def test_thresholds_read_off_the_calibration_texts_are_noticed():
    counts, _ = class_violations(8, after=True)
    assert (counts > allowed(300)).all()


def test_thresholds_of_classes_say_what_they_guarantee_and_what_they_cannot():
    rng = np.random.default_rng(9)
    labels = rng.integers(2, size=400)
    z = rng.normal(size=400) + 4.0 * labels - 2.0
    log_proba = -np.logaddexp(0.0, np.column_stack([z, -z]))
    half = slice(200, None)
    classifier = SimpleNamespace(
        classes_=np.array(["no", "yes"]),
        seed_=0,
        out_of_fold_=SimpleNamespace(log_proba=log_proba[half], labels=labels[half]),
        predict_log_proba=lambda X: log_proba[:5],
    )
    known = Calibration(log_proba[:200], labels[:200])
    asked = {"precision": 0.8, "recall": 0.8, "classes": None, "delta": 0.1}
    found = class_thresholds(classifier, known, **asked)
    assert set(found.thresholds) == {"no", "yes"} and None not in found.thresholds.values()
    rows = found.predict(range(5))
    assert all(set(row) <= {"no", "yes"} for row in rows) and any(rows)
    assert "at least 80 % are of it, and of the texts of a class at least 80 %" in str(found)
    strict = class_thresholds(classifier, known, **asked | {"precision": 0.999})
    assert set(strict.thresholds.values()) == {None} and "Never named" in str(strict)
    with pytest.raises(ValueError, match="needs precision or recall"):
        class_thresholds(classifier, known, precision=None, recall=None, classes=None, delta=0.1)


# ---- temperatures ------------------------------------------------------------------------------


def decisions(rng, n, scale=3.0):
    """Decision values that are `scale` times too large, and labels."""
    z = 1.5 * rng.normal(size=(n, 1))
    return scale * z, (rng.random(n) < 1 / (1 + np.exp(-z[:, 0]))).astype(int)


def test_probabilities_of_several_temperatures_are_averaged():
    z, scales = np.array([[1.0, 0.0, -2.0], [0.5, 3.0, 0.1]]), [0.5, 1.0, 4.0]
    each = [np.exp(s * z) / np.exp(s * z).sum(axis=1, keepdims=True) for s in scales]
    assert np.allclose(np.exp(temperature.log_probabilities(z, scales)), np.mean(each, axis=0))
    assert np.allclose(
        temperature.log_probabilities(z, [0.7]), temperature.log_probabilities(z, 0.7)
    )


@pytest.mark.parametrize(("n_columns", "factor"), [(1, 1), (1, 30), (3, 1), (5, 0.2)])
def test_the_best_temperature_is_what_a_blind_minimiser_finds(n_columns, factor):
    rng = np.random.default_rng(n_columns)
    z = factor * rng.normal(size=(200, n_columns))
    noisy = z + 2 * factor * rng.gumbel(size=z.shape)
    labels = (noisy[:, 0] > 0).astype(int) if n_columns == 1 else noisy.argmax(axis=1)
    weights = rng.uniform(0.2, 3, size=200)
    found = temperature.fit_inverse_temperature(z, labels, weights)

    def loss(log_scale):
        return temperature.log_loss(z, labels, weights, np.exp(log_scale))

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
    new, y = decisions(rng, 20_000)
    losses, spreads = [], {}
    for n in [20] * 60 + [200]:
        known, labels = decisions(rng, n)
        scales = temperature.inverse_temperatures(known, labels, np.ones(n))
        one = temperature.fit_inverse_temperature(known, labels, np.ones(n))
        spreads[n] = np.log(scales).std()
        if n == 20:
            losses.append([temperature.log_loss(new, y, np.ones(y.size), s) for s in (one, scales)])
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
    words = [f"w{k}" for k in range(3000)]
    chances = 1.0 / np.arange(1, 3001)
    chances /= chances.sum()

    def drawn(n):
        y = rng.integers(2, size=n)
        texts = [" ".join([*rng.choice(words, 12, p=chances), *([f"c{c}"] if rng.random() < 0.7
                 else [])]) for c in y]  # fmt: skip
        return texts, y

    texts, _ = drawn(120)
    new, _ = drawn(1000)
    grams = NGrams.of(texts, (1, 2))
    X = grams.tf_idf(texts)
    coef = np.random.default_rng(1).normal(size=(len(grams), 1)).astype(np.float32)
    spread = np.std(grams.scores(new, coef))
    learnt = X.multiply(np.bincount(X.indices, minlength=len(grams)) > 1) @ coef
    longer = fitting.growth(X, None)[:, None] * learnt
    assert 0.85 < np.std(longer) / spread < 1.2 and np.std(learnt) / spread < 0.75


@pytest.mark.slow
@pytest.mark.parametrize(("n_coins", "most"), [(1, 0.062), (5, 1.0)])
def test_randomised_tests_pass_as_often_as_allowed_and_a_second_coin_is_noticed(n_coins, most):
    rng = np.random.default_rng(0)
    wrong = rng.binomial(55, 0.1, 4000)
    passed = [any(binomial.passes([55], [k], 0.1, 0.05, coin)[0] for coin in rng.random(n_coins))
              for k in wrong.tolist()]  # fmt: skip
    share = np.mean(passed)
    assert share <= most and (share > 0.062) == (n_coins > 1)
    assert share > np.mean(stats.binom.cdf(wrong, 55, 0.1) <= 0.05)
