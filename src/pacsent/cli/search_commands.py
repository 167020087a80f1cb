"""Commands about search: index, search, certify-search, rerank, clusters, similar."""

import contextlib
import json

import click

from pacsent.cli.command_line import (
    POSITIVE,
    PROBABILITY,
    ModelPath,
    cli,
    delta_option,
    encoder_option,
    flag,
    json_option,
    method_option,
    open_model,
    open_vectorizer,
    option,
    output_options,
    output_path,
    quiet_option,
)
from pacsent.cli.printing import counted, echo_json, show, show_lines
from pacsent.cli.text_inputs import TextsPath, column_option, read_texts, say, text_options


def _read_options(command):
    """The options of commands that compare texts by the vectors of a model."""
    return text_options(method_option()(quiet_option(json_option(command))))


_model_argument = click.argument(
    "model", type=ModelPath(encoders=True, exists=True, file_okay=False)
)
_texts_argument = click.argument("texts", type=TextsPath())


def _make_index(model, texts, method, options: dict, columns=(), **how):
    """An index of the texts of a file, with columns of it as metadata."""
    from pacsent.search.index import Index
    from pacsent.text.tables import TextTable, as_list
    from pacsent.words import WordVectors

    opened = open_model(model) if method is None else None
    has_words = isinstance(opened, WordVectors)
    index = Index(opened if has_words else open_vectorizer(model, method), **how)
    if not columns:
        index.add(read_texts(texts, options, progress=True))
        return index
    kind, column = options["input_format"], options["text_column"]
    with TextTable(texts, kind=kind, text_column=column) as table:
        for rows in table.batches(columns):
            metadata = {name: as_list(values) for name, values in rows.columns.items()}
            index.add(as_list(rows.texts), metadata=metadata)
    return index


def _open_index(path):
    from pacsent.search.index import Index

    index = open_model(path)
    if not isinstance(index, Index):
        raise ValueError(
            f"{path} must be an index. Got a {type(index).__name__} instead. Make one: pacsent "
            "index MODEL TEXTS -o INDEX"
        )
    return index


@cli.command()
@_model_argument
@_texts_argument
@output_path("Folder of the index.")
@flag("--lexical/--no-lexical", "Find texts by their words as well (BM25).", default=True)
@flag("--chunk", "Cut texts into passages of whole sentences.")
@option(
    "--column columns",
    "Keep this column of the table, for --where; may be repeated.",
    multiple=True,
    metavar="COLUMN",
)
@text_options
@method_option()
@output_options
def index(model, texts, output, method, overwrite, as_json, lexical, chunk, columns, **options):
    """Index TEXTS by their vectors, for `pacsent search`.

    Example: pacsent index english notes.txt -o notes
    """
    from pacsent.storage import check_place, save

    check_place(output, [model, texts], overwrite=overwrite)
    made = _make_index(model, texts, method, options, columns, lexical=lexical, chunk=chunk)
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
@option(
    "--guarantee",
    "As many texts as find the right one for this fraction of queries; needs `certify-search`.",
    PROBABILITY,
)
@encoder_option
@json_option
def search(index, query, k, conditions, guarantee, as_json):
    """Find the texts of INDEX nearest to each QUERY.

    Prints score, number and text, the best first. Example: pacsent search notes "a red wine"
    """
    opened = _open_index(index)
    filters: dict[str, list] = {}
    for condition in conditions:
        column, equals, value = condition.partition("=")
        if not (column and equals):
            raise click.BadParameter(
                f"It must be COLUMN=VALUE. Got {condition!r} instead.", param_hint="--where"
            )
        filters[column] = [value]
        with contextlib.suppress(ValueError):  # a number also matches its text
            filters[column].append(json.loads(value))
    opened.engine = "exact"  # a few queries do not repay the preparation of a faster engine
    n_hits = min(k, max(len(opened), 1))
    answers = opened.search(list(query), n_hits, where=filters or None, guarantee=guarantee)
    show_lines(
        {"results": [[hit._asdict() for hit in hits] for hits in answers]},
        [(f"{hit.score:.4f}", hit.id, hit.text) for hits in answers for hit in hits],
        as_json,
    )
    if guarantee is not None and not as_json:
        for text, hits in zip(query, answers):
            if not hits:
                click.echo(f"Nothing here answers {text!r}.", err=True)
        click.echo(answers[0].statement, err=True)


@cli.command("certify-search")
@click.argument("index", type=ModelPath(exists=True, file_okay=False))
@click.argument("queries", type=TextsPath())
@option("-k", "Hits among which the answer is.", POSITIVE, 10)
@column_option("answer", "Column with the number of the right text.", default="answer")
@delta_option
@encoder_option
@text_options
@output_options
def certify_search(index, queries, k, answer_column, delta, overwrite, as_json, **options):
    """Guarantee how often INDEX finds the right text.

    QUERIES is a table with the query (`text`) and the number of its right text (`answer`). With
    --overwrite INDEX keeps what `search --guarantee` needs. Example: pacsent certify-search notes
    queries.csv --overwrite
    """
    from pacsent.storage import save
    from pacsent.text.tables import TextTable, as_list, describe_table

    opened = _open_index(index)
    kind, column = options["input_format"], options["text_column"]
    with TextTable(queries, kind=kind, text_column=column) as table:
        rows = list(table.batches([answer_column]))
    query_texts = [text for batch in rows for text in as_list(batch.texts)]
    answers = [value for batch in rows for value in as_list(batch.columns[answer_column])]
    say(options["quiet"])(describe_table(table, len(query_texts)))
    try:
        answers = [int(value) for value in answers]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"An answer must be the number of a text in the index ({error}). Name its column "
            "with --answer-column."
        ) from None
    certificate = opened.certify(query_texts, answers, k, delta)
    if overwrite:
        save(opened, index, overwrite=True)
    show({"certificate": certificate.to_dict()}, certificate, as_json)


@cli.command()
@_model_argument
@click.argument("query")
@_texts_argument
@option("-n top_n", "Texts to print.  [default: all]", POSITIVE)
@_read_options
def rerank(model, query, texts, top_n, method, as_json, **options):
    """Order TEXTS by how well they answer QUERY.

    Prints a score from 0 to 1, the row and the text. Example: pacsent rerank english "wine" a.txt
    """
    from pacsent.search import rerank

    read = list(read_texts(texts, options, progress=True))
    results = rerank(query, read, open_vectorizer(model, method), top_n)
    show_lines(
        {"results": [vars(result) for result in results]},
        [(f"{result.score:.4f}", result.index, result.text) for result in results],
        as_json,
    )


@cli.command()
@_model_argument
@_texts_argument
@option("-n n_groups", "Number of groups.  [default: by the number of texts]", POSITIVE)
@_read_options
def clusters(model, texts, n_groups, method, as_json, **options):
    """Group TEXTS by meaning and name the groups.

    Prints the group, its size, its words and its most typical text; --json has the group of every
    text as well. Example: pacsent clusters english notes.txt -n 8
    """
    from pacsent.search import clusters

    read = list(read_texts(texts, options, progress=True))
    groups = clusters(read, n_groups, encoder=open_vectorizer(model, method))
    columns = zip(groups.sizes, groups.words, groups.examples)
    show_lines(
        groups._asdict(),
        [
            (group, size, ", ".join(words), read[row] if row >= 0 else "")
            for group, (size, words, row) in enumerate(columns)
        ],
        as_json,
    )


@cli.command()
@_model_argument
@click.argument("first", type=TextsPath())
@click.argument("second", type=TextsPath())
@_read_options
def similar(model, first, second, method, as_json, **options):
    """Compare texts of FIRST with the same rows of SECOND.

    Prints the cosine of their vectors. Example: pacsent similar english a.txt b.txt
    """
    import numpy as np

    from pacsent.maths.arrays import unit_rows

    vectorizer = open_vectorizer(model, method)
    pairs = [list(read_texts(path, dict(options), progress=True)) for path in (first, second)]
    if len(pairs[0]) != len(pairs[1]):
        raise ValueError(
            f"FIRST and SECOND must have the same number of texts. Got {len(pairs[0]):,} and "
            f"{len(pairs[1]):,} instead."
        )
    left, right = (unit_rows(vectorizer.transform(texts)) for texts in pairs)
    cosines = np.clip(np.einsum("ij,ij->i", left, right), -1, 1)  # rounding adds a last digit
    show_lines({"cosines": cosines}, [(f"{cosine:.4f}",) for cosine in cosines], as_json)
