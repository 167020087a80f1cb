"""Whether texts are like the calibration set: a guarantee is about such texts alone."""

import threading
from typing import Any, NamedTuple

import numpy as np

from pacsent.guarantees.drift_monitor import DriftMonitor, growth
from pacsent.guarantees.samples import n_samples, select_rows

_ALPHA = 0.01  # chance of "these texts differ" for texts that do not
_MAX_COMPARED = 2_000  # texts, drawn at random
_SHIFTS = np.arange(1, 10) / 10


class TextComparison(NamedTuple):
    """The result of `compare_with_calibration`; `differs` is None where texts are too few."""

    differs: bool | None
    message: str
    n: int  # texts that were compared, without those that repeat others


class TextCheck:
    """Compares texts with the calibration set of a classifier, in a random order.

    The test is that of `DriftMonitor`, on texts that repeat no fitted or earlier one. A file may
    be sorted, so a random sample of the texts is kept until `result`, in a random order.
    """

    def __init__(self, classifier: Any):
        self.classifier = classifier
        self._rng = np.random.default_rng(classifier.seed_)
        self.n_rows = self.n_answered = 0
        self._lock = threading.Lock()  # files are read by several threads
        self._sample: list[tuple[float, np.ndarray, Any]] = []  # (random key, log_proba, row)

    def add(self, X: Any, log_proba: np.ndarray, n_answered: int = 0) -> None:
        """Take further rows into account; the sample has those with the smallest random keys."""
        with self._lock:
            self.n_rows += n_samples(X)
            self.n_answered += n_answered
            keys = self._rng.random(n_samples(X))
            limit = self._sample[-1][0] if len(self._sample) >= _MAX_COMPARED else 1.0
            rows = np.flatnonzero(keys < limit).tolist()
            self._sample += [(keys[row], log_proba[row], select_rows(X, [row])) for row in rows]
            self._sample = sorted(self._sample, key=lambda item: item[0])[:_MAX_COMPARED]

    def result(self) -> TextComparison:
        """The comparison of all rows so far."""
        watcher = DriftMonitor(self.classifier, alpha=_ALPHA, seed=self.classifier.seed_)
        are_texts = self.classifier.calibration_.monitors is not None
        if self._sample:
            log_proba = np.array([values for _, values, _ in self._sample])
            if are_texts:
                watcher.update([row[0] for _, _, row in self._sample], log_proba=log_proba)
            else:
                watcher.see(log_proba)
        n = watcher.n_seen - watcher.n_repeated
        if watcher.alarm:
            names = ", ".join(change.name for change in watcher.changes)
            return TextComparison(True, f"These texts differ ({names}): no guarantee.", n)
        # The rank of the t-th shifted text among N calibration texts and those before it is uniform
        # above shift N / (N + t). The best bet must gain what an alarm on one quantity needs.
        n_calibration = len(self.classifier.calibration_.labels)
        ranks = _SHIFTS[:, None] * n_calibration / (n_calibration + np.arange(n))
        p = (np.arange(100) + 0.5) / 100
        floors = np.linspace(0, 1, 51)
        gains = np.array([np.log(growth(low + (1 - low) * p)).mean(axis=0) for low in floors]).T
        paths = [np.interp(ranks, floors, gain).cumsum(axis=1) for gain in gains]
        best = np.max(paths, axis=(0, 2), initial=0.0)
        n_quantities = 1 + self.classifier.classes_.size + (3 if are_texts else 0)
        noticed = _SHIFTS[best >= np.log(n_quantities * len(gains) / _ALPHA)]
        if not noticed.size:
            message = f"Not checked: {n:,} texts are too few to compare with the calibration set."
            return TextComparison(None, message, n)
        message = (
            f"Checked: no difference found in {n:,} texts (a shift of a quantity by "
            f"{100 * noticed[0]:.0f} percentiles of the calibration set would probably be found)."
        )
        return TextComparison(False, message, n)
