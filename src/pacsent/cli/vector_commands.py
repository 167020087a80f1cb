"""Commands about word vectors: vectors clean, train, fit, neighbours, similarity."""

import contextlib
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import click

from pacsent.bounds.rounding import format_count
from pacsent.cli import inputs, params
from pacsent.cli.command_line import cli
from pacsent.cli.estimator_options import EstimatorCommand
from pacsent.cli.printing import echo, echo_json, show, show_lines


@cli.group()
def vectors() -> None:
    """Train, fit and evaluate word vectors."""


@vectors.command()
@click.argument("paths", metavar="INPUT...", nargs=-1, required=True)
@params.output("File to write.  [default: standard output]", required=False)
@params.flag("--wiki", "INPUT is a MediaWiki dump: keep its visible text only, on one line.")
@params.option(
    "--normalize",
    "paper: a-z only, digits spelled. unicode: words in any script, NFKC and case folded.",
    click.Choice(["paper", "unicode"]),
    "paper",
)
@params.n_jobs
@params.outputs
def clean(
    paths: tuple[str, ...], output: str | None, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Clean text files as the paper does.

    Each INPUT is a plain file, a .gz, .bz2, .xz or .zst archive, or - for stdin. Lines stay lines.
    Example: pacsent vectors clean corpus.txt.gz -o clean.txt
    """
    from pacsent.text.cleaning import clean_files

    if as_json and output in (None, "-"):
        raise click.UsageError("--json needs a file for the text: -o OUT.")
    n_bytes = clean_files(paths, output, verbose=not quiet, **options)
    if as_json:
        echo_json({"inputs": paths, "output": output, "bytes": n_bytes})


def _skipgram() -> list[type]:
    from pacsent.words import SkipGram

    return [SkipGram]


@vectors.command(
    cls=EstimatorCommand,
    estimators=_skipgram,
    without=("checkpoint_dir", "verbose"),
    descriptions={
        "n_epochs": "Passes over the texts; auto: ten million words in all, in 5 to 200 passes.",
        "min_count": "Words that occur less often are omitted.",
        "normalize": "How text becomes words.",
        "random_state": "Seed.",
    },
)
@click.argument("texts", nargs=-1, required=True, type=params.TEXTS)
@params.output("Folder to write the word vectors to.")
@params.text_columns
@params.option("--subwords", "Learn N subwords first, and train on these.", click.IntRange(2))
@params.n_jobs
@params.device
@params.outputs
@click.pass_context
def train(
    context: click.Context,
    texts: tuple[str, ...],
    output: str,
    subwords: int | None,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Train word vectors on TEXTS (Skip-gram).

    TEXTS is one or more files with one document per line, tables, or - for stdin. The folder
    DIR.training beside the --output folder DIR has the checkpoints, from which the same command
    resumes. Example: pacsent vectors train corpus.txt -o words
    """
    from pacsent.storage import check_place, save
    from pacsent.words.checkpoint import CHECKPOINT, delete_checkpoint
    from pacsent.words.pieces import train_pieces
    from pacsent.words.skipgram import SkipGram

    typed = _typed_options(context, options)
    if subwords is not None:
        if "normalize" in typed:
            raise click.UsageError("--subwords reads text in its own way: leave out --normalize.")
        if "-" in texts:
            raise click.UsageError("--subwords reads the text twice. Save stdin to a file first.")
        if "min_count" not in typed:
            options["min_count"] = 1  # a subword that is omitted makes words unknown
    folder = Path(output)
    work_folder = folder.with_name(f"{folder.name}.training")
    checkpoint = work_folder / CHECKPOINT
    check_place(folder, texts, overwrite=overwrite)
    resumes = checkpoint.exists()
    if resumes:
        _check_same_settings(work_folder, checkpoint, typed, options)

    columns = {
        "text_column": options.pop("text_column"),
        "input_format": options.pop("input_format"),
        "quiet": quiet,
    }
    source = _training_source(texts, columns)
    verbose = not quiet
    try:
        if resumes:
            model = SkipGram.resume(work_folder, n_jobs=options["n_jobs"], verbose=verbose)
        else:
            if subwords is not None:
                documents = _read_documents(texts, columns)
                options["normalize"] = train_pieces(documents, subwords, verbose=verbose)
            model = SkipGram(**options, checkpoint_dir=work_folder, verbose=verbose)
            model.fit(source)
        save(model.word_vectors_, folder, overwrite=overwrite)
    except BaseException as error:
        if not checkpoint.exists():
            with contextlib.suppress(OSError):
                work_folder.rmdir()  # there is nothing to resume
        elif isinstance(error, KeyboardInterrupt):
            echo("The same command resumes.", err=True)
        raise
    delete_checkpoint(work_folder)
    _show_training(model, folder, as_json)


def _typed_options(context: click.Context, options: dict[str, Any]) -> list[str]:
    """The options that the user gave on the command line."""
    typed = []
    for name in options:
        source = context.get_parameter_source(name)
        if source is click.core.ParameterSource.COMMANDLINE:
            typed.append(name)
    return typed


def _check_same_settings(
    work_folder: Path, checkpoint: Path, typed: list[str], options: dict[str, Any]
) -> None:
    """Raise if a training that was interrupted had other settings than those that are given."""
    with open(checkpoint, "rb") as file:
        settings = json.loads(file.readline())["settings"]
    changed = [name for name in typed if name in settings and settings[name] != options[name]]
    if changed:
        raise ValueError(
            f"{work_folder} has an unfinished training with another {', '.join(changed)}. Give "
            "the same to resume it, or delete it."
        )


def _read_documents(paths: tuple[str, ...], columns: dict[str, Any]) -> Iterator[str]:
    """The texts of all files."""
    for path in paths:
        yield from inputs.read_texts(path, dict(columns))


def _training_source(paths: tuple[str, ...], columns: dict[str, Any]) -> Any:
    """The texts for SkipGram: paths where it can read lines in parallel, else a stream."""
    kinds = {inputs.format_of(path, columns["input_format"]) for path in paths}
    if kinds != {"text"} or columns["text_column"] is not None:
        return _read_documents(paths, columns)
    return "-" if paths == ("-",) else [Path(path) for path in paths]


def _show_training(model: Any, folder: Path, as_json: bool) -> None:
    """Print the size of the word vectors, and the loss by epoch."""
    words = model.word_vectors_
    note = words.training.get("normalize")
    if note:
        echo(note, err=True)

    result = {
        "n_words": words.n_words,
        "n_dims": words.n_dims,
        "n_tokens": words.vocabulary.n_tokens,
        "loss": model.loss_,
        "normalize": words.vocabulary.normalize_name,
        "output": str(folder),
    }
    size = f"{words.n_words:,} words, {words.n_dims} dimensions, both matrices"
    lines = [f"wrote {folder}: {size}"]
    if model.loss_:
        epochs = format_count(len(model.loss_), "epoch")
        first = f"{model.loss_[0]:.4f}"
        last = f"{model.loss_[-1]:.4f}"
        lines.append(f"loss of a pair: {first} nats in the first of {epochs}, {last} in the last")
    show(result, "\n".join(lines), as_json)


def _methods() -> list[type]:
    from pacsent.sentences.methods import ESTIMATORS

    return list(ESTIMATORS.values())


# Parameters that several methods have, and those that a method describes by its symbols.
_DESCRIPTIONS = {
    "on_empty": "For sentences without a word in the vocabulary: stop, or give them the vector 0.",
    "batch_size": "Sentences worked on at once.",
    "lam": "Weight of the data against the prior (PB-L2, PB-neg, PB-01).",
    "prior_variance": "Variance of the prior of each word.",
    "lam_mode": "per-token: --lam is multiplied by the number of words of the sentence.",
    "alpha": "Average: weight of the prior; 0 is the mean of the word vectors.",
    "n_negatives": "Negative samples per word; of PB-01 its logarithm is the bias.",
    "noise_power": "Negative samples are drawn in proportion to count ** noise_power.",
    "random_state": "Seed.",
    "max_iter": "Largest number of iterations per sentence.",
    "tol": "Accuracy at which a sentence counts as solved.",
    "n_epochs": "Passes over the sentences (w-PB-neg, PV-DBOW).",
    "learning_rate": "First step; it falls linearly to 0.",
    "weights": "SIF: a / (a + p(word)). uSIF: with a computed from the vocabulary.",
    "a": "Smoothing of SIF weights; not used by uSIF.",
    "learn_from": "Shared directions are those of the word vectors (table) or of TEXTS.",
    "weighting": "Every training sentence counts the same, or every word.",
}


@vectors.command(
    cls=EstimatorCommand,
    estimators=_methods,
    without=("word_vectors", "swap_roles"),
    descriptions=_DESCRIPTIONS,
)
@click.argument("method")
@click.argument("words", type=params.ModelPath())
@params.texts
@params.output("Folder of the model.")
@params.text_columns
@params.n_jobs
@params.outputs
def fit(
    method: str,
    words: str,
    texts: str,
    output: str,
    overwrite: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit a METHOD for sentence vectors on TEXTS.

    WORDS is word vectors: a folder, a file that `pacsent model convert` reads, or english. An
    option that is left out has the method's own default. Example: pacsent vectors fit PB-L2 english
    notes.txt -o model
    """
    from pacsent.storage import check_place, save
    from pacsent.words import formats

    check_place(output, [words, texts], overwrite=overwrite)
    sentences = inputs.read_texts(texts, options, progress=True)
    verbose = not options.pop("quiet")
    settings = {name: value for name, value in options.items() if value is not None}
    opened = formats.read(words, verbose=verbose)
    try:
        encoder = _make_encoder(method, opened, settings, verbose)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    encoder.fit(sentences)
    save(encoder, output, overwrite=overwrite)

    result = {
        "method": method,
        "words": str(words),
        "output": str(output),
        "n_sentences": encoder.n_sentences_,
        "n_empty": encoder.n_empty_,
        "coverage": encoder.coverage_,
    }
    n_sentences = format_count(encoder.n_sentences_, "sentence")
    text = (
        f"wrote {output}: {method}, {n_sentences}, {100 * encoder.coverage_:.1f}% of words in "
        f"vocabulary, {encoder.n_empty_:,} without any"
    )
    show(result, text, as_json)


def _make_encoder(method: str, words: Any, settings: dict[str, Any], verbose: bool) -> Any:
    """The encoder with these parameters, all of which it must have."""
    from pacsent.sentences.methods import make_encoder
    from pacsent.threads import n_threads

    parameters = make_encoder(method, words).get_params(deep=False)
    for name in settings:
        if name not in parameters:
            flag = name.replace("_", "-")
            raise click.UsageError(f"{method} takes no --{flag}.")
    if "verbose" in parameters:
        settings = settings | {"verbose": verbose}
    n_threads(settings.get("n_jobs"))  # not every method has threads in fit
    return make_encoder(method, words, **settings)


@vectors.command()
@params.model
@click.argument("word", nargs=-1, required=True)
@params.option("-k", "Neighbours.", params.POSITIVE, 10)
@params.reports
def neighbours(model: str, word: tuple[str, ...], k: int, as_json: bool, quiet: bool) -> None:
    """Show the nearest words of each WORD.

    Among vectors of the same kind, input or output, neighbours are used in the same way; across the
    kinds, they occur near the WORD. Prints word, kinds, neighbour and cosine. Example: pacsent
    vectors neighbours english paris
    """
    from pacsent.words import formats

    opened = formats.read(model, verbose=not quiet)
    ways = [("input", "input"), ("output", "output"), ("input", "output"), ("output", "input")]
    if opened.output_vectors is None:
        ways = ways[:1]
    nearest: dict[str, dict] = {name: {} for name in word}
    lines: list[tuple[str, ...]] = []
    for name, (own, among) in product(nearest, ways):
        way = f"{own} -> {among}"
        similar = opened.most_similar(name, k, table=own, among=among)
        nearest[name][way] = similar
        lines += [(name, way, neighbour, f"{cosine:.3f}") for neighbour, cosine in similar]
    show_lines({"model": model, "neighbours": nearest}, lines, as_json)


@vectors.command()
@params.model
@click.argument("pairs", type=params.FILE)
@params.reports
def similarity(model: str, pairs: str, as_json: bool, quiet: bool) -> None:
    """Compare cosines of word vectors with human scores.

    PAIRS has lines of WORD<TAB>WORD<TAB>SCORE. Example: pacsent vectors similarity english
    pairs.tsv
    """
    from pacsent.words import formats
    from pacsent.words.word_similarity import score_correlation

    words = formats.read(model, verbose=not quiet)
    spearman, n_pairs, n_unknown = score_correlation(words, pairs)
    data = {"model": model, "spearman": spearman, "n_pairs": n_pairs, "n_unknown": n_unknown}
    text = (
        f"Spearman {spearman:.3f} on {n_pairs:,} pairs; {n_unknown:,} others have a word without "
        "a vector"
    )
    show(data, text, as_json)
