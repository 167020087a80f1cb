"""The architecture: modules that are found by name, threads, the page's picture, the workflows."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import pacsent
from pacsent import threads

PACKAGE = Path(pacsent.__file__).parent
ROOT = Path(__file__).parents[1]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def public_modules() -> list[str]:
    names = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in PACKAGE.rglob("*.py")
    ]
    return sorted(n for n in names if not any(part.startswith("_") for part in n.split(".")))


def test_every_module_can_be_imported_first_and_every_public_name_exists():
    names = public_modules()
    assert len(names) > 80
    code = "import importlib, pacsent\nfor name in {!r}:\n    importlib.import_module(name)"
    run(code.format(names) + "\n[getattr(pacsent, name) for name in pacsent.__all__]")
    assert set(pacsent.__all__) <= set(dir(pacsent)) | {"__version__"}


def test_a_module_opens_no_more_than_it_needs():
    found = run("import sys, pacsent.files, pacsent.threads; print(*sys.modules)").split()
    assert not {"numba", "sklearn", "torch", "scipy", "joblib"} & set(found)


@pytest.mark.parametrize("name", ["nothing", "_kernel", "__wrapped__"])
def test_what_is_not_there_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=f"No pacsent attribute {name}"):
        getattr(pacsent, name)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_threads_are_counted_by_the_affinity_of_the_process():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
        "from pacsent.threads import n_threads as n; print(n(None), n(-1), n(-2))"
    )
    assert run(code) == "1 1 1\n"


def test_n_jobs_counts_as_scikit_learn_does(monkeypatch):
    monkeypatch.setattr(threads, "n_cores", lambda: 8)
    assert [threads.n_threads(n) for n in (None, -1, -2, 3)] == [8, 8, 7, 3]
    with pytest.raises(ValueError, match=r"n_jobs must be a number of threads.*Got 0 instead"):
        threads.n_threads(0)


def test_pictures_have_a_background_in_light_and_dark_mode():
    folder = ROOT / "docs" / "figures"
    drawn = [*folder.glob("method-*.svg"), folder / "front.svg"]
    assert len(drawn) >= 9  # eight methods and the front page
    for path in drawn:
        root = ElementTree.parse(path).getroot()
        found = path.read_text(encoding="utf-8")
        assert root.find("{http://www.w3.org/2000/svg}title").text, path.name
        assert 'class="paper"' in found and "prefers-color-scheme:dark" in found, path.name


def test_the_workflows_run_what_a_contributor_runs_on_every_kind_of_machine():
    folder = ROOT / ".github" / "workflows"
    tests, weekly = ((folder / f"{name}.yml").read_text() for name in ("tests", "weekly"))
    for word in ("make check", "make test", "ubuntu-latest", "ubuntu-24.04-arm", "macos-latest"):
        assert word in tests
    project = (ROOT / "pyproject.toml").read_text()
    oldest = project.partition('requires-python = ">=')[2].partition('"')[0]
    assert f'"{oldest}"' in tests
    assert "schedule:" in weekly and "--upgrade --pre" in weekly
    assert (ROOT / ".pre-commit-config.yaml").exists()
