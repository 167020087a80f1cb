"""Commands about texts and their vectors: embed, index, search, rerank, cluster, dedupe, map."""

import contextlib
import json
from pathlib import Path

import click

from pacsent.bounds.rounding import format_count
from pacsent.cli import inputs, params
from pacsent.cli.command_line import cli
from pacsent.cli.jobs import job_options, run_job
from pacsent.cli.printing import echo, echo_json, show_lines


def _compare_options(command):
    """The options of commands that compare texts by the vectors of a model."""
    return params.text_columns(params.method(params.quiet(params.as_json(command))))


@cli.command()
@params.method
@params.option("--pairs", "Print cosines with the texts of this file, row by row.", params.TEXTS)
@click.argument("sources", nargs=-1, metavar="[MODEL] [TEXTS]...")
@job_options
def embed(method, pairs, sources, **options):
    """Turn TEXTS into sentence vectors of MODEL.

    MODEL is english by default. TEXTS is a file with one text per line, a table, or stdin; many
    files, folders, globs and URLs are worked on file by file, and the same command resumes. Writes
    the columns `mean` and `variance`. Example: pacsent embed notes.txt -o vectors.npy
    """
    from pacsent.scale import Embed

    is_texts = not sources or sources[0] == "-" or Path(sources[0]).is_file()
    model, *sources = ("english", *sources) if is_texts else sources
    model = params.ENCODER_PATH.convert(model, None, None)
    if pairs is None:
        if method is not None:
            inputs.open_encoder(model, method)
        run_job(Embed(model, method, inputs.given_encoder()), sources, options)
        return
    import numpy as np

    from pacsent.arrays import unit_rows

    if len(sources) > 1 or options["output"]:
        raise click.UsageError("--pairs compares two files, and prints the cosines.")
    encoder = inputs.open_encoder(model, method)
    paths = (sources[0] if sources else "-", pairs)
    first, second = (list(inputs.read_texts(path, dict(options))) for path in paths)
    if len(first) != len(second):
        sizes = f"{len(first):,} and {len(second):,}"
        raise ValueError(f"The files must have the same number of texts. Got {sizes} instead.")
    left, right = (unit_rows(encoder.transform(texts)) for texts in (first, second))
    cosines = np.clip(np.einsum("ij,ij->i", left, right), -1, 1)  # rounding adds a last digit
    show_lines({"cosines": cosines}, [(f"{c:.4f}",) for c in cosines], options["as_json"])


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
def index(model, texts, output, method, overwrite, as_json, columns, **options):
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
    made = Index(encoder, **{k: options.pop(k) for k in ("query_encoder", "lexical", "chunk")})
    if columns:
        _, rows, metadata = inputs.read_columns(texts, options, columns)
        made.add(rows, metadata=metadata)
    else:
        made.add(inputs.read_texts(texts, options, progress=True))
    save(made, output, overwrite=overwrite)
    echo(f"wrote {output}: {format_count(len(made), 'text')}", err=True)
    if as_json:
        echo_json({"index": output, "texts": len(made)})


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
def search(index, query, k, conditions, guarantee, as_json):
    """Find the texts of INDEX nearest to each QUERY.

    Prints score, number and text, the best first. The numbers are those of the index: its first
    text has number 0. Example: pacsent search notes "a red wine"
    """
    opened = inputs.open_model(index, "an index")
    filters: dict[str, list] = {}
    for condition in conditions:
        column, equals, value = condition.partition("=")
        if not (column and equals):
            raise click.UsageError(f"--where must be COLUMN=VALUE. Got {condition!r} instead.")
        filters[column] = [value]
        with contextlib.suppress(ValueError):  # a number also matches its text
            filters[column].append(json.loads(value))
    if guarantee is None:  # with one every text is compared by any engine
        opened.engine = "exact"  # a few queries do not repay the preparation of a faster one
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
                echo(f"Nothing here answers {text!r}.", err=True)
        echo(answers[0].summary(), err=True)


@cli.command()
@params.model_query_and_texts
@params.option("-k", "Texts to print.  [default: all]", params.POSITIVE)
@_compare_options
def rerank(model, query, texts, k, method, as_json, **options):
    """Order TEXTS by how well they answer QUERY.

    Prints a score from 0 to 1, the row and the text. Example: pacsent rerank "wine" a.txt
    """
    from pacsent.search import rerank

    rows = list(inputs.read_texts(texts, options, progress=True))
    hits = rerank(query, rows, inputs.open_encoder(model, method), k)
    show_lines(
        {"results": [{"id": hit.id, "score": hit.score, "text": hit.text} for hit in hits]},
        [(f"{hit.score:.4f}", hit.id, hit.text) for hit in hits],
        as_json,
    )


@cli.command()
@params.model_and_texts
@params.option("-k", "Number of clusters.  [default: by the number of texts]", params.POSITIVE)
@_compare_options
def cluster(model, texts, k, method, as_json, **options):
    """Group TEXTS by meaning and name the groups.

    Prints the group, its size, its words and its most typical text; --json has the group of every
    text as well. Example: pacsent cluster notes.txt -k 8
    """
    from pacsent.search import clusters

    rows = list(inputs.read_texts(texts, options, progress=True))
    groups = clusters(rows, k, encoder=inputs.open_encoder(model, method), random_state=0)
    columns = zip(groups.sizes, groups.words, groups.examples)
    lines = [
        (group, size, ", ".join(words), rows[row] if row >= 0 else "")
        for group, (size, words, row) in enumerate(columns)
    ]
    show_lines(groups._asdict(), lines, as_json)


@cli.command()
@params.texts
@params.text_columns
@params.id_column
@params.reports
def dedupe(texts, as_json, **options):
    """List near-duplicates among TEXTS.

    Prints the cluster, the row (counted from 1, with its id if --id-column names it) and the text
    of all texts that repeat another, word for word or with at most a quarter of the words changed.
    Example: pacsent dedupe notes.txt
    """
    from pacsent.certify.near_duplicates import near_duplicate_clusters

    ids = inputs.read_ids(texts, options)
    rows = list(inputs.read_texts(texts, options, progress=True))
    members: dict[int, list[int]] = {}
    for row, number in enumerate(near_duplicate_clusters(rows).tolist() if rows else ()):
        members.setdefault(number, []).append(row)
    clusters = [repeated for repeated in members.values() if len(repeated) > 1]
    lines = [
        (number, row + 1, *([] if ids is None else [ids[row]]), rows[row])
        for number, same in enumerate(clusters, 1)
        for row in same
    ]
    result = {"texts": len(rows), "clusters": [[row + 1 for row in same] for same in clusters]}
    if ids is not None:
        result["ids"] = [[ids[row] for row in same] for same in clusters]
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
def map_(model, texts, output, method, k, overwrite, as_json, **options):
    """Draw a map of TEXTS by the vectors of MODEL.

    Writes one page with a chart, which shows the text under the pointer. The colour of a point is
    its class or cluster. Example: pacsent map notes.txt -o map.html
    """
    from pacsent.files import check_output, replacing
    from pacsent.web import make_map

    check_output(output, [texts], overwrite=overwrite)
    labels = None
    if options["label_column"] is not None:
        labelled = inputs.read_labelled(texts, options, sampled_only=False)
        rows, labels = labelled.texts, labelled.labels
    else:
        rows = list(inputs.read_texts(texts, options))
    encoder = inputs.open_encoder(model, method).set_known_params(on_empty="ignore")
    n_groups = 0 if k is None and len(rows) < 30 else k
    page = make_map(encoder, rows, labels, n_groups=n_groups)
    with replacing(Path(output)) as file:
        file.write(page.encode("utf-8"))
    inputs.say(options["quiet"])(f"wrote {output}: {format_count(len(rows), 'text')}")
    if as_json:
        echo_json({"texts": len(rows), "page": output})
