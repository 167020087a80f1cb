"""Token ids of a corpus, a piece at a time."""

import os
import weakref
from collections.abc import Callable

import numpy as np


def reader(ids: np.ndarray) -> Callable[[int, int], np.ndarray]:
    """read(start, stop): a piece of the token ids.

    By plain reads, not through the memory map: pages of a map that were once touched count as
    memory of this process until the system wants them back.
    """
    name, origin = getattr(ids, "filename", None), getattr(ids, "offset", 0)  # of a memory map
    if name is None or ids.dtype != np.dtype("<i4") or not hasattr(os, "pread"):
        return lambda start, stop: np.ascontiguousarray(ids[start:stop], dtype=np.int32)
    descriptor = os.open(name, os.O_RDONLY)

    def read(start, stop):
        piece = os.pread(descriptor, 4 * (stop - start), origin + 4 * start)
        if len(piece) != 4 * (stop - start):
            raise OSError(f"{name} ended before token {stop:,}: the corpus was changed or cut.")
        return np.frombuffer(piece, dtype="<i4")

    weakref.finalize(read, os.close, descriptor)
    return read
