"""Writing so that nothing is lost: beside its place, onto the disk, then moved in one step."""

import contextlib
import ctypes
import errno
import glob
import os
import secrets
import shutil
import time
from pathlib import Path


def full_disk(error: OSError, path, needed: int | None = None) -> OSError:
    """The error itself, or one clear line where the disk is full."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return error
    much = f" needs about {needed / 1e6:,.0f} MB and" if needed else ""
    return OSError(
        f"The disk that holds {Path(path).parent} is full: {path}{much} was not saved. Free some "
        "space or save elsewhere."
    )


def sweep(folder, prefix):
    """Remove what killed saves left: of this machine, an hour old, the process gone."""
    for left in folder.glob(f"{glob.escape(prefix)}*"):
        process = left.name.removeprefix(prefix).partition("-")[0]
        with contextlib.suppress(OSError):
            if process.isdigit() and time.time() - left.stat().st_mtime > 3600:
                try:
                    os.kill(int(process), 0)
                except ProcessLookupError:
                    shutil.rmtree(left, ignore_errors=True)


def move(beside, place):
    """Put the finished folder in its place; the old one goes in the same step."""
    if not place.exists():
        os.rename(beside, place)
        return
    if exchange(beside, place):
        return  # `beside` is now the old folder; save() removes it
    old = place.parent / f".{place.name}.old-{secrets.token_hex(4)}"
    os.rename(place, old)
    try:
        os.rename(beside, place)
    except BaseException:
        os.rename(old, place)
        raise
    shutil.rmtree(old, ignore_errors=True)


def exchange(a, b) -> bool:
    """Swap two folders in one step where the system can (Linux); False where it cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return renameat2(here, os.fsencode(a), here, os.fsencode(b), exchange) == 0


@contextlib.contextmanager
def whole_file(path):
    """A new file, on the disk when the block ends."""
    with open(path, "xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
