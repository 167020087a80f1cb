"""CertifiedClassifier: guarantees around anybody's classifier, on texts, arrays and tables."""

import json
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse, stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import pacsent
from helpers import FittedStub, invoke
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.bounds.means import mean_is_below
from pacsent.certify import certify, certify_predictions
from pacsent.certify.drift_check import OTHER_FRACTIONS, OTHER_KIND, DriftCheck, detection_times
from pacsent.certify.samples import digest, row_fingerprints, select_rows
from pacsent.predict import control_risk
from pacsent.predict.abstaining import AnswerRule
from pacsent.predict.calibration import Calibration

DELTA = 0.1


def texts_of(n, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    good = rng.random(n) < 0.5
    texts = [
        f"{'good' if g else 'bad'} film{a} house{b} plot{c} {i}"
        for i, (g, a, b, c) in enumerate(zip(good, *rng.integers(50, size=(3, n))))
    ]
    return texts, np.where(good ^ (rng.random(n) < noise), "yes", "no")


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1, 0)


def pipeline():
    return make_pipeline(TfidfVectorizer(), LogisticRegression())


@pytest.fixture(scope="module")
def on_texts():
    return CertifiedClassifier(pipeline(), random_state=0).fit(*texts_of(300))


@pytest.fixture(scope="module")
def on_rows():
    return CertifiedClassifier(LogisticRegression(), random_state=0).fit(*rows_of(400))


def test_a_pipeline_on_texts_is_certified(on_texts):
    assert on_texts.certificate_.n == 120 and on_texts.certificate_.verify()
    new, labels = texts_of(3000, 1)
    assert 1 - on_texts.score(new, labels) <= on_texts.certificate_.error_upper < 0.25
    assert np.array_equal(on_texts.predict(new), on_texts.estimator_.predict(new))
    sets = on_texts.predict_set(new, error=0.15)
    mask = on_texts.predict_set(new, error=0.15, as_mask=True)
    assert mask.dtype == bool and [on_texts.classes_[row].tolist() for row in mask] == sets
    assert np.mean([label in found for label, found in zip(labels, sets)]) >= 0.85
    answers = on_texts.abstain(error=0.3).predict(new)
    wrong = [a != b for a, b in zip(answers, labels) if a is not None]
    assert len(wrong) > 1000 and np.mean(wrong) <= 0.3


def test_rows_of_arrays_tables_and_matrices_are_certified(on_rows):
    X, y = rows_of(400)
    expected = on_rows.certificate_
    assert expected.n == 120  # 0.3 of 400
    table = pd.DataFrame(X, columns=list("abc"), index=range(400, 0, -1))
    kinds = {"table": table, "list": X.tolist(), "sparse": sparse.coo_array(X)}
    for name, rows in kinds.items():
        certified = CertifiedClassifier(LogisticRegression(), random_state=0).fit(rows, y)
        assert certified.certificate_.n_errors == expected.n_errors, name
    dicts = [{"a": a, "word": f"w{int(b * 3)}"} for a, b, _ in X]
    both = make_pipeline(DictVectorizer(), LogisticRegression())
    assert CertifiedClassifier(both, random_state=0).fit(dicts, y).certificate_.n == 120


def test_without_an_estimator_it_takes_the_text_classifier():
    certified = CertifiedClassifier(random_state=0).fit(*texts_of(60))
    assert isinstance(certified.estimator_, TextClassifier)
    assert certified.out_of_fold_ is certified.estimator_.out_of_fold_
    assert certified.estimator_.encoder == TextClassifier().encoder == "english"


def test_a_function_needs_no_fit_and_all_labels_count():
    texts, labels = texts_of(200)

    def says(texts):
        return ["yes" if text.startswith("good") else "no" for text in texts]

    for method in ("fit", "calibrate"):
        certified = getattr(CertifiedClassifier(says), method)(texts, labels)
        assert certified.certificate_.n == 200
        assert certified.certificate_.n_errors == np.sum(np.array(says(texts)) != labels)
        assert certified.predict(["good film"]).tolist() == ["yes"]
        for name, arguments in (("predict_set", [texts]), ("abstain", [])):
            with pytest.raises(ValueError, match="says gives labels alone"):
                getattr(certified, name)(*arguments)


def test_a_function_with_probabilities_has_sets_and_abstains():
    X, y = rows_of(400)

    def probabilities(X):
        p = 1 / (1 + np.exp(-3 * X[:, 0]))
        return np.stack([p, 1 - p], axis=1)  # the columns are in the order of `classes`

    certified = CertifiedClassifier(probabilities, classes=[1, 0], random_state=0).fit(X, y)
    assert certified.certificate_.n == 400 and certified.certificate_.error < 0.3
    assert certified.classes_.tolist() == [1, 0]
    assert certified.predict_set(np.array([[5.0, 0, 0], [-5.0, 0, 0]]), error=0.1) == [[1], [0]]
    assert certified.abstain(error=0.2).predict(np.array([[5.0, 0, 0]])) == [1]


def test_a_fitted_model_is_certified_on_all_labels_and_a_part_of_them_plans():
    X, y = rows_of(200)
    model = LogisticRegression().fit(*rows_of(300, 1))
    weights = model.coef_.copy()
    one = CertifiedClassifier(model, prefit=True, random_state=0).calibrate(X, y)
    two = CertifiedClassifier(FrozenEstimator(model), random_state=0).fit(X, y)
    for certified in (one, two):
        assert certified.certificate_.n == 200
        assert "not checked" in certified.certificate_.provenance
        assert np.array_equal(certified.estimator_.coef_, weights)
        tested = certified.calibration_.samples(tested=True)[""]
        n_planning = certified.out_of_fold_.labels.size
        assert 20 < n_planning < 80 and tested.labels.size == 200 - n_planning
    one.calibrate(X, y)  # again: what plans is drawn again, never tested on
    tested = one.calibration_.samples(tested=True)[""]
    assert one.out_of_fold_.labels.size + tested.labels.size == 200


def test_the_certificate_is_about_predict_where_it_is_not_the_likeliest_class():
    class Contrary(LogisticRegression):
        def predict(self, X):
            return 1 - super().predict(X)

    X, y = rows_of(300)
    certified = CertifiedClassifier(Contrary(), random_state=0).fit(X, y)
    assert certified.certificate_.error > 0.6
    assert np.array_equal(certified.predict(X), certified.estimator_.predict(X))
    assert certified.calibration_.wrong.mean() < 0.4  # abstention answers the likeliest class


def test_weights_and_groups_reach_an_estimator_that_takes_them():
    class Recording(LogisticRegression):
        def fit(self, X, y, sample_weight=None, groups=None):
            self.seen_ = sample_weight, groups
            return super().fit(X, y, sample_weight)

    X, y = rows_of(300)
    groups = np.arange(300) % 60
    certified = CertifiedClassifier(Recording(), random_state=0)
    weights, seen = certified.fit(X, y, np.arange(300.0), groups=groups).estimator_.seen_
    assert 100 < len(weights) == len(seen) < 300
    assert np.array_equal(groups[weights.astype(int)] == groups[int(weights[0])], seen == seen[0])
    with pytest.raises(ValueError, match=r"sample_weight must be None .*Pipeline does not"):
        CertifiedClassifier(pipeline()).fit(*texts_of(40), [1.0] * 40)
    for wrong in (np.ones(600), -np.ones(300), ["x"] * 300):
        with pytest.raises(ValueError, match="sample_weight must be one number of at least 0"):
            CertifiedClassifier(LogisticRegression()).fit(X, y, wrong)


def test_labels_of_a_machine_are_fitted_and_the_guarantee_rests_on_those_of_people(on_texts):
    texts, labels = texts_of(460, seed=3, noise=0.0)
    machine = np.where(np.random.default_rng(0).random(400) < 0.2, "no", labels[60:])
    nearest = make_pipeline(TfidfVectorizer(), KNeighborsClassifier(1))  # remembers what it fitted
    certified = CertifiedClassifier(nearest, random_state=0)
    certificate = certified.fit(texts[:60], labels[:60], judge=(texts[60:], machine)).certificate_
    assert (certificate.n, certificate.calibration_size) == (48, 0.8)
    assert 400 <= certified.estimator_[-1].n_samples_fit_ <= 412
    # a machine that has seen the held-out texts with their labels, which are random
    guesses = np.random.default_rng(1).permutation(labels[:60])
    certified.fit(texts[:60], guesses, judge=(texts[:60], guesses))
    assert certified.certificate_.error_upper > 0.5
    assert certified.certificate_.sample == "copies"  # its texts are those of X, not new rows
    certified.set_params(repeats="copies").fit(texts[:60], guesses, judge=(texts[:60], guesses))
    assert certified.certificate_.error_upper > 0.5
    assert certified.estimator_[-1].n_samples_fit_ == 24  # the 12 that were fitted, twice
    certified.set_params(repeats=None)
    for judge, groups in [((texts,), None), ((texts[:5], machine[:5]), range(60))]:
        with pytest.raises(ValueError, match=r"judge must be \(texts, labels\), or"):
            certified.fit(texts[:60], labels[:60], groups=groups, judge=judge)
    with pytest.raises(ValueError, match="judge must be None for an estimator that is fitted"):
        CertifiedClassifier(on_texts.estimator_, prefit=True).fit(texts, labels, judge=judge)


@pytest.mark.parametrize(("calibration_size", "scope"), [(0.2, "same groups"), (0.5, "groups")])
def test_a_guarantee_for_new_groups_needs_whole_groups_held_out(calibration_size, scope):
    X, y = rows_of(400)
    groups = np.arange(400) % 20
    options = {"calibration_size": calibration_size, "random_state": 0}
    certified = CertifiedClassifier(LogisticRegression(), **options).fit(X, y, groups=groups)
    certificate = certified.certificate_
    assert certificate.scope == scope and certificate.verify()
    assert certificate.n == (80 if scope == "same groups" else 10)
    if scope == "groups":  # label sets and abstaining count one row of each group
        assert certified.calibration_.labels.size == 10


@pytest.mark.parametrize("draw", [np.random.RandomState, np.random.default_rng])
def test_a_generator_draws_the_seed_that_is_recorded(draw):
    X, y = rows_of(200)
    first, second, other = (
        CertifiedClassifier(LogisticRegression(), random_state=draw(seed)).fit(X, y).certificate_
        for seed in (1, 1, 2)
    )
    assert first == second and first.random_state != other.random_state
    again = CertifiedClassifier(LogisticRegression(), random_state=first.random_state).fit(X, y)
    assert again.certificate_ == first


WRONG = {
    "one class": (lambda X, y: (X, ["a"] * len(X)), "at least two classes"),
    "labels missing": (lambda X, y: (X, y[:-1]), r"one for each of the 60 texts. Got 59"),
    "no texts": (lambda X, y: ([], []), "at least two classes. Got none"),
    "labels not read": (lambda X, y: (X, pl.LazyFrame({"y": y})), "Got a LazyFrame instead. Coll"),
    "texts not read": (lambda X, y: (pl.LazyFrame({"x": X}), y), "Got a LazyFrame instead. Coll"),
    "too few to fit": (lambda X, y: (X, [*"aa", *"b" * 58]), "calibration_size must leave"),
    "groups missing": (lambda X, y: (X, y, None, [1]), "groups must be one for each"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_data_is_refused_and_changes_nothing(name, on_texts):
    change, message = WRONG[name]
    before = dict(vars(on_texts))
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        on_texts.fit(*change(*map(list, texts_of(60))))
    assert "\n" not in str(caught.value) and vars(on_texts) == before


def test_a_calibration_that_fails_keeps_the_state_before(on_texts):
    fitted = on_texts.fitted_
    with pytest.raises(ValueError, match="labels"):
        on_texts.calibrate(["a new text"], ["neither"])
    assert on_texts.fitted_ is fitted


def test_attributes_are_there_after_fit_only():
    classifier = CertifiedClassifier(pipeline())
    assert not hasattr(classifier, "calibration_")
    with pytest.raises(NotFittedError, match="CertifiedClassifier instance is not fitted"):
        _ = classifier.certificate_


@pytest.mark.parametrize(
    "parameter",
    [
        *({"calibration_size": value} for value in (1.0, "some")),
        *({name: 0} for name in ("delta", "n_candidates")),
        *({name: 2} for name in ("simultaneous", "prefit", "randomized_tests")),
        {"random_state": -1},
    ],
)
def test_wrong_parameters_are_refused_by_name(parameter):
    [name] = parameter
    with pytest.raises(ValueError, match=f"'{name}' parameter of CertifiedClassifier"):
        CertifiedClassifier(pipeline(), **parameter).fit(*texts_of(40))
    for estimator in (TfidfVectorizer(), 3, "english", dict, LogisticRegression):
        with pytest.raises(TypeError, match="estimator must have fit and predict"):
            CertifiedClassifier(estimator).fit(*texts_of(40))


def test_texts_of_classes_that_were_not_fitted_are_errors(on_texts):
    texts, labels = texts_of(50, 2)
    model = clone(on_texts).fit(*texts_of(60))
    others = ["maybe"] * 5 + labels.tolist()[5:]
    n_wrong = np.sum(model.predict(texts) != others)
    certificate = certify(model, texts, others, per_class=True)
    assert certificate.n_errors == n_wrong and certificate.class_counts["maybe"] == [5, 5]
    assert "5 of classes that were not fitted (maybe) count as errors" in str(certificate)
    for _ in range(2):  # the second time, maybe is one of classes_
        model.calibrate(texts, others)
        assert model.certificate_.n_errors == n_wrong and "(maybe)" in model.certificate_.provenance
    assert model.certificate_.verify(model, texts, others)
    assert model.classes_.tolist() == ["no", "yes", "maybe"]
    assert model.predict_proba(texts)[:, 2].max() < 1e-99
    assert model.report(texts, others).accuracy == 1 - n_wrong / 50
    with pytest.raises(ValueError, match=r"among the classes .*Got maybe"):
        certify(model.estimator_, texts, ["maybe"] * 50)
    model = pipeline().fit(*texts_of(60))
    with pytest.raises(ValueError, match=r"classes must be those of the estimator"):
        CertifiedClassifier(model, prefit=True, classes=["a", "b"]).calibrate(texts, labels)


def test_predictions_of_another_shape_are_refused():
    texts, labels = texts_of(30)
    for answers, message in (
        (["yes"], r"one label for each of the 30 rows\. <lambda> gave 1"),
        (np.ones((30, 3)) / 3, r"gave the shape \(30, 3\)"),
        ([[0.5, 0.5], [1.0]] * 15, "one column for each of the 2 classes"),
        (np.full((30, 2), np.nan), "finite and at least 0"),
        (pd.DataFrame(np.ones((30, 2)), columns=["No", "yes"]), "named as the classes .no, yes."),
    ):
        with pytest.raises(ValueError, match=message):
            CertifiedClassifier(lambda _, a=answers: a, classes=["no", "yes"]).fit(texts, labels)
    no_class = CertifiedClassifier(lambda texts: ["perhaps"] * len(texts)).fit(texts, labels)
    assert no_class.certificate_.n_errors == 30


def test_texts_that_were_fitted_cannot_calibrate(on_texts, on_rows):
    texts, labels = texts_of(300)
    with pytest.raises(ValueError, match=r"180 of these 300 were among the texts it was fitted"):
        certify(on_texts, texts, labels)
    with pytest.raises(ValueError, match="not seen"):
        on_texts.calibrate([text.upper() + " " for text in texts], labels)
    unseen = certify(on_texts, texts, labels, overlap="drop")
    assert unseen.n == 120 and "omitted: 180 training texts" in unseen.provenance
    X, y = rows_of(400)
    with pytest.raises(ValueError, match=r"280 of these 400"):
        certify(on_rows, X, y)
    certified = CertifiedClassifier(TextClassifier(None), calibration_size=0.5)
    certified.fit(texts[:100], labels[:100])
    again = CertifiedClassifier(certified.estimator_, prefit=True)
    with pytest.raises(ValueError, match=r"50 of these 100"):
        again.calibrate(texts[:100], labels[:100])
    again.calibrate(texts[100:], labels[100:])
    assert again.certificate_.provenance.startswith("checked, ")
    assert again.calibration_.tested_members is None  # the classifier's own folds plan


def test_the_best_of_many_candidates_is_corrected_for_by_sets_and_abstention():
    X, y = rows_of(400)
    one, many = (
        CertifiedClassifier(LogisticRegression(), n_candidates=n, random_state=0).fit(X, y)
        for n in (1, 50)
    )
    joint = CertifiedClassifier(LogisticRegression(), simultaneous=True, random_state=0).fit(X, y)
    assert joint.certificate_.delta == joint.abstain(error=0.2).delta == pytest.approx(0.05 / 3)
    assert (
        min(joint.certificate_.error_upper, many.certificate_.error_upper)
        > one.certificate_.error_upper
    )
    levels = [each.prediction_set_thresholds(error=0.2)[0] for each in (joint, many, one)]
    assert max(levels[:2]) < levels[2]
    assert (
        many.prediction_set_thresholds(error=0.2)[0]
        == one.prediction_set_thresholds(error=0.2, delta=0.001)[0]
    )
    assert many.abstain(error=0.4).threshold == one.abstain(error=0.4, delta=0.001).threshold
    tuned = many.tune_thresholds(precision=0.8, recall=0.6)
    strict = one.tune_thresholds(precision=0.8, recall=0.6, delta=0.001)
    assert tuned.thresholds == strict.thresholds
    assert "Corrected for a selection among 50" in str(many.abstain(error=0.4))


def test_thresholds_of_classes_say_what_they_guarantee_and_what_they_cannot():
    certified = CertifiedClassifier(pipeline(), random_state=0).fit(*texts_of(600, noise=0.02))
    tuned = certified.tune_thresholds(precision=0.6, recall=0.6)
    assert set(tuned.thresholds) == {"no", "yes"} and None not in tuned.thresholds.values()
    rows = tuned.predict(texts_of(5, 1)[0])
    assert all(set(row) <= {"no", "yes"} for row in rows) and any(rows)
    assert "at least 60% are of it, and of the texts of a class at least 60%" in str(tuned)
    strict = certified.tune_thresholds(precision=0.999)
    assert set(strict.thresholds.values()) == {None} and "Never named" in str(strict)
    with pytest.raises(ValueError, match="needs precision or recall"):
        certified.tune_thresholds()


def test_the_rules_of_the_shell_and_the_server_honour_joint_and_candidates():
    texts, labels = texts_of(300)
    given = {"simultaneous": True, "n_candidates": 4, "random_state": 0}
    plain, both = (
        CertifiedClassifier(TextClassifier(None), **options).fit(texts, labels)
        for options in ({"random_state": 0}, given)
    )
    rule, level = AnswerRule(both, error=0.35, delta=0.06), 0.06 / 3 / 4
    expected = plain.prediction_set_thresholds(error=0.35, delta=level)
    assert rule.set_levels.tolist() == expected.tolist()
    assert rule.threshold == plain.abstain(error=0.35, delta=level).threshold
    assert rule.statement.startswith("With 98% confidence")


def test_files_sorted_by_label_do_not_break_bounds_that_depend_on_the_order():
    n_labels = np.sort(np.random.default_rng(0).integers(1, 5, 400))  # the easy rows come first
    has = np.arange(4) < n_labels[:, None]
    proba = np.where(has & (n_labels < 3)[:, None], 0.9, 0.1)  # half of the texts are missed
    found = [control_risk(has, proba, false_negatives=0.3).threshold for _ in range(5)]
    assert all(threshold is None or threshold <= 0.1 for threshold in found)
    assert mean_is_below((has & (proba < 0.5)).mean(axis=1), 0.3, 0.05)  # the file's order
    assigned = np.where((n_labels < 3)[:, None], has, ~has)
    micro = 2 * (has & assigned).sum() / (has.sum() + assigned.sum())
    assert certify_predictions(has, assigned).micro_f1_lower < micro
    texts = [f"w{i} x{i} y{i} z{i}" for i in range(400)]
    row_of = {text: row for row, text in enumerate(texts)}

    def labels_of(rows):
        return has[[row_of[text] for text in rows]].astype(int)

    certified = CertifiedClassifier(labels_of, classes=range(4), random_state=0)
    certified.fit(texts, has.astype(int))
    n_right = np.array(certified.certificate_.matches)[:, 1]
    assert abs(np.corrcoef(np.arange(400), n_right)[0, 1]) < 0.2


def test_the_random_number_of_abstention_is_drawn_by_the_system_and_not_by_the_seed():
    X, y = rows_of(60)
    certified = CertifiedClassifier(
        LogisticRegression().fit(*rows_of(60, 1)), prefit=True, randomized_tests=True
    )
    certified.set_params(random_state=0)

    drawn = [certified.fit(X, y).calibration_.uniform for _ in range(200)]

    assert stats.kstest(drawn, "uniform").pvalue > 0.01
    tested = certified.calibration_.samples(tested=True)[""]
    assert tested.uniform == drawn[-1]
    assert certified.abstain(error=0.3).uniform == drawn[-1]


def test_a_randomised_test_says_so_and_any_other_does_not():
    X, y = rows_of(400)
    plain = CertifiedClassifier(LogisticRegression(), random_state=0).fit(X, y)
    randomised = CertifiedClassifier(LogisticRegression(), random_state=0, randomized_tests=True)
    randomised.fit(X, y)
    number = f"one random number, {randomised.calibration_.uniform:.4f}, which was drawn"

    for certified, is_named in ((plain, False), (randomised, True)):
        for statement in (
            certified.abstain(error=0.3),
            certified.tune_thresholds(precision=0.6),
        ):
            assert (number in str(statement)) == is_named
        verified = certified.certificate_.verify(certified, X, y)
        assert ("the random number of abstention" in verified.unchecked) == is_named
    assert "random number" not in str(randomised.tune_thresholds(recall=0.6))


def test_a_saved_model_keeps_its_random_number(tmp_path):
    certified = CertifiedClassifier(TextClassifier(None), random_state=0, randomized_tests=True)
    certified.fit(*texts_of(200))

    loaded = pacsent.load(pacsent.save(certified, tmp_path / "model"))

    assert loaded.calibration_.uniform == certified.calibration_.uniform < 1
    assert loaded.abstain(error=0.3).threshold == certified.abstain(error=0.3).threshold


def test_labels_spelled_otherwise_and_columns_in_another_order_are_noticed():
    texts, labels = texts_of(60)
    right = ["yes" if text.startswith("good") else "no" for text in texts]
    for wrong in ([label.upper() for label in right], [f" {label}" for label in right]):
        with pytest.raises(ValueError, match="must be spelled as the classes"):
            CertifiedClassifier(lambda rows, wrong=wrong: wrong).fit(texts, labels)
    numbers = [str(int(label == "yes")) for label in right]
    with pytest.raises(ValueError, match=r"'0' \(str\) for 0 \(int\)|'1' \(str\) for 1 \(int\)"):
        CertifiedClassifier(lambda rows: numbers).fit(texts, (labels == "yes").astype(int))
    proba = np.where(np.array(right)[:, None] == ["yes", "no"], 0.9, 0.1)
    table = pd.DataFrame(proba, columns=["yes", "no"])
    for given in (table, proba[:, ::-1].tolist()):
        by_class = CertifiedClassifier(lambda rows, p=given: p, classes=["no", "yes"])
        assert by_class.fit(texts, labels).certificate_.error == np.mean(np.array(right) != labels)


def test_votes_of_pairs_of_classes_are_no_scores_of_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    pairs = make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo"))
    certified = CertifiedClassifier(pairs, random_state=0).fit(X, y)
    assert certified.certificate_.error_upper < 0.2 and certified.calibration_.log_proba is None
    with pytest.raises(ValueError, match="decision values that are not one finite number per cl"):
        certified.predict_set(X)


def test_decision_values_that_are_not_finite_are_named():
    class Infinite(LogisticRegression):
        predict_proba = property()

        def decision_function(self, X):
            return np.full((len(X), 3), np.inf)

    X = np.random.default_rng(0).normal(size=(300, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    certified = CertifiedClassifier(Infinite(), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="Infinite has decision values that are not one finite"):
        certified.abstain()


def test_equal_rows_are_recognised_in_any_container(on_rows):
    X, y = rows_of(400)
    frame = pd.DataFrame(X, columns=list("abc"))
    prints = row_fingerprints(X)
    assert np.unique(prints).size == 400
    for rows in (X.tolist(), list(X), frame, sparse.csr_array(X), np.asfortranarray(X)):
        assert np.array_equal(row_fingerprints(rows), prints) and digest(rows) == digest(X)
        assert np.array_equal(row_fingerprints(select_rows(rows, [3, 3, 5])), prints[[3, 3, 5]])
    with pytest.raises(ValueError, match="280 of these 400"):
        certify(on_rows, frame, y)


def reviews(n, seed, words=("good", "nice", "bad", "poor")):
    """Texts in which no word is unique, sorted by label; and labels."""
    rng = np.random.default_rng(seed)
    n_good = rng.binomial(n, 0.5)
    texts = []
    for row in range(n):
        last = words[rng.integers(2) + 2 * (row >= n_good)]
        texts.append(" ".join([*(f"film{k}" for k in rng.integers(40, size=6)), last]))
    return texts, ["yes"] * n_good + ["no"] * (n - n_good)


def market(n):
    words = np.random.default_rng(9).integers(300, size=(n, 12))
    return [" ".join(f"stock{word}" for word in row) for row in words]


@pytest.fixture(scope="module")
def on_reviews():
    certified = CertifiedClassifier(TextClassifier(None), calibration_size=0.4, random_state=0)
    return certified.fit(*reviews(300, 0))


def test_texts_are_compared_with_the_calibration_set_in_any_order(on_reviews):
    same = [on_reviews.compare_with_calibration(reviews(200, seed)[0]) for seed in range(1, 21)]
    assert sum(comparison.differs for comparison in same) <= 2  # although they are sorted
    unchanged = next(comparison for comparison in same if not comparison.differs)
    assert " distinct texts, no drift detected. It would find about" in unchanged.message
    found = on_reviews.compare_with_calibration(market(60))
    assert found.differs and 30 < found.n <= 60
    assert "differ from the calibration texts: no guarantee" in found.message
    assert "OOV rate" in found.message
    few = on_reviews.compare_with_calibration(market(60)[:4])
    assert few.differs is None and "too few" in few.message


@pytest.mark.slow
@pytest.mark.parametrize("fraction", [0.3, 0.5])
def test_the_power_that_is_printed_is_the_fraction_of_files_that_are_found(fraction):
    n_calibration, n_texts, n_files = 200, 150, 200
    rng = np.random.default_rng(0)
    n_found = 0
    for seed in range(n_files):
        known = 0.5 + 0.5 * rng.random(n_calibration)
        is_other = rng.random(n_texts) < fraction
        new = 0.5 + 0.5 * np.where(is_other, OTHER_KIND, 1.0) * rng.random(n_texts)
        log_proba = np.log(np.column_stack([known, 1 - known]))
        calibration = Calibration(log_proba, np.zeros(n_calibration, int))
        check = DriftCheck(FittedStub(classes_=np.arange(2), seed_=seed, calibration_=calibration))
        check.add(list(range(n_texts)), np.log(np.column_stack([new, 1 - new])))
        n_found += check.result().differs is True

    # Three quantities: the confidence and two probabilities, which are functions of it.
    stated = detection_times(n_calibration, 3)[OTHER_FRACTIONS.index(fraction)] <= n_texts
    assert abs(n_found / n_files - stated.mean()) < 0.15


def test_predict_in_the_shell_states_the_comparison(on_reviews, tmp_path):
    pacsent.save(on_reviews, tmp_path / "model")
    for texts, status in ((reviews(100, 8)[0], 0), (market(60), 3)):
        (tmp_path / "texts.txt").write_text("\n".join(texts))
        paths = [tmp_path / part for part in ("model", "texts.txt", f"{status}.csv")]
        done = invoke("predict", *paths[:2], "-o", paths[2], "--json", status=status)
        comparison = json.loads(done.stdout)["comparison"]
        assert comparison["differs"] is (status == 3)
        assert comparison["message"] in done.stderr
        assert ("With 95% confidence" in done.stderr) is (status == 0)
        assert re.search(r"Answered: \d+ of 100 texts", done.stderr) or status == 3


def test_it_is_a_scikit_learn_classifier_with_a_seed_of_its_own(on_texts, tmp_path):
    texts, labels = texts_of(120)
    assert clone(on_texts).get_params().keys() == on_texts.get_params().keys()
    again = pickle.loads(pickle.dumps(on_texts))
    assert again.certificate_ == on_texts.certificate_
    scores = cross_val_score(CertifiedClassifier(pipeline(), random_state=0), texts, labels, cv=2)
    assert scores.mean() > 0.6
    nested = CertifiedClassifier(pipeline()).set_params(estimator__logisticregression__C=7.0)
    assert nested.estimator.named_steps["logisticregression"].C == 7.0
    for name in ("predict", "predict_proba", "predict_set"):
        with pytest.raises(NotFittedError):
            getattr(nested, name)(texts)
    with pytest.raises(NotFittedError):
        nested.abstain()
    with pytest.raises(TypeError, match=r"around Pipeline instead. Save the estimator in its own"):
        pacsent.save(on_texts, tmp_path / "model")
    assert not (tmp_path / "model").exists()
    X, y = rows_of(60)
    seeds = {CertifiedClassifier(LogisticRegression()).fit(X, y).seed_ for _ in range(3)}
    assert len(seeds) == 3  # drawn, and recorded
    seeded = CertifiedClassifier(LogisticRegression(), random_state=seeds.pop())
    assert seeded.fit(X, y).certificate_ == clone(seeded).fit(X, y).certificate_


class Memory(ClassifierMixin, BaseEstimator):
    """Knows the rows it was fitted on by heart, and guesses elsewhere."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.known_ = {row.tobytes(): label for row, label in zip(X, y)}
        return self

    def predict(self, X):
        return np.array([self.known_.get(row.tobytes(), 0) for row in X])


def violations(certified, n_runs=300):
    """How often the bound of a classifier whose error is 1/2 lies below 1/2."""
    count = 0
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        X, y = rng.random((80, 1)), rng.integers(2, size=80)
        count += certified(X, y, seed).certificate_.error_upper < 0.5
    return count


def test_the_bound_holds_as_often_as_stated_and_not_where_it_was_fitted():
    def held_out(X, y, seed):
        return CertifiedClassifier(Memory(), delta=DELTA, random_state=seed).fit(X, y)

    def on_what_was_fitted(X, y, seed):
        model = Memory().fit(X, y)
        return CertifiedClassifier(model, prefit=True, delta=DELTA).calibrate(X, y)

    assert violations(held_out) <= stats.binom.isf(1e-4, 300, DELTA)
    assert violations(on_what_was_fitted, 50) > 45


def drawn(rng, n):
    X = rng.normal(size=(n, 1))
    return X, (rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)


@pytest.mark.slow
def test_every_guarantee_of_a_fitted_model_holds_as_often_as_stated():
    def probabilities(X):
        p = 1 / (1 + np.exp(-2 * X[:, 0]))
        return np.stack([1 - p, p], axis=1)

    rng = np.random.default_rng(0)
    X, y = drawn(rng, 20_000)
    log_proba = np.log(probabilities(X))
    wrong = log_proba.argmax(axis=1) != y
    failed = np.zeros(3, int)  # of the error, the sets and the answers
    options = {"classes": [0, 1], "delta": DELTA}
    for seed in range(200):
        certified = CertifiedClassifier(probabilities, random_state=seed, **options)
        certified.fit(*drawn(rng, 150))
        failed[0] += certified.certificate_.error_upper < wrong.mean()
        inside = log_proba >= certified.prediction_set_thresholds(error=0.1)
        failed[1] += 1 - inside[np.arange(y.size), y].mean() > 0.1
        answered = np.exp(log_proba.max(axis=1)) >= certified.abstain(error=0.15).threshold
        failed[2] += answered.any() and wrong[answered].mean() > 0.15
    assert (failed <= stats.binom.isf(1e-4, 200, DELTA)).all()


LABELS = ["joy", "love", "sad"]


def labelled(n, seed=0, noise=0.05):
    """Texts that name their labels, some of them wrongly, among rare words."""
    rng = np.random.default_rng(seed)
    has = rng.random((n, 3)) < 0.4
    words = [f"w{k}" for k in range(200)]
    texts = [
        " ".join([*np.array(LABELS)[row], *rng.choice(words, 8), f"n{seed}x{i}"])
        for i, row in enumerate(has)
    ]
    return texts, [set(np.array(LABELS)[row]) for row in has ^ (rng.random(has.shape) < noise)]


@pytest.fixture(scope="module")
def on_sets():
    return CertifiedClassifier(TextClassifier(None), random_state=0).fit(*labelled(300))


def test_sets_of_labels_are_certified_by_themselves(on_sets, tmp_path):
    found = on_sets.certificate_
    assert found.kind == "multilabel" and found.n == 120 and found.calibration_size == 0.4
    texts, sets = labelled(400, seed=1)
    has = np.array([[label in some for label in LABELS] for some in sets])
    given = on_sets.predict_with_scores(texts)[0]
    assert (given != has).any(axis=1).mean() < found.error_upper < 0.4
    assert on_sets.predict(texts)[:5] == [tuple(np.array(LABELS)[row]) for row in given[:5]]
    other = certify(on_sets, texts, sets)
    assert other.n <= 400 and other.error_upper < 0.3 and other.verify(on_sets, texts, sets)
    again = pacsent.load(pacsent.save(on_sets, tmp_path / "model"))
    assert again.certificate_ == found and again.target_type_ == "sets"
    assert again.certificate_.verify(again, *labelled(300))


def test_thresholds_of_labels_keep_what_they_guarantee(on_sets):
    texts, sets = labelled(2000, seed=2)
    has = np.array([[label in labels for label in LABELS] for labels in sets])
    proba = on_sets.predict_proba(texts)
    few = on_sets.control_risk(false_negatives=0.2).predict(proba)
    assert ((has & ~few).sum(axis=1) / np.maximum(has.sum(axis=1), 1)).mean() <= 0.2
    assert on_sets.control_risk(false_discoveries=0.3).predict(proba).any()
    named = on_sets.tune_thresholds(precision=0.8, classes=["joy"]).predict(texts)
    assert np.mean(["joy" in one for one, said in zip(sets, named) if said]) >= 0.8


@pytest.mark.parametrize("method", ["abstain", "prediction_set_thresholds"])
def test_what_is_for_one_class_a_text_is_refused(on_sets, on_texts, method):
    with pytest.raises(ValueError, match="for one class a text"):
        getattr(on_sets, method)()
    with pytest.raises(ValueError, match="control_risk is for several labels"):
        on_texts.control_risk(false_negatives=0.1)
    with pytest.raises(ValueError, match="not both"):
        on_sets.control_risk()


def test_sets_of_other_estimators_and_of_matrices_are_certified():
    texts, sets = labelled(300)
    has = np.array([[label in some for label in LABELS] for some in sets])
    model = make_pipeline(TfidfVectorizer(), OneVsRestClassifier(LogisticRegression(C=30)))
    certified = CertifiedClassifier(model, random_state=0).fit(texts, has.astype(int))
    assert certified.predict(texts[:4]).shape == (4, 3) and certified.target_type_ == "indicator"
    assert certified.certificate_.verify(certified, texts, has.astype(int))
    named = CertifiedClassifier(model, random_state=0).fit(texts, sets)
    assert named.certificate_.error_upper == certified.certificate_.error_upper
    said = CertifiedClassifier(lambda rows: [{"joy"} for _ in rows], classes=LABELS)
    assert said.fit(texts, sets).certificate_.n_errors > 200


def test_near_duplicates_of_fitted_texts_are_left_out_and_named():
    texts, y = texts_of(200)
    model = TextClassifier(None).fit(texts, y)
    changed = [text.replace("film", "movie") for text in texts[:60]]
    fresh, true = texts_of(150, seed=1)
    fresh = [text + " indeed" for text in fresh]
    found = certify(model, changed + fresh, [*y[:60], *true])
    assert "near-duplicate" in found.provenance
    assert found.n <= 150 and found.verify(model, changed + fresh, [*y[:60], *true])
    with pytest.raises(ValueError, match="60 of them are near-duplicates"):
        certify(model, changed, y[:60])
    certified = CertifiedClassifier(pipeline(), random_state=0).fit(texts, y)
    certified.calibrate(changed + fresh, [*y[:60], *true])
    assert "omitted: " in certified.certificate_.provenance and certified.certificate_.n <= 175
