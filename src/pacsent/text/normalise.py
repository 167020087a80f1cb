"""From raw text to tokens: the paper's cleaning, and words of any language."""

import re
import unicodedata

from pacsent.text.word_breaks import words_of

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
    """Tokens of any language: NFKC, case folding, and the word boundaries of Unicode (UAX 29).

    A script without spaces between words (Chinese, Japanese, Thai) gives one token a character;
    an emoji is a token. The apostrophe ’ becomes '.

    >>> tokenise_unicode("Don’t pay 1,000.50 € in the ＣＡＦÉ, Straße 7 東京.")
    ["don't", 'pay', '1,000.50', 'in', 'the', 'café', 'strasse', '7', '東', '京']
    """
    if text.isascii():
        return _ASCII_TOKEN.findall(text.lower())
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return words_of(text.replace("’", "'"))


# the rules of UAX 29 for text in ASCII
_ASCII_TOKEN = re.compile(r"(?:[a-z](?:[.':](?=[a-z]))?|[0-9](?:[.',;](?=[0-9]))?|_)+")
TOKENISERS = {"paper": tokenise_paper, "unicode": tokenise_unicode}
