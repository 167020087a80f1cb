"""The content of an `Index`: vectors, postings, texts and metadata in immutable blocks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from pacsent.bounds.checks import is_count
from pacsent.search.lexical import BM25, Postings
from pacsent.search.metadata import Columns, check_where
from pacsent.storage import checked_tensor

_MAX_SAMPLE_ROWS = 4096  # enough to standardise cosines with a query
_MAX_NUMBER = 1 << 62  # larger integers are no numbers of texts
_NO_MASK = np.empty(0, bool)  # of rows, where none is masked
_NO_POSITIONS = np.empty(0, np.int64)


class Hit(NamedTuple):
    """A search result.

    `id` is the number of the text, `score` what hits are ordered by: a sum of exp(3 cosine) and
    BM25, the cosine with the query alone, or BM25 alone. `text` is the best passage if texts are
    cut into passages, and `span` its begin and end in the text.

    Examples
    --------
    >>> Hit(3, 1.7, "the cat slept", {"year": 2024})
    Hit(id=3, score=1.700, text='the cat slept', metadata={'year': 2024})
    """

    id: int
    score: float
    text: str
    metadata: dict[str, Any] | None = None
    span: tuple[int, int] | None = None

    def __repr__(self) -> str:
        fields = {"metadata": self.metadata, "span": self.span}
        more = "".join(f", {name}={value}" for name, value in fields.items() if value)
        text = self.text if len(self.text) <= 80 else f"{self.text[:79]}…"
        return f"Hit(id={self.id}, score={self.score:.3f}, text={text!r}{more})"


@dataclass(frozen=True)
class Block:
    """Texts that were added together, and their rows: one per text, or one per passage."""

    vectors: np.ndarray  # (n_rows, n_dims), unit rows
    ids: np.ndarray  # (n_texts,) numbers of the texts
    texts: "Sequence[str]"
    columns: Columns
    spans: np.ndarray | None = None  # (n_rows, 3): text, begin and end of the passage
    postings: Postings | None = None  # of the rows

    @cached_property
    def has_vector(self) -> np.ndarray:
        """Which rows have a vector: not those without an in-vocabulary word, (n_rows,).

        Raises ValueError if vectors of a file are not of length 1 or 0.
        """
        squares = np.einsum("ij,ij->i", self.vectors, self.vectors)
        if not ((np.abs(squares - 1) < 1e-3) | (squares == 0)).all():
            raise ValueError(
                "The index is damaged: its vectors must have length 1 or 0. Make it again from "
                "the texts."
            )
        return squares > 0

    def hit(self, row: int, score: float) -> Hit:
        """Return a row as a search result."""
        if self.spans is None:
            text = self.texts[row]
            return Hit(int(self.ids[row]), score, text, self.columns.row(row))
        position, begin, end = self.spans[row].tolist()
        text = self.texts[position][begin:end]
        metadata = self.columns.row(position)
        return Hit(int(self.ids[position]), score, text, metadata, (begin, end))

    def append(self, other: "Block") -> "Block":
        """Return the texts of both blocks as one."""
        spans = postings = None
        if self.spans is not None and other.spans is not None:
            spans = np.concatenate([self.spans, other.spans + [len(self.ids), 0, 0]])
        if self.postings is not None and other.postings is not None:
            postings = self.postings.append(other.postings)

        return Block(
            vectors=np.concatenate([self.vectors, other.vectors]),
            ids=np.concatenate([self.ids, other.ids]),
            texts=[*self.texts, *other.texts],
            columns=self.columns.append(other.columns),
            spans=spans,
            postings=postings,
        )

    def to_tensors(self) -> dict[str, np.ndarray]:
        """The arrays that are saved, of texts whose numbers increase."""
        tensors = {"vectors": self.vectors, "ids": self.ids}
        tensors["text_bytes"], tensors["text_offsets"] = StoredTexts.arrays(self.texts)
        if self.spans is not None:
            tensors["spans"] = self.spans
        if self.postings is not None:
            tensors |= self.postings.to_tensors()
        for i, (name, codes) in enumerate(self.columns.codes.items()):
            values = list(map(json.dumps, self.columns.values[name]))
            tensors[f"column{i}_codes"] = codes
            tensors[f"column{i}_bytes"], tensors[f"column{i}_offsets"] = StoredTexts.arrays(values)
        return tensors

    @classmethod
    def from_tensors(
        cls,
        tensors: Mapping[str, np.ndarray],
        n_dims: int,
        *,
        columns: Sequence[str],
        chunk: bool,
        lexical: bool,
    ) -> "Block":
        """The inverse of `to_tensors`; what a file may have wrong is checked."""
        ids = checked_tensor(tensors, "ids", np.int64, (None,), low=0)
        if (np.diff(ids) <= 0).any():
            raise ValueError("ids must increase")
        n_texts = len(ids)
        n_rows = n_texts

        # Neither passages nor words are stored of an index without texts.
        spans = postings = None
        if chunk and n_texts:
            spans = _read_spans(tensors, n_texts)
            n_rows = len(spans)
        vectors = checked_tensor(tensors, "vectors", np.float32, (n_rows, n_dims), finite=False)
        if lexical and n_texts:
            postings = Postings.from_tensors(tensors, n_rows)
        return cls(
            columns=_read_columns(tensors, columns, n_texts),
            texts=StoredTexts.of(tensors, "text", n_texts + 1),
            vectors=vectors,
            ids=np.array(ids),
            spans=spans,
            postings=postings,
        )


def _read_spans(tensors: Mapping[str, np.ndarray], n_texts: int) -> np.ndarray:
    """The passages of texts: text, begin and end, (n_rows, 3)."""
    spans = checked_tensor(tensors, "spans", np.int64, (None, 3), low=0)
    owners = spans[:, 0]
    is_complete = np.array_equal(np.unique(owners), np.arange(n_texts))
    if (np.diff(owners) < 0).any() or not is_complete:
        raise ValueError("spans must be those of every text, in their order")
    return spans


def _read_columns(tensors: Mapping[str, np.ndarray], names: Sequence[str], n_texts: int) -> Columns:
    """The metadata of texts."""
    codes = {}
    values = {}
    for i, name in enumerate(map(str, names)):
        values[name] = list(map(json.loads, StoredTexts.of(tensors, f"column{i}")))
        n_values = max(len(values[name]), 1)
        codes[name] = checked_tensor(
            tensors, f"column{i}_codes", np.int32, (n_texts,), low=-1, below=n_values
        )
    return Columns(n_texts, codes, values)


@dataclass(frozen=True)
class Snapshot:
    """All blocks, and which texts were deleted.

    Adding and deleting return a new `Snapshot`, so that a search in another thread continues with
    the one it began with. The position of a text among all that were ever added does not change.
    """

    blocks: tuple[Block, ...] = ()
    deleted: np.ndarray = field(default_factory=_NO_POSITIONS.copy)  # positions, sorted

    @cached_property
    def n_texts(self) -> int:
        """Number of texts, deleted ones included."""
        return sum(len(block.ids) for block in self.blocks)

    def __len__(self) -> int:
        """Number of rows, those of deleted texts included."""
        return sum(len(block.vectors) for block in self.blocks)

    def with_block(self, block: Block) -> "Snapshot":
        """Return a snapshot with one more block.

        Blocks of similar size are merged, so that few remain however many calls there were. A
        memory-mapped block stays as it is.
        """
        blocks = [*self.blocks, block] if len(block.ids) else list(self.blocks)
        while (
            len(blocks) > 1
            and isinstance(blocks[-2].texts, list)
            and len(blocks[-2].ids) <= 2 * len(blocks[-1].ids)
        ):
            blocks[-2:] = [blocks[-2].append(blocks[-1])]
        return replace(self, blocks=tuple(blocks))

    def without(self, numbers: set[int]) -> "Snapshot":
        """Return a snapshot without the texts of these numbers, which must be there."""
        possible = [number for number in numbers if 0 <= number < _MAX_NUMBER]
        positions = np.flatnonzero(np.isin(self.ids, np.array(possible, dtype=np.int64)))
        positions = np.setdiff1d(positions, self.deleted)
        if positions.size < len(numbers):
            missing = sorted(numbers - set(self.ids[positions].tolist()))
            more = f" and {len(missing) - 1:,} others" if len(missing) > 1 else ""
            raise ValueError(
                f"ids must be numbers of texts in the index. Got {missing[0]}{more} instead."
            )
        return replace(self, deleted=np.union1d(self.deleted, positions))

    def compacted(self, n_dims: int) -> Block:
        """Return the texts that were not deleted as one block, ordered by their numbers."""
        in_order = (np.diff(self.ids) > 0).all()  # until a text is updated
        if len(self.blocks) == 1 and not self.deleted.size and in_order:
            return self.blocks[0]

        kept = np.setdiff1d(np.arange(self.n_texts), self.deleted)  # positions of texts
        kept = kept[np.argsort(self.ids[kept])]
        all_texts = [text for block in self.blocks for text in block.texts]
        none = np.empty((0, n_dims), np.float32)
        vectors = np.concatenate([none, *(block.vectors for block in self.blocks)])
        rows = kept
        spans = postings = None
        if self.owners is not None:
            new_positions = np.full(self.n_texts, -1)
            new_positions[kept] = np.arange(kept.size)
            owners = new_positions[self.owners]  # -1 for passages of deleted texts
            n_deleted_rows = np.count_nonzero(owners < 0)
            rows = np.argsort(owners, kind="stable")[n_deleted_rows:]
            all_spans = np.concatenate([b.spans for b in self.blocks if b.spans is not None])
            spans = np.column_stack([owners[rows], all_spans[rows, 1:]])
        if self.postings:
            postings = reduce(Postings.append, self.postings).select(rows)
        columns = reduce(Columns.append, (b.columns for b in self.blocks), Columns(0, {}, {}))
        return Block(
            vectors=vectors[rows],
            ids=self.ids[kept],
            texts=[all_texts[position] for position in kept],
            columns=columns.select(kept),
            spans=spans,
            postings=postings,
        )

    @cached_property
    def ids(self) -> np.ndarray:
        """The number of each text, (n_texts,)."""
        return np.concatenate([np.empty(0, np.int64), *(block.ids for block in self.blocks)])

    def locate(self, number: Any) -> tuple[Block, int]:
        """Return the block of the text with this number, and its position there."""
        matches = np.flatnonzero(self.ids == number) if is_count(number) else _NO_POSITIONS
        positions = np.setdiff1d(matches, self.deleted)
        if not positions.size:
            raise ValueError(f"number must be that of a text in the index. Got {number!r} instead.")
        position = int(positions[0])
        for block in self.blocks:
            if position < len(block.ids):
                break
            position -= len(block.ids)
        return block, position

    @cached_property
    def owners(self) -> np.ndarray | None:
        """The position of each row's text; None if each text is one row."""
        if not self.blocks or self.blocks[0].spans is None:
            return None
        owners = []
        n_before = 0  # texts of earlier blocks
        for block in self.blocks:
            if block.spans is not None:  # all blocks have them, or none
                owners.append(block.spans[:, 0] + n_before)
            n_before += len(block.ids)
        return np.concatenate(owners)

    @cached_property
    def has_vector(self) -> np.ndarray:
        """Which rows have a vector: not those without an in-vocabulary word, (n_rows,)."""
        return np.concatenate([_NO_MASK, *(block.has_vector for block in self.blocks)])

    def excluded(self, where: Mapping[str, Any] | None = None) -> np.ndarray:
        """Which rows are deleted or do not match `where`, (n_rows,); empty for none."""
        if not self.deleted.size and where is None:
            return _NO_MASK
        is_excluded = np.zeros(self.n_texts, bool)
        if where is not None and self.blocks:
            columns = {name: None for block in self.blocks for name in block.columns.codes}
            conditions = check_where(where, columns)
            matches = [block.columns.match(conditions) for block in self.blocks]
            is_excluded = ~np.concatenate(matches)
        is_excluded[self.deleted] = True
        return is_excluded if self.owners is None else is_excluded[self.owners]

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors of these rows, which are sorted."""
        parts = []
        first = 0  # row of the block
        for block in self.blocks:
            low, high = np.searchsorted(rows, [first, first + len(block.vectors)])
            parts.append(block.vectors[rows[low:high] - first])
            first += len(block.vectors)
        return np.concatenate(parts)

    @cached_property
    def sample(self) -> np.ndarray:
        """Vectors of evenly spaced rows of texts that were not deleted."""
        excluded = self.excluded()
        rows = np.flatnonzero(~excluded) if excluded.size else np.arange(len(self))
        step = max(1, -(-rows.size // _MAX_SAMPLE_ROWS))
        return self.vectors(rows[::step])

    @property
    def postings(self) -> list[Postings]:
        """The postings of each block."""
        return [block.postings for block in self.blocks if block.postings is not None]

    @cached_property
    def bm25(self) -> BM25:
        """BM25 of the rows."""
        return BM25(self.postings, self.excluded())

    def hits(self, rows: np.ndarray, scores: np.ndarray) -> list[Hit]:
        """Return rows as search results, in this order."""
        return [self._hit(row, score) for row, score in zip(rows.tolist(), scores.tolist())]

    def _hit(self, row: int, score: float) -> Hit:
        for block in self.blocks:
            if row < len(block.vectors):
                return block.hit(row, score)
            row -= len(block.vectors)
        raise IndexError(row)


class StoredTexts(Sequence):
    """Texts that lie one after the other in an array of bytes, decoded when they are needed."""

    def __init__(self, data: np.ndarray, offsets: np.ndarray):
        self._data = data
        self._offsets = offsets

    @staticmethod
    def arrays(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return (bytes, offsets) of texts, as `StoredTexts` reads them."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        offsets = np.array([0, *accumulate(map(len, encoded))], dtype=np.int64)
        return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets

    @classmethod
    def of(cls, tensors: Mapping, name: str, n_offsets: int | None = None) -> "StoredTexts":
        """The inverse of `arrays`, which are checked."""
        data = checked_tensor(tensors, f"{name}_bytes", np.uint8, (None,))
        offsets = checked_tensor(tensors, f"{name}_offsets", np.int64, (n_offsets,))
        ends_meet = offsets.size and offsets[0] == 0 and offsets[-1] == data.size
        if not ends_meet or (np.diff(offsets) < 0).any():
            raise ValueError(f"{name}_offsets must be the bounds of the texts")
        return cls(data, offsets)

    def __len__(self):
        return len(self._offsets) - 1

    def __getitem__(self, i):
        if not 0 <= i < len(self):
            raise IndexError(i)
        data = self._data[self._offsets[i] : self._offsets[i + 1]].tobytes()
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ValueError(f"The index is damaged: text {i} is not UTF-8.") from None
