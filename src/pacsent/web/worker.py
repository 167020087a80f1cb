"""One worker process: uvicorn with the application, and its handling of bad connections."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pacsent.web.application import create_app
from pacsent.web.front import Front
from pacsent.web.logs import Log
from pacsent.web.metrics import Metrics
from pacsent.web.schemas import Problem
from pacsent.web.served import Served
from pacsent.web.settings import Settings
from pacsent.web.telemetry import telemetry_from

_HEAD_SECONDS = 20.0  # for the head of a request


def work(
    models: Sequence[Served], settings: Settings, metrics: Metrics, listening: socket.socket,
    ready: int,
) -> None:  # fmt: skip
    """Answer requests on a socket until SIGTERM; a byte is written to `ready` at the start."""
    metrics.started()
    front = create_app(models, settings, metrics, Log(), telemetry_from())
    config = uvicorn.Config(
        front,
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=65,
        timeout_graceful_shutdown=max(1, int(settings.grace)),
    )
    server = _Server(config, front, ready)
    try:
        server.run(sockets=[listening])
    finally:
        front.log.flush()
        front.close()


class _Server(uvicorn.Server):
    """uvicorn's server, which reports when it is ready and ends when its parent is gone."""

    def __init__(self, config, front: Front, ready: int):
        super().__init__(config)
        self._front, self._ready = front, ready
        self._parent = os.getppid()

    async def startup(self, sockets=None):
        await super().startup(sockets)
        with contextlib.suppress(BrokenPipeError):  # no one waits for a replaced worker
            os.write(self._ready, b"1")
        os.close(self._ready)

    async def on_tick(self, counter):
        if os.getppid() != self._parent:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets=None):
        self._front.draining = True
        for server in self.servers:
            server.close()
        for _ in range(20):  # who is connected gets one more answer, with connection: close
            if not self.server_state.connections:
                break
            await asyncio.sleep(0.05)
        await super().shutdown([])


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol, which closes connections that do not finish the head of a request.

    uvicorn has a time limit between requests only.
    """

    _head_since: float | None = None  # when the head that is being read began

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._head_since = self.loop.time()
        self._head_timer = self.loop.call_later(_HEAD_SECONDS, self._look)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_since = self.loop.time()

    def on_headers_complete(self) -> None:
        self._head_since = None
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timer.cancel()
        super().connection_lost(exc)

    def _look(self):
        """Look from time to time, so that a request needs no timer of its own."""
        since = self._head_since
        if since is not None and self.loop.time() - since >= _HEAD_SECONDS:
            self.transport.close()
            return
        self._head_timer = self.loop.call_later(_HEAD_SECONDS, self._look)

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP is answered with JSON, as every other error."""
        body = Problem(400, "The request must be valid HTTP/1.1. It is not.").body("")
        head = (
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n" % len(body)
        )
        self.transport.write(head + body)
        self.transport.close()
