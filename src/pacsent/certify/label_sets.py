"""Several labels per text, as an indicator matrix."""

from typing import Any, NamedTuple

import numpy as np

from pacsent.certify.labels import as_classes, as_column, as_labels, check_length, few

_SETS = (set, frozenset, list, tuple, np.ndarray)


class LabelMatrix(NamedTuple):
    """Whether each text has each label, and the labels' names; none for a matrix without names."""

    names: list | None
    has: np.ndarray  # (n, n_labels) of bool
    are_sets: bool


def label_matrix(labels: Any, n_texts: int) -> LabelMatrix | None:
    """Labels as a matrix; None where every text has one label of its own.

    Sets, lists, tuples or arrays of labels, one for each text; or an indicator matrix, a table or
    array of 0 and 1 with a column for each label (its name, or its number).
    """
    columns = getattr(labels, "column_names", None)
    columns = list(getattr(labels, "columns", []) if columns is None else columns)
    if hasattr(labels, "toarray"):  # a sparse matrix
        labels = labels.toarray()
    if len(columns) > 1 or (getattr(labels, "ndim", 1) == 2 and labels.shape[1] > 1):
        return _indicator(labels, columns, n_texts)
    values = as_column(labels, "labels")
    of_several = [isinstance(value, _SETS) for value in values]
    if not any(of_several):
        return None
    if not all(of_several):
        row = of_several.index(False)
        raise ValueError(
            "labels must be one label for each text, or one set of labels for each text. Got both "
            f"instead ({values[row]!r} in row {row:,}). Turn single labels into sets: {{label}}."
        )
    check_length(values, n_texts, "labels")
    sets = [value.tolist() if isinstance(value, np.ndarray) else list(value) for value in values]
    if (
        not any(isinstance(value, (set, frozenset)) for value in values)
        and len(set(map(len, sets))) == 1
        and len(sets[0]) > 1
        and all(type(x) in (int, bool, float) and x in (0, 1) for row in sets for x in row)
    ):
        raise ValueError(
            "labels must be clear. Got lists of 0 and 1 that are all of one length, which may be "
            "sets of labels or rows of an indicator matrix. Pass sets, or np.array(labels)."
        )
    flat = as_labels([label for label_set in sets for label in label_set])
    names = sorted(set(flat))
    place = {name: at for at, name in enumerate(names)}
    has = np.zeros((n_texts, len(names)), bool)
    of_row = np.repeat(np.arange(n_texts), [len(label_set) for label_set in sets])
    has[of_row, [place[name] for name in flat]] = True
    return LabelMatrix(names, has, True)


def _indicator(labels, columns, n_texts):
    matrix = np.asarray(labels.to_pandas() if hasattr(labels, "to_pandas") else labels)
    try:
        numbers = matrix.astype(float)
    except (TypeError, ValueError):
        numbers = np.full(matrix.shape, np.nan)
    wrong = np.argwhere((numbers != 0) & (numbers != 1))
    if wrong.size:
        row, column = wrong[0]
        shown = f"the columns {few(columns)}" if columns else f"{matrix.shape[1]} columns"
        raise ValueError(
            f"labels with {shown} must be an indicator matrix of 0 and 1. Got "
            f"{matrix[row, column]!s} in row {row:,} instead. Pass one column, or one set of "
            "labels for each text."
        )
    check_length(matrix, n_texts, "labels")
    names = as_labels(columns, name="names of labels") if columns else None
    if names and len(set(names)) < len(names):
        raise ValueError(f"Columns of labels must have different names. Got {few(names)} instead.")
    return LabelMatrix(names, numbers == 1, False)


def encoded_sets(labels: LabelMatrix) -> tuple[np.ndarray, np.ndarray]:
    """(classes, whether each text has each label): what a classifier is fitted on."""
    has = labels.has
    names = list(range(has.shape[1])) if labels.names is None else labels.names
    if len(names) < 2:
        raise ValueError(
            f"labels must have at least two different labels. Got {few(names) or 'none'} instead. "
            "For a single label, give every text one of two classes."
        )
    classes = as_classes(names)
    n_with = has.sum(axis=0)
    rare = (n_with < 2) | (len(has) - n_with < 2)
    if rare.any():
        raise ValueError(
            "Every label must have at least two texts with it and two without. Got fewer of "
            f"{few(classes[rare])} instead. Add texts, or leave the label out."
        )
    return classes, has


def known_sets(classes: Any, labels: Any, n_texts: int, n_labels: int) -> np.ndarray:
    """Whether each text has each label of `classes`, (n_texts, n_labels) of bool.

    The columns of a matrix without names are the classes in order. Without classes, any matrix is
    taken as it is.
    """
    matrix = label_matrix(labels, n_texts)
    if matrix is None or (matrix.are_sets and classes is None):
        problem = ". Got one label for each text instead."
        if matrix is not None:
            problem = ": sets need classes=, the label of each column. Got none instead."
        raise ValueError(
            f"labels must be one set of labels for each text, or a matrix of 0 and 1{problem}"
        )
    if classes is None or matrix.names is None:
        if matrix.has.shape[1] != n_labels:
            raise ValueError(
                f"labels must have a column for each of the {n_labels} labels. Got "
                f"{matrix.has.shape[1]} instead."
            )
        return matrix.has
    place = {name: at for at, name in enumerate(as_labels(classes, name="classes"))}
    if len(place) != n_labels:
        raise ValueError(
            f"classes must be {n_labels} different labels, one for each column. Got "
            f"{len(place)} instead."
        )
    unknown = [name for name in matrix.names if name not in place]
    if unknown:
        raise ValueError(
            f"labels must be among the known ones ({few(place)}). Got {few(unknown)} instead. "
            "Correct the labels, or fit again with those texts."
        )
    has = np.zeros((n_texts, n_labels), bool)
    has[:, [place[name] for name in matrix.names]] = matrix.has
    return has
