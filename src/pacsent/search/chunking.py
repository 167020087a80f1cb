"""Passages: long texts cut between sentences."""

import itertools
import re

_END = re.compile(r"[.!?…]+[\"'”’)\]]*\s+|[。！？]+[」』”’]*\s*|\n\s*\n\s*")
_WORD = re.compile(r"\w+")
_SHORT = re.compile(r"(?:^|\W)(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|vs|etc|e\.g|i\.e|No|Fig)\.\s+$")
_SHORT_CHARACTERS = 12  # before the end of a sentence, in which an abbreviation is looked for

Span = tuple[int, int]


def sentences(text: str) -> list[Span]:
    """Begin and end of each sentence of a text, without the white space around it.

    >>> [text[a:b] for text in ["One. Mr. Fox slept! Why?"] for a, b in sentences(text)]
    ['One.', 'Mr. Fox slept!', 'Why?']
    """
    spans: list[Span] = []
    start = 0
    ends = [match.end() for match in _END.finditer(text) if not _is_abbreviation(text, match)]
    for end in [*ends, len(text)]:
        piece = text[start:end]
        if piece.strip():
            n_leading = len(piece) - len(piece.lstrip())
            spans.append((start + n_leading, start + len(piece.rstrip())))
        start = end
    return spans


def _is_abbreviation(text: str, match: re.Match) -> bool:
    """True if what looks like the end of a sentence stands inside one."""
    end = match.end()
    if end == len(text) or match[0][0] not in ".!?…":
        return False
    before = text[max(0, end - _SHORT_CHARACTERS) : end]
    return text[end].islower() or _SHORT.search(before) is not None


def split_passages(text: str, max_words: int = 120) -> list[Span]:
    """Cut a text into passages of whole sentences.

    Parameters
    ----------
    text : str
    max_words : int, default=120
        Each passage is filled up to this number. A sentence that is longer is cut between words.

    Returns
    -------
    spans : list of (int, int)
        Begin and end of each passage in the text.

    Examples
    --------
    >>> text = "The cat slept. The dog slept. Shares fell again. Banks lost money."
    >>> [text[a:b] for a, b in split_passages(text, max_words=6)]
    ['The cat slept. The dog slept.', 'Shares fell again. Banks lost money.']
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str. Got {type(text).__name__} instead.")
    if not isinstance(max_words, int) or max_words < 1:
        raise ValueError(f"max_words must be a positive integer. Got {max_words!r} instead.")

    spans: list[Span] = []
    n_words = 0  # of the last passage
    for begin, end in sentences(text):
        words = [match.start() for match in _WORD.finditer(text, begin, end)]
        edges = [begin, *words[max_words::max_words], end]

        # Parts of the sentence, of `max_words` at most: most sentences are one part.
        for i, (start, next_start) in enumerate(itertools.pairwise(edges)):
            n_new = len(words[i * max_words : (i + 1) * max_words])
            stop = start + len(text[start:next_start].rstrip())
            is_full = n_words > 0 and n_words + n_new > max_words
            if is_full or not spans:
                spans.append((start, stop))
                n_words = n_new
            else:
                passage_start, _ = spans[-1]
                spans[-1] = (passage_start, stop)
                n_words += n_new
    return spans
