"""The passages themselves."""

from pathlib import Path
from typing import NamedTuple

from pacsent.text.reading import read_lines


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
    lines = read_lines(Path(__file__).parent / "passages.tsv.xz")
    next(lines)  # the names of the columns
    return [Passage(*line.split("\t")) for line in lines]
