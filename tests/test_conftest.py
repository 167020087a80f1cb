"""A skip for a reason that is not on the list fails the run where CI is set."""

import re
import tomllib
from types import SimpleNamespace

import pytest

from conftest import MAY_SKIP, ROOT, UnexpectedSkips


@pytest.mark.parametrize("allowed", [",".join(MAY_SKIP), "a GPU,real data"])
def test_the_list_contains_what_a_machine_may_lack(allowed, monkeypatch):
    monkeypatch.setenv("PACSENT_MAY_SKIP", allowed)
    skips = UnexpectedSkips()
    reasons = ("I did not feel like it", "no CUDA device here", "could not import 'ray': none")
    for reason in reasons:
        report = SimpleNamespace(skipped=True, longrepr=("test_it.py", 4, reason), nodeid="")
        skips.pytest_runtest_logreport(report)
    expected = {f": {reasons[0]}"} | (
        {f": {reasons[2]}"} if allowed == "a GPU,real data" else set()
    )
    assert set(skips.found) == expected


def test_the_marker_extra_names_an_extra_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name for name in project["optional-dependencies"] if name.startswith("test-")}
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").glob("*.py"))
    markers = re.findall(r"pytest\.mark\.extra\b(.*)", sources)
    needs = {re.fullmatch(r'\(needs="(\w+)"\),?', marker)[1] for marker in markers}
    assert {f"test-{name}" for name in needs} == extras
    assert extras == {f"test-{name}" for name in list(MAY_SKIP)[3:]}
