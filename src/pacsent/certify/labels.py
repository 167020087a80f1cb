"""Checks of what users pass to a classifier: labels, groups, weights and options."""

import difflib
import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

_LARGEST = 1e6  # of a scale or its inverse: far more, and single precision overflows
# Kinds of labels, and what makes plain values of them.
_PLAIN: tuple = (
    (str, str.__str__),
    ((bool, np.bool_), bool),
    (Integral, int),
    ((float, np.floating), float),
)


def as_column(values: Any, name: str) -> list:
    """The values of a list, array, Series, one-column table or iterable, as they are."""
    values, rule = counted(values, name), f"{name} must be a list, an array or a column."
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
        values = np.asarray(values.toarray() if hasattr(values, "toarray") else values)[:, 0]
    if isinstance(values, np.ndarray):  # tolist would turn dates into numbers
        return values.tolist() if values.dtype.kind in "biufUO" else list(values)
    for to_list in ("to_pylist", "tolist", "to_list"):  # Arrow, pandas, polars
        if hasattr(values, to_list):
            return getattr(values, to_list)()
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"{rule} Got {str(values)[:40]!r} instead.") from None


def as_labels(labels: Any, n_texts: int | None = None, name: str = "labels") -> list:
    """Labels as a list of str, int, bool or float that are equal to what was passed.

    There must be `n_texts` of them; error messages call them `name`.
    """
    values = _known_values(labels, n_texts, name)
    types = set(map(type, values))
    if not types <= {str, int, bool, float}:
        values = [_plain(value, row, name) for row, value in enumerate(values)]
        types = set(map(type, values))
    if str in types and len(types) > 1:
        number = next(value for value in values if type(value) is not str)
        raise ValueError(
            f"{name} must be all strings or all numbers. Got both instead (strings, and "
            f"{type(number).__name__} {number!r}). Turn them into strings: [str(y) for y in "
            f"{name}]"
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


def _known_values(values, n_texts, name):
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


def _plain(value, row, name):
    """A label of a subclass (an Enum, a NumPy scalar) as the plain value that is equal to it."""
    for kinds, make in _PLAIN:
        if isinstance(value, kinds) and make(value) == value:
            return make(value)
    as_string = "y.decode()" if isinstance(value, bytes) else "str(y)"
    raise ValueError(
        f"{name} must be strings, integers, booleans or finite floats, all of one kind. Got "
        f"{type(value).__name__} {str(value)[:40]!r} in row {row:,} instead. Turn them into "
        f"strings: [{as_string} for y in {name}]"
    )


def encoded_labels(labels: Any, texts: Sequence) -> tuple[np.ndarray, np.ndarray]:
    """(classes, the position of each text's class): what a classifier is fitted on."""
    values = as_labels(labels, len(texts))
    names = sorted(set(values))
    if len(names) < 2:
        raise ValueError(
            f"labels must have at least two classes. Got {few(names) or 'none'} instead. Add texts."
        )
    classes = as_classes(names)
    y = positions(classes, values)
    if (np.bincount(y) >= 2).sum() < 2:
        raise ValueError(
            "Two classes must have at least two texts each. Got one text of "
            f"{few(classes[np.bincount(y) < 2])} instead. Add texts."
        )
    spellings: dict[str, Any] = {}
    variants = []
    for name in names:
        other = spellings.setdefault(str(name).strip().casefold(), name)
        if other is not name:
            variants.append(f"{name!r} and {other!r}")
    if variants:
        warn_caller(
            f"Labels that differ in case or spaces only are different classes: {few(variants)}. "
            "Write them alike if they are one."
        )
    return classes, y


def learnable_rows(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Rows of classes with at least two texts: no other one can be learnt and checked."""
    counts = np.bincount(y, minlength=classes.size)
    if (counts < 2).any():
        warn_caller(
            f"Classes with fewer than two training texts are never predicted: "
            f"{few(classes[counts < 2])} ({(counts < 2).sum():,} of {classes.size:,}). Add texts."
        )
    return np.flatnonzero(counts[y] >= 2)


def warn_caller(message: str) -> None:
    """Warn at the line outside this package and scikit-learn that the call came from."""
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_globals["__name__"].startswith(("pacsent.", "sklearn.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def as_classes(names: list) -> np.ndarray:
    """Different labels as an array that holds each of them exactly."""
    dtype: Any = None
    if {int} <= set(map(type, names)) <= {int, bool}:
        dtype = np.int64 if max(names) < 2**63 else np.uint64
    try:
        classes = np.array(names, dtype)
        if classes.dtype.kind == "U":
            "".join(names).encode()
        is_finite = classes.dtype.kind != "f" or np.isfinite(classes).all()
        survives = is_finite and classes.tolist() == names
    except (OverflowError, UnicodeEncodeError):
        survives = False
    if not survives:
        changed = next((name for name in names if not _survives(name)), names[0])
        raise ValueError(
            "labels must be valid Unicode that does not end with a null character, integers of 64 "
            f"bits, or finite numbers. Got {changed!r} instead. Give this class another name."
        )
    return classes


def _survives(name) -> bool:
    if isinstance(name, str):
        return not name.endswith("\0") and name == name.encode("utf-8", "replace").decode()
    return -(2**63) <= name < 2**64


def positions(classes: np.ndarray, labels: Any, n_texts: int | None = None) -> np.ndarray:
    """Where each label is among the classes of a classifier, (n,)."""
    place = {name: at for at, name in enumerate(classes.tolist())}
    values = as_labels(labels, n_texts)
    unknown = sorted({value for value in values if value not in place}, key=str)
    if unknown:
        raise ValueError(
            f"labels must be among the classes of training ({few(classes)}). Got {few(unknown)} "
            "instead. Correct the labels, or fit again with those texts."
        )
    return np.fromiter((place[value] for value in values), np.int64, len(values))


def with_other_labels(classes: np.ndarray, labels: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """(classes and, after them, other labels; positions). Some label must be one of the classes."""
    values, known = as_labels(labels, n), set(classes.tolist())
    if not known.isdisjoint(values) and not known.issuperset(values):
        classes = as_classes([*classes.tolist(), *sorted(set(values) - known)])
    return classes, positions(classes, values)


def position(classes: np.ndarray, label: Any) -> int:
    """Where one class is among the classes of a classifier."""
    name = as_labels([label], name="label")[0]
    if name not in classes.tolist():
        spellings = {str(c).casefold(): c for c in classes.tolist()}
        alike = difflib.get_close_matches(str(name).casefold(), spellings, n=1)
        advice = f" Did you mean {spellings[alike[0]]}?" if alike else ""
        message = f"label must be a fitted class ({few(classes)}). Got {name} instead."
        raise ValueError(message + advice)
    return classes.tolist().index(name)


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


def as_groups(groups: Any, n_texts: int) -> np.ndarray | None:
    """The number of each text's group, (n_texts,); None where there are no groups.

    Groups may be of any kind that can be compared and hashed, such as dates.
    """
    if groups is None:
        return None
    values = _known_values(groups, n_texts, "groups")
    try:
        number = {group: at for at, group in enumerate(dict.fromkeys(values))}
    except TypeError as error:
        raise ValueError(f"groups must be names, numbers or dates. Got others ({error}).") from None
    return np.array([number[group] for group in values])


def counted(values: Any, name: str = "labels") -> Any:
    """A list of what an iterator gives; anything else that is in memory as it is."""
    if hasattr(values, "collect_schema") and not hasattr(values, "__len__"):
        raise TypeError(f"{name} must be in memory. Got a LazyFrame instead. Collect it first.")
    return list(values) if isinstance(values, Iterator) else values


def class_weighted(
    weights: np.ndarray, class_weight: Any, classes: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """The weight of each text times that of its class, (n_texts,)."""
    if isinstance(class_weight, dict):
        factors = np.ones(classes.size)
        for label, weight in class_weight.items():
            if not (_is_number(weight) and 0 <= weight < math.inf):
                raise ValueError(
                    "class_weight must give each class a finite number of at least 0. Got "
                    f"{weight!r} for {label!s} instead."
                )
            factors[position(classes, label)] = weight
        weights = weights * factors[y]
    elif class_weight is not None:  # "balanced"
        weights = weights * (y.size / (classes.size * np.bincount(y, minlength=classes.size)))[y]
    total = np.bincount(y, weights, classes.size)
    if (total > 0).sum() < 2 or not np.isfinite(total).all():
        raise ValueError(
            "sample_weight and class_weight must leave a positive and finite weight to at least "
            f"two classes. Got {few(f'{name}: {sum_:g}' for name, sum_ in zip(classes, total))} "
            "instead."
        )
    return weights


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


def _is_number(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))


def as_scales(values: Any, name: str) -> tuple[float, ...]:
    """Candidates of a scale: positive and finite."""
    wrong = [v for v in values if not (_is_number(v) and 1 / _LARGEST <= v <= _LARGEST)]
    if wrong or not len(values):
        raise ValueError(
            f"{name} must be one or more numbers between {1 / _LARGEST:g} and {_LARGEST:g}. Got "
            f"{(wrong or [values])[0]!r} instead."
        )
    return tuple(float(value) for value in values)


def as_ngram_sizes(sizes: Any, name: str = "ngrams") -> tuple[int, int] | None:
    """Smallest and largest number of words (or characters) of an n-gram; None for "auto"."""
    if isinstance(sizes, str):
        return None
    whole = all(isinstance(size, Integral) and not isinstance(size, bool) for size in sizes)
    if not (whole and len(sizes) == 2 and 1 <= sizes[0] <= sizes[1] <= 8):
        unit = "words" if name == "ngrams" else "characters"
        raise ValueError(
            f"{name} must be the smallest and the largest number of {unit}, two integers between 1 "
            f"and 8, such as (1, 2). Got {sizes!r} instead."
        )
    return int(sizes[0]), int(sizes[1])
