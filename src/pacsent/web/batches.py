"""Micro-batching: requests that arrive together are solved together, and fail alone."""

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from pacsent.text.encoded import Encoded
from pacsent.web.metrics import Metrics
from pacsent.web.schemas import Problem
from pacsent.web.served import Served

_MOST = 1_000_000  # characters solved at once
_QUICK = 0.003  # seconds for which the event loop may be occupied
_LONG = 0.1  # seconds from which on texts are solved in chunks
_CHUNK = 512  # texts between two checks whether a client still waits
_A_TEXT = 100  # characters that take as long as what is done once for each text


class Solved(NamedTuple):
    """Posteriors of the texts of one request."""

    means: np.ndarray  # (n, n_dims)
    variances: np.ndarray  # (n,)
    n_known: np.ndarray  # (n,) known words
    n_unknown: np.ndarray  # (n,)

    def totals(self) -> tuple[int, int, int]:
        """Known words, unknown words, texts without a known word."""
        if self.n_known.size == 1:  # the usual case: there is nothing to sum
            n = int(self.n_known[0])
            return n, int(self.n_unknown[0]), int(n == 0)
        n_empty = self.n_known.size - int(np.count_nonzero(self.n_known))
        return int(self.n_known.sum()), int(self.n_unknown.sum()), n_empty


class _Asked(NamedTuple):
    texts: list[str]
    size: int  # of the work, in characters
    answer: asyncio.Future


class _GivenUp(Exception):
    """Every client of a batch went away, or its time was over."""


def _first(waiting: "deque[_Asked]", most: float) -> list[_Asked]:
    """Take requests off the front: at least one, and further ones up to this size in all."""
    batch = [waiting.popleft()]
    size = batch[0].size
    while waiting and size + waiting[0].size <= most:
        batch.append(waiting.popleft())
        size += batch[-1].size
    return batch


class Batcher:
    """Collects texts within one turn of the event loop, or while a batch is being solved.

    What takes a few milliseconds, by the speed measured so far, is solved in the event loop
    itself, since a thread would cost more than it saves. What takes longer is solved in one other
    thread, and short requests do not wait for that.
    """

    def __init__(self, served: Served, max_tokens: int, metrics: Metrics):
        self._served = served
        self._max_tokens = max_tokens
        self._metrics = metrics
        self._quick: deque[_Asked] = deque()
        self._slow: deque[_Asked] = deque()
        self._planned = self._busy = False
        self._pace = 5e-7  # seconds a character
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="solve")

    def solve(self, texts: list[str]) -> asyncio.Future:
        """A future of `Solved`, or of the problem with these texts."""
        loop = asyncio.get_running_loop()
        size = sum(map(len, texts)) + _A_TEXT * len(texts)
        asked = _Asked(texts, size, loop.create_future())
        quick = size * self._pace <= _QUICK or size <= 20 * _A_TEXT
        if quick and self._served.is_fast:
            self._quick.append(asked)
            if not self._planned:
                self._planned = True
                loop.call_soon(self._turn, loop)
        else:
            self._slow.append(asked)
            self._start(loop)
        return asked.answer

    def _turn(self, loop):
        """Solve the quick ones that arrived since the last turn."""
        batch = _first(self._quick, _QUICK / self._pace)
        self._done(batch, self._solve(batch))
        self._planned = bool(self._quick)
        if self._planned:
            loop.call_soon(self._turn, loop)

    def _start(self, loop):
        """Give the slow ones to the thread, if it is idle."""
        while self._slow and self._slow[0].answer.done():  # given up before it began
            self._slow.popleft()
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
            if asked.answer.done():  # given up: the client went away, or the time was over
                continue
            if isinstance(answer, Exception):
                asked.answer.set_exception(answer)
            else:
                asked.answer.set_result(answer)
        self._metrics.add_batch(len(batch))

    def _solve(self, batch) -> list:
        """Answers in the order of the batch; if all together fail, each is tried alone."""
        start = time.perf_counter()
        texts = batch[0].texts
        if len(batch) > 1:
            texts = [text for asked in batch for text in asked.texts]
        try:
            found = self._together(batch, texts)
        except _GivenUp:
            return [None] * len(batch)
        except Exception as error:
            if len(batch) > 1:
                return [self._solve([asked])[0] for asked in batch]
            return [error]
        took = (time.perf_counter() - start) / sum(asked.size for asked in batch)
        self._pace += 0.1 * (took - self._pace)
        return found

    def _together(self, batch, texts) -> list:
        encoded = self._served.encode(texts)
        n_known = encoded.offsets[1:] - encoded.offsets[:-1]
        if len(batch) == 1:
            n_tokens = encoded.ids.size + sum(encoded.n_unknown.tolist())
            if n_tokens > self._max_tokens:
                return [too_long(n_tokens, self._max_tokens)]
            means, variances = self._posteriors(encoded, texts, batch)
            return [Solved(means, variances, n_known, encoded.n_unknown)]
        sizes = np.array([len(asked.texts) for asked in batch], dtype=np.int64)
        ends = np.cumsum(sizes)
        n_tokens = np.add.reduceat(n_known + encoded.n_unknown, ends - sizes)
        if n_tokens.max() > self._max_tokens:  # each alone: the others are answered
            return [self._together([asked], asked.texts)[0] for asked in batch]
        means, variances = self._posteriors(encoded, texts, batch)
        rows = [slice(end - size, end) for size, end in zip(sizes.tolist(), ends.tolist())]
        return [
            Solved(means[row], variances[row], n_known[row], encoded.n_unknown[row]) for row in rows
        ]

    def _posteriors(self, encoded: Encoded, texts, batch):
        """Means and variances, in chunks, for as long as a client waits for them."""
        n = encoded.n_sentences
        if n <= _CHUNK or sum(asked.size for asked in batch) * self._pace < _LONG:
            return self._served.solve(encoded, texts)
        parts = []
        for start in range(0, n, _CHUNK):
            if all(asked.answer.done() for asked in batch):
                raise _GivenUp
            rows = np.arange(start, min(start + _CHUNK, n))
            parts.append(self._served.solve(encoded.take(rows), texts[start : start + _CHUNK]))
        means, variances = zip(*parts)
        return np.concatenate(means), np.concatenate(variances)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def too_long(n_tokens: int, most: int) -> Problem:
    """What a request with too many words is answered."""
    return Problem(
        422,
        f"A request must have at most {most:,} words in all its texts. Got {n_tokens:,} instead. "
        "Send several requests.",
    )
