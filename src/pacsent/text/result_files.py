"""Results to files, batch by batch: .csv, .tsv, .jsonl and .parquet, and .npy, .npz for vectors.

The suffix says the format. A batch is a dict from column name to values, in the order of the
output: a list, an array of one dimension, an array of vectors of two, or a pyarrow array. The first
batch gives the columns and their types and may have no rows.

Memory does not grow with the number of rows. A file is written next to its place and moved
there when complete.
"""

import csv
import io
import itertools
import json
import math
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from pacsent import files
from pacsent.text.tables import as_list

Batch = Mapping[str, Any]
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_ROW_GROUP_BYTES = 64 << 20  # of vectors


def write(
    batches: Iterable[Batch],
    path: str | os.PathLike | None,
    *,
    overwrite: bool = False,
    suffix: str | None = None,
) -> int:
    """Write batches and return the number of rows.

    The suffix of the path is the format; None or '-' is stdout. `suffix`, one of `WRITERS`, takes
    its place: "lines" are values between tabs below a header, without quotes; "plain" is that
    without the header.

    >>> path = Path(tempfile.mkdtemp()) / "answers.csv"
    >>> write([{"text": ["well, well"], "label": ["yes"]}], path)
    1
    >>> path.read_text()
    'text,label\\n"well, well",yes\\n'
    """
    files.check_output(path, overwrite=overwrite)
    writer = WRITERS[suffix or check_suffix(path or "")]
    with files.replacing(path) as file:
        return sum(writer(iter(batches), file))


def check_suffix(
    path: str | os.PathLike,
    allowed: Iterable[str] | None = None,
    *,
    ids: bool = False,
    texts: bool = False,
) -> str:
    """Return the suffix of a file that can be written; raise an error before any work is done.

    >>> check_suffix('vectors.jsonl', ids=True)
    '.jsonl'
    """
    suffix = Path(path).suffix.lower()
    known = [name for name in allowed or WRITERS if name.startswith(".")]
    if suffix not in known:
        raise ValueError(
            f"The output must end in {', '.join(known)}. Got {str(path)!r} instead. Leave it "
            "out for tab-separated values on stdout, or end it with / for a folder."
        )
    if (ids and suffix == ".npy") or (texts and suffix in (".npy", ".npz")):
        raise ValueError(
            f"The output must end in .csv, .tsv, .jsonl or .parquet to hold "
            f"{'texts' if texts else 'ids'}. Got {str(path)!r} instead: it holds numbers only."
        )
    if suffix in (".npy", ".npz", ".parquet") and files.is_stream(path):
        raise ValueError(
            f"A pipe or a device takes .csv, .tsv or .jsonl, which are written front to back. Got "
            f"{str(path)!r} instead. Write {suffix} to a file."
        )
    return suffix


class ColumnBuffer:
    """Columns that wait for the results of their rows, a few batches at a time.

    >>> buffer = ColumnBuffer(["id"])
    >>> buffer.put({"id": [7, 8, 9]})
    >>> buffer.take(2)
    {'id': [7, 8]}
    """

    def __init__(self, names: Iterable[str]):
        self._columns: dict[str, Any] = {name: [] for name in names}

    def put(self, columns: Batch) -> None:
        """Add the columns of further rows."""
        for name, waiting in self._columns.items():
            if isinstance(columns[name], list):
                waiting += columns[name]
            else:
                import pyarrow as pa

                parts = [columns[name]] if isinstance(waiting, list) else [waiting, columns[name]]
                self._columns[name] = pa.concat_arrays(parts)

    def take(self, n: int) -> dict[str, Any]:
        """Return the columns of the next n rows."""
        first = {name: column[:n] for name, column in self._columns.items()}
        self._columns = {name: column[n:] for name, column in self._columns.items()}
        return first


def _n_rows(batch: Batch) -> int:
    return len(next(iter(batch.values())))


def _is_matrix(column) -> bool:
    return getattr(column, "ndim", 1) == 2


# ---- text ----------------------------------------------------------------------------------------


def _number_format(column: np.ndarray) -> str:
    # Nine digits bring a float32 back exactly, seventeen a float64.
    return f"%.{17 if column.dtype == np.float64 else 9}g"


def _cell(value) -> str:
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return ""
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return repr(value) if isinstance(value, float) else str(value)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")  # half a character, as JSON writes it


def _write_separated(batches, file: IO[bytes], separator: str) -> Iterator[int]:
    """Write CSV or TSV; a column of vectors becomes one column for each dimension."""
    for number, batch in enumerate(batches):
        columns: dict[str, list[str]] = {}
        for name, column in batch.items():
            if _is_matrix(column):
                form = _number_format(column)
                for i in range(column.shape[1]):
                    columns[f"{name}_{i}"] = [form % value for value in column[:, i].tolist()]
            else:
                columns[name] = [_cell(value) for value in as_list(column)]
        text = io.StringIO()
        writer = csv.writer(text, delimiter=separator, lineterminator="\n")
        if number == 0:
            writer.writerow(columns)
        writer.writerows(zip(*columns.values()))
        file.write(_encode(text.getvalue()))
        yield _n_rows(batch)


def _write_plain(batches, file: IO[bytes], header: bool = False) -> Iterator[int]:
    """Write values between tabs, without quotes; with a header, tabs in values become spaces."""
    for number, batch in enumerate(batches):
        if header and number == 0:
            file.write(_encode("\t".join(batch) + "\n"))
        columns = []
        for column in batch.values():
            if _is_matrix(column):
                form = "\t".join([_number_format(column)] * column.shape[1])
                columns.append([form % tuple(row) for row in column.tolist()])
                continue
            cells = [_cell(value) for value in as_list(column)]
            columns.append([re.sub(r"[\t\r\n]", " ", c) for c in cells] if header else cells)
        file.write(_encode("".join("\t".join(row) + "\n" for row in zip(*columns))))
        yield _n_rows(batch)


def _write_jsonl(batches, file: IO[bytes]) -> Iterator[int]:
    for batch in batches:
        names = [json.dumps(name, ensure_ascii=False) for name in batch]
        columns = [
            # str of a float32 is the shortest text that brings it back
            [f"[{', '.join(map(str, row))}]" for row in column]
            if _is_matrix(column)
            else [_json(value) for value in as_list(column)]
            for column in batch.values()
        ]
        form = "{" + ", ".join(f"{name.replace('%', '%%')}: %s" for name in names) + "}\n"
        file.write(_encode("".join(form % row for row in zip(*columns))))
        yield _n_rows(batch)


def _json(value) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "null"  # JSON has no nan
    return json.dumps(value, ensure_ascii=False, default=_json_text)


def _json_text(value) -> str:
    if isinstance(value, bytes):
        raise ValueError("JSON lines hold no bytes. Leave the column out, or write Parquet.")
    return str(value)


# ---- numbers -------------------------------------------------------------------------------------


class _NpyFile:
    """A .npy file that grows; its header, which holds the length, is written last."""

    def __init__(self, file: IO[bytes], row_shape):
        self.file = file
        self.row_shape, self.n_rows, self.dtype = row_shape, 0, np.dtype("<f4")
        self._write_header()

    def append(self, rows):
        self.dtype = rows.dtype.newbyteorder("<")
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.n_rows += len(rows)

    def finish(self):
        self.file.seek(0)
        self._write_header()

    def _write_header(self) -> None:
        """Write NumPy's own header, which has the same length for any number of rows."""
        shape = (self.n_rows, *self.row_shape)
        np.lib.format.write_array_header_1_0(
            self.file, {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        )


def _write_npy(batches, file: IO[bytes]) -> Iterator[int]:
    array = None
    for batch in batches:
        (vectors,) = filter(_is_matrix, batch.values())
        array = array or _NpyFile(file, vectors.shape[1:])
        array.append(vectors)
        yield len(vectors)
    if array is not None:
        array.finish()


def _write_npz(batches, file: IO[bytes]) -> Iterator[int]:
    folder = os.path.dirname(file.name) or None  # /tmp may be memory
    arrays: dict[str, _NpyFile] = {}
    strings: dict[str, list[str]] = {}  # in memory: their common width is known at the end
    try:
        for batch in batches:
            for name, column in batch.items():
                if isinstance(column, np.ndarray):
                    if name not in arrays:
                        temporary = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
                        arrays[name] = _NpyFile(temporary, column.shape[1:])
                    arrays[name].append(column)
                else:
                    strings.setdefault(name, []).extend(map(str, as_list(column)))
            yield _n_rows(batch)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, values in strings.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.save(member, np.array(values, dtype=str), allow_pickle=False)
            for name, array in arrays.items():
                array.finish()
                array.file.seek(0)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    shutil.copyfileobj(array.file, member, 1 << 20)
    finally:
        for array in arrays.values():
            array.file.close()


# ---- Parquet -------------------------------------------------------------------------------------


def _write_parquet(batches, file: Any) -> Iterator[int]:
    import pyarrow as pa
    from pyarrow import parquet

    first: list[Batch] = []  # up to the first rows, which determine the types
    for batch in batches:
        first.append(batch)
        if _n_rows(batch):
            break
    if not first:
        return
    sample = first[-1]
    arrays = {name: _as_arrow(name, column) for name, column in sample.items()}
    schema = pa.schema(
        [
            pa.field(name, array.type, nullable=not _is_matrix(sample[name]))
            for name, array in arrays.items()
        ]
    )
    # Vectors do not compress; statistics and dictionaries of them would be waste.
    vectors = [name for name, column in sample.items() if _is_matrix(column)]
    others = [name for name in sample if name not in vectors]
    compression = dict.fromkeys(others, "zstd") | {f"{n}.list.element": "none" for n in vectors}
    n_dims = max((sample[name].shape[1] for name in vectors), default=16)
    with parquet.ParquetWriter(
        file, schema, use_dictionary=others, write_statistics=others, compression=compression
    ) as writer:
        for batch in itertools.chain(first, batches):
            columns = [_as_arrow(name, c, schema.field(name).type) for name, c in batch.items()]
            writer.write_batch(
                pa.record_batch(columns, schema=schema),
                row_group_size=max(1, _ROW_GROUP_BYTES // (4 * n_dims)),
            )
            yield _n_rows(batch)


def _as_arrow(name: str, column, dtype=None) -> Any:
    import pyarrow as pa

    if _is_matrix(column):
        numbers = pa.array(np.ascontiguousarray(column).reshape(-1))
        dtype = pa.list_(pa.field("element", numbers.type, nullable=False), column.shape[1])
        return pa.FixedSizeListArray.from_arrays(numbers, type=dtype)
    try:
        if isinstance(column, (pa.Array, pa.ChunkedArray)):
            array = column if dtype in (None, column.type) else column.cast(dtype)
        else:  # nan becomes null in arrays of NumPy
            array = pa.array(column, dtype, from_pandas=isinstance(column, np.ndarray))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ValueError(
            f"The column {name} must be of one type. Got others instead "
            f"({str(error).splitlines()[0]}). Keep it as text, or leave it out."
        ) from None
    return array.cast(pa.string()) if pa.types.is_null(array.type) else array


WRITERS: dict[str, Any] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".tsv": partial(_write_separated, separator="\t"),
    ".csv": partial(_write_separated, separator=","),
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
    "plain": _write_plain,
    "lines": partial(_write_plain, header=True),
}
