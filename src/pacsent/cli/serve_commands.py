"""Commands that show models: serve, map."""

from functools import partial

import click

from pacsent.cli.command_line import (
    FILE,
    FOLDER,
    NON_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    ModelPath,
    cli,
    encoder_option,
    json_option,
    method_option,
    open_model,
    option,
    output_options,
    output_path,
)
from pacsent.cli.printing import counted, echo_json
from pacsent.cli.text_inputs import (
    TextsPath,
    check_page,
    column_option,
    read_labelled,
    read_texts,
    say,
    text_options,
)
from pacsent.optional import install_hint


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
    "In place of MODEL, or what it was made with: URL of an embedding server, or folder of "
    "sentence-transformers.",
    metavar="PLACE",
)
@option("--host", "Address to listen on; 0.0.0.0 for all networks.", default="127.0.0.1")
@option("--port", "Port to listen on; 0 chooses a free one.", click.IntRange(0, 65535), 8000)
@method_option()
@option("--classifier", "Folder of a classifier, for /classify.", FOLDER)
@option(
    "--error",
    "/classify abstains so that at most this fraction of its answers is wrong.  [default: the "
    "smallest that answers half of the calibration texts]",
    PROBABILITY,
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
@option("--api-key-file", "API keys, one per line; without it no key is required.", FILE)
@option(
    "--allow-origin origins",
    "Web pages from there may call the server; * for all.",
    multiple=True,
    metavar="ORIGIN",
)
@option("--max-body", "Largest number of bytes in a request.", POSITIVE, 8 << 20)
@option("--timeout", "Seconds for a request; its work stops then.", click.FloatRange(min=0.1), 30.0)
@partial(json_option, help="Print one JSON object at the start: address, workers and model.")
def serve(model, more, encoder, host, port, workers, api_key_file, as_json, **options):
    """Serve MODEL over HTTP.

    The endpoints are OpenAI's /v1/embeddings, reranking, classes, search and certificates; the page
    / shows them, /docs documents the API. SIGHUP opens the models again. Example: pacsent serve
    english --port 8000
    """
    try:
        from pacsent.web import ModelSources, ServerSettings, read_keys, serve
    except ImportError as error:
        raise ImportError(
            f"The server needs {error.name}, which is not installed. {install_hint('serve')}"
        ) from None
    settings = ServerSettings(
        keys=read_keys(api_key_file) if api_key_file else (),
        **{name: options.pop(name) for name in ("origins", "max_body", "timeout", "error")},
    )
    sources = []
    if model is not None or encoder is not None:
        sources.append(ModelSources(model, encoder=encoder, **options))
    for pair in more:
        name, _, path = pair.partition("=")
        if not (name and path):
            raise click.BadParameter(
                f"It must be NAME=FOLDER. Got {pair!r} instead.", param_hint="--model"
            )
        sources.append(ModelSources(path, method=options["method"], name=name))
    if not sources:
        raise click.UsageError(
            "One model must be given: MODEL, --encoder PLACE or --model NAME=FOLDER."
        )
    serve(sources, settings, host, port, workers, echo_json if as_json else None)


@cli.command("map")
@click.argument("model", type=ModelPath(encoders=True, exists=True, file_okay=False))
@click.argument("texts", type=TextsPath())
@output_path("The page, FILE.html.")
@method_option()
@encoder_option
@text_options
@column_option("label", "Column of the class, for the colours.")
@option(
    "--groups",
    "Groups of similar texts, named by their words; 0 for none.  [default: by the number of texts]",
    NON_NEGATIVE,
    metavar="N",
)
@output_options
def map_(model, texts, output, method, groups, overwrite, as_json, **options):
    """Draw a map of TEXTS by the vectors of MODEL.

    One page to pan, zoom, search and click. The size of a point is the variance of its posterior,
    its colour the class. Example: pacsent map english notes.txt -o map.html
    """
    from pacsent.encoders.methods import as_vectorizer
    from pacsent.web import make_map, write_html

    check_page(output, [texts], overwrite)
    labels = None
    if options["label_column"] is not None:
        read, labels, _ = read_labelled(texts, options)
    else:
        read = list(read_texts(texts, options))
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
            loaded, method, source=model
        )
    if hasattr(vectorizer, "on_empty"):
        vectorizer.set_params(on_empty="ignore")
    n_groups = 0 if groups is None and len(read) < 30 else groups
    write_html(make_map(vectorizer, read, labels, n_groups=n_groups), output)
    say(options["quiet"])(f"wrote  {output}: {counted(len(read), 'text')}")
    if as_json:
        echo_json({"texts": len(read), "page": output})
