"""Requests that arrive together are solved together, and fail alone."""

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from pacsent.serve.metrics import Metrics
from pacsent.serve.problems import Problem
from pacsent.serve.served import Served
from pacsent.text.encoded import Encoded

_MOST = 4096  # texts solved at once
_QUICK = 0.003  # seconds that the event loop may be held for


class Solved(NamedTuple):
    """Posteriors of the texts of one request."""

    means: np.ndarray  # (n, n_dims)
    variances: np.ndarray  # (n,)
    n_known: np.ndarray  # (n,) known words
    n_unknown: np.ndarray  # (n,)

    def totals(self) -> tuple[int, int, int]:
        """Known words, unknown words, texts without a known word."""
        if self.n_known.size == 1:  # the usual case: no sum of one number
            n = int(self.n_known[0])
            return n, int(self.n_unknown[0]), int(n == 0)
        n_empty = self.n_known.size - int(np.count_nonzero(self.n_known))
        return int(self.n_known.sum()), int(self.n_unknown.sum()), n_empty


class _Asked(NamedTuple):
    texts: list[str]
    answer: asyncio.Future


def _first(waiting: "deque[_Asked]", most: int) -> list[_Asked]:
    """Take requests off the front, at least one, of at most so many texts together."""
    batch = [waiting.popleft()]
    n_texts = len(batch[0].texts)
    while waiting and n_texts + len(waiting[0].texts) <= most:
        batch.append(waiting.popleft())
        n_texts += len(batch[-1].texts)
    return batch


class Batcher:
    """Collects texts within one turn of the event loop, or while a batch is being solved.

    What takes a moment, by the speed seen so far, is solved in the event loop itself: a thread
    would cost more than it saves. What takes longer is solved in one thread beside it, and the
    quick ones do not wait for that.
    """

    def __init__(self, served: Served, max_tokens: int, metrics: Metrics):
        self._served = served
        self._max_tokens = max_tokens
        self._metrics = metrics
        self._quick: deque[_Asked] = deque()
        self._slow: deque[_Asked] = deque()
        self._planned = self._busy = False
        self._seconds_a_text = 1e-4
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="solve")

    def solve(self, texts: list[str]) -> asyncio.Future:
        """A future of `Solved`, or of the problem with these texts."""
        loop = asyncio.get_running_loop()
        asked = _Asked(texts, loop.create_future())
        if len(texts) * self._seconds_a_text <= _QUICK or len(texts) == 1:
            self._quick.append(asked)
            if not self._planned:
                self._planned = True
                loop.call_soon(self._turn, loop)
        else:
            self._slow.append(asked)
            self._start(loop)
        return asked.answer

    def _turn(self, loop):
        """Solve the quick ones that came since the last turn."""
        most = max(1, int(_QUICK / self._seconds_a_text))
        batch = _first(self._quick, most)
        self._done(batch, self._solve(batch))
        self._planned = bool(self._quick)
        if self._planned:
            loop.call_soon(self._turn, loop)

    def _start(self, loop):
        """Give the slow ones to the thread, if it is free."""
        if self._busy or not self._slow:
            return
        self._busy = True
        batch = _first(self._slow, _MOST)
        running = loop.run_in_executor(self._thread, self._solve, batch)

        def ended(future):
            self._busy = False
            if not future.cancelled():
                self._done(batch, future.result())
                self._start(loop)

        running.add_done_callback(ended)

    def _done(self, batch, found):
        for asked, answer in zip(batch, found):
            if asked.answer.done():  # the client went away
                continue
            if isinstance(answer, Exception):
                asked.answer.set_exception(answer)
            else:
                asked.answer.set_result(answer)
        self._metrics.add_batch(len(batch))

    def _solve(self, batch) -> list:
        """Answers in the order of the batch; where all together fail, each is tried by itself."""
        start = time.perf_counter()
        texts = batch[0].texts
        if len(batch) > 1:
            texts = [text for asked in batch for text in asked.texts]
        try:
            found = self._together([len(asked.texts) for asked in batch], texts)
        except Exception as error:
            if len(batch) > 1:
                return [self._solve([asked])[0] for asked in batch]
            return [error]
        took = (time.perf_counter() - start) / len(texts)
        self._seconds_a_text += 0.1 * (took - self._seconds_a_text)
        return found

    def _together(self, sizes, texts) -> list:
        encoded = self._served.encode(texts)
        n_known = encoded.offsets[1:] - encoded.offsets[:-1]
        if len(sizes) == 1:
            return [self._one(encoded, n_known)]
        ends = np.cumsum(sizes)
        n_tokens = np.add.reduceat(n_known + encoded.n_unknown, ends - sizes)
        wide = n_tokens > self._max_tokens
        if wide.any():  # solved without them
            return [
                self._too_long(int(n)) if w else self._together([size], texts[end - size : end])[0]
                for n, w, size, end in zip(n_tokens, wide, sizes, ends.tolist())
            ]
        means, variances = self._served.solve(encoded)
        rows = [slice(end - size, end) for size, end in zip(sizes, ends.tolist())]
        return [
            Solved(means[row], variances[row], n_known[row], encoded.n_unknown[row]) for row in rows
        ]

    def _one(self, encoded: Encoded, n_known):
        n_tokens = encoded.ids.size + sum(encoded.n_unknown.tolist())
        if n_tokens > self._max_tokens:
            return self._too_long(n_tokens)
        means, variances = self._served.solve(encoded)
        return Solved(means, variances, n_known, encoded.n_unknown)

    def _too_long(self, n_tokens) -> Problem:
        return Problem(
            422,
            f"A request must hold at most {self._max_tokens:,} words in all. Got {n_tokens:,} "
            "instead. Send several requests.",
        )

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
