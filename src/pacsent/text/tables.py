"""Tables of texts: the one reader of CSV, TSV, JSON lines, Parquet and plain lines.

`TextTable` reads a file batch by batch, compressed or not, and reports every row that cannot be
read with its number and what is wrong with it. `stream_texts` and `read_labelled_texts` are what
most callers need. The writer of results is in `result_files`.

Parquet is read by pyarrow (extra `parquet`), which is imported then. CSV and JSON lines are read by
the standard library: pyarrow's CSV reader accepts a quotation mark that is never closed and joins
all rows behind it, and its JSON reader turns texts that look like dates into dates.
"""

import contextlib
import csv
import io
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacsent.optional import import_optional
from pacsent.text.reading import COMPRESSED, Source, empty_file, how_to_convert
from pacsent.text.texts import show

KINDS = {".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
KINDS |= {".csv": "csv", ".tsv": "tsv", ".txt": "text", ".text": "text"}
_WORKBOOKS = (".xlsx", ".xls", ".ods")
BATCH = 1 << 14  # rows
_BLOCK_BYTES = 1 << 20
_MAX_CSV_FIELD = 2**31 - 1  # characters of a value; the csv module allows 131,072
_QUOTES = (
    'A value that begins with " must be quoted as a whole, its own marks doubled. Repair the file, '
    "or write it as JSON lines."
)
_NO_TEXT = "must have a text. Got {} instead. Leave the row out, or put a text there."


class BadRow(NamedTuple):
    """A row that could not be read."""

    position: int  # among the rows of its batch
    place: str  # such as "line 3"
    error: str


class TextRows(NamedTuple):
    """Rows of a table. The columns of Parquet are pyarrow arrays, those of other files lists."""

    texts: Any  # list of str, or a string array without nulls
    columns: dict[str, Any]
    bad: list[BadRow]
    numbers: Sequence[int] = ()  # the line on which each row begins; of Parquet, its row


def kind_of(name: str) -> tuple[str | None, str]:
    """Return what a file holds by its name, and the name without the suffixes that say so.

    >>> kind_of("part-1.csv.gz")
    ('csv', 'part-1')
    """
    stem, suffix = os.path.splitext(name)
    is_compressed = suffix.lower() in COMPRESSED
    if is_compressed:
        stem, suffix = os.path.splitext(stem)

    kind = KINDS.get(suffix.lower())
    if kind is not None:
        return kind, stem
    if is_compressed:  # notes.gz: lines
        return "text", stem + suffix
    return None, name


def output_names(
    names: Sequence[str], own: Sequence[str], source: str
) -> tuple[dict[str, str], list[str]]:
    """Return the names that columns of an input have in an output with columns of its own.

    Also returns one message for each column that is renamed.
    """
    renamed = {}
    used = {*own, *names}
    for name in names:
        new_name = name
        while name in own and new_name in used:
            new_name = f"input_{new_name}"
        renamed[name] = new_name
        used.add(new_name)

    messages = [
        f"The column {name} of {source} is named {new_name} in the output, because {name} is "
        "written by this command."
        for name, new_name in renamed.items()
        if new_name != name
    ]
    return renamed, messages


def as_list(column: Any) -> list:
    """Return a column as a list; it may be a NumPy or pyarrow array."""
    if isinstance(column, list):
        return column
    if hasattr(column, "to_pylist"):
        return column.to_pylist()
    return column.tolist()


class TextTable(AbstractContextManager):
    """A table that is read batch by batch.

    A `path` of '-' is stdin; an open binary `file` is read in place of the path, which then only
    names it. `kind` is "text", "csv", "tsv", "jsonl" or "parquet", by default by the name.
    `text_column` is by default `text`, or the only column; if it is False, no text is read. `names`
    are the columns, of JSON lines the keys of the first object; `note` says which one is read.

    >>> with TextTable("films.csv", file=io.BytesIO(b"id,text\\n7,a quiet film\\n")) as table:
    ...     list(table.batches(["id"]))
    [TextRows(texts=['a quiet film'], columns={'id': ['7']}, bad=[], numbers=(2,))]
    """

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        file: Any = None,
        kind: str | None = None,
        text_column: str | bool | None = None,
    ):
        kind_by_name, _ = kind_of(os.path.basename(path))
        self.kind = kind or kind_by_name or "text"
        self.name = str(path) if file is not None else Path(path).name
        if self.name == "-":
            self.name = "standard input"
        self.unit = "row" if self.kind == "parquet" else "line"
        self.text_column: Any = False
        self.note = ""
        self._all_columns = False
        self.n_blank = 0  # rows of empty values, which are skipped

        self._check_format(text_column)
        self._source = Source(path, file)
        if self.kind == "parquet":
            self._open_parquet()
        else:
            self._open_rows()
        if text_column is not False:
            self.choose_text(text_column)

    def _check_format(self, text_column: str | bool | None) -> None:
        """Raise ValueError for a column of plain lines, and for a spreadsheet."""
        if self.kind == "text" and text_column not in (None, False, "text"):
            raise ValueError(
                f"{self.name} must be a table to have the column {text_column}. Got lines of text "
                "instead. Name the format of the file, such as csv, or leave the column out."
            )
        if self.name.lower().endswith(_WORKBOOKS):
            raise ValueError(
                f"{self.name} must be a CSV, JSON lines or Parquet file. Got a spreadsheet's own "
                "format instead. Save it there as CSV (UTF-8), or with pandas: "
                f"read_excel({self.name!r}).to_csv('table.csv', index=False)."
            )

    def _open_parquet(self) -> None:
        pa = import_optional("pyarrow", f"{self.name} needs pyarrow", "parquet")
        from pyarrow import parquet

        # Parquet is read from its end: what cannot seek is copied to a file that can.
        opened: Any = self._source.file
        if self._source.kind or not opened.seekable():
            opened = tempfile.TemporaryFile()  # noqa: SIM115 (closed when it is collected)
            shutil.copyfileobj(self._source, opened, _BLOCK_BYTES)
        opened.seek(0)

        with self._parquet_errors():
            self._parquet = parquet.ParquetFile(pa.PythonFile(opened, mode="r"))
            self.names = list(self._parquet.schema_arrow.names)

    def _open_rows(self) -> None:
        readers = {"jsonl": self._json_rows, "text": self._text_rows}
        read_rows = readers.get(self.kind, self._csv_rows)
        self._rows = read_rows()

        number, names, error = next(self._rows)
        if names is None:
            raise ValueError(f"{self.place(number)} {error}")
        self.names = names

    def choose_text(self, text_column: Any = None) -> None:
        """Read the text from this column; None for `text`, or the only column."""
        is_only = text_column is None and "text" not in self.names and len(self.names) == 1
        self.text_column = self.names[0] if is_only else text_column or "text"
        self.check_columns([self.text_column], ["text_column"])

        if self.kind != "text":
            self.note = f"column {self.text_column}"
            if is_only:
                self.note += " (the only one)"

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def check_columns(
        self, columns: Sequence[str], parameters: Sequence[str] = ("keep_columns",)
    ) -> list[str]:
        """Return the names of columns, ("*",) for all. Messages name `parameters`, one for each."""
        chosen = list(self.names) if tuple(columns) == ("*",) else list(columns)
        missing = [name for name in dict.fromkeys(chosen) if name not in self.names]
        if missing:
            parameter_of = dict(zip(chosen, itertools.cycle(parameters)))
            raise ValueError(self._missing_columns(missing, parameter_of))

        for name in chosen:
            n_columns = self.names.count(name)
            if n_columns > 1:
                raise ValueError(
                    f"{self.name} must have one column named {name}. Got {n_columns} instead."
                )
        return chosen

    def _missing_columns(self, missing: list[str], parameter_of: dict[str, str]) -> str:
        """The message about columns that are not in the table, with those of similar names."""
        shown_names = [" ".join(str(name).split()) for name in self.names]
        name_of = {
            shown.casefold(): name for shown, name in zip(shown_names, self.names, strict=True)
        }

        suggestions = ""
        for name in missing:
            candidates = list(name_of)
            if parameter_of[name] != "text_column":  # the text is never the label
                candidates = [candidate for candidate in candidates if candidate != "text"]
            for match in get_close_matches(name.casefold(), candidates, 1):
                suggestions += f"Did you mean {name_of[match]}? "

        used_parameters = dict.fromkeys(parameter_of[name] for name in missing)
        hint = "." if len(name_of) > 1 else "; a file of plain lines is called .txt."
        return (
            f"The columns of {self.name} must include {' and '.join(missing)}. Got "
            f"{', '.join(shown_names)} instead. {suggestions}"
            f"Name the column with {' and '.join(used_parameters)}{hint}"
        )

    def place(self, number: int) -> str:
        """Return how a row is named in a message: "Line 3 of a.csv"."""
        return f"{self.unit.capitalize()} {number:,} of {self.name}"

    def batches(
        self, columns: Sequence[str] = (), *, on_bad: str = "raise", n_rows: int = BATCH
    ) -> Iterator[TextRows]:
        """Yield the texts and further columns, about `n_rows` rows at a time, at least once.

        `columns` are names, or ("*",) for all. A row that cannot be read raises ValueError; with
        `on_bad="report"` it stays in its place with an empty text, and `TextRows.bad` describes it.
        """
        kept = self.check_columns(columns)
        self._all_columns = tuple(columns) == ("*",)
        has_text = self.text_column is not False
        wanted = [self.text_column, *kept] if has_text else kept

        read = self._parquet_batches if self.kind == "parquet" else self._row_batches
        for values, errors, numbers in read(wanted, n_rows):
            if errors and on_bad == "raise":
                first = min(errors)
                raise ValueError(f"{self.place(numbers[first])} {errors[first]}")

            bad = []
            for position in sorted(errors):
                place = f"{self.unit} {numbers[position]:,}"
                bad.append(BadRow(position, place, errors[position]))

            texts = values.pop(0) if has_text else [""] * len(numbers)
            yield TextRows(texts, dict(zip(kept, values)), bad, numbers)

    def _row_batches(self, wanted: list[str], n_rows: int) -> Iterator[tuple[list, dict, Any]]:
        empty_row = [None] * len(self.names)
        is_first = True
        while True:
            rows = list(itertools.islice(self._rows, n_rows))
            if not rows and not is_first:
                return

            is_first = False
            numbers = tuple(number for number, _, _ in rows)
            errors = {i: error for i, (_, _, error) in enumerate(rows) if error is not None}

            complete_rows = [empty_row if row is None else row for _, row, _ in rows]
            columns = list(zip(*complete_rows))  # empty if there is no row
            values = [list(columns[self.names.index(name)]) if rows else [] for name in wanted]
            if self.text_column is not False:
                for position in errors:
                    values[0][position] = ""
            yield values, errors, numbers

    # The readers of rows yield number, values and error of each: first the names of the columns,
    # then the rows. A row without values could not be read at all.

    def _lines(self) -> Iterator[tuple[int, str, str | None]]:
        """Yield number, text with its newline, and error of each line; only \\n ends a line."""
        # Bytes that are no UTF-8 become surrogates, so that one bad line does not stop the others.
        file = io.TextIOWrapper(
            io.BufferedReader(self._source, _BLOCK_BYTES), "utf-8", "surrogateescape", newline="\n"
        )
        number = 0
        for number, line in enumerate(file, 1):
            if number == 1:
                line = line.removeprefix("\ufeff")
            error = None if line.isascii() else _encoding_error(line, is_first=number == 1)
            yield number, line, error

        if number == 0:
            raise ValueError(empty_file(self._source.name))

    def _text_rows(self) -> Iterator[tuple[int, list | None, str | None]]:
        yield 0, ["text"], None
        for number, line, error in self._lines():
            text = line.removesuffix("\n").removesuffix("\r")
            yield number, [text], error

    def _label_rows(self) -> Iterator[tuple[int, list | None, str | None]]:
        """Rows of label<TAB>text without blank lines, for a file whose rows are not read yet."""
        for number, line, error in self._lines():
            line = line.removesuffix("\n").removesuffix("\r")
            if not line.strip():
                continue

            label, tab, text = line.partition("\t")
            if not error and not (tab and label.strip()):
                error = (
                    f"must be label<TAB>text. Got {line[:40]!r} instead. A table has "
                    "another name, such as .csv, or a named format."
                )
            yield number, [text, label], error

    def _csv_rows(self) -> Iterator[tuple[int, list | None, str | None]]:
        encoding_errors: list[str] = []  # in the lines of the current row

        def iter_texts() -> Iterator[str]:
            for _, text, error in self._lines():
                if error:
                    encoding_errors.append(error)
                yield text

        csv.field_size_limit(_MAX_CSV_FIELD)
        lines = iter_texts()
        header = next(lines)
        separator = _find_separator(self.kind, header)
        reader = csv.reader(itertools.chain([header], lines), delimiter=separator, strict=True)
        n_columns = 0  # of the header, which is read first
        while True:
            first_line = reader.line_num + 1
            error = None
            row: list[str] = []
            try:
                row = next(reader)
            except StopIteration:
                break
            except csv.Error as invalid:
                error = f"must be a row of a {self.kind.upper()}. It is not: {invalid}. {_QUOTES}"
            if encoding_errors:
                error = encoding_errors[-1]
                encoding_errors.clear()

            if error is None and n_columns:
                if n_columns > 1 and not any(cell.strip() for cell in row):
                    self.n_blank += bool(row)  # no blank line, but separators
                    continue
                row = _fit_columns(row, n_columns)
                error = _separated_error(row, n_columns, separator)

            yield first_line, None if error else row, error
            n_columns = n_columns or len(row)

    def _json_rows(self) -> Iterator[tuple[int, list | None, str | None]]:
        names: list[str] | None = None
        before = []  # rows before the first object, whose keys are the names of the columns
        for number, line, error in self._lines():
            if error is None and not line.strip():
                continue

            row = None
            if error is None:
                row = _parse_object(line)
                if row is None:
                    error = f"must be a JSON object. Got {line.strip()[:40]!r} instead."

            if names is None:
                if row is None:
                    before.append((number, None, error))
                    continue
                names = list(row)
                yield 0, names, None
                yield from before

            if row is None:
                yield number, None, error
            elif self._all_columns and not row.keys() <= set(names):
                yield number, None, _new_key_error(row, names)
            else:
                if self.text_column is not False:
                    error = _text_error(row.get(self.text_column))
                yield number, [row.get(name) for name in names], error

        if names is None:
            yield before[0] if before else (0, ["text"], None)

    @contextlib.contextmanager
    def _parquet_errors(self) -> Iterator[None]:
        """Raise in one line what pyarrow raises about a damaged file."""
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"{self.name} must be a whole Parquet file. Got one that cannot be read instead "
                f"({reason}). Fetch it again."
            ) from None

    def _parquet_batches(self, wanted: list[str], n_rows: int) -> Iterator[tuple[list, dict, Any]]:
        import pyarrow as pa

        schema = self._parquet.schema_arrow
        types = [schema.field(name).type for name in wanted]
        has_text = self.text_column is not False
        if has_text:
            types[0] = self._arrow_text_type(types[0])

        columns = list(dict.fromkeys(wanted))
        n_read = 0
        with self._parquet_errors():
            for batch in self._parquet.iter_batches(n_rows, columns=columns, use_threads=False):
                values = [batch.column(name) for name in wanted]
                errors: dict[int, str] = {}
                if has_text:
                    texts = values[0].cast(types[0])
                    is_missing = texts.is_null().to_numpy(zero_copy_only=False)  # (n_rows,)
                    missing_rows = np.flatnonzero(is_missing).tolist()
                    errors = dict.fromkeys(missing_rows, _NO_TEXT.format("nothing"))
                    values[0] = texts.fill_null("")

                numbers = range(n_read + 1, n_read + batch.num_rows + 1)
                yield values, errors, numbers
                n_read += batch.num_rows

        if not n_read:
            yield [pa.array([], dtype) for dtype in types], {}, ()

    def _arrow_text_type(self, column_type: Any) -> Any:
        """The type that a column of texts is cast to; ValueError if it has no texts."""
        import pyarrow as pa

        is_dictionary = pa.types.is_dictionary(column_type)
        value_type = column_type.value_type if is_dictionary else column_type
        if value_type not in (pa.string(), pa.large_string(), pa.string_view()):
            raise ValueError(
                f"The column {self.text_column} of {self.name} must have text. Got {column_type} "
                "instead. Name another column."
            )
        return pa.string() if column_type == pa.string() else pa.large_string()


def _encoding_error(line: str, *, is_first: bool) -> str | None:
    """The error of a line with a byte that is no UTF-8, which was read as a surrogate."""
    try:
        line.encode()
    except UnicodeEncodeError as invalid:
        offset = len(line[: invalid.start].encode())
        byte = ord(line[invalid.start]) & 0xFF
        # Only at the beginning of a file can the byte be a mark of UTF-16.
        conversion = how_to_convert(byte, offset if is_first else 1)
        return (
            f"must be UTF-8 text. Got the byte 0x{byte:02x} instead ({offset:,} bytes "
            f"into the line). {conversion}"
        )
    return None


def _find_separator(kind: str, header: str) -> str:
    """The separator of CSV or TSV; spreadsheets in Europe write CSV with semicolons."""
    if kind != "csv":
        return "\t"
    return ";" if ";" in header and "," not in header else ","


def _fit_columns(row: list[str], n_columns: int) -> list[str]:
    """A row of CSV or TSV as the header has it, if the difference is of no importance."""
    if not row:
        return [""]  # the empty value of an only column
    if len(row) > n_columns and not any(row[n_columns:]):
        return row[:n_columns]
    return row


def _separated_error(row: list[str], n_columns: int, separator: str) -> str | None:
    """The error of a row of CSV or TSV that has other columns than the header."""
    if len(row) != n_columns:
        return (
            f"must have {n_columns:,} values, one for each column. Got {len(row):,} "
            "instead. Quote values that hold the separator."
        )

    # A tab behind the end of a line belongs to the next row: a lone mark joined them.
    if separator == "\t" and any("\t" in cell and "\n" in cell for cell in row):
        return f"begins a quoted value that holds whole lines of the table. {_QUOTES}"
    return None


def _parse_object(line: str) -> dict[str, Any] | None:
    """The JSON object of a line; None if it is something else."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _new_key_error(row: dict[str, Any], names: list[str]) -> str:
    new_key = next(key for key in row if key not in names)
    return (
        f"must have no other keys than the first object. Got {new_key!r} as well. Add the "
        "key to the first object, or name the columns to keep."
    )


def _text_error(text: Any) -> str | None:
    """The error of a JSON object with this text."""
    if text is None:
        return _NO_TEXT.format("nothing")
    if not isinstance(text, str):
        return _NO_TEXT.format(show(text))
    if not _is_encodable(text):
        return "must have a text of whole characters. Got a lone surrogate instead."
    return None


def _is_encodable(text: str) -> bool:
    return text.isascii() or text.encode("utf-8", "replace").decode() == text


Report = Callable[[str], None]


def stream_texts(
    path: str | os.PathLike,
    *,
    text_column: str | None = None,
    kind: str | None = None,
    report: Report | None = None,
) -> Iterator[str]:
    """Yield texts one after the other in constant memory: a line each, or a column of a table.

    Parameters
    ----------
    path : str or path
        A name in .csv, .tsv, .jsonl or .parquet, compressed or not, is a table; any other file has
        one text per line.
    text_column : str, optional
        Name of the column of a table, by default `text`, or the only column.
    kind : str, optional
        Format of stdin (`-`) and of other names.
    report : callable, optional
        Called at the end with a sentence about what was read.

    Yields
    ------
    str

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "texts.txt"
    >>> _ = path.write_text("a quiet film\\na loud film\\n")
    >>> list(stream_texts(path))
    ['a quiet film', 'a loud film']
    """
    n_rows = 0
    with TextTable(path, kind=kind, text_column=text_column) as table:
        for rows in table.batches():
            n_rows += len(rows.texts)
            yield from as_list(rows.texts)
    if report is not None:
        report(describe_table(table, n_rows))


def describe_table(table: TextTable, n_rows: int) -> str:
    """Return a sentence about a table that was read to its end."""
    unit = "line" if table.kind == "text" else "row"
    if n_rows != 1:
        unit += "s"

    parts = [f"Read {n_rows:,} {unit} of {table.name}"]
    if table.note:
        parts.append(table.note)
    if table.n_blank:
        parts.append(f"{table.n_blank:,} without any value skipped")
    return ", ".join(parts) + "."


def read_labelled_texts(
    path: str | os.PathLike,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    kind: str | None = None,
    report: Report | None = None,
) -> tuple[list[str], list[str], list[str] | None]:
    """Read the texts, labels and groups of a table, or of `label<TAB>text` lines.

    Parameters
    ----------
    path : str or path
        A table (CSV, TSV, JSON lines or Parquet, compressed or not, by its name or by `kind`); any
        other file has lines of label<TAB>text.
    text_column, label_column : str, optional
        Names of the columns, by default `text` and `label`.
    group_column : str, optional
        Column of the group (the book, the author, the day) that a text is from.
    kind : str, optional
        Format of stdin (`-`) and of names without an ending: "csv", "tsv", "jsonl", "parquet" or
        "text".
    report : callable, optional
        Called with a sentence about what was read.

    Returns
    -------
    texts : list of str
    labels : list of str
    groups : list of str or None
        None without a `group_column`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "mine.csv"
    >>> _ = path.write_text("text,label\\na quiet film,good\\na loud film,bad\\n")
    >>> texts, labels, groups = read_labelled_texts(path)
    >>> labels
    ['good', 'bad']
    """
    table = read_labelled_table(
        path,
        text_column=text_column,
        label_column=label_column,
        group_column=group_column,
        kind=kind,
        report=report,
        allow_blank=False,
    )
    return table.texts or [], table.labels, table.groups


@dataclass(frozen=True, kw_only=True)
class LabelledTable:
    """The rows of a table with labels, in their order.

    Attributes
    ----------
    labels : list of str
        "" for a row without a label.
    texts, predictions, groups, judge : list of str or None
        The other columns; None for those that were not read.
    labelled_by : list of str or None
        "person" or "machine" for each row, as `pacsent check` writes it; None if the table does not
        say.
    sampled : list of bool or None
        Whether a row was drawn at random by `pacsent check`.
    reviewed : list of bool or None
        Whether `pacsent audit` looked for wrong labels in a row; None if the table does not say.
    name, label_column : str
        The file, and the column of the labels.
    ignored : list of str
        Columns of predictions that were not read, because a model predicts.
    """

    labels: list[str]
    texts: list[str] | None = None
    predictions: list[str] | None = None
    groups: list[str] | None = None
    judge: list[str] | None = None
    labelled_by: list[str] | None = None
    sampled: list[bool] | None = None
    reviewed: list[bool] | None = None
    name: str = ""
    label_column: str = "label"
    ignored: tuple[str, ...] = ()

    def select(self, rows: Sequence[int]) -> "LabelledTable":
        """These rows of all columns."""
        parts: dict[str, Any] = {}
        for item in fields(self):
            values = getattr(self, item.name)
            if isinstance(values, list):
                parts[item.name] = [values[row] for row in rows]
        return replace(self, **parts)


# The columns that `pacsent check` writes.
FINAL_LABEL = "final_label"
LABELLED_BY = "labelled_by"
SAMPLED = "sampled"
_LABELLERS = ("person", "machine")
REVIEWED = "reviewed"  # which `pacsent audit` writes
PREDICTION = "prediction"


def read_labelled_table(
    path: str | os.PathLike,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    prediction_column: str | None = None,
    judge_column: str | None = None,
    kind: str | None = None,
    report: Report | None = None,
    allow_blank: bool = True,
    needs_text: bool = True,
    from_machine: bool = False,
) -> LabelledTable:
    """Return a table with labels, and what it says about who gave them.

    Without `label_column` the labels are in `final_label` if the table is one that `pacsent check`
    wrote, otherwise in `label`. With `allow_blank` rows may have no label. Unless `needs_text`, the
    texts are read if the table has a column `text`. With `from_machine` the labels may be answers
    of a model, which people will check; otherwise these are refused.
    """
    with TextTable(path, kind=kind, text_column=False) as table:
        if table.kind == "text":
            named_columns = (text_column, label_column, group_column)
            _check_no_named_columns(table, named_columns, prediction_column)
            table._rows = table._label_rows()
            table.names = ["text", "label"]

        label_column = label_column or _default_label_column(table)
        if prediction_column is None and not from_machine:
            _refuse_predictions_as_labels(table, label_column)

        columns = {
            "text": text_column or _default_text_column(table, needs_text),
            "label": label_column,
            "prediction": prediction_column,
            "group": group_column,
            "judge": judge_column,
        }
        columns_about_labels = {
            role: name for role, name in _ABOUT_LABELS.items() if name in table.names
        }
        texts, values = _read_columns(table, columns | columns_about_labels, allow_blank)

    if not texts:
        problem = _describe_empty_table(table, has_predictions=prediction_column is not None)
        raise ValueError(f"{table.name} must have {problem} instead.")
    if report is not None:
        report(_describe_labelled_table(table, len(texts)))

    # Columns of the same names that somebody else wrote are left out.
    labelled_by = values.get("labeller")
    if labelled_by is not None and not {*labelled_by} <= {*_LABELLERS, ""}:
        labelled_by = None
    sampled = None if labelled_by is None else values.get("sampled")
    reviewed = values.get("reviewed")
    if reviewed is not None and not _are_reviews(reviewed):
        reviewed = None

    return LabelledTable(
        texts=None if columns["text"] is None else texts,
        labels=values["label"],
        predictions=values.get("prediction"),
        groups=values.get("group"),
        judge=values.get("judge"),
        labelled_by=labelled_by,
        sampled=_as_flags(sampled),
        reviewed=_as_flags(reviewed),
        name=table.name,
        label_column=label_column,
        ignored=_ignored_columns(table, columns),
    )


_YES = ("yes", "true", "1")
# Columns about the labels, by their roles.
_ABOUT_LABELS: dict[str, str | None] = {
    "labeller": LABELLED_BY,
    "sampled": SAMPLED,
    "reviewed": REVIEWED,
}


def _as_flags(cells: list[str] | None) -> list[bool] | None:
    """True for each cell that means yes."""
    if cells is None:
        return None
    return [cell.casefold() in _YES for cell in cells]


def _describe_empty_table(table: TextTable, *, has_predictions: bool) -> str:
    if has_predictions:
        return "predictions. Got no row"
    if table.kind == "text":
        return "labelled text. Got blank lines"
    return "labelled text. Got no row"


def _describe_labelled_table(table: TextTable, n_rows: int) -> str:
    if table.kind == "text":
        return f"Read {n_rows:,} lines of label<TAB>text of {table.name}."
    return describe_table(table, n_rows)


def _check_no_named_columns(
    table: TextTable, columns: Iterable[str | None], prediction_column: str | None
) -> None:
    """Raise ValueError if a file of lines is to have columns."""
    if prediction_column is not None:
        raise ValueError(
            f"{table.name} must be a table: .csv, .tsv, .jsonl or .parquet. Got lines of "
            "text instead. Name the format with input_format."
        )
    if any(columns):
        raise ValueError(
            f"{table.name} must be a table to have named columns. Got lines of text "
            "instead. Name the format of the file, such as csv, or leave the columns out."
        )


def _default_text_column(table: TextTable, needs_text: bool) -> str | None:
    """The column "text", or None if there is none and it is not needed."""
    if needs_text or "text" in table.names:
        return "text"
    return None


def _default_label_column(table: TextTable) -> str:
    """The column of final labels if `pacsent check` wrote the table, else "label"."""
    is_checked = {FINAL_LABEL, LABELLED_BY, SAMPLED} <= set(table.names)
    return FINAL_LABEL if is_checked else "label"


def _ignored_columns(table: TextTable, columns: dict[str, str | None]) -> tuple[str, ...]:
    """The column of predictions if there is one, but nothing reads it: a model predicts."""
    is_unread = PREDICTION in table.names and PREDICTION not in columns.values()
    return (PREDICTION,) if is_unread and columns["prediction"] is None else ()


def _are_reviews(cells: list[str]) -> bool:
    """True if all cells are yes, no or blank, as `pacsent audit` writes them."""
    return {cell.casefold() for cell in cells} <= {"yes", "no", ""}


def _refuse_predictions_as_labels(table: TextTable, label_column: str) -> None:
    """Refuse a table whose only labels are predictions, and predictions that are named as labels.

    `pacsent predict` writes them beside a column of probabilities.
    """
    if label_column == PREDICTION and "probability" in table.names:
        raise ValueError(
            f"Column {PREDICTION} of {table.name} must have labels. Got the answers of a model, "
            "with their probability, instead: agreement with them is no accuracy. Name another "
            f"column with label_column. If people corrected {PREDICTION}, rename it."
        )
    if label_column in table.names:
        return
    if PREDICTION in table.names and "label" not in table.names:
        raise ValueError(
            f"{table.name} must have a column of labels. Got {', '.join(table.names)} instead. Its "
            f"column {PREDICTION} has the answers of a model, which are no labels. Name the column "
            "with label_column."
        )


def _read_columns(
    table: TextTable, columns: dict[str, str | None], allow_blank: bool
) -> tuple[list[str], dict[str, list[str]]]:
    """Return the texts, and the other columns by role; the note of the table names them.

    Labels may be blank, "" then, if `allow_blank`; who gave them may always be.
    """
    names = {role: name for role, name in columns.items() if name is not None}
    shown = {role: name for role, name in names.items() if role not in _ABOUT_LABELS}
    table.check_columns(list(shown.values()), [f"{role}_column" for role in shown])
    text_column = names.pop("text", None)
    if text_column:
        table.choose_text(text_column)

    may_be_blank = {*_ABOUT_LABELS}
    if allow_blank:
        may_be_blank.add("label")

    texts: list[str] = []
    values: dict[str, list[str]] = {role: [] for role in names}
    notes = dict.fromkeys(names, "")
    for rows in table.batches(list(names.values())):
        texts += as_list(rows.texts)
        for role, name in names.items():
            column = as_list(rows.columns[name])
            cells, note = _read_cells(table, role, rows.numbers, column, role in may_be_blank)
            values[role] += cells
            notes[role] = notes[role] or note

    descriptions = [table.note] if table.note else []
    for role, name in shown.items():
        if role != "text":
            descriptions.append(f"{role} column {name}{notes[role]}")
    table.note = ", ".join(descriptions)
    return texts, values


def _read_cells(
    table: TextTable, role: str, numbers: Iterable[int], column: list, allow_blank: bool
) -> tuple[list[str], str]:
    """The cells of a column as strings, "" for blank ones; a note if some were no strings."""
    cells = []
    note = ""
    for number, value in zip(numbers, column):
        cell = str(value)
        if not isinstance(value, str) and value is not None and not note:
            note = f" (kept as strings: {cell!r})"

        problem = None
        is_blank = value is None or value != value or not cell.strip()
        if not is_blank:
            problem = _cell_problem(role, value, cell)
        elif not allow_blank:
            problem = f"a {role}. Got none"
        if problem:
            raise ValueError(f"{table.place(number)} must have {problem} instead.")
        cells.append("" if is_blank else cell)
    return cells, note


def _cell_problem(role: str, value: Any, cell: str) -> str | None:
    """The reason why a value that is not blank cannot be a label, a group or the like."""
    if isinstance(value, (list, dict, bytes)):
        return f"one {role}: a string or a number. Got {cell[:40]}"
    if not _is_encodable(cell):
        return f"a {role} of whole characters. Got {cell!r}"
    return None
