"""Damaged files for every reader: some of each in every run, many by `make fuzz`."""

import random
from dataclasses import replace

import pytest

from fuzz import crafted, mutations, running
from fuzz.targets import TARGETS

N_CASES = 8
LONG = {"wiki"}  # what takes half a minute to compile


@pytest.mark.parametrize(
    "target", [pytest.param(t, marks=[pytest.mark.compile] * (t in LONG)) for t in TARGETS]
)
def test_damaged_files_are_read_or_refused_in_one_line(target):
    running._outcomes(target)  # whole files are read; and what they need is compiled by then
    found = {}
    for number in range(N_CASES):
        if what := running.one_case(target, number):
            found.setdefault(what, number)
    assert not found, f"python -m fuzz --target {target} --case {next(iter(found.values()))}"


CRAFTED = [name for name in TARGETS if name.startswith("crafted-")]


@pytest.mark.slow
@pytest.mark.parametrize("target", CRAFTED)
def test_every_array_of_a_folder_is_checked_before_use(target, tmp_path):
    """Each array of a saved model in each wrong form, with right checksums: refused or used."""
    found = {}
    for tree in running.seeds(target):
        arrays = crafted.arrays_of(tree)
        for name, array in arrays.items():
            for way in crafted.WAYS:
                wrong = crafted.changed(array, way)
                if wrong is None:
                    continue
                signed = crafted.signed(tree, "m", arrays | {name: wrong})
                if what := running.outcome(target, signed):
                    found[f"{name}, {way}"] = what
            left = {other: a for other, a in arrays.items() if other != name}
            if what := running.outcome(target, crafted.signed(tree, "m", left)):
                found[f"without {name}"] = what
    assert not found


def test_a_case_is_made_again_from_its_number():
    assert running.damaged_tree("glove", 7) == running.damaged_tree("glove", 7)
    made = [tuple(running.damaged_tree("glove", number).items()) for number in range(20)]
    assert len(set(made)) > 15


def test_what_is_wrong_is_seen(monkeypatch, tmp_path):
    def broken(kind):
        def read(folder):
            raise kind("'key'" if kind is KeyError else "Expecting value: line 1")

        return read

    for kind, found in ((KeyError, "traceback KeyError"), (ValueError, "unclear ValueError")):
        monkeypatch.setitem(TARGETS, "glove", replace(TARGETS["glove"], read=broken(kind)))
        assert running.one_case("glove", 0).startswith(found)
    monkeypatch.setitem(TARGETS, "glove", replace(TARGETS["glove"], read=lambda folder: folder))
    assert running.one_case("glove", 0) == ""


def test_every_way_of_damage_changes_something_or_says_nothing():
    rng = random.Random(0)
    content = b'{"shape": [3, 4], "x": 12}'
    for way in (*mutations.BYTE_WAYS, mutations._json):
        assert any(way(content, b"other", rng) != content for _ in range(20)), way.__name__


def test_a_case_that_once_went_wrong_is_refused():
    assert running.one_case("certificate", 110002234) == ""
