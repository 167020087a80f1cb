"""What every request passes through, as one ASGI middleware in front of FastAPI.

`Front` gives a request its id, checks its API key, type and size, limits its time and the number of
requests at once, and writes one line to the log. POSTs go from here to `Endpoints` directly, since
FastAPI's routing takes longer than the answers; the rest is answered by the application behind it.
"""

import asyncio
import itertools
import os
import re
import time
from pathlib import Path
from typing import Any

from starlette.middleware.cors import CORSMiddleware

from pacsent.web.endpoints import Deadline, Reply
from pacsent.web.logs import Log
from pacsent.web.metrics import PATHS
from pacsent.web.schemas import Problem, parsed
from pacsent.web.several_models import SeveralEndpoints
from pacsent.web.telemetry import Telemetry

_OPEN = frozenset({"/health", "/ready", "/", "/docs", "/favicon.ico"})  # no key needed
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_DRAINED = 16  # times the largest body is read, so that the client receives the refusal
_KNOWN = frozenset(PATHS)
_METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"})
_POLICY = (
    b"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"no-referrer"),
)


class Front:
    """The application that a server runs: request ids, keys, limits, time and the log.

    `app` is the ASGI application that answers everything but the POSTs of `endpoints`.
    """

    def __init__(
        self, endpoints: SeveralEndpoints, app: Any, log: Log, telemetry: Telemetry | None = None
    ):
        self.endpoints = endpoints
        self.settings = endpoints.settings
        self.metrics = endpoints.metrics
        self.log = log
        self._telemetry = telemetry
        self.draining = False
        self._posts = endpoints.table()
        self._app = app
        self._n = 0  # requests under way
        self._ids = itertools.count()
        self._prefix = os.urandom(6).hex().encode()
        self._entry = self._request
        if self.settings.origins:
            self._entry = CORSMiddleware(
                self._request,
                allow_origins=self.settings.origins,
                allow_methods=["GET", "POST"],
                allow_headers=["authorization", "content-type", "x-request-id"],
                expose_headers=["x-request-id", "retry-after"],
            )

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            await self._entry(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)

    async def _request(self, scope, receive, send):
        start = time.perf_counter()
        found = _Headers(scope["headers"])
        request_id = found.request_id
        if request_id is None or not _REQUEST_ID.fullmatch(request_id):
            request_id = b"%b-%d" % (self._prefix, next(self._ids))
        headers = [(b"x-request-id", request_id)]
        if self.draining:
            headers.append((b"connection", b"close"))
        self._n += 1
        self.metrics.under_way(self._n)
        sent = _Sent(send, headers)
        task = asyncio.current_task()
        timer = asyncio.get_running_loop().call_later(  # as asyncio.timeout, at less cost
            self.settings.timeout, sent.expire, task
        )
        n_texts = 0
        try:
            n_texts = await self._answer(scope, receive, sent, found)
        except Problem as problem:
            await sent.problem(problem)
        except asyncio.CancelledError:
            if not sent.expired:
                raise
            task.uncancel()
            await sent.problem(Deadline(self.settings.timeout).problem())
        except Exception as error:  # a defect of the server: details go to the log alone
            self.log.event("fault", "error", request_id=sent.request_id, kind=type(error).__name__,
                           where=_place(error))  # fmt: skip
            await sent.problem(Problem(500, "The server has a defect. Report the request_id to "
                                       "whoever runs it."))  # fmt: skip
        finally:
            timer.cancel()
            self._n -= 1
            self.metrics.under_way(self._n)
            seconds = time.perf_counter() - start
            path, method = _shown_path(scope), scope["method"]
            method = method if method in _METHODS else "other"
            self.metrics.add_request(path, sent.status, seconds)
            self.log.request(sent.request_id, method, path, sent.status, seconds, n_texts,
                             sent.n_bytes)  # fmt: skip
            if self._telemetry is not None:
                since = time.time_ns() - int(1e9 * seconds)
                self._telemetry.request(method, path, sent.status, seconds, since, scope["headers"])

    async def _answer(self, scope, receive, sent, headers) -> int:
        path = scope["path"]
        is_open = path in _OPEN or path.startswith("/page/")
        if not (is_open or self.settings.admits(headers.authorization)):
            await self._drain(receive)
            raise Problem(401, "This server requires an API key. Send it as the header "
                              "Authorization: Bearer KEY.")  # fmt: skip
        found = self._posts.get(path) if scope["method"] == "POST" else None
        if found is None:
            scope["request_id"] = sent.request_id
            await self._app(scope, receive, sent.send)
            return 0
        schema, handler = found
        body = await self._body(receive, headers)
        answer: Reply = await handler(parsed(schema, body))
        await sent.answer(200, answer.body)
        return answer.n_texts

    async def _body(self, receive, headers) -> bytes:
        """The whole body, if its type, its size and the number of requests allow it."""
        refused = None
        if headers.kind != b"application/json" and not headers.is_json():
            refused = Problem(415, "The body must be JSON with the header Content-Type: "
                              "application/json.")  # fmt: skip
        elif self._n > self.settings.max_concurrent:
            refused = Problem(
                429,
                f"This worker answers at most {self.settings.max_concurrent:,} requests at once. "
                "Try again in a second.",
                retry=1,
            )
        elif headers.length > self.settings.max_body:
            refused = self._too_large()
        if refused is not None:
            await self._drain(receive)
            raise refused
        pieces: list[bytes] = []
        size = 0
        message = await receive()  # mostly the whole body, which needs no timer
        if message["type"] == "http.request" and not message.get("more_body"):
            if len(message["body"]) > self.settings.max_body:
                raise self._too_large()
            return message["body"]
        try:
            async with asyncio.timeout(self.settings.timeout / 2):
                while message["type"] == "http.request":
                    pieces.append(message["body"])
                    size += len(message["body"])
                    if size > self.settings.max_body:
                        await self._drain(receive)
                        raise self._too_large()
                    if not message.get("more_body"):
                        return b"".join(pieces)
                    message = await receive()
        except TimeoutError:
            raise Problem(408, "The body did not arrive in time: within "
                          f"{self.settings.timeout / 2:g} seconds.") from None  # fmt: skip
        raise _Gone

    async def _drain(self, receive):
        """Read on for a moment: a client that is still sending does not read an answer."""
        size = 0
        try:
            async with asyncio.timeout(min(5.0, self.settings.timeout / 4)):
                while size <= _DRAINED * self.settings.max_body:
                    message = await receive()
                    size += len(message.get("body", b""))
                    if not message.get("more_body"):
                        return
        except TimeoutError:
            return

    def _too_large(self) -> Problem:
        return Problem(413, f"The body must have at most {self.settings.max_body:,} bytes. Send "
                       "several requests.")  # fmt: skip

    def close(self) -> None:
        self.endpoints.close()
        if self._telemetry is not None:
            self._telemetry.close()


class _Headers:
    """The headers that `Front` reads, found in one pass."""

    __slots__ = ("authorization", "kind", "length", "request_id")

    def __init__(self, headers):
        self.authorization = self.kind = self.request_id = None
        self.length = 0
        for name, value in headers:
            if name == b"content-type":
                self.kind = value
            elif name == b"content-length":
                self.length = int(value) if value.isdigit() else 0
            elif name == b"authorization":
                self.authorization = value
            elif name == b"x-request-id":
                self.request_id = value

    def is_json(self) -> bool:
        """Whether the type is JSON; browsers send other types to other sites without asking."""
        kind = (self.kind or b"").partition(b";")[0].strip().lower()
        return kind == b"application/json"


class _Gone(Problem):
    """The client closed the connection before its request was complete."""

    def __init__(self):
        super().__init__(499, "The client closed the connection.")


class _Sent:
    """Sends one answer and records its status and size."""

    def __init__(self, send, headers):
        self._send = send
        self._headers = headers
        self.request_id = headers[0][1].decode()
        self.status = 499  # until an answer begins: the client closed the connection
        self.n_bytes = 0
        self._began = False
        self.expired = False

    def expire(self, task):
        """The time is over: cancel the request."""
        self.expired = True
        task.cancel()

    async def send(self, message):
        """What FastAPI sends, with the headers of this request."""
        if message["type"] == "http.response.start":
            self._began, self.status = True, message["status"]
            message["headers"] = [*message.get("headers", ()), *self._headers, *_SAFE]
        else:
            self.n_bytes += len(message.get("body", b""))
        await self._send(message)

    async def answer(self, status, body, more=()):
        self._began, self.status, self.n_bytes = True, status, len(body)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            *self._headers,
            *more,
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def problem(self, problem):
        if self._began or problem.status == 499:  # too late, or the client is gone
            return
        more = [(b"retry-after", b"%d" % problem.retry)] if problem.retry else []
        if problem.status == 401:
            more.append((b"www-authenticate", b"Bearer"))
        if problem.status in (408, 413, 504):
            more.append((b"connection", b"close"))
        await self.answer(problem.status, problem.body(self.request_id), more)


def _shown_path(scope) -> str:
    """The address for the log and the metrics: a known one, its pattern, or "other"."""
    path = scope["path"]
    if path in _KNOWN:
        return path
    pattern = getattr(scope.get("route"), "path", None)
    return pattern if pattern in _KNOWN else "other"


def _place(error) -> str:
    """The file and the line of an error, without any value."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
