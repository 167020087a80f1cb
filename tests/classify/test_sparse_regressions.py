import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from pacsent.classify.solvers.sparse_regressions import log_ratios, solve


def draw_problem(n=120, n_features=40, n_dims=5):
    """A sparse and a dense part of a design, and signs that depend on the first column of each."""
    rng = np.random.default_rng(0)
    X = sparse.random(n, n_features, 0.2, random_state=0, format="csr", dtype=np.float32)
    E = rng.normal(size=(n, n_dims))
    first_column = X.toarray()[:, 0]
    noise = rng.normal(size=n)
    signs = np.where(first_column + E[:, 0] + noise > 0, 1.0, -1.0)
    return X, E.astype(np.float32), signs


@pytest.fixture
def problem():
    return draw_problem()


TO_THE_END = {"tol": 1e-6, "max_epochs": 1000}


def solve_alone(X, E, labels, C, scale):
    """The solution of a single column."""
    return solve(X, E, labels, [C], [scale], **TO_THE_END)


def objective(X, E, signs, C, scale, w, v, b):
    decisions = X @ w + E @ v + b
    loss = np.logaddexp(0, -signs * decisions).sum()
    size_of_v = v @ v / scale**2
    penalty = (w @ w + size_of_v + b * b) / 2
    return penalty + C * loss


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.3, 2.0])
@pytest.mark.parametrize(("C", "slack"), [(0.1, 1e-4), (3.0, 1e-4), (200.0, 1e-2)])
def test_solutions_reach_the_optimum_of_scikit_learn(problem, C, slack, scale):
    X, E, signs = problem
    design = np.hstack([X.toarray(), scale * E, np.ones((120, 1))])
    model = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10_000)
    model.fit(design, signs)
    w, v, b = np.split(model.coef_[0], [40, 45])
    best = objective(X, E, signs, C, scale, w, scale * v, b[0])

    # beside another scale: columns are solved together
    solution = solve(X, E, signs, [C, C], [scale, 1.0], tol=1e-6, max_epochs=2000)

    w = solution.sparse_weights[:, 0]
    v = solution.dense_weights[:, 0]
    reached = objective(X, E, signs, C, scale, w, v, solution.intercepts[0])
    assert reached <= best * (1 + slack)


def test_a_weight_is_the_number_of_copies_of_a_text(problem):
    X, E, signs = problem
    n_copies = np.repeat([2, 1, 0], [10, 50, 60])
    rows = np.repeat(np.arange(120), n_copies)
    weights = n_copies.astype(float)

    weighted = solve(X, E, signs, [1.0], [1.0], text_weights=weights, **TO_THE_END)
    copied = solve_alone(X[rows], E[rows], signs[rows], 1.0, 1.0)

    assert np.allclose(weighted.sparse_weights, copied.sparse_weights, atol=1e-3)
    assert np.allclose(weighted.dense_weights, copied.dense_weights, atol=1e-3)


def test_log_ratios_are_those_of_naive_bayes():
    counts = [[1, 1, 0], [1, 0, 0], [0, 0, 1]]
    X = sparse.csr_matrix(counts, dtype=np.float32)

    ratios = log_ratios(X, np.array([True, True, False]))

    of_class = np.array([3, 2, 1]) / 6
    of_others = np.array([1, 1, 2]) / 4
    assert np.allclose(ratios, np.log(of_class / of_others))


def test_classes_and_folds_side_by_side_are_solved_as_if_alone(problem):
    X, E, _ = problem
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 120)
    folds = rng.integers(0, 2, 120)
    columns = list(itertools.product(range(3), range(2), [0.5, 5.0]))
    positive, left_out, Cs = np.array(columns).T
    which = {"positive": positive, "left_out": left_out, "folds": folds}

    together = solve(X, E, labels, Cs, np.full(12, 0.5), **which, **TO_THE_END)

    for column, (c, fold, C) in enumerate(columns):
        rows = folds != fold
        signs = np.where(labels[rows] == c, 1, -1)
        alone = solve_alone(X[rows], E[rows], signs, C, 0.5)
        solution = together.take([column])
        assert np.allclose(solution.sparse_weights, alone.sparse_weights, atol=2e-3)
        assert np.allclose(solution.intercepts, alone.intercepts, atol=2e-3)
        assert np.allclose(solution.decisions(X, E), alone.decisions(X, E), atol=1e-2)


def test_labels_of_multilabel_data_side_by_side_are_solved_as_if_alone(problem):
    X, E, _ = problem
    rng = np.random.default_rng(1)
    labels = rng.random((120, 3)) < 0.4
    order = [2, 0, 1]

    together = solve(X, E, labels, [2.0] * 3, [0.5] * 3, positive=order, **TO_THE_END)

    for column, label in enumerate(order):
        alone = solve_alone(X, E, labels[:, label], 2.0, 0.5)
        solution = together.take([column])
        assert np.allclose(solution.sparse_weights, alone.sparse_weights, atol=2e-3)
