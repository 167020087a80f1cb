"""How many cores work is spread over."""

import os

import pytest

from pacsent.threads import _container_cores, n_cores


def test_cores_are_those_that_this_process_may_use():
    assert 1 <= n_cores() <= os.cpu_count()


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "150000 100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
        ({"cpu.max": "something else\n"}, 8),
        ({}, 8),
    ],
)
def test_the_quota_of_a_container_counts(tmp_path, files, cores):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert _container_cores(8, tmp_path) == cores
