"""Sums of word vectors over sentences. Nothing here imports scipy or scikit-learn."""

from collections.abc import Iterable

import numpy as np

from pacsent.kernels.library import BoundArray
from pacsent.kernels.pooling import pool_rows
from pacsent.text.encoded import Encoded
from pacsent.words.vector_table import VectorTable


def token_sums(encoded: Encoded, weights: np.ndarray) -> np.ndarray:
    """Sum of the words' weights in each sentence."""
    sentence = np.repeat(np.arange(encoded.n_sentences), np.diff(encoded.offsets))
    return np.bincount(sentence, weights[encoded.ids], encoded.n_sentences)


class PoolTable:
    """A table that `pool` sums rows of, for sums of one dtype.

    It is read as it is where the sums can, else converted once. The rows of a compressed table are
    unpacked when they are first summed.
    """

    def __init__(self, table: np.ndarray | VectorTable, dtype: np.dtype):
        self._unread: VectorTable | None = None
        if isinstance(table, VectorTable):
            if table.is_compressed and dtype == np.float32:
                self._unread = table
                table = table.with_rows(np.empty(0, np.int32))
            else:
                table = table.array
        fits = table.dtype == dtype or (table.dtype == np.float16 and dtype == np.float32)
        self._bound = BoundArray(np.ascontiguousarray(table, None if fits else dtype))

    def with_rows(self, ids: np.ndarray) -> BoundArray:
        """The table, with these rows in it."""
        if self._unread is not None:
            self._unread.with_rows(ids)
        return self._bound


def pool(encoded: Encoded, parts: Iterable, out: np.ndarray) -> None:
    """Sum of scale * weights[w] * table[w] over tokens and over (table, weights, scale), in `out`.

    A table is a `PoolTable`, or None where its scale is 0; weights are None where they are ones.
    """
    add = False
    for table, weights, scale in parts:
        if table is not None and (not add or scale.any()):
            scale = scale.astype(out.dtype, copy=False)
            rows = table.with_rows(encoded.ids)
            pool_rows(encoded.ids, encoded.offsets, rows, weights, scale, out, add)
            add = True


def to_unit_length(sums: np.ndarray) -> np.ndarray:
    """Divide each row by its length, in place, rows of zeros by 1; the squared lengths."""
    squares = np.einsum("ij,ij->i", sums, sums)
    squares[squares == 0] = 1.0
    sums *= (1.0 / np.sqrt(squares))[:, None]
    return squares
