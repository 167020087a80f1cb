"""Watching a stream of texts: an alarm once it is no longer exchangeable with the calibration set.

Several quantities are watched at once, each by a conformal test martingale of its own: Theorem 16
of docs/theory.md. `drift_check` compares files and batches by the same test.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pacsent.bounds.checks import check_probability
from pacsent.bounds.rounding import format_count
from pacsent.certify.independence import as_seed
from pacsent.certify.labels import class_indices
from pacsent.certify.repeats import COPIES, TRAFFIC, check_repeats
from pacsent.certify.row_status import FITTED, NEW, REPEATED, RowCounts, row_status
from pacsent.certify.samples import seen_before
from pacsent.text.ngrams import nonempty_rows, word_hashes
from pacsent.text.texts import as_texts

COPIED = "copies of training texts"
MONITORS = ("length in words", "OOV rate", "distance of vectors", COPIED)
_COPIES = MONITORS.index(COPIED)
# scripts without spaces between words: every character is one, as in the n-grams of classifiers
_SPACELESS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u313f\u3400-\u9fff"
_WORD = re.compile(rf"(?=\w)[{_SPACELESS}]|[^\W{_SPACELESS}]+")
_SLOPES = np.array([-0.9, -0.45, 0.0, 0.45, 0.9])  # bets that are linear in the p-value
_ENDS = (0.25, 0.1)  # bets that p-values below these, or above 1 minus these, are rare
_TAIL_DENSITY = 0.1  # of p-values there, if the bet is right
MIXING_FRACTION = 0.005  # of the capital, spread over all bets before every text
N_BETS = _SLOPES.size + 2 * len(_ENDS)
_COUNTED_AT_ONCE = 128  # texts whose values are compared with each other, pair by pair
_N_REMEMBERED = 5_000  # texts of the stream whose near-duplicates are recognised
_N_NAMED = 2  # quantities that a report names


def monitors_of(
    classifier: Any, texts: Sequence[str], seen: np.ndarray | None = None
) -> np.ndarray:
    """`MONITORS` of each text, (n, 4); a column of -1 is one that the classifier cannot tell.

    `seen` says which texts `seen_before` found, if that is known.
    """
    model = getattr(classifier, "estimator_", classifier)
    words = [_WORD.findall(text.lower()) for text in texts]
    values = np.full((len(texts), len(MONITORS)), -1.0)
    values[:, 0] = [len(text_words) for text_words in words]

    ngrams = getattr(model, "ngrams_", None)
    if ngrams is not None and ngrams.sizes[0] == 1:
        all_words = sorted({word for text_words in words for word in text_words})
        positions = ngrams.table.find(word_hashes(all_words))  # (n_words,), -1 if unknown
        is_known = dict(zip(all_words, (positions >= 0).tolist()))
        for row, text_words in enumerate(words):
            n_unknown = sum(not is_known[word] for word in text_words)
            values[row, 1] = n_unknown / max(1, len(text_words))

    mean = getattr(model, "mean_vector_", None)
    if mean is not None and mean.size:
        differences = model.dense_features(texts) - mean  # (n, n_dims)
        values[:, 2] = np.linalg.norm(differences, axis=1)

    if seen is None:
        seen = np.logical_or(*seen_before(classifier, texts))
    values[:, _COPIES] = seen
    return values


class Change(NamedTuple):
    """A quantity that changed: its name, and its mean over the calibration set and the stream."""

    name: str
    before: float
    after: float


class CalibrationValues:
    """What is watched of the calibration texts, sorted once for all tests that compare with it."""

    def __init__(self, values: np.ndarray):
        self.n_texts = len(values)
        self.mean = values.mean(axis=0)
        self.spread = values.std(axis=0)
        self.sorted = [np.sort(column) for column in values.T]


class ConformalTest:
    """Test martingales of several quantities, each against the same calibration values.

    Each value gets a conformal p-value among the calibration values and those before it, and a
    capital is bet against uniform p-values. The alarm is raised where one capital reaches the
    number of quantities divided by alpha: Theorem 16.
    """

    def __init__(self, names: Sequence[str], known: CalibrationValues, alpha: float):
        n_quantities = len(known.sorted)
        self.names = list(names)
        self.n = 0
        self.alarm = False
        self.has_changed = np.zeros(n_quantities, bool)
        self._known = known
        self._needed = n_quantities / alpha
        self._sums = np.zeros(n_quantities)
        self._added = [np.empty(0)] * n_quantities  # sorted values of the texts
        self._capitals = np.full((n_quantities, N_BETS), 1.0 / N_BETS)

    def add(self, values: np.ndarray, ties: np.ndarray) -> np.ndarray:
        """Bet on the values of texts, one text after the other, (n, n_quantities).

        `ties` are uniform numbers. Returns whether the alarm is raised after each text, (n,).
        """
        payoffs = bet_payoffs(self._p_values(values, ties))  # (n, n_quantities, n_bets)
        self._sums = np.cumsum([self._sums, *values], axis=0)[-1]
        self.n += len(values)

        totals = np.empty(values.shape)  # the capital of each quantity after each text
        capitals = self._capitals
        total = capitals.sum(axis=1, keepdims=True)
        for text, payoff in enumerate(payoffs):
            mixed = (1.0 - MIXING_FRACTION) * capitals + MIXING_FRACTION * (total / N_BETS)
            capitals = mixed * payoff
            total = capitals.sum(axis=1, keepdims=True)
            totals[text] = total[:, 0]
        self._capitals = capitals

        is_reached = totals >= self._needed
        is_raised = np.logical_or.accumulate(is_reached.any(axis=1)) | self.alarm
        self.has_changed |= is_reached.any(axis=0)
        self.alarm = bool(self.has_changed.any())
        return is_raised

    def _p_values(self, values: np.ndarray, ties: np.ndarray) -> np.ndarray:
        """The conformal p-value of each value, (n, n_quantities); `_added` holds them afterwards.

        Its rank is counted among the calibration values and among those added before it.
        """
        n_smaller = np.empty(values.shape, np.int64)
        n_not_larger = np.empty(values.shape, np.int64)
        for start in range(0, len(values), _COUNTED_AT_ONCE):
            rows = slice(start, start + _COUNTED_AT_ONCE)
            n_smaller[rows], n_not_larger[rows] = self._count_and_add(values[rows])

        ranks = n_smaller + ties * (n_not_larger - n_smaller + 1)
        n_before = self._known.n_texts + self.n + np.arange(len(values))
        return ranks / (n_before + 1)[:, None]

    def _count_and_add(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many values before each are smaller, and how many not larger, (n, n_quantities)."""
        # Among these values themselves: those of the texts that come first
        comes_first = np.tri(len(values), k=-1, dtype=bool)[:, :, None]  # (n, n, 1)
        own, others = values[:, None], values[None, :]
        n_smaller = ((others < own) & comes_first).sum(axis=1)
        n_not_larger = ((others <= own) & comes_first).sum(axis=1)

        # The order of calibration texts among themselves does not matter, nor of those added.
        for i, column in enumerate(values.T):
            for earlier in (self._known.sorted[i], self._added[i]):
                n_smaller[:, i] += np.searchsorted(earlier, column, "left")
                n_not_larger[:, i] += np.searchsorted(earlier, column, "right")
            together = np.concatenate([self._added[i], np.sort(column)])
            self._added[i] = np.sort(together, kind="stable")  # merges the two
        return n_smaller, n_not_larger

    @property
    def evidence(self) -> float:
        """The largest capital, divided by the number of quantities."""
        capitals = self._capitals.sum(axis=1)  # (n_quantities,)
        return float(capitals.max(initial=0.0)) / max(len(self.names), 1)

    def changes(self) -> list[Change]:
        """The quantities whose capital was reached; first those that moved most.

        A move is the difference of the means in standard deviations of the calibration set.
        """
        after = self._sums / max(self.n, 1)
        before = self._known.mean
        moves = np.abs(after - before) / np.maximum(self._known.spread, 1e-12)
        order = np.argsort(-moves, kind="stable")
        changed = [i for i in order.tolist() if self.has_changed[i]]
        return [Change(self.names[i], float(before[i]), float(after[i])) for i in changed]


class DriftMonitor:
    """Raises an alarm once a stream of texts is no longer exchangeable with the calibration texts.

    Watched are the confidence, the probability of each class, the length, the share of OOV words,
    the distance of the vector from the mean of training and how often training texts are repeated;
    with labels also the probability of the right class and how often each class occurs. Each text
    gets a conformal p-value for each of these r quantities, ties broken at random, and a capital is
    bet against uniform p-values. A test gives an alarm where one capital reaches r / alpha.

    There are two tests, because the texts do not tell why some of them repeat. The test of rows
    compares all rows, repeats included, with the held-out rows: it is valid if rows are drawn
    from traffic. The test of texts compares each distinct text once, without those that repeat a
    training text, with one row of each held-out cluster: it is valid if repeats are copies that
    were made by collecting, and texts come in an order that does not depend on how often they were
    copied (for shuffled rows use `compare_with_calibration`). If both give an alarm, guarantees are
    withdrawn. If one does, they hold only if repeats are of the other kind: `holds_only_if`.

    An alarm says that the texts differ. No alarm does not say that they are alike.

    Parameters
    ----------
    classifier : CertifiedClassifier
        With a calibration set.
    alpha : float, default=0.05
        Probability of a false alarm, ever, of the test that is valid.
    repeats : {"traffic", "copies"} or None, default=None
        How repeats come about, if it is known: only the test that is valid then is used. None
        takes what the classifier was fitted with.
    random_state : int, RandomState, Generator or None, default=None
        Decides ties. None draws from the entropy of the system, as it should be: where several
        monitors share a seed, their false alarms are not independent.

    Attributes
    ----------
    alarm : bool
        Whether guarantees are withdrawn.
    alarm_at : int or None
        Number of the row, counted from 1, at which they were withdrawn.
    holds_only_if : {"traffic", "copies"} or None
        Where one of the two tests gives an alarm: the kind of repeats for which guarantees remain.
    evidence : float
        Of a change: the largest capital, divided by the number of quantities, of the test that has
        less. 1 / r at the start, an alarm at 1 / alpha.
    n_seen, n_compared : int
        Rows of the stream, and distinct texts among them that were compared.
    counts : RowCounts
        Rows that were left out of the test of texts: without text, fitted, or repeated.
    changes : list of Change
        The quantities whose own capital reached r / alpha; first those that moved most.

    Examples
    --------
    >>> from pacsent import CertifiedClassifier
    >>> from sklearn.model_selection import train_test_split
    >>> from pacsent.datasets import load_banking
    >>> texts, intents = load_banking(n_classes=12)  # messages to a bank
    >>> X, X_new, y, y_new = train_test_split(texts, intents, train_size=500, random_state=0)
    >>> from pacsent.datasets import load_books
    >>> classifier = CertifiedClassifier(random_state=0).fit(X, y)
    >>> monitor = DriftMonitor(classifier, random_state=0)
    >>> monitor.update(X_new[:200])
    False
    >>> monitor.update([passage.text for passage in load_books()[:100]])
    True
    """

    def __init__(
        self,
        classifier: Any,
        *,
        alpha: float = 0.05,
        repeats: str | None = None,
        random_state: Any = None,
    ):
        from sklearn.utils.validation import check_is_fitted

        check_probability("alpha", alpha)
        check_is_fitted(classifier)
        if not hasattr(classifier, "calibration_"):
            raise ValueError(
                "This needs labelled texts that nothing was fitted on, and the classifier has "
                "none. Fit a CertifiedClassifier, as `pacsent train` does."
            )
        if repeats is None:
            repeats = getattr(classifier, "repeats", None)
        self.classifier = classifier
        self.alpha = alpha
        self.repeats = check_repeats(repeats)
        self.n_remembered = _N_REMEMBERED
        self.alarm_at: int | None = None
        self.counts = RowCounts(0, 0, 0, 0)
        self._rng = np.random.default_rng(as_seed(random_state))
        self._kind: tuple[bool, bool] | None = None  # with labels, with monitors
        self._compared_with: dict[tuple[bool, bool], _ComparedWith] = {}  # by kind
        self._of_rows: ConformalTest | None = None
        self._of_texts: ConformalTest | None = None
        self._earlier: list[str] = []  # different texts that came last, none of them fitted

    # ---- what was found ------------------------------------------------------------------------

    def _tests(self) -> list[ConformalTest]:
        """The tests that count."""
        tests = [self._of_rows, self._of_texts]
        if self.repeats == TRAFFIC:
            tests = [self._of_rows]
        elif self.repeats == COPIES:
            tests = [self._of_texts]
        return [test for test in tests if test is not None]

    @property
    def n_seen(self) -> int:
        return self.counts.n_rows

    @property
    def n_compared(self) -> int:
        return 0 if self._of_texts is None else self._of_texts.n

    @property
    def evidence(self) -> float:
        evidence_of_tests = [test.evidence for test in self._tests()]
        return min(evidence_of_tests, default=0.0)

    @property
    def alarm(self) -> bool:
        return self.alarm_at is not None

    @property
    def holds_only_if(self) -> str | None:
        if self.alarm or self.repeats is not None or self._of_rows is None:
            return None
        if self._of_rows.alarm:
            return COPIES
        if self._of_texts is not None and self._of_texts.alarm:
            return TRAFFIC
        return None

    @property
    def changes(self) -> list[Change]:
        tests = [test for test in self._tests() if test.alarm]
        return tests[-1].changes() if tests else []

    # ---- new texts -----------------------------------------------------------------------------

    def update(
        self, X: Iterable[str], y: Sequence | None = None, log_proba: np.ndarray | None = None
    ) -> bool:
        """Look at the next texts, with their labels where known.

        Parameters
        ----------
        X : iterable of str
        y : sequence, optional
            The right class of each text.
        log_proba : array, shape (n, n_classes), optional
            The classifier's logarithms of probabilities for these texts, if they are known already.

        Returns
        -------
        alarm : bool
            Whether guarantees are withdrawn.
        """
        X = as_texts(X, "texts")
        labels = None
        if y is not None:
            labels = class_indices(self.classifier.classes_, y, len(X))
        if log_proba is None:
            log_proba = self.classifier.predict_log_proba(X)

        with_text = nonempty_rows(X)
        seen = np.zeros(len(X), bool)  # repeats a training text
        if with_text.size:
            texts = [X[row] for row in with_text]
            seen[with_text] = np.logical_or(*seen_before(self.classifier, texts))

        monitors = None
        if self.classifier.calibration_.monitors is not None:
            monitors = monitors_of(self.classifier, X, seen)
        status = row_status(self.classifier, X, self._earlier, seen=seen).status

        # Texts that repeat others almost stay too: a later text may be near them alone.
        remembered_rows = np.flatnonzero((status == NEW) | (status == REPEATED))
        remembered = [X[row] for row in remembered_rows]
        distinct = list(dict.fromkeys([*self._earlier, *remembered]))
        self._earlier = distinct[-self.n_remembered :]
        return self.update_arrays(log_proba, labels, monitors, status)

    def update_arrays(
        self,
        log_proba: np.ndarray,
        y: np.ndarray | None = None,
        monitors: np.ndarray | None = None,
        status: np.ndarray | None = None,
    ) -> bool:
        """`update` on arrays.

        Parameters
        ----------
        log_proba : array, shape (n, n_classes)
            The classifier's logarithms of probabilities.
        y : array of int, shape (n,), optional
            Positions of the right classes in `classes_`.
        monitors : array, shape (n, 4), optional
            The result of `monitors_of`.
        status : array of int, shape (n,), optional
            That of `row_status`; by default all rows are new.

        Returns
        -------
        alarm : bool
            Whether guarantees are withdrawn.
        """
        kind = (y is not None, monitors is not None)
        if self._kind is not None and kind != self._kind:
            raise ValueError(
                "update must be given labels always or never, and update_arrays the monitors. "
                "Start another monitor."
            )
        if self._kind is None:
            self._start(kind)
        known = self._compared_with[kind]

        if status is None:
            status = np.zeros(len(log_proba), int)
        n_before = self.n_seen
        totals = [sum(pair) for pair in zip(self.counts, RowCounts.of(status))]
        self.counts = RowCounts(*totals)

        quantities = _quantities(log_proba, y, monitors)
        ties = self._rng.random(quantities.shape)
        is_row = (status == NEW) | (status == REPEATED)
        if known.rows_have_copies:
            is_row |= status == FITTED

        assert self._of_rows is not None  # both tests have begun
        assert self._of_texts is not None
        of_rows = _add_selected(self._of_rows, is_row, known.row_columns, quantities, ties)
        is_text = status == NEW
        of_texts = _add_selected(self._of_texts, is_text, known.text_columns, quantities, ties)

        is_raised = of_rows & of_texts  # (n,)
        if self.repeats == TRAFFIC:
            is_raised = of_rows
        elif self.repeats == COPIES:
            is_raised = of_texts
        if self.alarm_at is None and is_raised.any():
            self.alarm_at = n_before + int(is_raised.argmax()) + 1
        return self.alarm

    def _start(self, kind: tuple[bool, bool]) -> None:
        """Begin both tests, with the labels and monitors that this kind of monitor is given."""
        self._kind = kind
        if kind not in self._compared_with:
            self._compared_with[kind] = _compared_with(self.classifier, *kind)
        known = self._compared_with[kind]
        self._of_rows = ConformalTest(known.row_names, known.of_rows, self.alpha)
        self._of_texts = ConformalTest(known.text_names, known.of_texts, self.alpha)

    def successor(self, *, alpha: float) -> "DriftMonitor":
        """Another monitor of the same classifier, which has seen nothing.

        It shares the sorted calibration values with this one, and draws its own ties.

        Parameters
        ----------
        alpha : float
            Probability of a false alarm of the other monitor.

        Returns
        -------
        DriftMonitor
        """
        monitor = DriftMonitor(self.classifier, alpha=alpha, repeats=self.repeats)
        monitor.n_remembered = self.n_remembered
        monitor._compared_with = self._compared_with
        return monitor

    def __str__(self) -> str:
        rows = format_count(self.n_seen, "row")
        compared = format_count(self.n_compared, "distinct text")
        left_out = f" {self.counts}" if str(self.counts) else ""

        if self.alarm:
            return (
                f"ALARM at row {self.alarm_at:,}: the texts differ from the calibration texts. "
                "Guarantees do not apply. Changed most: "
                f"{describe_changes(self.changes)}.{left_out}"
            )
        if self.holds_only_if:
            return (
                f"{describe_condition(self.holds_only_if)} Changed most in {rows}, {compared}: "
                f"{describe_changes(self.changes)}.{left_out}"
            )
        return (
            f"No alarm in {rows}, {compared}: the evidence of a change is {self.evidence:.3g}, an "
            f"alarm is raised at {1 / self.alpha:g}.{left_out}"
        )


class _ComparedWith(NamedTuple):
    """Both samples of the calibration set, and which of all quantities each test watches."""

    row_names: list[str]
    row_columns: np.ndarray
    of_rows: CalibrationValues
    text_names: list[str]
    text_columns: np.ndarray
    of_texts: CalibrationValues
    rows_have_copies: bool  # whether rows that repeat a training text are compared


def _compared_with(classifier: Any, labelled: bool, monitored: bool) -> _ComparedWith:
    """What new texts are compared with, with their labels or without, with `MONITORS` or not."""
    classes = np.asarray(classifier.classes_).tolist()
    class_names = [str(name) for name in classes]
    names = ["confidence", *(f"probability of class {name!r}" for name in class_names)]
    if labelled:
        names += ["probability of the right class"]
        names += [f"share of class {name!r}" for name in class_names]
    if monitored:
        names += MONITORS

    samples = []
    for calibration in calibration_samples(classifier):
        labels = calibration.labels if labelled else None
        monitors = calibration.monitors if monitored else None
        samples.append(_quantities(calibration.log_proba, labels, monitors))
    of_rows, of_texts = samples

    is_watched = np.ones(len(names), bool)
    rows_have_copies = True
    if monitored:
        first_monitor = len(names) - len(MONITORS)
        copies_column = first_monitor + _COPIES
        monitors_of_rows = of_rows[:, first_monitor:]
        is_watched[first_monitor:] = (monitors_of_rows >= 0).any(axis=0)

        # Rows that were certified after the fit are none of the training texts.
        rows_have_copies = is_split_by_rows(classifier)
        of_texts = of_texts[of_texts[:, copies_column] <= 0]
        if not rows_have_copies:
            of_rows = of_rows[of_rows[:, copies_column] <= 0]
        is_watched[copies_column] = (of_rows[:, copies_column] > 0).any()

    row_columns = np.flatnonzero(is_watched)
    if monitored:
        is_watched[copies_column] = False  # there are none among these
    text_columns = np.flatnonzero(is_watched)

    return _ComparedWith(
        row_names=[names[i] for i in row_columns],
        row_columns=row_columns,
        of_rows=CalibrationValues(of_rows[:, row_columns]),
        text_names=[names[i] for i in text_columns],
        text_columns=text_columns,
        of_texts=CalibrationValues(of_texts[:, text_columns]),
        rows_have_copies=rows_have_copies,
    )


def _quantities(
    log_proba: np.ndarray, y: np.ndarray | None, monitors: np.ndarray | None
) -> np.ndarray:
    """What is watched, (n, n_quantities), in the order of the names."""
    proba = np.exp(log_proba)
    columns = [proba.max(axis=1, keepdims=True), proba]
    if y is not None:
        proba_of_label = proba[np.arange(y.size), y]  # (n,)
        is_label = np.eye(proba.shape[1])[y]  # (n, n_classes)
        columns += [proba_of_label[:, None], is_label]
    if monitors is not None:
        columns.append(monitors)
    return np.hstack(columns)


def _add_selected(
    test: ConformalTest,
    is_added: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    ties: np.ndarray,
) -> np.ndarray:
    """Add the selected rows to a test; True where its alarm is raised after a row, (n_rows,)."""
    was_raised = test.alarm
    added_values = values[is_added][:, columns]
    added_ties = ties[is_added][:, columns]

    is_raised = np.zeros(is_added.size, bool)
    is_raised[is_added] = test.add(added_values, added_ties)
    return np.logical_or.accumulate(is_raised) | was_raised


def calibration_samples(classifier: Any) -> tuple[Any, Any]:
    """The calibration set of held-out rows, and that of one row of each held-out cluster.

    They are the same where no text repeats.
    """
    calibration = classifier.calibration_
    return calibration.sample(TRAFFIC), calibration.sample(COPIES)


def is_split_by_rows(classifier: Any) -> bool:
    """Whether held-out rows are a sample of rows that includes copies of training texts."""
    certificate = getattr(classifier, "certificate_", None)
    is_split_by_fit = getattr(certificate, "calibration_size", None) is not None
    return is_split_by_fit or getattr(classifier, "repeats", None) == TRAFFIC


def describe_changes(changes: Sequence[Change]) -> str:
    """The two quantities that moved most, and the number of the others."""
    shown = [f"{name} (mean {a:.3g}, now {b:.3g})" for name, a, b in changes[:_N_NAMED]]
    n_others = len(changes) - len(shown)
    if n_others:
        shown.append(format_count(n_others, "other quantity", "other quantities"))
    if len(shown) < 3:
        return " and ".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def describe_condition(holds_only_if: str) -> str:
    """The sentence about guarantees where one of the two tests gives an alarm."""
    if holds_only_if == TRAFFIC:
        return (
            "The distinct texts differ from the calibration texts, the rows do not: guarantees "
            "hold only if repeats are traffic, that is, if rows are drawn one by one as they come."
        )
    return (
        "The rows differ from the calibration rows, the distinct texts do not: guarantees hold "
        "only if repeats are copies that were made by collecting."
    )


def bet_payoffs(p: np.ndarray) -> np.ndarray:
    """Payoff of each bet at these p-values, (..., n_bets); its expectation is 1 if p is uniform."""
    payoffs = np.empty((*p.shape, N_BETS))
    payoffs[..., : _SLOPES.size] = 1.0 + _SLOPES * (2.0 * p[..., None] - 1.0)
    column = _SLOPES.size
    for end in _ENDS:
        density = (1.0 - _TAIL_DENSITY * end) / (1.0 - end)
        for is_tail in (p < end, p > 1.0 - end):
            payoffs[..., column] = np.where(is_tail, _TAIL_DENSITY, density)
            column += 1
    return payoffs
