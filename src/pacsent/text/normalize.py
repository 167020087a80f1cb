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
    n_foreign = sum(not letter.isascii() for letter in letters)
    fraction = n_foreign / max(1, len(letters))

    name = "unicode" if fraction > _MAX_FOREIGN_LETTERS else "paper"
    why = f"chosen from the text: {100 * fraction:.1f}% of its letters are outside a-z"
    return name, f"normalize={name!r}, {why}"


def clean(text: str) -> str:
    """Apply the paper's last filter: a-z lower-cased, digits spelled, the rest one space.

    Parameters
    ----------
    text : str

    Returns
    -------
    str

    Examples
    --------
    >>> clean("Route 66, café!")
    'route six six caf'
    """
    # str.lower would map 'K' (Kelvin sign) to 'k'; the filter of record lowers A-Z only.
    lowered = text.translate(_ASCII_UPPER)
    spelled = lowered.translate(_DIGITS)
    return _NOT_LETTERS.sub(" ", spelled).strip()


def tokenise_paper(text: str) -> list[str]:
    """Split a text into tokens as the paper does.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str

    Examples
    --------
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

    # Case folding can undo the normal form, so that it is made again.
    folded = unicodedata.normalize("NFKC", text).casefold()
    normalized = unicodedata.normalize("NFKC", folded)
    return words_of(normalized.replace("’", "'"))


def tokenise_unicode(text: str) -> list[str]:
    """Split a text of any language: `unicode_words`, and characters where words have no spaces.

    Chinese, Japanese and Thai give every character and every two that follow each other.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str

    Examples
    --------
    >>> tokenise_unicode("L’été à 東京都")
    ["l'été", 'à', '東', '東京', '京', '京都', '都']
    """
    words = unicode_words(text)
    if text.isascii():
        return words
    return [part for word in words for part in characters_of(word)]


def _segmented(module: str, segment: Callable[[Any], Callable[[str], Iterable[str]]]) -> Callable:
    """`unicode_words`, with the words that a segmenter finds where words have no spaces."""
    name = module.partition(".")[0]

    @cache
    def segmenter() -> Callable[[str], Iterable[str]]:
        library = import_optional(module, f"normalize={name!r} needs {name}")
        return segment(library)

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
    places = _places_beyond_ascii(f" {' '.join(others)} ")

    # The text of each place, by its index in `others`, and the place in that text.
    starts = np.cumsum([1, *(len(text) + 1 for text in others)])
    owners = np.searchsorted(starts, places, "right") - 1
    places_in_text = places - starts[owners]

    # Only what stands between the spaces around such a character is looked at, and once.
    end = 0  # of what was looked at in `last_owner`
    last_owner = -1
    for owner, place in zip(owners.tolist(), places_in_text.tolist()):
        if owner != last_owner:
            last_owner = owner
            end = 0
        elif place < end:
            continue

        text = others[owner]
        start = text.rfind(" ", end, place) + 1 or end
        end = text.find(" ", place)
        if end < 0:
            end = len(text)
        n_dropped[rows[owner]] += sum(map(_is_dropped, text[start:end].split()))

    return n_dropped


def _places_beyond_ascii(text: str) -> np.ndarray:
    """Places of characters that may belong to a dropped word, in a text with a space at its ends.

    They are no punctuation, and no ASCII letter or digit beside them keeps their word.
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    places = np.flatnonzero(codes > 0xBF)
    foreign_codes = codes[places]
    is_punctuation = (foreign_codes >= 0x2000) & (foreign_codes <= 0x206F)  # General Punctuation
    places = places[~is_punctuation]

    kept_by_previous = _ASCII_WORD[np.minimum(codes[places - 1], 128)]
    kept_by_next = _ASCII_WORD[np.minimum(codes[places + 1], 128)]
    return places[~(kept_by_previous | kept_by_next)]


def _is_dropped(word: str) -> bool:
    if _ASCII_LETTER_OR_DIGIT.search(word):
        return False

    # A letter, a number or a symbol.
    characters = _BEYOND_PUNCTUATION.findall(word)
    return any(unicodedata.category(character)[0] in "LNS" for character in characters)
