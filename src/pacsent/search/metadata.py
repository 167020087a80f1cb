"""Metadata of texts by column, and filters on them."""

import json
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "!=": lambda value, limit: value < limit or value > limit,  # TypeError for another type
}


@dataclass(frozen=True)
class Columns:
    """Columns of values: the distinct ones, and the number of each row's; -1 where it has none."""

    n: int
    codes: Mapping[str, np.ndarray]  # (n,) int32
    values: Mapping[str, list]

    @classmethod
    def of(cls, metadata: Any, n: int) -> "Columns":
        """The columns of a list of mappings, one for each text, or of a mapping to columns.

        >>> made = Columns.of([{"year": 2024}, {"year": 2023, "by": "Ann"}], 2)
        >>> made.row(1), made.match({"year": [2024]}).tolist()
        ({'year': 2023, 'by': 'Ann'}, [True, False])
        """
        if metadata is None:
            return cls(n, {}, {})

        codes = {}
        values = {}
        for name, cells in _cells_by_column(metadata, n).items():
            if not isinstance(name, str):
                raise TypeError(f"A column's name must be a str. Got {name!r} instead.")

            code_of: dict[str, int] = {}  # by the JSON of a value: 1 and true differ
            column = []
            for cell in cells:
                value = _plain(cell, name)
                code = -1
                if value is not None:
                    code = code_of.setdefault(json.dumps(value), len(code_of))
                column.append(code)

            codes[name] = np.array(column, np.int32)
            values[name] = list(map(json.loads, code_of))
        return cls(n, codes, values)

    def row(self, i: int) -> dict[str, Any]:
        """The values of one row."""
        row = {}
        for name, codes in self.codes.items():
            code = codes[i]
            if code >= 0:
                row[name] = self.values[name][code]
        return row

    def match(self, where: Mapping[str, Any]) -> np.ndarray:
        """Mask of the rows that have the values of a filter of `check_where`, (n,)."""
        matches = np.ones(self.n, bool)
        for name, wanted in where.items():
            values = [*self.values.get(name, ()), None]
            if isinstance(wanted, Mapping):
                value_matches = _compare(name, values, wanted)
            else:
                value_matches = _are_among(values, wanted)

            # Code -1 points to the last: no value.
            matches &= np.array(value_matches)[self._codes_of(name)]
        return matches

    def _codes_of(self, name: str) -> np.ndarray:
        """The codes of a column; no values if there is no such column."""
        if name not in self.codes:
            return np.full(self.n, -1, np.int32)
        return self.codes[name]

    def select(self, rows: np.ndarray) -> "Columns":
        """The columns of some rows, in this order."""
        codes = {name: column[rows] for name, column in self.codes.items()}
        return Columns(len(rows), codes, self.values)

    def append(self, other: "Columns") -> "Columns":
        """The rows of both."""
        codes = {}
        values = {}
        for name in {**self.codes, **other.codes}:
            keys = map(json.dumps, self.values.get(name, ()))
            code_of = {key: code for code, key in enumerate(keys)}
            other_keys = map(json.dumps, other.values.get(name, ()))
            new_codes = [code_of.setdefault(key, len(code_of)) for key in other_keys]
            new_codes.append(-1)  # the last, which code -1 points to: no value

            other_codes = np.array(new_codes, np.int32)[other._codes_of(name)]
            codes[name] = np.concatenate([self._codes_of(name), other_codes])
            values[name] = list(map(json.loads, code_of))
        return Columns(self.n + other.n, codes, values)


def _compare(name: str, values: list, comparisons: Mapping[str, Any]) -> list[bool]:
    """True for each value of a column that satisfies all comparisons; None satisfies none."""
    matches = []
    try:
        for value in values:
            is_match = value is not None and all(
                _COMPARISONS[sign](value, limit) for sign, limit in comparisons.items()
            )
            matches.append(is_match)
    except TypeError:  # a number and a text have no order
        raise TypeError(
            f"where must compare {name!r} with a value of its type. Got {comparisons} instead."
        ) from None
    return matches


def _are_among(values: list, wanted: Iterable) -> list[bool]:
    """True for each value of a column that is one of those wanted; 1 and true differ."""
    keys = {(isinstance(value, bool), value) for value in wanted}
    return [(isinstance(value, bool), value) in keys for value in values]


def _cells_by_column(metadata: Any, n: int) -> dict[Any, list]:
    """The cells of each column, from a mapping of columns or a list of mappings of n rows."""
    if hasattr(metadata, "keys"):  # a mapping or a table
        names = metadata.keys()
        columns = {name: list(metadata[name]) for name in names}
        lengths = list(map(len, columns.values()))

    else:
        rows = list(metadata)
        for row in rows:
            if not isinstance(row, Mapping):
                raise TypeError(
                    "metadata must be a list of mappings, one for each text, or a mapping of "
                    f"columns. Got {type(row).__name__} in it instead."
                )

        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name) for row in rows] for name in names}
        lengths = [len(rows)]

    for length in lengths:
        if length != n:
            raise ValueError(
                f"metadata must have one entry for each of the {n:,} texts. Got {length:,} instead."
            )
    return columns


def check_where(where: Any, columns: Iterable[str]) -> dict[str, Any]:
    """Return a filter as plain values, a list or comparisons of each column; each must exist.

    >>> check_where({"year": {">": np.int64(3)}, "tag": ("a", "b")}, ["year", "tag"])
    {'year': {'>': 3}, 'tag': ['a', 'b']}
    """
    if not isinstance(where, Mapping):
        raise TypeError(
            'where must be a mapping from column to value, such as {"year": 2024}. Got '
            f"{type(where).__name__} instead."
        )

    plain: dict[str, Any] = {}
    for name, wanted in where.items():
        if name not in columns:
            listed = ", ".join(map(str, columns)) or "no column"
            raise ValueError(f"where: the metadata has no column {name!r}, only {listed}.")

        if isinstance(wanted, Mapping):
            if not wanted or not set(wanted) <= set(_COMPARISONS):
                shown = ", ".join(map(str, wanted)) or "none"
                raise ValueError(
                    f"A comparison in where must be one of {', '.join(_COMPARISONS)}. Got "
                    f"{shown} instead."
                )
            plain[name] = {sign: _plain(limit, name, "where") for sign, limit in wanted.items()}
        else:
            is_several = isinstance(wanted, list | tuple | set | frozenset | range | np.ndarray)
            values = wanted if is_several else [wanted]
            plain[name] = [_plain(value, name, "where") for value in values]
    return plain


def _plain(value: Any, name: object, argument: str = "metadata") -> Any:
    """A value as JSON holds it, with None for a missing one."""
    plain = value
    if hasattr(value, "item") and not hasattr(value, "__len__"):  # a scalar of NumPy
        plain = value.item()
    if plain is None or type(plain).__name__ in ("NAType", "NaTType"):
        return None
    if not isinstance(plain, str | int | float | bool):
        raise TypeError(
            f"{argument} must be texts, numbers, true or false. Got {type(value).__name__} in "
            f"column {name!r} instead."
        )
    return None if plain != plain else plain  # nan: a missing number
