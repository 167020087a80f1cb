"""Every benchmark runs without arguments, has the same options, and is run by `make bench`."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = sorted(
    path.stem
    for path in (ROOT / "benchmarks").glob("*.py")
    if path.stem not in ("harness", "make_tables")
)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_has_the_common_options_and_needs_no_others(name):
    code = (ROOT / "benchmarks" / f"{name}.py").read_text()
    assert "parser_for(__doc__" in code
    assert "finish(" in code  # the table and the JSON line
    assert "required=True" not in code
    positional = re.findall(r"add_argument\(\s*\"[^-][^)]*\)", code)
    assert [one for one in positional if 'nargs="?"' not in one or "default=" not in one] == []


def test_make_bench_runs_every_benchmark():
    jobs = re.search(r"for job in ([\w ]+);", (ROOT / "Makefile").read_text())[1].split()
    assert sorted(jobs) == BENCHMARKS
