"""Models and indexes that are changed under their certificate."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import pacsent
from labelled_texts import make_texts
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.storage.tensor_files import read_tensors, write_tensors
from pacsent.web.html_export import export_html


@pytest.fixture
def certified_model():
    """A certified TextClassifier, which a test may change."""
    return CertifiedClassifier(TextClassifier(None), random_state=0).fit(*make_texts(300))


@pytest.mark.parametrize(
    "use",
    [
        lambda model, folder: model.abstain(error=0.2),
        lambda model, folder: model.predict_set(["lovely"], error=0.2),
        lambda model, folder: model.tune_thresholds(precision=0.8),
        lambda model, folder: pacsent.save(model, folder / "model"),
        lambda model, folder: export_html(model, folder.with_suffix(".html")),
    ],
    ids=["abstain", "predict_set", "tune_thresholds", "save", "export_html"],
)
def test_an_estimator_that_was_fitted_again_is_not_used_with_its_old_certificate(
    use, certified_model, tmp_path
):
    use(certified_model, tmp_path / "before")
    texts, labels = make_texts(60, seed=1)

    certified_model.estimator_.fit(texts, labels[::-1])

    with pytest.raises(ValueError, match="was fitted or changed since"):
        use(certified_model, tmp_path / "after")


def test_a_certificate_and_its_calibration_set_cannot_be_given_to_another_model(certified_model):
    other = CertifiedClassifier(TextClassifier(None), random_state=0).fit(*make_texts(80, seed=1))
    other.fitted_ = replace(
        other.fitted_,
        certificate=certified_model.certificate_,
        calibration=certified_model.calibration_,
    )

    with pytest.raises(ValueError, match="The model must be the one that was certified"):
        other.abstain(error=0.2)


def test_a_model_calibrated_again_may_be_used_again(certified_model):
    certified_model.estimator_.fit(*make_texts(100, seed=1))

    certified_model.calibrate(*make_texts(200, seed=2))

    assert certified_model.abstain(error=0.2).coverage > 0.5


def test_arrays_changed_in_the_folder_of_a_certified_model_are_noticed(certified_model, tmp_path):
    folder = pacsent.save(certified_model, tmp_path / "model")
    path = folder / "estimator" / "model.safetensors"
    arrays = {name: np.array(array) for name, array in read_tensors(path).items()}
    arrays["coef_ngrams"] *= -1
    path.unlink()
    write_tensors(path, arrays)

    with pytest.raises(ValueError, match="is damaged: The model must be the one that was certif"):
        pacsent.load(folder)


def test_a_certificate_says_where_a_change_of_the_model_would_not_be_noticed(certified_model):
    texts, labels = make_texts(200)
    scores = np.array([["lovely" in text, row] for row, text in enumerate(texts)], float)
    other = CertifiedClassifier(LogisticRegression(), random_state=0).fit(scores, labels)

    note = "the model is not recorded: nothing tells whether it was changed"
    assert note in str(other.certificate_)
    assert note not in certified_model.certificate_.details()


@pytest.fixture
def certified_index():
    """An index of short texts that was certified with searching by meaning alone."""
    texts = make_texts(120)[0]
    index = pacsent.Index(lambda rows: [[len(text), text.count("a")] for text in rows], lexical=0)
    index.certify([f"{text}!" for text in texts], index.add(texts), k=5, random_state=0)
    return index


@pytest.mark.parametrize(
    ("name", "value"),
    [("lexical", 1.0), ("encoder", "english"), ("query_encoder", "english"), ("chunk", True)],
)
def test_what_the_certificate_of_an_index_depends_on_cannot_be_set(certified_index, name, value):
    before = getattr(certified_index, name)

    with pytest.raises(AttributeError, match=f"{name} must stay as it is"):
        setattr(certified_index, name, value)

    assert getattr(certified_index, name) is before


def test_another_engine_drops_the_certificate_of_an_index(certified_index):
    assert certified_index.certificate_ is not None

    certified_index.engine = "exact"

    assert certified_index.certificate_ is certified_index.calibration_ is None
