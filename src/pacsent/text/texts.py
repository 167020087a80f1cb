"""What may be handed in where sentences are asked for: one check for every door."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def as_sentences(X: Any, name: str = "X") -> Iterable:
    """The sentences of `X`, to be iterated over, or one clear line that says why it has none.

    Parameters
    ----------
    X : list, tuple, array, Series, generator or table
        Anything that yields one sentence after the other, each a str or a list of tokens. Of a
        table (DataFrame, array of two dimensions, pyarrow Table) the one column that it has.
    name : str, default="X"
        What the message calls it.

    Returns
    -------
    iterable
        `X` itself, or the column of a table. Its elements are not looked at.

    Examples
    --------
    >>> print(*as_sentences(np.array([["a quiet film"], ["good"]])), sep=", ")
    a quiet film, good
    >>> as_sentences({"a quiet film": 1})
    Traceback (most recent call last):
    ...
    TypeError: X must be an iterable of sentences. Got a dict instead. Pass the texts ...
    """
    if type(X) is list:
        return X
    rule = f"{name} must be an iterable of sentences."
    if isinstance(X, str):
        shown = X if len(X) <= 40 else X[:37] + "..."
        raise ValueError(
            f"{rule} Got the single string {shown!r} instead. Pass [{shown!r}] to embed one "
            "sentence."
        )
    if isinstance(X, Mapping):
        raise TypeError(
            f"{rule} Got a {type(X).__name__} instead. Pass the texts alone, such as "
            "list(X.values()) or the column that holds them."
        )
    if isinstance(X, set | frozenset):
        raise TypeError(
            f"{rule} Got a {type(X).__name__} instead, which has no order. Pass a list."
        )
    if isinstance(X, bytes | bytearray | memoryview):
        raise TypeError(f"{rule} Got {type(X).__name__} instead. Decode them: X.decode('utf-8').")
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise TypeError(f"{rule} Got a {type(X).__name__} instead. Collect it first.")
    X = _one_column(X, rule)
    if hasattr(X, "to_pylist"):  # pyarrow's arrays hold scalars of their own
        X = X.to_pylist()
    if not hasattr(X, "__iter__") and not hasattr(X, "__getitem__"):
        raise TypeError(f"{rule} Got {_shown(X)} instead. Pass a list of str.")
    if isinstance(X, np.ndarray) and X.ndim == 0:
        raise TypeError(f"{rule} Got a single value in an array instead. Pass a list of str.")
    return X


def n_sentences(X: Any) -> int | None:
    """Number of sentences of what `as_sentences` gave, where that is known beforehand.

    Examples
    --------
    >>> n_sentences(['a film', 'a book'])
    2
    """
    return len(X) if hasattr(X, "__len__") else None


def _one_column(X, rule):
    """The column of a table that has one; anything else as it is."""
    if hasattr(X, "column_names") and hasattr(X, "column"):  # pyarrow Table, RecordBatch
        n_columns, column = len(X.column_names), lambda: X.column(0)
    elif hasattr(X, "columns") and hasattr(X, "iloc"):  # pandas
        n_columns, column = X.shape[1], lambda: X.iloc[:, 0]
    elif hasattr(X, "columns") and hasattr(X, "get_column"):  # polars
        n_columns, column = X.shape[1], lambda: X.get_column(X.columns[0])
    elif (getattr(X, "ndim", None) or 0) > 1:
        if X.ndim > 2 or not isinstance(X, np.ndarray):
            raise TypeError(
                f"{rule} Got a {type(X).__name__} of shape {X.shape} instead. Pass a list of str."
            )
        n_columns, column = X.shape[1], lambda: np.asarray(X)[:, 0]
    else:
        return X
    if n_columns != 1:
        raise ValueError(
            f"{rule} Got a table of {n_columns} columns instead. Pass the one column that holds "
            "the text."
        )
    return column()


def _shown(X) -> str:
    if X is None:
        return "None"
    return f"{type(X).__name__} {str(X)[:40]!r}"
