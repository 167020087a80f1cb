"""Workers that add up arrays together: alone, as threads of one process, or by torch.distributed.

A group has `rank`, `size` and `total(array)`, which replaces the array in every worker by the sum
over all workers. All workers must call it the same number of times.
"""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

import numpy as np

from pacsent.lazy import needed


class Group(Protocol):
    """What training asks of a transport."""

    rank: int
    size: int

    def total(self, array: np.ndarray) -> None:
        """Replace the array by the sum over all workers, the same in each."""


class Alone:
    """A group of one.

    >>> Alone().rank, Alone().size
    (0, 1)
    """

    rank, size = 0, 1

    def total(self, array: np.ndarray) -> None:
        """Nothing to add."""


class Threads:
    """Workers that are threads of this process: the same updates as on many machines.

    >>> Threads.run(2, lambda group: group.rank)
    [0, 1]
    """

    def __init__(self, rank: int, size: int, shared: dict):
        self.rank, self.size, self._shared = rank, size, shared

    def total(self, array: np.ndarray) -> None:
        """Sums in the order of the ranks, so that there is one possible result."""
        barrier, slots, parts = (self._shared[name] for name in ("barrier", "slots", "parts"))
        slots[self.rank] = array.reshape(-1)
        barrier.wait()
        n = -(-array.size // self.size)
        mine = slice(self.rank * n, (self.rank + 1) * n)  # every worker adds up a part
        parts[self.rank] = slots[0][mine].copy()
        for other in slots[1:]:
            parts[self.rank] += other[mine]
        barrier.wait()
        array.reshape(-1)[...] = np.concatenate(parts)

    @classmethod
    def run(cls, size: int, work: Callable) -> list:
        """Call work(group) on `size` threads; return the results."""
        shared = {"barrier": threading.Barrier(size), "slots": [None] * size,
                  "parts": [None] * size}  # fmt: skip
        results: list = [None] * size
        errors: list[BaseException] = []

        def one(rank):
            try:
                results[rank] = work(cls(rank, size, shared))
            except threading.BrokenBarrierError:
                pass
            except BaseException as error:
                errors.append(error)
                shared["barrier"].abort()

        others = [threading.Thread(target=one, args=(rank,)) for rank in range(1, size)]
        for thread in others:
            thread.start()
        one(0)
        for thread in others:
            thread.join()
        if errors:
            raise errors[0]
        return results


class Distributed:
    """Workers that are processes, on one machine or many, joined by torch.distributed.

    `rank` and `size` None takes them, and where to meet, from the environment that torchrun sets;
    `meet` is "env://", "tcp://host:port" or "file:///path". A worker that does not answer for
    `timeout` seconds is taken for lost.

    Examples
    --------
    A script that torchrun starts, and that is run alone as well:

    >>> import os
    >>> group = Distributed() if "WORLD_SIZE" in os.environ else Alone()
    >>> group.size
    1
    """

    def __init__(
        self,
        rank: int | None = None,
        size: int | None = None,
        meet: str = "env://",
        timeout: float = 300.0,
    ):
        why = "Training on several processes needs PyTorch"
        self._distributed = distributed = needed("torch.distributed", why, "gpu")
        distributed.init_process_group(
            "gloo",
            init_method=meet,
            rank=-1 if rank is None else rank,
            world_size=-1 if size is None else size,
            timeout=timedelta(seconds=timeout),
        )
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def total(self, array: np.ndarray) -> None:
        """All-reduce, in place."""
        import torch

        self._distributed.all_reduce(torch.from_numpy(array))

    def close(self) -> None:
        """Leave the group."""
        self._distributed.destroy_process_group()
