"""Arrays of saved states are checked before anything relies on them."""

import numpy as np
import pytest

from pacsent.storage import checked_tensor


def test_wider_integers_are_narrowed_where_every_value_fits():
    tensors = {"ids": np.array([0, 7, -3], np.int64)}

    ids = checked_tensor(tensors, "ids", np.int32, (3,))

    assert ids.dtype == np.int32
    assert ids.tolist() == [0, 7, -3]


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_integers_that_do_not_fit_are_refused_rather_than_wrapped_around(value):
    tensors = {"ids": np.array([0, value], np.int64)}

    with pytest.raises(ValueError, match="ids must fit into int32"):
        checked_tensor(tensors, "ids", np.int32, (None,))


def test_an_array_without_any_integers_fits_every_type():
    tensors = {"ids": np.empty(0, np.uint64)}

    assert checked_tensor(tensors, "ids", np.uint8, (None,)).dtype == np.uint8
