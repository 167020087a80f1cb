"""Checksums of files and of JSON.

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


def row_bytes(X: Any) -> Iterator[bytes]:
    """Bytes of each row that are equal for equal rows, whatever contains them.

    A row of numbers is its nonzero values as float64 and their columns; any other its plain values.
    """
    if hasattr(X, "tocsr"):
        X = X.astype(np.float64)
        X.sum_duplicates()
        X.eliminate_zeros()
        for start, stop in zip(X.indptr[:-1], X.indptr[1:]):
            yield X.indices[start:stop].astype(np.int64).tobytes() + X.data[start:stop].tobytes()
        return
    if hasattr(X, "columns") or hasattr(X, "column_names"):
        X = (X if hasattr(X, "iloc") else X.to_pandas()).itertuples(index=False, name=None)
    for row in X:
        if isinstance(row, list | tuple) or getattr(row, "dtype", None) == np.object_:
            plain = [float(x) if isinstance(x, int | float | np.number) else x for x in row]
            row = np.array(plain) if all(type(value) is float for value in plain) else plain
        if isinstance(row, np.ndarray) and row.dtype.kind in "biuf":
            columns = np.flatnonzero(row)
            yield columns.astype(np.int64).tobytes() + row.flat[columns].astype(float).tobytes()
        else:
            yield repr(row.tolist() if isinstance(row, np.ndarray) else row).encode()
