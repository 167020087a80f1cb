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


def test_sets_lists_tuples_arrays_and_matrices_are_the_same():
    sets = [{"b", "a"}, {"a"}, set(), {"c"}]
    matrix = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 1]])
    frame = pd.DataFrame(matrix, columns=["a", "b", "c"])
    forms = [[kind(sorted(labels)) for labels in sets] for kind in (set, list, tuple, np.array)]
    for form in (*forms, pd.Series(forms[1]), frame, frame.astype(bool)):
        names, has, _ = parse_sets(form, 4)
        assert names == ["a", "b", "c"] and (has == matrix).all()
    for form in (matrix, sparse.csr_matrix(matrix), matrix.astype(float)):
        names, has, are_sets = parse_sets(form, 4)
        assert names is None and not are_sets and (has == matrix).all()
    assert parse_sets(["a", "b"], 2) is None
    assert parse_sets(np.array([[1], [0]]), 2) is None


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


def test_what_is_for_one_class_a_text_and_unknown_labels_are_refused(fitted):
    for options in ({"class_weight": "balanced"}, {"selection": "loss"}):
        with pytest.raises(ValueError, match="several labels per text"):
            TextClassifier(None, **options).fit(*draw_multilabel_texts(40))
    with pytest.raises(ValueError, match="among the known ones"):
        fitted.score(["a film"], [{"music"}])
    with pytest.raises(ValueError, match="one set of labels for each text"):
        fitted.score(["a film"], ["film"])


def test_labels_are_predicted_with_probabilities_of_their_own(fitted):
    texts, labels = draw_multilabel_texts(200, seed=1)
    found = fitted.predict(texts)
    assert all(isinstance(one, tuple) for one in found)
    proba = fitted.predict_proba(texts)
    assert proba.shape == (200, 3) and not np.allclose(proba.sum(axis=1), 1)
    _, has, _ = parse_sets(labels, 200)
    given = np.array([[name in one for name in fitted.classes_] for one in found])
    assert f1_score(has, given, average="micro") > 0.95
    exact = np.mean([set(one) == some for one, some in zip(found, labels)])
    assert fitted.score(texts, labels) == pytest.approx(exact)
    assert np.allclose(np.exp(fitted.predict_log_proba(texts)), proba)
    assert abs(proba.mean(axis=0) - has.mean(axis=0)).max() < 0.05  # calibrated


def test_every_text_gets_a_label_where_all_training_texts_have_one(fitted):
    assert fitted.min_labels_ == 1
    assert all(fitted.predict(["nothing known here", ""]))
    texts, labels = draw_multilabel_texts(60)
    labels[3] = set()
    weighted = TextClassifier(None, n_jobs=1).fit(texts, labels, np.ones(60), np.arange(60) % 8)
    assert weighted.min_labels_ == 0 and weighted.score(texts, labels) > 0.9


def test_a_matrix_gives_a_matrix_in_the_order_of_its_columns():
    texts, labels = draw_multilabel_texts(80)
    frame = pd.DataFrame({name: [name in one for one in labels] for name in ("sport", "film")})
    classifier = TextClassifier(None, n_jobs=1).fit(texts, frame)
    assert classifier.classes_.tolist() == ["sport", "film"]
    found = classifier.predict(["goal team match", "film actor scene"])
    assert found.tolist() == [[1, 0], [0, 1]]
    assert classifier.score(texts, frame) == classifier.score(texts, frame.to_numpy()) > 0.9


def test_a_multilabel_model_is_saved_explained_and_loaded(fitted, tmp_path):
    again = pacsent.load(pacsent.save(fitted, tmp_path / "model"))
    texts, labels = draw_multilabel_texts(20, seed=2)
    assert again.predict(texts) == fitted.predict(texts)
    assert np.array_equal(again.predict_proba(texts), fitted.predict_proba(texts))
    assert again.score(texts, labels) == fitted.score(texts, labels)
    explanation = again.explain("goal film", "sport")
    assert explanation.label == "sport" and explanation.by_word(1)[0][0] == "goal"
    assert explanation.decision == pytest.approx(again.decision_values(["goal film"])[0, 2], 1e-4)
    assert {name for name, _ in again.top_features("food", 4)} <= set(WORDS_OF_TOPICS["food"])


def test_the_threshold_is_that_of_the_best_f1():
    rng = np.random.default_rng(0)
    proba = rng.random(400)
    has = rng.random(400) < proba
    best = best_threshold(proba, has, np.ones(400))
    grid = np.linspace(0.01, 0.99, 99)

    def expected_f1(threshold):
        given = proba >= threshold
        return (has + proba)[given].sum() / (given.sum() + (has + proba).sum() / 2)

    assert expected_f1(best) >= max(map(expected_f1, grid)) - 1e-9


def draw(n, rng, noise=0.35):
    """Labels of four kinds, and probabilities that know something about them."""
    logits = rng.normal(-0.5, 1.5, size=(n, 4))
    has = rng.random((n, 4)) < 1 / (1 + np.exp(-logits))
    seen = logits + noise * rng.normal(size=(n, 4))
    return has, 1 / (1 + np.exp(-seen))


TRUTH = draw(400_000, np.random.default_rng(99))


def false_negatives(has, given):
    return ((has & ~given).sum(axis=1) / np.maximum(has.sum(axis=1), 1)).mean()


def false_discoveries(has, given):
    some = given.any(axis=1)
    if not some.any():
        return 0.0
    return ((given & ~has).sum(axis=1)[some] / given.sum(axis=1)[some]).mean()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("about", "risk", "error"),
    [("false_negatives", false_negatives, 0.2), ("false_discoveries", false_discoveries, 0.3)],
)
def test_thresholds_keep_their_error_and_plugging_in_does_not(about, risk, error):
    """60 calibration sets; the negative control takes the threshold that looks right."""
    truth = np.array([risk(TRUTH[0], TRUTH[1] >= threshold) for threshold in GRID])
    options = {about: error, "delta": 0.2, "planning": draw(400, np.random.default_rng(5))}
    n_answered = n_broken = n_naive = 0
    for seed in range(60):
        has, proba = draw(300, np.random.default_rng(seed))
        threshold = control_risk(has, proba, **options).threshold
        if threshold is not None:
            n_answered += 1
            n_broken += truth[np.searchsorted(GRID, threshold)] > error
        looks = [risk(has, proba >= threshold) <= error for threshold in GRID[40:290:5]]
        true = truth[40:290:5][looks]
        n_naive += (true[0] if about == "false_discoveries" else true.max()) > error
    assert n_broken <= 12 < n_naive and n_answered > 54


def test_no_threshold_where_there_are_too_few_texts():
    has, proba = draw(5, np.random.default_rng(0))
    for about in ("false_negatives", "false_discoveries"):
        found = control_risk(has, proba, **{about: 0.05})
        assert found.threshold is None and not found.predict(proba).any()
        assert "No threshold can be guaranteed" in str(found)


def test_sets_need_classes_and_probabilities_are_checked():
    has, proba = draw(50, np.random.default_rng(0))
    sets = [set(np.flatnonzero(row).tolist()) for row in has]
    with pytest.raises(ValueError, match="sets need classes"):
        control_risk(sets, proba, false_negatives=0.3)
    options = {"false_negatives": 0.3, "random_state": 0}
    one = control_risk(sets, proba, classes=range(4), **options)
    assert one == control_risk(has, proba, **options)
    assert "95% confidence" in str(one)
    for labels, wrong, options, message in (
        (has, proba + 1, {"false_negatives": 0.3}, r"probabilities must be numbers in \[0, 1\]"),
        (has, proba[:, 0], {"false_negatives": 0.3}, "probabilities must be numbers"),
        (has[:, :3], proba, {"false_negatives": 0.3}, "a column for each of the 4 labels"),
        (has, proba, {"false_negatives": 0.1, "false_discoveries": 0.1}, "not both"),
    ):
        with pytest.raises(ValueError, match=message):
            control_risk(labels, wrong, **options)


def measured(has, given):
    both = has & given
    f1 = 2 * both.sum(axis=0) / (has.sum(axis=0) + given.sum(axis=0))
    micro = 2 * both.sum() / (has.sum() + given.sum())
    return (has != given).any(axis=1).mean(), (has != given).mean(axis=0), f1, micro


def test_all_bounds_of_the_certificate_hold_together():
    """100 samples; the negative control reads the sample's own numbers as bounds."""
    exact, errors, f1, micro = measured(TRUTH[0], TRUTH[1] >= 0.5)
    broken = naive = 0
    for seed in range(100):
        has, proba = draw(250, np.random.default_rng(seed))
        given = proba >= 0.5
        found = certify_predictions(has, given, delta=0.2, random_state=seed)
        broken += (
            found.error_upper < exact
            or (np.array(list(found.label_error_upper.values())) < errors).any()
            or (np.array(list(found.label_f1_lower.values())) > f1).any()
            or found.micro_f1_lower > micro
            or found.macro_f1_lower > f1.mean()
        )
        naive += measured(has, given)[3] > micro
        assert 0.1 < found.micro_f1_lower < f1_score(has, given, average="micro")
    assert broken <= 20
    assert naive > 30


def test_the_certificate_is_verified_kept_and_refused_when_edited():
    has, proba = draw(200, np.random.default_rng(1))
    names = ["a", "b", "c", "d"]
    sets = [{name for name, one in zip(names, row) if one} for row in has]
    found = certify_predictions(sets, proba >= 0.5, classes=names, random_state=0)
    assert found.verify() and "micro F1 is at least" in str(found)
    values = found.to_dict()
    better = [[n_right, n_right] for _, n_right in values["matches"]]
    with pytest.raises(ValueError, match="matches"):
        MultilabelCertificate.from_dict({**values, "matches": better}).verify()
    wider = certify_predictions(has, proba >= 0.5, n_candidates=10, random_state=0)
    assert wider.error_upper > found.error_upper and wider.micro_f1_lower < found.micro_f1_lower
