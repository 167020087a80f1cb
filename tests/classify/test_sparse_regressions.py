"""Regressions of sparse and dense features, solved side by side: each ends at its optimum."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from pacsent.classify.solvers import sparse_regressions
from pacsent.classify.solvers.sparse_regressions import log_ratios

N_ROWS = 120
N_FEATURES = 40
N_DIMS = 5


class Design(NamedTuple):
    """The sparse and the dense features of texts."""

    X: sparse.csr_matrix
    E: np.ndarray

    def take(self, rows):
        return Design(self.X[rows], self.E[rows])

    def solve(self, labels, Cs, scales, **options):
        """The solutions of all columns, to the end."""
        return sparse_regressions.solve(
            self.X, self.E, labels, Cs, scales, tol=1e-6, max_epochs=2000, **options
        )

    def solve_alone(self, labels, C, scale):
        """The solution of a single column."""
        return self.solve(labels, [C], [scale])


@pytest.fixture(scope="module")
def design():
    rng = np.random.default_rng(0)
    X = sparse.random(N_ROWS, N_FEATURES, 0.2, random_state=0, format="csr", dtype=np.float32)
    E = rng.normal(size=(N_ROWS, N_DIMS))
    return Design(X, E.astype(np.float32))


@pytest.fixture(scope="module")
def signs(design):
    """Labels that depend on the first sparse and on the first dense feature."""
    noise = np.random.default_rng(1).normal(size=N_ROWS)
    first_feature = design.X.toarray()[:, 0]
    scores = first_feature + design.E[:, 0] + noise
    return np.where(scores > 0, 1.0, -1.0)


class Weights(NamedTuple):
    """Those of the sparse and of the dense features, and the intercept."""

    sparse: np.ndarray
    dense: np.ndarray
    intercept: float


def objective(design, signs, weights, C, scale):
    """What a column minimises: half the squared weights, and C times the logistic losses."""
    decisions = design.X @ weights.sparse + design.E @ weights.dense + weights.intercept
    losses = np.logaddexp(0, -signs * decisions)

    scaled = weights.dense / scale
    all_weights = np.concatenate([weights.sparse, scaled, [weights.intercept]])
    return all_weights @ all_weights / 2 + C * losses.sum()


def fit_scikit_learn(design, signs, C, scale):
    """The weights at which scikit-learn ends, with an intercept that is penalised as a weight."""
    ones = np.ones((N_ROWS, 1))
    features = np.hstack([design.X.toarray(), scale * design.E, ones])
    model = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10_000)
    model.fit(features, signs)

    [coef] = model.coef_
    return Weights(coef[:N_FEATURES], scale * coef[N_FEATURES:-1], coef[-1])


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.3, 2.0])
@pytest.mark.parametrize(("C", "slack"), [(0.1, 1e-4), (3.0, 1e-4), (200.0, 1e-2)])
def test_solutions_reach_the_optimum_of_scikit_learn(design, signs, C, slack, scale):
    other_scale = 1.0  # columns are solved together

    solution = design.solve(signs, [C, C], [scale, other_scale])

    weights = Weights(
        solution.sparse_weights[:, 0], solution.dense_weights[:, 0], solution.intercepts[0]
    )
    reached = objective(design, signs, weights, C, scale)
    theirs = fit_scikit_learn(design, signs, C, scale)
    assert reached <= objective(design, signs, theirs, C, scale) * (1 + slack)


def test_a_weight_is_the_number_of_copies_of_a_text(design, signs):
    n_copies = np.repeat([2, 1, 0], [10, 50, 60])
    rows = np.repeat(np.arange(N_ROWS), n_copies)
    text_weights = n_copies.astype(float)

    weighted = design.solve(signs, [1.0], [1.0], text_weights=text_weights)

    copied = design.take(rows).solve_alone(signs[rows], 1.0, 1.0)
    assert_allclose(weighted.sparse_weights, copied.sparse_weights, atol=1e-3)
    assert_allclose(weighted.dense_weights, copied.dense_weights, atol=1e-3)


def test_log_ratios_are_those_of_naive_bayes():
    counts = [[1, 1, 0], [1, 0, 0], [0, 0, 1]]
    X = sparse.csr_matrix(counts, dtype=np.float32)

    ratios = log_ratios(X, np.array([True, True, False]))

    of_class = np.array([3, 2, 1]) / 6
    of_others = np.array([1, 1, 2]) / 4
    assert_allclose(ratios, np.log(of_class / of_others), rtol=1e-5)


def test_classes_and_folds_side_by_side_are_solved_as_if_alone(design):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, N_ROWS)
    folds = rng.integers(0, 2, N_ROWS)
    columns = list(itertools.product(range(3), range(2), [0.5, 5.0]))
    positive, left_out, Cs = np.array(columns).T
    scales = np.full(12, 0.5)

    together = design.solve(labels, Cs, scales, positive=positive, left_out=left_out, folds=folds)

    for column, (label, fold, C) in enumerate(columns):
        rows = folds != fold
        signs = np.where(labels[rows] == label, 1, -1)
        alone = design.take(rows).solve_alone(signs, C, 0.5)
        solution = together.take([column])
        assert_allclose(solution.sparse_weights, alone.sparse_weights, atol=2e-3)
        assert_allclose(solution.intercepts, alone.intercepts, atol=2e-3)
        assert_allclose(solution.decisions(*design), alone.decisions(*design), atol=1e-2)


def test_labels_of_multilabel_data_side_by_side_are_solved_as_if_alone(design):
    rng = np.random.default_rng(1)
    labels = rng.random((N_ROWS, 3)) < 0.4
    order = [2, 0, 1]

    together = design.solve(labels, [2.0] * 3, [0.5] * 3, positive=order)

    for column, label in enumerate(order):
        alone = design.solve_alone(labels[:, label], 2.0, 0.5)
        solution = together.take([column])
        assert_allclose(solution.sparse_weights, alone.sparse_weights, atol=2e-3)
