"""A skip for a reason that is not on the list fails the run where CI is set."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import UnexpectedSkips


@pytest.mark.slow
def test_a_skip_for_another_reason_fails_the_run_in_ci(tmp_path):
    shutil.copy(Path(__file__).parent / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n\ndef test_it():\n    pytest.skip('I did not feel like it')\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist",
               "-p", "no:hypothesispytest", "-c", os.devnull, tmp_path]  # fmt: skip
    done = subprocess.run(command, env={**os.environ, "CI": "true"}, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout
    assert "UNEXPECTED SKIP" in done.stdout


@pytest.mark.parametrize(
    ("reason", "allowed", "expected"),
    [
        ("I did not feel like it", None, True),
        ("no CUDA device here", None, False),
        ("the real data is not here: set PACSENT_DATA to its folder", None, False),
        ("could not import 'ray': No module named 'ray'", None, False),
        ("could not import 'ray': No module named 'ray'", "a GPU,real data", True),
        ("no CUDA device here", "a GPU,real data", False),
    ],
)
def test_the_list_says_what_a_machine_may_lack(reason, allowed, expected, monkeypatch):
    if allowed is None:
        monkeypatch.delenv("PACSENT_MAY_SKIP", raising=False)
    else:
        monkeypatch.setenv("PACSENT_MAY_SKIP", allowed)
    skips = UnexpectedSkips()
    report = SimpleNamespace(skipped=True, longrepr=("test_it.py", 4, reason), nodeid="test_it")
    skips.pytest_runtest_logreport(report)
    assert bool(skips.found) == expected
