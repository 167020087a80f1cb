"""Drift monitors of a served classifier: one for each client, which the client can reset.

A client is an API key; a server without keys has one client. Requests hand over the rows that they
classified; one thread compares all of them, in their order, in batches, after the answers. An alarm
stands until the client resets its monitor. Workers, and those that replace them, share alarms and
resets by files in the folder of the metrics; what a monitor has seen is lost with its worker.
"""

import json
import math
import os
import threading
from collections import deque
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from pacsent.bounds.rounding import format_count
from pacsent.certify.drift_monitor import DriftMonitor
from pacsent.files import replacing
from pacsent.web import metrics
from pacsent.web.logs import LOGGER

ALPHA = 0.01  # probability of a false alarm, ever, per client and between resets
MAX_MONITORED = 20_000  # texts of one monitor; then another one follows
# Rows of a batch: as many as `LEAST_AT_ONCE`, or this fraction of the rows that the monitor has
# seen. Of more rows each takes less time; an alarm comes later by as much.
LEAST_AT_ONCE = 64
SHARE_AT_ONCE = 0.25
MOST_AT_ONCE = 256
MAX_WAITING = 4096  # rows of a client; a request with further ones waits until some are compared
_MAX_CLIENTS = 1_000  # whose monitors are in memory; those that were idle longest are dropped
_N_REMEMBERED = 1_000  # texts per client whose near-duplicates are recognised
_NOT_YET = "Not checked: no row has been compared yet."
_FAILED = "Not checked: comparing the last rows failed. The log of the server says why."


def alpha_of(number: int, n_workers: int = 1) -> float:
    """The level of a client's monitor with this number, from 1; all together have `ALPHA`.

    >>> round(sum(alpha_of(number) for number in range(1, 10_000)), 6)
    0.009999
    """
    return ALPHA / n_workers * 6.0 / (math.pi * number) ** 2


_Rows = tuple[list[str], np.ndarray]  # texts, and their log-probabilities (n, n_classes)


class _Client:
    """The monitor of one client, the rows that it has not seen yet, and its last comparison."""

    def __init__(self) -> None:
        self.n_resets = 0
        self.restart()

    def restart(self) -> None:
        """Forget all rows, and an alarm."""
        self.n_monitors = 0
        self.set_comparison(_NOT_YET)
        self.end_monitor()
        self.discard_waiting()

    def set_comparison(
        self,
        message: str,
        differs: bool | None = None,
        holds_only_if: str | None = None,
        counts: dict[str, int] | None = None,
    ) -> None:
        self.comparison: dict[str, Any] = {
            "differs": differs,
            "holds_only_if": holds_only_if,
            "message": message,
            "counts": counts,
        }

    @property
    def is_withdrawn(self) -> bool:
        """True if an alarm stands: nothing more is compared."""
        return bool(self.comparison["differs"])

    def end_monitor(self) -> None:
        """Have another monitor see the next rows."""
        self.monitor: DriftMonitor | None = None

    def discard_waiting(self) -> None:
        """Forget the rows that wait."""
        self._waiting: deque[_Rows] = deque()
        self.n_waiting = 0  # rows, with those that are being compared
        self.n_comparing = 0

    def append(self, texts: list[str], log_proba: np.ndarray) -> None:
        """Have rows wait."""
        self._waiting.append((texts, log_proba))
        self.n_waiting += len(texts)

    @property
    def is_due(self) -> bool:
        """True if as many rows wait as are compared at once."""
        n_seen = 0 if self.monitor is None else self.monitor.n_seen
        n_at_once = min(max(LEAST_AT_ONCE, int(SHARE_AT_ONCE * n_seen)), MOST_AT_ONCE)
        return self.n_waiting - self.n_comparing >= n_at_once

    def take(self) -> _Rows | None:
        """The rows of the next batch, in their order; None if none wait."""
        batch_texts: list[str] = []
        batch_log_proba: list[np.ndarray] = []
        while self._waiting and self.n_comparing < MOST_AT_ONCE:
            texts, log_proba = self._waiting.popleft()
            self.n_comparing += len(texts)
            batch_texts += texts
            batch_log_proba.append(log_proba)
        if not batch_log_proba:
            return None
        return batch_texts, np.concatenate(batch_log_proba)


class ClientMonitors:
    """The drift monitors of one model, one for each client."""

    def __init__(self, classifier: Any, n_workers: int = 1) -> None:
        self._first = DriftMonitor(classifier)  # sees nothing; the others are its successors
        self._first.n_remembered = _N_REMEMBERED
        self.n_workers = n_workers  # that answer for this model, each with monitors of its own
        # Another model starts anew, even under the same name.
        self._certificate = classifier.certificate_.to_json()
        self._clients: dict[str, _Client] = {}
        self._due: dict[str, None] = {}  # clients with rows for a batch, the first came first
        self._changed = threading.Condition()  # guards all of this, for moments only
        self._comparing = threading.Lock()  # held while a batch is compared: one at a time
        self._thread: threading.Thread | None = None

    def observe(self, client: str, texts: list[str], log_proba: np.ndarray) -> None:
        """Hand over classified rows of a client: they are compared after the answer.

        All are, in their order, unless an alarm stands. Where `MAX_WAITING` rows wait already, this
        waits too.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._state(client).n_waiting < MAX_WAITING)
            state = self._state(client)
            if state.is_withdrawn:
                return
            state.append(texts, log_proba)
            if state.is_due:
                self._due[client] = None
                self._start_thread()
                self._changed.notify_all()

    def comparison(self, client: str) -> dict[str, Any]:
        """The result for the rows of a client since its last reset, and how many still wait."""
        with self._changed:
            return self._describe(self._state(client))

    def reset(self, client: str) -> dict[str, Any]:
        """Forget the rows and the alarm of a client; returns `comparison` after it."""
        with self._changed:
            state = self._state(client)
            state.n_resets += 1
            state.restart()
            self._share(client, state)
            self._changed.notify_all()
            return self._describe(state)

    def flush(self) -> None:
        """Compare all rows that wait, however few, and return when that is done."""
        with self._changed:
            clients = list(self._clients)
        for client in clients:
            while self._compare_next(client):
                pass

    def close(self) -> None:
        """Compare all rows that wait, and end the thread."""
        thread = self._thread
        self._thread = None  # which ends it
        with self._changed:
            self._changed.notify_all()
        if thread is not None:
            thread.join()
        self.flush()

    # ---- the thread ----------------------------------------------------------------------------

    def _start_thread(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="drift", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        """Compare the rows of clients that have enough of them, until `close`."""
        me = threading.current_thread()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._due or self._thread is not me)
                if self._thread is not me:
                    return
                client = next(iter(self._due))
                del self._due[client]  # it comes last if it has more
            self._compare_next(client)

    def _compare_next(self, client: str) -> bool:
        """Compare the next batch of a client; returns False if there was none."""
        with self._comparing:
            with self._changed:
                state = self._clients.get(client)
                if state is None:
                    return False
                batch = state.take()
                if batch is None:
                    return False
                if state.monitor is None:
                    state.n_monitors += 1
                    alpha = alpha_of(state.n_monitors, self.n_workers)
                    state.monitor = self._first.successor(alpha=alpha)
                monitor = state.monitor

            texts, log_proba = batch
            error = None
            try:
                monitor.update(texts, log_proba=log_proba)
            except Exception as raised:  # the thread goes on, and the answers say so
                error = raised
                LOGGER.exception("a batch of texts could not be compared")

            with self._changed:
                if state.monitor is monitor:  # neither reset nor withdrawn in the meantime
                    self._finish(client, state, monitor, error)
                self._changed.notify_all()
        return True

    def _finish(
        self, client: str, state: _Client, monitor: DriftMonitor, error: Exception | None
    ) -> None:
        """Take notice of what the monitor found in a batch."""
        n_rows = state.n_comparing
        state.n_comparing = 0
        state.n_waiting -= n_rows
        if error is not None:
            state.set_comparison(_FAILED)
            state.end_monitor()
            return

        metrics.COMPARED.inc(n_rows)
        state.set_comparison(
            str(monitor),
            differs=monitor.alarm,
            holds_only_if=monitor.holds_only_if,
            counts=monitor.counts._asdict(),
        )
        if monitor.alarm:
            metrics.DRIFT_ALARMS.inc()
            fields = {"comparison": str(monitor)}
            LOGGER.warning("drift", extra={"fields": fields})
            state.end_monitor()
            state.discard_waiting()
            self._share(client, state)
            return
        if monitor.n_seen > MAX_MONITORED and monitor.holds_only_if is None:
            state.end_monitor()
        if state.is_due:
            self._due[client] = None

    # ---- clients -------------------------------------------------------------------------------

    def _describe(self, state: _Client) -> dict[str, Any]:
        comparison = state.comparison | {"waiting": state.n_waiting}
        if state.n_waiting:
            rows = format_count(state.n_waiting, "row")
            comparison["message"] += f" Still to be compared: {rows}."
        return comparison

    def _state(self, client: str) -> _Client:
        """The client's monitor, after what other workers have written about it."""
        state = self._clients.pop(client, None) or _Client()
        self._clients[client] = state  # the last one in the order of use
        if len(self._clients) > _MAX_CLIENTS:
            self._drop_one()
        shared = self._read(client)
        if shared["n_resets"] > state.n_resets:
            state.n_resets = shared["n_resets"]
            state.restart()
        if shared["comparison"] is not None and shared["n_resets"] == state.n_resets:
            state.comparison = shared["comparison"]
            state.end_monitor()
            state.discard_waiting()
        return state

    def _drop_one(self) -> None:
        """Forget the client that was idle longest, of those without an alarm and waiting rows."""
        for client, state in self._clients.items():
            if not state.is_withdrawn and not state.n_waiting:
                del self._clients[client]
                return

    def _path(self, client: str) -> Path | None:
        folder = os.environ.get(metrics.FOLDER_VARIABLE)
        if not folder:
            return None
        identity = f"{self._certificate}\n{client}"
        name = sha256(identity.encode()).hexdigest()
        return Path(folder) / f"drift-{name}.json"

    def _share(self, client: str, state: _Client) -> None:
        path = self._path(client)
        if path is None:
            return
        alarm = state.comparison if state.is_withdrawn else None
        content = json.dumps({"n_resets": state.n_resets, "comparison": alarm})
        with replacing(path) as file:
            file.write(content.encode())

    def _read(self, client: str) -> dict[str, Any]:
        path = self._path(client)
        if path is not None:
            with suppress(FileNotFoundError):
                return json.loads(path.read_bytes())
        return {"n_resets": 0, "comparison": None}
