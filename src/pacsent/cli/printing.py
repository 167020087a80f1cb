"""What commands print: one JSON document for scripts, or tables that fit the terminal."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import click


def echo_json(found: Any) -> None:
    """One JSON document on stdout; nan and inf, which JSON does not know, are null."""
    click.echo(json.dumps(_plain(found), allow_nan=False, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):  # of NumPy
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if value is None or isinstance(value, str | int):
        return value
    return str(value)  # a path


def on_one_line(text: str) -> str:
    """A text with its tabs, line breaks and backslashes escaped.

    Examples
    --------
    >>> print(on_one_line("two" + chr(10) + "lines"))
    two\\nlines
    """
    return text.translate({92: "\\\\", 9: "\\t", 10: "\\n", 13: "\\r"})


def counted(n: int, unit: str) -> str:
    """A number with its unit.

    Examples
    --------
    >>> counted(1, "text"), counted(1200, "text")
    ('1 text', '1,200 texts')
    """
    return f"{n:,} {unit}" + ("" if n == 1 else "s")


def terminal_width() -> int | None:
    """Columns of the terminal; None where stdout is none and nobody says how wide it is."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(shutil.get_terminal_size()[0], 20)
    return None


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, width: int | None = None
) -> str:
    """Cells in columns; columns that do not fit the width go below, beside the first one again.

    Parameters
    ----------
    header : strings
    rows : sequences of as many strings
    left : int, default=1
        So many columns are flush left, the others flush right.
    width : int or None
        Columns of the terminal; None for as many as it takes.

    Examples
    --------
    >>> print(table(["kind", "n", "risk"], [["A", "10", "0.25"], ["B", "200", "0.3"]]))
    kind    n  risk
    A      10  0.25
    B     200   0.3
    >>> print(table(["kind", "n", "risk"], [["A", "10", "0.25"]], width=11))
    kind   n
    A     10
    <BLANKLINE>
    kind  risk
    A     0.25
    """
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    blocks = ["\n".join(_line(line, widths, block, left) for line in lines)
              for block in _blocks(widths, width)]  # fmt: skip
    return "\n\n".join(blocks)


def _line(line: Sequence[str], widths: Sequence[int], block: Sequence[int], left: int) -> str:
    cells = [line[i].ljust(widths[i]) if i < left else line[i].rjust(widths[i]) for i in block]
    return "  ".join(cells).rstrip()


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

    Examples
    --------
    >>> print(noted([("kl", "0.25", "for any posterior")], width=20))
    kl  0.25
        for any
        posterior
    """
    names, values = (max(len(row[i]) for row in rows) for i in (0, 1))
    lines = []
    for name, value, note in rows:
        start = f"{name:<{names}}  {value:<{values}}  "
        if width is None or len(start) + len(note) <= width:
            lines.append((start + note).rstrip())
        elif width - len(start) < 30:  # too narrow to stand beside: below instead
            indent = " " * 4
            wrapped = textwrap.wrap(note, width, initial_indent=indent, subsequent_indent=indent)
            lines += [start.rstrip(), *wrapped]
        else:
            first, *rest = textwrap.wrap(note, width - len(start))
            lines += [start + first, *(" " * len(start) + line for line in rest)]
    return "\n".join(lines)
