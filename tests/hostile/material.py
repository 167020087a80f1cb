"""Small models and files that the cases are made from, made once before any child is started."""

import shutil
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from pacsent import (
    CertifiedClassifier,
    TextClassifier,
    Vocabulary,
    WordVectors,
    make_encoder,
    save,
    sentences,
)

Tree = dict[str, bytes]  # file name -> content
WORDS = ["film", "good", "quiet", "nil", "joy", "plot", "slow", "dull"]
SHORT_TEXTS = [
    "good film film",
    "quiet joy plot",
    "nil good quiet",
    "slow dull film",
    "joy joy",
    "plot",
]
TEXTS = [*SHORT_TEXTS, *[f"{a} {b} {a}" for a in WORDS[:4] for b in WORDS[4:]]]


def _labelled_texts() -> list[tuple[str, str]]:
    """Forty texts of three words and a number; the first word decides the label."""
    pairs = []
    for number in range(5 * len(WORDS)):
        first = WORDS[number % 8]
        second = WORDS[3 + number % 5]
        third = WORDS[5 + number % 3]
        label = "up" if first in WORDS[:4] else "down"
        pairs.append((f"{first} {second} {third} item{number}", label))
    return pairs


LABELLED = _labelled_texts()
QUICK = {"w-PB-neg": {"n_epochs": 2}, "PV-DBOW": {"n_epochs": 2}}
METHODS = tuple(name for name in sentences.methods.METHODS if not name.startswith("i-"))


@cache
def words():
    rng = np.random.default_rng(0)
    tables = rng.normal(0, 0.4, (2, len(WORDS), 6))  # input and output vectors
    input_vectors, output_vectors = tables.astype(np.float32)
    vocabulary = Vocabulary(WORDS, [800, 400, 300, 200, 100, 50, 20, 10])
    return WordVectors(vocabulary, input_vectors, output_vectors)


def new(method: str, **settings):
    """A method that is quick to fit, with other settings where they are given."""
    quick = QUICK.get(method, {})
    return make_encoder(method, words(), **{"n_jobs": 1, **quick, **settings})


@cache
def fitted(method: str):
    return new(method).fit(TEXTS)


@cache
def classifier():
    """A small classifier with a calibration set."""
    texts = [f"{a} {b} {a}" for a in ("now", "then") for b in WORDS * 2]
    labels = ["up" if text.startswith("now") else "down" for text in texts]
    numbered = [f"{text} {number}" for number, text in enumerate(texts)]

    plain = TextClassifier(None, n_jobs=1)
    certified = CertifiedClassifier(plain, calibration_size=0.4, random_state=0)
    return certified.fit(numbered, labels)


def write_files() -> None:
    """Word vectors, a method, a classifier and texts, in this folder."""
    save(words(), "words")
    save(fitted("PB-L2"), "model")
    save(classifier(), "classifier")
    Path("t.txt").write_text("\n".join(TEXTS) + "\n")


def tree_of(folder: Path) -> Tree:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def write_tree(tree: Tree, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def make_tree(write: Callable[[Path], object]) -> Tree:
    """The files that `write` makes in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        return tree_of(Path(folder))


def prepare() -> None:
    """Compile and fit everything here, so that the children find it done."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in METHODS:
            fitted(method).transform(TEXTS)
        classifier()
