"""Commands about search and export: index, search, similar, duplicates, export, push."""

import click

from pacsent.cli.command_line import (
    ModelPath,
    cli,
    json_option,
    method_option,
    open_vectorizer,
    output_options,
    overwrite_option,
    quiet_option,
)
from pacsent.cli.printing import counted, echo_json, on_one_line
from pacsent.cli.text_inputs import TextsPath, read_texts, text_options


def _counted(texts, quiet):
    """The texts, with progress on stderr."""
    from pacsent.progress import bar

    with bar("reading", unit="texts", enabled=not quiet) as shown:
        for text in texts:
            yield text
            shown.advance()


def _index(model, texts, method, text_column, input_format, quiet):
    """An index of the texts of a file."""
    from pacsent.encoders.index import Index
    from pacsent.storage import load
    from pacsent.words import WordVectors

    opened = load(model) if method is None else None
    made = Index(opened if isinstance(opened, WordVectors) else open_vectorizer(model, method))
    made.add(_counted(read_texts(texts, text_column, input_format, quiet), quiet))
    return made


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("texts", type=TextsPath())
@click.option("-o", "--output", required=True, type=click.Path(), help="Folder of the index.")
@text_options
@method_option()
@output_options
def index(model, texts, output, overwrite, as_json, **how):
    """Index TEXTS by their vectors, for `pacsent search`.

    TEXTS is a file with one text per line, a table, or - for stdin. MODEL is a fitted method, or
    word vectors such as `english`.
    """
    from pacsent.storage import check_place, save

    check_place(output, [model, texts], overwrite=overwrite)
    made = _index(model, texts, **how)
    save(made, output, overwrite=overwrite)
    click.echo(f"wrote  {output}: {counted(len(made), 'text')}", err=True)
    if as_json:
        echo_json({"index": output, "texts": len(made)})


@cli.command()
@click.argument("index", type=ModelPath(exists=True, file_okay=False))
@click.argument("query", nargs=-1, required=True)
@click.option("-k", type=click.IntRange(1), default=10, help="Texts to find.")
@json_option
def search(index, query, k, as_json):
    """Find the texts of INDEX nearest to each QUERY.

    Prints cosine, number and text, separated by tabs, one line per hit. Tabs, line breaks and
    backslashes in a text are written as \\t, \\n, \\r and \\\\; --json has the texts as they are.
    """
    from pacsent.encoders.index import Index
    from pacsent.storage import load

    opened = load(index)
    if not isinstance(opened, Index):
        raise ValueError(
            f"{index} must be an index. Got a {type(opened).__name__} instead. Make one: pacsent "
            "index MODEL TEXTS -o INDEX"
        )
    opened.engine = "exact"  # a few queries do not repay the preparation of a faster engine
    found = opened.search(list(query), min(k, max(len(opened), 1)))
    if as_json:
        echo_json({"results": [[hit._asdict() for hit in hits] for hits in found]})
        return
    for hits in found:
        for hit in hits:
            click.echo(f"{hit.cosine:.4f}\t{hit.id}\t{on_one_line(hit.text)}")


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("first", type=TextsPath())
@click.argument("second", type=TextsPath())
@text_options
@method_option()
@quiet_option
@json_option
def similar(model, first, second, text_column, input_format, method, quiet, as_json):
    """Compare texts of FIRST with the same rows of SECOND.

    Prints the cosine of their vectors by MODEL. FIRST and SECOND have one text per line, or are
    tables; one of them may be - for stdin.
    """
    import numpy as np

    from pacsent.maths.arrays import unit_rows

    vectorizer = open_vectorizer(model, method)
    texts = [
        list(_counted(read_texts(path, text_column, input_format, quiet), quiet))
        for path in (first, second)
    ]
    if len(texts[0]) != len(texts[1]):
        raise ValueError(
            f"FIRST and SECOND must have the same number of texts. Got {len(texts[0]):,} and "
            f"{len(texts[1]):,} instead."
        )
    one, two = (unit_rows(vectorizer.transform(part)) for part in texts)
    cosines = np.clip(np.einsum("ij,ij->i", one, two), -1, 1)  # rounding adds a last digit
    if as_json:
        echo_json({"cosines": cosines.tolist()})
        return
    for cosine in cosines:
        click.echo(f"{cosine:.4f}")


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("texts", type=TextsPath())
@click.option("--above", type=float, default=0.95, help="Smallest cosine.")
@text_options
@method_option()
@quiet_option
@json_option
def duplicates(model, texts, above, as_json, **how):
    """Find pairs of TEXTS that say the same.

    Prints the cosine, the two numbers and the two texts, separated by tabs, one line per pair. Tabs
    and line breaks in a text are written as \\t, \\n and \\r. TEXTS is a file with one text per
    line, a table, or - for stdin.
    """
    pairs = _index(model, texts, **how).duplicates(above)
    if as_json:
        echo_json({"pairs": [[one._asdict(), two._asdict()] for one, two in pairs]})
        return
    for one, two in pairs:
        shown = on_one_line(one.text), on_one_line(two.text)
        click.echo("\t".join((f"{one.cosine:.4f}", str(one.id), str(two.id), *shown)))


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("directory", type=click.Path())
@click.option(
    "--to",
    type=click.Choice(["model2vec", "sentence-transformers"]),
    default="sentence-transformers",
    help="The library that will open it.",
)
@method_option("SIF-sum")
@overwrite_option
@json_option
def export(model, directory, to, method, overwrite, as_json):
    """Write MODEL for sentence-transformers or model2vec.

    The library opens the folder and gives the same vectors. For methods that are the mean of one
    row for each word: SIF-sum, SIF, uSIF, both, Average. Others are refused.
    """
    from pacsent.encoders.export import export as write
    from pacsent.encoders.methods import DEFAULT

    vectorizer = open_vectorizer(model, method or DEFAULT)
    write(vectorizer, directory, to, overwrite=overwrite)
    click.echo(f"wrote  {directory}: for {to}", err=True)
    if as_json:
        made = {"model": model, "method": vectorizer.method_name, "to": to}
        echo_json({**made, "directory": directory})


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("repo")
@click.option("--message", help="Message of the commit.")
@click.option("--private", is_flag=True, help="Make a new repository private.")
@json_option
def push(model, repo, message, private, as_json):
    """Upload MODEL to the Hugging Face hub as OWNER/NAME.

    MODEL is anything that is saved as a folder: word vectors, a fitted method, a classifier, an
    index (with its texts). A model card is written. The model is opened as hf://owner/name. Needs
    the extra `hub`; log in with: hf auth login
    """
    from pacsent.storage import load
    from pacsent.storage.sharing import push_to_hub

    address = push_to_hub(load(model), repo, message=message, private=private or None)
    if as_json:
        echo_json({"model": model, "repo": repo, "commit": address})
    else:
        click.echo(address)
