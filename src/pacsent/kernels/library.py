"""The compiled library of the kernels: which file, which instruction set, how it is called.

The C sources beside this file are compiled when the package is built (`hatch_build.py`). Each has a
Python module of the same name, which declares the entry points it calls::

    _bag_distance = entry_point("bag_distance", INT64, SIZE, INT64, SIZE, returns=SIZE)

and wraps them in functions that check shapes. ctypes releases the interpreter's lock in a call.
"""

import ctypes
import hashlib
import math
import os
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
_HOOK = FOLDER.parents[2] / "hatch_build.py"
_LINE_BYTES = 64  # of a line of the cache
_SUFFIXES = (".so", ".dylib", ".dll")
_X86_LEVELS = ("v2", "v3", "v4")


class KernelsMissing(ImportError):
    """No compiled library could be loaded, and what was called needs it."""


# ---- Arguments ----------------------------------------------------------------------------------


class BoundArray:
    """An array whose address is taken once: for tables that many short calls read."""

    __slots__ = ("array", "pointer")

    def __init__(self, array: np.ndarray) -> None:
        if not array.flags.c_contiguous:
            raise TypeError("The array must be contiguous.")
        self.array = array  # keeps the memory alive
        self.pointer = ctypes.c_void_p(_address(array))

    def __reduce__(self) -> tuple[type["BoundArray"], tuple[np.ndarray]]:
        return BoundArray, (self.array,)  # in another process it lies elsewhere


class Array:
    """The type of an argument that is an array: its dtype is checked at every call.

    None stands for a null pointer where the argument is `optional`.
    """

    def __init__(self, dtype: Any, *, optional: bool = False) -> None:
        self.dtype = np.dtype(dtype)
        self.optional = optional

    def from_param(self, array: Any) -> Any:
        """Return an object with the address of the array; called by ctypes."""
        if array is None and self.optional:
            return None
        is_bound = type(array) is BoundArray
        dtype = array.array.dtype if is_bound else array.dtype
        if dtype is not self.dtype and dtype != self.dtype:
            raise TypeError(f"An array of {dtype} was passed for one of {self.dtype}.")
        if is_bound:
            return array.pointer
        try:
            return _AT_BUFFER(array)  # several times as fast as `array.ctypes`
        except TypeError:  # it is read-only, or not contiguous
            if array.flags.c_contiguous:
                return ctypes.c_void_p(array.ctypes.data)
            raise TypeError("The array must be contiguous.") from None


# Something of no bytes where an array begins.
_AT_BUFFER: Callable[[Any], Any] = (ctypes.c_char * 0).from_buffer


def _address(array: np.ndarray) -> int:
    """Address of a contiguous array."""
    return ctypes.addressof(_AT_BUFFER(array)) if array.flags.writeable else array.ctypes.data


SIZE = ctypes.c_ssize_t
FLOAT = ctypes.c_float
DOUBLE = ctypes.c_double
UINT8 = Array(np.uint8)
UINT16 = Array(np.uint16)
UINT64 = Array(np.uint64)
INT8 = Array(np.int8)
INT32 = Array(np.int32)
INT64 = Array(np.int64)
FLOAT16 = Array(np.float16)
FLOAT32 = Array(np.float32)
FLOAT64 = Array(np.float64)


class Struct:
    """The type of an argument that is a struct of C: its members, arrays and numbers, in order."""

    def __init__(self, **members: Any) -> None:
        self.members = members
        fields = []
        for name, type_ in members.items():
            member_type = ctypes.c_void_p if isinstance(type_, Array) else type_
            fields.append((name, member_type))
        self.type = type("Members", (ctypes.Structure,), {"_fields_": fields})

    def from_param(self, bound: Any) -> Any:
        """The address of the struct; called by ctypes."""
        if type(bound) is not BoundStruct or bound.struct is not self:
            raise TypeError(f"A struct of {', '.join(self.members)} is needed.")
        return bound.pointer


class BoundStruct:
    """A struct with its members, which are checked once: for many calls, or many arguments."""

    __slots__ = ("members", "pointer", "struct", "values")

    def __init__(self, struct: Struct, **members: Any) -> None:
        if members.keys() != struct.members.keys():
            raise TypeError(f"The members must be {', '.join(struct.members)}.")
        self.struct = struct
        self.members = members  # keeps the memory alive
        self.values = struct.type()
        for name, type_ in struct.members.items():
            value = members[name]
            if isinstance(type_, Array):
                type_.from_param(value)  # checks it
                value = _address(value)
            setattr(self.values, name, value)
        self.pointer = ctypes.byref(self.values)


def aligned_room(*shape: int) -> np.ndarray:
    """`np.empty(shape, np.float32)` that begins with a line of the cache."""
    n = math.prod(shape)
    room = np.empty(n + _LINE_BYTES // 4, np.float32)
    begin = -_address(room) % _LINE_BYTES // 4
    return room[begin : begin + n].reshape(shape)


# ---- The library --------------------------------------------------------------------------------


def _digest_of_sources() -> str:
    """`digest()` of hatch_build.py, for the sources that lie here."""
    digest = hashlib.sha256()
    for path in [*sorted(FOLDER.glob("*.[ch]")), _HOOK]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update(os.environ.get("PACSENT_SANITIZE", "").encode())
    return digest.hexdigest()[:12]


def find_library() -> Path | None:
    """The library to load; None where none was built.

    PACSENT_LIBRARY is the path of another one, or `none`. In a checkout, a library that was built
    from other sources is an error: an edit must never silently have no effect.
    """
    named = os.environ.get("PACSENT_LIBRARY")
    if named:
        return None if named == "none" else Path(named)
    built = [path for path in FOLDER.glob("_kernels-*") if path.suffix in _SUFFIXES]
    if not built:
        return None
    if _HOOK.is_file() and (FOLDER / "level.c").is_file():
        current = f"_kernels-{_digest_of_sources()}"
        built = [path for path in built if path.stem == current]
        if not built:
            raise KernelsMissing(
                f"The compiled kernels are older than their sources. Run: python {_HOOK}"
            )
    return built[0]


def _best_level(library: ctypes.CDLL) -> str:
    """The best instruction set of the processor, or the one that PACSENT_LEVEL asks for."""
    library.level.restype = ctypes.c_char_p
    best = library.level().decode()
    wanted = os.environ.get("PACSENT_LEVEL")
    if not wanted:
        return best
    possible = _levels_up_to(best)
    if wanted not in possible:
        raise KernelsMissing(f"PACSENT_LEVEL={wanted}: this processor has {', '.join(possible)}.")
    return wanted


def _levels_up_to(best: str) -> list[str]:
    if best not in _X86_LEVELS:
        return [best]
    return list(_X86_LEVELS[: _X86_LEVELS.index(best) + 1])


@cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    """The library and the instruction set to use; or None and the reason why there is none."""
    path = find_library()
    if path is None:
        return None, "the package was built without them"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return None, str(error)
    return library, _best_level(library)


def is_available() -> bool:
    """True if compiled kernels can be called."""
    return _load()[0] is not None


def level() -> str | None:
    """The instruction set in use: v2, v3 or v4 of x86-64, `base` elsewhere, or None."""
    library, name = _load()
    return None if library is None else name


def levels() -> list[str]:
    """The instruction sets that the library has and this processor can run."""
    library, _ = _load()
    if library is None:
        return []
    library.level.restype = ctypes.c_char_p
    return _levels_up_to(library.level().decode())


def entry_point(name: str, *types: Any, returns: Any = None) -> Callable[..., Any]:
    """A function of the library; where there is none, one that says so when it is called."""
    library, level_or_reason = _load()
    if library is None:

        def missing(*arguments: Any) -> None:
            raise KernelsMissing(
                f"This needs the compiled kernels of pacsent: {level_or_reason}. "
                "Install a wheel for this platform, or a C compiler and pacsent from source."
            )

        return missing

    function = getattr(library, f"{name}_{level_or_reason}")
    function.argtypes = types
    function.restype = returns
    return function


def needs_twins() -> bool:
    """True if NumPy must do the work of the compiled kernels; it warns of that once."""
    if is_available():
        return False
    _warn_of_twins()
    return True


@cache
def _warn_of_twins() -> None:
    warnings.warn(
        "The compiled kernels of pacsent could not be loaded "
        f"({_load()[1]}): encoding and certificates use NumPy, many times slower.",
        stacklevel=4,
    )
