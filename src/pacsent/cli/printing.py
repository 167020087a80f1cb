"""The output of commands: one JSON document for scripts, or text."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click

from pacsent.text.printable import escape_controls, escape_line


def echo(text: Any, *, err: bool = False) -> None:
    """Print a line on stdout or stderr; a terminal obeys nothing that is in it."""
    click.echo(escape_controls(str(text)), err=err)


def echo_json(data: Any) -> None:
    """One JSON document on stdout; nan and inf, which JSON does not know, are null."""
    from pacsent.storage.checksums import as_plain

    echo(json.dumps(as_plain(data), allow_nan=False, ensure_ascii=False))


def show(data: Any, text: Any, as_json: bool) -> None:
    """Print the data as JSON for scripts, or the text for people."""
    if as_json:
        echo_json(data)
    else:
        echo(text)


def show_lines(data: Any, lines: Iterable[Sequence[Any]], as_json: bool) -> None:
    """Print the data as JSON, or lines of values between tabs, each as `escape_line` writes it."""
    if as_json:
        echo_json(data)
        return
    for values in lines:
        echo("\t".join(escape_line(str(value)) for value in values))


def show_certificate(
    certificate: Any, output: str | None, as_json: bool, details: bool = False
) -> None:
    """Print a certificate, and write it to the file as JSON if one is named."""
    if output:
        write_text(output, f"{certificate.to_json()}\n")
    if as_json:
        echo(certificate.to_json())
    else:
        echo(certificate.details() if details else certificate)


def write_text(path: str, text: str) -> None:
    """Write a file, complete or not at all."""
    from pacsent.files import replacing

    with replacing(path) as file:
        file.write(text.encode())


_MAX_SHOWN = 200  # characters of a text in a line of output


def shorten(text: str, max_length: int = _MAX_SHOWN) -> str:
    """The beginning of a text in one line."""
    words = " ".join(text.split())
    line = escape_line(words)
    return line if len(line) <= max_length else f"{line[:max_length]} ..."
