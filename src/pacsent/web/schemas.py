"""What clients send, as pydantic models, and the errors that they get back as JSON."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

_ERROR_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    408: "timeout_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
    504: "timeout_error",
}


class ErrorDetail(BaseModel):
    """What is wrong with a request."""

    message: str
    type: str
    param: str | None
    code: int


class ErrorAnswer(BaseModel):
    """An answer other than 200."""

    error: ErrorDetail
    request_id: str


class Problem(Exception):
    """An answer other than 200: its status and one clear message."""

    def __init__(self, status: int, message: str, *, param: str | None = None, retry: int = 0):
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.retry = retry  # seconds, for the header Retry-After

    def body(self, request_id: str) -> bytes:
        """The JSON of the answer, in the form that clients of OpenAI read."""
        kind = _ERROR_TYPES.get(self.status, "invalid_request_error")
        detail = ErrorDetail(message=self.message, type=kind, param=self.param, code=self.status)
        return ErrorAnswer(error=detail, request_id=request_id).model_dump_json().encode()


# ---- Requests ------------------------------------------------------------------------------------


def _as_list(value: Any) -> Any:
    return [value] if type(value) is str else value


_ONE_OR_MORE: Any = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]
}
Texts = Annotated[
    list[str],
    Field(min_length=1, json_schema_extra=lambda schema: _replaced(schema, _ONE_OR_MORE)),
    BeforeValidator(_as_list),
]


def _replaced(schema, by):
    for name in ("type", "items", "minItems"):
        schema.pop(name, None)
    schema.update(by)


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = Field(None, description="The name of a served model; the first by default.")


class _Lenient(_Request):
    """Requests of other programs' clients, whose further options mean nothing here."""

    model_config = ConfigDict(extra="ignore")


def _example(**fields: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"example": fields})


class EmbeddingsRequest(_Request):
    """The request of OpenAI's clients."""

    model_config = _example(input=["a glass of wine", "the cat slept"])

    input: Texts = Field(description="One text or several.")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, ge=1, description="Keep the first numbers only.")
    user: str | None = Field(None, description="Ignored.")


def embeddings_request(n_dims: int) -> type[EmbeddingsRequest]:
    """The schema for a model with this number of dimensions."""
    limited: Any = (int | None, Field(None, ge=1, le=n_dims))
    return create_model("EmbeddingsRequest", __base__=EmbeddingsRequest, dimensions=limited)


class EmbedRequest(_Request):
    """Texts whose posteriors are wanted; `inputs`: vectors alone, as clients of TEI ask."""

    model_config = _example(texts="a glass of wine", words=True, mean=False)

    texts: Texts | None = Field(None, description="One text or several.")
    inputs: Texts | None = Field(None, description="Texts; the answer is a list of vectors.")
    normalize: bool = Field(True, description="With inputs: vectors of length one.")
    truncate: bool | None = Field(None, description="With inputs: ignored.")
    prompt_name: str | None = Field(None, description="With inputs: ignored.")
    mean: bool = Field(True, description="Give the vector.")
    unknown: bool = Field(True, description="Give the words that the model does not know.")
    words: bool = Field(False, description="Give the weight of every word.")


class SimilarityRequest(_Request):
    """Pairs of texts, or texts to compare with each other."""

    model_config = _example(a="a glass of wine", b="a cup of tea")

    a: Texts = Field(description="One text or several.")
    b: Texts | None = Field(None, description="As many texts; without them, all pairs of a.")


class ClassifyRequest(_Request):
    """Texts to classify."""

    model_config = _example(texts="a good film", explain=True)

    texts: Texts = Field(description="One text or several.")
    explain: bool = Field(False, description="Give what every word adds to the decision.")
    error: float | None = Field(
        None, gt=0, lt=1,
        description="Abstain so that at most this share of the answers is wrong.",
    )  # fmt: skip


class SearchRequest(_Request):
    """Queries to the index."""

    model_config = _example(query="a sleeping kitten", k=3)

    query: Texts = Field(description="One query or several.")
    k: int = Field(10, ge=1, le=1000, description="The number of hits.")
    where: dict[str, Any] | None = Field(
        None, description='Values of the metadata: {"year": 2024}, {"year": {">=": 2020}}.'
    )
    guarantee: float | None = Field(
        None, gt=0, lt=1,
        description="As many hits as find the right text for this share of queries.",
    )  # fmt: skip


class OllamaRequest(_Lenient):
    """The request of Ollama's clients."""

    model_config = _example(input="a glass of wine")

    input: Texts = Field(description="One text or several.")
    dimensions: int | None = Field(None, ge=1, description="Keep the first numbers only.")


class TokenizeRequest(_Lenient):
    """Texts whose words are wanted, as clients of TEI ask."""

    model_config = _example(inputs="a glass of wine")

    inputs: Texts = Field(description="One text or several.")


def _document_texts(value: Any) -> Any:
    if isinstance(value, list):
        return [one.get("text", one) if isinstance(one, dict) else one for one in value]
    return value


class RerankRequest(_Lenient):
    """A query and documents: `documents` in the form of Cohere and Jina, `texts` in that of TEI."""

    model_config = _example(query="a sleeping kitten", documents=["red wine", "the cat slept"])

    query: str = Field(description="The query.")
    documents: Annotated[list[str] | None, BeforeValidator(_document_texts)] = Field(
        None, description="Texts, or objects with `text`."
    )
    texts: list[str] | None = Field(None, description="The same; the answer has the form of TEI.")
    top_n: int | None = Field(None, ge=1, description="How many to return; all by default.")
    return_documents: bool | None = Field(None, description="Return the documents as well.")
    return_text: bool | None = Field(None, description="With texts: return them as well.")


_Some = TypeVar("_Some", bound=_Request)


def parsed(kind: type[_Some], raw: bytes) -> _Some:
    """The request in these bytes; `Problem` where it is not what `kind` says."""
    try:
        return kind.__pydantic_validator__.validate_json(raw)
    except ValidationError as error:
        raise _problem(kind, error.errors(include_url=False)) from None


def _problem(kind: type[_Request], errors: list[ErrorDetails]) -> Problem:
    """The first error as a message; fields that do not exist come first, with their names."""
    unknown = [str(error["loc"][0]) for error in errors if error["type"] == "extra_forbidden"]
    if unknown:
        return Problem(
            422,
            f"The request must have no other fields than {', '.join(kind.model_fields)}. Got "
            f"{', '.join(name[:40] for name in unknown[:5])}.",
            param=unknown[0][:40],
        )
    first = errors[0]
    if first["type"] == "json_invalid":
        reason = first["msg"].removeprefix("Invalid JSON: ")
        return Problem(400, f"The body must be JSON. It is not: {reason}.")
    if not first["loc"]:
        return Problem(422, f"The body must be a JSON object. Got {shown(first['input'])} instead.")
    name = "".join(f"[{at}]" if isinstance(at, int) else at for at in first["loc"])
    return Problem(422, f"{name} must be {_rule(kind, first)}", param=name)


def _rule(kind, error: ErrorDetails) -> str:
    """The rest of a sentence that begins with "NAME must be"."""
    found, limits = error["type"], error.get("ctx", {})
    field = kind.model_fields[error["loc"][0]]
    got = "none" if found == "missing" else shown(error["input"])
    if found == "too_short":
        return "at least one text. Got an empty list instead."
    if found == "string_type" and len(error["loc"]) > 1:
        return f"a text. Got {got} instead.{_about_tokens(error['input'])}"
    if found == "list_type" or (found == "missing" and "list[str]" in str(field.annotation)):
        return f"a text or a list of texts. Got {got} instead."
    if found == "literal_error":
        return f"{limits['expected'].replace(chr(39), '')}. Got {got} instead."
    kinds = {"string_type": "a text", "bool_type": "true or false", "missing": "given"}
    if found in kinds:
        return f"{kinds[found]}. Got {got} instead."
    low = next((m.ge for m in field.metadata if hasattr(m, "ge")), None)
    high = next((m.le for m in field.metadata if hasattr(m, "le")), None)
    if low is not None:
        return (
            f"an integer from {low:,}{'' if high is None else f' to {high:,}'}. Got {got} instead."
        )
    return f"a number between 0 and 1. Got {got} instead."


def _about_tokens(found) -> str:
    if isinstance(found, int | list) and not isinstance(found, bool):
        return (
            " Token numbers are not accepted: send the texts themselves (in LangChain: "
            "OpenAIEmbeddings(..., check_embedding_ctx_length=False))."
        )
    return ""


def shown(value: Any) -> str:
    """A value of a request for a message: its kind, never the text itself."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false",
             type(None): "null"}  # fmt: skip
    return kinds.get(type(value), repr(value)[:40])
