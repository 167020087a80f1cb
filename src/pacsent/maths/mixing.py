"""A mixing function for 64-bit integers, behind seeds, draws and hashes."""

import numpy as np
from numpy.typing import ArrayLike

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: the step of splitmix64


def splitmix64(x: ArrayLike) -> np.ndarray:
    """The finaliser of splitmix64: every bit of the input changes every bit of the output.

    >>> int(splitmix64(np.uint64(1)))
    6238072747940578789
    """
    z = np.asarray(x, dtype=np.uint64)
    with np.errstate(over="ignore"):  # multiplication modulo 2^64
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
