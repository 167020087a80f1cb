"""Parquet files with a column of vectors, at the speed of copying memory.

A list column costs a general writer two levels for each number, far more than the number itself.
Where every list has the same length and nothing is missing, the levels of a page follow from its
number of rows: they are made once, and the vectors go to the file as they lie in memory. All other
columns, the schema and the footer are Arrow's, spliced together with the vectors' pages.
"""

import struct
from typing import IO, Any

import numpy as np

from pacsent.scale import thrift
from pacsent.scale.thrift import BINARY, I16, I32, I64, LIST, STRUCT

_MAGIC = b"PAR1"
_ROW_GROUP = 1 << 27  # bytes of vectors, about
_PAGE = 1 << 20  # bytes of vectors, about
_FLOAT, _PLAIN, _RLE, _DATA_PAGE = 4, 0, 3, 0  # numbers of the format
_OPTIONS: dict[str, Any] = {"compression": "zstd", "compression_level": 1, "use_dictionary": True}


class VectorWriter:
    """Writes tables whose column `mean` holds a float32 vector in every row.

    Parameters
    ----------
    file : binary file
        Written front to back.
    schema : pyarrow.Schema
        Of the other columns.
    n_dims : int
        Length of every vector.
    at : int, default=0
        Where the vectors' column stands among the others.

    Examples
    --------
    >>> import io, pyarrow as pa, pyarrow.parquet as pq
    >>> file = io.BytesIO()
    >>> with VectorWriter(file, pa.schema([("id", pa.int64())]), 2, at=1) as writer:
    ...     writer.write(np.ones((1, 2), np.float32), pa.record_batch({"id": [7]}))
    >>> pq.read_table(file).to_pylist()
    [{'id': 7, 'mean': [1.0, 1.0]}]
    """

    def __init__(self, file: IO[bytes], schema: Any, n_dims: int, *, at: int = 0):
        self.file, self.schema, self.n_dims, self.at = file, schema, n_dims, at
        self.offset = 0
        self.n_rows = 0
        self._footer = _template(schema, n_dims, at)
        self._groups: list = []
        self._levels: dict[int, bytes] = {}
        self._begin_group()
        self._put(_MAGIC)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()

    def _put(self, data) -> None:
        self.file.write(data)
        self.offset += memoryview(data).nbytes

    def _begin_group(self):
        self._others: list = []
        self._group_rows = self._vector_bytes = 0
        self._first_page: int | None = None

    def write(self, means: np.ndarray, others: Any) -> None:
        """Some rows: (n, n_dims) float32, and a record batch of the other columns."""
        if means.shape != (others.num_rows, self.n_dims):
            raise ValueError(
                f"means must have shape {(others.num_rows, self.n_dims)}. Got {means.shape} "
                "instead."
            )
        means = np.ascontiguousarray(means, dtype="<f4")
        most = max(1, _PAGE // (4 * self.n_dims))
        for start in range(0, len(means), most):
            self._page(means[start : start + most])
        self._others.append(others)
        self._group_rows += len(means)
        if self._group_rows * self.n_dims * 4 >= _ROW_GROUP:
            self._end_group()

    def _page(self, means: np.ndarray) -> None:
        n = len(means)
        levels = self._levels.get(n)
        if levels is None:
            levels = self._levels[n] = _levels(n, self.n_dims)
        if self._first_page is None:
            self._first_page = self.offset
        before = self.offset
        header = _page_header(n * self.n_dims, len(levels) + means.nbytes)
        self._put(header + levels)
        self._put(means.reshape(-1).data)
        self._vector_bytes += self.offset - before

    def _end_group(self) -> None:
        if self._first_page is None:
            return
        columns, size = self._other_columns()
        columns.insert(self.at, self._vector_chunk())
        total = size + self._vector_bytes
        self._groups.append(
            {
                1: (LIST, (STRUCT, columns)),
                2: (I64, total),
                3: (I64, self._group_rows),
                5: (I64, self._first_page),
                6: (I64, total),
                7: (I16, len(self._groups)),
            }
        )
        self.n_rows += self._group_rows
        self._begin_group()

    def _vector_chunk(self) -> thrift.Struct:
        about = {
            1: (I32, _FLOAT),
            2: (LIST, (I32, [_RLE, _PLAIN])),
            3: (LIST, (BINARY, [b"mean", b"list", b"element"])),
            4: (I32, 0),
            5: (I64, self._group_rows * self.n_dims),
            6: (I64, self._vector_bytes),
            7: (I64, self._vector_bytes),
            9: (I64, self._first_page),
        }
        return {2: (I64, self._first_page), 3: (STRUCT, about)}

    def _other_columns(self) -> tuple[list, int]:
        """Arrow writes them as a file of its own in memory; its column chunks are moved here."""
        import pyarrow as pa

        if not len(self.schema):
            return [], 0
        table = pa.Table.from_batches(self._others, self.schema)
        data, footer = _written(table)
        (group,) = footer[4][1][1]
        columns = group[1][1][1]
        shift = self.offset - len(_MAGIC)
        for column in columns:
            about = column[3][1]
            for field in (9, 10, 11):
                if field in about:
                    about[field] = I64, about[field][1] + shift
            about.pop(14, None)
            for field in (4, 5, 6, 7):  # page indexes, which stay behind
                column.pop(field, None)
            column[2] = I64, about.get(11, about[9])[1]
        self._put(data)
        return columns, group[2][1]

    def close(self) -> None:
        """Write the footer. The file itself stays open."""
        self._end_group()
        footer = dict(self._footer)
        footer[3] = I64, self.n_rows
        footer[4] = LIST, (STRUCT, self._groups)
        data = thrift.encoded(footer)
        self._put(data + struct.pack("<I", len(data)) + _MAGIC)


def vector_schema(schema: Any, n_dims: int, at: int) -> Any:
    """The schema of the whole file: the other columns, and `mean` among them."""
    import pyarrow as pa

    number = pa.field("element", pa.float32(), nullable=False)
    return schema.insert(at, pa.field("mean", pa.list_(number, n_dims), nullable=False))


def _template(schema, n_dims: int, at: int) -> thrift.Struct:
    """The footer of a file without rows: schema, Arrow's own schema, who wrote it."""
    import pyarrow as pa

    empty = vector_schema(schema, n_dims, at).empty_table()
    return _written(pa.table(empty, schema=empty.schema))[1]


def _written(table) -> tuple[memoryview, thrift.Struct]:
    """Bytes of the column chunks, and the footer, of a table that Arrow writes in one group."""
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    with parquet.ParquetWriter(sink, table.schema, **_OPTIONS) as writer:
        writer.write_table(table, row_group_size=max(1, table.num_rows))
    whole = memoryview(sink.getvalue())
    (size,) = struct.unpack("<I", whole[-8:-4])
    footer = thrift.Reader(bytes(whole[-8 - size : -8])).struct()
    chunks = [column[3][1] for group in footer[4][1][1] for column in group[1][1][1]]
    ends = [about.get(11, about[9])[1] + about[7][1] for about in chunks]
    return whole[len(_MAGIC) : max(ends, default=len(_MAGIC))], footer


def _levels(n_rows: int, n_dims: int) -> bytes:
    """Repetition and definition levels of a page: lists of equal length, nothing missing."""
    row = b"\x02\x00"  # one 0: a list begins
    if n_dims > 1:
        row += thrift.varint((n_dims - 1) << 1) + b"\x01"  # ones: it goes on
    repetition = row * n_rows
    definition = thrift.varint((n_rows * n_dims) << 1) + b"\x01"
    return b"".join(struct.pack("<I", len(part)) + part for part in (repetition, definition))


def _page_header(n_values: int, size: int) -> bytes:
    data = {1: (I32, n_values), 2: (I32, _PLAIN), 3: (I32, _RLE), 4: (I32, _RLE)}
    return thrift.encoded({1: (I32, _DATA_PAGE), 2: (I32, size), 3: (I32, size), 5: (STRUCT, data)})
