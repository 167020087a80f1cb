"""A skip nobody agreed to fails the run where CI is set."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def run_with_skip(folder: Path, reason: str, ci: str) -> subprocess.CompletedProcess:
    shutil.copy(Path(__file__).parent / "conftest.py", folder)
    (folder / "test_it.py").write_text(
        f"import pytest\n\n\ndef test_it():\n    pytest.skip({reason!r})\n"
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, folder],
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("reason", "ci", "status"),
    [
        ("I did not feel like it", "true", 1),
        ("I did not feel like it", "", 0),
        ("no CUDA device here", "true", 0),
        ("the real data is not here: set PACSENT_DATA to its folder", "true", 0),
    ],
)
def test_a_skip_that_is_not_on_the_list_fails_the_run_in_ci(tmp_path, reason, ci, status):
    done = run_with_skip(tmp_path, reason, ci)
    assert done.returncode == status, done.stdout
    assert ("UNEXPECTED SKIP" in done.stdout) == bool(status)
