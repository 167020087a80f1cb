"""Tables of texts: the one reader of CSV, TSV, JSON lines, Parquet and plain lines.

`TextTable` reads a file batch by batch, packed or not, and says of every row that cannot be read
where it is and what is wrong with it. `stream_texts` and `read_labelled_texts` are what most
callers need. The writer of results is in `result_files`.
"""

import bisect
import contextlib
import csv
import itertools
import json
import math
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pacsent.lazy import install_hint
from pacsent.text.reading import PACKED, Source, empty_file, how_to_convert

KINDS = {
    ".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".csv": "csv", ".tsv": "tsv", ".txt": "text", ".text": "text",
}  # fmt: skip
TEXT, LABEL = "text", "label"
BATCH = 1 << 14  # rows
_BLOCK = 1 << 20  # bytes of text read at a time
_LONGEST = 2**31 - 1  # characters of a value of a table
_QUOTES = (
    'A value that begins with " must be quoted as a whole, its own marks doubled. Repair the file, '
    "or write it as JSON lines."
)


class BadRow(NamedTuple):
    """A row that could not be read: where it is, and what is wrong with it."""

    place: str
    error: str
    number: int  # as in `TextRows.lines`


class TextRows(NamedTuple):
    """Some rows of a table; of Parquet, the columns are arrays of pyarrow."""

    texts: Any  # list of str, or a string array without nulls
    columns: dict[str, Any]
    bad: list[BadRow]
    lines: Sequence[int] = ()  # on which each row begins; of Parquet, its number

    def bad_places(self) -> list[int]:
        """Where the bad rows are among these rows, counted from 0."""
        return [bisect.bisect_left(self.lines, bad.number) for bad in self.bad]


def kind_of(name: str) -> tuple[str | None, str]:
    """What a file holds by its name, and the name without the suffixes that say so.

    >>> kind_of("part-1.csv.gz")
    ('csv', 'part-1')
    >>> kind_of("README.md")
    (None, 'README.md')
    """
    stem, suffix = os.path.splitext(name)
    if suffix.lower() in PACKED:
        stem, suffix = os.path.splitext(stem)
        if suffix.lower() not in KINDS:  # notes.gz: lines
            return "text", stem + suffix
    kind = KINDS.get(suffix.lower())
    return (kind, stem) if kind else (None, name)


def kept_names(
    names: Sequence[str], own: Sequence[str], source: str
) -> tuple[dict[str, str], list[str]]:
    """Return the names that columns of an input have in an output which has columns of its own.

    Also returns one message for each column that is renamed.

    >>> kept_names(["id", "label"], ["label", "probability"], "a.csv")[0]
    {'id': 'id', 'label': 'input_label'}
    """
    found, messages, taken = {}, [], {*own, *names}
    for name in names:
        new = name
        if name in own:
            while new in taken:
                new = f"input_{new}"
            messages.append(
                f"The column {name} of {source} is named {new} in the output, because {name} is "
                "written by this command."
            )
        found[name] = new
        taken.add(new)
    return found, messages


def listed(column: Any) -> list:
    """Return a column as a list; it may be an array of NumPy or of pyarrow."""
    if isinstance(column, list):
        return column
    return column.to_pylist() if hasattr(column, "to_pylist") else column.tolist()


def pyarrow() -> Any:
    """Return the package, or raise one line that says how to get it."""
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError(
            f"Parquet files need pyarrow, which is not installed. {install_hint('parquet')}"
        ) from None
    return pa


# ---- The table ----------------------------------------------------------------------------------


class TextTable:
    """A table that is read batch by batch.

    An open binary `file` is read in place of the path ('-' for stdin), which then only names it.
    `kind`, one of the values of `KINDS`, is what the file holds, by its name if omitted.
    `text_column` is by default `text`, or the only column of a file that has one; False: no text is
    read. `names` are the columns of the file (of JSON lines, the keys of the first object), and
    `note` says which column is read, for a report.

    >>> import io
    >>> with TextTable("films.csv", file=io.BytesIO(b"id,text\\n7,a quiet film\\n")) as table:
    ...     list(table.batches(["id"]))
    [TextRows(texts=['a quiet film'], columns={'id': ['7']}, bad=[], lines=[2])]
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
        if self.kind == "text" and text_column not in (None, False, TEXT):
            raise ValueError(
                f"{self.name} must be a table to have the column {text_column}. Got lines of text "
                "instead. Name the format of the file, such as csv, or leave the column out."
            )
        self._source = Source(path, file)
        self._rows: _Reader = _READERS[self.kind](self)
        self.names = self._rows.names
        self.text_column: Any = False
        self.note = ""
        if text_column is not False:
            self._choose_text(text_column)

    def _choose_text(self, text_column):
        alone = text_column is None and TEXT not in self.names and len(self.names) == 1
        self.text_column = self.names[0] if alone else text_column or TEXT
        self.chosen([self.text_column], "text_column")
        self.note = "" if self.kind == "text" else f"column {self.text_column}"
        self.note += " (the only one)" if alone else ""

    def __enter__(self) -> "TextTable":
        return self

    def __exit__(self, *_):
        self._source.close()

    def chosen(self, columns: Sequence[str], parameter: str = "keep_columns") -> list[str]:
        """Return the names of columns, ("*",) for all; each must be there once.

        A message about a column that is missing says which parameter names it.
        """
        chosen = list(self.names) if tuple(columns) == ("*",) else list(columns)
        for name in dict.fromkeys(chosen):
            if name not in self.names:
                if self._rows.wrong is not None:  # of JSON lines: none is an object
                    raise ValueError(f"{self.place(self._rows.wrong[0])} {self._rows.wrong[1]}")
                found = ", ".join(" ".join(str(one).split()) for one in self.names)
                raise ValueError(
                    f"The columns of {self.name} must include {name}. Got {found} instead. Name "
                    f"one of them with {parameter}; a file of plain lines is called .txt."
                )
            if self.names.count(name) > 1:
                raise ValueError(
                    f"{self.name} must have one column named {name}. Got {self.names.count(name)} "
                    "instead. Rename one of them."
                )
        return chosen

    def batches(
        self, columns: Sequence[str] = (), *, on_bad: str = "refuse", n_rows: int = BATCH
    ) -> Iterator[TextRows]:
        """Yield the texts and further columns, about `n_rows` rows at a time, at least once.

        `columns` are names, or ("*",) for all. `on_bad` "refuse" raises at a row that cannot be
        read; "report" keeps it in its place with an empty text and names it in `TextRows.bad`.
        """
        kept = self.chosen(columns)
        self._rows.keeps_all = tuple(columns) == ("*",)
        wanted = [self.text_column, *kept] if self.has_text else kept
        for *values, wrong, lines in self._rows.batches(wanted, n_rows):
            texts = values.pop(0) if self.has_text else [""] * len(lines)
            bad = [BadRow(f"{self.unit} {number:,}", error, number) for number, error in wrong]
            if bad and on_bad == "refuse":
                raise ValueError(f"{self.place(wrong[0][0])} {bad[0].error}")
            yield TextRows(texts, dict(zip(kept, values)), bad, lines)

    @property
    def has_text(self) -> bool:
        return self.text_column is not False

    @property
    def unit(self) -> str:
        return "row" if self.kind == "parquet" else "line"

    def place(self, number: int) -> str:
        """Return how a row is named in a message: "Line 3 of a.csv"."""
        return f"{self.unit.capitalize()} {number:,} of {self.name}"


class _Reader(ABC):
    """Reads rows one by one: `rows` yields line, values of the wanted columns, and an error."""

    wrong: tuple[int, str] | None = None  # the first line, where none could be read
    keeps_all = False  # whether every column is wanted

    def __init__(self, table: TextTable):
        self.table, self.source = table, table._source
        self.names = self.header()

    @abstractmethod
    def header(self) -> list[str]:
        """Names of the columns."""

    def batches(self, wanted: list[str], n_rows: int) -> Iterator[list]:
        rows: Iterator = self.rows(wanted)  # type: ignore[attr-defined]
        begun = False
        blank = [""] if self.table.has_text else []  # the text of a row that could not be read
        while some := list(itertools.islice(rows, n_rows)):
            wrong = []
            for at, (number, values, error) in enumerate(some):
                if error is None and values is not None and blank:
                    error = _text_error(values[0])
                if error:
                    wrong.append((number, error))
                    values = [None] * len(wanted) if values is None else values
                    some[at] = number, [*blank, *values[len(blank) :]], error
            lines, columns, _ = zip(*some)
            yield [*map(list, zip(*columns)), wrong, list(lines)]
            begun = True
        if not begun:
            yield [*([] for _ in wanted), [], []]

    def lines(self) -> Iterator[tuple[int, str, str | None]]:
        """Yield number, text with its newline, and error of each line."""
        held: list[bytes] = []
        number, first = 1, True
        while block := self.source.read(_BLOCK):
            if first:
                block, first = block.removeprefix(b"\xef\xbb\xbf"), False
            cut = block.rfind(b"\n") + 1
            if not cut:
                held.append(block)
                continue
            whole = b"".join([*held, block[:cut]])
            held = [block[cut:]]
            for line in _decoded(whole, number):
                yield line
                number += 1
        if first:
            raise ValueError(empty_file(self.source.name))
        if rest := b"".join(held):
            yield from _decoded(rest, number)


def _text_error(text) -> str | None:
    if not isinstance(text, str):
        kind = "nothing" if text is None else f"{type(text).__name__} {str(text)[:40]!r}"
        return f"must have a text. Got {kind} instead. Leave the row out, or put a text there."
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            return "must have a text of whole characters. Got a lone surrogate instead."
    return None


def _decoded(whole: bytes, number: int) -> Iterator[tuple[int, str, str | None]]:
    pieces = whole.split(b"\n")
    if not pieces[-1]:
        pieces.pop()
    try:
        for at, text in enumerate(whole.decode("utf-8").split("\n")[: len(pieces)], number):
            yield at, text + "\n", None
    except UnicodeDecodeError:
        for at, piece in enumerate(pieces, number):
            try:
                yield at, piece.decode("utf-8") + "\n", None
            except UnicodeDecodeError as error:
                yield at, "\n", (
                    f"must be UTF-8 text. Got the byte 0x{piece[error.start]:02x} instead "
                    f"({error.start:,} bytes into the line). "
                    f"{how_to_convert(piece[error.start], error.start if at == 1 else 1)}"
                )  # fmt: skip


class _Lines(_Reader):
    def header(self) -> list[str]:
        return [TEXT]

    def rows(self, wanted):
        for number, line, error in self.lines():
            yield number, [line[:-1].removesuffix("\r")] * len(wanted), error


class _JSONLines(_Reader):
    def header(self) -> list[str]:
        self._objects = self._read()
        self._first = []  # rows up to the first that is an object
        for row in self._objects:
            self._first.append(row)
            if row[1] is not None:
                return list(row[1])
        self.wrong = (self._first[0][0], self._first[0][2]) if self._first else None
        return [TEXT]

    def _read(self):
        for number, line, error in self.lines():
            if error is None and not line.strip():
                continue
            found = None
            if error is None:
                with contextlib.suppress(ValueError, RecursionError):
                    found = json.loads(line)
                if not isinstance(found, dict):
                    found = None
                    error = f"must be a JSON object. Got {line.strip()[:40]!r} instead."
            yield number, found, error

    def rows(self, wanted):
        known = set(self.names)
        for number, found, error in itertools.chain(self._first, self._objects):
            if self.keeps_all and found is not None and not known.issuperset(found):
                new = next(key for key in found if key not in known)
                found, error = None, (
                    f"must have no other keys than the first object. Got {new!r} as well. Add the "
                    "key to the first object, or name the columns to keep."
                )  # fmt: skip
            yield number, None if found is None else [found.get(name) for name in wanted], error


class _Separated(_Reader):
    """CSV, or values between tabs."""

    separator = ","

    def header(self) -> list[str]:
        self._errors: dict[int, str] = {}
        csv.field_size_limit(_LONGEST)
        self._reader = csv.reader(self._texts(), delimiter=self.separator, strict=True)
        number, found, error = next(self._records(), (1, [], None))
        if error:
            raise ValueError(f"{self.table.place(number)} {error}")
        return list(found or [])

    def _texts(self) -> Iterator[str]:
        for number, text, error in self.lines():
            if error:
                self._errors[number] = error
            yield text

    def _records(self) -> Iterator[tuple[int, list[str] | None, str | None]]:
        """First line, values and error of every record."""
        while True:
            first = self._reader.line_num + 1
            error = found = None
            try:
                found = next(self._reader, None)
                if found is None:
                    return
            except csv.Error as wrong:
                error = (
                    f"must be a row of a {self.table.kind.upper()}. It is not: {wrong}. {_QUOTES}"
                )
            for number in range(first, self._reader.line_num + 1):
                error = self._errors.pop(number, error)
            yield first, None if error else found, error

    def rows(self, wanted):
        places = [self.names.index(name) for name in wanted]
        n_columns, last = len(self.names), max(places)
        for number, found, error in self._records():
            if found == []:  # a blank line: the empty value of an only column
                if n_columns > 1:
                    continue
                found = [""]
            if error is None:
                error = self._wrong(found, n_columns, last)
            yield number, None if error else [found[at] for at in places], error

    def _wrong(self, found: list[str], n_columns: int, last: int) -> str | None:
        if len(found) > n_columns and any(found[n_columns:]):
            return (
                f"must have {n_columns:,} values, one for each column. Got {len(found):,} instead. "
                "Quote values that hold the separator."
            )
        if len(found) <= last:
            return "must have a value in every column. Got a short line instead. Repair the file."
        return None


class _Tabs(_Separated):
    separator = "\t"

    def _wrong(self, found, n_columns, last):
        # a tab after the end of a line is one of the next row: a lone mark has joined them
        if any("\t" in value and "\n" in value for value in found):
            return f"begins a quoted value that holds whole lines of the table. {_QUOTES}"
        return super()._wrong(found, n_columns, last)


class _Parquet(_Reader):
    def header(self) -> list[str]:
        pa = pyarrow()
        from pyarrow import parquet

        with self._understood():
            file: Any = self.source.file
            if self.source.kind or not file.seekable():
                file = tempfile.TemporaryFile()  # noqa: SIM115 (closed when it is collected)
                while block := self.source.read(_BLOCK):
                    file.write(block)
            file.seek(0)
            self._file = parquet.ParquetFile(pa.PythonFile(file, mode="r"))
        return list(self._file.schema_arrow.names)

    @contextlib.contextmanager
    def _understood(self):
        """What Arrow raises on a damaged file, in one line."""
        try:
            yield
        except (pyarrow().ArrowException, OSError, UnicodeDecodeError) as error:
            about = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"{self.table.name} must be a whole Parquet file. Got one that cannot be read "
                f"instead ({about}). Fetch it again."
            ) from None

    def batches(self, wanted, n_rows):
        pa = pyarrow()
        schema = self._file.schema_arrow
        kind = self._text_type(schema.field(wanted[0])) if self.table.has_text else None
        done = 0
        with self._understood():
            read = self._file.iter_batches(
                batch_size=n_rows, columns=list(dict.fromkeys(wanted)), use_threads=False
            )
            for batch in read:
                texts, *others = (batch.column(name) for name in wanted)
                texts = texts if kind is None or texts.type == kind else texts.cast(kind)
                wrong = []
                if kind is not None and texts.null_count:
                    missing = texts.is_null().to_numpy(zero_copy_only=False).nonzero()[0]
                    error = _text_error(None) or ""
                    wrong = [(done + int(i) + 1, error) for i in missing]
                    texts = texts.fill_null("")
                lines = range(done + 1, done + batch.num_rows + 1)
                done += batch.num_rows
                yield [texts, *others, wrong, lines]
        if not done:
            none = [pa.array([], schema.field(name).type) for name in wanted[1:]]
            yield [pa.array([], kind or schema.field(wanted[0]).type), *none, [], ()]

    def _text_type(self, field):
        pa = pyarrow()
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_string(kind) and kind is field.type:
            return pa.string()
        if kind in (pa.string(), pa.large_string(), pa.string_view()):
            return pa.large_string()
        raise ValueError(
            f"The column {field.name} of {self.table.name} must hold text. Got {field.type} "
            "instead. Name another column."
        )


_READERS: dict[str, type[_Reader]] = {
    "text": _Lines, "jsonl": _JSONLines, "csv": _Separated, "tsv": _Tabs, "parquet": _Parquet,
}  # fmt: skip


# ---- What commands and functions read -----------------------------------------------------------

Report = Callable[[str], None]


def stream_texts(
    path: str | os.PathLike,
    *,
    text_column: str | None = None,
    kind: str | None = None,
    report: Report | None = None,
) -> Iterator[str]:
    """Yield texts one after the other in constant memory: a line each, or a column of a table.

    A name in .csv, .tsv, .jsonl or .parquet, packed or not, is a table; `kind` says it for stdin
    (`-`) and other names. `report` is called with a sentence about what was read, at the end.
    """
    n_rows = 0
    with TextTable(path, kind=kind, text_column=text_column) as table:
        for texts, *_ in table.batches():
            n_rows += len(texts)
            yield from listed(texts)
    if report is not None:
        report(what_was_read(table, n_rows))


def what_was_read(table: TextTable, n_rows: int) -> str:
    """Return a sentence about a table that was read to its end."""
    unit = ("line" if table.kind == "text" else "row") + ("" if n_rows == 1 else "s")
    return f"Read {n_rows:,} {unit} of {table.name}" + (f", {table.note}." if table.note else ".")


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

    A table is CSV, TSV, JSON lines or Parquet, packed or not, by its name or by `kind`. Any other
    file holds lines of label<TAB>text, and so does a TSV, or a CSV with tabs, whose first line does
    not have the columns `text` and `label` while none is named. `group_column` is that of the group
    (the book, the author, the day) that a text is from. `report` is called with a sentence about
    what was read.
    """
    named = (text_column, label_column, group_column) != (None, None, None)
    found = kind or kind_of(os.path.basename(path))[0] or "text"
    if not named and kind is None and found in ("csv", "tsv"):
        first = _first_line(path)
        names = [name.strip('"') for name in first.split("\t" if found == "tsv" else ",")]
        if not {TEXT, LABEL} <= set(names):
            if found == "csv" and "," in first and "\t" not in first:
                raise ValueError(
                    f"The columns of {Path(path).name} must include text and label. Got "
                    f"{', '.join(names)[:200]} instead. Name its columns with text_column and "
                    "label_column."
                )
            found = "text"
    if found == "text":
        if named:
            raise ValueError(
                f"{Path(path).name} must be a table to have named columns. Got lines of text "
                "instead. Name the format of the file, such as csv, or leave the columns out."
            )
        return _labelled_lines(path, report)
    wanted = {"label": label_column or LABEL}
    wanted |= {"group": group_column} if group_column is not None else {}
    with TextTable(path, kind=found, text_column=text_column or TEXT) as table:
        texts, columns, converted = _read_columns(table, wanted, "labelled text")
    if report is not None:
        for what, name in wanted.items():
            table.note += f", {what} column {name}{converted[what]}"
        report(what_was_read(table, len(texts)))
        _report_spaces(columns["label"], report)
    return texts, columns["label"], columns.get("group")


def _read_columns(table: TextTable, wanted: dict[str, str], holds: str):
    """The texts, the columns that are wanted (what -> name), checked, and how they were changed."""
    for what, name in wanted.items():
        table.chosen([name], f"{what}_column")
    texts: list[str] = []
    columns: dict[str, list] = {what: [] for what in wanted}
    converted = dict.fromkeys(wanted, "")
    for some, values, _, lines in table.batches(list(wanted.values())):
        for what, name in wanted.items():
            read = listed(values[name])
            if not all(isinstance(value, str) for value in read):
                converted[what] = f" (kept as strings: {str(read[0])!r})"
            for number, value in zip(lines, read):
                value = checked_name(value, what, table.place(number))
                if what == "probability":
                    value = _as_probability(value, table.place(number))
                columns[what].append(value)
        texts += listed(some)
    if not texts:
        raise ValueError(f"{table.name} must hold {holds}. Got no row instead.")
    return texts, columns, converted


class PredictionTable(NamedTuple):
    """The columns of a table of predictions; None for those that were not asked for."""

    labels: list[str]
    predictions: list[str]
    probabilities: list[float] | None
    groups: list[str] | None
    texts: list[str] | None


def read_predictions(
    path: str | os.PathLike,
    *,
    label_column: str = LABEL,
    prediction_column: str = "prediction",
    probability_column: str | None = None,
    group_column: str | None = None,
    text_column: str | None = None,
    kind: str | None = None,
    report: Report | None = None,
) -> PredictionTable:
    """Return the labels and predictions of a table, and further columns that are named.

    Texts are read where `text_column` is named or the table has a column `text`.

    >>> import pathlib, tempfile
    >>> table = pathlib.Path(tempfile.mkdtemp(), "answers.csv")
    >>> _ = table.write_text("label,prediction\\nyes,yes\\nno,yes\\n")
    >>> read_predictions(table).predictions
    ['yes', 'yes']
    """
    wanted = {"label": label_column, "prediction": prediction_column}
    wanted |= {"probability": probability_column} if probability_column is not None else {}
    wanted |= {"group": group_column} if group_column is not None else {}
    with TextTable(path, kind=kind, text_column=text_column or False) as table:
        if table.kind == "text":
            raise ValueError(
                f"{table.name} must be a table: .csv, .tsv, .jsonl or .parquet. Got lines of text "
                "instead. Name the format with input_format."
            )
        if text_column is None and TEXT in table.names:
            table._choose_text(TEXT)
        texts, columns, _ = _read_columns(table, wanted, "predictions")
    if report is not None:
        named = [f"{what} column {name}" for what, name in wanted.items()]
        table.note = ", ".join([*([table.note] if table.note else []), *named])
        report(what_was_read(table, len(texts)))
    return PredictionTable(
        columns["label"], columns["prediction"], columns.get("probability"), columns.get("group"),
        texts if table.has_text else None,
    )  # fmt: skip


def _as_probability(value: str, where: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not 0 <= found <= 1:
        raise ValueError(
            f"{where} must have a probability between 0 and 1. Got {value[:40]!r} instead."
        )
    return found


def _first_line(path) -> str:
    with Source(path) as source:
        first = source.read(_BLOCK).removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0]
    return first.decode("utf-8", "replace").strip()


def _labelled_lines(path, report: Report | None):
    """Texts and labels of lines of `label<TAB>text`; blank lines are passed over."""
    texts: list[str] = []
    labels: list[str] = []
    with TextTable(path, kind="text") as table:
        for some in table.batches():
            for number, line in zip(some.lines, some.texts):
                if not line.strip():
                    continue
                label, tab, text = line.partition("\t")
                if not tab or not label.strip():
                    raise ValueError(
                        f"{table.place(number)} must be label<TAB>text. Got {line[:40]!r} instead. "
                        "A CSV or TSV has a first line that names its columns: text and label, or "
                        "others that you name (text_column, label_column)."
                    )
                texts.append(text)
                labels.append(checked_name(label, "label", table.place(number)))
    if not texts:
        raise ValueError(f"{table.name} must hold labelled text. Got blank lines instead.")
    if report is not None:
        said = f"Read {len(texts):,} lines of label<TAB>text of {table.name}"
        if kind_of(table.name)[0] in ("csv", "tsv"):  # its header may have other names
            said += f", without a header: the first label is {labels[0][:40]!r}"
        report(f"{said}.")
        _report_spaces(labels, report)
    return texts, labels, None


def _report_spaces(labels: list[str], report: Report) -> None:
    """Labels are kept as they are; say where two differ in nothing but spaces around them."""
    seen: dict[str, str] = {}
    for name in sorted(set(labels)):
        if (other := seen.setdefault(name.strip(), name)) != name:
            report(
                f"The labels {other!r} and {name!r} differ only in spaces and are two classes. "
                "Remove the spaces from the file if they are one."
            )


def checked_name(value: Any, what: str, where: str) -> str:
    """Return a label or a group as a str, or raise one clear line where there is none.

    >>> checked_name("yes ", "label", "Line 3 of a.csv"), checked_name(4, "label", "Row 1 of a.pq")
    ('yes ', '4')
    """
    name = str(value)
    if value is None or value != value or not name.strip():
        raise ValueError(
            f"{where} must have a {what}. Got none instead. Leave the row out, or give it one."
        )
    if isinstance(value, (list, dict, bytes)):
        raise ValueError(
            f"{where} must have one {what}: a string or a number. Got {name[:40]} instead."
        )
    if not name.isascii() and name.encode("utf-8", "replace").decode("utf-8") != name:
        raise ValueError(f"{where} must have a {what} of whole characters. Got {name!r} instead.")
    return name
