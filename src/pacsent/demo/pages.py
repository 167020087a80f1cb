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
    """
    settings: dict[str, Any] = {"random_state": random_state, "n_jobs": n_jobs, "say": say}
    of_books = books.run(out, **settings)
    of_bank = bank.run(out, **settings)
    write_tables(out, random_state=random_state)
    return {"books": of_books, "bank": of_bank}
