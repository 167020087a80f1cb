"""Sums of word vectors over sentences. Nothing here imports scipy or scikit-learn."""

from collections.abc import Iterable

import numpy as np

from pacsent.kernels.library import BoundArray
from pacsent.kernels.pooling import pool_rows
from pacsent.text.encoded import Encoded


def token_sums(encoded: Encoded, weights: np.ndarray) -> np.ndarray:
    """Sum of the words' weights in each sentence."""
    sentence = np.repeat(np.arange(encoded.n_sentences), np.diff(encoded.offsets))
    return np.bincount(sentence, weights[encoded.ids], encoded.n_sentences)


def for_kernel(table: np.ndarray | None, dtype: np.dtype) -> BoundArray | None:
    """A table for sums of a dtype: as it is where they can read it, else converted once."""
    if table is None:
        return None
    fits = table.dtype == dtype or (table.dtype == np.float16 and dtype == np.float32)
    return BoundArray(np.ascontiguousarray(table, None if fits else dtype))


def pool(encoded: Encoded, parts: Iterable, out: np.ndarray) -> None:
    """Sum of scale * weights[w] * table[w] over tokens and over (table, weights, scale), in `out`.

    Tables are those of `for_kernel`; one may be None where its scale is 0, weights where they are
    ones.
    """
    add = False
    for table, weights, scale in parts:
        if table is not None and (not add or scale.any()):
            scale = scale.astype(out.dtype, copy=False)
            pool_rows(encoded.ids, encoded.offsets, table, weights, scale, out, add)
            add = True


def to_unit_length(sums: np.ndarray) -> np.ndarray:
    """Divide each row by its length, in place, rows of zeros by 1; the squared lengths."""
    squares = np.einsum("ij,ij->i", sums, sums)
    squares[squares == 0] = 1.0
    sums *= (1.0 / np.sqrt(squares))[:, None]
    return squares
