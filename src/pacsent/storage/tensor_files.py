"""Arrays as a safetensors file: written by the safetensors library, read by memory map.

The library's own reader copies every array into memory. The reader here maps the file instead, so
that opening a model takes milliseconds whatever its size (400 MB: 0.5 ms, against 1.1 s).
"""

import base64
import binascii
import json
import math
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

TENSORS = "model.safetensors"
DERIVED = "derived.safetensors"
# Types of safetensors, and the same of NumPy.
_DTYPES = {
    "U8": "<u1",
    "U16": "<u2",
    "U32": "<u4",
    "U64": "<u8",
    "I8": "<i1",
    "I16": "<i2",
    "I32": "<i4",
    "I64": "<i8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "BOOL": "?",
}
_DTYPE_NAMES = {np.dtype(code).name for code in _DTYPES.values()}
_LOSS_STEPS = 65_535  # a kept loss is a multiple of 1/65535, rounded up
_MAX_HEADER_BYTES = 100_000_000  # as in the safetensors library


def write_tensors(path: str | os.PathLike, tensors: Mapping[str, np.ndarray]) -> None:
    """Write arrays as a new safetensors file."""
    for name, tensor in tensors.items():
        if tensor.dtype.name not in _DTYPE_NAMES:
            raise ValueError(
                f"{name} must be an array of numbers to be saved. Got {tensor.dtype} instead."
            )

    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    with open(path, "ab") as file:  # with the permissions that the user gives to new files
        mode = os.fstat(file.fileno()).st_mode

    contiguous = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    try:
        save_file(contiguous, path)
    except SafetensorError as error:
        # An error of the operating system, for example a full disk, is raised as such.
        match = re.search(r"os error (\d+)", str(error))
        if match is None:
            raise
        code = int(match[1])
        raise OSError(code, os.strerror(code)) from None
    os.chmod(path, stat.S_IMODE(mode))


def read_tensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Open a safetensors file by memory map: read-only arrays, nothing read but the header."""
    path = Path(path)
    advice = "It is damaged or was cut off. Copy or save it again."

    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            prefix = file.read(8)
            n_header = int.from_bytes(prefix, "little")
            max_header = min(size - 8, _MAX_HEADER_BYTES)
            if len(prefix) < 8 or n_header > max_header:
                raise ValueError(
                    f"{path} must be a complete safetensors file. Got {size:,} bytes that do not "
                    f"contain even its header instead. {advice}"
                )
            header = file.read(n_header)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing. Copy or save the model again.") from None

    entries = _parse_header(header)
    if entries is None:
        raise ValueError(f"{path} must have a safetensors header. {advice}")

    data_start = 8 + n_header
    data_bytes = max((entry.end for entry in entries.values()), default=0)
    expected = data_start + data_bytes
    if size != expected:
        raise ValueError(
            f"{path} must be {expected:,} bytes long, as its header says. Got {size:,} instead. "
            f"{advice}"
        )

    data = np.zeros(0, np.uint8)
    if size > data_start:  # an empty file cannot be mapped
        data = np.memmap(path, dtype=np.uint8, mode="r")[data_start:]

    tensors = {}
    for name, entry in entries.items():
        block = data[entry.begin : entry.end]
        if (data_start + entry.begin) % entry.dtype.itemsize:
            block = np.array(block)  # the layout of another writer: a copy is aligned
        tensors[name] = block.view(entry.dtype).reshape(entry.shape)
    return tensors


class _Entry(NamedTuple):
    """An array in a safetensors file: its bytes are data[begin:end]."""

    dtype: np.dtype
    shape: tuple
    begin: int
    end: int

    @property
    def is_consistent(self) -> bool:
        """True if all numbers are sizes, and the bytes are as many as the shape says."""
        for number in (*self.shape, self.begin, self.end):
            if not isinstance(number, int) or not 0 <= number < 1 << 62:
                return False
        return self.end - self.begin == math.prod(self.shape) * self.dtype.itemsize


def _parse_header(header: bytes) -> dict[str, _Entry] | None:
    """The arrays of a header by name; None if it is inconsistent."""
    entries = {}
    try:
        content = json.loads(header)
        content.pop("__metadata__", None)
        for name, fields in content.items():
            dtype = np.dtype(_DTYPES[fields["dtype"]])
            begin, end = fields["data_offsets"]
            entry = _Entry(dtype, tuple(fields["shape"]), begin, end)
            if not entry.is_consistent:
                return None
            entries[name] = entry
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return entries


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
    purpose, with right checksums, must not make compiled code read outside its arrays.

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

    array = np.asarray(tensors[name])
    wanted = np.dtype(dtype)
    if array.dtype.kind != wanted.kind:
        raise ValueError(f"{name} must be {wanted}. Got {array.dtype} instead")

    _check_shape(array, name, shape)
    if wanted.kind in "iu" and array.itemsize > wanted.itemsize:
        _check_fits(array, name, wanted)
    if finite and wanted.kind == "f":
        check_finite(array, name)
    _check_limits(array, name, low, below)
    return array.astype(wanted, copy=False)


def _check_shape(array: np.ndarray, name: str, shape: tuple[int | None, ...]) -> None:
    """Raise ValueError for another shape; None in `shape` stands for any length."""
    is_right = array.ndim == len(shape)
    for length, expected in zip(array.shape, shape):
        if expected is not None and length != expected:
            is_right = False

    if not is_right:
        shown = ", ".join("any" if length is None else str(length) for length in shape)
        raise ValueError(f"{name} must have shape ({shown}). Got {array.shape} instead")


def _check_fits(array: np.ndarray, name: str, wanted: np.dtype) -> None:
    """Raise ValueError for integers that are too large for a narrower type."""
    if array.size == 0:
        return
    info = np.iinfo(wanted)
    if array.min() < info.min or array.max() > info.max:
        raise ValueError(f"{name} must fit into {wanted}. Got larger numbers instead")


def _check_limits(
    array: np.ndarray, name: str, low: int | float | None, below: int | float | None
) -> None:
    """Raise ValueError for values outside [low, below); None is no limit."""
    if array.size == 0 or (low is None and below is None):
        return

    # Written so that NaN is outside.
    smallest = array.min()
    largest = array.max()
    is_too_small = low is not None and not smallest >= low
    is_too_large = below is not None and not largest < below
    if not is_too_small and not is_too_large:
        return

    limits = []
    if low is not None:
        limits.append(f"at least {low}")
    if below is not None:
        limits.append(f"below {below}")
    value = smallest if is_too_small else largest
    raise ValueError(f"{name} must be {' and '.join(limits)}. Got {value} instead")


def check_finite(array: np.ndarray, name: str) -> None:
    """Raise ValueError where an array of a saved state holds NaN or infinity.

    >>> check_finite(np.array([1.0, np.nan]), "idf")
    Traceback (most recent call last):
    ...
    ValueError: idf must be finite numbers. Got NaN or infinity instead
    """
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite numbers. Got NaN or infinity instead")


def pack_losses(losses: np.ndarray) -> str:
    """Losses in [0, 1] rounded up to 16 bits, as text: what a certificate keeps of them."""
    losses = np.clip(losses, 0.0, 1.0)
    steps = np.floor(losses * _LOSS_STEPS)
    steps += steps / _LOSS_STEPS < losses  # by the very division that `unpack_losses` does
    step_bytes = steps.astype("<u2").tobytes()
    return base64.b64encode(step_bytes).decode()


def unpack_losses(text: str) -> np.ndarray:
    """The losses that `pack_losses` kept, (n,) float64."""
    try:
        raw = base64.b64decode(text, validate=True)
        return np.frombuffer(raw, dtype="<u2").astype(float) / _LOSS_STEPS
    except (binascii.Error, ValueError):
        raise ValueError(
            "losses must be what certify recorded. Got damaged text instead. Certify again."
        ) from None
