"""What each address answers: a validated request in, the bytes of the answer out.

orjson writes numbers from arrays into JSON; Python looks at each text at most once.
"""

import asyncio
import base64
import os
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import orjson

from pacsent.guarantees.stream_watcher import StreamWatcher, monitors_of
from pacsent.maths.arrays import unit_rows
from pacsent.search import rerank
from pacsent.web.batches import Batcher, Solved, too_long
from pacsent.web.metrics import Metrics
from pacsent.web.schemas import (
    ClassifyRequest,
    EmbeddingsRequest,
    EmbedRequest,
    OllamaRequest,
    Problem,
    RerankRequest,
    SearchRequest,
    SimilarityRequest,
    TokenizeRequest,
    embeddings_request,
)
from pacsent.web.served import Served
from pacsent.web.settings import Settings

_AT_ONCE = 64  # texts whose answers are written before other requests get a turn
_NUMPY = orjson.OPT_SERIALIZE_NUMPY
_WATCHED = 20_000  # texts that one watcher sees before a new one begins
_THREADS = 4  # for what takes longer than an event loop may wait
_SHORT = 2000  # characters that are classified in the event loop
_CHUNK = 64  # texts between two looks at the clock
_EMPTY = "The text is empty."
_Found = TypeVar("_Found")


class Reply(NamedTuple):
    """The body of an answer, and the number of texts that it is about."""

    body: bytes
    n_texts: int


class Deadline:
    """The time until which a client waits for an answer."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def check(self) -> None:
        """`Problem` when the time is over: the rest of the work is not done."""
        if time.monotonic() > self._end:
            raise self.problem()

    def problem(self) -> Problem:
        return Problem(504, f"The answer took longer than {self.seconds:g} seconds. Send less text "
                       "in one request.")  # fmt: skip


Handler = Callable[[Any], Awaitable[Reply]]


class Endpoints:
    """The answers of one worker.

    >>> import asyncio
    >>> from pacsent import make
    >>> endpoints = Endpoints(Served("english", make("SIF-sum", "english")), Settings(), Metrics())
    >>> asked = SimilarityRequest(a="good wine", b="good wine")
    >>> asyncio.run(endpoints.similarity(asked)).body
    b'{"model":"english","cosines":[1.0]}'
    """

    def __init__(self, served: Served, settings: Settings, metrics: Metrics):
        self.served = served
        self.settings = settings
        self.metrics = metrics
        self._batcher = Batcher(served, settings.max_tokens, metrics)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="answer")
        self._name = orjson.dumps(served.name)
        self._watcher = self._new_watcher()
        self._watching = threading.Lock()

    def table(self) -> dict[str, tuple[type, Handler]]:
        """Address of a POST -> the schema of the request and what answers it."""
        found: dict[str, tuple[type, Handler]] = {}
        if self.served.vectorizer is not None:
            found["/v1/embeddings"] = embeddings_request(self.served.n_dims), self.openai
            found["/embed"] = EmbedRequest, self.embed
            found["/similarity"] = SimilarityRequest, self.similarity
            found["/api/embed"] = OllamaRequest, self.ollama
            found["/tokenize"] = TokenizeRequest, self.tokenize
            for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
                found[path] = RerankRequest, self.rerank
        if self.served.classifier is not None:
            found["/classify"] = ClassifyRequest, self.classify
        if self.served.index is not None:
            found["/search"] = SearchRequest, self.search
        return found

    # ---- embeddings ----------------------------------------------------------------------------

    async def openai(self, asked: EmbeddingsRequest) -> Reply:
        """Embeddings, as OpenAI's clients ask for them."""
        texts = asked.input
        solved, vectors = await self._vectors(texts, "input", asked.model, asked.dimensions)
        write = _as_base64 if asked.encoding_format == "base64" else _as_floats
        if len(texts) == 1:
            pieces = write(0, vectors)
        else:
            pieces = await _in_turns(write, vectors)
        n_known, n_unknown, _ = solved.totals()
        n = n_known + n_unknown
        return Reply(
            b'{"object":"list","data":[%b],"model":%b,"usage":{"prompt_tokens":%d,'
            b'"total_tokens":%d}}' % (b",".join(pieces), self._name, n, n),
            len(texts),
        )

    async def ollama(self, asked: OllamaRequest) -> Reply:
        """Embeddings, as Ollama's clients ask for them."""
        start, texts = time.perf_counter_ns(), asked.input
        solved, vectors = await self._vectors(texts, "input", asked.model, asked.dimensions)
        n = sum(solved.totals()[:2])
        took = time.perf_counter_ns() - start
        return Reply(
            b'{"model":%b,"embeddings":%b,"total_duration":%d,"load_duration":0,'
            b'"prompt_eval_count":%d}' % (self._name, _rows_json(vectors), took, n),
            len(texts),
        )

    async def _vectors(self, texts, name, model, n_dims=None, unit=None):
        """(what was solved, the vectors, of length one unless the settings say otherwise)."""
        self._check_texts(texts, name)
        self._check_model(model)
        if n_dims is not None and n_dims > self.served.n_dims:
            raise Problem(422, f"dimensions must be an integer from 1 to {self.served.n_dims}. Got "
                          f"{n_dims} instead.", param="dimensions")  # fmt: skip
        solved = await self._solved(texts)
        vectors = solved.means.astype(np.float32, copy=False)
        if n_dims is not None and n_dims < vectors.shape[1]:
            vectors = np.ascontiguousarray(vectors[:, :n_dims])
        return solved, _unit(vectors) if (
            self.settings.unit_length if unit is None else unit
        ) else vectors

    async def tokenize(self, asked: TokenizeRequest) -> Reply:
        """The words of texts and their numbers, as clients of TEI ask for them."""
        texts = asked.inputs
        self._check_texts(texts, "inputs")
        self._check_model(asked.model)
        self._check_tokens(texts)
        found = await self._in_thread(self._tokenized, texts)
        return Reply(_dumped(found), len(texts))

    def _tokenized(self, texts) -> list[list[dict[str, Any]]]:
        found = []
        for text in texts:
            words, lower, at, tokens = self.served.words(text), text.lower(), 0, []
            same = len(lower) == len(text)  # else places in one are not those in the other
            for word, number in zip(words, self.served.numbers(words)):
                start = lower.find(word.lower(), at) if same else -1
                at = start + len(word) if start >= 0 else at
                place = (
                    {"start": start, "stop": at} if start >= 0 else {"start": None, "stop": None}
                )
                tokens.append({"id": number, "text": _clean(word), "special": False, **place})
            found.append(tokens)
        return found

    async def rerank(self, asked: RerankRequest) -> Reply:
        """Documents in the order in which they answer a query."""
        tei = asked.documents is None
        documents, name = (asked.texts, "texts") if tei else (asked.documents, "documents")
        if not documents:
            raise Problem(422, "documents must be a list of texts. Got none instead.",
                          param="documents")  # fmt: skip
        self._check_texts(documents, name)
        self._check_model(asked.model)
        self._check_tokens([asked.query, *documents])
        vectorizer = self.served.vectorizer
        found = await self._in_thread(rerank, asked.query, documents, vectorizer, asked.top_n)
        self.metrics.add_texts(len(documents), 0, 0, 0)
        if tei:
            rows = [{"index": one.index, "score": one.score} for one in found]
            if asked.return_text:
                rows = [{**row, "text": one.text} for row, one in zip(rows, found)]
            return Reply(_dumped(rows), len(documents))
        results: list[dict[str, Any]] = [
            {"index": one.index, "relevance_score": one.score} for one in found
        ]
        if asked.return_documents:
            results = [{**r, "document": {"text": one.text}} for r, one in zip(results, found)]
        n = self.served.n_tokens([asked.query, *documents])
        about = {"model": self.served.name, "results": results, "usage": {"total_tokens": n},
                 "meta": {"api_version": {"version": "2"}}}  # fmt: skip
        return Reply(_dumped({"id": os.urandom(8).hex(), **about}), len(documents))

    async def embed(self, asked: EmbedRequest) -> Reply:
        """Posteriors: mean, variance, coverage, unknown words; vectors alone, in TEI's form."""
        if asked.inputs is not None and asked.texts is None:
            inputs = asked.inputs
            given = inputs, "inputs", asked.model, None, asked.normalize
            return Reply(_rows_json((await self._vectors(*given))[1]), len(inputs))
        texts = asked.texts
        if texts is None:
            raise Problem(422, "texts must be a text or a list of texts. Got none instead.",
                          param="texts")  # fmt: skip
        self._check_texts(texts, "texts")
        self._check_model(asked.model)
        if asked.words:
            self._check_explained(texts, "words")
        deadline = Deadline(self.settings.timeout)
        solved = await self._solved(texts)
        results = []
        for row, text in enumerate(texts):
            if row % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            known, unknown = int(solved.n_known[row]), int(solved.n_unknown[row])
            found: dict[str, Any] = {
                "variance": _number(solved.variances[row]),
                "coverage": known / (known + unknown) if known + unknown else None,
                "tokens": known + unknown,
            }
            if asked.mean:
                found["mean"] = solved.means[row]
            if asked.unknown:
                found["unknown"] = self._unknown(text) if unknown or not text.isascii() else []
            if asked.words:
                found["words"] = await self._in_thread(self._weighted, text, deadline)
            if not known:
                reason = _EMPTY if not text.strip() else "No word of the text is known."
                found["note"] = f"{reason} Its vector is all zeros."
            results.append(orjson.dumps(found, option=_NUMPY))
        return Reply(b'{"model":%b,"results":[%b]}' % (self._name, b",".join(results)), len(texts))

    async def similarity(self, asked: SimilarityRequest) -> Reply:
        """Cosines of pairs of texts, or of all texts with each other."""
        a, b = asked.a, asked.b
        self._check_model(asked.model)
        self._check_texts(a, "a")
        if b is None:
            if len(a) > 512:
                raise Problem(422, "a must have at most 512 texts where b is left out. Got "
                              f"{len(a):,} instead. Give b.", param="a")  # fmt: skip
            vectors = _unit((await self._solved(a)).means)
            matrix = np.clip(vectors @ vectors.T, -1, 1)
            return Reply(
                b'{"model":%b,"matrix":%b}' % (self._name, orjson.dumps(matrix, option=_NUMPY)),
                len(a),
            )
        self._check_texts(b, "b")
        if len(a) != len(b):
            raise Problem(422, f"a and b must have the same number of texts. Got {len(a):,} and "
                          f"{len(b):,} instead.", param="b")  # fmt: skip
        vectors = _unit((await self._solved(a + b)).means)
        cosines = np.einsum("ij,ij->i", vectors[: len(a)], vectors[len(a) :]).clip(-1, 1).round(6)
        return Reply(
            b'{"model":%b,"cosines":%b}' % (self._name, orjson.dumps(cosines, option=_NUMPY)),
            len(a) + len(b),
        )

    # ---- classes, search -----------------------------------------------------------------------

    async def classify(self, asked: ClassifyRequest) -> Reply:
        """Label, probability, label set, abstention, and what every word adds."""
        texts = asked.texts
        self._check_model(asked.model)
        self._check_texts(texts, "texts")
        if asked.explain:
            self._check_explained(texts, "explain")
        deadline = Deadline(self.settings.timeout)
        if not asked.explain and sum(map(len, texts)) <= min(_SHORT, self.settings.max_tokens):
            found = self._classified(asked, deadline)
        else:
            found = await self._in_thread(self._classified, asked, deadline)
        self.metrics.add_texts(len(texts), 0, 0, 0)
        return Reply(found, len(texts))

    def _classified(self, asked: ClassifyRequest, deadline: Deadline) -> bytes:
        classifier, texts = self.served.classifier, asked.texts
        self._check_tokens(texts)
        error = self.settings.error if asked.error is None else asked.error
        try:
            rule = self.served.rule(error, self.settings.delta)
        except ValueError as refused:  # an error rate, and no calibration set
            raise Problem(422, str(refused)) from None
        names = [str(name) for name in classifier.classes_.tolist()]
        results: list[dict[str, Any]] = []
        for start in range(0, len(texts), _CHUNK):
            deadline.check()
            some = texts[start : start + _CHUNK]
            log_proba = classifier.predict_log_proba(some)
            self._watch(some, log_proba)
            answered = rule.of_log_proba(log_proba)
            for row, text in enumerate(some):
                results.append(_answer(names, answered, row, text))
                if asked.explain:
                    deadline.check()
                    proba = np.exp(log_proba[row]).tolist()
                    results[-1]["probabilities"] = dict(zip(names, proba)) if text.strip() else None
                    results[-1] |= self._explanation(text)
        about = {
            "model": self.served.name,
            "guarantee": {"error": rule.error, "set_error": rule.set_error, "delta": rule.delta,
                          "statement": rule.statement, "no_sets": rule.no_sets,
                          "no_answers": rule.no_answers},
            "results": results,
        }  # fmt: skip
        return _dumped(about)

    def _explanation(self, text) -> dict[str, Any]:
        most = self.settings.max_explained_tokens
        if not text.strip():
            return {"explanation": None}
        if len(text) > most and (n := self.served.n_tokens([text])) > most:
            note = f"Texts of up to {most:,} words are explained. This one has {n:,}."
            return {"explanation": None, "note": note}
        why = self.served.explainer.explain(text)
        return {
            "explanation": {
                "words": [[_clean(word), round(value, 6)] for word, value in why.by_word()],
                "ngrams": [[_clean(name), round(value, 6)] for name, value in why.ngrams[:20]],
                "from_ngrams": why.from_ngrams,
                "from_characters": why.from_characters,
                "from_vectors": why.from_vectors,
                "vector_rest": why.vector_rest,
                "rest": why.rest,
            }
        }

    async def search(self, asked: SearchRequest) -> Reply:
        """The nearest texts of the index."""
        self._check_model(asked.model)
        self._check_texts(asked.query, "query")
        deadline = Deadline(self.settings.timeout)
        return await self._in_thread(self._searched, asked, deadline)

    def _searched(self, asked: SearchRequest, deadline: Deadline) -> Reply:
        queries = asked.query
        self._check_tokens(queries)
        results, statement = [], None
        how = {"where": asked.where, "guarantee": asked.guarantee, "delta": self.settings.delta}
        for start in range(0, len(queries), _CHUNK):
            deadline.check()
            try:
                found = self.served.index.search(queries[start : start + _CHUNK], asked.k, **how)
            except (ValueError, TypeError) as refused:
                param = "where" if asked.where is not None else "guarantee"
                raise Problem(422, str(refused), param=param) from None
            results += [list(map(_hit_json, hits)) for hits in found]
            statement = getattr(found[0], "statement", None)
        answer: dict[str, Any] = {"model": self.served.name, "results": results}
        if statement is not None:
            answer |= {"guarantee": statement, "nothing": [not hits for hits in results]}
        return Reply(_dumped(answer), len(queries))

    # ---- what they share -----------------------------------------------------------------------

    async def _solved(self, texts) -> Solved:
        solved = await self._batcher.solve(texts)
        self.metrics.add_texts(len(texts), *solved.totals())
        return solved

    def _in_thread(self, work: Callable[..., _Found], *given) -> "asyncio.Future[_Found]":
        """Work that may take longer than the event loop can wait."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work, *given)

    def _check_texts(self, texts, name):
        if len(texts) > self.settings.max_texts:
            raise Problem(
                422,
                f"{name} must have at most {self.settings.max_texts:,} texts. Got {len(texts):,} "
                "instead. Send several requests.",
                param=name,
            )

    def _check_explained(self, texts, name):
        if len(texts) > self.settings.max_explained:
            raise Problem(422, f"{name} must be asked for with at most "
                          f"{self.settings.max_explained} texts. Got {len(texts):,} instead.",
                          param=name)  # fmt: skip

    def _check_tokens(self, texts):
        most = self.settings.max_tokens
        if sum(map(len, texts)) > most and (n := self.served.n_tokens(texts)) > most:
            raise too_long(n, most)

    def _check_model(self, model):
        if model is not None and model.removesuffix(":latest") != self.served.name:
            raise Problem(404, f"This server has the model {self.served.name!r} and no other. "
                          "Ask for it by that name.", param="model")  # fmt: skip

    def _unknown(self, text) -> list[str]:
        words = list(dict.fromkeys(self.served.words(text, self.settings.max_tokens)))
        return [_clean(word) for word, there in zip(words, self.served.known(words)) if not there]

    def _weighted(self, text, deadline: Deadline) -> list[dict[str, Any]] | None:
        """Every word, whether it is known, and how far the vector turns without it.

        None for a text with too many words.
        """
        deadline.check()
        most = self.settings.max_explained_tokens
        words = self.served.words(text, most + 1)
        if len(words) > most:
            return None
        known = self.served.known(words)
        without: list[Any] = [words]
        without += [words[:i] + words[i + 1 :] for i, there in enumerate(known) if there]
        means, _ = self.served.solve(self.served.encode(without), without)
        vectors = _unit(means)
        turned = iter((1.0 - np.clip(vectors[1:] @ vectors[0], -1, 1)).tolist())
        alone = sum(known) == 1
        return [
            {
                "word": _clean(word),
                "known": there,
                "weight": round(1.0 if alone and there else next(turned), 6) if there else 0.0,
            }
            for word, there in zip(words, known)
        ]

    def _new_watcher(self):
        classifier = self.served.classifier
        if not (self.settings.watch and hasattr(classifier, "calibration_")):
            return None
        return StreamWatcher(classifier, alpha=0.01)

    def _watch(self, texts, log_proba):
        if self._watcher is None:
            return
        monitors = monitors_of(self.served.classifier, texts)
        with self._watching:  # threads classify at the same time
            watcher = self._watcher
            before = watcher.alarm
            if watcher.see(log_proba, None, monitors) and not before:
                self.metrics.add_alarm()
            if watcher.alarm or watcher.n_seen > _WATCHED:
                self._watcher = self._new_watcher()

    def close(self) -> None:
        self._batcher.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _answer(names, answered, row, text) -> dict[str, Any]:
    """One result of /classify; an empty text has no class."""
    if not text.strip():
        nothing = dict.fromkeys(("label", "probability", "set", "abstained"))
        return {**nothing, "note": f"{_EMPTY} It has no class."}
    inside, abstained = answered.inside, answered.abstained
    found = None if inside is None else [n for n, there in zip(names, inside[row]) if there]
    return {
        "label": names[answered.best[row]],
        "probability": float(answered.probability[row]),
        "set": found,
        "abstained": None if abstained is None else bool(abstained[row]),
    }


def _hit_json(hit) -> dict[str, Any]:
    found = {"id": hit.id, "cosine": round(hit.cosine, 6), "text": hit.text}
    found |= {"score": round(hit.score, 6)} if hit.score != hit.cosine else {}
    found |= {"metadata": hit.metadata} if hit.metadata else {}
    return found | ({"place": hit.place} if hit.place is not None else {})


def _rows_json(vectors: np.ndarray) -> bytes:
    return orjson.dumps(np.ascontiguousarray(vectors), option=_NUMPY)


def _dumped(found) -> bytes:
    """JSON, also of texts that are not valid Unicode."""
    try:
        return orjson.dumps(found, option=_NUMPY)
    except TypeError:
        import json

        return json.dumps(found).encode()


def _clean(word: str) -> str:
    return word.encode("utf-8", "replace").decode()


def _number(value) -> float | None:
    return float(value) if np.isfinite(value) else None


def _unit(vectors: np.ndarray) -> np.ndarray:
    if len(vectors) == 1:  # the usual case: one number needs no array
        row = vectors[0]
        length = float(row.dot(row)) ** 0.5
        return vectors / vectors.dtype.type(length) if length else vectors
    return unit_rows(vectors)


async def _in_turns(write, vectors) -> list[bytes]:
    """Write rows, and let other requests be answered in between."""
    pieces: list[bytes] = []
    for start in range(0, len(vectors), _AT_ONCE):
        if start:
            await asyncio.sleep(0)
        pieces += write(start, vectors[start : start + _AT_ONCE])
    return pieces


def _as_floats(start, vectors):
    return [
        b'{"object":"embedding","index":%d,"embedding":%b}'
        % (start + i, orjson.dumps(row, option=_NUMPY))
        for i, row in enumerate(vectors)
    ]


def _as_base64(start, vectors):
    return [
        b'{"object":"embedding","index":%d,"embedding":"%b"}' % (start + i, base64.b64encode(row))
        for i, row in enumerate(vectors.astype("<f4", copy=False))
    ]
