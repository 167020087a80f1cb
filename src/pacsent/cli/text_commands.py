"""Commands about texts and their vectors: embed, index, search, rerank, cluster, dedupe, map."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from pacsent.bounds.rounding import format_count
from pacsent.cli import inputs, params
from pacsent.cli.command_line import cli
from pacsent.cli.jobs import job_options, run_job
from pacsent.cli.printing import echo, echo_json, show_lines

_MIN_CLUSTERED_TEXTS = 30  # a map of fewer has no clusters unless their number is given


def _compare_options(command: Callable) -> Callable:
    """The options of commands that compare texts by the vectors of a model."""
    command = params.as_json(command)
    command = params.quiet(command)
    command = params.method(command)
    return params.text_columns(command)


@cli.command()
@params.method
@params.option("--pairs", "Print cosines with the texts of this file, row by row.", params.TEXTS)
@click.argument("sources", nargs=-1, metavar="[MODEL] [TEXTS]...")
@job_options
def embed(method: str | None, pairs: str | None, sources: tuple[str, ...], **options: Any) -> None:
    """Turn TEXTS into sentence vectors of MODEL.

    MODEL is english by default. TEXTS is a file with one text per line, a table, or stdin; many
    files, folders, globs and URLs are worked on file by file, and the same command resumes. Writes
    the columns `mean` and `variance`. Example: pacsent embed notes.txt -o vectors.npy
    """
    from pacsent.scale import Embed

    names_model = bool(sources) and sources[0] != "-" and not Path(sources[0]).is_file()
    model, *paths = sources if names_model else ("english", *sources)
    model = params.ENCODER_PATH.convert(model, None, None)
    if pairs is not None:
        _compare_pairs(model, method, paths, pairs, options)
        return
    if method is not None:
        inputs.open_encoder(model, method)
    run_job(Embed(model, method, inputs.given_encoder()), paths, options)


def _compare_pairs(
    model: str, method: str | None, paths: list[str], pairs: str, options: dict[str, Any]
) -> None:
    """Print the cosine of each text of one file with that of the other in the same row."""
    import numpy as np

    from pacsent.arrays import unit_rows

    if len(paths) > 1 or options["output"]:
        raise click.UsageError("--pairs compares two files, and prints the cosines.")
    encoder = inputs.open_encoder(model, method)
    path = paths[0] if paths else "-"
    left_texts = list(inputs.read_texts(path, dict(options)))
    right_texts = list(inputs.read_texts(pairs, dict(options)))
    if len(left_texts) != len(right_texts):
        sizes = f"{len(left_texts):,} and {len(right_texts):,}"
        raise ValueError(f"The files must have the same number of texts. Got {sizes} instead.")

    left = unit_rows(encoder.transform(left_texts))  # (n, n_dims)
    right = unit_rows(encoder.transform(right_texts))
    cosines = np.einsum("ij,ij->i", left, right)  # (n,)
    cosines = np.clip(cosines, -1, 1)  # rounding adds a last digit
    lines = [(f"{cosine:.4f}",) for cosine in cosines]
    show_lines({"cosines": cosines}, lines, options["as_json"])


@cli.command()
@params.model_and_texts
@params.output("Folder of the index.")
@params.flag("--lexical/--no-lexical", "Find texts by their words as well (BM25).", default=True)
@params.flag("--chunk", "Split texts into passages of complete sentences.")
@params.repeated("--keep-columns columns", "Input column to keep, for --where.", "COLUMN")
@params.text_columns
@params.method
@params.option("--query-encoder", "Static encoder of queries.", params.ENCODER_PATH, metavar="PATH")
@params.outputs
def index(
    model: str,
    texts: str,
    output: str,
    method: str | None,
    overwrite: bool,
    as_json: bool,
    columns: tuple[str, ...],
    **options: Any,
) -> None:
    """Index TEXTS by the vectors of MODEL, for `pacsent search`.

    Example: pacsent index notes.txt -o notes
    """
    from pacsent.search.index import Index
    from pacsent.storage import check_place, save
    from pacsent.words import WordVectors

    check_place(output, [model, texts], overwrite=overwrite)
    encoder = inputs.open_model(model) if method is None else None
    if not isinstance(encoder, WordVectors):
        encoder = inputs.open_encoder(model, method)
    text_index = Index(
        encoder,
        query_encoder=options["query_encoder"],
        lexical=options["lexical"],
        chunk=options["chunk"],
    )
    if columns:
        _, rows, metadata = inputs.read_columns(texts, options, columns)
        text_index.add(rows, metadata=metadata)
    else:
        text_index.add(inputs.read_texts(texts, options, progress=True))
    save(text_index, output, overwrite=overwrite)

    n_texts = format_count(len(text_index), "text")
    echo(f"wrote {output}: {n_texts}", err=True)
    if as_json:
        echo_json({"index": output, "texts": len(text_index)})


@cli.command()
@click.argument("index", type=params.ModelPath(file_okay=False))
@click.argument("query", nargs=-1, required=True)
@params.option("-k", "Texts to find.", params.POSITIVE, 10)
@params.repeated("--where conditions", "Only texts with this value.", "COLUMN=VALUE")
@params.probability(
    "--guarantee",
    "As many texts as find the right one for this fraction of queries; needs `pacsent certify "
    "INDEX QUERIES --overwrite`.",
)
@params.model_encoder
@params.as_json
def search(
    index: str,
    query: tuple[str, ...],
    k: int,
    conditions: tuple[str, ...],
    guarantee: float | None,
    as_json: bool,
) -> None:
    """Find the texts of INDEX nearest to each QUERY.

    Prints score, number and text, the best first. The numbers are those of the index: its first
    text has number 0. Example: pacsent search notes "a red wine"
    """
    opened = inputs.open_model(index, "an index")
    filters = _parse_conditions(conditions)
    if guarantee is None:  # with one every text is compared by any engine
        opened.engine = "exact"  # a few queries do not repay the preparation of a faster one
    n_hits = min(k, max(len(opened), 1))
    answers = opened.search(list(query), n_hits, where=filters or None, guarantee=guarantee)

    results = []
    lines: list[tuple] = []
    for hits in answers:
        results.append([hit._asdict() for hit in hits])
        lines += [(f"{hit.score:.4f}", hit.id, hit.text) for hit in hits]
    show_lines({"results": results}, lines, as_json)
    if guarantee is not None and not as_json:
        for text, hits in zip(query, answers):
            if not hits:
                echo(f"Nothing here answers {text!r}.", err=True)
        echo(answers[0].summary(), err=True)


def _parse_conditions(conditions: tuple[str, ...]) -> dict[str, list]:
    """The values of each column that --where names."""
    filters: dict[str, list] = {}
    for condition in conditions:
        column, equals, value = condition.partition("=")
        if not (column and equals):
            raise click.UsageError(f"--where must be COLUMN=VALUE. Got {condition!r} instead.")
        filters[column] = [value]
        with contextlib.suppress(ValueError):  # a number also matches its text
            filters[column].append(json.loads(value))
    return filters


@cli.command()
@params.model_query_and_texts
@params.option("-k", "Texts to print.  [default: all]", params.POSITIVE)
@_compare_options
def rerank(
    model: str,
    query: str,
    texts: str,
    k: int | None,
    method: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Order TEXTS by how well they answer QUERY.

    Prints a score from 0 to 1, the row and the text. Example: pacsent rerank "wine" a.txt
    """
    from pacsent.search import rerank

    rows = list(inputs.read_texts(texts, options, progress=True))
    encoder = inputs.open_encoder(model, method)
    results = []
    lines = []
    for hit in rerank(query, rows, encoder, k):
        results.append({"id": hit.id, "score": hit.score, "text": hit.text})
        lines.append((f"{hit.score:.4f}", hit.id, hit.text))
    show_lines({"results": results}, lines, as_json)


@cli.command()
@params.model_and_texts
@params.option("-k", "Number of clusters.  [default: by the number of texts]", params.POSITIVE)
@_compare_options
def cluster(
    model: str, texts: str, k: int | None, method: str | None, as_json: bool, **options: Any
) -> None:
    """Group TEXTS by meaning and name the groups.

    Prints the group, its size, its words and its most typical text; --json has the group of every
    text as well. Example: pacsent cluster notes.txt -k 8
    """
    from pacsent.search import clusters

    rows = list(inputs.read_texts(texts, options, progress=True))
    encoder = inputs.open_encoder(model, method)
    groups = clusters(rows, k, encoder=encoder, random_state=0)
    lines: list[tuple] = []
    for size, words, row in zip(groups.sizes, groups.words, groups.examples):
        example = rows[row] if row >= 0 else ""
        lines.append((len(lines), size, ", ".join(words), example))
    show_lines(groups._asdict(), lines, as_json)


@cli.command()
@params.texts
@params.text_columns
@params.id_column
@params.reports
def dedupe(texts: str, as_json: bool, **options: Any) -> None:
    """List near-duplicates among TEXTS.

    Prints the cluster, the row (counted from 1, with its id if --id-column names it) and the text
    of all texts that repeat another, word for word or with at most a quarter of the words changed.
    Example: pacsent dedupe notes.txt
    """
    from pacsent.certify.near_duplicates import near_duplicate_clusters

    ids = inputs.read_ids(texts, options)
    rows = list(inputs.read_texts(texts, options, progress=True))
    members: dict[int, list[int]] = {}  # the rows of each cluster
    if rows:
        for row, cluster in enumerate(near_duplicate_clusters(rows).tolist()):
            members.setdefault(cluster, []).append(row)
    clusters = [repeated for repeated in members.values() if len(repeated) > 1]

    lines: list[tuple] = []
    for number, cluster_rows in enumerate(clusters, 1):
        for row in cluster_rows:
            name = (row + 1,) if ids is None else (row + 1, ids[row])
            lines.append((number, *name, rows[row]))
    row_numbers = [[row + 1 for row in cluster_rows] for cluster_rows in clusters]
    result: dict[str, Any] = {"texts": len(rows), "clusters": row_numbers}
    if ids is not None:
        result["ids"] = [[ids[row] for row in cluster_rows] for cluster_rows in clusters]
    show_lines(result, lines, as_json)


@cli.command("map")
@params.model_and_texts
@params.output("The page, FILE.html.")
@params.method
@params.model_encoder
@params.text_columns
@params.column("label", "Column of the class, for the colours.")
@params.option("-k", "Clusters, or 0.  [default: by the number of texts]", params.NON_NEGATIVE)
@params.outputs
def map_(
    model: str,
    texts: str,
    output: str,
    method: str | None,
    k: int | None,
    overwrite: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Draw a map of TEXTS by the vectors of MODEL.

    Writes one page with a chart, which shows the text under the pointer. The colour of a point is
    its class or cluster. Example: pacsent map notes.txt -o map.html
    """
    from pacsent.files import check_output, replacing
    from pacsent.web import make_map

    check_output(output, [texts], overwrite=overwrite)
    labels = None
    if options["label_column"] is None:
        rows = list(inputs.read_texts(texts, options))
    else:
        labelled = inputs.read_labelled(texts, options, sampled_only=False)
        rows = labelled.texts
        labels = labelled.labels
    encoder = inputs.open_encoder(model, method)
    encoder = encoder.set_known_params(on_empty="ignore")
    n_groups = 0 if k is None and len(rows) < _MIN_CLUSTERED_TEXTS else k
    page = make_map(encoder, rows, labels, n_groups=n_groups)
    with replacing(Path(output)) as file:
        file.write(page.encode("utf-8"))
    n_texts = format_count(len(rows), "text")
    inputs.say(options["quiet"])(f"wrote {output}: {n_texts}")
    if as_json:
        echo_json({"texts": len(rows), "page": output})
