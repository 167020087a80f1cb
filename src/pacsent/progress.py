"""Progress of long work, on stderr: how far, how fast, how long still.

On a terminal a live bar; elsewhere (a log file) a plain line every ten seconds, also while the work
itself reports nothing.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PLAIN_EVERY = 10.0  # seconds between lines where stderr is not a terminal
COMPILING: set = set()  # what is being compiled just now, for the first time on this machine
_SHORT_WORK = 0.5  # seconds before the live bar appears: quick work shows none


class Bar:
    """What the work calls: `advance(n)`, or `update(completed=..., note=...)`.

    Without a unit only the share is shown: what is counted then means nothing to the reader.
    """

    def __init__(self, description: str, total: float | None, unit: str):
        self.description, self.total, self.unit = description, total, unit
        self.completed: float = 0
        self.note = ""
        self.started = self._spoke = time.monotonic()
        self._live = None
        self._task = None
        self._lock = threading.Lock()

    def advance(self, n: float = 1, note: str | None = None) -> None:
        self.update(self.completed + n, note)

    def update(self, completed: float, note: str | None = None) -> None:
        with self._lock:
            self.completed = completed
            if note is not None:
                self.note = note
            self._show()

    def keep_showing(self, ended: threading.Event) -> None:
        """Show how far it is every second, until the work ends."""
        while not ended.wait(1.0):
            with self._lock:
                self._show()

    def _show(self):
        now, completed = time.monotonic(), self.completed
        if not sys.stderr.isatty():
            if now - self._spoke >= PLAIN_EVERY:
                self._spoke = now
                print(self._line(now), file=sys.stderr, flush=True)
            return
        if self._live is None:
            if now - self.started < _SHORT_WORK:
                return
            self._start()
        self._live.update(self._task, completed=completed, note=self._said(), rate=self._rate(now))

    def _said(self):
        return self.note if not COMPILING else "compiling, for the first run only"

    def _rate(self, now):
        if not self.unit:
            return ""
        elapsed = max(now - self.started, 1e-9)
        if 0 < self.completed < elapsed:
            return f"{elapsed / self.completed:.0f} s each"
        return f"{_short(self.completed / elapsed)} {self.unit}/s"

    def _line(self, now):
        elapsed = max(now - self.started, 1e-9)
        parts = [f"{_short(self.completed)} {self.unit}"] if self.unit else []
        if self.total:
            share = self.completed / self.total
            parts.append(f"{100 * share:.0f} %")
            if share > 0:
                parts.append(f"{_duration(elapsed * (1 - share) / share)} left")
        if not self.completed:
            parts.append(f"{_duration(elapsed)} so far")
        elif self.unit:
            parts.append(self._rate(now))
        if self._said():
            parts.append(self._said())
        return f"{self.description}: {', '.join(parts)}"

    def _start(self):
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self._live = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._live.start()
        self._task = self._live.add_task(self.description, total=self.total, rate="", note="")

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()


class _Hidden:
    completed = 0

    def advance(self, n=1, note=None):
        pass

    def update(self, completed, note=None):
        pass


def _duration(seconds):
    """As people say it: 45 s, 12 min, 2 h 5 min."""
    minutes = round(seconds / 60)
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _short(value):
    for limit, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.1f}{suffix}"
    return f"{value:.0f}"


@contextmanager
def bar(
    description: str, *, total: float | None = None, unit: str = "items", enabled: bool = True
) -> Iterator[Bar | _Hidden]:
    """A bar for the length of a `with` block; it is not shown where `enabled` is false."""
    if not enabled:
        yield _Hidden()
        return
    shown, ended = Bar(description, total, unit), threading.Event()
    threading.Thread(target=shown.keep_showing, args=(ended,), daemon=True).start()
    try:
        yield shown
    finally:
        ended.set()
        with shown._lock:
            shown.close()
