"""A skip for a reason that is not on the list fails the run where CI is set; each extra of the
tests is installed and tested by itself."""

import re
import shutil
import subprocess
import sys
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


def test_an_extra_that_cannot_be_installed_leaves_the_others(tmp_path):
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts" / "test_extras.py", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text("""[project]
optional-dependencies = {test-a = [], test-b = [], test-c = [], other = []}
""")
    (tmp_path / "pip.py").write_text("""import sys
if "test-a" in sys.argv[-1]:
    sys.exit("ERROR: No matching distribution found for a")
""")
    (tmp_path / "pytest.py").write_text("""import os, sys
assert os.environ["PACSENT_MAY_SKIP"] == "a GPU,real data"
failed = any("extra(needs='c')" in word for word in sys.argv)
print("1 failed, 2 passed in 3s" if failed else "5 passed, 1 skipped in 4s")
sys.exit(failed)
""")

    def run(*arguments):
        command = [sys.executable, script, *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    every = run()
    table = [line.split() for line in every.stdout.splitlines()[-3:]]
    assert every.returncode == 1, every.stderr
    assert " ".join(table[0]) == "a no ERROR: No matching distribution found for a"
    assert table[1] == ["b", "yes", "5", "1", "0"]
    assert table[2] == ["c", "yes", "2", "0", "1", "FAILED,", "exit", "status", "1"]
    assert run("a", "b").returncode == 0 and run("a", "b", "--strict").returncode == 1
    wrong = run("other")
    assert wrong.returncode == 2 and "EXTRA must be one of a, b, c. Got other" in wrong.stderr
