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
from pacsent.storage import State, UnopenedPart, check_finite, checked_tensor, load
from pacsent.words.fingerprint import Fingerprint
from pacsent.words.pieces import Pieces
from pacsent.words.subwords import Subwords
from pacsent.words.vector_table import Packed, VectorTable, row_blocks
from pacsent.words.vocabulary import TOKENIZER, Frozen, Vocabulary

SENTENCE_ENCODERS = ("mean", "unit")  # encoders that need nothing but the input vectors
HASH_TABLE_VERSION = 2  # goes up when the hash function or the layout of the table changes
_MIN_HASHED_WORDS = 10_000  # words from which the table for looking them up is saved too
_LINES_PER_BLOCK = 65_536  # words written or hashed at once
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_SUGGESTION_WORDS = 50_000  # frequent words among which a misspelt one is looked for
_FINGERPRINT_TENSORS = ("fingerprint.documents", "fingerprint.runs")


class WordVectors(Frozen):
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
        Vectors of character n-grams (fastText): `input` then answers for OOV words as well.
        What works with the vocabulary (`encode`, every vectorizer) leaves OOV words out.
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
    WordVectors(n_words=2, n_dims=2, input vectors only)
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
        self.vocabulary = vocabulary
        self.fingerprint = fingerprint
        self.corpus_digest = corpus_digest
        self.training = dict(training or {})
        self.tables = {"input": VectorTable("input_vectors", input_vectors, vocabulary)}
        if output_vectors is not None:
            self.tables["output"] = VectorTable("output_vectors", output_vectors, vocabulary)
            self._check_width("output_vectors", output_vectors)

        self._subwords = subwords
        if subwords is not None:
            self._check_width("subwords", subwords.vectors)

    def _check_width(self, name: str, table: np.ndarray | Packed) -> None:
        n_dims = table.shape[1]
        if n_dims != self.n_dims:
            raise ValueError(
                f"{name} must be as wide as input_vectors ({self.n_dims:,} dimensions). Got "
                f"{n_dims:,} instead. Use the parts of one training."
            )

    @property
    def input_vectors(self) -> np.ndarray:
        """The input vectors, (n_words, n_dims), read-only."""
        return self.tables["input"].array

    @property
    def output_vectors(self) -> np.ndarray | None:
        """The output vectors, (n_words, n_dims), read-only; None where there is none."""
        if "output" not in self.tables:
            return None
        return self.tables["output"].array

    @cached_property
    def subwords(self) -> Subwords | None:
        """Vectors of character n-grams; None if there are none."""
        if self._subwords is not None:
            check_finite(self._subwords.vectors, "subword_vectors")
        return self._subwords

    @property
    def saved_sentences(self) -> Any:
        """The encoder of sentences as it is saved: itself, "mean" or "unit", or None."""
        if callable(self._sentences) and not hasattr(self._sentences, "posterior"):
            self._sentences = self._sentences()  # opened when it is first used
            vars(self).pop("_plain_encoder", None)  # one table of them in memory is enough
        return self._sentences

    @cached_property
    def sentences(self) -> Any:
        """The encoder of sentences that comes with these words; None if there is none."""
        encoder = self.saved_sentences
        if not isinstance(encoder, str):
            return encoder
        make_encoder: Any = registry.find_reader("sentence encoder", encoder)
        return make_encoder(self)

    def encode(self, texts: Any) -> np.ndarray:
        """Vectors of sentences by `sentences`.

        Parameters
        ----------
        texts : iterable of str

        Returns
        -------
        vectors : array of float32, shape (n_texts, n_dims)

        Examples
        --------
        >>> from pacsent import load
        >>> load("english").encode(["a glass of wine", "some beer"]).shape
        (2, 256)
        """
        return self._plain_encoder.encode(texts)

    def similarity(self, a: Any, b: Any) -> np.ndarray:
        """Cosines of the vectors of sentences.

        Parameters
        ----------
        a, b : iterable of str

        Returns
        -------
        cosines : array of float32, shape (n_a, n_b)
            Within [-1, 1].
        """
        return self._plain_encoder.similarity(a, b)

    @cached_property
    def _plain_encoder(self) -> Any:
        """Encoder of sentences: without scikit-learn, if `sentences` was not opened before."""
        encoder: Any = None
        if isinstance(self._sentences, str):
            make_encoder: Any = registry.find_reader("plain encoder", self._sentences)
            encoder = make_encoder and make_encoder(self)
        elif isinstance(self._sentences, UnopenedPart):
            encoder = self._sentences.open_as("plain encoder")

        if encoder is None:
            encoder = self.sentences
        if encoder is None:
            raise ValueError(
                "These word vectors must come with a table for sentences to encode texts by "
                "themselves. They have none. Choose a method: "
                "make_encoder('SIF-sum', words).fit([])."
            )
        return encoder

    @property
    def packed(self) -> dict[str, Packed]:
        """The compressed tables, by name ("input", "output")."""
        packed = {}
        for name, table in self.tables.items():
            if isinstance(table.stored, Packed):
                packed[name] = table.stored
        return packed

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
        """Number of words."""
        return len(self.vocabulary)

    @property
    def n_dims(self) -> int:
        """Length of a vector."""
        return self.tables["input"].shape[1]

    def __repr__(self) -> str:
        only = "" if "output" in self.tables else ", input vectors only"
        return f"WordVectors(n_words={self.n_words}, n_dims={self.n_dims}{only})"

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __contains__(self, word: Any) -> bool:
        return word in self.vocabulary

    def __sklearn_clone__(self) -> "WordVectors":
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Without what can be computed again."""
        state = dict(self.__dict__)
        for derived in ("_digest", "_plain_encoder", "sentences", "subwords"):
            state.pop(derived, None)
        state["_sentences"] = self.saved_sentences
        return state

    def replace(self, **changes: Any) -> "WordVectors":
        """The same word vectors with other values for some parameters of the constructor.

        Parameters
        ----------
        **changes
            New values by the names of the constructor's parameters. Other words or other tables do
            not have the encoder of sentences.

        Returns
        -------
        words : WordVectors

        Examples
        --------
        >>> words = WordVectors(Vocabulary(["film"]), np.ones((1, 2), dtype=np.float32))
        >>> words.replace(corpus_digest="9f2c").corpus_digest
        '9f2c'
        """
        parameters: dict[str, Any] = {
            "vocabulary": self.vocabulary,
            "corpus_digest": self.corpus_digest,
            "training": self.training,
            "subwords": self.subwords,
            "fingerprint": self.fingerprint,
        }
        for name, table in self.tables.items():
            parameters[f"{name}_vectors"] = table.stored
        if "vocabulary" not in changes and "input_vectors" not in changes:
            parameters["sentences"] = self._sentences
        return WordVectors(**(parameters | changes))

    def roles(
        self, *, swap: bool = False, method: str = "This method"
    ) -> tuple[np.ndarray, np.ndarray]:
        """(A_hat, B_hat): the table of the loss and the table of the prior; swapped for `i-`.

        Parameters
        ----------
        swap : bool, default=False
            Return the output vectors first.
        method : str
            Name of the caller, for the message if there are no output vectors.

        Returns
        -------
        A_hat, B_hat : arrays, shape (n_words, n_dims)
        """
        A_hat, B_hat = self.role_tables(swap=swap, method=method)
        return A_hat.array, B_hat.array

    def role_tables(
        self, *, swap: bool = False, method: str = "This method"
    ) -> tuple[VectorTable, VectorTable]:
        """`roles`, of which nothing is read yet.

        Parameters
        ----------
        swap : bool, default=False
            Return the output vectors first.
        method : str
            Name of the caller, for the message if there are no output vectors.

        Returns
        -------
        A_hat, B_hat : VectorTable
        """
        output_table = self._table("output", f"{method} needs output vectors, and these")
        input_table = self.tables["input"]
        if swap:
            return output_table, input_table
        return input_table, output_table

    def input(self, word: str) -> np.ndarray:
        """The input vector of a word; of any word, where there are subword vectors or pieces.

        Parameters
        ----------
        word : str

        Returns
        -------
        vector : array, shape (n_dims,)
        """
        return self._vector(word, "input")

    def output(self, word: str) -> np.ndarray:
        """The output vector of a word.

        Parameters
        ----------
        word : str

        Returns
        -------
        vector : array, shape (n_dims,)
        """
        return self._vector(word, "output")

    def most_similar(
        self, query: Any, n: int = 10, *, table: str = "input", among: str | None = None
    ) -> list[tuple[str, float]]:
        """The words whose vectors have the largest cosine with the query.

        Parameters
        ----------
        query : str or array, shape (n_dims,)
            A word, whose vector is taken from `table`, or a vector.
        n : int, default=10
            Number of neighbours.
        table : "input" or "output", default="input"
            Table of the query's vector.
        among : "input", "output" or None, default=None
            Table of the neighbours; None is `table`. In the other table, the largest cosines are of
            words that occur near the query rather than of words like it.

        Returns
        -------
        neighbours : list of (word, cosine)
            Largest cosine first. The query itself is omitted in its own table, and so are rows of
            zeros, which have no direction.
        """
        among = table if among is None else among
        neighbour_table = self._table(among)
        vectors = neighbour_table.array
        norms = neighbour_table.norms
        if n < 1 or int(n) != n:
            raise ValueError(f"n must be a positive integer. Got {n!r} instead.")

        query_vector = self._query_vector(query, table)
        length = np.linalg.norm(query_vector)
        if not np.isfinite(length) or length == 0:
            raise ValueError(
                "The query must be a finite vector other than 0. Got one of length "
                f"{length} instead: it has no direction to compare."
            )
        direction = (query_vector / length).astype(np.float32)

        cosines = np.empty(self.n_words, dtype=np.float32)
        for rows in row_blocks(vectors):
            block = vectors[rows].astype(np.float32, copy=False)
            cosines[rows] = block @ direction
        with np.errstate(divide="ignore", invalid="ignore"):
            cosines /= norms

        # Rows of zeros, and the query in its own table, are no neighbours.
        cosines[norms == 0] = -np.inf
        if isinstance(query, str) and table == among:
            query_rows = self._rows(query)
            if len(query_rows) == 1:
                cosines[query_rows] = -np.inf

        n_neighbours = min(int(n), self.n_words)
        best = np.argpartition(-cosines, n_neighbours - 1)[:n_neighbours]
        best = best[np.lexsort((best, -cosines[best]))]
        best = best[cosines[best] > -np.inf]
        return [(self.words[row], float(cosines[row])) for row in best]

    def _query_vector(self, query: Any, table: str) -> np.ndarray:
        """The float64 vector of a word, or a vector that is one of this width."""
        if isinstance(query, str):
            return self._vector(query, table).astype(np.float64)

        vector = np.asarray(query)
        if vector.shape != (self.n_dims,):
            raise ValueError(
                f"The query must be a word or a vector of {self.n_dims} numbers. "
                f"Got an array of shape {vector.shape} instead."
            )
        return vector.astype(np.float64)

    def astype(self, dtype: DTypeLike) -> "WordVectors":
        """The same words with tables of another precision.

        Parameters
        ----------
        dtype : float32, float16 or float64
            Numbers too large for float16 raise ValueError rather than become infinity.

        Returns
        -------
        words : WordVectors
            Itself if nothing changes.
        """
        if all(table.array.dtype == dtype for table in self.tables.values()):
            return self

        changes: dict[str, Any] = {}
        with np.errstate(over="ignore"):  # refused by the constructor, with the word
            for name, table in self.tables.items():
                changes[f"{name}_vectors"] = table.array.astype(dtype)
            if self.subwords is not None:
                subword_vectors = self.subwords.vectors.astype(dtype)
                changes["subwords"] = replace(self.subwords, vectors=subword_vectors)
        return self.replace(**changes)

    def digest(self) -> str:
        """sha256 of words and tables, in hexadecimal; computed once, reads every number.

        The same vectors have the same digest in memory and in every format that keeps them
        exactly. Folders, certificates and results name their word vectors by it.

        Returns
        -------
        digest : str
        """
        if "_digest" not in vars(self):
            self._digest = self._compute_digest()
        return self._digest

    def _compute_digest(self) -> str:
        sha256 = hashlib.sha256()
        for start in range(0, self.n_words, _LINES_PER_BLOCK):
            block = "\n".join(self.words[start : start + _LINES_PER_BLOCK]) + "\n"
            sha256.update(block.encode("utf-8", "surrogatepass"))

        for name, table in self.tables.items():
            header = f"{name} {table.array.dtype.str} {table.shape}"
            sha256.update(header.encode())
            for rows in row_blocks(table.array):
                block_of_rows = np.ascontiguousarray(table.array[rows])
                sha256.update(block_of_rows.data)
        return sha256.hexdigest()

    def accept_shipped(self, digest: str, lookup: Mapping[str, np.ndarray]) -> None:
        """Take what was computed of a model that comes with the package, where it cannot change.

        `scripts/make_lookup.py` writes these values, and a test compares all three with what they
        are computed from.

        Parameters
        ----------
        digest : str
        lookup : mapping of str to array
            hash_table and word_hashes of the vocabulary.
        """
        self._digest = digest
        self.vocabulary.table.accept(**lookup)

    def trained_on(self, texts: Iterable) -> "WordVectors":
        """The same vectors with the fingerprint of the texts they were trained on.

        For vectors of other programs: certificates can then be checked for overlap.

        Parameters
        ----------
        texts : iterable of str or of token lists, or Corpus
            A Corpus must be of this very vocabulary.

        Returns
        -------
        words : WordVectors
        """
        encoded = self.vocabulary.encode(texts)
        return self.replace(fingerprint=Fingerprint.of(self.vocabulary, encoded))

    def check_finite(self) -> "WordVectors":
        """Read all tables and raise ValueError at the first NaN or infinity.

        Returns
        -------
        self : WordVectors
        """
        # Each of these is checked when it is first read.
        for table in self.tables.values():
            _ = table.array
        _ = self.subwords
        return self

    def _table(self, name: str, subject: str = "These") -> VectorTable:
        if name not in ("input", "output"):
            raise ValueError(f"A table must be one of 'input', 'output'. Got {name!r} instead.")
        if name not in self.tables:
            raise ValueError(
                f"{subject} word vectors have input vectors only. Train with SkipGram, or read a "
                "file that holds both matrices (FILE with context_FILE, fastText's .bin). Methods "
                "without output vectors: Average with alpha=0, IDF-Average with 1/lambda=0 "
                "(lam=inf)."
            )
        return self.tables[name]

    def _rows(self, word: str) -> np.ndarray:
        """The row of a word, or the rows of its pieces; none if it is unknown."""
        if not isinstance(word, str):
            raise ValueError(f"A word must be a str. Got {type(word).__name__} instead.")

        rows = np.zeros(0, np.int32)
        if isinstance(self.vocabulary.normalize, Pieces):
            # "haus" is the word ▁haus rather than the end of another word
            rows = self.vocabulary.encode([word]).ids
        if rows.size == 1:
            return rows

        row = self.vocabulary.id_of(word)
        return rows if row < 0 else np.array([row])

    def _vector(self, word: str, name: str) -> np.ndarray:
        """The vector of a word in a table; the mean of its pieces if it is cut into several."""
        table = self._table(name).array
        rows = self._rows(word)
        if rows.size == 1:
            return table[rows[0]]
        if rows.size:
            return table[rows].mean(axis=0, dtype=np.float32)
        if name == "input" and self.subwords is not None:
            return self.subwords.vector(word)

        suggestion = self._suggest_word(word)
        raise ValueError(f"{word!r} is not among these {self.n_words:,} words.{suggestion}")

    def _suggest_word(self, word: str) -> str:
        """A question with the word that a misspelt one may stand for; "" if there is none."""
        frequent_words = islice(self.words, _SUGGESTION_WORDS)
        candidates = [other for other in frequent_words if abs(len(other) - len(word)) <= 1]
        lowered = word.strip().lower()
        matches = difflib.get_close_matches(lowered, candidates, n=1, cutoff=0.75)
        return f" Did you mean {matches[0]!r}?" if matches else ""

    def state(self) -> State:
        """The parts of a folder, as `pacsent.save` writes them.

        Returns
        -------
        state : State
        """
        self.check_finite()
        self._check_words_can_be_saved()

        parameters: dict[str, Any] = self._saved_parameters()
        parts: dict[str, Any] = {}
        sentences = self.saved_sentences
        if isinstance(sentences, str):
            parameters["sentences"] = sentences
        elif sentences is not None:
            parts["sentences"] = sentences

        config = {
            "n_words": self.n_words,
            "n_dims": self.n_dims,
            "dtype": self.tables["input"].precision,
            "tables": sorted(f"{name}_vectors" for name in self.tables),
            "counts_known": self.counts is not None,
            "hash_table_version": HASH_TABLE_VERSION,
            "parameters": parameters,
            "corpus_digest": self.corpus_digest,
            "training": self.training,
            "vectors_digest": self.digest(),
        }

        files = {} if self.packed else {"vocabulary.tsv": self._word_list()}
        return State(config, self._saved_tensors(), parts, files)

    def _check_words_can_be_saved(self) -> None:
        for word in self.words:
            if word.encode("utf-8", "replace").decode() != word:
                raise ValueError(
                    f"Words must be valid Unicode to be saved. Got {word!r} instead, which holds "
                    "half a character. Rename or drop the word."
                )

    def _saved_parameters(self) -> dict[str, Any]:
        """The parameters of the parts, for config.json."""
        vocabulary = self.vocabulary
        parameters: dict[str, Any] = {
            # A function is rejected by `save`.
            "normalize": vocabulary.normalize_name or vocabulary.normalize,
            "unknown": vocabulary.unknown,
        }

        if isinstance(vocabulary.normalize, Pieces):
            parameters["max_characters"] = vocabulary.normalize.max_characters
        if self.subwords is not None:
            parameters["subwords"] = {"min_n": self.subwords.min_n, "max_n": self.subwords.max_n}
        if self.fingerprint is not None:
            parameters["fingerprint"] = self.fingerprint.counts()
        return parameters

    def _saved_tensors(self) -> dict[str, np.ndarray]:
        """All arrays, by their names in the file."""
        tensors: dict[str, np.ndarray] = {}
        for name, table in self.tables.items():
            if isinstance(table.stored, Packed):
                tensors |= _with_prefix(f"{name}_vectors.", table.stored.arrays())
            else:
                tensors[f"{name}_vectors"] = table.stored

        if isinstance(self.vocabulary.normalize, Pieces):
            definition = self.vocabulary.normalize.definition.encode()
            tensors[TOKENIZER] = np.frombuffer(definition, np.uint8)
        if self.subwords is not None:
            tensors["subword_vectors"] = self.subwords.vectors
        if self.fingerprint is not None:
            tensors["fingerprint.documents"] = self.fingerprint.documents
            tensors["fingerprint.runs"] = self.fingerprint.runs

        # Compressed word vectors are to be small: their hash table is built when it is first
        # needed, and there is no second copy of the words.
        with_lookup = self.n_words >= _MIN_HASHED_WORDS and not self.packed
        vocabulary_arrays = self.vocabulary.arrays(lookup=with_lookup)
        return tensors | _with_prefix("vocabulary.", vocabulary_arrays)

    def _word_list(self) -> Iterator[bytes]:
        """The lines of vocabulary.tsv: word and, if known, count."""
        for start in range(0, self.n_words, _LINES_PER_BLOCK):
            rows = slice(start, start + _LINES_PER_BLOCK)
            lines = [word.translate(_ESCAPES) for word in self.words[rows]]
            if self.counts is not None:
                counts = self.counts[rows].tolist()
                lines = [f"{word}\t{count}" for word, count in zip(lines, counts)]
            yield ("\n".join(lines) + "\n").encode("utf-8")

    @classmethod
    def from_state(cls, state: State) -> "WordVectors":
        """The inverse of `state`: structure and shapes are checked now, numbers when first used.

        Parameters
        ----------
        state : State

        Returns
        -------
        words : WordVectors
        """
        config = state.config
        tensors = state.tensors
        parameters = config["parameters"]
        normalize = _read_normalize(tensors, parameters)

        input_vectors = _read_table(tensors, "input_vectors", config)
        output_vectors = _read_table(tensors, "output_vectors", config)
        if input_vectors is None:
            raise ValueError("it has no input_vectors")
        for name, value in zip(("n_words", "n_dims"), input_vectors.shape):
            if config.get(name, value) != value:
                raise ValueError(f"{name} is {value} in its table, {config[name]} in config.json")

        sizes = parameters.get("subwords", {}) | parameters.get("fingerprint", {})
        if any(type(size) is not int or size < 0 for size in sizes.values()):
            raise ValueError("the sizes of subwords and fingerprint must be integers, at least 0")
        subwords = None
        if "subword_vectors" in tensors:
            subwords = Subwords(tensors["subword_vectors"], **parameters["subwords"])
        fingerprint = _read_fingerprint(tensors, parameters)

        vocabulary_arrays = _without_prefix("vocabulary.", tensors)
        if config.get("hash_table_version") != HASH_TABLE_VERSION:
            vocabulary_arrays.pop("hash_table", None)  # built again
        unknown = parameters.get("unknown", "drop")

        return cls(
            Vocabulary.from_arrays(vocabulary_arrays, normalize, unknown=unknown),
            input_vectors,
            output_vectors,
            corpus_digest=config.get("corpus_digest"),
            training=config.get("training"),
            subwords=subwords,
            fingerprint=fingerprint,
            sentences=state.parts.get("sentences", parameters.get("sentences")),
        )

    def check_contents(self) -> str:
        """Read every number and every word.

        Returns
        -------
        summary : str
            A line for `pacsent verify`.
        """
        self.check_finite()
        _ = self.counts  # checked when they are first read
        self.vocabulary.table.check()
        return f"{self.n_words:,} words found, all numbers finite"


registry.register("model", WordVectors.kind, WordVectors.from_state)


def _with_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {prefix + name: array for name, array in arrays.items()}


def _without_prefix(prefix: str, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The tensors whose names begin with `prefix`, by the rest of their names."""
    names = [name for name in tensors if name.startswith(prefix)]
    return {name.removeprefix(prefix): tensors[name] for name in names}


def _read_normalize(tensors: Mapping[str, np.ndarray], parameters: Mapping[str, Any]) -> Any:
    """The `normalize` of a stored vocabulary: a name, or `Pieces`."""
    if parameters["normalize"] != TOKENIZER:
        return parameters["normalize"]

    definition = checked_tensor(tensors, TOKENIZER, np.uint8, (None,)).tobytes()
    return Pieces(definition.decode(), max_characters=parameters["max_characters"])


def _read_table(
    tensors: Mapping[str, np.ndarray], name: str, config: Mapping[str, Any]
) -> np.ndarray | Packed | None:
    """A stored table of vectors; None if there is none."""
    arrays = _without_prefix(f"{name}.", tensors)
    if not arrays:
        return tensors.get(name)

    bits, _, _ = config["dtype"].partition(" ")  # "2 bits"
    return Packed(**arrays, bits=int(bits))


def _read_fingerprint(
    tensors: Mapping[str, np.ndarray], parameters: Mapping[str, Any]
) -> Fingerprint | None:
    """The stored fingerprint; None if there is none."""
    if _FINGERPRINT_TENSORS[0] not in tensors:
        return None

    kept_hashes = []
    for name in _FINGERPRINT_TENSORS:
        hashes = checked_tensor(tensors, name, np.uint64, (None,))
        if (hashes[1:] < hashes[:-1]).any():
            raise ValueError("the hashes of the fingerprint must be sorted")
        kept_hashes.append(hashes)

    documents, runs = kept_hashes
    return Fingerprint(documents, runs, **parameters["fingerprint"])


def as_word_vectors(source: Any, **options: Any) -> WordVectors:
    """Word vectors as they are, or opened by `load` with its options; no other model.

    >>> as_word_vectors("english")
    WordVectors(n_words=65536, n_dims=256)
    """
    words = source if isinstance(source, WordVectors) else load(source, **options)
    if not isinstance(words, WordVectors):
        raise ValueError(
            f"{source} must be word vectors. Got a fitted {type(words).__name__} instead: "
            "open it with pacsent.load, or name its folder of words."
        )
    return words
