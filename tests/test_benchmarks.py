"""Every benchmark runs without arguments, has the same options, and is run by `make bench`."""

import importlib
import json
import re
import subprocess
import sys
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


@pytest.fixture(scope="module")
def helps():
    """What every benchmark says with --help, all from one process."""
    code = """
import contextlib, io, json, runpy, sys
folder, told = sys.argv[1], {}
sys.path.insert(0, folder)
for name in sys.argv[2:]:
    sys.argv = [name, "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        runpy.run_path(f"{folder}/{name}.py", run_name="__main__")
    told[name] = out.getvalue()
print(json.dumps(told))
"""
    command = [sys.executable, "-c", code, str(ROOT / "benchmarks"), *BENCHMARKS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", BENCHMARKS)
def test_help_needs_neither_data_nor_rivals_and_shows_the_common_options(helps, name):
    for option in ("--data", "--save", "--name"):
        assert re.search(rf"^  {option}\b", helps[name], re.M), option


def test_a_benchmark_ends_with_its_json_line(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    harness = importlib.import_module("harness")
    harness.finish("encode", [{"method": "a", "rate": 2.0}], summary={"ratio": 6.1}, save=False)
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["benchmark"] == "encode" and told["ratio"] == 6.1
