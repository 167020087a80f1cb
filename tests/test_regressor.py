"""Numbers for texts: what is taken, fitted, predicted, saved, and guaranteed."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, clone
from sklearn.tree import DecisionTreeRegressor

import pacsent
from pacsent.classify import TextRegressor
from pacsent.guarantees import AbsoluteErrorCertificate, CertifiedRegressor, certify_numbers
from pacsent.guarantees.intervals import half_width

GOOD, BAD = ["good", "great", "lovely"], ["bad", "dull", "awful"]


def rated(n, seed=0, first=0):
    """Texts with more good or more bad words, and numbers near the difference."""
    rng = np.random.default_rng(seed)
    n_good = rng.integers(0, 5, n)
    texts = [
        " ".join([*rng.choice(GOOD, g), *rng.choice(BAD, 4 - g), "film", f"n{i}"])
        for i, g in enumerate(n_good, first)
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
    assert found.coef_dense_.shape == (2 * words.n_dims, 1)  # of words and of sentences
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


# ---- guarantees ----------------------------------------------------------------------------------


def noisy(n, rng):
    """Rows whose numbers are more spread where the second column is large."""
    X = np.column_stack([rng.normal(size=n), rng.random(n)])
    return X, X[:, 0] + (0.2 + 2 * X[:, 1]) * rng.normal(size=n)


class Known(BaseEstimator):
    """A regressor that knows the mean."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.asarray(X)[:, 0]


def test_intervals_miss_no_more_than_they_say_and_plugging_in_does():
    """150 calibration sets; the negative control takes the quantile of the sample itself."""
    X, y = noisy(20_000, np.random.default_rng(99))
    scores, broken, naive = np.abs(y - X[:, 0]), 0, 0
    for seed in range(150):
        rows, numbers = noisy(200, np.random.default_rng(seed))
        some = np.abs(numbers - rows[:, 0])
        broken += (scores > half_width(some, 0.1, 0.2)).mean() > 0.1
        naive += (scores > np.quantile(some, 0.9)).mean() > 0.1
    assert broken <= 0.2 * 150 < 0.4 * 150 < naive


def test_the_miss_rate_has_its_beta_distribution():
    """Another route: the exact probability that the k-th score misses more than the error."""
    n, error, delta = 200, 0.1, 0.2
    width = half_width(np.arange(1.0, n + 1), error, delta)  # the k-th of n uniform scores
    k = int(width)
    assert stats.binom.sf(k - 1, n, 1 - error) <= delta  # P(coverage of the k-th < 1 - error)
    assert stats.binom.sf(k - 2, n, 1 - error) > delta


@pytest.mark.parametrize("scaled", [False, True])
def test_a_certified_regressor_keeps_its_intervals_within_limits(scaled):
    X, y = noisy(600, np.random.default_rng(0))
    certified = CertifiedRegressor(
        DecisionTreeRegressor(min_samples_leaf=30, random_state=0), scaled=scaled,
        limits=(-12, 12), random_state=0,
    ).fit(X, y)  # fmt: skip
    new, truth = noisy(5000, np.random.default_rng(1))
    ends = certified.predict_interval(new, error=0.2)
    inside = (truth >= ends[:, 0]) & (truth <= ends[:, 1])
    assert 0.78 < inside.mean() < 0.95
    widths = np.diff(ends, axis=1)[:, 0]
    narrow, wide = widths[new[:, 1] < 0.2].mean(), widths[new[:, 1] > 0.8].mean()
    assert wide > 2 * narrow if scaled else wide == pytest.approx(narrow, rel=0.05)
    real = np.abs(certified.predict(new) - truth).mean()
    assert real <= certified.certificate_.bound < 2 * real
    with pytest.raises(ValueError, match="calibration rows"):
        certified.predict_interval(new, error=0.001)


def test_rows_that_repeat_stay_on_one_side_and_groups_too():
    X, y = noisy(100, np.random.default_rng(0))
    certified = CertifiedRegressor(Known(), random_state=0, holdout=0.3)
    certified.fit(np.repeat(X, 4, axis=0), np.repeat(y, 4))
    assert certified.scores_.size == 30
    certified.fit(np.repeat(X, 4, axis=0), np.repeat(y, 4), groups=np.arange(400) // 8)
    assert certified.scope_ == "groups" and certified.scores_.size == 15


def test_a_fitted_regressor_is_calibrated_on_all_rows(fitted, tmp_path):
    texts, numbers = rated(120, seed=5, first=1000)
    certified = CertifiedRegressor(fitted, prefit=True, limits=(-5, 20)).fit(texts, numbers)
    assert 90 < certified.scores_.size == certified.certificate_.n <= 120  # near-duplicates once
    pacsent.save(certified, tmp_path / "model")
    again = pacsent.load(tmp_path / "model")
    new, truth = rated(200, seed=6)
    ends = again.predict_interval(new)
    assert np.array_equal(ends, certified.predict_interval(new))
    assert ((truth >= ends[:, 0]) & (truth <= ends[:, 1])).mean() > 0.85
    with pytest.raises(ValueError, match="must be False with prefit"):
        CertifiedRegressor(fitted, prefit=True, scaled=True).fit(texts, numbers)


def test_the_mean_absolute_error_is_bounded_and_checked():
    rng = np.random.default_rng(0)
    broken = naive = 0
    for _ in range(150):
        errors = rng.beta(1, 8, 200) * 9  # mean 1
        found = certify_numbers(1 + errors, np.ones(200), limits=(1, 10), delta=0.2)
        broken += found.bound < 1
        naive += errors.mean() < 1
    assert broken <= 30 < 45 < naive
    assert found.verify() and AbsoluteErrorCertificate.from_json(found.to_json()) == found
    assert "mean absolute error" in str(found) and "<svg" in found._repr_html_()
    for name, value in [("bound", 0.5), ("high", 5.0), ("n", 7)]:
        with pytest.raises(ValueError, match=f"{name}|bound"):
            AbsoluteErrorCertificate.from_dict({**found.to_dict(), name: value}).verify()
    for limits in ((10, 1), (1,), None, (0, np.inf)):
        with pytest.raises(ValueError, match="two finite numbers"):
            certify_numbers([1.0], [1.0], limits=limits)
    with pytest.raises(ValueError, match="between the limits"):
        certify_numbers([11.0], [1.0], limits=(1, 10))
    with pytest.raises(ValueError, match="same length"):
        certify_numbers([1.0, 2.0], [1.0], limits=(1, 10))
