"""Counters of all workers in one piece of shared memory, and their text for Prometheus."""

import mmap
import time

import numpy as np

PATHS = (
    "/v1/embeddings", "/v1/models", "/embed", "/similarity", "/classify", "/search", "/index",
    "/certificates", "/health", "/ready", "/metrics", "other",
)  # fmt: skip
CODES = (200, 400, 401, 404, 405, 408, 413, 422, 429, 499, 500, 503, 504)
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SINGLE = ("texts", "known", "unknown", "empty", "alarms", "batches", "batched", "starts")
_PATHS = {path: i for i, path in enumerate(PATHS)}
_CODES = {code: i for i, code in enumerate(CODES)}


class Metrics:
    """Counts of one worker, written by it alone; `text` adds up those of all.

    A worker that is killed leaves its counts behind, and its successor counts on in its slot.

    Parameters
    ----------
    n_slots : int
        Workers that may be there at once.

    Examples
    --------
    >>> metrics = Metrics(2)
    >>> metrics.in_slot(1).add_request("/embed", 200, 0.002)
    >>> 'pacsent_requests_total{path="/embed",code="200"} 1' in metrics.text("english")
    True
    """

    def __init__(self, n_slots: int = 1):
        n_requests = len(PATHS) * len(CODES)
        n_times = len(PATHS) * (len(BOUNDS) + 2)  # buckets, the last without bound; the sum
        width = n_requests + n_times + len(_SINGLE) + 1
        self._memory = mmap.mmap(-1, 8 * width * n_slots)  # shared with every child
        self._all = np.frombuffer(self._memory, np.float64).reshape(n_slots, width)
        self._cut = n_requests, n_requests + n_times
        self._started = time.time()
        self._bounds = np.array(BOUNDS)
        self.in_slot(0)

    def in_slot(self, slot: int) -> "Metrics":
        """Count in this slot from now on; returns self."""
        row = self._all[slot]
        a, b = self._cut
        self._requests = row[:a].reshape(len(PATHS), len(CODES))
        self._times = row[a:b].reshape(len(PATHS), -1)
        self._single = row[b:]
        self._single[-1] = 0  # under way
        return self

    def started(self) -> None:
        self._single[_SINGLE.index("starts")] += 1

    def under_way(self, n: int) -> None:
        self._single[-1] = n

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
        single[0] += n
        single[1] += n_known
        single[2] += n_unknown
        single[3] += n_empty

    def add_alarm(self) -> None:
        self._single[4] += 1

    def add_batch(self, n_requests: int) -> None:
        self._single[5] += 1
        self._single[6] += n_requests

    def text(self, model: str) -> str:
        """All workers' counts in Prometheus' text format."""
        total = self._all.sum(axis=0)
        a, b = self._cut
        requests = total[:a].reshape(len(PATHS), len(CODES))
        times = total[a:b].reshape(len(PATHS), -1)
        single = dict(zip(_SINGLE, total[b:].tolist()))
        lines = ["# HELP pacsent_requests_total Requests answered.",
                 "# TYPE pacsent_requests_total counter"]  # fmt: skip
        for (i, j), n in np.ndenumerate(requests):
            if n:
                labels = f'path="{PATHS[i]}",code="{CODES[j]}"'
                lines.append(f"pacsent_requests_total{{{labels}}} {n:.0f}")
        lines += ["# HELP pacsent_request_seconds Time from a request to its answer.",
                  "# TYPE pacsent_request_seconds histogram"]  # fmt: skip
        for path, row in zip(PATHS, times):
            lines += _histogram(path, row) if row[:-1].any() else []
        known, unknown = single["known"], single["unknown"]
        counters = {
            "texts": ("Texts solved or classified.", single["texts"]),
            "known_words": ("Words of them that the model knows.", known),
            "unknown_words": ("Words of them that it does not know.", unknown),
            "empty_texts": ("Texts without a known word.", single["empty"]),
            "alarms": ("Alarms: texts no longer like those the promises are made from.",
                       single["alarms"]),
            "batches": ("Batches solved.", single["batches"]),
            "batched_requests": ("Requests in them.", single["batched"]),
            "worker_starts": ("Workers started.", single["starts"]),
        }  # fmt: skip
        for name, (said, n) in counters.items():
            lines += [f"# HELP pacsent_{name}_total {said}",
                      f"# TYPE pacsent_{name}_total counter",
                      f"pacsent_{name}_total {n:.0f}"]  # fmt: skip
        gauges = {
            "coverage": ("Share of words that are known.", known / max(known + unknown, 1)),
            "requests_under_way": ("Requests being answered now.", total[-1]),
            "start_time_seconds": ("When the server started.", self._started),
        }
        for name, (said, value) in gauges.items():
            lines += [f"# HELP pacsent_{name} {said}", f"# TYPE pacsent_{name} gauge",
                      f"pacsent_{name} {value:.10g}"]  # fmt: skip
        label = model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        lines += ["# HELP pacsent_model_info The model.", "# TYPE pacsent_model_info gauge",
                  f'pacsent_model_info{{model="{label}"}} 1']  # fmt: skip
        return "\n".join(lines) + "\n"


def _histogram(path, row):
    below = np.cumsum(row[:-1])
    for bound, n in zip([f"{b:g}" for b in BOUNDS] + ["+Inf"], below.tolist()):
        yield f'pacsent_request_seconds_bucket{{path="{path}",le="{bound}"}} {n:.0f}'
    yield f'pacsent_request_seconds_sum{{path="{path}"}} {row[-1]:.6f}'
    yield f'pacsent_request_seconds_count{{path="{path}"}} {below[-1]:.0f}'
