"""Memory that was freed, back to the system."""

import ctypes
from functools import cache
from typing import Any


@cache
def _malloc_trim() -> Any:
    """The function of glibc; None with another library."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


def return_freed_memory() -> None:
    """Give the system what was freed and is kept for later: of many batches, gigabytes.

    glibc keeps freed arrays of up to 32 MB, and each thread its own. Call it where a stage with
    many such arrays has ended; it takes milliseconds.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)
