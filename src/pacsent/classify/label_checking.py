"""`check_labels`: which labels of a machine a person must read so that few wrong ones remain."""

import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pacsent.bounds.binomial import batch_limit
from pacsent.bounds.checks import are_counts, check_probability
from pacsent.bounds.delta import divide_delta
from pacsent.bounds.rounding import percent
from pacsent.certify.certificate import CountCertificate
from pacsent.certify.columns import few, is_missing
from pacsent.certify.error_certificate import candidates
from pacsent.certify.independence import as_seed
from pacsent.certify.labels import ClassLabels, as_labels
from pacsent.certify.near_duplicates import near_duplicate_clusters
from pacsent.classify.label_quality import out_of_fold_log_proba
from pacsent.text.ngrams import is_empty
from pacsent.text.texts import as_texts

# Sizes of the sample, fixed beforehand: each is twice the one before, up to a quarter of the rows.
_FIRST_SIZE = 100
_MAX_SAMPLED_FRACTION = 0.25
MAX_SIZES = 6
# Classes whose error by the machine is stated.
_MAX_LISTED_CLASSES = 30


def planned_sizes(n_rows: int) -> list[int]:
    """Sizes of the random sample at which checking a table of `n_rows` rows may stop.

    >>> planned_sizes(2_000)
    [100, 200, 400]
    """
    doubled_sizes = [_FIRST_SIZE * 2**i for i in range(MAX_SIZES)]
    sizes = [size for size in doubled_sizes if size <= _MAX_SAMPLED_FRACTION * n_rows]
    return sizes or [min(_FIRST_SIZE, n_rows)]


@dataclass(frozen=True, kw_only=True)
class LabelCheckCertificate(CountCertificate):
    """Upper bound on the fraction of wrong labels in a table of which a person read a part.

    `n` of the `n_rows` were drawn at random; `n_errors` of them were wrong and accepted.

    Attributes
    ----------
    n_rows, n_read, n_corrected : int
        Rows of the table, rows that the person was shown, and labels that were corrected.
    n_unread : int
        Rows that were still to be read. They count as wrong.
    n_skipped : int
        Rows that the person was shown and gave no label. They count as wrong.
    n_found : int
        Accepted rows beyond the sample that were read all the same, and were wrong or skipped.
    machine_counts : dict
        For each class that the machine gives: [its rows, sampled ones among them, wrong ones among
        these, ones without an answer].
    machine_error, machine_class_error : list, dict
        Lower and upper limit of the fraction of the machine's labels that are wrong, in the table
        and among the labels of each class; each interval by itself has probability 1 - delta, over
        all planned sizes of the sample.

    >>> parts = {"n_rows": 10_000, "n_read": 1_500, "n_corrected": 700, "random_state": 0}
    >>> LabelCheckCertificate.from_parts(delta=0.05, n=400, n_errors=13, **parts).error_upper
    0.0495
    """

    kind: ClassVar[str] = "label check"
    unit: ClassVar[str] = "sampled rows"
    assumption: ClassVar[str] = (
        "the labels of the person are right, and neither the labels of the machine nor their order "
        "depend on which rows were drawn at random. It is about this table, not about new texts."
    )
    needs_texts = (
        "n_errors",
        "n_read",
        "n_corrected",
        "n_unread",
        "n_skipped",
        "n_found",
        "machine_counts",
        "random_state",
    )

    n_rows: int
    n_read: int
    n_corrected: int
    random_state: int
    n_unread: int = 0
    n_skipped: int = 0
    n_found: int = 0
    machine_counts: dict = field(default_factory=dict)
    machine_error: list = field(default_factory=list)
    machine_class_error: dict = field(default_factory=dict)
    provenance: str = "a person read the rows that the seed drew, and those that are trusted least"

    def recompute(self) -> dict[str, Any]:
        n_accepted_wrong = max_unread_errors(self.n_errors, self.n, self.n_rows, self.delta_each)
        n_accepted_wrong = max(n_accepted_wrong - self.n_found, 0)
        n_unread_wrong = min(n_accepted_wrong + self.n_unread, self.n_rows - self.n_read)
        n_wrong = n_unread_wrong + self.n_skipped
        return {"error_upper": n_wrong / self.n_rows, **self._machine_limits()}

    def _machine_limits(self) -> dict[str, Any]:
        if not self.machine_counts:
            return {"machine_error": [], "machine_class_error": {}}

        limits_of_class = {}
        for name, counts in self.machine_counts.items():
            limits_of_class[name] = list(_error_limits(*counts, self.delta_each))
        limits = _error_limits(*self._machine_totals(), self.delta_each)
        return {"machine_error": list(limits), "machine_class_error": limits_of_class}

    def _machine_totals(self) -> list[int]:
        """`machine_counts` summed over the classes."""
        return [sum(column) for column in zip(*self.machine_counts.values())]

    def _check(self) -> None:
        super()._check()
        if self.n > self.n_rows:
            self._refuse("n", f"at most {self.n_rows:,}, the number of rows")

        max_read = self.n_rows - self.n_unread
        min_read = max(self.n - self.n_unread, self.n_corrected + self.n_skipped)
        if not min_read <= self.n_read <= max_read:
            self._refuse("n_read", f"from {self.n:,}, the sampled rows, to {max_read:,}")

        if not self.machine_counts:
            return
        are_possible = all(map(_are_possible_counts, self.machine_counts.values()))
        if not are_possible or self._machine_totals()[:2] != [self.n_rows, self.n]:
            self._refuse(
                "machine_counts", f"possible counts of {self.n_rows:,} rows, {self.n:,} sampled"
            )

    def summary(self) -> str:
        wrong = f"at most {percent(self.error_upper)} of the {self.n_rows:,} labels are wrong"
        read_fraction = self.n_read / self.n_rows
        read_rows = f"{self.n_read:,} rows ({read_fraction:.1%})"
        reading = f"A person read {read_rows} and corrected {self.n_corrected:,} labels."
        if self.n_skipped:
            reading += f" {self.n_skipped:,} were skipped, and count as wrong."
        if self.n_unread:
            reading += f" {self.n_unread:,} were still to be read, and count as wrong."
        return f"With {self.confidence} confidence, {wrong}. {reading}"

    def statements(self) -> list[tuple[str, str]]:
        if not self.machine_counts:
            return []

        _, n_sampled, n_wrong, n_unanswered = self._machine_totals()
        sampled = f"{n_wrong:,} of {n_sampled:,} rows drawn at random were wrong"
        if n_unanswered:
            sampled += f", {n_unanswered:,} have no answer"
        of_all = f"{_format_limits(self.machine_error)} of its labels are wrong ({sampled})."
        lines = [("The machine", f"{of_all} Each interval by itself, with {self.confidence}.")]

        for name, limits in islice(self.machine_class_error.items(), _MAX_LISTED_CLASSES):
            _, n_sampled, n_wrong, _ = self.machine_counts[name]
            text = f"{_format_limits(limits)} wrong ({n_wrong:,} of {n_sampled:,})."
            lines.append((f"Where it says {name}", text))
        return lines


def _are_possible_counts(counts: Any) -> bool:
    """True if these can be rows, sampled ones, wrong ones among these, and unanswered ones."""
    if not are_counts(counts, 4):
        return False
    n_rows, n_sampled, n_wrong, n_unanswered = counts
    return n_wrong + n_unanswered <= n_sampled <= n_rows


def _format_limits(limits: Sequence[float]) -> str:
    """Limits of a fraction in words; the lower one is rounded down, the upper one up."""
    lower, upper = limits
    rounded_down = np.floor(100 * lower * 10 + 1e-9) / 10
    return f"{rounded_down:.1f}% to {percent(upper, 1)}"


@cache
def _error_limits(
    n_rows: int, n_sampled: int, n_wrong: int, n_unanswered: int, delta: float
) -> tuple[float, float]:
    """Lower and upper limit of the fraction of wrong rows, half of delta each.

    Of the rows some were drawn at random without replacement, and of these some are wrong. Those
    without an answer count as wrong for the upper and as right for the lower limit.
    """
    if not n_sampled:
        return 0.0, 1.0
    upper = batch_limit(n_wrong + n_unanswered, n_sampled, n_rows, delta / 2)
    most_right = batch_limit(n_sampled - n_wrong, n_sampled, n_rows, delta / 2)
    return max(0.0, 1.0 - most_right), upper


@cache
def max_unread_errors(n_errors: int, n_sampled: int, n_rows: int, delta: float) -> int:
    """Upper bound on unsampled wrong rows before a place with `n_errors` sampled ones."""
    max_fraction = batch_limit(n_errors, n_sampled, n_rows, delta)
    return round(max_fraction * n_rows) - n_errors


# For each row that was shown whether the machine's label is wrong; None: the person skipped it.
Answers = Mapping[int, bool | None]


class _Plan(NamedTuple):
    """The rows read in all with a size of the sample, as estimated, and the rows accepted."""

    n_read: float
    n_accepted: int


class LabelChecker:
    """The rows that a person reads next: a random sample, then all but the most trusted rows.

    The rows before the first few sampled errors are accepted: Theorem 28 of docs/theory.md. A
    skipped row counts as wrong there, and stays wrong: where skipped rows take up some of the wrong
    labels that may remain, accepted rows are read as well, the least trusted first.

    `labels` are those of the machine, for the bounds on its error. `random_rows` were drawn at
    random from the table beforehand: the sample begins with them.
    """

    def __init__(
        self,
        scores: Any,
        *,
        error: float,
        delta: float,
        random_state: int,
        labels: Sequence | None = None,
        random_rows: Sequence[int] = (),
        n_candidates: int = 1,
    ):
        scores = _check_scores(scores)
        error = check_probability("error", error)
        self.delta = check_probability("delta", delta)
        self.random_state = random_state
        self.n_rows = scores.size
        self._labels = labels
        self._provenance = LabelCheckCertificate.provenance
        if len(random_rows):
            self._provenance += (
                f"; {len(random_rows):,} rows had labels before, and the bound is valid if these "
                "were drawn at random from the table"
            )

        # Rows of equal scores are in a random order.
        rng = np.random.default_rng(random_state)
        self.order = np.lexsort((rng.permutation(self.n_rows), -scores))
        self.sample = rng.permutation(self.n_rows)
        is_first = np.isin(self.sample, list(random_rows))
        self.sample = np.concatenate([self.sample[is_first], self.sample[~is_first]])
        self._place = np.argsort(self.order)  # of each row in the order

        self.sizes = planned_sizes(self.n_rows)
        self._corrections = candidates(n_candidates) | {"sizes of the sample": len(self.sizes)}
        self._delta_each = divide_delta(self.delta, *self._corrections.values())
        self.n_wrong_allowed = int(error * self.n_rows + 1e-9)
        # Sampled errors that may be accepted at each size; -1: no row may be.
        self.n_allowed = list(map(self._count_allowed, self.sizes))

        reads_all = max(self.n_allowed) < 0 or self.sizes[-1] == self.n_rows
        if reads_all:
            warnings.warn(
                f"No sample of {self.n_rows:,} rows certifies {error:g}: every row is read.",
                stacklevel=3,
            )
        elif scores.min() == scores.max():
            warnings.warn(
                "All scores are equal: rows are read in a random order, and most of them are.",
                stacklevel=3,
            )

    def _count_allowed(self, n_sampled: int) -> int:
        """Errors in a sample of this size that may be accepted; -1: no row may be."""
        limit = partial(self._max_unread, n_sampled=n_sampled)
        n_valid = bisect_right(range(n_sampled + 1), self.n_wrong_allowed, key=limit)
        return n_valid - 1

    def _max_unread(self, n_errors: int, n_sampled: int) -> int:
        return max_unread_errors(n_errors, n_sampled, self.n_rows, self._delta_each)

    def is_reachable(self, answers: Answers) -> bool:
        """True if few enough rows were skipped, as these stay wrong."""
        return _count_skipped(answers) <= self.n_wrong_allowed

    def sampled_rows(self, answers: Answers) -> list[int]:
        """The random sample: the rows of the largest planned size that is answered completely."""
        size = 0
        for planned in self.sizes:
            if self._unread_sample(planned, answers):
                break
            size = planned
        return self.sample[:size].tolist()

    def _unread_sample(self, size: int, answers: Answers) -> list[int]:
        """The rows of the sample of this size that have no answer."""
        return [row for row in self.sample[:size].tolist() if row not in answers]

    def sample_forecast(self, answers: Answers) -> tuple[int, int]:
        """The least and the largest number of rows of the sample that are still to be read."""
        rows, certificate = self.next(answers)
        if certificate is not None:
            return 0, 0
        unread = self._unread_sample(self.sizes[-1], answers)
        return len(rows), len(unread)

    def next(self, answers: Answers) -> tuple[list[int], LabelCheckCertificate | None]:
        """The rows to read after those of `answers`; after the sample also the certificate so far.

        A larger sample is drawn if less would have to be read in all, by the density of errors
        along the order in this one. No rows: the goal is reached, or it cannot be reached any more.
        """
        is_reachable = self.is_reachable(answers)
        size = 0
        n_accepted = 0
        for look, planned in enumerate(self.sizes):
            unread = self._unread_sample(planned, answers)
            if unread and is_reachable:
                return unread, None
            if unread and size:
                break  # it cannot be reached: the certificate is that of the size before

            size = planned
            plans = self._plan_sizes(look, answers)
            n_accepted = plans[0].n_accepted
            if unread or plans[0].n_read <= min(plans).n_read:
                break

        certificate = self._certify(answers, size, n_accepted)
        if not is_reachable:
            return [], certificate
        return self._list_unread(answers, n_accepted, certificate), certificate

    def _plan_sizes(self, look: int, answers: Answers) -> list[_Plan]:
        """Plans with the sample at `look` and with each larger one.

        Larger samples are taken to have errors at the same places of the order as this one.
        """
        size = self.sizes[look]
        sample = self.sample[:size].tolist()
        bad_rows = [row for row in sample if _is_bad(answers.get(row))]
        error_places = np.sort(self._place[bad_rows])

        plans = []
        for larger, n_allowed in zip(self.sizes[look:], self.n_allowed[look:]):
            n_errors = n_allowed * size // larger
            if n_allowed < 0:
                n_accepted = 0
            elif n_errors < error_places.size:
                n_accepted = int(error_places[n_errors])
            else:
                n_accepted = self.n_rows
            n_to_read = (self.n_rows - n_accepted) * (1 - larger / self.n_rows)
            plans.append(_Plan(larger + n_to_read, n_accepted))
        return plans

    def _list_unread(
        self, answers: Answers, n_accepted: int, certificate: LabelCheckCertificate
    ) -> list[int]:
        """Rows to read after the sample: those that are not accepted, the least trusted first."""
        least_trusted_first = self.order[n_accepted:][::-1].tolist()
        to_read = [row for row in least_trusted_first if row not in answers]
        if to_read:
            return to_read

        # Skipped rows stay wrong: accepted rows are read in their place.
        n_wrong = round(certificate.error_upper * self.n_rows)
        n_excess = max(n_wrong - self.n_wrong_allowed, 0)
        accepted = self.order[:n_accepted][::-1].tolist()
        return [row for row in accepted if row not in answers][:n_excess]

    def _certify(self, answers: Answers, size: int, n_accepted: int) -> LabelCheckCertificate:
        """The certificate with a sample of this size if the rows before a place are accepted."""
        sample = self.sample[:size].tolist()
        bad_sampled = {row for row in sample if _is_bad(answers.get(row))}
        bad_answers = {row for row, is_wrong in answers.items() if _is_bad(is_wrong)}
        found_beyond_sample = bad_answers.difference(sample)

        unread_after = [row for row in self.order[n_accepted:].tolist() if row not in answers]
        unread_accepted = self._count_accepted(self._unread_sample(size, answers), n_accepted)
        return LabelCheckCertificate.from_parts(
            delta=self.delta,
            corrections=dict(self._corrections),
            n=size,
            n_errors=self._count_accepted(bad_sampled, n_accepted),
            n_rows=self.n_rows,
            n_read=len(answers),
            n_corrected=sum(map(bool, answers.values())),
            n_unread=len(unread_after) + unread_accepted,
            n_skipped=_count_skipped(answers),
            n_found=self._count_accepted(found_beyond_sample, n_accepted),
            random_state=self.random_state,
            provenance=self._provenance,
            machine_counts=self._count_machine(answers, sample),
        )

    def _count_accepted(self, rows: Iterable[int], n_accepted: int) -> int:
        """The number of the rows that are before a place in the order."""
        places = self._place[list(rows)]
        return int((places < n_accepted).sum())

    def _count_machine(self, answers: Answers, sample: list[int]) -> dict[str, list[int]]:
        if self._labels is None:
            return {}
        labels = self._labels
        n_rows = Counter(labels)
        n_sampled = Counter(labels[row] for row in sample)
        n_wrong = Counter(labels[row] for row in sample if answers.get(row))
        n_unanswered = Counter(labels[row] for row in sample if answers.get(row) is None)
        counts = {}
        for name in sorted(n_rows):
            counts[str(name)] = [n_rows[name], n_sampled[name], n_wrong[name], n_unanswered[name]]
        return counts


def _check_scores(scores: Any) -> np.ndarray:
    """Finite numbers, one for each row, (n_rows,)."""
    scores = np.asarray(scores, np.float64)
    if scores.ndim != 1 or not scores.size:
        raise ValueError(f"scores must be one for each row. Got shape {scores.shape} instead.")

    is_finite = np.isfinite(scores)
    if not is_finite.all():
        row = int(np.argmin(is_finite))
        raise ValueError(f"scores must be finite. Got {scores[row]} in row {row:,} instead.")
    return scores


def _is_bad(is_wrong: bool | None) -> bool:
    """True if a sampled row counts as wrong: it is, or it was skipped, or it is still unread."""
    return is_wrong is None or bool(is_wrong)


def _count_skipped(answers: Answers) -> int:
    return sum(is_wrong is None for is_wrong in answers.values())


class CheckedLabels(NamedTuple):
    """The result of `check_labels`.

    Only the labels of `sampled_rows` are a random sample. The other rows that a person read were
    chosen because their labels were doubtful, so that a classifier evaluated on all of `read_rows`
    looks worse or better than it is.
    """

    labels: list
    read_rows: list[int]
    certificate: LabelCheckCertificate
    sampled_rows: list[int]


def check_labels(
    texts: Iterable[str],
    labels: Sequence,
    scores: Any = None,
    *,
    ask: Callable[[int, str], Any],
    classes: Sequence = (),
    random_rows: Sequence[int] = (),
    error: float = 0.05,
    delta: float = 0.05,
    n_candidates: int = 1,
    random_state: Any = None,
) -> CheckedLabels:
    """Ask a person for labels until few are wrong.

    Parameters
    ----------
    texts, labels : one label of a machine for each text
        Empty texts are not asked for and not counted; their final label is None.
    scores : array, optional
        Larger for labels that can be trusted more, such as the machine's confidence; by default the
        log-probability of the label by `TextClassifier`, fitted on other rows. Any are valid.
    ask : callable
        `ask(row, text)` returns the right label, spelled as in `labels` or `classes`; anything else
        raises ValueError. None (or NaN, or pandas' NA) skips the row: it is not asked for again,
        its final label is None, and it counts as wrong. A person who sees the machine's label
        agrees too often.
    classes : sequence, optional
        Classes that the machine never gives, and the person may.
    random_rows : list of int, optional
        Rows that were drawn at random from the table beforehand, because they have labels of a
        person already (which `ask` returns): the sample begins with these.
    error, delta : float, default=0.05
        With probability 1 - delta, at most the fraction `error` of the labels is wrong in the end,
        unless more rows are skipped: the certificate has the bound that was reached.
    n_candidates : int, default=1
        How many machines or scores are checked like this, before the labels of one are kept.
    random_state : draws the sample; see `certify_predictions`

    Returns
    -------
    CheckedLabels
        `labels`, `read_rows`, `certificate` (also of the machine's own error), `sampled_rows`.

    Examples
    --------
    >>> from sklearn.model_selection import train_test_split
    >>> from pacsent.datasets import load_banking
    >>> texts, intents = load_banking(n_classes=12)  # messages to a bank
    >>> X, X_new, y, y_new = train_test_split(texts, intents, train_size=500, random_state=0)
    >>> from pacsent import TextClassifier
    >>> machine_labels = TextClassifier().fit(X, y).predict(X_new).tolist()
    >>> def read_label(row, text):  # a person's answer
    ...     return y_new[row]
    >>> checked = check_labels(
    ...     X_new, machine_labels, range(len(X_new)), ask=read_label, random_state=0
    ... )
    >>> print(checked.certificate.summary())
    With 95% confidence, at most 4.80% of the 1,606 labels are wrong. A person read 1,066 rows
    (66.4%) and corrected 96 labels.
    """
    texts = as_texts(texts)
    labels = as_labels(labels, len(texts))
    seed = as_seed(random_state)
    other_classes = as_labels(classes, name="classes")
    names = {name: name for name in [*labels, *other_classes]}
    kept = [row for row, text in enumerate(texts) if not is_empty(text)]
    if not kept:
        raise ValueError(f"texts must have at least one text with words. Got {len(texts):,} empty.")

    kept_labels = [labels[row] for row in kept]
    if scores is None:
        scores = label_scores([texts[row] for row in kept], kept_labels)
    else:
        all_scores = as_labels(scores, len(texts), "scores")
        scores = [all_scores[row] for row in kept]
    kept_random_rows = np.flatnonzero(np.isin(kept, random_rows))
    checker = LabelChecker(
        scores,
        error=error,
        delta=delta,
        random_state=seed,
        labels=kept_labels,
        random_rows=kept_random_rows.tolist(),
        n_candidates=n_candidates,
    )

    # The checker counts positions among the rows that are not empty.
    final: list = [None] * len(texts)
    for row in kept:
        final[row] = labels[row]

    def ask_at(position: int) -> bool | None:
        """Replace a label; whether it was wrong, None if it was skipped."""
        row = kept[position]
        answer = ask(row, texts[row])
        final[row] = _as_class(answer, names, row)
        return None if final[row] is None else final[row] != labels[row]

    answers, certificate = _ask_until_done(checker, ask_at)
    read_rows = [kept[position] for position in answers]
    sampled_rows = [kept[position] for position in checker.sampled_rows(answers)]
    return CheckedLabels(final, read_rows, certificate, sampled_rows)


def _ask_until_done(
    checker: LabelChecker, ask_at: Callable[[int], bool | None]
) -> tuple[dict[int, bool | None], LabelCheckCertificate]:
    """Ask for the positions that the checker names until there are none; the answers."""
    answers = dict[int, bool | None]()
    while True:
        positions, certificate = checker.next(answers)
        if certificate is not None and not positions:
            return answers, certificate

        for position in positions:
            answers[position] = ask_at(position)

            # Where too many rows were skipped, the goal is missed whatever the others are.
            if answers[position] is None and not checker.is_reachable(answers):
                break


def _as_class(answer: Any, names: Mapping[Any, Any], row: int) -> Any:
    """The class that a person named; None if the row was skipped."""
    if is_missing(answer):
        return None
    try:
        return names[answer]
    except (KeyError, TypeError):  # a list cannot be looked up
        pass

    name_of_spelling = {str(name).strip().casefold(): name for name in names}
    name = name_of_spelling.get(str(answer).strip().casefold())
    advice = "" if name is None else f" Did you mean {name!r}?"
    raise ValueError(
        f"ask must return one of the classes ({few(names)}), or None to skip the row. Got "
        f"{answer!r} ({type(answer).__name__}) for row {row:,} instead.{advice} Pass classes= for "
        "those that the machine never gives."
    )


def label_scores(texts: Sequence[str], labels: Sequence) -> np.ndarray:
    """The log-probability of each label by classifiers that were fitted on other rows, (n,)."""
    y = ClassLabels.of_column(labels, len(texts)).encoded
    clusters = near_duplicate_clusters(texts)
    log_proba = out_of_fold_log_proba(texts, y, clusters)  # (n, n_classes)
    return log_proba[np.arange(y.size), y]
