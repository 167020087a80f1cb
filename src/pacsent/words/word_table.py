"""`WordTable`: the words of a vocabulary as a list, as bytes and as a hash table."""

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pacsent.kernels import text as kernels


class WordTable:
    """Different words, each form of them made from another when it is first needed.

    A table that comes from a file opens at once: nothing is copied, decoded or checked but sizes.
    The contents are checked once, before anything uses them.

    `arrays`, in place of `words`, are `word_bytes` (uint8), the words in UTF-8 without anything
    between them; `word_offsets` (int64), word i is word_bytes[word_offsets[i]:word_offsets[i + 1]];
    and, if known, `hash_table` (uint64, two columns), which is built when it is needed otherwise.
    """

    def __init__(self, words: list[str] | None, arrays: Mapping[str, np.ndarray] | None = None):
        self._list = words
        self._arrays = dict(arrays or {})
        self.word_hashes: np.ndarray | None = None

        if words is not None:
            self.n_words = len(words)
            self._check_different(words)
        else:
            self.n_words = len(self._arrays["word_offsets"]) - 1
            self._check_offsets(self._arrays["word_bytes"], self._arrays["word_offsets"])
            if self._arrays.get("hash_table") is not None:
                self._check_hash_table(self._arrays["hash_table"])

    def _check_different(self, words: list[str]) -> None:
        if len(self.index) == len(words):
            return

        for first, word in enumerate(words):
            last = self.index[word]
            if first != last:
                raise ValueError(
                    f"words must be all different. Got {word!r} at {first} and at "
                    f"{last} instead. Keep one of them."
                )

    def _check_offsets(self, word_bytes: np.ndarray, offsets: np.ndarray) -> None:
        """Raise ValueError if the arrays cannot be words, by types, shapes and ends."""
        has_shape = word_bytes.ndim == 1 and offsets.ndim == 1 and offsets.size > 0
        has_type = word_bytes.dtype == np.uint8 and offsets.dtype == np.int64
        is_valid = has_shape and has_type
        if not is_valid or offsets[0] != 0 or offsets[-1] != len(word_bytes):
            raise _damaged(
                f"word_offsets must go from 0 to the size of word_bytes, {len(word_bytes):,}",
                f"{offsets.dtype} of shape {offsets.shape} that do not",
            )

    def _check_hash_table(self, table: np.ndarray) -> None:
        """Raise ValueError if an array cannot be a hash table of these words, by type and shape."""
        n_rows = len(table)
        has_form = table.shape == (n_rows, 2) and table.dtype == np.uint64
        is_power_of_two = n_rows & (n_rows - 1) == 0
        if not (has_form and is_power_of_two) or n_rows <= max(1, self.n_words):
            raise _damaged(
                "hash_table must have two columns and a power of two of rows, more than "
                f"n_words={self.n_words:,}",
                f"shape {table.shape}",
            )

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be made again."""
        arrays = {}
        if self._list is None:
            arrays["word_bytes"], arrays["word_offsets"] = self.arrays
        return {
            "n_words": self.n_words,
            "_list": self._list,
            "_arrays": arrays,
            "word_hashes": None,
        }

    def accept(self, hash_table: np.ndarray, word_hashes: np.ndarray) -> None:
        """Take what would be computed of the words; `pacsent.text.ngrams.word_hashes` of each."""
        self._arrays["hash_table"] = hash_table
        self.word_hashes = word_hashes

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """(word_bytes, word_offsets); those of a file are checked."""
        if self._list is not None:
            return concat_utf8(self._list)
        offsets = self._arrays["word_offsets"]
        if np.any(offsets[1:] < offsets[:-1]):
            raise _damaged("word_offsets must not fall", "offsets that do")
        return self._arrays["word_bytes"], offsets

    @cached_property
    def lookup(self) -> kernels.Words:
        """The arrays that the kernels look words up in."""
        word_bytes, offsets = map(np.ascontiguousarray, self.arrays)
        if "hash_table" in self._arrays:
            table = self._stored_hash_table()
        else:
            table = self._build_hash_table(word_bytes, offsets)
        return kernels.Words(table, word_bytes, offsets)

    def _stored_hash_table(self) -> np.ndarray:
        """The hash table of a file; a damaged one must not send the kernels out of their arrays."""
        table = np.ascontiguousarray(self._arrays["hash_table"])
        numbers = table[:, 1]
        if np.count_nonzero(numbers) != self.n_words or numbers.max() > self.n_words:
            raise _damaged(
                f"hash_table and word_offsets must be of the same {self.n_words:,} words",
                "arrays that do not fit",
            )
        return table

    def _build_hash_table(self, word_bytes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        table, duplicate_id = kernels.build_table(word_bytes, offsets, n_slots(self.n_words))
        if duplicate_id >= 0:
            raise ValueError(
                f"words must be all different. Got {self.word(duplicate_id)!r} a second time "
                f"at {duplicate_id} instead. Keep one of them."
            )
        return table

    @cached_property
    def words(self) -> list[str]:
        """The words; position is the token id."""
        if self._list is not None:
            return self._list

        word_bytes, offsets = self.arrays
        data = word_bytes.tobytes()
        spans = itertools.pairwise(offsets.tolist())
        if data.isascii():
            letters = data.decode()
            return [letters[start:stop] for start, stop in spans]
        return [_decode(data[start:stop], i) for i, (start, stop) in enumerate(spans)]

    @cached_property
    def index(self) -> dict[str, int]:
        """Word to id."""
        return {word: i for i, word in enumerate(self.words)}

    def word(self, i: int) -> str:
        """One word, without decoding the others."""
        if self._list is not None:
            return self._list[i]

        word_bytes, offsets = self.arrays
        data = word_bytes[offsets[i] : offsets[i + 1]].tobytes()
        return _decode(data, i)

    def id_of(self, word: str) -> int:
        """Id of a word, -1 where it is unknown; without making `index` for a table of a file."""
        if self._list is not None or "index" in self.__dict__:
            return self.index.get(word, -1)

        data, starts = concat_utf8([word])
        ids = self.ids_of(data, starts)
        return int(ids[0])

    def ids_of(self, data: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Ids of words that lie one after the other in UTF-8, -1 for unknown ones."""
        return kernels.find_words(data, starts, self.lookup)

    def check(self) -> None:
        """Raise ValueError unless every word is found at its own id."""
        ids = self.ids_of(*self.arrays)
        wrong = np.flatnonzero(ids != np.arange(self.n_words))
        if wrong.size:
            i = int(wrong[0])
            problem = f"{ids[i]} for {self.word(i)!r} at {i}"
            raise _damaged("Every word must be found at its own number", problem)


def concat_utf8(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Words one after the other in UTF-8, and where each begins and ends."""
    joined = "".join(words)
    data = np.frombuffer(joined.encode("utf-8", "surrogatepass"), dtype=np.uint8)

    parts: Sequence = words
    if not joined.isascii():
        parts = [word.encode("utf-8", "surrogatepass") for word in words]
    lengths = np.fromiter(map(len, parts), np.int64, len(words))  # in bytes
    offsets = np.zeros(len(words) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return data, offsets


def is_memory_mapped(array: np.ndarray) -> bool:
    """True if an array, or what it is a view of, lies in a file."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if isinstance(owner, np.memmap):
            return True
        owner = owner.base
    return False


def n_slots(n_words: int) -> int:
    """Rows of a hash table for this number of words, at most half full."""
    return 1 << max(1, (2 * n_words - 1).bit_length())


def _decode(word: bytes, i: int) -> str:
    """The word at position `i`."""
    try:
        return word.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise _damaged("Words must be UTF-8", f"{word[:40]!r} at {i}") from None


def _damaged(rule: str, problem: str) -> ValueError:
    return ValueError(
        f"{rule}. Got {problem} instead. The file it comes from is damaged: copy or save it again."
    )
