"""Index: texts found by meaning, exactly, by cosines of their vectors."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from pacsent._kernels.search_kernels import keep_best, scan
from pacsent.encoders import faiss_index as lists
from pacsent.threads import in_order, n_cores

ENGINES = ("auto", "exact", "faiss")
_MANY = 1_000_000  # texts from which lists are worth their making
_CANDIDATES = 10  # times k, taken from lists and compared in double
_BLOCK = 1 << 13  # rows compared with the queries at once
_QUERIES = 512  # queries compared with a block at once
_FEW = 4  # queries for which reading the rows takes longer than the products


class Hit(NamedTuple):
    """A text that was found: its number, its cosine with the query, and the text itself.

    Examples
    --------
    >>> Hit(id=3, cosine=0.75, text='a quiet film').text
    'a quiet film'
    """

    id: int
    cosine: float
    text: str


class Index:
    """Texts and their vectors; `search` compares a query with every one of them.

    Exact: a matrix product for each block of texts, and what comes near the best again in double
    precision, so that the order is that of the cosines and not of rounding; of equal ones the
    earlier text comes first. `pacsent.save` keeps it with its vectorizer as a folder,
    `pacsent.load` opens that by memory map; texts can be added and deleted at any time.

    Parameters
    ----------
    vectorizer : fitted vectorizer of pacsent
        "SIF-sum" is made for this; one that learns nothing from text needs no `fit` beforehand.
    engine : {"auto", "exact", "faiss"}, default="auto"
        "exact" compares a query with every text. "faiss" (extra `[faiss]`) sorts the texts into
        lists, at the first search, and compares a query with those of the nearest sixteenth of
        them: faster among millions, and a few of the nearest texts are not found; cosines are
        exact. "auto" takes "faiss" above a million texts where it is installed; `engine_` says
        what is used.

    Examples
    --------
    >>> from pacsent import Index, make
    >>> index = Index(make("SIF-sum", "english"))
    >>> ids = index.add(["a glass of wine", "the cat slept", "shares fell again"])
    >>> index.search("a sleeping kitten", k=1)[0].text
    'the cat slept'
    """

    def __init__(self, vectorizer: Any, engine: str = "auto"):
        if engine not in ENGINES:
            raise ValueError(f"engine must be one of {', '.join(ENGINES)}. Got {engine!r} instead.")
        if engine == "faiss":
            lists.require()
        self.vectorizer = vectorizer
        self.engine = engine
        self._lists: lists.Lists | None = None
        self._vectors: list[np.ndarray] = []  # unit rows; the first block may be memory-mapped
        self._ids: list[np.ndarray] = []
        self._texts: list[_Texts | list[str]] = []
        self._deleted: set[int] = set()
        self._next = 0
        self._unverified: Callable[[], None] | None = None  # of the file it was loaded from

    @classmethod
    def opened(cls, vectorizer: Any, engine: str) -> "Index":
        """An index that was saved: where FAISS is not installed it searches exactly."""
        return cls(vectorizer, "exact" if engine == "faiss" and not lists.available() else engine)

    @property
    def engine_(self) -> str:
        """What searches now: "exact" or "faiss"."""
        if self.engine == "auto":
            many = sum(map(len, self._ids)) > _MANY and lists.available()
            return "faiss" if many else "exact"
        return self.engine

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
            self._join_small()
        return ids

    def _join_small(self):
        """Join the last blocks while they are of like size: few remain, however texts came."""
        while (
            len(self._ids) > 1
            and isinstance(self._texts[-2], list)  # what is memory-mapped stays so
            and len(self._ids[-2]) <= 2 * len(self._ids[-1])
        ):
            for blocks in (self._vectors, self._ids):
                blocks[-2:] = [np.concatenate(blocks[-2:])]
            self._texts[-2:] = [[*self._texts[-2], *self._texts[-1]]]

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
        if query is None:
            raise TypeError("query must be a text or a list of texts. Got None instead.")
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

    def _nearest(self, Q, k, engine=None) -> tuple[np.ndarray, np.ndarray]:
        """(rows, cosines) of the best k for each query, best first; -2 where there is none."""
        best = self._best
        if (engine or self.engine_) == "faiss" and k <= sum(map(len, self._ids)) // 100:
            best = self._best_of_lists
        Q = np.ascontiguousarray(Q, dtype=np.float32)
        asked = np.flatnonzero(Q.any(axis=1))
        rows = np.zeros((len(Q), k), dtype=np.int64)
        cosines = np.full((len(Q), k), -2.0)
        n = min(k, sum(map(len, self._ids)))
        for at in range(0, len(asked) if n else 0, _QUERIES):
            some = asked[at : at + _QUERIES]
            rows[some, :n], cosines[some, :n] = best(Q[some], n)
        return rows, cosines

    def _best(self, Q, k) -> tuple[np.ndarray, np.ndarray]:
        """`_nearest` for a few hundred queries that all have a vector."""
        slack = _slack(Q.shape[1])
        if len(Q) <= _FEW:  # the table is read once: parts of it on every core
            parts = list(in_order(lambda part: _scanned(Q, part, k, slack), self._parts(), None))
            values, rows = (np.concatenate(side, axis=1) for side in zip(*parts))
        else:
            values, rows = _heaps(len(Q), k)
            for start, block, gone in self._parts(_BLOCK):
                _enter(Q, block, start, gone, slack, values, rows)
        order = np.lexsort((rows, -values), axis=1)[:, :k]
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(values, order, axis=1)

    def _best_of_lists(self, Q, k) -> tuple[np.ndarray, np.ndarray]:
        """As `_best`, among the candidates that the lists give."""
        found = self._listed().candidates(Q, _CANDIDATES * k, self._deleted_rows())
        values, rows = _heaps(len(Q), k)
        for i in range(len(Q)):
            near = np.sort(found[i][found[i] >= 0])
            X = self._rows(near)
            cosines = np.where(X.any(axis=1), X.astype(float) @ Q[i].astype(float), -2.0)
            order = np.argsort(-cosines, kind="stable")[:k]
            values[i, : len(order)], rows[i, : len(order)] = cosines[order], near[order]
        return rows, values

    def _listed(self) -> lists.Lists:
        """The lists, with every row in them."""
        n = sum(map(len, self._ids))
        if self._lists is None or n > 4 * self._lists.n_learned:
            step = max(1, int(n**0.5 / (2 * lists.PER_LIST)))
            sample = np.concatenate([block[::step] for block in self._vectors])
            self._lists = lists.Lists.learned(sample, n)
        for start, block in self._blocks():
            if new := max(0, start + len(block) - len(self._lists)):
                self._lists.add(block[-new:])
        return self._lists

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the texts, and their vectors of length one; deleted ones left out."""
        self._verify()
        ids = np.concatenate([np.empty(0, np.int64), *self._ids])
        vectors = np.concatenate([np.empty((0, self.vectorizer._n_features_out)), *self._vectors])
        kept = ~np.isin(ids, np.fromiter(self._deleted, np.int64, len(self._deleted)))
        return ids[kept], vectors[kept].astype(np.float32, copy=False)

    def text(self, number: int) -> str:
        """The text with this number."""
        start = 0
        for ids in self._ids:
            at = int(np.searchsorted(ids, number))
            if at < len(ids) and ids[at] == number and number not in self._deleted:
                return self._text(start + at)
            start += len(ids)
        raise ValueError(f"number must be that of a text in the index. Got {number} instead.")

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

    def _parts(self, size=None) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(first row, rows, which of them were deleted); by default one part for each core."""
        if size is None:
            size = max(_BLOCK, -(-sum(map(len, self._ids)) // n_cores()))
        for start, block in self._blocks(size):
            yield start, block, self._removed(start, len(block))

    # ---- rows --------------------------------------------------------------------------------

    def _blocks(self, size=_BLOCK) -> Iterator[tuple[int, np.ndarray]]:
        self._verify()
        start = 0
        for vectors in self._vectors:
            for at in range(0, len(vectors), size):
                yield start + at, vectors[at : at + size]
            start += len(vectors)

    def _rows(self, numbers) -> np.ndarray:
        """The vectors of these rows, which are in order."""
        parts, start = [], 0
        for vectors in self._vectors:
            low, high = np.searchsorted(numbers, [start, start + len(vectors)])
            parts.append(vectors[numbers[low:high] - start])
            start += len(vectors)
        return np.concatenate(parts)

    def _deleted_rows(self) -> np.ndarray:
        if not self._deleted:
            return np.empty(0, dtype=np.int64)
        ids = np.concatenate(self._ids)
        gone = np.fromiter(self._deleted, np.int64, len(self._deleted))
        return np.flatnonzero(np.isin(ids, gone))

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

    def _removed(self, start, n) -> np.ndarray:
        """Which rows of a block were deleted; an empty array for none."""
        if not self._deleted:
            return np.empty(0, dtype=bool)
        block, at = self._place(start)
        ids = self._ids[block][at : at + n]
        return np.isin(ids, np.fromiter(self._deleted, np.int64, len(self._deleted)))

    def _gone(self, start, n) -> np.ndarray:
        """Rows of a block that were deleted, or have no vector."""
        block, at = self._place(start)
        empty = np.asarray(~self._vectors[block][at : at + n].any(axis=1))
        return empty | self._removed(start, n) if self._deleted else empty

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
        listed = {}
        if self._lists is not None and kept.all() and len(self._lists) == len(ids):
            made = self._lists
            listed = {"lists": made.middles, "list_numbers": made.numbers,
                      "lists_learned": np.array(made.n_learned, dtype=np.int64)}  # fmt: skip
        return {
            **listed,
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
        if "lists" in state and self.engine_ == "faiss":
            self._restore_lists(state, n, n_dims)

    def _restore_lists(self, state, n, n_dims):
        middles, numbers = np.array(state["lists"]), np.array(state["list_numbers"])
        right = middles.ndim == 2 and middles.shape[1] == n_dims and numbers.shape == (n,)
        if not right or numbers.min() < 0 or numbers.max() >= len(middles):
            raise ValueError("lists do not belong to the texts")
        sample = state["vectors"][:: max(1, n // 100_000)]
        self._lists = lists.Lists(middles, sample, int(state["lists_learned"]))
        for start in range(0, n, _MANY):
            self._lists.add(state["vectors"][start : start + _MANY], numbers[start : start + _MANY])


def _slack(n_dims) -> float:
    """How far rounding can move a product of two unit vectors, twice over.

    Each of n_dims products and sums is off by 2^-24 of itself at most, in whatever order they are
    added, and the sum of their sizes is at most 1 (Cauchy-Schwarz) but for the rounding of lengths.
    """
    return 2.0 * (n_dims + 4) * 2.0**-24


def _heaps(n_queries, k) -> tuple[np.ndarray, np.ndarray]:
    """(values, rows), empty: everything is better than what is in them."""
    return np.full((n_queries, k), -2.0), np.full((n_queries, k), -1)


def _scanned(Q, part, k, slack) -> tuple[np.ndarray, np.ndarray]:
    start, block, gone = part
    values, rows = _heaps(len(Q), k)
    scan(Q, block, start, gone, slack, values, rows)
    return values, rows


def _enter(Q, block, start, gone, slack, values, rows) -> None:
    """The products by BLAS, on its threads; then each core keeps the best for some queries."""
    products = Q @ block.T
    n = max(1, -(-len(Q) // n_cores()))

    def keep(at):
        some = slice(at, at + n)
        keep_best(products[some], Q[some], block, start, gone, slack, values[some], rows[some])

    for _ in in_order(keep, range(0, len(Q), n), None):
        pass


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
