"""More classes than MAX_FEW_CLASSES: each is a small part of the texts."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from pacsent import TextClassifier
from pacsent.classify import fitting
from pacsent.classify.solvers import temperature
from pacsent.classify.solvers.sparse_regressions import solve, solve_rare

N_CLASSES = 150


def articles(n_texts, seed=0, n_classes=N_CLASSES):
    """Texts whose class decides a few of their words."""
    rng = np.random.default_rng(seed)
    texts = []
    labels = np.repeat(np.arange(n_classes), n_texts)
    for label in labels:
        own = [f"own{label}x{k}" for k in rng.integers(8, size=2)]
        others = [f"own{k}x{rng.integers(8)}" for k in rng.integers(n_classes, size=2)]
        common = [f"common{k}" for k in rng.integers(60, size=8)]
        words = rng.permutation([*own, *others, *common])
        texts.append(" ".join(words))
    return texts, labels


@pytest.fixture(scope="module")
def fitted():
    """A classifier of eight articles of each class."""
    texts, labels = articles(8)
    return TextClassifier(None, characters=None).fit(texts, labels)


@pytest.fixture
def rare():
    """A sparse and a dense part of a design; the latter decides the labels of sixty classes."""
    rng = np.random.default_rng(0)
    X = sparse.random(600, 80, 0.1, random_state=0, format="csr", dtype=np.float32)
    E = rng.normal(size=(600, 6)).astype(np.float32)
    decisions = E @ rng.normal(size=(6, 60))
    noise = rng.gumbel(size=(600, 60))
    return X, E, np.argmax(decisions + noise, axis=1)


def test_rare_classes_have_the_solutions_of_all_others(rare):
    X, E, labels = rare
    Cs = np.array([1.0, 1.0, 36.0, 6.0])
    scales = np.array([0.2, 0.8, 0.2, 0.4])
    which = {
        "positive": np.array([0, 5, 5, 17]),
        "left_out": np.array([0, 1, 2, 0]),
        "folds": np.arange(600) % 3,
    }

    exact = solve(X, E, labels, Cs, scales, **which, tol=1e-8, max_epochs=2000)
    found = solve_rare(X, E, labels, Cs, scales, **which, tol=1e-5, max_epochs=2000)

    assert np.allclose(found.sparse_weights, exact.sparse_weights, atol=2e-3)
    assert np.allclose(found.dense_weights, exact.dense_weights, atol=2e-3)
    assert np.allclose(found.intercepts, exact.intercepts, atol=2e-3)


def test_rare_classes_are_solved_until_their_own_texts_stop_moving(rare):
    """The mean over all texts is small from the first pass on: hardly any is of the class."""
    X, E, labels = rare
    Cs = np.array([36.0])
    scales = np.array([0.8])
    exact = solve(X, E, labels, Cs, scales, positive=[3], tol=1e-9, max_epochs=2000)

    by_mean = solve(X, E, labels, Cs, scales, positive=[3], tol=5e-3)
    by_share = solve_rare(X, E, labels, Cs, scales, positive=[3], tol=0.02)

    decisions = exact.decisions(X, E)
    distance_by_mean = np.abs(by_mean.decisions(X, E) - decisions)
    distance_by_share = np.abs(by_share.decisions(X, E) - decisions)
    assert by_mean.n_epochs == 1
    assert distance_by_share.mean() < distance_by_mean.mean() / 4


def test_texts_left_out_are_answered_nearly_as_well_as_new_ones(fitted):
    new_texts, new_labels = articles(8, seed=1)

    accuracy = fitted.score(new_texts, new_labels)

    assert accuracy > 0.6
    assert accuracy > fitted.selection_["accuracy"] > 0.5


def test_one_candidate_is_chosen_on_some_of_the_classes(fitted):
    assert fitted.selection_["n_candidates"] == 1
    assert fitted.selection_["n_tested"] == N_CLASSES * 8


def test_probabilities_of_many_classes_are_calibrated(fitted):
    new_texts, new_labels = articles(8, seed=1)

    proba = fitted.predict_proba(new_texts)

    confidence = proba.max(axis=1).mean()
    accuracy = np.mean(proba.argmax(axis=1) == new_labels)
    assert np.allclose(proba.sum(axis=1), 1.0)
    assert confidence == pytest.approx(accuracy, abs=0.08)


@pytest.fixture
def rows_of_articles():
    """The words of four articles of each class, as a design."""
    texts, labels = articles(4)
    counts = CountVectorizer(dtype=np.float32).fit_transform(texts)
    no_vectors = np.zeros((len(texts), 0), np.float32)
    weights = np.ones(len(texts))
    return fitting.Labelled(0.3 * counts, no_vectors, labels, N_CLASSES, weights, are_rare=True)


def test_sampled_classes_keep_their_regressions(rows_of_articles):
    """A class is fitted against all texts, whichever other classes have columns."""
    labels = rows_of_articles.labels
    of = np.arange(labels.size) % 5
    folds = fitting.Folds(of, 5, of < 5)

    sampled, sampled_folds = fitting.sample_classes(rows_of_articles, folds, 20)

    is_sampled = sampled.labels < 20
    assert len(sampled.columns) == 20
    assert is_sampled.sum() == 20 * 4
    assert np.array_equal(sampled_folds.is_scored, is_sampled)
    for column in (0, 19):
        [original] = np.unique(labels[sampled.labels == column])
        assert np.count_nonzero(labels == original) == 4


def test_of_many_classes_few_features_are_named(fitted):
    names, values = fitted.named_features_
    top = fitted.top_features(7, 20)

    assert values.shape == (len(names), N_CLASSES)
    assert len(names) <= 20 * N_CLASSES
    assert top[0][0].startswith("own7x")


def test_the_normal_posterior_of_a_temperature_is_that_of_the_grid(monkeypatch):
    rng = np.random.default_rng(0)
    decisions = 2.0 * rng.normal(size=(400, 120))
    noise = rng.gumbel(size=(400, 120))
    labels = np.argmax(0.5 * decisions + noise, axis=1)
    samples = decisions, labels, np.ones(labels.size)

    normal = temperature.inverse_temperatures(*samples)
    monkeypatch.setattr(temperature, "MAX_FEW_CLASSES", 200)
    grid = temperature.inverse_temperatures(*samples)

    assert normal.size == grid.size > 1
    assert np.allclose(normal, grid, rtol=0.02)


@pytest.mark.parametrize("with_groups", [False, True])
def test_two_texts_of_each_class_are_enough(with_groups):
    texts, labels = articles(2, n_classes=110)
    groups = np.arange(len(texts)) % 7 if with_groups else None
    classifier = TextClassifier(None, characters=None)

    fitted = classifier.fit(texts, labels, groups=groups)

    assert np.isfinite(fitted.predict_proba(texts)).all()
    assert fitted.score(texts, labels) > 0.95
