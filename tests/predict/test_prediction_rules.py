"""Prediction sets, abstention and thresholds of a CertifiedClassifier, and what they state."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

import pacsent
from classified_data import draw_rows, draw_texts, make_text_pipeline
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.bounds.means import mean_is_below
from pacsent.certify import certify_predictions
from pacsent.predict import control_risk
from pacsent.predict.abstaining import AnswerRule

# ---- Corrections ----


def certify_regression(**options):
    """A regression, certified on rows of numbers."""
    certified = CertifiedClassifier(LogisticRegression(), random_state=0, **options)
    return certified.fit(*draw_rows(400))


@pytest.fixture(scope="module")
def alone():
    return certify_regression()


@pytest.fixture(scope="module")
def best_of_fifty():
    return certify_regression(n_candidates=50)


@pytest.fixture(scope="module")
def joint():
    return certify_regression(simultaneous=True)


def test_bounds_that_hold_together_have_a_third_of_delta_each(joint):
    third = pytest.approx(0.05 / 3)

    assert joint.certificate_.delta == joint.abstain(error=0.2).delta == third


@pytest.mark.parametrize("name", ["best_of_fifty", "joint"])
def test_corrected_bounds_are_wider(name, alone, request):
    corrected = request.getfixturevalue(name)

    lowest = alone.prediction_set_thresholds(error=0.2)[0]
    assert corrected.certificate_.error_upper > alone.certificate_.error_upper
    assert corrected.prediction_set_thresholds(error=0.2)[0] < lowest


def test_the_best_of_fifty_candidates_has_sets_of_a_fiftieth_of_delta(alone, best_of_fifty):
    with_all = best_of_fifty.prediction_set_thresholds(error=0.2)
    with_part = alone.prediction_set_thresholds(error=0.2, delta=0.001)

    assert with_all[0] == with_part[0]


def test_the_best_of_fifty_candidates_abstains_with_a_fiftieth_of_delta(alone, best_of_fifty):
    abstaining = best_of_fifty.abstain(error=0.4)

    assert abstaining.threshold == alone.abstain(error=0.4, delta=0.001).threshold
    assert "Corrected for a selection among 50 models" in str(abstaining)


def test_the_best_of_fifty_candidates_has_thresholds_of_a_fiftieth_of_delta(alone, best_of_fifty):
    with_all = best_of_fifty.tune_thresholds(precision=0.8, recall=0.6)
    with_part = alone.tune_thresholds(precision=0.8, recall=0.6, delta=0.001)

    assert with_all.thresholds == with_part.thresholds


def test_the_rules_of_the_shell_and_the_server_honour_joint_and_candidates():
    texts, labels = draw_texts(300)
    plain = CertifiedClassifier(TextClassifier(None), random_state=0).fit(texts, labels)
    both = CertifiedClassifier(
        TextClassifier(None), simultaneous=True, n_candidates=4, random_state=0
    )
    both.fit(texts, labels)

    rule = AnswerRule(both, error=0.35, delta=0.06)

    level = 0.06 / 3 / 4
    expected = plain.prediction_set_thresholds(error=0.35, delta=level)
    assert rule.set_levels.tolist() == expected.tolist()
    assert rule.threshold == plain.abstain(error=0.35, delta=level).threshold
    assert rule.statement.startswith("With 98% confidence")


# ---- Thresholds of classes ----


@pytest.fixture(scope="module")
def almost_right():
    """A pipeline on texts of which 2% of the labels are wrong."""
    certified = CertifiedClassifier(make_text_pipeline(), random_state=0)
    return certified.fit(*draw_texts(600, noise=0.02))


def test_thresholds_of_classes_say_what_they_guarantee(almost_right):
    tuned = almost_right.tune_thresholds(precision=0.6, recall=0.6)

    sentence = "at least 60% are of it, and of the texts of a class at least 60%"
    assert set(tuned.thresholds) == {"no", "yes"}
    assert None not in tuned.thresholds.values()
    assert sentence in str(tuned)


def test_thresholds_of_classes_predict_the_classes_that_reach_them(almost_right):
    texts, _ = draw_texts(5, 1)

    rows = almost_right.tune_thresholds(precision=0.6, recall=0.6).predict(texts)

    predicted = {label for row in rows for label in row}
    assert predicted
    assert predicted <= {"no", "yes"}


def test_a_precision_that_cannot_be_guaranteed_has_no_threshold(almost_right):
    tuned = almost_right.tune_thresholds(precision=0.999)

    assert set(tuned.thresholds.values()) == {None}
    assert "Never named" in str(tuned)


def test_thresholds_of_classes_need_precision_or_recall(almost_right):
    with pytest.raises(ValueError, match="needs precision or recall"):
        almost_right.tune_thresholds()


# ---- The order of rows ----


class SortedByLabel:
    """400 rows with one to four of four labels, sorted: the easy rows come first."""

    def __init__(self):
        self.n_labels = np.sort(np.random.default_rng(0).integers(1, 5, 400))
        self.has = np.arange(4) < self.n_labels[:, None]
        self.is_easy = self.n_labels < 3


def test_a_threshold_does_not_depend_on_the_order_of_rows():
    rows = SortedByLabel()
    # Half of the texts are missed.
    proba = np.where(rows.has & rows.is_easy[:, None], 0.9, 0.1)

    rules = [control_risk(rows.has, proba, false_negatives=0.3) for _ in range(5)]

    thresholds = [rule.threshold for rule in rules if rule.threshold is not None]
    assert all(threshold <= 0.1 for threshold in thresholds)
    # The negative control: the bound in the order of the file is false.
    fractions_missed = (rows.has & (proba < 0.5)).mean(axis=1)
    assert mean_is_below(fractions_missed, 0.3, 0.05)


def test_the_bound_of_micro_f1_does_not_depend_on_the_order_of_rows():
    rows = SortedByLabel()
    assigned = np.where(rows.is_easy[:, None], rows.has, ~rows.has)

    certificate = certify_predictions(rows.has, assigned)

    n_right = (rows.has & assigned).sum()
    assert certificate.micro_f1_lower < 2 * n_right / (rows.has.sum() + assigned.sum())


def test_rows_of_a_certificate_are_shuffled():
    has = SortedByLabel().has.astype(int)
    texts = [f"w{i} x{i} y{i} z{i}" for i in range(400)]
    row_of_text = {text: row for row, text in enumerate(texts)}

    def predict(texts):
        return has[[row_of_text[text] for text in texts]]

    certified = CertifiedClassifier(predict, classes=range(4), random_state=0).fit(texts, has)

    n_right = np.array(certified.certificate_.matches)[:, 1]
    assert abs(np.corrcoef(np.arange(400), n_right)[0, 1]) < 0.2


# ---- The random number of abstention ----


def test_the_random_number_of_abstention_is_drawn_by_the_system_and_not_by_the_seed():
    X, y = draw_rows(60)
    model = LogisticRegression().fit(*draw_rows(60, 1))
    certified = CertifiedClassifier(model, prefit=True, randomized_tests=True, random_state=0)

    uniforms = [certified.fit(X, y).calibration_.uniform for _ in range(50)]

    tested = certified.calibration_.samples(tested=True)[""]
    assert stats.kstest(uniforms, "uniform").pvalue > 0.01
    assert tested.uniform == uniforms[-1]
    assert certified.abstain(error=0.3).uniform == uniforms[-1]


@pytest.fixture(scope="module")
def randomised():
    return certify_regression(randomized_tests=True)


def name_number(randomised):
    return f"one random number, {randomised.calibration_.uniform:.4f}, which was drawn"


def test_a_randomised_test_names_its_random_number(randomised):
    number = name_number(randomised)

    verified = randomised.certificate_.verify(randomised, *draw_rows(400))

    assert number in str(randomised.abstain(error=0.3))
    assert number in str(randomised.tune_thresholds(precision=0.6))
    assert "the random number of abstention" in verified.unchecked


def test_recall_needs_no_random_number(randomised):
    assert "random number" not in str(randomised.tune_thresholds(recall=0.6))


def test_a_test_that_is_not_randomised_names_no_random_number(alone, randomised):
    number = name_number(randomised)

    verified = alone.certificate_.verify(alone, *draw_rows(400))

    assert number not in str(alone.abstain(error=0.3))
    assert number not in str(alone.tune_thresholds(precision=0.6))
    assert "the random number of abstention" not in verified.unchecked


def test_a_saved_model_keeps_its_random_number(tmp_path):
    certified = CertifiedClassifier(TextClassifier(None), random_state=0, randomized_tests=True)
    certified.fit(*draw_texts(200))

    loaded = pacsent.load(pacsent.save(certified, tmp_path / "model"))

    assert loaded.calibration_.uniform == certified.calibration_.uniform < 1
    assert loaded.abstain(error=0.3).threshold == certified.abstain(error=0.3).threshold
