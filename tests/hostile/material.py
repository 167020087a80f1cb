"""Small things the cases are made from, made once before any child is started."""

import warnings
from functools import cache
from pathlib import Path

import numpy as np

from pacsent import (
    CertifiedClassifier,
    TextClassifier,
    Vocabulary,
    WordVectors,
    encoders,
    make_encoder,
    save,
)

WORDS = ["film", "good", "quiet", "nil", "joy", "plot", "slow", "dull"]
TEXTS = ["good film film", "quiet joy plot", "nil good quiet", "slow dull film", "joy joy", "plot"]
TEXTS = [*TEXTS, *[f"{a} {b} {a}" for a in WORDS[:4] for b in WORDS[4:]]]
QUICK = {"w-PB-neg": {"n_epochs": 2}, "PV-DBOW": {"n_epochs": 2}}
METHODS = tuple(name for name in encoders.methods.METHODS if not name.startswith("i-"))


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
def expected(method: str) -> np.ndarray:
    return np.asarray(fitted(method).transform(TEXTS))


@cache
def classifier():
    """A small classifier with a calibration set."""
    texts = [f"{a} {b} {a}" for a in ("now", "then") for b in WORDS * 2]
    labels = ["up" if text.startswith("now") else "down" for text in texts]
    numbered = [f"{text} {number}" for number, text in enumerate(texts)]
    return CertifiedClassifier(
        TextClassifier(None, n_jobs=1), calibration_size=0.4, random_state=0
    ).fit(numbered, labels)


def write_words(name="words") -> Path:
    return save(words(), name)


def write_model(method="PB-L2", name="model") -> Path:
    return save(fitted(method), name)


LABELLED = [
    (f"{a} {b} {c} item{n}", "up" if a in WORDS[:4] else "down")
    for n, (a, b, c) in enumerate(zip(WORDS * 5, WORDS[3:] * 8, WORDS[5:] * 14))
]


def write_classifier(name="classifier") -> Path:
    return save(classifier(), name)


def write_texts(name="t.txt") -> Path:
    path = Path(name)
    path.write_text("\n".join(TEXTS) + "\n")
    return path


def prepare() -> None:
    """Compile and fit everything here, so that the children find it done."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in METHODS:
            expected(method)
        classifier()
