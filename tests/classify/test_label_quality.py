"""Audits with word vectors, and learning curves that share their fits with an audit."""

from types import SimpleNamespace

import numpy as np
import pytest

from pacsent import Vocabulary, WordVectors, save
from pacsent.classify import label_quality


@pytest.fixture
def model(tmp_path):
    """A classifier whose vectors know two words, of which nothing is fitted."""
    words = WordVectors(Vocabulary(["good", "film"], [2, 1]), np.eye(2), np.eye(2))
    save(words, tmp_path / "words")
    return SimpleNamespace(encoder=str(tmp_path / "words"))


def test_texts_of_which_most_words_are_unknown_are_listed_with_the_known_fraction(model):
    texts = ["good film", "ein guter film", "12 34", "good schlecht", "bon cinéma"]

    unknown = label_quality._find_unknown_texts(texts, model)

    assert unknown == [(1, pytest.approx(1 / 3)), (4, 0.0)]


def test_without_word_vectors_no_word_is_unknown():
    model = SimpleNamespace(encoder=None)

    assert label_quality._find_unknown_texts(["ein guter film"], model) == []


class FewestLabels:
    """A classifier that is never wrong, and keeps how many labels each fit had."""

    def __init__(self):
        self.sizes = []

    def fit_others(self, model, texts, y, rows):
        """Take the place of `_fit_others`."""
        self.sizes.append(rows.size)
        labels = dict(zip(texts, y))
        return SimpleNamespace(predict=lambda tested: np.array([labels[t] for t in tested]))


@pytest.fixture
def fits(monkeypatch):
    """The fits that a learning curve makes."""
    fits = FewestLabels()
    monkeypatch.setattr(label_quality, "_fit_others", fits.fit_others)
    return fits


TEXTS = [f"text number{i}" for i in range(100)]
Y = np.arange(100) % 2
FOLDS = np.arange(100) % 5


def fit_curve(predictions=None):
    rng = np.random.RandomState(0)
    return label_quality._fit_curve(None, TEXTS, Y, FOLDS, rng, predictions)


def test_predictions_that_are_there_save_the_fits_with_all_labels(fits):
    fit_curve()
    n_fits = len(fits.sizes)
    assert fits.sizes.count(80) == 5
    fits.sizes.clear()

    fit_curve(predictions=Y)

    assert fits.sizes.count(80) == 0
    assert len(fits.sizes) == n_fits - 5


def test_the_errors_of_predictions_that_are_there_are_those_with_all_labels(fits):
    is_wrong = np.arange(100) < 20

    curve = fit_curve(predictions=np.where(is_wrong, 1 - Y, Y))

    assert curve.n_errors.tolist()[-1] == 20
    assert not any(curve.n_errors[:-1])


def test_a_learning_curve_needs_two_classes_in_every_fold(monkeypatch):
    monkeypatch.setattr(label_quality, "_fit_others", lambda *_: None)

    with pytest.raises(ValueError, match="texts must have two classes with at least two"):
        fit_curve()
