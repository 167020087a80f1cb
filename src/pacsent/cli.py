"""The command line: parse, call one library function, print.

Results go to stdout, progress and warnings to stderr. Heavy modules are imported inside the
commands, so that `pacsent --help` answers at once.
"""

import sys

import click

import pacsent


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(pacsent.__version__, prog_name="pacsent")
def cli():
    """Sentence vectors with a promise attached."""


# ------------------------------------------------------------------------------------------------
# text: clean
# ------------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------------
# words: train, words
# ------------------------------------------------------------------------------------------------


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
    import warnings

    from pacsent import formats

    to = to or formats.format_of_name(destination)
    if to not in formats.WRITABLE:
        raise click.BadParameter(f"one of {', '.join(formats.WRITABLE)}", param_hint="--to")
    if format is not None and format not in formats.FORMATS:
        raise click.BadParameter(f"one of {', '.join(formats.FORMATS)}", param_hint="--from")
    format = format or formats.detect(source)
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


# ------------------------------------------------------------------------------------------------
# promises: bound, certify, simulate
# ------------------------------------------------------------------------------------------------


# ------------------------------------------------------------------------------------------------
# scores: evaluate, reproduce, demo
# ------------------------------------------------------------------------------------------------


def main():
    """Entry point: a user's mistake is one line on stderr, never a traceback."""
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
        message = str(error) or f"{type(error).__name__} (out of memory?)"
        print(f"Error: {message}", file=sys.stderr)
        raise SystemExit(1) from None
    raise SystemExit(status if isinstance(status, int) else 0)
