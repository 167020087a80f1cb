"""The ASGI application: FastAPI for what is looked up, and a short way in for what is asked often.

Every request passes `Front`: its id, key, size, time and place in the queue, and one line in the
log. It hands POSTs to `Endpoints` itself, since FastAPI's routing and validation would cost more
than the answers; the rest (documentation, health, metrics, the page) is FastAPI's.
"""

import asyncio
import itertools
import os
import re
import time
from pathlib import Path

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

import pacsent
from pacsent.serve import documented
from pacsent.serve.endpoints import Endpoints, Reply
from pacsent.serve.logs import Log
from pacsent.serve.metrics import PATHS, Metrics
from pacsent.serve.problems import Problem
from pacsent.serve.served import Served
from pacsent.serve.settings import Settings

PAGE = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_OPEN = frozenset({"/health", "/ready", "/", "/favicon.ico"})  # no key needed
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_DRAINED = 16  # times the largest body that is read, so that the client hears the refusal
_POLICY = (
    b"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def create_app(
    served: Served,
    settings: Settings | None = None,
    metrics: Metrics | None = None,
    log: Log | None = None,
) -> "Front":
    """The application that answers for these models; any ASGI server runs it.

    Parameters
    ----------
    served : Served
    settings : Settings, optional
    metrics : Metrics, optional
        Shared with other workers.
    log : Log, optional
        Left out: nothing is logged.

    Examples
    --------
    >>> from pacsent import make
    >>> app = create_app(Served("english", make("SIF-sum", "english")))
    >>> sorted(app.endpoints.table())
    ['/embed', '/similarity', '/v1/embeddings']
    """
    settings = settings or Settings()
    metrics = metrics or Metrics()
    return Front(Endpoints(served, settings, metrics), log or Log(enabled=False))


class Front:
    """Who may come in, how long it may take, and what is written down about it."""

    def __init__(self, endpoints: Endpoints, log: Log):
        self.endpoints = endpoints
        self.settings = endpoints.settings
        self.metrics = endpoints.metrics
        self.log = log
        self.draining = False
        self._posts = endpoints.table()
        self._app = _looked_up(self)
        self._n = 0  # requests under way
        self._ids = itertools.count()
        self._prefix = os.urandom(6).hex().encode()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return None
        start = time.perf_counter()
        method, path = scope["method"], scope["path"]
        authorization = length = origin = request_id = None
        for name, value in scope["headers"]:
            if name == b"authorization":
                authorization = value
            elif name == b"content-length":
                length = value
            elif name == b"x-request-id":
                request_id = value
            elif name == b"origin":
                origin = value
        if request_id is None or not _REQUEST_ID.fullmatch(request_id):
            request_id = b"%b-%d" % (self._prefix, next(self._ids))
        headers = [(b"x-request-id", request_id)]
        if origin is not None and self.settings.origins:
            headers += self._cors(origin)
        if self.draining:
            headers.append((b"connection", b"close"))
        self._n += 1
        self.metrics.under_way(self._n)
        sent = _Sent(send, headers)
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        timer = loop.call_later(
            self.settings.timeout, sent.expire, task
        )  # asyncio.timeout, lighter
        n_texts = 0
        try:
            n_texts = await self._answer(scope, receive, sent, authorization, length)
        except Problem as problem:
            await sent.problem(problem, request_id.decode())
        except asyncio.CancelledError:
            if not sent.expired:
                raise
            task.uncancel()
            said = f"The answer took longer than {self.settings.timeout:g} seconds."
            await sent.problem(Problem(504, said), request_id.decode())
        except Exception as error:  # a fault of ours: the client hears that, the log which
            about = {"request_id": request_id.decode(), "kind": type(error).__name__}
            self.log.event("fault", "error", **about, where=_place(error))
            said = "The server made a mistake. Name the request_id to the person who runs it."
            await sent.problem(Problem(500, said), request_id.decode())
        finally:
            timer.cancel()
            self._n -= 1
            self.metrics.under_way(self._n)
            seconds = time.perf_counter() - start
            shown = path if path in _KNOWN else "other"
            self.metrics.add_request(shown, sent.status, seconds)
            self.log.request(request_id.decode(), method if method in _METHODS else "other", shown,
                             sent.status, seconds, n_texts, sent.n_bytes)  # fmt: skip

    async def _answer(self, scope, receive, sent, authorization, length) -> int:
        method, path = scope["method"], scope["path"]
        if method == "OPTIONS" and self.settings.origins:
            await sent.answer(204, b"")
            return 0
        needs_key = path not in _OPEN and not path.startswith("/page/")
        if needs_key and self.settings.keys and not self.settings.admits(authorization):
            await self._drain(receive)
            raise Problem(401, "This server asks for an API key. Send it as the header "
                          "Authorization: Bearer KEY.")  # fmt: skip
        handler = self._posts.get(path) if method == "POST" else None
        if handler is None:
            scope["request_id"] = sent.request_id
            await self._app(scope, receive, sent.send)
            return 0
        if self._n > self.settings.max_concurrent:
            await self._drain(receive)
            raise Problem(
                429,
                f"This worker answers at most {self.settings.max_concurrent:,} requests at once. "
                "Try again in a second.",
                retry=1,
            )
        if length is not None and length.isdigit() and int(length) > self.settings.max_body:
            await self._drain(receive)
            raise self._too_large()
        message = await receive()
        if message.get("more_body"):
            body = await self._rest(message["body"], receive)
        elif message["type"] == "http.disconnect":
            raise _Gone
        else:
            body = message["body"]
            if len(body) > self.settings.max_body:
                raise self._too_large()
        answer: Reply = await handler(body)
        await sent.answer(200, answer.body)
        return answer.n_texts

    async def _rest(self, first, receive) -> bytes:
        pieces, size = [first], len(first)
        try:
            async with asyncio.timeout(self.settings.timeout / 2):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _Gone
                    pieces.append(message["body"])
                    size += len(message["body"])
                    if size > self.settings.max_body:
                        await self._drain(receive)
                        raise self._too_large()
                    if not message.get("more_body"):
                        return b"".join(pieces)
        except TimeoutError:
            raise Problem(408, "The body did not arrive in time: within "
                          f"{self.settings.timeout / 2:g} seconds.") from None  # fmt: skip

    async def _drain(self, receive):
        """Read on for a moment: a client that is still sending does not hear an answer."""
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

    def _cors(self, origin) -> list[tuple[bytes, bytes]]:
        allowed = self.settings.origins
        if "*" not in allowed and origin.decode("latin-1") not in allowed:
            return []
        return [
            (b"access-control-allow-origin", origin if "*" not in allowed else b"*"),
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", b"authorization, content-type, x-request-id"),
            (b"access-control-expose-headers", b"x-request-id, retry-after"),
            (b"access-control-max-age", b"600"),
            (b"vary", b"origin"),
        ]

    def close(self) -> None:
        self.endpoints.close()


class _Gone(Problem):
    """The client closed the connection before it had asked."""

    def __init__(self):
        super().__init__(499, "The client went away.")


class _Sent:
    """Sends one answer; knows its status and size."""

    def __init__(self, send, headers):
        self._send = send
        self._headers = headers
        self.request_id = headers[0][1].decode()
        self.status = 499  # until an answer begins: the client went away
        self.n_bytes = 0
        self._began = False
        self.expired = False

    def expire(self, task):
        """Too late: give the request up."""
        self.expired = True
        task.cancel()

    async def send(self, message):
        """For FastAPI: what it sends, with our headers."""
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

    async def problem(self, problem, request_id):
        if self._began or problem.status == 499:  # too late, or nobody there
            return
        more = [(b"retry-after", b"%d" % problem.retry)] if problem.retry else []
        if problem.status == 401:
            more.append((b"www-authenticate", b"Bearer"))
        if problem.status in (408, 413, 504):
            more.append((b"connection", b"close"))
        await self.answer(problem.status, problem.body(request_id), more)


_KNOWN = frozenset(PATHS)
_METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"})
_SAFE = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"no-referrer"),
)


def _place(error) -> str:
    """Where in our code it happened: a file and a line, no values."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    )


def _looked_up(front: Front) -> FastAPI:
    """What is looked up rather than asked: health, metrics, models, documentation, the page."""
    served, metrics = front.endpoints.served, front.metrics
    app = FastAPI(
        title="pacsent",
        version=pacsent.__version__,
        description="Sentence vectors with a promise attached.",
        docs_url=None,
        redoc_url=None,
    )
    created = int(time.time())

    @app.get("/health", summary="Whether the server runs")
    async def health():
        return JSONResponse({"status": "ok"})

    @app.get("/ready", summary="Whether it takes requests")
    async def ready():
        if front.draining:
            raise HTTPException(503, "The server is stopping.")
        return JSONResponse({"status": "ready", "model": served.name})

    @app.get("/metrics", summary="Counters of all workers, for Prometheus")
    async def metrics_():
        return Response(metrics.text(served.name), media_type="text/plain; version=0.0.4")

    @app.get("/v1/models", summary="The model, as OpenAI's clients ask for it")
    async def models():
        return JSONResponse({"object": "list", "data": [_model(served, created)]})

    @app.get("/v1/models/{name}", summary="The same, by name")
    async def model(name: str):
        if name != served.name:
            raise HTTPException(404, f"This server has the model {served.name!r} and no other.")
        return JSONResponse(_model(served, created))

    @app.get("/certificates", summary="What is promised, in plain words and in numbers")
    async def certificates():
        return JSONResponse({"model": served.name, "certificates": served.spelled_certificates()})

    if served.index is not None:
        _add_index(app, served)

    @app.get("/docs", include_in_schema=False)
    async def docs():
        return HTMLResponse(documented.as_page(app.openapi()))

    @app.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str):
        return _page_file(name)

    @app.get("/", include_in_schema=False)
    async def page():
        return _page_file("index.html")

    documented.add_posts(app, front.endpoints.table())

    _add_problems(app)
    return app


def _add_index(app: FastAPI, served: Served) -> None:
    """The texts that can be searched, one by one and as a map."""

    @app.get("/index", summary="How many texts can be searched")
    async def index():
        return JSONResponse({"model": served.name, "texts": len(served.index)})

    @app.get("/index/map", summary="Where each text lies on a plane")
    async def index_map():
        return Response(orjson.dumps(served.map()), media_type="application/json")

    @app.get("/index/{number}", summary="One text, by its number")
    async def text(number: int):
        try:
            return JSONResponse({"id": number, "text": served.index.text(number)})
        except ValueError as error:
            raise HTTPException(404, str(error)) from None


def _add_problems(app: FastAPI) -> None:
    """What FastAPI refuses is told in our form."""

    @app.exception_handler(RequestValidationError)
    async def no_number(request: Request, error: RequestValidationError):
        problem = Problem(422, "The address must end in the number of a text.")
        body = problem.body(request.scope.get("request_id", ""))
        return Response(body, 422, media_type="application/json")

    @app.exception_handler(HTTPException)
    async def as_json(request: Request, error: HTTPException):
        problem = Problem(error.status_code, _said(error, request))
        body = problem.body(request.scope.get("request_id", ""))
        return Response(body, error.status_code, error.headers, "application/json")


def _said(error, request) -> str:
    if error.status_code == 404 and error.detail == "Not Found":
        return "There is nothing at this address. GET /openapi.json names what there is."
    if error.status_code == 405:
        return f"This address does not answer {request.method[:10]}."
    return str(error.detail)


def _model(served, created) -> dict:
    about = {"id": served.name, "object": "model", "created": created, "owned_by": "pacsent"}
    return {**about, "pacsent": served.about()}


def _page_file(name) -> Response:
    """One of the files of the page; a name is looked up, never joined to a path."""
    files = {path.name: path for path in PAGE.iterdir() if path.suffix in _TYPES}
    if name not in files:
        raise HTTPException(404)
    return FileResponse(files[name], media_type=_TYPES[files[name].suffix])
