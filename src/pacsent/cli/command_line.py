"""What the families of commands share: the group, options, and how mistakes and warnings read."""

import os
import re
import select
import signal
import sys

import click

import pacsent

MISTAKES = (ValueError, OSError, ImportError, MemoryError)  # of a user; anything else is a bug
# families in the order of the flow, by the file that holds them; further files come after these
FAMILIES = {
    "word_commands": "Words",
    "embed_commands": "Sentences",
    "search_commands": "Search",
    "certificate_commands": "Certificates",
    "classify_commands": "Classifiers",
    "serve_commands": "Server and maps",
    "bench_commands": "Benchmarks",
    "model_commands": "Models",
    "doctor_command": "This machine",
}


# one thing to type for each family, shown where `pacsent` stands alone
EXAMPLES = {
    "Words": "pacsent words english paris",
    "Sentences": 'echo "a glass of wine" | pacsent embed english -',
    "Search": "pacsent index english notes.txt -o notes",
    "Certificates": "pacsent certify english notes.txt",
    "Classifiers": "pacsent classify train labelled.tsv -o model",
    "Server and maps": "pacsent serve english --port 8000",
    "Benchmarks": "pacsent demo -o demo",
    "Models": "pacsent check english",
    "This machine": "pacsent doctor",
}


class Mistake(click.ClickException):
    """A mistake of the user that the library found: one line, and the exit status."""

    def __init__(self, error: Exception):
        message = str(error) or "The memory was not enough."
        if isinstance(error, OSError) and error.filename is not None and error.strerror:
            message = f"{error.filename}: {error.strerror}."
        super().__init__(in_shell_words(message))
        # scikit-learn's check of parameters: an option's value is wrong
        wrong_option = type(error).__name__ == "InvalidParameterError"
        self.exit_code = 2 if wrong_option else 1  # type: ignore[misc]


def _output_is_closed() -> bool:
    """Whether nobody reads stdout any more."""
    if not hasattr(select, "poll"):
        return True
    watched = select.poll()
    watched.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watched.poll(0))


class _Command(click.Command):
    """A command that tells mistakes in the shell's words."""

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
        found: dict[str, list[str]] = {name: [] for name in FAMILIES}
        for name, command in self.commands.items():
            family = getattr(command.callback, "__module__", "").rpartition(".")[2]
            found.setdefault(family, []).append(name)
        titles = {family: FAMILIES.get(family, family.capitalize()) for family in found}
        return {titles[family]: names for family, names in found.items() if names}

    def list_commands(self, context):
        return [name for names in self.families().values() for name in names]

    def format_commands(self, context, formatter):
        width = max(len(name) for name in self.commands)
        limit = formatter.width - 6 - width
        for title, names in self.families().items():
            rows = [
                (name.ljust(width), self.commands[name].get_short_help_str(limit))
                for name in names
                if not self.commands[name].hidden
            ]
            with formatter.section(title):
                formatter.write_dl(rows)
                if title in EXAMPLES:
                    formatter.write_text(f"$ {EXAMPLES[title]}")


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(pacsent.__version__, prog_name="pacsent")
def cli():
    """Sentence vectors with a promise attached."""


class ModelPath(click.Path):
    """A path that exists, or the name of a model that comes with the package (english)."""

    def convert(self, value, param, ctx):
        from pacsent.storage import place

        try:
            found = os.fspath(place(value))
        except MISTAKES as error:  # hf://owner/name is fetched here
            raise Mistake(error) from error
        return super().convert(found, param, ctx)


# ------------------------------------------------------------------------------------------------
# Options that mean the same everywhere
# ------------------------------------------------------------------------------------------------


def _check_n_jobs(context, parameter, value):
    if value == 0:
        raise click.BadParameter("0 is no number of threads; -1 takes all cores, -2 all but one.")
    return value


def n_jobs_option(command):
    """--n-jobs, as scikit-learn means it."""
    return click.option(
        "--n-jobs",
        type=int,
        callback=_check_n_jobs,
        help="Threads; -1 for all cores, -2 for all but one.  [default: all cores]",
    )(command)


def _check_device(context, parameter, value):
    if value is not None and not re.fullmatch(r"cpu|cuda(:\d+)?", value):
        raise click.BadParameter(f"{value!r} is not cpu, cuda or cuda:NUMBER.")
    return value


def device_option(command):
    """--device, for commands that can use a GPU."""
    return click.option(
        "--device",
        callback=_check_device,
        metavar="NAME",
        help="cpu, cuda, or cuda:1 for one of several GPUs.  [default: cpu]",
    )(command)


def batch_size_option(command):
    """--batch-size, of sentences."""
    return click.option(
        "--batch-size", type=click.IntRange(1, 2**31 - 1), help="Sentences worked on at once."
    )(command)


def on_empty_option(command):
    """--on-empty: what to do about sentences without a known word."""
    return click.option(
        "--on-empty",
        type=click.Choice(["warn", "error", "ignore"]),
        help="What to do about sentences without a known word: mean 0 and a count, or stop.",
    )(command)


def json_option(command, help="Print one JSON object, for scripts."):
    """--json: one JSON object, for scripts; or what `help` says where results are streamed."""
    return click.option("--json", "as_json", is_flag=True, help=help)(command)


def json_lines_option(command):
    """--json, for commands that stream: a JSON object a line, or one about the file written."""
    says = "Print a JSON object for each text; with -o one about what was written."
    return json_option(command, says)


def quiet_option(command):
    """--quiet: results and mistakes only."""
    return click.option("--quiet", is_flag=True, help="No progress on stderr.")(command)


def seeds_option(command):
    """--seeds: how many."""
    return click.option(
        "--seeds", type=click.IntRange(min=1), default=3, show_default=True, help="How many seeds."
    )(command)


def overwrite_option(command):
    """--overwrite, for commands that write."""
    return click.option(
        "--overwrite", is_flag=True, help="Replace what exists there; never an input."
    )(command)


# ------------------------------------------------------------------------------------------------
# Ended from outside
# ------------------------------------------------------------------------------------------------


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


# ------------------------------------------------------------------------------------------------
# Warnings and mistakes
# ------------------------------------------------------------------------------------------------


def echo_warnings(caught):
    """Print warnings that were caught, each text once, in the shell's words."""
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        click.echo(f"Warning: {in_shell_words(text)}", err=True)


def one_line_warning(message, category, filename, lineno, file=None, line=None):
    """Print a warning as it comes, in the shell's words."""
    print(f"Warning: {in_shell_words(str(message))}", file=sys.stderr)


def in_shell_words(message: str) -> str:
    """A message of the library with the options of the running command in place of parameters.

    `min_count=5` becomes `--min-count 5`, `deterministic=True` becomes `--deterministic`, and a
    parameter that is named alone becomes its option.

    Examples
    --------
    >>> in_shell_words("Lower min_count.")  # no command is running
    'Lower min_count.'
    """
    context = click.get_current_context(silent=True)
    return message if context is None else _translated(message, context.command)


def _translated(message: str, command: click.Command) -> str:
    if all(option.name != "on_empty" for option in command.params):  # nothing to pass it by
        message = re.sub(r", or pass on_empty='\w+'( to get mean 0)?", "", message)
    for option in command.params:
        if not isinstance(option, click.Option) or option.name is None:
            continue
        flag = max(option.opts, key=len)
        name = re.escape(option.name)
        message = re.sub(rf"\bThe '{name}' parameter of \w+ must", f"{flag} must", message)
        message = re.sub(rf"(?<![\w-]){name}=True\b", flag, message)
        message = re.sub(rf"(?<![\w-]){name}=False\b", f"no {flag}", message)
        message = re.sub(
            rf"(?<![\w-]){name}=(['\"]?)([^\s'\",;)]+?)\1(?=[.,;)]?(?:\s|$))",
            rf"{flag} \2",
            message,
        )
        if "_" in option.name:  # a word that is no English
            message = re.sub(rf"(?<![\w-]){name}\b(?!=)", flag, message)
        else:  # the subject of the sentence
            message = re.sub(rf"^{name}(?= must\b)", flag, message)
    return message
