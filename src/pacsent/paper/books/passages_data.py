"""The passages themselves."""

from pathlib import Path
from typing import NamedTuple

from pacsent.text.tables import stream_texts


class Passage(NamedTuple):
    """Some sentences of a book."""

    author: str
    book: str
    text: str


def passages() -> list[Passage]:
    """All 3,000 passages, book by book; the books of an author in a fixed order.

    >>> found = passages()
    >>> len(found), found[0].author, found[0].book
    (3000, 'Austen', 'Pride and Prejudice')
    """
    lines = stream_texts(Path(__file__).parent / "passages.tsv.xz", kind="text")
    next(lines)  # the names of the columns
    return [Passage(*line.split("\t")) for line in lines]
