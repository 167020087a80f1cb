"""The random numbers of the compiled kernels: a state of 64 bits, handed in and changed in place.

The kernels call `random.h` themselves; these functions make the same numbers, for what is to follow
a kernel step by step.
"""

import numpy as np

from pacsent.kernels.library import FLOAT32, FLOAT64, INT32, INT64, SIZE, UINT64, entry_point

_normal_numbers = entry_point("normal_numbers", UINT64, FLOAT32, SIZE)  # state, out, its size
_draw_indices = entry_point(
    "draw_indices",
    UINT64,  # state
    *(FLOAT64, INT32, SIZE),  # keep, other, their size
    *(INT64, SIZE),  # out, its size
)


def normal_numbers(state: np.ndarray, n: int) -> np.ndarray:
    """n independent standard normal numbers in single precision (Box and Muller).

    `state` is one uint64, not 0, and moves on by (n + 1) // 2 steps of xorshift64.
    """
    _check_state(state)
    out = np.empty(n, np.float32)
    _normal_numbers(state, out, n)
    return out


def normal_numbers_plainly(state: np.ndarray, n: int) -> np.ndarray:
    """As `normal_numbers`, in double precision."""
    n_steps = (n + 1) // 2
    bits = np.array([_next_bits(state) for _ in range(n_steps)], np.uint64)
    first = bits >> 32
    second = bits & 0xFFFFFFFF
    radius = np.sqrt(-2.0 * np.log((first + 0.5) / 2.0**32))

    # An angle within an eighth of a turn of 0, and two bits that turn it anywhere.
    angle = ((second >> 2) / 2.0**29 - 1.0) * np.pi / 4.0
    is_turned = (second & 2) != 0
    sign = np.where(second & 1, -1.0, 1.0)
    sine = np.sin(angle)
    cosine = np.cos(angle)
    x = sign * radius * np.where(is_turned, sine, cosine)
    y = sign * radius * np.where(is_turned, cosine, sine)
    return np.concatenate([x, y])[:n]


def draw_indices(state: np.ndarray, keep: np.ndarray, other: np.ndarray, n: int) -> np.ndarray:
    """n draws from the alias table (keep, other) of `pacsent.words.noise.alias`, (n,)."""
    _check_state(state)
    if keep.size == 0 or keep.size != other.size:
        raise ValueError(f"An alias table of {keep.size} and {other.size} numbers is none.")
    out = np.empty(n, np.int64)
    _draw_indices(state, keep, other, keep.size, out, n)
    return out


def draw_indices_plainly(
    state: np.ndarray, keep: np.ndarray, other: np.ndarray, n: int
) -> np.ndarray:
    """As `draw_indices`."""
    drawn = []
    for _ in range(n):
        bits = _next_bits(state)
        i = ((bits >> 32) * keep.size) >> 32
        is_kept = (bits & 0xFFFFFFFF) < keep[i] * 2.0**32
        drawn.append(i if is_kept else other[i])
    return np.array(drawn, np.int64)


def _next_bits(state: np.ndarray) -> int:
    """The next 64 bits, as a number of Python."""
    x = int(state[0])
    x ^= (x << 13) % 2**64
    x ^= x >> 7
    x ^= (x << 17) % 2**64
    state[0] = x
    return x


def _check_state(state: np.ndarray) -> None:
    if state.shape != (1,) or state[0] == 0:
        raise ValueError(f"A state is one number that is not 0. Got {state} instead.")
