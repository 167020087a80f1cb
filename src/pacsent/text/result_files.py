"""Results to files, batch by batch: .csv, .tsv, .jsonl and .parquet, and .npy, .npz for vectors.

The suffix says the format. A batch is a dict from column name to values, in the order of the
output: a list, an array of one dimension, an array of vectors of two, or an array of pyarrow. The
first batch gives the columns and their types and may have no rows.

Memory does not grow with the number of rows. A file is written next to its place and moved
there when whole.
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
from pacsent.text.tables import listed, pyarrow

Batch = Mapping[str, Any]
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_SEEKING = (".npy", ".npz", ".parquet")  # their beginning or end is written last
_ROW_GROUP = 64 << 20  # bytes of vectors in a row group


def write(
    batches: Iterable[Batch],
    path: str | os.PathLike | None,
    *,
    overwrite: bool = False,
    suffix: str | None = None,
) -> int:
    """Write batches; the number of rows.

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
    writer = WRITERS[suffix or check_name(path or "")]
    with files.replacing(path) as file:
        return sum(writer(iter(batches), file))


def check_name(
    path: str | os.PathLike, allowed: Iterable[str] | None = None, *, ids: bool = False,
    texts: bool = False,
) -> str:  # fmt: skip
    """Return the suffix of a file that can be written; an error before any work is done.

    >>> check_name('vectors.jsonl', ids=True)
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
        what = "texts" if texts else "ids"
        raise ValueError(
            f"The output must end in .csv, .tsv, .jsonl or .parquet to hold {what}. Got "
            f"{str(path)!r} instead: it holds numbers only."
        )
    if suffix == ".parquet":
        pyarrow()
    if suffix in _SEEKING and files.is_stream(path):
        raise ValueError(
            f"A pipe or a device takes .csv, .tsv or .jsonl, which are written front to back. Got "
            f"{str(path)!r} instead. Write {suffix} to a file."
        )
    return suffix


class Waiting:
    """Columns that wait for the results of their rows, a few batches at a time.

    >>> waiting = Waiting(["id"])
    >>> waiting.put({"id": [7, 8, 9]})
    >>> waiting.take(2)
    {'id': [7, 8]}
    """

    def __init__(self, names: Iterable[str]):
        self._columns: dict[str, Any] = {name: [] for name in names}

    def put(self, columns: Batch) -> None:
        """Add the columns of further rows."""
        for name, held in self._columns.items():
            if isinstance(columns[name], list):
                held += columns[name]
            else:
                parts = [columns[name]] if isinstance(held, list) else [held, columns[name]]
                self._columns[name] = pyarrow().concat_arrays(parts)

    def take(self, n: int) -> dict[str, Any]:
        """Return the columns of the next n rows."""
        found = {name: held[:n] for name, held in self._columns.items()}
        self._columns = {name: held[n:] for name, held in self._columns.items()}
        return found


def _n_rows(batch: Batch) -> int:
    return len(next(iter(batch.values())))


# ---- text ---------------------------------------------------------------------------------------


def _spread(batch: Batch) -> Iterator[tuple[str, list]]:
    """Names and cells of the columns; a column of vectors is one for each dimension."""
    for name, column in batch.items():
        if getattr(column, "ndim", 1) == 2:
            form = _number_format(column)
            for at in range(column.shape[1]):
                yield f"{name}_{at}", [form % value for value in column[:, at].tolist()]
        else:
            yield name, [_cell(value) for value in listed(column)]


def _number_format(column: np.ndarray) -> str:
    # nine digits bring a float32 back exactly, seventeen a float64
    return f"%.{17 if column.dtype == np.float64 else 9}g"


def _cell(value) -> str:
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return ""
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return repr(value) if isinstance(value, float) else str(value)


def _separated(batches, file: IO[bytes], separator: str) -> Iterator[int]:
    for number, batch in enumerate(batches):
        columns = dict(_spread(batch))
        written = io.StringIO()
        writer = csv.writer(written, delimiter=separator, lineterminator="\n")
        if number == 0:
            writer.writerow(columns)
        writer.writerows(zip(*columns.values()))
        file.write(_encoded(written.getvalue()))
        yield _n_rows(batch)


def _lines(batches, file: IO[bytes]) -> Iterator[int]:
    """As `_plain`, with a header; tabs and line breaks in values become spaces."""
    first = next(batches, None)
    if first is None:
        return iter(())
    file.write(_encoded("\t".join(first) + "\n"))
    batches = itertools.chain([first], batches)
    return _plain(batches, file, lambda value: re.sub(r"[\t\r\n]", " ", _cell(value)))


def _plain(batches, file: IO[bytes], cell=_cell) -> Iterator[int]:
    """Lines of values between tabs, as they are: no header, no quotes."""
    for batch in batches:
        columns = []
        for column in batch.values():
            if getattr(column, "ndim", 1) == 2:
                line = "\t".join([_number_format(column)] * column.shape[1])
                columns.append([line % tuple(row) for row in column.tolist()])
            else:
                columns.append([cell(value) for value in listed(column)])
        file.write(_encoded("".join("\t".join(row) + "\n" for row in zip(*columns))))
        yield _n_rows(batch)


def _jsonl(batches, file: IO[bytes]) -> Iterator[int]:
    for batch in batches:
        names = [json.dumps(name, ensure_ascii=False) for name in batch]
        columns = [
            # str of a float32 is the shortest text that brings it back
            [f"[{', '.join(map(str, row))}]" for row in column]
            if getattr(column, "ndim", 1) == 2
            else [_json(value) for value in listed(column)]
            for column in batch.values()
        ]
        form = "{" + ", ".join(f"{name.replace('%', '%%')}: %s" for name in names) + "}\n"
        file.write(_encoded("".join(form % row for row in zip(*columns))))
        yield _n_rows(batch)


def _json(value) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "null"  # JSON has no nan
    return json.dumps(value, ensure_ascii=False, default=_as_text)


def _as_text(value) -> str:
    if isinstance(value, bytes):
        raise ValueError("JSON lines hold no bytes. Leave the column out, or write Parquet.")
    return str(value)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")  # half a character, as JSON writes it


# ---- numbers ------------------------------------------------------------------------------------


def _npy(batches, file: IO[bytes]) -> Iterator[int]:
    table = None
    for batch in batches:
        (vectors,) = (one for one in batch.values() if getattr(one, "ndim", 1) == 2)
        table = table or _NpyFile(file, vectors.shape[1:])
        table.append(vectors)
        yield len(vectors)
    if table is not None:
        table.finish()


def _npz(batches, file: IO[bytes]) -> Iterator[int]:
    folder = os.path.dirname(file.name) or None  # /tmp may be memory
    arrays: dict[str, _NpyFile] = {}
    strings: dict[str, list[str]] = {}  # held: a width for all is known at the end
    try:
        for batch in batches:
            for name, column in batch.items():
                if isinstance(column, np.ndarray):
                    if name not in arrays:
                        held = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (closed below)
                        arrays[name] = _NpyFile(held, column.shape[1:])
                    arrays[name].append(column)
                else:
                    strings.setdefault(name, []).extend(map(str, listed(column)))
            yield _n_rows(batch)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, values in strings.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.save(member, np.array(values, dtype=str), allow_pickle=False)
            for name, part in arrays.items():
                part.finish()
                part.file.seek(0)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    shutil.copyfileobj(part.file, member, 1 << 20)
    finally:
        for part in arrays.values():
            part.file.close()


class _NpyFile:
    """A .npy file that grows; its header, which holds the length, is written last."""

    def __init__(self, file: IO[bytes], row_shape):
        self.file = file
        self.row_shape, self.n_rows, self.dtype = row_shape, 0, np.dtype("<f4")
        self.file.write(self._header())

    def append(self, rows):
        self.dtype = rows.dtype.newbyteorder("<")
        self.file.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.n_rows += len(rows)

    def finish(self):
        self.file.seek(0)
        self.file.write(self._header())

    def _header(self) -> bytes:
        """NumPy's own, which leaves space for any number of rows: always of the same length."""
        shape = (self.n_rows, *self.row_shape)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        written = io.BytesIO()
        np.lib.format.write_array_header_1_0(written, header)
        return written.getvalue()


# ---- Parquet ------------------------------------------------------------------------------------


def _parquet(batches, file: Any) -> Iterator[int]:
    pa = pyarrow()
    import pyarrow.parquet as pq

    held: list[Batch] = []  # up to the first rows, which say the types
    for batch in batches:
        held.append(batch)
        if _n_rows(batch):
            break
    else:
        if not held:
            return
    first = held[-1]
    fields = [pa.field(name, *_arrow(name, column)[1:]) for name, column in first.items()]
    schema = pa.schema(fields)
    vectors = {name: column.shape[1] for name, column in first.items()
               if getattr(column, "ndim", 1) == 2}  # fmt: skip
    others = [name for name in first if name not in vectors]
    compression = {f"{name}.list.element" if name in vectors else name:
                   "none" if name in vectors else "zstd" for name in first}  # fmt: skip
    widest = max(vectors.values(), default=16)
    writer = pq.ParquetWriter(
        file, schema, use_dictionary=others, write_statistics=others, compression=compression
    )
    with writer:
        for batch in itertools.chain(held, batches):
            arrays = [
                _arrow(name, column, schema.field(name).type)[0] for name, column in batch.items()
            ]
            writer.write_batch(
                pa.record_batch(arrays, schema=schema),
                row_group_size=max(1, _ROW_GROUP // (4 * widest)),
            )
            yield _n_rows(batch)


def _arrow(name: str, column, kind=None) -> tuple[Any, Any, bool]:
    """The array, its type, and whether it may have nulls."""
    pa = pyarrow()
    if getattr(column, "ndim", 1) == 2:
        numbers = pa.array(np.ascontiguousarray(column).reshape(-1))
        kind = pa.list_(pa.field("element", numbers.type, nullable=False), column.shape[1])
        return pa.FixedSizeListArray.from_arrays(numbers, type=kind), kind, False
    try:
        if isinstance(column, np.ndarray):  # nan becomes null
            array = pa.array(column, kind, from_pandas=True)
        elif isinstance(column, (pa.Array, pa.ChunkedArray)):
            array = column if kind is None or column.type == kind else column.cast(kind)
        else:
            array = pa.array(column, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ValueError(
            f"The column {name} must be of one type. Got others instead "
            f"({str(error).splitlines()[0]}). Keep it as text, or leave it out."
        ) from None
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    return array, array.type, True


WRITERS: dict[str, Any] = {
    ".npy": _npy, ".npz": _npz, ".tsv": partial(_separated, separator="\t"),
    ".csv": partial(_separated, separator=","), ".jsonl": _jsonl, ".parquet": _parquet,
    "plain": _plain, "lines": _lines,
}  # fmt: skip
