"""The batched solver ends where scikit-learn's ends, for every column."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit, StratifiedKFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier

from pacsent.paper import regressions


def problem(rng, n_classes, n_rows=600, n_features=12):
    y = rng.permutation(np.arange(n_rows) % n_classes)
    centres = rng.standard_normal((n_classes, n_features))
    X = centres[y] + 1.5 * rng.standard_normal((n_rows, n_features)) + 3.0
    return X.astype(np.float32), y


def reference(C, n_classes, tol=1e-10):
    binary = LogisticRegression(C=C, tol=tol, max_iter=10_000)
    return binary if n_classes == 2 else OneVsRestClassifier(binary)


def parameters(model):
    models = getattr(model, "estimators_", [model])
    return np.vstack([m.coef_ for m in models]), np.concatenate([m.intercept_ for m in models])


def objective(X, y, coef, intercept, C, *, n_classes):
    """What each one-vs-rest column minimises, (n_classes or 1,)."""
    values = []
    for k in range(coef.shape[0]):
        sign = np.where(np.asarray(y) == (1 if n_classes == 2 else k), 1.0, -1.0)
        margin = sign * (X @ coef[k] + intercept[k])
        values.append(0.5 * coef[k] @ coef[k] + C * np.logaddexp(0.0, -margin).sum())
    return np.array(values)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])
def test_fit_ends_at_scikit_learns_optimum(rng, n_classes, C):
    X, y = problem(rng, n_classes)
    coef, intercept = regressions.fit(X, y, C, n_classes=n_classes)
    model = reference(C, n_classes).fit(X.astype(float), y)
    theirs = parameters(model)
    score = lambda coef, intercept: objective(  # noqa: E731
        X.astype(float), y, coef, intercept, C, n_classes=n_classes
    )
    assert (score(coef, intercept) <= score(*theirs) * (1 + 1e-9)).all()
    assert_allclose(coef, theirs[0], atol=2e-4 * np.abs(coef).max())
    assert_array_equal(regressions.predict(X, coef, intercept), model.predict(X))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_every_fold_of_every_repeat_has_scikit_learns_accuracy(rng, n_classes):
    X, y = problem(rng, n_classes)
    folds = np.zeros((2, y.size), dtype=int)
    for repeat in range(2):
        splits = StratifiedKFold(3, shuffle=True, random_state=repeat).split(X, y)
        for fold, (_, held_out) in enumerate(splits):
            folds[repeat, held_out] = fold
    Cs = (0.01, 1.0)
    result = regressions.grid_search(X, y, folds, n_classes=n_classes, Cs=Cs, tol=1e-9)
    for repeat in range(2):
        for number, C in enumerate(Cs):
            theirs = cross_val_score(
                reference(C, n_classes, tol=1e-6), X, y, cv=PredefinedSplit(folds[repeat])
            )
            assert_allclose(result.accuracy[repeat, :, number], theirs, atol=1.01 / (y.size / 3))
            assert abs(result.accuracy[repeat, :, number].mean() - theirs.mean()) < 2e-3


def test_a_start_changes_the_way_and_not_the_end(rng):
    X, y = problem(rng, 4)
    folds = np.arange(y.size) % 5
    cold = regressions.grid_search(X, y, folds, n_classes=4, tol=1e-9)
    near = regressions.grid_search(1.05 * X, y, folds, n_classes=4, tol=1e-9)
    warm = regressions.grid_search(X, y, folds, n_classes=4, tol=1e-9, start=near.path)
    assert_allclose(warm.accuracy, cold.accuracy, atol=0.01)
    largest = np.abs(cold.path.weights).max()
    assert_allclose(warm.path.weights, cold.path.weights, atol=5e-3 * largest)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_parts_and_threads_change_nothing_that_matters(rng, monkeypatch, is_sparse):
    """Threads divide the problems, and sparse designs are solved in parts."""
    X, y = problem(rng, 5, n_rows=1100)
    X[np.abs(X) < 2.0] = 0.0
    folds = np.stack([np.arange(y.size) // n % 5 for n in (1, 3, 7)])
    monkeypatch.setattr(regressions, "_MAX_SPARSE_COLUMNS", 7)
    settings = {"n_classes": 5, "Cs": (0.1, 1.0), "tol": 1e-9}
    alone = regressions.grid_search(X, y, folds, **settings, n_jobs=1)
    design = sparse.csr_matrix(X) if is_sparse else X
    shared = regressions.grid_search(design, y, folds, **settings, n_jobs=2)
    assert_allclose(shared.accuracy, alone.accuracy, atol=0.01 if is_sparse else 1e-12)
    assert_allclose(shared.path.weights, alone.path.weights, rtol=0.02, atol=2e-3)
    assert shared.converged.all() and alone.converged.all()
    tolerance = {"atol": 1e-4} if is_sparse else {"rtol": 1e-6, "atol": 1e-8}
    fits = [regressions.fit(A, y, 1.0, n_classes=5, n_jobs=n) for A, n in ((X, 1), (design, 2))]
    for ours, theirs in zip(*fits):
        assert_allclose(ours, theirs, **tolerance)


def test_gradients_of_decisions_beyond_all_numbers_are_those_of_double_precision(rng):
    """Sigmoids so small that their products would have no normal number are cut, unnoticed."""
    X, y = problem(rng, 3)
    W = rng.standard_normal((3, X.shape[1] + 1)).astype(np.float32) * 20
    single = regressions._Design(X.astype(np.float32), y, 3, np.float32)
    assert np.abs(single.Z @ W.T).max() > 104  # exp(-104) is 0 in single precision
    columns = np.arange(3)
    problems = regressions._Problems(np.full(3, 10.0), columns, columns, np.full(3, -1))
    result = single.gradient(problems, W)
    Z = single.Z.astype(float)
    positive = np.sort(y)[:, None] == np.arange(3)
    data = ((special.expit(Z @ W.T.astype(float)) - positive).T @ Z) * 10.0
    data[:, :-1] += W[:, :-1]
    assert_allclose(result, data, rtol=1e-4, atol=1e-3 * np.abs(data).max())


def repeated(rng, scale):
    X, y = problem(rng, 3, n_rows=300, n_features=10)
    X = (X - X.mean(axis=0)).astype(float)
    return np.hstack([X, X]) * scale, y, X


@pytest.mark.parametrize("C", [1.0, 1000.0])
def test_repeated_columns_on_a_large_scale_reach_the_optimum(rng, C):
    scale = 1e4
    X, y, alone = repeated(rng, scale)
    # two equal columns of weight w each are one column, sqrt(2) times as long, of weight sqrt(2) w
    same = regressions.fit(alone * np.sqrt(2) * scale, y, C, n_classes=3)
    best = objective(alone * np.sqrt(2) * scale, y, *same, C, n_classes=3)
    result = regressions.grid_search(X, y, np.arange(y.size) % 5, n_classes=3, Cs=(1.0, C + 1e-9))
    weights = result.path.weights[-1].astype(float)
    searched = objective(X, y, weights[:, :-1], weights[:, -1], C, n_classes=3)
    assert (searched <= best * (1 + 1e-4)).all()
    assert result.converged.all()
    fitted = regressions.fit(X, y, C, n_classes=3, start=result.path)
    assert_allclose(objective(X, y, *fitted, C, n_classes=3), best, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e4, 1e6, 1e8])
def test_no_scale_makes_nan(rng, scale):
    X, y, alone = repeated(rng, scale)
    X[:, 0] *= 1e-6  # and scales of all kinds beside each other
    folds = np.arange(y.size) % 5
    searched = regressions.grid_search(X, y, folds, n_classes=3)
    plain = regressions.grid_search(alone * scale, y, folds, n_classes=3)
    assert_allclose(searched.accuracy.mean(axis=1), plain.accuracy.mean(axis=1), atol=0.05)
    X[:, 0] = np.where(y == 1, 10.0, -10.0) * scale  # separable
    coef, _ = regressions.fit(X, y, 1e4, n_classes=3)
    assert np.isfinite(searched.path.weights).all() and np.isfinite(coef).all()


def test_what_is_not_solved_is_flagged_with_a_warning(rng):
    X, y = problem(rng, 3)
    folds = np.arange(y.size) % 5
    with pytest.warns(ConvergenceWarning, match=r"of 10 logistic regressions did not converge"):
        result = regressions.grid_search(
            X, y, folds, n_classes=3, Cs=(0.1, 100.0), tol=1e-12, max_iterations=1
        )
    assert result.converged.shape == result.accuracy.shape
    assert not result.converged.all()
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        regressions.fit(X, y, 100.0, n_classes=3, tol=1e-30, max_iterations=1)


def test_a_matrix_that_is_not_positive_definite_is_damped(rng):
    H = np.full((4, 4), 1e12)  # rank 1: rounding decides the sign of the rest
    H[0, 1] = H[1, 0] = 1e12 * (1 + 1e-6)
    inverse = regressions._preconditioner(H, 1.0, np.float32)(np.eye(4, dtype=np.float32))
    assert np.isfinite(inverse).all()
    assert (np.linalg.eigvalsh(inverse.astype(float)) > -1e-20).all()
