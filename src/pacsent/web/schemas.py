"""Requests as pydantic models, and errors as JSON in the form that OpenAI's clients read."""

import difflib
import json
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import orjson
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)
from starlette.exceptions import HTTPException

_ERROR_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    408: "timeout_error",
    429: "rate_limit_error",
    500: "server_error",
    504: "timeout_error",
}
_TOKEN_HINT = (
    " Token numbers are not accepted: send the texts themselves (in LangChain: "
    "OpenAIEmbeddings(..., check_embedding_ctx_length=False))"
)


class ErrorDetail(BaseModel):
    """The error in a request."""

    message: str
    type: str
    param: str | None
    code: int


class ErrorResponse(BaseModel):
    """The body of every response whose status is not 200."""

    error: ErrorDetail
    request_id: str


class RequestError(HTTPException):
    """A request that is answered with a status other than 200 and one clear message."""

    def __init__(
        self, status: int, message: str, param: str | None = None, headers: Any = None
    ) -> None:
        super().__init__(status, message, headers)
        self.param = param

    def response(self, request_id: str) -> Response:
        """The response, as OpenAI's clients read it."""
        detail = ErrorDetail(
            message=self.detail,
            type=_ERROR_TYPES.get(self.status_code, "invalid_request_error"),
            param=self.param,
            code=self.status_code,
        )
        body = ErrorResponse(error=detail, request_id=request_id).model_dump_json()
        return Response(body, self.status_code, self.headers, "application/json")


def validation_error(
    error: ValidationError | RequestValidationError, fields: Iterable[str] = ()
) -> RequestError:
    """The first error that pydantic found, as one message that never contains a text.

    Of the `fields` of the request, the message names the one that a wrong name is most like.
    """
    # A name that is not a field explains more than its consequences do.
    first = min(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
    kind = first["type"]
    if kind == "json_invalid":
        reason = first["ctx"]["error"]
        return RequestError(400, f"The body must be JSON. It is not: {reason}.")

    location = first["loc"]
    value = first["input"]
    name = _format_location(location)
    if kind == "extra_forbidden":
        message = f"{name} is not a field of this request"
        similar = difflib.get_close_matches(name, list(fields), 1)
        if similar:
            return RequestError(422, f"{message}. Did you mean {similar[0]}?", name)
    else:
        place = name or "The body"
        message = f"{place}: {first['msg']}"
        if kind != "missing":
            message += f". Got {_describe_value(value)}"

    is_token = isinstance(value, int | list) and not isinstance(value, bool)
    if is_token and len(location) > 1:
        message += f".{_TOKEN_HINT}"
    return RequestError(422, f"{message}.", name)


def _format_location(location: Iterable[int | str]) -> str:
    """The path to a value of a request, as in texts[3]."""
    parts = [f"[{part}]" if isinstance(part, int) else part for part in location]
    return "".join(parts)[:60]


def _describe_value(value: Any) -> str:
    """A value for a message; texts, and what contains some, are not shown."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return "a string"
    return json.dumps(value)[:40]


def json_response(content: Any) -> Response:
    """The response with dictionaries, lists and arrays as JSON."""
    try:
        body = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # a text of an index that is not valid Unicode
        body = json.dumps(content).encode()
    return Response(body, media_type="application/json")


_MAX_CONDITIONS = 1000  # values in a filter: each is compared with every text of the index
MAX_COMPARED = 512  # texts of /similarity that are all compared with each other
_TEXT_FIELDS = ("input", "texts", "a", "b", "query", "documents")


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Texts = Annotated[
    list[str],
    BeforeValidator(_as_list, json_schema_input_type=str | list[str]),
    Field(min_length=1),
]


def _as_integer(value: Any) -> Any:
    """A number such as 3.0 as an integer, which it is in JSON Schema."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_READ_INTEGER = BeforeValidator(_as_integer)
PositiveInteger = Annotated[int, Field(ge=1), _READ_INTEGER]
HitCount = Annotated[int, Field(ge=1, le=1000), _READ_INTEGER]


class ModelRequest(BaseModel):
    """A request to one of the served models."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = Field(None, description="Name of a served model; the first by default.")

    def all_texts(self) -> list[str]:
        """The texts of the request, for the limits."""
        texts: list[str] = []
        for name in _TEXT_FIELDS:
            if name in type(self).model_fields:
                texts += _as_list(getattr(self, name)) or []
        return texts


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"example": fields})


class EmbeddingsRequest(ModelRequest):
    """The request of OpenAI's clients."""

    model_config = _example(input=["a glass of wine", "the cat slept"])

    input: Texts = Field(description="One text or several.")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: PositiveInteger | None = Field(None, description="Keep the first dimensions only.")
    user: str | None = Field(None, description="Ignored.")


class EmbedRequest(ModelRequest):
    """Texts whose posteriors are computed."""

    model_config = _example(texts="a glass of wine", words=True, mean=False)

    texts: Texts = Field(description="One text or several.")
    mean: bool = Field(True, description="Return the vector.")
    unknown: bool = Field(True, description="Return the words that the model does not know.")
    words: bool = Field(False, description="Return the weight of every word.")


class SimilarityRequest(ModelRequest):
    """Pairs of texts, or texts to compare with each other."""

    model_config = _example(a="a glass of wine", b="a cup of tea")

    a: Texts = Field(description="One text or several.")
    b: Texts | None = Field(
        None,
        description="As many texts as a has: the cosine of each with that of a. Without b, the "
        f"cosines of all pairs of a, of at most {MAX_COMPARED} texts.",
    )


class ClassifyRequest(ModelRequest):
    """Texts to classify."""

    model_config = _example(texts="a good film", explain=True)

    texts: Texts = Field(description="One text or several.")
    explain: bool = Field(False, description="Return what every word adds to the decision.")
    error: float | None = Field(
        None, gt=0, lt=1, description="Abstain so that at most this fraction of answers is wrong."
    )


def _check_conditions(where: dict[str, Any] | None) -> dict[str, Any] | None:
    """Raise if a filter has too many values, however they are nested."""
    waiting: list[Any] = [where]
    n_visited = 0
    while waiting:
        value = waiting.pop()
        n_visited += 1
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        if n_visited + len(waiting) > _MAX_CONDITIONS:
            raise ValueError(f"a filter must have at most {_MAX_CONDITIONS:,} values")
    return where


class SearchRequest(ModelRequest):
    """Queries to the index."""

    model_config = _example(query="a sleeping kitten", k=3)

    query: Texts = Field(description="One query or several.")
    k: HitCount = Field(10, description="The number of hits.")
    where: Annotated[dict[str, Any] | None, AfterValidator(_check_conditions)] = Field(
        None, description='Values of the metadata: {"year": 2024}, {"year": {">=": 2020}}.'
    )
    guarantee: float | None = Field(
        None, gt=0, lt=1, description="Return enough hits for this fraction of queries."
    )


class ResetRequest(ModelRequest):
    """The model whose drift monitor is reset, for the client that asks."""

    model_config = _example()


_DOCUMENT_TYPES: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
]


def _document_text(document: Any) -> Any:
    return document.get("text", document) if isinstance(document, dict) else document


def _document_texts(value: Any) -> Any:
    """The texts of documents, which may be objects; pydantic rejects everything else."""
    if isinstance(value, list):
        return [_document_text(document) for document in value]
    return value


class RerankRequest(ModelRequest):
    """A query and documents, as the clients of Cohere and Jina send them."""

    model_config = ConfigDict(
        **_example(query="a sleeping kitten", documents=["red wine", "the cat slept"]),
        extra="ignore",  # their clients send further options
    )

    query: str = Field(description="The query.")
    documents: Annotated[
        list[str],
        BeforeValidator(_document_texts),
        Field(min_length=1),
        WithJsonSchema({"type": "array", "minItems": 1, "items": {"anyOf": _DOCUMENT_TYPES}}),
    ] = Field(description="Texts, or objects with `text`.")
    top_n: PositiveInteger | None = Field(None, description="How many to return; all by default.")
    return_documents: bool | None = Field(None, description="Return the documents as well.")
