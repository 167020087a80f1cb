"""`check_labels`: which labels of a machine a person must read so that few wrong ones remain."""

import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from pacsent.classify.inputs import as_labels, encoded_labels
from pacsent.classify.label_quality import out_of_fold_log_proba
from pacsent.guarantees.certificate import CountCertificate
from pacsent.guarantees.delta import divide_delta
from pacsent.guarantees.independence import as_seed
from pacsent.maths.binomial import batch_limit
from pacsent.maths.checks import check_probability
from pacsent.maths.rounding import percent
from pacsent.text.near_duplicates import text_units
from pacsent.text.texts import as_texts

# Sizes of the sample, fixed beforehand: each is twice the one before, up to a quarter of the rows.
_FIRST_SIZE, _MAX_SIZES, _MAX_SAMPLED = 100, 6, 0.25


@dataclass(frozen=True, kw_only=True)
class LabelCheckCertificate(CountCertificate):
    """Upper bound on the fraction of wrong labels in a table of which a person read a part.

    `n` of the `n_rows` were drawn at random; `n_errors` of them were wrong and accepted. Rows that
    were still to be read, `n_unread`, count as wrong.

    >>> parts = {"n_rows": 10_000, "n_read": 1_500, "n_corrected": 700, "random_state": 0}
    >>> LabelCheckCertificate.from_parts(delta=0.05, n=400, n_errors=13, **parts).error_upper
    0.0495
    """

    kind: ClassVar[str] = "label check"
    unit: ClassVar[str] = "sampled rows"
    assumption: ClassVar[str] = (
        "the labels of the person are right, and neither the labels of the machine nor their order "
        "depend on what the person answered. It is about this table, not about new texts."
    )
    needs_texts = ("n_errors", "n_read", "n_corrected", "n_unread", "random_state")

    n_rows: int
    n_read: int
    n_corrected: int
    random_state: int
    n_unread: int = 0
    provenance: str = "a person read the rows that the seed drew, and those that are trusted least"

    def recompute(self) -> dict[str, Any]:
        n_wrong = max_unread_errors(self.n_errors, self.n, self.n_rows, self.delta_each)
        n_wrong = min(n_wrong + self.n_unread, self.n_rows - self.n_read)
        return {"error_upper": n_wrong / self.n_rows}

    def _check(self) -> None:
        super()._check()
        most = self.n_rows - self.n_unread
        if not max(self.n, self.n_corrected) <= self.n_read <= most:
            self._refuse("n_read", f"from {self.n:,}, the sampled rows, to {most:,}")

    def summary(self) -> str:
        wrong = f"at most {percent(self.error_upper)} of the {self.n_rows:,} labels are wrong"
        read = f"{self.n_read:,} rows ({self.n_read / self.n_rows:.1%})"
        reading = f"A person read {read} and corrected {self.n_corrected:,} labels."
        return f"With {self.confidence} confidence, {wrong}. {reading}"


@cache
def max_unread_errors(n_errors: int, n_sampled: int, n_rows: int, delta: float) -> int:
    """Upper bound on unsampled wrong rows before a place with `n_errors` sampled ones."""
    return round(batch_limit(n_errors, n_sampled, n_rows, delta) * n_rows) - n_errors


class LabelChecker:
    """Which rows a person reads next: a random sample, then all but the most trusted rows.

    The rows before the first few sampled errors are accepted: Theorem 28 of docs/theory.md.
    """

    def __init__(self, scores: Any, *, error: float, delta: float, random_state: int):
        scores = np.asarray(scores, np.float64)
        if scores.ndim != 1 or not scores.size:
            raise ValueError(f"scores must be one for each row. Got shape {scores.shape} instead.")
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores)))
            raise ValueError(f"scores must be finite. Got {scores[row]} in row {row:,} instead.")
        error, self.delta = check_probability("error", error), check_probability("delta", delta)
        self.random_state, self.n_rows = random_state, scores.size
        rng = np.random.default_rng(random_state)
        self.order = np.lexsort((rng.permutation(self.n_rows), -scores))  # equal ones at random
        self.sample = rng.permutation(self.n_rows)
        sizes = [_FIRST_SIZE * 2**i for i in range(_MAX_SIZES)]
        sizes = [size for size in sizes if size <= _MAX_SAMPLED * self.n_rows]
        self.sizes = sizes or [min(_FIRST_SIZE, self.n_rows)]
        each, n_wrong = divide_delta(self.delta, len(self.sizes)), int(error * self.n_rows + 1e-9)
        self.n_allowed = []  # sampled errors that may be accepted; -1: no row may
        for size in self.sizes:
            limit = partial(max_unread_errors, n_sampled=size, n_rows=self.n_rows, delta=each)
            self.n_allowed.append(bisect_right(range(size + 1), n_wrong, key=limit) - 1)
        problem = "All scores are equal: rows are read in a random order, and most of them are."
        reads_all = max(self.n_allowed) < 0 or self.sizes[-1] == self.n_rows
        if reads_all:
            problem = f"No sample of {self.n_rows:,} rows certifies {error:g}: every row is read."
        if reads_all or scores.min() == scores.max():
            warnings.warn(problem, stacklevel=3)

    def next(self, wrong: Mapping[int, bool]) -> tuple[list[int], LabelCheckCertificate | None]:
        """The rows to read after those of `wrong`, which has whether their labels were wrong.

        After the sample also the certificate so far. A larger sample is drawn if less would have to
        be read in all, by the density of errors along the order in this one.
        """
        place = np.argsort(self.order)
        for look, size in enumerate(self.sizes):
            sample = self.sample[:size].tolist()
            if unread := [row for row in sample if row not in wrong]:
                return unread, None
            errors = np.sort(place[[row for row in sample if wrong[row]]])
            options = []  # (rows read in all, rows accepted) with this size and with larger ones
            for larger, n_allowed in zip(self.sizes[look:], self.n_allowed[look:]):
                n_errors, n_accepted = n_allowed * size // larger, self.n_rows * (n_allowed >= 0)
                if 0 <= n_errors < errors.size:
                    n_accepted = int(errors[n_errors])
                n_unread = (self.n_rows - n_accepted) * (1 - larger / self.n_rows)
                options.append((larger + n_unread, n_accepted))
            if options[0][0] <= min(options)[0]:
                break
        n_accepted = options[0][1]
        unread = [row for row in self.order[n_accepted:][::-1].tolist() if row not in wrong]
        certificate = LabelCheckCertificate.from_parts(
            delta=self.delta,
            corrections={"sizes of the sample": len(self.sizes)},
            n=size,
            n_errors=int((errors < n_accepted).sum()),
            n_rows=self.n_rows,
            n_read=len(wrong),
            n_corrected=int(sum(wrong.values())),
            n_unread=len(unread),
            random_state=self.random_state,
        )
        return unread, certificate


def check_labels(
    texts: Iterable[str],
    labels: Sequence,
    scores: Any = None,
    *,
    ask: Callable[[int, str], Any],
    error: float = 0.05,
    delta: float = 0.05,
    random_state: Any = None,
) -> tuple[list, list[int], LabelCheckCertificate]:
    """Ask a person for labels until few are wrong: the labels, the rows read, the certificate.

    Parameters
    ----------
    texts, labels : one label of a machine for each text
    scores : array, optional
        Larger for labels that can be trusted more, such as the machine's confidence; by default the
        log-probability of the label by `TextClassifier`, fitted on other rows. Any are valid.
    ask : callable
        `ask(row, text)` returns the right label. A person who sees the machine's agrees too often.
    error, delta : float, default=0.05
        With probability 1 - delta, at most the fraction `error` of the labels is wrong in the end.
    random_state : draws the sample; see `certify_predictions`

    Examples
    --------
    >>> right = ["even", "odd"] * 1000
    >>> machine, texts = ["odd"] * 100 + right[100:], [f"text {n}" for n in range(2000)]
    >>> checked = check_labels(texts, machine, range(2000), ask=lambda row, text: right[row])
    >>> checked[2].error_upper <= 0.05
    True
    """
    texts = as_texts(texts)
    labels, seed = as_labels(labels, len(texts)), as_seed(random_state)
    scores = label_scores(texts, labels) if scores is None else scores
    scores = as_labels(scores, len(texts), "scores")
    checker = LabelChecker(scores, error=error, delta=delta, random_state=seed)
    final, wrong = list(labels), dict[int, bool]()
    while True:
        rows, certificate = checker.next(wrong)
        if certificate is not None and not rows:
            return final, list(wrong), certificate
        for row in rows:
            final[row] = ask(row, texts[row])
            wrong[row] = final[row] != labels[row]


def label_scores(texts: Sequence[str], labels: Sequence) -> np.ndarray:
    """The log-probability of each label by classifiers that were fitted on other rows, (n,)."""
    _, y = encoded_labels(labels, texts)
    return out_of_fold_log_proba(texts, y, text_units(texts))[np.arange(y.size), y]
