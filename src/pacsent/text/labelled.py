"""Texts with class labels: `Dataset`, and reading it from a user's own TSV or CSV file."""

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import numpy as np

from pacsent.text.sentences import as_sentences


@dataclass(frozen=True, eq=False)
class Dataset:
    """Texts with class labels; a test part where the authors fixed one.

    Attributes
    ----------
    name : str
    train_texts, test_texts : list of str
        `test_texts` is empty where there is no fixed split; `split` makes one.
    train_labels, test_labels : array of int64
        Positions in `classes`.
    classes : tuple of str
    digest : str
        sha256 of the content that was read, whatever it was packed in.

    Examples
    --------
    >>> import numpy as np
    >>> nothing = [], np.array([], dtype=np.int64)
    >>> data = Dataset('films', ['good'], np.array([1]), *nothing, ('no', 'yes'), '')
    >>> data.classes[data.train_labels[0]]
    'yes'
    """

    name: str
    train_texts: list[str]
    train_labels: np.ndarray
    test_texts: list[str]
    test_labels: np.ndarray
    classes: tuple[str, ...]
    digest: str

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

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {len(self.train_texts):,} train, "
            f"{len(self.test_texts):,} test, {len(self.classes)} classes)"
        )

    @property
    def has_fixed_split(self) -> bool:
        return len(self.test_texts) > 0

    def split(self, seed: int = 0, test_size: float = 0.2) -> "Dataset":
        """The authors' split where there is one, else a random one (80/20), a function of `seed`.

        The parts keep the order of the file, so that a part depends on its members only.
        """
        if self.has_fixed_split:
            return self
        train, test = self.split_rows(seed, test_size)
        return replace(
            self,
            train_texts=[self.train_texts[i] for i in train],
            train_labels=self.train_labels[train],
            test_texts=[self.train_texts[i] for i in test],
            test_labels=self.train_labels[test],
        )

    def split_rows(self, seed: int = 0, test_size: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the training and the test part of `split(seed)`, for a dataset without one."""
        n_documents = len(self.train_texts)
        n_test = round(n_documents * test_size)
        order = np.random.default_rng([seed, 80_20]).permutation(n_documents)
        return np.sort(order[n_test:]), np.sort(order[:n_test])


# ------------------------------------------------------------------------------------------------
# One's own labelled text
# ------------------------------------------------------------------------------------------------


def read_labelled(
    path: str | Path,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    test: str | Path | None = None,
) -> Dataset:
    """A dataset from one's own file: `label<TAB>text` lines, or a CSV with named columns.

    Parameters
    ----------
    path : path
        UTF-8. Read as CSV where both columns are named (commas; tabs for a name in .tsv).
    text_column, label_column : str or None
        Names in the first line of the CSV.
    test : path or None
        A second file of the same kind as the test part; without it `split` makes one.
    """
    if (text_column is None) != (label_column is None):
        raise ValueError(
            "text_column and label_column must be given together. Got "
            f"text_column={text_column!r}, label_column={label_column!r} instead. Name both for "
            "a CSV, or none for lines of label<TAB>text."
        )
    train_texts, train_names = read_rows(Path(path), text_column, label_column)
    test_texts: list[str] = []
    test_names: list[str] = []
    if test is not None:
        test_texts, test_names = read_rows(Path(test), text_column, label_column)
    classes = tuple(sorted({*train_names, *test_names}))
    if len(classes) < 2:
        raise ValueError(
            f"{Path(path).name} must hold at least two classes. Got {list(classes)} instead. "
            "Check which column holds the label."
        )
    position = {name: i for i, name in enumerate(classes)}
    total = hashlib.sha256()
    for part in ((train_texts, train_names), (test_texts, test_names)):
        for text, name in zip(*part):
            total.update(f"{name}\t{text}\n".encode())
        total.update(b"\0")
    return Dataset(
        Path(path).name.split(".")[0],
        train_texts,
        np.array([position[name] for name in train_names], dtype=np.int64),
        test_texts,
        np.array([position[name] for name in test_names], dtype=np.int64),
        classes,
        total.hexdigest(),
    )


def read_rows(
    path: Path, text_column: str | None, label_column: str | None
) -> tuple[list[str], list[str]]:
    """Texts and labels of `label<TAB>text` lines, or of named columns of a CSV or TSV."""
    if not path.is_file():
        raise FileNotFoundError(
            f"The file with the labelled text must exist. Got {str(path)!r} instead. Check the "
            "path."
        )
    texts: list[str] = []
    labels: list[str] = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            if text_column is None:
                for number, line in enumerate(file, 1):
                    if not line.strip():
                        continue
                    label, tab, text = line.rstrip("\r\n").partition("\t")
                    if not tab or not label.strip():
                        raise ValueError(
                            f"Line {number:,} of {path.name} must be label<TAB>text. Got "
                            f"{line[:40]!r} instead. For a CSV name its columns (--text-column, "
                            "--label-column)."
                        )
                    labels.append(label.strip())
                    texts.append(text)
            else:
                rows = table_of(file, path)
                wanted = {str(text_column), str(label_column)}
                missing = wanted - set(rows.fieldnames or ())
                if missing:
                    raise ValueError(
                        f"The columns of {path.name} must include {', '.join(sorted(missing))}. "
                        f"Got {_one_line(rows.fieldnames)} instead. Name the columns as its first "
                        "line does."
                    )
                assert label_column is not None
                for row in whole_rows(rows, path):
                    if row[text_column] is None or row[label_column] is None:
                        raise ValueError(
                            f"Line {rows.line_num:,} of {path.name} must have a value in every "
                            "named column. Got a short line instead. Repair the file."
                        )
                    texts.append(row[text_column])
                    labels.append(row[label_column].strip())
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path.name} must be UTF-8 text. Got the byte {error.object[error.start]:#04x} at "
            f"position {error.start:,} instead. Convert it first."
        ) from None
    if not texts:
        raise ValueError(
            f"{path.name} must hold labelled text. Got an empty file instead. Check the path."
        )
    return texts, labels


def table_of(file: TextIO, path: Path) -> "csv.DictReader[str]":
    """A CSV, or a table of tabs where the name ends in .tsv, to be read row by row."""
    return csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ",")


def whole_rows(rows: "csv.DictReader[str]", path: Path) -> Iterator[dict[str, str]]:
    """The rows, where no lone quotation mark has made one of several lines.

    Examples
    --------
    >>> import io
    >>> lines = ["text\\tlabel", '"A mark\\tno', 'and another"\\tyes', ""]
    >>> rows = table_of(io.StringIO("\\n".join(lines)), Path("a.tsv"))
    >>> next(whole_rows(rows, Path("a.tsv")))
    Traceback (most recent call last):
    ...
    ValueError: Line 3 of a.tsv ends a value that began on an earlier line with a quotation mark...
    """
    for row in rows:
        for value in row.values():
            # commas are in every text; a tab after a line's end is the next row's
            if path.suffix == ".tsv" and isinstance(value, str) and "\t" in value and "\n" in value:
                raise ValueError(
                    f"Line {rows.line_num:,} of {path.name} ends a value that began on an earlier "
                    "line with a quotation mark and holds whole lines of the table. A value that "
                    'begins with " must be quoted as a whole, its own marks doubled. Write the '
                    "file with such quotes, or as JSON lines."
                )
        yield row


def _one_line(names) -> str:
    """Names of columns for a message; a quoted one may hold line breaks."""
    return ", ".join(" ".join(name.split()) for name in names or ())
