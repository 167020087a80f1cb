"""Requests that come at the same time, computed in one pass."""

import threading
from collections.abc import Callable
from typing import Any

_MAX_TEXTS = 256  # of a pass: longer ones would make short requests wait


class _Call:
    """One thread's texts, and what was computed for them."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.leads = False  # whether this thread computes the next pass
        self.ready = threading.Event()  # it leads, or its result is there
        self.result: Any = None
        self.error: Exception | None = None


class Together:
    """A function of texts; threads that call it while a pass is computed share the next one.

    `compute` gives one result for each of several groups of texts. No thread of its own: one of
    those that wait computes for all of them, and then the next for those that came meanwhile. If a
    pass fails, each call is computed by itself, so that only those with a reason fail.

    >>> lengths = Together(lambda groups: [list(map(len, texts)) for texts in groups])
    >>> lengths(["a", "film"])
    [1, 4]
    """

    def __init__(self, compute: Callable[[list[list[str]]], list[Any]]) -> None:
        self._compute = compute
        self._lock = threading.Lock()
        self._waiting: list[_Call] = []  # the first of them leads, unless a pass is computed
        self._is_computing = False

    def __call__(self, texts: list[str]) -> Any:
        call = _Call(texts)
        with self._lock:
            self._waiting.append(call)
            call.leads = not self._is_computing
            self._is_computing = True

        if not call.leads:
            call.ready.wait()
        if call.leads:
            self._compute_pass()
        if call.error is not None:
            raise call.error
        return call.result

    def _compute_pass(self) -> None:
        """Compute for those that wait, of whom the first leads, and make the next one lead."""
        with self._lock:
            calls = self._take_calls()
        try:
            results = self._compute([call.texts for call in calls])
            for call, result in zip(calls, results, strict=True):
                call.result = result
        except Exception:
            for call in calls:
                self._compute_alone(call)

        with self._lock:
            self._is_computing = bool(self._waiting)
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].ready.set()
        for call in calls:
            call.ready.set()

    def _take_calls(self) -> list[_Call]:
        """The calls of the next pass: the first, and more while they have few texts."""
        n_calls = 1
        n_texts = len(self._waiting[0].texts)
        for call in self._waiting[1:]:
            n_texts += len(call.texts)
            if n_texts > _MAX_TEXTS:
                break
            n_calls += 1
        calls = self._waiting[:n_calls]
        self._waiting = self._waiting[n_calls:]
        return calls

    def _compute_alone(self, call: _Call) -> None:
        try:
            (call.result,) = self._compute([call.texts])
        except Exception as error:
            call.error = error
