"""Passages: long texts cut between sentences, evenly or where the subject changes."""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pacsent.maths.arrays import unit_rows

CHUNKS = ("sentences", "meaning")
_END = re.compile(r"[.!?…]+[\"'”’)\]]*\s+|[。！？]+[」』”’]*\s*|\n\s*\n\s*")
_WORD = re.compile(r"\w+")
_SHORT = re.compile(r"(?:^|\W)(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|vs|etc|e\.g|i\.e|No|Fig)\.\s+$")
_WINDOW = 3  # sentences compared on each side of a place where a text may be cut

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


def passages(
    text: str,
    by: str = "sentences",
    max_words: int = 120,
    encode: Callable[[list[str]], Any] | None = None,
) -> list[Span]:
    """Cut a text into passages of whole sentences; returns where each begins and ends.

    Parameters
    ----------
    text : str
    by : {"sentences", "meaning"}, default="sentences"
        "sentences" fills each passage up to `max_words`. "meaning" cuts a text that is too long
        where the sentences before and after differ most, and its parts again.
    max_words : int, default=120
        A sentence that is longer is cut between words.
    encode : callable, for "meaning"
        Vectors of a list of texts, such as `load("english").encode`.

    Examples
    --------
    >>> text = "The cat slept. The dog slept. Shares fell again. Banks lost money."
    >>> [text[a:b] for a, b in passages(text, max_words=6)]
    ['The cat slept. The dog slept.', 'Shares fell again. Banks lost money.']
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str. Got {type(text).__name__} instead.")
    check_chunk(by)
    if not isinstance(max_words, int) or max_words < 1:
        raise ValueError(f"max_words must be a positive integer. Got {max_words!r} instead.")
    if by == "meaning" and encode is None:
        raise ValueError('encode must be given to cut by "meaning". Got None instead.')
    parts = [piece for span in sentences(text) for piece in _short(text, span, max_words)]
    sizes = np.array([len(_WORD.findall(text[a:b])) for a, b in parts])
    if sizes.sum() <= max_words:
        return [(parts[0][0], parts[-1][1])] if parts else []
    if by == "meaning" and encode is not None:
        vectors = unit_rows(np.asarray(encode([text[a:b] for a, b in parts]), float))
        cuts = sorted(_where_it_changes(vectors, sizes, 0, len(parts), max_words))
    else:
        cuts, total = [], 0
        for i, size in enumerate(sizes.tolist()):
            if total and total + size > max_words:
                cuts, total = [*cuts, i], 0
            total += size
    edges = [0, *cuts, len(parts)]
    return [(parts[a][0], parts[b - 1][1]) for a, b in itertools.pairwise(edges)]


def check_chunk(by: Any) -> None:
    """Refuse another way to cut than those that there are."""
    if by not in CHUNKS:
        raise ValueError(f"chunk must be one of {', '.join(CHUNKS)}, or None. Got {by!r} instead.")


def _short(text, span, max_words) -> Iterator[Span]:
    """A sentence, cut between words where it is too long."""
    words = [match.start() for match in _WORD.finditer(text, *span)]
    edges = [span[0], *words[max_words::max_words], span[1]]
    for a, b in itertools.pairwise(edges):
        yield a, a + len(text[a:b].rstrip())


def _where_it_changes(vectors, sizes, first, last, max_words) -> Iterator[int]:
    """Cuts of sentences first to last, so that no part between them is too long."""
    if last - first < 2 or sizes[first:last].sum() <= max_words:
        return
    inner = range(first + 1, last)
    before = np.array([vectors[max(first, i - _WINDOW) : i].sum(axis=0) for i in inner])
    after = np.array([vectors[i : min(last, i + _WINDOW)].sum(axis=0) for i in inner])
    alike = np.einsum("ij,ij->i", unit_rows(before), unit_rows(after))
    cut = first + 1 + int(alike.argmin())
    yield cut
    yield from _where_it_changes(vectors, sizes, first, cut, max_words)
    yield from _where_it_changes(vectors, sizes, cut, last, max_words)
