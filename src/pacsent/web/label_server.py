"""The labelling page: a small application that answers one browser, or a few."""

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field

from pacsent.text.pages import render
from pacsent.web.labelling import Labelling
from pacsent.web.middleware import SAFE_HEADERS
from pacsent.web.text_map import PAGE_FOLDER

_MAX_BODY = 1 << 16  # bytes
_HEADERS = {**SAFE_HEADERS, "cache-control": "no-store"}


class TabRequest(BaseModel):
    """The annotator and the tab of the browser that a request comes from."""

    who: str = Field("", max_length=100)
    tab: str = Field("", max_length=100)


class AnswerRequest(TabRequest):
    """An answer; no label is a skip."""

    row: int
    label: str | None = None


def label_app(
    labelling: Labelling,
    annotators: tuple[str, ...] = ("",),
    write_results: Callable[[], list[str]] = list,
) -> FastAPI:
    """The application; any ASGI server runs it.

    `write_results` returns what it wrote as a list of lines. Every POST needs the key of the
    labelling, which is part of the address that is opened.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.middleware("http")
    async def check_request(request: Request, call_next: Any) -> Response:
        if request.method == "POST":
            if request.headers.get("x-key", "") != labelling.key:
                return _error(401, "The key must be that of the address that was printed.")
            if int(request.headers.get("content-length") or _MAX_BODY + 1) > _MAX_BODY:
                return _error(413, "The request must be at most 64 kB.")
        response = await call_next(request)
        response.headers.update(_HEADERS)
        return response

    def next_task(body: TabRequest) -> dict[str, Any]:
        task = labelling.next(body.who, body.tab)
        return {"task": task and task._asdict(), "status": labelling.status()}

    def check_annotator(body: TabRequest) -> None:
        if body.who not in annotators:
            names = ", ".join(annotators)
            raise ValueError(f"who must be one of {names}. Got {body.who!r} instead.")

    @app.post("/next")
    def next_(body: TabRequest) -> dict[str, Any]:
        check_annotator(body)
        return next_task(body)

    @app.post("/answer")
    def answer(body: AnswerRequest) -> dict[str, Any]:
        check_annotator(body)
        labelling.answer(body.row, body.label, body.who)
        return next_task(body)

    @app.post("/undo")
    def undo(body: TabRequest) -> dict[str, Any]:
        check_annotator(body)
        labelling.undo(body.who, body.tab)
        return next_task(body)

    @app.post("/results")
    def results(body: TabRequest) -> dict[str, Any]:
        check_annotator(body)
        return {"written": write_results()}

    @app.get("/")
    def page() -> Response:
        return HTMLResponse(render("label.html", title="Labelling"))

    app.mount("/page", StaticFiles(directory=PAGE_FOLDER))

    @app.exception_handler(ValueError)
    @app.exception_handler(OSError)
    @app.exception_handler(RequestValidationError)
    async def handle_error(request: Request, error: Exception) -> Response:
        invalid = isinstance(error, RequestValidationError)
        message = "The request must have the fields of this address." if invalid else str(error)
        return _error(507 if isinstance(error, OSError) else 422, message)

    return app


def _error(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status, _HEADERS)
