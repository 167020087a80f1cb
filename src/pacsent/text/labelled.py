"""Texts with class labels: `Dataset`, and reading it from a user's own TSV or CSV file."""

import csv
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pacsent.text.reading import PACKED, read_lines
from pacsent.text.texts import as_sentences

_LONGEST = 2**31 - 1  # characters of a value of a table


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
        UTF-8, packed or not. Read as CSV where both columns are named (commas; tabs for a name
        in .tsv).
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
    rows: Iterator[tuple[int, tuple[str, ...]]]
    if text_column is None or label_column is None:
        rows = labelled_lines(path)
    else:
        rows = table_rows(path, (text_column, label_column))
    texts: list[str] = []
    labels: list[str] = []
    for number, (text, label) in rows:
        texts.append(text)
        labels.append(checked_name(label, "label", f"Line {number:,} of {path.name}"))
    if not texts:
        raise ValueError(
            f"{path.name} must hold labelled text. Got an empty file instead. Check the path."
        )
    return texts, labels


def checked_name(value: Any, what: str, where: str) -> str:
    """A label or a group as it is called, or one clear line where there is none.

    Examples
    --------
    >>> checked_name(" yes ", "label", "Line 3 of a.csv"), checked_name(4, "label", "Row 1 of a.pq")
    ('yes', '4')
    """
    name = str(value).strip()
    if value is None or value != value or not name:
        raise ValueError(
            f"{where} must have a {what}. Got none instead. Leave the row out, or give it one."
        )
    if isinstance(value, (list, dict, bytes)):
        raise ValueError(
            f"{where} must have one {what}: a string or a number. Got {name[:40]} instead."
        )
    return name


def labelled_lines(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Number, text and label of each line of `label<TAB>text`, packed or not."""
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        label, tab, text = line.partition("\t")
        if not tab or not label.strip():
            raise ValueError(
                f"Line {number:,} of {path.name} must be label<TAB>text. Got {line[:40]!r} "
                "instead. For a CSV name its columns (--text-column, --label-column)."
            )
        yield number, (text, label)


def _lines(path: Path) -> Iterator[str]:
    if not path.exists():
        raise FileNotFoundError(
            f"The file with the labelled text must exist. Got {str(path)!r} instead. Check the "
            "path."
        )
    return read_lines(path)


def table_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Number of the line and the named values of each row of a CSV or, named .tsv, of tabs.

    The file may be packed. A row that cannot be what its writer meant is refused with its line:
    one with more values than columns (a comma that is not quoted moves all that follow), one too
    short, a lone quotation mark that has made one value of several lines.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.csv"
    ...     n = path.write_text('label,text\\nyes,"Well, well"\\nno,Oh, no\\n')
    ...     rows = table_rows(path, ("text", "label"))
    ...     print(next(rows))
    ...     next(rows)
    Traceback (most recent call last):
    ...
    ValueError: Line 3 of a.csv must have 2 values, one for each column. Got 3 instead. Quote ...
    """
    tabs = unpacked_suffix(path) == ".tsv"
    csv.field_size_limit(_LONGEST)
    lines = (line + "\n" for line in _lines(path))
    reader = csv.reader(lines, delimiter="\t" if tabs else ",", strict=not tabs)
    try:
        header = next(reader, [])
        places = [_column(path, header, column) for column in columns]
        for row in reader:
            if not row:
                continue  # a blank line
            _check_row(path, reader.line_num, row, len(header), max(places))
            values = tuple(row[place] for place in places)
            # commas are in every text; a tab after a line's end is the next row's
            if tabs and any("\t" in value and "\n" in value for value in row):
                raise ValueError(
                    f"Line {reader.line_num:,} of {path.name} ends a value that began on an "
                    "earlier line with a quotation mark and holds whole lines of the table. A "
                    'value that begins with " must be quoted as a whole, its own marks doubled. '
                    "Write the file with such quotes, or as JSON lines."
                )
            yield reader.line_num, values
    except csv.Error as error:
        raise ValueError(
            f"Line {reader.line_num:,} of {path.name} must be a row of a CSV. It is not: {error}. "
            'A value that begins with " must be quoted as a whole, its own marks doubled. Repair '
            "the file, or write it as JSON lines."
        ) from None


def unpacked_suffix(path: Path) -> str:
    """The suffix that says what a file holds, whatever it is packed in.

    Examples
    --------
    >>> unpacked_suffix(Path("a.TSV.gz")), unpacked_suffix(Path("a.csv"))
    ('.tsv', '.csv')
    """
    packed = path.suffix.lower() in PACKED
    return Path(path.stem if packed else path.name).suffix.lower()


def _column(path: Path, header: Sequence[str], column: str) -> int:
    if column not in header:
        names = ", ".join(" ".join(name.split()) for name in header)
        raise ValueError(
            f"The columns of {path.name} must include {column}. Got {names} instead. Name the "
            "columns as its first line does; a file of plain lines is called .txt."
        )
    if list(header).count(column) > 1:
        raise ValueError(
            f"{path.name} must have one column named {column}. Got {list(header).count(column)} "
            "instead. Rename one of them."
        )
    return list(header).index(column)


def _check_row(path: Path, number: int, row: list[str], n_columns: int, last: int) -> None:
    if len(row) > n_columns and any(row[n_columns:]):
        raise ValueError(
            f"Line {number:,} of {path.name} must have {n_columns:,} values, one for each column. "
            f"Got {len(row):,} instead. Quote values that hold the separator."
        )
    if len(row) <= last:
        raise ValueError(
            f"Line {number:,} of {path.name} must have a value in every named column. Got a short "
            "line instead. Repair the file."
        )
