"""Approximate search among millions of texts by FAISS (extra `[faiss]`).

Rows are kept in inverted lists, one per centroid, with eight bits per number. A query is compared
with the rows of the lists whose centroids are nearest to it. The result is a set of candidates,
whose cosines the caller computes exactly; a row in a list further away is not found.
"""

import importlib.util
from typing import Any

import numpy as np

from pacsent.optional import import_optional

_PROBED_FRACTION = 1 / 16  # of the lists that a query is compared with
_MIN_ROWS_PER_LIST = 39  # FAISS warns if it learns a centroid from fewer
_SAMPLE_ROWS_PER_LIST = 64


def available() -> bool:
    """True if FAISS is installed."""
    return importlib.util.find_spec("faiss") is not None


def require() -> Any:
    """Return the module `faiss`, or raise an error that says how to install it."""
    return import_optional("faiss", "engine='faiss', unlike 'exact', needs FAISS", "faiss")


class InvertedLists:
    """Unit rows in the inverted lists of a FAISS index, in the order in which they were added."""

    def __init__(self, faiss_index: Any, n_learned: int):
        self._index = faiss_index
        self.n_dims = faiss_index.d
        self.n_learned = n_learned  # rows in the index when the lists were learned

    @classmethod
    def learn(cls, blocks: list[np.ndarray]) -> "InvertedLists":
        """Learn about 2 sqrt(n_rows) empty lists from a sample of the rows of blocks."""
        faiss = require()
        n_rows = sum(map(len, blocks))
        n_dims = blocks[0].shape[1]

        root = n_rows**0.5
        step = max(1, int(root / (2 * _SAMPLE_ROWS_PER_LIST)))
        sample = np.concatenate([block[::step] for block in blocks])
        max_lists = len(sample) // _MIN_ROWS_PER_LIST
        n_lists = int(max(1, min(2 * root, max_lists)))

        index = faiss.index_factory(n_dims, f"IVF{n_lists},SQ8", faiss.METRIC_INNER_PRODUCT)
        index.train(np.ascontiguousarray(sample, dtype=np.float32))
        return cls(index, n_rows)

    @classmethod
    def from_array(cls, data: np.ndarray, n_learned: int) -> "InvertedLists":
        """The inverse of `to_array`."""
        faiss = require()
        faiss_index = faiss.deserialize_index(np.array(data))
        return cls(faiss_index, n_learned)

    def to_array(self) -> np.ndarray:
        """Return the serialised FAISS index, an array of bytes."""
        return require().serialize_index(self._index)

    def __len__(self) -> int:
        return self._index.ntotal

    def add(self, rows: np.ndarray) -> None:
        """Put rows into their lists."""
        self._index.add(np.ascontiguousarray(rows, dtype=np.float32))

    def candidates(self, q: np.ndarray, n: int, excluded: np.ndarray) -> np.ndarray:
        """Return at most n rows near a query, sorted."""
        faiss = require()
        n_probed = max(1, round(_PROBED_FRACTION * self._index.nlist))
        options: dict[str, Any] = {"nprobe": n_probed}
        excluded_rows = np.flatnonzero(excluded)
        if excluded_rows.size:
            batch = faiss.IDSelectorBatch(excluded_rows)  # alive while it is used
            options["sel"] = faiss.IDSelectorNot(batch)

        parameters = faiss.SearchParametersIVF(**options)
        _, rows_of_queries = self._index.search(q[None], n, params=parameters)
        rows = rows_of_queries[0]
        return np.sort(rows[rows >= 0])  # -1 stands for no row
