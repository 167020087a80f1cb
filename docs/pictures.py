"""What only the pictures of the documentation need: a key, and a comparison with a file."""

import re
from collections.abc import Iterable
from pathlib import Path

from drawing import text


def key(x: float, y: float, entries: Iterable[tuple[str, str]]) -> list[str]:
    """Names in their colours, side by side: (words, kind) each."""
    parts = []
    for words, kind in entries:
        parts.append(text(x, y, words, kind, bold=True))
        x += 7.7 * len(words) + 14
    return parts


def same_picture(path: Path, drawn: str, tolerance: float = 0.3) -> bool:
    """Whether a file holds this picture; numbers may differ by a hair, as processors round."""
    if not path.exists():
        return False
    return close(path.read_text(encoding="utf-8"), drawn, tolerance)


def close(one: str, other: str, tolerance: float = 0.3) -> bool:
    """Equal in words, and in every number up to the tolerance.

    >>> close('<a x="1.0"/>', '<a x="1.1"/>'), close('<a x="1"/>', '<b x="1"/>')
    (True, False)
    """
    number = re.compile(r"-?\d+(?:\.\d+)?")
    if number.sub("#", one) != number.sub("#", other):
        return False
    pairs = zip(number.findall(one), number.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= tolerance for a, b in pairs)
