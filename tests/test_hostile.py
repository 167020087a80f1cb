"""A part of the hostile cases and of the damaged files; all by `make hostile` and `make fuzz`."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from hostile import crafted, damage, readers, running, text_inputs

N_DAMAGED = 8


def test_every_public_function_that_takes_texts_is_in_the_table():
    public = text_inputs.public_calls()
    entries = [*text_inputs.TABLE, *text_inputs.NOT_TEXTS]
    known = {name.partition(" of ")[0] for name in entries}

    assert not public - known, "add them to TABLE in tests/hostile/text_inputs.py"
    assert not known - public, "they are gone: remove them from tests/hostile/text_inputs.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "every"),
    [
        (["texts", "calls"], 37),
        (["server"], 19),
        (["containers", "encoders on URLs", "foreign folders", "filters", "journals"], 5),
    ],
)
def test_wrong_use_is_refused_in_one_line_or_gives_the_right_answer(kinds, every):
    done = subprocess.run(  # a process of its own, whose threads cannot disturb the children
        [sys.executable, "-m", "hostile", *kinds, "--every", str(every)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    *_, summary = done.stdout.splitlines()
    for ends in json.loads(summary).values():
        assert sum(ends.values()) > 5


def _raise(error):
    raise error


@pytest.mark.parametrize(
    ("end", "run", "expect"),
    [
        ("traceback", lambda: _raise(KeyError("x")), "either"),
        ("crash", lambda: os.kill(os.getpid(), signal.SIGKILL), "either"),
        ("silent", lambda: "off by one", "either"),
        ("silent", lambda: None, "refused"),
        ("unclear", lambda: int("x"), "either"),
        ("refused", lambda: _raise(ValueError("n must be 1.")), "either"),
        ("refused wrongly", lambda: _raise(ValueError("n must be 1.")), "ok"),
        ("ok", lambda: None, "ok"),
    ],
)
def test_every_end_is_counted_and_the_next_case_runs(end, run, expect):
    first = running.Case("first", run, expect)
    second = running.Case("next", lambda: None)
    reported = []

    counts = running.run_all([first, second], reported.append, per_child=2)

    assert counts == Counter([end, "ok"])
    assert len(reported) == (end in running.BAD)


def _failures(cases):
    failures = []
    for case in cases:
        end, detail = running.outcome(case)
        if end in running.BAD:
            failures.append((case.name, end, detail))
    return failures


@pytest.mark.parametrize("target", readers.TARGETS)
def test_damaged_files_are_read_or_refused_in_one_line(target):
    readers.prepare(target)
    cases = [readers.damaged_case(target, number) for number in range(N_DAMAGED)]

    assert not _failures(cases)


@pytest.mark.slow
@pytest.mark.parametrize("target", [name for name in readers.TARGETS if "crafted" in name])
def test_every_array_of_a_folder_is_checked_before_use(target):
    """Each array of a saved model in each wrong form, with right checksums: refused or used."""
    cases = []
    for tree in readers.seeds(target):
        for name, arrays in _changed_arrays(crafted.arrays_of(tree)):
            make = partial(crafted.signed, tree, "m", arrays)
            cases.append(readers.tree_case(target, name, make))

    assert not _failures(cases)


def _changed_arrays(arrays):
    """Names and arrays in which one is missing, or changed in one way."""
    for name, array in arrays.items():
        others = {other: arrays[other] for other in arrays if other != name}
        yield f"{name} missing", others
        for way in crafted.WAYS:
            changed = crafted.changed(array, way)
            if changed is not None:
                yield f"{name} {way}", {**arrays, name: changed}


def test_a_damaged_file_is_made_again_from_its_number():
    assert readers.damaged_tree("glove", 7) == readers.damaged_tree("glove", 7)


def test_damaged_files_of_different_numbers_differ():
    trees = [readers.damaged_tree("glove", number) for number in range(20)]

    different = {tuple(tree.items()) for tree in trees}
    assert len(different) > 15


@pytest.mark.parametrize("way", damage.BYTE_WAYS)
def test_every_way_of_damage_changes_something(way):
    rng = random.Random(0)
    content = b'{"shape": [3, 4], "x": 12}'

    damaged = [damage.damage_bytes(way, content, b"other", rng) for _ in range(20)]

    assert any(other != content for other in damaged)
