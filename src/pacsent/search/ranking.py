"""Which rows of a snapshot answer a query best: by cosine, or by cosine and BM25."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pacsent.search import lexical
from pacsent.search.snapshot import Snapshot

# Weight of BM25 beside the cosine, and the exponent of the cosine before both are standardised.
# Chosen on training queries.
DEFAULT_LEXICAL_WEIGHT = 0.5
_COSINE_EXPONENT = 3.0

# Among few texts an article that one of them shares with the query has a small BM25, yet many
# standard deviations of it: these are at least this fraction of the idf of the query's words.
_MIN_DEVIATION = 0.1

_N_CANDIDATES = 10  # per hit, from FAISS and from BM25, that are compared exactly
_MAX_PRODUCTS = 1 << 24  # cosines in memory at a time
_GROUP_ROWS = 64  # cosines of which the largest is compared first
_NOTHING = -2.0  # below every cosine
_NO_ROWS = np.empty(0, np.int64)

# Finds rows near a query by FAISS: (q, n, excluded) -> rows.
Lists = Callable[[np.ndarray, int, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Ranking:
    """How queries rank the rows of a snapshot.

    `lexical_weight` is that of BM25, 0 for cosines alone; `background` estimates how rare words are
    if there are few texts; `lists` finds candidates, None to compare all rows.
    """

    snapshot: Snapshot
    lexical_weight: float
    background: lexical.Background | None
    lists: Lists | None = None

    def best(
        self, queries: list[str], Q: np.ndarray, k: int, excluded: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (rows, scores) of the best k texts for each query, best first."""
        snapshot = self.snapshot
        if not len(snapshot):
            yield from [(_NO_ROWS, np.empty(0))] * len(queries)
            return
        if self.lexical_weight == 1 and snapshot.owners is None:
            for query in queries:
                yield snapshot.bm25.best(self.query_words(query), k, excluded)
            return
        lists = self.lists if k <= len(snapshot) // 100 else None
        if not self.lexical_weight and snapshot.owners is None:
            if lists is None:
                nearest = exact_nearest(snapshot, Q, k, excluded)
            else:
                near = (lists(q, _N_CANDIDATES * k, excluded) if q.any() else _NO_ROWS for q in Q)
                nearest = (rank_rows(snapshot, q, rows, k) for q, rows in zip(Q, near))
            yield from nearest
            return
        for query, q in zip(queries, Q):
            candidates = None
            if lists is not None:
                n = _N_CANDIDATES * k
                candidates = lists(q, n, excluded) if q.any() else _NO_ROWS
                if self.lexical_weight:
                    lexical_rows, _ = snapshot.bm25.best(self.query_words(query), n, excluded)
                    candidates = np.concatenate([candidates, lexical_rows])
                candidates = np.unique(candidates)
            scores, rows = self.best_of_texts(query, q, excluded, candidates)
            order = top(scores, k)
            rows, scores = rows[order], scores[order].astype(float)
            yield rows, scores if self.lexical_weight else exact_cosines(snapshot, q, rows)

    def best_of_texts(
        self, query: str, q: np.ndarray, excluded: np.ndarray, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(largest score, its row) of every text, or of those of some sorted rows."""
        scores, owners = self.scores(query, q, rows), self.snapshot.owners
        if excluded.size:
            scores[excluded if rows is None else excluded[rows]] = -np.inf
        rows = np.arange(scores.size) if rows is None else rows
        if owners is None or not scores.size:
            return scores, rows
        owners = owners[rows]  # they do not decrease
        starts = np.flatnonzero(np.concatenate([[True], np.diff(owners) > 0]))
        best = np.maximum.reduceat(scores, starts)
        is_best = np.flatnonzero(np.repeat(best, np.diff(np.append(starts, owners.size))) == scores)
        return best, rows[is_best[np.searchsorted(is_best, starts)]]

    def scores(self, query: str, q: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Scores of all rows, or of some: cosines, or their sum with BM25; -inf for no relation."""
        snapshot = self.snapshot
        if self.lexical_weight:
            words = self.query_words(query)
            bm25 = snapshot.bm25.scores(words)
            if self.lexical_weight == 1:
                scores = np.where(bm25 > 0, bm25, np.float32(-np.inf))
                return scores if rows is None else scores[rows]
        tables = [block.vectors for block in snapshot.blocks]
        if rows is not None:
            tables = [snapshot.vectors(rows)]
        cosines = np.concatenate([np.empty(0, np.float32), *(X @ q for X in tables)])
        known = snapshot.has_vector if rows is None else snapshot.has_vector[rows]
        if not self.lexical_weight:
            return np.where(known & q.any(), cosines, np.float32(-np.inf))
        # Both parts are standardised over the texts before they are added.
        excluded = snapshot.excluded()
        kept = bm25[~excluded] if excluded.size else bm25
        mean, deviation = float(kept.mean(dtype=float)), float(kept.std(dtype=float))
        if kept.size < lexical.MIN_TEXTS:
            deviation = max(deviation, _MIN_DEVIATION * float(words.weights.sum()))
        if rows is not None:
            bm25 = bm25[rows]
        scores = np.zeros(cosines.size, np.float32)
        if deviation > 0:
            scores += self.lexical_weight * (bm25 - mean) / deviation
        sample = np.exp(_COSINE_EXPONENT * (snapshot.sample @ q))
        if q.any() and sample.std() > 0:
            similarity = (np.exp(_COSINE_EXPONENT * cosines) - sample.mean()) / sample.std()
            scores += (1 - self.lexical_weight) * similarity
        scores[~(known & q.any()) & (bm25 == 0)] = -np.inf
        return scores

    def query_words(self, query: str) -> lexical.QueryWords:
        """The words of a query with their weights in BM25."""
        return self.snapshot.bm25.words(query, self.background)


def exact_nearest(
    snapshot: Snapshot, Q: np.ndarray, k: int, excluded: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (rows, cosines) of the k nearest rows of each query, in the order of exact cosines.

    Cosines are computed in single precision. Those that rounding could have moved among the best k
    are computed again in double precision; of equal cosines the earlier row comes first.
    """
    n = len(snapshot)
    k = min(k, n)
    omitted = np.flatnonzero(~snapshot.has_vector | (excluded if excluded.size else False))
    # Each of n_dims products and sums of single precision is off by at most 2^-24 of itself, in
    # whatever order they are added, and the sum of their sizes is at most 1 (Cauchy-Schwarz) but
    # for the rounding of lengths. Two cosines can differ by twice that.
    slack = 2.0 * (Q.shape[1] + 4) * 2.0**-24
    n_queries = max(1, _MAX_PRODUCTS // n)
    group = max(1, min(_GROUP_ROWS, n // (4 * k)))
    for start in range(0, len(Q), n_queries):
        batch = Q[start : start + n_queries]
        parts = [batch @ block.vectors.T for block in snapshot.blocks]
        cosines = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        cosines[:, omitted] = _NOTHING
        # The k-th largest of the largest cosines of groups is at most the k-th largest of all, and
        # found faster.
        groups = cosines[:, : n // group * group].reshape(len(batch), group, -1)
        thresholds = np.partition(groups.max(axis=1), -k, axis=1)[:, -k] - slack
        for q, line, threshold in zip(batch, cosines, thresholds):
            if not q.any():
                yield _NO_ROWS, np.empty(0)
                continue
            rows = np.flatnonzero((line >= threshold) & (line > _NOTHING))
            yield rank_rows(snapshot, q, rows, k)


def exact_cosines(snapshot: Snapshot, q: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Cosines of rows, in double precision."""
    order = np.argsort(rows)
    cosines = np.empty(len(rows))
    # Unlike a product of BLAS, einsum gives equal rows equal cosines.
    X = snapshot.vectors(rows[order]).astype(float)
    cosines[order] = np.einsum("ij,j->i", X, q.astype(float))
    return cosines


def rank_rows(
    snapshot: Snapshot, q: np.ndarray, rows: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, cosines) of the k nearest of some rows that have a vector, best first."""
    rows = rows[snapshot.has_vector[rows]]
    cosines = exact_cosines(snapshot, q, rows)
    order = np.lexsort((rows, -cosines))[:k]
    return rows[order], cosines[order]


def top(scores: np.ndarray, k: int) -> np.ndarray:
    """Positions of the k largest scores above -inf, best first, the earlier of equal ones."""
    positions = np.arange(scores.size)
    if k < scores.size:
        positions = np.flatnonzero(scores >= np.partition(scores, scores.size - k)[-k])
    positions = positions[scores[positions] > -np.inf]
    return positions[np.argsort(-scores[positions], kind="stable")[:k]]
