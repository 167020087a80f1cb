"""What each address answers: a parsed request in, the bytes of the answer out.

Numbers go from arrays into JSON by orjson; nothing of a text is looked at by Python more than once.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import numpy as np
import orjson

from pacsent.classify import StreamWatcher
from pacsent.serve.batches import Batcher, Solved
from pacsent.serve.metrics import Metrics
from pacsent.serve.problems import Problem, flag_of, number_of, shown, texts_of
from pacsent.serve.served import Served
from pacsent.serve.settings import Settings

_AT_ONCE = 64  # texts whose answers are written before other requests get a turn
_NUMPY = orjson.OPT_SERIALIZE_NUMPY
_WATCHED = 20_000  # texts that one watcher looks at before a new one begins
_MOST_EXPLAINED = 32
_MOST_WORDS = 400  # of a text whose words are weighed


class Reply(NamedTuple):
    """The body of an answer, and how many texts it is about."""

    body: bytes
    n_texts: int


class Endpoints:
    """The answers of one worker.

    Examples
    --------
    >>> import asyncio
    >>> from pacsent import make
    >>> endpoints = Endpoints(Served("english", make("SIF-sum", "english")), Settings(), Metrics())
    >>> asyncio.run(endpoints.similarity(b'{"a": "good wine", "b": "good wine"}')).body
    b'{"model":"english","cosines":[1.0]}'
    """

    def __init__(self, served: Served, settings: Settings, metrics: Metrics):
        self.served = served
        self.settings = settings
        self.metrics = metrics
        self._batcher = Batcher(served, settings.max_tokens, metrics)
        self._name = orjson.dumps(served.name)
        self._watcher = self._new_watcher()

    def table(self) -> "dict[str, Callable[[bytes], Awaitable[Reply]]]":
        """Address of a POST -> what answers it."""
        found: dict[str, Callable[[bytes], Awaitable[Reply]]] = {
            "/v1/embeddings": self.openai,
            "/embed": self.embed,
            "/similarity": self.similarity,
        }
        if self.served.vectorizer is None:
            found = {}
        if self.served.classifier is not None:
            found["/classify"] = self.classify
        if self.served.index is not None:
            found["/search"] = self.search
        return found

    # ---- embeddings ----------------------------------------------------------------------------

    async def openai(self, raw: bytes) -> Reply:
        """POST /v1/embeddings, as OpenAI's clients send it."""
        body = _parsed(raw)
        texts = texts_of(body.get("input"), "input", self.settings.max_texts)
        form = body.get("encoding_format", "float")
        if form not in ("float", "base64"):
            raise Problem(422, f"encoding_format must be float or base64. Got {shown(form)} "
                          "instead.", param="encoding_format")  # fmt: skip
        self._check_model(body)
        n_dims = number_of(body, "dimensions", self.served.n_dims, 1, self.served.n_dims)
        solved = await self._solved(texts)
        vectors = solved.means.astype(np.float32, copy=False)
        if n_dims < vectors.shape[1]:
            vectors = np.ascontiguousarray(vectors[:, :n_dims])
        if self.settings.unit_length:
            vectors = _unit(vectors)
        write = _as_base64 if form == "base64" else _as_floats
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

    async def embed(self, raw: bytes) -> Reply:
        """POST /embed: posteriors, coverage, and the words the model does not know."""
        body = _parsed(raw)
        texts = texts_of(body.get("texts"), "texts", self.settings.max_texts)
        self._check_model(body)
        with_words = flag_of(body, "words", False)
        if with_words and len(texts) > _MOST_EXPLAINED:
            raise Problem(422, f"words can be asked for with at most {_MOST_EXPLAINED} texts. Got "
                          f"{len(texts):,} instead.", param="words")  # fmt: skip
        with_unknown = flag_of(body, "unknown", True)
        with_mean = flag_of(body, "mean", True)
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
            if with_mean:
                found["mean"] = solved.means[row]
            if with_unknown:
                found["unknown"] = self._unknown(text) if unknown else []
            if with_words:
                found["words"] = await self._weighed(text)
            results.append(orjson.dumps(found, option=_NUMPY))
        return Reply(b'{"model":%b,"results":[%b]}' % (self._name, b",".join(results)), len(texts))

    async def similarity(self, raw: bytes) -> Reply:
        """POST /similarity: cosines of pairs, or of all texts with each other."""
        body = _parsed(raw)
        a = texts_of(body.get("a"), "a", self.settings.max_texts)
        if body.get("b") is None:
            if len(a) > 512:
                raise Problem(422, "a must hold at most 512 texts where b is left out. Got "
                              f"{len(a):,} instead. Give b.", param="a")  # fmt: skip
            vectors = _unit((await self._solved(a)).means)
            matrix = np.clip(vectors @ vectors.T, -1, 1)
            return Reply(
                b'{"model":%b,"matrix":%b}' % (self._name, orjson.dumps(matrix, option=_NUMPY)),
                len(a),
            )
        b = texts_of(body.get("b"), "b", self.settings.max_texts)
        if len(a) != len(b):
            raise Problem(422, f"a and b must hold the same number of texts. Got {len(a):,} and "
                          f"{len(b):,} instead.", param="b")  # fmt: skip
        vectors = _unit((await self._solved(a + b)).means)
        cosines = np.einsum("ij,ij->i", vectors[: len(a)], vectors[len(a) :]).clip(-1, 1).round(6)
        return Reply(
            b'{"model":%b,"cosines":%b}' % (self._name, orjson.dumps(cosines, option=_NUMPY)),
            len(a) + len(b),
        )

    # ---- classes, search -----------------------------------------------------------------------

    async def classify(self, raw: bytes) -> Reply:
        """POST /classify: label, probability, set, whether it abstains, and why."""
        body = _parsed(raw)
        texts = texts_of(body.get("texts"), "texts", self.settings.max_texts)
        explained = flag_of(body, "explain", False)
        if explained and len(texts) > _MOST_EXPLAINED:
            raise Problem(422, f"explain can be asked for with at most {_MOST_EXPLAINED} texts. "
                          f"Got {len(texts):,} instead.", param="explain")  # fmt: skip
        loop = asyncio.get_running_loop()
        if len(texts) > 8:
            found = await loop.run_in_executor(None, self._classified, texts, explained)
        else:
            found = self._classified(texts, explained)
        self.metrics.add_texts(len(texts), 0, 0, 0)
        return Reply(found, len(texts))

    def _classified(self, texts, explained) -> bytes:
        classifier, promises = self.served.classifier, self.served.promises
        log_proba = classifier.predict_log_proba(texts)
        self._watch(log_proba)
        names = [str(name) for name in classifier.classes_.tolist()]
        best = log_proba.argmax(axis=1)
        proba = np.exp(log_proba)
        results = []
        for row, text in enumerate(texts):
            p = float(proba[row, best[row]])
            found: dict[str, Any] = {
                "label": names[best[row]],
                "probability": p,
                "set": None,
                "abstained": None if promises.answers_from is None else p < promises.answers_from,
            }
            if promises.thresholds is not None:
                inside = log_proba[row] >= promises.thresholds
                found["set"] = [name for name, there in zip(names, inside) if there]
            if explained:
                found["probabilities"] = dict(zip(names, proba[row].tolist()))
                found["explanation"] = _explanation(classifier, text)
            results.append(found)
        about = {
            "model": self.served.name,
            "promise": {"error": self.settings.error, "delta": self.settings.delta,
                        "why_not": promises.why_not, "why_silent": promises.why_silent},
            "results": results,
        }  # fmt: skip
        return orjson.dumps(about, option=_NUMPY)

    async def search(self, raw: bytes) -> Reply:
        """POST /search: the nearest texts of the index."""
        body = _parsed(raw)
        queries = texts_of(body.get("query"), "query", self.settings.max_texts)
        k = number_of(body, "k", 10, 1, 1000)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, self.served.index.search, queries, k)
        results = [
            [{"id": hit.id, "cosine": round(hit.cosine, 6), "text": hit.text} for hit in hits]
            for hits in found
        ]
        return Reply(_dumped({"model": self.served.name, "results": results}), len(queries))

    # ---- what they share -----------------------------------------------------------------------

    async def _solved(self, texts) -> Solved:
        solved = await self._batcher.solve(texts)
        self.metrics.add_texts(len(texts), *solved.totals())
        return solved

    def _check_model(self, body):
        model = body.get("model")
        if model is not None and type(model) is not str:
            raise Problem(422, f"model must be a name. Got {shown(model)} instead.", param="model")
        if model is not None and model != self.served.name:
            raise Problem(404, f"This server has the model {self.served.name!r} and no other. "
                          "Ask for it by that name.", param="model")  # fmt: skip

    def _unknown(self, text) -> list[str]:
        vocabulary = self.served.vocabulary
        tokens = dict.fromkeys(vocabulary.tokens(text))
        return [_clean(word) for word in tokens if vocabulary.id_of(word) < 0]

    async def _weighed(self, text) -> list[dict[str, Any]]:
        """Every word, whether it is known, and how far the vector turns where it is left out."""
        vocabulary = self.served.vocabulary
        tokens = list(vocabulary.tokens(text))[:_MOST_WORDS]
        known = [vocabulary.id_of(token) >= 0 for token in tokens]
        without: list[Any] = [tokens]
        without += [tokens[:i] + tokens[i + 1 :] for i, there in enumerate(known) if there]
        loop = asyncio.get_running_loop()
        means, _ = await loop.run_in_executor(
            None, lambda: self.served.solve(self.served.encode(without))
        )
        vectors = _unit(means)
        turned = iter((1.0 - np.clip(vectors[1:] @ vectors[0], -1, 1)).tolist())
        alone = sum(known) == 1
        return [
            {
                "word": _clean(token),
                "known": there,
                "weight": round(1.0 if alone and there else next(turned), 6) if there else 0.0,
            }
            for token, there in zip(tokens, known)
        ]

    def _new_watcher(self):
        classifier = self.served.classifier
        if not (self.settings.watch and hasattr(classifier, "calibration_")):
            return None
        return StreamWatcher(classifier, alpha=0.01)

    def _watch(self, log_proba):
        watcher = self._watcher
        if watcher is None:
            return
        before = watcher.alarm
        if watcher.see(log_proba) and not before:
            self.metrics.add_alarm()
        if watcher.alarm or watcher.n_seen > _WATCHED:
            self._watcher = self._new_watcher()

    def close(self) -> None:
        self._batcher.close()


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"The body must be JSON. It is not: {error}.") from None
    if type(body) is not dict:
        raise Problem(422, f"The body must be a JSON object. Got {shown(body)} instead.")
    return body


def _dumped(found) -> bytes:
    """JSON also of texts that are no valid Unicode."""
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
    if len(vectors) == 1:  # the usual case: no array for one number
        row = vectors[0]
        length = float(row.dot(row)) ** 0.5
        return vectors / vectors.dtype.type(length) if length else vectors
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    lengths[lengths == 0] = 1.0
    return vectors / lengths[:, None]


async def _in_turns(write, vectors) -> list[bytes]:
    """Write rows, letting other requests in between."""
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


def _explanation(classifier, text) -> dict[str, Any]:
    why = classifier.explain(text)
    return {
        "words": [[_clean(word), round(value, 6)] for word, value in why.words],
        "ngrams": [[_clean(name), round(value, 6)] for name, value in why.ngrams[:20]],
        "from_ngrams": why.from_ngrams,
        "from_vectors": why.from_vectors,
        "rest": why.rest,
    }
