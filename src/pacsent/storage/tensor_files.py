"""Arrays as a safetensors file: written by the safetensors library, read by memory map.

The library's own reader copies every array into memory. The reader here maps the file instead, so
that opening a model takes milliseconds whatever its size (400 MB: 0.5 ms, against 1.1 s).
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike
from safetensors.numpy import save_file

from pacsent.storage.checksums import PIECE, PieceChecks, checksum, checksums_of_pieces

TENSORS = "model.safetensors"
_DTYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
_KINDS = {np.dtype(code).name for code in _DTYPES.values()}
_LARGEST_HEADER = 100_000_000  # bytes, as in the safetensors library


def write_tensors(path: str | os.PathLike, tensors: Mapping[str, np.ndarray]) -> dict:
    """Write arrays as a new safetensors file; its size and checksums, for `read_tensors`."""
    for name, tensor in tensors.items():
        if tensor.dtype.name not in _KINDS:
            raise ValueError(
                f"{name} must be an array of numbers to be saved. Got {tensor.dtype} instead."
            )
    whole = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    save_file(whole, path)
    header, size = _read_header(Path(path))
    data = _mapped(path, 8 + len(header), size)
    return {"bytes": size, "header": checksum(header), "pieces": list(checksums_of_pieces(data))}


class Tensors(dict):
    """Arrays by name, mapped from a file; `verify` reads them and finds damage."""

    checks: PieceChecks | None = None

    def verify(self, *names: str) -> None:
        """Raise ValueError unless these arrays (all when left out) are as they were saved.

        A file that was read without its record has nothing to compare with.
        """
        if self.checks is not None:
            self.checks.verify([name for name in names or self if name in self])

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self.values())


def read_tensors(path: str | os.PathLike, record: dict | None = None) -> Tensors:
    """Open a safetensors file by memory map: read-only arrays, nothing read but the header.

    `record` is what `write_tensors` gave; size and header are compared with it now, the numbers
    when `verify` is called.
    """
    path = Path(path)
    raw, size = _read_header(path)
    entries = _entries(path, raw)
    start = 8 + len(raw)
    needed = start + max((end for *_, end in entries.values()), default=0)
    if size != needed:
        raise ValueError(
            f"{path} must be {needed:,} bytes long, as its header says. Got {size:,} instead. "
            f"{_AGAIN}"
        )
    data = _mapped(path, start, size)
    tensors = Tensors()
    for name, (dtype, shape, begin, end) in entries.items():
        piece = data[begin:end]
        if (start + begin) % dtype.itemsize:
            piece = np.array(piece)  # the layout of another writer: a copy is aligned
        tensors[name] = piece.view(dtype).reshape(shape)
    if record is not None:
        tensors.checks = _checks(path, data, record, raw, entries)
    return tensors


_AGAIN = "It is damaged or was cut off. Copy or save it again."


def _mapped(path, start, size) -> np.ndarray:
    """The bytes behind the header."""
    if size == start:
        return np.zeros(0, np.uint8)  # nothing to map
    return np.memmap(path, dtype=np.uint8, mode="r")[start:]


def _read_header(path) -> tuple[bytes, int]:
    """(header, size of the file)"""
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            start = file.read(8)
            n_header = int.from_bytes(start, "little")
            if len(start) < 8 or n_header > min(size - 8, _LARGEST_HEADER):
                raise ValueError(
                    f"{path} must be a whole safetensors file. Got {size:,} bytes that do not "
                    f"hold even its header instead. {_AGAIN}"
                )
            return file.read(n_header), size
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing. Copy or save the model again.") from None


def _entries(path, raw) -> dict[str, tuple[np.dtype, tuple, int, int]]:
    """Name -> (dtype, shape, begin, end) of a header, if it is one."""
    try:
        header = json.loads(raw)
        header.pop("__metadata__", None)
        entries = {
            name: (np.dtype(_DTYPES[e["dtype"]]), tuple(e["shape"]), *e["data_offsets"])
            for name, e in header.items()
        }
        consistent = all(
            all(isinstance(n, int) and 0 <= n < 1 << 62 for n in (*shape, begin, end))
            and end - begin == math.prod(shape) * dtype.itemsize
            for dtype, shape, begin, end in entries.values()
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        consistent = False
    if not consistent:
        raise ValueError(f"{path} must have a safetensors header. {_AGAIN}")
    return entries


def _checks(path, data, record, raw, entries) -> PieceChecks:
    if record.get("bytes") != 8 + len(raw) + data.size or record.get("header") != checksum(raw):
        raise ValueError(
            f"{path} must have the size and header it was saved with. Got others instead. {_AGAIN}"
        )
    pieces = record.get("pieces")
    if not isinstance(pieces, list) or len(pieces) != -(-data.size // PIECE):
        raise ValueError(
            f"{path} must have a checksum for each piece in config.json. It does not. Copy or save "
            "the model again."
        )
    return PieceChecks(path, data, pieces, {n: (a, b) for n, (_, _, a, b) in entries.items()})


# ---- what a class relies on ----------------------------------------------------------------------


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

    The kind of `dtype` (integer, unsigned, float, bool) must agree; another width is converted,
    provided that every value fits. None in `shape` stands for any length. `low` and `below` are
    limits of the values (ids, labels, counts). `finite=False` leaves the numbers of a memory-mapped
    table unread: call `check_finite` before their first use.

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
