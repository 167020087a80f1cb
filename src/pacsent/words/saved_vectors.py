"""The state of `WordVectors` in a saved folder."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pacsent.storage import State, checked_tensor
from pacsent.words.fingerprint import Fingerprint
from pacsent.words.packing import Packed
from pacsent.words.pieces import Pieces
from pacsent.words.subwords import Subwords
from pacsent.words.vocabulary import TOKENIZER, Vocabulary

WORD_LIST = "vocabulary.tsv"
HASH_TABLE_VERSION = 2  # goes up when the hash function or the layout of the table changes
_MIN_HASHED_WORDS = 10_000  # words from which the table for looking them up is saved too
_LINES_AT_ONCE = 65_536  # of vocabulary.tsv
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def to_state(words: Any) -> State:
    """What is saved of word vectors."""
    vocabulary = words.vocabulary
    pieces = vocabulary.normalise if isinstance(vocabulary.normalise, Pieces) else None
    if callable(vocabulary.normalise) and pieces is None:
        raise ValueError(
            "The vocabulary's normalise must be a name ('paper', 'unicode') to be saved. Got "
            f"the function {getattr(vocabulary.normalise, '__name__', '?')!r} instead, which "
            "only pickle could keep. Save the vectors with a named one and give the function "
            "when they are opened: load(path, normalise=...)."
        )
    words.check_finite()
    parameters = {"normalise": vocabulary.normalise_name, "unknown": vocabulary.unknown}
    tensors: dict[str, np.ndarray] = {}
    for name, table in words.tables.items():
        stored = table.stored
        arrays = stored.arrays() if isinstance(stored, Packed) else {"": stored}
        tensors |= {f"{name}_vectors.{part}".rstrip("."): a for part, a in arrays.items()}
    if pieces is not None:
        tensors[TOKENIZER] = np.frombuffer(pieces.definition.encode(), np.uint8)
        parameters["max_characters"] = pieces.max_characters
    if words.subwords is not None:
        tensors["subword_vectors"] = words.subwords.vectors
        parameters["subwords"] = {"min_n": words.subwords.min_n, "max_n": words.subwords.max_n}
    if words.fingerprint is not None:
        tensors["fingerprint.documents"] = words.fingerprint.documents
        tensors["fingerprint.runs"] = words.fingerprint.runs
        parameters["fingerprint"] = words.fingerprint.counts()
    # Compressed word vectors are to be small: their hash table is built when it is first needed,
    # and there is no second copy of the words.
    with_lookup = len(vocabulary) >= _MIN_HASHED_WORDS and not words.packed
    arrays = vocabulary.arrays(lookup=with_lookup)
    tensors |= {f"vocabulary.{name}": array for name, array in arrays.items()}
    try:
        arrays["word_bytes"].tobytes().decode("utf-8")
    except UnicodeDecodeError:
        bad = next(w for w in vocabulary.words if w.encode("utf-8", "replace").decode() != w)
        raise ValueError(
            f"Words must be valid Unicode to be saved. Got {bad!r} instead, which holds half a "
            "character. Rename or drop the word."
        ) from None
    files = {} if words.packed else {WORD_LIST: _word_list(vocabulary)}
    sentences = words.saved_sentences
    parts = {}
    if isinstance(sentences, str):
        parameters["sentences"] = sentences
    elif sentences is not None:
        parts["sentences"] = sentences
    first = words.tables["input"].stored
    config = {
        "n_words": words.n_words,
        "n_dims": words.n_dims,
        "dtype": f"{first.bits} bits" if isinstance(first, Packed) else str(first.dtype),
        "tables": sorted(f"{name}_vectors" for name in words.tables),
        "counts_known": vocabulary.counts is not None,
        "hash_table_version": HASH_TABLE_VERSION,
        "parameters": parameters,
        "corpus_digest": words.corpus_digest,
        "training": words.training,
        "vectors_digest": words.digest(),
    }
    return State(config, tensors, parts, files)


def _word_list(vocabulary: Vocabulary) -> Iterator[bytes]:
    """The lines of vocabulary.tsv: word and, if known, count."""
    counts = vocabulary.counts
    for start in range(0, len(vocabulary), _LINES_AT_ONCE):
        words = vocabulary.words[start : start + _LINES_AT_ONCE]
        lines = [word if word.isalpha() else word.translate(_ESCAPES) for word in words]
        if counts is not None:
            numbers = counts[start : start + _LINES_AT_ONCE].tolist()
            lines = [f"{word}\t{count}" for word, count in zip(lines, numbers)]
        yield ("\n".join(lines) + "\n").encode("utf-8")


def from_state(state: State) -> dict[str, Any]:
    """The arguments of `WordVectors` for a saved state."""
    config, tensors = state.config, state.tensors
    parameters = config["parameters"]
    normalise = parameters["normalise"]
    if normalise == TOKENIZER:
        definition = checked_tensor(tensors, TOKENIZER, np.uint8, (None,)).tobytes().decode("utf-8")
        normalise = Pieces(definition, max_characters=parameters["max_characters"])
    prefix = "vocabulary."
    arrays = {n.removeprefix(prefix): a for n, a in tensors.items() if n.startswith(prefix)}
    if config.get("hash_table_version") != HASH_TABLE_VERSION:  # built again
        arrays.pop("hash_table", None)
    unknown = parameters.get("unknown", "drop")
    vocabulary = Vocabulary.from_arrays(arrays, normalise, unknown=unknown)
    tables = {
        name: _stored_table(f"{name}_vectors", config, tensors) for name in ("input", "output")
    }
    if tables["input"] is None:
        raise ValueError("it has no input_vectors")
    n_words, n_dims = tables["input"].shape
    for name, value in (("n_words", n_words), ("n_dims", n_dims)):
        if config.get(name, value) != value:
            raise ValueError(f"{name} is {value} in its table and {config[name]} in config.json")
    subwords = fingerprint = None
    if "subword_vectors" in tensors:
        sizes = parameters["subwords"]
        if any(type(size) is not int for size in sizes.values()):
            raise ValueError("the lengths of subwords must be integers")
        subwords = Subwords(tensors["subword_vectors"], **sizes)
    if "fingerprint.documents" in tensors:
        names = ("fingerprint.documents", "fingerprint.runs")
        hashes = [checked_tensor(tensors, name, np.uint64, (None,)) for name in names]
        if any((h[1:] < h[:-1]).any() for h in hashes):
            raise ValueError("the hashes of the fingerprint must be sorted")
        counts = parameters["fingerprint"]
        if any(type(count) is not int or count < 0 for count in counts.values()):
            raise ValueError("the counts of the fingerprint must be integers of at least 0")
        fingerprint = Fingerprint(hashes[0], hashes[1], **counts)
    return {
        "vocabulary": vocabulary,
        "input_vectors": tables["input"],
        "output_vectors": tables["output"],
        "corpus_digest": config.get("corpus_digest"),
        "training": config.get("training"),
        "subwords": subwords,
        "fingerprint": fingerprint,
        "sentences": state.parts.get("sentences", parameters.get("sentences")),
    }


def _stored_table(
    name: str, config: dict, tensors: Mapping[str, np.ndarray]
) -> np.ndarray | Packed | None:
    """A table as an array, or compressed; None if there is none."""
    parts = {n.removeprefix(f"{name}."): a for n, a in tensors.items() if n.startswith(f"{name}.")}
    if name in tensors or not parts:
        return tensors.get(name)
    return Packed(**parts, bits=int(config["dtype"].partition(" ")[0]))
