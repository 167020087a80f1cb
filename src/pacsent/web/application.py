"""The FastAPI application: endpoints, pages, and errors as JSON."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import ValidationError
from starlette.middleware.cors import CORSMiddleware

import pacsent
from pacsent.text.pages import render
from pacsent.web import handlers, metrics, schemas
from pacsent.web.middleware import RequestMiddleware, add_error_handlers
from pacsent.web.schemas import ModelRequest, RequestError, json_response
from pacsent.web.served_model import ServedModel
from pacsent.web.settings import ServerSettings
from pacsent.web.telemetry import instrument_from_environment
from pacsent.web.text_map import PAGE_FOLDER

# Requests with more characters are answered in a thread, so that short ones do not wait for them.
# For shorter ones the change of thread would take longer than the work.
_MAX_INLINE_CHARACTERS = 2000
# path: schema of the request, what computes the response, and what the model must have for it
_POSTS: dict[str, tuple[type[ModelRequest], Callable[..., Any], str]] = {
    "/v1/embeddings": (schemas.EmbeddingsRequest, handlers.embeddings, "encoder"),
    "/v1/rerank": (schemas.RerankRequest, handlers.rerank, "encoder"),
    "/embed": (schemas.EmbedRequest, handlers.embed, "encoder"),
    "/similarity": (schemas.SimilarityRequest, handlers.similarity, "encoder"),
    "/classify": (schemas.ClassifyRequest, handlers.classify, "classifier"),
    "/search": (schemas.SearchRequest, handlers.search, "index"),
}


class ModelRegistry:
    """The served models by name; a request that names none gets the first that can answer it."""

    def __init__(self, models: Sequence[ServedModel]):
        self.models = {model.name: model for model in models}

    def get(self, name: str) -> ServedModel:
        if name not in self.models:
            names = ", ".join(map(repr, self.models))
            raise RequestError(404, f"model must be one of {names}. Got {name[:40]!r}.", "model")
        return self.models[name]

    def select(self, name: str | None, part: str) -> ServedModel:
        """The model of this name; it must have the "encoder", "classifier" or "index"."""
        models = self.models.values() if name is None else [self.get(name)]
        for model in models:
            if getattr(model, part) is not None:
                return model
        raise RequestError(404, f"The model {name!r} has no {part}.", "model")


def create_app(
    models: ServedModel | Sequence[ServedModel], settings: ServerSettings | None = None
) -> FastAPI:
    """The application that answers for these models; any ASGI server runs it.

    >>> from pacsent import make_encoder
    >>> app = create_app(ServedModel("english", make_encoder("SIF-sum", "english")))
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
    for path, (schema, handler, part) in _POSTS.items():
        if any(getattr(model, part) is not None for model in registry.models.values()):
            content = {"application/json": {"schema": schema.model_json_schema()}}
            app.post(
                path,
                summary=(handler.__doc__ or "").rstrip("."),
                responses={"4XX": {"model": schemas.ErrorResponse}},
                openapi_extra={"requestBody": {"content": content, "required": True}},
            )(_post_endpoint(schema, handler, part, registry, settings))
    _add_get_endpoints(app, registry)
    app.mount("/page", StaticFiles(directory=PAGE_FOLDER))
    add_error_handlers(app)
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
        context = handlers.Context(settings)

        if len(texts) > settings.max_texts:
            limit = f"A request must have at most {settings.max_texts:,} texts."
            raise RequestError(422, f"{limit} Got {len(texts):,}. Send several requests.")

        def respond() -> Response:
            most = settings.max_tokens
            if n_characters > most and (n_tokens := model.n_tokens(texts)) > most:
                limit = f"A request must have at most {most:,} words in all its texts."
                raise RequestError(422, f"{limit} Got {n_tokens:,}. Send several requests.")
            return json_response(handler(model, body, context))

        if n_characters <= _MAX_INLINE_CHARACTERS and len(texts) == 1:
            response = respond()
        else:
            response = await asyncio.to_thread(respond)
        request.scope["n_texts"] = len(texts)
        return response

    return endpoint


def _add_get_endpoints(app: FastAPI, registry: ModelRegistry) -> None:
    created = int(time.time())

    def describe(model: ServedModel) -> dict[str, Any]:
        about = {"id": model.name, "object": "model", "created": created, "owned_by": "pacsent"}
        return about | {"pacsent": model.description()}

    @app.get("/v1/models", summary="The models, for OpenAI's clients")
    async def list_models() -> Response:
        data = [describe(model) for model in registry.models.values()]
        return json_response({"object": "list", "data": data})

    @app.get("/v1/models/{name}", summary="One model")
    async def model(name: str) -> Response:
        return json_response(describe(registry.get(name)))

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

    @app.get("/", include_in_schema=False)
    async def index_page() -> Response:
        return HTMLResponse(render("server.html", title="pacsent"))

    @app.get("/docs", include_in_schema=False)
    async def docs_page() -> Response:
        return HTMLResponse(render("docs.html", title="pacsent: API documentation"))
