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

    n_gpus = _count_gpus()
    if n_gpus == 0:
        raise ValueError(f"device='cuda' needs an NVIDIA GPU. Got none instead. {ON_CPU}")
    if number and int(number) >= n_gpus:
        raise ValueError(
            f"device must name one of the {n_gpus} GPUs here, 'cuda:0' to 'cuda:{n_gpus - 1}'. "
            f"Got {name!r} instead."
        )

    index = int(number) if number else torch.cuda.current_device()
    return torch.device("cuda", index)


def _count_gpus() -> int:
    """The number of GPUs that PyTorch sees; ValueError if it cannot use any."""
    try:
        torch.cuda.init()
        return torch.cuda.device_count()
    except (RuntimeError, AssertionError) as error:
        message = str(error).split("\n")[0]
        lowered = message.lower()
        is_old = "old" in lowered or "insufficient" in lowered
        if "driver" in lowered and is_old:
            raise ValueError(
                f"device='cuda' needs an NVIDIA driver made for CUDA {torch.version.cuda} or "
                f"newer. Got an older driver instead ({message}). Update the driver, or install a "
                "torch built for an older CUDA."
            ) from error
        raise ValueError(
            f"device='cuda' needs an NVIDIA GPU. Got none instead ({message}). {ON_CPU}"
        ) from error


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
            self._module = ctypes.c_void_p()
            self._function = ctypes.c_void_p()
            _call("cuModuleLoadData", ctypes.byref(self._module), image)
            function = ctypes.byref(self._function)
            _call("cuModuleGetFunction", function, self._module, name.encode())

    def allow_shared_memory(self, n_bytes: int) -> None:
        """Ask for more dynamic shared memory than a block gets by default."""
        _call("cuFuncSetAttribute", self._function, 8, n_bytes)

    def blocks_per_processor(self, n_threads: int, shared_bytes: int) -> int:
        """The number of blocks of this function that fit on one multiprocessor."""
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
        # The driver takes an array of pointers to the values, which must stay alive until then.
        values = [_as_c_value(argument) for argument in arguments]
        addresses = [ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values]
        pointers = (ctypes.c_void_p * len(values))(*addresses)

        grid_x, grid_y = grid if isinstance(grid, tuple) else (grid, 1)
        with torch.cuda.device(self.device):
            stream = torch.cuda.current_stream(self.device).cuda_stream
            _call(
                "cuLaunchKernel",
                self._function,
                grid_x,
                grid_y,
                1,
                n_threads,
                1,
                1,
                shared_bytes,
                ctypes.c_void_p(stream),
                pointers,
                None,
            )


def _as_c_value(argument: Any) -> Any:
    """A tensor as the pointer to its data; anything else as it is."""
    if isinstance(argument, torch.Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    return argument


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
    file_name = f"{name}.cu".encode()
    status = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), file_name, 0, None, None
    )
    _check_nvrtc(status)

    size = ctypes.c_size_t()
    flags = (ctypes.c_char_p * len(options))(*options)
    try:
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
def _driver() -> ctypes.CDLL:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    return ctypes.CDLL(name)


@functools.cache
def _nvrtc() -> ctypes.CDLL:
    """NVRTC as torch brings it: already loaded, on the library path, or among its packages."""
    major = (torch.version.cuda or "13").split(".")[0]
    if sys.platform == "win32":
        names = [f"nvrtc64_{major}0_0.dll"]
        pattern = "nvrtc64_*.dll"
    else:
        names = [f"libnvrtc.so.{major}", "libnvrtc.so"]
        pattern = "libnvrtc.so*"

    for folder in _nvrtc_folders():
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


def _nvrtc_folders() -> list[Path]:
    """Folders of libraries: torch's own, those of NVIDIA's packages, those that the user names."""
    package = Path(torch.__file__).parent
    nvidia_packages = package.parent / "nvidia"
    named_folders = os.environ.get("PACSENT_NVRTC", "").split(os.pathsep)

    folders = [package / "lib"]
    folders += sorted(nvidia_packages.glob("*/lib"))
    folders += [Path(folder) for folder in named_folders if folder]
    return folders


def _call(name: str, *arguments: Any) -> None:
    """Call a function of the driver; RuntimeError if it fails."""
    function = getattr(_driver(), name)
    status = function(*arguments)
    if status:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(status, ctypes.byref(text))
        description = (text.value or b"unknown").decode()
        raise RuntimeError(f"CUDA error {status}: {description}")


def _check_nvrtc(status: int) -> None:
    if status:
        raise RuntimeError(f"NVRTC error {status}")


def mix(z: Any) -> Any:
    """The hash behind every draw, on uint64 numbers or arrays."""
    numbers = np.asarray(z, dtype=np.uint64)
    with np.errstate(over="ignore"):
        return splitmix64(numbers + GOLDEN)
