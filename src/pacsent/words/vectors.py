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
        self.fingerprint, self.corpus_digest = fingerprint, corpus_digest
        self.training = dict(training or {})
        self.tables = {"input": VectorTable("input_vectors", input_vectors, vocabulary)}
        if output_vectors is not None:
            self.tables["output"] = VectorTable("output_vectors", output_vectors, vocabulary)

        for name, part in (("output_vectors", output_vectors), ("subwords", subwords)):
            table: Any = part.vectors if isinstance(part, Subwords) else part
            width = self.n_dims if table is None else table.shape[1]
            if width != self.n_dims:
                raise ValueError(
                    f"{name} must be as wide as input_vectors ({self.n_dims:,} dimensions). Got "
                    f"{width:,} instead. Use the parts of one training."
                )

        self._subwords = subwords

    @property
    def input_vectors(self) -> np.ndarray:
        """The input vectors, (n_words, n_dims), read-only."""
        return self.tables["input"].array

    @property
    def output_vectors(self) -> np.ndarray | None:
        """The output vectors, (n_words, n_dims), read-only; None where there is none."""
        return self.tables["output"].array if "output" in self.tables else None

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
        """Vectors of sentences by `sentences`, (n, n_dims), float32.

        >>> from pacsent import load
        >>> load("english").encode(["a glass of wine", "some beer"]).shape
        (2, 256)
        """
        return self._plain_encoder.encode(texts)

    def similarity(self, a: Any, b: Any) -> np.ndarray:
        """Cosines of the vectors of sentences, (n_a, n_b), within [-1, 1]."""
        return self._plain_encoder.similarity(a, b)

    @cached_property
    def _plain_encoder(self) -> Any:
        """What encodes sentences: without scikit-learn, if `sentences` was not opened before."""
        encoder = self._sentences
        plain: Any = None
        if isinstance(encoder, str):
            plain = registry.find_reader("plain encoder", encoder)
            plain = plain and plain(self)
        elif isinstance(encoder, UnopenedPart):
            plain = encoder.open_as("plain encoder")

        encoder = self.sentences if plain is None else plain
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
        return {n: t.stored for n, t in self.tables.items() if isinstance(t.stored, Packed)}

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
        return self.tables["input"].shape[1]

    def __repr__(self) -> str:
        only = "" if "output" in self.tables else ", input vectors only"
        return f"WordVectors(n_words={self.n_words}, n_dims={self.n_dims}{only})"

    def __len__(self) -> int:
        return len(self.vocabulary)

    def __contains__(self, word) -> bool:
        return word in self.vocabulary

    def __sklearn_clone__(self):
        return self

    def __getstate__(self):
        derived = ("_digest", "_plain_encoder", "sentences", "subwords")
        kept = {name: value for name, value in self.__dict__.items() if name not in derived}
        return {**kept, "_sentences": self.saved_sentences}

    def replace(self, **changes: Any) -> "WordVectors":
        """The same word vectors with other values for some parameters of the constructor.

        Other words or other tables do not have the encoder of sentences.

        >>> words = WordVectors(Vocabulary(["film"]), np.ones((1, 2), dtype=np.float32))
        >>> words.replace(corpus_digest="9f2c").corpus_digest
        '9f2c'
        """
        own = {f"{name}_vectors": table.stored for name, table in self.tables.items()}
        names = ("vocabulary", "corpus_digest", "training", "subwords", "fingerprint")
        own |= {name: getattr(self, name) for name in names}
        if not {"vocabulary", "input_vectors"} & set(changes):
            own["sentences"] = self._sentences
        return WordVectors(**{**own, **changes})

    def roles(
        self, *, swap: bool = False, method: str = "This method"
    ) -> tuple[np.ndarray, np.ndarray]:
        """(A_hat, B_hat): the table of the loss and the table of the prior; swapped for `i-`.

        `method` names the caller in the message where the output vectors are missing.
        """
        A_hat, B_hat = self.role_tables(swap=swap, method=method)
        return A_hat.array, B_hat.array

    def role_tables(
        self, *, swap: bool = False, method: str = "This method"
    ) -> tuple[VectorTable, VectorTable]:
        """`roles`, of which nothing is read yet."""
        output = self._table("output", f"{method} needs output vectors, and these")
        tables = self.tables["input"], output
        return tables[::-1] if swap else tables

    def input(self, word: str) -> np.ndarray:
        """The input vector of a word; of any word, where there are subword vectors or pieces."""
        return self._vector(word, "input")

    def output(self, word: str) -> np.ndarray:
        """The output vector of a word."""
        return self._vector(word, "output")

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
        searched, norms = self._table(among).array, self._table(among).norms
        if n < 1 or int(n) != n:
            raise ValueError(f"n must be a positive integer. Got {n!r} instead.")

        if isinstance(query, str):
            vector = self._vector(query, table)
            itself = self._rows(query) if table == among else ()
        else:
            vector, itself = np.asarray(query), ()
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
        for rows in row_blocks(searched):
            cosines[rows] = searched[rows].astype(np.float32, copy=False) @ direction
        with np.errstate(divide="ignore", invalid="ignore"):
            cosines /= norms
        cosines[norms == 0] = -np.inf
        if len(itself) == 1:
            cosines[itself] = -np.inf

        n = min(int(n), self.n_words)
        best = np.argpartition(-cosines, n - 1)[:n]
        best = best[np.lexsort((best, -cosines[best]))]
        return [(self.words[i], float(cosines[i])) for i in best if cosines[i] > -np.inf]

    def astype(self, dtype: DTypeLike) -> "WordVectors":
        """The same words with tables of another precision; itself where nothing changes.

        Numbers too large for float16 are refused rather than turned into infinity.
        """
        if all(table.array.dtype == dtype for table in self.tables.values()):
            return self

        subwords = self.subwords
        with np.errstate(over="ignore"):  # refused by the constructor, with the word
            tables = {f"{n}_vectors": table.array.astype(dtype) for n, table in self.tables.items()}
            if subwords is not None:
                subwords = replace(subwords, vectors=subwords.vectors.astype(dtype))
        return self.replace(**tables, subwords=subwords)

    def digest(self) -> str:
        """sha256 of words and tables, in hexadecimal; computed once, reads every number.

        The same vectors have the same digest in memory and in every format that keeps them
        exactly. Folders, certificates and results name their word vectors by it.
        """
        if "_digest" not in vars(self):
            sha = hashlib.sha256()
            for start in range(0, self.n_words, _LINES_PER_BLOCK):
                block = "\n".join(self.words[start : start + _LINES_PER_BLOCK]) + "\n"
                sha.update(block.encode("utf-8", "surrogatepass"))

            for name, table in self.tables.items():
                sha.update(f"{name} {table.array.dtype.str} {table.shape}".encode())
                for rows in row_blocks(table.array):
                    sha.update(np.ascontiguousarray(table.array[rows]).data)
            self._digest = sha.hexdigest()
        return self._digest

    def accept_shipped(self, digest: str, lookup: Mapping[str, np.ndarray]) -> None:
        """Take what was computed of a model that comes with the package, where it cannot change.

        `lookup` has hash_table and word_hashes of the vocabulary: `scripts/make_lookup.py` writes
        them, and a test compares all three with what they are computed from.
        """
        self._digest = digest
        self.vocabulary.table.accept(**lookup)

    def trained_on(self, texts: Iterable) -> "WordVectors":
        """The same vectors with the fingerprint of the texts they were trained on.

        For vectors of other programs: certificates can then be checked for overlap. `texts` is what
        `Vocabulary.encode` takes, or a Corpus of this very vocabulary.
        """
        encoded = self.vocabulary.encode(texts)
        return self.replace(fingerprint=Fingerprint.of(self.vocabulary, encoded))

    def check_finite(self) -> "WordVectors":
        """Read all tables and raise ValueError at the first NaN or infinity; returns self."""
        _ = [table.array for table in self.tables.values()], self.subwords
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
        row = self.vocabulary.id_of(word) if rows.size != 1 else -1
        return rows if row < 0 else np.array([row])

    def _vector(self, word: str, name: str) -> np.ndarray:
        table, rows = self._table(name).array, self._rows(word)
        if rows.size == 1:
            return table[rows[0]]
        if rows.size:
            return table[rows].mean(axis=0, dtype=np.float32)
        if name == "input" and self.subwords is not None:
            return self.subwords.vector(word)

        alike = [w for w in islice(self.words, 50_000) if abs(len(w) - len(word)) <= 1]
        near = difflib.get_close_matches(word.strip().lower(), alike, n=1, cutoff=0.75)
        suggestion = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{word!r} is not among these {self.n_words:,} words.{suggestion}")

    def state(self) -> State:
        """What `pacsent.save` writes."""
        self.check_finite()
        vocabulary, normalize = self.vocabulary, self.vocabulary.normalize
        parameters: dict[str, Any] = {
            "normalize": vocabulary.normalize_name or normalize,  # a function is rejected by `save`
            "unknown": vocabulary.unknown,
        }

        tensors: dict[str, np.ndarray] = {}
        for name, table in self.tables.items():
            stored = table.stored
            arrays = stored.arrays() if isinstance(stored, Packed) else {"": stored}
            tensors |= {f"{name}_vectors.{part}".rstrip("."): a for part, a in arrays.items()}

        if isinstance(normalize, Pieces):
            tensors[TOKENIZER] = np.frombuffer(normalize.definition.encode(), np.uint8)
            parameters["max_characters"] = normalize.max_characters

        if self.subwords is not None:
            tensors["subword_vectors"] = self.subwords.vectors
            parameters["subwords"] = {"min_n": self.subwords.min_n, "max_n": self.subwords.max_n}

        if self.fingerprint is not None:
            tensors["fingerprint.documents"] = self.fingerprint.documents
            tensors["fingerprint.runs"] = self.fingerprint.runs
            parameters["fingerprint"] = self.fingerprint.counts()

        # Compressed word vectors are to be small: their hash table is built when it is first
        # needed, and there is no second copy of the words.
        with_lookup = len(vocabulary) >= _MIN_HASHED_WORDS and not self.packed
        arrays = vocabulary.arrays(lookup=with_lookup)
        tensors |= {f"vocabulary.{name}": array for name, array in arrays.items()}

        if bad := [w for w in self.words if w.encode("utf-8", "replace").decode() != w]:
            raise ValueError(
                f"Words must be valid Unicode to be saved. Got {bad[0]!r} instead, which holds "
                "half a character. Rename or drop the word."
            )

        sentences, parts = self.saved_sentences, dict[str, Any]()
        if sentences is not None:
            (parameters if isinstance(sentences, str) else parts)["sentences"] = sentences

        config = {
            "n_words": self.n_words,
            "n_dims": self.n_dims,
            "dtype": self.tables["input"].precision,
            "tables": sorted(f"{name}_vectors" for name in self.tables),
            "counts_known": vocabulary.counts is not None,
            "hash_table_version": HASH_TABLE_VERSION,
            "parameters": parameters,
            "corpus_digest": self.corpus_digest,
            "training": self.training,
            "vectors_digest": self.digest(),
        }

        files = {} if self.packed else {"vocabulary.tsv": self._word_list()}
        return State(config, tensors, parts, files)

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
        """The inverse of `state`: structure and shapes are checked now, numbers when first used."""
        config, tensors, parameters = state.config, state.tensors, state.config["parameters"]

        def group(prefix: str) -> dict[str, np.ndarray]:
            names = [name for name in tensors if name.startswith(prefix)]
            return {name.removeprefix(prefix): tensors[name] for name in names}

        normalize = parameters["normalize"]
        if normalize == TOKENIZER:
            definition = checked_tensor(tensors, TOKENIZER, np.uint8, (None,)).tobytes()
            normalize = Pieces(definition.decode(), max_characters=parameters["max_characters"])

        arrays = group("vocabulary.")
        if config.get("hash_table_version") != HASH_TABLE_VERSION:  # built again
            arrays.pop("hash_table", None)

        tables: dict[str, Any] = {}
        for name in ("input_vectors", "output_vectors"):
            tables[name] = tensors.get(name)
            if parts := group(f"{name}."):
                tables[name] = Packed(**parts, bits=int(config["dtype"].partition(" ")[0]))

        if tables["input_vectors"] is None:
            raise ValueError("it has no input_vectors")
        for name, value in zip(("n_words", "n_dims"), tables["input_vectors"].shape):
            if config.get(name, value) != value:
                raise ValueError(f"{name} is {value} in its table, {config[name]} in config.json")

        subwords = fingerprint = None
        sizes = parameters.get("subwords", {}) | parameters.get("fingerprint", {})
        if any(type(size) is not int or size < 0 for size in sizes.values()):
            raise ValueError("the sizes of subwords and fingerprint must be integers, at least 0")
        if "subword_vectors" in tensors:
            subwords = Subwords(tensors["subword_vectors"], **parameters["subwords"])

        if "fingerprint.documents" in tensors:
            names = ("fingerprint.documents", "fingerprint.runs")
            hashes = [checked_tensor(tensors, name, np.uint64, (None,)) for name in names]
            if any((h[1:] < h[:-1]).any() for h in hashes):
                raise ValueError("the hashes of the fingerprint must be sorted")
            fingerprint = Fingerprint(hashes[0], hashes[1], **parameters["fingerprint"])

        return cls(
            Vocabulary.from_arrays(arrays, normalize, unknown=parameters.get("unknown", "drop")),
            **tables,
            corpus_digest=config.get("corpus_digest"),
            training=config.get("training"),
            subwords=subwords,
            fingerprint=fingerprint,
            sentences=state.parts.get("sentences", parameters.get("sentences")),
        )

    def check_contents(self) -> str:
        """Read every number and every word; a summary for `pacsent verify`."""
        _ = self.check_finite(), self.counts
        self.vocabulary.table.check()
        return f"{self.n_words:,} words found, all numbers finite"


registry.register("model", WordVectors.kind, WordVectors.from_state)


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
