"""Commands that show models: serve, map."""

from functools import partial

import click

from pacsent.cli.command_line import (
    FILE,
    FOLDER,
    NON_NEGATIVE,
    PATH,
    POSITIVE,
    ModelPath,
    cli,
    encoder_option,
    flag,
    json_option,
    method_option,
    open_model,
    option,
    output_options,
)
from pacsent.cli.printing import counted, echo_json
from pacsent.cli.text_inputs import TextsPath, read_labelled, read_texts, text_options
from pacsent.optional import install_hint

_json_at_start = partial(
    json_option, help="Print one JSON object at the start: address, workers and model."
)


@cli.command()
@click.argument(
    "model", type=ModelPath(encoders=True, exists=True, file_okay=False), required=False
)
@option(
    "--model more",
    "A further model, chosen by `model` in requests; may be repeated.",
    multiple=True,
    metavar="NAME=FOLDER",
)
@option(
    "--encoder",
    "In place of MODEL, or what it was made with: URL of an embedding server, or "
    "folder of sentence-transformers.",
    metavar="PLACE",
)
@option("--host", "Address to listen on; 0.0.0.0 for all networks.", default="127.0.0.1")
@option(
    "--port",
    "Port to listen on; 0 chooses a free one, named in the log.",
    click.IntRange(0, 65535),
    8000,
)
@method_option()
@option("--classifier", "Folder of a classifier, for /classify.", FOLDER)
@option(
    "--error",
    "/classify abstains so that at most this share of its answers is wrong.  "
    "[default: the smallest that answers half of the calibration texts]",
    click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="E",
)
@option("--index", "Folder of an index, for /search.", FOLDER)
@option(
    "--certificate certificates",
    "JSON file of a certificate, verified; may be repeated.",
    FILE,
    multiple=True,
)
@option("--name", "The model's name in requests.  [default: name of its folder]")
@option("--workers", "Processes; they share the memory of the models.", POSITIVE, 1)
@option("--api-key-file", "API keys, one a line; without it no key is required.", FILE)
@option(
    "--allow-origin origins",
    "Web pages from there may call the server; * for all.",
    multiple=True,
    metavar="ORIGIN",
)
@option("--max-body", "Largest number of bytes in a request.", POSITIVE, 8 << 20)
@option("--max-texts", "Largest number of texts in a request.", POSITIVE, 2048)
@option("--max-tokens", "Largest number of words in a request.", POSITIVE, 1_000_000)
@option("--max-concurrent", "Requests that a worker answers at the same time.", POSITIVE, 256)
@option("--timeout", "Seconds for a request; its work stops then.", click.FloatRange(min=0.1), 30.0)
@flag("--raw-length", "/v1/embeddings returns the means as they are, not of length one.")
@_json_at_start
def serve(model, more, encoder, host, port, workers, api_key_file, origins, raw_length, **options):
    """Serve MODEL over HTTP.

    The endpoints are OpenAI's /v1/embeddings, reranking, classes, search and certificates. MODEL is
    word vectors such as `english`, a fitted method, a classifier or an index; --model adds further
    ones. The page / shows what it does, /docs documents the API. The log goes to stderr, one JSON
    object per line, without the texts. SIGHUP opens the models again.
    """
    try:
        from pacsent.web import ModelSources, ServerSettings, read_keys, serve
    except ImportError as error:
        raise ImportError(
            f"The server needs {error.name}, which is not installed. {install_hint('serve')}"
        ) from None
    limits = ("max_body", "max_texts", "max_tokens", "max_concurrent", "timeout", "error")
    settings = ServerSettings(
        keys=read_keys(api_key_file) if api_key_file else (),
        origins=origins,
        unit_length=not raw_length,
        **{name: options[name] for name in limits},
    )
    sources = []
    if model is not None or encoder is not None:
        parts = ("method", "classifier", "index", "certificates", "name")
        parts = {name: options[name] for name in parts}
        sources.append(ModelSources(model, encoder=encoder, **parts))
    for named in more:
        name, equals, path = named.partition("=")
        if not (name and equals and path):
            raise click.BadParameter(
                f"It must be NAME=FOLDER. Got {named!r} instead.", param_hint="--model"
            )
        sources.append(ModelSources(path, method=options["method"], name=name))
    if not sources:
        raise click.UsageError(
            "One model must be given: MODEL, --encoder PLACE or --model NAME=FOLDER."
        )
    on_start = echo_json if options["as_json"] else None
    serve(sources, settings, host, port, workers, on_start)


@cli.command("map")
@click.argument("model", type=ModelPath(encoders=True, exists=True, file_okay=False))
@click.argument("texts", type=TextsPath())
@option("-o --output", "The page, FILE.html.", PATH)
@option("--atlas", "A table for Embedding Atlas, FILE.parquet.", PATH)
@method_option()
@encoder_option
@text_options
@option("--label-column", "Column of the class, for the colours.", metavar="COLUMN")
@option(
    "--groups",
    "Groups of similar texts, named by their words; 0 for none.  [default: by the number of texts]",
    NON_NEGATIVE,
    metavar="N",
)
@option("--title", "Title of the page.", default="A map of texts")
@output_options
def map_(model, texts, output, atlas, overwrite, quiet, as_json, **how):
    """Draw a map of TEXTS by the vectors of MODEL.

    The map is one page to pan, zoom, search and click; what is drawn around can be exported. TEXTS
    is a file with one text per line, a table, or - for stdin. The size of a point is the variance
    of its posterior, its colour the class: a column, the answer of MODEL where it is a classifier,
    or the group of similar texts.
    """
    from pacsent.encoders.methods import as_vectorizer
    from pacsent.files import check_output
    from pacsent.web import make_map, write_atlas, write_html

    if output is None and atlas is None:
        raise click.UsageError("An output must be given: -o FILE.html or --atlas FILE.parquet.")
    if output is not None and not output.lower().endswith((".html", ".htm")):
        raise click.BadParameter(
            f"The page must end in .html or .htm. Got {output!r} instead.", param_hint="-o"
        )
    for path in filter(None, (output, atlas)):
        check_output(path, [texts], overwrite=overwrite)
    labels = None
    if how["label_column"] is not None:
        read, labels, _ = read_labelled(texts, how, quiet)
    else:
        read = list(read_texts(texts, how["text_column"], how["input_format"], quiet))
    loaded = open_model(model)
    if hasattr(loaded, "classes_"):
        vectorizer = loaded.vectorizer_
        if vectorizer is None:
            raise ValueError(
                f"MODEL must have vectors. {model} is a classifier with n-grams only. "
                "Give another model."
            )
        labels = loaded.predict(read).tolist() if labels is None else labels
    else:
        vectorizer = getattr(loaded, "vectorizer", None) or as_vectorizer(
            loaded, how["method"], source=model
        )
    if hasattr(vectorizer, "on_empty"):
        vectorizer.set_params(on_empty="ignore")
    n_groups = 0 if how["groups"] is None and len(read) < 30 else how["groups"]
    made = make_map(vectorizer, read, labels, n_groups=n_groups)
    for path, write in ((output, partial(write_html, title=how["title"])), (atlas, write_atlas)):
        if path is not None:
            write(made, path)
            if not quiet:
                click.echo(f"wrote  {path}: {counted(len(read), 'text')}", err=True)
    if as_json:
        echo_json({"texts": len(read), "page": output, "atlas": atlas})
