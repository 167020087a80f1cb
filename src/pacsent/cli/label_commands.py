"""Commands about labels: label, check, audit."""

import contextlib
import secrets
import socket
import webbrowser
from pathlib import Path

import click

from pacsent.cli import inputs, params
from pacsent.cli.command_line import cli
from pacsent.cli.printing import show, write_text
from pacsent.maths.rounding import format_count
from pacsent.optional import import_optional


def _page_options(command):
    """The options of commands that open the labelling page."""
    for decorate in (
        params.flag("--no-browser", "Print the URL and open no browser."),
        params.option("--port", "Port; 0 chooses a free one.", click.IntRange(0, 65535), 8001),
        params.option("--host", "Address; 0.0.0.0 for all networks.", default="127.0.0.1"),
        params.repeated("--annotator annotators", "Who labels; each gets a URL.", "NAME"),
        params.option("-o --output", "Folder to write.  [default: by the file]", params.FOLDER),
    ):
        command = decorate(command)
    return params.text_columns(params.random_state(params.reports(command)))


def _open_table(path, output, added: list[str], options: dict):
    """Texts, columns to write beside the `added` ones, and the file of the results."""
    from pacsent.files import check_output
    from pacsent.text.tables import output_names

    table, rows, columns = inputs.read_columns(path, options)
    names, messages = output_names(list(columns), added, table.name)
    for message in messages:
        click.echo(f"Warning: {message}", err=True)
    kept = {names[name]: values for name, values in columns.items()} or {"text": rows}
    file = Path(output) / f"labels.{'csv' if table.kind == 'text' else table.kind}"
    check_output(file, [path], overwrite=True)
    return rows, kept, file


def _numbers(columns: dict[str, list], name: str) -> list[float]:
    if name not in columns:
        raise ValueError(f"score_column must be one of {', '.join(columns)}. Got {name} instead.")
    numbers = []
    for row, value in enumerate(columns[name], 1):
        try:
            numbers.append(float(value))
        except (TypeError, ValueError):
            raise ValueError(f"Row {row:,} must have a number in {name}. Got {value!r}.") from None
    return numbers


def _serve_page(session, options: dict, write_results, *, stops: bool = False) -> None:
    """Serve the page of a session until Ctrl-C; with `stops`, until its goal is reached."""
    uvicorn = import_optional("uvicorn", "The page needs uvicorn", "serve")
    from pacsent.web.label_server import label_app

    def write() -> list[str]:
        server.should_exit = stops and session.status()["reached"]
        return write_results()

    host, port = options["host"], options["port"]
    keys = {secrets.token_urlsafe(18): name for name in dict.fromkeys(options["annotators"])}
    app = label_app(session, keys, write)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    try:
        listening = socket.create_server((host, port))
    except OSError as error:
        raise OSError(f"port {port} must be free: choose --port 0 ({error.strerror}).") from None
    host, port = listening.getsockname()[:2]
    urls = {f"http://{host}:{port}/?key={key}": name for key, name in keys.items()}
    for url, name in urls.items():
        click.echo(f"Label at {url}" + (f" ({name})" if name else ""), err=True)
    if not options["no_browser"]:
        webbrowser.open(next(iter(urls)))
    inputs.say(options["quiet"])("Ctrl-C ends, and writes the results; the same command resumes.")
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listening])


@cli.command()
@click.argument("texts", type=params.FILE)
@params.option("--labels", "The classes, with commas.", required=True, metavar="A,B,...")
@params.probability("--goal", "Certified error rate at which to stop, such as 0.1.")
@params.delta
@params.probability("--evaluation-size", "Fraction of texts for evaluation.", default=0.5)
@params.encoder
@_page_options
def label(texts, labels, output, as_json, **options):
    """Label TEXTS until an error rate is certified.

    Opens a page that shows one text at a time: keys 1 to 9 answer, s skips, u undoes; the same
    command resumes. Ctrl-C ends it and writes the table with the column label, the classifier and
    its certificate. Example: pacsent label texts.csv --labels yes,no --goal 0.1
    """
    from pacsent.text.result_files import write
    from pacsent.web.label_answers import SIZES
    from pacsent.web.labelling import Labelling

    place = output or f"{Path(texts).with_suffix('')}-labels"
    rows, kept, path = _open_table(texts, place, ["label", "stream"], options)
    options["annotators"] = options["annotators"] or ("",)
    names = ("encoder", "goal", "delta", "evaluation_size", "random_state")
    with Labelling(rows, labels.split(","), place, **{k: options[k] for k in names}) as labelling:

        def write_results() -> list[str]:
            certificate, answers = labelling.save(), labelling.labels()
            streams = dict.fromkeys(answers, "train")
            streams |= {row: "evaluate" for row in labelling.streams.evaluation if row in answers}
            new = {"label": answers, "stream": streams}
            new = {name: list(map(column.get, range(len(rows)))) for name, column in new.items()}
            write([kept | new], path, overwrite=True)
            lines = [f"{path}: {format_count(len(answers), 'label')}."]
            if certificate is None:
                return [*lines, f"No classifier before {SIZES[0]} training labels of two classes."]
            return [*lines, f"{labelling.folder / 'model'}: {certificate.summary()}"]

        _serve_page(labelling, options, write_results)
        lines = write_results()
        show({"folder": place, **labelling.status()}, "\n".join(lines), as_json)


@cli.command()
@click.argument("data", metavar="TABLE", type=params.FILE)
@params.column("label", "Column of the machine's labels.  [default: label]")
@params.column("score", "Column of their confidence.  [default: estimated by a classifier]")
@params.probability("--error", "Fraction of wrong labels that may remain.", default=0.05)
@params.delta
@params.option("--labels", "Classes that the machine never gives, with commas.", metavar="A,B,...")
@params.flag("--terminal", "Ask here, and open no page.")
@_page_options
def check(data, label_column, score_column, labels, terminal, output, as_json, **options):
    """Ask for labels until few of a machine's in TABLE are wrong.

    Opens a page that shows a random sample without the machine's labels, then the rows that are
    trusted least; it stops by itself, and the same command resumes. Writes the table with the
    columns final_label and labelled_by, and the certificate. Example: pacsent check labelled.csv
    """
    from pacsent.text.result_files import write
    from pacsent.web.labelling import LabelCheck

    place = output or f"{Path(data).with_suffix('')}-checked"
    columns = options | {"label_column": label_column, "quiet": True}
    texts, machine, _ = inputs.read_labelled(data, columns)
    machine = [label.strip() for label in machine]
    _, kept, path = _open_table(data, place, ["final_label", "labelled_by"], options)
    if len(kept) == 1:  # of lines of label<TAB>text
        kept = {"text": texts, "label": machine}
    scores = None if score_column is None else _numbers(kept, score_column)
    options["annotators"] = options["annotators"] or ("person",)
    how = {name: options[name] for name in ("error", "delta", "random_state")}
    classes = [name.strip() for name in labels.split(",")] if labels else ()
    with LabelCheck(texts, machine, place, scores, classes, **how) as session:

        def write_results() -> list[str]:
            unread, certificate = session.progress()
            write([kept | session.results()], path, overwrite=True)
            lines = [f"{path}: {format_count(len(unread), 'row')} still to be read."]
            if certificate is not None:
                write_text(f"{place}/certificate.json", certificate.to_json())
                lines = [f"{path}: {certificate.summary()} The others are the machine's."]
            for row, answers in session.status()["disagreements"].items():
                lines.append(f"Row {row + 1:,}: the annotators disagree, {answers}")
            return lines

        if not terminal and session.progress()[0]:
            _serve_page(session, options, write_results, stops=True)
        who, choice = options["annotators"][0], click.Choice(session.classes)
        with contextlib.suppress(click.Abort):
            while terminal and (task := session.next(who)):
                click.echo(f"\n{task.text}", err=True)
                prompt = f"Label ({len(session.progress()[0]):,} to read)"
                few = len(session.classes) <= 12  # all are listed after an answer that is none
                answer = click.prompt(prompt, task.guess, type=choice, show_choices=few, err=True)
                session.answer(task.row, answer, who)
        show({"folder": place, **session.status()}, "\n".join(write_results()), as_json)


@cli.command()
@params.data
@params.label_columns
@params.encoder
@params.reports
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
