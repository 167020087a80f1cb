"""What commands read: texts of a file or stdin, and labelled texts.

Every command that takes texts has `text_options` and reads through `read_texts` or `read_labelled`,
which take these options out of the others and say on stderr what was read.
"""

import os
from collections.abc import Iterator

import click

from pacsent.cli.command_line import option

_FORMATS = {"lines": "text", "csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "parquet": "parquet"}


class TextsPath(click.Path):
    """A file of texts that exists, or - for stdin."""

    name = "texts"

    def __init__(self):
        super().__init__(exists=True, allow_dash=True, dir_okay=False)


def column_option(role: str, help: str, **how):
    """An option that names a column of a table."""
    return option(f"--{role}-column", help, metavar="COLUMN", **how)


def text_options(command):
    """--text-column and --input-format, for every command that takes texts."""
    column = column_option(
        "text", "Column of the text in a table.  [default: text, or the only column]"
    )
    form = option(
        "--input-format",
        "Format of the input, for stdin and unusual names.  [default: by the file name]",
        click.Choice(list(_FORMATS)),
        callback=lambda context, parameter, value: _FORMATS.get(value),
    )
    return column(form(command))


def label_options(command):
    """The options of labelled texts: those of texts, --label-column and --label-separator."""
    label = column_option("label", "Column of the label.  [default: label]")
    separator = option(
        "--label-separator",
        "Text between the labels of a cell, such as ',': every text may have several labels.",
        metavar="TEXT",
    )
    return text_options(label(separator(command)))


def say(quiet: bool):
    """Return a function that prints a line on stderr, unless `quiet`."""
    return (lambda line: None) if quiet else lambda line: click.echo(line, err=True)


def read_texts(path, options: dict, *, progress: bool = False) -> Iterator[str]:
    """The texts of one file or stdin; takes --text-column and --input-format out of `options`."""
    from pacsent.progress import bar
    from pacsent.text.tables import stream_texts

    quiet = options.get("quiet", False)
    column, kind = options.pop("text_column"), options.pop("input_format")
    texts = stream_texts(path, text_column=column, kind=kind, report=say(quiet))
    with bar("reading", unit="texts", enabled=progress and not quiet) as shown:
        for text in texts:
            shown.advance()
            yield text


def read_labelled(path, options: dict, classifier=None):
    """Texts, labels and groups; takes the options of columns out of `options`.

    The labels are those of the classifier: sets where it is multi-label, integers where its
    classes are.
    """
    from pacsent.text.tables import read_labelled_texts

    names = ("text_column", "label_column", "group_column")
    columns = {name: options.pop(name, None) for name in names}
    kind, separator = options.pop("input_format"), options.pop("label_separator", None)
    report = say(options.get("quiet", False))
    is_multilabel = getattr(classifier, "targets_", "classes") != "classes"
    if classifier is not None and is_multilabel != (separator is not None):
        raise click.UsageError(
            "--label-separator is needed for a model of several labels a text, and for no other."
        )
    texts, labels, groups = read_labelled_texts(path, **columns, kind=kind, report=report)
    if separator is None:
        return texts, [class_of(classifier, label) for label in labels], groups
    sets = [{part.strip() for part in cell.split(separator or None)} for cell in labels]
    for row, (cell, label_set) in enumerate(zip(labels, sets), 1):
        if not separator or "" in label_set:
            raise ValueError(
                f"Row {row:,} must have labels with {separator!r} between them. Got {cell!r} "
                "instead. Leave the empty label out, or give another --label-separator."
            )
    return texts, sets, groups


def class_of(classifier, label: str):
    """A label of the command line as the classifier's own."""
    is_integer = classifier is not None and classifier.classes_.dtype.kind in "iu"
    return int(label) if is_integer and label.lstrip("-").isdigit() else label


def check_page(path: str, inputs: list, overwrite: bool) -> None:
    """Refuse a page that does not end in .html, or that is there already."""
    from pacsent.files import check_output

    if os.path.splitext(path)[1].lower() not in (".html", ".htm"):
        raise click.BadParameter(
            f"The page must end in .html or .htm. Got {path!r} instead.", param_hint="-o"
        )
    check_output(path, inputs, overwrite=overwrite)
