"""Texts in lists by nearness, by FAISS (extra `[faiss]`): for search among millions.

A query is compared with the texts of the lists nearest to it, numbers of eight bits each. What
comes out is a choice of candidates, whose cosines the caller computes; a text in a list further
away is not found.
"""

from typing import Any

import numpy as np

SHARE = 1 / 16  # of the lists that a query looks into
PER_LIST = 64  # rows by which the middle of a list is learned


def available() -> bool:
    """Whether FAISS is installed."""
    try:
        import faiss  # noqa: F401
    except ImportError:
        return False
    return True


def require() -> Any:
    """FAISS, or an error that says how to get it."""
    try:
        import faiss
    except ImportError:
        raise ImportError(
            "engine='faiss' needs FAISS, which is not installed. Install pacsent[faiss], or use "
            "engine='exact'."
        ) from None
    return faiss


class Lists:
    """Unit rows in lists, by the middle they are nearest to.

    Parameters
    ----------
    middles : array, shape (n_lists, n_dims)
    sample : array, shape (n_rows, n_dims)
        Rows like those that will be added; by them numbers are packed.
    n_learned : int
        Rows there were when the middles were learned.
    """

    def __init__(self, middles: np.ndarray, sample: np.ndarray, n_learned: int):
        faiss = require()
        n_lists, n_dims = middles.shape
        quantizer = faiss.IndexFlatIP(n_dims)
        quantizer.add(np.ascontiguousarray(middles, dtype=np.float32))
        self._index = faiss.IndexIVFScalarQuantizer(
            quantizer, n_dims, n_lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        self._index.train(np.ascontiguousarray(sample, dtype=np.float32))
        self.middles, self.n_learned = middles, n_learned
        self._numbers: list[np.ndarray] = []

    @classmethod
    def learned(cls, sample: np.ndarray, n_rows: int) -> "Lists":
        """Empty lists for n_rows rows of which these are a sample, about 2 sqrt(n_rows) of them."""
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
        """Put rows into their lists, which are looked for unless given."""
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        if numbers is None:
            numbers = self._index.quantizer.assign(rows, 1)[:, 0]
        wide = np.ascontiguousarray(numbers, dtype=np.int64)
        faiss = require()
        pointer = faiss.swig_ptr
        self._index.add_core(len(rows), pointer(rows), None, pointer(wide))
        self._numbers.append(wide.astype(np.int32))

    def candidates(self, Q: np.ndarray, n: int, left_out: np.ndarray) -> np.ndarray:
        """Numbers of n rows near each query, (n_queries, n); -1 where there are fewer."""
        faiss = require()
        how = {"nprobe": max(1, round(SHARE * self._index.nlist))}
        if left_out.size:
            batch = faiss.IDSelectorBatch(left_out)
            how["sel"] = faiss.IDSelectorNot(batch)
        return self._index.search(Q, n, params=faiss.SearchParametersIVF(**how))[1]
