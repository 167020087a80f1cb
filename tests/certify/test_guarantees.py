"""Guarantees hold where the truth is known, and violations are detected."""

import dataclasses
import functools
import re
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import pacsent
from helpers import FittedStub
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.bounds import binomial
from pacsent.certify import DriftMonitor, certify, compare
from pacsent.certify.drift_monitor import CalibrationValues, ConformalTest
from pacsent.certify.row_status import EMPTY, FITTED, NEW, REPEATED
from pacsent.classify.fitting import folds_for
from pacsent.predict import abstaining
from pacsent.predict.abstaining import ROUND_ERRORS, AnswerRule, abstain
from pacsent.predict.calibration import Calibration

REPLICATES = 500
DELTA = 0.1


def most_violations(n=REPLICATES, delta=DELTA):
    """More violations than this have probability below 1e-4 where the guarantee holds."""
    return stats.binom.isf(1e-4, n, delta)


def test_limits_and_ranks_are_those_of_the_beta_distribution():
    rank = binomial.rank_for_sets(200, 0.1, 0.05)

    assert binomial.upper_limit(3, 50, 0.05) == pytest.approx(stats.beta.ppf(0.95, 4, 47))
    assert binomial.lower_limit(3, 50, 0.05) == pytest.approx(stats.beta.ppf(0.05, 3, 48))
    assert stats.beta.cdf(0.9, rank, 201 - rank) <= 0.05
    assert stats.beta.cdf(0.9, rank - 1, 202 - rank) > 0.05


def test_limits_of_all_and_of_no_errors_are_trivial():
    assert binomial.upper_limit(5, 5, 0.05) == 1.0
    assert binomial.lower_limit(0, 5, 0.05) == 0.0


def test_59_texts_are_the_fewest_for_sets_at_5_percent():
    assert binomial.rank_for_sets(58, 0.05, 0.05) is None
    assert binomial.rank_for_sets(59, 0.05, 0.05) == 59


def draw_calibration(rng, n, n_classes=3, sharp=2.0):
    """Log-probabilities of a fixed classifier, and labels that follow other probabilities."""
    labels = rng.integers(n_classes, size=n)
    z = rng.normal(size=(n, n_classes))
    z[np.arange(n), labels] += np.array([1.0, 1.5, 2.5])[labels]
    z *= sharp
    log_proba = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    return Calibration(log_proba, labels)


def find_missed(calibration, thresholds):
    """Whether the prediction set of each text omits its label."""
    labels = calibration.labels
    of_label = calibration.log_proba[np.arange(labels.size), labels]
    return of_label < thresholds[labels]


def count_set_violations(rng, per_class=False, is_divided=True, is_fitted=False, error=0.1, n=250):
    """How often sets omit more labels than asked for.

    Misuse: `is_divided` false gives each of three classes all of delta, and `is_fitted` chooses
    the scores on the calibration texts.
    """
    truth = draw_calibration(np.random.default_rng(99), 40_000)
    delta = DELTA if is_divided else DELTA * 3
    count = 0
    for _ in range(REPLICATES):
        calibration = draw_calibration(rng, n)
        if is_fitted:
            calibration = flatter(calibration)
        thresholds = abstaining.prediction_set_thresholds(calibration, error, delta, per_class)
        is_missed = find_missed(truth, thresholds)
        if per_class:
            rates = [is_missed[truth.labels == c].mean() for c in range(3)]
            count += max(rates) > error
        else:
            count += is_missed.mean() > error
    return count


def flatter(calibration):
    """The same texts after a model was fitted on their labels: the right class gained."""
    log_proba = calibration.log_proba.copy()
    log_proba[np.arange(calibration.labels.size), calibration.labels] *= 0.7
    return Calibration(log_proba, calibration.labels)


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        ({}, True),
        ({"is_fitted": True}, False),
        pytest.param({"per_class": True}, True, marks=pytest.mark.slow),
        pytest.param({"per_class": True, "is_divided": False}, False, marks=pytest.mark.slow),
    ],
)
def test_label_sets_miss_no_more_than_guaranteed_and_misuse_is_noticed(options, holds):
    n_violations = count_set_violations(np.random.default_rng(3), **options)

    assert (n_violations <= most_violations()) == holds


def make_classifier_from(planning):
    """What `abstain` needs of a fitted classifier of three classes."""
    return SimpleNamespace(out_of_fold_=planning, seed_=0)


def make_record(calibration):
    """(threshold, coverage, error) on the calibration texts."""
    confidence = np.exp(calibration.log_proba.max(axis=1))
    thresholds = np.quantile(confidence, np.linspace(0, 1, 31))[::-1]
    n_answers, n_wrong = abstaining.accepted(thresholds, confidence, calibration.wrong)
    coverage = n_answers / confidence.size
    return list(zip(thresholds, coverage, n_wrong / n_answers))


def choose_by_plan(classifier, calibration, error=0.15):
    rule = abstain(classifier, {"": calibration}, error, DELTA)
    return rule.error, rule.threshold


def choose_by_looks(classifier, calibration, error=0.15):
    """The lowest threshold whose record looks good enough."""
    thresholds = [t for t, _, observed in make_record(calibration) if observed <= error]
    return error, min(thresholds, default=2.0)


def choose_by_record(classifier, calibration):
    """The smallest round error that the record of half of the texts shows."""
    of_half = [(error, t) for t, coverage, error in make_record(calibration) if coverage >= 0.5]
    observed, threshold = min(of_half)
    error = min(error for error in ROUND_ERRORS if error >= min(observed, 0.5))
    return error, threshold


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choose", "holds", "n", "n_runs"),
    [
        (choose_by_plan, True, 300, REPLICATES),
        (choose_by_looks, False, 300, REPLICATES),
        (functools.partial(choose_by_plan, error=None), True, 200, REPLICATES // 8),
        (choose_by_record, False, 200, REPLICATES // 8),
    ],
)
def test_answers_are_wrong_no_more_than_guaranteed_and_misuse_is_noticed(choose, holds, n, n_runs):
    rng = np.random.default_rng(5)
    truth = draw_calibration(np.random.default_rng(98), 40_000)
    confidence = np.exp(truth.log_proba.max(axis=1))
    classifier = make_classifier_from(draw_calibration(np.random.default_rng(97), 500))
    n_violations = 0
    n_answering = 0

    for _ in range(n_runs):
        error, threshold = choose(classifier, draw_calibration(rng, n))
        is_answered = confidence >= threshold
        n_answering += is_answered.mean() > 0.2
        n_violations += is_answered.any() and truth.wrong[is_answered].mean() > error

    assert (n_violations <= most_violations(n_runs)) == holds
    assert n_answering > n_runs / 2


def make_calibrated(calibration):
    """A calibrated classifier without texts."""
    return FittedStub(classes_=np.arange(3), calibration_=calibration)


def count_stream_alarms(rng, is_labelled, n_runs, is_fitted):
    """Alarms of streams of 150 texts of the same kind as 100 calibration texts."""
    n_alarms = 0
    for _ in range(n_runs):
        drawn = draw_calibration(rng, 250)
        lengths = rng.poisson(20, 250)
        monitors = np.column_stack([lengths, rng.random(250), np.full(250, -1.0), np.zeros(250)])
        calibration = Calibration(drawn.log_proba[:100], drawn.labels[:100])
        if is_fitted:
            calibration = flatter(flatter(flatter(calibration)))
        calibration = dataclasses.replace(calibration, monitors=monitors[:100])

        seed = int(rng.integers(2**32))
        monitor = DriftMonitor(make_calibrated(calibration), alpha=DELTA, random_state=seed)
        labels = drawn.labels[100:] if is_labelled else None
        n_alarms += monitor.update_arrays(drawn.log_proba[100:], labels, monitors[100:])
    return n_alarms


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_labelled", "n_runs", "is_fitted"),
    [(True, 500, False), (False, 500, False), (True, 60, True)],
)
def test_a_stream_of_the_same_kind_raises_few_alarms_unless_its_texts_were_fitted(
    is_labelled, n_runs, is_fitted
):
    n_alarms = count_stream_alarms(np.random.default_rng(7), is_labelled, n_runs, is_fitted)

    assert (n_alarms > most_violations(n_runs)) == is_fitted


@pytest.mark.parametrize(
    ("is_labelled", "name"), [(False, "probability of class '1'"), (True, "share of class '1'")]
)
def test_a_class_that_is_removed_is_found_and_named(is_labelled, name):
    rng = np.random.default_rng(9)
    n_found = 0
    n_named = 0

    for seed in range(20):
        calibrated = make_calibrated(draw_calibration(rng, 300, sharp=1.5))
        monitor = DriftMonitor(calibrated, random_state=seed)
        later = draw_calibration(rng, 450, sharp=1.5)
        is_kept = later.labels != 1
        labels = later.labels[is_kept] if is_labelled else None
        monitor.update_arrays(later.log_proba[is_kept], labels)
        n_found += monitor.alarm
        n_named += name in [change.name for change in monitor.changes]

    assert n_found >= 18
    assert n_named >= 14


def test_a_change_of_length_alone_is_named():
    rng = np.random.default_rng(10)
    lengths = rng.poisson(20, 600)
    monitors = np.column_stack([lengths, np.full((600, 2), -1.0), np.zeros(600)])
    drawn = draw_calibration(rng, 600)
    calibration = Calibration(drawn.log_proba[:300], drawn.labels[:300], monitors=monitors[:300])
    monitor = DriftMonitor(make_calibrated(calibration), random_state=0)

    is_alarmed = monitor.update_arrays(drawn.log_proba[300:], None, monitors[300:] * [1.5, 1, 1, 1])

    assert is_alarmed
    assert [change.name for change in monitor.changes] == ["length in words"]
    assert "Changed most: length in words (mean" in str(monitor)


def test_a_stream_that_changes_raises_the_alarm_soon():
    rng = np.random.default_rng(8)
    monitor = DriftMonitor(make_calibrated(draw_calibration(rng, 300)), random_state=0)

    is_alarmed_before = monitor.update_arrays(draw_calibration(rng, 100).log_proba)
    is_alarmed = monitor.update_arrays(draw_calibration(rng, 300, sharp=0.5).log_proba)

    assert not is_alarmed_before
    assert is_alarmed
    assert 100 < monitor.alarm_at < 350
    assert "ALARM" in str(monitor)


def summarise(monitor):
    """All that a monitor has found out."""
    return (
        monitor.alarm_at,
        monitor.holds_only_if,
        monitor.evidence,
        monitor.counts,
        monitor.changes,
    )


def test_a_monitor_finds_the_same_row_by_row_as_in_batches():
    rng = np.random.default_rng(11)
    classifier = make_calibrated(draw_calibration(rng, 300))
    log_proba = draw_calibration(rng, 300, sharp=0.5).log_proba
    status = rng.choice([NEW, EMPTY, FITTED, REPEATED], size=300)

    at_once = DriftMonitor(classifier, random_state=3)
    at_once.update_arrays(log_proba, status=status)
    row_by_row = DriftMonitor(classifier, random_state=3)
    for row in range(300):
        row_by_row.update_arrays(log_proba[[row]], status=status[[row]])

    assert at_once.alarm
    assert summarise(at_once) == summarise(row_by_row)


def test_conformal_p_values_are_ranks_among_calibration_and_earlier_values():
    rng = np.random.default_rng(12)
    calibration = rng.integers(5, size=(20, 1)).astype(float)  # with ties
    values = rng.integers(5, size=(30, 1)).astype(float)
    ties = rng.random((30, 1))

    test = ConformalTest(["a"], CalibrationValues(calibration), 0.1)
    p_values = test._p_values(values, ties)

    for i, value in enumerate(values[:, 0]):
        others = np.append(calibration, values[:i])
        n_equal = (others == value).sum() + 1
        rank = (others < value).sum() + ties[i, 0] * n_equal
        assert p_values[i, 0] == rank / (others.size + 1)


def test_the_successor_of_a_monitor_has_seen_nothing():
    rng = np.random.default_rng(13)
    monitor = DriftMonitor(make_calibrated(draw_calibration(rng, 300)), random_state=0)
    monitor.update_arrays(draw_calibration(rng, 300, sharp=0.5).log_proba)

    successor = monitor.successor(alpha=0.01)
    successor.update_arrays(draw_calibration(rng, 50).log_proba)

    assert monitor.alarm
    assert not successor.alarm
    assert successor.n_seen == 50
    assert successor.alpha == 0.01


FILMS = [f"film{i}" for i in range(40)]


def draw_texts(n, seed):
    """Texts that end with a word of their class, and labels of which 15% are wrong."""
    rng = np.random.default_rng(seed)
    is_good = rng.random(n) < 0.5
    texts = []
    for good in is_good:
        films = rng.choice(FILMS, 6)
        last = rng.choice(["good", "nice"] if good else ["bad", "poor"])
        texts.append(" ".join([*films, last]))
    is_wrong = rng.random(n) < 0.15
    return texts, np.where(is_good ^ is_wrong, "yes", "no")


@pytest.fixture(scope="module")
def fitted():
    certified = CertifiedClassifier(TextClassifier(None), calibration_size=0.4, random_state=0)
    return certified.fit(*draw_texts(300, 0))


def test_prediction_sets_are_at_most_all_classes(fitted):
    sets = fitted.predict_set(["good film1"], error=0.1)

    assert all(len(labels) <= 2 for labels in sets)


def test_prediction_sets_that_need_more_labels_say_how_many(fitted):
    with pytest.raises(ValueError, match=r"need 299 calibration texts.*179 are missing"):
        fitted.predict_set(["good"], error=0.01)


def test_a_drift_monitor_needs_a_calibrated_classifier():
    classifier = TextClassifier(None).fit(*draw_texts(40, 0))

    with pytest.raises(ValueError, match="labelled texts that nothing was fitted on"):
        DriftMonitor(classifier)


def test_a_classifier_is_no_encoder_to_certify(fitted):
    with pytest.raises(TypeError, match=r"pacsent.certify.certify\(classifier, texts, labels\)"):
        pacsent.certify_encoder(fitted, ["a good film"] * 50)


def test_a_comparison_with_a_worse_classifier_says_what_is_certain(fitted):
    texts, _ = draw_texts(200, 4)
    random_labels = np.random.default_rng(0).choice(["yes", "no"], 200)
    worse = TextClassifier(None).fit(texts, random_labels)

    assert "a errs less than b" in str(compare(fitted, worse, *draw_texts(300, 3)))


def test_a_comparison_of_equal_classifiers_says_that_it_is_undecided(fitted):
    sentence = str(compare(fitted, fitted, *draw_texts(800, 3)))

    assert "too few to say" in sentence
    assert "the error of b minus that of a is from -" in sentence


def test_always_abstaining_says_what_is_reachable_and_how_many_labels_are_missing(fitted):
    rules = [fitted.abstain(error=error) for error in ROUND_ERRORS]
    reachable = next(rule for rule in rules if rule.coverage)

    rule = fitted.abstain(error=0.05)

    match = re.search(
        r"on the 120 calibration texts, no threshold has an error rate of at most 0.05 with 95% "
        r"confidence. The 59 most confident answers would have to be right, .* An error rate of "
        r"(\S+) would be guaranteed, with (\d+)% of the texts answered",
        rule.no_answers,
    )
    assert rule.threshold > 1
    assert rule.coverage == 0
    assert float(match[1]) == reachable.error
    assert int(match[2]) == round(100 * reachable.coverage)


UNREADABLE = ["", "我喜欢", "🎉"]


@pytest.fixture(scope="module", params=["without vectors", "with vectors"])
def reader(request):
    """A classifier of texts that end with names of their own."""
    encoder = None
    if request.param == "with vectors":
        table = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
        vocabulary = pacsent.Vocabulary(["good", "bad", "film"], [3, 2, 1])
        encoder = pacsent.WordVectors(vocabulary, table)
    tones = ["good", "good", "bad"] * 40
    texts = [f"a {tone} film {n} x{tone[0]}{n // 3} y{tone[0]}{n}" for n, tone in enumerate(tones)]
    classifier = CertifiedClassifier(TextClassifier(encoder), calibration_size=0.5, random_state=0)
    return classifier.fit(texts, ["up", "up", "down"] * 40)


@pytest.mark.filterwarnings("ignore::pacsent.text.encoded.LowCoverageWarning")
def test_it_abstains_where_it_can_read_nothing(reader):
    # With this threshold it would answer everything.
    abstaining_rule = dataclasses.replace(reader.abstain(error=0.4), threshold=0.0)

    answers = abstaining_rule.predict([*UNREADABLE, "a good film"])

    assert answers == [None, None, None, "up"]


@pytest.mark.filterwarnings("ignore::pacsent.text.encoded.LowCoverageWarning")
def test_rules_of_answers_abstain_where_they_can_read_nothing(reader):
    rule = AnswerRule(reader, error=0.4)
    rule.threshold = 0.0

    answers = rule.answer([*UNREADABLE, "a good film"])

    assert answers.abstained.tolist() == [True, True, True, False]


@pytest.mark.filterwarnings("ignore::pacsent.text.encoded.LowCoverageWarning")
def test_texts_that_it_cannot_read_have_the_same_probabilities(reader):
    proba = reader.predict_proba(UNREADABLE)

    assert np.allclose(proba, proba[0])
    assert np.allclose(proba.sum(axis=1), 1)


def test_calibration_texts_with_nothing_to_read_count_for_no_answer():
    calibration = draw_calibration(np.random.default_rng(0), 100)
    calibration.log_proba[:30] = -np.log(3)  # the intercept alone
    classifier = make_classifier_from(draw_calibration(np.random.default_rng(1), 100))

    rule = abstain(classifier, {"": calibration}, 0.9, 0.05)

    assert rule.coverage == 0.7


def test_the_default_error_is_a_round_one_that_answers_half(fitted):
    rule = fitted.abstain(error=None)

    assert rule.error in ROUND_ERRORS
    assert rule.coverage >= 0.5
    assert rule.n_choices == len(ROUND_ERRORS)
    assert "No error was given, so it is" in str(rule)


def test_an_error_smaller_than_the_default_would_not_have_passed(fitted):
    rule = fitted.abstain(error=None)
    smaller = ROUND_ERRORS[ROUND_ERRORS.index(rule.error) - 1]

    chances = []
    for _, coverage, error in make_record(fitted.calibration_):
        if coverage >= 0.5:
            n_wrong = round(coverage * error * 120)
            chances.append(stats.binom.cdf(n_wrong, round(coverage * 120), smaller))

    assert max(chances) > 0.05 / len(ROUND_ERRORS)


def test_rules_of_answers_state_what_they_guarantee(fitted):
    rule = AnswerRule(fitted)

    assert rule.error == fitted.abstain(error=None).error
    assert rule.set_error == 0.05
    assert "omit the true class for at most 5%" in rule.statement


def test_rules_of_answers_abstain_and_have_sets_as_the_classifier(fitted):
    texts, _ = draw_texts(50, 20)

    answers = AnswerRule(fitted).answer(texts)

    expected = fitted.abstain(error=None).predict(texts)
    sets = [fitted.classes_[row].tolist() for row in answers.inside]
    assert answers.abstained.tolist() == [answer is None for answer in expected]
    assert sets == fitted.predict_set(texts, error=0.05)


def test_rules_of_answers_that_need_more_labels_say_how_many(fitted):
    texts, _ = draw_texts(50, 20)

    rule = AnswerRule(fitted, error=0.01)

    assert rule.no_answers
    assert "179 are missing" in rule.no_sets
    assert rule.statement == ""
    assert rule.answer(texts).abstained.all()


def test_rules_of_answers_without_calibration_state_nothing():
    rule = AnswerRule(TextClassifier(None).fit(*draw_texts(40, 0)))

    assert rule.statement is rule.no_sets is rule.no_answers is None
    assert rule.answer(["good"]).abstained is None


ALWAYS_YES = SimpleNamespace(predict=lambda texts: ["yes"] * len(texts))
ONE_ANSWER = SimpleNamespace(predict=lambda texts: ["yes"])
SIXTY_TEXTS, SIXTY_LABELS = draw_texts(60, 25)


def test_anything_that_predicts_is_compared(fitted):
    assert compare(ALWAYS_YES, fitted, SIXTY_TEXTS, SIXTY_LABELS).n == 60


def test_copies_are_not_compared():
    comparison = compare(ALWAYS_YES, ALWAYS_YES, SIXTY_TEXTS * 2, np.tile(SIXTY_LABELS, 2))

    assert comparison.n_duplicates == 60


@pytest.mark.parametrize(
    ("first", "texts", "labels", "message"),
    [
        (ALWAYS_YES, [], [], "at least one text"),
        (ALWAYS_YES, SIXTY_TEXTS, SIXTY_LABELS[:1], "one for each of the 60 texts"),
        (ALWAYS_YES, SIXTY_TEXTS, ["yes"], "one for each of the 60 texts"),
        (ALWAYS_YES, SIXTY_TEXTS, "yes", "Got a str"),
        (ONE_ANSWER, SIXTY_TEXTS, SIXTY_LABELS, "one label for each"),
    ],
)
def test_comparisons_that_cannot_be_made_are_refused(first, texts, labels, message):
    with pytest.raises((ValueError, TypeError), match=message):
        compare(first, ALWAYS_YES, texts, labels)


def test_a_delta_that_is_no_number_is_refused(fitted):
    with pytest.raises(ValueError, match="delta must be"):
        compare(fitted, fitted, SIXTY_TEXTS, SIXTY_LABELS, delta="x")
    with pytest.raises(ValueError, match="delta must be"):
        certify(fitted, SIXTY_TEXTS, SIXTY_LABELS, delta="x")


@pytest.mark.parametrize("n_candidates", [0, 1.0001, True, "2", None, float("nan")])
def test_the_number_of_candidates_must_be_an_integer_of_at_least_1(fitted, n_candidates):
    with pytest.raises(ValueError, match="n_candidates must be an integer of at least 1"):
        certify(fitted, SIXTY_TEXTS, SIXTY_LABELS, n_candidates=n_candidates)


@pytest.mark.parametrize(
    "selection",
    [
        "auto",
        pytest.param("folds", marks=pytest.mark.slow),
        pytest.param("loss", marks=pytest.mark.slow),
    ],
)
def test_copies_do_not_make_probabilities_overconfident(selection):
    texts, labels = draw_texts(200, 0)
    new_texts, _ = draw_texts(200, 1)

    once = TextClassifier(None, selection=selection).fit(texts, labels)
    thrice = TextClassifier(None, selection=selection).fit(texts * 3, np.tile(labels, 3))

    confidence_once = once.predict_proba(new_texts).max(axis=1).mean()
    confidence_thrice = thrice.predict_proba(new_texts).max(axis=1).mean()
    assert abs(confidence_once - confidence_thrice) < 0.05


def count_folds(folds, is_member):
    return np.unique(folds.of[is_member]).size


def test_copies_of_a_text_are_in_one_fold():
    labels = np.tile([0, 0, 1, 1, 0, 1], 3)
    copies = np.tile(np.arange(6), 3)

    folds = folds_for(labels, np.random.default_rng(0), None, copies)

    assert [count_folds(folds, copies == text) for text in range(6)] == [1] * 6
    assert [count_folds(folds, labels == c) for c in range(2)] == [3] * 2


def test_a_class_of_one_text_with_its_copies_is_fitted_in_every_fold():
    labels = np.tile([0, 0, 1, 1, 0, 1], 3)

    folds = folds_for(labels, np.random.default_rng(0), None, labels)

    assert [count_folds(folds, labels == c) for c in range(2)] == [5] * 2
