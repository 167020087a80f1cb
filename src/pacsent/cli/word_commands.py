"""Commands about text and words: clean, train, words, convert."""

import contextlib

import click

from pacsent.cli.command_line import (
    PATH,
    POSITIVE,
    ModelPath,
    cli,
    device_option,
    flag,
    json_option,
    n_jobs_option,
    option,
    output_options,
    output_path,
    quiet_option,
    warnings_once,
)
from pacsent.cli.estimator_options import EstimatorCommand
from pacsent.cli.printing import echo_json, show, table, terminal_width
from pacsent.cli.text_inputs import TextsPath, read_texts, text_options


@cli.command()
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)
@output_path("File to write.  [default: standard output]", required=False)
@flag("--wiki", "INPUT is a MediaWiki dump: keep its visible text only, on one line.")
@option(
    "--normalise",
    "paper: a-z only, digits spelled. unicode: words in any script, NFKC and case folded.",
    click.Choice(["paper", "unicode"]),
    "paper",
)
@n_jobs_option
@output_options
def clean(inputs, output, as_json, quiet, **options):
    """Clean text files as the paper does.

    Each INPUT is a plain file, a .gz, .bz2, .xz or .zst archive, or - for stdin. Lines stay lines.
    Example: pacsent clean corpus.txt.gz -o clean.txt
    """
    from pacsent.text.cleaning import clean_files

    if as_json and output in (None, "-"):
        raise click.UsageError(
            "--json prints what was written to a file, but the text itself is on stdout. Name the "
            "file: -o OUT."
        )
    n_bytes = clean_files(inputs, output, verbose=not quiet, **options)
    if as_json:
        echo_json({"inputs": inputs, "output": output, "bytes": n_bytes})


def _skipgram() -> list[type]:
    from pacsent.words import SkipGram

    return [SkipGram]


@cli.command(cls=EstimatorCommand, estimators=_skipgram, without=("checkpoint_dir", "verbose"))
@click.argument("texts", nargs=-1, type=TextsPath())
@output_path("Folder to write the word vectors to.", required=False)
@text_options
@option("--resume", "Continue the training whose --output was DIR.", PATH, metavar="DIR")
@option(
    "--subwords",
    "Learn N subwords from the text first, and train on these: no word is unknown.",
    click.IntRange(2),
    metavar="N",
)
@n_jobs_option
@device_option
@output_options
@click.pass_context
def train(context, texts, output, resume, subwords, overwrite, as_json, quiet, **options):
    """Train word vectors on TEXTS (Skip-gram).

    TEXTS is one or more files with one document per line, tables, or - for stdin. The folder
    DIR.training beside the --output folder DIR has the checkpoints, and is deleted at the end.
    Example: pacsent train corpus.txt -o words
    """
    from pathlib import Path

    from pacsent.storage import check_place, save
    from pacsent.text.tables import kind_of
    from pacsent.words.pieces import train_pieces
    from pacsent.words.skipgram import CHECKPOINT, SkipGram, forget

    typed = {
        parameter.name: max(parameter.opts, key=len)
        for parameter in context.command.params
        if context.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
    }
    if resume is not None:
        allowed = ("resume", "n_jobs", "overwrite", "quiet", "as_json")
        if names := sorted(names for name, names in typed.items() if name not in allowed):
            raise click.UsageError(
                "--resume takes its settings from the interrupted training; leave out "
                f"{', '.join(names)}."
            )
        output = resume.rstrip("/").removesuffix(".training")
    elif not texts or output is None:
        raise click.UsageError("TEXTS and --output are needed, or --resume DIR.")
    if subwords is not None:
        if "normalise" in typed:
            raise click.UsageError("--subwords reads text in its own way: leave out --normalise.")
        if "-" in texts:
            raise click.UsageError("--subwords reads the text twice. Save stdin to a file first.")
        if "min_count" not in typed:
            options["min_count"] = 1  # a subword that is omitted makes words unknown
    folder = Path(output)
    work = folder.with_name(folder.name + ".training")
    check_place(folder, texts, overwrite=overwrite)
    if resume is None and (work / CHECKPOINT).exists():
        raise ValueError(
            f"{work} must not be there when a training starts. It holds an unfinished one. "
            f"Go on with: pacsent train --resume {folder}, or delete it."
        )
    columns = {name: options.pop(name) for name in ("text_column", "input_format")}

    def documents():
        return (text for path in texts for text in read_texts(path, {**columns, "quiet": quiet}))

    kinds = {columns["input_format"] or kind_of(Path(name).name)[0] or "text" for name in texts}
    source = documents()
    if kinds == {"text"} and columns["text_column"] is None:  # SkipGram reads lines in parallel
        source = "-" if texts == ("-",) else [Path(name) for name in texts]
    try:
        if resume is not None:
            model = SkipGram.resume(work, n_jobs=options["n_jobs"], verbose=not quiet)
        else:
            if subwords is not None:
                options["normalise"] = train_pieces(documents(), subwords, verbose=not quiet)
            model = SkipGram(**options, checkpoint_dir=work, verbose=not quiet).fit(source)
        save(model.word_vectors_, folder, overwrite=overwrite)
    except BaseException as error:
        if not (work / CHECKPOINT).exists():
            with contextlib.suppress(OSError):
                work.rmdir()  # there is nothing to resume
        elif isinstance(error, KeyboardInterrupt):
            click.echo(f"Go on with: pacsent train --resume {folder}", err=True)
        raise
    forget(work)
    words = model.word_vectors_
    if note := words.training.get("normalise"):
        click.echo(note, err=True)
    losses = ", ".join(f"{loss:.4f}" for loss in model.loss_)
    show(
        {
            "n_words": words.n_words,
            "n_dims": words.n_dims,
            "n_tokens": words.vocabulary.n_tokens,
            "loss": model.loss_,
            "normalise": words.vocabulary.normalise_name,
            "output": str(folder),
        },
        f"wrote {folder}: {words.n_words:,} words, {words.n_dims} dimensions, both tables\n"
        f"loss of a pair, by epoch: {losses} nats",
        as_json,
    )


@cli.command()
@click.argument("model", type=ModelPath(exists=True))
@click.argument("word", nargs=-1, required=True)
@option("-n", "Neighbours.", POSITIVE, 10)
@json_option
@quiet_option
def words(model, word, n, as_json, quiet):
    """Show neighbours of each WORD.

    Within one of the two tables, neighbours are used in the same way; across the tables, they occur
    near the WORD. Example: pacsent words english paris
    """
    from pacsent.words import formats

    vectors = formats.read(model, verbose=not quiet)
    ways = [("input", "input"), ("output", "output"), ("input", "output"), ("output", "input")]
    if vectors.output_vectors is None:
        ways = ways[:1]
    neighbours = {
        name: {
            f"{own} -> {among}": vectors.most_similar(name, n, table=own, among=among)
            for own, among in ways
        }
        for name in word
    }
    blocks = []
    for name, columns in neighbours.items():
        rows = [
            ["", *(f"{neighbour[:18]:<18} {cosine:.3f}" for neighbour, cosine in row)]
            for row in zip(*columns.values())
        ]
        blocks += [name, table(["", *columns], rows, left=5, width=terminal_width())]
    show({"model": model, "neighbours": neighbours}, "\n".join(blocks), as_json)


@cli.command()
@click.argument("source", type=ModelPath(exists=True))
@click.argument("destination", type=PATH)
@option("--to", "word2vec-text, word2vec-binary or pacsent. By the name when left out.")
@option("--counts", "`word count` lines that belong to SOURCE.", PATH)
@option(
    "--normalise",
    "How text is tokenised.",
    click.Choice(["paper", "unicode", "jieba", "janome", "pythainlp"]),
)
@option(
    "--trained-on",
    "Texts that SOURCE was trained on, to check certificates for overlap; may be repeated.",
    metavar="TEXTS",
    multiple=True,
)
@option("--n-words", "Keep the first, most frequent words.", POSITIVE)
@option("--dims n_dims", "Keep this number of dimensions, by a rotation.", POSITIVE)
@option("--int8 bits", "8 bits per number, quantised.", int, flag_value=8)
@option("--int4 bits", "4 bits per number, quantised.", int, flag_value=4)
@option("--int2 bits", "2 bits per number, quantised.", int, flag_value=2)
@option("--binary bits", "1 bit per number, quantised.", int, flag_value=1)
@output_options
def convert(source, destination, to, counts, normalise, trained_on, overwrite, **options):
    """Convert word vectors from one format to another.

    Reads word2vec text and binary (with context_SOURCE as output table), fastText .bin, GloVe,
    static embeddings and pacsent's folder; writes word2vec (.txt, .vec, .bin) or pacsent's folder
    (no suffix). Example: pacsent convert GoogleNews.bin words --int8
    """
    from pathlib import Path

    from pacsent.text.reading import check_input
    from pacsent.words import compress, formats

    if to is not None and to not in formats.WRITABLE:
        raise click.BadParameter(f"one of {', '.join(formats.WRITABLE)}", param_hint="--to")
    format = formats.detect(source)  # a mistake in SOURCE comes first
    to = to or formats.format_of_name(destination)
    if to != "pacsent" and (options["bits"] is not None or trained_on):
        raise click.UsageError("Only pacsent's own folder keeps these options: --to pacsent.")
    for text in trained_on:
        check_input(text)
    # Before a large file is read for nothing.
    context = Path(source).with_name(formats.CONTEXT + Path(source).name)
    formats.check_targets(destination, to, [source, counts, context], overwrite=overwrite)
    verbose, as_json = not options.pop("quiet"), options.pop("as_json")
    with warnings_once():
        words = formats.read(
            source, format=format, counts=counts, normalise=normalise, verbose=verbose
        )
    if trained_on:
        columns = {"text_column": None, "input_format": None, "quiet": not verbose}
        words = words.trained_on(t for name in trained_on for t in read_texts(name, dict(columns)))
    if any(value is not None for value in options.values()):
        words = compress(words, **options)
    written = formats.write(words, destination, format=to, overwrite=overwrite, verbose=verbose)
    sizes = {"n_words": words.n_words, "n_dims": words.n_dims}
    summary = sizes | {
        "dtype": words.tables["input"].precision,
        "tables": list(words.tables),
        "counts_known": words.counts is not None,
        "subwords": None if words.subwords is None else len(words.subwords.vectors),
    }
    tables = "input and output tables" if len(words.tables) == 2 else "input table only"
    known = "known" if words.counts is not None else "unknown"
    lines = [
        f"read   {source}: {formats.FORMATS[format]}, {words.n_words:,} words, "
        f"{words.n_dims} dimensions, {summary['dtype']}, {tables}, counts {known}",
        *(f"wrote  {path}" for path in written),
    ]
    if to != "pacsent" and summary["subwords"]:
        lines.append("note   this format keeps no subword vectors: unknown words will have none")
    data = {"source": source, "format": format, **summary, "to": to, "written": written}
    show(data, "\n".join(lines), as_json)
