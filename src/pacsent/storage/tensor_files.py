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

import numpy as np
from numpy.typing import DTypeLike

TENSORS = "model.safetensors"
DERIVED = "derived.safetensors"
_SIZES = {"U": (1, 2, 4, 8), "I": (1, 2, 4, 8), "F": (2, 4, 8)}  # bytes of a number
_DTYPES = {f"{kind}{8 * n}": f"<{kind.lower()}{n}" for kind, sizes in _SIZES.items() for n in sizes}
_DTYPES["BOOL"] = "?"
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

    try:
        save_file({name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        if code := re.search(r"os error (\d+)", str(error)):  # of the operating system: a full disk
            raise OSError(int(code[1]), os.strerror(int(code[1]))) from None
        raise
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
            if len(prefix) < 8 or n_header > min(size - 8, _MAX_HEADER_BYTES):
                raise ValueError(
                    f"{path} must be a complete safetensors file. Got {size:,} bytes that do not "
                    f"contain even its header instead. {advice}"
                )
            raw = file.read(n_header)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing. Copy or save the model again.") from None

    entries = _entries(raw)
    if entries is None:
        raise ValueError(f"{path} must have a safetensors header. {advice}")

    start = 8 + n_header
    expected = start + max((end for *_, end in entries.values()), default=0)
    if size != expected:
        raise ValueError(
            f"{path} must be {expected:,} bytes long, as its header says. Got {size:,} instead. "
            f"{advice}"
        )

    data = np.zeros(0, np.uint8)
    if size > start:  # an empty file cannot be mapped
        data = np.memmap(path, dtype=np.uint8, mode="r")[start:]

    tensors = {}
    for name, (dtype, shape, begin, end) in entries.items():
        block = data[begin:end]
        if (start + begin) % dtype.itemsize:
            block = np.array(block)  # the layout of another writer: a copy is aligned
        tensors[name] = block.view(dtype).reshape(shape)
    return tensors


def _entries(raw: bytes) -> dict[str, tuple[np.dtype, tuple, int, int]] | None:
    """Name -> (dtype, shape, begin, end) of a header; None if it is inconsistent."""
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
        return None
    return entries if consistent else None


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

    array, wanted = np.asarray(tensors[name]), np.dtype(dtype)
    if array.dtype.kind != wanted.kind:
        raise ValueError(f"{name} must be {wanted}. Got {array.dtype} instead")
    if array.ndim != len(shape) or any(
        expected is not None and n != expected for n, expected in zip(array.shape, shape)
    ):
        right = ", ".join("any" if n is None else str(n) for n in shape)
        raise ValueError(f"{name} must have shape ({right}). Got {array.shape} instead")

    if wanted.kind in "iu" and array.size and array.itemsize > wanted.itemsize:
        info = np.iinfo(wanted)
        if array.min() < info.min or array.max() > info.max:
            raise ValueError(f"{name} must fit into {wanted}. Got larger numbers instead")

    if finite and wanted.kind == "f":
        check_finite(array, name)

    if array.size and (low is not None or below is not None):
        smallest, largest = array.min(), array.max()
        too_small = low is not None and not smallest >= low
        if too_small or (below is not None and not largest < below):
            limits = [f"at least {low}"] * (low is not None)
            limits += [f"below {below}"] * (below is not None)
            value = smallest if too_small else largest
            raise ValueError(f"{name} must be {' and '.join(limits)}. Got {value} instead")

    return array.astype(wanted, copy=False)


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
    return base64.b64encode(steps.astype("<u2").tobytes()).decode()


def unpack_losses(text: str) -> np.ndarray:
    """The losses that `pack_losses` kept, (n,) float64."""
    try:
        raw = base64.b64decode(text, validate=True)
        return np.frombuffer(raw, dtype="<u2").astype(float) / _LOSS_STEPS
    except (binascii.Error, ValueError):
        raise ValueError(
            "losses must be what certify recorded. Got damaged text instead. Certify again."
        ) from None
