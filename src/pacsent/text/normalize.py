"""From raw text to tokens: the paper's cleaning, and words of any language."""

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import numpy as np

from pacsent.kernels.text import DIGIT_NAMES
from pacsent.optional import import_optional
from pacsent.text.wikifil import remove_markup_of_text
from pacsent.text.word_breaks import characters_of, is_spaceless, words_of

_DIGITS = {ord("0") + i: f" {name} " for i, name in enumerate(DIGIT_NAMES)}
_ASCII_UPPER = {ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_NOT_LETTERS = re.compile(r"[^a-z]+")
# Fraction of letters outside a-z from which a text is not English: English has 0.0001, raw enwik8
# 0.005, German 0.017.
_MAX_FOREIGN_LETTERS = 0.007
_ASCII_LETTER_OR_DIGIT = re.compile("[A-Za-z0-9]")
_ASCII_WORD = np.array([chr(code).isalnum() for code in range(128)] + [False])
_BEYOND_PUNCTUATION = re.compile("[^\x00-\xbf\u2000-\u206f]")


def choose_normalize(sample: str) -> tuple[str, str]:
    """ "paper" for text that is written with a-z, "unicode" for all other; and why.

    >>> choose_normalize("Plain English that goes on and on. " * 20 + "One café.")
    ('paper', "normalize='paper', chosen from the text: 0.2% of its letters are outside a-z")
    >>> choose_normalize("Grüße aus Köln")[0]
    'unicode'
    """
    letters = [letter for letter in sample if letter.isalpha()]
    fraction = sum(not letter.isascii() for letter in letters) / max(1, len(letters))
    name = "unicode" if fraction > _MAX_FOREIGN_LETTERS else "paper"
    why = f"chosen from the text: {100 * fraction:.1f}% of its letters are outside a-z"
    return name, f"normalize={name!r}, {why}"


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


def tokenise_wikifil(text: str) -> list[str]:
    """Tokens of the paper's whole filter: markup is removed before the last stage.

    Nozawa and Sato clean the texts that they classify as they clean Wikipedia. `tokenise_paper` is
    the last stage alone, which reads "<br />" as the word br.

    >>> tokenise_wikifil("A film.<br /><br />Good &quot;fun&quot;")
    ['a', 'film', 'good', 'fun']
    """
    return tokenise_paper(remove_markup_of_text(text))


def unicode_words(text: str) -> list[str]:
    """NFKC, case folding, and the words between the boundaries of Unicode (UAX 29).

    A run of a script without spaces (Chinese, Japanese, Thai) is left whole; an emoji is a word.
    The apostrophe ’ becomes '.

    >>> unicode_words("Don’t pay 1,000.50 € in the ＣＡＦÉ, Straße 7 東京.")
    ["don't", 'pay', '1,000.50', 'in', 'the', 'café', 'strasse', '7', '東京']
    """
    if text.isascii():
        return _ASCII_TOKEN.findall(text.lower())
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return words_of(text.replace("’", "'"))


def tokenise_unicode(text: str) -> list[str]:
    """Tokens of any language: `unicode_words`, and characters where words have no spaces.

    Chinese, Japanese and Thai give every character and every two that follow each other.

    >>> tokenise_unicode("L’été à 東京都")
    ["l'été", 'à', '東', '東京', '京', '京都', '都']
    """
    words = unicode_words(text)
    return words if text.isascii() else [part for word in words for part in characters_of(word)]


def _segmented(module: str, segment: Callable[[Any], Callable[[str], Iterable[str]]]) -> Callable:
    """`unicode_words`, with the words that a segmenter finds where words have no spaces."""
    name = module.partition(".")[0]

    @cache
    def segmenter():
        return segment(import_optional(module, f"normalize={name!r} needs {name}"))

    def tokenise(text: str) -> list[str]:
        tokens: list[str] = []
        for word in unicode_words(text):
            parts = segmenter()(word) if is_spaceless(word) else [word]
            tokens += [part for part in parts if part.strip()]
        return tokens

    return tokenise


# the rules of UAX 29 for text in ASCII
_ASCII_TOKEN = re.compile(r"(?:[a-z](?:[.':](?=[a-z]))?|[0-9](?:[.',;](?=[0-9]))?|_)+")
TOKENISERS: dict[str, Callable[[str], list[str]]] = {
    "paper": tokenise_paper,
    "unicode": tokenise_unicode,
    "wikifil": tokenise_wikifil,
    # unicode with the words of a segmenter that is installed; by name, because a file may name it
    "jieba": _segmented("jieba", lambda library: library.lcut),
    "janome": _segmented(
        "janome.tokenizer", lambda library: partial(library.Tokenizer().tokenize, wakati=True)
    ),
    "pythainlp": _segmented("pythainlp", lambda library: library.word_tokenize),
}


def count_dropped(texts: list[str]) -> np.ndarray:
    """Words and symbols of each text of which normalize="paper" keeps nothing: unknown tokens.

    >>> count_dropped(["good film", "good 電影 \N{GRINNING FACE} - naïve"])
    array([0, 2])
    """
    n_dropped = np.zeros(len(texts), dtype=np.int64)
    is_ascii = np.fromiter(map(str.isascii, texts), bool, len(texts))
    if is_ascii.all():
        return n_dropped
    rows = np.flatnonzero(~is_ascii).tolist()
    others = [texts[row] for row in rows]
    joined_texts = f" {' '.join(others)} "
    codes = np.frombuffer(joined_texts.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    places = np.flatnonzero(codes > 0xBF)
    places = places[(codes[places] < 0x2000) | (codes[places] > 0x206F)]  # General Punctuation
    # beside an ASCII letter or digit it is part of a word that is kept
    is_kept = [_ASCII_WORD[np.minimum(codes[places + step], 128)] for step in (-1, 1)]
    places = places[~(is_kept[0] | is_kept[1])]
    starts = np.cumsum([1, *(len(text) + 1 for text in others)])
    which = np.searchsorted(starts, places, "right") - 1
    end, last = 0, -1
    # Only what stands between the spaces around such a character is looked at, and once.
    for i, place in zip(which.tolist(), (places - starts[which]).tolist()):
        if i == last and place < end:
            continue
        text, done = others[i], end if i == last else 0
        start = text.rfind(" ", done, place) + 1 or done
        end, last = text.find(" ", place) % (len(text) + 1), i  # -1: the end of the text
        n_dropped[rows[i]] += sum(map(_is_dropped, text[start:end].split()))
    return n_dropped


def _is_dropped(word: str) -> bool:
    if _ASCII_LETTER_OR_DIGIT.search(word):
        return False
    return any(unicodedata.category(c)[0] in "LNS" for c in _BEYOND_PUNCTUATION.findall(word))
