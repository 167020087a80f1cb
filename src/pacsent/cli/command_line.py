"""The groups of commands, and how errors, warnings and signals read."""

import os
import re
import warnings
from functools import cache
from importlib import import_module
from inspect import cleandoc
from typing import Any, NamedTuple

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
        "pacsent label texts.csv --labels yes,no --error 0.1",
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
    rows_of_file = context.meta.get(ROWS) if context else None
    message = _count_rows_from_one(message, rows_of_file)

    options: dict[str, str] = {}  # name of the Python argument: option
    for parameter in context.command.params if context else ():
        if isinstance(parameter, click.Option) and parameter.name:
            options[parameter.name] = max(parameter.opts, key=len)
    parts = re.split(r"(\b\w+\([^()]*\))", message)  # calls in Python stay as they are
    for place in range(0, len(parts), 2):
        parts[place] = _name_options(parts[place], options)
    return "".join(parts)


def _count_rows_from_one(message: str, rows_of_file: list[int] | None) -> str:
    """The message with rows as the shell counts them: from 1, and in the file."""
    message = re.sub(
        r"\b[Xy]\[(\d+)\]", lambda row: _row_of_file(int(row[1]), rows_of_file), message
    )
    message = re.sub(
        r"\brow ((?:[\d,]*\d, )*[\d,]*\d)((?:, \.\.\.)?), counted from 0",
        lambda rows: f"row {_next_rows(rows[1])}{rows[2]}",
        message,
    )
    return re.sub(
        r"\brow (\d+) \(rows count from 0\)", lambda row: f"row {int(row[1]) + 1:,}", message
    )


def _name_options(text: str, options: dict[str, str]) -> str:
    """The text with options in place of Python arguments."""
    for name, option in options.items():
        text = re.sub(rf"\b{name}=True\b", option, text)
        text = re.sub(rf"\b{name}=(['\"]?)([\w.]+)\1", rf"{option} \2", text)
        if "_" in name:  # else it may be a word of the sentence
            text = re.sub(rf"\b{name}\b", option, text)
    return text


def _row_of_file(row: int, rows_of_file: list[int] | None) -> str:
    """The number of a text in its file, from 1, where some rows were left out."""
    if rows_of_file is not None:
        row = rows_of_file[row]
    return f"row {row + 1:,}"


def _next_rows(rows: str) -> str:
    """The numbers of a list such as "1, 1,200", each larger by one."""
    numbers = [int(row.replace(",", "")) for row in rows.split(", ")]
    return ", ".join(f"{number + 1:,}" for number in numbers)


class Mistake(click.ClickException):
    """A mistake of the user that the library found: one line, and the exit status."""

    def __init__(self, error: BaseException) -> None:
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

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        text, *examples = cleandoc(self.help or "").split("Example:")
        purpose, _, details = text.partition("\n\n")
        paragraphs = [purpose, details.strip()]
        if examples:
            lines = [f"$ {' '.join(example.split())}" for example in examples]
            paragraphs.insert(1, "\n".join(["\b", *lines]))  # click keeps lines after \b

        for paragraph in paragraphs:
            if paragraph:
                formatter.write_paragraph()
                with formatter.indentation():
                    formatter.write_text(paragraph)

    def invoke(self, ctx: click.Context) -> Any:
        @cache
        def warn_once(text: str) -> None:
            echo(f"Warning: {options_in(text)}", err=True)

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", UserWarning)
                warnings.showwarning = lambda message, *_, **__: warn_once(str(message))
                return super().invoke(ctx)
        except click.ClickException as error:
            error.message = escape_controls(error.message)  # type: ignore[misc]
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

    def list_commands(self, ctx: click.Context | None) -> list[str]:
        return list(self.commands)


class _AllCommands(Group):
    """The commands of every module, imported when they are needed."""

    group_class = Group

    def list_commands(self, ctx: click.Context | None) -> list[str]:
        names: list[str] = []
        for family in FAMILIES:
            names += [name for name in family.commands if " " not in name]
        return names

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] == "help":  # `help` and `help COMMAND` are --help
            args = [*args[1:], "--help"]
        if len(args) > 1 and self.get_command(ctx, args[0]) is None:
            other_command = self.get_command(ctx, args[1])
            if other_command is not None:  # such as `classify train`
                ctx.fail(f"No such command {args[0]!r}. Did you mean {args[1]!r}?")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context | None, cmd_name: str) -> Any:
        is_known = cmd_name in self.list_commands(ctx)  # else click suggests one of all names
        for module, commands in MODULES.items():
            if cmd_name in commands or not is_known:
                import_module(f"pacsent.cli.{module}")
        return self.commands.get(cmd_name)

    def command_at(self, context: click.Context | None, path: str) -> click.Command:
        """The command of a name, or of a group and a name: "vectors train"."""
        group_name, _, name = path.partition(" ")
        command = self.get_command(context, group_name)
        return command.commands[name] if name else command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for family in FAMILIES:
            width = max(8, *map(len, family.commands))  # columns line up between most families
            rows = []
            for name in family.commands:
                command = self.command_at(ctx, name)
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
def cli() -> None:
    """pacsent implements PAC-Bayes Analysis of Sentence Representation (Nozawa and Sato, 2019) and
    carries its bound to your own texts: label a few hundred, and it proves an upper bound on the
    error rate of its classifier.

    DATA is a table with the columns text and label; TEXTS a table or one text per line; MODEL a
    folder that train or fit wrote.
    """


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: checkpoints written, half files removed."""
