"""Kernels between words and sentences: rows pooled into vectors, and a step of Adam."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from pacsent.kernels.library import (
    DOUBLE,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    SIZE,
    Array,
    BoundArray,
    entry_point,
    needs_twins,
)


def _pool_entry_point(table: Array, real: Array) -> Callable[..., int]:
    return entry_point(
        f"pool_{table.dtype}",
        *(INT32, SIZE),  # ids, their number
        *(INT64, SIZE),  # offsets, number of texts
        *(table, SIZE, SIZE),  # table, its rows and columns
        Array(real.dtype, optional=True),  # weights
        *(real, real),  # scale, out
        SIZE,  # whether `out` is added to
        returns=SIZE,
    )


_POOL = {
    np.dtype(np.float16): _pool_entry_point(FLOAT16, FLOAT32),
    np.dtype(np.float32): _pool_entry_point(FLOAT32, FLOAT32),
    np.dtype(np.float64): _pool_entry_point(FLOAT64, FLOAT64),
}
_adam_step = entry_point(
    "adam_step",
    *(INT32, SIZE),  # rows, their number
    FLOAT32,  # gradients
    *(FLOAT32, FLOAT32, FLOAT32),  # table, first, second
    *(SIZE, SIZE),  # rows and columns of the table
    *(DOUBLE, DOUBLE, DOUBLE),  # rate, bias1, bias2
    returns=SIZE,
)


def pool_rows(
    ids: np.ndarray,
    offsets: np.ndarray,
    table: np.ndarray | BoundArray,
    weights: np.ndarray | None,
    scale: np.ndarray,
    out: np.ndarray,
    add: bool = False,
) -> None:
    """Weighted sum of each text's rows, put into `out` or added to it, in place.

        out[s] = add * out[s] + scale[s] * sum of weights[i] * table[i] over the ids i of text s

    Parameters
    ----------
    ids : int32 array
        Those of text s are ids[offsets[s]:offsets[s + 1]].
    offsets : int64 array, shape (n_texts + 1,)
    table : array, shape (n_rows, n_dims)
        Of float16 or float32 where `weights`, `scale` and `out` are float32, else all are float64.
    weights : array, shape (n_rows,), or None
        None stands for ones.
    scale : array, shape (n_texts,)
    out : array, shape (n_texts, n_dims)
    """
    array = table.array if isinstance(table, BoundArray) else table
    n_rows, n_dims = array.shape
    n_texts = offsets.size - 1
    if out.shape != (n_texts, n_dims) or scale.size != n_texts:
        raise ValueError(
            f"{n_texts} texts and rows of {n_dims} numbers do not fit results of shape "
            f"{out.shape} and {scale.size} scales."
        )
    if weights is not None and weights.size != n_rows:
        raise ValueError(f"There are {weights.size} weights for {n_rows} rows.")

    if needs_twins():
        pool_rows_plainly(ids, offsets, array, weights, scale, out, add)
        return

    is_done = _POOL[array.dtype](
        *(ids, ids.size, offsets, n_texts),
        *(table, n_rows, n_dims),
        *(weights, scale, out, add),
    )
    if not is_done:
        raise IndexError(f"The ids or offsets of the texts do not fit a table of {n_rows} rows.")


def pool_rows_plainly(
    ids: np.ndarray,
    offsets: np.ndarray,
    table: np.ndarray,
    weights: np.ndarray | None,
    scale: np.ndarray,
    out: np.ndarray,
    add: bool = False,
) -> None:
    """As `pool_rows`, text by text."""
    for s, (begin, end) in enumerate(pairwise(offsets)):
        words = ids[begin:end]
        rows = table[words].astype(out.dtype)
        if weights is not None:
            rows *= weights[words, None]

        pooled = scale[s] * rows.sum(axis=0)
        out[s] = out[s] + pooled if add else pooled


def adam_step(
    rows: np.ndarray,
    gradients: np.ndarray,
    table: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    rates: tuple[float, float, float],
) -> None:
    """One step of Adam on some rows of a table, in place; the other rows stay as they are.

    With rate, bias1, bias2 = rates, r = rows[j], all different, and g = gradients[j]:

        first[r] += 0.1 * (g - first[r])
        second[r] += 0.001 * (g * g - second[r])
        table[r] -= rate * (first[r] / bias1) / (sqrt(second[r] / bias2) + 1e-8)

    `rows` is int32, everything else float32.
    """
    n_rows, n_dims = table.shape
    same_shape = first.shape == table.shape == second.shape
    if not same_shape or gradients.shape != (rows.size, n_dims):
        raise ValueError(
            f"Gradients of shape {gradients.shape} do not fit {rows.size} rows of a table of "
            f"shape {table.shape}, with moments of shape {first.shape} and {second.shape}."
        )

    is_done = _adam_step(
        *(rows, rows.size),
        gradients,
        *(table, first, second),
        *(n_rows, n_dims),
        *rates,
    )
    if not is_done:
        raise IndexError(f"A row is not one of the table's {n_rows}.")


def adam_step_plainly(
    rows: np.ndarray,
    gradients: np.ndarray,
    table: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    rates: tuple[float, float, float],
) -> None:
    """As `adam_step`."""
    rate, bias1, bias2 = rates
    first[rows] += 0.1 * (gradients - first[rows])
    second[rows] += 0.001 * (gradients**2 - second[rows])
    deviation = np.sqrt(second[rows] / bias2) + 1e-8
    table[rows] -= rate * (first[rows] / bias1) / deviation
