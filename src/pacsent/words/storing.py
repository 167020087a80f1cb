"""Word vectors as a folder: what `save` writes for them, and how it is opened by memory map."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from pacsent import seals
from pacsent.storage import (
    CONFIG,
    TENSORS,
    WORD_LIST,
    checked_tensor,
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


def save_words(words: WordVectors, path: str | os.PathLike, *, overwrite: bool = False) -> Path:
    """Save word vectors as a folder; with `overwrite` one of ours there is replaced in one step."""
    path = write_folder(
        path, lambda folder: write_words(words, folder), n_bytes(words), overwrite=overwrite
    )
    object.__setattr__(words, "_saved_at", Path(os.path.realpath(path)))
    return path


def load_words(
    path: str | os.PathLike, *, normalise: Any = None, unknown: str | None = None
) -> WordVectors:
    """Open a folder that must hold word vectors, not an estimator."""
    path = place(path)
    config = read_config(path)
    if config["class"] != "WordVectors":
        raise ValueError(
            f"{path} must hold word vectors. It holds a fitted {config['class']} instead: open it "
            "with pacsent.load, or name its folder of words."
        )
    return open_words(path, config, normalise, unknown)


def write_words(words: WordVectors, folder: Path) -> str:
    """Fill the folder; the digest of its description, which holds the digests of the rest."""
    vocabulary = words.vocabulary
    if callable(vocabulary.normalise):
        raise ValueError(
            "The vocabulary's normalise must be a name ('paper', 'unicode') to be saved. Got the "
            f"function {getattr(vocabulary.normalise, '__name__', '?')!r} instead, which only "
            "pickle could keep. Save the vectors with a named one and give the function when "
            "they are opened: load(path, normalise=...)."
        )
    tables = _tables(words)
    tensors: dict[str, np.ndarray] = {}
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
    # what was packed to be small does without the table, which is built when first needed, and
    # without a second copy of the words
    arrays = _vocabulary_arrays(vocabulary, lookup=not words.packed)
    tensors |= {f"vocabulary.{name}": array for name, array in arrays.items()}
    records = {TENSORS: write_tensors(folder / TENSORS, tensors)}
    if not words.packed:
        _write_word_list(vocabulary, folder / WORD_LIST)
        listed = (folder / WORD_LIST).read_bytes()
        records[WORD_LIST] = {"bytes": len(listed), "digest": seals.digest(listed)}
    return write_config(
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
            "vectors_digest": words.digest(),
            "files": records,
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


def n_bytes(words: WordVectors) -> int:
    """Bytes of the tables of word vectors."""
    return sum(table.nbytes for table in _tables(words).values())


def open_words(path: Path, config: dict, normalise: Any, unknown: str | None = None) -> WordVectors:
    """Word vectors of a folder: structure and shapes are checked now, numbers when first used."""
    file = path / TENSORS
    tensors = read_tensors(file, config.get("files", {}).get(TENSORS))
    try:
        parameters = from_json(config.get("parameters", {}))
        names = ("input_vectors", "output_vectors")
        tables = {name: _table(name, tensors, config) for name in names}
        for name in ("vocabulary.word_bytes", "vocabulary.word_offsets"):
            if name not in tensors:
                raise ValueError(f"it has no {name}")
        if tables["input_vectors"] is None:
            raise ValueError("it has no input_vectors")
        if normalise is None:
            normalise = parameters.get("normalise", "paper")
        vocabulary = _vocabulary_from(tensors, normalise, config)
        words = WordVectors(
            vocabulary.treating_unknown(unknown or parameters.get("unknown", "drop")),
            **tables,  # type: ignore[arg-type]
            corpus_digest=config.get("corpus_digest"),
            training=from_json(config.get("training") or {}),
            subwords=_subwords(tensors, parameters),
            fingerprint=_fingerprint(tensors, parameters),
        )
        for name, found in (("n_words", words.n_words), ("n_dims", words.n_dims)):
            if config.get(name, found) != found:
                raise ValueError(f"{name} is {found} in its table and {config[name]} in {CONFIG}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged: its parts do not belong together ({_one_line(error)}). Copy or "
            "save the model again."
        ) from None
    if tensors.seal is not None:
        words._sealed(lambda name: tensors.verify(*_parts_of(name, tensors)))
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


def _parts_of(name, tensors) -> list[str]:
    """The tensors that a table is made of: one, or those of a packed table."""
    return [part for part in tensors if part == name or part.startswith(f"{name}.")]


def _subwords(tensors, parameters) -> Subwords | None:
    if "subword_vectors" not in tensors:
        return None
    sizes = parameters["subwords"]
    if any(type(size) is not int for size in sizes.values()):
        raise ValueError("the lengths of subwords must be integers")
    return Subwords(tensors["subword_vectors"], **sizes)


def _fingerprint(tensors, parameters) -> Fingerprint | None:
    if "fingerprint.documents" not in tensors:
        return None
    names = ("fingerprint.documents", "fingerprint.runs")
    tensors.verify(*names)  # small, and what a certificate rests on
    kept = [checked_tensor(tensors, name, np.uint64, (None,)) for name in names]
    if any((hashes[1:] < hashes[:-1]).any() for hashes in kept):
        raise ValueError("the hashes of the fingerprint must be sorted")
    counts = parameters["fingerprint"]
    if any(type(count) is not int or count < 0 for count in counts.values()):
        raise ValueError("the counts of the fingerprint must be integers of at least 0")
    return Fingerprint(*kept, **counts)


def _one_line(error) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"no {text}" if isinstance(error, KeyError) else text or type(error).__name__


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


def _vocabulary_from(tensors, normalise, config) -> Vocabulary:
    names = [name for name in tensors if name.startswith("vocabulary.")]
    if config.get("hash_table_version") != HASH_TABLE_VERSION:  # of another pacsent: built again
        names = [name for name in names if name != "vocabulary.hash_table"]
    arrays = {name.removeprefix("vocabulary."): tensors[name] for name in names}
    try:
        vocabulary = Vocabulary.from_arrays(arrays, normalise)
    except (ValueError, IndexError, TypeError) as error:
        raise ValueError(f"its words do not add up: {error}") from None
    vocabulary._unsound = lambda: tensors.verify(*names)
    return vocabulary
