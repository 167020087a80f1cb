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
from collections.abc import Callable, Iterator, Sequence
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
    if suffix.lower() in COMPRESSED:
        stem, suffix = os.path.splitext(stem)
        if suffix.lower() not in KINDS:  # notes.gz: lines
            return "text", stem + suffix
    kind = KINDS.get(suffix.lower())
    return (kind, stem) if kind else (None, name)


def output_names(
    names: Sequence[str], own: Sequence[str], source: str
) -> tuple[dict[str, str], list[str]]:
    """Return the names that columns of an input have in an output with columns of its own.

    Also returns one message for each column that is renamed.
    """
    renamed, used = {}, {*own, *names}
    for name in names:
        new = name
        while name in own and new in used:
            new = f"input_{new}"
        renamed[name] = new
        used.add(new)
    return renamed, [
        f"The column {name} of {source} is named {new} in the output, because {name} is written by "
        "this command."
        for name, new in renamed.items()
        if new != name
    ]


def as_list(column: Any) -> list:
    """Return a column as a list; it may be a NumPy or pyarrow array."""
    if isinstance(column, list):
        return column
    return column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()


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
        self.kind = kind or kind_of(os.path.basename(path))[0] or "text"
        self.name = str(path) if file is not None else Path(path).name
        self.name = "standard input" if self.name == "-" else self.name
        self.unit = "row" if self.kind == "parquet" else "line"
        self.text_column: Any = False
        self.note = ""
        self._all_columns = False
        self.n_blank = 0  # rows of empty values, which are skipped
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
        self._source = Source(path, file)
        if self.kind == "parquet":
            pa = import_optional("pyarrow", f"{self.name} needs pyarrow", "parquet")
            from pyarrow import parquet

            opened: Any = self._source.file
            if self._source.kind or not opened.seekable():
                opened = tempfile.TemporaryFile()  # noqa: SIM115 (closed when it is collected)
                shutil.copyfileobj(self._source, opened, _BLOCK_BYTES)
            opened.seek(0)
            with self._parquet_errors():
                self._parquet = parquet.ParquetFile(pa.PythonFile(opened, mode="r"))
                self.names = list(self._parquet.schema_arrow.names)
        else:
            readers = {"jsonl": self._json_rows, "text": self._text_rows}
            self._rows = readers.get(self.kind, self._csv_rows)()
            number, names, error = next(self._rows)
            if names is None:
                raise ValueError(f"{self.place(number)} {error}")
            self.names = names
        if text_column is not False:
            self.choose_text(text_column)

    def choose_text(self, text_column: Any = None) -> None:
        """Read the text from this column; None for `text`, or the only column."""
        is_only = text_column is None and "text" not in self.names and len(self.names) == 1
        self.text_column = self.names[0] if is_only else text_column or "text"
        self.check_columns([self.text_column], ["text_column"])
        if self.kind != "text":
            self.note = f"column {self.text_column}" + (" (the only one)" if is_only else "")

    def __exit__(self, *_):
        self._source.close()

    def check_columns(
        self, columns: Sequence[str], parameters: Sequence[str] = ("keep_columns",)
    ) -> list[str]:
        """Return the names of columns, ("*",) for all. Messages name `parameters`, one for each."""
        chosen = list(self.names) if tuple(columns) == ("*",) else list(columns)
        if missing := [name for name in dict.fromkeys(chosen) if name not in self.names]:
            names = {" ".join(str(name).split()).casefold(): name for name in self.names}
            options = dict(zip(chosen, itertools.cycle(parameters)))
            alike = []
            for name in missing:
                # The text is never the label.
                others = [n for n in names if n != "text" or options[name] == "text_column"]
                alike.append(get_close_matches(name.casefold(), others, 1))
            raise ValueError(
                f"The columns of {self.name} must include {' and '.join(missing)}. Got "
                f"{', '.join(' '.join(str(name).split()) for name in self.names)} instead. "
                + "".join(f"Did you mean {names[match]}? " for near in alike for match in near)
                + f"Name the column with {' and '.join({options[n]: n for n in missing})}"
                + ("." if len(names) > 1 else "; a file of plain lines is called .txt.")
            )
        for name in chosen:
            if (n := self.names.count(name)) > 1:
                raise ValueError(f"{self.name} must have one column named {name}. Got {n} instead.")
        return chosen

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
                index = min(errors)
                raise ValueError(f"{self.place(numbers[index])} {errors[index]}")
            bad = [BadRow(i, f"{self.unit} {numbers[i]:,}", errors[i]) for i in sorted(errors)]
            texts = values.pop(0) if has_text else [""] * len(numbers)
            yield TextRows(texts, dict(zip(kept, values)), bad, numbers)

    def _row_batches(self, wanted: list[str], n_rows: int) -> Iterator[tuple[list, dict, Any]]:
        empty_row = [None] * len(self.names)
        is_first = True
        while (rows := list(itertools.islice(self._rows, n_rows))) or is_first:
            is_first = False
            numbers = tuple(number for number, _, _ in rows)
            errors = {i: error for i, (_, _, error) in enumerate(rows) if error is not None}
            columns = list(zip(*[empty_row if row is None else row for _, row, _ in rows]))
            values = [list(columns[self.names.index(name)]) if rows else [] for name in wanted]
            if self.text_column is not False:
                for i in errors:
                    values[0][i] = ""
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
            line, error = line.removeprefix("\ufeff") if number == 1 else line, None
            if not line.isascii():
                try:
                    line.encode()
                except UnicodeEncodeError as invalid:
                    offset = len(line[: invalid.start].encode())
                    byte = ord(line[invalid.start]) & 0xFF
                    error = (
                        f"must be UTF-8 text. Got the byte 0x{byte:02x} instead ({offset:,} bytes "
                        f"into the line). {how_to_convert(byte, offset if number == 1 else 1)}"
                    )
            yield number, line, error
        if number == 0:
            raise ValueError(empty_file(self._source.name))

    def _text_rows(self) -> Iterator[tuple[int, list | None, str | None]]:
        yield 0, ["text"], None
        for number, line, error in self._lines():
            yield number, [line.removesuffix("\n").removesuffix("\r")], error

    def _label_rows(self) -> Iterator[tuple[int, list | None, str | None]]:
        """Rows of label<TAB>text without blank lines, for a file whose rows are not read yet."""
        for number, line, error in self._lines():
            line = line.removesuffix("\n").removesuffix("\r")
            label, tab, text = line.partition("\t")
            if not line.strip():
                continue
            if not error and not (tab and label.strip()):
                error = (
                    f"must be label<TAB>text. Got {line[:40]!r} instead. A table has "
                    "another name, such as .csv, or a named format."
                )
            yield number, [text, label], error

    def _csv_rows(self) -> Iterator[tuple[int, list | None, str | None]]:
        encoding_errors: list[str] = []  # in the lines of the current row

        def texts():
            for _, text, error in self._lines():
                if error:
                    encoding_errors.append(error)
                yield text

        csv.field_size_limit(_MAX_CSV_FIELD)
        lines = texts()
        header = next(lines)
        separator = "," if self.kind == "csv" else "\t"
        if self.kind == "csv" and ";" in header and "," not in header:  # as spreadsheets in Europe
            separator = ";"
        reader = csv.reader(itertools.chain([header], lines), delimiter=separator, strict=True)
        n_columns = 0  # of the header, which is read first
        while True:
            first, error = reader.line_num + 1, None
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
                if not any(cell.strip() for cell in row) and n_columns > 1:
                    self.n_blank += bool(row)  # no blank line, but separators
                    continue
                row = row or [""]  # the empty value of an only column
                if len(row) > n_columns and not any(row[n_columns:]):
                    row = row[:n_columns]
                if len(row) != n_columns:
                    error = (
                        f"must have {n_columns:,} values, one for each column. Got {len(row):,} "
                        "instead. Quote values that hold the separator."
                    )
                # A tab behind the end of a line belongs to the next row: a lone mark joined them.
                elif separator == "\t" and any("\t" in cell and "\n" in cell for cell in row):
                    error = f"begins a quoted value that holds whole lines of the table. {_QUOTES}"
            yield first, None if error else row, error
            n_columns = n_columns or len(row)

    def _json_rows(self) -> Iterator[tuple[int, list | None, str | None]]:
        names: list[str] | None = None
        before = []  # rows before the first object, whose keys are the names of the columns
        for number, line, error in self._lines():
            if error is None and not line.strip():
                continue
            row = None
            if error is None:
                with contextlib.suppress(ValueError, RecursionError):
                    row = json.loads(line)
                if not isinstance(row, dict):
                    row, error = None, f"must be a JSON object. Got {line.strip()[:40]!r} instead."
            if names is None:
                if row is None:
                    before.append((number, None, error))
                    continue
                names = list(row)
                yield 0, names, None
                yield from before
            if row is not None and self._all_columns and not row.keys() <= set(names):
                new = next(key for key in row if key not in names)
                row = None
                error = (
                    f"must have no other keys than the first object. Got {new!r} as well. Add the "
                    "key to the first object, or name the columns to keep."
                )
            if row is not None and self.text_column is not False:
                text = row.get(self.text_column)
                if not isinstance(text, str):
                    error = _NO_TEXT.format("nothing" if text is None else show(text))
                elif not _is_encodable(text):
                    error = "must have a text of whole characters. Got a lone surrogate instead."
            yield number, None if row is None else [row.get(name) for name in names], error
        if names is None:
            yield before[0] if before else (0, ["text"], None)

    @contextlib.contextmanager
    def _parquet_errors(self):
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

        schema, has_text = self._parquet.schema_arrow, self.text_column is not False
        types = [schema.field(name).type for name in wanted]
        if has_text:
            text_type = types[0].value_type if pa.types.is_dictionary(types[0]) else types[0]
            if text_type not in (pa.string(), pa.large_string(), pa.string_view()):
                raise ValueError(
                    f"The column {self.text_column} of {self.name} must have text. Got {types[0]} "
                    "instead. Name another column."
                )
            types[0] = pa.string() if types[0] == pa.string() else pa.large_string()
        columns = list(dict.fromkeys(wanted))
        n_read = 0
        with self._parquet_errors():
            for batch in self._parquet.iter_batches(n_rows, columns=columns, use_threads=False):
                values = [batch.column(name) for name in wanted]
                errors: dict[int, str] = {}
                if has_text:
                    texts = values[0].cast(types[0])
                    missing = np.flatnonzero(texts.is_null().to_numpy(zero_copy_only=False))
                    errors = dict.fromkeys(missing.tolist(), _NO_TEXT.format("nothing"))
                    values[0] = texts.fill_null("")
                yield values, errors, range(n_read + 1, n_read + batch.num_rows + 1)
                n_read += batch.num_rows
        if not n_read:
            yield [pa.array([], dtype) for dtype in types], {}, ()


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

    A name in .csv, .tsv, .jsonl or .parquet, compressed or not, is a table; `kind` is the format of
    stdin (`-`) and other names. `report` is called with a sentence about what was read, at the end.
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
    unit = ("line" if table.kind == "text" else "row") + ("" if n_rows == 1 else "s")
    blank = f"{table.n_blank:,} without any value skipped" if table.n_blank else ""
    parts = [f"Read {n_rows:,} {unit} of {table.name}", table.note, blank]
    return ", ".join(filter(None, parts)) + "."


def read_labelled_texts(
    path: str | os.PathLike,
    *,
    text_column: str | None = None,
    label_column: str | None = None,
    group_column: str | None = None,
    kind: str | None = None,
    report: Report | None = None,
) -> tuple[list[str], list[str], list[str] | None]:
    """Return the texts, labels and groups (or None) of a table, or of `label<TAB>text` lines.

    A table is CSV, TSV, JSON lines or Parquet, compressed or not, by its name or by `kind`; any
    other file has lines of label<TAB>text. `group_column` is that of the group (the book, the
    author, the day) that a text is from. `report` is called with a sentence about what was read.
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
FINAL_LABEL, LABELLED_BY, SAMPLED = "final_label", "labelled_by", "sampled"
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
) -> LabelledTable:
    """Return a table with labels, and what it says about who gave them.

    Without `label_column` the labels are in `final_label` if the table is one that `pacsent check`
    wrote, otherwise in `label`. With `allow_blank` rows may have no label. Unless `needs_text`, the
    texts are read if the table has a column `text`.
    """
    with TextTable(path, kind=kind, text_column=False) as table:
        has_lines = table.kind == "text"
        if has_lines:
            if prediction_column is not None:
                raise ValueError(
                    f"{table.name} must be a table: .csv, .tsv, .jsonl or .parquet. Got lines of "
                    "text instead. Name the format with input_format."
                )
            if any((text_column, label_column, group_column)):
                raise ValueError(
                    f"{table.name} must be a table to have named columns. Got lines of text "
                    "instead. Name the format of the file, such as csv, or leave the columns out."
                )
            table._rows, table.names = table._label_rows(), ["text", "label"]
        is_checked = {FINAL_LABEL, LABELLED_BY, SAMPLED} <= set(table.names)
        label_column = label_column or (FINAL_LABEL if is_checked else "label")
        if needs_text:
            text_column = text_column or "text"
        else:
            text_column = text_column or ("text" if "text" in table.names else None)
        columns = {
            "text": text_column,
            "label": label_column,
            "prediction": prediction_column,
            "group": group_column,
            "judge": judge_column,
        }
        columns_about_labels = {
            "labeller": LABELLED_BY,
            "sampled": SAMPLED,
            "reviewed": REVIEWED,
        }
        by_whom: dict[str, str | None] = {
            role: name for role, name in columns_about_labels.items() if name in table.names
        }
        if prediction_column is None:
            _refuse_predictions_as_labels(table, label_column)
        missing = f"labelled text. Got {'blank lines' if has_lines else 'no row'}"
        if prediction_column is not None:
            missing = "predictions. Got no row"
        texts, values = _read_columns(table, columns | by_whom, missing, allow_blank)
    if report is not None:
        lines = f"Read {len(texts):,} lines of label<TAB>text of {table.name}."
        report(lines if has_lines else describe_table(table, len(texts)))
    labellers = values.get("labeller")
    is_known = labellers is not None and {*labellers} <= {*_LABELLERS, ""}
    sampled = values.get("sampled") if is_known else None
    reviewed = values.get("reviewed")
    if reviewed is not None and not {value.casefold() for value in reviewed} <= {"yes", "no", ""}:
        reviewed = None  # a column of somebody else
    other_columns = {column for column in columns.values() if column is not None}
    is_ignored = (
        prediction_column is None and PREDICTION in table.names and PREDICTION not in other_columns
    )
    return LabelledTable(
        texts=texts if text_column is not None else None,
        labels=values["label"],
        predictions=values.get("prediction"),
        groups=values.get("group"),
        judge=values.get("judge"),
        labelled_by=labellers if is_known else None,
        sampled=None if sampled is None else [value.casefold() in _YES for value in sampled],
        reviewed=None if reviewed is None else [value.casefold() in _YES for value in reviewed],
        name=table.name,
        label_column=label_column,
        ignored=(PREDICTION,) if is_ignored else (),
    )


_YES = ("yes", "true", "1")
_ABOUT_LABELS = frozenset({"labeller", "sampled", "reviewed"})  # roles of columns about the labels


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


def _read_columns(table: TextTable, columns: dict[str, str | None], missing: str, blank=False):
    """Return the texts, and the other columns by role; the note of the table names them.

    Labels may be blank, "" then, if `blank` allows it; who gave them may always be.
    """
    names = {role: name for role, name in columns.items() if name is not None}
    shown = {role: name for role, name in names.items() if role not in _ABOUT_LABELS}
    table.check_columns(list(shown.values()), [f"{role}_column" for role in shown])
    text_column = names.pop("text", None)
    if text_column:
        table.choose_text(text_column)
    texts: list[str] = []
    values: dict[str, list] = {role: [] for role in names}
    notes = dict.fromkeys(names, "")
    may_be_blank = _ABOUT_LABELS | ({"label"} if blank else set())
    for rows in table.batches(list(names.values())):
        texts += as_list(rows.texts)
        for role, name in names.items():
            for number, value in zip(rows.numbers, as_list(rows.columns[name])):
                cell, problem = str(value), None
                if not isinstance(value, str) and value is not None and not notes[role]:
                    notes[role] = f" (kept as strings: {cell!r})"
                if value is None or value != value or not cell.strip():
                    cell = ""
                    problem = None if role in may_be_blank else f"a {role}. Got none"
                elif isinstance(value, (list, dict, bytes)):
                    problem = f"one {role}: a string or a number. Got {cell[:40]}"
                elif not _is_encodable(cell):
                    problem = f"a {role} of whole characters. Got {cell!r}"
                if problem:
                    raise ValueError(f"{table.place(number)} must have {problem} instead.")
                values[role].append(cell)
    if not texts:
        raise ValueError(f"{table.name} must have {missing} instead.")
    named = [f"{role} column {name}{notes[role]}" for role, name in names.items() if role in shown]
    table.note = ", ".join([*([table.note] if table.note else []), *named])
    return texts, values
