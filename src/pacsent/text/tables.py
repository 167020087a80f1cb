"""Texts and labels from files of any kind: lines, TSV, CSV, JSON lines, Parquet."""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from pacsent.lazy import install_hint
from pacsent.text.labelled import checked_name, read_rows, table_rows, unpacked_suffix
from pacsent.text.reading import read_lines

TEXT, LABEL = "text", "label"


def _kind(path: Path) -> str:
    suffix = unpacked_suffix(path)
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
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise ValueError(
                f"Line {number:,} of {path.name} must be a JSON object. Got {line[:40]!r} instead."
            )
        for column in columns:
            if column not in row:
                raise _missing(path, column, row)
        yield number, tuple(row[column] for column in columns)


def _parquet_rows(path, columns):
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            f"Reading Parquet needs pyarrow, which is not installed. {install_hint('parquet')}"
        ) from None
    file = parquet.ParquetFile(path)
    for column in columns:
        if column not in file.schema_arrow.names:
            raise _missing(path, column, file.schema_arrow.names)
    number = 0
    for batch in file.iter_batches(columns=list(dict.fromkeys(columns))):
        for row in zip(*(batch.column(column).to_pylist() for column in columns)):
            number += 1
            yield number, row


_ROWS = {"json": _json_rows, "parquet": _parquet_rows, "lines": table_rows}


def _checked_text(path, number, text) -> str:
    if not isinstance(text, str):
        kind = "nothing" if text is None else f"{type(text).__name__} {str(text)[:40]!r}"
        raise ValueError(
            f"Row {number:,} of {path.name} must have a text. Got {kind} instead. Leave the row "
            "out, or put a text there."
        )
    return text


def read_labelled_texts(
    path: str | os.PathLike, *, text_column: str | None = None, label_column: str | None = None
) -> tuple[list[str], list[str]]:
    """Texts and labels: `label<TAB>text` lines, CSV or TSV with named columns, JSONL, Parquet.

    Columns of JSONL and Parquet are `text` and `label` where they are not named.
    """
    path = Path(path)
    if _kind(path) == "lines":
        if (text_column is None) != (label_column is None):
            raise ValueError(
                "text_column and label_column must be given together for a CSV or TSV. Name both, "
                "or none for lines of label<TAB>text."
            )
        return read_rows(path, text_column, label_column)
    texts, labels = _read(path, (text_column or TEXT, label_column or LABEL), ("label",))
    return texts, labels


def read_grouped_texts(
    path: str | os.PathLike,
    *,
    group_column: str,
    text_column: str | None = None,
    label_column: str | None = None,
) -> tuple[list[str], list[str], list[str]]:
    """Texts, labels and groups (the book, the author, the day) of a CSV, TSV, JSONL or Parquet.

    The columns of text and label are `text` and `label` where they are not named.
    """
    columns = text_column or TEXT, label_column or LABEL, group_column
    texts, labels, groups = _read(Path(path), columns, ("label", "group"))
    return texts, labels, groups


def _read(path: Path, columns: Sequence[str], names: Sequence[str]) -> list[list[str]]:
    """Columns of a table, the first of texts, the others of names; all rows have all of them."""
    found: list[list[str]] = [[] for _ in columns]
    for number, (text, *values) in _ROWS[_kind(path)](path, columns):
        found[0].append(_checked_text(path, number, text))
        for column, what, value in zip(found[1:], names, values):
            column.append(checked_name(value, what, f"Row {number:,} of {path.name}"))
    if not found[0]:
        raise ValueError(f"{path.name} must hold labelled text. Got an empty file instead.")
    return found


def stream_texts(path: str | os.PathLike, *, text_column: str | None = None) -> Iterator[str]:
    """Texts one after the other, in constant memory: a line each, or a column of a table.

    A name in .csv, .tsv, .jsonl or .parquet, packed or not, is a table. Its column is `text` where
    it is not named.
    """
    if str(path) == "-":
        if text_column is not None:
            raise ValueError(
                f"text_column must be left out for standard input, which is read line by line. Got "
                f"{text_column!r} instead. Give a table as a file."
            )
        yield from read_lines("-")
        return
    path = Path(path)
    kind = _kind(path)
    table = kind != "lines" or unpacked_suffix(path) in (".csv", ".tsv")
    if not table and text_column is None:
        yield from read_lines(path)
        return
    for number, (text,) in _ROWS[kind](path, (text_column or TEXT,)):
        yield _checked_text(path, number, text)
