"""The application: FastAPI with its documentation and pages, behind `Front`."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

import pacsent
from pacsent.web import text_map as maps
from pacsent.web.front import Front
from pacsent.web.logs import Log
from pacsent.web.metrics import Metrics
from pacsent.web.schemas import ErrorAnswer, Problem
from pacsent.web.served import Served
from pacsent.web.settings import Settings
from pacsent.web.several_models import SeveralEndpoints
from pacsent.web.telemetry import Telemetry

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
    served: Served | Sequence[Served],
    settings: Settings | None = None,
    metrics: Metrics | None = None,
    log: Log | None = None,
    telemetry: Telemetry | None = None,
) -> Front:
    """The application that answers for these models; any ASGI server runs it.

    `metrics` may be shared with other workers; without a `log` nothing is logged. Of several models
    a request names one.

    >>> from pacsent import make
    >>> app = create_app(Served("english", make("SIF-sum", "english")))
    >>> sorted(app.endpoints.table())
    ['/api/embed', '/embed', '/rerank', '/similarity', '/tokenize', '/v1/embeddings', ...]
    """
    models = [served] if isinstance(served, Served) else list(served)
    endpoints = SeveralEndpoints(models, settings or Settings(), metrics or Metrics())
    app = FastAPI(
        title="pacsent",
        version=pacsent.__version__,
        description="Sentence vectors, classes and search, with guarantees.",
        docs_url=None,  # FastAPI's own pages come from the network
        redoc_url=None,
        redirect_slashes=False,
    )
    front = Front(endpoints, app, log or Log(enabled=False), telemetry)
    _add_state(app, front)
    _add_models(app, endpoints)
    if any(one.index is not None for one in models):
        _add_index(app, endpoints)
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


def _add_models(app: FastAPI, endpoints: SeveralEndpoints) -> None:
    now = int(time.time())
    models: list[dict[str, Any]] = [
        {"id": one.name, "object": "model", "created": now, "owned_by": "pacsent",
         "pacsent": one.about()}
        for one in endpoints.models
    ]  # fmt: skip

    @app.get("/v1/models", summary="The models, as OpenAI's clients ask for them")
    async def list_models():
        return JSONResponse({"object": "list", "data": models})

    @app.get("/v1/models/{name}", summary="One of them, by name")
    async def model(name: str):
        for about in models:
            if about["id"] == name:
                return JSONResponse(about)
        there = " and no other" if len(models) == 1 else ""
        names = ", ".join(repr(about["id"]) for about in models)
        raise HTTPException(404, f"This server has the model {names}{there}.")

    @app.get("/api/tags", summary="The models, as Ollama's clients ask for them")
    async def tags():
        day = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
        return JSONResponse({"models": [
            {"name": one["id"], "model": one["id"], "modified_at": day, "size": 0, "digest": "",
             "details": {"family": "pacsent", "format": "safetensors"}}
            for one in models
        ]})  # fmt: skip

    @app.get("/info", summary="The model and the limits, as clients of TEI ask for them")
    async def info(model: str | None = None):
        served, limits = _chosen(endpoints, model), endpoints.settings
        about = served.about()
        return JSONResponse({
            "model_id": served.name, "model_sha": None, "model_dtype": "float32",
            "model_type": {"embedding": {"pooling": about.get("method", "")}},
            "max_concurrent_requests": limits.max_concurrent,
            "max_input_length": limits.max_tokens, "max_batch_tokens": limits.max_tokens,
            "max_client_batch_size": limits.max_texts, "max_batch_requests": None,
            "tokenization_workers": 1, "version": pacsent.__version__, "sha": None,
            "docker_label": None,
        })  # fmt: skip

    @app.get("/certificates", summary="Verified certificates, in words and in numbers")
    async def certificates():
        found = [
            {"model": one.name, **described}
            for one in endpoints.models
            for described in one.described_certificates()
        ]
        return JSONResponse({"model": endpoints.served.name, "certificates": found})


def _chosen(endpoints: SeveralEndpoints, name: str | None, path: str = "") -> Served:
    try:
        return endpoints.of(name, path).served
    except Problem as problem:
        raise HTTPException(problem.status, problem.message) from None


def _add_index(app: FastAPI, endpoints: SeveralEndpoints) -> None:
    """The texts that can be searched, one by one and as a map; `?model=` chooses among several."""

    @app.get("/index", summary="The number of texts that can be searched")
    async def index(model: str | None = None):
        served = _chosen(endpoints, model, "/search")
        return JSONResponse({"model": served.name, "texts": len(served.index)})

    @app.get("/index/map", summary="The place of each text on a plane")
    def index_map(model: str | None = None):  # in a thread: there may be millions
        found = _chosen(endpoints, model, "/search").map()
        return Response(orjson.dumps(found), media_type="application/json")

    @app.get("/index/{number}", summary="One text, by its number")
    async def text(number: int, model: str | None = None):
        found = _chosen(endpoints, model, "/search").index
        try:
            about = {"id": number, "text": found.text(number)}
            metadata = found.metadata(number)
            return JSONResponse({**about, "metadata": metadata} if metadata else about)
        except ValueError as error:
            raise HTTPException(404, str(error)) from None


def _add_posts(app: FastAPI, endpoints: SeveralEndpoints) -> None:
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
