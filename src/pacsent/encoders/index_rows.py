"""The rows of an `Index`: vectors, numbers and texts in blocks that are never changed in place."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np

BLOCK = 1 << 13  # rows compared with the queries at once


@dataclass(frozen=True)
class IndexBlock:
    """IndexRows that were added together: unit vectors, the numbers of the texts, and the texts."""

    vectors: np.ndarray
    ids: np.ndarray
    texts: "Sequence[str]"

    def joined(self, other: "IndexBlock") -> "IndexBlock":
        """Return the rows of both blocks as one."""
        return IndexBlock(
            np.concatenate([self.vectors, other.vectors]),
            np.concatenate([self.ids, other.ids]),
            [*self.texts, *other.texts],
        )


@dataclass(frozen=True)
class IndexRows:
    """All blocks, and which numbers were deleted.

    Adding and deleting return new `IndexRows`, so a search that is under way in another thread
    goes on with what it began with. Numbers increase from row to row.
    """

    blocks: tuple[IndexBlock, ...] = ()
    deleted: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # sorted

    def __len__(self) -> int:
        """Number of rows, deleted ones included."""
        return sum(len(block.ids) for block in self.blocks)

    def added(self, block: IndexBlock) -> "IndexRows":
        """Return the rows with a new block; the last blocks are joined while of similar size.

        So few blocks remain however many calls there were. A memory-mapped block stays as it is.
        """
        blocks = [*self.blocks, block]
        while (
            len(blocks) > 1
            and isinstance(blocks[-2].texts, list)
            and len(blocks[-2].ids) <= 2 * len(blocks[-1].ids)
        ):
            blocks[-2:] = [blocks[-2].joined(blocks[-1])]
        return replace(self, blocks=tuple(blocks))

    def without(self, numbers: set[int]) -> "IndexRows":
        """Return the rows without these numbers, which must be there."""
        missing = sorted(number for number in numbers if self.row(number) is None)
        if missing:
            more = f" and {len(missing) - 1:,} others" if len(missing) > 1 else ""
            raise ValueError(
                f"ids must be numbers of texts in the index. Got {missing[0]}{more} instead."
            )
        gone = np.fromiter(numbers, np.int64, len(numbers))
        return replace(self, deleted=np.union1d(self.deleted, gone))

    def row(self, number: int) -> int | None:
        """Return the row of the text with this number; None where there is none."""
        start = 0
        for block in self.blocks:
            if len(block.ids) and block.ids[0] <= number <= block.ids[-1]:
                at = int(np.searchsorted(block.ids, number))
                there = block.ids[at] == number and not np.isin(number, self.deleted)
                return start + at if there else None
            start += len(block.ids)
        return None

    def cut(self, size: int = BLOCK) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield (first row, vectors, which rows were deleted) of `size` rows at most.

        The last array is empty where no row of the index was deleted.
        """
        start = 0
        for block in self.blocks:
            for at in range(0, len(block.ids), size):
                ids = block.ids[at : at + size]
                gone = np.isin(ids, self.deleted) if self.deleted.size else np.empty(0, bool)
                yield start + at, block.vectors[at : at + size], gone
            start += len(block.ids)

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors of these rows, which are sorted."""
        parts, start = [], 0
        for block in self.blocks:
            low, high = np.searchsorted(rows, [start, start + len(block.ids)])
            parts.append(block.vectors[rows[low:high] - start])
            start += len(block.ids)
        return np.concatenate(parts)

    def hit(self, row: int) -> tuple[int, str]:
        """Return (number, text) of a row."""
        for block in self.blocks:
            if row < len(block.ids):
                return int(block.ids[row]), block.texts[row]
            row -= len(block.ids)
        raise IndexError(row)

    def deleted_rows(self) -> np.ndarray:
        """Return the rows that were deleted."""
        if not self.deleted.size:
            return self.deleted
        return np.flatnonzero(np.isin(self._ids(), self.deleted))

    def kept(self, n_dims: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Return (numbers, vectors, texts) without the deleted ones, each in one piece."""
        ids = self._ids()
        vectors = [np.empty((0, n_dims), np.float32), *(block.vectors for block in self.blocks)]
        texts = [text for block in self.blocks for text in block.texts]
        kept = np.flatnonzero(~np.isin(ids, self.deleted))
        return ids[kept], np.concatenate(vectors)[kept], [texts[row] for row in kept]

    def _ids(self) -> np.ndarray:
        return np.concatenate([np.empty(0, np.int64), *(block.ids for block in self.blocks)])


class StoredTexts(Sequence):
    """Texts that lie one after the other in an array of bytes, decoded when they are needed."""

    def __init__(self, data: np.ndarray, offsets: np.ndarray):
        self._data, self._offsets = data, offsets

    @staticmethod
    def arrays(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return (bytes, offsets) of texts, as `StoredTexts` reads them."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        offsets = np.array([0, *accumulate(map(len, encoded))], dtype=np.int64)
        return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets

    def __len__(self):
        return len(self._offsets) - 1

    def __getitem__(self, i):
        if not 0 <= i < len(self):
            raise IndexError(i)
        piece = self._data[self._offsets[i] : self._offsets[i + 1]].tobytes()
        try:
            return piece.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ValueError(f"The index is damaged: text {i} is not UTF-8.") from None
