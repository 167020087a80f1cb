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

MISTAKES = (ValueError, OSError, ImportError, MemoryError)  # of a user; anything else is a bug


class Family(NamedTuple):
    """Commands under one heading of the help, with an example."""

    title: str
    example: str
    commands: tuple[str, ...]


# By the module of their commands, which is imported when one of them is run.
FAMILIES = {
    "classifier_commands": Family(
        "Classifiers",
        "pacsent train labelled.csv -o model",
        ("train", "predict", "evaluate", "compare", "explain", "report", "monitor"),
    ),
    "certificate_commands": Family(
        "Guarantees", "pacsent certify model new.csv", ("certify", "verify")
    ),
    "label_commands": Family(
        "Labels", "pacsent label texts.csv --labels yes,no --goal 0.1", ("label", "check", "audit")
    ),
    "text_commands": Family(
        "Texts",
        "pacsent index notes.txt -o notes",
        ("embed", "index", "search", "rerank", "cluster", "dedupe", "map"),
    ),
    "model_commands": Family(
        "Models", "pacsent serve english --port 8000", ("distill", "serve", "demo", "model")
    ),
    "vector_commands": Family(
        "Word vectors", "pacsent vectors neighbours english paris", ("vectors",)
    ),
    "paper_commands": Family(
        "The paper's experiments", "pacsent paper certify english notes.txt", ("paper",)
    ),
}


def options_in(message: str) -> str:
    """The message, with the options of this command for the Python arguments that it names."""
    context = click.get_current_context(silent=True)
    names = {
        parameter.name: max(parameter.opts, key=len)
        for parameter in (context.command.params if context else ())
        if isinstance(parameter, click.Option) and parameter.name
    }
    # Python counts rows from 0, the shell from 1.
    message = re.sub(r"\b[Xy]\[(\d+)\]", lambda row: f"row {int(row[1]) + 1:,}", message)
    for name, option in names.items():
        message = re.sub(rf"\b{name}=True\b", option, message)
        message = re.sub(rf"\b{name}=(['\"]?)([\w.]+)\1", rf"{option} \2", message)
        if "_" in name:  # else it may be a word of the sentence
            message = re.sub(rf"\b{name}\b", option, message)
    return message


class Mistake(click.ClickException):
    """A mistake of the user that the library found: one line, and the exit status."""

    def __init__(self, error: Exception):
        message = str(error) or "Out of memory. Use fewer --n-jobs or less text at once."
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            message = f"{error.filename}: {error.strerror}."
        super().__init__(options_in(message))
        # scikit-learn's check of parameters refused the value of an option
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
                show = cache(lambda text: click.echo(f"Warning: {options_in(text)}", err=True))
                warnings.showwarning = lambda message, *_, **__: show(str(message))
                return super().invoke(context)
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
        return [name for family in FAMILIES.values() for name in family.commands]

    def get_command(self, context, name):
        is_known = name in self.list_commands(context)  # else click suggests one of all names
        for module, family in FAMILIES.items():
            if name in family.commands or not is_known:
                import_module(f"pacsent.cli.{module}")
        return self.commands.get(name)

    def format_commands(self, context, formatter):
        width = max(map(len, self.list_commands(context)))
        for family in FAMILIES.values():
            rows = []
            for name in family.commands:
                command = self.get_command(context, name)
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
    """Text classification with error bounds you can verify, on a CPU."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: checkpoints written, half files removed."""
