"""Options and arguments that mean the same in every command."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import click

from pacsent.cli.command_line import MISTAKES, Mistake

POSITIVE = click.IntRange(min=1)
NON_NEGATIVE = click.IntRange(min=0)
PATH = click.Path()
FILE = click.Path(exists=True, dir_okay=False)
TEXTS = click.Path(exists=True, allow_dash=True, dir_okay=False)  # - for stdin
FOLDER = click.Path(file_okay=False)
VECTOR_FORMATS = click.Choice(["word2vec-text", "word2vec-binary", "pacsent"])
TOKENISERS = ["paper", "unicode", "wikifil", "jieba", "janome", "pythainlp"]


class _Probability(click.FloatRange):
    """A number between 0 and 1; the message about a percentage says how to write it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            raise click.BadParameter(error.message + _percent_hint(value), ctx, param) from None


def _percent_hint(value: Any) -> str:
    """How to write a percentage as a fraction; "" for what is none."""
    try:
        percent = float(str(value).removesuffix("%"))
    except ValueError:
        return ""
    return f" Write {percent / 100:g} for {percent:g}%." if 1 <= percent < 100 else ""


PROBABILITY = _Probability(0, 1, min_open=True, max_open=True)
_FORMATS = {"lines": "text", "csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "parquet": "parquet"}


class ModelPath(click.Path):
    """A path that exists, or the name of a model in the package; with `encoders`, also a URL."""

    def __init__(self, encoders: bool = False, none: bool = False, **path_options: Any) -> None:
        super().__init__(exists=True, **path_options)
        self.encoders = encoders
        self.none = none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from pacsent.storage import is_model_name, place

        if self.none and value == "none":
            return None
        if self.encoders and value is not None and not is_model_name(value):
            return value  # a URL, or a folder of sentence-transformers
        try:
            path = os.fspath(place(value))
        except MISTAKES as error:  # hf://owner/name is fetched here
            raise Mistake(error) from error
        if not os.path.exists(path):
            context = ctx or click.get_current_context(silent=True)
            command = None if context is None else context.info_name
            self.fail(f"There is no {self._describe(str(value), command)}", param, ctx)
        return super().convert(path, param, ctx)

    def _describe(self, value: str, command: str | None) -> str:
        """The model that is missing, and the remedy."""
        if command == "search":
            return f"index {value!r}. Make one: pacsent index MODEL TEXTS -o INDEX"
        if self.none:
            return f"encoder {value!r}. Give english, none, a folder, or the URL of an encoder."
        if " " not in value or command is None:
            return f"file or folder {value!r}."
        if command == "explain":
            return f"model {value!r}. The model comes first: pacsent explain MODEL TEXT"
        return (
            f"model {value!r}. A text comes after the model, or by a pipe: "
            f"echo TEXT | pacsent {command} MODEL -"
        )


Decorator = Callable[[Callable], Callable]


def option(
    names: str, help: str, type: Any = None, default: Any = None, **attributes: Any
) -> Decorator:
    """click.option with its names between spaces, then help, type and default."""
    if default is not None:
        attributes["default"] = default
    return click.option(*names.split(), help=help, type=type, **attributes)


def flag(names: str, help: str, **attributes: Any) -> Decorator:
    """An option without a value, its names between spaces."""
    return option(names, help, is_flag=True, **attributes)


def probability(names: str, help: str, **attributes: Any) -> Decorator:
    """An option whose value is between 0 and 1."""
    return option(names, help, PROBABILITY, **attributes)


def repeated(names: str, help: str, metavar: str) -> Decorator:
    """An option that may be given more than once."""
    return option(names, f"{help} May be repeated.", multiple=True, metavar=metavar)


def column(role: str, help: str, **attributes: Any) -> Decorator:
    """An option that names a column of a table."""
    return option(f"--{role}-column", help, metavar="COLUMN", **attributes)


def output(help: str, *, required: bool = True) -> Decorator:
    """-o, the file or folder to write."""
    return option("-o --output", help, PATH, required=required)


def _split_model(context: click.Context, parameter: Any, values: Sequence[str]) -> Any:
    """The arguments after MODEL, which is english if there are as many as TEXTS and QUERY need."""
    names = parameter.metavar.split()[1:]
    model, *others = values if len(values) > len(names) else ("english", *values)
    if len(others) != len(names):
        raise click.UsageError(f"Give {parameter.metavar}.", context)
    context.params["model"] = ENCODER_PATH.convert(model, parameter, context)
    if len(others) == 2:
        context.params["query"] = others[0]
    return TEXTS.convert(others[-1], parameter, context)


ENCODER_PATH = ModelPath(encoders=True, file_okay=False)
model = click.argument("model", type=ModelPath())
model_and_texts = click.argument("texts", nargs=-1, metavar="[MODEL] TEXTS", callback=_split_model)
model_query_and_texts = click.argument(
    "texts", nargs=-1, metavar="[MODEL] QUERY TEXTS", callback=_split_model
)
texts = click.argument("texts", type=TEXTS)
data = click.argument("data", type=TEXTS)

n_jobs = option("--n-jobs", "Threads; -1: all cores, -2: all but one.  [default: all cores]", int)
device = option("--device", "cpu, cuda, or cuda:1 of several GPUs.", default="cpu", metavar="NAME")
random_state = option("--random-state", "Seed.  [default: drawn]", NON_NEGATIVE)
fixed_random_state = option("--random-state", "Seed.", NON_NEGATIVE, 0)
seeds = option("--seeds", "Number of random seeds.", POSITIVE, 3)
delta = probability("--delta", "Probability that the guarantee fails.", default=0.05)
model_delta = probability(
    "--delta", "Probability that the guarantee fails.  [default: that of MODEL]"
)
n_candidates = option("--n-candidates", "Models that were compared on these texts.", POSITIVE, 1)
_overlaps = click.Choice(["error", "drop"])
overlap = option("--overlap", "What to do with texts that were trained on.", _overlaps, "error")
known_rows = option(
    "--overlap",
    "What to do with texts that were trained on.  [default: error; with --repeats traffic they "
    "count as new rows]",
    _overlaps,
)
fitted_rows = option(
    "--overlap",
    "What to do with texts that were trained on: leave them out (drop), or measure on all texts, "
    "which makes the accuracy too high (keep).  [default: drop]",
    click.Choice(["drop", "keep"]),
)
repeats = option(
    "--repeats",
    "Why texts repeat: frequent ones are drawn again (traffic), or copies of texts were made "
    "(copies). By how they were collected, never by the result.  [default: what holds for both]",
    click.Choice(["traffic", "copies"]),
)
method = option(
    "--method",
    "Sentence method, if MODEL is word vectors.  [default: its sentence encoder, or SIF-sum]",
)


def _keep_encoder(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    context.meta["encoder"] = value


model_encoder = option(
    "--encoder",
    "The external encoder that MODEL was made with.",
    metavar="PATH|URL",
    callback=_keep_encoder,
    expose_value=False,
)
encoder = option(
    "--encoder",
    "english, a folder of word vectors or of an encoder, a URL, or none for n-grams alone.",
    ModelPath(encoders=True, none=True),
    "english",
    metavar="PATH|URL",
)
quiet = flag("--quiet", "Print no progress on stderr.")
overwrite = flag("--overwrite", "Overwrite existing output (input files are never overwritten).")
normalize = option(
    "--normalize",
    "How text becomes words. auto: paper for text in the letters a-z, else unicode.",
    click.Choice(["auto", *TOKENISERS]),
    "auto",
)


id_column = column("id", "Column that names the rows, in what is printed and written about them.")
left_out = option(
    "--left-out",
    "Also write which rows are not among the distinct new texts, and why (.csv, .jsonl, ...).",
    PATH,
    metavar="FILE",
)


def as_json(command: Callable, help: str = "Print one JSON object, for scripts.") -> Callable:
    """--json, with another `help` where results are streamed."""
    add_option = flag("--json as_json", help)
    return add_option(command)


def reports(command: Callable) -> Callable:
    """--json and --quiet."""
    return as_json(quiet(command))


def outputs(command: Callable) -> Callable:
    """--overwrite, --json and --quiet, for commands that write."""
    return overwrite(reports(command))


_text_column = column("text", "Column of the text in a table.  [default: text, or the only column]")
_input_format = option(
    "--input-format",
    "Format of the input, for stdin and unusual names.  [default: by the file name]",
    click.Choice(list(_FORMATS)),
    callback=lambda context, parameter, value: _FORMATS.get(value),
)


def text_columns(command: Callable) -> Callable:
    """--text-column and --input-format, for every command that takes texts."""
    command = _input_format(command)
    return _text_column(command)


_label_column = column("label", "Column of the label.  [default: label; of `check`: final_label]")
_label_separator = option(
    "--label-separator",
    "Text between the labels of a cell, such as ',': every text may have several labels.",
    metavar="TEXT",
)
_merge_labels = flag("--merge-labels", "Labels that differ in case or spaces only are one class.")


def label_columns(command: Callable) -> Callable:
    """The options of labelled texts: those of texts, --label-column and --label-separator."""
    command = _merge_labels(command)
    command = _label_separator(command)
    command = _label_column(command)
    return text_columns(command)
