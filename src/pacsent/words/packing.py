"""Tables in few bits: rotated so that what matters comes first, cut, packed; unpacked when used.

    value = centre + spread * (head, scale of the row * level of the code)

The first columns (`head`) are 8-bit numbers, because after the rotation they hold most of every
product; the others are one of a few levels each, several in a byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# the levels that lose least of a normal distribution (Max, 1960), the negative ones left out
_LEVELS = {
    1: (0.7979,),
    2: (0.4528, 1.510),
    4: (0.1284, 0.3881, 0.6568, 0.9424, 1.256, 1.618, 2.069, 2.733),
}
BITS = (1, 2, 4, 8)
_DTYPES = (np.float16, np.float32, np.float64)
_PARTS = {
    "codes": ("uint8", 2),
    "head": ("int8", 2),
    "scales": ("float16", 1),
    "centre": ("float32", 1),
    "spread": ("float32", 1),
}
_BLOCK = 512  # rows unpacked at once: they stay in the cache


@dataclass(frozen=True, eq=False, repr=False)
class Packed:
    """One table, packed."""

    # (n_words, n_bytes): the columns after the head, 8 // bits in a byte, the first in the lowest
    codes: np.ndarray
    head: np.ndarray  # (n_words, n_head)
    scales: np.ndarray  # (n_words,)
    centre: np.ndarray  # (n_dims,)
    spread: np.ndarray  # (n_dims,)
    bits: int  # 1, 2, 4 or 8

    def __post_init__(self):
        for name, (dtype, n_axes) in _PARTS.items():
            part = getattr(self, name)
            if part.dtype != dtype or part.ndim != n_axes:
                raise ValueError(
                    f"{name} of a packed table must be {dtype} with {n_axes} axes. Got "
                    f"{part.dtype} of shape {part.shape} instead. The file it comes from is "
                    "damaged: copy or save it again."
                )
        n_words, n_head = self.head.shape
        n_bytes = -(-(self.centre.size - n_head) * self.bits // 8)
        if (
            self.bits not in BITS
            or self.codes.shape != (n_words, n_bytes)
            or self.scales.shape != (n_words,)
            or self.spread.shape != self.centre.shape
        ):
            raise ValueError(
                "The parts of a packed table must be of one table. Got codes of shape "
                f"{self.codes.shape}, a head of shape {self.head.shape}, {self.scales.size:,} "
                f"scales, {self.centre.size:,} and {self.spread.size:,} columns at {self.bits} "
                "bits instead. The file they come from is damaged: copy or save it again."
            )

    def __repr__(self) -> str:
        return f"Packed(n_words={self.shape[0]}, n_dims={self.shape[1]}, bits={self.bits})"

    @property
    def shape(self) -> tuple[int, int]:
        return self.head.shape[0], self.centre.size

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in _PARTS}

    def surely_finite(self) -> bool:
        """Whether no number of the unpacked table can be infinite or NaN, judged by the parts."""
        parts = (self.scales, self.centre, self.spread)
        if not all(np.isfinite(part).all() for part in parts):
            return False
        scale, centre, spread = (
            float(np.abs(part).astype(np.float64).max(initial=0)) for part in parts
        )
        return centre + spread * 128 * max(1.0, scale) < float(np.finfo(np.float32).max)

    def unpack(self) -> np.ndarray:
        """The table as float32 numbers."""
        n_words, n_dims = self.shape
        n_head = self.head.shape[1]
        out = np.empty((n_words, n_dims), dtype=np.float32)
        values = _values(self.bits)
        scales = np.asarray(self.scales, dtype=np.float32)[:, None]
        for start in range(0, n_words, _BLOCK):
            rows = slice(start, start + _BLOCK)
            block = out[rows]
            block[:, :n_head] = self.head[rows]
            tail = values.take(self.codes[rows], axis=0).reshape(len(block), -1)
            np.multiply(tail[:, : n_dims - n_head], scales[rows], out=block[:, n_head:])
            block *= self.spread
            block += self.centre
        return out


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
    if table.dtype not in _DTYPES or not table.dtype.isnative:
        raise ValueError(
            f"{name} must be float32 or float16. Got {table.dtype} instead. "
            "Convert with .astype(np.float32)."
        )
    view = table.view(np.ndarray)
    view.flags.writeable = False
    return view


def _values(bits) -> np.ndarray:
    """(256, 8 // bits): the levels that a byte stands for."""
    if bits == 8:
        return np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float32)[:, None]
    levels = _all_levels(bits)
    shifts = np.arange(0, 8, bits)
    return levels[(np.arange(256)[:, None] >> shifts) & (2**bits - 1)]


def _all_levels(bits) -> np.ndarray:
    upper = np.array(_LEVELS[bits], dtype=np.float32)
    return np.concatenate([-upper[::-1], upper])


def pack(table: np.ndarray, bits: int, n_head: int = 16) -> Packed:
    """Pack a table: `bits` for every number but the first `n_head` columns, which get 8.

    >>> table = np.random.default_rng(0).normal(size=(50, 24)).astype(np.float32)
    >>> packed = pack(table, bits=4, n_head=8)
    >>> bool(np.abs(packed.unpack() - table).max() < 1)
    True
    """
    if bits not in BITS:
        raise ValueError(f"bits must be one of {BITS}. Got {bits!r} instead.")
    table = np.asarray(table, dtype=np.float32)
    n_dims = table.shape[1]
    n_head = min(n_head, n_dims)
    centre, spread = table.mean(axis=0), table.std(axis=0)
    spread = np.where(spread > 0, spread, np.float32(1))
    Z = (table - centre) / spread  # (n_words, n_dims)
    reach = np.abs(Z[:, :n_head]).max(axis=0, initial=1e-12) / 127
    head = np.rint(Z[:, :n_head] / reach).astype(np.int8)
    spread[:n_head] *= reach
    tail = Z[:, n_head:]
    if bits == 8:
        scales = np.abs(tail).max(axis=1, initial=1e-6) / 127
        scales = np.nextafter(scales.astype(np.float16), np.float16(np.inf))  # no code over 127
        codes = np.rint(tail / scales.astype(np.float32)[:, None]).astype(np.int8).view(np.uint8)
    else:
        codes, scales = _nearest_levels(tail, bits)
    return Packed(codes, head, scales, centre, spread.astype(np.float32), bits)


def _nearest_levels(tail, bits):
    levels = _all_levels(bits)
    length = np.sqrt((tail.astype(float) ** 2).mean(axis=1, keepdims=True)) if tail.size else 1.0
    unit = tail / np.maximum(length, 1e-12)
    numbers = np.searchsorted((levels[1:] + levels[:-1]) / 2, unit)
    nearest = levels[numbers]
    # the scale that loses least, given the levels
    scales = (tail * nearest).sum(axis=1) / np.maximum((nearest * nearest).sum(axis=1), 1e-12)
    n_words, n_tail = tail.shape
    per_byte = 8 // bits
    padded = np.zeros((n_words, -(-n_tail // per_byte) * per_byte), dtype=np.uint8)
    padded[:, :n_tail] = numbers
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (padded.reshape(n_words, -1, per_byte) << shifts).sum(axis=2, dtype=np.uint8)
    return codes, scales.astype(np.float16)


def rotation(tables: Sequence[np.ndarray], counts: np.ndarray | None = None) -> np.ndarray:
    """The orthogonal matrix after which both tables have what matters in their first columns.

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
    words: Any,
    *,
    n_words: int | None = None,
    n_dims: int | None = None,
    bits: int | None = None,
    n_head: int = 16,
) -> Any:
    """Fewer words, fewer dimensions, fewer bits: smaller word vectors for the same methods.

    `n_words` keeps the first, which are the most frequent; `n_dims` rotates both tables together
    (`rotation`) and keeps the first columns; `bits` (1, 2, 4 or 8) packs what is left, all but the
    first `n_head` columns, which keep 8. Packed tables are unpacked when first used, and saved as
    they are.

    >>> from pacsent import Vocabulary, WordVectors
    >>> tables = np.random.default_rng(0).normal(size=(2, 100, 12)).astype(np.float32)
    >>> words = WordVectors(Vocabulary([f"w{i}" for i in range(100)]), *tables)
    >>> compress(words, n_words=50, n_dims=6, bits=4)
    WordVectors(n_words=50, n_dims=6)
    """
    from pacsent.words.vocabulary import Vocabulary

    for name, value in (("n_words", n_words), ("n_dims", n_dims)):
        most = getattr(words, name)
        if value is not None and not 1 <= value <= most:
            raise ValueError(
                f"{name} must be from 1 to {most:,}, as there are. Got {value!r} instead."
            )
    if words.subwords is not None:
        raise ValueError(
            "Word vectors with subwords cannot be compressed: their n-grams would have to be "
            "packed as well. Drop them first: words.replace(subwords=None)."
        )
    tables = [words.input_vectors]
    if words.output_vectors is not None:
        tables.append(words.output_vectors)
    counts, vocabulary = words.counts, words.vocabulary
    if n_words is not None:
        tables = [table[:n_words] for table in tables]
        counts = None if counts is None else counts[:n_words]
        vocabulary = Vocabulary(
            words.words[:n_words],
            counts,
            normalise=vocabulary.normalise,
            unknown=vocabulary.unknown,
        )
    if n_dims is not None or bits is not None:
        turn = rotation(tables, counts)[:, : n_dims or words.n_dims].astype(np.float32)
        tables = [np.asarray(table, dtype=np.float32) @ turn for table in tables]
    if bits is not None:
        tables = [pack(table, bits, n_head) for table in tables]
    output = tables[1] if len(tables) > 1 else None
    return words.replace(vocabulary=vocabulary, input_vectors=tables[0], output_vectors=output)
