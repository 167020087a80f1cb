"""Kernel that unpacks compressed tables of vectors."""

import numpy as np

from pacsent.kernels.library import (
    FLOAT32,
    INT8,
    SIZE,
    UINT8,
    entry_point,
    needs_twins,
)

_unpack = entry_point(
    "unpack",
    *(UINT8, INT8, FLOAT32),  # codes, head, scales
    FLOAT32,  # values of a byte
    *(FLOAT32, FLOAT32),  # spread, centre
    *(SIZE, SIZE, SIZE, SIZE, SIZE),  # numbers: rows, head, bytes of a row, per byte, dimensions
    FLOAT32,  # out
)


def unpack(
    codes: np.ndarray,
    head: np.ndarray,
    scales: np.ndarray,
    values: np.ndarray,
    spread: np.ndarray,
    centre: np.ndarray,
) -> np.ndarray:
    """A compressed table as float32 numbers, (n_rows, n_dims).

    Equivalent to (head, scales[:, None] * values[codes]) * spread + centre, row by row.

    Parameters
    ----------
    codes : uint8 array, shape (n_rows, n_bytes)
        The columns after the head; a byte stands for several.
    head : int8 array, shape (n_rows, n_head)
    scales : float32 array, shape (n_rows,)
    values : float32 array, shape (256, per_byte)
        What each byte stands for.
    spread, centre : float32 arrays, shape (n_dims,)
    """
    if needs_twins():
        return unpack_plainly(codes, head, scales, values, spread, centre)

    n_rows, n_head = head.shape
    n_bytes = codes.shape[1]
    per_byte = values.shape[1]
    n_dims = centre.size
    n_tail_bytes = -(-(n_dims - n_head) // per_byte)
    is_rows = codes.shape[0] == scales.size == n_rows
    if not is_rows or spread.size != n_dims or n_bytes != n_tail_bytes:
        raise ValueError("The parts of the compressed table do not belong together.")

    out = np.empty((n_rows, n_dims), np.float32)
    _unpack(
        *(codes, head, scales, values),
        *(spread, centre),
        *(n_rows, n_head, n_bytes, per_byte, n_dims),
        out,
    )
    return out


def unpack_plainly(
    codes: np.ndarray,
    head: np.ndarray,
    scales: np.ndarray,
    values: np.ndarray,
    spread: np.ndarray,
    centre: np.ndarray,
) -> np.ndarray:
    """As `unpack`, in NumPy."""
    n_tail = centre.size - head.shape[1]
    whole_bytes = values[codes].reshape(len(codes), codes.shape[1] * values.shape[1])
    tail = whole_bytes[:, :n_tail]
    scaled_tail = tail * scales[:, None]
    numbers = np.concatenate([head.astype(np.float32), scaled_tail], axis=1)
    return numbers * spread + centre
