"""Commands about search and export: index, search, rerank, clusters, duplicates, export, push."""

import contextlib
import json

import click

from pacsent.cli.command_line import (
    PATH,
    POSITIVE,
    ModelPath,
    cli,
    encoder_option,
    flag,
    json_option,
    method_option,
    open_model,
    open_vectorizer,
    option,
    output_options,
    overwrite_option,
    probability_option,
    quiet_option,
)
from pacsent.cli.printing import counted, echo_json, on_one_line, show
from pacsent.cli.text_inputs import TextsPath, read_texts, text_options


def _counted(texts, quiet):
    """The texts, with progress on stderr."""
    from pacsent.progress import bar

    with bar("reading", unit="texts", enabled=not quiet) as shown:
        for text in texts:
            yield text
            shown.advance()


def _index(model, texts, method, text_column, input_format, quiet, columns=(), **how):
    """An index of the texts of a file, with columns of it as metadata."""
    from pacsent.search.index import Index
    from pacsent.text.tables import TextTable
    from pacsent.words import WordVectors

    opened = open_model(model) if method is None else None
    own = isinstance(opened, WordVectors)
    made = Index(opened if own else open_vectorizer(model, method), **how)
    if not columns:
        made.add(_counted(read_texts(texts, text_column, input_format, quiet), quiet))
        return made
    with TextTable(texts, kind=input_format, text_column=text_column) as table:
        for rows in table.batches(columns):
            plain = {
                n: c if isinstance(c, list) else c.to_pylist() for n, c in rows.columns.items()
            }
            batch_texts = rows.texts if isinstance(rows.texts, list) else rows.texts.to_pylist()
            made.add(_counted(batch_texts, quiet), metadata=plain)
    return made


def _opened(index):
    """The index in a folder."""
    from pacsent.search.index import Index

    opened = open_model(index)
    if not isinstance(opened, Index):
        raise ValueError(
            f"{index} must be an index. Got a {type(opened).__name__} instead. Make one: pacsent "
            "index MODEL TEXTS -o INDEX"
        )
    return opened


def _where(conditions) -> dict:
    """COLUMN=VALUE as a filter; a number also matches its text, as a table of text has it."""
    filters = {}
    for condition in conditions:
        column, equals, value = condition.partition("=")
        if not (column and equals):
            raise click.BadParameter(
                f"It must be COLUMN=VALUE. Got {condition!r} instead.", param_hint="--where"
            )
        filters[column] = [value]
        with contextlib.suppress(ValueError):
            filters[column].append(json.loads(value))
    return filters


@cli.command()
@click.argument("model", type=ModelPath(encoders=True, exists=True, file_okay=False))
@click.argument("texts", type=TextsPath())
@option("-o --output", "Folder of the index.", PATH, required=True)
@flag("--lexical", "Find texts by their words as well (BM25).")
@option(
    "--chunk",
    "Cut texts into passages, evenly or where the subject changes.",
    click.Choice(["sentences", "meaning"]),
)
@option(
    "--column columns",
    "Keep this column of the table, for --where; may be repeated.",
    multiple=True,
    metavar="COLUMN",
)
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
@option("-k", "Texts to find.", POSITIVE, 10)
@option(
    "--where conditions",
    "Only texts with this value; may be repeated.",
    multiple=True,
    metavar="COLUMN=VALUE",
)
@probability_option(
    "--guarantee",
    None,
    "As many texts as find the right one for this share of queries; needs `certify-search`.",
)
@encoder_option
@json_option
def search(index, query, k, conditions, guarantee, as_json):
    """Find the texts of INDEX nearest to each QUERY.

    Prints cosine, number and text, separated by tabs, one line per hit, the best first. Tabs, line
    breaks and backslashes in a text are written as \\t, \\n, \\r and \\\\; --json has the texts as
    they are.
    """
    found = _opened(index)
    found.engine = "exact"  # a few queries do not repay the preparation of a faster engine
    found = found.search(
        list(query),
        min(k, max(len(found), 1)),
        where=_where(conditions) or None,
        guarantee=guarantee,
    )
    if as_json:
        echo_json({"results": [[hit._asdict() for hit in hits] for hits in found]})
        return
    for asked, hits in zip(query, found):
        for hit in hits:
            click.echo(f"{hit.cosine:.4f}\t{hit.id}\t{on_one_line(hit.text)}")
        if guarantee is not None and not hits:
            click.echo(f"Nothing here answers {asked!r}.", err=True)
    if guarantee is not None:
        click.echo(found[0].statement, err=True)


@cli.command("certify-search")
@click.argument("index", type=ModelPath(exists=True, file_okay=False))
@click.argument("queries", type=TextsPath(), required=False)
@option("-k", "Hits among which the answer is.", POSITIVE, 10)
@option(
    "--answer-column",
    "Column with the number of the right text.",
    default="answer",
    metavar="COLUMN",
)
@probability_option("--delta", 0.05, "Probability that the guarantee fails.")
@encoder_option
@text_options
@output_options
def certify_search(index, queries, k, answer_column, delta, text_column, input_format, **how):
    """Guarantee how often INDEX finds the right text.

    QUERIES is a table with the query (`text`) and the number of its right text (`answer`), drawn as
    later queries will be. Without QUERIES, the first sentences of texts are the queries; this
    certifies how such sentences find the rest of their texts, and is not saved. With QUERIES,
    INDEX keeps what `search --guarantee` needs, with --overwrite.
    """
    from pacsent.storage import save
    from pacsent.text.tables import TextTable

    opened = _opened(index)
    if queries is None:
        query_texts, answers, other = opened.self_queries()
        certificate = other.certify(query_texts, answers, k, delta)
    else:
        with TextTable(queries, kind=input_format, text_column=text_column) as table:
            rows = list(table.batches([answer_column]))
        query_texts = [text for batch in rows for text in batch.texts]
        answers = [_number(x) for batch in rows for x in batch.columns[answer_column]]
        certificate = opened.certify(query_texts, answers, k, delta)
        if how["overwrite"]:
            save(opened, index, overwrite=True)
    show({"certificate": certificate.to_dict()}, certificate, how["as_json"])


def _number(value) -> int:
    plain = value.as_py() if hasattr(value, "as_py") else value
    try:
        return int(plain)
    except (TypeError, ValueError):
        raise ValueError(
            f"An answer must be the number of a text in the index. Got {plain!r} instead. Name its "
            "column with --answer-column."
        ) from None


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("query")
@click.argument("texts", type=TextsPath())
@option("-n top_n", "Texts to print.  [default: all]", POSITIVE)
@text_options
@method_option()
@quiet_option
@json_option
def rerank(model, query, texts, top_n, text_column, input_format, method, quiet, as_json):
    """Order TEXTS by how well they answer QUERY.

    By meaning, with the vectors of MODEL, and by words. Prints the score from 0 to 1, the row and
    the text, separated by tabs. TEXTS is a file with one text per line, a table, or - for stdin.
    """
    from pacsent.search import rerank as ranked

    read = list(_counted(read_texts(texts, text_column, input_format, quiet), quiet))
    results = ranked(query, read, open_vectorizer(model, method), top_n)
    if as_json:
        echo_json({"results": [vars(result) for result in results]})
        return
    for result in results:
        click.echo(f"{result.score:.4f}\t{result.index}\t{on_one_line(result.text)}")


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("texts", type=TextsPath())
@option("-n n_groups", "Number of groups.  [default: by the number of texts]", POSITIVE)
@text_options
@method_option()
@quiet_option
@json_option
def clusters(model, texts, n_groups, text_column, input_format, method, quiet, as_json):
    """Group TEXTS by meaning and name the groups.

    Prints the group, its size, its words and its most typical text, separated by tabs; --json has
    the group of every text as well. TEXTS is a file with one text per line, a table, or - for
    stdin.
    """
    from pacsent.search import clusters as grouped

    read = list(_counted(read_texts(texts, text_column, input_format, quiet), quiet))
    groups = grouped(read, n_groups, encoder=open_vectorizer(model, method))
    if as_json:
        echo_json({**groups._asdict(), "labels": groups.labels.tolist()})
        return
    for c, (size, words, at) in enumerate(zip(groups.sizes, groups.words, groups.examples)):
        typical = on_one_line(read[at]) if at >= 0 else ""
        click.echo(f"{c}\t{size}\t{', '.join(words)}\t{typical}")


@cli.command()
@click.argument("model", type=ModelPath(encoders=True, exists=True, file_okay=False))
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
    left, right = (unit_rows(vectorizer.transform(part)) for part in texts)
    cosines = np.clip(np.einsum("ij,ij->i", left, right), -1, 1)  # rounding adds a last digit
    if as_json:
        echo_json({"cosines": cosines.tolist()})
        return
    for cosine in cosines:
        click.echo(f"{cosine:.4f}")


@cli.command()
@click.argument("model", type=ModelPath(encoders=True, exists=True, file_okay=False))
@click.argument("texts", type=TextsPath())
@option("--above", "Smallest cosine.", float, 0.95)
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
        echo_json({"pairs": [[left._asdict(), right._asdict()] for left, right in pairs]})
        return
    for left, right in pairs:
        shown = on_one_line(left.text), on_one_line(right.text)
        click.echo("\t".join((f"{left.cosine:.4f}", str(left.id), str(right.id), *shown)))


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("directory", type=PATH)
@option(
    "--to",
    "The library that will open it.",
    click.Choice(["model2vec", "sentence-transformers"]),
    "sentence-transformers",
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

    vectorizer = open_vectorizer(model, method, default=DEFAULT)
    write(vectorizer, directory, to, overwrite=overwrite)
    click.echo(f"wrote  {directory}: for {to}", err=True)
    if as_json:
        made = {"model": model, "method": vectorizer.method_name, "to": to}
        echo_json({**made, "directory": directory})


@cli.command()
@click.argument("model", type=ModelPath(exists=True, file_okay=False))
@click.argument("repo")
@option("--message", "Message of the commit.")
@flag("--private", "Make a new repository private.")
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
    show({"model": model, "repo": repo, "commit": address}, address, as_json)
