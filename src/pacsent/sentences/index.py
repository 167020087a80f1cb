"""Index: texts found by meaning, exactly, by cosines of their vectors."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

_BLOCK = 1 << 16  # rows compared with the queries at once


class Hit(NamedTuple):
    """A text that was found: its number, its cosine with the query, and the text itself."""

    id: int
    cosine: float
    text: str


class Index:
    """Texts and their vectors; `search` compares a query with every one of them.

    Exact: a matrix product for each block of texts, no approximation. `pacsent.save` keeps it with
    its vectorizer as a folder, `pacsent.load` opens that by memory map; texts can be added and
    deleted at any time.

    Parameters
    ----------
    vectorizer : fitted vectorizer of pacsent
        "SIF-sum" is made for this; one that learns nothing from text needs no `fit` beforehand.

    Examples
    --------
    >>> from pacsent import Index, make
    >>> index = Index(make("SIF-sum", "english"))
    >>> ids = index.add(["a glass of wine", "the cat slept", "shares fell again"])
    >>> index.search("a sleeping kitten", k=1)[0].text
    'the cat slept'
    """

    def __init__(self, vectorizer: Any):
        self.vectorizer = vectorizer
        self._vectors: list[np.ndarray] = []  # unit rows; the first block may be memory-mapped
        self._ids: list[np.ndarray] = []
        self._texts: list[_Texts | list[str]] = []
        self._deleted: set[int] = set()
        self._next = 0
        self._unverified: Callable[[], None] | None = None  # of the file it was loaded from

    def __len__(self) -> int:
        return sum(map(len, self._ids)) - len(self._deleted)

    def __repr__(self) -> str:
        return f"Index(n_texts={len(self)}, vectorizer={type(self.vectorizer).__name__})"

    def _fitted(self):
        if not hasattr(self.vectorizer, "n_sentences_") and not self.vectorizer.learns_from_text:
            self.vectorizer.fit([])
        return self.vectorizer

    def _unit(self, texts) -> np.ndarray:
        vectors = np.asarray(self._fitted().transform(texts), dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > 0, lengths, 1.0)

    def add(self, texts: Iterable[str]) -> np.ndarray:
        """Add texts; returns their numbers, which go on from the last and are never used again."""
        if isinstance(texts, str):
            raise ValueError(
                f"texts must be an iterable of texts. Got the single string {texts[:40]!r} "
                "instead. Put it into a list."
            )
        texts = list(texts)
        ids = np.arange(self._next, self._next + len(texts))
        if texts:
            self._vectors.append(self._unit(texts))
            self._ids.append(ids)
            self._texts.append(texts)
            self._next += len(texts)
        return ids

    def delete(self, ids: Iterable[int]) -> None:
        """Delete texts by their numbers."""
        wanted = {int(i) for i in np.atleast_1d(np.asarray(ids, dtype=np.int64))}
        there = {int(i) for block in self._ids for i in block} - self._deleted
        if missing := sorted(wanted - there):
            raise ValueError(
                f"ids must be numbers of texts in the index. Got {missing[0]} instead"
                + (f" and {len(missing) - 1:,} others" if len(missing) > 1 else "")
                + "."
            )
        self._deleted |= wanted

    def search(self, query: str | Sequence[str], k: int = 10) -> list:
        """The k texts with the largest cosine.

        Parameters
        ----------
        query : str or sequence of str
        k : int, default=10

        Returns
        -------
        list of Hit, best first; for a sequence of queries a list of such lists
            Fewer than k where there are fewer texts. A query without a known word finds nothing.
        """
        if k < 1 or int(k) != k:
            raise ValueError(f"k must be a positive integer. Got {k!r} instead.")
        queries = [query] if isinstance(query, str) else list(query)
        Q = self._unit(queries)
        found = [self._hits(rows, cosines) for rows, cosines in zip(*self._nearest(Q, int(k)))]
        return found[0] if isinstance(query, str) else found

    def _hits(self, rows, cosines) -> list[Hit]:
        return [
            Hit(self._id(row), float(cosine), self._text(row))
            for row, cosine in zip(rows.tolist(), cosines.tolist())
            if cosine > -1.5
        ]

    def _nearest(self, Q, k) -> tuple[np.ndarray, np.ndarray]:
        """(rows, cosines) of the best k for each query, best first; -2 where there is none."""
        best = np.full((len(Q), k), -2.0, dtype=np.float32)
        rows = np.zeros((len(Q), k), dtype=np.int64)
        for start, block in self._blocks():
            cosines = Q @ block.T  # (n_queries, n_rows)
            cosines[:, self._gone(start, len(block))] = -2.0
            cosines[~Q.any(axis=1)] = -2.0
            n = min(k, len(block))
            top = np.argpartition(-cosines, n - 1, axis=1)[:, :n]
            together = np.hstack([best, np.take_along_axis(cosines, top, axis=1)])
            where = np.hstack([rows, top + start])
            order = np.lexsort((where, -together), axis=1)[:, :k]
            best = np.take_along_axis(together, order, axis=1)
            rows = np.take_along_axis(where, order, axis=1)
        return rows, best

    def duplicates(self, above: float = 0.95) -> Iterator[tuple[Hit, Hit]]:
        """Pairs of texts whose cosine is at least `above`, the first of a pair being the earlier.

        The cosine is that of the second. Texts without a known word are no duplicates.
        """
        if not 0 < above <= 1:
            raise ValueError(f"above must be in (0, 1]. Got {above!r} instead.")
        for start, block in self._blocks(4096):
            for other_start, other in self._blocks():
                if other_start >= start + len(block):
                    break
                cosines = block @ other.T
                cosines[self._gone(start, len(block))] = -2.0
                cosines[:, self._gone(other_start, len(other))] = -2.0
                for i, j in zip(*np.nonzero(cosines >= above - 1e-6)):
                    one, two = int(j) + other_start, int(i) + start
                    if one < two:
                        cosine = min(1.0, float(cosines[i, j]))
                        yield (
                            Hit(self._id(one), cosine, self._text(one)),
                            Hit(self._id(two), cosine, self._text(two)),
                        )

    # ---- rows --------------------------------------------------------------------------------

    def _blocks(self, size=_BLOCK) -> Iterator[tuple[int, np.ndarray]]:
        self._verify()
        start = 0
        for vectors in self._vectors:
            for at in range(0, len(vectors), size):
                yield start + at, vectors[at : at + size]
            start += len(vectors)

    def _place(self, row) -> tuple[int, int]:
        for number, ids in enumerate(self._ids):
            if row < len(ids):
                return number, row
            row -= len(ids)
        raise IndexError(row)

    def _id(self, row) -> int:
        block, at = self._place(row)
        return int(self._ids[block][at])

    def _text(self, row) -> str:
        block, at = self._place(row)
        return self._texts[block][at]

    def _gone(self, start, n) -> np.ndarray:
        """Rows of a block that were deleted, or have no vector."""
        gone = np.zeros(n, dtype=bool)
        if self._deleted:
            ids = np.concatenate(self._ids)[start : start + n]
            gone = np.isin(ids, np.fromiter(self._deleted, np.int64))
        block, at = self._place(start)
        return gone | ~self._vectors[block][at : at + n].any(axis=1)

    # ---- saving ------------------------------------------------------------------------------

    def _state(self) -> dict[str, np.ndarray]:
        """What `pacsent.save` stores beside the vectorizer; deleted texts are gone."""
        self._verify()
        n_dims = self.vectorizer._n_features_out
        ids = np.concatenate([np.empty(0, np.int64), *self._ids])
        kept = ~np.isin(ids, np.fromiter(self._deleted, np.int64, len(self._deleted)))
        vectors = np.concatenate([np.empty((0, n_dims), np.float32), *self._vectors])[kept]
        texts = [text for block in self._texts for text in block]
        encoded = [texts[i].encode("utf-8", "surrogatepass") for i in np.flatnonzero(kept)]
        return {
            "vectors": vectors,
            "ids": ids[kept],
            "next_id": np.array(self._next, dtype=np.int64),
            "text_bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8),
            "text_offsets": np.cumsum([0, *map(len, encoded)]),
        }

    def _verify(self):
        """Once, before the first use: what was loaded must be what was saved."""
        if self._unverified is not None:
            self._unverified()
            self._unverified = None

    def _restore(self, state: dict[str, np.ndarray]) -> None:
        n, n_dims = len(state["ids"]), self.vectorizer._n_features_out
        shapes = {"ids": (n,), "vectors": (n, n_dims), "text_offsets": (n + 1,), "next_id": ()}
        for name, shape in shapes.items():
            if state[name].shape != shape:
                raise ValueError(f"{name} has shape {state[name].shape} where {shape} is needed")
        offsets = state["text_offsets"]
        if (
            offsets[0] != 0
            or offsets[-1] != state["text_bytes"].size
            or (np.diff(offsets) < 0).any()
        ):
            raise ValueError("text_offsets do not belong to the texts")
        self._next = int(state["next_id"])
        if len(state["ids"]):
            self._vectors, self._ids = [state["vectors"]], [np.asarray(state["ids"])]
            self._texts = [_Texts(state["text_bytes"], state["text_offsets"])]


class _Texts(Sequence):
    """Texts that lie one after the other in an array, decoded when asked for."""

    def __init__(self, data, offsets):
        self._data, self._offsets = data, offsets

    def __len__(self):
        return len(self._offsets) - 1

    def __getitem__(self, i):
        if not 0 <= i < len(self):
            raise IndexError(i)
        piece = self._data[self._offsets[i] : self._offsets[i + 1]]
        return piece.tobytes().decode("utf-8", "surrogatepass")
