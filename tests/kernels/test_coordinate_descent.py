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

    (cells, weights, work), (right_cells, right_weights, right_work) = arrays, exact
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
    X[:, features.dense_rows], X[:, -1] = features.dense, 1.0

    for _ in range(3):
        epoch(features, order, cells, weights, work)

    expected = X.T @ (cells[:, kernel.DUAL] * cells[:, kernel.SIGN]).astype(float)
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


def test_features_and_arrays_that_do_not_fit_are_refused(rng):
    features, order, cells, weights, work = random_problem(rng, 8, 3)
    parts = features.indptr, features.indices, features.data, features.dense

    with pytest.raises(ValueError, match="A sparse feature is not one of 9"):
        FeatureRows(*parts, 9)
    with pytest.raises(ValueError, match="not those of 59 texts"):
        FeatureRows(*parts[:3], features.dense[1:], N_SPARSE)
    with pytest.raises(ValueError, match="not those of 60 texts"):
        FeatureRows(features.indptr[::-1].copy(), *parts[1:], N_SPARSE)
    with pytest.raises(ValueError, match=r"must have shapes .*\(54, 8\)"):
        epoch(features, order, cells, weights[1:], work)
    with pytest.raises(ValueError, match="must have shapes"):
        epoch(features, order, cells[..., :6].copy(), weights[:, :6].copy(), work[:, :6].copy())
    with pytest.raises(ValueError, match="not one of 60"):
        epoch(features, order + 1, cells, weights, work)
