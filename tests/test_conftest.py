"""A skip for a reason that is not on the list fails the run where CI is set."""

from types import SimpleNamespace

import pytest

from conftest import MAY_SKIP, UnexpectedSkips


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
