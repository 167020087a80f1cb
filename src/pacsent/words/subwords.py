"""`Subwords`: vectors of hashed character n-grams, as fastText trains them."""

from dataclasses import dataclass

import numpy as np

from pacsent.words.vector_table import checked_table

# The 32-bit FNV hash that fastText uses.
_FNV_START = 2166136261
_FNV_PRIME = 16777619


@dataclass(frozen=True, eq=False, repr=False)
class Subwords:
    """Vectors of hashed character n-grams, as fastText trains them.

    vector(word) = mean of the rows that the n-grams of "<word>" hash to
    """

    vectors: np.ndarray  # (n_buckets, n_dims)
    min_n: int  # characters of the shortest n-gram, the two marks "<" and ">" included
    max_n: int  # and of the longest

    def __post_init__(self) -> None:
        checked_table("subwords.vectors", self.vectors)
        n_buckets = len(self.vectors)
        if not 1 <= self.min_n <= self.max_n or n_buckets == 0:
            raise ValueError(
                "Subwords must have 1 <= min_n <= max_n and at least one bucket. Got "
                f"min_n={self.min_n}, max_n={self.max_n}, {n_buckets} buckets instead."
            )

    def __repr__(self) -> str:
        return f"Subwords(n_buckets={len(self.vectors)}, min_n={self.min_n}, max_n={self.max_n})"

    def vector(self, word: str) -> np.ndarray:
        """The mean of the vectors of the word's n-grams."""
        rows, _ = self.rows([word.encode("utf-8", "surrogatepass")])
        if rows.size == 0:
            raise ValueError(
                f"{word!r} is not in the vocabulary and too short for an n-gram of "
                f"{self.min_n} to {self.max_n} characters, so it has no vector."
            )
        return self.vectors[rows].mean(axis=0, dtype=np.float32)

    def rows(self, words: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """Bucket numbers of the n-grams of each word, and where those of a word are.

        All n-grams that begin at any character of any word grow together, one character at a time.

        Returns
        -------
        rows : array of int64
        offsets : array of int64, shape (n_words + 1,)
            Word i has rows[offsets[i]:offsets[i + 1]].
        """
        marked_words = [b"<" + word + b">" for word in words]
        lengths = np.array([len(word) for word in marked_words], dtype=np.int64)
        word_ends = np.cumsum(lengths)
        word_starts = word_ends - lengths
        text = np.frombuffer(b"".join(marked_words), dtype=np.uint8)

        # Characters: the first byte, the word, and the byte after the character, of each.
        first_bytes = np.flatnonzero((text & 0xC0) != 0x80)
        word_of = np.searchsorted(word_ends, first_bytes, side="right")
        end_of_word = word_ends[word_of]
        next_bytes = np.append(first_bytes[1:], text.size)
        next_bytes = np.minimum(next_bytes, end_of_word)
        is_mark = first_bytes == word_starts[word_of]
        is_mark |= next_bytes == end_of_word

        # fastText hashes signed chars: a byte from 128 up flips the upper 24 bits as well.
        signed = text.view(np.int8).astype(np.int32).view(np.uint32)

        n_characters = first_bytes.size
        hashes = np.full(n_characters, _FNV_START, dtype=np.uint32)
        character = np.arange(n_characters)  # the character to add next, for each beginning
        alive = np.arange(n_characters)  # beginnings whose n-grams still grow
        row_parts = [np.empty(0, np.uint32)]
        beginning_parts = [np.empty(0, np.int64)]

        for n in range(1, self.max_n + 1):
            added = character[alive]
            _hash_bytes(hashes, alive, first_bytes[added], next_bytes[added], signed)

            if n >= self.min_n:
                # A mark alone is no n-gram.
                beginnings = alive[~is_mark[alive]] if n == 1 else alive
                row_parts.append(hashes[beginnings] % np.uint32(len(self.vectors)))
                beginning_parts.append(beginnings)

            # An n-gram grows no further than its word.
            character[alive] += 1
            alive = alive[character[alive] < n_characters]
            alive = alive[word_of[character[alive]] == word_of[alive]]
            if alive.size == 0:
                break

        # As in fastText: by beginning, then by length.
        beginnings = np.concatenate(beginning_parts)
        order = np.argsort(beginnings, kind="stable")
        rows = np.concatenate(row_parts)[order].astype(np.int64)

        n_rows = np.bincount(word_of[beginnings], minlength=len(words))
        offsets = np.concatenate([[0], np.cumsum(n_rows)])
        return rows, offsets


def _hash_bytes(
    hashes: np.ndarray, alive: np.ndarray, place: np.ndarray, stop: np.ndarray, signed: np.ndarray
) -> None:
    """Add the bytes signed[place[k]:stop[k]] to hashes[alive[k]], in place."""
    place = place.copy()
    while True:  # four times at most in valid UTF-8
        is_inside = place < stop
        if not is_inside.any():
            break
        rows = alive[is_inside]
        hashes[rows] = (hashes[rows] ^ signed[place[is_inside]]) * np.uint32(_FNV_PRIME)
        place[is_inside] += 1
