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


def allowed(n=REPLICATES, delta=DELTA):
    """More violations than this have probability below 1e-4 where the guarantee holds."""
    return stats.binom.isf(1e-4, n, delta)


def test_limits_and_ranks_are_those_of_the_beta_distribution():
    assert binomial.upper_limit(3, 50, 0.05) == pytest.approx(stats.beta.ppf(0.95, 4, 47))
    assert binomial.lower_limit(3, 50, 0.05) == pytest.approx(stats.beta.ppf(0.05, 3, 48))
    assert (binomial.upper_limit(5, 5, 0.05), binomial.lower_limit(0, 5, 0.05)) == (1.0, 0.0)
    k = binomial.rank_for_sets(200, 0.1, 0.05)
    assert stats.beta.cdf(0.9, k, 201 - k) <= 0.05 < stats.beta.cdf(0.9, k - 1, 202 - k)
    assert binomial.rank_for_sets(58, 0.05, 0.05) is None
    assert binomial.rank_for_sets(59, 0.05, 0.05) == 59


def population(rng, n, n_classes=3, sharp=2.0):
    """Log-probabilities of a fixed classifier, and labels that follow other probabilities."""
    labels = rng.integers(n_classes, size=n)
    z = rng.normal(size=(n, n_classes))
    z[np.arange(n), labels] += np.array([1.0, 1.5, 2.5])[labels]
    z *= sharp
    return Calibration(z - np.log(np.exp(z).sum(axis=1, keepdims=True)), labels)


def missed(calibration, thresholds):
    true = calibration.log_proba[np.arange(calibration.labels.size), calibration.labels]
    return true < thresholds[calibration.labels]


def set_violations(rng, per_class=False, share=True, twice=False, error=0.1, n=250):
    truth = population(np.random.default_rng(99), 40_000)
    count = 0
    for _ in range(REPLICATES):
        drawn = population(rng, n)
        delta = DELTA if share else DELTA * 3
        if twice:  # the score itself is chosen on the calibration texts
            drawn = _flattered(drawn)
        thresholds = abstaining.prediction_set_thresholds(drawn, error, delta, per_class)
        misses = missed(truth, thresholds)
        if per_class:
            count += any(misses[truth.labels == c].mean() > error for c in range(3))
        else:
            count += misses.mean() > error
    return count


def _flattered(drawn):
    """The same texts after a model was fitted on their labels: the right class gained."""
    better = drawn.log_proba.copy()
    better[np.arange(drawn.labels.size), drawn.labels] *= 0.7
    return Calibration(better, drawn.labels)


@pytest.mark.parametrize(
    ("options", "holds"),
    [
        ({}, True),
        ({"twice": True}, False),
        pytest.param({"per_class": True}, True, marks=pytest.mark.slow),
        pytest.param({"per_class": True, "share": False}, False, marks=pytest.mark.slow),
    ],
)
def test_label_sets_miss_no_more_than_guaranteed_and_misuse_is_noticed(options, holds):
    assert (set_violations(np.random.default_rng(3), **options) <= allowed()) == holds


def answering_from(planning):
    """What `abstain` needs of a fitted classifier of three classes."""
    return SimpleNamespace(
        out_of_fold_=planning,
        seed_=0,
    )


def record_of(drawn):
    """(threshold, coverage, error) on the calibration texts."""
    confidence = np.exp(drawn.log_proba.max(axis=1))
    thresholds = np.quantile(confidence, np.linspace(0, 1, 31))[::-1]
    n, n_wrong = abstaining.accepted(thresholds, confidence, drawn.wrong)
    return list(zip(thresholds, n / confidence.size, n_wrong / n))


def _by_plan(classifier, drawn, error=0.15):
    rule = abstain(classifier, {"": drawn}, error, DELTA)
    return rule.error, rule.threshold


def _by_looks(classifier, drawn, error=0.15):
    """The widest threshold whose record looks good enough."""
    return error, min([t for t, _, e in record_of(drawn) if e <= error], default=2.0)


def _by_record(classifier, drawn):
    """The smallest round error that the record of half of the texts shows."""
    observed, threshold = min((e, t) for t, c, e in record_of(drawn) if c >= 0.5)
    return min(e for e in ROUND_ERRORS if e >= min(observed, 0.5)), threshold


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choose", "holds", "n", "n_runs"),
    [
        (_by_plan, True, 300, REPLICATES),
        (_by_looks, False, 300, REPLICATES),
        (functools.partial(_by_plan, error=None), True, 200, REPLICATES // 8),
        (_by_record, False, 200, REPLICATES // 8),
    ],
)
def test_answers_are_wrong_no_more_than_guaranteed_and_misuse_is_noticed(choose, holds, n, n_runs):
    rng = np.random.default_rng(5)
    truth = population(np.random.default_rng(98), 40_000)
    confidence = np.exp(truth.log_proba.max(axis=1))
    classifier = answering_from(population(np.random.default_rng(97), 500))
    n_broken = n_answering = 0
    for _ in range(n_runs):
        error, threshold = choose(classifier, population(rng, n))
        answers = confidence >= threshold
        n_answering += answers.mean() > 0.2
        n_broken += answers.any() and truth.wrong[answers].mean() > error
    assert (n_broken <= allowed(n_runs)) == holds
    assert n_answering > n_runs / 2


def fixed(calibration):
    """A calibrated classifier without texts."""
    return FittedStub(classes_=np.arange(3), calibration_=calibration)


def stream_alarms(rng, labelled, n, twice):
    alarms = 0
    for _ in range(n):
        drawn = population(rng, 250)
        monitors = np.column_stack(
            [rng.poisson(20, 250), rng.random(250), np.full(250, -1.0), np.zeros(250)]
        )
        first = Calibration(drawn.log_proba[:100], drawn.labels[:100])
        if twice:
            first = _flattered(_flattered(_flattered(first)))
        known = dataclasses.replace(first, monitors=monitors[:100])
        monitor = DriftMonitor(fixed(known), alpha=DELTA, random_state=int(rng.integers(2**32)))
        labels = drawn.labels[100:] if labelled else None
        alarms += monitor.update_arrays(drawn.log_proba[100:], labels, monitors[100:])
    return alarms


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labelled", "n", "twice"), [(True, 500, False), (False, 500, False), (True, 60, True)]
)
def test_a_stream_of_the_same_kind_raises_few_alarms_unless_its_texts_were_fitted(
    labelled, n, twice
):
    assert (stream_alarms(np.random.default_rng(7), labelled, n, twice) > allowed(n)) == twice


@pytest.mark.parametrize(
    "labelled, name", [(False, "probability of class '1'"), (True, "share of class '1'")]
)
def test_a_class_that_is_removed_is_found_and_named(labelled, name):
    rng = np.random.default_rng(9)
    found = named = 0
    for seed in range(20):
        monitor = DriftMonitor(fixed(population(rng, 300, sharp=1.5)), random_state=seed)
        later = population(rng, 450, sharp=1.5)
        left = later.labels != 1
        monitor.update_arrays(later.log_proba[left], later.labels[left] if labelled else None)
        found += monitor.alarm
        named += name in [change.name for change in monitor.changes]
    assert found >= 18 and named >= 14


def test_a_change_of_length_alone_is_named():
    rng = np.random.default_rng(10)
    lengths = np.column_stack([rng.poisson(20, 600), *np.full((2, 600), -1.0), np.zeros(600)])
    drawn = population(rng, 600)
    kept = Calibration(drawn.log_proba[:300], drawn.labels[:300], monitors=lengths[:300])
    monitor = DriftMonitor(fixed(kept), random_state=0)
    longer = lengths[300:] * [1.5, 1, 1, 1]
    assert monitor.update_arrays(drawn.log_proba[300:], None, longer)
    assert [change.name for change in monitor.changes] == ["length in words"]
    assert "Changed most: length in words (mean" in str(monitor)


def test_a_stream_that_changes_raises_the_alarm_soon():
    rng = np.random.default_rng(8)
    monitor = DriftMonitor(fixed(population(rng, 300)), random_state=0)
    assert not monitor.update_arrays(population(rng, 100).log_proba)
    later = population(rng, 300, sharp=0.5)
    assert monitor.update_arrays(later.log_proba)
    assert 100 < monitor.alarm_at < 350
    assert "ALARM" in str(monitor)


def watched(monitor):
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
    classifier = fixed(population(rng, 300))
    log_proba = population(rng, 300, sharp=0.5).log_proba
    status = rng.choice([NEW, EMPTY, FITTED, REPEATED], size=300)

    at_once = DriftMonitor(classifier, random_state=3)
    at_once.update_arrays(log_proba, status=status)
    row_by_row = DriftMonitor(classifier, random_state=3)
    for row in range(300):
        row_by_row.update_arrays(log_proba[[row]], status=status[[row]])

    assert at_once.alarm
    assert watched(at_once) == watched(row_by_row)


def test_conformal_p_values_are_ranks_among_calibration_and_earlier_values():
    rng = np.random.default_rng(12)
    known = rng.integers(5, size=(20, 1)).astype(float)  # with ties
    values = rng.integers(5, size=(30, 1)).astype(float)
    ties = rng.random((30, 1))

    p_values = ConformalTest(["a"], CalibrationValues(known), 0.1)._p_values(values, ties)

    for i, value in enumerate(values[:, 0]):
        others = np.append(known, values[:i])
        rank = (others < value).sum() + ties[i, 0] * ((others == value).sum() + 1)
        assert p_values[i, 0] == rank / (others.size + 1)


def test_the_successor_of_a_monitor_has_seen_nothing():
    rng = np.random.default_rng(13)
    monitor = DriftMonitor(fixed(population(rng, 300)), random_state=0)
    monitor.update_arrays(population(rng, 300, sharp=0.5).log_proba)

    successor = monitor.successor(alpha=0.01)
    successor.update_arrays(population(rng, 50).log_proba)

    assert monitor.alarm and not successor.alarm
    assert (successor.n_seen, successor.alpha) == (50, 0.01)


def texts_of(n, seed):
    rng = np.random.default_rng(seed)
    good = rng.random(n) < 0.5
    words = [f"film{i}" for i in range(40)]
    tones = [["bad", "poor"], ["good", "nice"]]
    texts = [" ".join([*rng.choice(words, 6), rng.choice(tones[int(g)])]) for g in good]
    return texts, np.where(good ^ (rng.random(n) < 0.15), "yes", "no")


@pytest.fixture(scope="module")
def fitted():
    certified = CertifiedClassifier(TextClassifier(None), calibration_size=0.4, random_state=0)
    return certified.fit(*texts_of(300, 0))


def test_label_sets_say_how_many_labels_are_missing(fitted):
    assert all(0 <= len(found) <= 2 for found in fitted.predict_set(["good film1"], error=0.1))
    with pytest.raises(ValueError, match=r"need 299 calibration texts.*179 are missing"):
        fitted.predict_set(["good"], error=0.01)
    with pytest.raises(ValueError, match="labelled texts that nothing was fitted on"):
        DriftMonitor(TextClassifier(None).fit(*texts_of(40, 0)))
    with pytest.raises(TypeError, match=r"pacsent.certify.certify\(classifier, texts, labels\)"):
        pacsent.certify_encoder(fitted, ["a good film"] * 50)


def test_comparison_says_what_is_certain(fitted):
    texts, labels = texts_of(800, 3)
    rng = np.random.default_rng(0)
    worse = TextClassifier(None).fit(texts_of(200, 4)[0], rng.choice(["yes", "no"], 200))
    assert "a errs less than b" in str(compare(fitted, worse, texts, labels))
    shown = str(compare(fitted, fitted, texts, labels))
    assert "too few to say" in shown and "the error of b minus that of a is from -" in shown


def test_always_abstaining_says_what_is_reachable_and_how_many_labels_are_missing(fitted):
    nothing = fitted.abstain(error=0.05)
    assert nothing.threshold > 1 and nothing.coverage == 0
    found = re.search(
        r"on the 120 calibration texts, no threshold has an error rate of at most 0.05 with 95% "
        r"confidence. The 59 most confident answers would have to be right, .* An error rate of "
        r"(\S+) would be guaranteed, with (\d+)% of the texts answered",
        nothing.no_answers,
    )
    reached = [fitted.abstain(error=e) for e in ROUND_ERRORS]
    smallest = next(one for one in reached if one.coverage)
    assert float(found[1]) == smallest.error
    assert int(found[2]) == round(100 * smallest.coverage)


@pytest.mark.filterwarnings("ignore::pacsent.text.encoded.LowCoverageWarning")
@pytest.mark.parametrize("words", [None, "vectors"])
def test_it_abstains_where_it_can_read_nothing(words):
    tones = ["good", "good", "bad"] * 40
    texts = [f"a {tone} film {n} x{tone[0]}{n // 3} y{tone[0]}{n}" for n, tone in enumerate(tones)]
    if words:
        vectors = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
        words = pacsent.WordVectors(pacsent.Vocabulary(["good", "bad", "film"], [3, 2, 1]), vectors)
    classifier = CertifiedClassifier(TextClassifier(words), calibration_size=0.5, random_state=0)
    classifier.fit(texts, ["up", "up", "down"] * 40)
    unreadable = ["", "我喜欢", "🎉"]
    answering = classifier.abstain(error=0.4)
    answering = dataclasses.replace(answering, threshold=0.0)  # it would answer everything
    assert answering.predict([*unreadable, "a good film"]) == [None, None, None, "up"]
    rule = AnswerRule(classifier, error=0.4)
    rule.threshold = 0.0
    answers = rule.answer([*unreadable, "a good film"])
    assert answers.abstained.tolist() == [True, True, True, False]
    proba = classifier.predict_proba(unreadable)
    assert np.allclose(proba, proba[0]) and np.allclose(proba.sum(axis=1), 1)


def test_calibration_texts_with_nothing_to_read_count_for_no_answer():
    drawn = population(np.random.default_rng(0), 100)
    drawn.log_proba[:30] = -np.log(3)  # the intercept alone
    found = abstain(
        answering_from(population(np.random.default_rng(1), 100)), {"": drawn}, 0.9, 0.05
    )
    assert found.coverage == 0.7


def test_the_default_error_is_the_smallest_round_one_that_answers_half(fitted):
    found = fitted.abstain(error=None)
    assert found.error in ROUND_ERRORS and found.coverage >= 0.5
    assert found.n_choices == len(ROUND_ERRORS)
    assert "Corrected for a selection" in str(found)
    smaller = ROUND_ERRORS[ROUND_ERRORS.index(found.error) - 1]
    record = [(c, e) for _, c, e in record_of(fitted.calibration_) if c >= 0.5]
    tail = [stats.binom.cdf(round(c * e * 120), round(c * 120), smaller) for c, e in record]
    assert max(tail) > 0.05 / len(ROUND_ERRORS)  # a smaller error would not have passed


def test_rules_of_answers_state_what_they_guarantee(fitted):
    texts = texts_of(50, 20)[0]
    rule = AnswerRule(fitted)
    assert rule.error == fitted.abstain(error=None).error
    assert rule.set_error == 0.05
    assert "omit the true class for at most 5%" in rule.statement
    answers = rule.answer(texts)
    expected = fitted.abstain(error=None).predict(texts)
    assert [one is None for one in expected] == answers.abstained.tolist()
    named = [fitted.classes_[row].tolist() for row in answers.inside]
    assert named == fitted.predict_set(texts, error=0.05)
    strict = AnswerRule(fitted, error=0.01)
    assert strict.no_answers and "179 are missing" in strict.no_sets and strict.statement == ""
    assert strict.answer(texts).abstained.all()
    plain = AnswerRule(TextClassifier(None).fit(*texts_of(40, 0)))
    assert plain.statement is plain.no_sets is plain.no_answers is None
    assert plain.answer(["good"]).abstained is None


def test_comparisons_that_cannot_be_made_are_refused(fitted):
    texts, labels = texts_of(60, 25)
    foreign = SimpleNamespace(predict=lambda texts: ["yes"] * len(texts))
    one_answer = SimpleNamespace(predict=lambda texts: ["yes"])
    assert compare(foreign, fitted, texts, labels).n == 60
    assert compare(foreign, foreign, texts * 2, np.tile(labels, 2)).n_duplicates == 60
    for arguments, message in (
        ((foreign, foreign, [], []), "at least one text"),
        ((fitted, foreign, texts, labels[:1]), "one for each of the 60 texts"),
        ((foreign, foreign, texts, ["yes"]), "one for each of the 60 texts"),
        ((foreign, foreign, texts, "yes"), "Got a str"),
        ((one_answer, foreign, texts, labels), "one label for each"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            compare(*arguments)
    for arguments in ((compare, fitted, fitted), (certify, fitted)):
        with pytest.raises(ValueError, match="delta must be"):
            arguments[0](*arguments[1:], texts, labels, delta="x")
    for n_candidates in (0, 1.0001, True, "2", None, float("nan")):
        with pytest.raises(ValueError, match="n_candidates must be an integer of at least 1"):
            certify(fitted, texts, labels, n_candidates=n_candidates)


@pytest.mark.parametrize(
    "selection", ["auto", *(pytest.param(s, marks=pytest.mark.slow) for s in ("folds", "loss"))]
)
def test_copies_do_not_make_probabilities_overconfident(selection):
    (texts, labels), (new, _) = texts_of(200, 0), texts_of(200, 1)
    once, thrice = (
        TextClassifier(None, selection=selection).fit(texts * n, np.tile(labels, n)) for n in (1, 3)
    )
    sure = [found.predict_proba(new).max(axis=1).mean() for found in (once, thrice)]
    assert abs(sure[0] - sure[1]) < 0.05


def test_copies_of_a_text_are_in_one_fold_and_alone_they_are_spread():
    labels, copies = np.tile([0, 0, 1, 1, 0, 1], 3), np.tile(np.arange(6), 3)
    of = folds_for(labels, np.random.default_rng(0), None, copies).of
    assert all(np.unique(of[copies == one]).size == 1 for one in range(6))
    assert all(np.unique(of[labels == c]).size == 3 for c in range(2))
    # a class of one text with its copies must be fitted in every fold
    alone = folds_for(labels, np.random.default_rng(0), None, labels).of
    assert all(np.unique(alone[labels == c]).size == 5 for c in range(2))
