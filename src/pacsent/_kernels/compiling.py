"""`njit`, with a cache of compiled code that never stands in the way.

numba keeps what it compiled next to the package or in the home folder, raises where it can write to
neither (a container with a read-only system and no home), and fails at every start where a file of
its cache is damaged. Here the cache goes to a private temporary folder then, or there is none, and
damaged files are made again, with one warning each. An edit of any kernel file compiles all again.
"""

import atexit
import hashlib
import os
import shutil
import stat
import tempfile
import time
import warnings
from functools import cache, wraps
from pathlib import Path
from types import FunctionType

import numba
import numpy as np

from pacsent._kernels.patience import Patience

_STEPS = 300_000  # of plain Python, about half a second
_AHEAD = 0.5  # seconds after which a process compiles no further kernel before it has to
_TWINS: dict = {}  # kernel -> its twin
_compiled_ahead = 0.0  # seconds so far


def njit(function=None, *, work=None, twin=None, **options):
    """As `numba.njit`; with `cache=True` the code is kept where it can be.

    work(*arguments) is about how many steps a call takes: the first ones run as plain Python
    (`patience`). The first process on a machine that needs a kernel compiles none for so little
    work; later ones compile one each, so that none takes longer than the first, until all are kept.
    Only for kernels that no other kernel calls, and whose results are the same to the last bit. A
    kernel that those call may have a `twin`, a function in Python that does the same faster than
    the kernel's own source would.
    """
    if function is None:
        return lambda function: njit(function, work=work, twin=twin, **options)
    if twin is not None:
        _TWINS[function] = twin
    kept = options.pop("cache", False)
    compiled = numba.njit(no_cfunc_wrapper=True, **options)(function)  # not called from C
    if not hasattr(compiled, "enable_caching"):  # NUMBA_DISABLE_JIT: a plain function
        return compiled
    if kept:
        _keep(compiled)
    return compiled if work is None else _plain_at_first(compiled, work)


def _plain_at_first(compiled, work):
    patience = Patience(_STEPS)

    @wraps(compiled.py_func)
    def run(*arguments):
        global _compiled_ahead
        if not patience.has(work(*arguments)) or _is_kept(compiled):
            return compiled(*arguments)
        if _is_first(compiled) or (_compiled_ahead >= _AHEAD and not compiled.signatures):
            with np.errstate(over="ignore"):  # hashes wrap around on purpose
                return _plain(compiled)(*arguments)
        started = time.perf_counter()
        found = compiled(*arguments)
        _compiled_ahead += time.perf_counter() - started
        return found

    run.py_func, run.compiled = compiled.py_func, compiled
    return run


@cache
def _is_kept(compiled) -> bool:
    """Whether an earlier run has compiled this kernel: to load it takes a tenth of a second."""
    try:
        return bool(compiled._cache._cache_file._load_index())
    except Exception:  # no cache, or a damaged one, which the compiler will say
        return False


@cache
def _is_first(compiled) -> bool:
    """Whether no earlier process has run this kernel as plain Python; this one leaves a mark."""
    try:
        folder = Path(compiled._cache.cache_path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{compiled.py_func.__name__}.plain").touch(exist_ok=False)
    except FileExistsError:
        return False
    except (AttributeError, OSError):  # nothing can be kept, so there is nothing to gain
        return True
    return True


@cache
def _plain(compiled):
    """A kernel as a plain function that calls the plain functions of other kernels."""
    function = compiled.py_func
    if function in _TWINS:
        return _TWINS[function]
    called = {name: function.__globals__.get(name) for name in function.__code__.co_names}
    kernels = {name: _plain(other) for name, other in called.items() if hasattr(other, "py_func")}
    return FunctionType(function.__code__, function.__globals__ | kernels, function.__name__)


def _keep(compiled) -> None:
    try:
        compiled.enable_caching()
    except RuntimeError:  # numba's "no locator available": no folder that can be written to
        folder = _private_folder()
        if folder is None:
            return
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
        try:
            compiled.enable_caching()
        except RuntimeError:
            return
        finally:
            numba.config.CACHE_DIR = before
    compiled._cache._cache_file._source_stamp = _sources_digest()
    compiled._cache = _Cache(compiled._cache)


@cache
def _sources_digest() -> str:
    """The digest of all kernel files, the key of what is kept.

    numba's own key is the time and size of the file that a function is in, which misses edits of
    the functions that it calls elsewhere.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@cache
def _private_folder() -> Path | None:
    """A folder of this user alone under the temporary one; None where there is none either."""
    why = "numba can keep compiled code neither next to the package nor in the home folder"
    advice = "Set NUMBA_CACHE_DIR to a folder that can be written to"
    try:
        folder = _lasting_folder() or _passing_folder()
    except OSError:
        warnings.warn(
            f"{why}, nor in a temporary one: it is compiled again at every start. {advice}.",
            stacklevel=2,
        )
        return None
    warnings.warn(f"{why}: it goes to {folder}. {advice} that lasts.", stacklevel=2)
    return folder


def _lasting_folder() -> Path | None:
    """The same for every start; None where another user was there first, whose code is not run."""
    if not hasattr(os, "getuid"):
        return None
    folder = Path(tempfile.gettempdir()) / f"pacsent-numba-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
    return folder if private and found.st_uid == os.getuid() else None


def _passing_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="pacsent-numba-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


class _Cache:
    """numba's cache of one function; what cannot be read is compiled again, and said once."""

    def __init__(self, theirs):
        self._theirs = theirs

    def __getattr__(self, name):
        return getattr(self._theirs, name)

    def load_overload(self, signature, target_context):
        try:
            found = self._theirs.load_overload(signature, target_context)
        except Exception:  # an unpickler that meets damaged bytes may raise anything
            _say_damaged(self._theirs.cache_path)
            self._flush()
            found = None
        return found

    def save_overload(self, signature, data):
        try:
            self._theirs.save_overload(signature, data)
        except Exception:  # a full disk, a folder that went away: the code runs all the same
            self._flush()

    def _flush(self):
        try:
            self._theirs.flush()
        except OSError:
            self._theirs.disable()


@cache
def _say_damaged(path) -> None:
    warnings.warn(
        f"A file of compiled code in {path} is damaged; it is compiled again.", stacklevel=2
    )
