"""Texts with class labels: `Dataset`, and `read_labelled`, which reads it from a user's file."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pacsent.text.tables import Report, read_labelled_texts
from pacsent.text.texts import as_sentences


@dataclass(frozen=True, eq=False)
class Dataset:
    """Texts with class labels; a test part where the authors fixed one."""

    name: str
    train_texts: list[str]
    train_labels: np.ndarray  # positions in `classes`
    test_texts: list[str]  # empty where there is no fixed split; `split` makes one
    test_labels: np.ndarray
    classes: tuple[str, ...]
    digest: str  # sha256 of the content that was read, whatever it was packed in

    def __post_init__(self):
        for part in ("train", "test"):
            texts = getattr(self, f"{part}_texts")
            if not isinstance(texts, list):
                texts = list(as_sentences(texts, f"{part}_texts"))
                object.__setattr__(self, f"{part}_texts", texts)
            labels = getattr(self, f"{part}_labels")
            if len(texts) != len(labels):
                raise ValueError(
                    f"{part}_texts and {part}_labels must be of the same length. Got "
                    f"{len(texts):,} and {len(labels):,} instead."
                )

    @property
    def has_fixed_split(self) -> bool:
        return len(self.test_texts) > 0

    def split(self, seed: int = 0) -> "Dataset":
        """The authors' split where there is one, else a random one (80/20), a function of `seed`.

        The parts keep the order of the file, so that a part depends on its members only.
        """
        if self.has_fixed_split:
            return self
        parts: dict = {}
        for part, rows in zip(("train", "test"), self.split_rows(seed)):
            parts[f"{part}_texts"] = [self.train_texts[i] for i in rows]
            parts[f"{part}_labels"] = self.train_labels[rows]
        return replace(self, **parts)

    def split_rows(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the training and the test part of `split(seed)`, for a dataset without one."""
        n_documents = len(self.train_texts)
        n_test = round(0.2 * n_documents)
        order = np.random.default_rng([seed, 80_20]).permutation(n_documents)
        return np.sort(order[n_test:]), np.sort(order[:n_test])


def read_labelled(
    path: str | Path,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    kind: str | None = None,
    test: str | Path | None = None,
    report: Report | None = None,
) -> Dataset:
    """Return a dataset from a user's own file; arguments as of `read_labelled_texts`.

    `test` is a second file of the same kind as the test part; without it `split` makes one.
    """
    columns = {"text_column": text_column, "label_column": label_column}
    parts = [
        read_labelled_texts(file, **columns, kind=kind, report=report)[:2] if file else ([], [])
        for file in (path, test)
    ]
    classes = tuple(sorted({name for _, names in parts for name in names}))
    if len(classes) < 2:
        raise ValueError(
            f"{Path(path).name} must have at least two classes. Got {list(classes)} instead. "
            "Check which column holds the label."
        )
    position = {name: i for i, name in enumerate(classes)}
    digest = hashlib.sha256()
    codes = []
    for texts, names in parts:
        for text, name in zip(texts, names):
            digest.update(f"{name}\t{text}\n".encode())
        digest.update(b"\0")
        codes.append(np.array([position[name] for name in names], dtype=np.int64))
    (train_texts, _), (test_texts, _) = parts
    name = Path(path).name.split(".")[0]
    return Dataset(name, train_texts, codes[0], test_texts, codes[1], classes, digest.hexdigest())
