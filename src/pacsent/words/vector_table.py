"""Tables of vectors, one per word: as an array, or compressed to a few bits per number.

A compressed table is rotated so that the first columns contain most of every product; these
(`head`) have 8 bits each, the others are one of a few levels each, several in a byte:

    value = centre + spread * (head, scale of the row * level of the code)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pacsent.words.vocabulary import Vocabulary
from pacsent.words.word_table import is_memory_mapped

BITS = (1, 2, 4, 8)
_ROWS_PER_BLOCK = 4096  # unpacked at once

# The positive levels that lose least of a normal distribution (Max, 1960), by number of bits; the
# negative levels mirror them.
_UPPER_LEVELS = {
    1: [0.7979],
    2: [0.4528, 1.510],
    4: [0.1284, 0.3881, 0.6568, 0.9424, 1.256, 1.618, 2.069, 2.733],
}


def _mirror_levels(upper_levels: list[float]) -> np.ndarray:
    """All levels, lowest first."""
    upper = np.array(upper_levels, dtype=np.float32)
    return np.concatenate([-upper[::-1], upper])


LEVELS = {bits: _mirror_levels(upper) for bits, upper in _UPPER_LEVELS.items()}


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

    def __post_init__(self) -> None:
        expected_parts = self._expected_parts()
        for name, part in self.arrays().items():
            expected = expected_parts[name]
            if self.bits not in BITS or (part.dtype, part.shape) != expected:
                raise ValueError(
                    f"{name} of a compressed table must be {expected} at 1, 2, 4 or 8 bits. "
                    f"Got {part.dtype} of shape {part.shape} at {self.bits} bits instead. The file "
                    "it comes from is damaged: copy or save it again."
                )

    def _expected_parts(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of each array, by the shape of `head` and the size of `centre`."""
        # A damaged head may have fewer than two axes.
        padded_shape = self.head.shape + (0, 0)
        n_words, n_head = padded_shape[:2]
        n_dims = self.centre.size
        n_tail_bits = (n_dims - n_head) * self.bits
        n_bytes = -(-n_tail_bits // 8)
        return {
            "codes": ("uint8", (n_words, n_bytes)),
            "head": ("int8", (n_words, n_head)),
            "scales": ("float16", (n_words,)),
            "centre": ("float32", (n_dims,)),
            "spread": ("float32", (n_dims,)),
        }

    @property
    def shape(self) -> tuple[int, int]:
        """(n_words, n_dims) of the table that is compressed."""
        return self.head.shape[0], self.centre.size

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name, as a file stores them."""
        return {
            "codes": self.codes,
            "head": self.head,
            "scales": self.scales,
            "centre": self.centre,
            "spread": self.spread,
        }

    def __getitem__(self, rows: np.ndarray | slice) -> "Packed":
        """Some rows of the table, still compressed."""
        return replace(
            self,
            codes=self.codes[rows],
            head=self.head[rows],
            scales=self.scales[rows],
        )

    def unpack(self) -> np.ndarray:
        """The table as float32 numbers, (n_words, n_dims)."""
        from pacsent.kernels.unpack import unpack

        scales = self.scales.astype(np.float32)
        values = _byte_values(self.bits)
        return unpack(self.codes, self.head, scales, values, self.spread, self.centre)


def _byte_values(bits: int) -> np.ndarray:
    """The levels that each byte stands for, (256, 8 // bits) float32."""
    all_bytes = np.arange(256, dtype=np.uint8)
    if bits == 8:
        signed = all_bytes.view(np.int8)
        return signed.astype(np.float32)[:, None]

    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    mask = np.uint8(2**bits - 1)
    codes = (all_bytes[:, None] >> shifts) & mask  # (256, 8 // bits)
    return LEVELS[bits][codes]


class VectorTable:
    """One vector per word, read-only, and finite when it is used.

    An array in memory is checked at once, a memory-mapped one when `array` is first used, because
    opening a model must not read it. A row of a compressed table is unpacked, and checked, when it
    is first read: ten sentences need a few of 65,536.
    """

    def __init__(self, name: str, table: np.ndarray | Packed, vocabulary: Vocabulary):
        self.name = name
        self.vocabulary = vocabulary
        self.stored = table if isinstance(table, Packed) else checked_table(name, table)
        self.shape: tuple[int, int] = self.stored.shape

        if self.shape[0] != len(vocabulary):
            raise ValueError(
                f"{name} must be one row per word of the vocabulary ({len(vocabulary):,}). Got "
                f"{self.shape[0]:,} rows instead. Pass the vocabulary the table was trained with."
            )

        if not isinstance(self.stored, Packed) and not is_memory_mapped(self.stored):
            _ = self.array

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be computed again."""
        return {
            "name": self.name,
            "vocabulary": self.vocabulary,
            "stored": self.stored,
            "shape": self.shape,
        }

    @property
    def is_compressed(self) -> bool:
        return isinstance(self.stored, Packed)

    @property
    def is_double(self) -> bool:
        """True if the numbers are float64."""
        return not isinstance(self.stored, Packed) and self.stored.dtype == np.float64

    @property
    def precision(self) -> str:
        """The type of a number as it is stored, for example "float32" or "2 bits"."""
        if isinstance(self.stored, Packed):
            return f"{self.stored.bits} bits"
        return str(self.stored.dtype)

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

        table, is_unpacked = self._unpacked
        missing_rows = rows[~is_unpacked[rows]]
        if missing_rows.size:
            missing_rows = np.unique(missing_rows)
            n_blocks = -(-missing_rows.size // _ROWS_PER_BLOCK)
            for block in np.array_split(missing_rows, n_blocks):
                numbers = self.stored[block].unpack()
                self._check_finite(numbers, block)
                table[block] = numbers
                is_unpacked[block] = True  # last: another thread reads what this one wrote

        return checked_table(self.name, table)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """A copy of some rows, (n_rows, n_dims)."""
        return self.with_rows(rows)[rows]

    def read(self, rows: np.ndarray | slice) -> np.ndarray:
        """Some rows, (n_rows, n_dims); of a compressed table nothing is kept in memory."""
        if not isinstance(self.stored, Packed) or "array" in vars(self):
            return self.array[rows]
        row_numbers = np.arange(self.shape[0])[rows]
        numbers = self.stored[rows].unpack()
        self._check_finite(numbers, row_numbers)
        return numbers

    @cached_property
    def _unpacked(self) -> tuple[np.ndarray, np.ndarray]:
        """(the table, which of its rows were unpacked); other rows take no memory."""
        table = np.empty(self.shape, np.float32)
        is_unpacked = np.zeros(self.shape[0], bool)
        return table, is_unpacked

    def _check_finite(self, array: np.ndarray, row_numbers: np.ndarray | None = None) -> None:
        """Raise ValueError for NaN or infinity; `row_numbers` are those of the rows, if not all."""
        for rows in row_blocks(array):
            finite_rows = _is_finite(array[rows]).all(axis=1)
            if finite_rows.all():
                continue

            row = rows.start + int(np.argmin(finite_rows))
            if row_numbers is not None:
                row = int(row_numbers[row])
            word = self.vocabulary.words[row]
            raise ValueError(
                f"{self.name} must be finite numbers. Got NaN or infinity in row {row:,} "
                f"({word!r}) instead. Train again with a smaller learning rate, or repair the "
                "file."
            )

    @cached_property
    def norms(self) -> np.ndarray:
        """The length of each row, (n_words,)."""
        norms = np.empty(self.shape[0], dtype=np.float32)
        for rows in row_blocks(self.array):
            block = self.array[rows].astype(np.float32, copy=False)
            squares = np.einsum("ij,ij->i", block, block)
            norms[rows] = np.sqrt(squares)
        return norms


def _is_finite(block: np.ndarray) -> np.ndarray:
    """`np.isfinite`, faster for float16."""
    if block.dtype != np.float16:
        return np.isfinite(block)

    # All bits of the exponent mean infinity or NaN.
    exponent = np.uint16(0x7C00)
    exponent_bits = block.view(np.uint16) & exponent
    return exponent_bits != exponent


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
    is_float = table.dtype.kind == "f" and table.itemsize <= 8
    if not is_float or not table.dtype.isnative:
        raise ValueError(
            f"{name} must be float32 or float16. Got {table.dtype} instead. "
            "Convert with .astype(np.float32)."
        )

    view = table.view(np.ndarray)
    view.flags.writeable = False
    return view


def row_blocks(table: np.ndarray, n_numbers: int = 1 << 22) -> Iterator[slice]:
    """Slices of rows that together contain all of a table, at most `n_numbers` each."""
    n_columns = max(1, table.shape[1])
    n_rows = max(1, n_numbers // n_columns)
    for start in range(0, len(table), n_rows):
        stop = min(start + n_rows, len(table))
        yield slice(start, stop)


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
    spread = spread.astype(np.float32)
    return Packed(codes, head, scales, centre, spread, bits)


def quantize_head(head: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round the columns of `head`, each to 255 equal steps around 0.

    Returns
    -------
    numbers : array of int8, shape (n_words, n_head)
        head is about numbers * steps.
    steps : array of float32, shape (n_head,)
    """
    largest = np.abs(head).max(axis=0, initial=1e-12)  # (n_head,)
    steps = largest / 127
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
        return _quantize_to_bytes(tail)
    if tail.shape[1] == 0:
        no_scales = np.zeros(len(tail), dtype=np.float16)
        return tail.astype(np.uint8), no_scales

    levels = LEVELS[bits]
    middles = (levels[1:] + levels[:-1]) / 2  # between neighbouring levels

    # A level is chosen as if the numbers of the row were standard normal.
    squares = tail.astype(float) ** 2
    mean_squares = squares.mean(axis=1, keepdims=True)  # (n_words, 1)
    deviations = np.maximum(np.sqrt(mean_squares), 1e-12)
    numbers = np.searchsorted(middles, tail / deviations)
    nearest = levels[numbers]  # (n_words, n_tail)

    # The scale with the smallest squared error, given the levels: least squares on one variable.
    products = (tail * nearest).sum(axis=1)  # (n_words,)
    level_squares = (nearest * nearest).sum(axis=1)  # (n_words,)
    scales = products / np.maximum(level_squares, 1e-12)
    return numbers.astype(np.uint8), scales.astype(np.float16)


def _quantize_to_bytes(tail: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`quantize_tail` with 8 bits."""
    largest = np.abs(tail).max(axis=1, initial=1e-6)  # (n_words,)
    # Rounded up: rounded down, the largest number of a row would pass 127.
    steps = (largest / 127).astype(np.float16)
    scales = np.nextafter(steps, np.float16(np.inf))

    divisors = scales.astype(np.float32)[:, None]
    multiples = np.rint(tail / divisors).astype(np.int8)
    return multiples.view(np.uint8), scales


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
    importance = np.ones(n_words)
    if counts is not None:
        importance = np.sqrt(np.maximum(counts, 1))
    weights = (importance / importance.sum()).astype(np.float32)  # (n_words,)

    total = np.zeros((n_dims, n_dims))
    for table in tables:
        vectors = np.asarray(table, dtype=np.float32)
        weighted = vectors * weights[:, None]
        moment = (weighted.T @ vectors).astype(float)  # (n_dims, n_dims)
        size = max(np.trace(moment), np.finfo(float).tiny)
        total += moment / size

    _, eigenvectors = np.linalg.eigh(total)
    eigenvectors = eigenvectors[:, ::-1]

    # The sign of an eigenvector is arbitrary: its largest component becomes positive.
    largest = np.abs(eigenvectors).argmax(axis=0)
    largest_components = eigenvectors[largest, np.arange(n_dims)]
    return eigenvectors * np.sign(largest_components)


def compress(
    words: Any, *, n_words: int | None = None, n_dims: int | None = None, bits: int | None = None
) -> Any:
    """Fewer words, fewer dimensions, fewer bits: smaller word vectors for the same methods.

    Parameters
    ----------
    words : WordVectors
        Without `subwords`, which cannot be compressed.
    n_words : int or None, default=None
        Keep this many of the most frequent words, and all subwords; of `sentences` too.
    n_dims : int or None, default=None
        Rotate both matrices together, so that the first columns contain most of every product, and
        keep this many of them.
    bits : 1, 2, 4, 8 or None, default=None
        Quantise the remaining columns to this many bits a number; the first 16 have 8.

    Returns
    -------
    words : WordVectors
        Quantised matrices stay compressed until they are used. With other `n_dims` or `bits` the
        encoder of sentences is dropped.

    References
    ----------
    J. Max, "Quantizing for minimum distortion", IRE Transactions on Information Theory, 1960.

    Examples
    --------
    >>> from pacsent import Vocabulary, WordVectors
    >>> tables = np.random.default_rng(0).normal(size=(2, 100, 12)).astype(np.float32)
    >>> words = WordVectors(Vocabulary([f"w{i}" for i in range(100)]), *tables)
    >>> compress(words, n_words=50, n_dims=6, bits=4)
    WordVectors(n_words=50, n_dims=6)
    """
    _check_size("n_words", n_words, words.n_words)
    _check_size("n_dims", n_dims, words.n_dims)
    if words.subwords is not None:
        raise ValueError(
            "Word vectors with subwords cannot be compressed. Drop them first: "
            "words.replace(subwords=None)."
        )

    # Where only words are dropped, rows stay as they are, compressed ones and those of sentences.
    keeps_numbers = n_dims is None and bits is None
    tables: dict[str, Any]
    sentences: Any = None
    if keeps_numbers:
        sentences = words.saved_sentences
        tables = {name: table.stored for name, table in words.tables.items()}
    else:
        tables = {name: table.array for name, table in words.tables.items()}

    vocabulary = words.vocabulary
    if n_words is not None:
        rows = _kept_rows(vocabulary, n_words)
        vocabulary = _select_words(vocabulary, rows)
        tables = {name: table[rows] for name, table in tables.items()}
        if hasattr(sentences, "compress"):
            n_sentence_words = min(n_words, sentences.word_vectors.n_words)
            sentences = sentences.compress(n_words=n_sentence_words)

    if not keeps_numbers:
        tables = _rotate(tables, vocabulary.counts, n_dims or words.n_dims)
    if bits is not None:
        tables = {name: pack(table, bits) for name, table in tables.items()}

    vectors = {f"{name}_vectors": table for name, table in tables.items()}
    return words.replace(vocabulary=vocabulary, sentences=sentences, **vectors)


def _check_size(name: str, value: int | None, maximum: int) -> None:
    if value is not None and not 1 <= value <= maximum:
        raise ValueError(f"{name} must be from 1 to {maximum:,}. Got {value!r} instead.")


def _kept_rows(vocabulary: Vocabulary, n_words: int) -> np.ndarray:
    """Rows of the most frequent words, and of what any word can be put together from."""
    is_kept = np.arange(len(vocabulary)) < n_words
    if vocabulary.unknown == "pieces":
        is_piece = [word.startswith("##") or len(word) == 1 for word in vocabulary.words]
        is_kept |= is_piece
    return np.flatnonzero(is_kept)


def _select_words(vocabulary: Vocabulary, rows: np.ndarray) -> Vocabulary:
    """The vocabulary of some rows."""
    words = [vocabulary.words[row] for row in rows]
    counts = vocabulary.counts
    if counts is not None:
        counts = counts[rows]
    return Vocabulary(
        words,
        counts,
        normalize=vocabulary.normalize,
        unknown=vocabulary.unknown,
    )


def _rotate(
    tables: dict[str, np.ndarray], counts: np.ndarray | None, n_dims: int
) -> dict[str, np.ndarray]:
    """The first `n_dims` columns of the tables after their common `rotation`."""
    complete_rotation = rotation(list(tables.values()), counts)
    first_columns = complete_rotation[:, :n_dims].astype(np.float32)
    rotated = {}
    for name, table in tables.items():
        vectors = np.asarray(table, dtype=np.float32)
        rotated[name] = vectors @ first_columns
    return rotated
