"""Counters of all workers in shared memory, written as text by prometheus-client.

The multi-process mode of prometheus-client keeps files for every process that ever was, in a folder
that must be emptied by hand; here each worker adds to its own row of one array.
"""

import mmap
import time
from collections.abc import Iterator

import numpy as np
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

PATHS = (
    "/v1/embeddings", "/v1/models", "/v1/models/{name}", "/embed", "/similarity", "/classify",
    "/rerank", "/v1/rerank", "/v2/rerank", "/tokenize", "/info", "/api/embed", "/api/tags",
    "/search", "/index", "/index/map", "/index/{number}", "/certificates", "/health", "/ready",
    "/metrics", "/", "/docs", "/openapi.json", "/page/{name}", "/favicon.ico", "other",
)  # fmt: skip
CODES = (200, 400, 401, 404, 405, 408, 413, 415, 422, 429, 499, 500, 503, 504)
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PATHS = {path: i for i, path in enumerate(PATHS)}
_CODES = {code: i for i, code in enumerate(CODES)}
_COUNTERS = {
    "texts": "Texts solved or classified.",
    "known_words": "Words of them that the model knows.",
    "unknown_words": "Words of them that it does not know.",
    "empty_texts": "Texts without a known word.",
    "alarms": "Alarms: texts that are not exchangeable with the calibration set.",
    "batches": "Batches solved.",
    "batched_requests": "Requests in these batches.",
    "worker_starts": "Workers started.",
}
_TEXTS, _ALARMS, _BATCHES, _STARTS, _UNDER_WAY = 0, 4, 5, 7, 8


class Metrics(Collector):
    """Counts of one worker, written by it alone; `text` adds up those of all workers.

    When a worker is killed, its counts remain, and the next worker in its slot continues them.

    Parameters
    ----------
    n_slots : int
        The number of workers that may exist at once.

    >>> metrics = Metrics(2)
    >>> metrics.in_slot(1).add_request("/embed", 200, 0.002)
    >>> b'pacsent_requests_total{code="200",path="/embed"} 1' in metrics.text("english")[0]
    True
    """

    def __init__(self, n_slots: int = 1):
        n_requests = len(PATHS) * len(CODES)
        n_times = len(PATHS) * (len(BOUNDS) + 2)  # buckets, the last without bound; the sum
        width = n_requests + n_times + len(_COUNTERS) + 1
        self._memory = mmap.mmap(-1, 8 * width * n_slots)  # shared with every child
        self._all = np.frombuffer(self._memory, np.float64).reshape(n_slots, width)
        self._cut = n_requests, n_requests + n_times
        self._started = time.time()
        self.in_slot(0)

    def in_slot(self, slot: int) -> "Metrics":
        """Count in this slot from now on; returns self."""
        self._requests, self._times, self._single = self._parts(self._all[slot])
        self._single[_UNDER_WAY] = 0
        return self

    def _parts(self, row: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Requests by path and code, times by path and bucket, everything else."""
        a, b = self._cut
        n = len(PATHS)
        return row[:a].reshape(n, len(CODES)), row[a:b].reshape(n, -1), row[b:]

    def started(self) -> None:
        self._single[_STARTS] += 1

    def under_way(self, n: int) -> None:
        self._single[_UNDER_WAY] = n

    def add_request(self, path: str, code: int, seconds: float) -> None:
        row = _PATHS.get(path, len(PATHS) - 1)
        self._requests[row, _CODES.get(code, _CODES[500])] += 1
        times = self._times[row]
        bucket = 0
        for bound in BOUNDS:
            if seconds <= bound:
                break
            bucket += 1
        times[bucket] += 1
        times[-1] += seconds

    def add_texts(self, n: int, n_known: int, n_unknown: int, n_empty: int) -> None:
        single = self._single
        single[_TEXTS] += n
        single[_TEXTS + 1] += n_known
        single[_TEXTS + 2] += n_unknown
        single[_TEXTS + 3] += n_empty

    def add_alarm(self) -> None:
        self._single[_ALARMS] += 1

    def add_batch(self, n_requests: int) -> None:
        self._single[_BATCHES] += 1
        self._single[_BATCHES + 1] += n_requests

    def text(self, model: str) -> tuple[bytes, str]:
        """The counts of all workers in Prometheus' text format, and its content type."""
        registry = CollectorRegistry()
        registry.register(self)
        info = Gauge("pacsent_model_info", "The model.", ["model"], registry=registry)
        info.labels(model.encode("utf-8", "replace").decode()).set(1)
        return generate_latest(registry), CONTENT_TYPE_LATEST

    def collect(self) -> Iterator[Metric]:
        """The sums over all workers, for prometheus-client."""
        requests, times, single = self._parts(self._all.sum(axis=0))
        counted = CounterMetricFamily(
            "pacsent_requests", "Requests answered.", None, ["path", "code"]
        )
        for (i, j), n in np.ndenumerate(requests):
            if n:
                counted.add_metric([PATHS[i], str(CODES[j])], n)
        seconds = HistogramMetricFamily(
            "pacsent_request_seconds", "Time from a request to its answer.", labels=["path"]
        )
        bounds = [*(f"{bound:g}" for bound in BOUNDS), "+Inf"]
        for path, row in zip(PATHS, times):
            if row[:-1].any():
                below = np.cumsum(row[:-1]).tolist()
                seconds.add_metric([path], list(zip(bounds, below)), row[-1])
        yield from (counted, seconds)
        for value, (name, about) in zip(single.tolist(), _COUNTERS.items()):
            yield CounterMetricFamily(f"pacsent_{name}", about, value)
        known, unknown = single[_TEXTS + 1 : _TEXTS + 3].tolist()
        gauges = {
            "coverage": ("Share of words that are known.", known / max(known + unknown, 1)),
            "requests_under_way": ("Requests being answered now.", single[_UNDER_WAY]),
            "start_time_seconds": ("When the server started.", self._started),
        }
        for name, (about, value) in gauges.items():
            yield GaugeMetricFamily(f"pacsent_{name}", about, float(value))
