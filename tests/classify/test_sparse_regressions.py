import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from pacsent.classify.solvers.sparse_regressions import log_ratios, solve


def problem(n=120, n_features=40, n_dims=5, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, n_features, 0.2, random_state=seed, format="csr", dtype=np.float32)
    E = rng.normal(size=(n, n_dims)).astype(np.float32)
    signs = np.where(X[:, 0].toarray()[:, 0] + E[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    return X, E, signs


def objective(X, E, signs, C, d, w, v, b, weights=1.0):
    f = X @ w + E @ v + b
    loss = (weights * np.logaddexp(0, -signs * f)).sum()
    return (w @ w + v @ v / d**2 + b * b) / 2 + C * loss


@pytest.mark.parametrize(("C", "slack"), [(0.1, 1e-4), (3.0, 1e-4), (200.0, 1e-2)])
@pytest.mark.slow
def test_solutions_reach_the_optimum_of_scikit_learn(C, slack):
    X, E, signs = problem()
    scales = np.array([0.3, 2.0])
    found = solve(X, E, signs, np.full(2, C), scales, tol=1e-6, max_epochs=2000)
    for c, d in enumerate(scales):
        joined = np.hstack([X.toarray(), d * E, np.ones((X.shape[0], 1))])
        best = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10_000)
        coef = best.fit(joined, signs).coef_[0]
        right = coef[:40], d * coef[40:45], coef[45]
        mine = found.sparse_weights[:, c], found.dense_weights[:, c], found.intercepts[c]
        optimum = objective(X, E, signs, C, d, *right)
        assert objective(X, E, signs, C, d, *mine) <= optimum * (1 + slack)


def test_a_weight_is_the_number_of_copies_of_a_text():
    X, E, signs = problem()
    weights = np.repeat([2, 1, 0], [10, 50, 60])
    exactly = {"tol": 1e-6, "max_epochs": 500}
    weighted = solve(X, E, signs, [1.0], [1.0], text_weights=weights.astype(float), **exactly)
    rows = np.repeat(np.arange(120), weights)
    copied = solve(X[rows], E[rows], signs[rows], [1.0], [1.0], **exactly)
    assert np.allclose(weighted.sparse_weights, copied.sparse_weights, atol=1e-3)
    assert np.allclose(weighted.dense_weights, copied.dense_weights, atol=1e-3)


def test_log_ratios_are_those_of_naive_bayes():
    X = sparse.csr_matrix(np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=np.float32))
    r = log_ratios(X, np.array([True, True, False]))
    a, b = np.array([3, 2, 1]) / 6, np.array([1, 1, 2]) / 4
    assert np.allclose(r, np.log(a / b))


def test_columns_side_by_side_are_solved_as_if_alone():
    """Classes against the rest and folds left out, in one call and one by one."""
    X, E, _ = problem()
    rng = np.random.default_rng(1)
    labels, folds = rng.integers(0, 3, 120), rng.integers(0, 2, 120)
    columns = [(c, f, C) for c in range(3) for f in range(2) for C in (0.5, 5.0)]
    positive, left_out, Cs = np.array(columns).T
    exactly = {"tol": 1e-6, "max_epochs": 1000}
    which = {"positive": positive, "left_out": left_out, "folds": folds}
    found = solve(X, E, labels, Cs, np.full(12, 0.5), **which, **exactly)
    for at, (c, f, C) in enumerate(columns):
        learnt = folds != f
        signs = np.where(labels[learnt] == c, 1, -1)
        alone = solve(X[learnt], E[learnt], signs, [C], [0.5], **exactly)
        assert np.allclose(found.sparse_weights[:, at], alone.sparse_weights[:, 0], atol=2e-3)
        assert np.allclose(found.intercepts[at], alone.intercepts[0], atol=2e-3)
        some = found.take([at]).decisions(X, E)
        assert np.allclose(some, alone.decisions(X, E), atol=1e-2)
    # several labels a text
    labels = rng.random((120, 3)) < 0.4
    found = solve(X, E, labels, [2.0] * 3, [0.5] * 3, positive=[2, 0, 1], **exactly)
    for column, label in enumerate([2, 0, 1]):
        alone = solve(X, E, labels[:, label], [2.0], [0.5], **exactly)
        assert np.allclose(found.sparse_weights[:, column], alone.sparse_weights[:, 0], atol=2e-3)
