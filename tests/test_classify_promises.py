"""Promises hold where the truth is known, and a broken one is noticed."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import pacsent
from pacsent import TextClassifier
from pacsent.classify import StreamWatcher, certify, check_exchangeable, compare
from pacsent.classify.promises import ErrorCertificate, bounds_from_counts
from pacsent.classify.sets import Calibration, Comparison, abstain, set_thresholds
from pacsent.maths import binomial
from pacsent.maths.rounding import rounded_up

REPLICATES = 1000
DELTA = 0.1


def allowed(n=REPLICATES, delta=DELTA):
    """More violations than this have probability below 1e-4 where the promise holds."""
    return stats.binom.isf(1e-4, n, delta)


# ---- counts ------------------------------------------------------------------------------------


def test_limits_are_those_of_clopper_and_pearson():
    assert binomial.upper_limit(3, 50, 0.05) == pytest.approx(stats.beta.ppf(0.95, 4, 47))
    assert binomial.lower_limit(3, 50, 0.05) == pytest.approx(stats.beta.ppf(0.05, 3, 48))
    assert binomial.upper_limit(5, 5, 0.05) == 1.0
    assert binomial.lower_limit(0, 5, 0.05) == 0.0


def test_the_rank_for_sets_is_the_smallest_that_suffices():
    k = binomial.rank_for_sets(200, 0.1, 0.05)
    assert stats.beta.cdf(0.9, k, 201 - k) <= 0.05 < stats.beta.cdf(0.9, k - 1, 202 - k)
    assert binomial.rank_for_sets(58, 0.05, 0.05) is None
    assert binomial.rank_for_sets(59, 0.05, 0.05) == 59


def test_testing_in_order_stops_at_the_first_failure():
    accepted = np.array([5, 100, 200, 300, 400])
    errors = np.array([0, 0, 2, 60, 0])
    assert binomial.last_passed(accepted, errors, 0.05, 0.05) == 2
    assert binomial.last_passed([10], [0], 0.05, 0.05) == -1


# ---- simulations -------------------------------------------------------------------------------


def error_violations(rng, n_classes=4, n=60, share=True):
    """How often any of the class bounds is below the truth."""
    truth = np.array([0.05, 0.1, 0.2, 0.4])[:n_classes]
    count = 0
    for _ in range(REPLICATES):
        wrong = rng.binomial(n, truth)
        counts = {str(c): [n, int(w)] for c, w in enumerate(wrong)}
        delta = DELTA if share else DELTA * 2 * n_classes  # as if each could have all of it
        overall, bounds, balanced = bounds_from_counts(
            n * n_classes, int(wrong.sum()), counts, delta
        )
        broken = any(bounds[str(c)] < truth[c] for c in range(n_classes))
        count += broken or overall < truth.mean() or balanced < truth.mean()
    return count


def test_error_bounds_hold_together():
    assert error_violations(np.random.default_rng(0)) <= allowed()


def test_a_forgotten_union_over_classes_is_noticed():
    assert error_violations(np.random.default_rng(0), share=False) > allowed()


def best_of_candidates(rng, paid, n_candidates=20, n=200, truth=0.2):
    count = 0
    for _ in range(REPLICATES):
        best = int(rng.binomial(n, truth, n_candidates).min())
        bound = bounds_from_counts(n, best, {}, DELTA, n_candidates if paid else 1)[0]
        count += bound < truth
    return count


def test_the_best_of_many_candidates_is_paid_for():
    assert best_of_candidates(np.random.default_rng(1), paid=True) <= allowed()
    assert best_of_candidates(np.random.default_rng(1), paid=False) > allowed()


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
        misses = missed(truth, set_thresholds(drawn, error, delta, per_class))
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


def test_label_sets_miss_no_more_than_promised():
    assert set_violations(np.random.default_rng(2)) <= allowed()


def test_label_sets_hold_for_every_class():
    assert set_violations(np.random.default_rng(3), per_class=True) <= allowed()


def test_a_forgotten_union_over_the_sets_of_classes_is_noticed():
    assert set_violations(np.random.default_rng(3), per_class=True, share=False) > allowed()


def test_calibration_texts_used_twice_are_noticed():
    assert set_violations(np.random.default_rng(4), twice=True) > allowed()


def abstain_violations(rng, chosen_after=False, error=0.15, n=300):
    truth = population(np.random.default_rng(98), 40_000)
    sure, wrong = np.exp(truth.log_proba.max(axis=1)), truth.wrong
    training = np.exp(population(np.random.default_rng(97), 500).log_proba.max(axis=1))
    quantiles = np.quantile(training, np.linspace(0, 1, 201))
    count = answered = 0
    for _ in range(REPLICATES):
        drawn = population(rng, n)
        found = abstain(SimpleNamespace(confidence_quantiles_=quantiles), drawn, error, DELTA)
        threshold = found.threshold
        if chosen_after:  # the widest threshold whose record looks good enough
            good = [t for t, _, e in found.curve if e <= error]
            threshold = min(good) if good else 2.0
        answers = sure >= threshold
        answered += found.coverage > 0.2
        count += answers.any() and wrong[answers].mean() > error
    assert answered > REPLICATES / 2
    return count


def test_answers_are_wrong_no_more_than_promised():
    assert abstain_violations(np.random.default_rng(5)) <= allowed()


def test_a_threshold_chosen_by_its_record_is_noticed():
    assert abstain_violations(np.random.default_rng(5), chosen_after=True) > allowed()


def comparison_violations(rng, delta, a_only=0.12, b_only=0.07, n=300):
    count = 0
    for _ in range(REPLICATES):
        only_a, only_b, _ = rng.multinomial(n, [a_only, b_only, 1 - a_only - b_only])
        low, high = Comparison(n, int(only_a), int(only_b), delta).bounds
        count += not low <= a_only - b_only <= high
    return count


def test_comparisons_hold_on_both_sides():
    assert comparison_violations(np.random.default_rng(6), DELTA) <= allowed()


def test_comparisons_of_many_that_are_not_paid_for_are_noticed():
    """As sure about each of twelve comparisons as about one, and wrong about any too often."""
    rng = np.random.default_rng(6)
    each = comparison_violations(rng, min(12 * DELTA, 0.99)) / REPLICATES
    assert REPLICATES * (1 - (1 - each) ** 12) > allowed()


class Fixed:
    """A calibrated classifier whose texts are rows of a table."""

    def __init__(self, calibration):
        self.calibration = calibration

    def _need_calibration(self):
        return self.calibration

    def predict_log_proba(self, rows):
        return np.asarray(rows)

    def _known(self, rows, labels):
        return np.asarray(labels)


def stream_alarms(rng, labelled, twice=False):
    alarms = 0
    for _ in range(REPLICATES):
        drawn = population(rng, 350)
        kept = Calibration(drawn.log_proba[:150], drawn.labels[:150])
        watcher = StreamWatcher(
            Fixed(_flattered(kept) if twice else kept),
            alpha=DELTA, seed=int(rng.integers(2**32)),
        )  # fmt: skip
        alarms += watcher.update(drawn.log_proba[150:], drawn.labels[150:] if labelled else None)
    return alarms


@pytest.mark.parametrize("labelled", [True, False])
def test_a_stream_of_the_same_kind_raises_few_alarms(labelled):
    assert stream_alarms(np.random.default_rng(7), labelled) <= allowed()


def test_a_watcher_whose_calibration_texts_were_fitted_is_noticed():
    assert stream_alarms(np.random.default_rng(7), labelled=True, twice=True) > allowed()


def test_a_stream_that_changes_raises_the_alarm_soon():
    rng = np.random.default_rng(8)
    watcher = StreamWatcher(Fixed(population(rng, 300)), seed=0)
    assert not watcher.update(population(rng, 100).log_proba)
    later = population(rng, 300, sharp=0.5)
    assert watcher.update(later.log_proba)
    assert 100 < watcher.alarm_at < 350
    assert "ALARM" in str(watcher)


# ---- the real thing ----------------------------------------------------------------------------


def texts_of(n, seed, topic="film"):
    rng = np.random.default_rng(seed)
    good = rng.random(n) < 0.5
    words = [f"{topic}{i}" for i in range(40)]
    texts = [
        " ".join(
            [*rng.choice(words, 6), *rng.choice(["good", "nice"] if g else ["bad", "poor"], 1)]
        )
        for g in good
    ]
    return texts, np.where(good ^ (rng.random(n) < 0.15), "yes", "no")


@pytest.fixture(scope="module")
def fitted():
    return TextClassifier().fit(*texts_of(300, 0), holdout=0.4, seed=0)


def test_fit_holds_back_and_certifies(fitted):
    certificate = fitted.certificate_
    assert certificate.n == 120
    assert certificate.verify()
    new, labels = texts_of(4000, 1)
    assert 1 - fitted.score(new, labels) <= certificate.error_bound
    assert fitted.holdout_seed_ == 0
    assert "held back by fit" in str(certificate)
    assert "not checked" in str(certificate)


def test_the_seed_of_the_part_held_back_is_drawn_and_recorded():
    seeds = {TextClassifier().fit(*texts_of(40, 0), holdout=0.4).holdout_seed_ for _ in range(3)}
    assert len(seeds) == 3


def test_certifying_on_training_texts_is_refused(fitted):
    texts, labels = texts_of(300, 0)
    with pytest.raises(ValueError, match="of these 300 were among the texts it was fitted on"):
        certify(fitted, texts, labels)
    with pytest.raises(ValueError, match="not seen"):
        fitted.calibrate([text.upper() + " " for text in texts], labels)
    certificate = certify(fitted, texts, labels, overlap="drop")
    assert certificate.n <= 120
    assert "left out" in str(certificate)


def test_the_common_certify_knows_classifiers(fitted):
    classifier, (texts, labels) = fitted, texts_of(300, 0)
    found = pacsent.certify(classifier, *texts_of(200, 5), delta=0.1, per_class=True)
    again = classifier.certify(*texts_of(200, 5), delta=0.1, per_class=True)
    assert found == again and found.verify()
    with pytest.raises(ValueError, match="were among the texts it was fitted on"):
        pacsent.certify(classifier, texts, labels)
    with pytest.raises(ValueError, match="needs the labels of the texts"):
        pacsent.certify(classifier, texts)
    with pytest.raises(ValueError, match="anytime does not apply to a classifier"):
        pacsent.certify(classifier, texts, labels, anytime=True)


def test_texts_that_a_bound_was_chosen_on_are_training_texts_too():
    texts, labels = texts_of(200, 0)
    classifier = TextClassifier(selection="bound").fit(texts, labels)
    assert classifier.certificate_.n == 40
    assert classifier.certificate_.n_candidates > 1
    assert classifier.certificate_.verify()
    with pytest.raises(ValueError, match="of these 200 were"):
        classifier.certify(texts, labels)


def test_class_bounds_are_wider_and_hold_together(fitted):
    texts, labels = texts_of(500, 2)
    plain = certify(fitted, texts, labels)
    both = certify(fitted, texts, labels, per_class=True)
    assert both.error_bound > plain.error_bound
    assert both.balanced_bound == pytest.approx(np.mean(list(both.class_bounds.values())))
    assert both.verify()


def test_a_certificate_that_cannot_be_is_refused(fitted):
    with pytest.raises(ValueError, match="0 <= n_errors <= n"):
        ErrorCertificate(10, 11, 0.05, 0.5).verify()
    assert not ErrorCertificate(100, 10, 0.05, 0.11).verify()


def test_bounds_are_rounded_up():
    assert rounded_up(0.20001) == "0.2001"
    assert rounded_up(1.0) == "1.0000"


def test_label_sets_say_how_many_labels_are_missing(fitted):
    assert all(0 <= len(found) <= 2 for found in fitted.predict_set(["good film1"], error=0.1))
    with pytest.raises(ValueError, match=r"need 299 labels to calibrate with.*179 are missing"):
        fitted.predict_set(["good"], error=0.01)


def test_abstaining_says_none_where_it_is_not_sure(fitted):
    careful = fitted.abstain(error=0.35)
    answers = careful.predict(["film1 good", "film1 film2"])
    assert answers[0] == "yes"
    assert 0 < careful.coverage <= 1
    nothing = fitted.abstain(error=0.01)
    assert nothing.predict(["film1 good"]) == [None]
    assert "No answer is safe" in str(nothing)


def test_promises_need_a_part_held_back():
    classifier = TextClassifier().fit(*texts_of(40, 0))
    for call in (lambda: classifier.predict_set(["a"]), classifier.abstain):
        with pytest.raises(ValueError, match="holdout"):
            call()


def test_comparison_says_what_is_certain(fitted):
    texts, labels = texts_of(800, 3)
    rng = np.random.default_rng(0)
    worse = TextClassifier().fit(texts_of(200, 4)[0], rng.choice(["yes", "no"], 200))
    found = compare(fitted, worse, texts, labels)
    assert "a errs less than b" in str(found)
    assert "too few to say" in str(compare(fitted, fitted, texts, labels))


def test_the_same_kind_of_text_raises_no_alarm_and_another_does():
    old, new = texts_of(300, 5)[0], texts_of(300, 6)[0]
    assert not check_exchangeable(old, new, seed=0).alarm
    other = check_exchangeable(old, texts_of(300, 7, "book")[0], seed=0)
    assert other.alarm
    assert "ALARM" in str(other)
    with pytest.raises(ValueError, match="at least 20 texts"):
        check_exchangeable(old[:10], new)


def test_false_alarms_of_the_test_are_as_rare_as_promised():
    pool = texts_of(120, 8)[0]
    rng = np.random.default_rng(9)
    alarms = 0
    for _ in range(200):
        order = [pool[i] for i in rng.permutation(120)]
        alarms += check_exchangeable(order[:60], order[60:], seed=int(rng.integers(1e9))).alarm
    assert alarms <= allowed(200, 0.05)


def test_a_promise_says_whether_new_texts_were_checked(fitted):
    texts, labels = texts_of(300, 11)
    like = check_exchangeable(texts, texts_of(300, 12)[0], seed=0)
    unlike = check_exchangeable(texts, texts_of(300, 13, "book")[0], seed=0)
    assert "New texts being alike: not checked." in str(fitted.certify(texts, labels))
    assert "checked, no alarm" in str(fitted.certify(texts, labels, checked=like))
    assert "checked, ALARM" in str(fitted.certify(texts, labels, checked=unlike))
    assert "not checked" in str(compare(fitted, fitted, texts, labels))
    assert "ALARM" in str(compare(fitted, fitted, texts, labels, checked=unlike))
    assert "not checked" in str(fitted.abstain(error=0.3))
