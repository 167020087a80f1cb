"""Commands about labels: label, check, audit."""

import contextlib
import secrets
import socket
import webbrowser
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pacsent.bounds.rounding import format_count, percent
from pacsent.cli import inputs, params
from pacsent.cli.command_line import cli
from pacsent.cli.printing import echo, shorten, show, write_text
from pacsent.optional import import_optional
from pacsent.text.printable import format_columns

_no_browser = params.flag("--no-browser", "Print the URL and open no browser.")
_port = params.option("--port", "Port; 0 chooses a free one.", click.IntRange(0, 65535), 8001)
_host = params.option("--host", "Address; 0.0.0.0 for all networks.", default="127.0.0.1")
_annotators = params.repeated("--annotator annotators", "Who labels; each gets a URL.", "NAME")
_output = params.option("-o --output", "Folder to write.  [default: by the file]", params.FOLDER)


def _page_options(command: Callable) -> Callable:
    """The options of commands that open the labelling page."""
    command = _no_browser(command)
    command = _port(command)
    command = _host(command)
    command = _annotators(command)
    command = _output(command)
    command = params.reports(command)
    command = params.random_state(command)
    return params.text_columns(command)


def _open_table(
    path: str, output: str, added: list[str], options: dict[str, Any]
) -> tuple[list[str], dict[str, list], Path]:
    """Texts, columns to write beside the `added` ones, and the file of the results."""
    from pacsent.files import check_output
    from pacsent.text.tables import output_names

    table, rows, columns = inputs.read_columns(path, options)
    names, messages = output_names(list(columns), added, table.name)
    for message in messages:
        echo(f"Warning: {message}", err=True)
    kept = {names[name]: values for name, values in columns.items()} or {"text": rows}
    suffix = "csv" if table.kind == "text" else table.kind
    file = Path(output) / f"labels.{suffix}"
    check_output(file, [path], overwrite=True)
    return rows, kept, file


def _read_numbers(columns: dict[str, list], name: str) -> list[float]:
    """The numbers in a column."""
    if name not in columns:
        raise ValueError(f"score_column must be one of {', '.join(columns)}. Got {name} instead.")
    numbers = []
    for row, value in enumerate(columns[name], 1):
        try:
            numbers.append(float(value))
        except (TypeError, ValueError):
            raise ValueError(f"Row {row:,} must have a number in {name}. Got {value!r}.") from None
    return numbers


def _serve_page(
    session: Any,
    options: dict[str, Any],
    write_results: Callable[[], list[str]],
    *,
    stops: bool = False,
) -> None:
    """Serve the page of a session until Ctrl-C; with `stops`, until its goal is reached."""
    uvicorn = import_optional("uvicorn", "The page needs uvicorn", "serve")
    from pacsent.web.label_server import label_app
    from pacsent.web.server import HeaderTimeoutProtocol

    def write() -> list[str]:
        server.should_exit = stops and session.status()["ended"]
        return write_results()

    annotators = dict.fromkeys(options["annotators"])
    keys = {secrets.token_urlsafe(18): name for name in annotators}
    app = label_app(session, keys, write)
    config = uvicorn.Config(
        app, log_level="error", lifespan="off", http=HeaderTimeoutProtocol, ws="none"
    )
    server = uvicorn.Server(config)
    try:
        listener = socket.create_server((options["host"], options["port"]))
    except OSError as error:
        message = f"port {options['port']} must be free: choose --port 0 ({error.strerror})."
        raise OSError(message) from None

    host, port, *_ = listener.getsockname()
    urls = [f"http://{host}:{port}/?key={key}" for key in keys]
    for url, name in zip(urls, keys.values()):
        annotator = f" ({name})" if name else ""
        echo(f"Label at {url}{annotator}", err=True)
    if not options["no_browser"]:
        webbrowser.open(urls[0])
    inputs.say(options["quiet"])("Ctrl-C ends, and writes the results; the same command resumes.")
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


@cli.command()
@click.argument("texts", type=params.FILE)
@params.option("--labels", "All classes.", required=True, metavar="A,B,...")
@params.probability("--error goal", "Error rate to guarantee, at which to stop, such as 0.1.")
@params.delta
@params.probability("--evaluation-size", "Fraction of texts for evaluation.", default=0.5)
@params.encoder
@_page_options
def label(texts: str, labels: str, output: str | None, as_json: bool, **options: Any) -> None:
    """Label TEXTS until an error rate is certified.

    Opens a page that shows one text at a time: keys 1 to 9 answer, s skips, u undoes; the same
    command resumes. Ctrl-C ends it and writes the table with the column label, the classifier and
    its certificate. The page needs pacsent[serve]. Example: pacsent label texts.csv --labels yes,no
    --error 0.1
    """
    from pacsent.web.labelling import Labelling

    place = output or f"{Path(texts).with_suffix('')}-labels"
    rows, kept, path = _open_table(texts, place, ["label", "stream"], options)
    options["annotators"] = options["annotators"] or ("",)
    labelling = Labelling(
        rows,
        labels.split(","),
        place,
        encoder=options["encoder"],
        goal=options["goal"],
        delta=options["delta"],
        evaluation_size=options["evaluation_size"],
        random_state=options["random_state"],
    )
    with labelling:

        def write_results() -> list[str]:
            return _write_labels(labelling, kept, path)

        _serve_page(labelling, options, write_results)
        lines = write_results()
        show({"folder": place, **labelling.status()}, "\n".join(lines), as_json)


def _write_labels(labelling: Any, kept: dict[str, list], path: Path) -> list[str]:
    """Write the table, the classifier and its certificate; returns what was written, in words."""
    from pacsent.text.result_files import write
    from pacsent.web.label_answers import SIZES

    certificate = labelling.save()
    answers = labelling.labels()
    evaluation_rows = set(labelling.streams.evaluation)
    labels: list = []
    streams: list = []
    for row in range(len(labelling.texts)):
        labels.append(answers.get(row))
        if row not in answers:
            streams.append(None)
        else:
            streams.append("evaluate" if row in evaluation_rows else "train")
    write([kept | {"label": labels, "stream": streams}], path, overwrite=True)

    lines = [f"{path}: {format_count(len(answers), 'label')}."]
    if certificate is None:
        lines.append(f"No classifier before {SIZES[0]} training labels of two classes.")
    else:
        model = labelling.folder / "model"
        lines.append(f"{model}: {certificate.summary()}")
    return lines


@cli.command()
@click.argument("data", metavar="TABLE", type=params.FILE)
@params.column("label", "Column of the machine's labels.  [default: label]")
@params.column("score", "Column of their confidence.  [default: estimated by a classifier]")
@params.column("human", "Column of labels that people gave before; may be empty in most rows.")
@params.option(
    "--human-rows",
    "How the rows of --human-column were chosen. random: they are the sample to begin with.",
    click.Choice(["chosen", "random"]),
    "chosen",
)
@params.probability("--error", "Error rate to guarantee for the final labels.", default=0.05)
@params.delta
@params.n_candidates
@params.option(
    "--labels", "All classes.  [default: those that the machine gives]", metavar="A,B,..."
)
@params.flag("--terminal", "Ask here, and open no page.")
@_page_options
def check(
    data: str,
    label_column: str | None,
    score_column: str | None,
    labels: str | None,
    terminal: bool,
    output: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Ask for labels until few of a machine's in TABLE are wrong.

    Opens a page that shows a random sample without the machine's labels, then the rows that are
    trusted least; it stops by itself, and the same command resumes. A skipped row has no label, and
    counts as wrong. Writes the table with the columns final_label, labelled_by (person or machine)
    and sampled, and the certificate. The page needs pacsent[serve]; --terminal does not.

    Example: pacsent check labelled.csv --label-column llm
    """
    from pacsent.web.labelling import LabelCheck

    human_column = options["human_column"]
    if human_column is None and options["human_rows"] == "random":
        raise click.UsageError("--human-rows is about --human-column. Name the column.")
    place = output or f"{Path(data).with_suffix('')}-checked"
    texts, machine = _read_machine_labels(data, label_column, options)
    added = ["final_label", "labelled_by", "sampled", "annotators"]
    _, kept, path = _open_table(data, place, added, options)
    if len(kept) == 1:  # of lines of label<TAB>text
        kept = {"text": texts, "label": machine}

    scores = None if score_column is None else _read_numbers(kept, score_column)
    classes = _all_classes(labels, machine, label_column or "label") if labels else []
    known = _known_labels(kept, human_column, {*filter(None, machine), *classes})
    options["annotators"] = options["annotators"] or ("person",)
    session = LabelCheck(
        texts,
        machine,
        place,
        scores,
        classes,
        error=options["error"],
        delta=options["delta"],
        n_candidates=options["n_candidates"],
        random_state=options["random_state"],
        known=known,
        known_are_random=options["human_rows"] == "random",
    )
    with session:

        def write_results() -> list[str]:
            return _write_check(session, kept, path, place)

        _report_empty(texts, options["quiet"])
        if terminal:
            _ask_all_in_terminal(session, options["annotators"][0])
        elif session.progress()[0]:
            _serve_page(session, options, write_results, stops=True)
        lines = write_results()
        show({"folder": place, **session.status()}, "\n".join(lines), as_json)


def _read_machine_labels(
    data: str, label_column: str | None, options: dict[str, Any]
) -> tuple[list[str], list[str]]:
    """Texts, and the label of the machine for each; "" for an empty text without one."""
    from pacsent.text.ngrams import is_empty
    from pacsent.text.tables import read_labelled_table

    kind = inputs.format_of(data, options["input_format"])
    default_column = None if kind == "text" else "label"
    table = read_labelled_table(
        data,
        text_column=options["text_column"],
        label_column=label_column or default_column,
        kind=kind,
        from_machine=True,
    )
    labels = [label.strip() for label in table.labels]
    texts: list[str] = table.texts or []
    for row, (text, label) in enumerate(zip(texts, labels)):
        if not label and not is_empty(text):
            raise ValueError(
                f"Row {row + 1:,} of {table.name} must have a label in the column "
                f"{table.label_column}. Got none instead. Delete the row, or label it."
            )
    return texts, labels


def _all_classes(labels: str, machine: list[str], column: str) -> list[str]:
    """The classes of --labels, which must contain every label of the machine."""
    classes = [name.strip() for name in labels.split(",")]
    for row, label in enumerate(machine):
        if label and label not in classes:
            raise ValueError(
                f"--labels must name all classes. It omits {label!r}, which {column} has in row "
                f"{row + 1:,}. Add it, or leave out --labels."
            )
    return classes


def _report_empty(texts: list[str], quiet: bool) -> None:
    """Print which texts are empty: they are not checked."""
    from pacsent.text.ngrams import is_empty

    empty_rows = [row for row, text in enumerate(texts) if is_empty(text)]
    if empty_rows:
        n_empty = format_count(len(empty_rows), "empty text")
        inputs.say(quiet)(f"Left out: {n_empty} ({inputs.name_rows(empty_rows)}).")


def _ask_all_in_terminal(session: Any, who: str) -> None:
    """Ask for labels until there is nothing to ask, or until Ctrl-C."""
    with contextlib.suppress(click.Abort):
        is_asked = True
        while is_asked:
            is_asked = _ask_in_terminal(session, who)


_SKIP = "?"  # typed to skip a row
_MAX_SHOWN_CLASSES = 12  # in a question; more are listed after an answer that is none


def _ask_in_terminal(session: Any, who: str) -> bool:
    """Ask for one label; False if there is nothing to ask."""
    task = session.next(who)
    if task is None:
        return False
    echo(f"\n{task.text}", err=True)

    can_skip = _SKIP not in session.classes
    choices = [*session.classes, _SKIP] if can_skip else session.classes
    unread = _describe_unread(session.status())
    answer = click.prompt(
        f"Label, or {_SKIP} to skip ({unread})",
        task.guess,
        type=click.Choice(choices),
        show_choices=len(session.classes) <= _MAX_SHOWN_CLASSES,
        err=True,
    )
    is_skipped = can_skip and answer == _SKIP
    session.answer(task.row, None if is_skipped else answer, who)
    return True


def _describe_unread(status: dict[str, Any]) -> str:
    """The number of rows that are still to be read."""
    if status["error_upper"] is not None:
        return f"{status['n_unread']:,} to read"
    least = status["n_sample_least"]
    most = status["n_sample_most"]
    n_rows = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"{n_rows} of the random sample to read, then others"


def _known_labels(columns: dict[str, list], name: str | None, classes: set) -> dict[int, str]:
    """The labels that people gave before, by row."""
    if name is None:
        return {}
    from pacsent.certify.columns import is_missing

    if name not in columns:
        raise ValueError(f"human_column must be one of {', '.join(columns)}. Got {name} instead.")
    known = {}
    for row, value in enumerate(columns[name]):
        label = "" if is_missing(value) else str(value).strip()
        if label:
            known[row] = label
    for row, label in known.items():
        if label not in classes:
            raise ValueError(
                f"Row {row + 1:,} must have a label of the machine in {name}. Got {label!r} "
                "instead. Correct it, or name all classes with --labels."
            )
    if not known:
        raise ValueError(f"{name} must have a label in some row. Got none instead.")
    return known


def _write_check(session: Any, kept: dict[str, list], path: Path, place: str) -> list[str]:
    """Write the table and the certificate of a check; returns what was written, in words."""
    from pacsent.text.result_files import write

    unread, certificate = session.progress()
    status = session.status()
    write([kept | session.results()], path, overwrite=True)

    if certificate is None:
        lines = [f"{path}: {format_count(len(unread), 'row')} still to be read."]
    else:
        write_text(f"{place}/certificate.json", certificate.to_json())
        lines = [f"{path}: {certificate.summary()} The others are the machine's."]
        if status["ended"] and not status["reached"]:
            goal = percent(status["goal"])
            lines.append(f"The goal of {goal} cannot be reached: too many rows were skipped.")
        lines += [f"{title}: {text}" for title, text in certificate.statements()]
        if ";" in certificate.provenance:
            lines.append(f"Provenance: {certificate.provenance}.")
    for row, answers in status["disagreements"].items():
        lines.append(f"Row {row + 1:,}: the annotators disagree, {answers}")
    return lines


@cli.command()
@params.data
@params.output("Also write the table with what was found, to be corrected.", required=False)
@params.label_columns
@params.encoder
@params.flag("--all every_row", "Review all rows: a guarantee then needs other labelled texts.")
@params.random_state
@params.id_column
@params.outputs
def audit(
    data: str,
    output: str | None,
    encoder: str | None,
    every_row: bool,
    overwrite: bool,
    as_json: bool,
    random_state: int | None,
    **options: Any,
) -> None:
    """List labels of DATA that are probably wrong, and duplicates.

    DATA is as in `pacsent train`. Labels that are corrected are no sample of labels any more, so
    that a random part of the rows is held out first and not reviewed. The table of -o has the
    columns of DATA, and reviewed, suggested_label and reason: correct its labels, or delete rows,
    where reviewed is yes. `pacsent train` then fits on these rows and holds out the others.

    Example: pacsent audit labelled.csv -o suspicious.csv
    """
    from pacsent.classify import TextClassifier, audit
    from pacsent.files import check_output
    from pacsent.text.result_files import TABLES, check_suffix

    check_output(output, [data], overwrite=overwrite)
    if output is not None:
        check_suffix(output, TABLES, texts=True)
        if data == "-":
            raise click.UsageError("-o needs DATA as a file. Got stdin.")
    ids = inputs.read_ids(data, options)
    columns = {name: options[name] for name in ("text_column", "input_format", "quiet")}
    labelled = inputs.read_labelled(data, options, sampled_only=False)
    rows = _draw_reviewed(labelled.texts, every_row, random_state)
    texts = [labelled.texts[row] for row in rows]
    labels = [labelled.labels[row] for row in rows]
    positions = [labelled.rows[row] for row in rows]
    audited = audit(texts, labels, model=TextClassifier(encoder))
    result = replace(audited, rows=positions)

    if output is not None:
        kept = _columns_of(data, columns, ["reviewed", "suggested_label", "reason"])
        _write_audit(result, kept, output, overwrite)

    lines = [f"{result}.", *_describe_suspicious(result, texts, ids)]
    if every_row:
        lines.append("No row was held out: to certify a classifier, take other labelled texts.")
    else:
        lines.append(_describe_held_out(len(labelled.texts) - len(rows), output))
    show(inputs.number_audit(result, ids), "\n".join(lines), as_json)


_MAX_PRINTED = 20  # suspicious labels
_MAX_SHOWN_TEXT = 60  # characters of a text in a table


def _describe_suspicious(result: Any, texts: list[str], ids: list | None) -> list[str]:
    """A table of the most suspicious labels, and where the others and the reasons are."""
    shown = result.suspicious[:_MAX_PRINTED]
    if not shown:
        return []
    rows: list[tuple[str, ...]] = [("row", "label", "suggested", "text")]
    for row, label, suggested, _, _ in shown:
        name = inputs.describe_row(result.position(row), ids).removeprefix("Row ")
        rows.append((name, str(label), str(suggested), shorten(texts[row], _MAX_SHOWN_TEXT)))
    lines = format_columns(rows, "<<<<")
    if len(result.suspicious) > len(shown):
        n_suspicious = len(result.suspicious)
        lines.append(f"These are the most suspicious {len(shown)} of {n_suspicious:,}.")
    lines.append(result.how_to_read())
    lines.append("-o writes each with its reason.")
    return lines


def _describe_held_out(n_held_out: int, output: str | None) -> str:
    rows = format_count(n_held_out, "row")
    if output is None:
        return (
            f"{rows} held out and not reviewed. -o records which: a classifier that is trained on "
            "corrected labels is certified on these rows."
        )
    return (
        f"{output}: {rows} held out and not reviewed. Correct labels or delete rows where reviewed "
        f"is yes, then: pacsent train {output} -o MODEL"
    )


def _draw_reviewed(texts: list[str], every_row: bool, random_state: int | None) -> list[int]:
    """Rows to look at: those that are not held out."""
    import numpy as np

    from pacsent.certify.independence import as_seed, holdout_fraction
    from pacsent.certify.near_duplicates import near_duplicate_clusters

    if every_row:
        return list(range(len(texts)))
    clusters = near_duplicate_clusters(texts)  # (n,)
    fraction = holdout_fraction("auto", np.unique(clusters).size)
    generator = np.random.default_rng(as_seed(random_state))
    uniform = generator.random(len(texts))
    return np.flatnonzero(uniform >= fraction).tolist()


def _columns_of(data: str, options: dict[str, Any], added: list[str]) -> dict[str, list]:
    """The columns of DATA, renamed where a command adds one of the same name."""
    from pacsent.text.tables import output_names, read_labelled_table

    kind = inputs.format_of(data, options["input_format"])
    if kind == "text":
        table = read_labelled_table(data, kind=kind)
        return {"text": table.texts or [], "label": table.labels}
    table, _, columns = inputs.read_columns(data, options | {"quiet": True})
    names, messages = output_names(list(columns), added, table.name)
    for message in messages:
        echo(f"Warning: {message}", err=True)
    return {names[name]: values for name, values in columns.items()}


def _write_audit(result: Any, kept: dict[str, list], output: str, overwrite: bool) -> None:
    """Write the table with the reviewed rows marked, and suggestions for suspicious ones."""
    from pacsent.text.result_files import write

    n_rows = len(next(iter(kept.values())))
    reviewed = ["no"] * n_rows
    suggested: list = [None] * n_rows
    reasons: list = [None] * n_rows
    for position in result.rows:
        reviewed[position] = "yes"
    for suspicion in result.suspicious:
        position = result.position(suspicion.row)
        suggested[position] = suspicion.suggested
        reasons[position] = suspicion.reason
    new = {"reviewed": reviewed, "suggested_label": suggested, "reason": reasons}
    write([kept | new], output, overwrite=overwrite)
