"""What `fit` learned: a fit that fails leaves it as it was, and saving keeps every field of it."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from helpers import assert_same_state
from pacsent import (
    CertifiedClassifier,
    Index,
    SkipGram,
    TextClassifier,
    Vocabulary,
    WordVectors,
    load,
    make_encoder,
    save,
)
from pacsent.classify import fitting
from pacsent.sentences.solvers import w_pb_neg
from pacsent.words import skipgram

# Four words of each text are its own, and in no vocabulary.
pytestmark = pytest.mark.filterwarnings("ignore:Only 4.% of these")

GOOD = ["good", "great", "fine", "lovely"]
BAD = ["bad", "poor", "dull", "awful"]
OTHER = ["the", "film", "was", "a", "story", "of", "some", "people"]


def reviews(n_texts, seed=0):
    """Texts of which none nearly repeats another, and their labels, which decide on two words."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(["bad", "good"], n_texts)
    texts = []
    for place, label in enumerate(labels):
        words = [*rng.choice(GOOD if label == "good" else BAD, 2), *rng.choice(OTHER, 4)]
        names = [f"{letter}{place}" for letter in "abcd"]
        texts.append(" ".join([*words, *names]))
    return texts, labels.tolist()


def interrupt(*arguments, **options):
    """What a solver does when the user presses Ctrl-C."""
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def words():
    """Word vectors of three dimensions, of which the first tells good words from bad ones."""
    names = OTHER + GOOD + BAD
    table = np.random.default_rng(0).normal(size=(len(names), 3)).astype(np.float32)
    table[-8:-4, 0] += 2
    table[-4:, 0] -= 2
    return WordVectors(Vocabulary(names, range(len(names), 0, -1)), table, table[::-1].copy())


# ---- A fit that fails ---------------------------------------------------------------------------


class Failure(NamedTuple):
    """The labels that `fit` gets, made of good ones, and the error that follows."""

    change_labels: Callable[[list[str]], list[Any]]
    error: type[BaseException]
    is_interrupted: bool = False


FAILURES = {
    "one class": Failure(lambda labels: ["good"] * len(labels), ValueError),
    "a missing label": Failure(lambda labels: [None, *labels[1:]], ValueError),
    "labels and sets": Failure(lambda labels: [{"good"}, *labels[1:]], ValueError),
    "one label too few": Failure(lambda labels: labels[1:], ValueError),
    "interrupted": Failure(lambda labels: labels, KeyboardInterrupt, is_interrupted=True),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("certified", [False, True], ids=["plain", "certified"])
def test_a_fit_that_fails_leaves_a_classifier_as_it_was(words, failure, certified, monkeypatch):
    texts, labels = reviews(160)
    classifier = TextClassifier(words, selection="folds", n_jobs=1)
    if certified:
        classifier = CertifiedClassifier(classifier, random_state=0)
    classifier.fit(texts, labels)
    fitted = classifier.fitted_
    probabilities = classifier.predict_proba(texts)
    if failure.is_interrupted:
        monkeypatch.setattr(fitting, "solve", interrupt)

    new_texts, new_labels = reviews(160, seed=1)
    with pytest.raises(failure.error):
        classifier.fit(new_texts, failure.change_labels(new_labels))

    assert classifier.fitted_ is fitted
    np.testing.assert_array_equal(classifier.predict_proba(texts), probabilities)


def test_a_calibration_that_fails_leaves_the_certificate_as_it_was(words):
    texts, labels = reviews(160)
    classifier = CertifiedClassifier(TextClassifier(words, n_jobs=1), random_state=0)
    classifier.fit(texts, labels)
    fitted = classifier.fitted_
    sets = classifier.predict_set(texts[:20], error=0.2)

    with pytest.raises(ValueError, match="were among the texts it was fitted on"):
        classifier.calibrate(texts, labels)

    assert classifier.fitted_ is fitted
    assert classifier.predict_set(texts[:20], error=0.2) == sets


@pytest.mark.parametrize("failing", ["add", "update", "delete", "certify"])
def test_a_change_that_fails_leaves_an_index_as_it_was(words, failing):
    texts, _ = reviews(60)
    index = Index(words)
    index.add(texts, metadata=[{"place": place} for place in range(60)])
    certificate = index.certify(texts[:20], range(20), random_state=0)
    hits = index.search(texts, k=3)
    calls = {
        "add": lambda: index.add(["a new film", 3]),
        "update": lambda: index.update([0, 1000], ["one", "two"]),
        "delete": lambda: index.delete([0, 1000]),
        "certify": lambda: index.certify(texts[:20], range(19)),
    }

    with pytest.raises((ValueError, TypeError, KeyError)):
        calls[failing]()

    assert len(index) == 60
    assert index.search(texts, k=3) == hits
    assert index.certificate_ == certificate
    assert index.add(["the next film"]).tolist() == [60]


def test_an_interrupted_training_leaves_word_vectors_as_they_were(monkeypatch):
    texts, _ = reviews(60)
    trainer = SkipGram(4, n_epochs=1, min_count=1, n_jobs=1, random_state=0).fit(texts)
    fitted = (trainer.word_vectors_, trainer.vocabulary_, trainer.loss_)
    input_vectors = trainer.word_vectors_.input_vectors.copy()
    monkeypatch.setattr(skipgram, "train_on_cpu", interrupt)

    with pytest.raises(KeyboardInterrupt):
        trainer.fit(texts[:30])

    assert (trainer.word_vectors_, trainer.vocabulary_, trainer.loss_) == fitted
    np.testing.assert_array_equal(trainer.word_vectors_.input_vectors, input_vectors)


def test_an_interrupted_fit_leaves_sentence_vectors_as_they_were(words, monkeypatch):
    texts, _ = reviews(60)
    vectorizer = make_encoder("w-PB-neg", words, n_epochs=1, n_jobs=1, random_state=0).fit(texts)
    vectors = vectorizer.transform(texts)
    monkeypatch.setattr(w_pb_neg, "train", interrupt)

    with pytest.raises(KeyboardInterrupt):
        vectorizer.fit(texts[:30])

    np.testing.assert_array_equal(vectorizer.transform(texts), vectors)


# ---- Every field is saved -----------------------------------------------------------------------


def test_every_field_of_a_text_classifier_is_saved(words, tmp_path):
    texts, labels = reviews(160)
    classifier = TextClassifier(words, n_jobs=1).fit(texts, labels)

    loaded = load(save(classifier, tmp_path / "model"))

    assert_same_state(loaded.fitted_, classifier.fitted_)


def test_every_field_of_a_multilabel_classifier_is_saved(words, tmp_path):
    texts, labels = reviews(160)
    sets = [{label, "long"} if place % 3 == 0 else {label} for place, label in enumerate(labels)]
    classifier = TextClassifier(words, n_jobs=1).fit(texts, sets)

    loaded = load(save(classifier, tmp_path / "model"))

    assert_same_state(loaded.fitted_, classifier.fitted_)


@pytest.mark.parametrize("repeated", [False, True], ids=["distinct texts", "texts repeat"])
def test_every_field_of_a_certified_classifier_is_saved(words, tmp_path, repeated):
    texts, labels = reviews(160)
    if repeated:
        texts += texts[:80]
        labels += labels[:80]
    model = TextClassifier(words, n_jobs=1)
    classifier = CertifiedClassifier(model, randomized_tests=True, random_state=0)
    classifier.fit(texts, labels)
    assert bool(classifier.calibration_.members) == repeated

    loaded = load(save(classifier, tmp_path / "model"))

    assert_same_state(loaded.fitted_, classifier.fitted_)


@pytest.mark.parametrize("method", ["PB-neg", "w-PB-neg", "PV-DBOW", "PB-01", "SIF", "uSIF"])
def test_every_field_of_a_sentence_method_is_saved(words, tmp_path, method):
    texts, _ = reviews(60)
    vectorizer = make_encoder(method, words).fit(texts)

    loaded = load(save(vectorizer, tmp_path / "model"))

    assert_same_state(loaded._fitted, vectorizer._fitted)


def test_every_field_of_an_index_is_saved(words, tmp_path):
    texts, _ = reviews(60)
    index = Index(words, chunk=True)
    index.add(texts, metadata=[{"place": place} for place in range(60)])
    index.certify(texts[:20], range(20), random_state=0)

    loaded = load(save(index, tmp_path / "model"))

    assert_same_state(loaded._snapshot, index._snapshot)
    assert_same_state(loaded.calibration_, index.calibration_)
    assert_same_state(loaded.certificate_, index.certificate_)


def test_every_field_of_word_vectors_is_saved(tmp_path):
    texts, _ = reviews(60)
    trained = SkipGram(4, n_epochs=1, min_count=1, n_jobs=1, random_state=0).fit(texts)

    loaded = load(save(trained.word_vectors_, tmp_path / "model"))

    assert_same_state(loaded, trained.word_vectors_)
    assert loaded.training == trained.word_vectors_.training


def test_a_field_that_is_lost_is_noticed(words):
    texts, labels = reviews(160)
    fitted = TextClassifier(words, n_jobs=1).fit(texts, labels).fitted_
    changed = {"min_coverage": 0.123, "selection": {}, "target_type": "sets", "classes": None}
    assert is_dataclass(fitted) and changed.keys() < {item.name for item in fields(fitted)}

    for name, value in changed.items():
        with pytest.raises(AssertionError, match=name):
            assert_same_state(replace(fitted, **{name: value}), fitted)
