"""Few and small fixtures. No global seed, no network, no file outside tmp_path.

Real data is read from the folder in PACSENT_DATA, or from `shared/data` beside the checkout; the
golden numbers from PACSENT_GOLDEN, or `shared/golden` beside it. Tests that need them skip, and
say so, where they are not there.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


def _folder(variable: str, default: Path) -> Path:
    return Path(os.environ.get(variable, default))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    folder = _folder("PACSENT_DATA", ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("the real data is not here: set PACSENT_DATA to its folder")
    return folder


@pytest.fixture(scope="session")
def golden():
    """golden("bounds") -> the parsed file of independent high-precision numbers."""
    folder = _folder("PACSENT_GOLDEN", ROOT.parent / "shared" / "golden")
    if not folder.is_dir():
        pytest.skip("the golden numbers are not here: set PACSENT_GOLDEN to their folder")
    return lambda name: json.loads((folder / f"{name}.json").read_text())


@pytest.fixture
def rng():
    return np.random.default_rng(0)


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
    return [
        "good film",
        "quiet film",
        "film film film",
        "a good quiet film",
        "",
        "zzz qqq",
        "good good quiet",
        "nil",
        "film nil good",
        "Quiet, good: film!",
    ]
