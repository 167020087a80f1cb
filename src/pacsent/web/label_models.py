"""Models of the labels given so far, fitted in a thread beside the answers."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from pacsent.classify import TextClassifier, next_to_label
from pacsent.classify.label_curve import MOST, LearningCurve, parts_of
from pacsent.guarantees.anytime_certificate import anytime_error
from pacsent.web.label_answers import SIZES, LabelAnswers, Streams

_MIN_QUEUE = 40  # texts that are selected at once
_MIN_JUDGED = 20  # judging labels from which on the number of further labels is estimated


class CertifiedModel(NamedTuple):
    """A model that the bound is about, and its predictions of judging texts by row."""

    model: Any
    n_taught: int
    predictions: dict[int, Any]


class LabelModels:
    """Two models: one for guesses and selection, and the one that the bound is about.

    The first is fitted on all teaching labels whenever their number has grown by a tenth. The
    second is fitted on the first `SIZES[j]` of them, for the largest j that was reached.

    Attributes
    ----------
    certified : CertifiedModel or None
    working : TextClassifier or None
        The model of all teaching labels.
    queue : list of int
        Rows of texts that would teach the working model most.
    outlook : str
        How many further labels the goal needs.
    """

    def __init__(
        self,
        texts: Sequence[str],
        streams: Streams,
        answers: LabelAnswers,
        lock: RLock,  # type: ignore[valid-type]
        words: Any,
    ):
        self._texts, self._streams, self._answers, self._lock = texts, streams, answers, lock
        self._model = TextClassifier(words)
        self._goal: tuple[float, float, float] | None = None  # error, delta, judging fraction
        self._n_fitted = 0  # teaching labels of the working model
        self._n_certified = 0  # teaching labels of the last certified model that was to be fitted
        self.certified: CertifiedModel | None = None
        self.working: Any = None
        self.queue: list[int] = []
        self.outlook = ""
        self._pool = ThreadPoolExecutor(1)
        self._estimating: Future = self._pool.submit(int)
        self.fitting: Future = self._pool.submit(int)

    def start(self, goal: float | None, delta: float, judging: float) -> None:
        """Fit the models of the answers that a journal contained."""
        self._goal = None if goal is None else (goal, delta, judging)
        self.fitting = self._pool.submit(self._fit)

    def update(self) -> None:
        """Fit again if there are enough new labels."""
        n = len(self._answers.teaching_labels())
        is_due = n >= max(SIZES[0], self._n_fitted + 5, 1.1 * self._n_fitted)
        if self.fitting.done() and (is_due or self._n_certified < len(self._answers.snapshot)):
            self._n_fitted = n
            self.fitting = self._pool.submit(self._fit)

    def wait(self) -> None:
        """Wait until the models are those of the labels at hand."""
        self.fitting.result()
        with self._lock:
            if self._n_certified < len(self._answers.snapshot):
                self.fitting = self._pool.submit(self._fit)
        self.fitting.result()
        self._estimating.result()

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _fit(self) -> None:
        with self._lock:
            snapshot, labels = dict(self._answers.snapshot), self._answers.teaching_labels()
            self._n_fitted = len(labels)
        if self._n_certified < len(snapshot):
            model = self._fit_classifier(snapshot)
            with self._lock:
                self._n_certified = len(snapshot)
                if model is not None:
                    self.certified = CertifiedModel(model, len(snapshot), {})
        working = self._fit_classifier(labels)
        with self._lock:
            self.working = working or self.working
            rows = [row for row in self._streams.teaching if row not in self._answers.by_row]
        queue = []
        if rows:
            queue = next_to_label(
                self.working or self._model,
                [self._texts[row] for row in rows],
                max(_MIN_QUEUE, len(labels) // 5),
                labelled=[self._texts[row] for row in labels],
                random_state=len(labels),
            )
        with self._lock:
            self.queue = [rows[i] for i in queue]
        if self._goal is not None and working is not None:
            with suppress(RuntimeError):  # closed meanwhile
                self._estimating = self._pool.submit(self._estimate, working, labels)

    def _fit_classifier(self, labels: dict[int, Any]) -> Any:
        """A classifier of the classes that have two texts; None if fewer than two have."""
        counts = Counter(labels.values())
        rows = sorted(row for row, label in labels.items() if counts[label] >= 2)
        if len({labels[row] for row in rows}) < 2:
            return None
        texts = [self._texts[row] for row in rows]
        return clone(self._model).fit(texts, [labels[row] for row in rows])

    def _estimate(self, working: Any, labels: dict[int, Any]) -> None:
        """Estimate how many labels the goal needs, from the errors of models of fewer labels."""
        assert self._goal is not None
        with self._lock:
            judged, y = self._answers.judged_rows(self._streams.judging), self._answers.labels()
        if len(judged) < _MIN_JUDGED:
            return
        rows, texts = list(labels), [self._texts[row] for row in judged]
        fractions = parts_of(len(rows), len(set(labels.values())), 0.25, 3)[:-1]
        sizes = [round(fraction * len(rows)) for fraction in fractions.tolist()]
        models = [self._fit_classifier({row: labels[row] for row in rows[:n]}) for n in sizes]
        fitted = [(n, m) for n, m in zip([*sizes, len(rows)], [*models, working]) if m]
        n_wrong = [
            sum(label != y[row] for label, row in zip(model.predict(texts), judged))
            for _, model in fitted
        ]
        curve = LearningCurve.of(
            len(rows),
            np.array([float(n) for n, _ in fitted]),
            np.full(len(fitted), len(judged)),
            np.array(n_wrong),
            np.random.default_rng(len(rows)),
        )
        n_needed = labels_to_goal(curve, *self._goal, len(judged))
        self.outlook = (
            curve.hardly_helps()
            if n_needed[1] == np.inf
            else f"About {curve.range_of(*n_needed)} for the goal."
        )


def labels_to_goal(
    curve: LearningCurve, goal: float, delta: float, judging: float, n_judged: int
) -> tuple[float, float, float]:
    """Further labels until the certified error is the goal, for a low, a likely and a high error.

    Both streams grow: the error falls by the curve, and more texts judge it. inf: more than 20
    times the labels at hand.

    >>> draws = np.array([[0.12, 0.5, 0.02]])  # an error of 0.12 with 100 labels that teach
    >>> curve = LearningCurve(100, np.ones(1), np.ones(1), np.ones(1), draws)
    >>> labels_to_goal(curve, 0.15, 0.05, 0.5, n_judged=100)[1]
    492.0
    """
    steps = np.unique(np.geomspace(1, MOST * (curve.n + n_judged), 100).astype(int)).tolist()

    def is_reached(quantile: int, n_more: int) -> bool:
        n_taught = curve.n + (1 - judging) * n_more
        error = curve.error_at(max((n for n in SIZES if n <= n_taught), default=SIZES[0]))
        losses = np.zeros(n_judged + round(judging * n_more))
        n_errors = round(error[quantile] * losses.size)
        losses[np.linspace(0, losses.size - 1, n_errors).astype(int)] = 1.0
        return anytime_error(losses, delta) <= goal

    first = [bisect_left(steps, True, key=partial(is_reached, q)) for q in range(3)]
    low, middle, high = (float(steps[i]) if i < len(steps) else np.inf for i in first)
    return low, middle, high
