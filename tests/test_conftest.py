"""A skip for a reason that is not on the list fails the run where CI is set."""

from types import SimpleNamespace

import pytest

from conftest import UnexpectedSkips


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
