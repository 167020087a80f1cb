"""The FastAPI application: endpoints, pages, and errors as JSON."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

import pacsent
from pacsent.text.pages import render
from pacsent.web import handlers, metrics, schemas
from pacsent.web.middleware import RequestMiddleware
from pacsent.web.schemas import ModelRequest, RequestError, json_response
from pacsent.web.served_model import ServedModel
from pacsent.web.settings import ServerSettings
from pacsent.web.telemetry import instrument_from_environment
from pacsent.web.text_map import PAGE_FOLDER

# Requests with more characters are answered in a thread, so that short ones do not wait for them.
# For shorter ones the change of thread would take longer than the work.
_MAX_INLINE_CHARACTERS = 2000
# path: (schema of the request, what computes the response, what the model must have, summary)
_POSTS: dict[str, tuple[type[ModelRequest], Callable[..., Any], str, str]] = {
    "/v1/embeddings": (
        schemas.EmbeddingsRequest, handlers.embeddings, "vectorizer",
        "Embeddings, for OpenAI's clients",
    ),
    "/embed": (
        schemas.EmbedRequest, handlers.embed, "vectorizer",
        "Posteriors: mean, variance, coverage, unknown words",
    ),
    "/similarity": (
        schemas.SimilarityRequest, handlers.similarity, "vectorizer",
        "Cosines of pairs of texts, or of all texts with each other",
    ),
    "/v1/rerank": (
        schemas.RerankRequest, handlers.rerank, "vectorizer",
        "Documents sorted by their relevance to a query, for the clients of Cohere and Jina",
    ),
    "/classify": (
        schemas.ClassifyRequest, handlers.classify, "classifier",
        "Label, probability, prediction set, abstention, and what every word adds",
    ),
    "/search": (
        schemas.SearchRequest, handlers.search, "index", "The nearest texts of the index",
    ),
}  # fmt: skip


class ModelRegistry:
    """The served models by name; a request that names none gets the first that can answer it."""

    def __init__(self, models: Sequence[ServedModel]):
        self.models = {model.name: model for model in models}
        if len(self.models) < len(models):
            raise ValueError("Models must have different names. Give them as --model NAME=FOLDER.")

    def select(self, name: str | None, part: str) -> ServedModel:
        """The model of this name that has a "vectorizer", a "classifier" or an "index"."""
        able = [model for model in self.models.values() if getattr(model, part) is not None]
        if name is None:
            return able[0]
        if name not in self.models:
            names = ", ".join(map(repr, self.models))
            raise RequestError(404, f"model must be one of {names}. Got another.", "model")
        if self.models[name] not in able:
            raise RequestError(404, f"The model {name!r} has no {part}.", "model")
        return self.models[name]


def create_app(
    models: ServedModel | Sequence[ServedModel], settings: ServerSettings | None = None
) -> FastAPI:
    """The application that answers for these models; any ASGI server runs it.

    >>> from pacsent import make
    >>> app = create_app(ServedModel("english", make("SIF-sum", "english")))
    >>> sorted(path for path in app.openapi()["paths"] if path.startswith("/v1"))
    ['/v1/embeddings', '/v1/models', '/v1/models/{name}', '/v1/rerank']
    """
    settings = settings or ServerSettings()
    registry = ModelRegistry([models] if isinstance(models, ServedModel) else models)
    app = FastAPI(
        title="pacsent",
        version=pacsent.__version__,
        description="Sentence vectors, classes and search, with guarantees.",
        docs_url=None,  # FastAPI's own pages load scripts from the network
        redoc_url=None,
        redirect_slashes=False,
    )
    for path, (schema, handler, part, summary) in _POSTS.items():
        if any(getattr(model, part) is not None for model in registry.models.values()):
            content = {"application/json": {"schema": schema.model_json_schema()}}
            app.post(
                path,
                summary=summary,
                responses={"4XX": {"model": schemas.ErrorResponse}},
                openapi_extra={"requestBody": {"content": content, "required": True}},
            )(_post_endpoint(schema, handler, part, registry, settings))
    _add_model_endpoints(app, registry)
    _add_index_endpoints(app, registry)
    _add_pages(app)
    _add_error_handlers(app)
    app.add_middleware(RequestMiddleware, settings=settings)
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-request-id"],
            expose_headers=["x-request-id", "retry-after"],
        )
    instrument_from_environment(app)
    return app


def _post_endpoint(
    schema: type[ModelRequest],
    handler: Callable[..., Any],
    part: str,
    registry: ModelRegistry,
    settings: ServerSettings,
) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        # pydantic parses and validates in one pass, in half the time of FastAPI's two.
        try:
            body = schema.model_validate_json(await request.body())
        except ValidationError as error:
            raise schemas.validation_error(error) from None
        model, texts = registry.select(body.model, part), body.all_texts()
        n_characters = sum(map(len, texts))
        deadline = handlers.Deadline(settings.timeout)

        def respond() -> Response:
            _check_limits(model, texts, n_characters, settings)
            return json_response(handler(model, body, settings, deadline))

        if n_characters <= _MAX_INLINE_CHARACTERS and len(texts) == 1:
            response = respond()
        else:
            response = await asyncio.to_thread(respond)
        request.scope["n_texts"] = len(texts)
        return response

    return endpoint


def _check_limits(model, texts, n_characters, settings):
    if len(texts) > settings.max_texts:
        raise RequestError(
            422,
            f"A request must have at most {settings.max_texts:,} texts. Got {len(texts):,}. "
            "Send several requests.",
        )
    most = settings.max_tokens
    if n_characters > most and (n_tokens := model.n_tokens(texts)) > most:
        raise RequestError(
            422,
            f"A request must have at most {most:,} words in all its texts. Got {n_tokens:,}. "
            "Send several requests.",
        )


def _add_model_endpoints(app: FastAPI, registry: ModelRegistry) -> None:
    created = int(time.time())
    models = {
        name: {"id": name, "object": "model", "created": created, "owned_by": "pacsent",
               "pacsent": model.description()}
        for name, model in registry.models.items()
    }  # fmt: skip

    @app.get("/v1/models", summary="The models, for OpenAI's clients")
    async def list_models() -> Response:
        return json_response({"object": "list", "data": list(models.values())})

    @app.get("/v1/models/{name}", summary="One model")
    async def model(name: str) -> Response:
        if name not in models:
            names = ", ".join(map(repr, models))
            raise RequestError(404, f"model must be one of {names}. Got another.", "model")
        return json_response(models[name])

    @app.get("/certificates", summary="Verified certificates, in words and in numbers")
    async def certificates() -> Response:
        models = registry.models.values()
        described = [item for model in models for item in model.describe_certificates()]
        return json_response({"certificates": described})

    @app.get("/health", summary="Whether the server answers")
    async def health() -> Response:
        return json_response({"status": "ok"})

    @app.get("/metrics", summary="Counters of all workers, for Prometheus")
    def prometheus() -> Response:
        content, media_type = metrics.exposition()
        return Response(content, media_type=media_type)


def _add_index_endpoints(app: FastAPI, registry: ModelRegistry) -> None:
    if all(model.index is None for model in registry.models.values()):
        return

    @app.get("/index", summary="The number of texts that can be searched")
    async def index(model: str | None = None) -> Response:
        selected = registry.select(model, "index")
        return json_response({"model": selected.name, "texts": len(selected.index)})

    @app.get("/index/map", summary="The place of each text on a plane")
    def index_map(model: str | None = None) -> Response:
        return json_response(registry.select(model, "index").index_map())

    @app.get("/index/{number}", summary="One text, by its number")
    async def text(number: int, model: str | None = None) -> Response:
        index = registry.select(model, "index").index
        try:
            content = {"id": number, "text": index.text(number)}
        except ValueError as error:
            raise RequestError(404, str(error)) from None
        metadata = index.metadata(number)
        return json_response({**content, "metadata": metadata} if metadata else content)


def _add_pages(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def index_page() -> Response:
        return HTMLResponse(render("server.html", title="pacsent"))

    @app.get("/docs", include_in_schema=False)
    async def docs_page() -> Response:
        return HTMLResponse(render("docs.html", title="pacsent: API documentation"))

    app.mount("/page", StaticFiles(directory=PAGE_FOLDER))


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return schemas.validation_error(error).response(request.scope["request_id"])

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        if not isinstance(error, RequestError):
            message = {
                400: "The body must be JSON. It is not.",
                404: "There is nothing at this address. GET /openapi.json lists what there is.",
                405: f"This address does not answer {request.method[:10]}.",
            }.get(error.status_code, str(error.detail))
            error = RequestError(error.status_code, message, headers=error.headers)
        return error.response(request.scope["request_id"])
