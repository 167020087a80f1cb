"""What `fit` learned: a fit that fails leaves it as it was, and saving keeps every field of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

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
        opinions = rng.choice(GOOD if label == "good" else BAD, 2)
        others = rng.choice(OTHER, 4)
        names = [f"{letter}{place}" for letter in "abcd"]
        texts.append(" ".join([*opinions, *others, *names]))
    return texts, labels.tolist()


def interrupt(*arguments, **options):
    """What a solver does when the user presses Ctrl-C."""
    raise KeyboardInterrupt


@pytest.fixture(scope="module")
def words():
    """Word vectors of three dimensions, of which the first tells good words from bad ones."""
    names = OTHER + GOOD + BAD
    counts = range(len(names), 0, -1)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(len(names), 3)).astype(np.float32)
    table[-8:-4, 0] += 2
    table[-4:, 0] -= 2
    return WordVectors(Vocabulary(names, counts), table, table[::-1].copy())


@pytest.fixture(scope="module")
def text_classifier(words):
    """A classifier that is fitted to reviews."""
    return TextClassifier(words, n_jobs=1).fit(*reviews(160))


@pytest.fixture
def index(words):
    """An index of sixty reviews, certified on twenty of them."""
    texts, _ = reviews(60)
    index = Index(words, chunk=True)
    index.add(texts, metadata=[{"place": place} for place in range(60)])
    index.certify(texts[:20], range(20), random_state=0)
    return index


@pytest.fixture
def trainer():
    """Word vectors of reviews, trained in one pass."""
    texts, _ = reviews(60)
    trainer = SkipGram(4, n_epochs=1, min_count=1, n_jobs=1, random_state=0)
    return trainer.fit(texts)


@pytest.fixture
def saved_and_loaded(tmp_path):
    """saved_and_loaded(model) -> the model as it is read from where it was saved."""

    def reopen(model):
        folder = save(model, tmp_path / "model")
        return load(folder)

    return reopen


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
    changed_labels = failure.change_labels(new_labels)
    with pytest.raises(failure.error):
        classifier.fit(new_texts, changed_labels)

    assert classifier.fitted_ is fitted
    assert_array_equal(classifier.predict_proba(texts), probabilities)


def test_a_calibration_that_fails_leaves_the_certificate_as_it_was(words):
    texts, labels = reviews(160)
    model = TextClassifier(words, n_jobs=1)
    classifier = CertifiedClassifier(model, random_state=0).fit(texts, labels)
    fitted = classifier.fitted_
    sets = classifier.predict_set(texts[:20], error=0.2)

    with pytest.raises(ValueError, match="were among the texts it was fitted on"):
        classifier.calibrate(texts, labels)

    assert classifier.fitted_ is fitted
    assert classifier.predict_set(texts[:20], error=0.2) == sets


def add_a_number(index):
    index.add(["a new film", 3])


def update_an_unknown_row(index):
    index.update([0, 1000], ["one", "two"])


def delete_an_unknown_row(index):
    index.delete([0, 1000])


def certify_with_an_answer_too_few(index):
    texts, _ = reviews(20)
    index.certify(texts, range(19))


@pytest.mark.parametrize(
    "change",
    [add_a_number, update_an_unknown_row, delete_an_unknown_row, certify_with_an_answer_too_few],
)
def test_a_change_that_fails_leaves_an_index_as_it_was(index, change):
    texts, _ = reviews(60)
    certificate = index.certificate_
    hits = index.search(texts, k=3)

    with pytest.raises((ValueError, TypeError, KeyError)):
        change(index)

    assert len(index) == 60
    assert index.search(texts, k=3) == hits
    assert index.certificate_ == certificate
    assert index.add(["the next film"]).tolist() == [60]


def test_an_interrupted_training_leaves_word_vectors_as_they_were(trainer, monkeypatch):
    word_vectors = trainer.word_vectors_
    vocabulary = trainer.vocabulary_
    loss = trainer.loss_
    input_vectors = word_vectors.input_vectors.copy()
    monkeypatch.setattr(skipgram, "train_on_cpu", interrupt)

    with pytest.raises(KeyboardInterrupt):
        trainer.fit(["a good film"] * 30)

    assert trainer.word_vectors_ is word_vectors
    assert trainer.vocabulary_ is vocabulary
    assert trainer.loss_ == loss
    assert_array_equal(word_vectors.input_vectors, input_vectors)


def test_an_interrupted_fit_leaves_sentence_vectors_as_they_were(words, monkeypatch):
    texts, _ = reviews(60)
    vectorizer = make_encoder("w-PB-neg", words, n_epochs=1, n_jobs=1, random_state=0)
    vectors = vectorizer.fit_transform(texts)
    monkeypatch.setattr(w_pb_neg, "train", interrupt)

    with pytest.raises(KeyboardInterrupt):
        vectorizer.fit(texts[:30])

    assert_array_equal(vectorizer.transform(texts), vectors)


# ---- Every field is saved -----------------------------------------------------------------------


def test_every_field_of_a_text_classifier_is_saved(text_classifier, saved_and_loaded):
    loaded = saved_and_loaded(text_classifier)

    assert_same_state(loaded.fitted_, text_classifier.fitted_)


def test_every_field_of_a_multilabel_classifier_is_saved(words, saved_and_loaded):
    texts, labels = reviews(160)
    sets = [{label} for label in labels]
    for own_labels in sets[::3]:
        own_labels.add("long")
    classifier = TextClassifier(words, n_jobs=1).fit(texts, sets)

    loaded = saved_and_loaded(classifier)

    assert_same_state(loaded.fitted_, classifier.fitted_)


@pytest.mark.parametrize("n_repeated", [0, 80], ids=["distinct texts", "texts repeat"])
def test_every_field_of_a_certified_classifier_is_saved(words, saved_and_loaded, n_repeated):
    texts, labels = reviews(160)
    texts += texts[:n_repeated]
    labels += labels[:n_repeated]
    model = TextClassifier(words, n_jobs=1)
    classifier = CertifiedClassifier(model, randomized_tests=True, random_state=0)
    classifier.fit(texts, labels)
    assert bool(classifier.calibration_.members) == bool(n_repeated)

    loaded = saved_and_loaded(classifier)

    assert_same_state(loaded.fitted_, classifier.fitted_)


@pytest.mark.parametrize("method", ["PB-neg", "w-PB-neg", "PV-DBOW", "PB-01", "SIF", "uSIF"])
def test_every_field_of_a_sentence_method_is_saved(words, saved_and_loaded, method):
    texts, _ = reviews(60)
    vectorizer = make_encoder(method, words).fit(texts)

    loaded = saved_and_loaded(vectorizer)

    assert_same_state(loaded._fitted, vectorizer._fitted)


def test_every_field_of_an_index_is_saved(index, saved_and_loaded):
    loaded = saved_and_loaded(index)

    assert_same_state(loaded._snapshot, index._snapshot)
    assert_same_state(loaded.calibration_, index.calibration_)
    assert_same_state(loaded.certificate_, index.certificate_)


def test_every_field_of_word_vectors_is_saved(trainer, saved_and_loaded):
    loaded = saved_and_loaded(trainer.word_vectors_)

    assert_same_state(loaded, trainer.word_vectors_)
    assert loaded.training == trainer.word_vectors_.training


@pytest.mark.parametrize(
    ("name", "value"),
    [("min_coverage", 0.123), ("selection", {}), ("target_type", "sets"), ("classes", None)],
)
def test_a_field_that_is_lost_is_noticed(text_classifier, name, value):
    fitted = text_classifier.fitted_
    changed = replace(fitted, **{name: value})

    with pytest.raises(AssertionError, match=name):
        assert_same_state(changed, fitted)
