"""The FastAPI application: endpoints, pages, and errors as JSON."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import ValidationError
from starlette.middleware.cors import CORSMiddleware

import pacsent
from pacsent.text.pages import render
from pacsent.web import handlers, metrics, schemas
from pacsent.web.middleware import RequestMiddleware, add_error_handlers
from pacsent.web.schemas import ModelRequest, RequestError, json_response
from pacsent.web.served_model import ServedModel
from pacsent.web.settings import PAGE_FOLDER, ServerSettings
from pacsent.web.telemetry import instrument_from_environment

# Requests with more characters are answered in a thread, so that short ones do not wait for them.
# For shorter ones the change of thread would take longer than the work.
_MAX_INLINE_CHARACTERS = 2000
# Requests that are answered at a time; most of them wait for `Together`, on any number of cores.
_MAX_THREADS = 32
# path: schema of the request, what computes the response, and what the model must have for it
_POSTS: dict[str, tuple[type[ModelRequest], Callable[..., Any], str]] = {
    "/v1/embeddings": (schemas.EmbeddingsRequest, handlers.embeddings, "encoder"),
    "/v1/rerank": (schemas.RerankRequest, handlers.rerank, "encoder"),
    "/embed": (schemas.EmbedRequest, handlers.embed, "encoder"),
    "/similarity": (schemas.SimilarityRequest, handlers.similarity, "encoder"),
    "/classify": (schemas.ClassifyRequest, handlers.classify, "classifier"),
    "/drift/reset": (schemas.ResetRequest, handlers.reset_drift, "classifier"),
    "/search": (schemas.SearchRequest, handlers.search, "index"),
}
_ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorResponse} for status in ("4XX", "5XX")
}
Models = dict[str, ServedModel]  # by name


def select_model(models: Models, name: str | None, part: str = "name") -> ServedModel:
    """The model of this name, or the first, that has the "encoder", "classifier" or "index"."""
    if name is not None and name not in models:
        names = ", ".join(map(repr, models))
        raise RequestError(404, f"model must be one of {names}. Got {name[:40]!r}.", "model")
    candidates = list(models.values()) if name is None else [models[name]]
    for model in candidates:
        if getattr(model, part) is not None:
            return model
    raise RequestError(404, f"The model {name!r} has no {part}.", "model")


def create_app(
    models: ServedModel | Sequence[ServedModel], settings: ServerSettings | None = None
) -> FastAPI:
    """The application that answers for these models; any ASGI server runs it.

    Parameters
    ----------
    models : ServedModel or list of ServedModel
        The first answers requests that name no model.
    settings : ServerSettings, optional
        Limits, API keys and times; None is `ServerSettings()`.

    Returns
    -------
    app : FastAPI
        With the endpoints that at least one of the models can answer.

    Examples
    --------
    >>> from pacsent import make_encoder
    >>> app = create_app(ServedModel("english", make_encoder("SIF-sum", "english")))
    >>> sorted(path for path in app.openapi()["paths"] if path.startswith("/v1"))
    ['/v1/embeddings', '/v1/models', '/v1/models/{name}', '/v1/rerank']
    """
    settings = settings or ServerSettings()
    served = [models] if isinstance(models, ServedModel) else models
    models_by_name = {model.name: model for model in served}

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        executor = ThreadPoolExecutor(_MAX_THREADS, "requests")
        asyncio.get_running_loop().set_default_executor(executor)
        yield
        for model in served:
            if model.drift is not None:  # rows that were answered are compared before it ends
                await asyncio.to_thread(model.drift.close)

    app = FastAPI(
        title="pacsent",
        version=pacsent.__version__,
        description="Sentence vectors, classes and search, with guarantees.",
        docs_url=None,  # FastAPI's own pages load scripts from the network
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    post_paths = _add_post_endpoints(app, models_by_name, settings)
    _add_get_endpoints(app, models_by_name)
    app.mount("/page", StaticFiles(directory=PAGE_FOLDER))
    add_error_handlers(app)
    app.add_middleware(RequestMiddleware, settings=settings, post_paths=post_paths)
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


def _add_post_endpoints(app: FastAPI, models: Models, settings: ServerSettings) -> frozenset[str]:
    """Add the endpoints that at least one model can answer; return their paths."""
    post_paths = []
    for path, (schema, handler, part) in _POSTS.items():
        able = [model for model in models.values() if getattr(model, part) is not None]
        if not able:
            continue

        content = {"application/json": {"schema": _describe_request(schema, able)}}
        add_endpoint = app.post(
            path,
            summary=(handler.__doc__ or "").rstrip("."),
            responses=_ERROR_RESPONSES,
            openapi_extra={"requestBody": {"content": content, "required": True}},
        )
        add_endpoint(_post_endpoint(schema, handler, part, models, settings))
        post_paths.append(path)
    return frozenset(post_paths)


def _describe_request(schema: type[ModelRequest], models: Sequence[ServedModel]) -> dict[str, Any]:
    """The JSON schema of a request to these models, with the limits that follow from them."""
    described = schema.model_json_schema()
    fields = described["properties"]
    if "dimensions" in fields:
        largest = max(model.n_dims for model in models)
        integer, _null = fields["dimensions"]["anyOf"]  # of `PositiveInteger | None`
        integer["maximum"] = largest
        rules = _dimension_rules(models, largest)
        if rules:
            described["allOf"] = rules
    if "guarantee" in fields and not any(_is_certified(model.index) for model in models):
        fields["guarantee"] = _unavailable("no index here is certified")
    if "error" in fields and not any(_is_certified(model.classifier) for model in models):
        fields["error"] = _unavailable("no classifier here has a calibration set")
    return described


def _dimension_rules(models: Sequence[ServedModel], largest: int) -> list[dict[str, Any]]:
    """JSON Schema's conditions for models whose vectors have fewer dimensions than the largest."""
    rules = []
    for model in models:
        if model.n_dims == largest:
            continue
        if model is models[0]:  # it answers if no model is named
            is_named: dict[str, Any] = {"properties": {"model": {"enum": [model.name, None]}}}
        else:
            is_named = {"properties": {"model": {"const": model.name}}, "required": ["model"]}

        limit = {"properties": {"dimensions": {"maximum": model.n_dims}}}
        rules.append({"if": is_named, "then": limit})
    return rules


def _is_certified(model: Any) -> bool:
    return getattr(model, "certificate_", None) is not None


def _unavailable(reason: str) -> dict[str, Any]:
    return {"type": "null", "default": None, "description": f"Must be null: {reason}."}


def _post_endpoint(
    schema: type[ModelRequest],
    handler: Callable[..., Any],
    part: str,
    models: Models,
    settings: ServerSettings,
) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        # pydantic parses and validates in one pass, in half the time of FastAPI's two.
        try:
            body = schema.model_validate_json(await request.body())
        except ValidationError as error:
            raise schemas.validation_error(error, schema.model_fields) from None
        model = select_model(models, body.model, part)
        client = settings.client_of(request.headers.get("authorization"))
        context = handlers.Context(settings, client)
        texts = body.all_texts()
        n_characters = sum(map(len, texts))
        if len(texts) > settings.max_texts:
            limit = f"A request must have at most {settings.max_texts:,} texts."
            raise RequestError(422, f"{limit} Got {len(texts):,}. Send several requests.")

        def respond() -> Response:
            # Texts have no more words than characters: most requests need not be counted.
            if n_characters > settings.max_tokens:
                _check_n_tokens(model.n_tokens(texts), settings.max_tokens)
            return json_response(handler(model, body, context))

        if n_characters <= _MAX_INLINE_CHARACTERS and len(texts) == 1:
            response = respond()
        else:
            response = await asyncio.to_thread(respond)
        request.scope["n_texts"] = len(texts)
        return response

    return endpoint


def _check_n_tokens(n_tokens: int, max_tokens: int) -> None:
    if n_tokens > max_tokens:
        limit = f"A request must have at most {max_tokens:,} words in all its texts."
        raise RequestError(422, f"{limit} Got {n_tokens:,}. Send several requests.")


def _add_get_endpoints(app: FastAPI, models: Models) -> None:
    created = int(time.time())

    def describe(model: ServedModel) -> dict[str, Any]:
        return {
            "id": model.name,
            "object": "model",
            "created": created,
            "owned_by": "pacsent",
            "pacsent": model.description(),
        }

    get = partial(app.get, responses=_ERROR_RESPONSES)

    @get("/v1/models", summary="The models, for OpenAI's clients")
    async def list_models() -> Response:
        descriptions = [describe(model) for model in models.values()]
        return json_response({"object": "list", "data": descriptions})

    @get("/v1/models/{name}", summary="One model")
    async def model(name: Annotated[str, Path(examples=list(models))]) -> Response:
        return json_response(describe(select_model(models, name)))

    @get("/certificates", summary="Verified certificates, in words and in numbers")
    async def certificates() -> Response:
        described: list[dict[str, Any]] = []
        for model in models.values():
            described += model.describe_certificates()
        return json_response({"certificates": described})

    @get("/health", summary="Whether the server answers")
    async def health() -> Response:
        return json_response({"status": "ok"})

    @get(
        "/metrics",
        summary="Counters of all workers, for Prometheus",
        response_class=PlainTextResponse,
    )
    def prometheus() -> Response:
        content, media_type = metrics.exposition()
        return Response(content, media_type=media_type)

    @app.get("/", include_in_schema=False)
    async def index_page() -> Response:
        return HTMLResponse(render("server.html", title="pacsent"))

    @app.get("/docs", include_in_schema=False)
    async def docs_page() -> Response:
        return HTMLResponse(render("docs.html", title="pacsent: API documentation"))
