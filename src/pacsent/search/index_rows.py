"""The rows of an `Index`: vectors, words, texts and metadata in blocks, never changed in place."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from pacsent.search.lexical import Postings, norms
from pacsent.search.metadata import Columns, all_joined

BLOCK = 1 << 13  # rows compared with the queries at once
_NO_ROWS = np.empty(0, bool)


@dataclass(frozen=True)
class IndexBlock:
    """Texts that were added together, and their rows: one for each text, or for each passage."""

    vectors: np.ndarray  # (n_rows, n_dims), unit rows
    ids: np.ndarray  # (n_texts,) the numbers of the texts
    texts: "Sequence[str]"
    columns: Columns
    spans: np.ndarray | None = None  # (n_rows, 3): text, where the passage begins, where it ends
    words: Postings | None = None  # of the rows

    def joined(self, other: "IndexBlock") -> "IndexBlock":
        """Return the texts of both blocks as one."""
        spans = words = None
        if self.spans is not None and other.spans is not None:
            spans = np.concatenate([self.spans, other.spans + [len(self.ids), 0, 0]])
        if self.words is not None and other.words is not None:
            words = self.words.joined(other.words)
        return IndexBlock(
            np.concatenate([self.vectors, other.vectors]),
            np.concatenate([self.ids, other.ids]),
            [*self.texts, *other.texts],
            self.columns.joined(other.columns),
            spans,
            words,
        )


class FoundRow(NamedTuple):
    """A row: the number of its text, the passage, the metadata, and the passage's place."""

    id: int
    text: str
    metadata: dict[str, Any]
    place: tuple[int, int] | None


@dataclass(frozen=True)
class IndexRows:
    """All blocks, and which texts were deleted.

    Adding and deleting return new `IndexRows`, so a search that is under way in another thread
    goes on with what it began with. The place of a text, among all that were ever added, stays the
    same.
    """

    blocks: tuple[IndexBlock, ...] = ()
    deleted: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # places, sorted
    _sample: np.ndarray | None = field(default=None, init=False, repr=False)

    @cached_property
    def n_texts(self) -> int:
        """Texts, deleted ones included."""
        return sum(len(block.ids) for block in self.blocks)

    def __len__(self) -> int:
        """Number of rows, those of deleted texts included."""
        return sum(len(block.vectors) for block in self.blocks)

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
        """Return the rows without the texts of these numbers, which must be there."""
        possible = [number for number in numbers if 0 <= number < 1 << 62]
        places = np.flatnonzero(np.isin(self.ids, np.array(possible, dtype=np.int64)))
        places = np.setdiff1d(places, self.deleted)
        if places.size < len(numbers):
            missing = sorted(numbers - set(self.ids[places].tolist()))
            more = f" and {len(missing) - 1:,} others" if len(missing) > 1 else ""
            raise ValueError(
                f"ids must be numbers of texts in the index. Got {missing[0]}{more} instead."
            )
        return replace(self, deleted=np.union1d(self.deleted, places))

    @cached_property
    def ids(self) -> np.ndarray:
        """The number of each text."""
        return np.concatenate([np.empty(0, np.int64), *(block.ids for block in self.blocks)])

    @cached_property
    def owners(self) -> np.ndarray | None:
        """The place of each row's text; None where each text is one row."""
        if not self.blocks or self.blocks[0].spans is None:
            return None
        starts = np.cumsum([0, *(len(block.ids) for block in self.blocks)])
        parts = [block.spans[:, 0] + at for block, at in zip(self.blocks, starts)]  # type: ignore[index]
        return np.concatenate(parts)

    def place(self, number: int) -> int | None:
        """Return the place of the text with this number; None where there is none."""
        if not 0 <= number < 1 << 62:
            return None
        if self._in_order:
            at = int(np.searchsorted(self.ids, number))
            found = np.arange(at, at + 1)[self.ids[at : at + 1] == number]
        else:
            found = np.flatnonzero(self.ids == number)
        found = np.setdiff1d(found, self.deleted)
        return int(found[0]) if found.size else None

    @cached_property
    def _in_order(self) -> bool:
        return bool((np.diff(self.ids) > 0).all())  # until a text is updated

    def text(self, place: int) -> str:
        """Return the whole text at a place."""
        for block in self.blocks:
            if place < len(block.ids):
                return block.texts[place]
            place -= len(block.ids)
        raise IndexError(place)

    def gone(self, where: Mapping[str, Any] | None = None) -> np.ndarray:
        """Which rows must not be found: deleted, or other than `where` says; empty for none."""
        if not self.deleted.size and where is None:
            return _NO_ROWS
        out = np.zeros(self.n_texts, bool)
        if where is not None:
            out = ~np.concatenate([_NO_ROWS, *(b.columns.match(where) for b in self.blocks)])
        out[self.deleted] = True
        return out if self.owners is None else out[self.owners]

    def cut(
        self, size: int = BLOCK, gone: np.ndarray = _NO_ROWS
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield (first row, vectors, which rows are gone) of `size` rows at most."""
        start = 0
        for block in self.blocks:
            for at in range(0, len(block.vectors), size):
                vectors = block.vectors[at : at + size]
                yield start + at, vectors, gone[start + at : start + at + len(vectors)]
            start += len(block.vectors)

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors of these rows, which are sorted."""
        parts, start = [], 0
        for block in self.blocks:
            low, high = np.searchsorted(rows, [start, start + len(block.vectors)])
            parts.append(block.vectors[rows[low:high] - start])
            start += len(block.vectors)
        return np.concatenate(parts)

    def sample(self, most: int) -> np.ndarray:
        """Return the vectors of `most` rows at most, evenly spaced, of texts that are there."""
        if self._sample is None:
            gone = self.gone()
            rows = np.flatnonzero(~gone) if gone.size else np.arange(len(self))
            found = self.vectors(rows[:: max(1, -(-rows.size // most))])
            object.__setattr__(self, "_sample", found)
        return self._sample  # type: ignore[return-value]

    @cached_property
    def norms(self) -> np.ndarray:
        """What `lexical.scores` needs of every row."""
        lengths = np.concatenate([words.lengths for words in self.words])
        gone = self.gone()
        return norms(lengths, ~gone if gone.size else np.ones(lengths.size, bool))

    @property
    def words(self) -> list[Postings]:
        """The words of each block."""
        return [block.words for block in self.blocks if block.words is not None]

    def found(self, row: int) -> FoundRow:
        """Return what a hit shows of a row."""
        for block in self.blocks:
            if row < len(block.vectors):
                if block.spans is None:
                    return FoundRow(
                        int(block.ids[row]), block.texts[row], block.columns.row(row), None
                    )
                text, start, stop = block.spans[row].tolist()
                whole, about = block.texts[text], block.columns.row(text)
                return FoundRow(int(block.ids[text]), whole[start:stop], about, (start, stop))
            row -= len(block.vectors)
        raise IndexError(row)

    def kept(self, n_dims: int) -> IndexBlock:
        """Return the texts that were not deleted as one block, in the order of their numbers."""
        if len(self.blocks) == 1 and not self.deleted.size:
            [block] = self.blocks
            if self._in_order:
                return block
        places = np.setdiff1d(np.arange(self.n_texts), self.deleted)
        places = places[np.argsort(self.ids[places])]
        every = [text for block in self.blocks for text in block.texts]
        vectors = [np.empty((0, n_dims), np.float32), *(block.vectors for block in self.blocks)]
        rows, spans = places, None
        if self.owners is not None:
            order = np.full(self.n_texts, -1)
            order[places] = np.arange(places.size)
            new = order[self.owners]
            rows = np.argsort(new, kind="stable")[np.count_nonzero(new < 0) :]
            old = np.concatenate([b.spans for b in self.blocks if b.spans is not None])
            spans = np.column_stack([new[rows], old[rows, 1:]])
        words = None
        if self.words:
            words = self.words[0]
            for other in self.words[1:]:
                words = words.joined(other)
            words = words.taken(rows)
        columns = all_joined(block.columns for block in self.blocks).taken(places)
        texts = [every[place] for place in places]
        return IndexBlock(
            np.concatenate(vectors)[rows], self.ids[places], texts, columns, spans, words
        )


class StoredTexts(Sequence):
    """Texts that lie one after the other in an array of bytes, decoded when they are needed."""

    def __init__(self, data: np.ndarray, offsets: np.ndarray):
        self._data, self._offsets = data, offsets

    @staticmethod
    def arrays(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
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
