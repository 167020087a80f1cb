"""Results to files, batch by batch: .csv, .tsv, .jsonl and .parquet, and .npy for vectors.

The suffix is the format. A batch is a dict from column name to values, in the order of the output:
a list, an array of one dimension, an array of vectors of two, or an Arrow array. The first batch
has the columns and may have no rows. Memory does not grow with the number of rows.

Parquet is written by pyarrow (extra `parquet`), which is imported then.

CSV and JSON lines are written by the standard library: pyarrow puts quotation marks around every
string and has no writer of JSON.
"""

import csv
import io
import itertools
import json
import math
import os
import pickle
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from pacsent import files
from pacsent.optional import import_optional
from pacsent.text.printable import escape_controls
from pacsent.text.tables import as_list

Batch = Mapping[str, Any]
TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_ROW_GROUP_BYTES = 64 << 20  # of vectors


class TypedColumn(list):
    """Values of one type, or None, and the name of their Arrow type, which Parquet needs.

    A batch need not show the type: all of its values may be None.
    """

    def __init__(self, values: Iterable, arrow_type: str):
        super().__init__(values)
        self.arrow_type = arrow_type  # "string", "double", "bool" or "list<...>" of these


def import_pyarrow() -> Any:
    """pyarrow, or an error that says how to get it."""
    return import_optional("pyarrow", "Parquet files need pyarrow", "parquet")


def write(
    batches: Iterable[Batch],
    path: str | os.PathLike | None,
    *,
    overwrite: bool = False,
    suffix: str | None = None,
) -> int:
    """Write batches to a file, which is moved to its place when complete; the number of rows.

    A `path` of None or '-' is stdout. `suffix`, one of `WRITERS`, is the format in place of that of
    the path: "lines" are values between tabs below a header, without quotes; "plain" is that
    without the header. Both are for a terminal: control characters are escaped.

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


def changed_at_end(
    batches: Iterable[Batch],
    decide: Callable[[], Callable[[Batch], Batch]],
    folder: str | None = None,
) -> Iterator[Batch]:
    """The batches, each changed by what is known only after the last one.

    They wait in a temporary file, by default where the system has its own. `decide` is called once,
    after the last batch, and returns the function that changes each of them.

    >>> numbers = [{"n": [1, 2]}, {"n": [3]}]
    >>> [batch["n"] for batch in changed_at_end(numbers, lambda: lambda batch: batch)]
    [[1, 2], [3]]
    """
    with tempfile.TemporaryFile(dir=folder) as waiting:
        n_batches = 0
        for batch in batches:
            columns = {name: _compact(column) for name, column in batch.items()}
            pickle.dump(columns, waiting)
            n_batches += 1

        change = decide()
        waiting.seek(0)
        for _ in range(n_batches):
            yield change(pickle.load(waiting))


def _compact(column: Any) -> Any:
    """A column without the rows beside it: a slice of Arrow is pickled with all of the array."""
    if hasattr(column, "to_pylist"):
        return column.take(np.arange(len(column)))
    return column


def check_suffix(
    path: str | os.PathLike, allowed: Iterable[str] | None = None, *, texts: bool = False
) -> str:
    """Return the suffix of a file that can be written; raise an error before any work is done."""
    suffix = Path(path).suffix.lower()
    known = [name for name in allowed or WRITERS if name.startswith(".")]
    if suffix not in known:
        raise ValueError(
            f"The output must end in {', '.join(known)}. Got {str(path)!r} instead. Leave it "
            "out for tab-separated values on stdout, or end it with / for a folder."
        )
    if texts and suffix == ".npy":
        raise ValueError(
            "The output must end in .csv, .tsv, .jsonl or .parquet to contain texts. Got "
            f"{str(path)!r} instead: it contains numbers only."
        )
    if suffix in (".npy", ".parquet") and files.is_stream(path):
        raise ValueError(
            f"A pipe or a device takes .csv, .tsv or .jsonl, which are written front to back. Got "
            f"{str(path)!r} instead. Write {suffix} to a file."
        )
    if suffix == ".parquet":
        import_pyarrow()
    return suffix


def _n_rows(batch: Batch) -> int:
    return len(next(iter(batch.values())))


def _is_matrix(column: Any) -> bool:
    return getattr(column, "ndim", 1) == 2


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")  # half a character, as JSON writes it


def _as_cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return ""
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, float):
        return repr(value)
    return str(value)


def _as_cells(batch: Batch) -> dict[str, list[str]]:
    """The columns of a batch as strings; a matrix becomes one column for each dimension."""
    columns: dict[str, list[str]] = {}
    for name, column in batch.items():
        if not _is_matrix(column):
            columns[name] = [_as_cell(value) for value in as_list(column)]
            continue

        # Nine digits bring a float32 back exactly, seventeen a float64.
        number_format = "%.17g" if column.dtype == np.float64 else "%.9g"
        for dimension in range(column.shape[1]):
            numbers = column[:, dimension].tolist()
            columns[f"{name}_{dimension}"] = [number_format % number for number in numbers]
    return columns


def _write_separated(
    batches: Iterable[Batch],
    file: IO[bytes],
    separator: str,
    *,
    header: bool = True,
    quote: bool = True,
) -> Iterator[int]:
    """Write values between separators; a column of vectors becomes one for each dimension."""
    for number, batch in enumerate(batches):
        columns = _as_cells(batch)
        rows: Iterable = zip(*columns.values())
        if header and number == 0:
            first_row = columns if quote else batch  # the names of either
            rows = itertools.chain([first_row], rows)

        if quote:
            text = io.StringIO()
            csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
            file.write(_encode(text.getvalue()))
        else:
            if header:
                rows = ([re.sub(r"[\t\r\n]", " ", cell) for cell in row] for row in rows)
            rows = ([escape_controls(cell) for cell in row] for row in rows)
            file.write(_encode("".join(separator.join(row) + "\n" for row in rows)))
        yield _n_rows(batch)


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        raise ValueError("JSON lines hold no bytes. Leave the column out, or write Parquet.")
    return str(value)


def _as_json(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "null"  # JSON has no nan
    return json.dumps(value, ensure_ascii=False, default=_as_text)


def _column_as_json(column: Any) -> list[str]:
    if _is_matrix(column):
        # str of a float32 is the shortest text that brings it back.
        return [f"[{', '.join(map(str, row))}]" for row in column]
    return [_as_json(value) for value in as_list(column)]


def _write_jsonl(batches: Iterable[Batch], file: IO[bytes]) -> Iterator[int]:
    for batch in batches:
        names = [_as_json(name) for name in batch]
        columns = [_column_as_json(column) for column in batch.values()]
        for row in zip(*columns):
            pairs = ", ".join(f"{name}: {value}" for name, value in zip(names, row))
            file.write(_encode(escape_controls(f"{{{pairs}}}\n")))
        yield _n_rows(batch)


def _write_numpy(batches: Iterable[Batch], file: IO[bytes]) -> Iterator[int]:
    """Write the vectors to a .npy file.

    Its header states the number of rows, so the rows go to a temporary file until that is known.
    """
    empty = np.empty((0, 0), np.float32)
    n_rows = 0
    folder = os.path.dirname(file.name) or None  # /tmp may be memory
    with tempfile.TemporaryFile(dir=folder) as temporary:
        for batch in batches:
            for column in filter(_is_matrix, batch.values()):
                empty = column[:0]
                temporary.write(np.ascontiguousarray(column).data)
            n_rows += _n_rows(batch)
            yield _n_rows(batch)

        temporary.flush()
        array = empty
        if n_rows:  # nothing can be mapped of an empty file
            shape = (n_rows, *empty.shape[1:])
            array = np.memmap(temporary, empty.dtype, "r", shape=shape)
        np.save(file, array, allow_pickle=False)


def _write_parquet(batches: Iterable[Batch], file: Any) -> Iterator[int]:
    pa = import_pyarrow()
    from pyarrow import parquet

    first: list[Batch] = []  # up to the first rows, which determine the types
    for batch in batches:
        first.append(batch)
        if _n_rows(batch):
            break
    if not first:
        return

    sample = first[-1]
    vectors = [name for name, column in sample.items() if _is_matrix(column)]
    others = [name for name in sample if name not in vectors]
    types = {name: _as_arrow(name, column).type for name, column in sample.items()}
    schema = pa.schema([pa.field(name, types[name], name in others) for name in sample])

    # Vectors do not compress; statistics and dictionaries of them would be waste.
    compression = dict.fromkeys(others, "zstd")
    for name in vectors:
        compression[f"{name}.list.element"] = "none"

    n_dims = max((sample[name].shape[1] for name in vectors), default=16)
    row_group_size = max(1, _ROW_GROUP_BYTES // (4 * n_dims))

    with parquet.ParquetWriter(
        file, schema, use_dictionary=others, write_statistics=others, compression=compression
    ) as writer:
        for batch in itertools.chain(first, batches):
            columns = [_as_arrow(name, column, types[name]) for name, column in batch.items()]
            record_batch = pa.record_batch(columns, schema=schema)
            writer.write_batch(record_batch, row_group_size=row_group_size)
            yield _n_rows(batch)


def _as_arrow(name: str, column: Any, dtype: Any = None) -> Any:
    import pyarrow as pa

    if _is_matrix(column):
        numbers = pa.array(np.ascontiguousarray(column).reshape(-1))
        element = pa.field("element", numbers.type, nullable=False)
        vector_type = pa.list_(element, column.shape[1])
        return pa.FixedSizeListArray.from_arrays(numbers, type=vector_type)

    if isinstance(column, TypedColumn):
        dtype = _arrow_type(column.arrow_type)
    try:
        if isinstance(column, (pa.Array, pa.ChunkedArray)):
            array = column if dtype in (None, column.type) else column.cast(dtype)
        else:  # nan becomes null in arrays of NumPy
            array = pa.array(column, dtype, from_pandas=isinstance(column, np.ndarray))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        rule = "of one type" if dtype is None else f"of one type, {dtype}"
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"The column {name} must be {rule}. Got {_describe_types(column)} instead ({reason}). "
            "Keep it as text, or leave it out."
        ) from None

    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    return array


def _describe_types(column: Any) -> str:
    """The types of the values in a column, without those that are missing."""
    array_type = getattr(column, "type", None)  # of Arrow
    if array_type is not None:
        return str(array_type)
    names = {type(value).__name__ for value in column if value is not None}
    return " and ".join(sorted(names))


def _arrow_type(name: str) -> Any:
    import pyarrow as pa

    if name.startswith("list<"):
        element_name = name.removeprefix("list<").removesuffix(">")
        return pa.list_(_arrow_type(element_name))
    return pa.type_for_alias(name)


WRITERS: dict[str, Any] = {
    ".npy": _write_numpy,
    ".tsv": partial(_write_separated, separator="\t"),
    ".csv": partial(_write_separated, separator=","),
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
    "plain": partial(_write_separated, separator="\t", header=False, quote=False),
    "lines": partial(_write_separated, separator="\t", quote=False),
}
