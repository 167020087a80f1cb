"""Write files and folders so that an interrupted write leaves what was there before.

`replacing` writes a file, `replacing_folder` a folder, under a hidden name `.NAME.saving-*` in the
same directory; it is moved into place when it is complete and on the disk. `check_output` is the
rule for what may be replaced.
"""

import contextlib
import errno
import os
import secrets
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import IO

_FULL = (errno.ENOSPC, errno.EDQUOT)  # what a full disk raises


def check_output(
    path: str | os.PathLike | None,
    inputs: Iterable = (),
    *,
    overwrite: bool = False,
    folder: bool = False,
) -> None:
    """Raise if an output exists and may not be overwritten, or if it is an input.

    Empty files, empty folders, devices and pipes may always be written to; None and '-' are stdout.
    Neither an input, nor anything in it, nor a folder that contains it is ever replaced. `folder`
    says whether the output is to be a folder.
    """
    if is_stream(path):
        return

    place = Path(os.path.realpath(str(path)))
    if place.is_dir() and not folder:
        raise IsADirectoryError(
            f"The output must be a file. Got the directory {path} instead. Choose another name."
        )
    for path_in in inputs:
        if path_in is None or str(path_in) == "-":
            continue
        source = Path(os.path.realpath(path_in))
        relation = None
        if place == source:
            relation = "is an input"
        elif place in source.parents or source in place.parents:
            relation = f"holds or lies in the input {path_in}"
        if relation is not None:
            raise ValueError(
                f"The output must be none of the inputs, which are never overwritten. Got {path}, "
                f"which {relation}, instead. Choose another name for the output."
            )

    if overwrite or not place.exists():
        return
    has_content = any(place.iterdir()) if place.is_dir() else place.stat().st_size > 0
    if has_content:
        raise FileExistsError(
            f"{path} exists. Choose another name, or pass overwrite=True to replace it."
        )


def is_stream(path: str | os.PathLike | None) -> bool:
    """Return True for stdout, a device or a pipe: written to as it is, nothing to move there."""
    if path is None or str(path) == "-":
        return True
    is_special = os.path.abspath(path).startswith(("/dev/std", "/dev/fd/", "/proc/"))
    path = Path(path)
    return is_special or (path.exists() and not path.is_file() and not path.is_dir())


@contextlib.contextmanager
def replacing(path: str | os.PathLike | None, *, parents: bool = False) -> Iterator[IO[bytes]]:
    """A file to write bytes to; moved into place when the block ends without an error.

    What was there stays until then, and for good if the block fails. Of a link the target is
    replaced; permissions are kept. None and '-' are stdout; a device or a pipe is written to
    directly. `parents` makes the folders that lead to the file.
    """
    if path is None or str(path) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if is_stream(path):
        with open(path, "ab") as stream:  # /dev/stdout may be a log that is appended to
            yield stream
        return

    check_output(path, overwrite=True)  # not a folder
    place = Path(os.path.realpath(path))
    if not parents and not place.parent.is_dir():
        raise FileNotFoundError(
            f"The output must be in a folder that exists. Got {path} instead. Run: "
            f"mkdir -p {place.parent}"
        )
    with _hidden_name(place, path) as hidden:
        with open(hidden, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

        if place.exists():
            shutil.copymode(place, hidden)
        os.replace(hidden, place)
        _sync(place.parent)


@contextlib.contextmanager
def replacing_folder(
    path: str | os.PathLike, ours: Collection[str] | None = None
) -> Iterator[Path]:
    """A new folder to write into; moved into place when the block ends without an error.

    As `replacing`. The caller has checked that a folder which is there may be replaced: it is
    renamed to `.NAME.old-*` while the new one is moved into its place. `ours` are the files in it
    that may be deleted, by default those that the new folder has as well. All others stay: they
    are moved into the new folder.
    """
    place = Path(os.path.realpath(path))
    with _hidden_name(place, path) as hidden:
        hidden.mkdir()
        yield hidden

        for directory, _, names in os.walk(hidden):
            for name in (*names, "."):
                _sync(Path(directory) / name)
        kept = _foreign_files(place, hidden, ours) if place.is_dir() else []
        _move_folder(hidden, place, kept)
        _sync(place.parent)


@contextlib.contextmanager
def _hidden_name(place: Path, path: str | os.PathLike) -> Iterator[Path]:
    """A name for what will be moved to `place`; what is still there at the end is removed."""
    hidden = place.parent / f".{place.name}.saving-{secrets.token_hex(4)}"
    try:
        _check_writable(hidden, path)
        yield hidden
    except OSError as error:
        if error.errno not in _FULL or error.strerror is None:
            raise
        clear = OSError(
            f"The disk that holds {Path(path).parent} is full: {path} was not saved. Free some "
            "space or save elsewhere."
        )
        clear.errno = error.errno
        raise clear from None
    finally:
        shutil.rmtree(hidden, ignore_errors=True)  # a folder, or else a file
        with contextlib.suppress(OSError):
            hidden.unlink()


def _check_writable(hidden: Path, path: str | os.PathLike) -> None:
    """Raise unless a file can be made in the folder of the output, which is made if needed."""
    try:
        hidden.parent.mkdir(parents=True, exist_ok=True)
        hidden.touch()
        hidden.unlink()
    except OSError as error:
        if error.errno in _FULL:
            raise
        raise type(error)(
            f"The output must be a place that can be written to. Got {path} instead "
            f"({error.strerror}). Choose another place."
        ) from None


def _foreign_files(
    old: Path, new: Path, ours: Collection[str] | None, inside: str = ""
) -> list[str]:
    """Files and folders in `old` that are not ours, by their paths below the outermost folder."""
    own_paths = ours or ()
    foreign = []
    for name in sorted(os.listdir(old)):
        old_path = old / name
        new_path = new / name
        path = f"{inside}{name}"
        is_folder = old_path.is_dir() and not old_path.is_symlink()
        has_ours = any(own.startswith(f"{path}/") for own in own_paths)
        if is_folder and (has_ours or new_path.is_dir()):
            foreign += _foreign_files(old_path, new_path, ours, f"{path}/")
        elif not os.path.lexists(new_path):
            if path not in own_paths:
                foreign.append(path)
        elif ours is not None and path not in ours:
            raise ValueError(
                f"{old_path} must be a file that pacsent wrote, to be replaced. It is another. "
                "Move it away, or choose another name for the output."
            )
    return foreign


def _move_folder(hidden: Path, place: Path, kept: Iterable[str] = ()) -> None:
    old = place.parent / f".{place.name}.old-{secrets.token_hex(4)}"
    if place.exists():
        os.rename(place, old)
    try:
        os.rename(hidden, place)
    except BaseException:
        if old.exists():
            os.rename(old, place)
        raise

    for path in kept:
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        os.rename(old / path, place / path)
    shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    """Wait until a file or folder is on the disk, where the system can say so of its kind."""
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


def open_closed_streams() -> None:
    """Streams that the shell closed (<&-, >&-) lead nowhere, so that no file takes their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            mode = "r" if name == "stdin" else "w"
            stream = open(number, mode, closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
