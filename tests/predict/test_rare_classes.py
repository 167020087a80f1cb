"""Classes with too few texts to be fitted: left out with a warning, and counted as errors."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import pacsent
from pacsent import CertifiedClassifier, TextClassifier


def many_and_rare(n=60, n_rare=12):
    """Texts of two frequent classes, and one text of each of `n_rare` others."""
    texts = [f"{word} film {i}" for i in range(n) for word in ("good", "bad")]
    rare = [f"w{i}a w{i}b w{i}c" for i in range(n_rare)]
    rare_labels = [f"x{i:02}" for i in range(n_rare)]
    return texts + rare, ["up", "down"] * n + rare_labels


def fit_half(model):
    """The model, certified on half of the texts."""
    return CertifiedClassifier(model, calibration_size=0.5, random_state=0).fit(*many_and_rare())


@pytest.fixture(
    scope="module",
    params=[TextClassifier(None), make_pipeline(TfidfVectorizer(), LogisticRegression())],
    ids=["TextClassifier", "Pipeline"],
)
def classifier(request):
    """A certified classifier of ours, and one of scikit-learn."""
    with pytest.warns(UserWarning, match="two training texts"):
        return fit_half(request.param)


@pytest.fixture(scope="module")
def text_classifier():
    """A certified TextClassifier, which has explanations and can be saved."""
    with pytest.warns(UserWarning, match="two training texts"):
        return fit_half(TextClassifier(None))


def test_a_warning_names_the_line_of_the_user():
    with pytest.warns(UserWarning, match=r"two training texts .* \(12 of 14\)") as caught:
        fit_half(TextClassifier(None))

    assert caught[0].filename == __file__


def test_held_out_texts_of_classes_that_were_not_fitted_count_as_errors(classifier):
    certificate = classifier.certificate_
    n_rare = int((classifier.calibration_.labels >= 2).sum())

    assert certificate.n == 66
    assert certificate.n_errors == n_rare > 0


def test_classes_that_were_not_fitted_have_almost_no_probability(classifier):
    texts, _ = many_and_rare()

    probabilities = classifier.predict_proba(texts)

    assert classifier.classes_.size == 14
    assert classifier.fitted_classes_.tolist() == ["down", "up"]
    assert (probabilities[:, 2:] < 1e-200).all()
    assert np.allclose(probabilities.sum(axis=1), 1)


def test_a_class_that_is_never_likely_is_missed_by_5_percent_only_in_sets_of_all_classes(
    classifier,
):
    texts, _ = many_and_rare()

    sizes = {len(labels) for labels in classifier.predict_set(texts, error=0.05)}

    assert sizes == {14}


def test_abstention_answers_with_fitted_classes_only(classifier):
    texts, _ = many_and_rare()

    answers = set(classifier.abstain(error=0.3).predict(texts))

    assert answers <= {"up", "down", None}


def test_explanations_are_those_of_the_estimator(text_classifier):
    explanation = text_classifier.explain("good film")

    assert explanation == text_classifier.estimator_.explain("good film")


def test_a_saved_classifier_has_the_same_probabilities_and_thresholds(text_classifier, tmp_path):
    texts, _ = many_and_rare()
    pacsent.save(text_classifier, tmp_path / "model")

    loaded = pacsent.load(tmp_path / "model")

    np.testing.assert_array_equal(loaded.predict_proba(texts), text_classifier.predict_proba(texts))
    threshold = text_classifier.abstain(error=0.3).threshold
    assert loaded.abstain(error=0.3).threshold == threshold
    assert loaded.tune_thresholds(recall=0.5, classes=["up"]).thresholds["up"] is not None


def test_two_classes_must_remain():
    with pytest.raises(ValueError, match="Two classes must have at least two texts each"):
        CertifiedClassifier(TextClassifier(None), random_state=0).fit(*many_and_rare(1, 5))
