"""The random numbers of the kernels: those of plain Python, and distributed as they should be."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from pacsent.kernels import random
from pacsent.words.noise import alias


def states(seed):
    return np.array([seed], np.uint64), np.array([seed], np.uint64)


@pytest.mark.parametrize("n", [0, 1, 2, 255, 256, 257, 1001])
def test_normal_numbers_are_those_of_the_formulas(n):
    state, plain_state = states(2**63 + 12345)

    expected = random.normal_numbers_plainly(plain_state, n)

    assert_allclose(random.normal_numbers(state, n), expected, atol=1e-5)
    assert state == plain_state


@pytest.mark.parametrize("size", [1, 2, 301])
def test_normal_numbers_are_normal(size):
    state = np.array([2**62 + 12345], np.uint64)
    drawn = np.stack(
        [random.normal_numbers(state, size) for _ in range(max(200, 60_000 // size))]
    ).astype(float)

    assert stats.kstest(drawn.ravel(), "norm").pvalue > 1e-3
    assert abs(stats.kurtosis(drawn.ravel())) < 8 * np.sqrt(24 / drawn.size)
    if size > 1:  # the two numbers of a pair know nothing of each other
        half = (size + 1) // 2
        x, y = drawn[:, : size - half].ravel(), drawn[:, half:].ravel()
        assert abs(np.corrcoef(x, y)[0, 1]) < 5 / np.sqrt(len(x))
        assert abs(np.corrcoef(x**2, y**2)[0, 1]) < 5 / np.sqrt(len(x))


def test_draws_are_those_of_plain_python_and_have_their_probabilities(rng):
    p = rng.pareto(1.0, 50)
    p[3] = 0.0
    keep, other = alias(p)
    state, plain_state = states(7)

    drawn = random.draw_indices(state, keep, other, 100_000)
    plain = random.draw_indices_plainly(plain_state, keep, other, 500)

    assert_array_equal(drawn[:500], plain)
    counts = np.bincount(drawn, minlength=50)
    assert counts[3] == 0
    assert stats.chisquare(counts[p > 0], 100_000 * p[p > 0] / p.sum()).pvalue > 1e-3


def test_a_state_of_zero_and_half_a_table_are_refused():
    with pytest.raises(ValueError, match=r"not 0. Got \[0\] instead"):
        random.normal_numbers(np.zeros(1, np.uint64), 3)
    with pytest.raises(ValueError, match="of 2 and 1 numbers is none"):
        random.draw_indices(np.ones(1, np.uint64), np.ones(2), np.zeros(1, np.int32), 3)
