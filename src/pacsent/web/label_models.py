"""Models of the labels given so far, fitted in a thread beside the answers."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from sklearn.base import clone

from pacsent.classify import TextClassifier, next_to_label
from pacsent.web.label_answers import SIZES, LabelAnswers, Streams

_MIN_QUEUE = 40  # texts that are selected at once


class CertifiedModel(NamedTuple):
    """A model that the bound is about, and its predictions of evaluation texts by row."""

    model: Any
    n_training: int
    predictions: dict[int, Any]


class LabelModels:
    """Two models: `working`, for guesses and selection, and `certified`, which the bound is about.

    The first is fitted on all training labels whenever their number has grown by a tenth; `queue`
    are the rows to label next. The second is fitted on the first `SIZES[j]` labels, for
    the largest j that was reached. The answers change under `lock` only.
    """

    def __init__(
        self, texts: Sequence[str], streams: Streams, answers: LabelAnswers, lock: Any, encoder: Any
    ) -> None:
        self._texts = texts
        self._streams = streams
        self._answers = answers
        self._lock = lock
        self._model = TextClassifier(encoder)
        self._n_fitted = 0  # training labels of the working model
        self._n_certified = 0  # training labels of the last certified model that was to be fitted
        self.certified: CertifiedModel | None = None
        self.working: Any = None
        self.queue: list[int] = []
        self._pool = ThreadPoolExecutor(1)
        self.fitting: Future = self._pool.submit(self._fit)

    def update(self) -> None:
        """Fit again if there are enough new labels."""
        n_training = len(self._answers.training_labels())
        is_due = n_training >= max(SIZES[0], self._n_fitted + 5, 1.1 * self._n_fitted)
        if self.fitting.done() and (is_due or self._has_new_snapshot()):
            self._n_fitted = n_training
            self.fitting = self._pool.submit(self._fit)

    def _has_new_snapshot(self) -> bool:
        return self._n_certified < len(self._answers.snapshot)

    def wait(self) -> None:
        """Wait until the models are those of the labels at hand."""
        self.fitting.result()
        with self._lock:
            if self._has_new_snapshot():
                self.fitting = self._pool.submit(self._fit)
        self.fitting.result()

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _fit(self) -> None:
        """Fit both models, and select the texts to label next."""
        with self._lock:
            snapshot = dict(self._answers.snapshot)
            labels = self._answers.training_labels()
            self._n_fitted = len(labels)

        if self._n_certified < len(snapshot):
            self._fit_certified(snapshot)

        working = self._fit_classifier(labels)
        with self._lock:
            self.working = working or self.working
            rows = [row for row in self._streams.training if row not in self._answers.by_row]

        queue = self._select_next(rows, labels)
        with self._lock:
            self.queue = queue

    def _fit_certified(self, snapshot: dict[int, Any]) -> None:
        model = self._fit_classifier(snapshot)
        with self._lock:
            self._n_certified = len(snapshot)
            if model is not None:
                self.certified = CertifiedModel(model, len(snapshot), predictions={})

    def _select_next(self, rows: list[int], labels: dict[int, Any]) -> list[int]:
        """Of the rows without a label, those to label next."""
        if not rows:
            return []
        places = next_to_label(
            self.working or self._model,
            [self._texts[row] for row in rows],
            max(_MIN_QUEUE, len(labels) // 5),
            labelled=[self._texts[row] for row in labels],
            random_state=len(labels),
        )
        return [rows[place] for place in places]

    def _fit_classifier(self, labels: dict[int, Any]) -> Any:
        """A classifier of the classes that have two texts; None if fewer than two have."""
        counts = Counter(labels.values())
        rows = sorted(row for row, label in labels.items() if counts[label] >= 2)
        kept_labels = [labels[row] for row in rows]
        if len(set(kept_labels)) < 2:
            return None
        kept_texts = [self._texts[row] for row in rows]
        return clone(self._model).fit(kept_texts, kept_labels)
