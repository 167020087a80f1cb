"""What commands read: the texts of one file or stdin, labelled texts, and columns that are kept.

Every command that takes texts has `text_options` and reads through `read_texts`, `read_labelled` or
`OneFile`. Each of them says on stderr what was read.
"""

from collections.abc import Iterator

import click

from pacsent.cli.command_line import option

_FORMATS = {"lines": "text", "csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "parquet": "parquet"}


class TextsPath(click.Path):
    """A file of texts that exists, or - for stdin."""

    name = "texts"

    def __init__(self):
        super().__init__(exists=True, allow_dash=True, dir_okay=False)


def _kind(context, parameter, value):
    return None if value is None else _FORMATS[value]


def text_options(command, more: str = "", default: str = "text, or the only column"):
    """--text-column and --input-format, for every command that takes texts."""
    column = option(
        "--text-column",
        "Column of the text in a table (.csv, .tsv, .jsonl, .parquet, packed or not)."
        f"{more}  [default: {default}]",
        metavar="COLUMN",
    )
    form = option(
        "--input-format",
        "Format of the input, for stdin and unusual names.  [default: by the file name]",
        click.Choice(list(_FORMATS)),
        callback=_kind,
    )
    return column(form(command))


def label_options(command):
    """The options of labelled texts: those of texts, and --label-column."""
    label = option("--label-column", "Column of the label.  [default: label]", metavar="COLUMN")
    return text_options(
        label(command), more=" Files without such columns are lines LABEL<TAB>TEXT."
    )


separator_option = option(
    "--label-separator",
    "Text between the labels of a cell, such as ',': every text may have several labels.",
    metavar="TEXT",
)


def label_sets(cells, separator: str) -> list[set[str]]:
    """The labels of each cell."""
    sets = []
    for row, cell in enumerate(cells, 1):
        labels = [label.strip() for label in cell.split(separator)] if separator else []
        if not all(labels) or not labels:
            raise ValueError(
                f"Row {row:,} must have labels with {separator!r} between them. Got {cell!r} "
                "instead. Leave the empty label out, or give another --label-separator."
            )
        sets.append(set(labels))
    return sets


def labels_for(classifier, cells, separator: str | None):
    """Labels of a file as the classifier's own: numbers where it has numbers, sets of several."""
    import numpy as np

    if (getattr(classifier, "targets_", "classes") != "classes") != (separator is not None):
        raise click.UsageError(
            "--label-separator is needed for a model of several labels a text, and for no other."
        )
    if separator is not None:
        return label_sets(cells, separator)
    if classifier.classes_.dtype.kind in "iu":
        try:
            return np.array([int(label) for label in cells])
        except ValueError:
            return np.array(cells)
    return np.array(cells)


def say(quiet: bool):
    """Return a function that prints a line on stderr, unless `quiet`."""
    return (lambda line: None) if quiet else lambda line: click.echo(line, err=True)


def read_texts(path, text_column=None, kind=None, quiet=False) -> Iterator[str]:
    """The texts of one file or stdin; what was read is said at the end."""
    from pacsent.text.tables import stream_texts

    return stream_texts(path, text_column=text_column, kind=kind, report=say(quiet))


def read_labelled(path, given: dict, quiet: bool = False, group_column: str | None = None):
    """Texts, labels and groups; takes the options of `label_options` out of `given`."""
    from pacsent.text.tables import read_labelled_texts

    columns = {name: given.pop(name) for name in ("text_column", "label_column")}
    columns["kind"] = given.pop("input_format")
    return read_labelled_texts(path, **columns, group_column=group_column, report=say(quiet))


class OneFile:
    """The texts of one file or stdin, and the columns that are kept with the results.

    `given` holds the options text_column, input_format, keep_columns and on_error; `own` are the
    columns that the command writes: a column of the file with such a name is renamed. With `ids`,
    lines are ID<TAB>TEXT. With `keep_text` the column of the text is kept, too, and with `keep_all`
    all columns where none is named.
    """

    def __init__(
        self, path, given: dict, own, *, ids=False, keep_text=False, keep_all=False, quiet=False
    ):
        from pacsent.text.result_files import ColumnBuffer
        from pacsent.text.tables import TextTable, output_names

        self.ids, self.quiet = ids, quiet
        self.on_bad = "report" if given["on_error"] == "report" else "raise"
        kind = "text" if ids else given["input_format"]
        self.table = TextTable(path, kind=kind, text_column=given["text_column"])
        keep_all = keep_all and self.table.kind != "text"
        keep = given["keep_columns"] or (("*",) if keep_all else ())
        wanted = self.table.check_columns(tuple(keep))
        wanted += [self.table.text_column] if keep_text else []
        self.kept, messages = output_names(list(dict.fromkeys(wanted)), own, self.table.name)
        for message in messages:
            click.echo(f"Warning: {message}", err=True)
        self.names = [*(["id"] if ids else []), *self.kept.values()]
        self._waiting = ColumnBuffer(self.names)
        self.n_rows = 0
        self.bad: list = []
        self.bad_places: set[int] = set()  # rows, counted from 0

    def texts(self) -> Iterator[str]:
        """The texts; the columns that are kept wait for `take`."""
        from pacsent.text.tables import as_list

        with self.table:
            for rows in self.table.batches(list(self.kept), on_bad=self.on_bad):
                texts, columns = as_list(rows.texts), rows.columns
                self.bad += rows.bad
                self.bad_places.update(self.n_rows + row.position for row in rows.bad)
                kept = {new: columns[name] for name, new in self.kept.items()}
                if self.ids:
                    kept["id"], texts = self._ids(texts)
                    kept |= dict.fromkeys(self.kept.values(), texts)  # of lines: the text
                self.n_rows += len(texts)
                self._waiting.put(kept)
                yield from texts
        self._report()

    def _ids(self, lines):
        ids, texts = [], []
        for number, line in enumerate(lines, self.n_rows + 1):
            name, tab, text = line.partition("\t")
            if not tab:
                raise ValueError(
                    f"Line {number:,} must be ID<TAB>TEXT. Got {line[:40]!r} without a tab instead."
                )
            ids.append(name)
            texts.append(text)
        return ids, texts

    def _report(self):
        from pacsent.text.tables import describe_table

        say(self.quiet)(describe_table(self.table, self.n_rows))
        for _, place, error in self.bad[:20]:
            click.echo(f"Bad row: {self.table.name}, {place} {error}", err=True)
        if len(self.bad) > 20:
            click.echo(f"Bad row: {self.table.name}: {len(self.bad):,} in all", err=True)

    def take(self, n: int) -> dict:
        """The columns that are kept of the next n rows."""
        return self._waiting.take(n)
