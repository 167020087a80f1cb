"""The cache of compiled code is a help, never a reason to fail."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pacsent

pytest.importorskip("pacsent._kernels.text_kernels")

ENCODE = (
    "from pacsent import Vocabulary\n"
    "print(Vocabulary(['a', 'b'], [2, 1]).encode(['B a zz']).ids.tolist())\n"
)


@pytest.fixture
def installed(tmp_path):
    """A copy of the package that numba's cache can write neither beside nor at home."""
    package = tmp_path / "site" / "pacsent"
    shutil.copytree(
        Path(pacsent.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    (package / "_kernels" / "__pycache__").write_text("a file is in the way, for root too")
    (tmp_path / "home").write_text("as HOME: nothing can be made in it")
    (tmp_path / "tmp").mkdir()
    return tmp_path


def started(folder, code=ENCODE, **environment):
    keep = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
    keep.pop("XDG_CACHE_HOME", None)
    settings = {
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": str(folder / "site"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**keep, **settings, **environment}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.slow
def test_a_read_only_install_without_a_home_keeps_its_code_in_a_private_folder(installed):
    for _ in range(2):
        done = started(installed)
        assert done.stdout == "[1, 0]\n", done.stderr
        assert done.stderr.count("numba can keep compiled code neither") == 1
    (folder,) = (installed / "tmp").glob("pacsent-numba-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert any(folder.rglob("*.nbc"))


@pytest.mark.slow
def test_code_that_others_could_have_put_there_is_not_run(installed):
    theirs = installed / "tmp" / f"pacsent-numba-{os.getuid()}"
    theirs.mkdir()
    theirs.chmod(0o777)
    done = started(installed)
    assert done.stdout == "[1, 0]\n", done.stderr
    assert list((installed / "tmp").iterdir()) == [theirs]  # the passing one is gone again
    assert not any(theirs.iterdir())


@pytest.mark.slow
def test_with_no_folder_at_all_it_is_compiled_at_every_start(installed):
    nowhere = f"import tempfile\ntempfile.tempdir = {str(installed / 'home' / 'x')!r}\n"
    done = started(installed, nowhere + ENCODE)
    assert done.stdout == "[1, 0]\n", done.stderr
    assert done.stderr.count("it is compiled again at every start") == 1


@pytest.mark.slow
def test_a_damaged_cache_is_made_again_and_said_once(installed):
    cache = {"NUMBA_CACHE_DIR": str(installed / "cache")}
    assert started(installed, **cache).stdout == "[1, 0]\n"
    damages = [("*.nbi", b""), ("*.nbi", b"\x80garbage"), ("*.nbc", b"\x80\x04garbage")]
    for pattern, content in damages:
        damaged = list((installed / "cache").rglob(pattern))
        assert damaged
        for path in damaged:
            path.write_bytes(content)
        done = started(installed, **cache)
        assert done.stdout == "[1, 0]\n", done.stderr
        assert done.stderr.count("is damaged; it is compiled again") == 1
        again = started(installed, **cache)
        assert (again.stdout, again.stderr) == ("[1, 0]\n", "")


def test_every_kernel_file_takes_njit_from_there():
    folder = Path(pacsent.__file__).parent / "_kernels"
    others = [path for path in folder.glob("*.py") if path.name != "compiling.py"]
    assert not [path.name for path in others if "numba.njit" in path.read_text()]
    for path in others:
        lines = path.read_text().split("\n")
        assert not [x for x in lines if x.startswith("from numba import") and "njit" in x], path


@pytest.mark.slow
def test_an_edit_of_any_kernel_file_compiles_all_again(installed):
    cache = {"NUMBA_CACHE_DIR": str(installed / "cache")}
    kept = installed / "cache"
    assert started(installed, **cache).stdout == "[1, 0]\n"
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*.nbi")}
    assert before and started(installed, **cache).stdout == "[1, 0]\n"
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*.nbi")} == before
    with (installed / "site" / "pacsent" / "_kernels" / "alias_kernels.py").open("a") as file:
        file.write("# not the file of any kernel that encodes\n")
    assert started(installed, **cache).stdout == "[1, 0]\n"
    assert all(path.stat().st_mtime_ns > time for path, time in before.items())
