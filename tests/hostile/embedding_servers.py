"""Encoders on URLs: servers that answer anything, redirect, or change, and damaged caches."""

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import numpy as np

from hostile.running import Case, Refused
from http_servers import Handler
from pacsent.sentences.remote_encoder import RemoteEncoder

KEY = "a-key-that-nobody-else-may-see"
TEXTS = ["one", "two words", "three more words"]

# ---- the server ---------------------------------------------------------------------------------


def vector(text: str, size: int = 3) -> list[float]:
    constants = [1.0] * (size - 2)
    return [len(text), text.count("o"), *constants]


def right_rows(texts, size: int = 3) -> list[dict]:
    """The rows of a right answer, new ones at each call."""
    return [{"index": i, "embedding": vector(text, size)} for i, text in enumerate(texts)]


class EmbeddingServer(ThreadingHTTPServer):
    """A server of embeddings in a thread; `answer(handler, texts)` may replace the right answer."""

    def __init__(self, answer=None):
        self.requests = []
        self.answer = answer
        super().__init__(("127.0.0.1", 0), EmbeddingsHandler)

        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class EmbeddingsHandler(Handler):
    def do_GET(self):
        self.server.requests.append(dict(self.headers))
        request = json.loads(self.body() or b"{}")
        texts = request.get("input", [])
        answer = self.server.answer or _answer_right
        with contextlib.suppress(OSError):
            answer(self, texts)

    do_POST = do_GET


# ---- answers ------------------------------------------------------------------------------------

# A function of the handler and of the texts in the request.
Answer = Callable[[EmbeddingsHandler, list[str]], None]

RIGHT_ANSWERS: dict[str, Answer] = {}
WRONG_ANSWERS: dict[str, Answer] = {}


def right(name: str):
    """Adds an answer to RIGHT_ANSWERS."""

    def add(answer):
        RIGHT_ANSWERS[name] = answer
        return answer

    return add


def wrong(name: str):
    """Adds an answer to WRONG_ANSWERS."""

    def add(answer):
        WRONG_ANSWERS[name] = answer
        return answer

    return add


def wrong_rows(name: str):
    """Adds an answer to WRONG_ANSWERS whose rows a function has changed."""

    def add(change):
        def answer(handler, texts):
            rows = change(right_rows(texts))
            handler.answer({"data": rows})

        WRONG_ANSWERS[name] = answer
        return change

    return add


def _answer_rows(handler, rows):
    handler.answer({"data": rows})


@right("as it should")
def _answer_right(handler, texts):
    _answer_rows(handler, right_rows(texts))


@right("in another order")
def _answer_in_another_order(handler, texts):
    rows = right_rows(texts)
    rows.reverse()
    _answer_rows(handler, rows)


@right("without any index")
def _answer_without_index(handler, texts):
    rows = [{"embedding": vector(text)} for text in texts]
    _answer_rows(handler, rows)


@right("with more fields")
def _answer_with_more_fields(handler, texts):
    handler.answer({"data": right_rows(texts), "x": [1]})


@wrong_rows("indexes from one on")
def _count_from_one(rows):
    for row in rows:
        row["index"] += 1
    return rows


@wrong_rows("indexes of text")
def _write_indexes(rows):
    for row in rows:
        row["index"] = str(row["index"])
    return rows


@wrong_rows("fractional indexes")
def _make_indexes_fractional(rows):
    for row in rows:
        row["index"] = float(row["index"])
    return rows


@wrong_rows("too few rows")
def _drop_last(rows):
    return rows[:-1]


@wrong_rows("too many rows")
def _repeat_first(rows):
    return [*rows, rows[0]]


@wrong_rows("no rows")
def _drop_all(rows):
    return []


@wrong_rows("rows that are lists")
def _make_rows_lists(rows):
    return [row["embedding"] for row in rows]


def _set_field(field: str, values: list, rows: list[dict]) -> list[dict]:
    """The rows with these values of a field, repeated."""
    for row, value in zip(rows, itertools.cycle(values)):
        row[field] = value
    return rows


WRONG_INDEXES = {
    "one index twice": [0],
    "indexes true and false": [False, True, 2],
    "negative indexes": [-1, -2, -3],
    "one index missing": [0, 1, None],
    "lists for indexes": [[0]],
}
WRONG_VECTORS = {
    "vectors of several sizes": [[1.0, 2.0], [1.0]],
    "empty vectors": [[]],
    "vectors of text": [["a", "b"]],
    "base64": ["AACAPwAAAEA="],
    "numbers for vectors": [1.0],
    "nested vectors": [[[1.0, 2.0]]],
    "null in vectors": [[1.0, None]],
    "nan": [[1.0, float("nan")]],
}
for _name, _values in WRONG_INDEXES.items():
    wrong_rows(_name)(partial(_set_field, "index", _values))
for _name, _values in WRONG_VECTORS.items():
    wrong_rows(_name)(partial(_set_field, "embedding", _values))


def _answer_body(body, handler, texts):
    handler.answer(body)


WRONG_BODIES = {
    "1e999": b'{"data": [{"embedding": [1e999]}]}',
    "a list": [],
    "an error with status 200": {"error": "no such model"},
    "nothing": b"",
    "HTML": b"<html>\nhello\n</html>",
    "deep JSON": b"[" * 100_000,
    "not UTF-8": b'{"data": "\xff"}',
}
for _name, _body in WRONG_BODIES.items():
    wrong(_name)(partial(_answer_body, _body))


@wrong("no HTTP")
def _answer_without_http(handler, texts):
    handler.wfile.write(b"\x00\x01 hello\r\n\r\n")


@wrong("a closed connection")
def _answer_nothing(handler, texts):
    pass


@wrong("a long header")
def _answer_with_long_header(handler, texts):
    handler.answer({}, x=70_000 * "y")


@wrong("a cut body")
def _cut_body(handler, texts):
    handler.answer(b"{}", Content_Length=1000)


@wrong("broken chunks")
def _break_chunks(handler, texts):
    handler.answer(b"zz\r\n", Transfer_Encoding="chunked")


def _answer_without_end(handler, piece: bytes, pause: float):
    handler.send_response(200)
    handler.end_headers()
    while True:
        handler.wfile.write(piece)
        time.sleep(pause)


@wrong("an endless body")
def _answer_without_end_fast(handler, texts):
    _answer_without_end(handler, b" " * 65536, pause=0.0)


@wrong("an endless slow body")
def _answer_without_end_slowly(handler, texts):
    _answer_without_end(handler, b" ", pause=0.1)


def _answer_status(status: int, handler, texts):
    handler.answer(b"a\nb", status)


def _answer_retry_after(after: str, handler, texts):
    handler.answer(b"", 429, Retry_After=after)


STATUSES = (204, 400, 401, 403, 404, 413, 429, 500, 503)
RETRY_AFTER = ("nan", "-1", "-inf", "0", "Wed, 21 Oct 2026 07:28:00 GMT", "x" * 100)
for _status in STATUSES:
    wrong(f"status {_status}")(partial(_answer_status, _status))
for _after in RETRY_AFTER:
    wrong(f"status 429 and Retry-After {_after}")(partial(_answer_retry_after, _after))

# ---- what must hold -----------------------------------------------------------------------------


def _remote(url: str) -> RemoteEncoder:
    return RemoteEncoder(url, key=KEY, cache="cache", n_retries=1, timeout=1)


def _has_right_vectors(encoder: RemoteEncoder) -> bool:
    right_vectors = [vector(text) for text in TEXTS]
    return encoder.encode(TEXTS).tolist() == right_vectors


def _encode(answer: Answer) -> str:
    """The vectors are right or refused, and no message contains the key."""
    server = EmbeddingServer(answer)
    try:
        is_right = _has_right_vectors(_remote(server.url))
    except Exception as error:
        if KEY in str(error):
            raise AssertionError("the message contains the key") from None
        raise
    return "" if is_right else "other vectors than the right ones"


def _encode_url(url: str) -> None:
    _remote(url).encode(TEXTS)


def _redirected(status: int, place: str) -> str:
    """The key is not sent where a server redirects to."""
    other = EmbeddingServer()
    target = other.url if place == "another host" else "/v1/other"
    server = EmbeddingServer(
        lambda handler, texts: handler.answer(b"", status, Location=target),
    )

    with contextlib.suppress(ConnectionError):
        _encode_url(server.url)
        return "was followed"

    if other.requests or len(server.requests) > 2:
        return f"sent {other.requests}"
    raise Refused("not followed")


def _size_changes() -> str:
    """Vectors of another size are refused, and those that are stored remain."""
    server = EmbeddingServer()
    encoder = _remote(server.url)
    encoder.encode(TEXTS)

    server.answer = lambda handler, texts: _answer_rows(handler, right_rows(texts, size=5))
    with contextlib.suppress(ValueError):
        encoder.encode(["new"])
        return "was accepted"

    return "" if _has_right_vectors(encoder) else "the stored vectors changed"


def _cache_changes(place: float) -> str:
    """A byte of the cache changes: its vector is requested again, or the file is refused."""
    encoder = _remote(EmbeddingServer().url)
    encoder.encode(TEXTS)

    [file] = Path("cache").iterdir()
    content = bytearray(file.read_bytes())
    last = len(content) - 1
    content[int(place * last)] ^= 0x10
    file.write_bytes(content)

    return "" if _has_right_vectors(encoder) else "other vectors than the right ones"


# ---- cases --------------------------------------------------------------------------------------

REDIRECTIONS = (301, 302, 303, 307, 308)
PLACES = ("another host", "a path")
BAD_URLS = ("", "127.0.0.1", "ftp://127.0.0.1/", "file:///etc/passwd", "http://", "http://[::")
BAD_KEYS = (f"{KEY}\n", f"{KEY}\r\nHost: x", "é", "\0")


def cases() -> Iterator[Case]:
    for name, answer in RIGHT_ANSWERS.items():
        yield Case(f"a server answers {name}", partial(_encode, answer), "ok")
    for name, answer in WRONG_ANSWERS.items():
        yield Case(f"a server answers with {name}", partial(_encode, answer), "refused")

    for status, place in itertools.product(REDIRECTIONS, PLACES):
        run = partial(_redirected, status, place)
        yield Case(f"status {status} to {place}", run, "refused")

    yield Case("the vectors of a server change their size", _size_changes, "ok")
    for place in np.linspace(0, 1, 33):
        yield Case(f"a byte at {place:.0%} of the cache", partial(_cache_changes, place))

    for url in BAD_URLS:
        yield Case(f"the URL {url!r}", partial(_encode_url, url), "refused")
    for key in BAD_KEYS:
        run = partial(RemoteEncoder, "http://127.0.0.1:9/v1", key=key)
        yield Case(f"the key {key!r}", run, "refused")
