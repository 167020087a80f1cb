"""What the families of commands share: the group, options, and how errors and warnings read."""

import contextlib
import os
import re
import select
import signal
import sys
import warnings
from collections.abc import MutableMapping
from importlib import import_module
from typing import NamedTuple

import click

import pacsent

MISTAKES = (ValueError, OSError, ImportError, MemoryError)  # of a user; anything else is a bug


class Family(NamedTuple):
    """Commands under one heading of the help, with an example."""

    title: str
    example: str
    commands: tuple[str, ...]


# In the order of the work, by the module of their commands, which is imported when one is run.
_SEARCH = ("index", "search", "certify-search", "rerank", "clusters", "similar")
_CERTIFICATES = ("bound", "certify", "certify-predictions", "verify", "simulate")
FAMILIES = {
    "word_commands": Family(
        "Words", "pacsent words english paris", ("clean", "train", "words", "convert")
    ),
    "embed_commands": Family(
        "Sentences",
        'echo "a glass of wine" | pacsent embed english -',
        ("fit", "embed", "distill", "export", "push"),
    ),
    "search_commands": Family("Search", "pacsent index english notes.txt -o notes", _SEARCH),
    "certificate_commands": Family(
        "Certificates", "pacsent certify english notes.txt", _CERTIFICATES
    ),
    "classify_commands": Family(
        "Classifiers", "pacsent classify train labelled.csv -o model", ("classify",)
    ),
    "label_command": Family(
        "Labels", "pacsent label texts.csv --labels yes,no --goal 0.1", ("label",)
    ),
    "serve_commands": Family(
        "Server and maps", "pacsent serve english --port 8000", ("serve", "map")
    ),
    "bench_commands": Family(
        "Benchmarks", "pacsent demo -o demo", ("evaluate", "reproduce", "demo")
    ),
}


class Mistake(click.ClickException):
    """A mistake of the user that the library found: one line, and the exit status."""

    def __init__(self, error: Exception):
        message = str(error) or "The memory was not enough."
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            message = f"{error.filename}: {error.strerror}."
        super().__init__(message)
        # scikit-learn's check of parameters refused the value of an option
        is_parameter = type(error).__name__ == "InvalidParameterError"
        self.exit_code = 2 if is_parameter else 1  # type: ignore[misc]


def _output_is_closed() -> bool:
    """Whether the reader of stdout has gone."""
    if not hasattr(select, "poll"):
        return True
    watched = select.poll()
    watched.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watched.poll(0))


class Command(click.Command):
    """A command that errors of the user end with one line."""

    def invoke(self, context):
        try:
            return super().invoke(context)
        except BrokenPipeError:
            if _output_is_closed():  # the reader of our output went away (| head): no mistake
                raise click.exceptions.Exit(0) from None
            raise
        except MISTAKES as error:
            if os.environ.get("PACSENT_DEBUG"):
                raise
            raise Mistake(error) from error


class _Group(click.Group):
    """A group whose commands end with one line about an error."""

    command_class = Command

    def list_commands(self, context):
        return list(self.commands)


class _AllCommands(_Group):
    """The commands of every module, imported when they are needed."""

    group_class = _Group

    def families(self) -> dict[str, list[str]]:
        """Heading -> names of its commands."""
        return {family.title: list(family.commands) for family in FAMILIES.values()}

    def list_commands(self, context):
        return [name for names in self.families().values() for name in names]

    def get_command(self, context, name):
        for module, family in FAMILIES.items():
            if name in family.commands:
                import_module(f"pacsent.cli.{module}")
        return self._commands.get(name)

    def add_command(self, cmd, name=None):
        self._commands[name or cmd.name] = cmd

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """Name -> command, all imported."""
        return {name: self.get_command(None, name) for name in self.list_commands(None)}

    @commands.setter
    def commands(self, commands):
        self._commands = commands

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
    """Embed, search and classify texts, with error guarantees."""


class ModelPath(click.Path):
    """A path that exists, or the name of a model that comes with the package (english).

    With `encoders`, also the URL of an encoder or a folder of sentence-transformers.
    """

    def __init__(self, encoders: bool = False, **how):
        super().__init__(**how)
        self.encoders = encoders

    def convert(self, value, param, ctx):
        from pacsent.storage import is_model_name, place

        if self.encoders and value is not None and not is_model_name(value):
            return value  # a URL, or a folder of sentence-transformers
        try:
            path = os.fspath(place(value))
        except MISTAKES as error:  # hf://owner/name is fetched here
            raise Mistake(error) from error
        return super().convert(path, param, ctx)


# ---- Options that mean the same everywhere -------------------------------------------------------

POSITIVE, NON_NEGATIVE = click.IntRange(min=1), click.IntRange(min=0)
PATH = click.Path()
FOLDER, FILE = click.Path(exists=True, file_okay=False), click.Path(exists=True, dir_okay=False)
PROBABILITY = click.FloatRange(0, 1, min_open=True, max_open=True)


def option(names: str, help: str, type=None, default=None, **how):
    """click.option with its names between spaces, then help, type and default."""
    if default is not None:
        how["default"] = default
    return click.option(*names.split(), help=help, type=type, **how)


def flag(names: str, help: str, **how):
    """An option without a value, its names between spaces."""
    return option(names, help, is_flag=True, **how)


def output_path(help: str, *, required: bool = True):
    """-o, the file or folder to write."""
    return option("-o --output", help, PATH, required=required)


def _check_n_jobs(context, parameter, value):
    if value == 0:
        raise click.BadParameter("0 is no number of threads; -1 takes all cores, -2 all but one.")
    return value


def _check_device(context, parameter, value):
    if not re.fullmatch(r"cpu|cuda(:\d+)?", value):
        raise click.BadParameter(f"{value!r} is not cpu, cuda or cuda:NUMBER.")
    return value


n_jobs_option = option(
    "--n-jobs",
    "Number of threads; -1: all cores, -2: all but one.  [default: all cores]",
    int,
    callback=_check_n_jobs,
)
device_option = option(
    "--device",
    "cpu, cuda, or cuda:1 for one of several GPUs.",
    default="cpu",
    callback=_check_device,
    metavar="NAME",
)
random_state_option = option("--random-state", "Seed.  [default: drawn]", NON_NEGATIVE)
seeds_option = option("--seeds", "Number of random seeds.", POSITIVE, 3)
delta_option = option("--delta", "Probability that the guarantee fails.", PROBABILITY, 0.05)
n_candidates_option = option(
    "--n-candidates",
    "Number of models or settings that were compared on these texts, this one included; the bound "
    "is corrected for it.",
    POSITIVE,
    1,
)
overlap_option = option(
    "--overlap",
    "What to do with texts that were trained on.",
    click.Choice(["refuse", "drop"]),
    "refuse",
)
quiet_option = flag("--quiet", "Print no progress on stderr.")
overwrite_option = flag(
    "--overwrite", "Overwrite existing output (input files are never overwritten)."
)


def json_option(command, help="Print one JSON object, for scripts."):
    """--json, with another `help` where results are streamed."""
    return flag("--json as_json", help)(command)


def output_options(command):
    """--overwrite, --json and --quiet, for commands that write."""
    return overwrite_option(json_option(quiet_option(command)))


# ---- Models --------------------------------------------------------------------------------------


def _keep_encoder(context, parameter, value):
    context.meta["encoder"] = value


def encoder_option(command, help="The external encoder that MODEL was made with."):
    """--encoder, which `open_model` reads."""
    return option(
        "--encoder", help, metavar="PATH|URL", callback=_keep_encoder, expose_value=False
    )(command)


def given_encoder():
    """The value of --encoder; None outside of a command."""
    context = click.get_current_context(silent=True)
    return context.meta.get("encoder") if context else None


def method_option(default="its encoder of sentences, or SIF-sum"):
    """--method, for a MODEL that may be word vectors."""
    return option("--method", f"The method, where MODEL holds word vectors.  [default: {default}]")


def open_model(model, **options):
    """What is at MODEL, with the encoder that --encoder names."""
    from pacsent.encoders.external_encoders import open_any

    return open_any(model, given_encoder(), **options)


def check_method(method, parameter="--method"):
    """Refuse the name of a method that does not exist."""
    from pacsent.encoders.methods import METHODS

    if method is not None and method not in METHODS:
        raise click.BadParameter(f"one of {', '.join(METHODS)}", param_hint=parameter)


def open_vectorizer(model, method=None, *, default=None, fitted=True):
    """The fitted method in a folder, or a method on the word vectors that are there."""
    from pacsent.encoders.methods import as_vectorizer

    check_method(method)
    loaded = open_model(model)
    if method is None:
        return as_vectorizer(loaded, default, source=model, fitted=fitted)
    if hasattr(loaded, "transform"):
        raise click.UsageError(
            f"--method is for a MODEL that holds word vectors only. {model} holds a fitted method. "
            "Leave --method out."
        )
    try:
        return as_vectorizer(loaded, method, source=model, fitted=fitted)
    except ValueError as error:  # the method learns from text first
        raise click.UsageError(str(error)) from None


# ---- Signals and warnings ------------------------------------------------------------------------


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command as Ctrl-C does: checkpoints written, half files removed."""


def end_on_sigterm() -> None:
    """Turn SIGTERM into `Terminated` in the main thread."""

    def end(number, frame):
        raise Terminated

    signal.signal(signal.SIGTERM, end)


def status_of(interruption: BaseException | None) -> int:
    """Say how a command was ended from outside; the exit status that shells have for it."""
    terminated = isinstance(interruption, Terminated)
    print("Terminated." if terminated else "Interrupted.", file=sys.stderr)
    return 128 + (signal.SIGTERM if terminated else signal.SIGINT)


@contextlib.contextmanager
def warnings_once():
    """Print the warnings of a block at its end, each text once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        click.echo(f"Warning: {text}", err=True)


def one_line_warning(message, category, filename, lineno, file=None, line=None):
    """Print a warning as it comes."""
    print(f"Warning: {message}", file=sys.stderr)
