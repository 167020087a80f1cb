"""How the kernels are compiled: with which compiler, for which machine, and under which name."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pacsent.kernels import library

ROOT = Path(__file__).parents[2]


@pytest.fixture
def hook():
    """`hatch_build.py` as a module of its own, so that a test may change it."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tools_without_compilers(folder):
    """A folder for PATH that has what a build needs, but no compiler."""
    folder.mkdir()
    for name in ("env", "sh", "ldconfig", "uname"):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    return str(folder)


def test_no_flag_lets_floats_be_reordered_and_loading_leaves_small_numbers_alone(hook):
    """-ffast-math, linking included, would flush small numbers to zero everywhere."""
    assert not any("fast-math" in flag for flag in hook.FLAGS)
    assert library.is_available()
    assert np.float32(1e-40) * np.float32(1) != 0


def test_an_edit_gives_the_library_another_name(hook, monkeypatch, tmp_path):
    copied = tmp_path / "kernels"
    shutil.copytree(hook.KERNELS, copied, ignore=shutil.ignore_patterns("_kernels*", "*.py*"))
    monkeypatch.setattr(hook, "KERNELS", copied)
    before = hook.digest()

    (copied / "edits.c").write_bytes((copied / "edits.c").read_bytes() + b"\n")

    assert hook.digest() != before


@pytest.mark.parametrize("missing", ["-march=x86-64-v4", "-O3"])
def test_a_compiler_that_lacks_a_flag_is_not_used(hook, monkeypatch, tmp_path, missing):
    """GCC before 11 does not know x86-64-v4."""
    if missing.startswith("-march") and hook.machine_of(os.uname().machine) != "x86_64":
        pytest.skip("this machine has one instruction set")
    old = tmp_path / "cc"
    old.write_text(f'#!/bin/sh\ncase "$*" in *{missing}*) exit 1;; esac\nexit 0\n')
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)

    assert hook.system_compiler() is None
    missing_flag = old.read_text().replace(missing, "-fno-such-flag")
    old.write_text(missing_flag)
    assert hook.system_compiler() == [str(old)]


def hook_of(hook, target_name):
    """The build hook as hatchling makes it for a wheel or a source archive."""
    made = type("Hook", (hook.KernelsHook,), {"target_name": target_name})
    return object.__new__(made)


def test_a_source_archive_has_no_library_and_needs_no_compiler(hook, monkeypatch):
    monkeypatch.setattr(hook, "system_compiler", lambda: None)
    made = hook_of(hook, "sdist")
    build_data = {"artifacts": []}

    made.initialize("standard", build_data)

    assert build_data == {"artifacts": []}
    assert made.dependencies() == []


def test_zig_is_a_requirement_only_where_it_is_needed(hook, monkeypatch, tmp_path):
    made = hook_of(hook, "wheel")

    monkeypatch.delenv("PACSENT_TARGET", raising=False)
    monkeypatch.setattr(hook, "system_compiler", lambda: ["cc"])
    assert made.dependencies() == []

    monkeypatch.setenv("PACSENT_TARGET", "aarch64-macos")
    assert made.dependencies() == [hook.ZIG]

    monkeypatch.delenv("PACSENT_TARGET")
    monkeypatch.setattr(hook, "system_compiler", lambda: None)
    assert made.dependencies() == [hook.ZIG]

    monkeypatch.setenv("PACSENT_KERNELS", "none")
    assert made.dependencies() == []


def test_a_target_that_is_not_known_is_named(hook, monkeypatch, tmp_path):
    monkeypatch.setenv("PACSENT_TARGET", "sparc-solaris")

    with pytest.raises(
        SystemExit, match="PACSENT_TARGET=sparc-solaris: must be one of x86_64-linu"
    ):
        hook.compile_library(tmp_path)


def test_without_a_compiler_and_without_zig_the_message_names_what_to_install(
    hook, monkeypatch, tmp_path
):
    monkeypatch.setattr(hook, "system_compiler", lambda: None)
    monkeypatch.setattr(hook, "find_spec", lambda name: None)
    monkeypatch.delenv("PACSENT_TARGET", raising=False)

    with pytest.raises(SystemExit, match=r"No C compiler was found.*-m pip install ziglang==0\.17"):
        hook.compile_library(tmp_path)


def test_an_error_in_a_source_is_shown_and_the_old_library_stays(hook, monkeypatch, tmp_path):
    if hook.system_compiler() is None:
        pytest.skip("no C compiler here")
    copied = tmp_path / "kernels"
    shutil.copytree(hook.KERNELS, copied, ignore=shutil.ignore_patterns("*.py*"))
    before = list(copied.glob("_kernels-*"))
    (copied / "edits.c").write_text("this is not C\n")
    monkeypatch.setattr(hook, "KERNELS", copied)

    with pytest.raises(SystemExit, match=r"could not be compiled[\s\S]*edits\.c:1"):
        hook.compile_library(copied)

    assert list(copied.glob("_kernels-*")) == before


def test_the_public_names_of_the_library_are_entry_points(tmp_path):
    """One object for each level in one library: everything else must be static."""
    nm = shutil.which("nm")
    if nm is None or not sys.platform.startswith("linux"):
        pytest.skip("needs nm, of binutils")
    command = [nm, "--dynamic", "--defined-only", str(library.find_library())]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[2::3]

    levels = ("_v2", "_v3", "_v4", "_base")
    assert "level" in names
    assert [name for name in names if not name.endswith(levels) and name != "level"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "ending", "magic"),
    [
        (None, ".so", b"\x7fELF"),
        ("aarch64-linux", ".so", b"\x7fELF"),
        ("aarch64-macos", ".dylib", b"\xcf\xfa\xed\xfe"),
        ("x86_64-windows", ".dll", b"MZ"),
    ],
)
def test_without_a_compiler_a_wheel_is_built_by_zig(tmp_path, target, ending, magic):
    """`pip wheel` on a PATH without any compiler: pip fetches ziglang for the build."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the other platforms are built from Linux")
    source = tmp_path / "source"
    kept_out = shutil.ignore_patterns(".git", ".venv*", "tests", "docs", "carry*", "_kernels-*")
    shutil.copytree(ROOT, source, ignore=kept_out, symlinks=True)
    environment = {**os.environ, "PATH": tools_without_compilers(tmp_path / "bin")}
    environment.pop("CC", None)
    environment.pop("PYTHONPATH", None)
    if target:
        environment["PACSENT_TARGET"] = target

    wheels = tmp_path / "wheels"
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(wheels), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]

    (wheel,) = wheels.iterdir()
    assert "py3-none-" in wheel.name and "-any" not in wheel.name
    assert wheel.stat().st_size < 30e6
    shutil.unpack_archive(wheel, tmp_path / "unpacked", "zip")
    kernels = tmp_path / "unpacked" / "pacsent" / "kernels"
    (built,) = kernels.glob("_kernels-*")
    assert built.suffix == ending
    assert built.read_bytes().startswith(magic)
    assert not list(kernels.glob("*.[ch]"))

    if target is None:  # what was built here runs here
        code = "from pacsent import load; print(load('english').encode(['a glass of wine']).shape)"
        used = {**environment, "PYTHONPATH": str(tmp_path / "unpacked")}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=used, cwd=tmp_path
        )
        assert done.stdout == "(1, 256)\n", done.stderr


def test_the_files_that_are_compiled_in_another_way_exist(hook):
    sources = {path.name for path in hook.KERNELS.glob("*.c")}

    assert sources >= hook.CONTRACTED | hook.WIDE
