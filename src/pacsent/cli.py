"""The command line: parse, call one library function, print.

Results go to stdout, progress and warnings to stderr. Heavy modules are imported inside the
commands, so that `pacsent --help` answers at once.
"""

import os
import sys
import warnings

import click

import pacsent


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(pacsent.__version__, prog_name="pacsent")
def cli():
    """Sentence vectors with a promise attached."""


# ------------------------------------------------------------------------------------------------
# text: clean
# ------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("inputs", metavar="INPUT...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="OUT", help="File to write.  [default: standard output]")
@click.option("--wiki", is_flag=True, help="INPUT is a MediaWiki dump: keep its visible text only.")
@click.option(
    "--n-jobs", type=click.IntRange(min=1), help="Threads; the bytes stay the same.  [default: all]"
)
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def clean(inputs, output, wiki, n_jobs, quiet):
    """Clean text as the paper does: letters a-z in lower case, digits spelled, single spaces.

    Each INPUT is a plain file, a .gz, .bz2, .xz or .zst archive, or - for standard input. Lines
    stay lines; with --wiki all articles of a dump go on one line, byte for byte as by the filter
    of the paper.
    """
    from pacsent.text import clean_files

    clean_files(inputs, output, wiki=wiki, n_jobs=n_jobs, verbose=not quiet)


# ------------------------------------------------------------------------------------------------
# words: train, words
# ------------------------------------------------------------------------------------------------


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


@cli.command()
@click.argument("text", nargs=-1, type=click.Path(exists=True, allow_dash=True))
@click.option("-o", "--output", type=click.Path(), help="Folder to write the word vectors to.")
@click.option(
    "--resume",
    type=click.Path(),
    metavar="DIR",
    help="Go on with the training whose --output was DIR, after an interruption of any kind.",
)
@click.option("--n-dims", default=300, show_default=True, help="Length of a vector.")
@click.option(
    "--window", default=5, show_default=True, help="Words on either side, reduced to 1..N."
)
@click.option("--subsample", default=1e-4, show_default=True, help="Skip frequent words; 0: none.")
@click.option("--n-epochs", default=5, show_default=True, help="Passes over the text.")
@click.option("--n-negatives", default=15, show_default=True, help="Noise terms for each pair.")
@click.option(
    "--noise-power", default=0.75, show_default=True, help="Noise is drawn by count ** this."
)
@click.option("--learning-rate", default=0.025, show_default=True, help="At the start.")
@click.option("--min-count", default=5, show_default=True, help="Leave rarer words out.")
@click.option(
    "--negatives",
    type=click.Choice(["shared", "pair"]),
    default="shared",
    show_default=True,
    help="Noise words for a few centre words together (fast), or for every pair (word2vec).",
)
@click.option(
    "--normalise",
    type=click.Choice(["paper", "unicode"]),
    default="paper",
    show_default=True,
    help="How text becomes words.",
)
@click.option("--n-jobs", type=click.IntRange(1), help="Threads. All cores when left out.")
@click.option(
    "--deterministic", is_flag=True, help="Same seed, same vectors, with several threads too."
)
@click.option(
    "--random-state", type=click.IntRange(0, 2**32 - 1), help="Seed. A new one when left out."
)
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="cuda: train on a GPU.",
)
@click.option(
    "--checkpoint-every",
    default="5m",
    show_default=True,
    callback=_seconds,
    help="Time between checkpoints.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.pass_context
def train(context, text, output, resume, as_json, quiet, **parameters):
    """Train word vectors on TEXT, both tables: Skip-gram with negative sampling.

    TEXT is one or more files, raw or cleaned, plain or packed, or - for standard input; each line
    is a document. While it trains, DIR.training beside the --output folder DIR holds the corpus
    and the checkpoints; it is deleted at the end.
    """
    import json
    import time
    import warnings
    from pathlib import Path

    if resume is not None:
        given = [
            parameter.name
            for parameter in context.command.params
            if context.get_parameter_source(parameter.name)
            is click.core.ParameterSource.COMMANDLINE
        ]
        extra = set(given) - {"resume", "n_jobs", "quiet", "as_json"}
        if extra:
            raise click.UsageError(
                "--resume takes its settings from the interrupted training; leave out "
                + ", ".join(sorted(name.replace("_", "-") for name in extra))
                + "."
            )
        output = resume.rstrip("/").removesuffix(".training")
    elif not text or output is None:
        raise click.UsageError("TEXT and --output are needed, or --resume DIR.")
    from pacsent import storage
    from pacsent.skipgram import SkipGram, forget

    folder = Path(output)
    work = folder.with_name(folder.name + ".training")
    if resume is None:
        storage._check_place(folder.resolve(), folder)
        if (work / "state.json").exists():
            raise ValueError(
                f"{work} must not be there when a training starts. It holds an unfinished one. "
                f"Go on with: pacsent train --resume {folder}, or delete it."
            )
    started = time.monotonic()

    def tell(message, category, *where):
        click.echo(f"Warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = tell
        try:
            if resume is not None:
                model = SkipGram.resume(work, n_jobs=parameters["n_jobs"], verbose=not quiet)
            else:
                model = SkipGram(**parameters, checkpoint_dir=work, verbose=not quiet)
                model.fit("-" if text == ("-",) else [Path(name) for name in text])
            storage.save(model.word_vectors_, folder)
        except KeyboardInterrupt:
            if (work / "state.json").exists():
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
        "output": str(folder),
    }
    if as_json:
        click.echo(json.dumps(result))
        return
    losses = ", ".join(f"{loss:.4f}" for loss in model.loss_)
    click.echo(f"wrote {folder}: {words.n_words:,} words, {words.n_dims} dimensions, both tables")
    click.echo(f"loss of a pair, by epoch: {losses} nats; {seconds:.1f} s in all")


@cli.command()
@click.argument("model", type=click.Path(exists=True))
@click.argument("word", nargs=-1)
@click.option("-n", default=10, show_default=True, type=click.IntRange(1), help="Neighbours.")
@click.option(
    "--evaluate",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Score on the task files in DIR: WordSim-353, SimLex-999, analogies.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
def words(model, word, n, evaluate, as_json):
    """Neighbours of each WORD within and across the two tables of MODEL, or --evaluate it.

    Within a table neighbours are words used alike; across, words that occur near the WORD.
    """
    import json

    if bool(word) == bool(evaluate):
        raise click.UsageError("One of WORD and --evaluate DIR is needed.")
    from pacsent import formats

    vectors = formats.read(model)
    if evaluate:
        from pacsent.word_tasks import N_FREQUENT, evaluate_words

        results = evaluate_words(vectors, evaluate)
        if as_json:
            click.echo(json.dumps({"model": model, "tasks": results}))
            return
        click.echo(f"{'task':<14}{'input':>8}{'output':>8}   covered")
        for row in results:
            out = "-" if row["output"] is None else f"{row['output']:.1f}"
            covered = f"{row['covered']:,} of {row['n']:,}"
            click.echo(f"{row['task']:<14}{row['input']:>8.1f}{out:>8}   {covered}")
        click.echo(
            "similarity: Spearman x 100; analogies: % right by 3CosAdd among the "
            f"{N_FREQUENT:,} most frequent words"
        )
        return
    ways = [("input", "input"), ("output", "output"), ("input", "output"), ("output", "input")]
    if vectors.output_vectors is None:
        ways = ways[:1]
    found = {
        one: {
            f"{table} -> {among}": vectors.most_similar(one, n, table=table, among=among)
            for table, among in ways
        }
        for one in word
    }
    if as_json:
        click.echo(json.dumps({"model": model, "neighbours": found}, ensure_ascii=False))
        return
    for one, columns in found.items():
        click.echo(one)
        click.echo("  " + "".join(f"{title:<26}" for title in columns).rstrip())
        for row in zip(*columns.values()):
            cells = [f"{neighbour[:18]:<18} {cosine:.3f}" for neighbour, cosine in row]
            click.echo("  " + "".join(f"{cell:<26}" for cell in cells).rstrip())


# ------------------------------------------------------------------------------------------------
# files: convert
# ------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("source", type=click.Path(exists=True))
@click.argument("destination", type=click.Path())
@click.option("--to", help="word2vec-text, word2vec-binary or pacsent. By the name when left out.")
@click.option("--from", "format", help="The format of SOURCE. By its contents when left out.")
@click.option("--counts", type=click.Path(), help="`word count` lines that belong to SOURCE.")
@click.option("--save-counts", type=click.Path(), help="Write `word count` lines here as well.")
@click.option(
    "--context",
    default="auto",
    show_default=True,
    help="File with the output table; auto: context_SOURCE, if it is there; none: leave it out.",
)
@click.option("--normalise", type=click.Choice(["paper", "unicode"]), help="How text is tokenised.")
@click.option("--dtype", type=click.Choice(["float16", "float32"]), help="Change the precision.")
@click.option(
    "--encoding-errors",
    type=click.Choice(["strict", "replace", "backslashreplace"]),
    default="strict",
    show_default=True,
    help="What to do with words that are not UTF-8.",
)
@click.option(
    "--duplicates",
    type=click.Choice(["error", "first"]),
    default="error",
    show_default=True,
    help="What to do with a word that occurs twice.",
)
@click.option("--overwrite", is_flag=True, help="Replace files that exist.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
def convert(
    source, destination, to, format, counts, save_counts, context, dtype, overwrite, as_json, **how
):
    """Convert word vectors from any known format: SOURCE to DESTINATION.

    Reads word2vec text and binary (with context_SOURCE as output table), fastText .bin, GloVe,
    SENNA, .npy tables with vocab.tsv, and pacsent's own folder. Writes word2vec text (.txt, .vec),
    word2vec binary (.bin) or pacsent's own folder (no suffix).
    """
    import json
    import os
    import warnings

    from pacsent import formats

    to = to or formats.format_of_name(destination)
    if to not in formats.WRITABLE:
        raise click.BadParameter(f"one of {', '.join(formats.WRITABLE)}", param_hint="--to")
    if format is not None and format not in formats.FORMATS:
        raise click.BadParameter(f"one of {', '.join(formats.FORMATS)}", param_hint="--from")
    format = format or formats.detect(source)
    if os.path.exists(destination) and not overwrite:  # before a large file is read for nothing
        raise ValueError(f"{destination} exists. Choose another name, or add --overwrite.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        words = formats.read(
            source,
            format=format,
            counts=counts,
            context=None if context == "none" else context,
            verbose=True,
            **how,
        )
    for warning in caught:
        click.echo(f"Warning: {warning.message}", err=True)
    if dtype is not None:
        words = words.astype(dtype)
    found = formats.describe(words)
    if not as_json:
        tables = "input and output tables" if len(found["tables"]) == 2 else "input table only"
        known = "counts known" if found["counts_known"] else "counts unknown"
        subwords = f", {found['subwords']:,} subword buckets" if found["subwords"] else ""
        click.echo(
            f"read   {source}: {formats.FORMATS[format]}, {words.n_words:,} words, "
            f"{words.n_dims} dimensions, {found['dtype']}, {tables}, {known}{subwords}"
        )
    written = formats.write(
        words, destination, format=to, save_counts=save_counts, overwrite=overwrite, verbose=True
    )
    if as_json:
        result = {"source": source, "format": format, **found, "to": to}
        click.echo(json.dumps({**result, "written": [str(path) for path in written]}))
        return
    for path in written:
        click.echo(f"wrote  {path}" + (f": {formats.FORMATS[to]}" if path == written[0] else ""))
    if to != "pacsent" and found["counts_known"] and save_counts is None:
        click.echo("note   this format keeps no counts: add --save-counts FILE to keep them")
    if to != "pacsent" and found["subwords"]:
        click.echo("note   this format keeps no subword vectors: unknown words will have none")


# ------------------------------------------------------------------------------------------------
# sentences: fit, embed
# ------------------------------------------------------------------------------------------------


def _list_methods(context, parameter, wanted):
    if wanted and not context.resilient_parsing:
        from pacsent import METHODS

        click.echo("\n".join(METHODS))
        context.exit()


def _model_names(command):
    return click.option(
        "--model-names",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_list_methods,
        help="List the methods and stop.",
    )(command)


def _echo_warnings(caught):
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        click.echo(f"Warning: {text}", err=True)


@cli.command()
@click.argument("method")
@click.argument("words", type=click.Path(exists=True))
@click.argument("text", type=click.Path(exists=True, allow_dash=True))
@click.option("-o", "--output", required=True, type=click.Path(), help="Folder of the model.")
@click.option("--lam", type=float, help="Weight of the data against the prior; inf is allowed.")
@click.option(
    "--lam-mode",
    type=click.Choice(["fixed", "per-token"]),
    help="Lambda is --lam, or --lam times the number of words of a sentence.",
)
@click.option("--alpha", type=float, help="Weight of the prior, for Average and i-Average.")
@click.option("--prior-variance", type=float, help="Variance of each word's prior.")
@click.option(
    "--variance",
    type=click.Choice(["exact", "paper-loss", "printed"]),
    help="Which variance the closed forms report.",
)
@click.option("--kl", type=click.Choice(["exact", "paper"]), help="The KL of PB-neg's objective.")
@click.option("--unit-prior", is_flag=True, default=None, help="PB-IDF-L2's other reading.")
@click.option(
    "--unseen",
    type=click.Choice(["clamp", "drop"]),
    help="What IDF does with words that TEXT does not hold.",
)
@click.option("--subsample", type=float, help="Sub-sampling threshold, such as 1e-4; 0 for none.")
@click.option("--n-negatives", type=int, help="Noise words for each word.")
@click.option("--noise-power", type=float, help="Exponent of the counts in the noise distribution.")
@click.option("--n-epochs", type=int, help="Passes over TEXT, for solvers that make passes.")
@click.option("--learning-rate", type=float, help="Step size, for solvers that make steps.")
@click.option("--solver", help="How the objective is minimised, for methods that are not closed.")
@click.option("--random-state", type=int, help="Seed.")
@click.option("--n-jobs", type=int, help="Threads; all cores when left out.")
@click.option("--batch-size", type=int, help="Sentences worked on at once.")
@click.option(
    "--on-empty",
    type=click.Choice(["warn", "error", "ignore"]),
    help="What to do about sentences without a known word.",
)
@click.option(
    "--words-by",
    type=click.Choice(["copy", "reference"]),
    default="copy",
    show_default=True,
    help="Keep the word vectors in the model's folder, or only where WORDS is.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
@_model_names
def fit(method, words, text, output, words_by, as_json, **given):
    """Fit METHOD with the word vectors WORDS on the sentences of TEXT (one a line, - for stdin).

    WORDS is a folder of pacsent or a file of any format that `pacsent convert` reads. Options
    that are left out have the method's own defaults.
    """
    import json
    import warnings

    from pacsent import METHODS, formats, make, save
    from pacsent.progress import bar
    from pacsent.text import read_lines

    if method not in METHODS:
        raise click.BadParameter(f"one of {', '.join(METHODS)}", param_hint="METHOD")
    params = {name: value for name, value in given.items() if value is not None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        vectors = formats.read(words, verbose=True)
        known = make(method, vectors).get_params(deep=False)
        for name in params:
            if name not in known:
                option = "--" + name.replace("_", "-")
                raise click.UsageError(f"{method} takes no {option}.")
        try:
            vectorizer = make(method, vectors, **params)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        with bar(f"fit {method}", unit="sentences") as shown:

            def sentences():
                for sentence in read_lines(text):
                    shown.advance()
                    yield sentence

            vectorizer.fit(sentences())
        save(vectorizer, output, words=words_by)
    _echo_warnings(caught)
    result = {
        "method": method,
        "words": str(words),
        "output": str(output),
        "n_sentences": vectorizer.n_sentences_,
        "n_empty": vectorizer.n_empty_,
        "coverage": vectorizer.coverage_,
    }
    if as_json:
        click.echo(json.dumps(result))
    else:
        click.echo(f"wrote  {output}: {method}, {_report(vectorizer)}")


def _report(vectorizer) -> str:
    n, empty, coverage = vectorizer.n_sentences_, vectorizer.n_empty_, vectorizer.coverage_
    known = "no words at all" if coverage != coverage else f"{100 * coverage:.1f} % of words known"
    return f"{n:,} sentences, {known}, {empty:,} without a known word"


@cli.command()
@click.argument("model", type=click.Path(exists=True, file_okay=False))
@click.argument("text", type=click.Path(exists=True, allow_dash=True), default="-")
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="File ending in .npy or .tsv (means), .npz, .jsonl or .parquet (means and variances). "
    "Tab-separated means on stdout when left out.",
)
@click.option("--n-jobs", type=int, help="Threads; as the model says when left out.")
@click.option("--batch-size", type=int, help="Sentences worked on at once.")
@click.option(
    "--on-empty",
    type=click.Choice(["warn", "error", "ignore"]),
    help="What to do about sentences without a known word: mean 0 and a count, or stop.",
)
@_model_names
def embed(model, text, output, **given):
    """Turn the sentences of TEXT (one a line, stdin when left out) into vectors by MODEL.

    Works on a stream: memory does not grow with TEXT. Ends with a line on stderr that says how
    many words were known and how many sentences had none (mean 0, variance missing).
    """
    import warnings

    from pacsent import load, vector_files
    from pacsent.progress import bar
    from pacsent.text import read_lines

    if output is not None and output != "-":
        try:
            vector_files.check_name(output)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="-o") from None
    vectorizer = load(model)
    if not hasattr(vectorizer, "stream"):
        raise ValueError(
            f"MODEL must be a fitted method. Got word vectors in {model} instead. Run: pacsent fit"
        )
    vectorizer.set_params(**{name: value for name, value in given.items() if value is not None})
    n_dims = vectorizer.word_vectors.n_dims

    def batches():
        for means, variances in vectorizer.stream(read_lines(text)):
            yield means, variances
            shown.advance(len(variances))

    with warnings.catch_warnings(record=True) as caught, bar("embed", unit="sentences") as shown:
        warnings.simplefilter("always", UserWarning)
        vector_files.write(batches(), output, n_dims)
    _echo_warnings(w for w in caught if w.category.__name__ != "EmptySentenceWarning")
    click.echo(_report(vectorizer), err=True)


# ------------------------------------------------------------------------------------------------
# promises: bound, certify, simulate
# ------------------------------------------------------------------------------------------------


def _probability(context, parameter, value):
    if not 0 < value < 1:
        raise click.BadParameter(f"{value:g} is not strictly between 0 and 1.")
    return value


@cli.command()
@click.option("--risk", type=click.FloatRange(0, 1), required=True, help="Empirical risk.")
@click.option("--kl", type=click.FloatRange(min=0), required=True, help="KL(Q||P) in nats.")
@click.option("--n", type=click.IntRange(min=1), required=True, help="Independent examples.")
@click.option(
    "--delta", type=float, default=0.05, show_default=True, callback=_probability,
    help="Chance that the bound fails.",
)  # fmt: skip
@click.option(
    "--lam", type=click.FloatRange(min=0, min_open=True),
    help="Catoni's lambda, fixed before the sample is seen.  [default: n]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
def bound(risk, kl, n, delta, lam, as_json):
    """All PAC-Bayes bounds on one set of numbers, as a table."""
    import json

    from pacsent import bounds

    rows = bounds.compare(risk, kl, n, delta, lam=lam)
    if as_json:
        given = {"empirical_risk": risk, "kl": kl, "n": n, "delta": delta}
        found = [{"bound": row.name, "value": row.value, "note": row.note} for row in rows]
        click.echo(json.dumps({**given, "bounds": found}))
        return
    click.echo(f"risk {risk:g} on n = {n:,}, KL {kl:g} nats, delta {delta:g}")
    width = max(len(row.name) for row in rows)
    for row in rows:
        click.echo(f"{row.name:<{width}}  {row.value:.6f}  {row.note}")


@cli.command()
@click.argument("model")
@click.argument("text")
@click.option(
    "--kind", type=click.Choice(["A", "A'", "B", "C"]), default="A", show_default=True,
    help="A: further words of these documents. A': words of these texts, no assumption. "
    "B: new documents. C: squared loss.",
)  # fmt: skip
@click.option("--method", default="PB-L2", show_default=True,
              help="The method, where MODEL holds word vectors only.")  # fmt: skip
@click.option(
    "--delta", type=float, default=0.05, show_default=True, callback=_probability,
    help="Chance that the bound fails.",
)  # fmt: skip
@click.option("--posterior", default="auto", show_default=True,
              type=click.Choice(["auto", "prior", "vectorizer", "bound"]),
              help="Which posterior is certified; all are free.")  # fmt: skip
@click.option("--bias", type=float, help="Added to every score.  [default: ln of the negatives]")
@click.option("--split", type=float, help="Share of the words that builds the prior.")
@click.option("--holdout", type=float, help="Share of the words kept back, to check the bound.")
@click.option("--no-calibrate", is_flag=True, help="Leave the prior's mean as it is.")
@click.option("--random-state", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the split. The best of J seeds takes delta / J.")  # fmt: skip
@click.option("--n-jobs", type=int, help="Threads.  [default: all]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def certify(model, text, method, as_json, no_calibrate, quiet, **options):
    """Certify how well MODEL tells unseen words of TEXT (a document a line) from noise.

    The word vectors must not have been trained on TEXT. Exit status 0 also for a bound that is no
    better than guessing; a warning on stderr says so.
    """
    import warnings

    import pacsent
    from pacsent.text import read_lines

    loaded = pacsent.load(model)
    vectorizer = loaded if hasattr(loaded, "transform") else pacsent.make(method, loaded)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        certificate = pacsent.certify(
            vectorizer, list(read_lines(text)), calibrate=not no_calibrate, verbose=not quiet,
            **options,
        )  # fmt: skip
    _echo_warnings(caught)
    click.echo(certificate.to_json() if as_json else str(certificate))


@cli.command()
@click.option("--kind", type=click.Choice(["A", "A'", "B", "C", "all"]), default="all",
              show_default=True, help="Which certificate.")  # fmt: skip
@click.option("--setting", type=click.Choice(["topics", "memorising", "all"]), default="all",
              show_default=True, help="Vectors that know topics, or that memorise.")  # fmt: skip
@click.option(
    "--replicates",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Independent corpora.",
)
@click.option(
    "--delta", type=float, default=0.05, show_default=True, callback=_probability,
    help="Chance that a bound may fail.",
)  # fmt: skip
@click.option(
    "--random-state", type=click.IntRange(min=0), default=0, show_default=True, help="Seed."
)
@click.option("--figure", metavar="FILE.png", help="Also draw true risk against claimed bound.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def simulate(kind, setting, replicates, delta, random_state, figure, as_json, quiet):
    """Count how often certificates fail where the truth is known, beside the paper's own bound.

    Documents are drawn from the paper's generative model. Exit status 1 if a certificate failed
    more often than delta allows.
    """
    import json

    from pacsent import simulation

    kinds = ["A", "A'", "B", "C"] if kind == "all" else [kind]
    settings = list(simulation.SETTINGS) if setting == "all" else [setting]
    found, drawn = [], {}
    if not as_json:
        click.echo("kind  setting     replicates  violations  95 % interval     bound    true    "
                   "paper's violations  bound    true")  # fmt: skip
    for one in kinds:
        for name in settings:
            coverage, pairs = simulation.simulate(
                one, name, replicates, delta=delta, random_state=random_state,
                verbose=not quiet, return_replicates=True,
            )  # fmt: skip
            found.append(coverage)
            if one != "C":
                drawn[f"{one}, {name}"] = pairs
            if not as_json:
                c = coverage
                click.echo(
                    f"{c.kind:<4}  {c.setting:<10}  {c.n_replicates:>10,}  {c.n_violations:>10,}  "
                    f"[{c.low:.4f}, {c.high:.4f}]  {c.mean_bound:<7.4g}  {c.mean_risk:<7.4g} "
                    f"{c.paper_violations:>18,}  {c.paper_mean_bound:.4f}  {c.paper_mean_risk:.4f}"
                )
    if figure:
        simulation.figure(drawn, figure)
    if as_json:
        click.echo(json.dumps({"delta": delta, "coverage": [c.to_dict() for c in found]}))
    return 0 if all(c.keeps_promise for c in found) else 1


# ------------------------------------------------------------------------------------------------
# scores: evaluate, reproduce, demo
# ------------------------------------------------------------------------------------------------


@cli.command()
@click.argument("method")
@click.argument("words", type=click.Path(exists=True))
@click.argument("dataset")
@click.option("--data", type=click.Path(), help="Folder of the datasets.  [default: $PACSENT_DATA]")
@click.option("--test", type=click.Path(), help="A second file: the test part of your own DATASET.")
@click.option("--text-column", help="Column of a CSV that holds the text.")
@click.option("--label-column", help="Column of a CSV that holds the label.")
@click.option("--lam", "lams", type=float, multiple=True, help="Value to choose from; repeatable.")
@click.option("--seeds", default=3, show_default=True, help="How many seeds.")
@click.option("--save-classifiers", type=click.Path(), help="Folder to keep the classifiers in.")
@click.option("--device", help="cuda: let methods that can run on a GPU.")
@click.option("--no-verify", is_flag=True, help="Accept a dataset whose content is not the known.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for scripts.")
def evaluate(
    method, words, dataset, data, test, text_column, label_column, lams, seeds,
    save_classifiers, device, no_verify, as_json,
):  # fmt: skip
    """Score METHOD with WORDS on DATASET by the paper's protocol.

    METHOD is a row of the table (pacsent reproduce --list) or a method of the paper. DATASET is
    the name of a benchmark dataset, or your own file: lines of label<TAB>text, or a CSV with
    --text-column and --label-column. lam, C and L2 normalisation are chosen by five-fold
    cross-validation on the training part.
    """
    from pathlib import Path

    from pacsent import datasets, formats
    from pacsent import evaluation as scores

    if dataset in datasets.DATASETS:
        loaded = datasets.load(dataset, data, verify=not no_verify)
        if not isinstance(loaded, datasets.Dataset):
            raise click.UsageError(f"{dataset} has pairs, not classes: see pacsent reproduce.")
    elif Path(dataset).exists():
        loaded = datasets.read_labelled(
            dataset, text_column=text_column, label_column=label_column, test=test
        )
    else:
        raise click.UsageError(
            f"DATASET must be one of {', '.join(datasets.DATASETS)} or a file. Got {dataset!r}."
        )
    result = scores.evaluate(
        method,
        loaded,
        formats.read(words),
        lams=lams or None,
        seeds=range(seeds),
        save_classifiers=save_classifiers,
        device=device,
    )
    if as_json:
        click.echo(result.to_json(), nl=False)
        return
    click.echo(str(result))
    for score in result.scores:
        chosen = {key: score[key] for key in ("lam", "C", "normalise") if score[key] is not None}
        settings = ", ".join(f"{key}={value}" for key, value in chosen.items())
        click.echo(f"  seed {score['seed']}: {score['accuracy']:.4f} ({settings})")


def _list_rows(context, parameter, wanted):
    if wanted and not context.resilient_parsing:
        from pacsent.rows import ROWS

        for row in ROWS.values():
            click.echo(f"{row.name:18}{row.label}{'' if row.in_paper else '  (not in the paper)'}")
        context.exit()


@cli.command()
@click.option("--data", type=click.Path(), help="Folder of the datasets.  [default: $PACSENT_DATA]")
@click.option("--words", required=True, type=click.Path(exists=True), help="The word vectors.")
@click.option("-o", "--output", required=True, type=click.Path(), help="Folder to write.")
@click.option("--only", help="Rows, datasets or kinds, separated by commas: PB-L2,imdb.")
@click.option("--seeds", default=3, show_default=True, help="How many seeds.")
@click.option("--quick", is_flag=True, help="A small grid and one seed: does everything work?")
@click.option("--save-classifiers", is_flag=True, help="Keep the classifiers in OUT/classifiers.")
@click.option("--device", help="cuda: let methods that can run on a GPU.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of the grid.  [default: all]")
@click.option(
    "--format",
    "table_format",
    type=click.Choice(["text", "md", "latex", "html"]),
    default="text",
    show_default=True,
    help="How the table is printed.",
)
@click.option(
    "--time-limit", type=float, help="Seconds after which no further result is begun; run again."
)
@click.option("--no-report", is_flag=True, help="Write result files only, no index.html or plots.")
@click.option("--no-verify", is_flag=True, help="Accept datasets whose content is not the known.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_rows,
    help="List the rows of the table and leave.",
)
def reproduce(
    data, words, output, only, seeds, quick, save_classifiers, device, threads, table_format,
    time_limit, no_report, no_verify, quiet,
):  # fmt: skip
    """Run the paper's experiment again and print its table with ours beside it.

    Each result is one JSON file in OUT/results; a run that was interrupted goes on where it
    stopped. OUT/index.html is the report, one file that opens offline. --only takes rows,
    datasets and kinds (paper, classification, few-labels, similarity, certificate, map).
    """
    from pathlib import Path

    from pacsent import datasets, formats, report, reproduction

    folder = datasets.data_folder(data)
    if not no_report:
        report.require_matplotlib()
    run = reproduction.reproduce(
        folder,
        formats.read(words),
        output,
        only=only.split(",") if only else None,
        seeds=range(seeds),
        quick=quick,
        save_classifiers=save_classifiers,
        device=device,
        n_threads=threads,
        verify=not no_verify,
        verbose=not quiet,
        time_limit=time_limit,
        report=None if quiet else lambda line: click.echo(line, err=True),
    )
    results = reproduction.read_results(Path(output) / "results")
    if not results:
        reasons = " ".join(run["skipped"].values()) or "The time was up before the first."
        raise ValueError(f"No result could be made. {reasons}")
    if not no_report:
        report.write(results, output, reproduction.last_run(output) or run)
        click.echo(f"Report: {Path(output) / 'index.html'}", err=True)
    click.echo(report.table(results, table_format))
    minutes, memory = run["seconds"] / 60, run["peak_memory_bytes"] / 2**30
    click.echo(
        f"{run['n_done']} results made, {run['n_kept']} kept, {minutes:.1f} minutes, "
        f"peak memory {memory:.1f} GB",
        err=True,
    )


def _one_line_warning(message, category, filename, lineno, file=None, line=None):
    print(f"Warning: {message}", file=sys.stderr)


@cli.command()
@click.option("-o", "--output", default="demo", show_default=True, help="Folder to write.")
@click.option("--random-state", default=0, show_default=True, help="Seed.")
@click.option("--n-jobs", type=click.IntRange(min=1), help="Threads.  [default: all cores]")
@click.option("--quiet", is_flag=True, help="Print the table only.")
def demo(output, random_state, n_jobs, quiet):
    """Show everything, end to end, on text drawn from the paper's own generative model.

    Draws a corpus, cleans it, trains word vectors, fits every method, and prints accuracy, the
    true risk (known, because the text was drawn) and the certificate. OUT/index.html is the
    report.
    """
    from pathlib import Path

    from pacsent import demo as example

    say = (lambda line: None) if quiet else (lambda line: click.echo(line, err=True))
    made = example.run(output, random_state=random_state, n_jobs=n_jobs, say=say)
    click.echo(made["table"])
    if not quiet:
        words = Path(output) / "words"
        click.echo(
            f"""
Report: {Path(output) / "index.html"}

On your own text:
  pacsent clean mine.txt -o clean.txt            letters a-z, digits spelled
  pacsent train clean.txt -o words               word vectors, both tables
  pacsent fit PB-L2 words clean.txt -o model     sentence vectors
  pacsent embed model < lines.txt > vectors.tsv
  pacsent evaluate PB-L2 {words} labelled.tsv     lines of label<TAB>text
  pacsent certify model new.txt                  a promise about text nobody has seen""",
            err=True,
        )


def main():
    """Entry point: a user's mistake is one line on stderr, never a traceback.

    PACSENT_DEBUG=1 in the environment shows the traceback all the same.
    """
    warnings.showwarning = _one_line_warning
    try:
        status = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        print("Interrupted.", file=sys.stderr)
        raise SystemExit(130) from None
    except click.ClickException as error:
        error.show()
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader of our output went away (| head)
        sys.stderr.close()
        raise SystemExit(0) from None
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        if os.environ.get("PACSENT_DEBUG"):
            raise
        message = str(error) or f"{type(error).__name__} (out of memory?)"
        print(f"Error: {message}", file=sys.stderr)
        raise SystemExit(1) from None
    raise SystemExit(status if isinstance(status, int) else 0)
