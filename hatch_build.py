"""Compiles the C sources of `pacsent.kernels` into one shared library, when the package is built.

    python hatch_build.py [FOLDER]      what `make` runs after an edited .c or .h

The compiler is $CC, or the system's; where there is none, or it lacks a flag, it is zig's, which
the package index has as `ziglang`: a build requirement only there. Environment variables:

    PACSENT_TARGET=aarch64-macos             build for another platform, with zig: see PLATFORMS
    PACSENT_SANITIZE=address,undefined       with sanitizers: their first report ends the program
    PACSENT_KERNELS=none                     build a package without the library
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # run as a script
    BuildHookInterface = object

KERNELS = Path(__file__).parent / "src" / "pacsent" / "kernels"
ZIG = "ziglang==0.17.0"

# No -ffast-math: NaN and infinity keep their meaning, no sum is reordered but those marked so, and
# loading the library does not change how the process rounds.
FLAGS = [
    *("-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden"),
    *("-fwrapv", "-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math"),
    "-fopenmp-simd",
    *("-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Wno-psabi"),
]

# Files in which a * b + c may be one instruction: their results differ in the last digit between
# processors that have it and others. Everywhere else every processor rounds alike.
CONTRACTED = frozenset(
    {
        "coordinate_descent.c",
        "ngrams.c",
        "pb_neg.c",
        "pv_dbow.c",
        "random.c",
        "risks.c",
        "skipgram.c",
        "word_posteriors.c",
    }
)

# Files that gain from vectors of 512 bits; short loops lose by them.
WIDE = frozenset({"skipgram.c", "word_posteriors.c"})

# The instruction sets that every file is compiled for; the best one is chosen at the first call.
LEVELS = {"x86_64": ("v2", "v3", "v4")}
BASELINE = ("base",)

PLATFORMS = {  # zig's name of the target, the platform of the wheel
    "x86_64-linux": ("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
    "aarch64-linux": ("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
    "x86_64-musl": ("x86_64-linux-musl", "musllinux_1_2_x86_64"),
    "aarch64-musl": ("aarch64-linux-musl", "musllinux_1_2_aarch64"),
    "x86_64-macos": ("x86_64-macos.10.13", "macosx_10_13_x86_64"),
    "aarch64-macos": ("aarch64-macos.11.0", "macosx_11_0_arm64"),
    "x86_64-windows": ("x86_64-windows-gnu", "win_amd64"),
    "aarch64-windows": ("aarch64-windows-gnu", "win_arm64"),
}


def sources() -> list[Path]:
    """The files that the library is made of, this one with its flags included."""
    return [*sorted(KERNELS.glob("*.[ch]")), Path(__file__)]


def digest() -> str:
    """Part of the library's name: another one after any edit."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    digest.update(os.environ.get("PACSENT_SANITIZE", "").encode())
    return digest.hexdigest()[:12]


def machine_of(name: str) -> str:
    """`x86_64`, `aarch64` or another architecture, from any of its names."""
    name = name.lower()
    if "x86_64" in name or "amd64" in name:
        return "x86_64"
    if "aarch64" in name or "arm64" in name:
        return "aarch64"
    return name


def native_target() -> str | None:
    """The entry of PLATFORMS that is this machine, if there is one."""
    systems = {"darwin": "macos", "win32": "windows"}
    system = systems.get(sys.platform, "linux")
    if system == "linux" and "musl" in (sysconfig.get_config_var("SOABI") or ""):
        system = "musl"
    target = f"{machine_of(platform.machine())}-{system}"
    return target if target in PLATFORMS else None


def level_flags(level: str, is_zig: bool) -> list[str]:
    if level == "base":
        return []
    return [f"-mcpu=x86_64_{level}"] if is_zig else [f"-march=x86-64-{level}"]


def system_compiler() -> list[str] | None:
    """The command of a compiler that takes all flags, or None; never one of Windows.

    GCC before 11 does not know `x86-64-v4`; that of Windows misaligns vectors on the stack.
    """
    if sys.platform == "win32":
        return None
    levels = LEVELS.get(machine_of(platform.machine()), BASELINE)
    for name in filter(None, (os.environ.get("CC"), "cc", "gcc", "clang")):
        found = shutil.which(name)
        if found and all(_takes_flags(found, level_flags(level, False)) for level in levels):
            return [found]
    return None


def _takes_flags(compiler: str, flags: list[str]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "probe.c"), Path(folder, "probe.so")
        source.write_text("#include <math.h>\nfloat root(float x) { return sqrtf(x); }\n")
        command = [compiler, *FLAGS, *flags, "-shared", str(source), "-o", str(library), "-lm"]
        return subprocess.run(command, capture_output=True).returncode == 0


def compile_library(folder: Path) -> tuple[Path, str]:
    """Build the library in a folder; its path, and the platform of a wheel that contains it."""
    target = os.environ.get("PACSENT_TARGET")
    if target and target not in PLATFORMS:
        raise SystemExit(f"PACSENT_TARGET={target}: must be one of {', '.join(PLATFORMS)}.")

    compiler = None if target else system_compiler()
    is_zig = compiler is None
    if compiler is None:
        target = target or native_target()
        if target is None or find_spec("ziglang") is None:
            raise SystemExit(
                "No C compiler was found that takes all flags. Install one, set CC to its name, "
                f"or run: {sys.executable} -m pip install {ZIG}"
            )
        compiler = [sys.executable, "-m", "ziglang", "cc", "-target", PLATFORMS[target][0]]

    wheel_platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if target:
        wheel_platform = PLATFORMS[target][1]
    system = target.partition("-")[2] if target else ""
    is_windows = system == "windows"
    is_macos = system == "macos" or (not target and sys.platform == "darwin")
    suffix = ".dll" if is_windows else ".dylib" if is_macos else ".so"
    machine = machine_of(target or platform.machine())

    flags = [*FLAGS]
    sanitize = os.environ.get("PACSENT_SANITIZE")
    if sanitize:
        flags += [f"-fsanitize={sanitize}", "-fno-sanitize-recover=all", "-g"]
        flags += ["-fno-omit-frame-pointer"]

    with tempfile.TemporaryDirectory() as objects:

        def compile_one(source: Path, level: str) -> str:
            made = Path(objects, f"{source.stem}_{level}.o")
            own = [f"-DLEVEL=_{level}", *level_flags(level, is_zig)]
            own.append(f"-ffp-contract={'fast' if source.name in CONTRACTED else 'off'}")
            if level == "v4" and source.name in WIDE:
                own.append("-mprefer-vector-width=512")
            _run([*compiler, *flags, *own, "-c", str(source), "-o", str(made)])
            return str(made)

        level_source = KERNELS / "level.c"
        jobs = [
            (source, level)
            for source in sorted(KERNELS.glob("*.c"))
            for level in LEVELS.get(machine, BASELINE)
            if source != level_source
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            made = list(pool.map(lambda job: compile_one(*job), jobs))
        made.append(compile_one(level_source, "base"))

        library = Path(objects, f"_kernels-{digest()}{suffix}")
        strip = [] if is_macos or sanitize else ["-s"]
        math = [] if is_windows else ["-lm"]
        linking = [f"-fsanitize={sanitize}"] if sanitize else []
        _run([*compiler, "-shared", *linking, *strip, *made, "-o", str(library), *math])

        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("_kernels-*"):
            if old.suffix in (".so", ".dylib", ".dll"):
                old.unlink()
        # moved into place whole: a process that loads it meanwhile never sees half of it
        path = folder / library.name
        partial = folder / f".{library.name}.partial"
        shutil.copyfile(library, partial)
        partial.replace(path)
    return path, wheel_platform


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"The kernels could not be compiled.\n{' '.join(command)}\n{done.stderr}")
    if done.stderr:
        print(done.stderr, file=sys.stderr)


class KernelsHook(BuildHookInterface):
    """hatchling calls this when it builds a wheel or an editable install."""

    PLUGIN_NAME = "custom"

    def compiles(self) -> bool:
        """The source archive contains no library: it is compiled where a wheel is built from it."""
        return self.target_name == "wheel" and os.environ.get("PACSENT_KERNELS") != "none"

    def dependencies(self) -> list[str]:
        if not self.compiles():
            return []
        needs_zig = bool(os.environ.get("PACSENT_TARGET")) or system_compiler() is None
        return [ZIG] if needs_zig else []

    def initialize(self, version: str, build_data: dict) -> None:
        if not self.compiles():
            return
        path, wheel_platform = compile_library(KERNELS)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{wheel_platform}"
        build_data["artifacts"].append(str(path.relative_to(self.root)))


if __name__ == "__main__":
    print(compile_library(Path(sys.argv[1]) if len(sys.argv) > 1 else KERNELS)[0])
