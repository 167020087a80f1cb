"""What the families of commands share: the group, options, and how mistakes and warnings read."""

import os
import re
import select
import signal
import sys
from collections.abc import MutableMapping
from importlib import import_module

import click

import pacsent

MISTAKES = (ValueError, OSError, ImportError, MemoryError)  # of a user; anything else is a bug
# families in the order of the work: the file of their commands -> heading and an example
FAMILIES = {
    "word_commands": ("Words", "pacsent words english paris"),
    "embed_commands": ("Sentences", 'echo "a glass of wine" | pacsent embed english -'),
    "search_commands": ("Search", "pacsent index english notes.txt -o notes"),
    "distill_command": (
        "Distillation",
        "pacsent distill texts.txt --vectors teacher.npy -o student",
    ),
    "certificate_commands": ("Certificates", "pacsent certify english notes.txt"),
    "classify_commands": ("Classifiers", "pacsent classify train labelled.csv -o model"),
    "label_command": ("Labels", "pacsent label texts.csv --labels yes,no --goal 0.1"),
    "serve_commands": ("Server and maps", "pacsent serve english --port 8000"),
    "bench_commands": ("Benchmarks", "pacsent demo -o demo"),
    "model_commands": ("Models", "pacsent check english"),
}
# the first sentence of each command's help, so that `pacsent --help` imports none of their files
SUMMARIES = {
    "word_commands": {
        "clean": "Clean text files as the paper does.",
        "train": "Train word vectors on TEXTS (Skip-gram).",
        "words": "Show neighbours of each WORD, or score word vectors.",
        "convert": "Convert word vectors from one format to another.",
    },
    "embed_commands": {
        "fit": "Fit a METHOD for sentence vectors on TEXTS.",
        "embed": "Turn TEXTS into sentence vectors.",
    },
    "search_commands": {
        "index": "Index TEXTS by their vectors, for `pacsent search`.",
        "search": "Find the texts of INDEX nearest to each QUERY.",
        "certify-search": "Guarantee how often INDEX finds the right text.",
        "rerank": "Order TEXTS by how well they answer QUERY.",
        "clusters": "Group TEXTS by meaning and name the groups.",
        "similar": "Compare texts of FIRST with the same rows of SECOND.",
        "duplicates": "Find pairs of TEXTS that say the same.",
        "export": "Write MODEL for sentence-transformers or model2vec.",
        "push": "Upload MODEL to the Hugging Face hub as OWNER/NAME.",
    },
    "distill_command": {"distill": "Distil an encoder into a static model on TEXTS."},
    "certificate_commands": {
        "bound": "Compute all PAC-Bayes bounds for given numbers.",
        "certify": "Certify how well vectors recognise words that follow.",
        "certify-predictions": "Certify how often the predictions in TABLE are right.",
        "verify": "Check a CERTIFICATE, alone or with texts and model.",
        "simulate": "Count how often certificates fail on generated text.",
    },
    "classify_commands": {"classify": "Train and use text classifiers with error guarantees."},
    "label_command": {"label": "Label TEXTS until an error rate is certified."},
    "serve_commands": {
        "serve": "Serve MODEL over HTTP.",
        "map": "Draw a map of TEXTS by the vectors of MODEL.",
    },
    "bench_commands": {
        "evaluate": "Score vectors on DATASET by the paper's protocol.",
        "reproduce": "Run the paper's experiments again.",
        "demo": "Show everything on passages of thirty books.",
    },
    "model_commands": {"check": "Check the checksums of a saved MODEL."},
}
_ALSO = {"classify": "label_command"}  # which holds two of its commands


class Mistake(click.ClickException):
    """A mistake of the user that the library found: one line, and the exit status."""

    def __init__(self, error: Exception):
        message = str(error) or "The memory was not enough."
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            message = f"{error.filename}: {error.strerror}."
        super().__init__(in_shell_words(message))
        self.exit_code = 2 if _is_wrong_option(error) else 1  # type: ignore[misc]


def _is_wrong_option(error: Exception) -> bool:
    """Whether scikit-learn's check of parameters refused the value of an option."""
    if "sklearn" not in sys.modules:
        return False
    from pacsent.parameter_checks import InvalidParameterError

    return isinstance(error, InvalidParameterError)


def _output_is_closed() -> bool:
    """Whether the reader of stdout has gone."""
    if not hasattr(select, "poll"):
        return True
    watched = select.poll()
    watched.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watched.poll(0))


class _Command(click.Command):
    """A command whose errors name options, and end it with one line."""

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
    """Commands under the heading of their family, each family in the order of its file."""

    command_class = _Command

    def families(self) -> dict[str, list[str]]:
        """Heading -> names of its commands."""
        found: dict[str, list[str]] = {title: [] for title, _ in FAMILIES.values()}
        for name, command in self.commands.items():
            title, _ = FAMILIES[command.callback.__module__.rpartition(".")[2]]
            found[title].append(name)
        return {title: names for title, names in found.items() if names}

    def list_commands(self, context):
        return [name for names in self.families().values() for name in names]

    def summary(self, name: str, limit: int) -> str:
        """The help of a command in at most `limit` characters."""
        return self.commands[name].get_short_help_str(limit)

    def format_commands(self, context, formatter):
        families = self.families()
        width = max(len(name) for names in families.values() for name in names)
        for title, names in families.items():
            rows = [
                (name.ljust(width), self.summary(name, formatter.width - 6 - width))
                for name in names
            ]
            with formatter.section(title):
                formatter.write_dl(rows)
                if self is cli:
                    formatter.write_text(f"$ {dict(FAMILIES.values())[title]}")


class _AllCommands(_Group):
    """The commands of every file, imported when they are needed."""

    group_class = _Group

    def add_command(self, cmd, name=None):
        self._commands[name or cmd.name] = cmd

    def families(self) -> dict[str, list[str]]:
        return {title: list(SUMMARIES[file]) for file, (title, _) in FAMILIES.items()}

    def get_command(self, context, name):
        for file, summaries in SUMMARIES.items():
            if name in summaries or _ALSO.get(name) == file:
                import_module(f"pacsent.cli.{file}")
        return self._commands.get(name)

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """Name -> command, all imported."""
        names = [name for summaries in SUMMARIES.values() for name in summaries]
        return {name: self.get_command(None, name) for name in names}

    @commands.setter
    def commands(self, commands):
        self._commands = commands

    def summary(self, name: str, limit: int) -> str:
        [text] = [summaries[name] for summaries in SUMMARIES.values() if name in summaries]
        return click.Command(None, help=text).get_short_help_str(limit)


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
            found = os.fspath(place(value))
        except MISTAKES as error:  # hf://owner/name is fetched here
            raise Mistake(error) from error
        return super().convert(found, param, ctx)


# ---- Options that mean the same everywhere -------------------------------------------------------


def _check_n_jobs(context, parameter, value):
    if value == 0:
        raise click.BadParameter("0 is no number of threads; -1 takes all cores, -2 all but one.")
    return value


n_jobs_option = click.option(
    "--n-jobs", type=int, callback=_check_n_jobs,
    help="Number of threads; -1: all cores, -2: all but one.  [default: all cores]",
)  # fmt: skip


def _check_device(context, parameter, value):
    if value is not None and not re.fullmatch(r"cpu|cuda(:\d+)?", value):
        raise click.BadParameter(f"{value!r} is not cpu, cuda or cuda:NUMBER.")
    return value


def _keep_encoder(context, parameter, value):
    context.meta["encoder"] = value


def encoder_option(command, help="The encoder that MODEL was made with, if it is one of another "
                   "program."):  # fmt: skip
    """--encoder, which `open_model` reads."""
    return click.option("--encoder", metavar="PATH|URL", callback=_keep_encoder,
                        expose_value=False, help=help)(command)  # fmt: skip


def given_encoder():
    """The value of --encoder; None outside of a command."""
    context = click.get_current_context(silent=True)
    return context.meta.get("encoder") if context else None


def open_model(model, **options):
    """What is at MODEL, with the encoder that --encoder names."""
    from pacsent.encoders.external_encoders import open_any

    return open_any(model, given_encoder(), **options)


device_option = click.option(
    "--device", callback=_check_device, metavar="NAME",
    help="cpu, cuda, or cuda:1 for one of several GPUs.  [default: cpu]",
)  # fmt: skip
batch_size_option = click.option(
    "--batch-size", type=click.IntRange(1, 2**31 - 1), help="Sentences worked on at once."
)
on_empty_option = click.option(
    "--on-empty", type=click.Choice(["warn", "error", "ignore"]),
    help="What to do about sentences without a known word: mean 0 and a count, or stop.",
)  # fmt: skip
quiet_option = click.option("--quiet", is_flag=True, help="Print no progress on stderr.")
seeds_option = click.option(
    "--seeds", type=click.IntRange(min=1), default=3, help="Number of random seeds."
)
overwrite_option = click.option(
    "--overwrite", is_flag=True,
    help="Overwrite existing output (input files are never overwritten).",
)  # fmt: skip


def json_option(command, help="Print one JSON object, for scripts."):
    """--json, with another `help` where results are streamed."""
    return click.option("--json", "as_json", is_flag=True, help=help)(command)


def output_options(command):
    """--overwrite, --json and --quiet, for commands that write."""
    return overwrite_option(json_option(quiet_option(command)))


def json_lines_option(command):
    """--json, for commands that stream: a JSON object a line, or one about the file written."""
    return json_option(command, "Print a JSON object for each text; with -o, one about the file.")


def probability_option(name, default, help):
    """An option whose value is strictly between 0 and 1."""
    return click.option(
        name, type=click.FloatRange(0, 1, min_open=True, max_open=True), default=default,
        show_default=default is not None, help=help)  # fmt: skip


overlap_option = click.option(
    "--overlap", type=click.Choice(["refuse", "drop"]), default="refuse",
    help="What to do with texts that were trained on.",
)  # fmt: skip
delta_option = probability_option("--delta", 0.05, "Probability that the guarantee fails.")


def method_option(default="its encoder of sentences, or SIF-sum"):
    """--method, for a MODEL that may be word vectors."""
    return click.option(
        "--method", help=f"The method, where MODEL holds word vectors.  [default: {default}]"
    )


def open_vectorizer(model, method=None, *, default=None, fitted=True):
    """The fitted method in a folder, or a method on the word vectors that are there."""
    from pacsent.encoders.methods import METHODS, as_vectorizer

    if method is not None and method not in METHODS:
        raise click.BadParameter(f"one of {', '.join(METHODS)}", param_hint="--method")
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


# ---- Ended from outside --------------------------------------------------------------------------


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


# ---- Warnings and mistakes -----------------------------------------------------------------------


def echo_warnings(caught):
    """Print warnings that were caught, each text once, in the shell's words."""
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        click.echo(f"Warning: {in_shell_words(text)}", err=True)


def one_line_warning(message, category, filename, lineno, file=None, line=None):
    """Print a warning as it comes, in the shell's words."""
    print(f"Warning: {in_shell_words(str(message))}", file=sys.stderr)


def in_shell_words(message: str) -> str:
    """A message of the library with options in place of parameters.

    `min_count=5` becomes `--min-count 5` and `overwrite=True` becomes `--overwrite`. A parameter
    without a value is replaced where the running command has it, if it is no English word or the
    subject of the message. Advice that needs a parameter which no command has is left out.

    >>> in_shell_words("Lower min_count=5.")  # no command is running
    'Lower min_count=5.'
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return message
    own = _flags(context.command)
    commands = cli.commands
    inner = getattr(commands["classify"], "commands", {})
    every = _flags(*commands.values(), *inner.values()) | own

    def option(match):
        name, value = match["name"], match["value"]
        if value is None:
            known = name in own and ("_" in name or match.start() == 0)
            return own[name] if known else match[0]
        if name not in every:
            return match[0]
        value = value.strip("'\"")
        return every[name] if value == "True" else f"{every[name]} {value}"

    if "encoder" in own:
        message = message.replace("pacsent.load(path, encoder=...)", "--encoder PATH|URL")
    message = re.sub(r"^The '(\w+)' parameter of \w+ must", r"\1 must", message)
    message = _ADVICE.sub(lambda match: match[0] if match[1] in own else "", message)
    return _PARAMETER.sub(option, message)


_PARAMETER = re.compile(
    r"(?<![\w=.'-])(?P<name>[a-z]\w*)(?:=(?P<value>'[^']*'|\"[^\"]*\"|[\w+-]+(?:\.\d+)?))?(?![\w=('])"
)
_ADVICE = re.compile(r", or pass (\w+)='?\w+'?(?: to get mean 0)?")


def _flags(*commands: click.Command) -> dict[str, str]:
    """Name of a parameter -> option."""
    return {
        option.name: max(option.opts, key=len)
        for command in commands
        for option in command.params
        if isinstance(option, click.Option) and option.name is not None
    }
