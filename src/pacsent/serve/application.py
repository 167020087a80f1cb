"""The application: FastAPI with its documentation and pages, behind `Front`."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

import pacsent
from pacsent import maps
from pacsent.serve.endpoints import Endpoints
from pacsent.serve.front import Front
from pacsent.serve.logs import Log
from pacsent.serve.metrics import Metrics
from pacsent.serve.schemas import ErrorAnswer, Problem
from pacsent.serve.served import Served
from pacsent.serve.settings import Settings

PAGE = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
# the server's own pages, and what they share with the pages of maps
PAGE_FILES = {
    path.name: path
    for path in (*PAGE.iterdir(), maps.FOLDER / "map.js", maps.FOLDER / "page.css")
    if path.suffix in _TYPES
}


def create_app(
    served: Served,
    settings: Settings | None = None,
    metrics: Metrics | None = None,
    log: Log | None = None,
) -> Front:
    """The application that answers for these models; any ASGI server runs it.

    `metrics` may be shared with other workers; without a `log` nothing is logged.

    >>> from pacsent import make
    >>> app = create_app(Served("english", make("SIF-sum", "english")))
    >>> sorted(app.endpoints.table())
    ['/embed', '/similarity', '/v1/embeddings']
    """
    endpoints = Endpoints(served, settings or Settings(), metrics or Metrics())
    app = FastAPI(
        title="pacsent",
        version=pacsent.__version__,
        description="Sentence vectors, classes and search, with guarantees.",
        docs_url=None,  # FastAPI's own pages come from the network
        redoc_url=None,
        redirect_slashes=False,
    )
    front = Front(endpoints, app, log or Log(enabled=False))
    _add_state(app, front)
    _add_models(app, served)
    if served.index is not None:
        _add_index(app, served)
    _add_posts(app, endpoints)
    _add_pages(app)
    _add_problems(app)
    return front


def _add_state(app: FastAPI, front: Front) -> None:
    served = front.endpoints.served

    @app.get("/health", summary="Whether the server runs")
    async def health():
        return JSONResponse({"status": "ok"})

    @app.get("/ready", summary="Whether the server accepts requests")
    async def ready():
        if front.draining:
            raise HTTPException(503, "The server is stopping.")
        return JSONResponse({"status": "ready", "model": served.name})

    @app.get("/metrics", summary="Counters of all workers, for Prometheus")
    async def metrics():
        text, kind = front.metrics.text(served.name)
        return Response(text, media_type=kind)


def _add_models(app: FastAPI, served: Served) -> None:
    about: dict[str, Any] = {"id": served.name, "object": "model", "created": int(time.time()),
             "owned_by": "pacsent", "pacsent": served.about()}  # fmt: skip

    @app.get("/v1/models", summary="The model, as OpenAI's clients ask for it")
    async def models():
        return JSONResponse({"object": "list", "data": [about]})

    @app.get("/v1/models/{name}", summary="The same, by name")
    async def model(name: str):
        if name != served.name:
            raise HTTPException(404, f"This server has the model {served.name!r} and no other.")
        return JSONResponse(about)

    @app.get("/certificates", summary="Verified certificates, in words and in numbers")
    async def certificates():
        return JSONResponse({"model": served.name, "certificates": served.described_certificates()})


def _add_index(app: FastAPI, served: Served) -> None:
    """The texts that can be searched, one by one and as a map."""

    @app.get("/index", summary="The number of texts that can be searched")
    async def index():
        return JSONResponse({"model": served.name, "texts": len(served.index)})

    @app.get("/index/map", summary="The place of each text on a plane")
    def index_map():  # in a thread: there may be millions
        return Response(orjson.dumps(served.map()), media_type="application/json")

    @app.get("/index/{number}", summary="One text, by its number")
    async def text(number: int):
        try:
            return JSONResponse({"id": number, "text": served.index.text(number)})
        except ValueError as error:
            raise HTTPException(404, str(error)) from None


def _add_posts(app: FastAPI, endpoints: Endpoints) -> None:
    """Put the POSTs into OpenAPI and into the router, which answers 405 for other methods.

    `Front` calls the same methods with requests of the same schemas, without the router.
    """
    refused: dict[int | str, dict[str, Any]] = {"4XX": {"model": ErrorAnswer}}
    for path, (_, handler) in endpoints.table().items():
        app.add_api_route(path, handler, methods=["POST"], response_model=None, responses=refused,
                          summary=(handler.__doc__ or "").splitlines()[0].rstrip("."),
                          description="")  # fmt: skip


def _add_pages(app: FastAPI) -> None:
    """The page to try the server, the documentation and their files."""
    for address, name in (
        ("/", "index.html"),
        ("/docs", "docs.html"),
        ("/favicon.ico", "icon.svg"),
    ):
        app.add_api_route(address, partial(_file, name), include_in_schema=False)

    @app.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str):
        if name not in PAGE_FILES:  # a name is looked up, never joined to a path
            raise HTTPException(404)
        return _file(name)


def _file(name: str) -> Response:
    path = PAGE_FILES[name]
    return Response(path.read_bytes(), media_type=_TYPES[path.suffix])


def _add_problems(app: FastAPI) -> None:
    """What FastAPI refuses is answered in the same form as the rest."""

    @app.exception_handler(RequestValidationError)
    async def no_number(request: Request, error: RequestValidationError):
        return _problem(request, Problem(422, "The address must end in the number of a text."))

    @app.exception_handler(HTTPException)
    async def as_json(request: Request, error: HTTPException):
        problem = Problem(error.status_code, _message(error, request))
        return _problem(request, problem, error.headers)


def _problem(request: Request, problem: Problem, headers=None) -> Response:
    body = problem.body(request.scope.get("request_id", ""))
    return Response(body, problem.status, headers, "application/json")


def _message(error, request) -> str:
    if error.status_code == 404 and error.detail == "Not Found":
        return "There is nothing at this address. GET /openapi.json lists what there is."
    if error.status_code == 405:
        return f"This address does not answer {request.method[:10]}."
    return str(error.detail)
