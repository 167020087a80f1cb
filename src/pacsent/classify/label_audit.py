"""`audit`: what is wrong with labelled texts, as numbers and as a page to click through."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pacsent.classify import inputs
from pacsent.classify.diagnostics import html_page, html_table
from pacsent.classify.suspicion import SuspiciousLabel, suspicious_labels
from pacsent.text.html import escaped
from pacsent.text.near_duplicates import text_units
from pacsent.text.ngrams import fingerprints
from pacsent.text.texts import as_texts

_SHOWN = 500  # rows of each list on the page


@dataclass(frozen=True, eq=False)
class Audit:
    """What is wrong with labelled texts; `to_html` is a page to click through.

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
            "n": len(self.texts), "classes": {str(k): n for k, n in self.counts.items()},
            "suspicious": [one._asdict() for one in self.suspicious],
            "duplicates": self.duplicates, "near_duplicates": self.near_duplicates,
            "empty": self.empty, "unknown": [row for row, _ in self.unknown],
        }  # fmt: skip

    def __str__(self) -> str:
        return (
            f"{len(self.texts):,} texts, {len(self.counts)} classes: {len(self.suspicious):,} "
            f"suspicious labels, {_extra(self.duplicates):,} duplicates, "
            f"{_extra(self.near_duplicates):,} near-duplicates, {len(self.empty):,} texts without "
            f"a word, {len(self.unknown):,} of mostly unknown words"
        )

    def to_html(self, title: str = "Audit of labels") -> str:
        """One page, without script and without other files."""
        parts = [f"<p>{escaped(self)}.</p><h2>Classes</h2>"]
        parts.append(
            html_table(["class", "texts"], [(k, f"{n:,}") for k, n in self.counts.items()])
        )
        parts.append(f"<h2>Suspicious labels ({len(self.suspicious):,})</h2>")
        for one in self.suspicious[:_SHOWN]:
            head = f"Row {one.row + 1:,}: {one.label}, suggested {one.suggested}"
            parts.append(self._folded(head, one.reason, [one.row]))
        parts += self._more(len(self.suspicious))
        for name, groups in (("Duplicates", self.duplicates),
                             ("Near-duplicates", self.near_duplicates)):  # fmt: skip
            parts.append(f"<h2>{name} ({_extra(groups):,})</h2>")
            for rows in groups[:_SHOWN]:
                given = ", ".join(sorted({str(self.labels[row]) for row in rows}))
                numbers = ", ".join(f"{row + 1:,}" for row in rows[:10])
                parts.append(self._folded(f"Rows {numbers}", f"labels: {given}", rows[:10]))
            parts += self._more(len(groups))
        numbers = ", ".join(f"{row + 1:,}" for row in self.empty[:_SHOWN])
        parts.append(f"<h2>Texts without a word ({len(self.empty):,})</h2><p>{numbers}</p>")
        parts.append(f"<h2>Mostly unknown words ({len(self.unknown):,})</h2>")
        for row, known in self.unknown[:_SHOWN]:
            parts.append(self._folded(f"Row {row + 1:,}", f"{known:.0%} of words known", [row]))
        return html_page(title, "".join(parts))

    def _repr_html_(self) -> str:
        return self.to_html()

    def _folded(self, head, reason, rows):
        texts = "".join(f'<p dir="auto" lang="">{escaped(self.texts[row])}</p>' for row in rows)
        return (
            f"<details><summary>{escaped(head)} <span class=quiet>{escaped(reason)}</span>"
            f"</summary>{texts}</details>"
        )

    def _more(self, n):
        return [f"<p>And {n - _SHOWN:,} more.</p>"] if n > _SHOWN else []


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
    found = suspicious_labels(texts, given, model=model, random_state=random_state)
    same = _groups(fingerprints(texts))
    copies = {tuple(rows) for rows in same}
    near = [rows for rows in _groups(text_units(texts)) if tuple(rows) not in copies]
    empty = [row for row, text in enumerate(texts) if not any(c.isalnum() for c in text)]
    counts = dict(sorted(Counter(given).items(), key=lambda item: str(item[0])))
    unknown = [(row, known) for row, known in _known(texts, model) if known < 0.5]
    return Audit(texts, given, counts, found, same, near, empty, unknown)


def _groups(of: np.ndarray) -> list[list[int]]:
    """Rows with the same value, where there are several."""
    rows: dict[Any, list[int]] = {}
    for row, value in enumerate(np.asarray(of).tolist()):
        rows.setdefault(value, []).append(row)
    return [some for some in rows.values() if len(some) > 1]


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
