"""Classifiers in files: as they were after loading, and refused if they were crafted."""

import enum
import functools
import http
import json
import operator
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import pacsent
from pacsent import CertifiedClassifier, TextClassifier
from pacsent.certify import certify
from review_data import draw_reviews

# ---- What is saved ----


class Saved:
    """A certified classifier of three classes, saved and loaded."""

    def __init__(self, encoder, folder):
        model = TextClassifier(encoder)
        self.texts, self.labels = draw_reviews(200, n_classes=3)
        self.before = CertifiedClassifier(model, calibration_size=0.3, random_state=3)
        self.before.fit(self.texts, self.labels)
        self.folder = pacsent.save(self.before, folder)
        self.loaded = pacsent.load(self.folder)


@pytest.fixture(scope="module", params=["with words", "without words"])
def saved(words, tmp_path_factory, request):
    encoder = words if request.param == "with words" else None
    return Saved(encoder, tmp_path_factory.mktemp("saved") / "model")


def test_a_loaded_classifier_predicts_the_same(saved):
    proba = saved.loaded.predict_proba(saved.texts)

    assert np.array_equal(proba, saved.before.predict_proba(saved.texts))


def test_a_loaded_classifier_explains_the_same(saved):
    loaded = saved.loaded.estimator_
    before = saved.before.estimator_

    explanation = loaded.explain(saved.texts[0])
    assert explanation.words == before.explain(saved.texts[0]).words
    assert loaded.top_features("good") == before.top_features("good")


def test_a_loaded_classifier_has_the_same_certificate(saved):
    assert str(saved.loaded.certificate_) == str(saved.before.certificate_)
    assert saved.loaded.certificate_.verify()
    assert saved.loaded.seed_ == 3


def test_a_loaded_classifier_has_the_same_rules(saved):
    levels = saved.loaded.prediction_set_thresholds(error=0.3)

    threshold = saved.before.abstain(error=0.3).threshold
    assert saved.loaded.abstain(error=0.3).threshold == threshold
    assert np.array_equal(levels, saved.before.prediction_set_thresholds(error=0.3))


def test_a_loaded_classifier_knows_its_training_texts(saved):
    with pytest.raises(ValueError, match="were among the texts it was fitted on"):
        certify(saved.loaded, saved.texts, saved.labels)


def test_a_loaded_classifier_can_be_cloned(saved):
    estimator = saved.loaded.estimator_

    parameters = clone(estimator).get_params()

    assert parameters.keys() == estimator.get_params().keys()


def test_no_file_of_a_classifier_can_run_code(saved):
    suffixes = {path.suffix for path in saved.folder.rglob("*")}

    assert not suffixes & {".pkl", ".joblib"}


def test_a_file_that_names_the_evidence_opens_and_fits_again_by_loss(words):
    texts, labels = draw_reviews(60)
    state = TextClassifier(None).fit(texts, labels).state()
    state.config["parameters"]["selection"] = "evidence"

    classifier = TextClassifier.from_state(state)

    assert classifier.selection == "loss"
    assert classifier.fit(texts, labels).selection_["selection"] == "loss"


# ---- Labels of any type ----

Topic = enum.Enum("Topic", {"SPORT": "sport a", "FILM": "film"}, type=str)


@pytest.mark.parametrize(
    ("label", "other"),
    [
        pytest.param(Topic.SPORT, Topic.FILM, id="an Enum of strings"),
        pytest.param(http.HTTPStatus.OK, http.HTTPStatus.GONE, id="an IntEnum"),
        pytest.param(np.uint64(2**64 - 1), np.uint64(3), id="large unsigned integers"),
        pytest.param(True, False, id="booleans"),
        pytest.param(0.5, 1.5, id="floats"),
        pytest.param("a" * 300, "a" * 299, id="long strings"),
        pytest.param("naïve", "日本", id="characters beyond ASCII"),
    ],
)
def test_labels_survive_fitting_and_saving(label, other, tmp_path):
    texts = ["good film", "so good", "bad meal", "so bad"]
    fitted = TextClassifier(None).fit(texts, [label, label, other, other])
    new_texts = ["good", "bad"]

    loaded = pacsent.load(pacsent.save(fitted, tmp_path / "model"))

    assert loaded.classes_.dtype == fitted.classes_.dtype
    for classifier in (fitted, loaded):
        assert classifier.classes_.tolist() == sorted([label, other])
        assert classifier.predict(new_texts).tolist() == [label, other]
        assert classifier.score(new_texts, [label, other]) == 1


# ---- Crafted files ----


@pytest.fixture(scope="module")
def certified(words):
    """A classifier of words and vectors with its certificate."""
    texts, labels = draw_reviews(90)
    model = TextClassifier(words)
    return CertifiedClassifier(model, calibration_size=0.3, random_state=0).fit(texts, labels)


def save_crafted(classifier, folder, **changes):
    """Save a classifier with changed arrays, or None instead of them, and right checksums."""
    state = classifier.state()
    tensors = dict(state.tensors)
    for name, change in changes.items():
        changed = change(np.array(tensors.pop(name)))
        if changed is not None:
            tensors[name] = changed

    crafted = replace(state, tensors=tensors)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(classifier), "state", lambda self: crafted)
        return pacsent.save(classifier, folder)


def change_description(**changes):
    """A change of values of the description; their keys are joined by two underscores."""

    def change(array):
        values = json.loads(array.tobytes())
        for key, value in changes.items():
            *parents, last = key.split("__")
            parent = functools.reduce(operator.getitem, parents, values)
            parent[last] = value
        content = json.dumps(values).encode()
        return np.frombuffer(content, np.uint8)

    return change


def assert_refused_at_loading(folder):
    """An error of one line that names the folder."""
    with pytest.raises(ValueError, match="model") as caught:
        pacsent.load(folder)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("idf", lambda a: a[:5], id="short idf"),
        pytest.param("idf", lambda a: a * np.nan, id="nan in idf"),
        pytest.param("idf", lambda a: None, id="no idf"),
        pytest.param("hashes", lambda a: np.full_like(a, 7), id="hashes twice"),
        pytest.param("hashes", lambda a: np.arange(a.size, dtype=a.dtype), id="hashes of zero"),
        pytest.param("coef_ngrams", lambda a: np.hstack([a, a]), id="wide coef_ngrams"),
        pytest.param("coef_dense", lambda a: a[:3], id="coef_dense of another length"),
        pytest.param("out_of_fold.labels", lambda a: a[:-1], id="fewer labels out of fold"),
        pytest.param("characters.share", lambda a: np.array([0.5, 1.5]), id="a share above 1"),
        pytest.param("description", lambda a: a[:-1], id="no JSON"),
    ],
)
def test_a_classifier_with_crafted_arrays_is_refused(name, change, certified, tmp_path):
    save_crafted(certified.estimator_, tmp_path / "model", **{name: change})

    assert_refused_at_loading(tmp_path / "model")


@pytest.mark.parametrize(
    "changes",
    [
        {"classes": ["good", "good"]},
        {"classes": ["a", 1]},
        {"inverse_temperature": [1.0, -1.0]},
        {"inverse_temperature": "1"},
        {"inverse_temperature": []},
        {"sizes": [1, 10**6]},
        {"sizes": "auto"},
        {"names": [3]},
    ],
    ids=str,
)
def test_a_classifier_with_a_crafted_description_is_refused(changes, certified, tmp_path):
    change = change_description(**changes)
    save_crafted(certified.estimator_, tmp_path / "model", description=change)

    assert_refused_at_loading(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("calibration.log_proba", lambda a: a * np.nan, id="nan"),
        pytest.param("calibration.labels", lambda a: a + 7, id="labels too large"),
        pytest.param("calibration.labels", lambda a: a[:-1], id="fewer labels"),
    ],
)
def test_a_certified_classifier_with_crafted_arrays_is_refused(name, change, certified, tmp_path):
    save_crafted(certified, tmp_path / "model", **{name: change})

    assert_refused_at_loading(tmp_path / "model")


@pytest.mark.parametrize("field", [{"seed": "x"}, {"bound": 1e-6}, {"x": 1}], ids=str)
def test_a_crafted_certificate_is_refused(field, certified, tmp_path):
    [(name, value)] = field.items()
    change = change_description(**{f"certificate__{name}": value})
    save_crafted(certified, tmp_path / "model", description=change)

    assert_refused_at_loading(tmp_path / "model")


def test_folders_that_were_written_in_the_same_way_without_a_change_load(certified, tmp_path):
    for classifier in (certified, certified.estimator_):
        folder = save_crafted(classifier, tmp_path / type(classifier).__name__)
        pacsent.load(folder)
