"""Edit distances: the compiled code against Python and against hand-made cases."""

import numpy as np
import pytest

from pacsent.kernels import edits


@pytest.mark.parametrize("limit", [0, 1, 3, 20])
def test_the_distance_is_that_of_the_plain_recursion(rng, limit):
    for _ in range(200):
        a = rng.integers(0, 4, size=rng.integers(0, 9), dtype=np.int32)
        b = rng.integers(0, 4, size=rng.integers(0, 9), dtype=np.int32)

        expected = edits.edit_distance_plainly(a, b, limit)

        assert edits.edit_distance(a, b, limit) == expected
        assert edits.edit_distance(b, a, limit) == expected


def test_distances_counted_by_hand():
    kitten, sitting = (np.array([ord(c) for c in word], np.int32) for word in ("kitten", "sitting"))

    assert edits.edit_distance(kitten, sitting, 10) == 3
    assert edits.edit_distance(kitten, sitting, 2) == 3  # more than the limit: limit + 1
    assert edits.edit_distance(kitten, kitten[:0], 10) == 6
