"""The cache of compiled code is a help, never a reason to fail."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pacsent

pytest.importorskip("pacsent.kernels.text_kernels")

ENCODE = (
    "import numpy as np\nfrom pacsent.words import Vocabulary\n"
    "from pacsent.words.text_encoding import encode_bytes\n"
    "data = np.frombuffer(b'B a zz', np.uint8)\n"
    "print(encode_bytes(Vocabulary(['a', 'b'], [2, 1]), data, np.array([0, 6])).ids.tolist())\n"
)


@pytest.fixture
def installed(tmp_path):
    """A copy of the package that numba's cache can write neither beside nor at home."""
    package = tmp_path / "site" / "pacsent"
    shutil.copytree(
        Path(pacsent.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    (package / "kernels" / "__pycache__").write_text("a file is in the way, for root too")
    (tmp_path / "home").write_text("as HOME: nothing can be made in it")
    (tmp_path / "tmp").mkdir()
    return tmp_path


def started(folder, **environment):
    keep = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA")}
    keep.pop("XDG_CACHE_HOME", None)
    places = {"HOME": "home", "TMPDIR": "tmp", "PYTHONPATH": "site"}
    keep |= {name: str(folder / place) for name, place in places.items()}
    keep |= {"PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [sys.executable, "-c", ENCODE]
    return subprocess.run(command, env=keep, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_with_no_folder_to_write_to_it_is_compiled_at_every_start(installed):
    done = started(installed)
    assert done.stdout == "[1, 0]\n", done.stderr
    assert done.stderr.count("compiled again at every start") == 1


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="plain Python")
def test_a_folder_of_the_users_choice_keeps_the_code(installed):
    done = started(installed, NUMBA_CACHE_DIR=str(installed / "cache"))
    assert (done.stdout, done.stderr) == ("[1, 0]\n", "")
    assert any((installed / "cache").rglob("*.nbc"))


def test_every_kernel_file_takes_njit_from_there():
    numbas = re.compile(r"numba\.njit|^from numba import.*njit", re.MULTILINE)
    for path in Path(pacsent.__file__).parent.joinpath("kernels").glob("*.py"):
        assert path.name == "compiling.py" or not numbas.search(path.read_text()), path
