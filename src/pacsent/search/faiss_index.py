"""Approximate search among millions of texts by FAISS (extra `[faiss]`).

Rows are kept in inverted lists, one per centroid, as numbers of eight bits. A query is compared
with the rows of the lists whose centroids are nearest to it. The result is a choice of candidates,
whose cosines the caller computes exactly; a row in a list further away is not found.
"""

import importlib.util
from typing import Any

import numpy as np

from pacsent.optional import import_optional

SHARE = 1 / 16  # of the lists that a query looks into
PER_LIST = 64  # rows by which a centroid is learned


def available() -> bool:
    """Whether FAISS is installed."""
    return importlib.util.find_spec("faiss") is not None


def require() -> Any:
    """Return the module `faiss`, or raise an error that says how to install it."""
    return import_optional("faiss", "engine='faiss', unlike 'exact', needs FAISS", "faiss")


class InvertedLists:
    """Unit rows in inverted lists, by the centroid that is nearest to each.

    The ranges of the eight-bit numbers are those of `sample`, rows like those that will be added;
    `n_learned` is the number of rows in the index when the centroids were learned.
    """

    def __init__(self, centroids: np.ndarray, sample: np.ndarray, n_learned: int):
        faiss = require()
        n_lists, n_dims = centroids.shape
        quantizer = faiss.IndexFlatIP(n_dims)
        quantizer.add(np.ascontiguousarray(centroids, dtype=np.float32))
        self._index = faiss.IndexIVFScalarQuantizer(
            quantizer, n_dims, n_lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        self._index.train(np.ascontiguousarray(sample, dtype=np.float32))
        self.centroids, self.n_learned = centroids, n_learned
        self._numbers: list[np.ndarray] = []

    @classmethod
    def learned(cls, sample: np.ndarray, n_rows: int) -> "InvertedLists":
        """Return about 2 sqrt(n_rows) empty lists for n_rows rows, by a sample of them."""
        faiss = require()
        n_lists = int(max(1, min(2 * n_rows**0.5, len(sample) // 39)))
        kmeans = faiss.Kmeans(sample.shape[1], n_lists, niter=8, spherical=True, seed=0)
        kmeans.train(np.ascontiguousarray(sample, dtype=np.float32))
        return cls(np.array(kmeans.centroids), sample, n_rows)

    def __len__(self) -> int:
        return self._index.ntotal

    @property
    def numbers(self) -> np.ndarray:
        """The list of each row, (n_rows,)."""
        return np.concatenate([np.empty(0, np.int32), *self._numbers])

    def add(self, rows: np.ndarray, numbers: np.ndarray | None = None) -> None:
        """Put rows into their lists; `numbers` are the lists where they are known already."""
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        if numbers is None:
            numbers = self._index.quantizer.assign(rows, 1)[:, 0]
        wide = np.ascontiguousarray(numbers, dtype=np.int64)
        faiss = require()
        pointer = faiss.swig_ptr
        self._index.add_core(len(rows), pointer(rows), None, pointer(wide))
        self._numbers.append(wide.astype(np.int32))

    def candidates(self, Q: np.ndarray, n: int, left_out: np.ndarray) -> np.ndarray:
        """Return n rows near each query, (n_queries, n); -1 where there are fewer."""
        faiss = require()
        options = {"nprobe": max(1, round(SHARE * self._index.nlist))}
        if left_out.size:
            batch = faiss.IDSelectorBatch(left_out)
            options["sel"] = faiss.IDSelectorNot(batch)
        return self._index.search(Q, n, params=faiss.SearchParametersIVF(**options))[1]
