"""One process that opens the models and forks workers, which share its memory.

Workers never load anything. A worker that dies is replaced. A new model is opened next to the old
one and gets workers of its own; when these answer, the old ones finish their requests and end.
uvicorn's own supervisor loads the model once for every worker and drops requests at a reload.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pacsent.web.logs import Log
from pacsent.web.metrics import Metrics
from pacsent.web.served import Served
from pacsent.web.settings import Settings
from pacsent.web.worker import work

_POLL = 0.25  # seconds between looks at the workers
_SOON = 1.0  # a worker that dies within this many seconds is replaced after a pause


class _Worker(NamedTuple):
    slot: int
    generation: int
    started: float


class Supervisor:
    """Runs workers on one socket until it receives a signal to stop.

    SIGTERM and SIGINT: no new requests are accepted, those under way are finished. SIGHUP: the
    models are opened again and swapped. A worker that ends for another reason is replaced.
    `open_models` is called at the start and for every swap. When the value of `signature` changes,
    they are opened again without a signal. `started` is called with address, workers and model once
    the server answers.
    """

    def __init__(
        self,
        open_models: Callable[[], Sequence[Served]],
        settings: Settings,
        address: tuple[str, int] = ("127.0.0.1", 8000),
        n_workers: int = 1,
        signature: Callable[[], object] | None = None,
        started: Callable[[dict], object] | None = None,
    ):
        self._open = open_models
        self._settings = settings
        self._address = address
        self._n_workers = n_workers
        self._signature = signature
        self._started = started
        self._metrics = Metrics(4 * n_workers + 1)
        self._workers: dict[int, _Worker] = {}
        self._generation = 0
        self._log = Log()
        self._stop = self._reload = False
        self._not_before = 0.0
        self._pause = _SOON

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; the exit status."""
        if not hasattr(os, "fork"):
            raise OSError("pacsent serve needs a system with fork, such as Linux or macOS.")
        listening = _listen(*self._address)
        self._log.event("opening")
        self._served = self._open()
        seen = self._signature() if self._signature else None
        wake = self._take_signals()
        host, port = listening.getsockname()[:2]
        self._start_workers(listening)
        about: dict[str, Any] = {"address": f"http://{host}:{port}", "workers": self._n_workers,
                 "model": self._name()}  # fmt: skip
        self._log.event("serving", **about)
        if self._started:
            self._started(about)
        looked = time.monotonic()
        while not self._stop:
            select.select([wake], [], [], _POLL)
            _emptied(wake)
            self._replace_ended(listening)
            if self._signature and time.monotonic() - looked > 1.0:
                looked = time.monotonic()
                now = self._signature()
                self._reload |= now != seen and None not in now  # type: ignore[operator]
                seen = now if self._reload else seen
            if self._reload and not self._stop:
                self._reload = False
                self._swap(listening)
        listening.close()
        return self._end()

    def _name(self) -> str:
        return ", ".join(served.name for served in self._served)

    def _take_signals(self):
        readable, writable = os.pipe()
        for end in (readable, writable):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        self._pipe = readable, writable

        def stop(number, frame):
            self._stop = True

        def reload(number, frame):
            self._reload = True

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGHUP, reload)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        return readable

    # ---- workers -------------------------------------------------------------------------------

    def _start_workers(self, listening) -> list[int]:
        """Fork all workers for the newest model and wait until they answer; their process ids."""
        started = [self._fork(listening) for _ in range(self._n_workers)]
        deadline = time.monotonic() + 60
        for _pid, ready in started:
            left = max(0.0, deadline - time.monotonic())
            select.select([ready], [], [], left)
            os.close(ready)
        return [pid for pid, _ in started]

    def _fork(self, listening) -> tuple[int, int]:
        slot = min(
            set(range(1, 4 * self._n_workers + 1)) - {w.slot for w in self._workers.values()}
        )
        readable, writable = os.pipe()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(readable)
                signal.set_wakeup_fd(-1)
                for end in self._pipe:
                    os.close(end)
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                    signal.signal(number, signal.SIG_DFL)
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                work(self._served, self._settings, self._metrics.in_slot(slot), listening, writable)
                status = 0
            finally:
                os._exit(status)
        os.close(writable)
        self._workers[pid] = _Worker(slot, self._generation, time.monotonic())
        return pid, readable

    def _replace_ended(self, listening):
        """Record workers that ended, and replace those that should not have."""
        for pid in _ended(self._workers):
            worker = self._workers.pop(pid)
            if worker.generation != self._generation:
                continue
            self._log.event("worker ended", "warning", pid=pid)
            lived = time.monotonic() - worker.started
            self._pause = min(2 * self._pause, 30.0) if lived < _SOON else _SOON
            self._not_before = time.monotonic() + self._pause if lived < _SOON else 0.0
        now = [w for w in self._workers.values() if w.generation == self._generation]
        if len(now) < self._n_workers and time.monotonic() >= self._not_before:
            for _ in range(self._n_workers - len(now)):
                os.close(self._fork(listening)[1])

    def _swap(self, listening):
        """Open the models again and start their workers; then let the old workers finish."""
        try:
            served = self._open()
        except (ValueError, OSError, ImportError, MemoryError) as error:
            self._log.event("swap refused", "error", reason=str(error))
            return
        old = list(self._workers)
        self._served = served
        self._generation += 1
        self._start_workers(listening)
        for pid in old:
            _signal(pid, signal.SIGTERM)
        self._log.event("swapped", model=self._name(), generation=self._generation)

    def _end(self) -> int:
        self._log.event("stopping")
        for pid in self._workers:
            _signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + self._settings.grace + 2
        while self._workers and time.monotonic() < deadline:
            for pid in _ended(self._workers):
                del self._workers[pid]
            time.sleep(0.02)
        for pid in self._workers:
            _signal(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self._log.event("stopped")
        return 0


def _listen(host, port) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise OSError(
            f"The address {host}:{port} cannot be used ({error.strerror}). Choose another --port."
        ) from None
    listening.listen(1024)
    listening.setblocking(False)
    return listening


def _ended(workers) -> list[int]:
    found = []
    for pid in list(workers):
        try:
            done, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            done = pid
        if done:
            found.append(pid)
    return found


def _signal(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _emptied(pipe):
    try:
        while os.read(pipe, 4096):
            pass
    except BlockingIOError:
        pass
