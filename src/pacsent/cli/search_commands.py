"""Commands about search and travel: index, search, similar, duplicates, export, push."""

import click

from pacsent.cli.command_line import ModelPath, cli, json_option, overwrite_option, quiet_option
from pacsent.cli.printing import echo_json


def vectorizer_of(model, method):
    """A fitted method from a folder, or a method that needs no text from word vectors."""
    from pacsent.cli.embed_commands import ready
    from pacsent.encoders.methods import check_gives_vectors
    from pacsent.loading import load

    loaded = load(model)
    check_gives_vectors(loaded, model)
    return loaded if hasattr(loaded, "stream") else ready(method, loaded)


_method_option = click.option(
    "--method",
    default="SIF-sum",
    show_default=True,
    help="The method, where MODEL holds word vectors.",
)


def _counted(lines, quiet):
    """The lines, with progress on stderr."""
    from pacsent.progress import bar

    with bar("reading", unit="texts", enabled=not quiet) as shown:
        for line in lines:
            yield line
            shown.advance()


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("text", type=click.Path(exists=True, allow_dash=True))
@click.option("-o", "--output", required=True, type=click.Path(), help="Folder of the index.")
@_method_option
@overwrite_option
@quiet_option
@json_option
def index(model, text, output, method, overwrite, quiet, as_json):
    """Index the lines of TEXT by their vectors, for `pacsent search`.

    MODEL is a fitted method, or word vectors such as `english`.
    """
    from pacsent.encoders.index import Index
    from pacsent.loading import save
    from pacsent.storage import check_place
    from pacsent.text.reading import read_lines

    check_place(output, [model, text], overwrite=overwrite)
    made = Index(vectorizer_of(model, method))
    made.add(_counted(read_lines(text), quiet))
    save(made, output, overwrite=overwrite)
    click.echo(f"wrote  {output}: {len(made):,} texts", err=True)
    if as_json:
        echo_json({"index": output, "texts": len(made)})


@cli.command()
@click.argument("index", type=ModelPath(exists=True, file_okay=False))
@click.argument("query", nargs=-1, required=True)
@click.option("-k", type=click.IntRange(1), default=10, show_default=True, help="Texts to find.")
@json_option
def search(index, query, k, as_json):
    """The lines of INDEX nearest to each QUERY: cosine, number and text, separated by tabs."""
    from pacsent.encoders.index import Index
    from pacsent.loading import load

    opened = load(index)
    if not isinstance(opened, Index):
        raise ValueError(
            f"{index} must be an index. Got a {type(opened).__name__} instead. Make one: pacsent "
            "index MODEL TEXT -o INDEX"
        )
    opened.engine = "exact"  # for a few queries nothing is worth preparing
    found = opened.search(list(query), k)
    if as_json:
        echo_json({"results": [[hit._asdict() for hit in hits] for hits in found]})
        return
    for hits in found:
        for hit in hits:
            click.echo(f"{hit.cosine:.4f}\t{hit.id}\t{hit.text}")


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("first", type=click.Path(exists=True, allow_dash=True))
@click.argument("second", type=click.Path(exists=True))
@_method_option
@quiet_option
@json_option
def similar(model, first, second, method, quiet, as_json):
    """The cosine of each line of FIRST with the same line of SECOND, by the vectors of MODEL."""
    import numpy as np

    from pacsent.text.reading import read_lines

    vectorizer = vectorizer_of(model, method)
    texts = [list(_counted(read_lines(path), quiet)) for path in (first, second)]
    if len(texts[0]) != len(texts[1]):
        raise ValueError(
            f"FIRST and SECOND must have the same number of lines. Got {len(texts[0]):,} and "
            f"{len(texts[1]):,} instead."
        )
    one, two = (vectorizer.transform(part) for part in texts)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    cosines = np.einsum("ij,ij->i", one, two) / np.where(lengths > 0, lengths, 1.0)
    if as_json:
        echo_json({"cosines": cosines.tolist()})
        return
    for cosine in cosines:
        click.echo(f"{cosine:.4f}")


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("text", type=click.Path(exists=True, allow_dash=True))
@click.option("--above", type=float, default=0.95, show_default=True, help="Least cosine.")
@_method_option
@quiet_option
@json_option
def duplicates(model, text, above, method, quiet, as_json):
    """Pairs of lines of TEXT that say the same: cosine, the two numbers, the two texts."""
    from pacsent.encoders.index import Index
    from pacsent.text.reading import read_lines

    made = Index(vectorizer_of(model, method))
    made.add(_counted(read_lines(text), quiet))
    if as_json:
        pairs = [[one._asdict(), two._asdict()] for one, two in made.duplicates(above)]
        echo_json({"pairs": pairs})
        return
    for one, two in made.duplicates(above):
        click.echo(f"{one.cosine:.4f}\t{one.id}\t{two.id}\t{one.text}\t{two.text}")


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("directory", type=click.Path())
@click.option(
    "--to",
    type=click.Choice(["model2vec", "sentence-transformers"]),
    default="sentence-transformers",
    show_default=True,
    help="Which library opens it.",
)
@_method_option
@overwrite_option
@json_option
def export(model, directory, to, method, overwrite, as_json):
    """Write MODEL as a folder that sentence-transformers or model2vec opens, with our vectors.

    For methods that are the mean of one row for each word: SIF-sum, SIF, uSIF, both, Average.
    Others are refused.
    """
    from pacsent.encoders.export import export as write

    vectorizer = vectorizer_of(model, method)
    write(vectorizer, directory, to, overwrite=overwrite)
    click.echo(f"wrote  {directory}: for {to}", err=True)
    if as_json:
        made = {"model": model, "method": vectorizer.method_name, "to": to}
        echo_json({**made, "directory": directory})


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("repo")
@click.option("--message", help="Of the commit.")
@click.option("--private", is_flag=True, help="Make the repository a private one, if it is new.")
@json_option
def push(model, repo, message, private, as_json):
    """Put MODEL on the Hugging Face hub as REPO (owner/name), with a card.

    Anything that is saved as a folder: word vectors, a fitted method, a classifier, an index (with
    its texts). It is opened by the name hf://owner/name. Needs pacsent[hub]; log in by: hf auth
    login
    """
    from pacsent.loading import load, push_to_hub

    address = push_to_hub(load(model), repo, message=message, private=private or None)
    if as_json:
        echo_json({"model": model, "repo": repo, "commit": address})
    else:
        click.echo(address)
