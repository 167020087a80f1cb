"""Progress of long work on stderr: amount done, rate and time left.

On a terminal a bar of rich; elsewhere (a log file) a plain line every ten seconds.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PLAIN_EVERY = 10.0  # seconds between lines if stderr is not a terminal
_REFRESH_EVERY = 0.2  # seconds between updates of the bar
_SHORT_WORK = 0.5  # seconds before the bar appears: quick work shows none


class Bar:
    """The completed part of some work, shown by a thread; without a unit only the percentage."""

    def __init__(self, description: str, total: float | None, unit: str) -> None:
        self.description = description
        self.total = total
        self.unit = unit
        self.completed = 0.0
        self.note = ""
        self.started = time.monotonic()
        self.ended = threading.Event()

    def advance(self, n: float = 1) -> None:
        """Add `n` to what is completed."""
        self.update(self.completed + n)

    def update(self, completed: float, note: str | None = None) -> None:
        """Set what is completed, and the note shown behind it."""
        self.completed = completed
        self.note = self.note if note is None else note

    def show(self) -> None:
        """Show the progress until `ended` is set."""
        if not sys.stderr.isatty():
            while not self.ended.wait(PLAIN_EVERY):
                line = self.line(time.monotonic() - self.started)
                print(line, file=sys.stderr, flush=True)
            return

        if self.ended.wait(_SHORT_WORK):
            return
        from rich import progress
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[note]}"),
        )
        with progress.Progress(*columns, console=Console(stderr=True), transient=True) as live:
            task = live.add_task(self.description, total=self.total, rate="", note="")
            while True:
                rate = self._rate(time.monotonic() - self.started)
                live.update(task, completed=self.completed, note=self.note, rate=rate)
                if self.ended.wait(_REFRESH_EVERY):
                    return

    def line(self, elapsed: float) -> str:
        """One line for a log, `elapsed` seconds after the start.

        >>> bar = Bar("Training", 100, "words")
        >>> bar.update(50)
        >>> bar.line(25)
        'Training: 50 words, 50%, 25 s left, 2 words/s'
        """
        parts = []
        if self.unit:
            parts.append(f"{_short(self.completed)} {self.unit}")
        if self.total:
            fraction = self.completed / self.total
            parts.append(f"{100 * fraction:.0f}%")
            if fraction > 0:
                remaining = elapsed * (1 - fraction) / fraction
                parts.append(f"{_duration(remaining)} left")
        if not self.completed:
            parts.append(f"{_duration(elapsed)} so far")
        elif self.unit:
            parts.append(self._rate(elapsed))
        if self.note:
            parts.append(self.note)
        return f"{self.description}: {', '.join(parts)}"

    def _rate(self, elapsed: float) -> str:
        if not self.unit:
            return ""
        if 0 < self.completed < elapsed:
            return f"{elapsed / self.completed:.0f} s each"
        rate = self.completed / max(elapsed, 1e-9)
        return f"{_short(rate)} {self.unit}/s"


@contextmanager
def bar(
    description: str, *, total: float | None = None, unit: str = "items", enabled: bool = True
) -> Iterator[Bar]:
    """Show the progress of a `with` block, if `enabled`; yields the `Bar` to update."""
    shown = Bar(description, total, unit)
    thread = threading.Thread(target=shown.show, daemon=True)
    if enabled:
        thread.start()
    try:
        yield shown
    finally:
        shown.ended.set()
        if enabled:
            thread.join()


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def _short(value: float) -> str:
    for limit, suffix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.1f}{suffix}"
    return f"{value:.0f}"
