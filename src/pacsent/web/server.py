"""Run the application in uvicorn's workers, which share the memory of the models.

On SIGHUP new workers open the models again and replace the old ones, if they start. On SIGTERM and
SIGINT the requests under way are finished.
"""

import asyncio
import os
import socket
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from pacsent.web.application import create_app
from pacsent.web.logs import LOG_CONFIG, LOGGER
from pacsent.web.metrics import FOLDER_VARIABLE
from pacsent.web.model_sources import ModelSource, open_models
from pacsent.web.settings import ServerSettings

_GRACE_SECONDS = 10  # for requests under way when the server stops
# For a new worker to open its models; also the longest time after which a hung worker is noticed.
_START_SECONDS = 60
_HEADER_SECONDS = 20  # for the headers of a request, from its first byte or the connection on
_STARTUP_FAILURE = 3  # exit status after which uvicorn does not start a worker again


class HeaderTimeoutProtocol(HttpToolsProtocol):
    """uvicorn's HTTP, which closes connections on which the headers of a request take too long.

    Line breaks before a request are no beginning of it to the parser, but begin the time.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        is_idle = self.cycle is None or self.cycle.response_complete
        if is_idle and self._timer is None:
            self._start_timer()
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._stop_timer()
        self._start_timer()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        super().on_headers_complete()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(error)

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(_HEADER_SECONDS, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Workers(Multiprocess):
    """uvicorn's workers; `on_ready` is called when all of them answer."""

    on_ready: Callable[[], object]

    def init_processes(self) -> None:
        super().init_processes()
        if all(worker.wait_until_ready(_START_SECONDS) for worker in self.processes):
            self.on_ready()


def serve(
    sources: Sequence[ModelSource],
    settings: ServerSettings,
    host: str = "127.0.0.1",
    port: int = 8000,
    n_workers: int = 1,
    on_start: Callable[[dict[str, Any]], object] | None = None,
) -> None:
    """Serve models until SIGTERM or SIGINT.

    The models are opened and used here once: errors in them are raised before anything starts, and
    workers find all kernels compiled.

    Parameters
    ----------
    sources : sequence of ModelSource
        The models to open.
    settings : ServerSettings
        Limits, API keys and times.
    host : str
        The address to listen at.
    port : int
        Port 0 chooses a free one.
    n_workers : int, default=1
        Processes that answer requests.
    on_start : callable, optional
        Receives a dictionary of address, workers and models when all workers answer.

    Examples
    --------
    >>> from pacsent.web import ModelSource, ServerSettings
    >>> serve([ModelSource("english")], ServerSettings(), port=8000)  # doctest: +SKIP
    """
    opened = open_models(sources, settings.error, settings.delta)
    models = [model.warm_up() for model in opened]
    listener = _listen(host, port)
    config = uvicorn.Config(
        partial(_create_worker_app, tuple(sources), settings, n_workers),
        factory=True,
        http=HeaderTimeoutProtocol,
        workers=n_workers,
        log_config=LOG_CONFIG,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=65,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        timeout_worker_healthcheck=_START_SECONDS,
    )

    shown_host = f"[{host}]" if ":" in host else host
    actual_port = listener.getsockname()[1]
    started = {
        "address": f"http://{shown_host}:{actual_port}",
        "workers": n_workers,
        "model": ", ".join(model.name for model in models),
    }

    def report() -> None:
        LOGGER.info("serving", extra={"fields": started})
        if on_start is not None:
            on_start(started)

    with listener, tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = folder  # workers inherit it
        try:
            workers = _Workers(config, sockets=[listener])
            workers.on_ready = report
            workers.run()
        finally:
            del os.environ[FOLDER_VARIABLE]
    LOGGER.info("stopped")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise OSError(
            f"The address {host}:{port} cannot be used ({error.strerror}). Choose another --port."
        ) from None


def _create_worker_app(
    sources: tuple[ModelSource, ...], settings: ServerSettings, n_workers: int
) -> Any:
    warnings.simplefilter("ignore")  # a worker is a process of the server
    try:
        models = open_models(sources, settings.error, settings.delta)
    except (ValueError, OSError, ImportError) as error:
        fields = {"reason": str(error)}
        LOGGER.error("models cannot be opened", extra={"fields": fields})
        sys.exit(_STARTUP_FAILURE)

    for model in models:
        if model.drift is not None:
            model.drift.n_workers = n_workers
        if model.classifier is not None:
            with suppress(ValueError):  # answers say why there is none
                model.answer_rule(settings.error, settings.delta)
        model.warm_up()
    return create_app(models, settings)
