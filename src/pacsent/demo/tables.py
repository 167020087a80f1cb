"""The messages of the demo as CSV files, so that the shell can be tried on them."""

import csv
import io
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pacsent.datasets import load_banking
from pacsent.files import replacing

N_INTENTS = 12
N_LABELLED = 500


class Messages(NamedTuple):
    """Messages to a bank: some labelled, the others new, with the intents known to the demo."""

    texts: np.ndarray
    intents: np.ndarray
    labelled: np.ndarray  # rows
    new: np.ndarray  # rows


def draw_messages(random_state: int = 0) -> Messages:
    """Draw the labelled messages among those of the most frequent intents."""
    texts, intents = map(np.array, load_banking(n_classes=N_INTENTS))
    order = np.random.default_rng(random_state).permutation(len(texts))
    return Messages(texts, intents, order[:N_LABELLED], order[N_LABELLED:])


def write_tables(folder: str | os.PathLike, *, random_state: int = 0) -> None:
    """Write mine.csv, 500 messages with their labels, and new.csv, 1,606 messages without.

    Parameters
    ----------
    folder : str or path
        Is made if it does not exist.
    random_state : int, default=0
        Draws the labelled messages.
    """
    messages = draw_messages(random_state)
    labelled_texts = messages.texts[messages.labelled].tolist()
    labels = messages.intents[messages.labelled].tolist()
    new_texts = messages.texts[messages.new].tolist()

    labelled_rows = list(zip(labelled_texts, labels))
    new_rows = [(text,) for text in new_texts]
    _write(Path(folder) / "mine.csv", ("text", "label"), labelled_rows)
    _write(Path(folder) / "new.csv", ("text",), new_rows)


def _write(path: Path, header: tuple[str, ...], rows: list) -> None:
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    with replacing(path, parents=True) as file:
        file.write(table.getvalue().encode())
