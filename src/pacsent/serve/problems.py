"""What a client did wrong, and how it is told: JSON, never a traceback."""

import json
from typing import Any


class Problem(Exception):
    """An answer other than 200: its status and one clear sentence."""

    def __init__(self, status: int, message: str, *, param: str | None = None, retry: int = 0):
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.retry = retry  # seconds, for the header Retry-After

    def body(self, request_id: str) -> bytes:
        """In the form that clients of OpenAI read."""
        return json.dumps(
            {
                "error": {
                    "message": self.message,
                    "type": _TYPES.get(self.status, "invalid_request_error"),
                    "param": self.param,
                    "code": self.status,
                },
                "request_id": request_id,
            }
        ).encode()


_TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    408: "timeout_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
    504: "timeout_error",
}


def shown(value: Any) -> str:
    """A value of a request for a message: its kind, never the text itself."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false",
             type(None): "null"}  # fmt: skip
    return kinds.get(type(value), repr(value)[:40])


def texts_of(value: Any, name: str, most: int) -> list[str]:
    """One text or a list of texts as a list, within the limit."""
    if type(value) is str:
        return [value]
    if type(value) is not list:
        raise Problem(422, f"{name} must be a text or a list of texts. Got {shown(value)} instead.",
                      param=name)  # fmt: skip
    if not value:
        raise Problem(422, f"{name} must hold at least one text. Got an empty list.", param=name)
    if len(value) > most:
        raise Problem(
            422,
            f"{name} must hold at most {most:,} texts. Got {len(value):,} instead. Send several "
            "requests.",
            param=name,
        )
    for position, text in enumerate(value):
        if type(text) is not str:
            raise Problem(422, _no_text(name, position, text), param=f"{name}[{position}]")
    return value


def _no_text(name, position, found) -> str:
    message = f"{name}[{position}] must be a text. Got {shown(found)} instead."
    if isinstance(found, int | list) and not isinstance(found, bool):
        message += (
            " Token numbers are not taken: send the texts themselves (in LangChain: "
            "OpenAIEmbeddings(..., check_embedding_ctx_length=False))."
        )
    return message


def number_of(body: dict, name: str, default: int, low: int, high: int) -> int:
    """An integer of the request within its limits, or its default."""
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not int or not low <= value <= high:
        got = f"{value}" if type(value) is int else shown(value)
        raise Problem(422, f"{name} must be an integer from {low:,} to {high:,}. Got {got} "
                      "instead.", param=name)  # fmt: skip
    return value


def flag_of(body: dict, name: str, default: bool) -> bool:
    """true or false of the request, or its default."""
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not bool:
        raise Problem(422, f"{name} must be true or false. Got {shown(value)} instead.", param=name)
    return value
