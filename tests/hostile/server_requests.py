"""Requests to the server that no client should send: every endpoint, every field, every value."""

import asyncio
import json
from collections.abc import Iterator
from functools import cache, partial

from hostile import material
from hostile.material import TEXTS
from hostile.running import FOREIGN, Case, Refused
from pacsent import CertifiedClassifier, Index, TextClassifier
from pacsent.web import ServedModel, ServerSettings, create_app, schemas

LONG_TEXT = "film " * 30_000
JSON = "application/json"
ENDPOINTS = {
    "/v1/embeddings": "EmbeddingsRequest",
    "/embed": "EmbedRequest",
    "/similarity": "SimilarityRequest",
    "/classify": "ClassifyRequest",
    "/search": "SearchRequest",
    "/v1/rerank": "RerankRequest",
}

# ---- what is sent -------------------------------------------------------------------------------

NUMBERS = (3, -1, 0.5, 1e308, 10**30)
SHORT_TEXTS = ("", " \n\t", "x", "你好 Привет")
ODD_TEXTS = ("<!--<script>alert(1)</script>", "good\x00film", "../../etc")
LISTS = ([], [None], [1], [["film"]], ["", " "])
LONG_VALUES = ("x" * 10**6, LONG_TEXT, ["film"] * 3000, [LONG_TEXT] * 20)
OBJECTS = ({}, {"text": "film"})
VALUES = (None, True, *NUMBERS, *SHORT_TEXTS, *ODD_TEXTS, *LISTS, *LONG_VALUES, *OBJECTS)
BODIES = {
    "nothing": b"",
    "no JSON": b"{",
    "not UTF-8": b'{"texts": "\xff"}',
    "a list": b"[1, 2]",
    "NaN": b'{"texts": NaN}',
    "a lone surrogate": b'{"texts": "\\ud800", "query": "\\ud800"}',
    "deep lists": b"[" * 10_000,
    "a deep object": b'{"a":' * 5000,
    "a BOM": b"\xef\xbb\xbf{}",
    "a name twice": b'{"texts": "film", "texts": 3}',
    "an unknown field": b'{"nonsense": 1}',
}
CONTENT_TYPES = (
    "",
    "json",
    "text/plain",
    "text/plain; application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
)
METHODS = ("GET", "PUT", "DELETE", "PATCH", "X" * 300)
PATHS = (
    "/",
    "//",
    "/é",
    "/index",
    "/docs/",
    "/page/../served.py",
    "/page/%2e%2e",
    "/metrics/x",
    "/v1/models/\x00",
    "/v1/models/" + "x" * 9000,
)

# ---- the server ---------------------------------------------------------------------------------


def _served_classifier() -> CertifiedClassifier:
    texts = [f"{text} {number}" for number in range(6) for text in TEXTS]
    labels = ["up" if "joy" in text else "down" for text in texts]
    classifier = TextClassifier(None, ngrams=(1, 1))
    certified = CertifiedClassifier(classifier, calibration_size=0.4, random_state=0)
    return certified.fit(texts, labels)


@cache
def app():
    """The application; made before any child is started, which then starts its own threads."""
    encoder = material.new("Average").fit([])
    index = Index(material.new("Average"))
    index.add(TEXTS)
    model = ServedModel("m", encoder, _served_classifier(), index)
    settings = ServerSettings(max_tokens=100_000, timeout=20)
    return create_app(model.warm_up(), settings)


def _request(method: str, path: str, body: bytes, content_type: str) -> tuple[int, str, bytes]:
    """The status, the content type and the body of the answer."""
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", content_type.encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    messages = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def collect(message):
        messages.append(message)

    application = app()
    asyncio.run(application(scope, receive, collect))

    start, *parts = messages
    headers = dict(start["headers"])
    content = b"".join(part.get("body", b"") for part in parts)
    return start["status"], headers[b"content-type"].decode(), content


def send(method: str, path: str, body: bytes = b"", content_type: str = JSON) -> str | None:
    """None for an answer, `Refused` for one clear message in JSON; else what is wrong with it."""
    status, answered_type, content = _request(method, path, body, content_type)
    if status == 200:
        if answered_type == JSON:
            json.loads(content)
        return None
    if answered_type != JSON or not 400 <= status < 500:
        return f"status {status}, {answered_type!r}"

    message = json.loads(content)["error"]["message"]
    if "\n" in message or FOREIGN.match(message) or len(message) > 500:
        return f"unclear: {message[:300]}"
    raise Refused(message)


# ---- cases --------------------------------------------------------------------------------------


def _right_request(path: str) -> dict:
    """A request with the fields that it needs."""
    fields = getattr(schemas, ENDPOINTS[path]).model_fields
    request = {name: "good film" for name, field in fields.items() if field.is_required()}
    if path == "/v1/rerank":
        request["documents"] = ["film"]
    return request


def _odd_fields(path: str) -> Iterator[Case]:
    """Every value in every field of a request."""
    right_request = _right_request(path)
    for field in getattr(schemas, ENDPOINTS[path]).model_fields:
        for value in VALUES:
            body = json.dumps({**right_request, field: value}).encode()
            name = f"{path}: {field} is {str(value)[:20]!r} of {len(body)} bytes"
            yield Case(name, partial(send, "POST", path, body))


def _bad_requests(path: str) -> Iterator[Case]:
    for name, body in BODIES.items():
        yield Case(f"{path}: body is {name}", partial(send, "POST", path, body), "refused")
    for content_type in CONTENT_TYPES:
        run = partial(send, "POST", path, b"{}", content_type)
        yield Case(f"{path}: content type {content_type!r}", run, "refused")
    for method in METHODS:
        yield Case(f"{path}: method {method[:8]}", partial(send, method, path), "refused")


def cases() -> Iterator[Case]:
    app()
    for path in ENDPOINTS:
        yield from _odd_fields(path)
        yield from _bad_requests(path)
    for path in PATHS:
        yield Case(f"path {path[:30]!r}", partial(send, "GET", path))
