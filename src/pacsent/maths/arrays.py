"""Small things about arrays that several formulas share."""

from typing import Protocol

import numpy as np

Numbers = float | np.ndarray  # one, or one for each row


class Tokens(Protocol):
    """Word ids of sentences one after the other; sentence s is ids[offsets[s]:offsets[s + 1]]."""

    @property
    def ids(self) -> np.ndarray: ...
    @property
    def offsets(self) -> np.ndarray: ...


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Return the rows of `X` divided by their lengths; rows of zeros stay as they are.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", X, X))  # faster than np.linalg.norm along an axis
    lengths[lengths == 0] = 1.0
    return X / lengths[:, None]


def frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view: for numba, arrays that may be written to are another type to compile."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
