"""Commands about text and words: clean, train, words, convert."""

import contextlib
import textwrap
import warnings

import click

from pacsent.cli.command_line import (
    FOLDER,
    PATH,
    POSITIVE,
    ModelPath,
    cli,
    device_option,
    echo_warnings,
    flag,
    json_option,
    n_jobs_option,
    one_line_warning,
    option,
    output_options,
    quiet_option,
)
from pacsent.cli.estimator_options import EstimatorCommand
from pacsent.cli.printing import echo_json, table, terminal_width
from pacsent.cli.text_inputs import TextsPath, read_texts, text_options


@cli.command()
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)
@option("-o --output", "File to write.  [default: standard output]", metavar="OUT")
@flag("--wiki", "INPUT is a MediaWiki dump: keep its visible text only.")
@option(
    "--normalise",
    "paper: a-z only, digits spelled. unicode: words in any script, NFKC and case folded.",
    click.Choice(["paper", "unicode"]),
    "paper",
)
@n_jobs_option
@output_options
def clean(inputs, output, as_json, quiet, **how):
    """Clean text files as the paper does.

    The output has letters a-z in lower case, digits spelled out, and single spaces. Other letters
    are removed ("Café" becomes "caf"): --normalise unicode keeps them, and `pacsent train
    --normalise unicode` reads what it writes.

    Each INPUT is a plain file, a .gz, .bz2, .xz or .zst archive, or - for stdin. Lines stay lines.
    With --wiki all articles of a dump go on one line, byte for byte as the paper's filter writes
    them.
    """
    from pacsent.text.cleaning import clean_files

    if as_json and output in (None, "-"):
        raise click.UsageError(
            "--json prints what was written to a file, but the text itself is on stdout. Name the "
            "file: -o OUT."
        )
    n_bytes = clean_files(inputs, output, verbose=not quiet, **how)
    if as_json:
        echo_json({"inputs": inputs, "output": output, "bytes": n_bytes})


def _seconds(context, parameter, value):
    """300, 300s, 5m or 2h, in seconds."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = (value[:-1], value[-1]) if value[-1:] in units else (value, "s")
    try:
        seconds = float(number) * units[unit]
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise click.BadParameter(f"{value!r} is not a time such as 90s, 5m or 2h.")
    return seconds


def _flag(context, name):
    """The option or argument as it is typed."""
    (match,) = (parameter for parameter in context.command.params if parameter.name == name)
    return max(match.opts, key=len) if isinstance(match, click.Option) else name.upper()


def _documents(texts, text_column, input_format, quiet):
    """What SkipGram reads: paths of files of lines, or the texts where there is a table."""
    import os
    from pathlib import Path

    from pacsent.text.tables import kind_of

    kinds = {input_format or kind_of(os.path.basename(name))[0] or "text" for name in texts}
    if kinds == {"text"} and text_column is None:
        return "-" if texts == ("-",) else [Path(name) for name in texts]
    return (text for name in texts for text in read_texts(name, text_column, input_format, quiet))


def _n_pieces(context, texts, parameters):
    """The value of --subwords, where the other options go with it."""
    n_pieces = parameters.pop("subwords")
    if n_pieces is None:
        return None
    typed = click.core.ParameterSource.COMMANDLINE
    if context.get_parameter_source("normalise") is typed:
        raise click.UsageError("--subwords reads text in its own way: leave out --normalise.")
    if "-" in texts:
        raise click.UsageError(
            "--subwords reads the text twice, and standard input can be read once: save it to a "
            "file first."
        )
    if context.get_parameter_source("min_count") is not typed:
        parameters["min_count"] = 1  # a piece that is left out makes words unknown
    return n_pieces


def _skipgram() -> list[type]:
    from pacsent.words import SkipGram

    return [SkipGram]


@cli.command(cls=EstimatorCommand, estimators=_skipgram, without=("checkpoint_dir", "verbose"))
@click.argument("texts", nargs=-1, type=TextsPath())
@option("-o --output", "Folder to write the word vectors to.", PATH)
@text_options
@option(
    "--resume",
    "Go on with the training whose --output was DIR, after an interruption of any kind.",
    PATH,
    metavar="DIR",
)
@option(
    "--subwords",
    "Learn N pieces of words from the text first, and train on these: no word is unknown.",
    click.IntRange(2),
    metavar="N",
)
@n_jobs_option
@device_option
@option(
    "--checkpoint-every",
    "Time between checkpoints, such as 90s or 5m.",
    default="5m",
    callback=_seconds,
)
@output_options
@click.pass_context
def train(context, texts, output, resume, overwrite, as_json, quiet, device, **parameters):
    """Train word vectors on TEXTS (Skip-gram).

    The model is Skip-gram with negative sampling; both tables, input and output, are kept. TEXTS is
    one or more files with one document per line, raw or cleaned, plain or packed, tables, or - for
    stdin. While it trains, the folder DIR.training next to the --output folder DIR holds the corpus
    and the checkpoints; it is deleted at the end.
    """
    import time
    from pathlib import Path

    if resume is not None:
        typed = [
            parameter.name
            for parameter in context.command.params
            if context.get_parameter_source(parameter.name)
            is click.core.ParameterSource.COMMANDLINE
        ]
        extra = set(typed) - {"resume", "n_jobs", "overwrite", "quiet", "as_json"}
        if extra:
            raise click.UsageError(
                "--resume takes its settings from the interrupted training; leave out "
                + ", ".join(sorted(_flag(context, name) for name in extra))
                + "."
            )
        output = resume.rstrip("/").removesuffix(".training")
    elif not texts or output is None:
        raise click.UsageError("TEXTS and --output are needed, or --resume DIR.")
    from pacsent import storage
    from pacsent.storage import save
    from pacsent.words.pieces import train_pieces
    from pacsent.words.skipgram import SkipGram, forget

    folder = Path(output)
    work = folder.with_name(folder.name + ".training")
    storage.check_place(folder, texts, overwrite=overwrite)
    columns = parameters.pop("text_column"), parameters.pop("input_format")
    n_pieces = _n_pieces(context, texts, parameters)
    if resume is None and (work / "state.json").exists():
        raise ValueError(
            f"{work} must not be there when a training starts. It holds an unfinished one. "
            f"Go on with: pacsent train --resume {folder}, or delete it."
        )
    started = time.monotonic()

    with warnings.catch_warnings():
        warnings.showwarning = one_line_warning
        try:
            if resume is not None:
                model = SkipGram.resume(work, n_jobs=parameters["n_jobs"], verbose=not quiet)
            else:
                parameters["device"] = device or "cpu"
                if n_pieces is not None:
                    again = (t for f in texts for t in read_texts(f, *columns, quiet))
                    parameters["normalise"] = train_pieces(again, n_pieces, verbose=not quiet)
                model = SkipGram(**parameters, checkpoint_dir=work, verbose=not quiet)
                model.fit(_documents(texts, *columns, quiet))
            save(model.word_vectors_, folder, overwrite=overwrite)
        except BaseException as error:
            if not (work / "state.json").exists():
                with contextlib.suppress(OSError):
                    work.rmdir()  # nothing to go on with
            elif isinstance(error, KeyboardInterrupt):
                click.echo(f"Go on with: pacsent train --resume {folder}", err=True)
            raise
    forget(work)
    seconds = time.monotonic() - started
    words = model.word_vectors_
    result = {
        "n_words": words.n_words,
        "n_dims": words.n_dims,
        "n_tokens": words.vocabulary.n_tokens,
        "loss": model.loss_,
        "seconds": round(seconds, 2),
        "normalise": words.vocabulary.normalise_name,
        "output": str(folder),
    }
    if note := words.training.get("normalise"):
        click.echo(note, err=True)
    if as_json:
        echo_json(result)
        return
    losses = ", ".join(f"{loss:.4f}" for loss in model.loss_)
    click.echo(f"wrote {folder}: {words.n_words:,} words, {words.n_dims} dimensions, both tables")
    click.echo(f"loss of a pair, by epoch: {losses} nats; {seconds:.1f} s in all")


@cli.command()
@click.argument("model", type=ModelPath(exists=True))
@click.argument("word", nargs=-1)
@option("-n", "Neighbours.", POSITIVE, 10)
@option(
    "--evaluate",
    "Score on the task files in DIR: WordSim-353, SimLex-999, analogies.",
    FOLDER,
    metavar="DIR",
)
@json_option
@quiet_option
def words(model, word, n, evaluate, as_json, quiet):
    """Show neighbours of each WORD, or score word vectors.

    MODEL is a folder or file of word vectors, or `english`, which comes with the package. Within
    one of its two tables, neighbours are words that are used in the same way; across the tables,
    words that occur near the WORD.
    """
    if bool(word) == bool(evaluate):
        raise click.UsageError("One of WORD and --evaluate DIR is needed.")
    from pacsent.words import formats

    vectors = formats.read(model, verbose=not quiet)
    if evaluate:
        from pacsent.words.tasks import N_FREQUENT, evaluate_words

        results = evaluate_words(vectors, evaluate, verbose=not quiet)
        if as_json:
            echo_json({"model": model, "tasks": results})
            return
        click.echo(f"{'task':<14}{'input':>8}{'output':>8}   covered")
        for row in results:
            out = "-" if row["output"] is None else f"{row['output']:.1f}"
            covered = f"{row['covered']:,} of {row['n']:,}"
            click.echo(f"{row['task']:<14}{row['input']:>8.1f}{out:>8}   {covered}")
        about = (
            "similarity: Spearman x 100; analogies: % right by 3CosAdd among the "
            f"{N_FREQUENT:,} most frequent words"
        )
        click.echo("\n".join(textwrap.wrap(about, terminal_width() or 200)))
        return
    ways = [("input", "input"), ("output", "output"), ("input", "output"), ("output", "input")]
    if vectors.output_vectors is None:
        ways = ways[:1]
    neighbours = {
        name: {
            f"{table} -> {among}": vectors.most_similar(name, n, table=table, among=among)
            for table, among in ways
        }
        for name in word
    }
    if as_json:
        echo_json({"model": model, "neighbours": neighbours})
        return
    for name, columns in neighbours.items():
        click.echo(name)
        rows = [
            [f"{neighbour[:18]:<18} {cosine:.3f}" for neighbour, cosine in row]
            for row in zip(*columns.values())
        ]
        width = terminal_width()
        shown = table(["", *columns], [["", *row] for row in rows], left=5, width=width)
        click.echo(shown)


@cli.command()
@click.argument("source", type=ModelPath(exists=True))
@click.argument("destination", type=PATH)
@option("--to", "word2vec-text, word2vec-binary or pacsent. By the name when left out.")
@option("--from format", "The format of SOURCE. By its contents when left out.")
@option("--counts", "`word count` lines that belong to SOURCE.", PATH)
@option("--save-counts", "Write `word count` lines here as well.", PATH)
@option(
    "--context",
    "File with the output table; auto: context_SOURCE, if it is there; none: leave it out.",
    default="auto",
)
@option(
    "--normalise",
    "How text is tokenised.",
    click.Choice(["paper", "unicode", "jieba", "janome", "pythainlp"]),
)
@option(
    "--trained-on",
    "Texts that SOURCE was trained on, one document per line or a table: certificates can "
    "then be checked for overlap with them. May be given several times.",
    metavar="TEXTS",
    multiple=True,
)
@option("--dtype", "Change the precision.", click.Choice(["float16", "float32"]))
@option("--n-words", "Keep the first, most frequent words.", POSITIVE)
@option("--dims", "Keep this number of dimensions, by a rotation.", POSITIVE)
@option("--int8 bits", "8 bits a number, packed.", int, flag_value=8)
@option("--int4 bits", "4 bits a number, packed.", int, flag_value=4)
@option("--int2 bits", "2 bits a number, packed.", int, flag_value=2)
@option("--binary bits", "1 bit a number, packed.", int, flag_value=1)
@option(
    "--encoding-errors",
    "What to do with words that are not UTF-8.",
    click.Choice(["strict", "replace", "backslashreplace"]),
    "strict",
)
@option(
    "--duplicates",
    "What to do with a word that occurs twice.",
    click.Choice(["error", "first"]),
    "error",
)
@output_options
def convert(source, destination, to, format, counts, save_counts, context, as_json, quiet, **how):
    """Convert word vectors from one format to another.

    Reads word2vec text and binary (with context_SOURCE as output table), fastText .bin, GloVe,
    static embeddings and pacsent's own folder. Writes word2vec text (.txt, .vec), word2vec
    binary (.bin) or pacsent's own folder (no suffix). With --dims both tables are rotated together,
    so that products of rows stay; packed numbers are for pacsent's own folder only.
    With --trained-on the folder also keeps a fingerprint of the text the vectors have seen.
    """
    import warnings
    from pathlib import Path

    from pacsent.text.reading import check_input
    from pacsent.words import formats

    if to is not None and to not in formats.WRITABLE:
        raise click.BadParameter(f"one of {', '.join(formats.WRITABLE)}", param_hint="--to")
    if format is not None and format not in formats.FORMATS:
        raise click.BadParameter(f"one of {', '.join(formats.FORMATS)}", param_hint="--from")
    format = format or formats.detect(source)  # a mistake in SOURCE comes first
    to = to or formats.format_of_name(destination)
    trained_on = how.pop("trained_on")
    if how["bits"] is not None and to != "pacsent":
        raise click.UsageError("Packed numbers are for pacsent's own folder: --to pacsent.")
    if trained_on and to != "pacsent":
        raise click.UsageError("Only pacsent's own folder keeps --trained-on: --to pacsent.")
    for text in trained_on:
        check_input(text)
    overwrite, dtype = how.pop("overwrite"), how.pop("dtype")
    smaller = {name: how.pop(name) for name in ("n_words", "dims", "bits")}
    formats.check_targets(  # before a large file is read for nothing
        destination,
        to,
        [source, counts, context, Path(source).with_name(formats.CONTEXT + Path(source).name)],
        save_counts=save_counts,
        overwrite=overwrite,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        words = formats.read(
            source,
            format=format,
            counts=counts,
            context=None if context == "none" else context,
            verbose=not quiet,
            **how,
        )
    echo_warnings(caught)
    if trained_on:
        seen = (text for name in trained_on for text in read_texts(name, quiet=quiet))
        words = words.trained_on(seen)
    if dtype is not None:
        words = words.astype(dtype)
    if any(value is not None for value in smaller.values()):
        from pacsent.words.packing import compress

        words = compress(words, n_dims=smaller.pop("dims"), **smaller)
    summary = formats.describe(words)
    if not as_json:
        tables = "input and output tables" if len(summary["tables"]) == 2 else "input table only"
        known = "counts known" if summary["counts_known"] else "counts unknown"
        subwords = f", {summary['subwords']:,} subword buckets" if summary["subwords"] else ""
        click.echo(
            f"read   {source}: {formats.FORMATS[format]}, {words.n_words:,} words, "
            f"{words.n_dims} dimensions, {summary['dtype']}, {tables}, {known}{subwords}"
        )
    written = formats.write(
        words,
        destination,
        format=to,
        save_counts=save_counts,
        overwrite=overwrite,
        verbose=not quiet,
    )
    if as_json:
        result = {"source": source, "format": format, **summary, "to": to}
        echo_json({**result, "written": written})
        return
    for path in written:
        click.echo(f"wrote  {path}" + (f": {formats.FORMATS[to]}" if path == written[0] else ""))
    if to != "pacsent" and summary["counts_known"] and save_counts is None:
        click.echo("note   this format keeps no counts: add --save-counts FILE to keep them")
    if to != "pacsent" and summary["subwords"]:
        click.echo("note   this format keeps no subword vectors: unknown words will have none")
