"""Alias tables: the compiled code against Python, and what they are for."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent.kernels.alias import alias_table, alias_table_plainly

WEIGHTS = {
    "Dirichlet": np.random.default_rng(0).dirichlet(np.full(50, 0.3)),
    "of a vocabulary": 1.0 / np.arange(1, 3000) ** 0.75,
    "equal": np.full(7, 0.1),
    "one": np.array([3.0]),
    "with zeros": np.array([0.0, 5.0, 0.0, 1.0, 0.0]),
    "far apart": np.array([1e300, 1e-300, 1.0, 1e150]),
    "none": np.zeros(0),
}


@pytest.mark.parametrize("p", WEIGHTS.values(), ids=WEIGHTS)
def test_the_table_has_the_bits_of_the_plain_one(p):
    keep, other = alias_table(p)
    plain_keep, plain_other = alias_table_plainly(p)

    assert_array_equal(keep, plain_keep)
    assert_array_equal(other, plain_other)
    assert other.dtype == plain_other.dtype == np.int32


@pytest.mark.parametrize("p", WEIGHTS.values(), ids=WEIGHTS)
def test_drawing_from_it_follows_the_weights(p):
    keep, other = alias_table(p)

    share = keep / p.size
    np.add.at(share, other, (1.0 - keep) / p.size)

    assert ((keep >= 0.0) & (keep <= 1.0)).all()
    assert_allclose(share, p / p.sum(), atol=1e-12)


def test_weights_that_are_no_row_are_refused():
    with pytest.raises(ValueError, match=r"in a row. Got \(2, 3\) instead"):
        alias_table(np.ones((2, 3)))
