"""Commands about word vectors: vectors clean, train, fit, neighbours, evaluate."""

import contextlib
import json
from itertools import product
from pathlib import Path

import click

from pacsent.bounds.rounding import format_count
from pacsent.cli import inputs, params
from pacsent.cli.command_line import cli
from pacsent.cli.estimator_options import EstimatorCommand
from pacsent.cli.printing import echo, echo_json, show, show_lines


@cli.group()
def vectors():
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
def clean(paths, output, as_json, quiet, **options):
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


@vectors.command(cls=EstimatorCommand, estimators=_skipgram, without=("checkpoint_dir", "verbose"))
@click.argument("texts", nargs=-1, required=True, type=params.TEXTS)
@params.output("Folder to write the word vectors to.")
@params.text_columns
@params.option("--subwords", "Learn N subwords first, and train on these.", click.IntRange(2))
@params.n_jobs
@params.device
@params.outputs
@click.pass_context
def train(context, texts, output, subwords, overwrite, as_json, quiet, **options):
    """Train word vectors on TEXTS (Skip-gram).

    TEXTS is one or more files with one document per line, tables, or - for stdin. The folder
    DIR.training beside the --output folder DIR has the checkpoints, from which the same command
    resumes. Example: pacsent vectors train corpus.txt -o words
    """
    from pacsent.storage import check_place, save
    from pacsent.text.tables import kind_of
    from pacsent.words.checkpoint import CHECKPOINT, delete_checkpoint
    from pacsent.words.pieces import train_pieces
    from pacsent.words.skipgram import SkipGram

    is_typed = {
        name: context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        for name in options
    }
    if subwords is not None:
        if is_typed["normalize"]:
            raise click.UsageError("--subwords reads text in its own way: leave out --normalize.")
        if "-" in texts:
            raise click.UsageError("--subwords reads the text twice. Save stdin to a file first.")
        if not is_typed["min_count"]:
            options["min_count"] = 1  # a subword that is omitted makes words unknown
    folder = Path(output)
    work = folder.with_name(folder.name + ".training")
    check_place(folder, texts, overwrite=overwrite)
    settings = None  # those of a training that was interrupted
    if (work / CHECKPOINT).exists():
        with open(work / CHECKPOINT, "rb") as file:
            settings = json.loads(file.readline())["settings"]
        changed = [n for n, typed in is_typed.items() if typed and settings.get(n) != options[n]]
        if changed := [name for name in changed if name in settings]:
            raise ValueError(
                f"{work} has an unfinished training with another {', '.join(changed)}. Give the "
                "same to resume it, or delete it."
            )
    columns = {name: options.pop(name) for name in ("text_column", "input_format")}

    def documents():
        for path in texts:
            yield from inputs.read_texts(path, {**columns, "quiet": quiet})

    kinds = {columns["input_format"] or kind_of(Path(name).name)[0] or "text" for name in texts}
    source = documents()
    if kinds == {"text"} and columns["text_column"] is None:  # SkipGram reads lines in parallel
        source = "-" if texts == ("-",) else [Path(name) for name in texts]
    try:
        if settings is not None:
            model = SkipGram.resume(work, n_jobs=options["n_jobs"], verbose=not quiet)
        else:
            if subwords is not None:
                options["normalize"] = train_pieces(documents(), subwords, verbose=not quiet)
            model = SkipGram(**options, checkpoint_dir=work, verbose=not quiet).fit(source)
        save(model.word_vectors_, folder, overwrite=overwrite)
    except BaseException as error:
        if not (work / CHECKPOINT).exists():
            with contextlib.suppress(OSError):
                work.rmdir()  # there is nothing to resume
        elif isinstance(error, KeyboardInterrupt):
            echo("The same command resumes.", err=True)
        raise
    delete_checkpoint(work)
    words = model.word_vectors_
    if note := words.training.get("normalize"):
        echo(note, err=True)
    losses = ", ".join(f"{loss:.4f}" for loss in model.loss_)
    show(
        {
            "n_words": words.n_words,
            "n_dims": words.n_dims,
            "n_tokens": words.vocabulary.n_tokens,
            "loss": model.loss_,
            "normalize": words.vocabulary.normalize_name,
            "output": str(folder),
        },
        f"wrote {folder}: {words.n_words:,} words, {words.n_dims} dimensions, both matrices\n"
        f"loss of a pair, by epoch: {losses} nats",
        as_json,
    )


def _methods() -> list[type]:
    from pacsent.sentences.methods import ESTIMATORS

    return list(ESTIMATORS.values())


@vectors.command(cls=EstimatorCommand, estimators=_methods, without=("word_vectors", "swap_roles"))
@click.argument("method")
@click.argument("words", type=params.ModelPath())
@params.texts
@params.output("Folder of the model.")
@params.text_columns
@params.n_jobs
@params.outputs
def fit(method, words, texts, output, overwrite, as_json, **options):
    """Fit a METHOD for sentence vectors on TEXTS.

    WORDS is word vectors: a folder, a file that `pacsent model convert` reads, or english. An
    option that is left out has the method's own default. Example: pacsent vectors fit PB-L2 english
    notes.txt -o model
    """
    from pacsent.sentences.methods import make_encoder
    from pacsent.storage import check_place, save
    from pacsent.threads import n_threads
    from pacsent.words import formats

    check_place(output, [words, texts], overwrite=overwrite)
    sentences = inputs.read_texts(texts, options, progress=True)
    verbose = not options.pop("quiet")
    settings = {name: value for name, value in options.items() if value is not None}
    opened = formats.read(words, verbose=verbose)
    try:
        known = make_encoder(method, opened).get_params(deep=False)
        for name in settings:
            if name not in known:
                raise click.UsageError(f"{method} takes no --{name.replace('_', '-')}.")
        if "verbose" in known:
            settings["verbose"] = verbose
        n_threads(settings.get("n_jobs"))  # not every method has threads in fit
        encoder = make_encoder(method, opened, **settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    encoder.fit(sentences)
    save(encoder, output, overwrite=overwrite)
    n, n_empty = encoder.n_sentences_, encoder.n_empty_
    counts = {"n_sentences": n, "n_empty": n_empty, "coverage": encoder.coverage_}
    show(
        {"method": method, "words": str(words), "output": str(output), **counts},
        f"wrote {output}: {method}, {format_count(n, 'sentence')}, "
        f"{100 * encoder.coverage_:.1f}% of words in vocabulary, {n_empty:,} without any",
        as_json,
    )


@vectors.command()
@params.model
@click.argument("word", nargs=-1, required=True)
@params.option("-k", "Neighbours.", params.POSITIVE, 10)
@params.reports
def neighbours(model, word, k, as_json, quiet):
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
    lines = []
    for name, (own, among) in product(nearest, ways):
        way, neighbours = f"{own} -> {among}", opened.most_similar(name, k, table=own, among=among)
        nearest[name][way] = neighbours
        lines += [(name, way, near, f"{cosine:.3f}") for near, cosine in neighbours]
    show_lines({"model": model, "neighbours": nearest}, lines, as_json)


@vectors.command()
@params.model
@click.argument("pairs", type=params.FILE)
@params.reports
def evaluate(model, pairs, as_json, quiet):
    """Compare cosines of word vectors with human scores.

    PAIRS has lines of WORD<TAB>WORD<TAB>SCORE. Example: pacsent vectors evaluate english pairs.tsv
    """
    from pacsent.words import formats
    from pacsent.words.word_similarity import score_correlation

    result = score_correlation(formats.read(model, verbose=not quiet), pairs)
    data = {"model": model, **dict(zip(("spearman", "n_pairs", "n_unknown"), result))}
    text = "Spearman {:.3f} on {:,} pairs; {:,} others have a word without a vector"
    show(data, text.format(*result), as_json)
