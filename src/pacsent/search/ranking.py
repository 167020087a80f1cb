"""Rows of a snapshot that answer a query best: by cosine, by BM25, or by their sum.

`Ranking.best` chooses one of three ways. By words alone and by cosines alone, rows that cannot be
among the best are skipped if a text is one row. Otherwise every row is scored (its cosine only if
it is a candidate, where FAISS is in use), and of each text the best row counts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pacsent.search.lexical import MIN_TEXTS, Background, QueryWords
from pacsent.search.snapshot import Snapshot

# Weight of BM25 beside the cosine, and the exponent of the cosine before both are standardised.
# Chosen on training queries.
DEFAULT_LEXICAL_WEIGHT = 0.5
_COSINE_EXPONENT = 3.0

# In small collections BM25 varies little, so that an article that one text shares with the query
# would dominate. Lower bound of the standard deviation of BM25, relative to the query's idf.
_MIN_DEVIATION = 0.1

_N_CANDIDATES = 10  # per hit, from FAISS and from BM25, that are compared exactly
_MAX_PRODUCTS = 1 << 24  # cosines in memory at a time
_GROUP_ROWS = 64  # cosines of which the largest is compared first
_BELOW_ALL_COSINES = -2.0
_NO_ROWS = np.empty(0, np.int64)

# Finds rows near a query by FAISS: (q, n, excluded) -> rows.
CandidateFinder = Callable[[np.ndarray, int, np.ndarray], np.ndarray]

# Rows and their scores, best first, both (n,).
Ranked = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Ranking:
    """Ranking of the rows of a snapshot by queries.

    Parameters
    ----------
    snapshot : Snapshot
    lexical_weight : float
        Weight of BM25: 0 for cosines alone, 1 for BM25 alone.
    background : Background or None
        Estimates how rare words are if there are few texts.
    find_candidates : CandidateFinder, optional
        Finds rows near a query. None: all rows are compared.
    """

    snapshot: Snapshot
    lexical_weight: float
    background: Background | None
    find_candidates: CandidateFinder | None = None

    def best(
        self, queries: list[str], Q: np.ndarray, k: int, excluded: np.ndarray
    ) -> Iterator[Ranked]:
        """Yield the best k texts for each query: their best rows, and the scores of these.

        Parameters
        ----------
        queries : list of str
        Q : array, shape (n_queries, n_dims)
            Unit vectors of the queries; zeros for a query without an in-vocabulary word.
        k : int
        excluded : array of bool, shape (n_rows,) or (0,)
            Rows that are no hits.
        """
        is_row_a_text = self.snapshot.owners is None
        if not len(self.snapshot):
            yield from [(_NO_ROWS, np.empty(0))] * len(queries)
        elif is_row_a_text and self.lexical_weight == 1:
            for query in queries:
                words = self.query_words(query)
                yield self.snapshot.bm25.best(words, k, excluded)
        elif is_row_a_text and self.lexical_weight == 0:
            yield from self._nearest(Q, k, excluded)
        else:
            for query, q in zip(queries, Q):
                yield self._best_by_score(query, q, k, excluded)

    def _nearest(self, Q: np.ndarray, k: int, excluded: np.ndarray) -> Iterator[Ranked]:
        """Yield (rows, cosines) of the k rows nearest to each query, best first."""
        if not self._uses_candidates(k):
            yield from exact_nearest(self.snapshot, Q, k, excluded)
            return
        for q in Q:
            rows = self._dense_candidates(q, k, excluded)
            yield rank_rows(self.snapshot, q, rows, k)

    def _best_by_score(self, query: str, q: np.ndarray, k: int, excluded: np.ndarray) -> Ranked:
        """The k texts with the largest scores, each by its best row, best first."""
        candidates = None
        if self._uses_candidates(k):
            candidates = self._dense_candidates(q, k, excluded)
            if self.lexical_weight:
                lexical_candidates = self._lexical_candidates(query, k, excluded)
                candidates = np.union1d(candidates, lexical_candidates)

        scores, rows = self.best_of_texts(query, q, excluded, candidates)
        order = top(scores, k)
        rows = rows[order]
        if not self.lexical_weight:
            return rows, exact_cosines(self.snapshot, q, rows)
        return rows, scores[order].astype(float)

    # ---- candidates ----------------------------------------------------------------------------

    def _uses_candidates(self, k: int) -> bool:
        """True if FAISS finds candidates; of many hits it would miss too many."""
        return self.find_candidates is not None and k <= len(self.snapshot) // 100

    def _dense_candidates(self, q: np.ndarray, k: int, excluded: np.ndarray) -> np.ndarray:
        """Rows whose vectors are near the query, increasing; none for a query without a vector."""
        if self.find_candidates is None or not q.any():
            return _NO_ROWS
        return np.unique(self.find_candidates(q, _N_CANDIDATES * k, excluded))

    def _lexical_candidates(self, query: str, k: int, excluded: np.ndarray) -> np.ndarray:
        """Rows that share words with the query, best first."""
        words = self.query_words(query)
        rows, _ = self.snapshot.bm25.best(words, _N_CANDIDATES * k, excluded)
        return rows

    # ---- scores --------------------------------------------------------------------------------

    def best_of_texts(
        self, query: str, q: np.ndarray, excluded: np.ndarray, rows: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(largest score, its row) of every text, or of those of some sorted rows."""
        scores = self.scores(query, q, rows)
        if excluded.size:
            is_excluded = excluded if rows is None else excluded[rows]
            scores[is_excluded] = -np.inf

        if rows is None:
            rows = np.arange(scores.size)
        owners = self.snapshot.owners
        if owners is None or not scores.size:
            return scores, rows
        return _best_of_groups(scores, rows, owners[rows])

    def scores(self, query: str, q: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Scores of all rows, or of some: cosines, or their sum with BM25; -inf for no relation."""
        if self.lexical_weight == 1:
            bm25 = self.snapshot.bm25.scores(self.query_words(query))
            scores = np.where(bm25 > 0, bm25, np.float32(-np.inf))
            return scores if rows is None else scores[rows]
        if self.lexical_weight == 0:
            cosines, is_comparable = self._cosines(q, rows)
            return np.where(is_comparable, cosines, np.float32(-np.inf))
        return self._sums(query, q, rows)

    def _cosines(self, q: np.ndarray, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Cosines of rows in single precision, and whether the row and the query have a vector."""
        snapshot = self.snapshot
        if rows is None:
            tables = [block.vectors for block in snapshot.blocks]
            has_vector = snapshot.has_vector
        else:
            tables = [snapshot.vectors(rows)]
            has_vector = snapshot.has_vector[rows]

        no_cosines = np.empty(0, np.float32)
        cosines = np.concatenate([no_cosines, *(table @ q for table in tables)])
        return cosines, has_vector & q.any()

    def _sums(self, query: str, q: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """Weighted sums of exp(3 cosine) and BM25, each standardised over rows."""
        words = self.query_words(query)
        bm25 = self.snapshot.bm25.scores(words)  # of all rows
        mean, deviation = self._bm25_moments(bm25, words)
        if rows is not None:
            bm25 = bm25[rows]
        cosines, is_comparable = self._cosines(q, rows)

        scores = np.zeros(cosines.size, np.float32)
        if deviation > 0:
            scores += self.lexical_weight * (bm25 - mean) / deviation

        # Moments of the similarity are those of evenly spaced rows.
        sample = np.exp(_COSINE_EXPONENT * (self.snapshot.sample @ q))
        if q.any() and sample.std() > 0:
            similarity = np.exp(_COSINE_EXPONENT * cosines)
            standardized = (similarity - sample.mean()) / sample.std()
            scores += (1 - self.lexical_weight) * standardized

        is_unrelated = ~is_comparable & (bm25 == 0)
        scores[is_unrelated] = -np.inf
        return scores

    def _bm25_moments(self, bm25: np.ndarray, words: QueryWords) -> tuple[float, float]:
        """Mean and standard deviation of BM25 over the rows that were not deleted."""
        deleted = self.snapshot.excluded()
        kept = bm25[~deleted] if deleted.size else bm25
        mean = float(kept.mean(dtype=float))
        deviation = float(kept.std(dtype=float))
        if kept.size < MIN_TEXTS:
            min_deviation = _MIN_DEVIATION * float(words.weights.sum())
            deviation = max(deviation, min_deviation)
        return mean, deviation

    def query_words(self, query: str) -> QueryWords:
        """The words of a query with their weights in BM25."""
        return self.snapshot.bm25.words(query, self.background)


def _best_of_groups(
    scores: np.ndarray, rows: np.ndarray, owners: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(largest score, the first row that has it) of each owner; `owners` do not decrease."""
    is_first = np.concatenate([[True], np.diff(owners) > 0])
    starts = np.flatnonzero(is_first)
    sizes = np.diff(np.append(starts, owners.size))
    best = np.maximum.reduceat(scores, starts)  # (n_groups,)

    is_best = np.repeat(best, sizes) == scores
    best_places = np.flatnonzero(is_best)
    first_places = best_places[np.searchsorted(best_places, starts)]
    return best, rows[first_places]


def exact_nearest(
    snapshot: Snapshot, Q: np.ndarray, k: int, excluded: np.ndarray
) -> Iterator[Ranked]:
    """Yield (rows, cosines) of the k nearest rows of each query, in the order of exact cosines.

    Queries must have unit length, as the vectors of a snapshot have, or be zero: their products
    are taken as cosines, and rounding errors are bounded for that length. A query of zeros yields
    no rows.

    Cosines are computed in single precision. Those that rounding could have moved among the best k
    are computed again in double precision; of equal cosines the earlier row comes first.
    """
    n_rows = len(snapshot)
    k = min(k, n_rows)
    is_omitted = ~snapshot.has_vector
    if excluded.size:
        is_omitted |= excluded
    omitted = np.flatnonzero(is_omitted)

    # Each of n_dims products and sums of single precision is off by at most 2^-24 of itself, in
    # whatever order they are added, and the sum of their sizes is at most 1 (Cauchy-Schwarz) but
    # for the rounding of lengths. Two cosines can differ by twice that.
    slack = 2.0 * (Q.shape[1] + 4) * 2.0**-24

    n_queries = max(1, _MAX_PRODUCTS // n_rows)
    group_size = max(1, min(_GROUP_ROWS, n_rows // (4 * k)))
    for start in range(0, len(Q), n_queries):
        batch = Q[start : start + n_queries]
        parts = [batch @ block.vectors.T for block in snapshot.blocks]
        cosines = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        cosines[:, omitted] = _BELOW_ALL_COSINES  # (n_batch, n_rows)

        # The k-th largest of the largest cosines of groups is at most the k-th largest of all, and
        # found faster.
        n_grouped = n_rows // group_size * group_size
        groups = cosines[:, :n_grouped].reshape(len(batch), group_size, -1)
        largest_of_groups = groups.max(axis=1)  # (n_batch, n_groups)
        thresholds = np.partition(largest_of_groups, -k, axis=1)[:, -k] - slack

        for q, query_cosines, threshold in zip(batch, cosines, thresholds):
            if not q.any():
                yield _NO_ROWS, np.empty(0)
                continue

            is_near = (query_cosines >= threshold) & (query_cosines > _BELOW_ALL_COSINES)
            yield rank_rows(snapshot, q, np.flatnonzero(is_near), k)


def exact_cosines(snapshot: Snapshot, q: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Cosines of rows, in double precision."""
    order = np.argsort(rows)
    X = snapshot.vectors(rows[order]).astype(float)

    # Unlike a product of BLAS, einsum gives equal rows equal cosines.
    cosines = np.empty(len(rows))
    cosines[order] = np.einsum("ij,j->i", X, q.astype(float))
    return cosines


def rank_rows(snapshot: Snapshot, q: np.ndarray, rows: np.ndarray, k: int) -> Ranked:
    """(rows, cosines) of the k nearest of some rows that have a vector, best first."""
    rows = rows[snapshot.has_vector[rows]]
    cosines = exact_cosines(snapshot, q, rows)
    order = np.lexsort((rows, -cosines))[:k]
    return rows[order], cosines[order]


def top(scores: np.ndarray, k: int) -> np.ndarray:
    """Positions of the k largest scores above -inf, best first, the earlier of equal ones."""
    positions = np.arange(scores.size)
    if k < scores.size:
        least = np.partition(scores, scores.size - k)[-k]
        positions = np.flatnonzero(scores >= least)
    positions = positions[scores[positions] > -np.inf]
    order = np.argsort(-scores[positions], kind="stable")
    return positions[order[:k]]
