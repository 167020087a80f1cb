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

    assert loaded.top_features("good") == before.top_features("good")
    assert loaded.explain(saved.texts[0]).words == before.explain(saved.texts[0]).words


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

    assert clone(estimator).get_params().keys() == estimator.get_params().keys()


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
LABELS = {
    "an Enum of strings": [Topic.SPORT, Topic.FILM],
    "an IntEnum": [http.HTTPStatus.OK, http.HTTPStatus.GONE],
    "large unsigned integers": [np.uint64(2**64 - 1), np.uint64(3)],
    "booleans": [True, False],
    "floats": [0.5, 1.5],
    "long strings": ["a" * 300, "a" * 299],
    "characters beyond ASCII": ["naïve", "日本"],
}


@pytest.mark.parametrize("kind", LABELS)
def test_labels_survive_fitting_and_saving(kind, tmp_path):
    label, other = LABELS[kind]
    texts = ["good film", "so good", "bad meal", "so bad"]
    fitted = TextClassifier(None).fit(texts, [label] * 2 + [other] * 2)

    loaded = pacsent.load(pacsent.save(fitted, tmp_path / "model"))

    assert loaded.classes_.dtype == fitted.classes_.dtype
    for classifier in (fitted, loaded):
        assert classifier.classes_.tolist() == sorted([label, other])
        assert classifier.predict(["good", "bad"]).tolist() == [label, other]
        assert classifier.score(["good", "bad"], [label, other]) == 1


# ---- Crafted files ----


def save_crafted(classifier, folder, change):
    """Save a classifier with changed arrays and right checksums."""
    state = classifier.state()
    arrays = change({name: np.array(array) for name, array in state.tensors.items()})
    crafted = replace(state, tensors=arrays)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(classifier), "state", lambda self: crafted)
        return pacsent.save(classifier, folder)


def change_description(**changes):
    """A change of values of the description; their keys are joined by two underscores."""

    def change(arrays):
        values = json.loads(arrays["description"].tobytes())
        for key, value in changes.items():
            *parents, last = key.split("__")
            parent = functools.reduce(operator.getitem, parents, values)
            parent[last] = value
        content = json.dumps(values).encode()
        return {**arrays, "description": np.frombuffer(content, np.uint8)}

    return change


def change_array(name, change):
    return lambda arrays: {**arrays, name: change(arrays[name])}


def drop_idf(arrays):
    return {name: array for name, array in arrays.items() if name != "idf"}


CHANGES = {
    "short idf": change_array("idf", lambda a: a[:5]),
    "hashes twice": change_array("hashes", lambda a: np.full_like(a, 7)),
    "hashes of zero": change_array("hashes", lambda a: np.arange(a.size, dtype=a.dtype)),
    "wide coef_ngrams": change_array("coef_ngrams", lambda a: np.hstack([a, a])),
    "coef_dense of another length": change_array("coef_dense", lambda a: a[:3]),
    "nan in idf": change_array("idf", lambda a: a * np.nan),
    "fewer labels out of fold": change_array("out_of_fold.labels", lambda a: a[:-1]),
    "a share above 1": change_array("characters.share", lambda a: np.array([0.5, 1.5])),
    "no idf": drop_idf,
    "no JSON": change_array("description", lambda a: a[:-1]),
    "classes twice": change_description(classes=["good", "good"]),
    "classes of other kinds": change_description(classes=["a", 1]),
    "temperature -1": change_description(inverse_temperature=[1.0, -1.0]),
    "temperature a string": change_description(inverse_temperature="1"),
    "no temperature": change_description(inverse_temperature=[]),
    "sizes too large": change_description(sizes=[1, 10**6]),
    "sizes auto": change_description(sizes="auto"),
    "names of numbers": change_description(names=[3]),
}
CHANGES_OF_CERTIFIED = {
    "nan": change_array("calibration.log_proba", lambda a: a * np.nan),
    "labels too large": change_array("calibration.labels", lambda a: a + 7),
    "fewer labels": change_array("calibration.labels", lambda a: a[:-1]),
    "a seed that is text": change_description(certificate__seed="x"),
    "too good": change_description(certificate__bound=1e-6),
    "another field": change_description(certificate__x=1),
}


@pytest.fixture(scope="module")
def certified(words):
    classifier = CertifiedClassifier(TextClassifier(words), calibration_size=0.3, random_state=0)
    return classifier.fit(*draw_reviews(90))


@pytest.mark.parametrize("name", CHANGES)
def test_a_crafted_classifier_is_refused_at_loading(name, certified, tmp_path):
    save_crafted(certified.estimator_, tmp_path / "model", CHANGES[name])

    with pytest.raises(ValueError, match="model") as caught:
        pacsent.load(tmp_path / "model")

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", CHANGES_OF_CERTIFIED)
def test_a_crafted_certified_classifier_is_refused_at_loading(name, certified, tmp_path):
    save_crafted(certified, tmp_path / "model", CHANGES_OF_CERTIFIED[name])

    with pytest.raises(ValueError, match="model") as caught:
        pacsent.load(tmp_path / "model")

    assert "\n" not in str(caught.value)


def test_a_folder_that_was_written_in_the_same_way_without_a_change_loads(certified, tmp_path):
    for name, classifier in (("certified", certified), ("plain", certified.estimator_)):
        folder = save_crafted(classifier, tmp_path / name, lambda arrays: arrays)
        pacsent.load(folder)
