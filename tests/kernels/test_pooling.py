"""Pooling and Adam: the compiled code against NumPy, and what it refuses."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent.kernels.library import BoundArray
from pacsent.kernels.pooling import adam_step, adam_step_plainly, pool_rows, pool_rows_plainly

N_ROWS = 40


class Case(NamedTuple):
    """Arguments of `pool_rows`."""

    ids: np.ndarray
    offsets: np.ndarray
    table: np.ndarray
    weights: np.ndarray | None
    scale: np.ndarray
    out: np.ndarray


def draw_case(rng, dtype, n_dims, is_weighted=True):
    """Empty texts, texts shorter and longer than a block of tokens."""
    lengths = np.array([0, 1, 3, 4, 5, 8, 130, 0, 64, 7])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(0, N_ROWS, offsets[-1]).astype(np.int32)
    table = rng.normal(size=(N_ROWS, n_dims)).astype(dtype)

    real = np.float64 if dtype == np.float64 else np.float32
    weights = rng.uniform(size=N_ROWS).astype(real)
    scale = rng.uniform(size=lengths.size).astype(real)
    out = rng.normal(size=(lengths.size, n_dims)).astype(real)
    return Case(ids, offsets, table, weights if is_weighted else None, scale, out)


@pytest.fixture
def case(rng):
    """A case of eight dimensions in single precision, with weights."""
    return draw_case(rng, np.float32, 8)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("n_dims", [0, 1, 5, 16, 31, 32, 100, 300, 1025, 2100])
def test_pooled_rows_are_the_weighted_sums(rng, dtype, is_weighted, add, n_dims):
    case = draw_case(rng, dtype, n_dims, is_weighted)
    plain = case._replace(out=case.out.astype(np.float64))

    pool_rows(*case, add)

    pool_rows_plainly(*plain, add)
    tolerance = 1e-12 if dtype == np.float64 else 2e-5
    assert_allclose(case.out, plain.out, rtol=tolerance, atol=tolerance)


def sum_in_fours(rows):
    """Of four rows at a time, (a + b) + (c + d), then of single ones."""
    total = np.zeros_like(rows[0])
    n_whole = len(rows) // 4 * 4
    for a, b, c, d in rows[:n_whole].reshape(-1, 4, total.size):
        total += (a + b) + (c + d)
    for row in rows[n_whole:]:
        total += row
    return total


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_are_rounded_in_the_same_order_on_every_processor(rng, dtype):
    case = draw_case(rng, dtype, 37, is_weighted=False)

    pool_rows(*case)

    expected = np.zeros_like(case.out)
    for text, (start, end) in enumerate(pairwise(case.offsets)):
        for begin in range(start, end, 64):  # 64 tokens on their own
            own_ids = case.ids[begin : min(begin + 64, end)]
            expected[text] += case.scale[text] * sum_in_fours(case.table[own_ids])
    assert_array_equal(case.out, expected)


@pytest.mark.parametrize("n_dims", [1, 16])
def test_every_half_precision_number_is_widened_exactly(n_dims):
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    table = np.tile(numbers[:, None], n_dims)
    ids = np.arange(numbers.size, dtype=np.int32)
    offsets = np.arange(numbers.size + 1)
    ones = np.ones(numbers.size, np.float32)
    out = np.empty(table.shape, np.float32)

    pool_rows(ids, offsets, table, None, ones, out)

    assert_array_equal(out, table.astype(np.float32))


def test_a_bound_table_gives_the_same(rng):
    case = draw_case(rng, np.float16, 12)
    bound = case._replace(table=BoundArray(case.table), out=np.empty_like(case.out))

    pool_rows(*case)
    pool_rows(*bound)

    assert_array_equal(bound.out, case.out)


@pytest.mark.parametrize("wrong_id", [-1, N_ROWS, 2**31 - 1])
@pytest.mark.parametrize("place", [0, 70, -1])
def test_ids_of_another_table_are_refused(case, wrong_id, place):
    case.ids[place] = wrong_id

    with pytest.raises(IndexError, match="do not fit a table of 40 rows"):
        pool_rows(*case)


@pytest.mark.parametrize(("place", "offset"), [(0, -1), (-1, 10**9)])
def test_offsets_of_other_ids_are_refused(case, place, offset):
    case.offsets[place] = offset

    with pytest.raises(IndexError, match="ids or offsets of the texts do not fit"):
        pool_rows(*case)


def test_results_of_other_dimensions_are_refused(case):
    narrow = case.out[:, :7].copy()

    with pytest.raises(ValueError, match=r"results of shape \(10, 7\) and 10 scales"):
        pool_rows(*case._replace(out=narrow))


def test_scales_of_other_texts_are_refused(case):
    fewer = case.scale[1:]

    with pytest.raises(ValueError, match=r"results of shape \(10, 8\) and 9 scales"):
        pool_rows(*case._replace(scale=fewer))


def test_weights_of_other_rows_are_refused(case):
    fewer = case.weights[1:]

    with pytest.raises(ValueError, match="39 weights for 40 rows"):
        pool_rows(*case._replace(weights=fewer))


def test_results_of_another_type_are_refused(case):
    wide_table = case.table.astype(float)

    with pytest.raises(Exception, match="array of float32 was passed for one of float64"):
        pool_rows(*case._replace(table=wide_table))


@pytest.mark.parametrize("n_dims", [1, 7, 64])
def test_a_step_of_adam_is_the_formula(rng, n_dims):
    rows = rng.permutation(20)[:9].astype(np.int32)
    gradients = rng.normal(size=(9, n_dims)).astype(np.float32)
    table, first, second = rng.uniform(size=(3, 20, n_dims)).astype(np.float32)
    rates = 0.01, 1 - 0.9**3, 1 - 0.999**3
    expected = [array.astype(np.float64) for array in (table, first, second)]
    adam_step_plainly(rows, gradients, *expected, rates)

    adam_step(rows, gradients, table, first, second, rates)

    for array, right in zip((table, first, second), expected):
        assert_allclose(array, right, rtol=1e-5, atol=1e-6)


def refuses_step(error, match, rows):
    """A step of two gradients on these rows of a table of four is refused."""
    table = np.zeros((4, 3), np.float32)
    gradients = np.zeros((2, 3), np.float32)
    rates = (0.1, 1.0, 1.0)
    with pytest.raises(error, match=match):
        adam_step(np.array(rows, np.int32), gradients, table, table, table, rates)


def test_gradients_of_other_rows_are_refused():
    refuses_step(IndexError, "not one of the table's 4", rows=[1, 4])


def test_more_gradients_than_rows_are_refused():
    refuses_step(ValueError, r"shape \(2, 3\) do not fit 1 rows", rows=[1])
