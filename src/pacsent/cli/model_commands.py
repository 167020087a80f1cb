"""Commands about models: distill, serve, demo, model convert, export."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from pacsent.bounds.rounding import format_count
from pacsent.cli import inputs, params
from pacsent.cli.command_line import cli
from pacsent.cli.printing import echo, echo_json, show
from pacsent.optional import import_optional


@cli.command()
@params.texts
@params.output("Folder of the student.")
@params.option("--vectors", "The teacher's vectors of TEXTS, as a .npy file.", params.FILE)
@params.option("--encoder", "The teacher: a model, or the URL of a server.", metavar="PATH|URL")
@params.text_columns
@params.option("--n-words", "Words with a vector.", params.POSITIVE, 60_000)
@params.option("--n-subwords", "Subwords of other words.", params.NON_NEGATIVE, 5_000)
@params.normalize
@params.option("--n-epochs", "Passes over the texts.", params.NON_NEGATIVE, 3)
@params.delta
@params.fixed_random_state
@params.option("--checkpoint-dir", "Folder from which the same command resumes.", params.FOLDER)
@params.device
@params.outputs
def distill(
    texts: str,
    output: str,
    vectors: str | None,
    encoder: str | None,
    overwrite: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Distil an encoder into a static model on TEXTS.

    The guarantee on the cosines to the teacher is measured on a tenth of the texts that is held
    out. Example: pacsent distill texts.txt --vectors teacher.npy -o student
    """
    from pacsent.certify import read_certificate
    from pacsent.sentences import distill
    from pacsent.storage import check_place, save

    if (vectors is None) == (encoder is None):
        raise click.UsageError("Give the teacher by --vectors or by --encoder, one of them.")
    check_place(output, [texts, vectors], overwrite=overwrite)
    rows = list(inputs.read_texts(texts, options))
    teacher: Any = encoder if vectors is None else _load_vectors(vectors)
    verbose = not options.pop("quiet")
    student = distill(teacher, rows, verbose=verbose, **options)
    save(student, output, overwrite=overwrite)

    words = student.word_vectors
    note = words.training.get("normalize")
    if note:
        echo(note, err=True)
    n_words = format_count(words.n_words, "word")
    echo(f"wrote {output}: {n_words}, {words.n_dims} dimensions", err=True)
    certificate = read_certificate(student.certificate_)
    show({"model": output, "certificate": certificate.to_dict()}, str(certificate), as_json)


def _load_vectors(path: str) -> Any:
    """The vectors of a .npy file."""
    import numpy as np

    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        message = f"{path} is no .npy file of numbers ({error})."
        raise click.BadParameter(message, param_hint="--vectors") from None


@cli.command()
@click.argument("models", metavar="[NAME=]MODEL...", nargs=-1, required=True)
@params.model_encoder
@params.option("--host", "Address to listen on; 0.0.0.0 for all networks.", default="127.0.0.1")
@params.option("--port", "Port to listen on; 0 chooses a free one.", click.IntRange(0, 65535), 8000)
@params.method
@params.probability("--error", "Error rate to guarantee in /classify.  [default: chosen]")
@params.option("--workers", "Processes; they share the memory of the models.", params.POSITIVE, 1)
@params.option("--api-key-file", "API keys, one per line.  [default: none required]", params.FILE)
@params.repeated("--allow-origin origins", "Origin of pages that may call; * for all.", "ORIGIN")
@params.option("--max-body", "Largest number of bytes in a request.", params.POSITIVE, 8 << 20)
@params.option("--timeout", "Seconds for a request.", click.FloatRange(min=0.1), 30.0)
@partial(params.as_json, help="Print one JSON object at the start: address, workers and model.")
def serve(
    models: tuple[str, ...],
    host: str,
    port: int,
    method: str | None,
    workers: int,
    api_key_file: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Serve each MODEL over HTTP: encoders, classifiers, indexes.

    The endpoints are OpenAI's /v1/embeddings, reranking, classes, search and certificates; the page
    / shows them, /docs documents the API. A request names its model; without a name the first that
    can answer does. SIGHUP opens the models again. Example: pacsent serve english --port 8000
    """
    import_optional("fastapi", "The server needs FastAPI", "serve")
    from pacsent.web import ModelSource, ServerSettings, read_keys, serve

    sources = []
    for model in models:
        match: Any = re.fullmatch(r"(?:([\w.-]+)=)?(.*)", model)
        name, place = match.groups()
        path = params.ENCODER_PATH.convert(place, None, None)
        sources.append(ModelSource(path, name, method, inputs.given_encoder()))

    keys = read_keys(api_key_file) if api_key_file else ()
    settings = ServerSettings(keys=keys, **options)
    on_start = echo_json if as_json else _greet
    serve(sources, settings, host, port, workers, on_start)


def _greet(started: dict[str, Any]) -> None:
    """Print what is served, and where."""
    echo(f"Serving {started['model']} at {started['address']} (Ctrl-C stops).")


@cli.command()
@params.option("-o --output", "Folder to write.", default="demo")
@params.fixed_random_state
@params.n_jobs
@params.outputs
def demo(output: str, overwrite: bool, as_json: bool, quiet: bool, **options: Any) -> None:
    """Write two pages: the paper on books, then 500 labelled messages.

    index.html goes from word vectors to a posterior, its bound and a certified classifier;
    bank.html certifies, abstains, explains, searches and detects drift. mine.csv and new.csv are
    its messages, for the other commands. Example: pacsent demo -o demo
    """
    from pacsent.demo import run
    from pacsent.files import check_output

    check_output(output, overwrite=overwrite, folder=True)
    numbers = run(output, say=inputs.say(quiet), **options)
    page = Path(output) / "index.html"
    show({"page": page, **numbers}, f"The demo, with the results of this run: {page}", as_json)


@cli.group("model")
def model_group() -> None:
    """Convert word vectors, write a classifier as a page."""


@model_group.command()
@click.argument("source", type=params.ModelPath())
@click.argument("destination", type=params.PATH)
@params.option("--to", "What is written.  [default: by the name]", params.VECTOR_FORMATS)
@params.option("--counts", "`word count` lines that belong to SOURCE.", params.PATH)
@params.option("--normalize", "How text is tokenised.", click.Choice(params.TOKENISERS))
@params.repeated("--trained-on", "Texts that SOURCE was trained on, for certificates.", "TEXTS")
@params.option("--n-words", "Keep the first, most frequent words.", params.POSITIVE)
@params.option("--n-dims", "Keep this number of dimensions, by a rotation.", params.POSITIVE)
@params.option("--bits", "Bits per number, quantised.", click.Choice([8, 4, 2, 1]))
@params.outputs
def convert(
    source: str,
    destination: str,
    to: str | None,
    counts: str | None,
    normalize: str | None,
    trained_on: tuple[str, ...],
    overwrite: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Convert word vectors from one format to another.

    Reads word2vec text and binary (output vectors in context_SOURCE), fastText .bin, GloVe,
    static embeddings and pacsent's folder; writes word2vec (.txt, .vec, .bin) or pacsent's folder
    (no suffix). Example: pacsent model convert GoogleNews.bin words --bits 8
    """
    from pacsent.text.reading import check_input
    from pacsent.words import compress, formats
    from pacsent.words.formats.reading import CONTEXT, FORMATS
    from pacsent.words.formats.writing import check_targets, format_of_name

    format = formats.detect(source)  # a mistake in SOURCE comes first
    to = to or format_of_name(destination)
    if to != "pacsent" and (options["bits"] is not None or trained_on):
        raise click.UsageError("Only pacsent's own folder keeps these options: --to pacsent.")
    for path in trained_on:
        check_input(path)
    # Before a large file is read for nothing.
    context = Path(source).with_name(CONTEXT + Path(source).name)
    check_targets(destination, to, [source, counts, context], overwrite=overwrite)

    verbose = not quiet
    words = formats.read(source, format=format, counts=counts, normalize=normalize, verbose=verbose)
    if trained_on:
        words = words.trained_on(_read_all(trained_on, quiet))
    if any(value is not None for value in options.values()):
        words = compress(words, **options)
    written = formats.write(words, destination, format=to, overwrite=overwrite, verbose=verbose)

    summary = _summarize(words)
    kind = FORMATS[format]
    lines = [f"read {source}: {kind}, {_describe_words(words)}"]
    lines += [f"wrote {path}" for path in written]
    if to != "pacsent" and summary["subwords"]:
        lines.append("note: this format keeps no subword vectors: OOV words will have none")
    data = {"source": source, "format": format, **summary, "to": to, "written": written}
    show(data, "\n".join(lines), as_json)


def _read_all(paths: tuple[str, ...], quiet: bool) -> Iterator[str]:
    """The texts of several files."""
    for path in paths:
        options = {"text_column": None, "input_format": None, "quiet": quiet}
        yield from inputs.read_texts(path, options)


def _summarize(words: Any) -> dict[str, Any]:
    n_subwords = None if words.subwords is None else len(words.subwords.vectors)
    return {
        "n_words": words.n_words,
        "n_dims": words.n_dims,
        "dtype": words.tables["input"].precision,
        "tables": list(words.tables),
        "counts_known": words.counts is not None,
        "subwords": n_subwords,
    }


def _describe_words(words: Any) -> str:
    tables = "input and output vectors" if len(words.tables) == 2 else "input vectors only"
    precision = words.tables["input"].precision
    counts = "unknown" if words.counts is None else "known"
    size = f"{words.n_words:,} words, {words.n_dims} dimensions"
    return f"{size}, {precision}, {tables}, counts {counts}"


@model_group.command()
@click.argument("model", type=params.ModelPath(file_okay=False))
@params.output("HTML file (smaller if trained after `model convert --n-words`).")
@params.probability("--error", "Error rate to guarantee in the page.  [default: chosen]")
@params.option("--title", "Title of the page.  [default: the first classes]")
@params.overwrite
@params.as_json
def export(
    model: str,
    output: str,
    error: float | None,
    title: str | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write the classifier MODEL as one HTML page that works offline.

    The page gives the same answers with the same guarantees. Example: pacsent model export
    classifier -o page.html
    """
    from pacsent.web import export_html

    opened = inputs.open_model(model, "a classifier")
    export_html(opened, output, title=title, error=error, overwrite=overwrite)
    show({"model": model, "output": output}, f"wrote {output}", as_json)
