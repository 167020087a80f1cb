"""Commands about labels: label, check, audit."""

import contextlib
import secrets
import socket
import webbrowser
from dataclasses import replace
from pathlib import Path

import click

from pacsent.bounds.rounding import format_count, percent
from pacsent.cli import inputs, params
from pacsent.cli.command_line import cli
from pacsent.cli.printing import echo, shorten, show, write_text
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
        echo(f"Warning: {message}", err=True)
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
    from pacsent.web.server import HeaderTimeoutProtocol

    def write() -> list[str]:
        server.should_exit = stops and session.status()["ended"]
        return write_results()

    host, port = options["host"], options["port"]
    keys = {secrets.token_urlsafe(18): name for name in dict.fromkeys(options["annotators"])}
    app = label_app(session, keys, write)
    config = uvicorn.Config(
        app, log_level="error", lifespan="off", http=HeaderTimeoutProtocol, ws="none"
    )
    server = uvicorn.Server(config)
    try:
        listening = socket.create_server((host, port))
    except OSError as error:
        raise OSError(f"port {port} must be free: choose --port 0 ({error.strerror}).") from None
    host, port = listening.getsockname()[:2]
    urls = {f"http://{host}:{port}/?key={key}": name for key, name in keys.items()}
    for url, name in urls.items():
        echo(f"Label at {url}" + (f" ({name})" if name else ""), err=True)
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
    its certificate. The page needs pacsent[serve]. Example: pacsent label texts.csv --labels yes,no
    --goal 0.1
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
@params.column("human", "Column of labels that people gave before; may be empty in most rows.")
@params.option(
    "--human-rows",
    "How the rows of --human-column were chosen. random: they are the sample to begin with.",
    click.Choice(["chosen", "random"]),
    "chosen",
)
@params.probability("--error", "Fraction of wrong labels that may remain.", default=0.05)
@params.delta
@params.n_candidates
@params.option("--labels", "Classes that the machine never gives, with commas.", metavar="A,B,...")
@params.flag("--terminal", "Ask here, and open no page.")
@_page_options
def check(data, label_column, score_column, labels, terminal, output, as_json, **options):
    """Ask for labels until few of a machine's in TABLE are wrong.

    Opens a page that shows a random sample without the machine's labels, then the rows that are
    trusted least; it stops by itself, and the same command resumes. A skipped row has no label, and
    counts as wrong. Writes the table with the columns final_label, labelled_by (person or machine)
    and sampled, and the certificate. The page needs pacsent[serve]; --terminal does not.

    Example: pacsent check labelled.csv --label-column llm
    """
    from pacsent.text.ngrams import is_empty
    from pacsent.text.result_files import write
    from pacsent.text.tables import kind_of, read_labelled_table
    from pacsent.web.labelling import LabelCheck

    human_column = options["human_column"]
    if human_column is None and options["human_rows"] == "random":
        raise click.UsageError("--human-rows is about --human-column. Name the column.")
    place = output or f"{Path(data).with_suffix('')}-checked"
    kind = options["input_format"] or kind_of(Path(data).name)[0] or "text"
    table = read_labelled_table(
        data,
        text_column=options["text_column"],
        label_column=label_column or (None if kind == "text" else "label"),
        kind=kind,
        allow_blank=False,
    )
    texts = table.texts
    machine = [label.strip() for label in table.labels]
    added = ["final_label", "labelled_by", "sampled", "annotators"]
    _, kept, path = _open_table(data, place, added, options)
    if len(kept) == 1:  # of lines of label<TAB>text
        kept = {"text": texts, "label": machine}
    scores = None if score_column is None else _numbers(kept, score_column)
    classes = [name.strip() for name in labels.split(",")] if labels else []
    known = _known_labels(kept, human_column, {*machine, *classes})
    options["annotators"] = options["annotators"] or ("person",)
    how = {name: options[name] for name in ("error", "delta", "random_state")}
    how |= {"known": known, "known_are_random": options["human_rows"] == "random"}
    how["n_candidates"] = options["n_candidates"]
    with LabelCheck(texts, machine, place, scores, classes, **how) as session:

        def write_results() -> list[str]:
            return _write_check(session, kept, path, place, write)

        n_omitted = session.status()["n_omitted"]
        if n_omitted:
            empty = [row for row in range(len(texts)) if is_empty(texts[row])]
            message = f"{format_count(n_omitted, 'empty text')} ({inputs.name_rows(empty)})"
            inputs.say(options["quiet"])(f"Left out: {message}.")
        if not terminal and session.progress()[0]:
            _serve_page(session, options, write_results, stops=True)
        with contextlib.suppress(click.Abort):
            while terminal and _ask_in_terminal(session, options["annotators"][0]):
                pass
        show({"folder": place, **session.status()}, "\n".join(write_results()), as_json)


_SKIP = "?"  # what is typed to skip a row


def _ask_in_terminal(session, who: str) -> bool:
    """Ask for one label; False if there is nothing to ask."""
    task = session.next(who)
    if task is None:
        return False
    echo(f"\n{task.text}", err=True)
    status = session.status()
    n_rows = f"{status['n_unread']:,} to read"
    if status["error_upper"] is None:
        least, most = status["n_sample_least"], status["n_sample_most"]
        n_rows = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        n_rows += " of the random sample to read, then others"
    few = len(session.classes) <= 12  # all are listed after an answer that is none
    choice = click.Choice([*session.classes, *([] if _SKIP in session.classes else [_SKIP])])
    answer = click.prompt(
        f"Label, or {_SKIP} to skip ({n_rows})", task.guess, type=choice, show_choices=few, err=True
    )
    is_skipped = answer == _SKIP and _SKIP not in session.classes
    session.answer(task.row, None if is_skipped else answer, who)
    return True


def _known_labels(columns: dict[str, list], name: str | None, classes: set) -> dict[int, str]:
    """The labels that people gave before, by row."""
    if name is None:
        return {}
    from pacsent.certify.columns import is_missing

    if name not in columns:
        raise ValueError(f"human_column must be one of {', '.join(columns)}. Got {name} instead.")
    cells = ["" if is_missing(value) else str(value).strip() for value in columns[name]]
    known = {row: cell for row, cell in enumerate(cells) if cell}
    for row, label in known.items():
        if label not in classes:
            raise ValueError(
                f"Row {row + 1:,} must have a label of the machine in {name}. Got {label!r} "
                "instead. Correct it, or name the classes that the machine never gives with "
                "--labels."
            )
    if not known:
        raise ValueError(f"{name} must have a label in some row. Got none instead.")
    return known


def _write_check(session, kept: dict[str, list], path, place, write) -> list[str]:
    """Write the table and the certificate of a check; what was written, in words."""
    unread, certificate = session.progress()
    status = session.status()
    write([kept | session.results()], path, overwrite=True)
    lines = [f"{path}: {format_count(len(unread), 'row')} still to be read."]
    if certificate is not None:
        write_text(f"{place}/certificate.json", certificate.to_json())
        lines = [f"{path}: {certificate.summary()} The others are the machine's."]
        if status["ended"] and not status["reached"]:
            lines.append(
                f"The goal of {percent(status['goal'])} cannot be reached: too many rows were "
                "skipped."
            )
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
def audit(data, output, encoder, every_row, overwrite, as_json, random_state, **options):
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
    result = replace(audit(texts, labels, model=TextClassifier(encoder)), rows=positions)

    if output is not None:
        kept = _columns_of(data, columns, ["reviewed", "suggested_label", "reason"])
        _write_audit(result, kept, output, overwrite)
    lines = [
        f"{inputs.describe_row(result.position(row), ids)}: {label}, suggested {suggested}; "
        f"{reason}: {shorten(texts[row])}"
        for row, label, suggested, _, reason in result.suspicious[:_MAX_PRINTED]
    ]
    n_more = len(result.suspicious) - len(lines)
    if n_more > 0:
        lines.append(
            f"These are the most suspicious {len(lines)} of {len(result.suspicious):,}; "
            "-o writes them all."
        )
    n_held_out = len(labelled.texts) - len(rows)
    if every_row:
        lines.append("No row was held out: to certify a classifier, take other labelled texts.")
    elif output is None:
        lines.append(
            f"{format_count(n_held_out, 'row')} held out and not reviewed. -o records which: a "
            "classifier that is trained on corrected labels is certified on these rows."
        )
    else:
        lines.append(
            f"{output}: {format_count(n_held_out, 'row')} held out and not reviewed. Correct "
            f"labels or delete rows where reviewed is yes, then: pacsent train {output} -o MODEL"
        )
    show(inputs.number_audit(result, ids), "\n".join([f"{result}.", *lines]), as_json)


_MAX_PRINTED = 20  # suspicious labels


def _draw_reviewed(texts: list[str], every_row: bool, random_state: int | None) -> list[int]:
    """Rows to look at: those that are not held out."""
    import numpy as np

    from pacsent.certify.independence import as_seed, holdout_fraction
    from pacsent.certify.near_duplicates import near_duplicate_clusters

    if every_row:
        return list(range(len(texts)))
    fraction = holdout_fraction("auto", np.unique(near_duplicate_clusters(texts)).size)
    uniform = np.random.default_rng(as_seed(random_state)).random(len(texts))
    return np.flatnonzero(uniform >= fraction).tolist()


def _columns_of(data, options: dict, added: list[str]) -> dict[str, list]:
    """The columns of DATA, renamed where a command adds one of the same name."""
    from pacsent.text.tables import kind_of, output_names, read_labelled_table

    kind = options["input_format"] or kind_of(Path(data).name)[0] or "text"
    if kind == "text":
        table = read_labelled_table(data, kind=kind)
        return {"text": table.texts or [], "label": table.labels}
    table, _, columns = inputs.read_columns(data, options | {"quiet": True})
    names, messages = output_names(list(columns), added, table.name)
    for message in messages:
        echo(f"Warning: {message}", err=True)
    return {names[name]: values for name, values in columns.items()}


def _write_audit(result, kept: dict[str, list], output, overwrite: bool) -> None:
    """The table with which rows were reviewed, and what is suggested for suspicious ones."""
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
