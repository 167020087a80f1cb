"""Commands about labels: label, audit."""

import contextlib
import secrets
import socket
import webbrowser
from pathlib import Path

import click

from pacsent.cli import inputs, params
from pacsent.cli.command_line import cli
from pacsent.cli.printing import show
from pacsent.maths.rounding import format_count
from pacsent.optional import import_optional


@cli.command()
@click.argument("texts", type=params.FILE)
@params.option("--labels", "The classes, with commas.", required=True, metavar="A,B,...")
@params.option(
    "-o --output",
    "Folder of the journal and the results.  [default: TEXTS without its suffix, and -labels]",
    click.Path(file_okay=False),
)
@params.probability("--goal", "Certified error rate at which to stop, such as 0.1.")
@params.delta
@params.probability("--evaluation-size judging", "Fraction that evaluates.", default=0.5)
@params.repeated("--annotator annotators", "Who labels; each gets a URL.", "NAME")
@params.encoder
@params.text_columns
@params.option("--host", "Address to listen on; 0.0.0.0 for other machines.", default="127.0.0.1")
@params.option("--port", "Port to listen on; 0 chooses a free one.", click.IntRange(0, 65535), 8001)
@params.flag("--no-browser", "Print the URL and open no browser.")
@params.random_state
@params.as_json
@params.quiet
def label(texts, labels, output, annotators, host, port, no_browser, as_json, quiet, **options):
    """Label TEXTS until an error rate is certified.

    Opens a page that shows one text at a time: keys 1 to 9 answer, s skips, u undoes; the same
    command resumes. Ctrl-C ends it and writes the table with the column label, the classifier and
    its certificate. Example: pacsent label texts.csv --labels yes,no --goal 0.1
    """
    uvicorn = import_optional("uvicorn", "The page needs uvicorn", "serve")
    from pacsent.text.result_files import write
    from pacsent.text.tables import output_names
    from pacsent.web import Labelling
    from pacsent.web.label_answers import SIZES
    from pacsent.web.label_server import label_app

    table, rows, columns = inputs.read_columns(texts, options | {"quiet": quiet})
    names, messages = output_names(list(columns), ["label", "stream"], table.name)
    for message in messages:
        click.echo(f"Warning: {message}", err=True)
    place = Path(output or f"{Path(texts).with_suffix('')}-labels")
    path = place / ("labels.csv" if table.kind == "text" else f"labels.{table.kind}")
    keys = {secrets.token_urlsafe(18): name for name in dict.fromkeys(annotators or [""])}
    settings = {k: options[k] for k in ("encoder", "goal", "delta", "judging", "random_state")}
    with Labelling(rows, labels.split(","), place, **settings) as labelling:

        def write_results() -> list[str]:
            certificate, answers = labelling.save(), labelling.labels()
            evaluates = set(labelling.streams.judging)
            streams = ["evaluate" if row in evaluates else "train" for row in range(len(rows))]
            results = {
                **({names[name]: values for name, values in columns.items()} or {"text": rows}),
                "label": [answers.get(row) for row in range(len(rows))],
                "stream": [streams[row] if row in answers else None for row in range(len(rows))],
            }
            write([results], path, overwrite=True)
            lines = [f"{path}: {format_count(len(answers), 'label')}."]
            if certificate is None:
                return [*lines, f"No classifier before {SIZES[0]} training labels of two classes."]
            return [*lines, f"{labelling.folder / 'model'}: {certificate.summary()}"]

        try:
            listening = socket.create_server((host, port))
        except OSError as error:
            message = f"port {port} of {host} must be free ({error.strerror}). Choose --port 0."
            raise OSError(message) from None
        host, port = listening.getsockname()[:2]
        urls = {f"http://{host}:{port}/?key={key}": name for key, name in keys.items()}
        for url, name in urls.items():
            click.echo(f"Label at {url}" + (f" ({name})" if name else ""), err=True)
        if not no_browser:
            webbrowser.open(next(iter(urls)))
        inputs.say(quiet)("Ctrl-C ends, and writes the results.")
        app = label_app(labelling, keys, write_results)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listening])
        lines = write_results()
        show({"folder": str(place), **labelling.status()}, "\n".join(lines), as_json)


@cli.command()
@params.data
@params.label_columns
@params.encoder
@params.as_json
@params.quiet
def audit(data, encoder, as_json, **options):
    """List labels of DATA that are probably wrong, and duplicates.

    DATA is as in `pacsent train`. Example: pacsent audit labelled.csv
    """
    from pacsent.classify import TextClassifier, audit

    texts, labels, _ = inputs.read_labelled(data, options)
    result = audit(texts, labels, model=TextClassifier(encoder))
    lines = [
        f"Row {row + 1:,}: {label}, suggested {suggested}; {reason}: {texts[row]}"
        for row, label, suggested, _, reason in result.suspicious[:20]
    ]
    if len(result.suspicious) > 20:
        lines.append("These are the most suspicious 20; --json has all, with rows from 0.")
    show(result.to_dict(), "\n".join([f"{result}.", *lines]), as_json)
