"""The log: one JSON object a line for every request, never with a text of it."""

import asyncio
import json
import os
import sys
import time
from typing import Any, TextIO

_EVERY = 0.2  # seconds between writes


class Log:
    """Lines are collected and written together, so that no request waits for the disk."""

    def __init__(self, stream: TextIO | None = None, enabled: bool = True):
        self._stream = stream or sys.stderr
        self._lines: list[str] = []
        self._planned = False
        self.enabled = enabled

    def request(
        self, request_id: str, method: str, path: str, status: int, seconds: float, n_texts: int,
        n_bytes: int,
    ) -> None:  # fmt: skip
        """A request that was answered; `path` is a known address or pattern, or "other"."""
        if not self.enabled:
            return
        self._lines.append(
            f'{{"time":{time.time():.3f},"level":"info","worker":{os.getpid()},"request_id":'
            f'"{request_id}","method":"{method}","path":"{path}","status":{status},"ms":'
            f'{1e3 * seconds:.3f},"texts":{n_texts},"bytes":{n_bytes}}}\n'
        )
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_later(_EVERY, self.flush)

    def event(self, event: str, level: str = "info", **details: Any) -> None:
        """Anything else: starts, stops, swaps, faults."""
        said = {"time": round(time.time(), 3), "level": level, "worker": os.getpid(),
                "event": event, **details}  # fmt: skip
        self._lines.append(json.dumps(said) + "\n")
        self.flush()

    def flush(self) -> None:
        self._planned = False
        lines, self._lines = self._lines, []
        try:
            self._stream.write("".join(lines))
            self._stream.flush()
        except (OSError, ValueError):  # the log is closed: no reason to stop serving
            pass
