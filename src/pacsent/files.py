"""Writing so that nothing is lost: under a hidden name, onto the disk, then moved in one step.

`replacing` is for a file, `replacing_folder` for a folder; no other module moves files into place.
What is being written is named `.NAME.saving-*`. A killed process leaves it there; the first write
of the same name a day later removes it with a warning. `check_output` is the rule for what may be
replaced.
"""

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

_STALE = 24 * 3600  # seconds after which a half-written file is a leftover


# ---- what may be replaced ------------------------------------------------------------------------


def check_output(
    path: str | os.PathLike | None,
    inputs: Iterable = (),
    *,
    overwrite: bool = False,
    folder: bool = False,
) -> None:
    """Refuse an output that exists, unless it may be overwritten; and any that is an input.

    A file without a byte, a folder without a file, a device and a pipe have nothing to lose.

    Parameters
    ----------
    path : path; None or '-' for stdout
    inputs : iterable of paths; None and '-' are passed over
        What the output is made from. It is never replaced, nor anything within it, nor a folder
        that holds it.
    overwrite : bool, default=False
    folder : bool, default=False
        Whether the output is to be a folder.
    """
    if is_stream(path):
        return
    place = Path(os.path.realpath(str(path)))
    if place.is_dir() and not folder:
        raise _is_directory(path)
    for given in inputs:
        if given is None or str(given) == "-":
            continue
        source = Path(os.path.realpath(given))
        if place == source or place in source.parents or source in place.parents:
            how = "is an input" if place == source else f"holds or lies in the input {given}"
            raise ValueError(
                f"The output must be none of the inputs, which are never overwritten. Got {path}, "
                f"which {how}, instead. Choose another name for the output."
            )
    if not overwrite and place.exists() and not _is_empty(place):
        raise FileExistsError(
            f"{path} exists. Choose another name, or pass overwrite=True to replace it."
        )


def is_stream(path: str | os.PathLike | None) -> bool:
    """Whether a path is stdout, a device or a pipe: written to as it is, nothing to move there."""
    if path is None or str(path) == "-":
        return True
    path = Path(path)
    if os.path.abspath(path).startswith(("/dev/std", "/dev/fd/", "/proc/")):
        return True
    return path.exists() and not path.is_file() and not path.is_dir()


def _is_empty(place: Path) -> bool:
    if place.is_dir():
        return not any(place.iterdir())
    return place.stat().st_size == 0


def full_disk(error: OSError, path: str | os.PathLike, needed: int | None = None) -> OSError:
    """The error itself, or one clear line where the disk is full."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT) or error.strerror is None:
        return error
    much = f" needs about {needed / 1e6:,.0f} MB and" if needed else ""
    clear = OSError(
        f"The disk that holds {Path(path).parent} is full: {path}{much} was not saved. Free some "
        "space or save elsewhere."
    )
    clear.errno = error.errno
    return clear


# ---- writing -------------------------------------------------------------------------------------


@contextlib.contextmanager
def replacing(
    path: str | os.PathLike | None, *, parents: bool = False, needed: int | None = None
) -> Iterator[IO[bytes]]:
    """A file to write bytes to; in its place, whole and on the disk, when the block ends well.

    Written under a hidden name and moved into place, so that what was there stays until then, and
    for good where the block fails. A link stays, what it points to is replaced; permissions are
    kept.

    Parameters
    ----------
    path : path; None or '-' for stdout
        A device or a pipe is written to directly.
    parents : bool, default=False
        Make the folders that lead to the file; else they must exist.
    needed : int or None
        Bytes that will be written, for the message of a full disk.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as file:
    ...         n = file.write(b"whole")
    ...     (Path(folder) / "a.txt").read_text()
    'whole'
    """
    if path is None or str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if is_stream(path):
        with open(path, "ab") as stream:  # /dev/stdout may be a log that is appended to
            yield stream
        return
    place = Path(os.path.realpath(path))
    _check_file_place(place, path, parents)
    with _hidden_name(place) as hidden:
        try:
            file = open(hidden, "xb")  # noqa: SIM115 (closed below)
        except OSError as error:
            raise _unwritable(error, path) from None
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if place.exists():
                shutil.copymode(place, hidden)
            os.replace(hidden, place)
            _sync(place.parent)
        except OSError as error:
            raise full_disk(error, path, needed) from None


def _is_directory(path) -> OSError:
    return IsADirectoryError(
        f"The output must be a file. Got the directory {path} instead. Choose another name."
    )


def _check_file_place(place: Path, path, parents: bool) -> None:
    if place.is_dir():
        raise _is_directory(path)
    if place.parent.is_dir():
        return
    if not parents:
        raise FileNotFoundError(
            f"The output must be in a folder that exists. Got {path} instead. Run: "
            f"mkdir -p {place.parent}"
        )
    place.parent.mkdir(parents=True, exist_ok=True)


def _unwritable(error: OSError, path) -> OSError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full_disk(error, path)
    return type(error)(
        f"The output must be a place that can be written to. Got {path} instead "
        f"({error.strerror}). Choose another place."
    )


@contextlib.contextmanager
def replacing_folder(path: str | os.PathLike, *, needed: int | None = None) -> Iterator[Path]:
    """A new folder to write into; in its place, whole and on the disk, when the block ends well.

    As `replacing`. What is in its place is exchanged in one step where the system can (Linux);
    the caller has checked that it may go.
    """
    place = Path(os.path.realpath(path))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(error, path) from None
    with _hidden_name(place) as hidden:
        try:
            hidden.mkdir()
        except OSError as error:
            raise _unwritable(error, path) from None
        try:
            yield hidden
            _sync_tree(hidden)
            move(hidden, place)
            _sync(place.parent)
        except OSError as error:
            raise full_disk(error, path, needed) from None


@contextlib.contextmanager
def _hidden_name(place: Path) -> Iterator[Path]:
    """A name for what will be moved to `place`; what is still there at the end is removed."""
    _remove_leftovers(place)
    hidden = place.parent / f".{place.name}.saving-{secrets.token_hex(4)}"
    try:
        yield hidden
    finally:
        _remove(hidden)


def _remove_leftovers(place: Path) -> None:
    """Remove, and name, what killed processes left of `place`: nothing wrote to it for a day."""
    name = re.compile(re.escape(f".{place.name}.saving-") + "[0-9a-f]{8}")
    try:
        found = [place.parent / n for n in os.listdir(place.parent) if name.fullmatch(n)]
        left = [path for path in found if time.time() - _last_written(path) > _STALE]
    except OSError:
        return
    for path in left:
        _remove(path)
        warnings.warn(
            f"Removed {path}, which a killed process had left half written.", stacklevel=2
        )


def _last_written(path: Path) -> float:
    """When a file, or anything in a folder, was last changed."""
    return max(p.lstat().st_mtime for p in (path, *path.rglob("*")))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def move(hidden: Path, place: Path) -> None:
    """Put the finished folder in its place; the old one goes in the same step."""
    if not place.exists():
        os.rename(hidden, place)
        return
    if exchange(hidden, place):
        return  # `hidden` is now the old folder, which is removed like anything under a hidden name
    old = place.parent / f".{place.name}.old-{secrets.token_hex(4)}"
    os.rename(place, old)
    try:
        os.rename(hidden, place)
    except BaseException:
        os.rename(old, place)
        raise
    shutil.rmtree(old, ignore_errors=True)


def exchange(a: str | os.PathLike, b: str | os.PathLike) -> bool:
    """Swap two folders in one step where the system can (Linux); False where it cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return renameat2(here, os.fsencode(a), here, os.fsencode(b), exchange) == 0


def _sync_tree(folder: Path) -> None:
    for directory, _, names in os.walk(folder):
        for name in names:
            _sync(Path(directory) / name)
        _sync(Path(directory))


def _sync(path: Path) -> None:
    """Onto the disk, where the system can say so of this kind of file."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES):
            raise
    finally:
        os.close(descriptor)
