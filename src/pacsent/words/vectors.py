"""WordVectors: the frozen pair of tables, and nothing that trains.

Reading them from a folder of ours is in `storage`, from anybody else's file in `formats`.
"""

import difflib
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pacsent.storage import check_finite
from pacsent.words.fingerprint import Fingerprint
from pacsent.words.packing import Packed
from pacsent.words.vocabulary import Vocabulary

_DTYPES = (np.float16, np.float32, np.float64)
_BLOCK = 1 << 22  # numbers handled at once where a whole table is walked through
_FNV_START, _FNV_PRIME = 2166136261, 16777619  # the 32-bit FNV hash that fastText uses
TABLES = ("input", "output")


class _Table:
    """A table of WordVectors; what lies on the disk is checked when it is first asked for."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, words, owner=None):
        if words is None:  # the default of the field: none for the input table
            if self.name == "input_vectors":
                raise AttributeError(self.name)
            return None
        if words.__dict__.get("_unchecked"):
            words._check_once(self.name)
        if self.name not in words.__dict__:
            words._unpack(self.name)
        return words.__dict__[self.name]

    def __set__(self, words, table):
        words.__dict__[self.name] = table


@dataclass(frozen=True, eq=False, repr=False)
class WordVectors:
    """A vocabulary with its input vectors and, where known, its output vectors.

    Parameters
    ----------
    vocabulary : Vocabulary
    input_vectors : array, shape (n_words, n_dims), float32 or float16
        float64 is taken too, for exact checks; nothing here produces it. A `Packed` table is
        unpacked when it is first asked for.
    output_vectors : array of the same shape, or None
    corpus_digest : str or None
        Digest of the text the vectors were trained on; certificates refuse the same text.
    training : dict
        What is known about how they were trained (n_negatives, window, ...).
    subwords : Subwords or None
        Vectors of character n-grams (fastText): `input` then answers for unknown words as well.
        Everything that works with the vocabulary (`encode`, every vectorizer) leaves unknown
        words out all the same.
    fingerprint : Fingerprint or None
        Of the documents the vectors were trained on, in any order; a certificate refuses documents
        that are among them, and says aloud where it is None.

    Notes
    -----
    The tables are kept as read-only views; nothing is copied. Tables in memory are checked for
    NaN and infinity at once, memory-mapped ones when they are first asked for, because opening a
    model must not read it; those of a folder with digests (`load`) are held against these then.

    Examples
    --------
    >>> words = WordVectors(Vocabulary(["film", "good"], [3, 1]),
    ...                     np.array([[1, 0], [0.6, 0.8]], dtype=np.float32))
    >>> words
    WordVectors(n_words=2, n_dims=2, input table only)
    >>> words.most_similar("film")
    [('good', 0.6...)]
    """

    vocabulary: Vocabulary
    input_vectors: np.ndarray = _Table()  # type: ignore[assignment]
    output_vectors: np.ndarray | None = _Table()  # type: ignore[assignment]
    corpus_digest: str | None = None
    training: dict = field(default_factory=dict)
    subwords: "Subwords | None" = None
    fingerprint: Fingerprint | None = None

    def __post_init__(self):
        n_words = len(self.vocabulary)
        object.__setattr__(self, "_packed", {})
        unchecked = set()
        for name in TABLES:
            table = getattr(self, f"{name}_vectors")
            if table is None and name == "output":
                continue
            packed = isinstance(table, Packed)
            table = table if packed else _frozen(f"{name}_vectors", table)
            if table.shape[0] != n_words:
                raise ValueError(
                    f"{name}_vectors must be one row per word of the vocabulary ({n_words:,}). "
                    f"Got {table.shape[0]:,} rows instead. Pass the vocabulary the table was "
                    "trained with."
                )
            if name == "output" and table.shape[1] != self.n_dims:
                raise ValueError(
                    f"output_vectors must be as wide as input_vectors ({self.n_dims:,} "
                    f"dimensions). Got {table.shape[1]:,} instead. Use the two tables of one "
                    "training."
                )
            if packed:  # unpacked when it is asked for
                self._packed[name] = table
                del self.__dict__[f"{name}_vectors"]
                continue
            object.__setattr__(self, f"{name}_vectors", table)
            if _memory_mapped(table):
                unchecked.add(f"{name}_vectors")
            else:
                self._check_finite(name)
        if self.subwords is not None and self.subwords.vectors.shape[1] != self.n_dims:
            raise ValueError(
                f"subwords must be as wide as input_vectors ({self.n_dims:,} dimensions). "
                f"Got {self.subwords.vectors.shape[1]:,} instead. Use the parts of one training."
            )
        object.__setattr__(self, "_kept", {})  # digest and norms, once computed
        object.__setattr__(self, "_verify", None)  # of the file that the tables are mapped from
        object.__setattr__(self, "_unchecked", unchecked)

    def _sealed(self, verify):
        """Tables on the disk are held against their digests by verify(name) before their use."""
        object.__setattr__(self, "_verify", verify)
        self._unchecked.update(f"{name}_vectors" for name in self.packed)
        if self.subwords is not None:
            self._unchecked.add("subword_vectors")

    def _unpack(self, name):
        """A packed table, when it is first asked for; two threads may both unpack it."""
        packed = self.__dict__["_packed"][name.removesuffix("_vectors")]
        self.__dict__[name] = _frozen(name, packed.unpack())
        if not packed.surely_finite():
            self._check_finite(name.removesuffix("_vectors"))

    @property
    def packed(self) -> dict[str, Packed]:
        """The tables that are packed, by name ("input", "output")."""
        return dict(self._packed)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        both = "output" in self.packed or self.__dict__["output_vectors"] is not None
        only = "" if both else ", input table only"
        return f"WordVectors(n_words={self.n_words}, n_dims={self.n_dims}{only})"

    def __sklearn_clone__(self):
        return self

    def __getstate__(self):
        self._check_all()  # nobody checks a copy again
        return {**self.__dict__, "_verify": None}

    def _check_all(self):
        for name in sorted(self._unchecked):
            self._check_once(name)

    def _check_once(self, name):
        """Hold a table on the disk against its digests, and look for NaN and infinity.

        Right digests say that a file is as it was written, not that it was written by pacsent.
        """
        unchecked, verify = self.__dict__["_unchecked"], self.__dict__["_verify"]
        if name not in unchecked:
            return
        if verify is not None:
            verify(name)
        if name == "subword_vectors":
            check_finite(self.subwords.vectors, name)
        elif name in self.__dict__:  # a packed table is checked when it is unpacked
            self._check_finite(name.removesuffix("_vectors"))
        unchecked.discard(name)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __contains__(self, word) -> bool:
        return word in self.vocabulary

    @property
    def words(self) -> Sequence[str]:
        """The words; position is the row."""
        return self.vocabulary.words

    @property
    def counts(self) -> np.ndarray | None:
        """Occurrences of each word in the source corpus; None when unknown."""
        return self.vocabulary.counts

    @property
    def n_words(self) -> int:
        return len(self.vocabulary)

    @property
    def n_dims(self) -> int:
        packed = self._packed.get("input")  # type: ignore[attr-defined]
        return (self.__dict__["input_vectors"] if packed is None else packed).shape[1]

    def roles(
        self, *, swap: bool = False, method: str = "This method"
    ) -> tuple[np.ndarray, np.ndarray]:
        """(A_hat, B_hat): the table of the loss and the table of the prior; swapped for `i-`.

        `method` names the caller in the message where the output table is missing.
        """
        if self.output_vectors is None:
            raise ValueError(
                f"{method} needs output vectors, and these word vectors have an input table "
                "only. Methods that do not: Average with alpha=0, IDF-Average with 1/lambda=0 "
                "(lam=inf). Train with SkipGram, or read a file that holds both tables "
                "(FILE with context_FILE, fastText's .bin)."
            )
        if swap:
            return self.output_vectors, self.input_vectors
        return self.input_vectors, self.output_vectors

    def input(self, word: str) -> np.ndarray:
        """The input vector of a word; of any word, where there are subword vectors."""
        row = self._row(word)
        if row >= 0:
            return self.input_vectors[row]
        if self.subwords is not None:
            self._check_once("subword_vectors")
            return self.subwords.vector(word)
        raise ValueError(self._unknown(word))

    def output(self, word: str) -> np.ndarray:
        """The output vector of a word."""
        table = self._table("output")
        row = self._row(word)
        if row < 0:
            raise ValueError(self._unknown(word))
        return table[row]

    def most_similar(
        self, query: Any, n: int = 10, *, table: str = "input", among: str | None = None
    ) -> list[tuple[str, float]]:
        """The n words whose vectors have the largest cosine with the query.

        Parameters
        ----------
        query : str or array, shape (n_dims,)
            A word, or a vector.
        n : int, default=10
        table : {"input", "output"}, default="input"
            Where the vector of a word is taken from.
        among : {"input", "output"}, default: `table`
            Where neighbours are looked for. With the other table than `table`, the largest
            cosines are of words that occur near the query rather than of words like it.

        Returns
        -------
        list of (word, cosine), largest first
            The query itself is left out of its own table; rows of zeros have no direction and
            are left out.
        """
        among = table if among is None else among
        searched, norms = self._table(among), self._norms(among)
        if n < 1 or int(n) != n:
            raise ValueError(f"n must be a positive integer. Got {n!r} instead.")
        if isinstance(query, str):
            vector = self.input(query) if table == "input" else self.output(query)
            self._table(table)
            itself = self._row(query) if table == among else -1
        else:
            vector, itself = np.asarray(query), -1
            if vector.shape != (self.n_dims,):
                raise ValueError(
                    f"The query must be a word or a vector of {self.n_dims} numbers. "
                    f"Got an array of shape {vector.shape} instead."
                )
        vector = vector.astype(np.float64)
        length = np.linalg.norm(vector)
        if not np.isfinite(length) or length == 0:
            raise ValueError(
                "The query must be a finite vector other than 0. Got one of length "
                f"{length} instead: it has no direction to compare."
            )
        direction = (vector / length).astype(np.float32)
        cosines = np.empty(self.n_words, dtype=np.float32)
        for rows in _row_blocks(searched):
            cosines[rows] = searched[rows].astype(np.float32, copy=False) @ direction
        with np.errstate(divide="ignore", invalid="ignore"):
            cosines /= norms
        cosines[norms == 0] = -np.inf
        if itself >= 0:
            cosines[itself] = -np.inf
        n = min(int(n), self.n_words)
        best = np.argpartition(-cosines, n - 1)[:n]
        best = best[np.lexsort((best, -cosines[best]))]
        return [(self.words[i], float(cosines[i])) for i in best if cosines[i] > -np.inf]

    def astype(self, dtype: DTypeLike) -> "WordVectors":
        """The same words with tables of another precision; itself where nothing changes.

        Numbers too large for float16 are refused rather than turned into infinity.
        """
        output, subwords = self.output_vectors, self.subwords
        if self.input_vectors.dtype == dtype and (output is None or output.dtype == dtype):
            return self
        with np.errstate(over="ignore"):  # refused below, with the word
            if output is not None:
                output = output.astype(dtype)
            if subwords is not None:
                subwords = replace(subwords, vectors=subwords.vectors.astype(dtype))
            changed = self.input_vectors.astype(dtype)
        return replace(self, input_vectors=changed, output_vectors=output, subwords=subwords)

    def digest(self) -> str:
        """sha256 of words and tables, in hexadecimal; computed once, reads every number.

        The same vectors have the same digest in memory and in every format that keeps them
        exactly. Folders, certificates and results name their word vectors by it.
        """
        kept = self._kept  # type: ignore[attr-defined]
        self._check_all()
        if "digest" not in kept:
            sha = hashlib.sha256()
            for block in _blocks_of_words(self.words):
                sha.update(block)
            for name in TABLES:
                table = getattr(self, f"{name}_vectors")
                if table is None:
                    continue
                sha.update(f"{name} {table.dtype.str} {table.shape}".encode())
                for rows in _row_blocks(table):
                    sha.update(np.ascontiguousarray(table[rows]).data)
            kept["digest"] = sha.hexdigest()
        return kept["digest"]

    def trained_on(self, texts: Iterable) -> "WordVectors":
        """The same vectors with the fingerprint of the texts they were trained on.

        For vectors of other programs: certificates can then be checked for overlap.

        Parameters
        ----------
        texts : iterable of str or of token lists, Encoded, or Corpus of this very vocabulary
        """
        encoded = self.vocabulary.encode(texts)
        return replace(self, fingerprint=Fingerprint.of(self.vocabulary, encoded))

    def check_finite(self) -> "WordVectors":
        """Read both tables and raise at the first NaN or infinity; returns self."""
        for name in TABLES:
            if getattr(self, f"{name}_vectors") is not None:
                self._check_finite(name)
        return self

    def check_rows(self, ids: np.ndarray) -> None:
        """Raise where the vectors of these words hold NaN or infinity, and name the word.

        Tables are checked when they are made or first read; this finds what was written into the
        memory of a table afterwards.
        """
        rows = np.unique(ids)
        for name in TABLES:
            table = getattr(self, f"{name}_vectors")
            if table is not None and not (finite := _finite(table[rows])).all():
                self._refuse_row(name, int(rows[np.argmin(finite)]))

    def _check_finite(self, name):
        table = self.__dict__[f"{name}_vectors"]
        for rows in _row_blocks(table):
            finite = _finite(table[rows])
            if not finite.all():
                self._refuse_row(name, rows.start + int(np.argmin(finite)))

    def _refuse_row(self, name, row):
        raise ValueError(
            f"{name}_vectors must be finite numbers. Got NaN or infinity in row {row:,} "
            f"({self.vocabulary.words[row]!r}) instead. Train again with a smaller "
            "learning rate, or repair the file."
        )

    def _table(self, name) -> np.ndarray:
        if name not in TABLES:
            raise ValueError(f"A table must be one of 'input', 'output'. Got {name!r} instead.")
        if name == "output" and self.output_vectors is None:
            raise ValueError(
                "These word vectors have an input table only. Train with SkipGram, or read a "
                "file that holds both tables (FILE with context_FILE, fastText's .bin)."
            )
        return getattr(self, f"{name}_vectors")

    def _row(self, word) -> int:
        """The row of a word, -1 where it is unknown."""
        if not isinstance(word, str):
            raise ValueError(f"A word must be a str. Got {type(word).__name__} instead.")
        return self.vocabulary.id_of(word)

    def _norms(self, name) -> np.ndarray:
        kept = self._kept  # type: ignore[attr-defined]
        if name not in kept:
            table = self._table(name)
            norms = np.empty(self.n_words, dtype=np.float32)
            for rows in _row_blocks(table):
                block = table[rows].astype(np.float32, copy=False)
                norms[rows] = np.sqrt(np.einsum("ij,ij->i", block, block))
            kept[name] = norms
        return kept[name]

    def _unknown(self, word) -> str:
        message = f"{word!r} is not among these {self.n_words:,} words."
        near = self._near(word)
        return message + (f" Did you mean {near!r}?" if near else "")

    def _near(self, word):
        for variant in (word.lower(), word.strip(), word.strip().lower(), word.capitalize()):
            if variant != word and variant in self.vocabulary:
                return variant
        frequent = (w for w in islice(self.words, 50_000) if w[:1] == word[:1])
        alike = [w for w in frequent if abs(len(w) - len(word)) <= 2]
        found = difflib.get_close_matches(word, alike, n=1, cutoff=0.75)
        return found[0] if found else None


@dataclass(frozen=True, eq=False, repr=False)
class Subwords:
    """Vectors of hashed character n-grams, as fastText trains them.

        vector(word) = mean of the rows that the n-grams of "<word>" hash to

    Parameters
    ----------
    vectors : array, shape (n_buckets, n_dims)
    min_n, max_n : int
        Shortest and longest n-gram, in characters, the two marks "<" and ">" included.
    """

    vectors: np.ndarray
    min_n: int
    max_n: int

    def __post_init__(self):
        object.__setattr__(self, "vectors", _frozen("subwords.vectors", self.vectors))
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
        following = np.arange(1, first_byte.size + 1)
        hashes = np.full(first_byte.size, _FNV_START, dtype=np.uint32)
        character = np.arange(first_byte.size)  # the character to take next, for each beginning
        alive = np.arange(first_byte.size)
        found_rows, found_owner, found_place = [], [], []
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
                found_rows.append(hashes[kept] % np.uint32(len(self.vectors)))
                found_owner.append(owner[kept])
                found_place.append(kept)
            character[alive] = following[character[alive]]
            in_word = character[alive] < first_byte.size
            alive = alive[in_word]
            alive = alive[owner[character[alive]] == owner[alive]]
            if alive.size == 0:
                break
        rows = np.concatenate(found_rows) if found_rows else np.empty(0, np.uint32)
        owners = np.concatenate(found_owner) if found_owner else np.empty(0, np.int64)
        places = np.concatenate(found_place) if found_place else np.empty(0, np.int64)
        order = np.argsort(places, kind="stable")  # by beginning, then by length, as fastText
        counts = np.bincount(owners, minlength=len(words))
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return rows[order].astype(np.int64), offsets


def trained_words(
    corpus: Any, input_vectors: np.ndarray, output_vectors: np.ndarray, training: dict
) -> WordVectors:
    """Word vectors trained on a `Corpus`, with the digest and fingerprint of its text.

    Everything that trains makes its result here, so that a certificate can always tell whether its
    texts are among those of the training.

    Parameters
    ----------
    corpus : Corpus
    input_vectors, output_vectors : array, shape (n_words, n_dims)
    training : dict
        Parameters, seed and loss of the training.
    """
    return WordVectors(
        corpus.vocabulary,
        input_vectors,
        output_vectors,
        corpus_digest=corpus.digest,
        fingerprint=Fingerprint.of_corpus(corpus),
        training={"method": "skip-gram with negative sampling", **training},
    )


def _frozen(name, table) -> np.ndarray:
    if not isinstance(table, np.ndarray):
        raise TypeError(
            f"{name} must be a NumPy array. Got {type(table).__name__} instead. "
            "Pass np.asarray(..., dtype=np.float32)."
        )
    if table.ndim != 2:
        raise ValueError(
            f"{name} must be an array of shape (n_words, n_dims). Got shape {table.shape} instead."
        )
    if table.dtype not in _DTYPES or not table.dtype.isnative:
        raise ValueError(
            f"{name} must be float32 or float16. Got {table.dtype} instead. "
            "Convert with .astype(np.float32)."
        )
    view = table.view(np.ndarray)
    view.flags.writeable = False
    return view


def _memory_mapped(array) -> bool:
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if isinstance(owner, np.memmap):
            return True
        owner = owner.base
    return False


def _finite(rows) -> np.ndarray:
    """Which rows hold finite numbers only."""
    if rows.dtype != np.float16:
        return np.isfinite(rows).all(axis=1)
    largest = np.uint16(0x7C00)  # all bits of the exponent: infinity or NaN; isfinite is slow here
    return ((rows.view(np.uint16) & largest) != largest).all(axis=1)


def _row_blocks(table):
    n_rows = max(1, _BLOCK // max(1, table.shape[1]))
    for start in range(0, len(table), n_rows):
        yield slice(start, min(start + n_rows, len(table)))


def _blocks_of_words(words):
    iterator = iter(words)
    while block := list(islice(iterator, 65_536)):
        yield ("\n".join(block) + "\n").encode("utf-8", "surrogatepass")
