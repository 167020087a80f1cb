"""Columns that users pass beside texts (labels, groups, weights), and how messages show them."""

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np


def materialize(values: Any, name: str = "labels") -> Any:
    """A list of what an iterator gives; anything else that is in memory as it is."""
    if hasattr(values, "collect_schema") and not hasattr(values, "__len__"):
        raise TypeError(f"{name} must be in memory. Got a LazyFrame instead. Collect it first.")
    return list(values) if isinstance(values, Iterator) else values


def as_column(values: Any, name: str) -> list:
    """The values of a list, array, Series, one-column table or iterable, as they are."""
    values = materialize(values, name)
    rule = f"{name} must be a list, an array or a column."
    if isinstance(values, (str, bytes, Mapping, set, frozenset)):
        raise TypeError(f"{rule} Got a {type(values).__name__} instead.")

    if hasattr(values, "columns") or hasattr(values, "column_names"):
        columns = list(getattr(values, "column_names", None) or values.columns)
        if len(columns) != 1:
            raise ValueError(
                f"{name} must be one column. Got a table with the columns {few(columns)} instead. "
                "Pass one of them."
            )
        values = values[columns[0]]

    if getattr(values, "ndim", 1) != 1:
        if values.ndim != 2 or values.shape[1] != 1:
            raise ValueError(f"{name} must be one column. Got shape {values.shape} instead.")
        dense = values.toarray() if hasattr(values, "toarray") else values
        values = np.asarray(dense)[:, 0]

    if isinstance(values, np.ndarray):  # tolist would turn dates into numbers
        return values.tolist() if values.dtype.kind in "biufUO" else list(values)
    for to_list in ("to_pylist", "tolist", "to_list"):  # Arrow, pandas, polars
        if hasattr(values, to_list):
            return getattr(values, to_list)()
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"{rule} Got {str(values)[:40]!r} instead.") from None


def known_values(values: Any, n_texts: int | None, name: str) -> list:
    """A column of `n_texts` values, none of which is None, NaN, NaT or pandas' NA."""
    values = as_column(values, name)
    check_length(values, len(values) if n_texts is None else n_texts, name)

    missing = [row for row, value in enumerate(values) if is_missing(value)]
    if missing:
        raise ValueError(
            f"{name} must all be known. Got {len(missing):,} missing ones (NaN or None; first: row "
            f"{missing[0]:,}, counted from 0) instead. Leave those texts out."
        )
    return values


def check_length(values: Any, n_texts: int, name: str) -> None:
    """Refuse another number of values than of texts."""
    if len(values) != n_texts:
        raise ValueError(
            f"{name} must be one for each of the {n_texts:,} texts. Got {len(values):,} instead."
        )


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # comparisons of pandas' NA, or of arrays
        return type(value).__name__ == "NAType"


def as_groups(groups: Any, n_texts: int) -> np.ndarray | None:
    """The number of each text's group, (n_texts,); None where there are no groups.

    Groups may be of any kind that can be compared and hashed, such as dates.
    """
    if groups is None:
        return None
    values = known_values(groups, n_texts, "groups")
    try:
        number = {group: i for i, group in enumerate(dict.fromkeys(values))}
    except TypeError as error:
        raise ValueError(f"groups must be names, numbers or dates. Got others ({error}).") from None
    return np.array([number[group] for group in values])


def sample_weights(sample_weight: Any, n_texts: int) -> np.ndarray:
    """The weight of each text: 1 without any; they must not all be 0."""
    if sample_weight is None:
        return np.ones(n_texts)

    rule = f"sample_weight must be one number of at least 0 for each of the {n_texts:,} texts."
    values = as_column(sample_weight, "sample_weight")
    try:
        weights = np.array([float(value) for value in values])
    except (TypeError, ValueError):
        raise ValueError(f"{rule} Got other values instead ({few(values)}).") from None
    if weights.size != n_texts:
        raise ValueError(f"{rule} Got {weights.size:,} numbers instead.")

    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise ValueError(f"{rule} Got {weights[bad[0]]} in row {bad[0]:,} instead.")
    if n_texts and not weights.any():
        raise ValueError(f"{rule} Got no positive and finite weight instead.")
    return weights


def few(values: Iterable) -> str:
    """The first five of these, for a message."""
    values = list(values)
    shown = ", ".join(quote(str(value)) for value in values[:5])
    return f"{shown}, ..." if len(values) > 5 else shown


def quote(name: str) -> str:
    """A name in a list with commas: quoted if it has a comma itself.

    >>> quote("health, medicine"), quote("cars")
    ('"health, medicine"', 'cars')
    """
    return f'"{name}"' if "," in name else name


def warn_caller(message: str) -> None:
    """Warn at the line outside this package and scikit-learn that the call came from."""
    frame = sys._getframe()
    level = 1
    while frame.f_back and frame.f_globals["__name__"].startswith(("pacsent.", "sklearn.")):
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)
