"""Index: texts found by meaning, by the cosines of their vectors."""

import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from pacsent._kernels.search_kernels import keep_best, scan
from pacsent.encoders import faiss_index
from pacsent.encoders.external_encoders import as_search_encoder
from pacsent.encoders.faiss_index import InvertedLists
from pacsent.encoders.index_rows import BLOCK, IndexBlock, IndexRows, StoredTexts
from pacsent.encoders.sentence_vectorizer import SentenceVectorizer
from pacsent.maths.arrays import frozen, unit_rows
from pacsent.storage import State, Tensors, checked_tensor
from pacsent.text.texts import as_texts
from pacsent.threads import in_order, n_cores

ENGINES = ("auto", "exact", "faiss")
_MANY = 1_000_000  # texts above which "auto" takes FAISS
_CANDIDATES = 10  # times k, taken from inverted lists and compared in double precision
_QUERIES = 512  # queries compared with a block at once
_FEW = 4  # queries for which reading the rows takes longer than the products
_NONE = -2.0  # the cosine where there is no text


class Hit(NamedTuple):
    """A text that was found: its number, its cosine with the query, and the text itself."""

    id: int
    cosine: float
    text: str


class Index:
    """Texts and their vectors; `search` finds the texts nearest to a query.

    The search is exact: every text is compared in single precision, and those near the best again
    in double precision, so the order is that of the cosines and not of rounding. Of texts with
    equal cosines the earlier comes first. `pacsent.save` stores an index with its vectorizer as a
    folder, and `pacsent.load` opens that by memory map. Texts can be added and deleted at any
    time, also by several threads.

    Parameters
    ----------
    vectorizer : encoder
        A method of pacsent (fitted, if it learns from text), the name of a model such as "english"
        (its encoder of sentences and SIF-sum together), or any encoder that `as_encoder` takes: an
        object with `encode`, a function, a URL.
    engine : {"auto", "exact", "faiss"}, default="auto"
        "exact" compares a query with every text. "faiss" (extra `[faiss]`) sorts the texts into
        inverted lists at the first search, and compares a query with those of the nearest
        sixteenth of them: this is faster among millions of texts, and a few of the nearest texts
        are not found; cosines are exact. "auto" takes "faiss" above a million texts where it is
        installed; `engine_` is the engine in use.

    Examples
    --------
    >>> from pacsent import Index
    >>> index = Index("english")
    >>> ids = index.add(["a glass of wine", "the cat slept", "shares fell again"])
    >>> index.search("a sleeping kitten", k=1)[0].text
    'the cat slept'
    """

    def __init__(self, vectorizer: Any, engine: str = "auto"):
        if engine not in ENGINES:
            raise ValueError(f"engine must be one of {', '.join(ENGINES)}. Got {engine!r} instead.")
        if engine == "faiss":
            faiss_index.require()
        self.vectorizer = as_search_encoder(vectorizer)
        self.engine = engine
        self._rows = IndexRows()
        self._next = 0
        self._lists: InvertedLists | None = None
        self._unverified: Callable[[], None] | None = None  # of the file it was loaded from
        self._lock = threading.RLock()

    @classmethod
    def opened(cls, vectorizer: Any, engine: str) -> "Index":
        """Return an empty index for what was saved; it is exact where FAISS is not installed."""
        there = engine != "faiss" or faiss_index.available()
        return cls(vectorizer, engine if there else "exact")

    @property
    def engine_(self) -> str:
        """The engine in use: "exact" or "faiss"."""
        if self.engine == "auto":
            return "faiss" if len(self._rows) > _MANY and faiss_index.available() else "exact"
        return self.engine

    def __len__(self) -> int:
        rows = self._rows
        return len(rows) - rows.deleted.size

    def __repr__(self) -> str:
        return f"Index(n_texts={len(self)}, vectorizer={type(self.vectorizer).__name__})"

    def __getstate__(self):
        self._verify()  # a copy is not verified again
        made_anew = ("_lock", "_lists")
        return {name: value for name, value in vars(self).items() if name not in made_anew}

    def __setstate__(self, state):
        vars(self).update(state, _lists=None, _lock=threading.RLock())

    # ---- adding and deleting -----------------------------------------------------------------

    def add(self, texts: Iterable[str]) -> np.ndarray:
        """Add texts.

        Returns
        -------
        array of int
            The numbers of the texts. They go on from the last; a number is never used twice.
        """
        texts = as_texts(texts)
        vectors = self._unit(texts) if texts else None
        with self._lock:
            ids = np.arange(self._next, self._next + len(texts))
            if vectors is not None:
                self._rows = self._rows.added(IndexBlock(vectors, ids, texts))
                self._next += len(texts)
        return ids

    def delete(self, ids: Iterable[int]) -> None:
        """Delete texts by their numbers: one integer, or any iterable of them."""
        numbers = _as_numbers(ids)
        with self._lock:
            self._rows = self._rows.without(numbers)

    # ---- searching ---------------------------------------------------------------------------

    def search(self, query: str | Iterable[str], k: int = 10) -> list:
        """Find the k texts with the largest cosine.

        Parameters
        ----------
        query : str or iterable of str
        k : int, default=10

        Returns
        -------
        list of Hit, best first; for several queries a list of such lists
            Fewer than k where there are fewer texts. A query without a known word finds nothing.
        """
        if not _is_integer(k) or k < 1:
            raise ValueError(f"k must be a positive integer. Got {k!r} instead.")
        queries = [query] if isinstance(query, str) else as_texts(query, "query")
        held = self._rows
        Q = self._unit(queries)
        found = [
            [
                Hit(number, cosine, text)
                for row, cosine in zip(rows.tolist(), cosines.tolist())
                if cosine > _NONE
                for number, text in [held.hit(row)]
            ]
            for rows, cosines in zip(*self._nearest(Q, k, held=held))
        ]
        return found[0] if isinstance(query, str) else found

    def duplicates(self, above: float = 0.95) -> Iterator[tuple[Hit, Hit]]:
        """Return pairs of texts whose cosine is at least `above`, the earlier text first.

        Texts without a known word are no duplicates.
        """
        if not isinstance(above, Real) or isinstance(above, bool) or not 0 < above <= 1:
            raise ValueError(f"above must be in (0, 1]. Got {above!r} instead.")
        return self._duplicates(self._rows, above)

    def _duplicates(self, held, above):
        self._verify()
        least = max(above - 1e-6, np.finfo(np.float32).tiny)
        for start, block, gone in held.cut(BLOCK // 2):
            for other_start, other, other_gone in held.cut():
                if other_start >= start + len(block):
                    break
                cosines = block @ other.T
                cosines[gone if gone.size else slice(0)] = _NONE
                cosines[:, other_gone if other_gone.size else slice(0)] = _NONE
                for i, j in zip(*np.nonzero(cosines >= least)):
                    if j + other_start < i + start:
                        cosine = min(1.0, float(cosines[i, j]))
                        pair = (held.hit(j + other_start), held.hit(i + start))
                        one, two = (Hit(number, cosine, text) for number, text in pair)
                        yield one, two

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the texts and their unit vectors, without deleted ones."""
        self._verify()
        ids, vectors, _ = self._rows.kept(self.vectorizer._n_features_out)
        return ids, vectors

    def text(self, number: int) -> str:
        """Return the text with this number."""
        held = self._rows
        row = held.row(number) if _is_integer(number) else None
        if row is None:
            raise ValueError(f"number must be that of a text in the index. Got {number!r} instead.")
        return held.hit(row)[1]

    # ---- how it searches ---------------------------------------------------------------------

    def _fitted(self):
        with self._lock:
            own = isinstance(self.vectorizer, SentenceVectorizer)
            if own and not (
                hasattr(self.vectorizer, "n_sentences_") or self.vectorizer.learns_from_text
            ):
                self.vectorizer.fit([])
        return self.vectorizer

    def _unit(self, texts) -> np.ndarray:
        return unit_rows(np.asarray(self._fitted().posterior(texts)[0], dtype=np.float32))

    def _nearest(self, Q, k, engine=None, held=None) -> tuple[np.ndarray, np.ndarray]:
        """(rows, cosines) of the best k for each query, best first; -2 where there is none."""
        self._verify()
        held = self._rows if held is None else held
        k = min(k, len(held))
        best = self._best
        if (engine or self.engine_) == "faiss" and k <= len(held) // 100:
            best = self._best_of_lists
        Q = np.ascontiguousarray(Q, dtype=np.float32)
        asked = np.flatnonzero(Q.any(axis=1))
        rows = np.zeros((len(Q), k), dtype=np.int64)
        cosines = np.full((len(Q), k), _NONE)
        for at in range(0, len(asked) if k else 0, _QUERIES):
            some = asked[at : at + _QUERIES]
            rows[some], cosines[some] = best(Q[some], k, held)
        return rows, cosines

    def _best(self, Q, k, held) -> tuple[np.ndarray, np.ndarray]:
        """`_nearest` for a few hundred queries that all have a vector."""
        slack = _slack(Q.shape[1])
        if len(Q) <= _FEW:  # the table is read once: a part of it on every core
            parts = held.cut(max(BLOCK, -(-len(held) // n_cores())))
            found = list(in_order(lambda part: _scanned(Q, part, k, slack), parts, None))
            values, rows = (np.concatenate(side, axis=1) for side in zip(*found))
        else:
            values, rows = _heaps(len(Q), k)
            for start, block, gone in held.cut():
                _enter(Q, block, start, gone, slack, values, rows)
        order = np.lexsort((rows, -values), axis=1)[:, :k]
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(values, order, axis=1)

    def _best_of_lists(self, Q, k, held) -> tuple[np.ndarray, np.ndarray]:
        """As `_best`, among the candidates of the inverted lists."""
        with self._lock:  # FAISS does not search while rows are added
            lists = self._listed(held)
            found = lists.candidates(Q, _CANDIDATES * k, held.deleted_rows())
        values, rows = _heaps(len(Q), k)
        for i in range(len(Q)):
            near = np.sort(found[i][(found[i] >= 0) & (found[i] < len(held))])
            X = held.vectors(near)
            cosines = np.where(X.any(axis=1), X.astype(float) @ Q[i].astype(float), _NONE)
            order = np.argsort(-cosines, kind="stable")[:k]
            values[i, : len(order)], rows[i, : len(order)] = cosines[order], near[order]
        return rows, values

    def _listed(self, held) -> InvertedLists:
        """The inverted lists, with every row in them."""
        n = len(held)
        if self._lists is None or n > 4 * self._lists.n_learned:
            step = max(1, int(n**0.5 / (2 * faiss_index.PER_LIST)))
            sample = np.concatenate([block.vectors[::step] for block in held.blocks])
            self._lists = InvertedLists.learned(sample, n)
        for start, block, _ in held.cut():
            if new := max(0, start + len(block) - len(self._lists)):
                self._lists.add(block[-new:])
        return self._lists

    # ---- saving ------------------------------------------------------------------------------

    kind = "Index"

    def state(self) -> State:
        """What `pacsent.save` writes: vectors, numbers and texts, and the vectorizer."""
        config = {"n_texts": len(self), "engine": self.engine}
        return State(config, Tensors(self._state()), parts={"vectorizer": self._fitted()})

    @classmethod
    def from_state(cls, state: State) -> "Index":
        """The inverse of `state`. The vectors are verified before the first search."""
        index = cls.opened(state.parts["vectorizer"], state.config.get("engine", "auto"))
        index._restore(state.tensors)
        index._unverified = state.tensors.verify
        return index

    def _state(self) -> dict[str, np.ndarray]:
        """What `pacsent.save` stores with the vectorizer; deleted texts are left out."""
        self._verify()
        with self._lock:
            held, lists, next_id = self._rows, self._lists, self._next
        ids, vectors, texts = held.kept(self.vectorizer._n_features_out)
        text_bytes, text_offsets = StoredTexts.arrays(texts)
        state = {
            "vectors": vectors,
            "ids": ids,
            "next_id": np.array(next_id, dtype=np.int64),
            "text_bytes": text_bytes,
            "text_offsets": text_offsets,
        }
        if lists is not None and not held.deleted.size and len(lists) == len(held):
            state["centroids"], state["list_numbers"] = lists.centroids, lists.numbers
            state["lists_learned"] = np.array(lists.n_learned, dtype=np.int64)
        return state

    def _restore(self, state: Mapping[str, np.ndarray]) -> None:
        """The inverse of `_state`, on an empty index. `_verify` checks the vectors later."""
        ids = checked_tensor(state, "ids", np.int64, (None,), low=0)
        n, n_dims = len(ids), self.vectorizer._n_features_out
        least = int(ids[-1]) + 1 if n else 0
        self._next = int(checked_tensor(state, "next_id", np.int64, (), low=least))
        vectors = checked_tensor(state, "vectors", np.float32, (n, n_dims), finite=False)
        data = checked_tensor(state, "text_bytes", np.uint8, (None,))
        offsets = checked_tensor(state, "text_offsets", np.int64, (n + 1,))
        if (np.diff(ids) <= 0).any():
            raise ValueError("ids must increase")
        if offsets[0] != 0 or offsets[-1] != data.size or (np.diff(offsets) < 0).any():
            raise ValueError("text_offsets must be the bounds of the texts")
        if n:
            block = IndexBlock(vectors, np.array(ids), StoredTexts(data, offsets))
            self._rows = IndexRows((block,))
        if "centroids" in state and self.engine_ == "faiss":
            self._restore_lists(state, vectors)

    def _restore_lists(self, state, vectors):
        n, n_dims = vectors.shape
        centroids = checked_tensor(state, "centroids", np.float32, (None, n_dims))
        numbers = checked_tensor(state, "list_numbers", np.int32, (n,), low=0, below=len(centroids))
        learned = int(checked_tensor(state, "lists_learned", np.int64, (), low=1))
        sample = vectors[:: max(1, n // 100_000)]
        self._lists = InvertedLists(np.array(centroids), sample, learned)
        for start in range(0, n, _MANY):
            self._lists.add(vectors[start : start + _MANY], numbers[start : start + _MANY])

    def _verify(self):
        """Once, before the first use: what was loaded is what was saved, and unit vectors."""
        if self._unverified is None:
            return
        with self._lock:
            if self._unverified is not None:
                self._unverified()
                for _, block, _ in self._rows.cut():
                    lengths = np.einsum("ij,ij->i", block, block)
                    if not ((np.abs(lengths - 1) < 1e-3) | (lengths == 0)).all():
                        raise ValueError(
                            "The index is damaged: its vectors must have length 1 or 0. Make it "
                            "again from the texts."
                        )
                self._unverified = None


def _is_integer(value) -> bool:
    return hasattr(type(value), "__index__") and not isinstance(value, (bool, np.ndarray))


def _as_numbers(ids) -> set[int]:
    """The numbers of texts in what was passed to `Index.delete`, or one line that refuses it."""
    if _is_integer(ids):
        ids = [ids]
    if isinstance(ids, (str, bytes, Mapping)) or not hasattr(ids, "__iter__"):
        raise TypeError(
            f"ids must be integers. Got {type(ids).__name__} {str(ids)[:40]!r} instead. Pass a "
            "list of numbers that add or search returned."
        )
    ids = list(ids)
    for number in ids:
        if not _is_integer(number):
            raise TypeError(
                f"ids must be integers. Got {type(number).__name__} {str(number)[:40]!r} instead."
                + (" For a mask, pass np.flatnonzero(mask)." if "bool" in type(number).__name__
                   else "")
            )  # fmt: skip
    return {operator.index(number) for number in ids}


def _slack(n_dims) -> float:
    """Twice the most by which rounding can change the product of two unit vectors.

    Each of n_dims products and sums is off by 2^-24 of itself at most, in whatever order they are
    added, and the sum of their sizes is at most 1 (Cauchy-Schwarz) but for the rounding of lengths.
    """
    return 2.0 * (n_dims + 4) * 2.0**-24


def _heaps(n_queries, k) -> tuple[np.ndarray, np.ndarray]:
    """(values, rows), empty: every cosine is better than what is in them."""
    return np.full((n_queries, k), _NONE), np.full((n_queries, k), -1)


def _scanned(Q, part, k, slack) -> tuple[np.ndarray, np.ndarray]:
    start, block, gone = part
    values, rows = _heaps(len(Q), k)
    scan(Q, frozen(block), start, gone, slack, values, rows)
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
