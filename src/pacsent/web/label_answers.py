"""The two streams of texts, and the answers that annotators gave so far."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np

from pacsent.certify.count_certificates import N_MODELS
from pacsent.certify.near_duplicates import near_duplicate_clusters
from pacsent.text.ngrams import nonempty_rows

# Numbers of training labels at which a model is fitted that the bound is about. They are fixed
# beforehand: the bound is valid for all of these models at once.
SIZES = tuple(25 * 2**j for j in range(N_MODELS))
_NO_ANSWER = object()  # before the first answer of an annotator to a text


class Streams(NamedTuple):
    """Rows of the evaluation texts, in a random order, and of the training texts."""

    evaluation: list[int]
    training: list[int]


def text_clusters(texts: Sequence[str]) -> np.ndarray:
    """The near-duplicate cluster of each text, -1 for empty texts."""
    kept = nonempty_rows(texts)
    clusters = np.full(len(texts), -1)
    clusters[kept] = near_duplicate_clusters([texts[row] for row in kept.tolist()])
    n = np.unique(clusters[kept]).size
    if n < 4:
        raise ValueError(
            f"texts must contain at least four different texts with words. Got {n} instead."
        )
    return clusters


def draw_streams(clusters: np.ndarray, evaluation_size: float, seed: int) -> Streams:
    """Draw the evaluation texts and their order, from one text per cluster.

    Which texts evaluate is decided before any label is known, and does not depend on a model.
    """
    shuffled = np.random.default_rng([seed, 1]).permutation(clusters.size)
    order = shuffled[clusters[shuffled] >= 0]  # rows of texts with words

    # The first text of each cluster, in the random order.
    _, first_places = np.unique(clusters[order], return_index=True)  # (n_clusters,)
    rows = order[np.sort(first_places)].tolist()

    n_evaluation = max(1, round(evaluation_size * len(rows)))
    n_evaluation = min(n_evaluation, len(rows) - 2)  # two texts at least train
    return Streams(rows[:n_evaluation], rows[n_evaluation:])


class LabelAnswers:
    """The sum of the records of a journal; a killed session is restored by them alone."""

    def __init__(self, evaluation_rows: frozenset[int]) -> None:
        # row -> annotator -> label, None for a text that was skipped
        self.by_row: dict[int, dict[str, Any]] = {}
        # row -> label: the training labels when their number last reached one of `SIZES`
        self.snapshot: dict[int, Any] = {}
        self._evaluation_rows = evaluation_rows
        self._history: dict[str, list[tuple[int, Any]]] = {}  # annotator -> row, answer before
        self._n_sizes_reached = 0
        self._n_training = 0  # training texts that were answered

    def apply(self, record: dict[str, Any]) -> None:
        """Change the answers as a record of the journal says."""
        annotator = record.get("who", "")
        if not isinstance(annotator, str):
            raise TypeError(f"who must be a str. Got {annotator!r} instead.")
        if "undo" in record:
            self._undo(annotator, record["undo"])
        else:
            self._answer(annotator, record["row"], record["label"])
            self._update_snapshot()

    def _undo(self, annotator: str, undone_row: Any) -> None:
        row, before = self._history[annotator].pop()
        if row != undone_row or undone_row is True:  # which equals 1
            raise ValueError(f"undo must be the last answer, {row}.")

        if before is _NO_ANSWER:
            self.by_row[row].pop(annotator, None)
        else:
            self.by_row[row][annotator] = before
        if not self.by_row[row]:
            del self.by_row[row]
            self._n_training -= row not in self._evaluation_rows

    def _answer(self, annotator: str, row: int, label: Any) -> None:
        if row not in self.by_row:
            self.by_row[row] = {}
            self._n_training += row not in self._evaluation_rows
        answers = self.by_row[row]
        before = answers.get(annotator, _NO_ANSWER)
        self._history.setdefault(annotator, []).append((row, before))
        answers[annotator] = label

    def _update_snapshot(self) -> None:
        """Keep the training labels if their number has reached the next of `SIZES`."""
        if self._n_sizes_reached == len(SIZES):
            return
        next_size = SIZES[self._n_sizes_reached]
        if self._n_training < next_size:
            return
        labels = self.training_labels()
        if len(labels) >= next_size:
            self._n_sizes_reached += 1
            self.snapshot = labels

    def last_row(self, annotator: str) -> int | None:
        """The row of the last answer of an annotator that was not taken back."""
        history = self._history.get(annotator)
        if not history:
            return None
        row, _ = history[-1]
        return row

    def labels(self) -> dict[int, Any]:
        """Row -> label; of several annotators the majority, with ties the first answer."""
        labels = {}
        for row, answers in self.by_row.items():
            counts = Counter(label for label in answers.values() if label is not None)
            if counts:
                [(majority, _)] = counts.most_common(1)
                labels[row] = majority
        return labels

    def training_labels(self) -> dict[int, Any]:
        """Row -> label, of the texts that train."""
        labels = self.labels()
        return {row: labels[row] for row in labels if row not in self._evaluation_rows}

    def evaluated_rows(self, evaluation: Sequence[int]) -> list[int]:
        """Evaluation texts with a label, up to the first that waits for one.

        A text that waits is not passed over: texts that take long may be the difficult ones.
        """
        labels = self.labels()
        answered_rows = takewhile(self.by_row.__contains__, evaluation)
        return [row for row in answered_rows if row in labels]  # the others were skipped


def agreement(answers: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Krippendorff's alpha of annotators who labelled the same texts (nominal labels).

    alpha = 1 - observed / expected disagreement over the pairs of labels of a text.

    Parameters
    ----------
    answers : mapping
        {text: {annotator: label}}. A label that is None counts nowhere.

    Returns
    -------
    agreement : dict or None
        "value" is alpha, or None if all labels are the same, so that chance explains everything;
        "texts" is the number of texts with two labels or more, "same" that of texts whose labels
        are equal. None if no text has two labels.

    References
    ----------
    Krippendorff (2011), "Computing Krippendorff's alpha-reliability".

    Examples
    --------
    >>> result = agreement({0: {"ann": "a", "ben": "a"}, 1: {"ann": "b", "ben": "b"}, 2: {}})
    >>> result["value"], result["texts"]
    (1.0, 2)
    """
    counters: list[Counter] = []  # of the labels of each text that has two or more
    annotators: set[str] = set()
    for labels in answers.values():
        known_labels = {who: label for who, label in labels.items() if label is not None}
        if len(known_labels) > 1:
            counters.append(Counter(known_labels.values()))
            annotators.update(known_labels)
    if not counters:
        return None

    totals: Counter = sum(counters, Counter())
    expected = _n_unequal_pairs(totals)
    observed = sum(_n_unequal_pairs(counts) / (counts.total() - 1) for counts in counters)
    alpha = None
    if expected:
        # Disagreements are observed/n and expected/(n (n - 1)) for n labels: n - 1 is left.
        alpha = 1 - (totals.total() - 1) * observed / expected
    return {
        "measure": "Krippendorff's alpha",
        "value": alpha,
        "texts": len(counters),
        "same": sum(len(counts) == 1 for counts in counters),
        "annotators": sorted(annotators),
    }


def _n_unequal_pairs(counts: Counter) -> int:
    """The number of ordered pairs of labels that differ."""
    return counts.total() ** 2 - sum(count**2 for count in counts.values())
