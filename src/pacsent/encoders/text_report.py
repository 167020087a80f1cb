"""What is counted in the sentences of one call: empty ones, known and unknown words."""

import warnings
from dataclasses import dataclass, field

import numpy as np

from pacsent.text.encoded import Encoded
from pacsent.words.vocabulary import Vocabulary


class EmptySentenceWarning(UserWarning):
    """Some sentences hold no known word, so they have no posterior."""


@dataclass
class TextReport:
    """Counts of sentences and tokens, batch by batch.

    >>> vocabulary = Vocabulary(["good", "film"])
    >>> report, encoded = TextReport(), vocabulary.encode(["a good film", ""])
    >>> report.add(encoded, np.diff(encoded.offsets) == 0)
    >>> report.n_sentences, report.n_empty, report.first_empty
    (2, 1, [1])
    """

    n_sentences: int = 0
    n_empty: int = 0
    n_wordless: int = 0  # sentences without a token, known or not
    n_known: int = 0
    n_unknown: int = 0
    first_empty: list[int] = field(default_factory=list)

    def add(self, encoded: Encoded, empty: np.ndarray) -> None:
        """Count a batch; `empty` says which of its sentences have no posterior."""
        if empty.any():
            rows = np.flatnonzero(empty)
            self.n_empty += rows.size
            self.n_wordless += int((np.diff(encoded.offsets) + encoded.n_unknown == 0).sum())
            self.first_empty += (rows[: 3 - len(self.first_empty)] + self.n_sentences).tolist()
        self.n_sentences += empty.size
        self.n_known += encoded.ids.size
        self.n_unknown += int(encoded.n_unknown.sum())

    @property
    def coverage(self) -> float:
        """Known tokens over all tokens; nan where there was no token."""
        n_tokens = self.n_known + self.n_unknown
        return self.n_known / n_tokens if n_tokens else float("nan")

    def warn(self, on_empty: str, vocabulary: Vocabulary, stacklevel: int) -> None:
        """Warn of empty sentences and of few known words; raise with on_empty="error"."""
        if self.n_empty and on_empty == "warn":
            warnings.warn(
                f"{self._message(vocabulary)}: mean 0, variance nan. Drop them, or pass "
                "on_empty='ignore'.",
                EmptySentenceWarning,
                stacklevel=stacklevel,
            )
        self.refuse_empty(on_empty, vocabulary)
        vocabulary.warn_if_few_known(self.n_known, self.n_unknown, stacklevel=stacklevel + 1)

    def refuse_empty(self, on_empty: str, vocabulary: Vocabulary) -> None:
        """Raise ValueError where there are empty sentences and on_empty="error"."""
        if self.n_empty and on_empty == "error":
            message = self._message(vocabulary)
            raise ValueError(f"{message}. Drop them, or pass on_empty='warn' to get mean 0.")

    def _message(self, vocabulary):
        more = ", ..." if self.n_empty > len(self.first_empty) else ""
        rows = ", ".join(map(str, self.first_empty)) + more
        return (
            f"{self.n_empty:,} of {self.n_sentences:,} sentences hold no known word (row {rows}, "
            f"counted from 0), so they have no posterior{self._wordless_cause(vocabulary)}"
        )

    def _wordless_cause(self, vocabulary) -> str:
        """Why sentences have not even an unknown word; empty where none is like that."""
        if not self.n_wordless:
            return ""
        begin = f"; {self.n_wordless:,} give no word at all: they are empty"
        if vocabulary.normalise_name == "paper":
            return (
                f"{begin}, or in another script, of which normalise='paper' keeps nothing (use "
                "word vectors made with normalise='unicode')"
            )
        return f"{begin} or without letters and digits"
