"""Several labels a text: what is taken, fitted, predicted, saved, and guaranteed."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import f1_score

import pacsent
from helpers import WORDS_OF_TOPICS, draw_multilabel_texts
from pacsent import TextClassifier
from pacsent.certify import MultilabelCertificate, certify_predictions
from pacsent.certify.labels import parse_sets
from pacsent.classify.multilabel import best_threshold
from pacsent.predict import control_risk
from pacsent.predict.thresholds import GRID


@pytest.fixture(scope="module")
def fitted():
    return TextClassifier(None, n_jobs=1).fit(*draw_multilabel_texts(300))


SETS = [{"b", "a"}, {"a"}, set(), {"c"}]
MATRIX = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 1]])


def convert_sets(kind):
    return [kind(sorted(labels)) for labels in SETS]


@pytest.mark.parametrize(
    "labels",
    [
        convert_sets(set),
        convert_sets(list),
        convert_sets(tuple),
        convert_sets(np.array),
        pd.Series(convert_sets(list)),
        pd.DataFrame(MATRIX, columns=["a", "b", "c"]),
        pd.DataFrame(MATRIX.astype(bool), columns=["a", "b", "c"]),
    ],
    ids=["sets", "lists", "tuples", "arrays", "column", "table", "table of booleans"],
)
def test_sets_and_tables_with_names_are_the_same(labels):
    names, has, _ = parse_sets(labels, 4)

    assert names == ["a", "b", "c"]
    assert np.array_equal(has, MATRIX)


@pytest.mark.parametrize(
    "labels", [MATRIX, sparse.csr_matrix(MATRIX), MATRIX.astype(float)], ids=["int", "csr", "float"]
)
def test_matrices_have_no_names(labels):
    names, has, are_sets = parse_sets(labels, 4)

    assert names is None
    assert not are_sets
    assert np.array_equal(has, MATRIX)


@pytest.mark.parametrize("labels", [["a", "b"], np.array([[1], [0]])], ids=["list", "column"])
def test_one_label_per_text_is_no_multilabel_data(labels):
    assert parse_sets(labels, 2) is None


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([{"a"}, "b", {"c"}, {"a"}], "Got both"),
        ([[0, 1], [1, 0], [1, 1], [0, 0]], "may be sets of labels or rows"),
        (np.array([[0, 2], [1, 0], [1, 1], [0, 0]]), "indicator matrix of 0 and 1. Got"),
        (np.array([["a", "b"]] * 4), "indicator matrix of 0 and 1. Got"),
        (np.array([[0, np.nan], [1, 0], [1, 1], [0, 0]]), "indicator matrix of 0 and 1. Got nan"),
        ([{"a"}, {"b"}, {"a"}], "one for each of the 4 texts"),
        ([{"a"}, {None}, {"b"}, {"a"}], "must all be known"),
        ([{"a"}, {1}, {"b"}, {"a"}], "all strings or all numbers"),
        ([{"a"}, {"a"}, set(), set()], "at least two different labels"),
        ([{"a", "b"}, {"a"}, {"a"}, set()], "two texts with it and two without"),
        ([set()] * 4, "at least two different labels. Got none"),
    ],
)
def test_ambiguous_or_impossible_labels_are_refused_in_one_line(labels, message):
    texts = ["one film", "two dishes", "three goals", "four films"]
    with pytest.raises(ValueError, match=message) as caught:
        TextClassifier(None).fit(texts, labels)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"class_weight": "balanced"}, {"selection": "loss"}])
def test_options_for_one_class_per_text_are_refused(options):
    with pytest.raises(ValueError, match="several labels per text"):
        TextClassifier(None, **options).fit(*draw_multilabel_texts(40))


def test_a_score_with_unknown_labels_is_refused(fitted):
    with pytest.raises(ValueError, match="among the known ones"):
        fitted.score(["a film"], [{"music"}])


def test_a_score_with_one_label_per_text_is_refused(fitted):
    with pytest.raises(ValueError, match="one set of labels for each text"):
        fitted.score(["a film"], ["film"])


def test_labels_are_predicted(fitted):
    texts, labels = draw_multilabel_texts(200, seed=1)

    predictions = fitted.predict(texts)

    _, has, _ = parse_sets(labels, 200)
    predicted = [[name in prediction for name in fitted.classes_] for prediction in predictions]
    is_exact = [set(prediction) == right for prediction, right in zip(predictions, labels)]
    assert all(isinstance(prediction, tuple) for prediction in predictions)
    assert f1_score(has, np.array(predicted), average="micro") > 0.95
    assert fitted.score(texts, labels) == pytest.approx(np.mean(is_exact))


def test_labels_have_calibrated_probabilities_of_their_own(fitted):
    texts, labels = draw_multilabel_texts(200, seed=1)
    _, has, _ = parse_sets(labels, 200)

    proba = fitted.predict_proba(texts)

    assert proba.shape == (200, 3)
    assert not np.allclose(proba.sum(axis=1), 1)
    assert np.allclose(np.exp(fitted.predict_log_proba(texts)), proba)
    assert abs(proba.mean(axis=0) - has.mean(axis=0)).max() < 0.05


def test_every_text_gets_a_label_where_all_training_texts_have_one(fitted):
    assert fitted.min_labels_ == 1
    assert all(fitted.predict(["nothing known here", ""]))


def test_texts_may_have_no_label_where_a_training_text_has_none():
    texts, labels = draw_multilabel_texts(60)
    labels[3] = set()

    classifier = TextClassifier(None, n_jobs=1).fit(texts, labels, np.ones(60), np.arange(60) % 8)

    assert classifier.min_labels_ == 0
    assert classifier.score(texts, labels) > 0.9


def test_a_matrix_gives_a_matrix_in_the_order_of_its_columns():
    texts, labels = draw_multilabel_texts(80)
    names = ("sport", "film")
    frame = pd.DataFrame({name: [name in topics for topics in labels] for name in names})

    classifier = TextClassifier(None, n_jobs=1).fit(texts, frame)

    predictions = classifier.predict(["goal team match", "film actor scene"])
    assert classifier.classes_.tolist() == ["sport", "film"]
    assert predictions.tolist() == [[1, 0], [0, 1]]
    assert classifier.score(texts, frame) == classifier.score(texts, frame.to_numpy()) > 0.9


@pytest.fixture
def loaded(fitted, tmp_path):
    """The classifier after saving and loading."""
    return pacsent.load(pacsent.save(fitted, tmp_path / "model"))


def test_a_loaded_multilabel_model_predicts_the_same(fitted, loaded):
    texts, labels = draw_multilabel_texts(20, seed=2)

    assert loaded.predict(texts) == fitted.predict(texts)
    assert np.array_equal(loaded.predict_proba(texts), fitted.predict_proba(texts))
    assert loaded.score(texts, labels) == fitted.score(texts, labels)


def test_a_loaded_multilabel_model_is_explained(loaded):
    explanation = loaded.explain("goal film", "sport")

    [(best_word, _)] = explanation.by_word(1)
    decision = loaded.decision_values(["goal film"])[0, 2]
    assert explanation.label == "sport"
    assert best_word == "goal"
    assert explanation.decision == pytest.approx(decision, 1e-4)


def test_the_best_features_of_a_label_are_its_words(loaded):
    names = {name for name, _ in loaded.top_features("food", 4)}

    assert names <= set(WORDS_OF_TOPICS["food"])


def test_the_threshold_is_that_of_the_best_f1():
    rng = np.random.default_rng(0)
    proba = rng.random(400)
    has = rng.random(400) < proba

    def expected_f1(threshold):
        is_predicted = proba >= threshold
        n_right = (has + proba)[is_predicted].sum()
        return n_right / (is_predicted.sum() + (has + proba).sum() / 2)

    best = best_threshold(proba, has, np.ones(400))

    of_grid = [expected_f1(threshold) for threshold in np.linspace(0.01, 0.99, 99)]
    assert expected_f1(best) >= max(of_grid) - 1e-9


def draw_labels(n, rng, noise=0.35):
    """Labels of four kinds, and probabilities that know something about them."""
    logits = rng.normal(-0.5, 1.5, size=(n, 4))
    has = rng.random((n, 4)) < 1 / (1 + np.exp(-logits))
    noisy_logits = logits + noise * rng.normal(size=(n, 4))
    return has, 1 / (1 + np.exp(-noisy_logits))


POPULATION = draw_labels(400_000, np.random.default_rng(99))


def false_negatives(has, predicted):
    n_missed = (has & ~predicted).sum(axis=1)
    n_labels = np.maximum(has.sum(axis=1), 1)
    return (n_missed / n_labels).mean()


def false_discoveries(has, predicted):
    n_predicted = predicted.sum(axis=1)
    n_false = (predicted & ~has).sum(axis=1)
    is_predicted = n_predicted > 0
    if not is_predicted.any():
        return 0.0
    return (n_false[is_predicted] / n_predicted[is_predicted]).mean()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("about", "risk", "error"),
    [("false_negatives", false_negatives, 0.2), ("false_discoveries", false_discoveries, 0.3)],
)
def test_thresholds_keep_their_error_and_plugging_in_does_not(about, risk, error):
    """60 calibration sets; the negative control takes the threshold that looks right."""
    all_has, all_proba = POPULATION
    true_risks = np.array([risk(all_has, all_proba >= threshold) for threshold in GRID])
    planning = draw_labels(400, np.random.default_rng(5))
    n_answered = 0
    n_false = 0
    n_false_of_looks = 0

    for seed in range(60):
        has, proba = draw_labels(300, np.random.default_rng(seed))
        rule = control_risk(has, proba, **{about: error}, delta=0.2, planning=planning)
        if rule.threshold is not None:
            n_answered += 1
            n_false += true_risks[np.searchsorted(GRID, rule.threshold)] > error

        looks_right = [risk(has, proba >= threshold) <= error for threshold in GRID[40:290:5]]
        of_these = true_risks[40:290:5][looks_right]
        chosen = of_these[0] if about == "false_discoveries" else of_these.max()
        n_false_of_looks += chosen > error

    assert n_false <= 12 < n_false_of_looks
    assert n_answered > 54


@pytest.mark.parametrize("about", ["false_negatives", "false_discoveries"])
def test_no_threshold_where_there_are_too_few_texts(about):
    has, proba = draw_labels(5, np.random.default_rng(0))

    rule = control_risk(has, proba, **{about: 0.05})

    assert rule.threshold is None
    assert not rule.predict(proba).any()
    assert "No threshold can be guaranteed" in str(rule)


FIFTY_HAS, FIFTY_PROBA = draw_labels(50, np.random.default_rng(0))
FIFTY_SETS = [set(np.flatnonzero(row).tolist()) for row in FIFTY_HAS]


def test_risk_of_sets_needs_classes():
    with pytest.raises(ValueError, match="sets need classes"):
        control_risk(FIFTY_SETS, FIFTY_PROBA, false_negatives=0.3)


def test_risk_of_sets_is_that_of_their_matrix():
    of_sets = control_risk(
        FIFTY_SETS, FIFTY_PROBA, classes=range(4), false_negatives=0.3, random_state=0
    )
    of_matrix = control_risk(FIFTY_HAS, FIFTY_PROBA, false_negatives=0.3, random_state=0)

    assert of_sets == of_matrix
    assert "95% confidence" in str(of_sets)


@pytest.mark.parametrize(
    ("has", "proba", "options", "message"),
    [
        (FIFTY_HAS, FIFTY_PROBA + 1, {}, r"probabilities must be numbers in \[0, 1\]"),
        (FIFTY_HAS, FIFTY_PROBA[:, 0], {}, "probabilities must be numbers"),
        (FIFTY_HAS[:, :3], FIFTY_PROBA, {}, "a column for each of the 4 labels"),
        (FIFTY_HAS, FIFTY_PROBA, {"false_discoveries": 0.1}, "not both"),
    ],
    ids=["above 1", "one column", "three labels", "two risks"],
)
def test_risk_of_wrong_input_is_refused(has, proba, options, message):
    with pytest.raises(ValueError, match=message):
        control_risk(has, proba, false_negatives=0.3, **options)


class Measured:
    """The errors and F1 scores of predictions."""

    def __init__(self, has, predicted):
        n_right = (has & predicted).sum(axis=0)
        n_both = has.sum(axis=0) + predicted.sum(axis=0)
        self.error = (has != predicted).any(axis=1).mean()
        self.label_errors = (has != predicted).mean(axis=0)
        self.label_f1 = 2 * n_right / n_both
        self.micro_f1 = 2 * n_right.sum() / n_both.sum()


def has_false_bound(certificate, truth):
    label_errors = list(certificate.label_error_upper.values())
    label_f1 = list(certificate.label_f1_lower.values())
    return (
        certificate.error_upper < truth.error
        or np.less(label_errors, truth.label_errors).any()
        or np.greater(label_f1, truth.label_f1).any()
        or certificate.micro_f1_lower > truth.micro_f1
        or certificate.macro_f1_lower > truth.label_f1.mean()
    )


def test_all_bounds_of_the_certificate_hold_together():
    """100 samples; the negative control reads the sample's own numbers as bounds."""
    all_has, all_proba = POPULATION
    truth = Measured(all_has, all_proba >= 0.5)
    n_false = 0
    n_false_of_sample = 0

    for seed in range(100):
        has, proba = draw_labels(250, np.random.default_rng(seed))
        predicted = proba >= 0.5
        certificate = certify_predictions(has, predicted, delta=0.2, random_state=seed)
        micro_f1 = Measured(has, predicted).micro_f1
        assert 0.1 < certificate.micro_f1_lower < micro_f1
        n_false += has_false_bound(certificate, truth)
        n_false_of_sample += micro_f1 > truth.micro_f1

    assert n_false <= 20
    assert n_false_of_sample > 30


def test_the_measured_micro_f1_is_that_of_scikit_learn():
    predicted = FIFTY_PROBA >= 0.5

    expected = f1_score(FIFTY_HAS, predicted, average="micro")

    assert Measured(FIFTY_HAS, predicted).micro_f1 == pytest.approx(expected)


@pytest.fixture(scope="module")
def certificate():
    has, proba = draw_labels(200, np.random.default_rng(1))
    names = np.array(["a", "b", "c", "d"])
    sets = [set(names[row].tolist()) for row in has]
    return certify_predictions(sets, proba >= 0.5, classes=names.tolist(), random_state=0)


def test_a_multilabel_certificate_is_verified(certificate):
    assert certificate.verify()
    assert "micro F1 is at least" in str(certificate)


def test_an_edited_multilabel_certificate_is_refused(certificate):
    fields = certificate.to_dict()
    fields["matches"] = [[n_right, n_right] for _, n_right in fields["matches"]]

    with pytest.raises(ValueError, match="matches"):
        MultilabelCertificate.from_dict(fields).verify()


def test_multilabel_bounds_of_one_of_ten_candidates_are_wider(certificate):
    has, proba = draw_labels(200, np.random.default_rng(1))

    wider = certify_predictions(has, proba >= 0.5, n_candidates=10, random_state=0)

    assert wider.error_upper > certificate.error_upper
    assert wider.micro_f1_lower < certificate.micro_f1_lower
