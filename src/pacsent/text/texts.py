"""Texts from Python objects: the checks that every public class and function shares."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

_MAX_NAMED_COLUMNS = 6  # in a message


def as_texts(X: Any, name: str = "texts") -> list[str]:
    """Return the texts of `X` as a list of str; an error names anything else.

    Parameters
    ----------
    X : list, tuple, Series, array of one dimension, generator, or table with one column
        A table is a DataFrame of pandas or polars, or pyarrow's Table. A generator is read once.
    name : str, default="texts"
        Name of the argument in error messages.

    Returns
    -------
    list of str

    Examples
    --------
    >>> as_texts(np.array(["a quiet film", "good"]))
    ['a quiet film', 'good']
    >>> as_texts(["good", None])
    Traceback (most recent call last):
    ...
    TypeError: texts must have one str per text. Got None (a missing value) in row 1 ...
    """
    source = as_sentences(X, name)
    texts = source.tolist() if isinstance(source, np.ndarray) else list(source)
    if set(map(type, texts)) <= {str}:
        return texts

    for row, text in enumerate(texts):
        texts[row] = as_text(text, row, name)
    return texts


def as_text(value: Any, row: int, name: str = "texts") -> str:
    """Return the text of a row as str; an error names the row and what it has."""
    if not isinstance(value, str):
        raise TypeError(_not_a_text(name, row, value))
    return str.__str__(value)  # numpy's str_ and other subclasses


def _not_a_text(name: str, row: int, value: Any) -> str:
    """The message about a row that is no str."""
    is_nan = isinstance(value, float) and value != value
    is_missing = value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")
    if is_missing:
        problem = f"{value} (a missing value)"
        step = "Drop it, or pass ''."
    elif isinstance(value, list | tuple | np.ndarray):
        problem = f"a {type(value).__name__}"
        step = "Join tokens: ' '.join(tokens)."
    else:
        problem = show(value)
        step = "Convert it to str or drop it."
    return (
        f"{name} must have one str per text. Got {problem} in row {row} (rows count from "
        f"0) instead. {step}"
    )


def as_sentences(X: Any, name: str = "X") -> Iterable:
    """Return `X` itself, or the column of a table, to iterate over; elements are not checked.

    This is `as_texts` for methods that also take lists of tokens, or that read a generator bit by
    bit.

    Parameters
    ----------
    X : iterable, or table with one column
        Texts or lists of tokens.
    name : str, default="X"
        Name of the argument in error messages.

    Returns
    -------
    iterable
        A TypeError says what was passed where `X` is a str, a dict or no iterable.

    Examples
    --------
    >>> as_sentences({"a quiet film": 1})
    Traceback (most recent call last):
    ...
    TypeError: X must be an iterable of texts. Got a dict instead. Pass the texts alone, ...
    """
    if type(X) is list:
        return X

    rule = f"{name} must be an iterable of texts."
    _check_no_other_type(X, rule)
    column = _only_column(X, rule)

    n_dims = getattr(column, "ndim", None) or 0
    if n_dims > 1:
        step = "Pass one column: X[:, 0]." if n_dims == 2 else "Pass a list of str."
        raise TypeError(
            f"{rule} Got a {type(column).__name__} of shape {column.shape} instead. {step}"
        )
    if isinstance(column, np.ndarray) and n_dims == 0:
        raise TypeError(f"{rule} Got a single value in an array instead. Pass a list of str.")

    if hasattr(column, "to_pylist"):  # pyarrow's arrays hold scalars of their own
        return column.to_pylist()
    if not hasattr(column, "__iter__") and not hasattr(column, "__getitem__"):
        raise TypeError(f"{rule} Got {show(column)} instead. Pass a list of str.")
    return column


def _check_no_other_type(X: Any, rule: str) -> None:
    """Raise an error for one text, a dictionary, a set, bytes and the like."""
    if isinstance(X, str):
        shown = X if len(X) <= 40 else X[:37] + "..."
        raise ValueError(
            f"{rule} Got the single string {shown!r} instead. Put it into a list: [{shown!r}]."
        )
    for types, problem in _NOT_TEXTS.items():
        if isinstance(X, types):
            raise TypeError(f"{rule} Got {problem.format(type(X).__name__)}")
    if hasattr(X, "collect_schema") and not hasattr(X, "__len__"):  # polars' LazyFrame
        raise TypeError(f"{rule} Got a {type(X).__name__} instead. Collect it first.")


def _only_column(X: Any, rule: str) -> Any:
    """The only column of a table of pandas, polars or pyarrow; what is no table as it is."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None:
        return X
    if len(names) == 1:
        return X[names[0]]

    listed = ", ".join(map(repr, names[:_MAX_NAMED_COLUMNS]))
    if len(names) > _MAX_NAMED_COLUMNS:
        listed += ", ..."
    columns = f"({listed}) " if listed else ""
    raise ValueError(
        f"{rule} Got a table of {len(names)} columns {columns}"
        "instead. Pass the one column that holds the text."
    )


_NOT_TEXTS: dict[Any, str] = {
    Mapping: "a {} instead. Pass the texts alone, such as its values as a list or the column that "
    "holds them.",
    (set, frozenset): "a {} instead, which has no order. Pass a list.",
    (bytes, bytearray, memoryview): "{} instead. Decode them with .decode('utf-8').",
}


def show(X: Any) -> str:
    """The type and the beginning of a value that is no text, for a message."""
    return "None" if X is None else f"{type(X).__name__} {str(X)[:40]!r}"
