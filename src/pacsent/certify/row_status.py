"""Rows that are counted and rows that are left out: the same on every surface.

The distinct texts are compared with the calibration set. A row is none of them if it has no text,
or if it equals or nearly equals a training text or an earlier row (see `near_duplicates`).
`certify`, `predict`, `monitor`, the server and the exported page count by these rules.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pacsent.bounds.rounding import format_count
from pacsent.certify.near_duplicates import near_duplicate_clusters
from pacsent.certify.samples import seen_before
from pacsent.text.ngrams import nonempty_rows

NEW, EMPTY, FITTED, REPEATED = range(4)
REASONS = ("", "no text", "nearly equals a training text", "nearly equals an earlier row")


class RowStatus(NamedTuple):
    """Of each row why it is left out, and which earlier row it repeats."""

    status: np.ndarray  # (n_rows,): NEW, EMPTY, FITTED or REPEATED
    first: np.ndarray  # (n_rows,): the row that it repeats; itself where it repeats none


class RowCounts(NamedTuple):
    """How many rows there are, and how many of them are left out for each reason."""

    n_rows: int
    n_empty: int
    n_fitted: int
    n_repeated: int

    @classmethod
    def of(cls, status: np.ndarray) -> "RowCounts":
        """Count the rows of each status."""
        counts = np.bincount(status, minlength=len(REASONS)).tolist()
        return cls(int(status.size), counts[EMPTY], counts[FITTED], counts[REPEATED])

    @property
    def n_distinct(self) -> int:
        """Rows that are not left out: distinct texts, not fitted."""
        return self.n_rows - self.n_empty - self.n_fitted - self.n_repeated

    def __str__(self) -> str:
        n_left_out = self.n_rows - self.n_distinct
        if not n_left_out:
            return ""
        parts = [
            (
                self.n_fitted,
                "that nearly equals a training text",
                "that nearly equal a training text",
            ),
            (
                self.n_repeated,
                "that nearly equals an earlier row",
                "that nearly equal an earlier row",
            ),
            (self.n_empty, "without text", "without text"),
        ]
        reasons = [f"{n:,} {one if n == 1 else many}" for n, one, many in parts if n]
        rows = format_count(self.n_rows, "row")
        return f"Of {rows}, not counted as distinct texts: {', '.join(reasons)}."


def row_status(
    model: Any,
    texts: Sequence[str],
    earlier: Sequence[str] = (),
    *,
    seen: np.ndarray | None = None,
) -> RowStatus:
    """Say of each text whether it is new, empty, or repeats a training text or an earlier text.

    `earlier` are texts that came before and are none of the training texts; `first` counts them as
    rows before the others, so that row `len(earlier)` is the first of `texts`. `seen` says which
    texts repeat a training text, if that is known.

    >>> row_status(None, ["a dull film with no plot", " ", "a dull film with a plot"]).status
    array([0, 1, 3])
    """
    n_earlier = len(earlier)
    n_rows = n_earlier + len(texts)
    status = np.full(n_rows, NEW)
    first = np.arange(n_rows)

    with_text = nonempty_rows(texts)
    status[n_earlier:] = EMPTY
    status[n_earlier + with_text] = NEW
    if seen is None:
        seen_with_text = np.logical_or(*seen_before(model, [texts[row] for row in with_text]))
    else:
        seen_with_text = seen[with_text]
    status[n_earlier + with_text[seen_with_text]] = FITTED

    rows = np.flatnonzero(status == NEW)
    own_texts = [*earlier, *texts]
    clusters = near_duplicate_clusters([own_texts[row] for row in rows])
    _, first_places = np.unique(clusters, return_index=True)
    first[rows] = rows[first_places[clusters]]
    status[first != np.arange(n_rows)] = REPEATED
    return RowStatus(status[n_earlier:], first[n_earlier:])
