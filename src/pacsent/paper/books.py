"""The paper's experiment on data that ships with the package: who wrote a passage?

Passages of thirty public-domain books are divided once: three fifths train word vectors, without
their authors, and of the rest one half trains the classifier and one half tests it.
"""

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pacsent.datasets import Passage, load_books
from pacsent.paper.labelled import Dataset
from pacsent.storage import load, save
from pacsent.words.skipgram import SkipGram
from pacsent.words.vectors import WordVectors

# The passages of each part among every ten of a book, in their order there.
_PARTS = {
    "source": (0, 2, 4, 5, 7, 9),
    "train": (1, 6),
    "test": (3, 8),
}
# 300 dimensions, as in the paper, gain nothing on 140,000 words and take three times as long.
_N_DIMS = 100
_SEED = 0


def passages(part: str) -> list[Passage]:
    """The passages of "source", "train" or "test"; every book has some in each."""
    positions = _PARTS[part]
    every = load_books()
    return [passage for number, passage in enumerate(every) if number % 10 in positions]


def dataset() -> Dataset:
    """600 passages to learn from and 600 to test on, by ten authors."""
    train = passages("train")
    test = passages("test")
    classes = tuple(sorted({passage.author for passage in train}))
    position = {author: number for number, author in enumerate(classes)}

    digest = hashlib.sha256()
    for passage in [*train, *test]:
        digest.update(f"{passage.author}\t{passage.text}\n".encode())
    return Dataset(
        name="books",
        train_texts=[passage.text for passage in train],
        train_labels=np.array([position[passage.author] for passage in train]),
        test_texts=[passage.text for passage in test],
        test_labels=np.array([position[passage.author] for passage in test]),
        classes=classes,
        digest=digest.hexdigest(),
    )


def train_words(
    folder: str | os.PathLike,
    *,
    n_jobs: int | None = None,
    report: Callable[[str], object] = lambda line: None,
) -> WordVectors:
    """Skip-gram vectors of the source passages, both matrices, kept in `folder`.

    If they are there they are read: a run that is resumed must have the same vectors, and several
    threads do not give them twice.
    """
    if Path(folder).is_dir():
        return load(folder)

    texts = [passage.text for passage in passages("source")]
    started = time.perf_counter()
    trainer = SkipGram(_N_DIMS, normalize="paper", n_jobs=n_jobs, random_state=_SEED)
    words = trainer.fit(texts).word_vectors_
    save(words, folder)

    seconds = time.perf_counter() - started
    report(
        f"Skip-gram on {len(texts):,} passages: input and output vectors of {words.n_words:,} "
        f"words ({seconds:.0f} s)"
    )
    return words
