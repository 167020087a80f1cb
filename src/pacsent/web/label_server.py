"""The labelling page: a small application that answers one browser, or a few."""

import hashlib
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field

from pacsent.text.pages import render
from pacsent.web.labelling import LabelSession
from pacsent.web.middleware import RequestMiddleware, add_error_handlers
from pacsent.web.schemas import RequestError
from pacsent.web.settings import PAGE_FOLDER, ServerSettings


class TabRequest(BaseModel):
    """The tab of the browser that a request comes from; with a row, an answer or a skip."""

    tab: str = Field("", max_length=100)
    row: int = -1
    label: str | None = None


def label_app(
    session: LabelSession, annotators: dict[str, str], write_results: Callable[[], list[str]] = list
) -> FastAPI:
    """The application; any ASGI server runs it.

    `annotators` are key -> name: every POST needs a key, which is part of the URL that an annotator
    opens, and says who answers. `write_results` returns what it wrote as a list of lines.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    def annotator(request: Request) -> str:
        # RequestMiddleware has checked that there is a key.
        _, key = request.headers["authorization"].split()
        return annotators[key]

    def next_task(who: str, tab: str) -> dict[str, Any]:
        task = session.next(who, tab)
        fields = None if task is None else task._asdict()
        return {"task": fields, "status": session.status(), "who": who}

    @app.post("/next")
    def next_(request: Request, body: TabRequest) -> dict[str, Any]:
        return next_task(annotator(request), body.tab)

    @app.post("/answer")
    def answer(request: Request, body: TabRequest) -> dict[str, Any]:
        who = annotator(request)
        try:
            session.answer(body.row, body.label, who)
        except OSError as error:  # the disk is full
            raise RequestError(507, str(error)) from None
        except ValueError as error:
            raise RequestError(422, str(error)) from None
        return next_task(who, body.tab)

    @app.post("/undo")
    def undo(request: Request, body: TabRequest) -> dict[str, Any]:
        who = annotator(request)
        session.undo(who, body.tab)
        return next_task(who, body.tab)

    @app.post("/leave")
    def leave(request: Request, body: TabRequest) -> dict[str, Any]:
        session.leave(annotator(request), body.tab)
        return {}

    @app.post("/results")
    def results(body: TabRequest) -> dict[str, Any]:
        return {"written": write_results()}

    @app.get("/")
    async def page() -> HTMLResponse:
        return HTMLResponse(render("label.html", title="Labelling"))

    app.mount("/page", StaticFiles(directory=PAGE_FOLDER))
    add_error_handlers(app)

    key_digests = [hashlib.sha256(key.encode()).digest() for key in annotators]
    settings = ServerSettings(
        keys=tuple(key_digests),
        max_body=1 << 16,
        timeout=3600,  # fitting the models of many labels may take minutes
    )
    app.add_middleware(RequestMiddleware, settings=settings)
    return app
