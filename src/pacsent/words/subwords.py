"""`Subwords`: vectors of hashed character n-grams, as fastText trains them."""

from dataclasses import dataclass

import numpy as np

from pacsent.words.vector_table import checked_table

_FNV_START, _FNV_PRIME = 2166136261, 16777619  # the 32-bit FNV hash that fastText uses


@dataclass(frozen=True, eq=False, repr=False)
class Subwords:
    """Vectors of hashed character n-grams, as fastText trains them.

    vector(word) = mean of the rows that the n-grams of "<word>" hash to
    """

    vectors: np.ndarray  # (n_buckets, n_dims)
    min_n: int  # characters of the shortest n-gram, the two marks "<" and ">" included
    max_n: int  # and of the longest

    def __post_init__(self):
        checked_table("subwords.vectors", self.vectors)
        if not (1 <= self.min_n <= self.max_n and len(self.vectors)):
            raise ValueError(
                "Subwords must have 1 <= min_n <= max_n and at least one bucket. Got "
                f"min_n={self.min_n}, max_n={self.max_n}, {len(self.vectors)} buckets instead."
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
        """Bucket numbers of the n-grams of each word, and offsets: word i has
        rows[offsets[i]:offsets[i + 1]]."""
        marked = [b"<" + word + b">" for word in words]
        lengths = np.array([len(word) for word in marked], dtype=np.int64)
        ends = np.cumsum(lengths)
        starts = ends - lengths
        text = np.frombuffer(b"".join(marked), dtype=np.uint8)

        # fastText hashes signed chars: a byte from 128 up flips the upper 24 bits as well
        signed = text.view(np.int8).astype(np.int32).view(np.uint32)

        first_byte = np.flatnonzero((text & 0xC0) != 0x80)  # where a UTF-8 character begins
        owner = np.searchsorted(ends, first_byte, side="right")
        end_of_word = ends[owner]
        # after[k]: where the character that begins at first_byte[k] stops, within its word
        after = np.minimum(np.append(first_byte[1:], text.size), end_of_word)

        hashes = np.full(first_byte.size, _FNV_START, dtype=np.uint32)
        character = np.arange(first_byte.size)  # the character to take next, for each beginning
        alive = np.arange(first_byte.size)
        row_parts, place_parts = [np.empty(0, np.uint32)], [np.empty(0, np.int64)]

        for n in range(1, self.max_n + 1):
            place, stop = first_byte[character[alive]].copy(), after[character[alive]]

            while True:  # the bytes of one character, four at most in valid UTF-8
                inside = place < stop
                if not inside.any():
                    break
                who = alive[inside]
                hashes[who] = (hashes[who] ^ signed[place[inside]]) * np.uint32(_FNV_PRIME)
                place[inside] += 1

            if n >= self.min_n:
                # a mark alone is no n-gram
                kept = alive
                if n == 1:
                    first = first_byte[alive] == starts[owner[alive]]
                    last = after[alive] == end_of_word[alive]
                    kept = alive[~(first | last)]
                row_parts.append(hashes[kept] % np.uint32(len(self.vectors)))
                place_parts.append(kept)

            character[alive] += 1
            alive = alive[character[alive] < first_byte.size]
            alive = alive[owner[character[alive]] == owner[alive]]
            if alive.size == 0:
                break

        places = np.concatenate(place_parts)
        order = np.argsort(places, kind="stable")  # by beginning, then by length, as fastText
        counts = np.bincount(owner[places], minlength=len(words))
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return np.concatenate(row_parts)[order].astype(np.int64), offsets
