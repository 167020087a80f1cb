"""From raw text to tokens: the paper's cleaning, and words of any language."""

import itertools
import re
import unicodedata
from functools import cache

DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_DIGITS = {ord("0") + i: f" {name} " for i, name in enumerate(DIGIT_NAMES)}
_ASCII_UPPER = {ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_NOT_LETTERS = re.compile(r"[^a-z]+")


def clean(text: str) -> str:
    """The last stage of the paper's filter: a-z lower-cased, digits spelled, the rest one space.

    >>> clean("Route 66, café!")
    'route six six caf'
    """
    # str.lower would map 'K' (Kelvin sign) to 'k'; the filter of record lowers A-Z only
    return _NOT_LETTERS.sub(" ", text.translate(_ASCII_UPPER).translate(_DIGITS)).strip()


def tokenise_paper(text: str) -> list[str]:
    """Tokens of the paper's preprocessing.

    >>> tokenise_paper("Route 66, café!")
    ['route', 'six', 'six', 'caf']
    """
    return clean(text).split()


def tokenise_unicode(text: str) -> list[str]:
    """Tokens of any language that puts spaces between words.

    NFKC and case folding, then runs of letters, digits, combining marks and underscores. An
    apostrophe (' or ’, which becomes ') between two of these stays inside a token, and so does a
    point or a comma between two digits. A script without spaces (Chinese, Thai) gives one token a
    run: pass a tokeniser of its own for it.

    >>> tokenise_unicode("Don’t pay 1,000.50 € in the ＣＡＦÉ, Straße 7.")
    ["don't", 'pay', '1,000.50', 'in', 'the', 'café', 'strasse', '7']
    """
    if text.isascii():
        return _ASCII_TOKEN.findall(text.lower())
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _unicode_token().findall(text.replace("’", "'"))


def _token_pattern(word: str) -> str:
    return rf"{word}+(?:(?:'(?={word})|(?<=\d)[.,](?=\d)){word}+)*"


_ASCII_TOKEN = re.compile(_token_pattern("[a-z0-9_]"), re.ASCII)


@cache
def _unicode_token() -> re.Pattern:
    # \w leaves out combining marks, without which Hindi or Hebrew words fall apart; in classes of
    # ranges, as the standard library has no \p{M}
    points = itertools.chain(range(0x300, 0x20000), range(0xE0000, 0xE1000))  # no mark elsewhere
    marks = [point for point in points if unicodedata.category(chr(point))[0] == "M"]
    starts = [p for p, before in zip(marks, [-1, *marks]) if p != before + 1]
    ends = [p for p, after in zip(marks, [*marks[1:], -1]) if p != after - 1]
    ranges = "".join(f"\\U{start:08x}-\\U{end:08x}" for start, end in zip(starts, ends))
    return re.compile(_token_pattern(rf"[\w{ranges}]"))


TOKENISERS = {"paper": tokenise_paper, "unicode": tokenise_unicode}
