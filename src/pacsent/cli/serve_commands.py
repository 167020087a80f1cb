"""Commands that show models: serve, map."""

from functools import partial

import click

from pacsent.cli.command_line import (
    ModelPath,
    cli,
    encoder_option,
    json_option,
    method_option,
    open_model,
    output_options,
)
from pacsent.cli.printing import counted, echo_json
from pacsent.cli.text_inputs import TextsPath, read_labelled, read_texts, text_options
from pacsent.optional import install_hint

_json_at_start = partial(
    json_option, help="Print one JSON object at the start: address, workers and model."
)
_POSITIVE = click.IntRange(min=1)


@cli.command()
@click.argument(
    "model", type=ModelPath(encoders=True, exists=True, file_okay=False), required=False
)
@click.option("--model", "more", multiple=True, metavar="NAME=FOLDER",
              help="A further model, chosen by `model` in requests; may be repeated.")  # fmt: skip
@click.option("--encoder", metavar="PLACE",
              help="In place of MODEL, or what it was made with: URL of an embedding server, or "
              "folder of sentence-transformers.")  # fmt: skip
@click.option("--host", default="127.0.0.1",
              help="Address to listen on; 0.0.0.0 for all networks.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8000,
              help="Port to listen on; 0 chooses a free one, named in the log.")  # fmt: skip
@method_option()
@click.option("--classifier", type=click.Path(exists=True, file_okay=False),
              help="Folder of a classifier, for /classify.")  # fmt: skip
@click.option("--error", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="E",
              help="/classify abstains so that at most this share of its answers is wrong.  "
              "[default: the smallest that answers half of the calibration texts]")  # fmt: skip
@click.option("--index", type=click.Path(exists=True, file_okay=False),
              help="Folder of an index, for /search.")  # fmt: skip
@click.option("--certificate", "certificates", multiple=True,
              type=click.Path(exists=True, dir_okay=False),
              help="JSON file of a certificate, verified; may be repeated.")  # fmt: skip
@click.option("--name", help="The model's name in requests.  [default: name of its folder]")
@click.option("--workers", type=_POSITIVE, default=1,
              help="Processes; they share the memory of the models.")  # fmt: skip
@click.option("--api-key-file", type=click.Path(exists=True, dir_okay=False),
              help="API keys, one a line; without it no key is required.")  # fmt: skip
@click.option("--allow-origin", "origins", multiple=True, metavar="ORIGIN",
              help="Web pages from there may call the server; * for all.")  # fmt: skip
@click.option("--max-body", type=_POSITIVE, default=8 << 20,
              help="Largest number of bytes in a request.")  # fmt: skip
@click.option("--max-texts", type=_POSITIVE, default=2048,
              help="Largest number of texts in a request.")  # fmt: skip
@click.option("--max-tokens", type=_POSITIVE, default=1_000_000,
              help="Largest number of words in a request.")  # fmt: skip
@click.option("--max-concurrent", type=_POSITIVE, default=256,
              help="Requests that a worker answers at the same time.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(min=0.1), default=30.0,
              help="Seconds for a request; its work stops then.")  # fmt: skip
@click.option("--raw-length", is_flag=True,
              help="/v1/embeddings returns the means as they are, not of length one.")  # fmt: skip
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
    for option in more:
        name, equals, path = option.partition("=")
        if not (name and equals and path):
            raise click.BadParameter(
                f"It must be NAME=FOLDER. Got {option!r} instead.", param_hint="--model"
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
@click.option("-o", "--output", type=click.Path(), help="The page, FILE.html.")
@click.option("--atlas", type=click.Path(), help="A table for Embedding Atlas, FILE.parquet.")
@method_option()
@encoder_option
@text_options
@click.option("--label-column", metavar="COLUMN", help="Column of the class, for the colours.")
@click.option("--groups", type=click.IntRange(0), metavar="N",
              help="Groups of similar texts, named by their words; 0 for none.  [default: by the "
              "number of texts]")  # fmt: skip
@click.option("--title", default="A map of texts", help="Title of the page.")
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
            raise ValueError(f"MODEL must have vectors. {model} is a classifier with n-grams only. "
                             "Give another model.")  # fmt: skip
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
