"""The content of an `Index`: vectors, postings, texts and metadata in immutable blocks."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
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
        text = self.text if len(self.text) <= 80 else f"{self.text[:79]}…"
        fields = [f"id={self.id}", f"score={self.score:.3f}", f"text={text!r}"]
        if self.metadata:
            fields.append(f"metadata={self.metadata}")
        if self.span:
            fields.append(f"span={self.span}")
        return f"Hit({', '.join(fields)})"


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
        """Mask of the rows with a vector: not those without an in-vocabulary word, (n_rows,).

        Raises ValueError if vectors of a file are not of length 1 or 0.
        """
        squares = np.einsum("ij,ij->i", self.vectors, self.vectors)
        is_unit = np.abs(squares - 1) < 1e-3
        is_zero = squares == 0
        if not (is_unit | is_zero).all():
            raise ValueError(
                "The index is damaged: its vectors must have length 1 or 0. Make it again from "
                "the texts."
            )
        return squares > 0

    def hit(self, row: int, score: float) -> Hit:
        """Return a row as a search result."""
        position = row
        span = None
        if self.spans is not None:
            position, begin, end = self.spans[row].tolist()
            span = (begin, end)

        text = self.texts[position]
        if span is not None:
            text = text[begin:end]
        return Hit(int(self.ids[position]), score, text, self.columns.row(position), span)

    def append(self, other: "Block") -> "Block":
        """Return the texts of both blocks as one."""
        spans = None
        if self.spans is not None and other.spans is not None:
            n_before = len(self.ids)  # texts
            spans = np.concatenate([self.spans, other.spans + [n_before, 0, 0]])
        postings = None
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
            value_bytes, value_offsets = StoredTexts.arrays(values)
            tensors[f"column{i}_codes"] = codes
            tensors[f"column{i}_bytes"] = value_bytes
            tensors[f"column{i}_offsets"] = value_offsets
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
        spans = None
        if chunk and n_texts:
            spans = _read_spans(tensors, n_texts)
            n_rows = len(spans)
        vectors = checked_tensor(tensors, "vectors", np.float32, (n_rows, n_dims), finite=False)
        postings = None
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
        blocks = list(self.blocks)
        if len(block.ids):
            blocks.append(block)

        while len(blocks) > 1:
            *earlier, previous, last = blocks
            is_in_memory = isinstance(previous.texts, list)
            if not is_in_memory or len(previous.ids) > 2 * len(last.ids):
                break
            blocks = [*earlier, previous.append(last)]
        return replace(self, blocks=tuple(blocks))

    def without(self, numbers: set[int]) -> "Snapshot":
        """Return a snapshot without the texts of these numbers, which must be there."""
        possible = [number for number in numbers if 0 <= number < _MAX_NUMBER]
        is_named = np.isin(self.ids, np.array(possible, dtype=np.int64))
        positions = np.setdiff1d(np.flatnonzero(is_named), self.deleted)

        if positions.size < len(numbers):
            present = set(self.ids[positions].tolist())
            missing = sorted(numbers - present)
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

        positions = np.setdiff1d(np.arange(self.n_texts), self.deleted)  # of kept texts
        positions = positions[np.argsort(self.ids[positions])]
        rows = positions
        spans = None
        if self.owners is not None:
            rows, spans = self._select_spans(positions)

        texts = list(itertools.chain.from_iterable(block.texts for block in self.blocks))
        no_vectors = np.empty((0, n_dims), np.float32)
        vectors = np.concatenate([no_vectors, *(block.vectors for block in self.blocks)])
        columns = Columns(0, {}, {})
        for block in self.blocks:
            columns = columns.append(block.columns)
        postings = None
        if self.postings:
            postings = reduce(Postings.append, self.postings).select(rows)

        return Block(
            vectors=vectors[rows],
            ids=self.ids[positions],
            texts=[texts[position] for position in positions],
            columns=columns.select(positions),
            spans=spans,
            postings=postings,
        )

    def _select_spans(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows and the spans of the passages of some texts, in the order of these texts."""
        new_positions = np.full(self.n_texts, -1)
        new_positions[positions] = np.arange(positions.size)
        owners = new_positions[self.owners]  # -1 for passages of other texts
        n_omitted = np.count_nonzero(owners < 0)
        rows = np.argsort(owners, kind="stable")[n_omitted:]

        spans_of_blocks = [block.spans for block in self.blocks if block.spans is not None]
        begins_and_ends = np.concatenate(spans_of_blocks)[rows, 1:]
        return rows, np.column_stack([owners[rows], begins_and_ends])

    @cached_property
    def ids(self) -> np.ndarray:
        """The number of each text, (n_texts,)."""
        return np.concatenate([np.empty(0, np.int64), *(block.ids for block in self.blocks)])

    def locate(self, number: Any) -> tuple[Block, int]:
        """Return the block of the text with this number, and its position there."""
        positions = _NO_POSITIONS
        if is_count(number):
            positions = np.setdiff1d(np.flatnonzero(self.ids == number), self.deleted)
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
        """Mask of the rows with a vector: not those without an in-vocabulary word, (n_rows,)."""
        return np.concatenate([_NO_MASK, *(block.has_vector for block in self.blocks)])

    def excluded(self, where: Mapping[str, Any] | None = None) -> np.ndarray:
        """Mask of the rows that are deleted or do not match `where`, (n_rows,); empty for none."""
        if not self.deleted.size and where is None:
            return _NO_MASK

        is_excluded = np.zeros(self.n_texts, bool)
        if where is not None and self.blocks:
            is_excluded = ~self._match(where)
        is_excluded[self.deleted] = True
        return is_excluded if self.owners is None else is_excluded[self.owners]

    def _match(self, where: Mapping[str, Any]) -> np.ndarray:
        """Mask of the texts whose metadata a filter matches, (n_texts,)."""
        names: dict[str, None] = {}  # as a set in the order of the columns
        for block in self.blocks:
            names |= dict.fromkeys(block.columns.codes)

        conditions = check_where(where, names)
        return np.concatenate([block.columns.match(conditions) for block in self.blocks])

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors of these rows, which are sorted."""
        parts = []
        first = 0  # row of the block
        for block in self.blocks:
            stop = first + len(block.vectors)
            low, high = np.searchsorted(rows, [first, stop])
            rows_of_block = rows[low:high] - first
            parts.append(block.vectors[rows_of_block])
            first = stop
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
        ends = itertools.accumulate(map(len, encoded))
        offsets = np.array([0, *ends], dtype=np.int64)
        return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets

    @classmethod
    def of(cls, tensors: Mapping, name: str, n_offsets: int | None = None) -> "StoredTexts":
        """The inverse of `arrays`, which are checked."""
        data = checked_tensor(tensors, f"{name}_bytes", np.uint8, (None,))
        offsets = checked_tensor(tensors, f"{name}_offsets", np.int64, (n_offsets,))
        covers_data = offsets.size and offsets[0] == 0 and offsets[-1] == data.size
        if not covers_data or (np.diff(offsets) < 0).any():
            raise ValueError(f"{name}_offsets must be the bounds of the texts")
        return cls(data, offsets)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, i: Any) -> Any:
        if not 0 <= i < len(self):
            raise IndexError(i)

        begin = self._offsets[i]
        end = self._offsets[i + 1]
        data = self._data[begin:end].tobytes()
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ValueError(f"The index is damaged: text {i} is not UTF-8.") from None
