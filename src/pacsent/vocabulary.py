"""Vocabulary and Corpus: words, counts, and the way from text to token ids.

`Vocabulary` turns sentences into ids or into a count matrix; `Corpus` counts the words of a text of
any size and keeps it as ids on disk, for training.
"""

import hashlib
import itertools
import json
import os
import queue
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from pacsent import progress, text

_BATCH = 1 << 20  # characters that one thread takes at a time


class LowCoverageWarning(UserWarning):
    """Most words of a text are not in the vocabulary: it is likely the wrong one."""


class Encoded(NamedTuple):
    """Sentences as token ids: sentence s is ids[offsets[s]:offsets[s + 1]], unknown words left out.

    Every vectorizer takes an `Encoded` where it takes an iterable of sentences.
    """

    ids: np.ndarray  # (n_tokens,) int32
    offsets: np.ndarray  # (n_sentences + 1,) int64
    n_unknown: np.ndarray  # (n_sentences,) int64, tokens that are not in the vocabulary

    @property
    def n_sentences(self) -> int:
        return self.offsets.size - 1

    @property
    def coverage(self) -> float:
        """Known tokens over all tokens; nan when there is no token at all."""
        n_all = self.ids.size + int(self.n_unknown.sum())
        return self.ids.size / n_all if n_all else float("nan")

    def warn_if_low_coverage(self, vocabulary: "Vocabulary | None" = None, stacklevel: int = 2):
        """Warn once where under half of the tokens are known, and name the likely cause."""
        if not self.coverage < 0.5:  # nan, no token at all, is no reason to warn
            return
        n_all = self.ids.size + int(self.n_unknown.sum())
        cause = "another normalisation (case, punctuation) or another language than this text"
        if vocabulary is not None:
            cause = vocabulary._likely_cause()
        warnings.warn(
            f"Only {100 * self.coverage:.0f} % of these {n_all:,} tokens are in the vocabulary. "
            f"The likely cause: {cause}. Coverage is fine from about 90 %.",
            LowCoverageWarning,
            stacklevel=stacklevel + 1,
        )


class Vocabulary:
    """Words and their counts, most frequent first; frozen.

    Parameters
    ----------
    words : sequence of str
        The words, all different; position is the token id.
    counts : array of int, shape (n_words,), or None
        How often each occurred in the source corpus. None when unknown: never invented.
    normalise : {"paper", "unicode"} or callable str -> list of str, default="paper"
        How raw text becomes tokens. "paper": letters a-z of either case, each digit spelled out as
        a word, everything else a separator. "unicode": NFKC, case-folded, words of any language,
        numbers kept (`pacsent.text.tokenise_unicode`). A callable is for vectors that came with
        their own tokenisation; it cannot be saved.

    Examples
    --------
    >>> vocabulary = Vocabulary(["film", "good", "six"], [40, 30, 2])
    >>> vocabulary.encode(["Good film, 6 stars"])
    Encoded(ids=array([1, 0, 2], dtype=int32), offsets=array([0, 3]), n_unknown=array([1]))
    """

    def __init__(
        self,
        words: Sequence[str],
        counts=None,
        *,
        normalise: str | Callable[[str], list[str]] = "paper",
    ):
        self._words: list[str] | None = list(words)
        if others := [word for word in self._words if not isinstance(word, str)]:
            raise TypeError(f"words must be str. Got {others[0]!r} instead.")
        index = {word: i for i, word in enumerate(self._words)}
        if len(index) != len(self._words):
            i = next(i for i, word in enumerate(self._words) if index[word] != i)
            raise ValueError(
                f"words must be all different. Got {self._words[i]!r} at {i} and at "
                f"{index[self._words[i]]} instead. Keep one of them."
            )
        self._n_words = len(index)
        self._index: dict[str, int] | None = index
        self._checked = False  # whether the hash table is known to be sound
        self._arrays: dict[str, np.ndarray] = {}
        self._finish(counts, normalise)

    def _finish(self, counts, normalise):
        if not callable(normalise) and normalise not in text.TOKENISERS:
            raise ValueError(
                f"normalise must be one of {sorted(text.TOKENISERS)} or a callable str -> list of "
                f"str. Got {normalise!r} instead."
            )
        if counts is not None:
            counts = np.asarray(counts)
            if counts.dtype != np.int64:  # an array from a file stays where it is
                counts = counts.astype(np.int64)
            if counts.shape != (self._n_words,):
                raise ValueError(
                    f"counts must have one number for each of the {self._n_words:,} words. "
                    f"Got an array of shape {counts.shape} instead."
                )
        self.counts: np.ndarray | None = counts
        self.normalise = normalise

    @classmethod
    def from_bytes(
        cls, word_bytes, word_offsets, counts=None, normalise="paper", *, hash_table=None
    ) -> "Vocabulary":
        """From words that lie one after the other in an array; nothing is copied or decoded now.

        Parameters
        ----------
        word_bytes : array of uint8
            The words in UTF-8, without anything between them.
        word_offsets : array of int64, shape (n_words + 1,)
            Word i is word_bytes[word_offsets[i]:word_offsets[i + 1]].
        hash_table : array of uint64, shape (n_slots, 2), or None
            As given by `arrays`; None builds it when it is first needed.
        """
        made = cls.__new__(cls)
        made._n_words = len(word_offsets) - 1
        if made._n_words < 0 or word_offsets[0] != 0 or word_offsets[-1] != len(word_bytes):
            raise ValueError(
                "word_offsets must go from 0 to the size of word_bytes, "
                f"{len(word_bytes):,}. Got {len(word_offsets):,} offsets that do not instead. "
                "The file they come from is damaged."
            )
        made._words = None
        made._index = None
        made._checked = False
        made._arrays = {"word_bytes": word_bytes, "word_offsets": word_offsets}
        if hash_table is not None:
            n_slots = len(hash_table)
            if hash_table.ndim != 2 or n_slots & (n_slots - 1) or n_slots <= made._n_words:
                raise ValueError(
                    "hash_table must have two columns and a power of two of rows, more than "
                    f"n_words={made._n_words:,}. Got shape {hash_table.shape} instead. "
                    "Leave it out, and it is built again."
                )
            made._arrays["hash_table"] = hash_table
        made._finish(counts, normalise)
        return made

    def arrays(self) -> dict[str, np.ndarray]:
        """word_bytes, word_offsets, hash_table and, where known, counts: what a file stores."""
        self._table()
        arrays = dict(self._arrays)
        if self.counts is not None:
            arrays["counts"] = self.counts
        return arrays

    @classmethod
    def from_arrays(cls, arrays, normalise="paper") -> "Vocabulary":
        """From what `arrays` gave; opens at once, whatever the number of words."""
        return cls.from_bytes(
            arrays["word_bytes"],
            arrays["word_offsets"],
            arrays.get("counts"),
            normalise,
            hash_table=arrays.get("hash_table"),
        )

    def _table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the kernels look words up in: (hash_table, word_bytes, word_offsets)."""
        arrays = self._arrays
        if "word_bytes" not in arrays:
            arrays["word_bytes"], arrays["word_offsets"] = _joined(self.words)
        if "hash_table" not in arrays:
            from pacsent._kernels import text as kernels

            table = np.zeros((_n_slots(self._n_words), 2), dtype=np.uint64)
            with np.errstate(over="ignore"):  # the hash wraps around on purpose
                twice = kernels.build_table(
                    table, _frozen(arrays["word_bytes"]), _frozen(arrays["word_offsets"])
                )
            if twice >= 0:
                raise ValueError(
                    f"words must be all different. Got {self._word(twice)!r} a second time at "
                    f"{twice} instead. Keep one of them."
                )
            arrays["hash_table"] = table
        elif not self._checked:  # a damaged file must not send the kernels out of their arrays
            filled = arrays["hash_table"][:, 1]
            offsets = arrays["word_offsets"]
            if (
                np.count_nonzero(filled) != self._n_words
                or filled.max() > self._n_words
                or np.any(offsets[1:] < offsets[:-1])
            ):
                raise ValueError(
                    f"hash_table and word_offsets must be of the same {self._n_words:,} words. Got "
                    "arrays that do not fit instead. The file they come from is damaged."
                )
        self._checked = True
        return (
            _frozen(arrays["hash_table"]),
            _frozen(arrays["word_bytes"]),
            _frozen(arrays["word_offsets"]),
        )

    def _word(self, i: int) -> str:
        if self._words is not None:
            return self._words[i]
        offsets = self._arrays["word_offsets"]
        word = self._arrays["word_bytes"][offsets[i] : offsets[i + 1]]
        return word.tobytes().decode("utf-8", "surrogatepass")

    @property
    def words(self) -> list[str]:
        """The words; position is the token id."""
        if self._words is None:
            data = self._arrays["word_bytes"].tobytes()
            ends = self._arrays["word_offsets"].tolist()
            if data.isascii():
                whole = data.decode()
                self._words = [whole[a:b] for a, b in itertools.pairwise(ends)]
            else:
                self._words = [
                    data[a:b].decode("utf-8", "surrogatepass") for a, b in itertools.pairwise(ends)
                ]
        return self._words

    @property
    def index(self) -> dict[str, int]:
        """Word to id, for many words; `id_of` looks up one without making this dict."""
        if self._index is None:
            self._index = {word: i for i, word in enumerate(self.words)}
        return self._index

    def id_of(self, word: str) -> int:
        """Id of a word, -1 where it is unknown."""
        if self._index is not None:
            return self._index.get(word, -1)
        from pacsent._kernels import text as kernels

        data, starts = _joined([word])
        with np.errstate(over="ignore"):
            return int(kernels.find_words(data, starts, self._table())[0])

    def __getstate__(self):
        state = dict(self.__dict__)
        if state["_arrays"]:
            state["_arrays"] = {k: v for k, v in self._arrays.items() if k != "hash_table"}
            state["_words"] = None
        state["_index"] = None  # made again when it is needed
        return state

    @property
    def normalise_name(self) -> str | None:
        """Name of the normalisation as it is stored; None for a callable, which cannot be."""
        return self.normalise if isinstance(self.normalise, str) else None

    def __len__(self) -> int:
        return self._n_words

    def __contains__(self, word) -> bool:
        return isinstance(word, str) and self.id_of(word) >= 0

    def __repr__(self) -> str:
        return (
            f"Vocabulary(n_words={len(self)}, normalise={self.normalise_name or self.normalise!r})"
        )

    def __sklearn_clone__(self):
        return self

    @property
    def n_words(self) -> int:
        return len(self)

    @property
    def n_tokens(self) -> int:
        """Tokens counted in the source corpus."""
        return int(self._known_counts("n_tokens").sum())

    def _known_counts(self, what: str) -> np.ndarray:
        if self.counts is None:
            raise ValueError(
                f"{what} needs word counts, and this vocabulary has none. Read the vectors "
                "together with their counts (a vocab.tsv), or pass counts to Vocabulary."
            )
        return self.counts

    def keep_probabilities(self, subsample: float) -> np.ndarray:
        """Chance to keep a word: min(1, (sqrt(f/t) + 1) t/f), f = count/n_tokens, t = subsample."""
        counts = self._known_counts("sub-sampling")
        if subsample == 0:
            return np.ones(len(self))
        threshold = subsample * counts.sum()
        counts = np.maximum(counts, 1)
        return np.minimum(1.0, (np.sqrt(counts / threshold) + 1.0) * threshold / counts)

    def noise_probabilities(self, power: float = 0.75) -> np.ndarray:
        """p_n(w) proportional to count(w)^power."""
        weights = self._known_counts("the noise distribution").astype(float) ** power
        return weights / weights.sum()

    def _likely_cause(self) -> str:
        """Why a text may have so few words of this vocabulary, judged by its frequent words."""
        words = [self._word(i) for i in range(min(len(self), 2000))]
        n_plain = sum(bool(word) and set(word) <= _LETTERS for word in words)
        made_from = "Vocabulary(..., normalise=your_tokeniser)"
        if self.normalise_name == "paper" and n_plain < 0.9 * len(words):
            odd = next(word for word in words if not (word and set(word) <= _LETTERS))
            return (
                f"its words were made in another way than normalise='paper' does (it has {odd!r}; "
                "cased words, punctuation, numbers or another alphabet): use normalise='unicode', "
                f"or the tokenisation the vectors came with, {made_from}"
            )
        if self.normalise_name == "unicode" and any(word != word.casefold() for word in words):
            odd = next(word for word in words if word != word.casefold())
            return f"its words are cased (it has {odd!r}): use {made_from}"
        return (
            "the text is in another language or of another kind than the vocabulary, or token "
            "lists were made in another way than its words (case, punctuation)"
        )

    def tokens(self, sentence: str | Sequence[str]) -> Sequence[str]:
        """Tokens of one sentence; a token list is taken as it is."""
        if not isinstance(sentence, str):
            return sentence
        if callable(self.normalise):
            return self.normalise(sentence)
        return text.TOKENISERS[self.normalise](sentence)

    def encode(self, X: Iterable[str | Sequence[str]], *, n_jobs: int | None = None) -> Encoded:
        """Sentences to token ids.

        Parameters
        ----------
        X : iterable of str or of token lists, or Encoded
            Strings are normalised as this vocabulary says, token lists taken as they are. A
            generator is read piece by piece. An `Encoded` is given back.
        n_jobs : int or None
            Threads for long input; None takes all cores. The result is the same for any number.
        """
        if isinstance(X, Encoded):
            return X
        batches = _batches(X)
        words = self._table() if self.normalise_name else None
        parts = list(text.in_order(lambda batch: self._encode(batch, words), batches, n_jobs))
        if not parts:
            parts = [Encoded(np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(0, np.int64))]
        if len(parts) == 1:
            return parts[0]
        sizes = np.cumsum([0] + [part.ids.size for part in parts])
        offsets = [part.offsets[1:] + size for part, size in zip(parts, sizes)]
        return Encoded(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([np.zeros(1, dtype=np.int64), *offsets]),
            np.concatenate([part.n_unknown for part in parts]),
        )

    def _encode(self, batch: "_Batch", words) -> Encoded:
        """One batch: by the compiled tokenisers where they apply, else by the dict."""
        from pacsent._kernels import text as kernels

        if batch.raw and self.normalise == "paper":
            data, bounds = _ascii(batch.sentences)
            n_sentences = len(batch.sentences)
            ids = np.empty(data.size, dtype=np.int32)
            offsets = np.zeros(n_sentences + 1, dtype=np.int64)
            n_unknown = np.zeros(n_sentences, dtype=np.int64)
            with np.errstate(over="ignore"):  # the hash wraps around on purpose
                n = kernels.encode_paper(data, bounds, words, ids, offsets, n_unknown)
            return Encoded(ids[:n].copy(), offsets, n_unknown)
        if batch.raw and self.normalise == "unicode":
            with np.errstate(over="ignore"):
                ids, ends = _unicode_ids(
                    batch.sentences, lambda data, starts: kernels.find_words(data, starts, words)
                )
        else:
            lists = [self.tokens(sentence) for sentence in batch.sentences]
            ends = np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))
            known = map(self.index.get, itertools.chain.from_iterable(lists), itertools.repeat(-1))
            ids = np.fromiter(known, dtype=np.int32)
        n_known = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(ids >= 0)])
        ends = np.concatenate([np.zeros(1, dtype=np.int64), ends])
        offsets = n_known[ends]
        return Encoded(ids[ids >= 0], offsets, np.diff(ends) - np.diff(offsets))

    def digest(self, X) -> str:
        """sha256 over three sha256: of the words, of the token ids and of the offsets.

        The same text under the same vocabulary has the same digest, and a `Corpus` has that of its
        documents. It catches the same text, not an overlap.
        """
        ids, offsets, _ = self.encode(X)
        return _digest(self, hashlib.sha256(_bytes(ids, "<i4")), offsets)

    def count(self, X, *, dtype=np.float64) -> sparse.csr_matrix:
        """Sentences to a sparse count matrix, (n_sentences, n_words)."""
        ids, offsets, _ = self.encode(X)
        shape = (offsets.size - 1, len(self))
        # ids are copied: summing duplicates works in place, and an Encoded belongs to the caller
        matrix = sparse.csr_matrix(
            (np.ones(ids.size, dtype=dtype), np.array(ids), offsets), shape=shape
        )
        matrix.sum_duplicates()
        return matrix


_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")


def _joined(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Words one after the other in UTF-8, and where each begins and ends."""
    whole = "".join(words)
    offsets = np.zeros(len(words) + 1, dtype=np.int64)
    if whole.isascii():
        np.cumsum(np.fromiter(map(len, words), dtype=np.int64, count=len(words)), out=offsets[1:])
    else:
        sizes = (len(word.encode("utf-8", "surrogatepass")) for word in words)
        np.cumsum(np.fromiter(sizes, dtype=np.int64, count=len(words)), out=offsets[1:])
    return np.frombuffer(whole.encode("utf-8", "surrogatepass"), dtype=np.uint8), offsets


def _unicode_ids(sentences: list[str], ids_of: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Ids of the tokens of the unicode normalisation, and how many there are after each sentence.

    `ids_of(data, starts)` gives the ids of joined tokens. Sentences in ASCII go through a compiled
    tokeniser, the others through the standard library's Unicode functions.
    """
    plain = np.fromiter(map(str.isascii, sentences), dtype=bool, count=len(sentences))
    ids, n_tokens = [], np.zeros(len(sentences), dtype=np.int64)
    for rows, tokens_of in ((plain, _plain_tokens), (~plain, _other_tokens)):
        if rows.any():
            data, starts, n_tokens[rows] = tokens_of(list(itertools.compress(sentences, rows)))
            ids.append(ids_of(_frozen(data), starts))
    if len(ids) == 1:
        return ids[0], np.cumsum(n_tokens)
    # two sorted runs: the stable sort merges them in one go
    rows = np.concatenate([np.flatnonzero(plain), np.flatnonzero(~plain)])
    order = np.argsort(np.repeat(rows, n_tokens[rows]), kind="stable")
    return np.concatenate(ids)[order], np.cumsum(n_tokens)


def _other_tokens(sentences: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens one after the other, where each begins, and how many each sentence has."""
    lists = [text.tokenise_unicode(sentence) for sentence in sentences]
    data, starts = _joined(list(itertools.chain.from_iterable(lists)))
    return data, starts, np.fromiter(map(len, lists), np.int64, len(lists))


def _plain_tokens(sentences: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same, compiled, for sentences in ASCII."""
    from pacsent._kernels import text as kernels

    data, bounds = _ascii(sentences)
    out = np.empty(data.size, dtype=np.uint8)
    starts = np.empty(data.size + 2, dtype=np.int64)
    ends = np.empty(len(sentences), dtype=np.int64)
    n = kernels.split_ascii(data, bounds, out, starts, ends)
    return out[: starts[n]], starts[: n + 1], np.diff(ends, prepend=0)


def _frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view: for numba, arrays that may be written to are another type to compile."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _n_slots(n_words: int) -> int:
    """Rows of a hash table for so many words, at most half full."""
    return 1 << max(1, (2 * n_words - 1).bit_length())


def _bytes(array: np.ndarray, dtype: str):
    return np.ascontiguousarray(array, dtype=dtype).data


def _digest(vocabulary: Vocabulary, of_ids, offsets: np.ndarray) -> str:
    _, word_bytes, word_offsets = vocabulary._table()
    of_words = hashlib.sha256(word_bytes.data)
    of_words.update(_bytes(word_offsets, "<i8"))
    of_offsets = hashlib.sha256(_bytes(offsets, "<i8"))
    return hashlib.sha256(of_words.digest() + of_ids.digest() + of_offsets.digest()).hexdigest()


# ------------------------------------------------------------------------------------------------
# many sentences in batches, on all cores
# ------------------------------------------------------------------------------------------------


class _Batch(NamedTuple):
    sentences: list  # all str, or all token lists
    raw: bool  # whether they are str


def _batches(X: Iterable) -> Iterator[_Batch]:
    """Sentences in lists of about _BATCH characters, strings and token lists apart."""
    if isinstance(X, str):
        raise ValueError(
            f"X must be an iterable of sentences. Got the single string {X[:40]!r} instead. "
            f"Pass [{X[:40]!r}] to embed one sentence."
        )
    if getattr(X, "ndim", 1) != 1:
        raise ValueError(
            f"X must be an iterable of sentences. Got a table of shape {X.shape} instead. "  # type: ignore[attr-defined]
            "Pass the one column that holds the text."
        )
    try:
        sentences = iter(X)
    except TypeError:
        raise TypeError(
            f"X must be an iterable of sentences. Got {type(X).__name__} instead."
        ) from None
    size, n_before = 16, 0
    if isinstance(X, list) and len(X) <= 1 << 12 and _all_strings(X) and _size(X) <= _BATCH:
        size = max(1, len(X))  # the usual case, a list of modest size: one batch
    while block := list(itertools.islice(sentences, size)):
        if _all_strings(block):
            yield _Batch(block, True)
        else:
            for raw, group in itertools.groupby(block, lambda sentence: isinstance(sentence, str)):
                found = list(group)
                if not raw:
                    _check_token_lists(found, n_before)
                yield _Batch(found, raw)
        n_before += len(block)
        # the sentences met so far tell how many make a batch
        n_characters = _size(block)
        size = min(max(1, size * _BATCH // max(n_characters, 1)), 4 * size, 1 << 16)


def _all_strings(sentences: list) -> bool:
    return set(map(type, sentences)) == {str}


def _size(sentences: list) -> int:
    return sum(map(len, sentences))


def _check_token_lists(sentences: list, n_before: int):
    for i, tokens in enumerate(sentences):
        if isinstance(tokens, list | tuple | np.ndarray) and all(
            isinstance(token, str) for token in tokens
        ):
            continue
        raise TypeError(
            "A sentence must be a str or a list of str. Got "
            f"{type(tokens).__name__} {str(tokens)[:40]!r} about sentence {n_before + i} instead."
        )


def _ascii(sentences: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Strings as one array with a byte a character, and where each begins and ends.

    What is not ASCII becomes '?': a separator for a separator. So lengths in characters are
    lengths in bytes, and no mark between the strings is needed.
    """
    data = np.frombuffer("".join(sentences).encode("ascii", "replace"), dtype=np.uint8)
    bounds = np.zeros(len(sentences) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)), out=bounds[1:])
    return data, bounds


# ------------------------------------------------------------------------------------------------
# corpora of any size
# ------------------------------------------------------------------------------------------------


class Corpus:
    """A text turned once into token ids on disk, memory-mapped: what every epoch reads.

    `Corpus.build` makes it, `Corpus.open` opens it. A line of a file is a document, whatever its
    length, and so is each text. Words rarer than `min_count` are left out of `ids` and counted in
    `n_unknown`.

    Attributes
    ----------
    vocabulary : Vocabulary
        Most frequent first; words of equal count in the order of their UTF-8 bytes.
    ids : memmap of int32, shape (n_tokens,)
    offsets : memmap of int64, shape (n_documents + 1,)
        Document s is ids[offsets[s]:offsets[s + 1]].
    n_tokens, n_unknown : int
        Tokens in `ids`; tokens of words that are not in the vocabulary.
    n_documents : int
    min_count : int
    digest : str
        The same as `vocabulary.digest(documents)`.

    Notes
    -----
    The folder holds corpus.json (the numbers above), vocabulary.tsv (word and count, most frequent
    first), ids.i32 and offsets.i64 (little-endian).
    """

    def __init__(self, directory):
        self.directory = Path(directory)
        if not (self.directory / "corpus.json").is_file():
            raise FileNotFoundError(
                f"A corpus must be a folder with a corpus.json. Got {directory} instead. "
                "Make one with Corpus.build."
            )
        about = json.loads((self.directory / "corpus.json").read_text(encoding="utf-8"))
        if about.get("format_version") != 1:
            raise ValueError(
                "The corpus must have format version 1. Got "
                f"{about.get('format_version')!r} in {directory} instead. Build it again, or use "
                "the version of pacsent that made it."
            )
        self.n_tokens: int = about["n_tokens"]
        self.n_unknown: int = about["n_unknown"]
        self.n_documents: int = about["n_documents"]
        self.min_count: int = about["min_count"]
        self.digest: str = about["digest"]
        self.ids = self._mapped("ids.i32", "<i4", self.n_tokens)
        self.offsets = self._mapped("offsets.i64", "<i8", self.n_documents + 1)
        words, counts = [], []
        for line in (self.directory / "vocabulary.tsv").read_bytes().split(b"\n")[:-1]:
            word, _, count = line.rpartition(b"\t")
            words.append(word.decode("utf-8", "surrogatepass"))
            counts.append(int(count))
        normalise = about["normalise"]
        if normalise is None:  # built with a callable, which a file cannot hold
            normalise = _forgotten
        self.vocabulary = Vocabulary(words, counts, normalise=normalise)

    def _mapped(self, name: str, dtype: str, size: int) -> np.ndarray:
        path = self.directory / name
        if path.stat().st_size != size * np.dtype(dtype).itemsize:
            raise ValueError(
                f"{path} must have {size * np.dtype(dtype).itemsize:,} bytes. Got "
                f"{path.stat().st_size:,} instead. The corpus is damaged: build it again."
            )
        return np.memmap(path, dtype=dtype, mode="r", shape=(size,)) if size else np.zeros(0, dtype)

    def __repr__(self) -> str:
        return (
            f"Corpus(n_documents={self.n_documents}, n_tokens={self.n_tokens}, "
            f"n_words={len(self.vocabulary)}, n_unknown={self.n_unknown})"
        )

    @classmethod
    def open(cls, directory) -> "Corpus":
        """Open a corpus made by `build`."""
        return cls(directory)

    @classmethod
    def build(
        cls,
        source,
        directory,
        min_count: int = 5,
        normalise: str | Callable[[str], list[str]] = "paper",
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> "Corpus":
        """Count the words of a text of any size, give them ids, write the folder.

        The text is read once, tokenised on all cores into provisional ids on disk, and these are
        renumbered when the counts are known: exact, and of the text only a few pieces are ever in
        memory. What is held is every distinct word once for each thread.

        Parameters
        ----------
        source : path, '-' for stdin, list of Path, or iterable of str or of token lists
            Files may be packed (.gz, .bz2, .xz, .zst). Of a file each line is a document, of an
            iterable each element.
        directory : path
            The folder to write; written beside its place and moved there when whole. An older
            corpus there is replaced, anything else is not.
        min_count : int, default=5
            Words that occur less often are left out.
        normalise : {"paper", "unicode"} or callable, default="paper"
            See `Vocabulary`.
        n_jobs : int or None
            Threads; None takes all cores. The folder is the same for any number.
        verbose : bool, default=False
            Whether to show the progress on stderr.
        """
        if not isinstance(min_count, int | np.integer) or min_count < 1:
            raise ValueError(
                f"min_count must be an integer of at least 1. Got {min_count!r} instead."
            )
        empty = Vocabulary([], normalise=normalise)  # checks and holds the normalisation
        directory = Path(os.path.realpath(directory))
        _check_place(directory)
        partial = directory.with_name(f".{directory.name}.{os.getpid()}.part")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            partial.mkdir(parents=True)
        except OSError as error:
            raise type(error)(
                f"The corpus must go where a folder can be written. Got {directory} instead "
                f"({error.strerror}). Choose another place."
            ) from None
        try:
            with _Counting(partial, empty, text.n_threads(n_jobs)) as counting:
                counting.read(source, verbose)
                counting.write(int(min_count), verbose)
            if directory.exists():
                old = directory.with_name(f".{directory.name}.{os.getpid()}.old")
                os.replace(directory, old)
                os.replace(partial, directory)
                shutil.rmtree(old)
            else:
                os.replace(partial, directory)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        corpus = cls(directory)
        corpus.vocabulary.normalise = normalise  # a callable is known here, if not to the file
        return corpus


def _forgotten(sentence: str) -> list[str]:
    raise ValueError(
        "Raw text needs the tokeniser this corpus was built with, a function, which a file cannot "
        "hold. Pass token lists, or set it: Vocabulary(words, counts, normalise=your_tokeniser)."
    )


def _check_place(directory: Path):
    if not directory.exists() or (directory / "corpus.json").is_file():
        return
    if directory.is_dir() and not any(directory.iterdir()):
        return
    raise ValueError(
        f"The corpus must go to a new folder or replace an older corpus. Got {directory}, which "
        "holds something else, instead. Choose another name."
    )


class _Work(NamedTuple):
    """A piece of the source for one thread: bytes of a-z words, or documents for the tokeniser."""

    data: Any  # uint8 array, or list of documents
    bounds: np.ndarray | None  # where documents begin and end in the array
    n_ends: int  # how many documents end here; the last one may go on in the next piece


class _Span(NamedTuple):
    """Where the provisional ids and the document ends of a piece are."""

    counter: int
    first_id: int
    n_ids: int
    first_end: int
    n_ends: int


class _Counter:
    """One thread's words, counts and files of provisional ids."""

    def __init__(self, number: int, folder: Path):
        from pacsent._kernels import text as kernels

        self.kernels = kernels
        self.number = number
        names = text._DIGIT_NAMES  # the kernel wants them first
        word_bytes, word_offsets = _joined(names)
        self.n_words = len(names)
        self.word_bytes = word_bytes.copy()
        self.word_offsets = word_offsets
        self.counts = np.zeros(self.n_words, dtype=np.int64)
        self.table = np.zeros((0, 2), dtype=np.uint64)
        self.n_ids = self.n_ends = 0
        self.ids_path = folder / f"ids.{number}"
        self.ends_path = folder / f"ends.{number}"
        self.ids_file = open(self.ids_path, "wb")  # noqa: SIM115 (closed by close)
        self.ends_file = open(self.ends_path, "wb")  # noqa: SIM115

    def close(self):
        self.ids_file.close()
        self.ends_file.close()

    def _make_room(self, n_words: int, n_bytes: int):
        """Room for so many more words in the arrays and the table."""
        need = self.n_words + n_words
        if self.counts.size < need:
            grown = max(need, 2 * self.counts.size)
            self.counts = _grown(self.counts, grown)
            self.word_offsets = _grown(self.word_offsets, grown + 1)
        n_used = int(self.word_offsets[self.n_words])
        if self.word_bytes.size < n_used + n_bytes:
            self.word_bytes = _grown(
                self.word_bytes, max(n_used + n_bytes, 2 * self.word_bytes.size)
            )
        if len(self.table) < _n_slots(need):
            self.table = np.zeros((_n_slots(need), 2), dtype=np.uint64)
            offsets = self.word_offsets[: self.n_words + 1]
            self.kernels.build_table(self.table, _frozen(self.word_bytes), _frozen(offsets))

    @property
    def words(self):
        return self.table, self.word_bytes, self.word_offsets

    def add(self, work: _Work, vocabulary: Vocabulary) -> _Span:
        """Provisional ids of a piece, to the files."""
        with np.errstate(over="ignore"):  # the hash wraps around on purpose
            return self._add(work, vocabulary)

    def _add(self, work: _Work, vocabulary: Vocabulary) -> _Span:
        if work.bounds is not None:
            n_bytes = work.data.size
            self._make_room(n_bytes // 2 + 1, n_bytes)
            ids = np.empty(n_bytes, dtype=np.int32)
            ends = np.empty(work.bounds.size - 1, dtype=np.int64)
            n, self.n_words = self.kernels.count_paper(
                work.data, work.bounds, self.words, self.counts, self.n_words, ids, ends
            )
            ids = ids[:n]
        else:
            if vocabulary.normalise == "unicode" and isinstance(work.data[0], str):
                ids, ends = _unicode_ids(work.data, self.add_words)
            else:
                lists = [vocabulary.tokens(document) for document in work.data]
                ends = np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))
                ids = self.add_words(*_joined(list(itertools.chain.from_iterable(lists))))
            self.counts += np.bincount(ids, minlength=self.counts.size)
        span = _Span(self.number, self.n_ids, ids.size, self.n_ends, work.n_ends)
        self.ids_file.write(ids.data)
        self.ends_file.write(ends[: work.n_ends].data)
        self.n_ids += ids.size
        self.n_ends += work.n_ends
        return span

    def add_words(self, data: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Ids of words given one by one, new ones added."""
        with np.errstate(over="ignore"):
            self._make_room(starts.size - 1, data.size)
            ids, self.n_words = self.kernels.merge_words(data, starts, self.words, self.n_words)
        return ids


def _grown(array: np.ndarray, size: int) -> np.ndarray:
    grown = np.zeros(size, dtype=array.dtype)
    grown[: array.size] = array
    return grown


class _Counting:
    """The two passes of Corpus.build: text to provisional ids, these to final ones."""

    def __init__(self, folder: Path, empty: Vocabulary, n_threads: int):
        self.folder, self.empty, self.n_threads = folder, empty, n_threads
        self.counters = [_Counter(i, folder) for i in range(n_threads)]
        self.spans: list[_Span] = []
        self.n_documents = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for counter in self.counters:
            counter.close()
            counter.ids_path.unlink(missing_ok=True)
            counter.ends_path.unlink(missing_ok=True)

    def read(self, source, verbose: bool):
        """Pass 1: words get provisional ids, each thread its own."""
        free: queue.SimpleQueue = queue.SimpleQueue()
        for counter in self.counters:
            free.put(counter)

        def add(work):
            counter = free.get()
            try:
                return counter.add(work, self.empty)
            finally:
                free.put(counter)

        for span in text.in_order(add, self._pieces(source, verbose), self.n_threads):
            self.spans.append(span)
            self.n_documents += span.n_ends
        for counter in self.counters:
            counter.close()

    def _pieces(self, source, verbose: bool) -> Iterator[_Work]:
        if isinstance(source, str | os.PathLike):
            yield from self._files([source], verbose)
            return
        source = iter(source)
        first = next(source, None)
        if isinstance(first, os.PathLike):
            yield from self._files([first, *source], verbose)
            return
        head = [] if first is None else [first, *itertools.islice(source, 9)]
        if head and all(isinstance(item, str) and _is_file(item) for item in head):
            raise ValueError(
                f"The source must be texts, or Path objects for files. Got strings like "
                f"{first!r}, which name files, instead. Pass [Path({first!r}), ...] to read them."
            )
        with progress.bar("Counting words", unit="documents", enabled=verbose) as bar:
            for batch in _batches(itertools.chain(head, source)):
                n = len(batch.sentences)
                if batch.raw and self.empty.normalise == "paper":
                    yield _Work(*_ascii(batch.sentences), n)
                else:
                    yield _Work(batch.sentences, None, n)
                bar.advance(n)

    def _files(self, paths: list, verbose: bool) -> Iterator[_Work]:
        total = text.total_size(paths)
        with progress.bar("Counting words", total=total, unit="B", enabled=verbose) as bar:
            n_before = 0
            for path in paths:
                with text.Source(path) as source:
                    for offset, piece in text.pieces(source, _CUTS[self.empty.normalise_name]):
                        yield self._work(piece, source.name, offset)
                        bar.update(n_before + source.consumed)
                    n_before += source.consumed

    def _work(self, piece: bytes, name: str, offset: int) -> _Work:
        closed = piece.endswith(b"\n")
        if self.empty.normalise == "paper":
            data = np.frombuffer(piece, dtype=np.uint8)
            ends = np.flatnonzero(data == ord("\n")) + 1
            bounds = np.concatenate([[0], ends, [] if closed else [data.size]]).astype(np.int64)
            return _Work(data, bounds, ends.size)
        try:
            lines = piece.decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            byte = piece[error.start]
            raise ValueError(text.not_utf8(name, offset + error.start, byte)) from None
        if offset == 0:
            lines[0] = lines[0].removeprefix("\ufeff")
        n_ends = len(lines) - 1
        return _Work(
            [line.removesuffix("\r") for line in lines[: n_ends + (not closed)]], None, n_ends
        )

    def write(self, min_count: int, verbose: bool):
        """Pass 2: final ids in order, and everything else of the folder."""
        everything, *others = self.counters
        counts = everything.counts[: everything.n_words]
        numbers = [np.arange(everything.n_words)]
        for counter in others:
            starts = counter.word_offsets[: counter.n_words + 1]
            word_bytes = _frozen(counter.word_bytes[: starts[-1]])
            numbers.append(everything.add_words(word_bytes, starts))
            counts = _grown(counts, everything.n_words)
            counts[numbers[-1]] += counter.counts[: counter.n_words]
        n_seen = int(counts.sum())
        kept = np.flatnonzero(counts >= min_count)
        if not kept.size:
            raise ValueError(
                f"No word occurs at least min_count={min_count} times in these {n_seen:,} "
                "tokens, so the vocabulary would be empty. Lower min_count or train on more text."
            )
        data = everything.word_bytes.tobytes()
        offsets = everything.word_offsets
        words = {int(i): data[offsets[i] : offsets[i + 1]] for i in kept}
        del data
        kept = np.array(sorted(words, key=lambda i: (-counts[i], words[i])))
        ordered = [words[i] for i in kept.tolist()]
        final = np.full(counts.size, -1, dtype=np.int32)
        final[kept] = np.arange(kept.size)
        finals = [final[number] for number in numbers]

        if broken := [word for word in ordered if b"\n" in word]:
            raise ValueError(
                "A token must be without newlines, as vocabulary.tsv has a word on each line. Got "
                f"{broken[0].decode('utf-8', 'replace')[:40]!r} instead. Split or strip the tokens."
            )
        sizes = np.fromiter(map(len, ordered), np.int64, len(ordered))
        vocabulary = Vocabulary.from_bytes(
            np.frombuffer(b"".join(ordered), dtype=np.uint8),
            np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]),
            counts[kept],
            self.empty.normalise,
        )
        with open(self.folder / "vocabulary.tsv", "wb") as file:
            file.writelines(b"%s\t%d\n" % pair for pair in zip(ordered, counts[kept].tolist()))
        n_tokens, of_ids = self._write_ids(finals, verbose)
        offsets_path = self.folder / "offsets.i64"
        about = {
            "format_version": 1,
            "n_documents": self.n_documents,
            "n_words": kept.size,
            "n_tokens": n_tokens,
            "n_unknown": n_seen - n_tokens,
            "min_count": min_count,
            "normalise": self.empty.normalise_name,
            "digest": _digest(vocabulary, of_ids, np.memmap(offsets_path, dtype="<i8", mode="r")),
        }
        (self.folder / "corpus.json").write_text(json.dumps(about, indent=1) + "\n")

    def _write_ids(self, finals: list[np.ndarray], verbose: bool):
        """ids.i32 and offsets.i64; the number of tokens and the hash of the ids."""
        renumber = self.counters[0].kernels.renumber
        files = [(open(c.ids_path, "rb"), open(c.ends_path, "rb")) for c in self.counters]  # noqa: SIM115

        def pieces():
            for span in self.spans:
                ids_file, ends_file = files[span.counter]
                ids_file.seek(4 * span.first_id)
                ends_file.seek(8 * span.first_end)
                ids = np.fromfile(ids_file, np.int32, span.n_ids)
                yield span.counter, ids, np.fromfile(ends_file, np.int64, span.n_ends)

        def final(piece):
            counter, ids, ends = piece
            return ids[: renumber(ids, ends, finals[counter])], ends

        n_tokens = 0
        of_ids = hashlib.sha256()
        total = sum(span.n_ids for span in self.spans)
        try:
            with (
                open(self.folder / "ids.i32", "wb") as ids_out,
                open(self.folder / "offsets.i64", "wb") as offsets_out,
                progress.bar("Writing ids", total=total, unit="tokens", enabled=verbose) as bar,
            ):
                offsets_out.write(np.zeros(1, "<i8").data)
                for ids, ends in text.in_order(final, pieces(), self.n_threads):
                    little = _bytes(ids, "<i4")
                    of_ids.update(little)
                    ids_out.write(little)
                    offsets_out.write(_bytes(ends + n_tokens, "<i8"))
                    n_tokens += ids.size
                    bar.update(n_tokens)
        finally:
            for pair in files:
                pair[0].close()
                pair[1].close()
        return n_tokens, of_ids


# where a piece of a file may end: between words, so that a document of any length goes through
_CUTS: dict[str | None, Callable[[bytes], int]] = {
    "paper": text.cut_after_letters,
    "unicode": text.cut_at_space,
    None: text.cut_at_newline,  # a function may look at its whole document
}


def _is_file(name: str) -> bool:
    return len(name) < 4096 and "\0" not in name and os.path.isfile(name)
