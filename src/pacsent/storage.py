"""A model is a folder that a person can look into; no pickle. `save` and `load` are in `loading`.

    model/
    ├── config.json          format_version, class, parameters, pacsent version, digests of the rest
    ├── vocabulary.tsv       word<TAB>count, for people (and for anything that is not pacsent)
    ├── model.safetensors    the tables, the vocabulary's arrays, what an estimator learned
    └── words/               an estimator's word vectors, a folder of the same kind

`model.safetensors` is read by memory map: opening costs milliseconds whatever the size. A folder
is written beside its place and moved there when whole, so an interrupted save leaves the old one.
Foreign files are in `formats`.

Damage is noticed: `config.json` holds digests of itself, of the files beside it and of the folder
of words. Opening checks the small things (description, sizes, header, shapes), the first use of a
table its numbers, `loading.check` everything. Folders of format 1 have no digests; their structure
is checked all the same.
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

import pacsent
from pacsent import files, hub, seals

FORMAT_VERSION = 2
READABLE = (1, 2)  # 1 has no digests
CONFIG, WORD_LIST, TENSORS, WORDS = "config.json", "vocabulary.tsv", "model.safetensors", "words"

_DTYPE_NAMES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16", "uint32": "U32",
    "int32": "I32", "uint64": "U64", "int64": "I64", "float16": "F16", "float32": "F32",
    "float64": "F64",
}  # fmt: skip
_DTYPES = {code: np.dtype(name) for name, code in _DTYPE_NAMES.items()}
_ALIGN = 64  # the first tensor begins at a multiple of this many bytes
_CHUNK = 1 << 24  # bytes written at once
_LARGEST_HEADER = 100_000_000  # as in the safetensors library


def check_place(path: str | os.PathLike, inputs: Iterable = (), *, overwrite: bool = False) -> None:
    """A folder that is not ours is never touched; one of ours, no input, if it may be replaced."""
    place = Path(os.path.realpath(path))
    if not place.exists():
        files.check_output(path, inputs, folder=True)
        return
    if place.is_dir():
        if is_model(place) or not any(place.iterdir()):
            files.check_output(path, inputs, overwrite=overwrite, folder=True)
            return
        what = "a folder that is not a pacsent model"
    else:
        what = "a file"
    raise ValueError(
        f"{path} must be a new folder or a pacsent model. It exists and is {what}. "
        "Choose another name, or move it away first."
    )


def write_folder(
    path: str | os.PathLike,
    write: Callable[[Path], object],
    needed: int | None = None,
    *,
    overwrite: bool = False,
) -> Path:
    """A folder of ours: `write` fills it beside its place, then it is moved there in one step."""
    path = Path(path)
    check_place(path, overwrite=overwrite)
    with files.replacing_folder(path, needed=needed) as folder:
        write(folder)
    return path


def is_model(folder: Path) -> bool:
    """Whether a folder holds something that pacsent saved.

    Examples
    --------
    >>> from pathlib import Path
    >>> is_model(Path('no-such-folder'))
    False
    """
    try:
        config = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "format_version" in config and "class" in config


def write_config(folder: Path, config: dict) -> str:
    """Write the description of a model; its digest, which stands in it as well."""
    config = {"format_version": FORMAT_VERSION, "pacsent_version": pacsent.__version__, **config}
    config = to_json(config, "the description of the model")
    config["digest"] = seals.digest_of_json(config)
    text = json.dumps(config, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    (folder / CONFIG).write_bytes(text.encode())
    return config["digest"]


def to_json(value: Any, what: str) -> Any:
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
        return {"__tuple__": [to_json(item, what) for item in value]}
    if isinstance(value, list):
        return [to_json(item, what) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: to_json(item, what) for key, item in value.items()}
    advice = " Name it ('paper', 'unicode') instead." if callable(value) else ""
    raise ValueError(
        f"{what} must be numbers, strings, lists or None to be saved. Got "
        f"{type(value).__name__} instead, which only pickle could keep.{advice}"
    )


def from_json(value: Any) -> Any:
    """The inverse of `to_json`; ValueError for what that never writes."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"__float__"}:
            if value["__float__"] not in ("inf", "-inf", "nan"):
                raise ValueError(f"no number is written {value['__float__']!r}")
            return float(value["__float__"])
        if set(value) == {"__tuple__"}:
            if not isinstance(value["__tuple__"], list):
                raise ValueError("a tuple must be written as a list")
            return tuple(from_json(item) for item in value["__tuple__"])
        return {key: from_json(item) for key, item in value.items()}
    return value


PACKAGED = Path(__file__).parent / "models"  # what comes with the package


def place(path: str | os.PathLike) -> Path:
    """The path itself; for the bare name of a model that comes with the package, its folder.

    Such a name is taken before a folder of the working directory: write ./english for that.
    `hf://owner/name` is fetched from the Hugging Face hub, and is the folder it was put into.
    """
    if isinstance(path, str) and path.startswith(hub.SCHEME):
        return hub.fetch(path)
    if isinstance(path, str) and path.isidentifier() and (PACKAGED / path / CONFIG).is_file():
        return PACKAGED / path
    return Path(path)


def read_config(path: Path) -> dict:
    """What the config.json of a saved folder says, checked."""
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
            "programs with pacsent.words.formats.read or `pacsent convert`."
        )
    try:
        raw = (path / CONFIG).read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} is not a model of pacsent: it has no {CONFIG}. Read vectors of other programs "
            "with pacsent.words.formats.read or `pacsent convert`."
        ) from None
    damaged = (
        f"{path / CONFIG} must be the description of a pacsent model (JSON with format_version and "
        "class). It is damaged or of another program"
    )
    try:
        config = json.loads(raw)
        version, _ = config["format_version"], config["class"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{damaged}. Copy or save the model again.") from None
    if type(version) is not int or version not in READABLE:
        raise ValueError(
            f"{path} must have format_version {' or '.join(map(str, READABLE))}. Got {version!r} "
            f"instead, written by pacsent {config.get('pacsent_version', '?')}. Install that "
            f"version or newer to read it; this is pacsent {pacsent.__version__}."
        )
    if wrong := _wrong_with(config):
        raise ValueError(f"{damaged} ({wrong}). Copy or save the model again.")
    return config


_TYPES: dict[str, type | tuple[type, ...]] = {
    "class": str, "parameters": dict, "word_vectors": dict, "files": dict, "digest": str,
    "vectors_digest": str, "corpus_digest": (str, type(None)), "training": (dict, type(None)),
    "n_words": int, "n_dims": int,
}  # fmt: skip


def _wrong_with(config) -> str:
    """What is wrong with the description of a model; nothing where nothing is."""
    for name, kind in _TYPES.items():
        if name in config and not isinstance(config[name], kind):
            return f"{name} is a {type(config[name]).__name__}"
    if config["format_version"] == 1 and "digest" not in config:
        return ""
    for name in ("digest", "files"):
        if name not in config:
            return f"it has no {name}"
    if not all(isinstance(record, dict) for record in config["files"].values()):
        return "its list of files does not describe them"
    try:
        found = seals.digest_of_json({k: v for k, v in config.items() if k != "digest"})
    except (ValueError, RecursionError):
        return "it is nested too deeply"
    return "" if found == config["digest"] else "it was changed after it was saved"


# ------------------------------------------------------------------------------------------------
# model.safetensors: 8 bytes with the length of a JSON header, the header, the numbers
# ------------------------------------------------------------------------------------------------


def write_tensors(path: str | os.PathLike, tensors: dict[str, np.ndarray]) -> dict:
    """Write arrays as a safetensors file, block by block: no copy of a table in memory.

    Returns its size and digests, from which `read_tensors` knows it again.
    """
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
    pieces = seals.Pieces()
    with open(path, "xb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in order:
            for block in _blocks(tensors[name]):
                file.write(block)
                pieces.update(block)
    size = 8 + len(text) + place
    return {"bytes": size, "header": seals.digest(text), "pieces": pieces.finish()}


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


class Tensors(dict):
    """Arrays by name, mapped from a file; `verify` reads them and finds damage."""

    seal: seals.Seal | None = None

    def verify(self, *names: str) -> None:
        """Raise ValueError unless these arrays (all when left out) are as they were saved.

        Says nothing of files that were saved without digests.
        """
        if self.seal is not None:
            self.seal.verify([name for name in names if name in self] if names else None)


def read_tensors(path: str | os.PathLike, record: dict | None = None) -> Tensors:
    """Open a safetensors file by memory map: read-only arrays, nothing read but the header.

    `record` is what `write_tensors` gave; size and header are held against it now, the numbers
    when `verify` is called.
    """
    path = Path(path)
    again = "It is damaged or was cut off. Copy or save it again."
    raw, size = _read_header(path, again)
    try:
        header = json.loads(raw)
        header.pop("__metadata__", None)
        entries = {
            name: (_DTYPES[e["dtype"]], tuple(e["shape"]), *e["data_offsets"])
            for name, e in header.items()
        }
        ends = [end for *_, end in entries.values()]
        consistent = all(
            all(isinstance(n, int) and 0 <= n < 1 << 62 for n in (*shape, begin, end))
            and end - begin == math.prod(shape) * dtype.itemsize
            for dtype, shape, begin, end in entries.values()
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        consistent = False
    if not consistent:
        raise ValueError(f"{path} must have a safetensors header. {again}")
    data_start = 8 + len(raw)
    needed = data_start + max(ends, default=0)
    if size != needed:
        raise ValueError(
            f"{path} must be {needed:,} bytes long, as its header says. Got {size:,} instead. "
            f"{again}"
        )
    if record is not None and not (
        record.get("bytes") == size and record.get("header") == seals.digest(raw)
    ):
        raise ValueError(
            f"{path} must have the size and header it was saved with. Got others instead. {again}"
        )
    tensors = Tensors()
    if size == data_start:
        for name, (dtype, shape, *_) in entries.items():
            tensors[name] = np.zeros(shape, dtype=dtype)
        return tensors
    mapped = np.memmap(path, dtype=np.uint8, mode="r")
    for name, (dtype, shape, begin, end) in entries.items():
        piece = mapped[data_start + begin : data_start + end]
        if (data_start + begin) % dtype.itemsize:
            piece = np.array(piece)  # another writer's layout: a copy is aligned
        tensors[name] = piece.view(dtype.newbyteorder("<")).reshape(shape)
    if record is not None:
        tensors.seal = _seal(path, mapped[data_start:], record, entries)
    return tensors


def checked_tensor(
    tensors: Mapping[str, np.ndarray],
    name: str,
    dtype: DTypeLike,
    shape: tuple[int | None, ...],
    *,
    finite: bool = True,
    low: int | float | None = None,
    below: int | float | None = None,
) -> np.ndarray:
    """An array of a saved state, if it has the type, shape and values that its user relies on.

    Every class that can be loaded takes its arrays through this function: a file written on
    purpose, with right digests, must not send compiled code out of its arrays.

    Parameters
    ----------
    tensors : mapping of str to array
    name : str
    dtype : dtype
        The kind (integer, unsigned, float, bool) must agree; another width is converted, provided
        that every value fits.
    shape : tuple of int or None
        None stands for any length.
    finite : bool, default=True
        Refuse NaN and infinity. False leaves the numbers of a memory-mapped table unread: call
        `check_finite` before their first use.
    low, below : number, optional
        Refuse values under `low`, and values of `below` and more: ids, labels, counts.

    Examples
    --------
    >>> checked_tensor({"ids": np.array([0, 7])}, "ids", np.int64, (None,), low=0, below=5)
    Traceback (most recent call last):
    ...
    ValueError: ids must be at least 0 and below 5. Got 7 instead
    """
    if name not in tensors:
        raise ValueError(f"it has no {name}")
    found, wanted = np.asarray(tensors[name]), np.dtype(dtype)
    if found.dtype.kind != wanted.kind:
        raise ValueError(f"{name} must be {wanted}. Got {found.dtype} instead")
    if found.ndim != len(shape) or any(
        expected is not None and n != expected for n, expected in zip(found.shape, shape)
    ):
        right = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{name} must have shape ({right}). Got {found.shape} instead")
    if wanted.kind in "iu" and found.size and found.itemsize > wanted.itemsize:
        limits = np.iinfo(wanted)
        if found.min() < limits.min or found.max() > limits.max:
            raise ValueError(f"{name} must fit into {wanted}. Got larger numbers instead")
    if finite and wanted.kind == "f":
        check_finite(found, name)
    if found.size and (low is not None or below is not None):
        _check_range(found, name, low, below)
    return found.astype(wanted, copy=False)


def check_finite(array: np.ndarray, name: str) -> None:
    """Raise ValueError where an array of a saved state holds NaN or infinity.

    Examples
    --------
    >>> check_finite(np.array([1.0, np.nan]), "idf")
    Traceback (most recent call last):
    ...
    ValueError: idf must be finite numbers. Got NaN or infinity instead
    """
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite numbers. Got NaN or infinity instead")


def _check_range(array, name, low, below):
    smallest, largest = array.min(), array.max()
    under = low is not None and not smallest >= low
    over = below is not None and not largest < below
    if under or over:
        parts = [f"at least {low}"] * (low is not None) + [f"below {below}"] * (below is not None)
        wrong = smallest if under else largest
        raise ValueError(f"{name} must be {' and '.join(parts)}. Got {wrong} instead")


def _read_header(path, again) -> tuple[bytes, int]:
    """(header, size of the file)"""
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
            return file.read(n_header), size
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing. Copy or save the model again.") from None


def _seal(path, data, record, entries) -> seals.Seal:
    digests = record.get("pieces")
    if not isinstance(digests, list) or len(digests) != -(-data.size // seals.PIECE):
        raise ValueError(
            f"{path} must have a digest for each piece in {CONFIG}. It has not. Copy or save the "
            "model again."
        )
    return seals.Seal(path, data, digests, {n: (a, b) for n, (_, _, a, b) in entries.items()})
