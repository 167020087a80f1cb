"""Passages: long texts cut between sentences."""

import itertools
import re

_END = re.compile(r"[.!?…]+[\"'”’)\]]*\s+|[。！？]+[」』”’]*\s*|\n\s*\n\s*")
_WORD = re.compile(r"\w+")
_SHORT = re.compile(r"(?:^|\W)(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|vs|etc|e\.g|i\.e|No|Fig)\.\s+$")

Span = tuple[int, int]


def sentences(text: str) -> list[Span]:
    """Where each sentence of a text begins and ends, without the white space around it.

    >>> [text[a:b] for text in ["One. Mr. Fox slept! Why?"] for a, b in sentences(text)]
    ['One.', 'Mr. Fox slept!', 'Why?']
    """
    spans: list[Span] = []
    start = 0
    for match in [*_END.finditer(text), None]:
        end = len(text) if match is None else match.end()
        if match is not None and end < len(text) and match[0][0] in ".!?…":
            before = text[max(0, end - 12) : end]
            if text[end].islower() or _SHORT.search(before):
                continue
        piece = text[start:end]
        if piece.strip():
            first = start + len(piece) - len(piece.lstrip())
            spans.append((first, start + len(piece.rstrip())))
        start = end
    return spans


def split_passages(text: str, max_words: int = 120) -> list[Span]:
    """Cut a text into passages of whole sentences; returns where each begins and ends.

    Each passage is filled up to `max_words`. A sentence that is longer is cut between words.

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

        for i, (a, b) in enumerate(itertools.pairwise(edges)):
            size = len(words[i * max_words : (i + 1) * max_words])
            stop = a + len(text[a:b].rstrip())
            if (n_words and n_words + size > max_words) or not spans:
                spans.append((a, stop))
                n_words = size
            else:
                spans[-1] = (spans[-1][0], stop)
                n_words += size
    return spans
