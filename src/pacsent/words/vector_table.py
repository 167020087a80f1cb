"""Tables of vectors, one per word: as an array, or compressed to a few bits per number.

A compressed table is rotated so that the first columns contain most of every product; these
(`head`) have 8 bits each, the others are one of a few levels each, several in a byte:

    value = centre + spread * (head, scale of the row * level of the code)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from pacsent.words.vocabulary import Vocabulary
from pacsent.words.word_table import is_memory_mapped

BITS = (1, 2, 4, 8)
_ROWS_PER_BLOCK = 4096  # unpacked at once
# the levels that lose least of a normal distribution (Max, 1960)
_UPPER = [0.7979], [0.4528, 1.510], [0.1284, 0.3881, 0.6568, 0.9424, 1.256, 1.618, 2.069, 2.733]
LEVELS = {
    bits: np.array([-level for level in upper[::-1]] + upper, dtype=np.float32)
    for bits, upper in zip(BITS, _UPPER)
}


@dataclass(frozen=True, eq=False, repr=False)
class Packed:
    """One table, compressed."""

    # (n_words, n_bytes) uint8: the columns after the head, 8 // bits in a byte, lowest bits first
    codes: np.ndarray
    head: np.ndarray  # (n_words, n_head) int8
    scales: np.ndarray  # (n_words,) float16
    centre: np.ndarray  # (n_dims,) float32
    spread: np.ndarray  # (n_dims,) float32
    bits: int  # 1, 2, 4 or 8

    def __post_init__(self):
        n_words, n_head = (self.head.shape + (0, 0))[:2]
        n_dims = self.centre.size
        expected = {
            "codes": ("uint8", (n_words, -(-(n_dims - n_head) * self.bits // 8))),
            "head": ("int8", (n_words, n_head)),
            "scales": ("float16", (n_words,)),
            "centre": ("float32", (n_dims,)),
            "spread": ("float32", (n_dims,)),
        }

        for name, part in self.arrays().items():
            if self.bits not in BITS or (part.dtype, part.shape) != expected[name]:
                raise ValueError(
                    f"{name} of a compressed table must be {expected[name]} at 1, 2, 4 or 8 bits. "
                    f"Got {part.dtype} of shape {part.shape} at {self.bits} bits instead. The file "
                    "it comes from is damaged: copy or save it again."
                )

    @property
    def shape(self) -> tuple[int, int]:
        return self.head.shape[0], self.centre.size

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, np.ndarray]:
        return {field.name: getattr(self, field.name) for field in fields(self)[:-1]}

    def __getitem__(self, rows: np.ndarray | slice) -> "Packed":
        return replace(self, codes=self.codes[rows], head=self.head[rows], scales=self.scales[rows])

    def unpack(self) -> np.ndarray:
        """The table as float32 numbers."""
        from pacsent.kernels.unpack import unpack

        # (256, 8 // bits): the levels that a byte stands for
        if self.bits == 8:
            values = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float32)[:, None]
        else:
            shifts = np.arange(0, 8, self.bits)
            codes = (np.arange(256)[:, None] >> shifts) & (2**self.bits - 1)
            values = LEVELS[self.bits][codes]

        scales = self.scales.astype(np.float32)
        return unpack(self.codes, self.head, scales, values, self.spread, self.centre)


class VectorTable:
    """One vector per word, read-only, and finite when it is used.

    An array in memory is checked at once, a memory-mapped one when `array` is first used, because
    opening a model must not read it. A row of a compressed table is unpacked, and checked, when it
    is first read: ten sentences need a few of 65,536.
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

    @property
    def is_compressed(self) -> bool:
        return isinstance(self.stored, Packed)

    @property
    def is_double(self) -> bool:
        """Whether the numbers are float64."""
        return not isinstance(self.stored, Packed) and self.stored.dtype == np.float64

    @property
    def precision(self) -> str:
        """The type of a number as it is stored, for example "float32" or "2 bits"."""
        stored = self.stored
        return f"{stored.bits} bits" if isinstance(stored, Packed) else str(stored.dtype)

    @cached_property
    def array(self) -> np.ndarray:
        """The table as an array, (n_words, n_dims)."""
        if isinstance(self.stored, Packed):
            return self.with_rows(np.arange(self.shape[0]))
        self._check_finite(self.stored)
        return self.stored

    def with_rows(self, rows: np.ndarray) -> np.ndarray:
        """The table as an array in which these rows, at least, can be read, (n_words, n_dims).

        It is the same array at every call.
        """
        if not isinstance(self.stored, Packed) or "array" in vars(self):
            return self.array

        out, is_unpacked = self._unpacked
        missing = rows[~is_unpacked[rows]]
        if missing.size:
            missing = np.unique(missing)
            for block in np.array_split(missing, -(-missing.size // _ROWS_PER_BLOCK)):
                numbers = self.stored[block].unpack()
                self._check_finite(numbers, block)
                out[block] = numbers
                is_unpacked[block] = True  # last: another thread reads what this one wrote

        return checked_table(self.name, out)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """A copy of some rows, (n_rows, n_dims)."""
        return self.with_rows(rows)[rows]

    def read(self, rows: np.ndarray | slice) -> np.ndarray:
        """Some rows, (n_rows, n_dims); of a compressed table nothing is kept in memory."""
        if not isinstance(self.stored, Packed) or "array" in vars(self):
            return self.array[rows]
        numbers = self.stored[rows].unpack()
        self._check_finite(numbers, np.arange(self.shape[0])[rows])
        return numbers

    @cached_property
    def _unpacked(self) -> tuple[np.ndarray, np.ndarray]:
        """(the table, which of its rows were unpacked); other rows take no memory."""
        return np.empty(self.shape, np.float32), np.zeros(self.shape[0], bool)

    def _check_finite(self, array: np.ndarray, numbers: np.ndarray | None = None) -> None:
        """Raise ValueError for NaN or infinity; `numbers` are those of the rows, if not all."""
        for rows in row_blocks(array):
            block = array[rows]
            if block.dtype == np.float16:
                # All bits of the exponent mean infinity or NaN; isfinite is slow for float16.
                exponent = np.uint16(0x7C00)
                finite = ((block.view(np.uint16) & exponent) != exponent).all(axis=1)
            else:
                finite = np.isfinite(block).all(axis=1)

            if not finite.all():
                row = rows.start + int(np.argmin(finite))
                row = row if numbers is None else int(numbers[row])
                raise ValueError(
                    f"{self.name} must be finite numbers. Got NaN or infinity in row {row:,} "
                    f"({self.vocabulary.words[row]!r}) instead. Train again with a smaller "
                    "learning rate, or repair the file."
                )

    @cached_property
    def norms(self) -> np.ndarray:
        """The length of each row, (n_words,)."""
        norms = np.empty(self.shape[0], dtype=np.float32)
        for rows in row_blocks(self.array):
            block = self.array[rows].astype(np.float32, copy=False)
            norms[rows] = np.sqrt(np.einsum("ij,ij->i", block, block))
        return norms


def checked_table(name: str, table: np.ndarray) -> np.ndarray:
    """A read-only view of a table of vectors, if it is one: (n_words, n_dims), of floats."""
    if not isinstance(table, np.ndarray):
        raise TypeError(
            f"{name} must be a NumPy array. Got {type(table).__name__} instead. "
            "Pass np.asarray(..., dtype=np.float32)."
        )
    if table.ndim != 2:
        raise ValueError(
            f"{name} must be an array of shape (n_words, n_dims). Got shape {table.shape} instead."
        )
    if table.dtype.kind != "f" or table.itemsize > 8 or not table.dtype.isnative:
        raise ValueError(
            f"{name} must be float32 or float16. Got {table.dtype} instead. "
            "Convert with .astype(np.float32)."
        )

    view = table.view(np.ndarray)
    view.flags.writeable = False
    return view


def row_blocks(table: np.ndarray, n_numbers: int = 1 << 22) -> Iterator[slice]:
    """Slices of rows that together contain all of a table, at most `n_numbers` each."""
    n_rows = max(1, n_numbers // max(1, table.shape[1]))
    for start in range(0, len(table), n_rows):
        yield slice(start, min(start + n_rows, len(table)))


def pack(table: np.ndarray, bits: int, n_head: int = 16) -> Packed:
    """Compress a table: `bits` for every number but the first `n_head` columns, which get 8."""
    if bits not in BITS:
        raise ValueError(f"bits must be one of {BITS}. Got {bits!r} instead.")
    table = np.asarray(table, dtype=np.float32)
    n_head = min(n_head, table.shape[1])

    centre = table.mean(axis=0)  # (n_dims,)
    spread = table.std(axis=0)  # (n_dims,)
    spread = np.where(spread > 0, spread, np.float32(1))
    standardized = (table - centre) / spread  # (n_words, n_dims)

    head, head_steps = quantize_head(standardized[:, :n_head])
    numbers, scales = quantize_tail(standardized[:, n_head:], bits)
    codes = pack_bits(numbers, bits)

    # A number of the head counts steps of its column: `unpack` multiplies by both at once.
    spread[:n_head] *= head_steps
    return Packed(codes, head, scales, centre, spread.astype(np.float32), bits)


def quantize_head(head: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round the columns of `head`, each to 255 equal steps around 0.

    Returns
    -------
    numbers : array of int8, shape (n_words, n_head)
        head is about numbers * steps.
    steps : array of float32, shape (n_head,)
    """
    steps = np.abs(head).max(axis=0, initial=1e-12) / 127
    numbers = np.rint(head / steps).astype(np.int8)
    return numbers, steps


def quantize_tail(tail: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Round the rows of `tail`, each to 2^bits levels times a scale of its own.

    Returns
    -------
    numbers : array of uint8, shape (n_words, n_tail)
        With 1, 2 or 4 bits the position in `LEVELS[bits]`; with 8 the bits of an int8, a multiple
        of the scale.
    scales : array of float16, shape (n_words,)
    """
    if bits == 8:
        largest = np.abs(tail).max(axis=1, initial=1e-6)  # (n_words,)
        # Rounded up: rounded down, the largest number of a row would pass 127.
        scales = np.nextafter((largest / 127).astype(np.float16), np.float16(np.inf))
        multiples = np.rint(tail / scales.astype(np.float32)[:, None]).astype(np.int8)
        return multiples.view(np.uint8), scales
    if tail.shape[1] == 0:
        return tail.astype(np.uint8), np.zeros(len(tail), dtype=np.float16)

    levels = LEVELS[bits]
    middles = (levels[1:] + levels[:-1]) / 2  # between neighbouring levels

    # A level is chosen as if the numbers of the row were standard normal.
    lengths = np.sqrt((tail.astype(float) ** 2).mean(axis=1, keepdims=True))  # (n_words, 1)
    numbers = np.searchsorted(middles, tail / np.maximum(lengths, 1e-12))
    nearest = levels[numbers]  # (n_words, n_tail)

    # The scale with the smallest squared error, given the levels: least squares on one variable.
    products = (tail * nearest).sum(axis=1)  # (n_words,)
    squares = (nearest * nearest).sum(axis=1)  # (n_words,)
    scales = products / np.maximum(squares, 1e-12)
    return numbers.astype(np.uint8), scales.astype(np.float16)


def pack_bits(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Put 8 // bits numbers below 2^bits into each byte, lowest bits first; rows end with zeros.

    >>> pack_bits(np.array([[1, 2, 3]], dtype=np.uint8), 4)  # 1 + 2 * 16, 3
    array([[33,  3]], dtype=uint8)
    """
    n_rows, n_columns = numbers.shape
    per_byte = 8 // bits
    n_bytes = -(-n_columns // per_byte)

    padded = np.zeros((n_rows, n_bytes * per_byte), dtype=np.uint8)
    padded[:, :n_columns] = numbers
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    shifted = padded.reshape(n_rows, n_bytes, per_byte) << shifts
    return shifted.sum(axis=2, dtype=np.uint8)


def rotation(tables: Sequence[np.ndarray], counts: np.ndarray | None = None) -> np.ndarray:
    """The orthogonal matrix after which both matrices have what matters in their first columns.

    Eigenvectors, largest first, of the sum of the tables' second moments, each table at equal size
    and a word by the root of its count. Products of rows, of one table or of both, stay the same.
    """
    n_words, n_dims = tables[0].shape
    weights = np.ones(n_words) if counts is None else np.sqrt(np.maximum(counts, 1))
    weights = (weights / weights.sum()).astype(np.float32)

    total = np.zeros((n_dims, n_dims))
    for table in tables:
        table = np.asarray(table, dtype=np.float32)
        second = ((table * weights[:, None]).T @ table).astype(float)
        total += second / max(np.trace(second), np.finfo(float).tiny)

    vectors = np.linalg.eigh(total)[1][:, ::-1]
    largest = np.abs(vectors).argmax(axis=0)
    return vectors * np.sign(vectors[largest, np.arange(n_dims)])


def compress(
    words: Any, *, n_words: int | None = None, n_dims: int | None = None, bits: int | None = None
) -> Any:
    """Fewer words, fewer dimensions, fewer bits: smaller word vectors for the same methods.

    `n_words` keeps the most frequent and all subwords, of `sentences` too; `n_dims` rotates both
    matrices together (`rotation`) and keeps the first columns; `bits` (1, 2, 4 or 8) quantises the
    remaining columns but the first 16, which have 8. Compressed matrices stay so until they are
    used.

    >>> from pacsent import Vocabulary, WordVectors
    >>> tables = np.random.default_rng(0).normal(size=(2, 100, 12)).astype(np.float32)
    >>> words = WordVectors(Vocabulary([f"w{i}" for i in range(100)]), *tables)
    >>> compress(words, n_words=50, n_dims=6, bits=4)
    WordVectors(n_words=50, n_dims=6)
    """
    for name, value in (("n_words", n_words), ("n_dims", n_dims)):
        most = getattr(words, name)
        if value is not None and not 1 <= value <= most:
            raise ValueError(f"{name} must be from 1 to {most:,}. Got {value!r} instead.")
    if words.subwords is not None:
        raise ValueError(
            "Word vectors with subwords cannot be compressed. Drop them first: "
            "words.replace(subwords=None)."
        )

    keeps_numbers = n_dims is None and bits is None
    tables = [t.stored if keeps_numbers else t.array for t in words.tables.values()]
    vocabulary, counts = words.vocabulary, words.counts
    sentences: Any = words.saved_sentences if keeps_numbers else None

    if n_words is not None:
        is_kept = np.arange(len(vocabulary)) < n_words
        if vocabulary.unknown == "pieces":  # of letters and subwords any word can be put together
            is_kept |= [word.startswith("##") or len(word) == 1 for word in words.words]
        rows = np.flatnonzero(is_kept)
        counts = None if counts is None else counts[rows]
        how = {"normalize": vocabulary.normalize, "unknown": vocabulary.unknown}
        vocabulary = Vocabulary([words.words[i] for i in rows], counts, **how)
        tables = [table[rows] for table in tables]
        if hasattr(sentences, "compress"):
            sentences = sentences.compress(n_words=min(n_words, sentences.word_vectors.n_words))

    if not keeps_numbers:
        turn = rotation(tables, counts)[:, : n_dims or words.n_dims].astype(np.float32)
        tables = [np.asarray(table, dtype=np.float32) @ turn for table in tables]
    if bits is not None:
        tables = [pack(table, bits) for table in tables]

    names = [f"{name}_vectors" for name in words.tables]
    return words.replace(vocabulary=vocabulary, sentences=sentences, **dict(zip(names, tables)))
