"""Work on threads: how many, and a map that keeps the order and holds little at a time."""

import itertools
import numbers
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any


def n_cores(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Cores this process may use: what its affinity and its container leave of the machine's."""
    if hasattr(os, "sched_getaffinity"):
        usable = len(os.sched_getaffinity(0))
    else:
        usable = os.cpu_count() or 1
    # Every batch of texts asks, and the file takes longer to read than a text to classify.
    quota = _quota_of_container(root, int(time.monotonic()))
    return max(1, usable if quota is None else min(usable, quota))


@lru_cache(maxsize=1)
def _quota_of_container(root: Path, second: int) -> int | None:
    """The CPU quota of a Linux container, rounded up, as it is in this second; None without one."""
    with suppress(OSError, ValueError):
        quota, period = (root / "cpu.max").read_text().split()
        return -(-int(quota) // int(period))
    return None


def n_threads(n_jobs: int | None) -> int:
    """Threads for `n_jobs`: all cores for None and -1, all but one for -2, and so on."""
    if n_jobs is None:
        return n_cores()
    if not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(
            "n_jobs must be a number of threads, -1 or None for all cores, -2 for all but one. "
            f"Got {n_jobs!r} instead."
        )
    if n_jobs > 0:
        return int(n_jobs)
    return max(1, n_cores() + 1 + int(n_jobs))


_BLAS_LOCK = Lock()
_BLAS_USERS = 0  # threads inside of `one_blas_thread`
_BLAS_LIMIT: Any = None  # of threadpoolctl, while there is such a thread


@lru_cache(maxsize=1)
def _thread_pools(n_modules: int) -> Any:
    """The BLAS libraries of this process: looked for again after an import, which may load one.

    Looking takes ten milliseconds, and a fit comes here seven times.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """While any thread is inside, BLAS uses one thread; what it had before comes back afterwards.

    The setting belongs to the whole process. So calls that overlap share one limit, taken by the
    first and lifted by the last, in whatever order they end; and nothing may `yield` inside.
    """
    global _BLAS_USERS, _BLAS_LIMIT
    with _BLAS_LOCK:
        if _BLAS_USERS == 0:
            _any_thread_may_limit()
            pools = _thread_pools(len(sys.modules))
            _BLAS_LIMIT = pools.limit(limits=1, user_api="blas")
        _BLAS_USERS += 1

    try:
        yield
    finally:
        with _BLAS_LOCK:
            _BLAS_USERS -= 1
            if _BLAS_USERS == 0 and _BLAS_LIMIT is not None:
                _any_thread_may_limit()
                _BLAS_LIMIT.restore_original_limits()
                _any_thread_may_limit()
                _BLAS_LIMIT = None


def _any_thread_may_limit() -> None:
    """From 3.8 on, threadpoolctl lets one thread set OpenBLAS's limit, and ignores the others.

    Here whoever comes first sets it and whoever is last lifts it, one at a time under our lock.
    """
    import threadpoolctl

    controller: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(controller, "clear_controlling_thread"):
        controller.clear_controlling_thread(force=True)


def in_order(
    function: Callable, items: Iterable, n_jobs: int | None, *, ahead: int | None = None
) -> Iterator:
    """function(item) for each item, in order, on threads; few items are held at a time.

    `ahead` items are worked on while one is waited for; by default twice the number of threads.

    >>> list(in_order(abs, [-2, 1, -3], 2))
    [2, 1, 3]
    """
    n_workers = n_threads(n_jobs)
    max_waiting = 2 * n_workers if ahead is None else ahead
    iterator = iter(items)
    first_items = list(itertools.islice(iterator, 2))
    all_items = itertools.chain(first_items, iterator)
    if n_workers == 1 or len(first_items) < 2:  # one piece of work: no thread to start
        yield from map(function, all_items)
        return

    waiting: deque = deque()
    with ThreadPoolExecutor(n_workers) as pool:
        try:
            for item in all_items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > max_waiting:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
