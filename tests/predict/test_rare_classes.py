"""Classes with too few texts to be fitted: left out with a warning, and counted as errors."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import pacsent
from pacsent import CertifiedClassifier, TextClassifier


def many_and_rare(n=60, n_rare=12):
    texts = [f"{word} film {i}" for i in range(n) for word in ("good", "bad")]
    rare = [f"w{i}a w{i}b w{i}c" for i in range(n_rare)]
    return texts + rare, ["up", "down"] * n + [f"x{i:02}" for i in range(n_rare)]


@pytest.mark.parametrize(
    "model", [TextClassifier(None), make_pipeline(TfidfVectorizer(), LogisticRegression())]
)
def test_held_out_texts_of_classes_that_were_not_fitted_count_as_errors(model, tmp_path):
    X, y = many_and_rare()
    with pytest.warns(UserWarning, match=r"two training texts .* \(12 of 14\)") as warned:
        classifier = CertifiedClassifier(model, calibration_size=0.5, random_state=0).fit(X, y)
    assert warned[0].filename == __file__  # the line of the user, not one of ours
    certificate, calibration = classifier.certificate_, classifier.calibration_
    n_rare = int((calibration.labels >= 2).sum())
    assert classifier.classes_.size == 14 and classifier.fitted_classes_.tolist() == ["down", "up"]
    assert certificate.n == 66 and certificate.n_errors == n_rare > 0
    probabilities = classifier.predict_proba(X)
    assert (probabilities[:, 2:] < 1e-200).all() and np.allclose(probabilities.sum(axis=1), 1)
    # A class that is never likely can be missed by 5% only in sets of all classes.
    assert {len(labels) for labels in classifier.predict_set(X, error=0.05)} == {14}
    assert {label for label in classifier.abstain(error=0.3).predict(X) if label} <= {"up", "down"}
    if isinstance(model, TextClassifier):
        assert classifier.explain("good film") == classifier.estimator_.explain("good film")
        pacsent.save(classifier, tmp_path / "model")
        loaded = pacsent.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict_proba(X), probabilities)
        assert loaded.abstain(error=0.3).threshold == classifier.abstain(error=0.3).threshold
        assert loaded.tune_thresholds(recall=0.5, classes=["up"]).thresholds["up"] is not None


def test_two_classes_must_remain():
    with pytest.raises(ValueError, match="Two classes must have at least two texts each"):
        CertifiedClassifier(TextClassifier(None), random_state=0).fit(*many_and_rare(1, 5))
