"""Middleware that every request passes before FastAPI's routes: id, key, limits, time, log."""

import asyncio
import itertools
import os
import re
import time
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from pacsent.web import metrics
from pacsent.web.logs import LOGGER
from pacsent.web.schemas import RequestError, validation_error
from pacsent.web.settings import ServerSettings

_OPEN_PATHS = frozenset({"/health", "/", "/docs", "/favicon.ico"})  # no key needed
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# A client that is still sending does not read the response: this multiple of the size limit is read
# and discarded first.
_MAX_DISCARDED = 16
_CONTENT_POLICY = (
    b"default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; img-src 'self' "
    b"data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SAFE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", _CONTENT_POLICY),
]


class RequestMiddleware:
    """ASGI middleware: gives each request an id, checks key, type and size, and limits its time.

    One line per request goes to the log, with the template of its path and never with a text.
    `post_paths` are those that take a body, by default all; the routes answer any other method and
    path.
    """

    def __init__(
        self, app: Any, settings: ServerSettings, post_paths: frozenset[str] | None = None
    ) -> None:
        self._app = app
        self._settings = settings
        self._post_paths = post_paths
        self._n_active = 0
        self._id_prefix = os.urandom(6).hex()
        self._id_numbers = itertools.count()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        headers = dict(scope["headers"])
        request_id = self._request_id(headers)
        scope["request_id"] = request_id
        request = _Exchange(receive, send, request_id, self._settings.max_body)

        self._n_active += 1
        try:
            async with asyncio.timeout(self._settings.timeout):
                try:
                    self._check(scope, headers)
                except RequestError:
                    await request.discard_body()
                    raise
                await self._app(scope, request.receive, request.send)
        except RequestError as error:
            await request.send_error(scope, error)
        except TimeoutError:
            await request.send_error(scope, self._timeout_error(request.has_body))
        except Exception:
            LOGGER.exception("fault", extra={"fields": {"request_id": request_id}})
            message = "The server has a defect. Report the request_id to whoever runs it."
            await request.send_error(scope, RequestError(500, message))
        finally:
            self._n_active -= 1
            _record(scope, request.status, time.perf_counter() - start)

    def _request_id(self, headers: dict[bytes, bytes]) -> str:
        """The id that the client sent, if it is well-formed, or a new one."""
        request_id = headers.get(b"x-request-id", b"").decode("latin-1")
        if _REQUEST_ID.fullmatch(request_id):
            return request_id
        return f"{self._id_prefix}-{next(self._id_numbers)}"

    def _timeout_error(self, has_body: bool) -> RequestError:
        limit = f"{self._settings.timeout:g} seconds"
        close = {"connection": "close"}
        if has_body:
            message = f"The response took longer than {limit}. Send fewer texts per request."
            return RequestError(504, message, headers=close)
        return RequestError(408, f"The body took longer than {limit}.", headers=close)

    def _check(self, scope: Any, headers: dict[bytes, bytes]) -> None:
        """Raise `RequestError` unless key, type, size and number of requests are as they must."""
        path = scope["path"]
        settings = self._settings
        is_open = path in _OPEN_PATHS or path.startswith("/page/")
        if not (is_open or settings.accepts_key(headers.get(b"authorization"))):
            message = "This server requires an API key. Send the header Authorization: Bearer KEY."
            raise RequestError(401, message, headers={"www-authenticate": "Bearer"})

        takes_body = self._post_paths is None or path in self._post_paths
        if scope["method"] != "POST" or not takes_body:
            return

        # Browsers let any web site send other types without asking this server first.
        media_type, _, _ = headers.get(b"content-type", b"").partition(b";")
        if media_type.strip().lower() != b"application/json":
            raise RequestError(415, "The header Content-Type must be application/json.")
        if self._n_active > settings.max_concurrent:
            message = f"This worker answers at most {settings.max_concurrent:,} requests at once."
            raise RequestError(429, f"{message} Try again.", headers={"retry-after": "1"})
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > settings.max_body:
            raise _too_large(settings.max_body)


def _record(scope: Any, status: int, seconds: float) -> None:
    """Count a request that was answered, and write its line to the log."""
    path = getattr(scope.get("route"), "path", "other")
    n_texts = scope.get("n_texts", 0)
    metrics.REQUESTS.labels(path, status).inc()
    metrics.REQUEST_SECONDS.labels(path).observe(seconds)
    metrics.TEXTS.inc(n_texts)
    fields = {
        "request_id": scope["request_id"],
        "method": scope["method"][:10],
        "path": path,
        "status": status,
        "ms": round(1e3 * seconds, 3),
        "texts": n_texts,
    }
    LOGGER.info("request", extra={"fields": fields})


class _Exchange:
    """The body of one request, limited in size, and its response, whose status is recorded."""

    def __init__(self, receive: Any, send: Any, request_id: str, max_body: int) -> None:
        self._receive = receive
        self._send = send
        self._request_id = request_id
        self._max_body = max_body
        self._n_bytes = 0
        self._discarding = False
        self.has_body = False  # whether the body was received completely
        self.status = 499  # until a response begins: the client closed the connection

    async def receive(self) -> Any:
        """The next part of the body."""
        message = await self._receive()
        self._n_bytes += len(message.get("body", b""))
        self.has_body = not message.get("more_body", False)
        if self._n_bytes > self._max_body and not self._discarding:
            await self.discard_body()
            raise _too_large(self._max_body)
        return message

    async def discard_body(self) -> None:
        """Read the body to its end, or to the limit of what is discarded."""
        self._discarding = True
        while not self.has_body and self._n_bytes <= _MAX_DISCARDED * self._max_body:
            await self.receive()

    async def send(self, message: Any) -> None:
        """Send a part of the response, with the headers that every response has."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            request_id = (b"x-request-id", self._request_id.encode())
            message["headers"] = [*message["headers"], request_id, *_SAFE_HEADERS]
        await self._send(message)

    async def send_error(self, scope: Any, error: RequestError) -> None:
        """Answer with an error, unless a response has begun."""
        if self.status == 499:
            response = error.response(self._request_id)
            await response(scope, self._receive, self.send)


def _too_large(max_body: int) -> RequestError:
    message = f"The body must have at most {max_body:,} bytes. Send several requests."
    return RequestError(413, message, headers={"connection": "close"})


def add_error_handlers(app: FastAPI) -> None:
    """Answer what FastAPI rejects in the same form as everything else."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return validation_error(error).response(request.scope["request_id"])

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        if not isinstance(error, RequestError):
            messages = {
                400: "The body must be JSON. It is not.",
                404: "There is nothing at this address. GET /openapi.json lists what there is.",
                405: f"This address does not answer {request.method[:10]}.",
            }
            message = messages.get(error.status_code, str(error.detail))
            error = RequestError(error.status_code, message, headers=error.headers)
        return error.response(request.scope["request_id"])
