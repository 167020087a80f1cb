"""save() and load(): a model is a folder that a person can look into; no pickle.

    model/
    ├── config.json          format_version, class, parameters, pacsent version, corpus digest
    ├── vocabulary.tsv       word<TAB>count, for people (and for anything that is not pacsent)
    ├── model.safetensors    the tables, the vocabulary's arrays, what an estimator learned
    └── words/               an estimator's word vectors, a folder of the same kind

`model.safetensors` is read by memory map: opening costs milliseconds whatever the size. A folder
is written beside its place and moved there when whole, so an interrupted save leaves the old one.
Foreign files are in `formats`.
"""

import contextlib
import ctypes
import errno
import glob
import json
import math
import os
import platform
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import pacsent
from pacsent.vocabulary import Vocabulary
from pacsent.word_vectors import Subwords, WordVectors

FORMAT_VERSION = 1
HASH_TABLE_VERSION = 2  # goes up when the hash function or the layout of the table changes
CONFIG, WORD_LIST, TENSORS, WORDS = "config.json", "vocabulary.tsv", "model.safetensors", "words"

_DTYPE_NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32",
    "int32": "I32", "uint64": "U64", "int64": "I64", "float16": "F16", "float32": "F32",
    "float64": "F64",
}  # fmt: skip
_DTYPES = {code: np.dtype(name) for name, code in _DTYPE_NAMES.items()}
_ALIGN = 64  # the first tensor begins at a multiple of this many bytes
_LARGE = 10_000  # words from which the table for looking them up is saved too
_CHUNK = 1 << 24  # bytes written at once
_LARGEST_HEADER = 100_000_000  # as in the safetensors library


# ------------------------------------------------------------------------------------------------
# save
# ------------------------------------------------------------------------------------------------


def save(obj, path, *, words: str = "copy") -> Path:
    """Save word vectors, or a fitted estimator, as a folder.

    Parameters
    ----------
    obj : WordVectors or a fitted estimator of pacsent
    path : str or path
        The folder. A model of ours that is already there is replaced, in one step; anything
        else that is there is left alone and the call refused.
    words : {"copy", "reference"}, default="copy"
        For an estimator: keep a copy of its word vectors in the folder, or only the way to the
        folder they were loaded from and their digest, which `load` checks.

    Returns
    -------
    Path
        The folder.
    """
    if words not in ("copy", "reference"):
        raise ValueError(f"words must be 'copy' or 'reference'. Got {words!r} instead.")
    path = Path(path)
    place = Path(os.path.realpath(path))
    _check_place(place, path)
    write: Callable
    if isinstance(obj, WordVectors):
        write, needed = _write_words, _n_bytes(obj)
    elif hasattr(obj, "_state") and hasattr(obj, "_restore") and hasattr(obj, "get_params"):
        write, needed = _write_estimator, _n_bytes(obj.word_vectors) * (words == "copy")
    else:
        raise TypeError(
            "save() takes WordVectors or a fitted estimator of pacsent. Got "
            f"{type(obj).__name__} instead."
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{place.name}.saving-{platform.node()}-"
    _sweep(place.parent, prefix)
    beside = place.parent / f"{prefix}{os.getpid()}-{secrets.token_hex(4)}"
    try:
        beside.mkdir()
        write(obj, beside, place, words)
        _move(beside, place)
        if write is _write_words:
            object.__setattr__(obj, "_saved_at", place)
    except OSError as error:
        raise full_disk(error, path, needed) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return path


def full_disk(error: OSError, path, needed: int | None = None) -> OSError:
    """The error itself, or one clear line where the disk is full."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return error
    much = f" needs about {needed / 1e6:,.0f} MB and" if needed else ""
    return OSError(
        f"The disk that holds {Path(path).parent} is full: {path}{much} was not saved. Free some "
        "space or save elsewhere."
    )


def _sweep(folder, prefix):
    """Remove what killed saves left: of this machine, an hour old, the process gone."""
    for left in folder.glob(f"{glob.escape(prefix)}*"):
        process = left.name.removeprefix(prefix).partition("-")[0]
        with contextlib.suppress(OSError):
            if process.isdigit() and time.time() - left.stat().st_mtime > 3600:
                try:
                    os.kill(int(process), 0)
                except ProcessLookupError:
                    shutil.rmtree(left, ignore_errors=True)


def _check_place(place, path):
    """A folder that is not ours is never touched."""
    if not place.exists():
        return
    if place.is_dir():
        if _is_model(place) or not any(place.iterdir()):
            return
        what = "a folder that is not a pacsent model"
    else:
        what = "a file"
    raise ValueError(
        f"{path} must be a new folder or a pacsent model. It exists and is {what}. "
        "Choose another name, or move it away first."
    )


def _is_model(folder) -> bool:
    try:
        config = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "format_version" in config and "class" in config


def _move(beside, place):
    """Put the finished folder in its place; the old one goes in the same step."""
    if not place.exists():
        os.rename(beside, place)
        return
    if _exchange(beside, place):
        return  # `beside` is now the old folder; save() removes it
    old = place.parent / f".{place.name}.old-{secrets.token_hex(4)}"
    os.rename(place, old)
    try:
        os.rename(beside, place)
    except BaseException:
        os.rename(old, place)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _exchange(a, b) -> bool:
    """Swap two folders in one step where the system can (Linux); False where it cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return renameat2(here, os.fsencode(a), here, os.fsencode(b), exchange) == 0


def _write_words(words, folder, place, _):
    vocabulary = words.vocabulary
    if callable(vocabulary.normalise):
        raise ValueError(
            "The vocabulary's normalise must be a name ('paper', 'unicode') to be saved. Got the "
            f"function {getattr(vocabulary.normalise, '__name__', '?')!r} instead, which only "
            "pickle could keep. Save the vectors with a named one and give the function when "
            "they are opened: load(path, normalise=...)."
        )
    tensors = {"input_vectors": words.input_vectors}
    if words.output_vectors is not None:
        tensors["output_vectors"] = words.output_vectors
    parameters = {"normalise": vocabulary.normalise}
    if words.subwords is not None:
        tensors["subword_vectors"] = words.subwords.vectors
        parameters["subwords"] = {"min_n": words.subwords.min_n, "max_n": words.subwords.max_n}
    tensors |= {f"vocabulary.{name}": a for name, a in _vocabulary_arrays(vocabulary).items()}
    _write_word_list(vocabulary, folder / WORD_LIST)
    write_tensors(folder / TENSORS, tensors)
    _write_config(
        folder,
        {
            "class": "WordVectors",
            "n_words": words.n_words,
            "n_dims": words.n_dims,
            "dtype": str(words.input_vectors.dtype),
            "tables": [n for n in ("input_vectors", "output_vectors") if n in tensors],
            "counts_known": vocabulary.counts is not None,
            "hash_table_version": HASH_TABLE_VERSION,
            "parameters": parameters,
            "corpus_digest": words.corpus_digest,
            "training": words.training,
        },
    )


def _write_estimator(estimator, folder, place, words):
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    name = type(estimator).__name__
    state = estimator._state()
    parameters = dict(estimator.get_params(deep=False))
    word_vectors = parameters.pop("word_vectors")
    if words == "copy":
        (folder / WORDS).mkdir()
        _write_words(word_vectors, folder / WORDS, place / WORDS, None)
        where = {"path": WORDS}
    else:
        saved_at = getattr(word_vectors, "_saved_at", None)
        if saved_at is None or not _is_model(Path(saved_at)):
            raise ValueError(
                "words='reference' needs word vectors that were saved to or loaded from a "
                "folder, and these were not. Save them first, or use words='copy'."
            )
        where = {"path": os.path.relpath(saved_at, place), "digest": word_vectors.digest()}
    write_tensors(folder / TENSORS, {key: np.asarray(value) for key, value in state.items()})
    _write_config(
        folder,
        {
            "class": name,
            "parameters": {
                key: _to_json(value, f"the parameter {key!r} of {name}")
                for key, value in parameters.items()
            },
            "word_vectors": where,
            "corpus_digest": word_vectors.corpus_digest,
        },
    )


def _write_config(folder, config):
    config = {"format_version": FORMAT_VERSION, "pacsent_version": pacsent.__version__, **config}
    config = _to_json(config, "the description of the model")
    text = json.dumps(config, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with _whole_file(folder / CONFIG) as file:
        file.write(text.encode())


def _write_word_list(vocabulary, path):
    counts = vocabulary.counts
    with _whole_file(path) as file:
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


@contextlib.contextmanager
def _whole_file(path):
    """A new file, on the disk when the block ends."""
    with open(path, "xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _n_bytes(words) -> int:
    tables = (words.input_vectors, words.output_vectors)
    return sum(table.nbytes for table in tables if table is not None)


def _to_json(value, what):
    """Plain JSON; infinity, NaN and tuples are written so that they come back as they were."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        value = value.item()
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"__float__": repr(value)}
    if isinstance(value, tuple):
        return {"__tuple__": [_to_json(item, what) for item in value]}
    if isinstance(value, list):
        return [_to_json(item, what) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _to_json(item, what) for key, item in value.items()}
    advice = " Name it ('paper', 'unicode') instead." if callable(value) else ""
    raise ValueError(
        f"{what} must be numbers, strings, lists or None to be saved. Got "
        f"{type(value).__name__} instead, which only pickle could keep.{advice}"
    )


def _from_json(value):
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"__float__"}:
            return float(value["__float__"])
        if set(value) == {"__tuple__"}:
            return tuple(_from_json(item) for item in value["__tuple__"])
        return {key: _from_json(item) for key, item in value.items()}
    return value


# ------------------------------------------------------------------------------------------------
# load
# ------------------------------------------------------------------------------------------------


def load(path, *, normalise=None, word_vectors: WordVectors | None = None):
    """Open a saved model: word vectors (memory-mapped) or a fitted estimator.

    Parameters
    ----------
    path : str or path
        A folder written by `save`.
    normalise : {"paper", "unicode"} or callable, optional
        How raw text becomes tokens, in place of what the folder says (a function cannot be
        saved).
    word_vectors : WordVectors, optional
        For an estimator: use these instead of opening its own again. Their digest must agree
        where the folder keeps one.

    Returns
    -------
    WordVectors or estimator
    """
    path = Path(path)
    config = _read_config(path)
    if config["class"] == "WordVectors":
        if word_vectors is not None:
            raise ValueError(
                f"word_vectors is for loading an estimator. {path} holds word vectors itself: "
                "leave it out."
            )
        return _load_words(path, config, normalise)
    return _load_estimator(path, config, normalise, word_vectors)


def _read_config(path) -> dict:
    if not path.exists():
        left = sorted(path.parent.glob(f".{path.name}.old-*")) if path.parent.is_dir() else []
        advice = (
            f" A save was interrupted and left the model in {left[-1]}: rename it back."
            if left
            else " Check the spelling."
        )
        raise FileNotFoundError(f"There is no folder {path}.{advice}")
    if not path.is_dir():
        raise ValueError(
            f"{path} must be a folder written by pacsent. It is a file. Read files of other "
            "programs with pacsent.formats.read or `pacsent convert`."
        )
    try:
        raw = (path / CONFIG).read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} is not a model of pacsent: it has no {CONFIG}. Read vectors of other programs "
            "with pacsent.formats.read or `pacsent convert`."
        ) from None
    try:
        config = json.loads(raw)
        version, _ = config["format_version"], config["class"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{path / CONFIG} must be the description of a pacsent model (JSON with "
            "format_version and class). It is damaged or of another program. Copy or save the "
            "model again."
        ) from None
    if version != FORMAT_VERSION:
        raise ValueError(
            f"{path} must have format_version {FORMAT_VERSION}. Got {version!r} instead, written "
            f"by pacsent {config.get('pacsent_version', '?')}. Install that version or newer to "
            f"read it; this is pacsent {pacsent.__version__}."
        )
    return config


def _load_words(path, config, normalise) -> WordVectors:
    tensors = read_tensors(path / TENSORS)
    parameters = _from_json(config.get("parameters", {}))
    arrays = {
        name.removeprefix("vocabulary."): tensor
        for name, tensor in tensors.items()
        if name.startswith("vocabulary.")
    }
    for name in ("input_vectors", "vocabulary.word_bytes", "vocabulary.word_offsets"):
        if name not in tensors:
            raise ValueError(
                f"{path / TENSORS} is damaged: it has no {name}. Save the model again."
            )
    if normalise is None:
        normalise = parameters.get("normalise", "paper")
    vocabulary = _vocabulary_from_arrays(arrays, normalise, config, path / TENSORS)
    subwords = None
    if "subword_vectors" in tensors:
        subwords = Subwords(tensors["subword_vectors"], **parameters["subwords"])
    words = WordVectors(
        vocabulary,
        tensors["input_vectors"],
        tensors.get("output_vectors"),
        corpus_digest=config.get("corpus_digest"),
        training=_from_json(config.get("training") or {}),
        subwords=subwords,
    )
    object.__setattr__(words, "_saved_at", Path(os.path.realpath(path)))
    return words


def _load_estimator(path, config, normalise, word_vectors):
    where = config.get("word_vectors") or {}
    if word_vectors is None:
        folder = path / where.get("path", WORDS)
        if not folder.exists():
            raise FileNotFoundError(
                f"The word vectors of {path} are not at {folder}. Put them back there, or load "
                "them from where they are: load(path, word_vectors=load(...))."
            )
        words_config = _read_config(folder)
        word_vectors = _load_words(folder, words_config, normalise)
    if "digest" in where and word_vectors.digest() != where["digest"]:
        raise ValueError(
            f"The word vectors of {path} must be the ones it was fitted with (digest "
            f"{where['digest'][:8]}…). Got others instead (digest {word_vectors.digest()[:8]}…). "
            "Fit again, or bring the right ones."
        )
    estimator_class = _estimator_class(config["class"], path)
    parameters = {key: _from_json(value) for key, value in config["parameters"].items()}
    try:
        estimator = estimator_class(word_vectors, **parameters)
    except TypeError as error:
        raise ValueError(
            f"{path} holds parameters that {config['class']} does not take ({error}). It was "
            f"written by pacsent {config.get('pacsent_version', '?')}; this is "
            f"{pacsent.__version__}."
        ) from None
    estimator._restore(read_tensors(path / TENSORS))
    return estimator


def _estimator_class(name, path):
    from pacsent import sentence_vectors

    found = getattr(sentence_vectors, name, None) if str(name).isidentifier() else None
    # a name in a file may only ever select one of our own estimators
    if not (isinstance(found, type) and hasattr(found, "_restore")):
        raise ValueError(
            f"{path} holds a {name!r}, which this pacsent ({pacsent.__version__}) does not have. "
            "Install the version that wrote it."
        )
    return found


# ------------------------------------------------------------------------------------------------
# the vocabulary as arrays
# ------------------------------------------------------------------------------------------------


def _vocabulary_arrays(vocabulary) -> dict[str, np.ndarray]:
    """The words' UTF-8 bytes one after the other, where each begins, the counts; and for a large
    vocabulary the table that words are looked up in, so that opening it builds nothing."""
    arrays = vocabulary.arrays() if len(vocabulary) >= _LARGE else _small_arrays(vocabulary)
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


# ------------------------------------------------------------------------------------------------
# model.safetensors: 8 bytes with the length of a JSON header, the header, the numbers
# ------------------------------------------------------------------------------------------------


def write_tensors(path, tensors: dict[str, np.ndarray]) -> None:
    """Write arrays as a safetensors file, block by block: no copy of a table in memory."""
    header: dict[str, dict] = {}
    place = 0
    # wide types first keeps every tensor aligned to its own type without gaps, which the
    # format does not allow
    order = sorted(tensors, key=lambda name: -tensors[name].dtype.itemsize)
    for name in order:
        tensor = tensors[name]
        if tensor.dtype.name not in _DTYPE_NAMES:
            raise ValueError(
                f"{name} must be an array of numbers to be saved. Got {tensor.dtype} instead."
            )
        header[name] = {
            "dtype": _DTYPE_NAMES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [place, place + tensor.nbytes],
        }
        place += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGN)
    with _whole_file(path) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in order:
            for block in _blocks(tensors[name]):
                file.write(block)


def _blocks(tensor):
    """The bytes of an array in C order, little end first, a few megabytes at a time."""
    little = tensor.dtype.newbyteorder("<")
    if tensor.ndim == 0:
        yield tensor.astype(little).tobytes()
        return
    if tensor.size == 0:
        return
    n_rows = max(1, _CHUNK // max(1, tensor.nbytes // len(tensor)))
    for start in range(0, len(tensor), n_rows):
        block = np.ascontiguousarray(tensor[start : start + n_rows], dtype=little)
        yield memoryview(block.reshape(-1).view(np.uint8))


def read_tensors(path) -> dict[str, np.ndarray]:
    """Open a safetensors file by memory map: read-only arrays, nothing read but the header."""
    path = Path(path)
    again = "It is damaged or was cut off. Copy or save it again."
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            start = file.read(8)
            n_header = int.from_bytes(start, "little")
            if len(start) < 8 or n_header > min(size - 8, _LARGEST_HEADER):
                raise ValueError(
                    f"{path} must be a whole safetensors file. Got {size:,} bytes that do not "
                    f"hold even its header instead. {again}"
                )
            raw = file.read(n_header)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing. Copy or save the model again.") from None
    try:
        header = json.loads(raw)
        header.pop("__metadata__", None)
        entries = {
            name: (_DTYPES[e["dtype"]], tuple(e["shape"]), *e["data_offsets"])
            for name, e in header.items()
        }
        ends = [end for *_, end in entries.values()]
        consistent = all(
            all(isinstance(n, int) and n >= 0 for n in (*shape, begin, end))
            and end - begin == math.prod(shape) * dtype.itemsize
            for dtype, shape, begin, end in entries.values()
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        consistent = False
    if not consistent:
        raise ValueError(f"{path} must have a safetensors header. {again}")
    data_start = 8 + n_header
    needed = data_start + max(ends, default=0)
    if size != needed:
        raise ValueError(
            f"{path} must be {needed:,} bytes long, as its header says. Got {size:,} instead. "
            f"{again}"
        )
    if size == data_start:
        return {name: np.zeros(shape, dtype=dtype) for name, (dtype, shape, *_) in entries.items()}
    mapped = np.memmap(path, dtype=np.uint8, mode="r")
    tensors = {}
    for name, (dtype, shape, begin, end) in entries.items():
        piece = mapped[data_start + begin : data_start + end]
        if (data_start + begin) % dtype.itemsize:
            piece = np.array(piece)  # another writer's layout: a copy is aligned
        tensors[name] = piece.view(dtype.newbyteorder("<")).reshape(shape)
    return tensors
