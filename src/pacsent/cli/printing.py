"""What commands print: one JSON document for scripts, or tables that fit the terminal."""

import io
import json
import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table as RichTable


def echo_json(found: Any) -> None:
    """One JSON document on stdout; nan and inf, which JSON does not know, are null."""
    click.echo(json.dumps(_plain(found), allow_nan=False, ensure_ascii=False))


def show(data: Any, text: Any, as_json: bool) -> None:
    """Print the data as JSON for scripts, or the text for people."""
    if as_json:
        echo_json(data)
    else:
        click.echo(text)


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


def on_one_line(text: str) -> str:
    """A text with its tabs, line breaks and backslashes escaped.

    >>> print(on_one_line("two" + chr(10) + "lines"))
    two\\nlines
    """
    return text.translate({92: "\\\\", 9: "\\t", 10: "\\n", 13: "\\r"})


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
    from rich.table import Table as RichTable

    widths = [max(len(line[i]) for line in (header, *rows)) for i in range(len(header))]
    shown = []
    for block in _blocks(widths, width):
        made = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
        for i in block:
            side = "left" if i < left else "right"
            made.add_column(header[i], justify=side, no_wrap=True)  # type: ignore[arg-type]
        for row in rows:
            made.add_row(*(row[i] for i in block))
        shown.append(_drawn(made))
    return "\n\n".join(shown)


def _blocks(widths: Sequence[int], width: int | None) -> list[list[int]]:
    """Which columns stand together; the first one in every block."""
    blocks, used = [[0]], widths[0]
    for i in range(1, len(widths)):
        if width is not None and used + 2 + widths[i] > width and len(blocks[-1]) > 1:
            blocks.append([0])
            used = widths[0]
        blocks[-1].append(i)
        used += 2 + widths[i]
    return blocks


def noted(rows: Sequence[tuple[str, str, str]], *, width: int | None = None) -> str:
    """Names, values and notes; a note that does not fit goes on below itself.

    >>> print(noted([("kl", "0.25", "for any posterior")], width=20))
    kl  0.25  for any
              posterior
    """
    from rich.table import Table as RichTable

    made = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for place in range(3):
        made.add_column(no_wrap=place < 2)
    for row in rows:
        made.add_row(*row)
    return _drawn(made, width)


def _drawn(made: "RichTable", width: int | None = None) -> str:
    """A table as plain text, without colours and spaces at the ends of lines."""
    from rich.console import Console

    written = io.StringIO()
    console = Console(
        file=written,
        width=width or 10_000,
        color_system=None,
        markup=False,
        highlight=False,
        emoji=False,
    )
    console.print(made)
    return "\n".join(line.rstrip() for line in written.getvalue().rstrip("\n").split("\n"))
