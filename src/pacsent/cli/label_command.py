"""The command label."""

import contextlib
import socket
from pathlib import Path

import click

from pacsent.cli.classify_commands import words_option
from pacsent.cli.command_line import (
    FILE,
    PROBABILITY,
    cli,
    delta_option,
    flag,
    json_option,
    option,
    quiet_option,
    random_state_option,
)
from pacsent.cli.printing import counted, show
from pacsent.cli.text_inputs import say, text_options
from pacsent.optional import install_hint


@cli.command()
@click.argument("texts", type=FILE)
@option("--labels", "The classes, with commas.", required=True, metavar="A,B,...")
@option(
    "-o --output",
    "Folder of the journal and the results.  [default: TEXTS without its suffix, and -labels]",
    click.Path(file_okay=False),
)
@option("--goal", "Certified error rate at which to stop, such as 0.1.", PROBABILITY)
@delta_option
@option("--judging", "Fraction of texts drawn at random, which evaluate.", PROBABILITY, 0.5)
@option(
    "--annotator annotators",
    "Who labels; may be repeated, and each gets a URL.",
    multiple=True,
    metavar="NAME",
)
@words_option
@text_options
@flag("--prompts", "Ask in the terminal instead of a browser.")
@option("--host", "Address to listen on; 0.0.0.0 for other machines.", default="127.0.0.1")
@option("--port", "Port to listen on; 0 chooses a free one.", click.IntRange(0, 65535), 8001)
@flag("--no-browser", "Print the URL and open no browser.")
@random_state_option
@json_option
@quiet_option
def label(texts, labels, output, annotators, prompts, as_json, **options):
    """Label TEXTS until an error rate is certified.

    Opens a page that shows one text at a time: keys 1 to 9 answer, s skips, u undoes; the same
    command resumes. Ctrl-C ends it and writes the table with the column label, the classifier and
    its certificate. Example: pacsent label texts.csv --labels yes,no --goal 0.1
    """
    from pacsent.text.result_files import write
    from pacsent.text.tables import TextTable, as_list, describe_table, output_names
    from pacsent.web import Labelling

    kind, column, report = options["input_format"], options["text_column"], say(options["quiet"])
    rows: list[str] = []
    with TextTable(texts, kind=kind, text_column=column) as table:
        columns: dict[str, list] = {name: [] for name in table.names}
        for batch in table.batches(("*",)):
            rows += as_list(batch.texts)
            for name, values in batch.columns.items():
                columns[name] += as_list(values)
    report(describe_table(table, len(rows)))
    names, messages = output_names(list(columns), ["label", "stream"], table.name)
    for message in messages:
        click.echo(f"Warning: {message}", err=True)
    place = Path(output or f"{Path(texts).with_suffix('')}-labels")
    path = place / ("labels.csv" if table.kind == "text" else f"labels.{table.kind}")
    annotators = tuple(dict.fromkeys(annotators)) or ("",)
    settings = {k: options[k] for k in ("goal", "delta", "judging", "words", "random_state")}
    with Labelling(rows, labels.split(","), place, **settings) as labelling:

        def write_results() -> list[str]:
            certificate, answers = labelling.save(), labelling.labels()
            evaluates = set(labelling.streams.judging)
            streams = ["judge" if row in evaluates else "teach" for row in range(len(rows))]
            results = {
                **({names[name]: values for name, values in columns.items()} or {"text": rows}),
                "label": [answers.get(row) for row in range(len(rows))],
                "stream": [streams[row] if row in answers else None for row in range(len(rows))],
            }
            write([results], path, overwrite=True)
            lines = [f"{path}: {counted(len(answers), 'label')}."]
            if certificate is None:
                reason = "it needs 20 labels of texts that teach, of two classes."
                return [*lines, f"No classifier yet: {reason}"]
            return [*lines, f"{labelling.folder / 'model'}: {certificate.sentence()}"]

        if prompts:
            _ask(labelling, annotators[0])
        else:
            _serve(labelling, annotators, write_results, options, report)
        written = write_results()
        show({"folder": str(place), **labelling.status()}, "\n".join(written), as_json)


def _serve(labelling, annotators, write_results, options: dict, report):
    import webbrowser
    from urllib.parse import quote

    try:
        import uvicorn

        from pacsent.web.label_server import label_app
    except ImportError as error:
        raise ImportError(
            f"The page needs {error.name}, which is not installed. {install_hint('serve')}, or "
            "label in the terminal with --prompts."
        ) from None
    try:
        listening = socket.create_server((options["host"], options["port"]))
    except OSError as error:
        raise OSError(
            f"port {options['port']} of {options['host']} must be free ({error.strerror}). Choose "
            "another with --port, or 0 for any."
        ) from None
    host, port = listening.getsockname()[:2]
    for annotator in annotators:
        name = f"&who={quote(annotator)}" if annotator else ""
        url = f"http://{host}:{port}/?key={labelling.key}{name}"
        click.echo(f"Label at {url}" + (f" ({annotator})" if annotator else ""), err=True)
        if not options["no_browser"] and annotator == annotators[0]:
            webbrowser.open(url)
    report("Ctrl-C ends, and writes the results.")
    app = label_app(labelling, annotators, write_results)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listening])


def _ask(labelling, annotator):
    """Label by prompts: a number answers, s skips, u undoes, q or the end of the input ends."""
    from pacsent.maths.rounding import rounded_up

    names = [f"{number} {name}" for number, name in enumerate(labelling.classes, 1)]
    with contextlib.suppress(EOFError, click.exceptions.Abort, KeyboardInterrupt):
        while (task := labelling.next(annotator)) is not None:
            status = labelling.status()
            line = counted(status["n_labels"], "label")
            if status["certified_error"] is not None:
                line += f", accuracy about {status['accuracy']:.3f}"
                line += f", certified error {rounded_up(status['certified_error'])}"
            if status["reached"]:
                line += f"\aStop: at most {status['goal']:.1%}."
            click.echo(line, err=True)
            click.echo(f"\n{task.text}\n")
            if task.guess is not None:
                click.echo(f"guess: {task.guess} ({task.probability:.2f})")
            reply = input(f"{'  '.join(names)}  s skip  u undo  q quit: ").strip()
            if reply == "q":
                break
            if reply == "u":
                labelling.undo(annotator)
            elif reply == "s":
                labelling.answer(task.row, None, annotator)
            elif reply.isdigit() and 1 <= int(reply) <= len(names):
                labelling.answer(task.row, labelling.classes[int(reply) - 1], annotator)
            else:
                click.echo(f"The answer must be 1 to {len(names)}, s, u or q.", err=True)
        else:
            click.echo("There are no more texts.", err=True)
