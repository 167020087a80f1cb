"""The groups of commands, and how errors, warnings and signals read."""

import os
import re
import warnings
from functools import cache
from importlib import import_module
from inspect import cleandoc
from typing import NamedTuple

import click

import pacsent
from pacsent.cli.printing import echo
from pacsent.text.printable import escape_controls

MISTAKES = (ValueError, OSError, ImportError, MemoryError)  # of a user; anything else is a bug


class Family(NamedTuple):
    """Commands under one heading of the help, with an example."""

    title: str
    example: str
    commands: tuple[str, ...]


# The commands of each module, which is imported when one of them is run.
MODULES = {
    "classifier_commands": (
        "train",
        "predict",
        "evaluate",
        "compare",
        "explain",
        "report",
        "monitor",
    ),
    "certificate_commands": ("certify", "verify"),
    "label_commands": ("label", "check", "audit"),
    "text_commands": ("embed", "index", "search", "rerank", "cluster", "dedupe", "map"),
    "model_commands": ("distill", "serve", "demo", "model"),
    "vector_commands": ("vectors",),
    "paper_commands": ("paper",),
}

# The order of the help. A command of a group ("vectors train") is shown beside the group.
FAMILIES = (
    Family(
        "Start here",
        "pacsent train labelled.csv -o model",
        ("demo", "train", "predict", "certify"),
    ),
    Family(
        "Sentence vectors (Nozawa and Sato, 2019)",
        "pacsent vectors fit PB-neg english notes.txt -o encoder",
        (
            "vectors train",
            "vectors fit",
            "embed",
            "paper bound",
            "paper reproduce",
            "vectors",
            "paper",
        ),
    ),
    Family(
        "Classifiers",
        "pacsent report model new.csv -o report.html",
        ("evaluate", "compare", "explain", "report", "monitor", "verify"),
    ),
    Family(
        "Labels",
        "pacsent label texts.csv --labels yes,no --goal 0.1",
        ("label", "check", "audit"),
    ),
    Family(
        "Texts",
        "pacsent index notes.txt -o notes",
        ("index", "search", "rerank", "cluster", "dedupe", "map"),
    ),
    Family("Models", "pacsent serve english --port 8000", ("distill", "serve", "model")),
)


ROWS = "pacsent.rows"  # in the context of a command: the rows of the file that the texts are


def options_in(message: str) -> str:
    """The message, with the options of this command for the Python arguments that it names."""
    context = click.get_current_context(silent=True)
    names = {
        parameter.name: max(parameter.opts, key=len)
        for parameter in (context.command.params if context else ())
        if isinstance(parameter, click.Option) and parameter.name
    }
    # Python counts rows from 0, the shell from 1.
    rows_of_file = context.meta.get(ROWS) if context else None
    message = re.sub(
        r"\b[Xy]\[(\d+)\]", lambda row: _row_of_file(int(row[1]), rows_of_file), message
    )
    message = re.sub(
        r"\brow ((?:[\d,]*\d, )*[\d,]*\d)((?:, \.\.\.)?), counted from 0",
        lambda rows: f"row {_next_rows(rows[1])}{rows[2]}",
        message,
    )
    message = re.sub(
        r"\brow (\d+) \(rows count from 0\)", lambda row: f"row {int(row[1]) + 1:,}", message
    )
    parts = re.split(r"(\b\w+\([^()]*\))", message)  # calls in Python stay as they are
    for at in range(0, len(parts), 2):
        for name, option in names.items():
            part = re.sub(rf"\b{name}=True\b", option, parts[at])
            part = re.sub(rf"\b{name}=(['\"]?)([\w.]+)\1", rf"{option} \2", part)
            if "_" in name:  # else it may be a word of the sentence
                part = re.sub(rf"\b{name}\b", option, part)
            parts[at] = part
    return "".join(parts)


def _row_of_file(row: int, rows_of_file: list[int] | None) -> str:
    """The number of a text in its file, from 1, where some rows were left out."""
    if rows_of_file is not None:
        row = rows_of_file[row]
    return f"row {row + 1:,}"


def _next_rows(rows: str) -> str:
    """The numbers of a list such as "1, 1,200", each larger by one."""
    return ", ".join(f"{int(row.replace(',', '')) + 1:,}" for row in rows.split(", "))


class Mistake(click.ClickException):
    """A mistake of the user that the library found: one line, and the exit status."""

    def __init__(self, error: Exception):
        message = str(error) or "Out of memory. Use fewer --n-jobs or less text at once."
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            message = f"{error.filename}: {error.strerror}."
        super().__init__(escape_controls(options_in(message)))
        # a check of parameters refused the value of an option
        is_parameter = type(error).__name__ == "InvalidParameterError"
        self.exit_code = 2 if is_parameter else 1  # type: ignore[misc]


class Command(click.Command):
    """A command that errors of the user end with one line, and that prints each warning once.

    `Example:` ends its docstring; the help shows the examples between purpose and details.
    """

    def format_help_text(self, context, formatter):
        text, *examples = cleandoc(self.help or "").split("Example:")
        purpose, _, details = text.partition("\n\n")
        lines = "\n".join(f"$ {' '.join(example.split())}" for example in examples)
        for part in (purpose, f"\b\n{lines}" if lines else "", details.strip()):
            if part:
                formatter.write_paragraph()
                with formatter.indentation():
                    formatter.write_text(part)

    def invoke(self, context):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                show = cache(lambda text: echo(f"Warning: {options_in(text)}", err=True))
                warnings.showwarning = lambda message, *_, **__: show(str(message))
                return super().invoke(context)
        except click.ClickException as error:
            error.message = escape_controls(error.message)
            raise
        except BrokenPipeError:  # the reader of our output went away (| head): no mistake
            raise click.exceptions.Exit(0) from None
        except MISTAKES as error:
            if os.environ.get("PACSENT_DEBUG"):
                raise
            raise Mistake(error) from error


class Group(click.Group):
    """A group that lists its commands in their order."""

    command_class = Command

    def list_commands(self, context):
        return list(self.commands)


class _AllCommands(Group):
    """The commands of every module, imported when they are needed."""

    group_class = Group

    def list_commands(self, context):
        shown = [name for family in FAMILIES for name in family.commands]
        return [name for name in shown if " " not in name]

    def resolve_command(self, context, args):
        if args and args[0] == "help":  # `help` and `help COMMAND` are --help
            args = [*args[1:], "--help"]
        if len(args) > 1 and self.get_command(context, args[0]) is None:
            found = self.get_command(context, args[1])
            if found is not None:  # such as `classify train`
                context.fail(f"No such command {args[0]!r}. Did you mean {args[1]!r}?")
        return super().resolve_command(context, args)

    def get_command(self, context, name):
        is_known = name in self.list_commands(context)  # else click suggests one of all names
        for module, commands in MODULES.items():
            if name in commands or not is_known:
                import_module(f"pacsent.cli.{module}")
        return self.commands.get(name)

    def command_at(self, context, path):
        """The command of a name, or of a group and a name: "vectors train"."""
        group_name, _, name = path.partition(" ")
        command = self.get_command(context, group_name)
        return command.commands[name] if name else command

    def format_commands(self, context, formatter):
        for family in FAMILIES:
            width = max(8, *map(len, family.commands))  # columns line up between most families
            rows = []
            for name in family.commands:
                command = self.command_at(context, name)
                summary = command.get_short_help_str(formatter.width - 6 - width)
                rows.append((name.ljust(width), summary))
            with formatter.section(family.title):
                formatter.write_dl(rows)
                formatter.write_text(f"$ {family.example}")


@click.group(
    cls=_AllCommands,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.version_option(pacsent.__version__, prog_name="pacsent")
def cli():
    """pacsent implements PAC-Bayes Analysis of Sentence Representation (Nozawa and Sato, 2019) and
    carries its bound to your own texts: label a few hundred, and it proves an upper bound on the
    error rate of its classifier.

    DATA is a table with the columns text and label; TEXTS a table or one text per line; MODEL a
    folder that train or fit wrote.
    """


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: checkpoints written, half files removed."""
