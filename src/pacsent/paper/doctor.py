"""What this machine has, and what of pacsent is slow on it and why."""

import importlib.metadata
import importlib.util
import os
import platform
import time
from pathlib import Path
from typing import Any

import pacsent
from pacsent.lazy import install_hint
from pacsent.threads import n_processors, n_threads

# extra -> what is missing without it
EXTRAS = {
    "report": ("altair", "figures of reports"),
    "parquet": ("pyarrow", "reading and writing Parquet"),
    "serve": ("fastapi", "pacsent serve"),
    "gpu": ("torch", "--device cuda"),
    "faiss": ("faiss", "lists for search above a million texts"),
}
_WIDTHS = (
    ("avx512f", 512),
    ("sve2", 128),
    ("avx2", 256),
    ("avx", 256),
    ("neon", 128),
    ("sse2", 128),
)
_TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom."


def examine(*, measure: bool = True) -> dict[str, Any]:
    """Processor, threads, GPU, caches, versions, and advice; one object, ready for JSON.

    With `measure` some text is read with the English model and timed, which compiles what is not in
    the cache.

    >>> found = examine(measure=False)
    >>> found["versions"]["pacsent"] == pacsent.__version__
    True
    """
    found: dict[str, Any] = {
        "processor": _processor(),
        "threads": _threads(),
        "memory_gb": _memory(),
        "gpu": _gpu(),
        "cache": _cache(),
        "versions": _versions(),
        "extras": {
            name: importlib.util.find_spec(module) is not None
            for name, (module, _) in EXTRAS.items()
        },
    }
    if measure:
        found["measured"] = _measured()
    found["advice"] = _advice(found)
    return found


def _processor() -> dict[str, Any]:
    from llvmlite import binding

    features = {name for name, there in binding.get_host_cpu_features().items() if there}
    width = next((bits for name, bits in _WIDTHS if name in features), 128)
    name = ""
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return {
        "name": name or platform.processor() or platform.machine(),
        "code": binding.get_host_cpu_name(),
        "machine": platform.machine(),
        "cores": n_processors(),
        "vector_bits": width,
        "half_precision": bool({"f16c", "fullfp16", "neon"} & features),
    }


def _threads() -> dict[str, Any]:
    import numpy  # noqa: F401  (loads its BLAS, which is then counted)
    from threadpoolctl import threadpool_info

    set_by = {name: os.environ[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
              "MKL_NUM_THREADS", "NUMBA_NUM_THREADS") if name in os.environ}  # fmt: skip
    blas = [{"library": info.get("internal_api"), "threads": info.get("num_threads")}
            for info in threadpool_info() if info.get("user_api") == "blas"]  # fmt: skip
    return {"used": n_threads(None), "blas": blas, "environment": set_by}


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def _gpu() -> dict[str, Any]:
    if importlib.util.find_spec("torch") is None:
        return {"found": None, "why": "not checked: torch is not installed"}
    import torch

    if not torch.cuda.is_available():
        return {"found": False, "why": f"torch {torch.__version__} sees none"}
    return {"found": True, "names": [torch.cuda.get_device_name(i)
                                     for i in range(torch.cuda.device_count())]}  # fmt: skip


def _cache() -> dict[str, Any]:
    package = Path(pacsent.__file__).parent
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    folder = Path(chosen) if chosen else package / "_kernels" / "__pycache__"
    try:
        files = list(folder.rglob("*.nbc")) if folder.is_dir() else []
        size = sum(path.stat().st_size for path in files)
    except OSError:
        files, size = [], 0
    nearest = folder
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    return {"folder": str(folder), "writable": os.access(nearest, os.W_OK),
            "kernels": len(files), "megabytes": round(size / 2**20, 1)}  # fmt: skip


def _versions() -> dict[str, str]:
    names = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "click", "rich")
    found = {"pacsent": pacsent.__version__, "python": platform.python_version()}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def _measured() -> dict[str, float]:
    start = time.perf_counter()
    model = pacsent.load("english")
    model.encode([_TEXT])
    first = time.perf_counter() - start
    texts = [_TEXT] * 5000
    start = time.perf_counter()
    model.encode(texts)
    return {"first_answer_seconds": round(first, 2),
            "texts_per_second": round(len(texts) / (time.perf_counter() - start))}  # fmt: skip


def _advice(found) -> list[str]:
    """What is slow or missing here, why, and what to do; empty where all is well."""
    cores, used = found["processor"]["cores"], found["threads"]["used"]
    bits, cache, gpu = found["processor"]["vector_bits"], found["cache"], found["gpu"]
    said = []
    if cores and used < cores:
        why = "affinity, or the limit of a container"
        said.append(f"{used} of {cores} cores may be used ({why}): work on threads takes longer.")
    for name, value in found["threads"]["environment"].items():
        if value == "1" and used > 1:
            said.append(f"{name}=1 keeps matrix products on one thread. Unset it when alone.")
    if bits <= 128:
        said.append(f"Vectors are {bits} bits wide: kernels do half the work a step of AVX2.")
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        said.append(
            "NUMBA_DISABLE_JIT=1 runs kernels as plain Python, many times slower: unset it."
        )
    if not cache["writable"]:
        said.append(
            f"Compiled code cannot be kept in {cache['folder']}: it is compiled again, or kept in "
            "a temporary folder. Set NUMBA_CACHE_DIR to a folder that lasts."
        )
    elif not cache["kernels"]:
        said.append("Nothing was compiled yet: the first use of a command takes seconds longer.")
    if not gpu["found"]:
        said.append(f"No GPU ({gpu['why']}): no --device cuda; large training runs take longer.")
    for name, there in found["extras"].items():
        if not there and name != "gpu":
            what = EXTRAS[name][1]
            said.append(f"Not possible: {what}. {install_hint(name)}")
    return said
