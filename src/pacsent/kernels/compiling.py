"""`njit`, with the compiled code kept on disk where numba can write.

A kernel is compiled when it is first called, and loaded from numba's cache by later processes: next
to the package, in the home folder, or in NUMBA_CACHE_DIR. numba compiles a cached kernel again when
its own file changes, but not when a kernel that it calls from another file does: after such an
edit, delete the cache.
"""

import warnings
from functools import cache

import numba


def njit(function=None, **options):
    """As `numba.njit`; with `cache=True` but no folder to write to, nothing is cached."""
    if function is None:
        return lambda function: njit(function, **options)
    try:
        return numba.njit(no_cfunc_wrapper=True, **options)(function)  # not called from C
    except RuntimeError:  # "no locator available": no folder that can be written to
        _warn_not_cached()
        return numba.njit(no_cfunc_wrapper=True, **{**options, "cache": False})(function)


@cache
def _warn_not_cached() -> None:
    warnings.warn(
        "numba can keep compiled code neither next to the package nor in the home folder: it is "
        "compiled again at every start. Set NUMBA_CACHE_DIR to a folder that can be written to.",
        stacklevel=2,
    )
