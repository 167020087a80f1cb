"""Counters for Prometheus, in the multiprocess mode of prometheus-client.

Each worker counts in its own file of PROMETHEUS_MULTIPROC_DIR, and /metrics adds the files up.
"""

import os

import prometheus_client
from prometheus_client import Counter, Histogram, multiprocess

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

REQUESTS = Counter("pacsent_requests", "Requests answered.", ["path", "code"])
REQUEST_SECONDS = Histogram(
    "pacsent_request_seconds", "Time from a request to its response.", ["path"], buckets=_SECONDS
)
TEXTS = Counter("pacsent_texts", "Texts in requests that were answered.")
KNOWN_WORDS = Counter("pacsent_known_words", "In-vocabulary words of embedded texts.")
UNKNOWN_WORDS = Counter("pacsent_unknown_words", "Other words of embedded texts.")
EMPTY_TEXTS = Counter("pacsent_empty_texts", "Embedded texts without an in-vocabulary word.")
COMPARED = Counter("pacsent_compared", "Classified texts compared with the calibration set.")
DRIFT_ALARMS = Counter("pacsent_alarms", "Drift alarms: texts differ from the calibration set.")


def exposition() -> tuple[bytes, str]:
    """The counters of all workers in Prometheus' text format, and its content type."""
    registry = prometheus_client.REGISTRY
    if os.environ.get(FOLDER_VARIABLE):
        registry = prometheus_client.CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    return prometheus_client.generate_latest(registry), prometheus_client.CONTENT_TYPE_LATEST
