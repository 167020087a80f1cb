"""`WordVectors`: a vocabulary with its tables of vectors, frozen; and how they are saved.

Training is in `skipgram`, reading files of other programs in `formats`.
"""

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from pacsent import registry
from pacsent.storage import State, check_finite, checked_tensor, load
from pacsent.words.fingerprint import Fingerprint
from pacsent.words.packing import Packed, checked_table
from pacsent.words.pieces import Pieces
from pacsent.words.subwords import Subwords
from pacsent.words.vocabulary import TOKENIZER, Vocabulary
from pacsent.words.word_table import is_memory_mapped

_BLOCK = 1 << 22  # numbers handled at once where a whole table is read
TABLES = ("input", "output")
SENTENCE_ENCODERS = ("mean", "unit")  # encoders that need nothing but the input table
WORD_LIST = "vocabulary.tsv"
HASH_TABLE_VERSION = 2  # goes up when the hash function or the layout of the table changes
_LARGE = 10_000  # words from which the table for looking them up is saved too


class WordVectors:
    """A vocabulary with its input vectors and, where known, its output vectors; frozen.

    The tables are kept as read-only views; nothing is copied. Tables in memory are checked for NaN
    and infinity at once, memory-mapped ones when they are first asked for, because opening a model
    must not read it.

    Parameters
    ----------
    vocabulary : Vocabulary
    input_vectors : array, shape (n_words, n_dims), float32 or float16
        float64 is taken too, for exact checks. A `Packed` table is unpacked when first asked for.
    output_vectors : array of the same shape, or None
    corpus_digest : str or None
        Digest of the text the vectors were trained on; certificates refuse the same text.
    training : dict
        What is known about how they were trained (n_negatives, window, ...).
    subwords : Subwords or None
        Vectors of character n-grams (fastText): `input` then answers for unknown words as well.
        What works with the vocabulary (`encode`, every vectorizer) leaves unknown words out.
    fingerprint : Fingerprint or None
        Of the documents the vectors were trained on, in any order; a certificate refuses documents
        that are among them, and says so where it is None.
    sentences : encoder, function that opens it, "mean" or "unit", optional
        Encoder of sentences (`encode`), for example a distilled one. "mean" is the mean of the
        input vectors, "unit" their mean at unit length.

    Examples
    --------
    >>> words = WordVectors(Vocabulary(["film", "good"], [3, 1]),
    ...                     np.array([[1, 0], [0.6, 0.8]], dtype=np.float32))
    >>> words
    WordVectors(n_words=2, n_dims=2, input table only)
    >>> words.most_similar("film")
    [('good', 0.6...)]
    """

    kind = "WordVectors"

    def __init__(
        self,
        vocabulary: Vocabulary,
        input_vectors: np.ndarray | Packed,
        output_vectors: np.ndarray | Packed | None = None,
        *,
        corpus_digest: str | None = None,
        training: Mapping | None = None,
        subwords: Subwords | None = None,
        fingerprint: Fingerprint | None = None,
        sentences: Any = None,
    ):
        if isinstance(sentences, str) and sentences not in SENTENCE_ENCODERS:
            raise ValueError(
                f"sentences must be one of {SENTENCE_ENCODERS}. Got {sentences!r} instead"
            )
        self._sentences = sentences
        self._vocabulary, self._fingerprint = vocabulary, fingerprint
        self._corpus_digest, self._training = corpus_digest, dict(training or {})
        given: dict[str, Any] = {"input": input_vectors, "output": output_vectors}
        self._tables = {
            name: table if isinstance(table, Packed) else checked_table(f"{name}_vectors", table)
            for name, table in given.items()
            if table is not None or name == "input"
        }
        self._raw_subwords = subwords
        self._norms: dict[str, np.ndarray] = {}
        self._checked: dict[str, np.ndarray] = {}  # tables that were verified, found finite
        self._check_shapes()
        for name, table in self._tables.items():
            if not isinstance(table, Packed) and not is_memory_mapped(table):
                self._usable(name)  # checked now

    def _check_shapes(self):
        n_words = len(self._vocabulary)
        for name, table in self._tables.items():
            if table.shape[0] != n_words:
                raise ValueError(
                    f"{name}_vectors must be one row per word of the vocabulary ({n_words:,}). "
                    f"Got {table.shape[0]:,} rows instead. Pass the vocabulary the table was "
                    "trained with."
                )
            if table.shape[1] != self.n_dims:
                raise ValueError(
                    f"output_vectors must be as wide as input_vectors ({self.n_dims:,} "
                    f"dimensions). Got {table.shape[1]:,} instead. Use the two tables of one "
                    "training."
                )
        subwords = self._raw_subwords
        if subwords is not None and subwords.vectors.shape[1] != self.n_dims:
            raise ValueError(
                f"subwords must be as wide as input_vectors ({self.n_dims:,} dimensions). "
                f"Got {subwords.vectors.shape[1]:,} instead. Use the parts of one training."
            )

    # ---- parts ---------------------------------------------------------------------------------

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    @property
    def input_vectors(self) -> np.ndarray:
        """The input table, (n_words, n_dims), read-only."""
        return self._usable("input")

    @property
    def output_vectors(self) -> np.ndarray | None:
        """The output table, (n_words, n_dims), read-only; None where there is none."""
        return self._usable("output") if "output" in self._tables else None

    def _usable(self, name) -> np.ndarray:
        """A table, unpacked where it is packed, that was found finite."""
        if name not in self._checked:
            table, finite = self._tables[name], False
            if isinstance(table, Packed):
                finite, table = table.surely_finite(), checked_table(name, table.unpack())
            if not finite:
                self._check_finite(name, table)
            self._checked[name] = table
        return self._checked[name]

    @property
    def subwords(self) -> Subwords | None:
        """Vectors of character n-grams; None where there are none."""
        subwords = self._raw_subwords
        if subwords is not None and "subwords" not in self._checked:
            check_finite(subwords.vectors, "subword_vectors")
            self._checked["subwords"] = subwords.vectors
        return subwords

    @property
    def fingerprint(self) -> Fingerprint | None:
        """Of the documents the vectors were trained on; None when unknown."""
        return self._fingerprint

    @property
    def corpus_digest(self) -> str | None:
        """Digest of the text the vectors were trained on; None when unknown."""
        return self._corpus_digest

    @property
    def training(self) -> dict:
        """What is known about how the vectors were trained."""
        return self._training

    @property
    def sentences(self) -> Any:
        """The encoder of sentences that comes with these words; None where there is none."""
        if isinstance(
            self._sentences, str
        ):  # made of this table, and kept apart: no cycle is saved
            return self._own_sentences
        if self._sentences is not None and not hasattr(self._sentences, "posterior"):
            self._sentences = self._sentences()  # opened when it is first asked for
        return self._sentences

    @cached_property
    def _own_sentences(self) -> Any:
        make_encoder = registry.find("sentence encoder", self._sentences)
        assert make_encoder is not None
        return make_encoder(self)

    def encode(self, texts: Any) -> np.ndarray:
        """Vectors of sentences by `sentences`, (n, n_dims), float32.

        >>> from pacsent import load
        >>> load("english").encode(["a glass of wine", "some beer"]).shape
        (2, 256)
        """
        return self._sentence_encoder().encode(texts)

    def similarity(self, a: Any, b: Any) -> np.ndarray:
        """Cosines of the vectors of sentences, (n_a, n_b), within [-1, 1]."""
        return self._sentence_encoder().similarity(a, b)

    def _sentence_encoder(self):
        if self.sentences is None:
            raise ValueError(
                "These word vectors must come with a table for sentences to encode texts by "
                "themselves. They have none. Choose a method: make('SIF-sum', words).fit([])."
            )
        return self.sentences

    @property
    def packed(self) -> dict[str, Packed]:
        """The tables that are packed, by name ("input", "output")."""
        return {name: table for name, table in self._tables.items() if isinstance(table, Packed)}

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
        return self._tables["input"].shape[1]

    def __repr__(self) -> str:
        only = "" if "output" in self._tables else ", input table only"
        return f"WordVectors(n_words={self.n_words}, n_dims={self.n_dims}{only})"

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __contains__(self, word) -> bool:
        return word in self.vocabulary

    def __sklearn_clone__(self):
        return self

    def __getstate__(self):
        made = ("_digest", "_own_sentences")
        kept = {name: value for name, value in self.__dict__.items() if name not in made}
        own = isinstance(self._sentences, str)
        opened = {"_sentences": self._sentences if own else self.sentences}
        return {**kept, **opened, "_norms": {}, "_checked": {}}

    def _check_all(self):
        _ = self.input_vectors, self.output_vectors, self.subwords

    def replace(self, **changes: Any) -> "WordVectors":
        """The same word vectors with other values for some parameters of the constructor.

        Other words or other tables do not have the encoder of sentences.

        >>> words = WordVectors(Vocabulary(["film"]), np.ones((1, 2), dtype=np.float32))
        >>> words.replace(corpus_digest="9f2c").corpus_digest
        '9f2c'
        """
        self._check_all()
        own = {
            "vocabulary": self.vocabulary,
            "input_vectors": self._tables["input"],
            "output_vectors": self._tables.get("output"),
            "corpus_digest": self.corpus_digest,
            "training": self.training,
            "subwords": self.subwords,
            "fingerprint": self.fingerprint,
            "sentences": None
            if {"vocabulary", "input_vectors"} & set(changes)
            else self._sentences,
        }
        return WordVectors(**{**own, **changes})

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
        """The input vector of a word; of any word, where there are subword vectors or pieces."""
        row = self._row(word)
        if row >= 0:
            return self.input_vectors[row]
        if self.subwords is not None:
            return self.subwords.vector(word)
        return self._of_pieces(word, self.input_vectors)

    def output(self, word: str) -> np.ndarray:
        """The output vector of a word."""
        table = self._table("output")
        row = self._row(word)
        return table[row] if row >= 0 else self._of_pieces(word, table)

    def most_similar(
        self, query: Any, n: int = 10, *, table: str = "input", among: str | None = None
    ) -> list[tuple[str, float]]:
        """The n words whose vectors have the largest cosine with the query, as (word, cosine).

        The query is a word, whose vector is taken from `table` ("input" or "output"), or a vector.
        Neighbours are looked for in the table `among`, by default the same one; in the other, the
        largest cosines are of words that occur near the query rather than of words like it. The
        query itself is left out of its own table; rows of zeros have no direction and are left out.
        """
        among = table if among is None else among
        searched, norms = self._table(among), self._lengths(among)
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
        return self.replace(input_vectors=changed, output_vectors=output, subwords=subwords)

    def digest(self) -> str:
        """sha256 of words and tables, in hexadecimal; computed once, reads every number.

        The same vectors have the same digest in memory and in every format that keeps them
        exactly. Folders, certificates and results name their word vectors by it.
        """
        return self._digest

    @cached_property
    def _digest(self) -> str:
        self._check_all()
        sha = hashlib.sha256()
        words = iter(self.words)
        while block := list(islice(words, 65_536)):
            sha.update(("\n".join(block) + "\n").encode("utf-8", "surrogatepass"))
        for name in self._tables:
            table = self._usable(name)
            sha.update(f"{name} {table.dtype.str} {table.shape}".encode())
            for rows in _row_blocks(table):
                sha.update(np.ascontiguousarray(table[rows]).data)
        return sha.hexdigest()

    def trained_on(self, texts: Iterable) -> "WordVectors":
        """The same vectors with the fingerprint of the texts they were trained on.

        For vectors of other programs: certificates can then be checked for overlap. `texts` is what
        `Vocabulary.encode` takes, or a Corpus of this very vocabulary.
        """
        encoded = self.vocabulary.encode(texts)
        return self.replace(fingerprint=Fingerprint.of(self.vocabulary, encoded))

    def check_finite(self) -> "WordVectors":
        """Read both tables and raise at the first NaN or infinity; returns self."""
        for name in self._tables:
            self._check_finite(name, self._usable(name))
        return self

    def check_rows(self, ids: np.ndarray) -> None:
        """Raise where the vectors of these words hold NaN or infinity, and name the word.

        Tables are checked when they are made or first read; this finds what was written into the
        memory of a table afterwards.
        """
        rows = np.unique(ids)
        for name in self._tables:
            table = self._usable(name)
            if not (finite := _finite(table[rows])).all():
                self._refuse_row(name, int(rows[np.argmin(finite)]))

    def _check_finite(self, name, table):
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
        return self._usable(name)

    def _row(self, word) -> int:
        """The row of a word, -1 where it is unknown or has several pieces."""
        if not isinstance(word, str):
            raise ValueError(f"A word must be a str. Got {type(word).__name__} instead.")
        # of pieces, "haus" is the word ▁haus rather than the end of another word
        rows = self._piece_rows(word)
        return int(rows[0]) if len(rows) == 1 else self.vocabulary.id_of(word)

    def _piece_rows(self, word) -> np.ndarray:
        """The rows of the pieces of a word; none where the vocabulary has whole words."""
        if not isinstance(self.vocabulary.normalise, Pieces):
            return np.zeros(0, np.int32)
        return self.vocabulary.encode([word]).ids

    def _of_pieces(self, word, table) -> np.ndarray:
        """The mean of the vectors of the pieces of a word."""
        rows = self._piece_rows(word)
        if not rows.size:
            raise ValueError(self._unknown(word))
        return table[rows].mean(axis=0, dtype=np.float32)

    def _lengths(self, name) -> np.ndarray:
        """Norms of the rows of a table, computed once."""
        if name not in self._norms:
            table = self._table(name)
            norms = np.empty(self.n_words, dtype=np.float32)
            for rows in _row_blocks(table):
                block = table[rows].astype(np.float32, copy=False)
                norms[rows] = np.sqrt(np.einsum("ij,ij->i", block, block))
            self._norms[name] = norms
        return self._norms[name]

    def _unknown(self, word) -> str:
        variants = (word.lower(), word.strip(), word.strip().lower(), word.capitalize())
        near = [w for w in variants if w != word and w in self.vocabulary]
        if not near:
            frequent = (w for w in islice(self.words, 50_000) if w[:1] == word[:1])
            alike = [w for w in frequent if abs(len(w) - len(word)) <= 2]
            near = difflib.get_close_matches(word, alike, n=1, cutoff=0.75)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        return f"{word!r} is not among these {self.n_words:,} words.{meant}"

    # ---- saving --------------------------------------------------------------------------------

    def state(self) -> State:
        """What `pacsent.save` writes."""
        self._check_all()
        vocabulary = self.vocabulary
        pieces = vocabulary.normalise if isinstance(vocabulary.normalise, Pieces) else None
        if callable(vocabulary.normalise) and pieces is None:
            raise ValueError(
                "The vocabulary's normalise must be a name ('paper', 'unicode') to be saved. Got "
                f"the function {getattr(vocabulary.normalise, '__name__', '?')!r} instead, which "
                "only pickle could keep. Save the vectors with a named one and give the function "
                "when they are opened: load(path, normalise=...)."
            )
        tensors: dict[str, np.ndarray] = {}
        for name, table in self._tables.items():
            parts = table.arrays() if isinstance(table, Packed) else {"": table}
            tensors |= {f"{name}_vectors.{part}".rstrip("."): a for part, a in parts.items()}
        parameters: dict[str, Any] = {"normalise": vocabulary.normalise_name}
        parameters["unknown"] = vocabulary.unknown
        if pieces is not None:
            tensors[TOKENIZER] = np.frombuffer(pieces.definition.encode(), np.uint8)
            parameters["max_characters"] = pieces.max_characters
        if isinstance(self._sentences, str):
            parameters["sentences"] = self._sentences
        if self.subwords is not None:
            tensors["subword_vectors"] = self.subwords.vectors
            sizes = {"min_n": self.subwords.min_n, "max_n": self.subwords.max_n}
            parameters["subwords"] = sizes
        if self.fingerprint is not None:
            tensors["fingerprint.documents"] = self.fingerprint.documents
            tensors["fingerprint.runs"] = self.fingerprint.runs
            parameters["fingerprint"] = self.fingerprint.counts()
        # what was packed to be small is saved without the hash table, which is built when it is
        # first needed, and without a second copy of the words
        large = len(vocabulary) >= _LARGE and not self.packed
        arrays = vocabulary.arrays() if large else vocabulary.arrays_without_lookup()
        _check_unicode(arrays["word_bytes"], vocabulary)
        tensors |= {f"vocabulary.{name}": array for name, array in arrays.items()}
        first = self._tables["input"]
        config = {
            "n_words": self.n_words,
            "n_dims": self.n_dims,
            "dtype": f"{first.bits} bits" if isinstance(first, Packed) else str(first.dtype),
            "tables": sorted(f"{name}_vectors" for name in self._tables),
            "counts_known": vocabulary.counts is not None,
            "hash_table_version": HASH_TABLE_VERSION,
            "parameters": parameters,
            "corpus_digest": self.corpus_digest,
            "training": self.training,
            "vectors_digest": self.digest(),
        }
        files = {} if self.packed else {WORD_LIST: _word_list(vocabulary)}
        own = self.sentences is None or isinstance(self._sentences, str)
        parts = {} if own else {"sentences": self.sentences}
        return State(config, tensors, parts, files)

    @classmethod
    def from_state(cls, state: State) -> "WordVectors":
        """The inverse of `state`: structure and shapes are checked now, numbers when first used."""
        config, tensors = state.config, state.tensors
        parameters = config["parameters"]
        names = [name for name in tensors if name.startswith("vocabulary.")]
        if config.get("hash_table_version") != HASH_TABLE_VERSION:  # of another pacsent
            names = [name for name in names if name != "vocabulary.hash_table"]
        vocabulary = Vocabulary.from_arrays(
            {name.removeprefix("vocabulary."): tensors[name] for name in names},
            _saved_normalise(tensors, parameters),
            unknown=parameters.get("unknown", "drop"),
        )
        tables = {name: _saved_table(f"{name}_vectors", tensors, config) for name in TABLES}
        if tables["input"] is None:
            raise ValueError("it has no input_vectors")
        words = cls(
            vocabulary,
            tables["input"],
            tables["output"],
            corpus_digest=config.get("corpus_digest"),
            training=config.get("training"),
            subwords=_saved_subwords(tensors, parameters),
            fingerprint=_saved_fingerprint(tensors, parameters),
            sentences=state.parts.get("sentences", parameters.get("sentences")),
        )
        for name, found in (("n_words", words.n_words), ("n_dims", words.n_dims)):
            if config.get(name, found) != found:
                raise ValueError(
                    f"{name} is {found} in its table and {config[name]} in config.json"
                )
        return words

    def check_contents(self) -> str:
        """Read every number and every word; a summary for `pacsent check`."""
        self.check_finite()
        self.vocabulary.table.check()
        return f"{self.n_words:,} words found, all numbers finite"


registry.register("kind", WordVectors.kind, WordVectors.from_state)


def as_word_vectors(source: Any, **options: Any) -> WordVectors:
    """Word vectors as they are, or opened by `load` with its options; no other model.

    >>> as_word_vectors("english")
    WordVectors(n_words=65536, n_dims=256)
    """
    found = source if isinstance(source, WordVectors) else load(source, **options)
    if not isinstance(found, WordVectors):
        raise ValueError(
            f"{source} must hold word vectors. It holds a fitted {type(found).__name__} instead: "
            "open it with pacsent.load, or name its folder of words."
        )
    return found


def trained_words(
    corpus: Any, input_vectors: np.ndarray, output_vectors: np.ndarray, training: dict
) -> WordVectors:
    """Word vectors trained on a `Corpus`, with the digest and fingerprint of its text.

    Everything that trains makes its result here, so that a certificate can always tell whether its
    texts are among those of the training. `training` holds its parameters, seed and loss.
    """
    how = corpus.vocabulary.normalise
    if isinstance(how, Pieces):
        said = {"normalise": f"pieces of words, {len(how.token_ids):,} learned"}
    else:
        said = {"normalise": corpus.chosen} if corpus.chosen else {}
    return WordVectors(
        corpus.vocabulary,
        input_vectors,
        output_vectors,
        corpus_digest=corpus.digest,
        fingerprint=Fingerprint.of(corpus.vocabulary, corpus),
        training={"method": "skip-gram with negative sampling", **said, **training},
    )


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


# ---- parts of a saved folder --------------------------------------------------------------------


def _parts_of(name, tensors) -> list[str]:
    """The tensors that a table is made of: one, or those of a packed table."""
    return [part for part in tensors if part == name or part.startswith(f"{name}.")]


def _saved_table(name, tensors, config) -> np.ndarray | Packed | None:
    """A table as an array, or packed; None where there is none."""
    if name in tensors or not (parts := _parts_of(name, tensors)):
        return tensors.get(name)
    bits = int(config["dtype"].partition(" ")[0])
    return Packed(**{part.removeprefix(f"{name}."): tensors[part] for part in parts}, bits=bits)


def _saved_normalise(tensors, parameters) -> Any:
    """The name of the normalisation, or the tokenizer that is saved beside it."""
    if parameters["normalise"] != TOKENIZER:
        return parameters["normalise"]
    definition = checked_tensor(tensors, TOKENIZER, np.uint8, (None,))
    return Pieces(definition.tobytes().decode("utf-8"), max_characters=parameters["max_characters"])


def _saved_subwords(tensors, parameters) -> Subwords | None:
    if "subword_vectors" not in tensors:
        return None
    sizes = parameters["subwords"]
    if any(type(size) is not int for size in sizes.values()):
        raise ValueError("the lengths of subwords must be integers")
    return Subwords(tensors["subword_vectors"], **sizes)


def _saved_fingerprint(tensors, parameters) -> Fingerprint | None:
    if "fingerprint.documents" not in tensors:
        return None
    names = ("fingerprint.documents", "fingerprint.runs")
    kept = [checked_tensor(tensors, name, np.uint64, (None,)) for name in names]
    if any((hashes[1:] < hashes[:-1]).any() for hashes in kept):
        raise ValueError("the hashes of the fingerprint must be sorted")
    counts = parameters["fingerprint"]
    if any(type(count) is not int or count < 0 for count in counts.values()):
        raise ValueError("the counts of the fingerprint must be integers of at least 0")
    return Fingerprint(kept[0], kept[1], **counts)


def _check_unicode(word_bytes, vocabulary) -> None:
    try:
        word_bytes.tobytes().decode("utf-8")
    except UnicodeDecodeError:
        bad = next(w for w in vocabulary.words if w.encode("utf-8", "replace").decode() != w)
        raise ValueError(
            f"Words must be valid Unicode to be saved. Got {bad!r} instead, which holds half a "
            "character. Rename or drop the word."
        ) from None


_ESCAPED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def _word_list(vocabulary) -> Iterator[bytes]:
    """The lines of vocabulary.tsv: word and, where known, count."""
    counts = vocabulary.counts
    for start in range(0, len(vocabulary), 65_536):
        words = vocabulary.words[start : start + 65_536]
        lines = [word if word.isalpha() else word.translate(_ESCAPED) for word in words]
        if counts is not None:
            numbers = counts[start : start + 65_536].tolist()
            lines = [f"{word}\t{count}" for word, count in zip(lines, numbers)]
        yield ("\n".join(lines) + "\n").encode("utf-8")
