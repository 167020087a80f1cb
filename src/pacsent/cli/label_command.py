"""The command label."""

import contextlib
import socket
from pathlib import Path

import click

from pacsent.cli.classify_commands import words_option
from pacsent.cli.command_line import (
    FILE,
    NON_NEGATIVE,
    cli,
    delta_option,
    flag,
    json_option,
    option,
    probability_option,
    quiet_option,
)
from pacsent.cli.printing import counted, echo_json
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
@probability_option("--goal", None, "Certified error rate at which to stop, such as 0.1.")
@delta_option
@probability_option("--judging", 0.5, "Share of texts drawn at random, which judge.")
@option(
    "--annotator annotators",
    "Who labels; may be repeated, and each gets an address.",
    multiple=True,
    metavar="NAME",
)
@words_option
@text_options
@flag("--prompts", "Ask in the terminal instead of a browser.")
@option(
    "--host", "Address to listen on; 0.0.0.0 for phones and other machines.", default="127.0.0.1"
)
@option("--port", "Port to listen on; 0 chooses a free one.", click.IntRange(0, 65535), 8001)
@flag("--no-browser", "Print the address and open no browser.")
@option(
    "--random-state", "Decides which texts judge.  [default: drawn]", NON_NEGATIVE, metavar="SEED"
)
@json_option
@quiet_option
def label(texts, labels, output, annotators, prompts, quiet, as_json, **given):
    """Label TEXTS until an error rate is certified.

    Opens a page that shows one text at a time: keys 1 to 9 answer, s skips, u undoes. Texts drawn
    at random judge the classifier and the others teach it, so that the error rate it shows is
    certified and may be looked at after every label. Every answer is on the disk before the next
    text is shown, and the same command goes on where it ended.

    Ctrl-C ends it and writes the results into the folder: the table with the column label, the
    classifier as model, and certificate.json.
    """
    from pacsent.web import Labelling

    rows, columns, suffix = _read_table(texts, given, quiet)
    place = Path(output or f"{Path(texts).with_suffix('')}-labels")
    annotators = tuple(dict.fromkeys(annotators)) or ("",)
    how = {name: given[name] for name in ("goal", "delta", "judging", "words", "random_state")}
    with Labelling(rows, labels.split(","), place, **how) as labelling:

        def results():
            return _write(labelling, columns, place / f"labels{suffix}")

        if prompts:
            _ask(labelling, annotators[0])
        else:
            _serve(labelling, annotators, results, given, quiet)
        written = results()
        if as_json:
            echo_json({"folder": str(place), **labelling.status()})
        else:
            for line in written:
                click.echo(line)


def _read_table(path, given, quiet):
    """Texts, all columns, and the suffix of the results."""
    from pacsent.text.tables import TextTable, describe_table, output_names

    with TextTable(path, kind=given["input_format"], text_column=given["text_column"]) as table:
        texts, columns = [], {name: [] for name in table.names}
        for rows in table.batches(("*",)):
            texts += rows.texts if isinstance(rows.texts, list) else rows.texts.to_pylist()
            for name, values in rows.columns.items():
                columns[name] += values if isinstance(values, list) else values.to_pylist()
        say(quiet)(describe_table(table, len(texts)))
        kept, messages = output_names(list(columns), ["label", "stream"], table.name)
        kind = table.kind
    for message in messages:
        click.echo(f"Warning: {message}", err=True)
    suffix = ".csv" if kind == "text" else f".{kind}"
    return texts, {new: columns[name] for name, new in kept.items()} or {"text": texts}, suffix


def _write(labelling, columns, path) -> list[str]:
    """Write the table, the classifier and the certificate; what was written, in words."""
    from pacsent.text.result_files import write

    certificate = labelling.save()
    labels, n = labelling.labels(), len(labelling.texts)
    judges = set(labelling.streams.judging)
    table = {
        **columns,
        "label": [labels.get(row) for row in range(n)],
        "stream": [
            ("judge" if row in judges else "teach") if row in labels else None for row in range(n)
        ],
    }
    write([table], path, overwrite=True)
    lines = [f"{path}: {counted(len(labels), 'label')}."]
    if certificate is None:
        lines.append("No classifier yet: it needs 20 labels of texts that teach, of two classes.")
    else:
        lines += [f"{labelling.folder / 'model'}: {certificate.sentence()}"]
    return lines


def _serve(labelling, annotators, results, given, quiet):
    try:
        import uvicorn

        from pacsent.web.label_server import label_app
    except ImportError as error:
        raise ImportError(
            f"The page needs {error.name}, which is not installed. {install_hint('serve')}, or "
            "pass prompts=True to label in the terminal."
        ) from None
    try:
        listening = socket.create_server((given["host"], given["port"]))
    except OSError as error:
        raise OSError(
            f"port {given['port']} of {given['host']} must be free ({error.strerror}). Choose "
            "another with --port, or 0 for any."
        ) from None
    import webbrowser
    from urllib.parse import quote

    host, port = listening.getsockname()[:2]
    for who in annotators:
        name = f"&who={quote(who)}" if who else ""
        address = f"http://{host}:{port}/?key={labelling.key}{name}"
        click.echo(f"Label at {address}" + (f" ({who})" if who else ""), err=True)
        if not given["no_browser"] and who == annotators[0]:
            webbrowser.open(address)
    if not quiet:
        click.echo("Ctrl-C ends, and writes the results.", err=True)
    app = label_app(labelling, annotators, results)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listening])


def _ask(labelling, who):
    """Label by prompts: a number answers, s skips, u undoes, q or the end of the input ends."""
    names = [f"{at} {name}" for at, name in enumerate(labelling.classes, 1)]
    rung = False
    with contextlib.suppress(EOFError, click.exceptions.Abort, KeyboardInterrupt):
        while (task := labelling.next(who)) is not None:
            status = labelling.status()
            click.echo(_standing(status), err=True)
            if status["reached"] and not rung:
                click.echo(f"\aStop: at most {status['goal']:.1%}.", err=True)
            rung = status["reached"]
            click.echo(f"\n{task.text}\n")
            if task.guess is not None:
                click.echo(f"guess: {task.guess} ({task.probability:.2f})")
            reply = input(f"{'  '.join(names)}  s skip  u undo  q quit: ").strip()
            if reply == "q":
                break
            if reply == "u":
                labelling.undo(who)
            elif reply == "s":
                labelling.answer(task.row, None, who)
            elif reply.isdigit() and 1 <= int(reply) <= len(names):
                labelling.answer(task.row, labelling.classes[int(reply) - 1], who)
            else:
                click.echo(f"The answer must be 1 to {len(names)}, s, u or q.", err=True)
        else:
            click.echo("There are no more texts.", err=True)


def _standing(status) -> str:
    parts = [f"{counted(status['n_labels'], 'label')}"]
    if status["certified_error"] is not None:
        from pacsent.maths.rounding import rounded_up

        parts.append(f"accuracy about {status['accuracy']:.3f}")
        parts.append(f"certified error {rounded_up(status['certified_error'])}")
    if status["agreement"] and status["agreement"]["value"] is not None:
        parts.append(f"{status['agreement']['measure']} {status['agreement']['value']:.2f}")
    return ", ".join(parts)
