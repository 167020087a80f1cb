"""CertifiedClassifier: guarantees around anybody's classifier, on texts, arrays and tables."""

import pickle

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
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import pacsent
from classified_data import draw_rows, draw_texts, make_text_pipeline
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.certify import certify
from pacsent.certify.samples import digest, row_fingerprints, select_rows

DELTA = 0.1


@pytest.fixture(scope="module")
def on_texts():
    """A pipeline, fitted and certified on 300 texts."""
    return CertifiedClassifier(make_text_pipeline(), random_state=0).fit(*draw_texts(300))


@pytest.fixture(scope="module")
def on_rows():
    """A regression, fitted and certified on 400 rows of numbers."""
    return CertifiedClassifier(LogisticRegression(), random_state=0).fit(*draw_rows(400))


# ---- Estimators and containers ----


def test_a_pipeline_on_texts_is_certified(on_texts):
    texts, labels = draw_texts(3000, 1)

    error = 1 - on_texts.score(texts, labels)

    assert on_texts.certificate_.n == 120
    assert on_texts.certificate_.verify()
    assert error <= on_texts.certificate_.error_upper < 0.25
    assert np.array_equal(on_texts.predict(texts), on_texts.estimator_.predict(texts))


def test_prediction_sets_of_new_texts_contain_the_label_as_often_as_asked_for(on_texts):
    texts, labels = draw_texts(3000, 1)

    sets = on_texts.predict_set(texts, error=0.15)
    mask = on_texts.predict_set(texts, error=0.15, as_mask=True)

    is_inside = [label in prediction_set for label, prediction_set in zip(labels, sets)]
    assert np.mean(is_inside) >= 0.85
    assert mask.dtype == bool
    assert [on_texts.classes_[row].tolist() for row in mask] == sets


def test_answers_of_abstention_are_wrong_no_more_often_than_asked_for(on_texts):
    texts, labels = draw_texts(3000, 1)

    answers = on_texts.abstain(error=0.3).predict(texts)

    is_wrong = [a != b for a, b in zip(answers, labels) if a is not None]
    assert len(is_wrong) > 1000
    assert np.mean(is_wrong) <= 0.3


@pytest.mark.parametrize(
    "convert",
    [
        lambda X: pd.DataFrame(X, columns=list("abc"), index=range(400, 0, -1)),
        lambda X: X.tolist(),
        sparse.coo_array,
    ],
    ids=["table", "list", "sparse"],
)
def test_rows_of_tables_lists_and_matrices_are_certified_as_those_of_arrays(on_rows, convert):
    X, y = draw_rows(400)

    certified = CertifiedClassifier(LogisticRegression(), random_state=0).fit(convert(X), y)

    assert on_rows.certificate_.n == 120  # 0.3 of 400
    assert certified.certificate_.n_errors == on_rows.certificate_.n_errors


def test_rows_of_dictionaries_are_certified():
    X, y = draw_rows(400)
    rows = [{"a": first, "word": f"w{int(second * 3)}"} for first, second, _ in X]
    pipeline = make_pipeline(DictVectorizer(), LogisticRegression())

    certified = CertifiedClassifier(pipeline, random_state=0).fit(rows, y)

    assert certified.certificate_.n == 120


def test_without_an_estimator_it_takes_the_text_classifier():
    certified = CertifiedClassifier(random_state=0).fit(*draw_texts(60))

    assert isinstance(certified.estimator_, TextClassifier)
    assert certified.out_of_fold_ is certified.estimator_.out_of_fold_
    assert certified.estimator_.encoder == TextClassifier().encoder == "english"


def predict_by_first_word(texts):
    return ["yes" if text.startswith("good") else "no" for text in texts]


@pytest.mark.parametrize("method", ["fit", "calibrate"])
def test_a_function_needs_no_fit_and_all_labels_count(method):
    texts, labels = draw_texts(200)
    certified = CertifiedClassifier(predict_by_first_word)

    getattr(certified, method)(texts, labels)

    n_errors = np.sum(np.array(predict_by_first_word(texts)) != labels)
    assert certified.certificate_.n == 200
    assert certified.certificate_.n_errors == n_errors
    assert certified.predict(["good film"]).tolist() == ["yes"]


def test_a_function_that_gives_labels_alone_has_no_sets_and_does_not_abstain():
    texts, labels = draw_texts(200)
    certified = CertifiedClassifier(predict_by_first_word).fit(texts, labels)

    with pytest.raises(ValueError, match="predict_by_first_word gives labels alone"):
        certified.predict_set(texts)
    with pytest.raises(ValueError, match="predict_by_first_word gives labels alone"):
        certified.abstain()


def test_a_function_with_probabilities_has_sets_and_abstains():
    def predict_proba(X):
        p = 1 / (1 + np.exp(-3 * X[:, 0]))
        return np.stack([p, 1 - p], axis=1)  # the columns are in the order of `classes`

    clear_rows = np.array([[5.0, 0, 0], [-5.0, 0, 0]])

    certified = CertifiedClassifier(predict_proba, classes=[1, 0], random_state=0)
    certified.fit(*draw_rows(400))

    assert certified.certificate_.n == 400
    assert certified.certificate_.error < 0.3
    assert certified.classes_.tolist() == [1, 0]
    assert certified.predict_set(clear_rows, error=0.1) == [[1], [0]]
    assert certified.abstain(error=0.2).predict(clear_rows[:1]) == [1]


@pytest.fixture(scope="module")
def fitted_regression():
    """A regression that was fitted on other rows, without a certificate."""
    return LogisticRegression().fit(*draw_rows(300, 1))


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_fitted_model_is_certified_on_all_labels_and_a_part_of_them_plans(
    fitted_regression, is_frozen
):
    coef = fitted_regression.coef_.copy()
    if is_frozen:
        certified = CertifiedClassifier(FrozenEstimator(fitted_regression), random_state=0)
        certified.fit(*draw_rows(200))
    else:
        certified = CertifiedClassifier(fitted_regression, prefit=True, random_state=0)
        certified.calibrate(*draw_rows(200))

    n_tested = certified.calibration_.samples(tested=True)[""].labels.size
    n_planning = certified.out_of_fold_.labels.size
    assert certified.certificate_.n == 200
    assert "not checked" in certified.certificate_.provenance
    assert np.array_equal(certified.estimator_.coef_, coef)
    assert 20 < n_planning < 80
    assert n_tested == 200 - n_planning


def test_a_second_calibration_draws_the_rows_that_plan_again_and_never_tests_on_them(
    fitted_regression,
):
    certified = CertifiedClassifier(fitted_regression, prefit=True, random_state=0)
    certified.calibrate(*draw_rows(200))

    certified.calibrate(*draw_rows(200))

    n_tested = certified.calibration_.samples(tested=True)[""].labels.size
    assert certified.out_of_fold_.labels.size + n_tested == 200


def test_the_certificate_is_about_predict_where_it_is_not_the_likeliest_class():
    class Contrary(LogisticRegression):
        def predict(self, X):
            return 1 - super().predict(X)

    X, y = draw_rows(300)

    certified = CertifiedClassifier(Contrary(), random_state=0).fit(X, y)

    assert certified.certificate_.error > 0.6
    assert np.array_equal(certified.predict(X), certified.estimator_.predict(X))
    # Abstention answers the likeliest class.
    assert certified.calibration_.wrong.mean() < 0.4


def test_votes_of_pairs_of_classes_are_no_scores_of_classes():
    X = np.random.default_rng(0).normal(size=(300, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    pairs = make_pipeline(StandardScaler(), SVC(decision_function_shape="ovo"))

    certified = CertifiedClassifier(pairs, random_state=0).fit(X, y)

    assert certified.certificate_.error_upper < 0.2
    assert certified.calibration_.log_proba is None
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


# ---- Weights, groups and judges ----


class Recording(LogisticRegression):
    """A regression that records the weights and groups that its fit was given."""

    def fit(self, X, y, sample_weight=None, groups=None):
        self.weights_ = sample_weight
        self.groups_ = groups
        return super().fit(X, y, sample_weight)


def test_weights_and_groups_reach_an_estimator_that_takes_them():
    X, y = draw_rows(300)
    groups = np.arange(300) % 60
    rows_as_weights = np.arange(300.0)

    certified = CertifiedClassifier(Recording(), random_state=0)
    certified.fit(X, y, rows_as_weights, groups=groups)

    estimator = certified.estimator_
    given_groups = groups[estimator.weights_.astype(int)]
    assert 100 < len(estimator.weights_) == len(estimator.groups_) < 300
    assert np.array_equal(
        given_groups == given_groups[0], estimator.groups_ == estimator.groups_[0]
    )


def test_weights_for_an_estimator_that_takes_none_are_refused():
    with pytest.raises(ValueError, match=r"sample_weight must be None .*Pipeline does not"):
        CertifiedClassifier(make_text_pipeline()).fit(*draw_texts(40), [1.0] * 40)


@pytest.mark.parametrize("weights", [np.ones(600), -np.ones(300), ["x"] * 300])
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(ValueError, match="sample_weight must be one number of at least 0"):
        CertifiedClassifier(LogisticRegression()).fit(*draw_rows(300), weights)


class NearestOfSixty:
    """A classifier that remembers what it fitted, for 60 labels of people and some of a machine."""

    def __init__(self):
        texts, labels = draw_texts(460, seed=3, noise=0.0)
        self.texts = texts[:60]
        self.labels = labels[:60]
        self.other_texts = texts[60:]
        self.other_labels = labels[60:]
        self.guesses = np.random.default_rng(1).permutation(self.labels)

    def fit(self, labels, judge, **options):
        nearest = make_pipeline(TfidfVectorizer(), KNeighborsClassifier(1))
        certified = CertifiedClassifier(nearest, random_state=0, **options)
        return certified.fit(self.texts, labels, judge=judge)


def test_labels_of_a_machine_are_fitted_and_the_guarantee_rests_on_those_of_people():
    sixty = NearestOfSixty()
    is_wrong = np.random.default_rng(0).random(400) < 0.2
    machine = np.where(is_wrong, "no", sixty.other_labels)

    certified = sixty.fit(sixty.labels, (sixty.other_texts, machine))

    certificate = certified.certificate_
    assert (certificate.n, certificate.calibration_size) == (48, 0.8)
    assert 400 <= certified.estimator_[-1].n_samples_fit_ <= 412


def test_a_machine_that_has_seen_the_held_out_labels_does_not_make_the_bound_smaller():
    """The labels are random, so that only those who know them can predict them."""
    sixty = NearestOfSixty()

    certificate = sixty.fit(sixty.guesses, (sixty.texts, sixty.guesses)).certificate_

    assert certificate.error_upper > 0.5
    assert certificate.sample == "copies"  # its texts are those of X, not new rows


def test_held_out_texts_are_not_fitted_with_their_labels_of_a_machine_either():
    sixty = NearestOfSixty()

    certified = sixty.fit(sixty.guesses, (sixty.texts, sixty.guesses), repeats="copies")

    assert certified.certificate_.error_upper > 0.5
    assert certified.estimator_[-1].n_samples_fit_ == 24  # the 12 that were fitted, twice


@pytest.mark.parametrize(
    ("judge", "groups"),
    [((["a text"],), None), ((["a", "b"], ["yes", "no"]), range(60))],
    ids=["no labels", "with groups"],
)
def test_a_judge_that_is_no_texts_and_labels_is_refused(judge, groups):
    texts, labels = draw_texts(60)

    with pytest.raises(ValueError, match=r"judge must be \(texts, labels\), or"):
        CertifiedClassifier(make_text_pipeline()).fit(texts, labels, groups=groups, judge=judge)


def test_an_estimator_that_is_fitted_takes_no_judge(on_texts):
    texts, labels = draw_texts(60, seed=3)
    certified = CertifiedClassifier(on_texts.estimator_, prefit=True)

    with pytest.raises(ValueError, match="judge must be None for an estimator that is fitted"):
        certified.fit(texts, labels, judge=(texts, labels))


@pytest.mark.parametrize(
    ("calibration_size", "scope", "n"), [(0.2, "same groups", 80), (0.5, "groups", 10)]
)
def test_a_guarantee_for_new_groups_needs_whole_groups_held_out(calibration_size, scope, n):
    groups = np.arange(400) % 20
    certified = CertifiedClassifier(
        LogisticRegression(), calibration_size=calibration_size, random_state=0
    )

    certificate = certified.fit(*draw_rows(400), groups=groups).certificate_

    assert certificate.scope == scope
    assert certificate.n == n
    assert certificate.verify()


def test_sets_and_abstention_count_one_row_of_each_held_out_group():
    groups = np.arange(400) % 20
    certified = CertifiedClassifier(LogisticRegression(), calibration_size=0.5, random_state=0)

    certified.fit(*draw_rows(400), groups=groups)

    assert certified.calibration_.labels.size == 10


# ---- Seeds ----


@pytest.mark.parametrize("make_generator", [np.random.RandomState, np.random.default_rng])
def test_a_generator_draws_the_seed_that_is_recorded(make_generator):
    def certify_with(random_state):
        certified = CertifiedClassifier(LogisticRegression(), random_state=random_state)
        return certified.fit(*draw_rows(200)).certificate_

    first = certify_with(make_generator(1))
    second = certify_with(make_generator(1))
    other = certify_with(make_generator(2))

    assert first == second
    assert first.random_state != other.random_state
    assert certify_with(first.random_state) == first


def test_a_seed_that_is_not_given_is_drawn_and_recorded():
    X, y = draw_rows(60)

    seeds = {CertifiedClassifier(LogisticRegression()).fit(X, y).seed_ for _ in range(3)}

    assert len(seeds) == 3
    with_seed = CertifiedClassifier(LogisticRegression(), random_state=seeds.pop())
    assert with_seed.fit(X, y).certificate_ == clone(with_seed).fit(X, y).certificate_


# ---- Wrong data and parameters ----

WRONG_DATA = {
    "one class": (lambda X, y: (X, ["a"] * len(X)), "at least two classes"),
    "labels missing": (lambda X, y: (X, y[:-1]), r"one for each of the 60 texts. Got 59"),
    "no texts": (lambda X, y: ([], []), "at least two classes. Got none"),
    "labels not read": (lambda X, y: (X, pl.LazyFrame({"y": y})), "Got a LazyFrame instead. Coll"),
    "texts not read": (lambda X, y: (pl.LazyFrame({"x": X}), y), "Got a LazyFrame instead. Coll"),
    "too few to fit": (lambda X, y: (X, [*"aa", *"b" * 58]), "calibration_size must leave"),
    "groups missing": (lambda X, y: (X, y, None, [1]), "groups must be one for each"),
}


@pytest.mark.parametrize("name", WRONG_DATA)
def test_wrong_data_is_refused_and_changes_nothing(name, on_texts):
    change, message = WRONG_DATA[name]
    texts, labels = draw_texts(60)
    arguments = change(texts, list(labels))
    before = dict(vars(on_texts))

    with pytest.raises((ValueError, TypeError), match=message) as caught:
        on_texts.fit(*arguments)

    assert "\n" not in str(caught.value)
    assert vars(on_texts) == before


def test_a_calibration_that_fails_keeps_the_state_before(on_texts):
    fitted = on_texts.fitted_

    with pytest.raises(ValueError, match="labels"):
        on_texts.calibrate(["a new text"], ["neither"])

    assert on_texts.fitted_ is fitted


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("calibration_size", 1.0),
        ("calibration_size", "some"),
        ("delta", 0),
        ("n_candidates", 0),
        ("simultaneous", 2),
        ("prefit", 2),
        ("randomized_tests", 2),
        ("random_state", -1),
    ],
)
def test_wrong_parameters_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of CertifiedClassifier"):
        CertifiedClassifier(make_text_pipeline(), **{name: value}).fit(*draw_texts(40))


@pytest.mark.parametrize("estimator", [TfidfVectorizer(), 3, "english", dict, LogisticRegression])
def test_an_estimator_must_fit_and_predict(estimator):
    with pytest.raises(TypeError, match="estimator must have fit and predict"):
        CertifiedClassifier(estimator).fit(*draw_texts(40))


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (["yes"], r"one label for each of the 30 rows\. <lambda> gave 1"),
        (np.ones((30, 3)) / 3, r"gave the shape \(30, 3\)"),
        ([[0.5, 0.5], [1.0]] * 15, "one column for each of the 2 classes"),
        (np.full((30, 2), np.nan), "finite and at least 0"),
        (pd.DataFrame(np.ones((30, 2)), columns=["No", "yes"]), "named as the classes .no, yes."),
    ],
)
def test_predictions_of_another_shape_are_refused(answers, message):
    certified = CertifiedClassifier(lambda rows: answers, classes=["no", "yes"])

    with pytest.raises(ValueError, match=message):
        certified.fit(*draw_texts(30))


def test_predictions_of_no_class_are_errors():
    certified = CertifiedClassifier(lambda rows: ["perhaps"] * len(rows)).fit(*draw_texts(30))

    assert certified.certificate_.n_errors == 30


@pytest.mark.parametrize("respell", [str.upper, lambda label: f" {label}"])
def test_labels_spelled_otherwise_than_the_classes_are_refused(respell):
    texts, labels = draw_texts(60)
    certified = CertifiedClassifier(
        lambda rows: [respell(label) for label in predict_by_first_word(rows)]
    )

    with pytest.raises(ValueError, match="must be spelled as the classes"):
        certified.fit(texts, labels)


def test_numbers_as_text_for_numbers_are_refused():
    texts, labels = draw_texts(60)
    are_yes = [label == "yes" for label in predict_by_first_word(texts)]
    digits = [str(int(is_yes)) for is_yes in are_yes]

    with pytest.raises(ValueError, match=r"'0' \(str\) for 0 \(int\)|'1' \(str\) for 1 \(int\)"):
        CertifiedClassifier(lambda rows: digits).fit(texts, (labels == "yes").astype(int))


@pytest.mark.parametrize("is_table", [True, False])
def test_columns_are_matched_by_name_or_else_in_the_order_of_classes(is_table):
    texts, labels = draw_texts(60)
    predictions = np.array(predict_by_first_word(texts))
    proba = np.where(predictions[:, None] == ["yes", "no"], 0.9, 0.1)
    table = pd.DataFrame(proba, columns=["yes", "no"])
    answers = table if is_table else proba[:, ::-1].tolist()

    certified = CertifiedClassifier(lambda rows: answers, classes=["no", "yes"])

    assert certified.fit(texts, labels).certificate_.error == np.mean(predictions != labels)


# ---- Classes that were not fitted ----


def with_maybe():
    """Texts of which five have a label that the model of 60 texts does not know."""
    texts, labels = draw_texts(50, 2)
    return texts, ["maybe"] * 5 + labels.tolist()[5:]


@pytest.fixture
def on_sixty_texts():
    return CertifiedClassifier(make_text_pipeline(), random_state=0).fit(*draw_texts(60))


def test_texts_of_classes_that_were_not_fitted_are_errors_of_a_certificate(on_sixty_texts):
    texts, labels = with_maybe()

    certificate = certify(on_sixty_texts, texts, labels, per_class=True)

    assert certificate.n_errors == np.sum(on_sixty_texts.predict(texts) != labels)
    assert certificate.class_counts["maybe"] == [5, 5]
    assert "5 of classes that were not fitted (maybe) count as errors" in str(certificate)


@pytest.mark.parametrize("n_calibrations", [1, 2])
def test_texts_of_classes_that_were_not_fitted_are_errors_of_a_calibration(
    on_sixty_texts, n_calibrations
):
    """The second time, maybe is one of classes_."""
    texts, labels = with_maybe()
    n_errors = np.sum(on_sixty_texts.predict(texts) != labels)

    for _ in range(n_calibrations):
        on_sixty_texts.calibrate(texts, labels)

    certificate = on_sixty_texts.certificate_
    assert certificate.n_errors == n_errors
    assert "(maybe)" in certificate.provenance
    assert certificate.verify(on_sixty_texts, texts, labels)


def test_a_class_that_was_calibrated_and_not_fitted_is_never_likely(on_sixty_texts):
    texts, labels = with_maybe()
    on_sixty_texts.calibrate(texts, labels)
    n_errors = on_sixty_texts.certificate_.n_errors

    proba = on_sixty_texts.predict_proba(texts)

    assert on_sixty_texts.classes_.tolist() == ["no", "yes", "maybe"]
    assert proba[:, 2].max() < 1e-99
    assert on_sixty_texts.report(texts, labels).accuracy == 1 - n_errors / 50


def test_labels_must_include_one_that_was_fitted(on_sixty_texts):
    texts, _ = with_maybe()

    with pytest.raises(ValueError, match=r"among the classes .*Got maybe"):
        certify(on_sixty_texts.estimator_, texts, ["maybe"] * 50)


def test_classes_must_be_those_of_a_fitted_estimator():
    model = make_text_pipeline().fit(*draw_texts(60))

    with pytest.raises(ValueError, match=r"classes must be those of the estimator"):
        CertifiedClassifier(model, prefit=True, classes=["a", "b"]).calibrate(*draw_texts(50, 2))


# ---- Texts that were fitted ----


def test_texts_that_were_fitted_cannot_be_certified_on(on_texts):
    with pytest.raises(ValueError, match=r"180 of these 300 were among the texts it was fitted"):
        certify(on_texts, *draw_texts(300))


def test_rows_that_were_fitted_cannot_be_certified_on(on_rows):
    with pytest.raises(ValueError, match=r"280 of these 400"):
        certify(on_rows, *draw_rows(400))


def test_texts_that_were_fitted_are_recognised_in_another_case(on_texts):
    texts, labels = draw_texts(300)
    changed = [text.upper() + " " for text in texts]

    with pytest.raises(ValueError, match="not seen"):
        on_texts.calibrate(changed, labels)


def test_texts_that_were_fitted_are_dropped_if_asked_for(on_texts):
    certificate = certify(on_texts, *draw_texts(300), overlap="drop")

    assert certificate.n == 120
    assert "omitted: 180 training texts" in certificate.provenance


@pytest.fixture(scope="module")
def fitted_on_fifty():
    """A fitted TextClassifier with another certificate around it, which has no calibration."""
    texts, labels = draw_texts(300)
    certified = CertifiedClassifier(TextClassifier(None), calibration_size=0.5)
    certified.fit(texts[:100], labels[:100])
    return CertifiedClassifier(certified.estimator_, prefit=True)


def test_an_estimator_knows_its_texts_in_another_certified_classifier(fitted_on_fifty):
    texts, labels = draw_texts(300)

    with pytest.raises(ValueError, match=r"50 of these 100"):
        fitted_on_fifty.calibrate(texts[:100], labels[:100])


def test_the_folds_of_a_fitted_text_classifier_plan(fitted_on_fifty):
    texts, labels = draw_texts(300)

    fitted_on_fifty.calibrate(texts[100:], labels[100:])

    assert fitted_on_fifty.certificate_.provenance.startswith("checked, ")
    assert fitted_on_fifty.calibration_.tested_members is None


class Renamed:
    """Sixty fitted texts with another word for "film", and 150 new texts."""

    def __init__(self):
        self.fitted_texts, self.fitted_labels = draw_texts(200)
        new_texts, new_labels = draw_texts(150, seed=1)
        self.renamed = [text.replace("film", "movie") for text in self.fitted_texts[:60]]
        self.texts = self.renamed + [f"{text} indeed" for text in new_texts]
        self.labels = [*self.fitted_labels[:60], *new_labels]


def test_near_duplicates_of_fitted_texts_are_left_out_of_a_certificate():
    data = Renamed()
    model = TextClassifier(None).fit(data.fitted_texts, data.fitted_labels)

    certificate = certify(model, data.texts, data.labels)

    assert "near-duplicate" in certificate.provenance
    assert certificate.n <= 150
    assert certificate.verify(model, data.texts, data.labels)


def test_near_duplicates_of_fitted_texts_alone_are_refused():
    data = Renamed()
    model = TextClassifier(None).fit(data.fitted_texts, data.fitted_labels)

    with pytest.raises(ValueError, match="60 of them are near-duplicates"):
        certify(model, data.renamed, data.fitted_labels[:60])


def test_near_duplicates_of_fitted_texts_are_left_out_of_a_calibration():
    data = Renamed()
    certified = CertifiedClassifier(make_text_pipeline(), random_state=0)
    certified.fit(data.fitted_texts, data.fitted_labels)

    certified.calibrate(data.texts, data.labels)

    assert "omitted: " in certified.certificate_.provenance
    assert certified.certificate_.n <= 175


@pytest.mark.parametrize(
    "convert",
    [
        lambda X: X.tolist(),
        list,
        lambda X: pd.DataFrame(X, columns=list("abc")),
        sparse.csr_array,
        np.asfortranarray,
    ],
    ids=["lists", "list of arrays", "table", "sparse", "fortran"],
)
def test_equal_rows_are_recognised_in_any_container(convert):
    X, _ = draw_rows(400)
    fingerprints = row_fingerprints(X)
    rows = convert(X)

    assert np.unique(fingerprints).size == 400
    assert np.array_equal(row_fingerprints(rows), fingerprints)
    assert digest(rows) == digest(X)
    selected = select_rows(rows, [3, 3, 5])
    assert np.array_equal(row_fingerprints(selected), fingerprints[[3, 3, 5]])


def test_rows_that_were_fitted_as_an_array_are_recognised_in_a_table(on_rows):
    X, y = draw_rows(400)
    table = pd.DataFrame(X, columns=list("abc"))

    with pytest.raises(ValueError, match="280 of these 400"):
        certify(on_rows, table, y)


# ---- A scikit-learn classifier ----


def test_it_can_be_cloned_and_pickled(on_texts):
    copy = pickle.loads(pickle.dumps(on_texts))

    assert clone(on_texts).get_params().keys() == on_texts.get_params().keys()
    assert copy.certificate_ == on_texts.certificate_


def test_it_can_be_cross_validated():
    certified = CertifiedClassifier(make_text_pipeline(), random_state=0)

    scores = cross_val_score(certified, *draw_texts(120), cv=2)

    assert scores.mean() > 0.6


def test_parameters_of_the_estimator_can_be_set():
    certified = CertifiedClassifier(make_text_pipeline())

    certified.set_params(estimator__logisticregression__C=7.0)

    assert certified.estimator.named_steps["logisticregression"].C == 7.0


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_set"])
def test_nothing_is_predicted_before_fit(method):
    with pytest.raises(NotFittedError):
        getattr(CertifiedClassifier(make_text_pipeline()), method)(["a film"])


def test_there_is_no_abstention_before_fit():
    with pytest.raises(NotFittedError):
        CertifiedClassifier(make_text_pipeline()).abstain()


def test_attributes_are_there_after_fit_only():
    classifier = CertifiedClassifier(make_text_pipeline())

    assert not hasattr(classifier, "calibration_")
    with pytest.raises(NotFittedError, match="CertifiedClassifier instance is not fitted"):
        _ = classifier.certificate_


def test_an_estimator_of_others_is_not_saved(on_texts, tmp_path):
    with pytest.raises(TypeError, match=r"around Pipeline instead. Save the estimator in its own"):
        pacsent.save(on_texts, tmp_path / "model")

    assert not (tmp_path / "model").exists()


# ---- Simulations ----


class Memory(ClassifierMixin, BaseEstimator):
    """Knows the rows it was fitted on by heart, and guesses elsewhere."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.known_ = {row.tobytes(): label for row, label in zip(X, y)}
        return self

    def predict(self, X):
        return np.array([self.known_.get(row.tobytes(), 0) for row in X])


def count_violations(certify_rows, n_runs):
    """How often the bound of a classifier whose error is 1/2 lies below 1/2."""
    count = 0
    for seed in range(n_runs):
        rng = np.random.default_rng(seed)
        X = rng.random((80, 1))
        y = rng.integers(2, size=80)
        count += certify_rows(X, y, seed).certificate_.error_upper < 0.5
    return count


def test_the_bound_holds_as_often_as_stated_and_not_where_it_was_fitted():
    def certify_held_out(X, y, seed):
        return CertifiedClassifier(Memory(), delta=DELTA, random_state=seed).fit(X, y)

    def certify_fitted(X, y, seed):
        model = Memory().fit(X, y)
        return CertifiedClassifier(model, prefit=True, delta=DELTA).calibrate(X, y)

    assert count_violations(certify_held_out, 150) <= stats.binom.isf(1e-4, 150, DELTA)
    assert count_violations(certify_fitted, 25) > 22


@pytest.mark.slow
def test_every_guarantee_of_a_fitted_model_holds_as_often_as_stated():
    def draw(rng, n):
        X = rng.normal(size=(n, 1))
        return X, (rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)

    def predict_proba(X):
        p = 1 / (1 + np.exp(-2 * X[:, 0]))
        return np.stack([1 - p, p], axis=1)

    rng = np.random.default_rng(0)
    X, y = draw(rng, 20_000)
    log_proba = np.log(predict_proba(X))
    is_wrong = log_proba.argmax(axis=1) != y
    confidence = np.exp(log_proba.max(axis=1))
    n_failed = {"error": 0, "sets": 0, "answers": 0}

    for seed in range(200):
        certified = CertifiedClassifier(
            predict_proba, classes=[0, 1], delta=DELTA, random_state=seed
        )
        certified.fit(*draw(rng, 150))
        n_failed["error"] += certified.certificate_.error_upper < is_wrong.mean()

        is_inside = log_proba >= certified.prediction_set_thresholds(error=0.1)
        contains_label = is_inside[np.arange(y.size), y]
        n_failed["sets"] += 1 - contains_label.mean() > 0.1

        is_answered = confidence >= certified.abstain(error=0.15).threshold
        n_failed["answers"] += is_answered.any() and is_wrong[is_answered].mean() > 0.15

    assert max(n_failed.values()) <= stats.binom.isf(1e-4, 200, DELTA)
