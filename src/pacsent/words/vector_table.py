"""`VectorTable`: the vectors of all words, stored as an array or compressed."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from pacsent.words.packing import Packed, checked_table
from pacsent.words.vocabulary import Vocabulary
from pacsent.words.word_table import is_memory_mapped

_BLOCK_NUMBERS = 1 << 22  # numbers read at a time if a whole table is read


class VectorTable:
    """One vector per word, read-only, and finite when it is used.

    An array in memory is checked at once, a memory-mapped or compressed one when `array` is first
    used, because opening a model must not read it.
    """

    def __init__(self, name: str, table: np.ndarray | Packed, vocabulary: Vocabulary):
        self.name, self.vocabulary = name, vocabulary
        self.stored = table if isinstance(table, Packed) else checked_table(name, table)
        self.shape: tuple[int, int] = self.stored.shape
        if self.shape[0] != len(vocabulary):
            raise ValueError(
                f"{name} must be one row per word of the vocabulary ({len(vocabulary):,}). Got "
                f"{self.shape[0]:,} rows instead. Pass the vocabulary the table was trained with."
            )
        if not isinstance(self.stored, Packed) and not is_memory_mapped(self.stored):
            _ = self.array

    def __getstate__(self):
        return {name: self.__dict__[name] for name in ("name", "vocabulary", "stored", "shape")}

    @cached_property
    def array(self) -> np.ndarray:
        """The table as an array, (n_words, n_dims)."""
        if isinstance(self.stored, Packed):
            array = checked_table(self.name, self.stored.unpack())
            if self.stored.surely_finite():
                return array
        else:
            array = self.stored
        for rows in row_blocks(array):
            self.check_finite(array[rows], rows.start)
        return array

    @cached_property
    def norms(self) -> np.ndarray:
        """The length of each row, (n_words,)."""
        norms = np.empty(self.shape[0], dtype=np.float32)
        for rows in row_blocks(self.array):
            block = self.array[rows].astype(np.float32, copy=False)
            norms[rows] = np.sqrt(np.einsum("ij,ij->i", block, block))
        return norms

    def check_finite(self, block: np.ndarray, ids: int | np.ndarray) -> None:
        """Raise ValueError for NaN or infinity in some rows, given their ids or the first one."""
        if block.dtype == np.float16:
            # All bits of the exponent mean infinity or NaN; isfinite is slow for float16.
            exponent = np.uint16(0x7C00)
            finite = ((block.view(np.uint16) & exponent) != exponent).all(axis=1)
        else:
            finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            position = int(np.argmin(finite))
            row = ids + position if isinstance(ids, int) else int(ids[position])
            raise ValueError(
                f"{self.name} must be finite numbers. Got NaN or infinity in row {row:,} "
                f"({self.vocabulary.words[row]!r}) instead. Train again with a smaller learning "
                "rate, or repair the file."
            )


def row_blocks(table: np.ndarray) -> Iterator[slice]:
    """Slices of rows that together contain all of a table."""
    n_rows = max(1, _BLOCK_NUMBERS // max(1, table.shape[1]))
    for start in range(0, len(table), n_rows):
        yield slice(start, min(start + n_rows, len(table)))
