"""Numbers for texts: what is taken, fitted, predicted, saved, and guaranteed."""

import numpy as np
import pytest
from sklearn.base import clone

import pacsent
from pacsent.classify import TextRegressor

GOOD, BAD = ["good", "great", "lovely"], ["bad", "dull", "awful"]


def rated(n, seed=0):
    """Texts with more good or more bad words, and numbers near the difference."""
    rng = np.random.default_rng(seed)
    n_good = rng.integers(0, 5, n)
    texts = [
        " ".join([*rng.choice(GOOD, g), *rng.choice(BAD, 4 - g), "film", f"n{i}"])
        for i, g in enumerate(n_good)
    ]
    return texts, 3.0 + 2.0 * n_good + rng.normal(0, 0.5, n)


@pytest.fixture(scope="module")
def fitted():
    return TextRegressor(n_jobs=1).fit(*rated(300))


def test_numbers_are_predicted_on_their_scale(fitted):
    texts, numbers = rated(200, seed=1)
    found = fitted.predict(texts)
    assert found.shape == (200,) and np.abs(found - numbers).mean() < 0.8
    assert fitted.score(texts, numbers) > 0.9
    assert fitted.selection_["r2"] == pytest.approx(fitted.score(texts, numbers), abs=0.08)
    shifted = clone(fitted).fit(rated(300)[0], 1000 - 10 * rated(300)[1]).predict(texts)
    assert np.allclose(shifted, 1000 - 10 * found, atol=0.5)


def test_features_raise_and_lower_the_number(fitted):
    up, down = fitted.top_features(3), fitted.top_features(3, lower=True)
    assert {word for name, _ in up for word in name.split()} <= {*GOOD, "film"}
    assert all(value > 0 for _, value in up) and all(value < 0 for _, value in down)


def test_a_regressor_is_saved_and_loaded(fitted, tmp_path):
    pacsent.save(fitted, tmp_path / "model")
    again = pacsent.load(tmp_path / "model")
    texts, _ = rated(20, seed=2)
    assert np.array_equal(again.predict(texts), fitted.predict(texts))
    assert again.get_params()["Cs"] == list(fitted.Cs) or again.get_params()["Cs"] == fitted.Cs


def test_vectors_weights_and_groups_are_used():
    texts, numbers = rated(60)
    words = pacsent.load("english")
    weights = np.ones(60)
    found = TextRegressor(words, n_jobs=1).fit(texts, numbers, weights, np.arange(60) % 6)
    assert found.coef_dense_.shape == (words.n_dims, 1)
    assert found.score(*rated(100, seed=3)) > 0.8


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([1.0, 2.0], "one finite number for each of the 4 texts. Got 2"),
        ([1.0, np.nan, 2.0, 3.0], "Got 'nan' in row 1"),
        ([1.0, np.inf, 2.0, 3.0], "Got 'inf' in row 1"),
        (["1", "2", "3", "4"], "Got '1' in row 0"),
        ([1, 2, None, 4], "Got 'None' in row 2"),
        ([True, False, True, False], "Got 'True' in row 0"),
        ([5.0] * 4, "at least two different numbers"),
        (np.ones((4, 2)), "one column"),
    ],
)
def test_numbers_that_are_none_are_refused(numbers, message):
    with pytest.raises(ValueError, match=message):
        TextRegressor().fit(["one", "two", "three", "four"], numbers)
