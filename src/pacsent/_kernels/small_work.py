"""Small work in NumPy, to the last bit as the compiled kernels do it."""

import os
import platform

import numpy as np

from pacsent._kernels.patience import Patience

_POOLING = Patience(1 << 15)  # words


def _has_half_precision() -> bool:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return False
    if os.environ.get("NUMBA_CPU_NAME"):  # it may lack what this processor has
        return "+f16c" in os.environ.get("NUMBA_CPU_FEATURES", "")
    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    import llvmlite.binding as llvm

    return bool(llvm.get_host_cpu_features().get("f16c", False))


HALF_PRECISION = _has_half_precision()


def sum_up(ids, offsets, weights, out):
    """`pooling_kernels.sum_weights`."""
    if _POOLING.has(ids.size):
        for s in range(offsets.size - 1):
            sums = np.cumsum(weights[ids[offsets[s] : offsets[s + 1]]])  # one after the other
            out[s] = sums[-1] if sums.size else 0.0
        return
    from pacsent._kernels.pooling_kernels import sum_weights

    sum_weights(ids, offsets, weights, out)


def pool(ids, offsets, table, weights, scale, out, add):
    """`pooling_kernels.pool_rows`."""
    if not _POOLING.has(ids.size):
        from pacsent._kernels.pooling_kernels import pool_rows

        return pool_rows(ids, offsets, table, weights, scale, out, add)
    for s in range(offsets.size - 1):
        mine = ids[offsets[s] : offsets[s + 1]]
        rows = table[mine]
        if table.dtype == np.uint16:
            rows = rows.view(np.float16).astype(np.float32)
        rows = (weights[mine] if weights.size else np.ones(1, scale.dtype))[:, None] * rows
        if not add:
            out[s] = 0
        for start in range(0, mine.size, 64):  # in the order of the kernel, to the last bit
            block = rows[start : start + 64]
            fours = block[: len(block) // 4 * 4].reshape(-1, 4, rows.shape[1])
            total = np.zeros(rows.shape[1], out.dtype)
            for a, b, c, d in fours:
                total += (a + b) + (c + d)
            for row in block[4 * len(fours) :]:
                total += row
            out[s] += scale[s] * total
    return None
