"""Small datasets that come with the package, for examples and the demo."""

import csv
import lzma
from collections import Counter
from pathlib import Path
from typing import NamedTuple

__all__ = ["load_banking", "load_books"]
_FOLDER = Path(__file__).parent / "data"


class Passage(NamedTuple):
    """Sentences of a book, 60 to 140 words."""

    author: str
    book: str
    text: str


def load_banking(
    part: str = "train", *, n_classes: int | None = None
) -> tuple[list[str], list[str]]:
    """Messages to a bank's support and their intents: Banking77 (Casanueva et al., 2020).

    Parameters
    ----------
    part : {"train", "test"}, default="train"
        10,003 or 3,080 messages.
    n_classes : int, optional
        Only the intents with the most training messages; None loads all 77.

    Returns
    -------
    texts, labels : lists of str

    References
    ----------
    Casanueva, Temčinas, Gerz, Henderson and Vulić (2020), "Efficient Intent Detection with Dual
    Sentence Encoders", arXiv:2003.04807. CC BY 4.0.

    Examples
    --------
    >>> texts, labels = load_banking(n_classes=12)
    >>> len(texts), len(set(labels)), labels[0]
    (2106, 12, 'wrong_amount_of_cash_received')
    """
    if part not in ("train", "test"):
        raise ValueError(f"part must be 'train' or 'test'. Got {part!r} instead.")
    texts, labels = _read_banking(part)
    if n_classes is None:
        return texts, labels

    _, training_labels = _read_banking("train")
    frequent = Counter(training_labels).most_common(n_classes)
    kept_labels = {label for label, _ in frequent}
    kept_rows = [row for row, label in enumerate(labels) if label in kept_labels]
    return [texts[row] for row in kept_rows], [labels[row] for row in kept_rows]


def load_books() -> list[Passage]:
    """3,000 passages of thirty public-domain books, three by each of ten authors.

    Returns
    -------
    passages : list of Passage
        With the fields author, book and text.

    Examples
    --------
    >>> passages = load_books()
    >>> len(passages), passages[0].author, passages[0].book
    (3000, 'Austen', 'Pride and Prejudice')
    """
    with lzma.open(_FOLDER / "books.tsv.xz", "rt", encoding="utf-8", newline="\n") as file:
        next(file)  # the names of the columns
        return [Passage(*line.rstrip("\n").split("\t")) for line in file]


def _read_banking(part: str) -> tuple[list[str], list[str]]:
    """All texts and labels of a part."""
    texts = []
    labels = []
    path = _FOLDER / f"banking77-{part}.csv.xz"
    with lzma.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            texts.append(row["text"].strip())
            labels.append(row["category"])
    return texts, labels
