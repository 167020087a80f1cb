"""Texts and labels from files of any kind: lines, TSV, CSV, JSON lines, Parquet."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from pacsent.text.labelled import read_rows, table_of, whole_rows
from pacsent.text.reading import read_lines

TEXT, LABEL = "text", "label"


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return "json"
    return "parquet" if suffix in (".parquet", ".pq") else "lines"


def _missing(path, column, found):
    return ValueError(
        f"The columns of {path.name} must include {column}. Got {', '.join(map(str, found))} "
        "instead. Name the columns as the file does (text_column, label_column)."
    )


def _json_rows(path, columns):
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise ValueError(
                f"Line {number:,} of {path.name} must be a JSON object. Got {line[:40]!r} instead."
            )
        for column in columns:
            if row.get(column) is None:
                raise _missing(path, column, row)
        yield tuple(row[column] for column in columns)


def _parquet_rows(path, columns):
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            "Reading Parquet needs pyarrow. Install it: pip install 'pacsent[parquet]'."
        ) from None
    file = parquet.ParquetFile(path)
    for column in columns:
        if column not in file.schema_arrow.names:
            raise _missing(path, column, file.schema_arrow.names)
    for batch in file.iter_batches(columns=list(columns)):
        yield from zip(*(batch.column(column).to_pylist() for column in columns))


def read_labelled_texts(
    path: str | os.PathLike, *, text_column: str | None = None, label_column: str | None = None
) -> tuple[list[str], list[str]]:
    """Texts and labels: `label<TAB>text` lines, CSV or TSV with named columns, JSONL, Parquet.

    Columns of JSONL and Parquet are `text` and `label` where they are not named.
    """
    path = Path(path)
    kind = _kind(path)
    if kind == "lines":
        if (text_column is None) != (label_column is None):
            raise ValueError(
                "text_column and label_column must be given together for a CSV or TSV. Name both, "
                "or none for lines of label<TAB>text."
            )
        return read_rows(path, text_column, label_column)
    columns = text_column or TEXT, label_column or LABEL
    rows = list((_json_rows if kind == "json" else _parquet_rows)(path, columns))
    if not rows:
        raise ValueError(f"{path.name} must hold labelled text. Got an empty file instead.")
    for number, (text, label) in enumerate(rows, 1):
        if not isinstance(text, str) or label is None:
            raise ValueError(
                f"Row {number:,} of {path.name} must have a text and a label. Got {text!r}, "
                f"{label!r} instead."
            )
    texts, labels = zip(*rows)
    return list(texts), [str(label) for label in labels]


def stream_texts(path: str | os.PathLike, *, text_column: str | None = None) -> Iterator[str]:
    """Texts one after the other, in constant memory: a line each, or a column of a table.

    A CSV or TSV is read as a table where its column is named.
    """
    if str(path) == "-":
        yield from read_lines("-")
        return
    path = Path(path)
    kind = _kind(path)
    if kind != "lines":
        read = _json_rows if kind == "json" else _parquet_rows
        for (text,) in read(path, (text_column or TEXT,)):
            yield str(text)
        return
    if text_column is None:
        yield from read_lines(path)
        return
    with path.open(encoding="utf-8", newline="") as file:
        rows = table_of(file, path)
        if text_column not in (rows.fieldnames or ()):
            raise _missing(path, text_column, rows.fieldnames or ())
        for row in whole_rows(rows, path):
            yield row[text_column] or ""
