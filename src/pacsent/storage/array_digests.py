"""SHA-256 of arrays; arrays of a mapped file are read once while the file stays as it is."""

import hashlib
import os
from collections.abc import Mapping
from mmap import mmap
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np


class _MappedFile(NamedTuple):
    """A file that is mapped for reading, whose arrays this process cannot change."""

    mapping: mmap
    version: tuple[int, ...]  # another one after another process wrote to the file


# Mapping -> what was hashed last of its arrays, and the digest. An entry goes with its mapping, so
# that an address never stands for two arrays.
_LAST_DIGESTS: WeakKeyDictionary[mmap, tuple[tuple, str]] = WeakKeyDictionary()


def hash_arrays(header: bytes, arrays: Mapping[str, np.ndarray], trailer: bytes) -> str:
    """SHA-256 of a header, of arrays with their names, types and shapes, and of a trailer.

    Arrays in a file that is mapped for reading are known by their address and the time of the last
    change of the file. All others are read at each call.

    Parameters
    ----------
    header, trailer : bytes
    arrays : dict of name to array
        They are hashed in the order of their names.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    files = {name: _mapped_file(array) for name, array in arrays.items()}
    mapping = next((file.mapping for file in files.values() if file is not None), None)
    if mapping is None:
        return _hash(header, arrays, trailer)

    contents = []
    for name, array in sorted(arrays.items()):
        file = files[name]
        content: tuple | bytes
        if file is not None and file.mapping is mapping:
            address = array.__array_interface__["data"][0]
            content = (address, array.strides, file.version)
        else:
            content = hashlib.sha256(_bytes_of(array)).digest()
        contents.append((name, array.dtype.str, array.shape, content))
    key = (header, tuple(contents), trailer)

    last_key, digest = _LAST_DIGESTS.get(mapping, ((), ""))
    if key != last_key:
        digest = _hash(header, arrays, trailer)
        _LAST_DIGESTS[mapping] = (key, digest)
    return digest


def _hash(header: bytes, arrays: Mapping[str, np.ndarray], trailer: bytes) -> str:
    total = hashlib.sha256(header)
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype} {array.shape}".encode())
        total.update(_bytes_of(array))
    total.update(trailer)
    return total.hexdigest()


def _bytes_of(array: np.ndarray) -> memoryview:
    """The bytes of an array in C order, without a copy if it has this order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _mapped_file(array: np.ndarray) -> _MappedFile | None:
    """The file that an array lies in; None if the array can be changed, or the file is gone."""
    path = None
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return None
        path = getattr(owner, "filename", path)
        owner = owner.base
    if path is None or not isinstance(owner, mmap) or not memoryview(owner).readonly:
        return None

    try:
        status = os.stat(path)
    except OSError:
        return None
    version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return _MappedFile(owner, version)
