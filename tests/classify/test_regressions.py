"""The batched solver ends where scikit-learn's ends, for every column."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, StratifiedKFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier

from pacsent.paper import regressions


def draw_problem(rng, n_classes, n_rows=600, n_features=12):
    """Rows that scatter around the centres of their classes, in single precision."""
    y = rng.permutation(np.arange(n_rows) % n_classes)
    centres = rng.standard_normal((n_classes, n_features))
    noise = rng.standard_normal((n_rows, n_features))
    X = centres[y] + 1.5 * noise + 3.0
    return X.astype(np.float32), y


def reference(C, n_classes, tol=1e-10):
    """The model of scikit-learn that the solver is compared with."""
    binary = LogisticRegression(C=C, tol=tol, max_iter=10_000)
    return binary if n_classes == 2 else OneVsRestClassifier(binary)


def parameters(model):
    """Coefficients and intercepts of a fitted reference, one row per column of the solver."""
    models = getattr(model, "estimators_", [model])
    coef = np.vstack([m.coef_ for m in models])
    intercept = np.concatenate([m.intercept_ for m in models])
    return coef, intercept


def objective(X, y, coef, intercept, C, *, n_classes):
    """What each one-vs-rest column minimises, (n_classes or 1,)."""
    values = []
    for k, weights in enumerate(coef):
        positive = 1 if n_classes == 2 else k
        sign = np.where(y == positive, 1.0, -1.0)
        margin = sign * (X @ weights + intercept[k])
        loss = np.logaddexp(0.0, -margin).sum()
        values.append(0.5 * weights @ weights + C * loss)
    return np.array(values)


# ---- The optimum ----


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])
def test_fit_ends_at_scikit_learns_optimum(rng, n_classes, C):
    X, y = draw_problem(rng, n_classes)
    wide = X.astype(float)

    coef, intercept = regressions.fit(X, y, C, n_classes=n_classes)

    model = reference(C, n_classes).fit(wide, y)
    their_coef, their_intercept = parameters(model)
    best = objective(wide, y, their_coef, their_intercept, C, n_classes=n_classes)
    reached = objective(wide, y, coef, intercept, C, n_classes=n_classes)
    assert (reached <= best * (1 + 1e-9)).all()
    assert_allclose(coef, their_coef, atol=2e-4 * np.abs(coef).max())
    assert_array_equal(regressions.predict(X, coef, intercept), model.predict(X))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_every_fold_of_every_repeat_has_scikit_learns_accuracy(rng, n_classes):
    X, y = draw_problem(rng, n_classes)
    Cs = (0.01, 1.0)
    folds = np.stack([stratified_folds(X, y, seed) for seed in (0, 1)])

    result = regressions.grid_search(X, y, folds, n_classes=n_classes, Cs=Cs, tol=1e-9)

    one_row = 1.01 / (y.size / 3)
    for repeat, folds_of_repeat in enumerate(folds):
        split = PredefinedSplit(folds_of_repeat)
        for number, C in enumerate(Cs):
            model = reference(C, n_classes, tol=1e-6)
            theirs = cross_val_score(model, X, y, cv=split)
            ours = result.accuracy[repeat, :, number]
            assert_allclose(ours, theirs, atol=one_row)
            assert abs(ours.mean() - theirs.mean()) < 2e-3


def stratified_folds(X, y, seed):
    """The number of the fold of each row, of three."""
    folds = np.zeros(y.size, dtype=int)
    splitter = StratifiedKFold(3, shuffle=True, random_state=seed)
    for fold, (_, held_out) in enumerate(splitter.split(X, y)):
        folds[held_out] = fold
    return folds


def test_a_start_changes_the_way_and_not_the_end(rng):
    X, y = draw_problem(rng, 4)
    folds = np.arange(y.size) % 5
    near = regressions.grid_search(1.05 * X, y, folds, n_classes=4, tol=1e-9)

    cold = regressions.grid_search(X, y, folds, n_classes=4, tol=1e-9)
    warm = regressions.grid_search(X, y, folds, n_classes=4, tol=1e-9, start=near.path)

    largest = np.abs(cold.path.weights).max()
    assert_allclose(warm.accuracy, cold.accuracy, atol=0.01)
    assert_allclose(warm.path.weights, cold.path.weights, atol=5e-3 * largest)


# ---- Parts and threads ----


@pytest.fixture
def problem_with_zeros(rng):
    """Five classes, and a design most of whose numbers are zero."""
    X, y = draw_problem(rng, 5, n_rows=1100)
    X[np.abs(X) < 2.0] = 0.0
    return X, y


@pytest.mark.parametrize("is_sparse", [False, True])
def test_parts_and_threads_change_nothing_that_matters(problem_with_zeros, monkeypatch, is_sparse):
    """Threads divide the problems, and sparse designs are solved in parts."""
    monkeypatch.setattr(regressions, "_MAX_SPARSE_COLUMNS", 7)
    X, y = problem_with_zeros
    design = sparse.csr_matrix(X) if is_sparse else X
    rows = np.arange(y.size)
    folds = np.stack([rows % 5, rows // 3 % 5, rows // 7 % 5])

    def search(design, n_jobs):
        return regressions.grid_search(
            design, y, folds, n_classes=5, Cs=(0.1, 1.0), tol=1e-9, n_jobs=n_jobs
        )

    alone = search(X, n_jobs=1)
    shared = search(design, n_jobs=2)

    assert alone.converged.all()
    assert shared.converged.all()
    assert_allclose(shared.accuracy, alone.accuracy, atol=0.01 if is_sparse else 1e-12)
    assert_allclose(shared.path.weights, alone.path.weights, rtol=0.02, atol=2e-3)


def test_a_fit_on_two_threads_is_that_on_one(problem_with_zeros):
    X, y = problem_with_zeros

    coef, intercept = regressions.fit(X, y, 1.0, n_classes=5, n_jobs=1)
    shared_coef, shared_intercept = regressions.fit(X, y, 1.0, n_classes=5, n_jobs=2)

    assert_allclose(shared_coef, coef, rtol=1e-6, atol=1e-8)
    assert_allclose(shared_intercept, intercept, rtol=1e-6, atol=1e-8)


def test_a_fit_of_a_sparse_design_in_parts_is_that_of_a_dense_one(problem_with_zeros, monkeypatch):
    monkeypatch.setattr(regressions, "_MAX_SPARSE_COLUMNS", 7)
    X, y = problem_with_zeros
    design = sparse.csr_matrix(X)

    coef, intercept = regressions.fit(X, y, 1.0, n_classes=5, n_jobs=1)
    sparse_coef, sparse_intercept = regressions.fit(design, y, 1.0, n_classes=5, n_jobs=2)

    assert_allclose(sparse_coef, coef, atol=1e-4)
    assert_allclose(sparse_intercept, intercept, atol=1e-4)


# ---- Numbers of any size ----


def test_gradients_of_decisions_beyond_all_numbers_are_those_of_double_precision(rng):
    """Sigmoids so small that their products would have no normal number are cut, unnoticed."""
    X, y = draw_problem(rng, 3)
    W = 20 * rng.standard_normal((3, X.shape[1] + 1)).astype(np.float32)
    design = regressions._Design(X, y, 3, np.float32)
    columns = np.arange(3)
    Cs = np.full(3, 10.0)
    no_fold = np.full(3, -1)
    problems = regressions._Problems(Cs, columns, columns, no_fold)

    gradient = design.gradient(problems, W)

    Z = design.Z.astype(float)
    decisions = Z @ W.T.astype(float)
    positive = np.sort(y)[:, None] == columns
    expected = 10.0 * (special.expit(decisions) - positive).T @ Z
    expected[:, :-1] += W[:, :-1]
    assert np.abs(decisions).max() > 104  # exp(-104) is 0 in single precision
    assert_allclose(gradient, expected, rtol=1e-4, atol=1e-3 * np.abs(expected).max())


class RepeatedColumns(NamedTuple):
    """A design whose columns occur twice, multiplied by a scale, and the design of them once."""

    X: np.ndarray
    y: np.ndarray
    once: np.ndarray


def repeat_columns(rng, scale):
    X, y = draw_problem(rng, 3, n_rows=300, n_features=10)
    centred = (X - X.mean(axis=0)).astype(float)
    return RepeatedColumns(scale * np.hstack([centred, centred]), y, scale * centred)


@pytest.fixture(params=[1.0, 1000.0], ids="C={:g}".format)
def repeated(rng, request):
    """Repeated columns on a large scale, the value of C, and the objective at the optimum."""
    X, y, once = repeat_columns(rng, 1e4)
    C = request.param
    # two equal columns of weight w each are one column, sqrt(2) times as long, of weight sqrt(2) w
    longer = np.sqrt(2) * once
    coef, intercept = regressions.fit(longer, y, C, n_classes=3)
    best = objective(longer, y, coef, intercept, C, n_classes=3)
    return X, y, C, best


def search_repeated(X, y, C):
    folds = np.arange(y.size) % 5
    return regressions.grid_search(X, y, folds, n_classes=3, Cs=(1.0, C + 1e-9))


def test_a_search_over_repeated_columns_on_a_large_scale_reaches_the_optimum(repeated):
    X, y, C, best = repeated

    result = search_repeated(X, y, C)

    weights = result.path.weights[-1].astype(float)
    reached = objective(X, y, weights[:, :-1], weights[:, -1], C, n_classes=3)
    assert result.converged.all()
    assert (reached <= best * (1 + 1e-4)).all()


def test_a_fit_that_starts_from_a_search_over_repeated_columns_reaches_the_optimum(repeated):
    X, y, C, best = repeated
    start = search_repeated(X, y, C).path

    coef, intercept = regressions.fit(X, y, C, n_classes=3, start=start)

    reached = objective(X, y, coef, intercept, C, n_classes=3)
    assert_allclose(reached, best, rtol=1e-9)


SCALES = [1e4, 1e6, 1e8]


@pytest.mark.parametrize("scale", SCALES)
def test_a_search_over_columns_of_any_scale_is_as_good_as_over_one_scale(rng, scale):
    X, y, once = repeat_columns(rng, scale)
    X[:, 0] *= 1e-6
    folds = np.arange(y.size) % 5

    searched = regressions.grid_search(X, y, folds, n_classes=3)
    plain = regressions.grid_search(once, y, folds, n_classes=3)

    assert np.isfinite(searched.path.weights).all()
    accuracy = searched.accuracy.mean(axis=1)
    assert_allclose(accuracy, plain.accuracy.mean(axis=1), atol=0.05)


@pytest.mark.parametrize("scale", SCALES)
def test_a_fit_of_a_separable_class_is_finite_on_any_scale(rng, scale):
    X, y, _ = repeat_columns(rng, scale)
    X[:, 0] = np.where(y == 1, 10.0, -10.0) * scale

    coef, _ = regressions.fit(X, y, 1e4, n_classes=3)

    assert np.isfinite(coef).all()


def test_a_matrix_that_is_not_positive_definite_is_damped():
    H = np.full((4, 4), 1e12)  # rank 1: rounding decides the sign of the rest
    H[0, 1] *= 1 + 1e-6
    H[1, 0] *= 1 + 1e-6

    solve = regressions._preconditioner(H, 1.0, np.float32)

    inverse = solve(np.eye(4, dtype=np.float32))
    eigenvalues = np.linalg.eigvalsh(inverse.astype(float))
    assert np.isfinite(inverse).all()
    assert (eigenvalues > -1e-20).all()


# ---- Too few iterations ----


def test_a_search_warns_of_regressions_that_did_not_converge_and_flags_them(rng):
    X, y = draw_problem(rng, 3)
    folds = np.arange(y.size) % 5

    with pytest.warns(ConvergenceWarning, match=r"of 10 logistic regressions did not converge"):
        result = regressions.grid_search(
            X, y, folds, n_classes=3, Cs=(0.1, 100.0), tol=1e-12, max_iterations=1
        )

    assert result.converged.shape == result.accuracy.shape
    assert not result.converged.all()


def test_a_fit_warns_when_it_did_not_converge(rng):
    X, y = draw_problem(rng, 3)

    with pytest.warns(ConvergenceWarning, match="did not converge"):
        regressions.fit(X, y, 100.0, n_classes=3, tol=1e-30, max_iterations=1)
