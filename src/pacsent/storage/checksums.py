"""Checksums of files, of JSON and of rows of tables.

They find what disks, copies and edits do to a saved file. They are not signatures: whoever writes a
folder can write its checksums.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np


def file_record(path: str | os.PathLike) -> dict:
    """Size and SHA-256 of a file, as config.json keeps them."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"bytes": file.tell(), "sha256": digest}


def checksum_of_json(value: object) -> str:
    """Checksum of the content, whatever the order of the keys and the white space of the file.

    >>> checksum_of_json({'a': 1, 'b': 2}) == checksum_of_json({'b': 2, 'a': 1})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def checked_json(content: bytes) -> dict | None:
    """An object of JSON whose checksum and format version are right; None if it is damaged."""
    try:
        about = json.loads(content)
        stored_checksum = about.pop("checksum")
        is_intact = stored_checksum == checksum_of_json(about) and about["format_version"] == 1
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return about if is_intact else None


def row_bytes(X: Any) -> Iterator[bytes]:
    """Bytes of each row that are equal for equal rows, whatever contains them.

    A row of numbers is its nonzero values as float64 and their columns; any other its plain values.
    """
    if hasattr(X, "tocsr"):
        yield from _sparse_row_bytes(X)
        return

    rows = X
    if hasattr(X, "columns") or hasattr(X, "column_names"):
        table = X if hasattr(X, "iloc") else X.to_pandas()
        rows = table.itertuples(index=False, name=None)

    for row in rows:
        values = row
        if isinstance(row, list | tuple) or getattr(row, "dtype", None) == np.object_:
            values = _plain_values(row)

        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
            columns = np.flatnonzero(values)
            yield _number_bytes(columns, values.flat[columns].astype(float))
        elif isinstance(values, np.ndarray):
            yield repr(values.tolist()).encode()
        else:
            yield repr(values).encode()


def _sparse_row_bytes(X: Any) -> Iterator[bytes]:
    X = X.astype(np.float64)
    X.sum_duplicates()
    X.eliminate_zeros()
    for start, stop in zip(X.indptr[:-1], X.indptr[1:]):
        yield _number_bytes(X.indices[start:stop], X.data[start:stop])


def _number_bytes(columns: np.ndarray, values: np.ndarray) -> bytes:
    return columns.astype(np.int64).tobytes() + values.tobytes()


def _plain_values(row: Any) -> np.ndarray | list:
    """The values of a row as an array if they are numbers, else as a list of plain values."""
    numbers = int | float | np.number
    values = [float(value) if isinstance(value, numbers) else value for value in row]
    is_numeric = all(type(value) is float for value in values)
    return np.array(values) if is_numeric else values


def checksum(values: dict) -> str:
    """SHA-256 of a certificate's fields. It finds damage and changes, not forgery."""
    text = json.dumps(values, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_certificate_json(text: str, name: str, version: int) -> dict[str, Any]:
    """The fields of a certificate of this format; its checksum is checked and left out."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None

    if not isinstance(values, dict) or not {"kind", "format_version"} <= set(values):
        shown = text[:40]
        if isinstance(shown, bytes):
            shown = shown.decode(errors="replace")
        raise ValueError(
            f"{name} must be a certificate as to_json writes it. Got {shown!r} instead. Give "
            "the file that `pacsent certify -o` or to_json wrote."
        )

    if values["format_version"] != version:
        raise ValueError(
            f"{name}: format_version must be {version}. Got {values['format_version']} instead. "
            f"Read it with the pacsent that wrote it ({values.get('pacsent_version', 'unknown')})."
        )

    if values.pop("checksum", None) != checksum(values):
        raise ValueError(
            f"{name}: checksum must be that of the other fields. Got another instead. This "
            "certificate was changed after it was written. Give the file as it was written."
        )
    return values


def as_plain(value: Any) -> Any:
    """Values as JSON can hold them; nan and inf are None, a path its text."""
    if isinstance(value, dict):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return as_plain(value.tolist())
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if value is None or isinstance(value, str | int):
        return value
    return str(value)
