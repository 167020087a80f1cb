"""Watching a stream of texts: an alarm once it is no longer exchangeable with the calibration set.

Several quantities are watched at once, each by a conformal test martingale of its own: Theorem 16
of docs/theory.md.
"""

import re
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pacsent.classify.inputs import positions
from pacsent.guarantees.independence import as_seed, dependent_clusters, one_row_per_cluster
from pacsent.guarantees.repeats import COPIES
from pacsent.guarantees.samples import n_samples, recorded, row_fingerprints, select_rows
from pacsent.maths.checks import check_probability
from pacsent.maths.rounding import format_count
from pacsent.text.near_duplicates import KnownTexts, sketches
from pacsent.text.ngrams import word_hashes
from pacsent.text.texts import as_texts

MONITORS = ("length in words", "OOV rate", "distance of vectors")
# scripts without spaces between words: every character is one, as in the n-grams of classifiers
_WHOLE = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u313f\u3400-\u9fff"
_WORD = re.compile(rf"(?=\w)[{_WHOLE}]|[^\W{_WHOLE}]+")
_SLOPES = np.array([-0.9, -0.45, 0.0, 0.45, 0.9])  # bets that are linear in the p-value
_ENDS = (0.25, 0.1)  # bets that p-values below these, or above 1 minus these, are rare
_TAIL_DENSITY = 0.1  # of p-values there, if the bet is right
_N_REMEMBERED = 1000  # texts of the stream whose near-duplicates are recognised
_MIXING_FRACTION = 0.005  # of the capital, spread over all bets before every text
_ALPHA = 0.01  # chance of "these texts differ" for texts that do not
_MAX_COMPARED = 2_000  # texts, drawn at random
_SHIFTS = np.arange(1, 10) / 10


def monitors_of(classifier: Any, texts: Sequence[str]) -> np.ndarray:
    """`MONITORS` of each text, (n, 3); a column of -1 is one that the classifier cannot tell."""
    model = getattr(classifier, "estimator_", classifier)
    words = [_WORD.findall(text.lower()) for text in texts]
    values = np.full((len(texts), len(MONITORS)), -1.0)
    values[:, 0] = [len(text_words) for text_words in words]
    known = getattr(model, "ngrams_", None)
    if known is not None and known.sizes[0] == 1:
        all_words = sorted({word for text_words in words for word in text_words})
        is_known = dict(zip(all_words, np.isin(word_hashes(all_words), known.hashes).tolist()))
        values[:, 1] = [
            sum(not is_known[word] for word in text_words) / max(1, len(text_words))
            for text_words in words
        ]
    mean = getattr(model, "mean_vector_", None)
    if mean is not None and mean.size:
        values[:, 2] = np.linalg.norm(model.dense_features(texts) - mean, axis=1)
    return values


class Change(NamedTuple):
    """A quantity that changed: its name, and its mean over the calibration set and the stream."""

    name: str
    before: float
    after: float


class DriftMonitor:
    """Raises an alarm once a stream of texts is no longer exchangeable with the calibration texts.

    Watched are the confidence, the probability of each class, the length, the share of unknown
    words and the distance of the vector from the mean of training; with labels also the
    probability of the right class and how often each class occurs. Each text gets a conformal
    p-value for each of these r quantities, ties broken at random, and a capital is bet against
    uniform p-values; an alarm is raised where one capital reaches r / alpha.

    Texts of the stream that repeat a fitted text, or an earlier one, are not compared.

    Parameters
    ----------
    classifier : CertifiedClassifier
        With a calibration set.
    alpha : float, default=0.05
        Chance of a false alarm, ever.
    random_state : int, RandomState, Generator or None, default=None
        Decides ties.

    Attributes
    ----------
    evidence : float
        Of a change: the largest capital, divided by the number of quantities. 1 / r at the start,
        an alarm at 1 / alpha.
    alarm_at : int or None
        Number of the text that raised the alarm.
    n_seen, n_repeated : int
        Texts of the stream, and those among them that were not compared.
    changes : list of Change
        The quantities whose own capital reached r / alpha.

    Examples
    --------
    >>> from pacsent import CertifiedClassifier, TextClassifier
    >>> texts = [f"{word} film {n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = CertifiedClassifier(TextClassifier(None), calibration_size=0.5, random_state=0)
    >>> _ = classifier.fit(texts, ["up", "down"] * 40)
    >>> watcher = DriftMonitor(classifier, random_state=0)
    >>> watcher.update(["a good film, number 7"])
    False
    """

    def __init__(self, classifier: Any, *, alpha: float = 0.05, random_state: Any = None):
        check_probability("alpha", alpha)
        check_is_fitted(classifier)
        if not hasattr(classifier, "calibration_"):
            raise ValueError(
                "This needs labelled texts that nothing was fitted on, and the classifier has "
                "none. Fit a CertifiedClassifier, as `pacsent train` does."
            )
        self.classifier = classifier
        self.alpha = alpha
        self.n_seen = self.n_repeated = 0
        self.alarm_at: int | None = None
        self.changes: list[Change] = []
        self._calibration = classifier.calibration_.sample(COPIES)
        self._rng = np.random.default_rng(as_seed(random_state))
        self._kind: tuple[bool, bool] | None = None  # with labels, with monitors
        self._capitals = np.empty((0, 0))  # (n_quantities, n_bets); each starts with 1 in all
        fitted = recorded(classifier, "sketches")
        self._fitted = KnownTexts(sketches([]) if fitted is None else fitted)
        self._fingerprints: set[int] = set()  # of texts that were compared
        self._sketches = sketches([])  # of the last of them

    @property
    def evidence(self) -> float:
        return float(self._capitals.sum(axis=1).max(initial=0.0)) / max(len(self._capitals), 1)

    @property
    def alarm(self) -> bool:
        return self.alarm_at is not None

    def update(
        self, X: Iterable[str], y: Sequence | None = None, log_proba: np.ndarray | None = None
    ) -> bool:
        """Look at the next texts (with their labels, where known); whether there is an alarm.

        `log_proba` are the classifier's for these texts, if they are known already.
        """
        X = as_texts(X, "texts")
        right = None if y is None else positions(self.classifier.classes_, y, len(X))
        if log_proba is None:
            log_proba = self.classifier.predict_log_proba(X)
        monitors = None
        if self._calibration.monitors is not None:
            monitors = monitors_of(self.classifier, X)
        is_first = np.zeros(len(X), bool)
        is_first[one_row_per_cluster(dependent_clusters(X), None)] = True
        keys = row_fingerprints(X)
        is_first &= [key not in self._fingerprints for key in keys.tolist()]
        is_first &= ~self._fitted.are_near(X) & ~KnownTexts(self._sketches).are_near(X)
        self._fingerprints.update(keys[is_first].tolist())
        compared = [text for text, is_kept in zip(X, is_first) if is_kept]
        self._sketches = np.vstack([self._sketches, sketches(compared)])[-_N_REMEMBERED:]
        return self.see(log_proba, right, monitors, is_first)

    def see(
        self,
        log_proba: np.ndarray,
        y: np.ndarray | None = None,
        monitors: np.ndarray | None = None,
        is_first: np.ndarray | None = None,
    ) -> bool:
        """`update` on arrays; y are positions in `classes_`, monitors those of `monitors_of`.

        `is_first` says which texts do not repeat an earlier one; all by default.
        """
        kind = y is not None, monitors is not None
        if self._kind is None:
            self._start(kind)
        if kind != self._kind:
            raise ValueError(
                "update must be given labels always or never, and see the monitors. Start another "
                "watcher."
            )
        named = {change.name for change in self.changes}
        is_compared = np.ones(len(log_proba), bool) if is_first is None else is_first
        for row, compared in zip(self._quantities(log_proba, y, monitors), is_compared):
            self.n_seen += 1
            if not compared:
                self.n_repeated += 1
                continue
            self._sums += row
            p = np.empty(row.size)
            for i, (scores, value) in enumerate(zip(self._sorted, row.tolist())):
                n_smaller, stop = bisect_left(scores, value), bisect_right(scores, value)
                rank = n_smaller + self._rng.random() * (stop - n_smaller + 1)
                p[i] = rank / (len(scores) + 1)
                scores.insert(stop, value)
            spread = self._capitals.mean(axis=1, keepdims=True)
            mixed = (1.0 - _MIXING_FRACTION) * self._capitals + _MIXING_FRACTION * spread
            self._capitals = mixed * growth(p)
            reached = self._capitals.sum(axis=1) / row.size >= 1.0 / self.alpha
            if reached.any() and not self.alarm:
                self.alarm_at = self.n_seen
            means = self._sums / (self.n_seen - self.n_repeated)
            for i in np.flatnonzero(reached).tolist():
                if self._names[i] not in named:
                    named.add(self._names[i])
                    change = Change(self._names[i], float(self._before[i]), float(means[i]))
                    self.changes.append(change)
        return self.alarm

    def _start(self, kind):
        self._kind = labelled, monitored = kind
        calibration = self._calibration
        names = [str(name) for name in np.asarray(self.classifier.classes_).tolist()]
        self._names = ["confidence", *(f"probability of class {name!r}" for name in names)]
        if labelled:
            self._names += ["probability of the right class"]
            self._names += [f"share of class {name!r}" for name in names]
        self._monitored = np.arange(0)
        if monitored:
            self._monitored = np.flatnonzero((calibration.monitors >= 0).any(axis=0))
            self._names += [MONITORS[i] for i in self._monitored]
        known = self._quantities(
            calibration.log_proba, calibration.labels if labelled else None, calibration.monitors
        )
        self._before = known.mean(axis=0)
        self._sums = np.zeros(len(self._names))
        # the order of calibration texts among themselves does not matter
        self._sorted = [sorted(column) for column in known.T.tolist()]
        n_bets = _SLOPES.size + 2 * len(_ENDS)
        self._capitals = np.full((len(self._names), n_bets), 1.0 / n_bets)

    def _quantities(self, log_proba, y, monitors):
        """What is watched, (n, r), in the order of the names."""
        proba = np.exp(log_proba)
        columns = [proba.max(axis=1, keepdims=True), proba]
        if y is not None:
            columns += [proba[np.arange(y.size), y][:, None], np.eye(proba.shape[1])[y]]
        if self._monitored.size:
            columns.append(monitors[:, self._monitored])
        return np.hstack(columns)

    def __str__(self) -> str:
        if not self.alarm:
            repeated = f", {self.n_repeated:,} of them copies of others" if self.n_repeated else ""
            return (
                f"No alarm in {format_count(self.n_seen, 'text')}{repeated}: the evidence of a "
                f"change is {self.evidence:.3g}, an alarm is raised at {1 / self.alpha:g}."
            )
        what = "; ".join(
            f"{name} (mean {before:.3g} before, {after:.3g} in the stream)"
            for name, before, after in self.changes
        )
        return (
            f"ALARM at text {self.alarm_at:,}: the texts differ from the "
            f"calibration texts. Guarantees do not apply.\nChanged: {what}."
        )


def growth(p: np.ndarray) -> np.ndarray:
    """What one unit on each bet becomes at these p-values, (r, n_bets); 1 on average."""
    columns = [1.0 + slope * (2.0 * p - 1.0) for slope in _SLOPES]
    for end in _ENDS:
        density = (1.0 - _TAIL_DENSITY * end) / (1.0 - end)
        for is_tail in (p < end, p > 1.0 - end):
            columns.append(np.where(is_tail, _TAIL_DENSITY, density))
    return np.stack(columns, axis=1)


class TextComparison(NamedTuple):
    """The result of `compare_with_calibration`; `differs` is None where texts are too few."""

    differs: bool | None
    message: str
    n: int  # texts that were compared, without those that repeat others


class TextCheck:
    """Compares texts with the calibration set of a classifier by the test of `DriftMonitor`.

    A file may be sorted, so a random sample of the texts is kept until `result`, in random order.
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
        watcher = DriftMonitor(self.classifier, alpha=_ALPHA, random_state=self.classifier.seed_)
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
            message = f"These texts differ from the calibration texts in {names}: no guarantee."
            return TextComparison(True, message, n)
        # The rank of the t-th shifted text among N calibration texts and those before it is uniform
        # above shift N / (N + t). The best bet must gain what an alarm on one quantity needs.
        n_calibration = len(self.classifier.calibration_.sample(COPIES).labels)
        ranks = _SHIFTS[:, None] * n_calibration / (n_calibration + np.arange(n))
        p, floors = (np.arange(100) + 0.5) / 100, np.linspace(0, 1, 51)
        gains = np.array([np.log(growth(low + (1 - low) * p)).mean(axis=0) for low in floors]).T
        paths = [np.interp(ranks, floors, gain).cumsum(axis=1) for gain in gains]
        best = np.max(paths, axis=(0, 2), initial=0.0)
        n_quantities = 1 + self.classifier.classes_.size + (3 if are_texts else 0)
        noticed = _SHIFTS[best >= np.log(n_quantities * len(gains) / _ALPHA)]
        if not noticed.size:
            compared = format_count(n, "text is", "texts are")
            message = f"Not checked: {compared} too few to compare with the calibration set."
            return TextComparison(None, message, n)
        message = (
            f"Compared with the calibration set: {format_count(n, 'text')}, no drift detected "
            f"(shifts of {100 * noticed[0]:.0f} percentiles or more would probably be detected)."
        )
        return TextComparison(False, message, n)
