"""Unpacking compressed tables: the compiled code against NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pacsent.kernels.unpack import unpack, unpack_plainly


def parts(rng, n_rows, n_head, n_dims, per_byte):
    n_bytes = -(-(n_dims - n_head) // per_byte)
    return {
        "codes": rng.integers(0, 256, size=(n_rows, n_bytes), dtype=np.uint8),
        "head": rng.integers(-128, 128, size=(n_rows, n_head), dtype=np.int8),
        "scales": rng.normal(size=n_rows).astype(np.float32),
        "values": rng.normal(size=(256, per_byte)).astype(np.float32),
        "spread": rng.normal(size=n_dims).astype(np.float32),
        "centre": rng.normal(size=n_dims).astype(np.float32),
    }


@pytest.mark.parametrize("per_byte", [1, 2, 4, 8])
@pytest.mark.parametrize(("n_head", "n_dims"), [(16, 256), (16, 21), (0, 5), (4, 4), (3, 10)])
@pytest.mark.parametrize("n_rows", [0, 1, 7])
def test_the_numbers_are_those_of_numpy(rng, n_rows, n_head, n_dims, per_byte):
    table = parts(rng, n_rows, n_head, n_dims, per_byte)

    assert_array_equal(unpack(**table), unpack_plainly(**table))


@pytest.mark.parametrize("part", ["codes", "scales", "spread"])
def test_parts_of_another_table_are_refused(rng, part):
    table = parts(rng, 7, 4, 20, 4)
    table[part] = np.ascontiguousarray(table[part][:-1])

    with pytest.raises(ValueError, match="do not belong together"):
        unpack(**table)
