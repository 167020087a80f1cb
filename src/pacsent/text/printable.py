"""Texts of other people without what a terminal would obey, and tables of them."""

from collections.abc import Iterable, Sequence

# Control characters, marks that turn the direction of writing, and separators of lines.
_CONTROLS = [
    *(code for code in range(0x20) if chr(code) not in "\t\n"),
    *range(0x7F, 0xA0),
    *(0x061C, 0x200E, 0x200F),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
]
# As JSON writes them, so that an escaped JSON document remains the same document.
_ESCAPES = {code: f"\\u{code:04x}" for code in _CONTROLS} | {ord("\r"): "\\r"}
_LINE_ESCAPES = _ESCAPES | {ord("\\"): "\\\\", ord("\t"): "\\t", ord("\n"): "\\n"}


def escape_controls(text: str) -> str:
    r"""Escape control characters and bidi overrides, but not tabs and line breaks.

    >>> escape_controls("\x1b[2J wine\n")
    '\\u001b[2J wine\n'
    """
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_ESCAPES)


def escape_line(text: str) -> str:
    r"""Escape tabs, line breaks and backslashes as well: a text as one value of a line.

    >>> escape_line("red\twine\n")
    'red\\twine\\n'
    """
    return text.translate(_LINE_ESCAPES)


def format_columns(rows: Iterable[Sequence[str]], align: str = "<", gap: int = 2) -> list[str]:
    r"""Lines of aligned columns.

    Parameters
    ----------
    rows : iterable of sequences of str, all of the same length
        The first may be a header.
    align : str, default="<"
        The side of each column: "<" for words, ">" for numbers. Columns beyond it have numbers.
    gap : int, default=2
        Spaces between columns.

    Returns
    -------
    list of str

    >>> format_columns([("class", "texts"), ("cash", "12")])
    ['class  texts', 'cash      12']
    """
    cells = [[escape_line(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    sides = align.ljust(len(widths), ">")
    lines = []
    for row in cells:
        aligned = [f"{value:{side}{width}}" for value, side, width in zip(row, sides, widths)]
        lines.append((" " * gap).join(aligned).rstrip())
    return lines
