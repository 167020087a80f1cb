"""Both pages of the demo and the tables beside them."""

import os
from collections.abc import Callable
from typing import Any

from pacsent.demo import bank, books
from pacsent.demo.tables import write_tables


def run(
    out: str | os.PathLike,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> dict[str, Any]:
    """Make the demo, and return the numbers on its pages.

    Parameters
    ----------
    out : str or path
        Folder; it is made.
    random_state : int, default=0
        Draws the labelled texts.
    n_jobs : int, optional
        Threads.
    say : callable
        Called with each line of progress.

    Returns
    -------
    numbers : dict
        {"books": ..., "bank": ...}, the numbers of each page by name.
    """
    book_numbers = books.run(out, random_state=random_state, n_jobs=n_jobs, say=say)
    bank_numbers = bank.run(out, random_state=random_state, n_jobs=n_jobs, say=say)
    write_tables(out, random_state=random_state)
    return {"books": book_numbers, "bank": bank_numbers}
