"""CertifiedClassifier for multi-label data."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

import pacsent
from classified_data import draw_texts, make_text_pipeline
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.certify import certify

LABELS = np.array(["joy", "love", "sad"])


def draw_labelled(n, seed=0, noise=0.05):
    """Texts that name their labels, some of them wrongly, among rare words."""
    rng = np.random.default_rng(seed)
    is_named = rng.random((n, 3)) < 0.4
    rare_words = [f"w{k}" for k in range(200)]
    texts = []
    for row, names in enumerate(is_named):
        words = [*LABELS[names], *rng.choice(rare_words, 8), f"n{seed}x{row}"]
        texts.append(" ".join(words))
    has = is_named ^ (rng.random(is_named.shape) < noise)
    return texts, [set(LABELS[row]) for row in has]


def to_indicators(sets):
    return np.array([[label in labels for label in LABELS] for labels in sets])


@pytest.fixture(scope="module")
def on_sets():
    return CertifiedClassifier(TextClassifier(None), random_state=0).fit(*draw_labelled(300))


def test_multilabel_data_has_a_certificate_of_its_own_kind(on_sets):
    certificate = on_sets.certificate_

    assert certificate.kind == "multilabel"
    assert certificate.n == 120
    assert certificate.calibration_size == 0.4


def test_the_error_on_new_texts_is_below_the_bound(on_sets):
    texts, sets = draw_labelled(400, seed=1)

    predicted, _ = on_sets.predict_with_scores(texts)

    error = (predicted != to_indicators(sets)).any(axis=1).mean()
    assert error < on_sets.certificate_.error_upper < 0.4
    assert on_sets.predict(texts)[:5] == [tuple(LABELS[row]) for row in predicted[:5]]


def test_a_fitted_multilabel_model_is_certified_on_other_texts(on_sets):
    texts, sets = draw_labelled(400, seed=1)

    certificate = certify(on_sets, texts, sets)

    assert certificate.n <= 400
    assert certificate.error_upper < 0.3
    assert certificate.verify(on_sets, texts, sets)


def test_a_multilabel_model_is_saved_with_its_certificate(on_sets, tmp_path):
    loaded = pacsent.load(pacsent.save(on_sets, tmp_path / "model"))

    assert loaded.certificate_ == on_sets.certificate_
    assert loaded.target_type_ == "sets"
    assert loaded.certificate_.verify(loaded, *draw_labelled(300))


def test_thresholds_for_false_negatives_keep_their_error(on_sets):
    texts, sets = draw_labelled(2000, seed=2)
    has = to_indicators(sets)

    predicted = on_sets.control_risk(false_negatives=0.2).predict(on_sets.predict_proba(texts))

    n_missed = (has & ~predicted).sum(axis=1)
    n_labels = np.maximum(has.sum(axis=1), 1)
    assert (n_missed / n_labels).mean() <= 0.2


def test_thresholds_for_false_discoveries_predict_labels(on_sets):
    texts, _ = draw_labelled(2000, seed=2)

    rule = on_sets.control_risk(false_discoveries=0.3)

    assert rule.predict(on_sets.predict_proba(texts)).any()


def test_the_threshold_of_a_label_keeps_its_precision(on_sets):
    texts, sets = draw_labelled(2000, seed=2)

    rows = on_sets.tune_thresholds(precision=0.8, classes=["joy"]).predict(texts)

    is_right = ["joy" in labels for labels, row in zip(sets, rows) if row]
    assert np.mean(is_right) >= 0.8


@pytest.mark.parametrize("method", ["abstain", "prediction_set_thresholds"])
def test_rules_for_one_class_per_text_are_refused_for_several(on_sets, method):
    with pytest.raises(ValueError, match="for one class a text"):
        getattr(on_sets, method)()


def test_rules_for_several_labels_are_refused_for_one_class_per_text():
    on_texts = CertifiedClassifier(make_text_pipeline(), random_state=0).fit(*draw_texts(300))

    with pytest.raises(ValueError, match="control_risk is for several labels"):
        on_texts.control_risk(false_negatives=0.1)


def test_one_kind_of_risk_is_controlled_at_a_time(on_sets):
    with pytest.raises(ValueError, match="not both"):
        on_sets.control_risk()


@pytest.fixture(scope="module")
def on_matrix():
    """An estimator of scikit-learn, certified on an indicator matrix."""
    texts, sets = draw_labelled(300)
    model = make_pipeline(TfidfVectorizer(), OneVsRestClassifier(LogisticRegression(C=30)))
    certified = CertifiedClassifier(model, random_state=0)
    return certified.fit(texts, to_indicators(sets).astype(int))


def test_an_indicator_matrix_is_certified(on_matrix):
    texts, sets = draw_labelled(300)

    assert on_matrix.predict(texts[:4]).shape == (4, 3)
    assert on_matrix.target_type_ == "indicator"
    assert on_matrix.certificate_.verify(on_matrix, texts, to_indicators(sets).astype(int))


def test_sets_have_the_certificate_of_their_matrix(on_matrix):
    texts, sets = draw_labelled(300)

    certified = CertifiedClassifier(on_matrix.estimator, random_state=0).fit(texts, sets)

    assert certified.certificate_.error_upper == on_matrix.certificate_.error_upper


def test_a_function_that_gives_sets_is_certified():
    texts, sets = draw_labelled(300)

    certified = CertifiedClassifier(lambda rows: [{"joy"} for _ in rows], classes=list(LABELS))

    assert certified.fit(texts, sets).certificate_.n_errors > 200
