"""Drift monitors of a served classifier: one for each client, which the client can reset.

A client is an API key; a server without keys has one client. An alarm stands until the client
resets its monitor. Workers share alarms and resets by files in the folder of the metrics.
"""

import json
import math
import os
import threading
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from pacsent.certify.drift_monitor import DriftMonitor
from pacsent.files import replacing
from pacsent.web.metrics import FOLDER_VARIABLE

ALPHA = 0.01  # probability of a false alarm, ever, per client and between resets
MAX_MONITORED = 20_000  # texts of one monitor; then another one follows
MONITORED_AT_ONCE = 64  # texts; near-duplicates are found in blocks
_MAX_CLIENTS = 1_000  # whose monitors are in memory; those that were idle longest are dropped
_N_REMEMBERED = 1_000  # texts per client whose near-duplicates are recognised
_FEW = f"Not checked: fewer than {MONITORED_AT_ONCE} texts have been compared."


def alpha_of(number: int, n_workers: int = 1) -> float:
    """The level of a client's monitor with this number, from 1; all together have `ALPHA`.

    >>> round(sum(alpha_of(number) for number in range(1, 10_000)), 6)
    0.009999
    """
    return ALPHA / n_workers * 6.0 / (math.pi * number) ** 2


class _Client:
    """The monitor of one client, and the texts that it has not seen yet."""

    def __init__(self, classifier: Any, n_workers: int):
        self._classifier, self._n_workers = classifier, n_workers
        self.n_resets = 0
        self.restart()

    def restart(self) -> None:
        self.number = 0
        self.comparison: dict[str, Any] = {
            "differs": None,
            "holds_only_if": None,
            "message": _FEW,
            "counts": None,
        }
        self._waiting: list[tuple[str, np.ndarray]] = []
        self._next_monitor()

    def _next_monitor(self) -> None:
        self.number += 1
        alpha = alpha_of(self.number, self._n_workers)
        self._monitor = DriftMonitor(self._classifier, alpha=alpha)
        self._monitor.n_remembered = _N_REMEMBERED

    def observe(self, texts: list[str], log_proba: np.ndarray) -> bool:
        """Show texts to the monitor; whether guarantees are withdrawn from now on."""
        if self.comparison["differs"]:  # an alarm stands until the reset
            return False
        self._waiting += zip(texts, log_proba)
        if len(self._waiting) < MONITORED_AT_ONCE:
            return False
        seen, rows = zip(*self._waiting)
        self._waiting = []
        alarm = self._monitor.update(seen, log_proba=np.array(rows))
        self.comparison = {
            "differs": alarm,
            "holds_only_if": self._monitor.holds_only_if,
            "message": str(self._monitor),
            "counts": self._monitor.counts._asdict(),
        }
        is_full = self._monitor.n_seen > MAX_MONITORED
        if is_full and not alarm and self._monitor.holds_only_if is None:
            self._next_monitor()
        return alarm


class ClientMonitors:
    """The drift monitors of one model, one for each client."""

    def __init__(self, classifier: Any, n_workers: int = 1):
        self._classifier = classifier
        self.n_workers = n_workers  # that answer for this model, each with monitors of its own
        # Another model starts anew, even under the same name.
        self._certificate = classifier.certificate_.to_json()
        self._clients: dict[str, _Client] = {}
        self._lock = threading.Lock()  # several threads classify at the same time

    def observe(self, client: str, texts: list[str], log_proba: np.ndarray) -> bool:
        """Show the classified texts of a client; whether this raised an alarm."""
        with self._lock:
            state = self._state(client)
            alarm = state.observe(texts, log_proba)
            if alarm:
                self._share(client, state)
            return alarm

    def comparison(self, client: str) -> dict[str, Any]:
        """What is known about the texts of a client since its last reset."""
        with self._lock:
            return dict(self._state(client).comparison)

    def reset(self, client: str) -> dict[str, Any]:
        """Forget the texts and the alarm of a client; what is known afterwards."""
        with self._lock:
            state = self._state(client)
            state.n_resets += 1
            state.restart()
            self._share(client, state)
            return dict(state.comparison)

    def _state(self, client):
        """The client's monitor, after what other workers have written about it."""
        state = self._clients.pop(client, None) or _Client(self._classifier, self.n_workers)
        self._clients[client] = state  # the last one in the order of use
        if len(self._clients) > _MAX_CLIENTS:
            del self._clients[next(iter(self._clients))]
        shared = self._read(client)
        if shared["n_resets"] > state.n_resets:
            state.n_resets = shared["n_resets"]
            state.restart()
        if shared["comparison"] is not None and shared["n_resets"] == state.n_resets:
            state.comparison = shared["comparison"]
        return state

    def _path(self, client):
        folder = os.environ.get(FOLDER_VARIABLE)
        if not folder or self.n_workers == 1:
            return None
        name = sha256(f"{self._certificate}\n{client}".encode()).hexdigest()
        return Path(folder) / f"drift-{name}.json"

    def _share(self, client, state):
        path = self._path(client)
        if path is None:
            return
        alarm = state.comparison if state.comparison["differs"] else None
        content = json.dumps({"n_resets": state.n_resets, "comparison": alarm})
        with replacing(path) as file:
            file.write(content.encode())

    def _read(self, client):
        path = self._path(client)
        if path is not None:
            with suppress(FileNotFoundError):
                return json.loads(path.read_bytes())
        return {"n_resets": 0, "comparison": None}
