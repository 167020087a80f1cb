"""Encode sentences in batches, and report those that have no in-vocabulary word."""

import operator
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np

from pacsent.text.encoded import Encoded
from pacsent.threads import in_order, n_threads
from pacsent.words.text_encoding import warn_low_coverage
from pacsent.words.vocabulary import Vocabulary

Posteriors = tuple[np.ndarray, np.ndarray]  # means (n, n_dims), variances (n,)

# A function (encoded, means) -> (variances, report) of one batch, which writes the means.
BatchPosterior = Callable[[Encoded, np.ndarray], tuple[np.ndarray, Any]]


class EmptySentenceWarning(UserWarning):
    """Some sentences contain no in-vocabulary word, so they have no posterior.

    >>> EmptySentenceWarning.__mro__[1]
    <class 'UserWarning'>
    """


@dataclass
class EncodingReport:
    """Counts of sentences and tokens, batch by batch."""

    n_sentences: int = 0
    n_empty: int = 0
    n_known: int = 0
    n_unknown: int = 0
    first_empty: list[int] = field(default_factory=list)

    def add(self, encoded: Encoded, empty: np.ndarray) -> None:
        """Count a batch; `empty` says which of its sentences have no posterior."""
        if empty.any():
            rows = np.flatnonzero(empty)
            self.n_empty += rows.size
            self.first_empty += (rows[: 3 - len(self.first_empty)] + self.n_sentences).tolist()
        self.n_sentences += empty.size
        self.n_known += encoded.ids.size
        self.n_unknown += int(encoded.n_unknown.sum())

    @property
    def coverage(self) -> float:
        """Known tokens over all tokens; nan if there was no token."""
        n_tokens = self.n_known + self.n_unknown
        return self.n_known / n_tokens if n_tokens else float("nan")

    def warn(self, on_empty: str, vocabulary: Vocabulary, stacklevel: int) -> None:
        """Warn of empty sentences and of a high OOV rate unless they are ignored; or raise."""
        if self.n_empty and on_empty == "warn":
            warnings.warn(
                f"{self._message(vocabulary)}: the mean is 0 and the variance nan.",
                EmptySentenceWarning,
                stacklevel=stacklevel,
            )
        self.check_empty(on_empty, vocabulary)
        if on_empty != "ignore":
            warn_low_coverage(vocabulary, self.n_known, self.n_unknown, stacklevel + 1)

    def check_empty(self, on_empty: str, vocabulary: Vocabulary) -> None:
        """Raise ValueError if there are empty sentences and on_empty="error"."""
        if self.n_empty and on_empty == "error":
            message = self._message(vocabulary)
            raise ValueError(f"{message}. Omit such rows, or pass on_empty='warn' to get mean 0.")

    def _message(self, vocabulary: Vocabulary) -> str:
        rows = ", ".join(map(str, self.first_empty))
        if self.n_empty > len(self.first_empty):
            rows += ", ..."
        message = (
            f"Sentences of OOV words only: {self.n_empty:,} of {self.n_sentences:,} (row "
            f"{rows}, counted from 0)"
        )
        if vocabulary.normalize == "paper":
            message += "; normalize='paper' reads letters a-z and digits only"
        return message


def iter_batches(X: Any, size: int) -> Iterator:
    """Cut X into batches of `size` sentences."""
    if isinstance(X, Encoded):
        for start in range(0, X.n_sentences, size):
            stop = min(start + size, X.n_sentences)
            offsets = X.offsets[start : stop + 1]
            ids = X.ids[offsets[0] : offsets[-1]]
            yield Encoded(ids, offsets - offsets[0], X.n_unknown[start:stop])
        return
    sentences = iter(X)
    while batch := list(islice(sentences, size)):
        yield batch


def clear_empty(means: np.ndarray, variances: np.ndarray, encoded: Encoded) -> np.ndarray:
    """Set mean 0 and variance nan for sentences of OOV words only; returns which these are."""
    empty = encoded.offsets[1:] == encoded.offsets[:-1]
    if empty.any():
        means[empty] = 0
        variances[empty] = np.nan
    return empty


class _Solved(NamedTuple):
    """A batch and its posteriors."""

    encoded: Encoded
    means: np.ndarray  # (n, n_dims)
    variances: np.ndarray  # (n,)
    is_finite: bool
    solver_report: Any


def stream_posteriors(
    vectorizer: Any, X: Any, report: EncodingReport, out: np.ndarray | None = None
) -> Iterator[Posteriors]:
    """Yield (means, variances) batch by batch, in order; threads compute them.

    `report` counts the sentences. The means go to `out` if it is given.
    """
    posterior = vectorizer._prepared()
    vocabulary = vectorizer.word_vectors.vocabulary
    n_dims = vectorizer.n_dims
    dtype = vectorizer._dtype

    def solve(start_and_batch: tuple[int, Any]) -> _Solved:
        start, batch = start_and_batch
        encoded = batch
        if not isinstance(batch, Encoded):
            encoded = vocabulary.encode(batch, n_jobs=1, first_row=start)
        n = encoded.n_sentences
        means = np.empty((n, n_dims), dtype) if out is None else out[start : start + n]
        variances, solver_report = posterior(encoded, means)
        with np.errstate(over="ignore", invalid="ignore"):
            is_finite = np.isfinite(means.sum())  # one pass, while the numbers are in the cache
        return _Solved(encoded, means, variances, bool(is_finite), solver_report)

    n_jobs = n_threads(vectorizer.n_jobs)
    n_sentences = X.n_sentences if isinstance(X, Encoded) else operator.length_hint(X, -1)
    size = vectorizer._batch_size(n_sentences, n_jobs)
    batches = zip(count(0, size), iter_batches(X, size))
    n_diverged = 0
    solver_reports = []
    # A few batches ahead, so that no thread waits and memory stays bounded.
    for solved in in_order(solve, batches, n_jobs, ahead=n_jobs + 1):
        report.add(solved.encoded, clear_empty(solved.means, solved.variances, solved.encoded))
        report.check_empty(vectorizer.on_empty, vocabulary)
        if not solved.is_finite:
            is_row_finite = np.isfinite(solved.means).all(axis=1)
            n_diverged += int(np.count_nonzero(~is_row_finite))
        solver_reports.append(solved.solver_report)
        yield solved.means, solved.variances

    vectorizer._record(solver_reports)
    if n_diverged:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"{n_diverged:,} of {report.n_sentences:,} vectors are not finite numbers, although "
            "those of their words are: the method diverged. Choose other parameters.",
            ConvergenceWarning,
            stacklevel=4,
        )
