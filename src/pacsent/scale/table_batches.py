"""Rows of a shard, batch by batch, as Arrow columns: Parquet, JSON lines, CSV, TSV, lines of text.

A row that cannot be read stays a row, with an empty text and nothing carried, and is reported with
its place: row n of what is written is row n of what was read.
"""

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pacsent.lazy import install_hint
from pacsent.scale.places import Shard, opened
from pacsent.text.reading import Source, empty_file

BATCH = 1 << 14  # rows
_BLOCK = 1 << 20  # bytes of text read at a time


class Bad(NamedTuple):
    """A row that could not be read: where it is, and what is wrong with it."""

    place: str
    error: str


class Rows(NamedTuple):
    """Some rows of a shard."""

    texts: Any  # pyarrow string array without nulls
    carried: Any  # pyarrow record batch of as many rows
    bad: list[Bad]


class Columns(NamedTuple):
    """What is read of a table.

    `carry` names the columns that go along; ("*",) is all of them.
    """

    text: str = "text"
    carry: tuple[str, ...] = ()

    def chosen(self, source: str, found: Sequence[str]) -> list[str]:
        """Names of the columns to carry, once those of the file are known."""
        carry = list(found) if self.carry == ("*",) else list(self.carry)
        for name in (self.text, *carry):
            if name not in found:
                raise ValueError(
                    f"The columns of {source} must include {name}. Got {', '.join(found)} instead. "
                    "Name the columns as the file does."
                )
        return carry


def pyarrow() -> Any:
    """The package, or one line that says how to get it."""
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError(
            "Shards are read and written with pyarrow, which is not installed. "
            f"{install_hint('scale')}"
        ) from None
    return pa


def read(shard: Shard, columns: Columns, n_rows: int = BATCH) -> Iterator[Rows]:
    """The rows of a shard, about `n_rows` at a time."""
    pa = pyarrow()
    with opened(shard.source) as file:
        try:
            yield from _READERS[shard.kind](shard, file, columns, n_rows)
        except (pa.ArrowException, *_wrong_data(shard.kind)) as error:
            about = str(error).splitlines() or [type(error).__name__]
            raise ValueError(
                f"{shard.source} must be a whole Parquet file. Got one that cannot be read instead "
                f"({about[0]}). Fetch it again."
            ) from None


def _wrong_data(kind: str) -> tuple:
    """What Arrow raises besides its own errors on a damaged file."""
    return (OSError, UnicodeDecodeError) if kind == "parquet" else ()


# ------------------------------------------------------------------------------------------------
# Parquet
# ------------------------------------------------------------------------------------------------


def _parquet(shard, file, columns, n_rows) -> Iterator[Rows]:
    pa = pyarrow()
    from pyarrow import parquet

    table = parquet.ParquetFile(file, memory_map=False)
    schema = table.schema_arrow
    carry = columns.chosen(shard.source, schema.names)
    kind = _text_type(shard, schema.field(columns.text))
    wanted = list(dict.fromkeys([columns.text, *carry]))
    done = 0
    for batch in table.iter_batches(batch_size=n_rows, columns=wanted, use_threads=False):
        texts = batch.column(columns.text)
        if texts.type != kind:
            texts = texts.cast(kind)
        bad = []
        if texts.null_count:
            missing = texts.is_null().to_numpy(zero_copy_only=False).nonzero()[0]
            bad = [Bad(f"row {done + int(i) + 1:,}", "no text (null)") for i in missing]
            texts = texts.fill_null("")
        yield Rows(texts, batch.select(carry), bad)
        done += batch.num_rows
    if not done:
        empty = pa.RecordBatch.from_pylist([], schema.empty_table().select(carry).schema)
        yield Rows(pa.array([], kind), empty if carry else no_columns(0), [])


def _text_type(shard, field):
    pa = pyarrow()
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_string(kind):
        return pa.string() if kind is field.type else pa.large_string()
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.large_string()
    raise ValueError(
        f"The column {field.name} of {shard.source} must hold text. Got {field.type} instead. Name "
        "another column."
    )


# ------------------------------------------------------------------------------------------------
# lines
# ------------------------------------------------------------------------------------------------


class _Line(NamedTuple):
    number: int
    text: str  # with its newline
    error: str | None


def _lines(shard, file) -> Iterator[list[_Line]]:
    """Lines with their newlines, about a megabyte at a time."""
    source = Source(shard.source, file)
    held: list[bytes] = []
    number, first = 1, True
    while block := source.read(_BLOCK):
        if first:
            block, first = block.removeprefix(b"\xef\xbb\xbf"), False
        cut = block.rfind(b"\n") + 1
        if not cut:
            held.append(block)
            continue
        whole = b"".join([*held, block[:cut]])
        held = [block[cut:]]
        lines = _decoded(whole, number)
        number += len(lines)
        yield lines
    if first:
        raise ValueError(empty_file(shard.source))
    if rest := b"".join(held):
        yield _decoded(rest, number)


def _decoded(whole: bytes, number: int) -> list[_Line]:
    pieces = whole.split(b"\n")
    if not pieces[-1]:
        pieces.pop()
    try:
        texts: list = whole.decode("utf-8").split("\n")[: len(pieces)]
    except UnicodeDecodeError:
        texts = [None] * len(pieces)
    return [
        _Line(at, text + "\n", None) if text is not None else _one_decoded(piece, at)
        for at, (piece, text) in enumerate(zip(pieces, texts), number)
    ]


def _one_decoded(piece: bytes, number: int) -> _Line:
    try:
        return _Line(number, piece.decode("utf-8") + "\n", None)
    except UnicodeDecodeError as error:
        byte = piece[error.start]
        return _Line(number, "\n", f"no UTF-8 (byte 0x{byte:02x}, {error.start:,} into the line)")


def _text(shard, file, columns, n_rows) -> Iterator[Rows]:
    if set(columns.carry) - {columns.text, "*"}:
        raise ValueError(
            f"{shard.source} is lines of text, which have no columns to carry but {columns.text}. "
            f"Got {', '.join(columns.carry)} instead."
        )
    gathered = _Gathering(shard, columns, ["text"] if columns.carry else [], n_rows)
    for lines in _lines(shard, file):
        for line in lines:
            text = line.text[:-1].removesuffix("\r")
            gathered.add(text, [text] if columns.carry else [], f"line {line.number:,}", line.error)
        yield from gathered.full()
    yield from gathered.rest()


def _jsonl(shard, file, columns, n_rows) -> Iterator[Rows]:
    gathered = None
    early: list[Bad] = []
    for lines in _lines(shard, file):
        for line in lines:
            if line.error is None and not line.text.strip():
                continue
            row, error = _object(line, columns.text)
            if gathered is None and row is None and columns.carry == ("*",):
                early.append(Bad(f"line {line.number:,}", error or ""))
                continue  # the columns are those of the first object
            if gathered is None:
                names = list(row or ()) if columns.carry == ("*",) else list(columns.carry)
                gathered = _Gathering(shard, columns, names, n_rows)
                for bad in early:
                    gathered.add("", [None] * len(names), bad.place, bad.error)
            values = [None if row is None else row.get(name) for name in gathered.names]
            text = "" if row is None or error else row[columns.text]
            gathered.add(text, values, f"line {line.number:,}", error)
        if gathered is not None:
            yield from gathered.full()
    if gathered is None:
        gathered = _Gathering(shard, columns, [], n_rows)
        for bad in early:
            gathered.add("", [], bad.place, bad.error)
    yield from gathered.rest()


def _object(line: _Line, column: str) -> tuple[dict | None, str | None]:
    if line.error:
        return None, line.error
    try:
        row = json.loads(line.text)
    except (ValueError, RecursionError) as error:
        return None, f"no JSON ({error})"
    if not isinstance(row, dict):
        return None, f"no JSON object but {line.text[:40].strip()!r}"
    text = row.get(column)
    if not isinstance(text, str):
        what = "no text" if text is None else f"{type(text).__name__} {str(text)[:40]!r}"
        return row, f"{column} holds {what}"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return row, f"{column} holds half a character (a lone surrogate)"
    return row, None


def _csv(shard, file, columns, n_rows) -> Iterator[Rows]:
    errors: dict[int, str] = {}

    def decoded():
        for lines in _lines(shard, file):
            for line in lines:
                if line.error:
                    errors[line.number] = line.error
                yield line.text

    csv.field_size_limit(sys.maxsize)
    reader = csv.reader(decoded(), delimiter="\t" if shard.kind == "tsv" else ",", strict=True)
    header = next(reader, None) or []
    carry = columns.chosen(shard.source, header)
    gathered = _Gathering(shard, columns, carry, n_rows)
    at = [header.index(name) for name in carry]
    place = header.index(columns.text)
    while True:
        first = reader.line_num + 1
        row: list[str] | None
        try:
            row, error = next(reader, None), None
            if row is None:
                break
        except csv.Error as wrong:
            row, error = [], str(wrong)
        wrong_lines = [errors.pop(n) for n in range(first, reader.line_num + 1) if n in errors]
        if wrong_lines:
            error = wrong_lines[0]
        elif not row and error is None:
            continue  # a blank line
        elif error is None and len(row) != len(header):
            error = f"{len(row):,} fields where the header has {len(header):,}"
        values = [None if error else row[i] for i in at]
        gathered.add("" if error else row[place], values, f"line {first:,}", error)
        yield from gathered.full()
    yield from gathered.rest()


class _Gathering:
    """Rows that are read one by one, until there are enough for a batch."""

    def __init__(self, shard, columns, names, n_rows):
        self.shard, self.columns, self.names, self.n_rows = shard, columns, names, n_rows
        self.types: list | None = None  # as in the first batch
        self.done = False
        self._empty()

    def _empty(self):
        self.texts: list[str] = []
        self.values: list[list] = [[] for _ in self.names]
        self.bad: list[Bad] = []
        self.first = self.last = ""

    def add(self, text: str, values, place: str, error: str | None) -> None:
        self.texts.append(text)
        self.first, self.last = self.first or place, place
        for column, value in zip(self.values, values):
            column.append(value)
        if error:
            self.bad.append(Bad(place, error))

    def full(self) -> Iterator[Rows]:
        if len(self.texts) >= self.n_rows:
            yield self._taken()

    def rest(self) -> Iterator[Rows]:
        if self.texts or not self.done:
            yield self._taken()

    def _taken(self) -> Rows:
        pa = pyarrow()
        arrays = [self._column(number) for number in range(len(self.names))]
        self.types = [array.type for array in arrays]
        texts = pa.array(self.texts, pa.large_string())
        n, bad = len(self.texts), self.bad
        self._empty()
        self.done = True
        if not arrays:
            return Rows(texts, no_columns(n), bad)
        return Rows(texts, pa.RecordBatch.from_arrays(arrays, names=self.names), bad)

    def _column(self, number):
        pa = pyarrow()
        kind = None if self.types is None else self.types[number]
        try:
            array = pa.array(self.values[number], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise ValueError(
                f"The column {self.names[number]} of {self.shard.source} must be of one type. "
                f"{self.first} to {self.last} hold another ({str(error).splitlines()[0]}). Carry "
                "it along as text, or leave it out."
            ) from None
        return array.cast(pa.string()) if pa.types.is_null(array.type) else array


def no_columns(n_rows: int) -> Any:
    """A record batch of so many rows and no column."""
    pa = pyarrow()
    return pa.RecordBatch.from_struct_array(pa.array([{}] * n_rows, pa.struct([])))


_READERS = {"parquet": _parquet, "jsonl": _jsonl, "csv": _csv, "tsv": _csv, "text": _text}
