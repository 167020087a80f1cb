"""The GPU itself: is it there, how much memory is free, and kernels compiled where they run.

PyTorch brings everything used here: the tensors, and NVRTC, NVIDIA's run-time compiler. No
compiler has to be installed. An error is one line with the next step.
"""

import ctypes
import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pacsent.arrays import GOLDEN, splitmix64
from pacsent.optional import install_hint

ON_CPU = "Use device='cpu' to run without one."


def require_torch() -> Any:
    """The torch module, or one line that says how to get it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"device='cuda' needs PyTorch, which is not installed. {install_hint('gpu')}"
        ) from error
    return torch


class _Torch:
    """PyTorch, imported when something of it is first used."""

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":  # asked by tools that look at modules, not by users
            raise AttributeError(name)
        return getattr(require_torch(), name)


if TYPE_CHECKING:
    import torch
else:
    torch = _Torch()


def require(device: str = "cuda") -> "torch.device":
    """A usable `torch.device`, or one line that says why there is none.

    >>> require("tpu")
    Traceback (most recent call last):
    ...
    ValueError: device must be 'cpu', 'cuda' or 'cuda:<number>'. Got 'tpu' instead.
    """
    name = str(device)
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdigit()):
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:<number>'. Got {name!r} instead.")
    if kind == "cpu":
        return torch.device(name)

    if getattr(torch.version, "hip", None):
        raise ValueError(
            "device='cuda' needs an NVIDIA GPU. Got PyTorch built for AMD GPUs instead. " + ON_CPU
        )
    if torch.version.cuda is None:
        raise ValueError(
            "device='cuda' needs PyTorch built with CUDA. Got version "
            f"{torch.__version__} without it instead. Install the CUDA build of torch, or "
            "use device='cpu'."
        )

    try:
        torch.cuda.init()
        count = torch.cuda.device_count()
    except (RuntimeError, AssertionError) as error:
        text = str(error).split("\n")[0]
        if "driver" in text.lower() and ("old" in text.lower() or "insufficient" in text.lower()):
            raise ValueError(
                f"device='cuda' needs an NVIDIA driver made for CUDA {torch.version.cuda} or "
                f"newer. Got an older driver instead ({text}). Update the driver, or install a "
                "torch built for an older CUDA."
            ) from error
        raise ValueError(
            f"device='cuda' needs an NVIDIA GPU. Got none instead ({text}). {ON_CPU}"
        ) from error

    if count == 0:
        raise ValueError(f"device='cuda' needs an NVIDIA GPU. Got none instead. {ON_CPU}")
    if number and int(number) >= count:
        raise ValueError(
            f"device must name one of the {count} GPUs here, 'cuda:0' to 'cuda:{count - 1}'. "
            f"Got {name!r} instead."
        )
    return torch.device("cuda", int(number) if number else torch.cuda.current_device())


def free_memory(device: "torch.device") -> int:
    """Bytes a new tensor could take: what the driver has free and what torch holds unused."""
    if device.type == "cpu":
        return 1 << 33
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def memory_error(what: str, needed: int, free: int, next_step: str) -> MemoryError:
    """The error for work that does not fit; the caller raises it."""
    return MemoryError(
        f"{what} need {needed / 1e9:.1f} GB of GPU memory. Got {free / 1e9:.1f} GB free "
        f"instead. {next_step}"
    )


# ---- kernels ------------------------------------------------------------------------------------


class Kernel:
    """A compiled CUDA function; call it with `launch`."""

    def __init__(self, source: str, name: str, constants: dict, device: "torch.device"):
        with torch.cuda.device(device):
            torch.zeros(1, device=device)  # makes the device's context current
            major, minor = torch.cuda.get_device_capability(device)
            image = compile_source(source, name, constants, f"sm_{major}{minor}")

            self.device = device
            self._module, self._function = ctypes.c_void_p(), ctypes.c_void_p()
            _call("cuModuleLoadData", ctypes.byref(self._module), image)
            function = ctypes.byref(self._function)
            _call("cuModuleGetFunction", function, self._module, name.encode())

    def allow_shared_memory(self, n_bytes: int) -> None:
        """Ask for more dynamic shared memory than a block gets by default."""
        _call("cuFuncSetAttribute", self._function, 8, n_bytes)

    def blocks_per_processor(self, n_threads: int, shared_bytes: int) -> int:
        """How many blocks of this function fit on one multiprocessor."""
        count = ctypes.c_int()
        _call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            ctypes.byref(count),
            self._function,
            n_threads,
            ctypes.c_size_t(shared_bytes),
        )
        return count.value

    def launch(
        self, grid: int | tuple[int, ...], n_threads: int, arguments: list, shared_bytes: int = 0
    ) -> None:
        """Start it on torch's current stream. Arguments are tensors or ctypes values."""
        values = [
            ctypes.c_void_p(argument.data_ptr()) if isinstance(argument, torch.Tensor) else argument
            for argument in arguments
        ]
        pointers = (ctypes.c_void_p * len(values))(
            *[ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values]
        )

        x, y = grid if isinstance(grid, tuple) else (grid, 1)
        with torch.cuda.device(self.device):
            stream = ctypes.c_void_p(torch.cuda.current_stream(self.device).cuda_stream)
            block = n_threads, 1, 1, shared_bytes
            _call("cuLaunchKernel", self._function, x, y, 1, *block, stream, pointers, None)


@functools.cache
def kernel(path: str, name: str, constants: tuple, device: "torch.device") -> Kernel:
    """The function `name` of a source file in this folder, compiled once per set of constants."""
    source = (Path(__file__).parent / path).read_text()
    return Kernel(source, name, dict(constants), device)


def compile_source(source: str, name: str, constants: dict, architecture: str) -> bytes:
    """Machine code of a CUDA C++ source, by NVRTC."""
    nvrtc = _nvrtc()
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17"]
    options += [f"-D{key}={value}".encode() for key, value in constants.items()]

    program = ctypes.c_void_p()
    names = source.encode(), f"{name}.cu".encode()
    _check_nvrtc(nvrtc.nvrtcCreateProgram(ctypes.byref(program), *names, 0, None, None))

    size = ctypes.c_size_t()
    try:
        flags = (ctypes.c_char_p * len(options))(*options)
        if nvrtc.nvrtcCompileProgram(program, len(options), flags):
            nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            nvrtc.nvrtcGetProgramLog(program, log)
            raise RuntimeError(
                f"The GPU kernel {name!r} could not be compiled for {architecture}:\n"
                f"{log.value.decode()}"
            )

        _check_nvrtc(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        image = ctypes.create_string_buffer(size.value)
        _check_nvrtc(nvrtc.nvrtcGetCUBIN(program, image))
        return image.raw
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


@functools.cache
def _driver():
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    return ctypes.CDLL(name)


@functools.cache
def _nvrtc():
    """NVRTC as torch brings it: already loaded, on the library path, or among its packages."""
    major = (torch.version.cuda or "13").split(".")[0]
    if sys.platform == "win32":
        names, pattern = [f"nvrtc64_{major}0_0.dll"], "nvrtc64_*.dll"
    else:
        names, pattern = [f"libnvrtc.so.{major}", "libnvrtc.so"], "libnvrtc.so*"

    site = Path(torch.__file__).parents[1]
    folders = [Path(torch.__file__).parent / "lib", *sorted((site / "nvidia").glob("*/lib"))]
    folders += [
        Path(part) for part in os.environ.get("PACSENT_NVRTC", "").split(os.pathsep) if part
    ]

    for folder in folders:
        names += [str(path) for path in sorted(folder.glob(pattern))]

    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue

    raise ImportError(
        "device='cuda' needs NVRTC, which comes with the CUDA build of torch and was not found "
        f"next to it. {install_hint('gpu')}. If it is elsewhere, name its folder in PACSENT_NVRTC."
    )


def _call(name: str, *arguments):
    """Call a function of the driver; RuntimeError where it fails."""
    status = getattr(_driver(), name)(*arguments)
    if status:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"CUDA error {status}: {(text.value or b'unknown').decode()}")


def _check_nvrtc(status: int):
    if status:
        raise RuntimeError(f"NVRTC error {status}")


def mix(z: Any) -> Any:
    """The hash behind every draw, on uint64 numbers or arrays."""
    with np.errstate(over="ignore"):
        return splitmix64(np.asarray(z, dtype=np.uint64) + GOLDEN)
