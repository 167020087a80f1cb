"""Index: texts found by meaning and by words, with guarantees from queries with known answers."""

import copy
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from pacsent import registry
from pacsent._kernels.search_kernels import keep_best, keep_largest, scan
from pacsent.encoders.external_encoders import as_search_encoder
from pacsent.encoders.sentence_vectorizer import SentenceVectorizer
from pacsent.guarantees.count_certificates import SearchCertificate
from pacsent.maths.arrays import frozen, unit_rows
from pacsent.maths.checks import check_probability
from pacsent.search import faiss_index, index_files, lexical
from pacsent.search.chunking import check_chunk, passages, sentences
from pacsent.search.faiss_index import InvertedLists
from pacsent.search.index_rows import BLOCK, IndexBlock, IndexRows
from pacsent.search.metadata import Columns, check_where
from pacsent.search.search_certificate import Asked, ThresholdRule
from pacsent.storage import State
from pacsent.text.texts import as_texts
from pacsent.threads import in_order, n_cores

ENGINES = ("auto", "exact", "faiss")
WORDS = 0.5  # share of BM25 beside the cosine, and
_SHARP = 3.0  # the exponential of how many cosines: benchmarks/choose_fusion.py
_MANY = 1_000_000  # texts above which "auto" takes FAISS
_CANDIDATES = 10  # times k, taken from inverted lists and compared in double precision
_QUERIES = 512  # queries compared with a block at once
_FEW = 4  # queries for which reading the rows takes longer than the products
_NONE = -2.0  # the cosine where there is no text
_SAMPLE = 4096  # rows whose cosines say how cosines with a query spread
_RARE = 16  # a filter that leaves less than this part of the rows is searched exactly


class Hit(NamedTuple):
    """A text that was found.

    `id` is its number, `cosine` that with the query, and `score` what the hits are ordered by: the
    cosine, or a sum with BM25 where the index is lexical. `text` is the passage that was found,
    where texts are cut into passages, and `place` where it begins and ends in its text.

    >>> Hit(3, 0.9, "the cat slept", 0.9, {"year": 2024})
    Hit(id=3, cosine=0.900, text='the cat slept', metadata={'year': 2024})
    """

    id: int
    cosine: float
    text: str
    score: float = 0.0
    metadata: dict[str, Any] | None = None
    place: tuple[int, int] | None = None

    def __repr__(self) -> str:
        shown = {"score": f"{self.score:.3f}" if self.score != self.cosine else "",
                 "metadata": self.metadata or "", "place": self.place or ""}  # fmt: skip
        more = "".join(f", {name}={value}" for name, value in shown.items() if value)
        text = self.text if len(self.text) <= 80 else f"{self.text[:79]}…"
        return f"Hit(id={self.id}, cosine={self.cosine:.3f}, text={text!r}{more})"


class Hits(list):
    """Hits with a guarantee: `statement` says which, `nothing` that no text answers the query.

    >>> Hits([], "With 95 % confidence ...", nothing=True).nothing
    True
    """

    def __init__(self, hits: Iterable[Hit], statement: str, nothing: bool):
        super().__init__(hits)
        self.statement, self.nothing = statement, nothing


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
    lexical : bool or float, default=False
        Find texts by their words as well: hits are ordered by the sum of exp(3 cosine) and BM25,
        each standardised over the texts. A number is the share of BM25, True the best one on
        training queries.
    chunk : {"sentences", "meaning"}, optional
        Cut texts into passages of whole sentences, of 120 words at most. A text is then found by
        its best passage. "meaning" cuts where the subject changes.
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
    >>> both = Index("english", lexical=True)
    >>> ids = both.add(["error E1734", "error E1735"], metadata=[{"year": 2023}, {"year": 2024}])
    >>> [hit.text for hit in both.search("what is E1735", where={"year": 2024})]
    ['error E1735']
    """

    def __init__(
        self,
        vectorizer: Any,
        engine: str = "auto",
        *,
        lexical: bool | float = False,
        chunk: str | None = None,
    ):
        if not isinstance(lexical, bool | Real) or not 0 <= lexical <= 1:
            raise ValueError(
                f"lexical must be True, False or a share from 0 to 1. Got {lexical!r} instead."
            )
        if chunk is not None:
            check_chunk(chunk)
        if engine not in ENGINES:
            raise ValueError(f"engine must be one of {', '.join(ENGINES)}. Got {engine!r} instead.")
        if engine == "faiss":
            faiss_index.require()
        self.vectorizer = as_search_encoder(vectorizer)
        self.engine = engine
        self.lexical = WORDS if lexical is True else float(lexical)
        self.chunk = chunk
        self.asked: Asked | None = None  # the queries of `certify`, until a text changes
        self.certificate_: SearchCertificate | None = None
        self._rows = IndexRows()
        self._next = 0
        self._lists: InvertedLists | None = None
        self._unchecked = False  # whether vectors of a file are still to be checked
        self._lock = threading.RLock()

    @property
    def engine_(self) -> str:
        """The engine in use: "exact" or "faiss"."""
        if self.engine == "auto":
            return "faiss" if len(self._rows) > _MANY and faiss_index.available() else "exact"
        return self.engine

    def __len__(self) -> int:
        rows = self._rows
        return rows.n_texts - rows.deleted.size

    def __repr__(self) -> str:
        return f"Index(n_texts={len(self)}, vectorizer={type(self.vectorizer).__name__})"

    def __getstate__(self):
        self._verify()  # a copy is not verified again
        made_anew = ("_lock", "_lists")
        return {name: value for name, value in vars(self).items() if name not in made_anew}

    def __setstate__(self, state):
        vars(self).update(state, _lists=None, _lock=threading.RLock())

    # ---- adding and deleting -----------------------------------------------------------------

    def add(self, texts: Iterable[str], metadata: Any = None) -> np.ndarray:
        """Add texts.

        Parameters
        ----------
        texts : iterable of str
        metadata : list of mappings, or mapping of columns, optional
            Texts, numbers, true or false, for filters: `search(query, where={"year": 2024})`.

        Returns
        -------
        array of int
            The numbers of the texts. They go on from the last; a number is never used twice.
        """
        texts = as_texts(texts)
        block = self._block(texts, Columns.of(metadata, len(texts)))
        with self._lock:
            ids = np.arange(self._next, self._next + len(texts))
            if block is not None:
                self._change(self._rows.added(block(ids)))
                self._next += len(texts)
        return ids

    def delete(self, ids: Iterable[int]) -> None:
        """Delete texts by their numbers: one integer, or any iterable of them."""
        numbers = _as_numbers(ids)
        with self._lock:
            self._change(self._rows.without(set(numbers)))

    def update(self, ids: Iterable[int], texts: Iterable[str], metadata: Any = None) -> None:
        """Replace the texts and the metadata of these numbers, which must be there.

        Without `metadata` that of each text stays.
        """
        numbers, texts = _as_numbers(ids), as_texts(texts)
        if len(numbers) != len(texts) or len(set(numbers)) != len(texts):
            raise ValueError(
                f"ids must be one number for each of the {len(texts):,} texts, each once. Got "
                f"{len(numbers):,} instead."
            )
        with self._lock:
            rest = self._rows.without(set(numbers))
            if metadata is None:
                metadata = [self.metadata(number) for number in numbers]
            block = self._block(texts, Columns.of(metadata, len(texts)))
            if block is not None:
                self._change(rest.added(block(np.array(numbers, dtype=np.int64))))

    def _block(self, texts, columns) -> Callable[[np.ndarray], IndexBlock] | None:
        """What makes a block of texts once their numbers are known; None without texts."""
        if not texts:
            return None
        spans, pieces = None, texts
        if self.chunk is not None:
            encode = lambda some: self._fitted().posterior(some)[0]  # noqa: E731
            found = [
                (i, *span)
                for i, text in enumerate(texts)
                for span in passages(text, self.chunk, encode=encode) or [(0, len(text))]
            ]
            spans = np.array(found, dtype=np.int64)
            pieces = [texts[i][a:b] for i, a, b in found]
        words = lexical.Postings.of(pieces) if self.lexical else None
        vectors = self._unit(pieces)
        return lambda ids: IndexBlock(vectors, ids, texts, columns, spans, words)

    def _change(self, rows):
        """Other texts, so that what was certified no longer holds."""
        self._rows, self.asked, self.certificate_ = rows, None, None

    # ---- searching ---------------------------------------------------------------------------

    def search(
        self,
        query: str | Iterable[str],
        k: int = 10,
        *,
        where: Mapping[str, Any] | None = None,
        guarantee: float | None = None,
        delta: float = 0.05,
    ) -> list:
        """Find the k best texts.

        Parameters
        ----------
        query : str or iterable of str
        k : int, default=10
        where : mapping, optional
            Values that the metadata must have: {"year": 2024}, {"year": [2023, 2024]} for one of
            several, {"year": {">=": 2020}} for a comparison.
        guarantee : float, optional
            Return as many hits as are needed so that the right text is among them for at least
            this share of queries, with probability 1 - delta, instead of k; none where no text
            answers the query. Needs `certify` before. Every text is compared.

        Returns
        -------
        list of Hit, best first; for several queries a list of such lists
            Fewer than k where there are fewer texts. A query without a known word finds nothing
            by its vector. With `guarantee`, `Hits`.
        """
        if not _is_integer(k) or k < 1:
            raise ValueError(f"k must be a positive integer. Got {k!r} instead.")
        if where is not None:
            check_where(where)
        queries = [query] if isinstance(query, str) else as_texts(query, "query")
        held, rule = self._rows, None
        if guarantee is not None:
            if where is not None:
                raise ValueError("guarantee must be given without where: it holds for all texts.")
            rule, k = self._rule(guarantee, delta), max(held.n_texts, 1)
        Q = self._unit(queries)
        if rule is not None:
            found: list = [self._answered(*one, held, rule) for one in zip(queries, Q)]
        else:
            found = [
                [_hit(held, *one) for one in zip(*(side.tolist() for side in sides))]
                for sides in self._ranked(queries, Q, k, held, held.gone(where))
            ]
        return found[0] if isinstance(query, str) else found

    def _ranked(self, queries, Q, k, held, gone) -> Iterator[tuple]:
        """(rows, scores, cosines) of the best k texts for each query, best first."""
        self._verify()
        n_left = len(held) - int(np.count_nonzero(gone))
        engine = "exact" if n_left < len(held) // _RARE else self.engine_
        if not self.lexical and held.owners is None:
            for rows, cosines in zip(*self._nearest(Q, k, engine, held, gone)):
                there = cosines > _NONE
                yield rows[there], cosines[there], cosines[there]
            return
        for text, q in zip(queries, Q):
            near = None
            if engine == "faiss" and k <= len(held) // 100:
                near = self._near(text, q, k, held, gone)
            scores, cosines = self._scores(text, q, held, near)
            if gone.size:
                scores[gone if near is None else gone[near]] = -np.inf
            at = _best_rows(scores, held.owners if near is None else _part(held.owners, near), k)
            q, rows = q.astype(float), at if near is None else near[at]
            order = np.argsort(rows)
            again = held.vectors(rows[order]).astype(float) @ q  # in double, as all that is shown
            cosines = np.empty(len(rows))
            cosines[order] = again
            yield rows, scores[at].astype(float) if self.lexical else cosines, cosines

    def _scores(self, text, q, held, near=None) -> tuple[np.ndarray, np.ndarray]:
        """(scores, cosines) of all rows, or of those in `near`; -inf where there is nothing."""
        vectors = [block.vectors for block in held.blocks] if near is None else [held.vectors(near)]
        cosines = np.concatenate([np.empty(0, np.float32), *(X @ q for X in vectors)])
        if not self.lexical:
            return np.where(cosines == 0, np.float32(-np.inf), cosines), cosines
        gone = held.gone()
        words = self._words_of(held, text) if held.words else cosines
        kept = words[~gone] if gone.size else words
        mean, spread = float(kept.mean(dtype=float)), float(kept.std(dtype=float))
        if near is not None:
            words = words[near]
        scores = np.zeros(cosines.size, np.float32)
        if spread > 0:
            scores += self.lexical * (words - mean) / spread
        sample = np.exp(_SHARP * (held.sample(_SAMPLE) @ q))
        if q.any() and sample.std() > 0:
            near_by = (np.exp(_SHARP * cosines) - sample.mean()) / sample.std()
            scores += (1 - self.lexical) * near_by
        scores[(cosines == 0) & (words == 0)] = -np.inf
        return scores, cosines

    def _near(self, text, q, k, held, gone) -> np.ndarray:
        """Rows among which the best are looked for: the nearest, and those with the same words."""
        n = _CANDIDATES * k
        near = [np.empty(0, np.int64)]
        if q.any():
            with self._lock:
                found = self._listed(held).candidates(q[None], n, np.flatnonzero(gone))[0]
            near.append(found[(found >= 0) & (found < len(held))])
        if self.lexical:
            words = self._words_of(held, text)
            words[(words == 0) | (gone if gone.size else False)] = -np.inf
            near.append(_best_rows(words, None, n))
        return np.unique(np.concatenate(near))

    # ---- guarantees --------------------------------------------------------------------------

    def certify(
        self, queries: Iterable[str], answers: Iterable[int], k: int = 10, delta: float = 0.05
    ) -> SearchCertificate:
        """Guarantee for how many queries the right text is among the first k.

        Parameters
        ----------
        queries : iterable of str
            Drawn independently, as later queries will be, and not used to choose anything here.
        answers : iterable of int, or of several each
            The numbers of the text, or texts, that are right for each query.
        k : int, default=10
        delta : float, default=0.05
            Probability that the guarantee fails.

        Returns
        -------
        SearchCertificate
            Its `bound` is on the share of queries whose right text is not among the first k. What
            `search(query, guarantee=...)` needs is kept in the index until a text changes.

        Examples
        --------
        >>> index = Index("english")
        >>> ids = index.add(["red wine", "the cat slept", "shares fell"])
        >>> certificate = index.certify(["kitten", "stocks", "a glass"], [1, 2, 0], k=1)
        >>> certificate.n, certificate.n_errors
        (3, 0)
        """
        queries = as_texts(queries, "queries")
        held = self._rows
        right = _as_answers(answers, len(queries), held)
        if not _is_integer(k) or k < 1:
            raise ValueError(f"k must be a positive integer. Got {k!r} instead.")
        first = sorted({text: i for i, text in reversed(list(enumerate(queries)))}.values())
        texts, right = [queries[i] for i in first], [right[i] for i in first]  # copies count once
        Q, gone = self._unit(texts), held.gone()
        missed = [
            not bool(np.isin(rows if held.owners is None else held.owners[rows], places).any())
            for places, (rows, _, _) in zip(right, self._ranked(texts, Q, k, held, gone))
        ]
        certificate = SearchCertificate.from_parts(
            delta=check_probability("delta", delta),
            n=len(missed),
            n_errors=sum(missed),
            n_hits=int(k),
            n_texts=len(self),
            n_duplicates=len(queries) - len(texts),
        )
        scores = (self._by_text(*one, held, gone)[0] for one in zip(texts, Q))
        self.asked, self.certificate_ = Asked.of(scores, right), certificate
        return certificate

    def self_queries(
        self, n: int = 1000, column: str | None = None, seed: int = 0
    ) -> tuple[list[str], list[int], "Index"]:
        """Make queries with known answers from the texts themselves.

        Parameters
        ----------
        n : int, default=1000
            Texts to draw.
        column : str, optional
            Column of the metadata with the query, such as a title. By default the first sentence
            of a text is the query, and is taken out of the text.
        seed : int, default=0

        Returns
        -------
        queries, answers, index
            What `certify` takes, and the index to certify: this one where a column is given, else
            a copy in which the drawn texts lack their first sentence. What is certified then holds
            for queries like these and for that copy.
        """
        held = self._rows
        kept = np.setdiff1d(np.arange(held.n_texts), held.deleted)
        drawn = np.random.default_rng(seed).permutation(kept)
        queries: list[str] = []
        rest: list[str] = []
        answers: list[int] = []
        for place in drawn.tolist():
            text, number = held.text(place), int(held.ids[place])
            if column is not None:
                query = str(self.metadata(number).get(column, ""))
            else:
                found = sentences(text)
                query = text[slice(*found[0])] if len(found) > 1 else ""
                rest.append(text[found[1][0] :] if query else "")
            if not query.strip():
                rest = rest[: len(queries)]
                continue
            queries.append(query)
            answers.append(number)
            if len(queries) == n:
                break
        if not queries:
            raise ValueError(
                "self_queries needs texts of two sentences or more, or a column of the metadata "
                f"that holds the queries. Got column={column!r}, and none of the texts has such."
            )
        if column is not None:
            return queries, answers, self
        other = copy.copy(self)
        other.update(answers, rest)
        return queries, answers, other

    def _rule(self, guarantee, delta) -> ThresholdRule:
        if self.asked is None:
            raise ValueError(
                "guarantee must be left out before certify, and after a text has changed. Call "
                "index.certify(queries, answers) first."
            )
        return ThresholdRule.of(self.asked, guarantee, delta)

    def _by_text(self, text, q, held, gone) -> tuple[np.ndarray, np.ndarray]:
        """(score, row) of the best passage of every text, in single precision."""
        scores, _ = self._scores(text, q, held)
        if gone.size:
            scores[gone] = -np.inf
        return _by_owner(scores, held.owners)

    def _answered(self, text, q, held, rule) -> Hits:
        scores, rows = self._by_text(text, q, held, held.gone())
        at = np.flatnonzero((scores >= rule.least(scores)) & (scores > -np.inf))
        at = at[np.argsort(-scores[at], kind="stable")]
        cosines = [float(held.vectors(rows[i : i + 1])[0].astype(float) @ q) for i in at]
        hits = [_hit(held, int(rows[i]), float(scores[i]), c) for i, c in zip(at, cosines)]
        return Hits(hits, rule.statement, not hits)

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
        all_gone = held.gone()
        for start, block, gone in held.cut(BLOCK // 2, all_gone):
            for other_start, other, other_gone in held.cut(BLOCK, all_gone):
                if other_start >= start + len(block):
                    break
                cosines = block @ other.T
                cosines[gone if gone.size else slice(0)] = _NONE
                cosines[:, other_gone if other_gone.size else slice(0)] = _NONE
                for i, j in zip(*np.nonzero(cosines >= least)):
                    if j + other_start < i + start:
                        cosine = min(1.0, float(cosines[i, j]))
                        if (
                            held.owners is None
                            or held.owners[j + other_start] != held.owners[i + start]
                        ):
                            pair = int(j + other_start), int(i + start)
                            one, two = (_hit(held, row, cosine, cosine) for row in pair)
                            yield one, two

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the texts and their unit vectors, without deleted ones."""
        self._verify()
        held = self._rows
        block = held.kept(self.vectorizer._n_features_out)
        if block.spans is None:
            return block.ids, block.vectors
        sums = np.zeros((len(block.ids), block.vectors.shape[1]), np.float32)
        np.add.at(sums, block.spans[:, 0], block.vectors)
        return block.ids, unit_rows(sums)

    def text(self, number: int) -> str:
        """Return the text with this number."""
        return self._rows.text(self._place(number))

    def metadata(self, number: int) -> dict[str, Any]:
        """Return the metadata of the text with this number."""
        place = self._place(number)
        for block in self._rows.blocks:
            if place < len(block.ids):
                return block.columns.row(place)
            place -= len(block.ids)
        return {}

    def _place(self, number):
        place = self._rows.place(number) if _is_integer(number) else None
        if place is None:
            raise ValueError(f"number must be that of a text in the index. Got {number!r} instead.")
        return place

    # ---- how it searches ---------------------------------------------------------------------

    def _fitted(self):
        with self._lock:
            own = isinstance(self.vectorizer, SentenceVectorizer)
            if own and not (
                hasattr(self.vectorizer, "n_sentences_") or self.vectorizer.learns_from_text
            ):
                self.vectorizer.fit([])
        return self.vectorizer

    def _words_of(self, held, text) -> np.ndarray:
        """BM25 of all rows."""
        background = self._background() if held.norms.size < lexical.FEW else None
        return lexical.scores(held.words, held.norms, held.gone(), text, background)

    def _background(self) -> lexical.Background | None:
        """How rare words are by the vocabulary of the encoder, if it has one with counts."""
        parts = getattr(self.vectorizer, "encoders", None) or [self.vectorizer]
        found = [one.word_vectors.vocabulary for one in parts if hasattr(one, "word_vectors")]
        counted = [one for one in found if one.counts is not None]
        return lexical.Background.of(counted[-1]) if counted else None

    def _unit(self, texts) -> np.ndarray:
        return unit_rows(np.asarray(self._fitted().posterior(texts)[0], dtype=np.float32))

    def _nearest(self, Q, k, engine=None, held=None, gone=None) -> tuple[np.ndarray, np.ndarray]:
        """(rows, cosines) of the best k for each query, best first; -2 where there is none."""
        self._verify()
        held = self._rows if held is None else held
        gone = held.gone() if gone is None else gone
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
            rows[some], cosines[some] = best(Q[some], k, held, gone)
        return rows, cosines

    def _best(self, Q, k, held, gone) -> tuple[np.ndarray, np.ndarray]:
        """`_nearest` for a few hundred queries that all have a vector."""
        slack = _slack(Q.shape[1])
        if len(Q) <= _FEW:  # the table is read once: a part of it on every core
            parts = held.cut(max(BLOCK, -(-len(held) // n_cores())), gone)
            found = list(in_order(lambda part: _scanned(Q, part, k, slack), parts, None))
            values, rows = (np.concatenate(side, axis=1) for side in zip(*found))
        else:
            values, rows = _heaps(len(Q), k)
            for start, block, left_out in held.cut(BLOCK, gone):
                _enter(Q, block, start, left_out, slack, values, rows)
        order = np.lexsort((rows, -values), axis=1)[:, :k]
        return np.take_along_axis(rows, order, axis=1), np.take_along_axis(values, order, axis=1)

    def _best_of_lists(self, Q, k, held, gone) -> tuple[np.ndarray, np.ndarray]:
        """As `_best`, among the candidates of the inverted lists."""
        with self._lock:  # FAISS does not search while rows are added
            lists = self._listed(held)
            found = lists.candidates(Q, _CANDIDATES * k, np.flatnonzero(gone))
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
        self._verify()
        with self._lock:
            held, lists, next_id = self._rows, self._lists, self._next
        self._fitted()
        return index_files.state(self, held, lists, next_id)

    @classmethod
    def from_state(cls, state: State) -> "Index":
        """The inverse of `state`. The vectors are checked before the first search."""
        config = state.config
        engine = config.get("engine", "auto")
        index = cls(
            state.parts["vectorizer"],
            engine if engine != "faiss" or faiss_index.available() else "exact",
            lexical=config.get("lexical", False),
            chunk=config.get("chunk"),
        )
        index._next, index._rows, index.asked = index_files.restored(state, index.lexical)
        if config.get("certificate") is not None:
            index.certificate_ = SearchCertificate.from_json(config["certificate"])
            index.certificate_.verify()
        if "centroids" in state.tensors and index.engine_ == "faiss":
            index._lists = index_files.restored_lists(state, index._rows, _MANY)
        index._unchecked = True
        return index

    def _verify(self):
        """Once, before the first use: the vectors that were loaded are unit vectors."""
        if not self._unchecked:
            return
        with self._lock:
            if self._unchecked:
                for _, block, _ in self._rows.cut():
                    lengths = np.einsum("ij,ij->i", block, block)
                    if not ((np.abs(lengths - 1) < 1e-3) | (lengths == 0)).all():
                        raise ValueError(
                            "The index is damaged: its vectors must have length 1 or 0. Make it "
                            "again from the texts."
                        )
                self._unchecked = False


registry.register("kind", Index.kind, Index.from_state)


def _is_integer(value) -> bool:
    return hasattr(type(value), "__index__") and not isinstance(value, (bool, np.ndarray))


def _as_numbers(ids) -> list[int]:
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
    return [operator.index(number) for number in ids]


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


def _as_answers(answers, n, held) -> list[np.ndarray]:
    """The places of the right texts of each query."""
    given = [[one] if _is_integer(one) else _as_numbers(one) for one in answers]
    if len(given) != n:
        raise ValueError(f"answers must have one for each of the {n:,} queries. Got {len(given):,} "
                         "instead.")  # fmt: skip
    places = {number: at for at, number in enumerate(held.ids.tolist())}
    for at in held.deleted.tolist():
        if places.get(int(held.ids[at])) == at:
            del places[int(held.ids[at])]
    for numbers in given:
        missing = [number for number in numbers if operator.index(number) not in places]
        if missing or not numbers:
            raise ValueError("answers must be numbers of texts in the index. Got "
                             f"{missing[0] if missing else 'none'} instead.")  # fmt: skip
    return [np.array([places[operator.index(x)] for x in numbers]) for numbers in given]


def _hit(held, row, score, cosine) -> Hit:
    one = held.found(row)
    return Hit(one.id, cosine, one.text, score, one.metadata, one.place)


def _part(owners, rows):
    return None if owners is None else owners[rows]


def _by_owner(scores, owners) -> tuple[np.ndarray, np.ndarray]:
    """(largest score, its row) of each owner; owners do not decrease."""
    if owners is None or not owners.size:
        return scores, np.arange(scores.size)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(owners) > 0]))
    best = np.maximum.reduceat(scores, starts)
    which = np.repeat(best, np.diff(np.append(starts, owners.size))) == scores
    rows = np.flatnonzero(which)
    return best, rows[np.searchsorted(rows, starts)]


def _best_rows(scores, owners, k) -> np.ndarray:
    """The rows of the k largest scores of different owners, best first, the earlier of equals."""
    best, rows = (scores, None) if owners is None else _by_owner(scores, owners)
    values, at = np.full(min(k, best.size), -np.inf), np.full(min(k, best.size), -1)
    if values.size:
        keep_largest(best, np.empty(0, bool), values, at)
    at = at[np.lexsort((at, -values))]
    at = at[at >= 0]
    return at if rows is None else rows[at]
