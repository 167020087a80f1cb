"""What commands print: one JSON document for scripts, or tables that fit the terminal."""

import io
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click


def echo_json(found: Any) -> None:
    """One JSON document on stdout; nan and inf, which JSON does not know, are null."""
    click.echo(json.dumps(_plain(found), allow_nan=False, ensure_ascii=False))


def show(data: Any, text: Any, as_json: bool) -> None:
    """Print the data as JSON for scripts, or the text for people."""
    if as_json:
        echo_json(data)
    else:
        click.echo(text)


def show_lines(data: Any, lines: Iterable[Sequence[Any]], as_json: bool) -> None:
    """Print the data as JSON, or lines of values between tabs, with control characters escaped."""
    if as_json:
        echo_json(data)
        return
    escapes = {92: "\\\\", 9: "\\t", 10: "\\n", 13: "\\r"}
    for values in lines:
        click.echo("\t".join(str(value).translate(escapes) for value in values))


def show_certificate(certificate: Any, output: str | None, as_json: bool) -> None:
    """Print a certificate, and write it to the file as JSON if one is named."""
    if output:
        write_text(output, certificate.to_json() + "\n")
    click.echo(certificate.to_json() if as_json else str(certificate))


def write_text(path: str, text: str) -> None:
    """Write a file, complete or not at all."""
    from pacsent.files import replacing

    with replacing(path) as file:
        file.write(text.encode())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # of NumPy
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if value is None or isinstance(value, str | int):
        return value
    return str(value)  # a path


def counted(n: int, unit: str) -> str:
    """A number with its unit."""
    return f"{n:,} {unit}" + ("" if n == 1 else "s")


def terminal_width() -> int | None:
    """Columns of the terminal; None where stdout is no terminal and COLUMNS is not set."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(shutil.get_terminal_size()[0], 20)
    return None


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, width: int | None = None
) -> str:
    """Cells in columns. Columns that do not fit the width go below, with the first one repeated.

    The first `left` columns are flush left, the others flush right; `width` is that of the
    terminal, None for no limit.

    >>> print(table(["kind", "n", "risk"], [["A", "10", "0.25"], ["B", "200", "0.3"]]))
    kind    n  risk
    A      10  0.25
    B     200   0.3
    """
    from rich.console import Console
    from rich.table import Table

    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    blocks, used = [[0]], widths[0]
    for i in range(1, len(widths)):
        if width is not None and used + 2 + widths[i] > width and len(blocks[-1]) > 1:
            blocks.append([0])
            used = widths[0]
        blocks[-1].append(i)
        used += 2 + widths[i]
    drawn = []
    for block in blocks:
        made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
        for i in block:
            side: Any = "left" if i < left else "right"
            made.add_column(header[i], justify=side, no_wrap=True)
        for row in rows:
            made.add_row(*(row[i] for i in block))
        file = io.StringIO()
        Console(file=file, width=10_000, color_system=None, markup=False, emoji=False).print(made)
        drawn.append("\n".join(line.rstrip() for line in file.getvalue().rstrip("\n").split("\n")))
    return "\n\n".join(drawn)
