"""The labelling page: a small application that answers one browser, or a few."""

import hashlib
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field

from pacsent.text.pages import render
from pacsent.web.labelling import Labelling
from pacsent.web.middleware import RequestMiddleware, add_error_handlers
from pacsent.web.schemas import RequestError
from pacsent.web.settings import ServerSettings
from pacsent.web.text_map import PAGE_FOLDER


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

    def checked(body: TabRequest, action: Callable[[], object] = int) -> None:
        try:
            if body.who not in annotators:
                names = ", ".join(annotators)
                raise ValueError(f"who must be one of {names}. Got {body.who!r} instead.")
            action()
        except (ValueError, OSError) as error:
            raise RequestError(507 if isinstance(error, OSError) else 422, str(error)) from None

    def next_task(body: TabRequest) -> dict[str, Any]:
        task = labelling.next(body.who, body.tab)
        return {"task": task and task._asdict(), "status": labelling.status()}

    @app.post("/next")
    def next_(body: TabRequest) -> dict[str, Any]:
        checked(body)
        return next_task(body)

    @app.post("/answer")
    def answer(body: AnswerRequest) -> dict[str, Any]:
        checked(body, lambda: labelling.answer(body.row, body.label, body.who))
        return next_task(body)

    @app.post("/undo")
    def undo(body: TabRequest) -> dict[str, Any]:
        checked(body, lambda: labelling.undo(body.who, body.tab))
        return next_task(body)

    @app.post("/results")
    def results(body: TabRequest) -> dict[str, Any]:
        checked(body)
        return {"written": write_results()}

    @app.get("/")
    async def page() -> HTMLResponse:
        return HTMLResponse(render("label.html", title="Labelling"))

    app.mount("/page", StaticFiles(directory=PAGE_FOLDER))
    add_error_handlers(app)
    key = hashlib.sha256(labelling.key.encode()).digest()
    # Fitting the models of many labels may take minutes.
    settings = ServerSettings(keys=(key,), max_body=1 << 16, timeout=3600)
    app.add_middleware(RequestMiddleware, settings=settings)
    return app
