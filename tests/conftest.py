"""Few and small fixtures. No network, no file outside tmp_path; drawn seeds are those of the test.

Real data is read from PACSENT_DATA, or from `shared/data` next to the checkout. Tests that need it
skip where it is missing. Where CI is set, any other skip fails the run: see MAY_SKIP.
"""

import json
import os
import random
import re
import secrets
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Before NumPy is imported: with as many processes as cores, threads that wait in loops take the
# processor time of others (on a loaded machine up to three times as much in all).
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
import numpy as np  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile(
    "any machine",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("any machine")
collect_ignore = ["reference"]  # slow or literal versions that tests compare with
collect_ignore_glob = ["conftest.py", "*/conftest.py"]  # fixtures, without doctests


# What a machine may lack, and the reason of the skip: names other than the first three are extras
# `test-...` of pyproject.toml. PACSENT_MAY_SKIP names those that hold instead of all.
MAY_SKIP = {
    "real data": "PACSENT_DATA|PACSENT_ENWIK8",
    "a GPU": "no CUDA device here|NVRTC is not here",
    "another machine": "this machine has one instruction set|built from Linux|needs nm"
    "|no C compiler here",
    "a checkout": "the sources of the kernels are not here",  # an installed wheel is tested
    "torch": "torch is not installed|could not import 'torch'",
    "clients": r"could not import '(openai|langchain|cohere|opentelemetry)\S*'",
    "s3": r"could not import '(moto|s3fs)\S*'",
    "ray": "could not import 'ray'",
    "subwords": r"could not import 'tokenizers'|the extra \[subwords\]",
    "static": r"the extra \[bench\] is not",
    "gensim": r"could not import 'gensim\S*'",
    "fasttext": "could not import 'fasttext'",
    "segmenters": "could not import '(jieba|janome|pythainlp)'",
    "browser": r"no browser|could not import 'playwright\S*'",
}


# The last file decides when the run ends.
LONGEST_FIRST = "sklearn_api report skipgram hostile running_server classify guarantees"
LONGEST_FIRST += (
    " negative_sampling labelling kinds external_encoders cli cli_classify certificates"
)


class UnexpectedSkips:
    """Collects the skips that are not on the list, and fails the run at its end."""

    def __init__(self):
        self.found: list[str] = []
        names = os.environ.get("PACSENT_MAY_SKIP", ",".join(MAY_SKIP)).split(",")
        self.allowed = [MAY_SKIP[name] for name in names]

    def pytest_runtest_logreport(self, report):
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = str(report.longrepr[-1] if report.longrepr else "")
            if not any(re.search(pattern, reason) for pattern in self.allowed):
                self.found.append(f"{report.nodeid}: {reason}")

    pytest_collectreport = pytest_runtest_logreport

    def pytest_sessionfinish(self, session):
        if self.found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self):  # after pytest's own summary, where a reader of the end sees it
        for line in self.found:
            print(f"UNEXPECTED SKIP {line}")


def pytest_configure(config):
    if os.environ.get("CI"):
        config.pluginmanager.register(UnexpectedSkips())


def fix_drawn_seeds(name: str):
    """What random_state=None draws follows from the name: a failure can be repeated."""
    np.random.seed(zlib.crc32(name.encode()))  # noqa: NPY002
    secrets.randbits = random.Random(name).getrandbits


def pytest_fixture_setup(fixturedef):
    fix_drawn_seeds(fixturedef.argname)


def pytest_runtest_call(item):
    fix_drawn_seeds(item.nodeid)


def pytest_collection_modifyitems(items):
    order = {f"test_{name}.py": place for place, name in enumerate(LONGEST_FIRST.split())}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    folder = Path(os.environ.get("PACSENT_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("the real data is not here: set PACSENT_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def golden():
    """golden("bounds") -> the parsed file of independent high-precision numbers."""
    folder = Path(__file__).parent / "data" / "golden"
    return lambda name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def language():
    """The paper's generative model, whose true risks are known."""
    from pacsent.paper import simulation

    return simulation.Language(simulation.SETTINGS["topics"])


@pytest.fixture(scope="session")
def documents(language):
    return language.draw(np.random.default_rng(5), np.tile(np.arange(60), 10))[0]


@pytest.fixture(scope="session")
def toy_word_vectors():
    """Three words and a zero vector, two dimensions, written out."""
    from pacsent import Vocabulary, WordVectors

    vocabulary = Vocabulary(["film", "good", "quiet", "nil"], [40, 30, 20, 10])
    input_vectors = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, -1.0], [0.0, 0.0]], dtype=np.float32)
    output_vectors = np.array([[0.0, 1.0], [1.0, 0.5], [-1.0, 0.5], [0.0, 0.0]], dtype=np.float32)
    return WordVectors(vocabulary, input_vectors, output_vectors)


@pytest.fixture(scope="session")
def tiny_corpus() -> list[str]:
    """Ten sentences, the awkward ones included: empty, all unknown, repeated words."""
    usual = ["good film", "quiet film", "film film film", "a good quiet film"]
    return [*usual, "", "zzz qqq", "good good quiet", "nil", "film nil good", "Quiet, good: film!"]


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api")
    from browsers import BROWSER

    if BROWSER is None:
        pytest.skip("no browser: run scripts/install-browser")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=BROWSER,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield browser
        browser.close()
