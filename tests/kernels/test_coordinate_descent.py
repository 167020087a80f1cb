"""Regressions in the dual: the compiled code against NumPy, and what it refuses."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent.kernels import coordinate_descent as kernel
from pacsent.kernels.coordinate_descent import C, FeatureRows, epoch, epoch_plainly

N_SPARSE = 50


def random_problem(rng, n_columns, n_dims, n_texts=60):
    """FeatureRows, order, cells, weights and room, for texts with 0 to 20 sparse features."""
    rows = [rng.permutation(N_SPARSE)[: rng.integers(0, 21)] for _ in range(n_texts)]
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.concatenate(rows).astype(np.int32)
    data = rng.uniform(0.1, 0.5, indices.size).astype(np.float32)
    dense = rng.normal(size=(n_texts, n_dims)).astype(np.float32) / 4
    features = FeatureRows(indptr, indices, data, dense, N_SPARSE)

    work = np.zeros((kernel.N_WORK, n_columns), np.float32)
    work[kernel.VARIANCES] = rng.uniform(0.1, 2, n_columns)
    squares = [np.sum(data[a:b] ** 2) for a, b in pairwise(indptr)]
    squares = np.add.outer(squares, np.ones(n_columns))
    squares += np.outer((dense**2).sum(axis=1), work[kernel.VARIANCES])

    cells = np.zeros((n_texts, 5, n_columns), np.float32)
    cells[:, kernel.LOGIT] = -7.0
    cells[:, C] = np.geomspace(0.1, 10, n_columns)
    cells[:, kernel.SIGN] = rng.choice([-1, 1], (n_texts, n_columns))
    cells[:, kernel.SQUARES] = squares
    weights = np.zeros((features.n_weights, n_columns), np.float32)
    return features, rng.permutation(n_texts), cells, weights, work


@pytest.mark.parametrize("n_dims", [0, 1, 7])
@pytest.mark.parametrize("n_columns", [8, 16, 24, 40])
def test_a_pass_finds_the_roots_that_halved_brackets_find(rng, n_columns, n_dims):
    features, order, *arrays = random_problem(rng, n_columns, n_dims)
    arrays[0][::7, C] = 0.0  # texts that are left out
    exact = [array.astype(np.float64) for array in arrays]

    for _ in range(4):
        epoch(features, order, *arrays)
        epoch_plainly(features, order, *exact)

    cells, weights, work = arrays
    right_cells, right_weights, right_work = exact
    assert abs(right_weights).max() > 0.5
    assert_allclose(weights, right_weights, atol=0.01)
    assert_allclose(cells[:, kernel.DUAL], right_cells[:, kernel.DUAL], atol=0.01)
    assert_allclose(work[kernel.MOVED], right_work[kernel.MOVED], atol=0.2)
    assert not cells[::7, kernel.DUAL].any()


def test_weights_are_the_sums_over_the_duals(rng):
    """w_j = v_j sum_i a_i s_i x_ij holds after any number of passes."""
    features, order, cells, weights, work = random_problem(rng, 16, 5)
    X = np.zeros((60, features.n_weights))
    for i in range(60):
        sparse = slice(features.indptr[i], features.indptr[i + 1])
        X[i, features.indices[sparse]] = features.data[sparse]
    X[:, features.dense_rows] = features.dense
    X[:, -1] = 1.0

    for _ in range(3):
        epoch(features, order, cells, weights, work)

    signed_duals = cells[:, kernel.DUAL] * cells[:, kernel.SIGN]
    expected = X.T @ signed_duals.astype(float)
    expected[features.dense_rows] *= work[kernel.VARIANCES]
    assert_allclose(weights, expected, atol=1e-4)


def test_several_calls_give_the_same(rng, monkeypatch):
    features, order, *arrays = random_problem(rng, 8, 3)
    again = [array.copy() for array in arrays]
    epoch(features, order, *arrays)

    monkeypatch.setattr(kernel, "_BATCH_TEXTS", 7)
    epoch(features, order, *again)

    for array, other in zip(arrays, again):
        assert_array_equal(array, other)


@pytest.fixture
def problem(rng):
    """FeatureRows, order, cells, weights and room of 60 texts."""
    return random_problem(rng, n_columns=8, n_dims=3)


def test_sparse_features_beyond_their_number_are_refused(problem):
    indptr, indices, data, dense, _ = feature_parts(problem)

    with pytest.raises(ValueError, match="A sparse feature is not one of 9"):
        FeatureRows(indptr, indices, data, dense, 9)


def test_dense_features_of_other_texts_are_refused(problem):
    indptr, indices, data, dense, n_sparse = feature_parts(problem)

    with pytest.raises(ValueError, match="not those of 59 texts"):
        FeatureRows(indptr, indices, data, dense[1:], n_sparse)


def test_offsets_that_fall_are_refused(problem):
    indptr, indices, data, dense, n_sparse = feature_parts(problem)
    falling = indptr[::-1].copy()

    with pytest.raises(ValueError, match="not those of 60 texts"):
        FeatureRows(falling, indices, data, dense, n_sparse)


def feature_parts(problem):
    features, *_ = problem
    return features.indptr, features.indices, features.data, features.dense, N_SPARSE


def test_weights_of_other_features_are_refused(problem):
    features, order, cells, weights, work = problem

    with pytest.raises(ValueError, match=r"must have shapes .*\(54, 8\)"):
        epoch(features, order, cells, weights[1:], work)


def test_columns_that_do_not_fill_a_vector_are_refused(problem):
    features, order, *arrays = problem
    narrow = [array[..., :6].copy() for array in arrays]

    with pytest.raises(ValueError, match="must have shapes"):
        epoch(features, order, *narrow)


def test_an_order_of_other_texts_is_refused(problem):
    features, order, cells, weights, work = problem

    with pytest.raises(ValueError, match="not one of 60"):
        epoch(features, order + 1, cells, weights, work)
