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
TEXTS = ["good film film", "quiet joy plot", "nil good quiet", "slow dull film", "joy joy", "plot"]
TEXTS = [*TEXTS, *[f"{a} {b} {a}" for a in WORDS[:4] for b in WORDS[4:]]]
LABELLED = [
    (f"{a} {b} {c} item{n}", "up" if a in WORDS[:4] else "down")
    for n, (a, b, c) in enumerate(zip(WORDS * 5, WORDS[3:] * 8, WORDS[5:] * 14))
]
QUICK = {"w-PB-neg": {"n_epochs": 2}, "PV-DBOW": {"n_epochs": 2}}
METHODS = tuple(name for name in sentences.methods.METHODS if not name.startswith("i-"))


@cache
def words():
    tables = np.random.default_rng(0).normal(0, 0.4, (2, len(WORDS), 6)).astype(np.float32)
    return WordVectors(Vocabulary(WORDS, [800, 400, 300, 200, 100, 50, 20, 10]), *tables)


def new(method: str, **settings):
    return make_encoder(method, words(), **{"n_jobs": 1, **QUICK.get(method, {}), **settings})


@cache
def fitted(method: str):
    return new(method).fit(TEXTS)


@cache
def classifier():
    """A small classifier with a calibration set."""
    texts = [f"{a} {b} {a}" for a in ("now", "then") for b in WORDS * 2]
    labels = ["up" if text.startswith("now") else "down" for text in texts]
    numbered = [f"{text} {number}" for number, text in enumerate(texts)]
    certified = CertifiedClassifier(
        TextClassifier(None, n_jobs=1), calibration_size=0.4, random_state=0
    )
    return certified.fit(numbered, labels)


def write_files() -> None:
    """Word vectors, a method, a classifier and texts, in this folder."""
    save(words(), "words")
    save(fitted("PB-L2"), "model")
    save(classifier(), "classifier")
    Path("t.txt").write_text("\n".join(TEXTS) + "\n")


def tree_of(folder: Path) -> Tree:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


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
