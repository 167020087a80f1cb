"""`Encoded`: sentences as token ids, the form in which every package passes text on."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

_MAKE = "Make it with vocabulary.encode(texts)."


class LowCoverageWarning(UserWarning):
    """Warning that most words of the texts are not in the vocabulary, likely the wrong one.

    Examples
    --------
    >>> import warnings
    >>> warnings.simplefilter("error", LowCoverageWarning)  # raise it instead
    >>> warnings.simplefilter("default", LowCoverageWarning)
    """


class Encoded(NamedTuple):
    """Sentences as token ids: sentence s is ids[offsets[s]:offsets[s + 1]], OOV words left out.

    Every vectorizer takes an `Encoded` where it takes an iterable of sentences.

    >>> Encoded(np.array([4, 2, 7]), np.array([0, 1, 3]), np.zeros(2, int)).n_sentences
    2
    """

    ids: np.ndarray  # (n_tokens,) int32
    offsets: np.ndarray  # (n_sentences + 1,) int64
    n_unknown: np.ndarray  # (n_sentences,) int64, tokens that are not in the vocabulary

    @property
    def n_sentences(self) -> int:
        return self.offsets.size - 1

    @classmethod
    def from_lengths(cls, ids: np.ndarray, lengths: np.ndarray) -> "Encoded":
        """Sentences whose token ids follow each other, without unknown tokens.

        Parameters
        ----------
        ids : array of int, shape (n_tokens,)
            Word ids of all sentences, one sentence after the other.
        lengths : array of int, shape (n_sentences,)
            Number of tokens of each sentence.

        Returns
        -------
        Encoded
        """
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        n_unknown = np.zeros(len(lengths), dtype=np.int64)
        return cls(ids.astype(np.int32), offsets, n_unknown)

    def take(self, rows: ArrayLike) -> "Encoded":
        """Select sentences.

        Parameters
        ----------
        rows : array of int, shape (n_rows,)
            Indices of sentences, in any order, repeated or not.

        Returns
        -------
        Encoded
            Copies of the sentences in `rows`, in that order.

        Examples
        --------
        >>> Encoded(np.arange(5), np.array([0, 2, 5]), np.zeros(2, int)).take([1, 0]).ids.tolist()
        [2, 3, 4, 0, 1]
        """
        row_indices = np.asarray(rows, dtype=np.int64)  # (n_rows,)
        lengths = np.diff(self.offsets)[row_indices]  # (n_rows,)
        offsets = np.concatenate([[0], np.cumsum(lengths)])  # (n_rows + 1,)

        # Of each token taken: its place in its sentence, and where that sentence begins.
        place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        start = np.repeat(self.offsets[row_indices], lengths)
        return Encoded(self.ids[start + place], offsets, self.n_unknown[row_indices])

    @property
    def coverage(self) -> float:
        """Known tokens over all tokens; nan when there is no token at all."""
        n_all = self.ids.size + int(self.n_unknown.sum())
        return self.ids.size / n_all if n_all else float("nan")

    def checked(self, n_words: int) -> "Encoded":
        """Return itself, if its arrays fit together and its ids are below `n_words`.

        Integers of another width become those above; nothing is copied where they are right.

        Parameters
        ----------
        n_words : int
            Number of words of the vocabulary.

        Returns
        -------
        Encoded
            A ValueError names what does not fit.

        Examples
        --------
        >>> Encoded(np.array([0, 7]), np.array([0, 2]), np.array([0])).checked(5)
        Traceback (most recent call last):
        ...
        ValueError: Encoded.ids must be at least 0 and below 5, the number of words. Got 7 ...
        """
        ids = _as_flat_integers("ids", self.ids, np.int32)
        offsets = _as_flat_integers("offsets", self.offsets, np.int64)
        n_unknown = _as_flat_integers("n_unknown", self.n_unknown, np.int64)

        _check_offsets(offsets, ids.size)
        _check_unknown(n_unknown, n_sentences=offsets.size - 1)
        _check_ids(ids, n_words)

        is_same = ids is self.ids and offsets is self.offsets and n_unknown is self.n_unknown
        return self if is_same else Encoded(ids, offsets, n_unknown)


def _as_flat_integers(name: str, values: Any, dtype: Any) -> np.ndarray:
    """The values as a contiguous array of this type; the same array if it is one already."""
    array = np.asarray(values)
    if array.dtype == dtype:
        fits = True
    elif array.size and array.dtype.kind not in "iu":
        fits = False
    else:
        fits = bool(abs(array).max(initial=0) <= np.iinfo(dtype).max)

    if array.ndim != 1 or not fits:
        raise ValueError(
            f"Encoded.{name} must be a flat array of {np.dtype(dtype)}. Got {array.dtype} "
            f"of shape {array.shape} instead. {_MAKE}"
        )
    return np.ascontiguousarray(array, dtype)


def _check_offsets(offsets: np.ndarray, n_ids: int) -> None:
    spans_ids = offsets.size > 0 and offsets[0] == 0 and offsets[-1] == n_ids
    falls = (offsets[1:] < offsets[:-1]).any()
    if not spans_ids or falls:
        raise ValueError(
            f"Encoded.offsets must rise from 0 to the number of ids, {n_ids:,}. Got "
            f"{offsets[:9].tolist()} ... instead. {_MAKE}"
        )


def _check_unknown(n_unknown: np.ndarray, n_sentences: int) -> None:
    smallest = n_unknown.min(initial=0)
    if n_unknown.size != n_sentences or smallest < 0:
        raise ValueError(
            "Encoded.n_unknown must have a number of at least 0 for each of the "
            f"{n_sentences:,} sentences. Got {n_unknown.size:,} numbers, the smallest "
            f"{smallest}, instead. {_MAKE}"
        )


def _check_ids(ids: np.ndarray, n_words: int) -> None:
    if not ids.size or (ids.min() >= 0 and ids.max() < n_words):
        return

    is_wrong = (ids < 0) | (ids >= n_words)
    wrong = ids[is_wrong][0]
    raise ValueError(
        f"Encoded.ids must be at least 0 and below {n_words:,}, the number of words. Got "
        f"{wrong:,} instead. They are of another vocabulary: encode the texts with this one."
    )


def some_tokens(
    encoded: Encoded, most: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(document, word) of at most `most` tokens, drawn without replacement."""
    document = np.repeat(np.arange(encoded.n_sentences), np.diff(encoded.offsets))  # (n_tokens,)
    if document.size <= most:
        return document, encoded.ids

    chosen = np.sort(rng.choice(document.size, most, replace=False))
    return document[chosen], encoded.ids[chosen]
