"""Vocabulary and Corpus: words, counts, and the way from text to token ids.

`Vocabulary` turns sentences into ids or into a count matrix; `Corpus` counts the words of a text of
any size and keeps it as ids on disk, for training.
"""

import hashlib
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from pacsent.maths.noise import noise_probabilities
from pacsent.text.encoded import Encoded, LowCoverageWarning
from pacsent.text.normalise import TOKENISERS, tokenise_unicode
from pacsent.text.texts import as_sentences
from pacsent.threads import in_order
from pacsent.words.spelling import Spelling

_BATCH = 1 << 20  # characters that one thread takes at a time


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
    unknown : {"drop", "nearest"}, default="drop"
        What `encode` does with a word that is not here: leave it out and count it, or take the
        known word it is a misspelling of, where one is near (`pacsent.words.spelling`).

    Examples
    --------
    >>> vocabulary = Vocabulary(["film", "good", "six"], [40, 30, 2])
    >>> vocabulary.encode(["Good film, 6 stars"])
    Encoded(ids=array([1, 0, 2], dtype=int32), offsets=array([0, 3]), n_unknown=array([1]))
    """

    def __init__(
        self,
        words: Sequence[str],
        counts: ArrayLike | None = None,
        *,
        normalise: str | Callable[[str], list[str]] = "paper",
        unknown: str = "drop",
    ):
        self._words: list[str] | None = list(as_sentences(words, "words"))
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
        self._unsound: Callable[[], None] | None = None  # checks arrays of a file before their use
        self._arrays: dict[str, np.ndarray] = {}
        counts = None if counts is None else _whole_counts(counts)
        self._finish(counts, normalise, unknown)

    def _finish(self, counts, normalise, unknown="drop"):
        _check_unknown(unknown)
        if not callable(normalise) and normalise not in TOKENISERS:
            raise ValueError(
                f"normalise must be one of {sorted(TOKENISERS)} or a callable str -> list of "
                f"str. Got {normalise!r} instead."
            )
        if counts is not None:
            counts = np.asarray(counts)
            if counts.dtype.kind not in "iu" and counts.dtype != object:
                _whole_counts(counts)  # floats that are whole numbers are taken
            if counts.dtype != np.int64:  # an array from a file stays where it is
                counts = counts.astype(np.int64)
            if counts.shape != (self._n_words,):
                raise ValueError(
                    f"counts must have one number for each of the {self._n_words:,} words. "
                    f"Got an array of shape {counts.shape} instead."
                )
        self._counts: np.ndarray | None = counts
        self.normalise = normalise
        self.unknown = unknown
        self._spelling: Spelling | None = None  # made when it is first needed

    @property
    def counts(self) -> np.ndarray | None:
        """How often each word occurred in the source corpus; None when unknown."""
        self._check_arrays()
        return self._counts

    def _check_arrays(self):
        """Once, before arrays that came from a file are used: a damaged one is refused."""
        if self._unsound is not None:
            self._unsound()
            offsets = self._arrays["word_offsets"]
            if np.any(offsets[1:] < offsets[:-1]):
                raise ValueError(
                    "word_offsets must not fall. Got offsets that do instead. The file they come "
                    "from is damaged."
                )
            if self._counts is not None and self._counts.size and self._counts.min() < 0:
                raise ValueError(
                    f"counts must be at least 0. Got {self._counts.min()} instead. The file they "
                    "come from is damaged."
                )
            self._unsound = None

    @classmethod
    def from_bytes(
        cls,
        word_bytes: np.ndarray,
        word_offsets: np.ndarray,
        counts: ArrayLike | None = None,
        normalise: str | Callable[[str], list[str]] = "paper",
        *,
        hash_table: np.ndarray | None = None,
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
        for name, array, dtype in (
            ("word_bytes", word_bytes, np.uint8),
            ("word_offsets", word_offsets, np.int64),
        ):
            if array.ndim != 1 or array.dtype != dtype:
                raise ValueError(
                    f"{name} must be a flat array of {np.dtype(dtype)}. Got {array.dtype} of shape "
                    f"{array.shape} instead. The file it comes from is damaged."
                )
        made._words = None
        made._index = None
        made._checked = False
        made._unsound = lambda: None
        made._arrays = {"word_bytes": word_bytes, "word_offsets": word_offsets}
        if hash_table is not None:
            n_slots = len(hash_table)
            fits = hash_table.shape == (n_slots, 2) and hash_table.dtype == np.uint64
            if not fits or n_slots & (n_slots - 1) or n_slots <= made._n_words:
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
    def from_arrays(
        cls, arrays: Mapping[str, np.ndarray], normalise: str | Callable[[str], list[str]] = "paper"
    ) -> "Vocabulary":
        """From what `arrays` gave; opens at once, whatever the number of words."""
        return cls.from_bytes(
            arrays["word_bytes"],
            arrays["word_offsets"],
            arrays.get("counts"),
            normalise,
            hash_table=arrays.get("hash_table"),
        )

    def word_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The words' UTF-8 bytes one after the other, and where each begins; (n_words + 1,)."""
        self._check_arrays()
        arrays = self._arrays
        if "word_bytes" not in arrays:
            arrays["word_bytes"], arrays["word_offsets"] = joined(self.words)
        return arrays["word_bytes"], arrays["word_offsets"]

    def _table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the kernels look words up in: (hash_table, word_bytes, word_offsets)."""
        arrays = self._arrays
        self.word_arrays()
        if "hash_table" not in arrays:
            from pacsent._kernels import text_kernels as kernels

            table = np.zeros((n_slots(self._n_words), 2), dtype=np.uint64)
            with np.errstate(over="ignore"):  # the hash wraps around on purpose
                twice = kernels.build_table(
                    table, frozen(arrays["word_bytes"]), frozen(arrays["word_offsets"])
                )
            if twice >= 0:
                raise ValueError(
                    f"words must be all different. Got {self._word(twice)!r} a second time at "
                    f"{twice} instead. Keep one of them."
                )
            arrays["hash_table"] = table
        elif not self._checked:  # a damaged file must not send the kernels out of their arrays
            filled = arrays["hash_table"][:, 1]
            if np.count_nonzero(filled) != self._n_words or filled.max() > self._n_words:
                raise ValueError(
                    f"hash_table and word_offsets must be of the same {self._n_words:,} words. Got "
                    "arrays that do not fit instead. The file they come from is damaged."
                )
        self._checked = True
        return (
            frozen(arrays["hash_table"]),
            frozen(arrays["word_bytes"]),
            frozen(arrays["word_offsets"]),
        )

    def check_lookup(self) -> None:
        """Raise ValueError unless every word is found at its own number."""
        from pacsent._kernels import text_kernels as kernels

        with np.errstate(over="ignore"):
            found = kernels.find_words(*map(frozen, self.word_arrays()), self._table())
        wrong = np.flatnonzero(found != np.arange(len(self)))
        if wrong.size:
            i = int(wrong[0])
            raise ValueError(
                f"Every word must be found at its own number. Got {found[i]} for {self._word(i)!r} "
                f"at {i} instead. The file they come from is damaged: copy or save it again."
            )

    def _word(self, i: int) -> str:
        if self._words is not None:
            return self._words[i]
        self._check_arrays()
        offsets = self._arrays["word_offsets"]
        word = self._arrays["word_bytes"][offsets[i] : offsets[i + 1]]
        return _decoded(word.tobytes(), i)

    @property
    def words(self) -> list[str]:
        """The words; position is the token id."""
        if self._words is None:
            self._check_arrays()
            data = self._arrays["word_bytes"].tobytes()
            ends = self._arrays["word_offsets"].tolist()
            if data.isascii():
                whole = data.decode()
                self._words = [whole[a:b] for a, b in itertools.pairwise(ends)]
            else:
                pairs = enumerate(itertools.pairwise(ends))
                self._words = [_decoded(data[a:b], i) for i, (a, b) in pairs]
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
        from pacsent._kernels import text_kernels as kernels

        data, starts = joined([word])
        with np.errstate(over="ignore"):
            return int(kernels.find_words(data, starts, self._table())[0])

    def __getstate__(self):
        self._check_arrays()
        state = dict(self.__dict__)
        if state["_arrays"]:
            state["_arrays"] = {k: v for k, v in self._arrays.items() if k != "hash_table"}
            state["_words"] = None
        state["_index"] = None  # made again when it is needed
        state["_spelling"] = None
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
        return noise_probabilities(self._known_counts("the noise distribution"), power)

    def warn_if_few_known(self, n_known: int, n_unknown: int, stacklevel: int = 2) -> None:
        """Warn where under half of the tokens of a text are known, and name the likely cause.

        A text without any token is no reason to warn.
        """
        n_all = n_known + n_unknown
        if 2 * n_known >= n_all:
            return
        warnings.warn(
            f"Only {100 * n_known / n_all:.0f} % of these {n_all:,} tokens are in the vocabulary. "
            f"The likely cause: {self._likely_cause()}. Coverage is fine from about 90 %.",
            LowCoverageWarning,
            stacklevel=stacklevel + 1,
        )

    def _likely_cause(self) -> str:
        """Why few words of a text are in this vocabulary, judged by its frequent words."""
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
        return TOKENISERS[self.normalise](sentence)

    def encode(self, X: Iterable[str | Sequence[str]], *, n_jobs: int | None = None) -> Encoded:
        """Sentences to token ids.

        Parameters
        ----------
        X : iterable of str or of token lists, table of one column, or Encoded
            Strings are normalised as this vocabulary says, token lists taken as they are. A
            generator is read piece by piece. An `Encoded` is given back, if its ids are of a
            vocabulary of this size.
        n_jobs : int or None
            Threads for long input; None takes all cores. The result is the same for any number.
        """
        if isinstance(X, Encoded):
            return X.checked(len(self))
        return self._encode_rows(X, 0, n_jobs)

    def encode_bytes(self, data: np.ndarray, bounds: np.ndarray) -> Encoded:
        """Texts that lie one after the other as UTF-8 to token ids, as `encode` would give.

        With `normalise="paper"` no string is made of them: what an Arrow column holds goes to the
        compiled tokeniser as it is.

        Parameters
        ----------
        data : array of uint8
        bounds : array of int64, shape (n_texts + 1,)
            Text s is data[bounds[s]:bounds[s + 1]].

        Examples
        --------
        >>> data = np.frombuffer(b"good filmbad", dtype=np.uint8)
        >>> Vocabulary(["film", "good"]).encode_bytes(data, np.array([0, 9, 12]))
        Encoded(ids=array([1, 0], dtype=int32), offsets=array([0, 2, 2]), n_unknown=array([0, 1]))
        """
        bounds = np.ascontiguousarray(bounds, dtype=np.int64)
        inside = bounds.size and bounds[0] >= 0 and bounds[-1] <= data.size
        if not inside or (bounds[1:] < bounds[:-1]).any():
            raise ValueError(
                f"bounds must rise from at least 0 to at most the {data.size:,} bytes of data. Got "
                "others instead."
            )
        if self.normalise != "paper" or self.unknown != "drop":
            whole = [data[a:b].tobytes().decode("utf-8") for a, b in itertools.pairwise(bounds)]
            return self._encode_rows(whole, 0, n_jobs=1)
        first = bounds[0]
        return self._encode_paper(frozen(data[first : bounds[-1]]), bounds - first, self._table())

    def _encode_rows(self, X, first_row: int, n_jobs: int | None) -> Encoded:
        """`encode` for sentences, the first of which is number `first_row` for messages."""
        batches = batches_of(X, first_row)
        words = self._table() if self.normalise_name else None
        encode = self._encode if self.unknown == "drop" else self._encode_spelled
        parts = list(in_order(lambda batch: encode(batch, words), batches, n_jobs))
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

    def encoder(self) -> Callable[[list], Encoded]:
        """`encode` for lists of texts, with what all calls share done: for asking again and again.

        Examples
        --------
        >>> encode = Vocabulary(["good", "wine"]).encoder()
        >>> encode(["good red wine"]).ids.tolist()
        [0, 1]
        """
        if self.normalise_name is None or self.unknown != "drop":
            return lambda texts: self._encode_rows(texts, 0, n_jobs=1)
        words = self._table()

        def encode(texts: list) -> Encoded:
            if len(texts) > 1 << 12 or not _all_strings(texts) or _size(texts) > _BATCH:
                return self._encode_rows(texts, 0, n_jobs=1)
            return self._encode(_Batch(texts, True), words)

        return encode

    def _encode(self, batch: "_Batch", words) -> Encoded:
        """One batch: by the compiled tokenisers where they apply, else by the dict."""
        from pacsent._kernels import text_kernels as kernels

        if batch.raw and self.normalise == "paper":
            return self._encode_paper(*as_ascii(batch.sentences), words)
        if batch.raw and self.normalise == "unicode":
            with np.errstate(over="ignore"):
                ids, ends = unicode_ids(
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

    def _encode_paper(self, data: np.ndarray, bounds: np.ndarray, words) -> Encoded:
        """Bytes to ids by the compiled tokeniser; what is not ASCII separates."""
        from pacsent._kernels import text_kernels as kernels

        ids = np.empty(data.size, dtype=np.int32)
        offsets = np.zeros(bounds.size, dtype=np.int64)
        n_unknown = np.zeros(bounds.size - 1, dtype=np.int64)
        with np.errstate(over="ignore"):  # the hash wraps around on purpose
            n = kernels.encode_paper(data, bounds, words, ids, offsets, n_unknown)
        return Encoded(ids[:n].copy(), offsets, n_unknown)

    def _encode_spelled(self, batch: "_Batch", words) -> Encoded:
        """One batch; unknown words become the known ones that are spelled nearly so."""
        encoded = self._encode(batch, words)
        if not encoded.n_unknown.any():
            return encoded
        if self._spelling is None:  # two threads may both make it: the same answers
            _, data, starts = self._table()
            self._spelling = Spelling(data, starts)
        spelling, index = self._spelling, self.index
        lists = [list(part) for part in np.split(encoded.ids, encoded.offsets[1:-1])]
        n_unknown = encoded.n_unknown.copy()
        for s in np.flatnonzero(encoded.n_unknown):
            tokens = self.tokens(batch.sentences[s])
            ids = [index[token] if token in index else spelling(token) for token in tokens]
            lists[s] = [i for i in ids if i >= 0]
            n_unknown[s] = len(ids) - len(lists[s])
        ends = np.cumsum([0, *map(len, lists)])
        flat = np.fromiter(itertools.chain.from_iterable(lists), np.int32, ends[-1])
        return Encoded(flat, ends, n_unknown)

    def treating_unknown(self, how: str) -> "Vocabulary":
        """The same words, with `unknown` changed; nothing is copied."""
        _check_unknown(how)
        if how == self.unknown:
            return self
        made = Vocabulary.__new__(type(self))
        made.__dict__.update(self.__dict__, unknown=how)
        return made

    def digest(self, X: Any) -> str:
        """sha256 over three sha256: of the words, of the token ids and of the offsets.

        The same text under the same vocabulary has the same digest, and a `Corpus` has that of its
        documents. It catches the same text, not an overlap.
        """
        ids, offsets, _ = self.encode(X)
        return digest_of(self, hashlib.sha256(raw_bytes(ids, "<i4")), offsets)

    def count(self, X: Any, *, dtype: DTypeLike = np.float64) -> sparse.csr_matrix:
        """Sentences to a sparse count matrix, (n_sentences, n_words)."""
        ids, offsets, _ = self.encode(X)
        shape = (offsets.size - 1, len(self))
        # ids are copied: summing duplicates works in place, and an Encoded belongs to the caller
        matrix = sparse.csr_matrix(
            (np.ones(ids.size, dtype=dtype), np.array(ids), offsets), shape=shape
        )
        matrix.sum_duplicates()
        return matrix


def _decoded(word: bytes, i: int) -> str:
    try:
        return word.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise ValueError(
            f"Words must be UTF-8. Got {word[:40]!r} at {i} instead. The file they come from is "
            "damaged."
        ) from None


_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")


def joined(words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Words one after the other in UTF-8, and where each begins and ends."""
    whole = "".join(words)
    offsets = np.zeros(len(words) + 1, dtype=np.int64)
    if whole.isascii():
        np.cumsum(np.fromiter(map(len, words), dtype=np.int64, count=len(words)), out=offsets[1:])
    else:
        sizes = (len(word.encode("utf-8", "surrogatepass")) for word in words)
        np.cumsum(np.fromiter(sizes, dtype=np.int64, count=len(words)), out=offsets[1:])
    return np.frombuffer(whole.encode("utf-8", "surrogatepass"), dtype=np.uint8), offsets


def unicode_ids(sentences: list[str], ids_of: Callable) -> tuple[np.ndarray, np.ndarray]:
    """Ids of the tokens of the unicode normalisation, and how many there are after each sentence.

    `ids_of(data, starts)` gives the ids of joined tokens. Sentences in ASCII go through a compiled
    tokeniser, the others through the standard library's Unicode functions.
    """
    plain = np.fromiter(map(str.isascii, sentences), dtype=bool, count=len(sentences))
    ids, n_tokens = [], np.zeros(len(sentences), dtype=np.int64)
    for rows, tokens_of in ((plain, _plain_tokens), (~plain, _other_tokens)):
        if rows.any():
            data, starts, n_tokens[rows] = tokens_of(list(itertools.compress(sentences, rows)))
            ids.append(ids_of(frozen(data), starts))
    if len(ids) == 1:
        return ids[0], np.cumsum(n_tokens)
    # two sorted runs: the stable sort merges them in one go
    rows = np.concatenate([np.flatnonzero(plain), np.flatnonzero(~plain)])
    order = np.argsort(np.repeat(rows, n_tokens[rows]), kind="stable")
    return np.concatenate(ids)[order], np.cumsum(n_tokens)


def _other_tokens(sentences: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens one after the other, where each begins, and how many each sentence has."""
    lists = [tokenise_unicode(sentence) for sentence in sentences]
    data, starts = joined(list(itertools.chain.from_iterable(lists)))
    return data, starts, np.fromiter(map(len, lists), np.int64, len(lists))


def _plain_tokens(sentences: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same, compiled, for sentences in ASCII."""
    from pacsent._kernels import text_kernels as kernels

    data, bounds = as_ascii(sentences)
    out = np.empty(data.size, dtype=np.uint8)
    starts = np.empty(data.size + 2, dtype=np.int64)
    ends = np.empty(len(sentences), dtype=np.int64)
    n = kernels.split_ascii(data, bounds, out, starts, ends)
    return out[: starts[n]], starts[: n + 1], np.diff(ends, prepend=0)


def frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view: for numba, arrays that may be written to are another type to compile."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def n_slots(n_words: int) -> int:
    """Rows of a hash table for so many words, at most half full.

    Examples
    --------
    >>> n_slots(1000) >= 1000
    True
    """
    return 1 << max(1, (2 * n_words - 1).bit_length())


def raw_bytes(array: np.ndarray, dtype: str) -> memoryview:
    """The bytes of an array in one type, whatever the machine's order.

    Examples
    --------
    >>> import numpy as np
    >>> list(bytes(raw_bytes(np.array([1]), '<i2')))
    [1, 0]
    """
    return np.ascontiguousarray(array, dtype=dtype).data


def _whole_counts(counts) -> np.ndarray:
    """Counts as int64, or one line that says which is none."""
    counts = np.asarray(counts)
    if counts.dtype.kind in "iu" and not (counts.size and counts.min() < 0):
        return counts
    if counts.dtype.kind == "f":
        wrong = ~(np.isfinite(counts) & (counts >= 0) & (counts == np.floor(counts)))
        if not wrong.any():
            return counts
        value = counts[wrong][0].item()
    else:
        others = [value for value in counts.ravel().tolist() if not _is_count(value)]
        if not others:
            return counts
        value = others[0]
    raise ValueError(
        f"counts must be whole numbers of at least 0. Got {value!r} instead. Leave counts out "
        "where they are not known."
    )


def _is_count(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def digest_of(vocabulary: Vocabulary, of_ids: Any, offsets: np.ndarray) -> str:
    """The sha256 of a corpus: its words, token ids and bounds of sentences."""
    _, word_bytes, word_offsets = vocabulary._table()
    of_words = hashlib.sha256(word_bytes.data)
    of_words.update(raw_bytes(word_offsets, "<i8"))
    of_offsets = hashlib.sha256(raw_bytes(offsets, "<i8"))
    return hashlib.sha256(of_words.digest() + of_ids.digest() + of_offsets.digest()).hexdigest()


# ------------------------------------------------------------------------------------------------
# many sentences in batches, on all cores
# ------------------------------------------------------------------------------------------------


class _Batch(NamedTuple):
    sentences: list  # all str, or all token lists
    raw: bool  # whether they are str


def batches_of(X: Iterable, first_row: int = 0) -> Iterator[_Batch]:
    """Sentences in lists of about _BATCH characters, strings and token lists apart.

    `first_row` is the number of the first one, for messages.
    """
    X = as_sentences(X)
    sentences = iter(X)
    size, row = 16, first_row
    if isinstance(X, list) and len(X) <= 1 << 12 and _all_strings(X) and _size(X) <= _BATCH:
        size = max(1, len(X))  # the usual case, a list of modest size: one batch
    while block := list(itertools.islice(sentences, size)):
        for raw, found in ((True, block),) if _all_strings(block) else _kinds(block):
            if not raw:
                _check_token_lists(found, row)
            yield _Batch(found, raw)
            row += len(found)
        # the sentences met so far tell how many make a batch
        n_characters = _size(block)
        size = min(max(1, size * _BATCH // max(n_characters, 1)), 4 * size, 1 << 16)


def _kinds(block: list) -> Iterator[tuple[bool, list]]:
    """(whether they are str, sentences), for each run of sentences of one kind."""
    for raw, group in itertools.groupby(block, lambda sentence: isinstance(sentence, str)):
        yield raw, list(group)


def _check_unknown(how):
    if how not in ("drop", "nearest"):
        raise ValueError(f"unknown must be 'drop' or 'nearest'. Got {how!r} instead.")


def _all_strings(sentences: list) -> bool:
    return set(map(type, sentences)) == {str}


def _size(sentences: list) -> int:
    return sum(map(len, sentences))


def _check_token_lists(sentences: list, first_row: int):
    for row, tokens in enumerate(sentences, first_row):
        if not isinstance(tokens, list | tuple | np.ndarray):
            what = f"{type(tokens).__name__} {str(tokens)[:40]!r}"
        elif isinstance(tokens, np.ndarray) and tokens.ndim != 1:
            what = f"an array of shape {tokens.shape}"
        elif odd := [token for token in tokens if not isinstance(token, str)]:
            what = f"a list with {type(odd[0]).__name__} {str(odd[0])[:40]!r} in it"
        else:
            continue
        raise TypeError(
            f"A sentence must be a str or a list of str. Got {what} in row {row} (rows count from "
            "0) instead. Drop it, or put '' in its place."
        )


def as_ascii(sentences: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Strings as one array with a byte a character, and where each begins and ends.

    What is not ASCII becomes '?': a separator for a separator. So lengths in characters are
    lengths in bytes, and no mark between the strings is needed.
    """
    data = np.frombuffer("".join(sentences).encode("ascii", "replace"), dtype=np.uint8)
    if len(sentences) == 1:
        return data, np.array([0, data.size])
    bounds = np.zeros(len(sentences) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, sentences), np.int64, len(sentences)), out=bounds[1:])
    return data, bounds
