"""Word vectors as a folder: what `save` writes for them, and how it is opened by memory map."""

import os
from pathlib import Path

import numpy as np

from pacsent.storage import (
    TENSORS,
    WORD_LIST,
    from_json,
    place,
    read_config,
    read_tensors,
    write_config,
    write_folder,
    write_tensors,
)
from pacsent.words.fingerprint import Fingerprint
from pacsent.words.packing import Packed
from pacsent.words.vectors import Subwords, WordVectors
from pacsent.words.vocabulary import Vocabulary

HASH_TABLE_VERSION = 2  # goes up when the hash function or the layout of the table changes
_LARGE = 10_000  # words from which the table for looking them up is saved too


def save_words(words: WordVectors, path, *, overwrite: bool = False) -> Path:
    """Save word vectors as a folder; with `overwrite` one of ours there is replaced in one step."""
    path = write_folder(
        path, lambda folder: write_words(words, folder), n_bytes(words), overwrite=overwrite
    )
    object.__setattr__(words, "_saved_at", Path(os.path.realpath(path)))
    return path


def load_words(path, *, normalise=None, unknown=None) -> WordVectors:
    """Open a folder that must hold word vectors, not an estimator."""
    path = place(path)
    config = read_config(path)
    if config["class"] != "WordVectors":
        raise ValueError(
            f"{path} must hold word vectors. It holds a fitted {config['class']} instead: open it "
            "with pacsent.load, or name its folder of words."
        )
    return open_words(path, config, normalise, unknown)


def write_words(words, folder):
    vocabulary = words.vocabulary
    if callable(vocabulary.normalise):
        raise ValueError(
            "The vocabulary's normalise must be a name ('paper', 'unicode') to be saved. Got the "
            f"function {getattr(vocabulary.normalise, '__name__', '?')!r} instead, which only "
            "pickle could keep. Save the vectors with a named one and give the function when "
            "they are opened: load(path, normalise=...)."
        )
    tables = _tables(words)
    tensors = {}
    for name, table in tables.items():
        parts = {"": table} if isinstance(table, np.ndarray) else table.arrays()
        tensors |= {f"{name}.{part}".rstrip("."): array for part, array in parts.items()}
    parameters = {"normalise": vocabulary.normalise}
    if vocabulary.unknown != "drop":
        parameters["unknown"] = vocabulary.unknown
    if words.subwords is not None:
        tensors["subword_vectors"] = words.subwords.vectors
        parameters["subwords"] = {"min_n": words.subwords.min_n, "max_n": words.subwords.max_n}
    if words.fingerprint is not None:
        tensors["fingerprint.documents"] = words.fingerprint.documents
        tensors["fingerprint.runs"] = words.fingerprint.runs
        parameters["fingerprint"] = words.fingerprint.counts()
    # what was packed to be small does without the table, which is built when first needed
    arrays = _vocabulary_arrays(vocabulary, lookup=not words.packed)
    tensors |= {f"vocabulary.{name}": array for name, array in arrays.items()}
    _write_word_list(vocabulary, folder / WORD_LIST)
    write_tensors(folder / TENSORS, tensors)
    write_config(
        folder,
        {
            "class": "WordVectors",
            "n_words": words.n_words,
            "n_dims": words.n_dims,
            "dtype": _precision(tables["input_vectors"]),
            "tables": list(tables),
            "counts_known": vocabulary.counts is not None,
            "hash_table_version": HASH_TABLE_VERSION,
            "parameters": parameters,
            "corpus_digest": words.corpus_digest,
            "training": words.training,
        },
    )


def _write_word_list(vocabulary, path):
    counts = vocabulary.counts
    with open(path, "xb") as file:
        for start in range(0, len(vocabulary), 65_536):
            words = [_escaped(w) for w in vocabulary.words[start : start + 65_536]]
            if counts is None:
                lines = words
            else:
                numbers = counts[start : start + 65_536].tolist()
                lines = [f"{word}\t{count}" for word, count in zip(words, numbers)]
            file.write(("\n".join(lines) + "\n").encode("utf-8"))


def _escaped(word):
    if word.isalpha():
        return word
    for character, written in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        word = word.replace(character, written)
    return word


def _tables(words) -> dict[str, np.ndarray | Packed]:
    """What there is to write: arrays, or packed tables as they are."""
    tables = {f"{name}_vectors": table for name, table in words.packed.items()}
    for name in ("input_vectors", "output_vectors"):
        if name not in tables and getattr(words, name) is not None:
            tables[name] = getattr(words, name)
    return dict(sorted(tables.items()))


def _precision(table) -> str:
    return str(table.dtype) if isinstance(table, np.ndarray) else f"{table.bits} bits"


def n_bytes(words) -> int:
    return sum(table.nbytes for table in _tables(words).values())


def open_words(path, config, normalise, unknown=None) -> WordVectors:
    tensors = read_tensors(path / TENSORS)
    parameters = from_json(config.get("parameters", {}))
    arrays = {
        name.removeprefix("vocabulary."): tensor
        for name, tensor in tensors.items()
        if name.startswith("vocabulary.")
    }
    tables = {name: _table(name, tensors, config) for name in ("input_vectors", "output_vectors")}
    tensors["input_vectors"] = tables["input_vectors"]
    for name in ("input_vectors", "vocabulary.word_bytes", "vocabulary.word_offsets"):
        if tensors.get(name) is None:
            raise ValueError(
                f"{path / TENSORS} is damaged: it has no {name}. Save the model again."
            )
    if normalise is None:
        normalise = parameters.get("normalise", "paper")
    vocabulary = _vocabulary_from_arrays(arrays, normalise, config, path / TENSORS)
    vocabulary = vocabulary.treating_unknown(unknown or parameters.get("unknown", "drop"))
    subwords = None
    if "subword_vectors" in tensors:
        subwords = Subwords(tensors["subword_vectors"], **parameters["subwords"])
    fingerprint = None
    if "fingerprint.documents" in tensors:
        fingerprint = Fingerprint(
            tensors["fingerprint.documents"], tensors["fingerprint.runs"],
            **parameters["fingerprint"],
        )  # fmt: skip
    words = WordVectors(
        vocabulary,
        **tables,
        corpus_digest=config.get("corpus_digest"),
        training=from_json(config.get("training") or {}),
        subwords=subwords,
        fingerprint=fingerprint,
    )
    object.__setattr__(words, "_saved_at", Path(os.path.realpath(path)))
    return words


def _table(name, tensors, config) -> np.ndarray | Packed | None:
    """A table as an array, or packed; None where there is none."""
    parts = {
        part.removeprefix(f"{name}."): array
        for part, array in tensors.items()
        if part.startswith(f"{name}.")
    }
    if not parts:
        return tensors.get(name)
    return Packed(**parts, bits=int(config["dtype"].partition(" ")[0]))


# ------------------------------------------------------------------------------------------------
# the vocabulary as arrays
# ------------------------------------------------------------------------------------------------


def _vocabulary_arrays(vocabulary, *, lookup=True) -> dict[str, np.ndarray]:
    """The words' UTF-8 bytes one after the other, where each begins, the counts; and for a large
    vocabulary the table that words are looked up in, so that opening it builds nothing."""
    large = lookup and len(vocabulary) >= _LARGE
    arrays = vocabulary.arrays() if large else _small_arrays(vocabulary)
    try:
        arrays["word_bytes"].tobytes().decode("utf-8")
    except UnicodeDecodeError:
        bad = next(word for word in vocabulary.words if not _is_unicode(word))
        raise ValueError(
            f"Words must be valid Unicode to be saved. Got {bad!r} instead, which holds half a "
            "character. Rename or drop the word."
        ) from None
    return arrays


def _small_arrays(vocabulary):
    """The same without the table, which takes compiled code to build."""
    encoded = [word.encode("utf-8", "surrogatepass") for word in vocabulary.words]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(word) for word in encoded], out=offsets[1:])
    arrays = {
        "word_bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        "word_offsets": offsets,
    }
    return arrays if vocabulary.counts is None else {**arrays, "counts": vocabulary.counts}


def _is_unicode(word) -> bool:
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _vocabulary_from_arrays(arrays, normalise, config, path) -> Vocabulary:
    if config.get("hash_table_version") != HASH_TABLE_VERSION:
        arrays.pop("hash_table", None)  # of another pacsent: built again when it is needed
    try:
        return Vocabulary.from_arrays(arrays, normalise)
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"{path} is damaged: its words do not add up ({error}). Save the model again."
        ) from None
