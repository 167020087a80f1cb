"""Text in, clean tokens out: reading files and normalising what they hold.

Nothing here knows about vocabularies or vectors.
"""

import re

_DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DIGITS = {ord("0") + i: f" {name} " for i, name in enumerate(_DIGIT_NAMES)}
_NOT_LETTERS = re.compile(r"[^a-z]+")


def clean(text: str) -> str:
    """The last stage of the paper's filter: a-z lower-cased, digits spelled, the rest one space.

    >>> clean("Route 66, café!")
    'route six six caf'
    """
    return _NOT_LETTERS.sub(" ", _lower_ascii(text).translate(_DIGITS)).strip()


def _lower_ascii(text: str) -> str:
    # str.lower would map 'K' (Kelvin sign) to 'k'; the filter of record lowers A-Z only
    return text.translate(_ASCII_UPPER)


_ASCII_UPPER = {ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def tokenise_paper(text: str) -> list[str]:
    """Tokens of the paper's preprocessing."""
    return clean(text).split()


TOKENISERS = {"paper": tokenise_paper}


def read_lines(path):
    """Lines of a UTF-8 text file, plain or compressed, without their line ends; '-' is stdin."""
    with open_bytes(path) as file:
        for line in file:
            yield line.rstrip(b"\r\n").decode("utf-8")


def open_bytes(path):
    """A file opened for reading bytes, unpacked on the way (.gz, .bz2, .xz); '-' is stdin."""
    import bz2
    import gzip
    import lzma
    import sys
    from pathlib import Path

    if str(path) == "-":
        return sys.stdin.buffer
    openers = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return openers.get(Path(path).suffix, open)(path, "rb")
