"""Rows of any kind: texts, arrays, sparse matrices, tables and objects, counted and selected."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pacsent.bounds.rounding import format_count
from pacsent.text.texts import as_sentences, as_texts


def as_samples(X: Any, *, only_texts: bool = False) -> Any:
    """X with rows that can be counted and selected: a list of texts, an array, a table, a list."""
    if only_texts:
        return as_texts(X, "X")
    if hasattr(X, "tocsr"):
        return X.tocsr()

    has_columns = hasattr(X, "columns") or hasattr(X, "column_names")
    is_table = hasattr(X, "shape") and has_columns
    if is_table or getattr(X, "ndim", 1) > 1:
        return X

    sentences = as_sentences(X, "X")
    rows = sentences.tolist() if hasattr(sentences, "tolist") else list(sentences)
    if any(isinstance(row, str) for row in rows):
        return as_texts(rows, "X")
    return rows


def n_samples(X: Any) -> int:
    """The number of rows of X."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def is_texts(X: Any) -> bool:
    """True if these rows of `as_samples` are texts."""
    return isinstance(X, list) and all(type(row) is str for row in X)


def text_column(X: Any) -> Any:
    """The texts of a table or an array with one column of them; anything else as it is."""
    is_column = isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == 1
    names = getattr(X, "column_names", getattr(X, "columns", ()))
    if not is_column and len(names) != 1:
        return X

    try:
        return as_texts(X[:, 0] if is_column else X)
    except (TypeError, ValueError):
        return X


def select_rows(X: Any, rows: Sequence[int] | np.ndarray) -> Any:
    """These rows, in the form of X."""
    if isinstance(X, list):
        return [X[row] for row in rows]
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "column_names"):
        return X.take(rows)
    return X[np.asarray(rows)]


def rows_with_text(X: Any) -> np.ndarray | None:
    """The rows that are not empty texts; None if no row is an empty text.

    Empty texts have no label, are no duplicates, and are counted nowhere.
    """
    texts = text_column(X)
    if not is_texts(texts):
        return None
    from pacsent.text.ngrams import nonempty_rows  # loads compiled kernels

    rows = nonempty_rows(texts)
    if rows.size == len(texts):
        return None
    if not rows.size:
        raise ValueError(
            f"X must have at least one text with words. Got {len(texts):,} empty ones instead."
        )
    return rows


def select_values(values: Any, rows: np.ndarray | None) -> Any:
    """These rows of a column that may be of any kind; all of it if `rows` is None."""
    if rows is None or values is None:
        return values
    column = values if hasattr(values, "shape") else list(values)
    return select_rows(column, rows)


def describe_empty(n: int, rows: np.ndarray | None) -> str:
    """The words of a certificate about empty texts among n rows; "" if there were none."""
    if rows is None:
        return ""
    return f"; {format_count(n - rows.size, 'empty text')} left out"
