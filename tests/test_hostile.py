"""A part of the hostile cases in every run; all of them by `make hostile`."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hostile import command_lines, python_calls, running, server_requests, text_inputs


def test_there_are_enough_cases_and_each_has_its_own_name():
    parts = (python_calls, command_lines, server_requests)
    names = [case.name for part in parts for case in part.cases()]
    assert len(names) > 1600
    assert len(set(names)) == len(names)


def test_every_public_function_that_takes_texts_is_in_the_table():
    found = text_inputs.public_calls()
    known = {name.partition(" of ")[0] for name in (*text_inputs.TABLE, *text_inputs.NOT_TEXTS)}
    assert not found - known, "add them to TABLE in tests/hostile/text_inputs.py"
    assert not known - found, "they are gone: remove them from tests/hostile/text_inputs.py"


@pytest.mark.slow
@pytest.mark.parametrize(("part", "every"), [("python", 37), ("server", 19)])
def test_wrong_calls_are_refused_in_one_line_or_give_the_right_answer(part, every):
    done = subprocess.run(  # a process of its own, whose threads cannot disturb the children
        [sys.executable, "-m", "hostile", "--part", part, "--every", str(every)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert json.loads(done.stdout.splitlines()[-1])["cases"] > 20


def _fails():
    raise KeyError("x")


@pytest.mark.parametrize(
    ("end", "run", "expect"),
    [
        ("traceback", _fails, "either"),
        ("crash", lambda: os.kill(os.getpid(), signal.SIGKILL), "either"),
        ("silent", lambda: "off by one", "either"),
        ("silent", lambda: None, "refused"),
        ("unclear", lambda: int("x"), "either"),
        ("ok", lambda: None, "ok"),
    ],
)
def test_every_end_is_seen(end, run, expect):
    assert running.run_case(running.Case("one", run, expect))[0] == end
