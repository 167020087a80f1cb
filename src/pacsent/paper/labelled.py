"""Texts with class labels: `Dataset`, and `read_labelled`, which reads it from a user's file."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pacsent.text.tables import Report, read_labelled_texts
from pacsent.text.texts import as_sentences


@dataclass(frozen=True, eq=False)
class Dataset:
    """Texts with class labels; a test part where the authors fixed one.

    Examples
    --------
    >>> none = np.zeros(0, dtype=int)
    >>> dataset = Dataset("films", ["good", "bad"], np.array([1, 0]), [], none, ("no", "yes"), "")
    >>> dataset.classes[dataset.train_labels[0]]
    'yes'
    """

    name: str
    train_texts: list[str]
    train_labels: np.ndarray  # positions in `classes`
    test_texts: list[str]  # empty where there is no fixed split; `split` makes one
    test_labels: np.ndarray
    classes: tuple[str, ...]
    digest: str  # sha256 of the content that was read, whatever it was packed in

    def __post_init__(self) -> None:
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
        train_rows, test_rows = self.split_rows(seed)
        return replace(
            self,
            train_texts=[self.train_texts[i] for i in train_rows],
            train_labels=self.train_labels[train_rows],
            test_texts=[self.train_texts[i] for i in test_rows],
            test_labels=self.train_labels[test_rows],
        )

    def split_rows(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the training and the test part of `split(seed)`, for a dataset without one."""
        n_documents = len(self.train_texts)
        n_test = round(0.2 * n_documents)
        rng = np.random.default_rng([seed, 80_20])
        order = rng.permutation(n_documents)
        train_rows = np.sort(order[n_test:])
        test_rows = np.sort(order[:n_test])
        return train_rows, test_rows


def read_labelled(
    path: str | Path,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    kind: str | None = None,
    test: str | Path | None = None,
    report: Report | None = None,
) -> Dataset:
    """Return a dataset from a user's own file.

    Parameters
    ----------
    path, text_column, label_column, kind, report
        As of `pacsent.text.read_labelled_texts`.
    test : path, optional
        A second file of the same kind, the test part; without it `Dataset.split` makes one.

    Returns
    -------
    dataset : Dataset

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "films.csv"
    >>> _ = path.write_text("text,label\\na quiet film,good\\na loud film,bad\\n")
    >>> read_labelled(path).classes
    ('bad', 'good')
    """

    def read(file: str | Path | None) -> tuple[list[str], list[str]]:
        """Texts and names of classes; none without a file."""
        if not file:
            return [], []
        labelled_texts = read_labelled_texts(
            file, text_column=text_column, label_column=label_column, kind=kind, report=report
        )
        texts, names = labelled_texts[:2]
        return texts, names

    train_texts, train_names = read(path)
    test_texts, test_names = read(test)
    file_name = Path(path).name
    classes = tuple(sorted({*train_names, *test_names}))
    if len(classes) < 2:
        raise ValueError(
            f"{file_name} must have at least two classes. Got {list(classes)} instead. "
            "Check which column holds the label."
        )

    digest = hashlib.sha256()
    for texts, names in ((train_texts, train_names), (test_texts, test_names)):
        for text, name in zip(texts, names):
            digest.update(f"{name}\t{text}\n".encode())
        digest.update(b"\0")

    code_of = {name: code for code, name in enumerate(classes)}
    return Dataset(
        name=file_name.split(".")[0],
        train_texts=train_texts,
        train_labels=np.array([code_of[name] for name in train_names], dtype=np.int64),
        test_texts=test_texts,
        test_labels=np.array([code_of[name] for name in test_names], dtype=np.int64),
        classes=classes,
        digest=digest.hexdigest(),
    )
