import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from pacsent.classify.solvers.sparse_regressions import log_ratios, solve


def draw_problem(n=120, n_features=40, n_dims=5, seed=0):
    """A sparse and a dense part of a design, and signs that depend on the first column of each."""
    rng = np.random.default_rng(seed)
    X = sparse.random(n, n_features, 0.2, random_state=seed, format="csr", dtype=np.float32)
    E = rng.normal(size=(n, n_dims)).astype(np.float32)
    decisions = X[:, 0].toarray()[:, 0] + E[:, 0] + rng.normal(size=n)
    return X, E, np.where(decisions > 0, 1.0, -1.0)


def objective(X, E, signs, C, scale, w, v, b):
    decisions = X @ w + E @ v + b
    loss = np.logaddexp(0, -signs * decisions).sum()
    penalty = (w @ w + v @ v / scale**2 + b * b) / 2
    return penalty + C * loss


@pytest.mark.parametrize(("C", "slack"), [(0.1, 1e-4), (3.0, 1e-4), (200.0, 1e-2)])
@pytest.mark.slow
def test_solutions_reach_the_optimum_of_scikit_learn(C, slack):
    X, E, signs = draw_problem()
    scales = np.array([0.3, 2.0])

    solution = solve(X, E, signs, np.full(2, C), scales, tol=1e-6, max_epochs=2000)

    for c, scale in enumerate(scales):
        design = np.hstack([X.toarray(), scale * E, np.ones((X.shape[0], 1))])
        model = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10_000)
        coef = model.fit(design, signs).coef_[0]
        best = objective(X, E, signs, C, scale, coef[:40], scale * coef[40:45], coef[45])

        w = solution.sparse_weights[:, c]
        v = solution.dense_weights[:, c]
        reached = objective(X, E, signs, C, scale, w, v, solution.intercepts[c])
        assert reached <= best * (1 + slack)


def test_a_weight_is_the_number_of_copies_of_a_text():
    X, E, signs = draw_problem()
    n_copies = np.repeat([2, 1, 0], [10, 50, 60])
    rows = np.repeat(np.arange(120), n_copies)
    weights = n_copies.astype(float)

    weighted = solve(X, E, signs, [1.0], [1.0], text_weights=weights, tol=1e-6, max_epochs=500)
    copied = solve(X[rows], E[rows], signs[rows], [1.0], [1.0], tol=1e-6, max_epochs=500)

    assert np.allclose(weighted.sparse_weights, copied.sparse_weights, atol=1e-3)
    assert np.allclose(weighted.dense_weights, copied.dense_weights, atol=1e-3)


def test_log_ratios_are_those_of_naive_bayes():
    X = sparse.csr_matrix(np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=np.float32))

    ratios = log_ratios(X, np.array([True, True, False]))

    of_class = np.array([3, 2, 1]) / 6
    of_others = np.array([1, 1, 2]) / 4
    assert np.allclose(ratios, np.log(of_class / of_others))


def test_classes_and_folds_side_by_side_are_solved_as_if_alone():
    X, E, _ = draw_problem()
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 120)
    folds = rng.integers(0, 2, 120)
    columns = [(c, fold, C) for c in range(3) for fold in range(2) for C in (0.5, 5.0)]
    positive, left_out, Cs = np.array(columns).T

    together = solve(
        X,
        E,
        labels,
        Cs,
        np.full(12, 0.5),
        positive=positive,
        left_out=left_out,
        folds=folds,
        tol=1e-6,
        max_epochs=1000,
    )

    for column, (c, fold, C) in enumerate(columns):
        rows = folds != fold
        signs = np.where(labels[rows] == c, 1, -1)
        alone = solve(X[rows], E[rows], signs, [C], [0.5], tol=1e-6, max_epochs=1000)
        weights = together.sparse_weights[:, column]
        decisions = together.take([column]).decisions(X, E)
        assert np.allclose(weights, alone.sparse_weights[:, 0], atol=2e-3)
        assert np.allclose(together.intercepts[column], alone.intercepts[0], atol=2e-3)
        assert np.allclose(decisions, alone.decisions(X, E), atol=1e-2)


def test_labels_of_multilabel_data_side_by_side_are_solved_as_if_alone():
    X, E, _ = draw_problem()
    labels = np.random.default_rng(1).random((120, 3)) < 0.4

    together = solve(
        X, E, labels, [2.0] * 3, [0.5] * 3, positive=[2, 0, 1], tol=1e-6, max_epochs=1000
    )

    for column, label in enumerate([2, 0, 1]):
        alone = solve(X, E, labels[:, label], [2.0], [0.5], tol=1e-6, max_epochs=1000)
        weights = together.sparse_weights[:, column]
        assert np.allclose(weights, alone.sparse_weights[:, 0], atol=2e-3)
