"""The labelling page: a small application that answers one browser, or a few."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from pacsent.web import text_map as maps
from pacsent.web.labelling import Labelling

PAGE = Path(__file__).parent / "page"
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
_FILES = {
    "": PAGE / "label.html", "label.js": PAGE / "label.js", "label.css": PAGE / "label.css",
    "page.css": maps.FOLDER / "page.css",
}  # fmt: skip
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}


class TabRequest(BaseModel):
    """Who asks, and from which tab."""

    who: str = Field("", max_length=100)
    tab: str = Field("", max_length=100)


class AnswerRequest(TabRequest):
    """An answer; no label is a skip."""

    row: int
    label: str | None = None


def label_app(
    labelling: Labelling, annotators: tuple[str, ...] = ("",), results: Any = None
) -> Any:
    """The application; any ASGI server runs it.

    `results` writes the results, and returns what was written as a list of lines. Every address but
    those of the page needs the key of the labelling, which is part of the address that is opened.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.middleware("http")
    async def checked(request: Request, follow: Any) -> Response:
        if request.method == "POST":
            given = request.headers.get("x-key", "")
            if given != labelling.key:
                return _refused(401, "The key must be that of the address that was printed.")
            if int(request.headers.get("content-length") or 1 << 20) > 1 << 16:
                return _refused(413, "The request must be at most 64 kB.")
        answer = await follow(request)
        answer.headers.update(_HEADERS)
        return answer

    def shown(asked: TabRequest) -> dict[str, Any]:
        task = labelling.next(asked.who, asked.tab)
        found = None if task is None else task._asdict()
        return {"task": found, "status": labelling.status()}

    def check(asked: TabRequest) -> None:
        if asked.who not in annotators:
            names = ", ".join(annotators)
            raise ValueError(f"who must be one of {names}. Got {asked.who!r} instead.")

    @app.post("/next")
    def next_(asked: TabRequest) -> dict[str, Any]:
        check(asked)
        return shown(asked)

    @app.post("/answer")
    def answer(asked: AnswerRequest) -> dict[str, Any]:
        check(asked)
        labelling.answer(asked.row, asked.label, asked.who)
        return shown(asked)

    @app.post("/undo")
    def undo(asked: TabRequest) -> dict[str, Any]:
        check(asked)
        labelling.undo(asked.who, asked.tab)
        return shown(asked)

    @app.post("/results")
    def write(asked: TabRequest) -> dict[str, Any]:
        check(asked)
        return {"written": results() if results else []}

    @app.get("/{name:path}")
    def page(name: str) -> Response:
        path = _FILES.get(name)  # looked up, never joined to a path
        if path is None:
            return Response(status_code=204 if name == "favicon.ico" else 404)
        return Response(path.read_bytes(), media_type=_TYPES[path.suffix[1:]])

    @app.exception_handler(ValueError)
    @app.exception_handler(OSError)
    @app.exception_handler(RequestValidationError)
    async def refused(request: Request, error: Exception) -> Response:
        wrong = isinstance(error, RequestValidationError)
        message = "The request must have the fields of this address." if wrong else str(error)
        return _refused(507 if isinstance(error, OSError) else 422, message)

    return app


def _refused(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status, _HEADERS)
