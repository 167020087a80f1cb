"""Requests to the server that no client should send: every address, every field, every value."""

import asyncio
import json
from collections.abc import Iterator
from functools import cache

from hostile import material
from hostile.material import TEXTS
from hostile.running import FOREIGN, Case, Refused

JSON = [(b"content-type", b"application/json")]
BIG = "film " * 30_000
VALUES = {
    "null": None, "true": True, "a number": 3, "a negative number": -1, "a fraction": 0.5,
    "1e308": 1e308, "a huge integer": 10**30, "an empty text": "", "blanks": " \n\t", "a text": "x",
    "an empty list": [], "an empty object": {}, "a list of null": [None], "a list of numbers": [1],
    "lists in lists": [["film"]], "an object": {"text": "film"}, "empty texts": ["", " "],
    "a script": "<!--<script>alert(1)</script>", "NUL": "good\x00film", "a path": "../../etc",
    "other scripts": "你好 Привет", "a million letters": "x" * 10**6, "many words": BIG,
    "many texts": ["film"] * 3000, "long texts": [BIG] * 20,
}  # fmt: skip
BODIES = {
    "nothing": b"", "no JSON": b"{", "not UTF-8": b'{"texts": "\xff"}', "a list": b"[1, 2]",
    "NaN": b'{"texts": NaN}', "a lone surrogate": b'{"texts": "\\ud800", "query": "\\ud800"}',
    "deep lists": b"[" * 10_000, "a deep object": b'{"a":' * 5000, "a BOM": b"\xef\xbb\xbf{}",
    "a name twice": b'{"texts": "film", "texts": 3}', "an unknown field": b'{"nonsense": 1}',
}  # fmt: skip
KINDS = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json",
         "text/plain; application/json")  # fmt: skip
PATHS = ("/", "//", "/page/../served.py", "/page/%2e%2e", "/index",
         "/v1/models/\x00", "/v1/models/" + "x" * 9000, "/docs/",
         "/metrics/x", "/é")  # fmt: skip


@cache
def app():
    """The application; made before any child is started, which then starts its own threads."""
    from pacsent import CertifiedClassifier, Index, TextClassifier
    from pacsent.web import ServedModel, ServerSettings, create_app

    index = Index(material.new("Average"))
    index.add(TEXTS)
    texts = [f"{text} {i}" for i in range(6) for text in TEXTS]
    labels = ["up" if "joy" in text else "down" for text in texts]
    classifier = CertifiedClassifier(
        TextClassifier(None, ngrams=(1, 1)), calibration_size=0.4, random_state=0
    ).fit(texts, labels)
    model = ServedModel("m", material.new("Average").fit([]), classifier, index).warm_up()
    return create_app(model, ServerSettings(max_tokens=100_000, timeout=20))


def answer(method: str, path: str, body: bytes = b"", headers=JSON) -> tuple[int, dict, bytes]:
    """Status, headers and body of the application's answer."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": method, "path": path,
             "headers": headers, "raw_path": path.encode(), "query_string": b"",
             "root_path": "", "scheme": "http",
             "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2)}  # fmt: skip
    asyncio.run(app()(scope, receive, send))
    return (
        sent[0]["status"],
        dict(sent[0]["headers"]),
        b"".join(m.get("body", b"") for m in sent[1:]),
    )


def asked(method, path, body=b"", headers=JSON):
    """None for an answer, `Refused` for one clear message in JSON; else what is wrong with it."""
    status, sent, found = answer(method, path, body, headers)
    if status == 200:
        if sent[b"content-type"] == b"application/json":
            json.loads(found)
        return None
    if sent[b"content-type"] != b"application/json" or not 400 <= status < 500:
        return f"status {status}, {sent[b'content-type']!r}"
    message = json.loads(found)["error"]["message"]
    if "\n" in message or FOREIGN.match(message) or len(message) > 500:
        return f"unclear: {message[:300]}"
    raise Refused(message)


def fields() -> Iterator[tuple[str, str, dict]]:
    """(address, field, a request that is right), for every field of every address."""
    from pacsent.web import schemas

    for path, name in (
        ("/v1/embeddings", "EmbeddingsRequest"),
        ("/embed", "EmbedRequest"),
        ("/similarity", "SimilarityRequest"),
        ("/classify", "ClassifyRequest"),
        ("/search", "SearchRequest"),
        ("/v1/rerank", "RerankRequest"),
    ):
        schema = getattr(schemas, name)
        right = {
            key: "good film" for key, field in schema.model_fields.items() if field.is_required()
        }
        right |= {"documents": ["film"]} if path == "/v1/rerank" else {}
        for field in schema.model_fields:
            yield path, field, right


def cases() -> Iterator[Case]:
    for path, field, right in fields():
        for name, value in VALUES.items():
            body = json.dumps({**right, field: value}).encode()
            yield Case(
                f"server {path}: {field} is {name}", lambda p=path, b=body: asked("POST", p, b)
            )
    for path in dict.fromkeys(path for path, _, _ in fields()):
        for name, body in BODIES.items():
            yield Case(f"server {path}: body is {name}", lambda p=path, b=body: asked("POST", p, b),
                       "refused")  # fmt: skip
        for kind in KINDS:
            headers = [(b"content-type", kind.encode())]
            yield Case(f"server {path}: content type {kind!r}",
                       lambda p=path, h=headers: asked("POST", p, b"{}", h), "refused")  # fmt: skip
        for method in ("GET", "PUT", "DELETE", "PATCH", "X" * 300):
            yield Case(f"server {path}: method {method[:8]}", lambda m=method, p=path: asked(m, p),
                       "refused")  # fmt: skip
    for path in PATHS:
        yield Case(f"server address {path[:30]!r}", lambda p=path: asked("GET", p))
