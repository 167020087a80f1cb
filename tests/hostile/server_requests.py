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
VALUES = (
    *(None, True, 3, -1, 0.5, 1e308, 10**30, "", " \n\t", "x", [], {}, [None], [1], [["film"]]),
    *({"text": "film"}, ["", " "], "<!--<script>alert(1)</script>", "good\x00film", "../../etc"),
    *("你好 Привет", "x" * 10**6, LONG_TEXT, ["film"] * 3000, [LONG_TEXT] * 20),
)
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
JSON = "application/json"
CONTENT_TYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "")
CONTENT_TYPES += ("json", "text/plain; application/json")
PATHS = ("/", "//", "/page/../served.py", "/page/%2e%2e", "/index", "/v1/models/\x00", "/docs/")
PATHS += ("/v1/models/" + "x" * 9000, "/metrics/x", "/é")
ENDPOINTS = {
    "/v1/embeddings": "EmbeddingsRequest",
    "/embed": "EmbedRequest",
    "/similarity": "SimilarityRequest",
    "/classify": "ClassifyRequest",
    "/search": "SearchRequest",
    "/v1/rerank": "RerankRequest",
}


@cache
def app():
    """The application; made before any child is started, which then starts its own threads."""
    index = Index(material.new("Average"))
    index.add(TEXTS)
    texts = [f"{text} {i}" for i in range(6) for text in TEXTS]
    classifier = CertifiedClassifier(
        TextClassifier(None, ngrams=(1, 1)), calibration_size=0.4, random_state=0
    ).fit(texts, ["up" if "joy" in text else "down" for text in texts])
    model = ServedModel("m", material.new("Average").fit([]), classifier, index).warm_up()
    return create_app(model, ServerSettings(max_tokens=100_000, timeout=20))


def send(method: str, path: str, body: bytes = b"", content_type: str = JSON) -> str | None:
    """None for an answer, `Refused` for one clear message in JSON; else what is wrong with it."""
    messages = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def collect(message):
        messages.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": method, "path": path}
    scope |= {"raw_path": path.encode(), "query_string": b"", "root_path": "", "scheme": "http"}
    scope |= {"headers": [(b"content-type", content_type.encode())]}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2)}
    asyncio.run(app()(scope, receive, collect))
    status, answered_type = messages[0]["status"], dict(messages[0]["headers"])[b"content-type"]
    content = b"".join(message.get("body", b"") for message in messages[1:])
    if status == 200:
        if answered_type == JSON.encode():
            json.loads(content)
        return None
    if answered_type != JSON.encode() or not 400 <= status < 500:
        return f"status {status}, {answered_type!r}"
    message = json.loads(content)["error"]["message"]
    if "\n" in message or FOREIGN.match(message) or len(message) > 500:
        return f"unclear: {message[:300]}"
    raise Refused(message)


def cases() -> Iterator[Case]:
    app()
    for path, name in ENDPOINTS.items():
        fields = getattr(schemas, name).model_fields
        right = {key: "good film" for key, field in fields.items() if field.is_required()}
        right |= {"documents": ["film"]} if path == "/v1/rerank" else {}
        for field in fields:
            for number, value in enumerate(VALUES):
                body = json.dumps({**right, field: value}).encode()
                yield Case(
                    f"{path}: {field} is value {number}, {str(value)[:20]!r}",
                    partial(send, "POST", path, body),
                )
        for name, body in BODIES.items():
            yield Case(f"{path}: body is {name}", partial(send, "POST", path, body), "refused")
        for content_type in CONTENT_TYPES:
            yield Case(
                f"{path}: content type {content_type!r}",
                partial(send, "POST", path, b"{}", content_type),
                "refused",
            )
        for method in ("GET", "PUT", "DELETE", "PATCH", "X" * 300):
            yield Case(f"{path}: method {method[:8]}", partial(send, method, path), "refused")
    for path in PATHS:
        yield Case(f"path {path[:30]!r}", partial(send, "GET", path))
