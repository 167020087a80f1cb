"""Index: search texts by meaning and by words, with guarantees from queries with known answers."""

import threading
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from pacsent import registry
from pacsent.arrays import unit_rows
from pacsent.bounds.checks import check_count, check_probability, is_count
from pacsent.bounds.rounding import format_count
from pacsent.certify import read_certificate
from pacsent.certify.error_certificate import candidates
from pacsent.certify.independence import as_seed, dependent_clusters
from pacsent.certify.repeats import COPIES, SAME, TRAFFIC, check_repeats, draw_samples
from pacsent.search import SearchCertificate, faiss_index
from pacsent.search.calibration import CalibrationQueries, ThresholdRule
from pacsent.search.chunking import split_passages
from pacsent.search.faiss_index import InvertedLists
from pacsent.search.lexical import Background, Postings
from pacsent.search.metadata import Columns
from pacsent.search.ranking import DEFAULT_LEXICAL_WEIGHT, CandidateFinder, Ranking, top
from pacsent.search.snapshot import Block, Hit, Snapshot
from pacsent.sentences.encoder import Encoder, check_encoder
from pacsent.sentences.external_encoders import as_search_encoder
from pacsent.storage import State, checked_tensor
from pacsent.text.ngrams import is_empty
from pacsent.text.texts import as_texts

_SETTINGS = ("encoder", "query_encoder", "lexical", "chunk")  # cannot be set after construction
ENGINES = ("auto", "exact", "faiss")
_MAX_EXACT_TEXTS = 1_000_000  # above which "auto" uses FAISS
_MAX_GROWTH = 4  # rows now over rows when FAISS learned its lists, beyond which it learns again
# Names of the arrays with the calibration queries of each sample.
_CALIBRATION = {
    SAME: "calibration",
    TRAFFIC: "calibration_traffic",
    COPIES: "calibration_copies",
}
# Queries that a guarantee is for, by the reason why queries repeat.
_NEW_QUERIES = {
    None: "new queries",
    TRAFFIC: "new queries, repeats included,",
    COPIES: "new distinct queries",
}
_DEFAULT_DELTA = 0.05
_MIN_KEPT_FRACTION = 1 / 16  # of the rows; a filter that keeps fewer is searched exactly


class Hits(list):
    """Hits with a guarantee, which `summary()` states; `no_answer` if no text answers the query.

    Examples
    --------
    >>> hits = Hits([Hit(3, 1.7, "the cat slept")], "With 95% confidence ...")
    >>> hits.no_answer, hits.summary()
    (False, 'With 95% confidence ...')
    """

    def __init__(self, hits: Iterable[Hit], guarantee: str):
        super().__init__(hits)
        self._guarantee = guarantee
        self.no_answer = not self

    def summary(self) -> str:
        """Guarantee of a search and its conditions.

        Returns
        -------
        str
            A sentence; empty for a search without a certificate.
        """
        return self._guarantee


class Index:
    """Texts and their vectors; `search` finds the texts nearest to a query.

    The search is exact unless FAISS finds the candidates (`engine`): every text is compared. Of
    texts with equal scores the earlier comes first. `pacsent.save` stores an index with its encoder
    as a folder, which `pacsent.load` opens by memory map. Texts can be added and deleted at any
    time, also by several threads.

    Parameters
    ----------
    encoder : encoder
        A method of pacsent (fitted, if it learns from text), the name of a model such as "english"
        (its encoder of sentences and SIF-sum together), or any encoder that `as_encoder` takes: an
        object with `encode`, a function, a URL.
    lexical : bool or float, default=True
        Whether to search by words as well: hits are ordered by the sum of exp(3 cosine) and BM25,
        each standardised over the rows, cosines over at most 4,096 of them. A number is the weight
        of BM25, from 0 to 1; True is 0.5. False orders by the cosine alone, in double precision,
        and 1 by BM25 alone.
    chunk : bool, default=False
        Cut texts into passages of whole sentences, of 120 words at most. A text is then found by
        its best passage.
    engine : {"auto", "exact", "faiss"}, default="auto"
        "exact" compares a query with every text. "faiss" (extra `[faiss]`) sorts the texts into
        inverted lists at the first search, and compares a query with those of the nearest
        sixteenth: this is faster among millions of texts and misses a few of the nearest; cosines
        are exact. "auto" uses "faiss" above a million texts if it is installed; `engine_` is the
        engine in use.
    query_encoder : encoder, optional
        Encodes queries in place of `encoder`, into the same space: a static one that was distilled
        from it answers without a transformer or a server. Its vectors must have the same length.

    Examples
    --------
    >>> from pacsent import Index
    >>> from pacsent.datasets import load_banking
    >>> texts, intents = load_banking(n_classes=12)  # messages to a bank
    >>> index = Index("english")
    >>> ids = index.add(texts, metadata=[{"intent": intent} for intent in intents])
    >>> [hit.text for hit in index.search("the ATM swallowed my card", k=2)]
    ['My card wont work at an ATM', "Is my card broken? I can't get cash out of the ATM"]
    >>> where = {"intent": "transaction_charged_twice"}
    >>> index.search("my coffee", k=1, where=where)[0].text
    'Hello. I checked my transactions and saw I was double charged for a restaurant visit. ...'
    """

    kind = "Index"

    def __init__(
        self,
        encoder: Any,
        engine: str = "auto",
        *,
        query_encoder: Any = None,
        lexical: bool | float = True,
        chunk: bool = False,
    ):
        if not isinstance(lexical, bool | Real) or not 0 <= lexical <= 1:
            raise ValueError(
                f"lexical must be True, False or a weight from 0 to 1. Got {lexical!r} instead."
            )
        if not isinstance(chunk, bool):
            raise TypeError(f"chunk must be True or False. Got {chunk!r} instead.")
        if engine not in ENGINES:
            raise ValueError(f"engine must be one of {', '.join(ENGINES)}. Got {engine!r} instead.")
        if engine == "faiss":
            faiss_index.require()

        self.encoder = as_search_encoder(encoder)
        self.query_encoder = None if query_encoder is None else as_search_encoder(query_encoder)
        self.engine = engine
        self.lexical = DEFAULT_LEXICAL_WEIGHT if lexical is True else float(lexical)
        self.chunk = chunk

        # Both are of the texts as they were at `certify`, and dropped when a text changes. The
        # queries are those of each sample, by its name, where queries repeat.
        self.calibration_: dict[str, CalibrationQueries] | None = None
        self.certificate_: SearchCertificate | None = None

        self._snapshot = Snapshot()
        self._next_number = 0
        self._lists: InvertedLists | None = None
        self._lock = threading.RLock()

    @property
    def engine_(self) -> str:
        """The engine in use: "exact" or "faiss"."""
        if self.engine != "auto":
            return self.engine
        if len(self._snapshot) > _MAX_EXACT_TEXTS and faiss_index.available():
            return "faiss"
        return "exact"

    def __len__(self) -> int:
        snapshot = self._snapshot
        return snapshot.n_texts - snapshot.deleted.size

    def __repr__(self) -> str:
        return f"Index(n_texts={len(self)}, encoder={type(self.encoder).__name__})"

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        del state["_lock"]
        del state["_lists"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lists=None, _lock=threading.RLock())

    def __setattr__(self, name: str, value: Any) -> None:
        is_new = name not in vars(self)
        if name in _SETTINGS and not is_new:
            raise AttributeError(
                f"{name} must stay as it is: the texts of an index and its certificate depend on "
                f"it. Got {value!r} instead of {getattr(self, name)!r}. Make a new Index with it, "
                "and add the texts."
            )
        super().__setattr__(name, value)
        if name == "engine" and not is_new:  # another one may find other hits
            self.calibration_ = None
            self.certificate_ = None

    # ---- texts ---------------------------------------------------------------------------------

    def add(self, texts: Iterable[str], metadata: Any = None) -> np.ndarray:
        """Add texts.

        Parameters
        ----------
        texts : iterable of str
            Empty texts get a number, and are left out.
        metadata : list of mappings, or mapping of columns, optional
            Texts, numbers, true or false, for filters: `search(query, where={"year": 2024})`.

        Returns
        -------
        array of int
            The numbers of the texts. They continue from the last; a number is never used twice.
        """
        texts = as_texts(texts)
        if not texts:
            return np.arange(0)

        # Encoded before the lock is taken, so that no other thread waits for the encoder.
        block = self._make_block(texts, Columns.of(metadata, len(texts)))
        empty_rows = np.flatnonzero([is_empty(text) for text in texts])
        with self._lock:
            ids = np.arange(self._next_number, self._next_number + len(texts))
            snapshot = self._snapshot.with_block(replace(block, ids=ids))
            if empty_rows.size:
                snapshot = snapshot.without(set(ids[empty_rows].tolist()))
            self._replace(snapshot)
            self._next_number += len(texts)

        if empty_rows.size:
            warnings.warn(
                f"{format_count(empty_rows.size, 'empty text')} left out (first: row "
                f"{empty_rows[0]:,}, counted from 0): no query finds them.",
                stacklevel=2,
            )
        return ids

    def delete(self, ids: Iterable[int]) -> None:
        """Delete texts.

        Parameters
        ----------
        ids : int or iterable of int
            Their numbers; ValueError for a number that is not there.
        """
        numbers = _as_numbers(ids)
        with self._lock:
            self._replace(self._snapshot.without(set(numbers)))

    def update(self, ids: Iterable[int], texts: Iterable[str], metadata: Any = None) -> None:
        """Replace the texts and the metadata of some numbers.

        Parameters
        ----------
        ids : iterable of int
            Numbers of texts, which must be there.
        texts : iterable of str
            One for each number.
        metadata : list of mappings, or mapping of columns, optional
            As for `add`; without it that of each text stays.
        """
        numbers = _as_numbers(ids)
        texts = as_texts(texts)
        n_different = len(set(numbers))
        if len(numbers) != len(texts) or n_different != len(texts):
            raise ValueError(
                f"ids must be one number for each of the {len(texts):,} texts, each once. Got "
                f"{len(numbers):,} instead."
            )

        with self._lock:
            snapshot = self._snapshot.without(set(numbers))
            if metadata is None:
                metadata = [self.metadata(number) for number in numbers]
            block = self._make_block(texts, Columns.of(metadata, len(texts)))
            block = replace(block, ids=np.array(numbers, np.int64))
            self._replace(snapshot.with_block(block))

    def text(self, number: int) -> str:
        """Return a text.

        Parameters
        ----------
        number : int

        Returns
        -------
        text : str
        """
        block, position = self._snapshot.locate(number)
        return block.texts[position]

    def metadata(self, number: int) -> dict[str, Any]:
        """Return the metadata of a text.

        Parameters
        ----------
        number : int

        Returns
        -------
        metadata : dict
            The values by column; empty if the text has none.
        """
        block, position = self._snapshot.locate(number)
        return block.columns.row(position)

    def _make_block(self, texts: list[str], columns: Columns) -> Block:
        """Encode texts, or their passages. `ids` is empty: the caller fills it."""
        spans = None
        rows = texts
        if self.chunk:
            passages = _find_passages(texts)
            spans = np.array(passages, dtype=np.int64).reshape(-1, 3)
            rows = [texts[position][begin:end] for position, begin, end in passages]

        vectors = self._encode(rows)
        postings = None
        if self.lexical:
            postings = Postings.of(rows)
        return Block(
            vectors=vectors,
            ids=np.empty(0, np.int64),
            texts=texts,
            columns=columns,
            spans=spans,
            postings=postings,
        )

    def _encode(self, texts: list[str]) -> np.ndarray:
        """Unit vectors; all zero for a text without an in-vocabulary word."""
        return self._unit_vectors(self.encoder, texts)

    def _encode_queries(self, queries: list[str]) -> np.ndarray:
        """Unit vectors in the space of the texts, (n_queries, n_dims)."""
        if self.query_encoder is None:
            return self._encode(queries)
        vectors = self._unit_vectors(self.query_encoder, queries)
        if vectors.shape[1] != self.encoder.n_dims:
            raise ValueError(
                f"query_encoder must return vectors of {self.encoder.n_dims} numbers, as "
                f"encoder does. Got {vectors.shape[1]} instead. Distil it from that encoder."
            )
        return vectors

    def _unit_vectors(self, encoder: Encoder, texts: list[str]) -> np.ndarray:
        with self._lock:
            encoder.fit_if_stateless()
        vectors = np.asarray(encoder.encode(texts), dtype=np.float32)
        return unit_rows(vectors)

    def _replace(self, snapshot: Snapshot) -> None:
        """Use other texts. What was certified does not hold for them."""
        self._snapshot = snapshot
        self.calibration_ = None
        self.certificate_ = None

    # ---- search --------------------------------------------------------------------------------

    def search(
        self,
        query: str | Iterable[str],
        k: int = 10,
        *,
        where: Mapping[str, Any] | None = None,
        guarantee: float | None = None,
        delta: float | None = None,
    ) -> list:
        """Find the k best texts.

        Parameters
        ----------
        query : str or iterable of str
        k : int, default=10
        where : mapping, optional
            Values that the metadata must have: {"year": 2024}, {"year": [2023, 2024]} for one of
            several, {"year": {">=": 2020}} for a comparison. A column that no text has is an error.
        guarantee : float, optional
            Return as many hits as are needed so that the right text is among them for at least
            this fraction of queries, with probability 1 - delta, instead of k; none if no text
            answers the query. Needs `certify` before. Every text is compared.
        delta : float, optional
            Probability that the guarantee fails; by default that of `certify`. It is divided by the
            `n_candidates` of `certify`.

        Returns
        -------
        list of Hit, best first; for several queries a list of such lists
            Fewer than k if there are fewer texts. A query of OOV words only finds nothing by
            its vector. With `guarantee`, `Hits`.
        """
        k = check_count("k", k)
        queries = [query] if isinstance(query, str) else as_texts(query, "query")
        if guarantee is not None and where is not None:
            raise ValueError("guarantee must be given without where: it holds for all texts.")

        snapshot = self._snapshot  # other threads may replace it
        results: list
        if guarantee is None:
            results = self._best_hits(queries, snapshot, k, where)
        else:
            results = self._guaranteed_hits(queries, snapshot, guarantee, delta)
        return results[0] if isinstance(query, str) else results

    def _best_hits(
        self, queries: list[str], snapshot: Snapshot, k: int, where: Mapping[str, Any] | None
    ) -> list[list[Hit]]:
        """The k best texts for each query."""
        excluded = snapshot.excluded(where)
        finder = self._candidate_finder(snapshot, excluded)
        ranking = self._ranking(snapshot, finder)
        Q = self._encode_queries(queries)
        ranked = ranking.best(queries, Q, k, excluded)
        return [snapshot.hits(rows, scores) for rows, scores in ranked]

    def _ranking(
        self, snapshot: Snapshot, find_candidates: CandidateFinder | None = None
    ) -> Ranking:
        """A ranking of the rows of a snapshot: of those that are found, or of all."""
        background = self._background() if self.lexical else None
        return Ranking(snapshot, self.lexical, background, find_candidates)

    def _background(self) -> Background | None:
        """Frequencies of words in the vocabulary of the encoder, if it has one with counts."""
        all_words = [part.word_vectors for part in self.encoder.parts]
        vocabularies = [words.vocabulary for words in all_words if words is not None]
        counted = [vocabulary for vocabulary in vocabularies if vocabulary.counts is not None]
        return Background.of(counted[-1]) if counted else None

    def _candidate_finder(self, snapshot: Snapshot, excluded: np.ndarray) -> CandidateFinder | None:
        """FAISS, if it is in use and enough rows are left; None to compare all rows."""
        if self.engine_ != "faiss":
            return None
        n_kept = len(snapshot) - int(np.count_nonzero(excluded))
        if n_kept < _MIN_KEPT_FRACTION * len(snapshot):
            return None
        return partial(self._candidates, snapshot)

    def _candidates(
        self, snapshot: Snapshot, q: np.ndarray, n: int, excluded: np.ndarray
    ) -> np.ndarray:
        """Rows near a query by FAISS, which does not search while rows are added."""
        with self._lock:
            if self._lists is None or len(snapshot) > _MAX_GROWTH * self._lists.n_learned:
                self._lists = InvertedLists.learn([block.vectors for block in snapshot.blocks])

            # Rows that were added since.
            first = 0  # row of the block
            for block in snapshot.blocks:
                n_listed = max(0, len(self._lists) - first)
                self._lists.add(block.vectors[n_listed:])
                first += len(block.vectors)
            rows = self._lists.candidates(q, n, excluded)
        return rows[rows < len(snapshot)]

    # ---- guarantees ----------------------------------------------------------------------------

    def certify(
        self,
        queries: Iterable[str],
        answers: Iterable[int],
        k: int = 10,
        delta: float = 0.05,
        random_state: int | None = None,
        *,
        repeats: str | None = None,
        n_candidates: int = 1,
    ) -> SearchCertificate:
        """Bound how often the right text is not among the first k.

        Parameters
        ----------
        queries : iterable of str
            Drawn independently, as later queries will be, and not used to choose anything here.
        answers : iterable of int, or of several each
            The numbers of the text, or texts, that are right for each query.
        k : int, default=10
        delta : float, default=0.05
            Probability that the guarantee fails.
        random_state : int, RandomState, Generator or None, default=None
            Draws one of near-duplicate queries. The seed, drawn unless it is an int, is recorded.
        repeats : {"traffic", "copies"} or None, default=None
            Why queries repeat: frequent ones are asked again, and all count; or copies were made of
            distinct queries, and each of these counts once. None: it is not known, and what is
            guaranteed holds in both cases. Choose by how the queries were collected, never by which
            number is smaller.
        n_candidates : int, default=1
            Indexes, encoders or settings that are compared on these queries before this one is
            kept. `search(guarantee=)` corrects for them as well.

        Returns
        -------
        SearchCertificate
            `error_upper` bounds the fraction of queries whose right text is not among the first k.
            What `search(query, guarantee=...)` needs is kept until a text changes.

        Examples
        --------
        >>> index = Index("english")
        >>> ids = index.add(["red wine", "the cat slept", "shares fell"])
        >>> certificate = index.certify(["kitten", "stocks", "a glass"], [1, 2, 0], k=1)
        >>> certificate.n, certificate.n_errors
        (3, 0)
        """
        queries = as_texts(queries, "queries")
        k = check_count("k", k)
        snapshot = self._snapshot
        right_positions = _positions_of_answers(snapshot, queries, answers)
        check_repeats(repeats)
        seed = as_seed(random_state)

        # The rows of all samples are searched once; `places` are those of a sample among them.
        clusters = dependent_clusters(queries)
        samples = draw_samples(clusters, repeats, seed)
        all_sampled = np.concatenate(list(samples.values()))
        rows = np.unique(all_sampled)
        places = {name: np.searchsorted(rows, sampled) for name, sampled in samples.items()}
        sampled_queries = [queries[row] for row in rows]
        right = [right_positions[row] for row in rows]
        Q = self._encode_queries(sampled_queries)

        is_missed = self._are_missed(snapshot, sampled_queries, Q, right, k)  # (n_rows,)
        n_repeats = len(queries) - np.unique(clusters).size
        counts = {}
        for name, place in places.items():
            counts[name] = {
                "n": place.size,
                "n_errors": int(is_missed[place].sum()),
                "n_duplicates": n_repeats,
            }
        certificate = SearchCertificate.from_samples(
            counts,
            delta=check_probability("delta", delta),
            repeats=repeats,
            n_hits=k,
            n_texts=len(self),
            random_state=seed,
            corrections=candidates(n_candidates),
        )

        best, of_right = self._calibration_scores(snapshot, sampled_queries, Q, right)
        calibration = {}
        for name, place in places.items():
            calibration[name] = CalibrationQueries(best[place], of_right[place])
        self.calibration_ = calibration
        self.certificate_ = certificate
        return certificate

    def _are_missed(
        self,
        snapshot: Snapshot,
        queries: list[str],
        Q: np.ndarray,
        right: list[np.ndarray],
        k: int,
    ) -> np.ndarray:
        """Mask of the queries without a text of `right`, positions of texts, among the first k."""
        excluded = snapshot.excluded()
        owners = snapshot.owners
        finder = self._candidate_finder(snapshot, excluded)
        ranking = self._ranking(snapshot, finder)

        is_missed = np.zeros(len(queries), bool)
        ranked = ranking.best(queries, Q, k, excluded)
        for i, (rows, _) in enumerate(ranked):
            positions = rows if owners is None else owners[rows]
            is_right = np.isin(positions, right[i])
            is_missed[i] = not is_right.any()
        return is_missed

    def _calibration_scores(
        self, snapshot: Snapshot, queries: list[str], Q: np.ndarray, right: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The largest score of a text, and that of a right text, for each query."""
        excluded = snapshot.excluded()
        ranking = self._ranking(snapshot)
        best = np.empty(len(queries))
        of_right = np.empty(len(queries))
        for i, (query, q) in enumerate(zip(queries, Q)):
            scores, _ = ranking.best_of_texts(query, q, excluded)  # (n_texts,)
            best[i] = scores.max(initial=-np.inf)
            of_right[i] = scores[right[i]].max()
        return best, of_right

    def _guaranteed_hits(
        self, queries: list[str], snapshot: Snapshot, guarantee: float, delta: float | None
    ) -> list[Hits]:
        """The texts for each query that are needed to find the right one."""
        rule = self._threshold_rule(guarantee, delta)
        ranking = self._ranking(snapshot)
        excluded = snapshot.excluded()
        Q = self._encode_queries(queries)

        results = []
        for query, q in zip(queries, Q):
            scores, rows = ranking.best_of_texts(query, q, excluded)  # (n_texts,)
            is_needed = scores >= rule.threshold(scores)
            scores = np.where(is_needed, scores, -np.inf)
            order = top(scores, scores.size)
            hits = snapshot.hits(rows[order], scores[order])
            results.append(Hits(hits, rule.statement))
        return results

    def _threshold_rule(self, guarantee: float, delta: float | None) -> ThresholdRule:
        """The rule that says how many hits a query needs."""
        if self.calibration_ is None:
            raise ValueError(
                "guarantee needs an index that was certified since its texts last changed. Call "
                "index.certify(queries, answers), or pacsent certify INDEX QUERIES --overwrite."
            )

        certified_delta = _DEFAULT_DELTA
        repeats = None
        n_candidates = 1
        if self.certificate_ is not None:
            certified_delta = self.certificate_.delta
            repeats = self.certificate_.repeats
            n_candidates = self.certificate_.n_candidates
        if delta is None:
            delta = certified_delta

        samples = list(self.calibration_.values())
        return ThresholdRule.of(samples, guarantee, delta, _NEW_QUERIES[repeats], n_candidates)

    # ---- saving --------------------------------------------------------------------------------

    def state(self) -> State:
        """The parts of a folder, as `pacsent.save` writes them: texts, vectors and the encoder.

        Returns
        -------
        state : State
        """
        with self._lock:
            snapshot = self._snapshot
            lists = self._lists
            next_number = self._next_number
        self._encode([])
        block = snapshot.compacted(self.encoder.n_dims)

        config: dict[str, Any] = {
            "n_texts": len(block.ids),
            "engine": self.engine,
            "lexical": self.lexical,
            "chunk": self.chunk,
            "columns": list(block.columns.codes),
        }
        if self.certificate_ is not None:
            config["certificate"] = self.certificate_.to_json()

        tensors = block.to_tensors()
        tensors["next_id"] = np.array(next_number, dtype=np.int64)
        for name, queries in (self.calibration_ or {}).items():
            tensors[_CALIBRATION[name]] = np.array(queries)

        unchanged = not snapshot.deleted.size and np.array_equal(snapshot.ids, block.ids)
        if lists is not None and unchanged and len(lists) == len(snapshot):
            tensors["faiss"] = lists.to_array()
            tensors["faiss_n_learned"] = np.array(lists.n_learned, dtype=np.int64)

        parts = {"encoder": self.encoder}
        if self.query_encoder is not None:
            parts["query_encoder"] = self.query_encoder
        return State(config, tensors, parts)

    @classmethod
    def from_state(cls, state: State) -> "Index":
        """The inverse of `state`; ImportError if it was saved with FAISS, which is not installed.

        Parameters
        ----------
        state : State

        Returns
        -------
        index : Index
        """
        config = state.config
        tensors = state.tensors
        encoder = check_encoder(state.parts["encoder"])
        index = cls(
            encoder,
            config["engine"],
            query_encoder=state.parts.get("query_encoder"),
            lexical=config["lexical"],
            chunk=config["chunk"],
        )

        block = Block.from_tensors(
            tensors,
            encoder.n_dims,
            columns=config["columns"],
            chunk=index.chunk,
            lexical=bool(index.lexical),
        )

        lowest_number = 0
        if len(block.ids):
            lowest_number = int(block.ids[-1]) + 1
            index._snapshot = Snapshot((block,))
        next_number = checked_tensor(tensors, "next_id", np.int64, (), low=lowest_number)
        index._next_number = int(next_number)

        index.calibration_ = _read_calibration(tensors)
        if config.get("certificate") is not None:
            index.certificate_ = read_certificate(config["certificate"])
            if not isinstance(index.certificate_, SearchCertificate):
                raise ValueError("certificate must be that of a search")
        if "faiss" in tensors and index.engine_ == "faiss":
            index._lists = _read_lists(tensors, block.vectors.shape)
        return index


registry.register("model", Index.kind, Index.from_state)


def _read_calibration(tensors: Mapping[str, np.ndarray]) -> dict[str, CalibrationQueries] | None:
    """The stored calibration queries of each sample; None if there are none."""
    calibration = {}
    for sample, name in _CALIBRATION.items():
        if name in tensors:
            scores = checked_tensor(tensors, name, np.float64, (2, None), finite=False)
            calibration[sample] = CalibrationQueries(*scores)
    return calibration or None


def _read_lists(tensors: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> InvertedLists:
    """The stored lists of FAISS, which must contain vectors of this shape."""
    data = checked_tensor(tensors, "faiss", np.uint8, (None,))
    n_learned = checked_tensor(tensors, "faiss_n_learned", np.int64, (), low=1)
    lists = InvertedLists.from_array(data, int(n_learned))
    if (len(lists), lists.n_dims) != shape:
        raise ValueError("faiss must contain the rows of the index")
    return lists


def _find_passages(texts: list[str]) -> list[tuple[int, int, int]]:
    """(position of the text, begin, end) of each passage; a text without one is a passage."""
    passages = []
    for position, text in enumerate(texts):
        spans = split_passages(text) or [(0, len(text))]
        passages += [(position, begin, end) for begin, end in spans]
    return passages


def _positions_of_answers(
    snapshot: Snapshot, queries: list[str], answers: Iterable[Any]
) -> list[np.ndarray]:
    """The positions of the texts that are right for each query, of one text at least."""
    numbers = [_as_numbers(answer) for answer in answers]
    if len(numbers) != len(queries):
        raise ValueError(
            f"answers must have one for each of the {len(queries):,} queries. Got "
            f"{len(numbers):,} instead."
        )

    kept = np.setdiff1d(np.arange(snapshot.n_texts), snapshot.deleted)
    position_of = dict(zip(snapshot.ids[kept].tolist(), kept.tolist()))

    positions = []
    for answer in numbers:
        missing = [number for number in answer if number not in position_of]
        if missing or not answer:
            shown = missing[0] if missing else "none"
            raise ValueError(
                "answers must be numbers of texts in the index, which are not empty. Got "
                f"{shown} instead. Leave this query out."
            )
        positions.append(np.array([position_of[number] for number in answer]))
    return positions


def _as_numbers(ids: Any) -> list[int]:
    """The numbers of texts that were passed: one, or an iterable of them."""
    is_single = isinstance(ids, (str, bytes, Mapping)) or not hasattr(ids, "__iter__")
    ids = [ids] if is_single else list(ids)
    for number in ids:
        if not is_count(number):
            raise TypeError(
                "ids must be integers, such as add and search return. Got "
                f"{type(number).__name__} {str(number)[:40]!r} instead."
            )
    return [int(number) for number in ids]


def rerank(
    query: str, documents: Iterable[str], encoder: Any = "english", top_n: int | None = None
) -> list[Hit]:
    """Order documents by how well they answer a query, by meaning and by words.

    The `id` of a hit is the position of its document. The score is the logistic function of the sum
    of exp(3 cosine) and BM25, each standardised and weighted by one half; it is no probability, and
    0 for a document that shares nothing with the query.

    Parameters
    ----------
    query : str
    documents : iterable of str
    encoder : encoder, default="english"
        What `Index` takes.
    top_n : int, optional
        Number of hits to return; all by default.

    Returns
    -------
    hits : list of Hit
        Best first.

    Examples
    --------
    >>> [hit.id for hit in rerank("a sleeping kitten", ["red wine", "the cat slept"])]
    [1, 0]
    """
    if not isinstance(query, str):
        raise TypeError(f"query must be a str. Got {type(query).__name__} instead.")
    if top_n is not None:
        check_count("top_n", top_n)
    documents = as_texts(documents, "documents")
    if not documents:
        return []

    index = Index(encoder, "exact")
    index.add(documents)
    hits = index.search(query, len(documents))

    # The logistic function brings scores between 0 and 1.
    ranked = []
    for hit in hits:
        score = float(1 / (1 + np.exp(-hit.score)))
        ranked.append(Hit(hit.id, score, hit.text))

    hit_positions = {hit.id for hit in hits}
    for position, document in enumerate(documents):
        if position not in hit_positions:
            ranked.append(Hit(position, 0.0, document))
    return ranked[:top_n]
