"""Files and batches against the calibration set: the test of `DriftMonitor`, and its power."""

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from pacsent.bounds.rounding import format_count
from pacsent.certify.drift_monitor import (
    COPIED,
    MIXING_FRACTION,
    MONITORS,
    N_BETS,
    DriftMonitor,
    bet_payoffs,
    calibration_samples,
    describe_changes,
    describe_condition,
    monitors_of,
)
from pacsent.certify.row_status import REASONS, RowCounts, row_status
from pacsent.certify.samples import n_samples, row_fingerprints, seen_before, select_rows
from pacsent.text.rows import is_texts

ALPHA = 0.01  # probability of "these texts differ" for texts that do not
MAX_COMPARED = 3_000  # rows of a file that are compared, drawn at random
MAX_KEPT = 20_000  # rows of a file among which repeats are looked for, drawn at random
# The texts of another kind, for which the power is stated: their confidence is spread over this
# fraction of the calibration texts, those with the smallest one.
OTHER_KIND = 0.1
OTHER_FRACTIONS = (0.1, 0.2, 0.3, 0.5, 1.0)  # of the texts of a file
_N_SIMULATED = 100  # files for each fraction
_MAX_SIMULATED = 500  # texts of each file: those after them find hardly any more
_GOOD_POWER = 0.8  # the smallest fraction is stated that is found so often
_LEAST_POWER = 0.5  # below this, a file of the other kind alone is not worth a comparison


class TextComparison(NamedTuple):
    """The result of `compare_with_calibration`.

    `differs` says whether guarantees are withdrawn; None where texts are too few. `holds_only_if`
    is the kind of repeats ("traffic" or "copies") for which they remain where one of the two tests
    of `DriftMonitor` gives an alarm. `n` is the number of distinct texts, `counts` says how many
    rows were left out and why, and `left_out` which: (row, reason), rows counted from 0.
    """

    differs: bool | None
    sentences: tuple[str, ...]
    n: int
    holds_only_if: str | None = None
    counts: RowCounts = RowCounts(0, 0, 0, 0)
    left_out: tuple[tuple[int, str], ...] = ()

    @property
    def message(self) -> str:
        """The result in words, and how many rows were left out."""
        sentences = list(self.sentences)
        if str(self.counts):
            sentences.append(str(self.counts))
        return " ".join(sentences)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON has them, without the rows that were left out."""
        return {
            "differs": self.differs,
            "message": self.message,
            "n": self.n,
            "holds_only_if": self.holds_only_if,
            "counts": self.counts._asdict(),
        }


class _RandomSample:
    """The items with the smallest random keys, at most `limit` of them; None keeps all.

    Every item has its own key, so the items are a random sample, in random order.
    """

    def __init__(self, limit: int | None):
        self._limit = limit
        self._items: list[tuple[float, Any]] = []  # (key, item)
        self._largest_key = np.inf  # of those that are kept, once there are more than the limit

    def add(self, keys: np.ndarray, item_at: Callable[[int], Any]) -> None:
        """Take further items into account; `item_at` returns that at a place of the keys."""
        for place in np.flatnonzero(keys < self._largest_key).tolist():
            self._items.append((keys[place], item_at(place)))
        if self._limit is not None and len(self._items) >= 2 * self._limit:
            self._cut()

    def _cut(self) -> None:
        self._items.sort(key=itemgetter(0))
        if self._limit is not None and len(self._items) >= self._limit:
            del self._items[self._limit :]
            self._largest_key = self._items[-1][0]

    def items(self) -> list:
        """The items, the one with the smallest key first."""
        self._cut()
        return [item for _, item in self._items]


class DriftCheck:
    """Compares texts with the calibration set of a classifier by the test of `DriftMonitor`.

    A file may be sorted, so a random sample of the rows is kept until `result`, in random order.
    With `keep_all` all rows are kept, so that every one that is left out is named.
    """

    def __init__(self, classifier: Any, *, keep_all: bool = False):
        self.classifier = classifier
        # Which rows are drawn need not be secret: they are exchangeable in any order.
        self._rng = np.random.default_rng(classifier.seed_)
        self.n_rows = 0
        self._rows = _RandomSample(None if keep_all else MAX_KEPT)  # (row, its text)
        # Of many classes, the probabilities of a row take more memory than its text.
        self._log_proba = _RandomSample(MAX_COMPARED)

    def add(self, X: Any, log_proba: np.ndarray) -> None:
        """Take further rows into account, and their log-probabilities, (n, n_classes)."""
        first = self.n_rows
        keys = self._rng.random(n_samples(X))
        self.n_rows += keys.size

        def row_at(place: int) -> tuple[int, Any]:
            return first + place, select_rows(X, [place])[0]

        self._rows.add(keys, row_at)
        self._log_proba.add(keys, lambda place: log_proba[place].copy())

    def result(self) -> TextComparison:
        """The comparison of all rows so far."""
        sample = self._rows.items()
        X = [text for _, text in sample]
        seed = _seed_of(self.classifier, X)
        monitor = DriftMonitor(self.classifier, alpha=ALPHA, random_state=seed)
        if not sample:
            return self._describe(monitor, RowCounts(0, 0, 0, 0), ())

        log_proba = np.array(self._log_proba.items())  # of those with the smallest keys
        n_compared = len(log_proba)
        if not is_texts(X):
            status = np.zeros(n_compared, int)
            monitor.update_arrays(log_proba, None, None, status)
            return self._describe(monitor, RowCounts(len(X), 0, 0, 0), ())

        # Of repeats, the first row of the file counts; rows are compared in random order.
        row_numbers = [row for row, _ in sample]
        in_file = np.argsort(row_numbers, kind="stable")
        texts_in_file = [X[i] for i in in_file]
        seen = np.logical_or(*seen_before(self.classifier, X))
        status = np.zeros(len(X), int)
        status[in_file] = row_status(self.classifier, texts_in_file, seen=seen[in_file]).status

        excluded = [i for i in in_file.tolist() if status[i]]
        left_out = tuple((row_numbers[i], REASONS[status[i]]) for i in excluded)
        monitors = None
        if self.classifier.calibration_.monitors is not None:
            monitors = monitors_of(self.classifier, X[:n_compared], seen[:n_compared])
        monitor.update_arrays(log_proba, None, monitors, status[:n_compared])
        return self._describe(monitor, RowCounts.of(status), left_out)

    def _describe(
        self, monitor: DriftMonitor, counts: RowCounts, left_out: tuple[tuple[int, str], ...]
    ) -> TextComparison:
        n = monitor.n_compared
        how_many = format_count(n, "distinct text")
        if monitor.n_seen < self.n_rows:
            how_many += f" of {monitor.n_seen:,} rows drawn at random"

        if monitor.alarm:
            message = (
                f"These texts differ from the calibration texts: no guarantee. Changed most in "
                f"{how_many}: {describe_changes(monitor.changes)}."
            )
            return TextComparison(True, (message,), n, None, counts, left_out)
        if monitor.holds_only_if:
            sentences = (
                describe_condition(monitor.holds_only_if),
                f"Changed most in {how_many}: {describe_changes(monitor.changes)}.",
            )
            return TextComparison(False, sentences, n, monitor.holds_only_if, counts, left_out)

        power = describe_power(n, *self.size())
        if power is None:
            compared = format_count(n, "distinct text is", "distinct texts are")
            message = f"Not checked: {compared} too few to compare with the calibration set."
            return TextComparison(None, (message,), n, None, counts, left_out)
        message = f"Compared with the calibration set: {how_many}, no drift detected."
        return TextComparison(False, (message, power), n, None, counts, left_out)

    def size(self) -> tuple[int, int]:
        """The number of calibration texts, and of quantities that the test of texts watches."""
        _, calibration = calibration_samples(self.classifier)
        n_quantities = 1 + self.classifier.classes_.size
        if calibration.monitors is not None:
            of_texts = calibration.monitors[:, : MONITORS.index(COPIED)]
            is_watched = (of_texts >= 0).any(axis=0)
            n_quantities += int(is_watched.sum())
        return len(calibration.labels), n_quantities


def _seed_of(classifier: Any, X: Any) -> int:
    """A seed of ties that differs between files, and is the same for the same texts and model.

    With one seed for everybody, those with the same number of texts would share their ties. With a
    new one for every call, one could repeat the call until the alarm is gone.
    """
    prints = row_fingerprints(X).tobytes() if len(X) else b""
    content = f"{classifier.seed_}".encode() + prints
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


@lru_cache(maxsize=16)
def detection_times(n_calibration: int, n_quantities: int) -> np.ndarray:
    """Numbers of texts after which files with texts of another kind are found, by simulation.

    Shape (len(OTHER_FRACTIONS), 100), sorted; `MAX_COMPARED + 1` where a file is not found. One of
    `n_quantities` changes: texts of the other kind are uniform on the `OTHER_KIND` of calibration
    texts with the smallest values, all others are like the calibration texts.
    """
    rng = np.random.default_rng(0)
    fractions = np.repeat(OTHER_FRACTIONS, _N_SIMULATED)  # (n_files,)
    n_files = fractions.size
    shape = _MAX_SIMULATED, n_files

    is_other = rng.random(shape) < fractions
    values = np.where(is_other, OTHER_KIND, 1.0) * rng.random(shape)
    ties = rng.random(shape)
    n_smaller = np.empty(shape, int)
    for file in range(n_files):  # one by one: together they take hundreds of megabytes
        calibration_values = np.sort(rng.random(n_calibration))
        n_smaller[:, file] = np.searchsorted(calibration_values, values[:, file])

    # Of the texts of a file before one of them, as many are smaller as is to be expected.
    n_before = np.arange(_MAX_SIMULATED)[:, None]
    part_smaller = fractions * np.minimum(values / OTHER_KIND, 1.0) + (1.0 - fractions) * values
    p = (n_smaller + n_before * part_smaller + ties) / (n_calibration + n_before + 1)

    capitals = np.full((n_files, N_BETS), 1.0 / N_BETS)
    times = np.full(n_files, MAX_COMPARED + 1)
    is_open = np.ones(n_files, bool)  # files that are not found yet
    for step, p_of_files in enumerate(p):
        mixed = (1.0 - MIXING_FRACTION) * capitals
        mixed += MIXING_FRACTION * capitals.mean(axis=1, keepdims=True)
        capitals = mixed * bet_payoffs(p_of_files[is_open])
        is_found = capitals.sum(axis=1) >= n_quantities / ALPHA
        if is_found.any():
            open_files = np.flatnonzero(is_open)
            times[open_files[is_found]] = step + 1
            is_open[open_files[is_found]] = False
            capitals = capitals[~is_found]
    return np.sort(times.reshape(len(OTHER_FRACTIONS), _N_SIMULATED), axis=1)


def describe_power(n: int, n_calibration: int, n_quantities: int) -> str | None:
    """The power of a comparison of n texts, in a sentence; None where it is too small."""
    is_found = detection_times(n_calibration, n_quantities) <= n  # (n_fractions, n_files)
    power = is_found.mean(axis=1)  # (n_fractions,)
    if power[-1] < _LEAST_POWER:
        return None

    place = len(OTHER_FRACTIONS) - 1
    is_good = power >= _GOOD_POWER
    if is_good.any():
        place = int(np.argmax(is_good))
    power_percent = min(100 * power[place], 99)
    return (
        f"It would find about {power_percent:.0f}% of files in which "
        f"{100 * OTHER_FRACTIONS[place]:.0f}% of the texts are of another kind, all of them with a "
        f"confidence as low as that of the least confident {100 * OTHER_KIND:.0f}% of the "
        "calibration texts; it finds milder kinds less often and cannot exclude a difference."
    )
