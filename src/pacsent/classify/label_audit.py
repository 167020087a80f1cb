"""`audit`: wrong labels, duplicates, empty texts and unknown words among labelled texts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacsent.classify import inputs
from pacsent.classify.suspicion import SuspiciousLabel, suspicious_labels
from pacsent.text.near_duplicates import text_units
from pacsent.text.ngrams import fingerprints
from pacsent.text.texts import as_texts


@dataclass(frozen=True, eq=False)
class Audit:
    """What is wrong with labelled texts; a section of `TextClassifier.report`.

    Attributes
    ----------
    texts, labels : lists
    counts : dict
        Texts of each class.
    suspicious : list of SuspiciousLabel
    duplicates, near_duplicates : list of lists of int
        Rows that have the same words, and those that almost have.
    empty : list of int
        Rows without a letter or digit.
    unknown : list of (int, float)
        Rows of which less than half of the words are known, and that share; empty without words.
    """

    texts: list[str]
    labels: list
    counts: dict[Any, int]
    suspicious: list[SuspiciousLabel]
    duplicates: list[list[int]]
    near_duplicates: list[list[int]]
    empty: list[int]
    unknown: list[tuple[int, float]]

    def to_dict(self) -> dict[str, Any]:
        """The numbers, and the suspicious rows; rows are counted from 0."""
        return {
            "n": len(self.texts),
            "classes": {str(k): n for k, n in self.counts.items()},
            "suspicious": [suspicion._asdict() for suspicion in self.suspicious],
            "duplicates": self.duplicates,
            "near_duplicates": self.near_duplicates,
            "empty": self.empty,
            "unknown": [row for row, _ in self.unknown],
        }

    def __str__(self) -> str:
        return (
            f"{len(self.texts):,} texts, {len(self.counts)} classes: {len(self.suspicious):,} "
            f"suspicious labels, {_extra(self.duplicates):,} duplicates, "
            f"{_extra(self.near_duplicates):,} near-duplicates, {len(self.empty):,} texts without "
            f"a word, {len(self.unknown):,} of mostly unknown words"
        )

    def row_numbers(self, rows: Sequence[int]) -> str:
        """Rows counted from 1, as users of tables count them."""
        return ", ".join(f"{row + 1:,}" for row in rows)

    def labels_of(self, rows: Sequence[int]) -> str:
        """The different labels of these rows."""
        return ", ".join(sorted({str(self.labels[row]) for row in rows}))

    def texts_of(self, rows: Sequence[int]) -> list[str]:
        """The texts of these rows."""
        return [self.texts[row] for row in rows]


def audit(
    texts: Iterable[str], labels: Sequence, *, model: Any = None, random_state: int = 0
) -> Audit:
    """Look for wrong labels, duplicates, empty texts and unknown words.

    Parameters
    ----------
    texts, labels, model, random_state : see `suspicious_labels`

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(30) for word in ("good", "bad")]
    >>> found = audit([*texts, texts[0]], ["up", "down"] * 30 + ["up"], model=TextClassifier())
    >>> found.duplicates, found.counts
    ([[0, 60]], {'down': 30, 'up': 31})
    """
    texts = as_texts(texts)
    given = inputs.as_labels(labels, len(texts))
    suspicious = suspicious_labels(texts, given, model=model, random_state=random_state)
    same = _groups(fingerprints(texts))
    copies = {tuple(rows) for rows in same}
    near = [rows for rows in _groups(text_units(texts)) if tuple(rows) not in copies]
    empty = [row for row, text in enumerate(texts) if not any(c.isalnum() for c in text)]
    counts = dict(sorted(Counter(given).items(), key=lambda item: str(item[0])))
    unknown = [(row, known) for row, known in _known(texts, model) if known < 0.5]
    return Audit(texts, given, counts, suspicious, same, near, empty, unknown)


def _groups(of: np.ndarray) -> list[list[int]]:
    """Rows with the same value, where there are several."""
    rows: dict[Any, list[int]] = {}
    for row, value in enumerate(np.asarray(of).tolist()):
        rows.setdefault(value, []).append(row)
    return [group for group in rows.values() if len(group) > 1]


def _known(texts, model):
    """(row, share of its words that are in the vocabulary) of texts with words."""
    words = "english" if model is None else getattr(model, "words", None)
    if not isinstance(words, str):
        return
    from pacsent.storage import load

    vocabulary = load(words).vocabulary
    encoded = vocabulary.encode(texts)
    for row, (text, n_known) in enumerate(zip(texts, np.diff(encoded.offsets))):
        n_words = sum(any(c.isalpha() for c in word) for word in text.split())
        if n_words:
            yield row, min(1.0, float(n_known) / n_words)


def _extra(groups) -> int:
    return sum(len(rows) - 1 for rows in groups)
