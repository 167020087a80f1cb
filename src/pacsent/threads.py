"""Work on threads: how many, and a map that keeps the order and holds little at a time."""

import itertools
import numbers
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor


def n_cores() -> int:
    """Cores this process may use: what its affinity leaves, not what the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def n_threads(n_jobs: int | None) -> int:
    """Threads for `n_jobs`: all cores for None and -1, all but one for -2, and so on."""
    if n_jobs is None:
        return n_cores()
    if not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(
            "n_jobs must be a number of threads, -1 or None for all cores, -2 for all but one. "
            f"Got {n_jobs!r} instead."
        )
    return int(n_jobs) if n_jobs > 0 else max(1, n_cores() + 1 + int(n_jobs))


def in_order(
    function: Callable, items: Iterable, n_jobs: int | None, *, ahead: int | None = None
) -> Iterator:
    """function(item) for each item, in order, on threads; few items are held at a time.

    `ahead` items are worked on beside the one that is waited for; by default twice the threads.
    """
    n = n_threads(n_jobs)
    items = iter(items)
    first = list(itertools.islice(items, 2))
    if n == 1 or len(first) < 2:  # one piece of work: no thread to start
        yield from map(function, itertools.chain(first, items))
        return
    most = 2 * n if ahead is None else ahead
    with ThreadPoolExecutor(n) as pool:
        waiting: deque = deque()
        try:
            for item in itertools.chain(first, items):
                waiting.append(pool.submit(function, item))
                if len(waiting) > most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
