"""`Encoded`: sentences as token ids, the form in which every package passes text on."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

_MAKE = "Make it with vocabulary.encode(texts)."


class LowCoverageWarning(UserWarning):
    """Most words of a text are not in the vocabulary: it is likely the wrong one."""


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
        """Token ids in a row, and how many of them each sentence has."""
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(ids.astype(np.int32), offsets, np.zeros(len(lengths), dtype=np.int64))

    def take(self, rows: ArrayLike) -> "Encoded":
        """The sentences in `rows`, in that order.

        >>> Encoded(np.arange(5), np.array([0, 2, 5]), np.zeros(2, int)).take([1, 0]).ids.tolist()
        [2, 3, 4, 0, 1]
        """
        rows = np.asarray(rows, dtype=np.int64)
        n = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(n)])
        place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], n)
        ids = self.ids[np.repeat(self.offsets[rows], n) + place]
        return Encoded(ids, offsets, self.n_unknown[rows])

    @property
    def coverage(self) -> float:
        """Known tokens over all tokens; nan when there is no token at all."""
        n_all = self.ids.size + int(self.n_unknown.sum())
        return self.ids.size / n_all if n_all else float("nan")

    def checked(self, n_words: int) -> "Encoded":
        """Itself, if its arrays belong together and its ids are below `n_words`; else ValueError.

        Integers of another width become those above; nothing is copied where they are right.

        >>> Encoded(np.array([0, 7]), np.array([0, 2]), np.array([0])).checked(5)
        Traceback (most recent call last):
        ...
        ValueError: Encoded.ids must be at least 0 and below 5, the number of words. Got 7 ...
        """
        arrays = []
        dtypes: tuple[Any, ...] = (np.int32, np.int64, np.int64)
        for name, own, dtype in zip(self._fields, self, dtypes):
            array = np.asarray(own)
            is_integer = not array.size or array.dtype.kind in "iu"
            limit = np.iinfo(dtype).max
            fits = is_integer and (array.dtype == dtype or abs(array).max(initial=0) <= limit)
            if array.ndim != 1 or not fits:
                raise ValueError(
                    f"Encoded.{name} must be a flat array of {np.dtype(dtype)}. Got {array.dtype} "
                    f"of shape {array.shape} instead. {_MAKE}"
                )
            arrays.append(np.ascontiguousarray(array, dtype))
        ids, offsets, n_unknown = arrays
        is_cut = offsets.size > 0 and offsets[0] == 0 and offsets[-1] == ids.size
        if not is_cut or (offsets[1:] < offsets[:-1]).any():
            raise ValueError(
                f"Encoded.offsets must rise from 0 to the number of ids, {ids.size:,}. Got "
                f"{offsets[:9].tolist()} ... instead. {_MAKE}"
            )
        if n_unknown.size != offsets.size - 1 or (n_unknown.size and n_unknown.min() < 0):
            raise ValueError(
                "Encoded.n_unknown must have a number of at least 0 for each of the "
                f"{offsets.size - 1:,} sentences. Got {n_unknown.size:,} numbers, the smallest "
                f"{n_unknown.min(initial=0)}, instead. {_MAKE}"
            )
        if ids.size and (ids.min() < 0 or ids.max() >= n_words):
            wrong = ids[(ids < 0) | (ids >= n_words)][0]
            raise ValueError(
                f"Encoded.ids must be at least 0 and below {n_words:,}, the number of words. Got "
                f"{wrong:,} instead. They are of another vocabulary: encode the texts with this "
                "one."
            )
        return self if all(a is b for a, b in zip(arrays, self)) else Encoded(*arrays)


def some_tokens(
    encoded: Encoded, most: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(document, word) of at most `most` tokens, drawn without replacement."""
    document = np.repeat(np.arange(encoded.n_sentences), np.diff(encoded.offsets))
    if document.size <= most:
        return document, encoded.ids
    chosen = np.sort(rng.choice(document.size, most, replace=False))
    return document[chosen], encoded.ids[chosen]
