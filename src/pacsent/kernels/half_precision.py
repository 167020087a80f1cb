"""Whether compiled code widens float16 by an instruction; known without importing numba."""

import os
import platform


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
