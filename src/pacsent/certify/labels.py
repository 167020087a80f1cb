"""Labels, parsed once: one class for each row, or a set of labels for each row.

`Labels.parse` reads what users pass to `fit`, in any form; `of_classes` reads labels of rows that a
classifier is judged on, whose classes are known. What is inside works on `ClassLabels` or
`LabelSets`, which have the same methods.
"""

import difflib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from pacsent.certify.columns import (
    as_column,
    as_groups,
    check_length,
    few,
    known_values,
    warn_caller,
)
from pacsent.text.rows import select_rows

# Kinds of labels, and what makes plain values of them.
_PLAIN: tuple = (
    (str, str.__str__),
    ((bool, np.bool_), bool),
    (Integral, int),
    ((float, np.floating), float),
)
_SETS = (set, frozenset, list, tuple, np.ndarray)


@dataclass(frozen=True, eq=False)
class Labels(ABC):
    """The right answers for some rows, encoded by classes.

    Attributes
    ----------
    classes : array, (n_classes,)
    encoded : array
        The class index of each row, (n,); of sets of labels whether each row has each label,
        (n, n_classes) of bool.
    groups : array, (n,), or None
        The number of each row's group, where groups were given.
    """

    classes: np.ndarray
    encoded: np.ndarray
    groups: np.ndarray | None = None

    is_multilabel: ClassVar[bool]
    dtype: ClassVar[type]  # of `encoded`

    @staticmethod
    @abstractmethod
    def encoded_shape(n_rows: int, n_classes: int) -> tuple[tuple[int, ...], int]:
        """(shape of `encoded`, number of values that it may have)."""

    @staticmethod
    def parse(y: Any, n_texts: int, *, refuse_sets: str | None = None) -> "Labels":
        """Read labels to fit on: a column with one label for each text, sets, or an indicator.

        Each class must have enough texts to be learnt. `refuse_sets` is the error message for
        several labels per text, where there may be only one.

        >>> labels = Labels.parse(["no", "yes", "no", "yes"], 4)
        >>> labels.classes.tolist(), labels.encoded.tolist()
        (['no', 'yes'], [0, 1, 0, 1])
        >>> Labels.parse([{"a", "b"}, {"a"}, {"b"}, set()], 4).encoded.astype(int).tolist()
        [[1, 1], [1, 0], [0, 1], [0, 0]]
        """
        read = _matrix_or_column(y, n_texts)
        if isinstance(read, list):
            return ClassLabels.of_column(read, n_texts)
        if refuse_sets is not None:
            raise ValueError(refuse_sets)
        return LabelSets.of_matrix(read, y)

    @classmethod
    @abstractmethod
    def of_classes(cls, classes: np.ndarray, y: Any, n_texts: int) -> Self:
        """Read labels of texts that a classifier with these classes is judged on."""

    @classmethod
    @abstractmethod
    def of_answers(cls, classes: np.ndarray, answers: Any, groups: np.ndarray | None) -> Self:
        """The labels of which these are the `answers`."""

    @property
    @abstractmethod
    def target_type(self) -> str:
        """One of "classes", "sets" and "indicator": the form in which labels are predicted."""

    @property
    @abstractmethod
    def answers(self) -> Any:
        """The answers that certificates count: a list of classes, or a matrix of bool for sets."""

    @abstractmethod
    def is_correct(self, predictions: np.ndarray) -> np.ndarray:
        """True for rows that are predicted exactly right, (n,); of sets a matrix is predicted."""

    @staticmethod
    @abstractmethod
    def have_any(encoded: np.ndarray, is_chosen: np.ndarray) -> np.ndarray:
        """True for encoded rows that have one of the classes that `is_chosen`, (n_classes,)."""

    @abstractmethod
    def learnable(self, rows: np.ndarray) -> tuple[np.ndarray, Self]:
        """Those of some rows that can be learnt from, and their labels, without other classes."""

    @abstractmethod
    def training_rows(
        self, rows: np.ndarray, calibration_size: Any, clusters: np.ndarray
    ) -> np.ndarray:
        """The rows that can be learnt from, of those that were not held out."""

    @abstractmethod
    def targets(self, rows: np.ndarray, *, as_given: bool) -> Any:
        """The targets that an estimator is fitted on: classes, or a matrix of 0 and 1.

        With `as_given`, sets of labels are in the form that they were given in.
        """

    @abstractmethod
    def estimator_classes(self, estimator: Any, rows: np.ndarray) -> np.ndarray:
        """The class of each column of an estimator that was fitted on these rows."""

    def with_groups(self, groups: Any) -> Self:
        """The same labels, with the groups of the rows."""
        return replace(self, groups=as_groups(groups, len(self)))

    def select(self, rows: np.ndarray) -> Self:
        """The labels and groups of some rows."""
        groups = None if self.groups is None else self.groups[rows]
        return replace(self, encoded=self.encoded[rows], groups=groups)

    def __len__(self) -> int:
        return len(self.encoded)


@dataclass(frozen=True, eq=False)
class ClassLabels(Labels):
    """One class for each row."""

    is_multilabel = False
    dtype = np.int64
    target_type = "classes"

    @staticmethod
    def encoded_shape(n_rows: int, n_classes: int) -> tuple[tuple[int, ...], int]:
        return (n_rows,), n_classes

    @classmethod
    def of_column(cls, y: Any, n_texts: int) -> Self:
        """Read a column of labels to fit on."""
        values = as_labels(y, n_texts)
        names = sorted(set(values))
        if len(names) < 2:
            only_name = few(names) or "none"
            raise ValueError(
                f"labels must have at least two classes. Got {only_name} instead. Add texts."
            )

        classes = as_classes(names)
        encoded = _encode(classes, values)
        counts = np.bincount(encoded)
        is_rare = counts < 2
        if (~is_rare).sum() < 2:
            rare_classes = few(classes[is_rare])
            raise ValueError(
                "Two classes must have at least two texts each. Got one text of "
                f"{rare_classes} instead. Add texts."
            )
        _warn_of_spellings(names)
        return cls(classes, encoded)

    @classmethod
    def of_classes(cls, classes: np.ndarray, y: Any, n_texts: int) -> Self:
        """Read a column; other labels become further classes, if some label is of these classes."""
        values = as_labels(y, n_texts)
        names = classes.tolist()
        occurring = set(values)
        new_names = occurring.difference(names)
        if new_names and not occurring.isdisjoint(names):
            classes = as_classes([*names, *sorted(new_names)])
        return cls(classes, _encode(classes, values))

    @classmethod
    def of_answers(cls, classes: np.ndarray, answers: Any, groups: np.ndarray | None) -> Self:
        return cls(classes, class_indices(classes, answers), groups)

    @property
    def answers(self) -> list:
        names = self.classes.tolist()
        return [names[index] for index in self.encoded]

    def is_correct(self, predictions: np.ndarray) -> np.ndarray:
        return predictions == self.classes[self.encoded]

    @staticmethod
    def have_any(encoded: np.ndarray, is_chosen: np.ndarray) -> np.ndarray:
        return is_chosen[encoded]

    def learnable(self, rows: np.ndarray) -> tuple[np.ndarray, Self]:
        learnable_rows = self._learnable_rows(rows)
        occurring, encoded = np.unique(self.encoded[learnable_rows], return_inverse=True)
        selected = self.select(learnable_rows)
        labels = replace(selected, classes=self.classes[occurring], encoded=encoded)
        return learnable_rows, labels

    def training_rows(
        self, rows: np.ndarray, calibration_size: Any, clusters: np.ndarray
    ) -> np.ndarray:
        # held-out texts of a class that is left out count as errors
        learnable_rows = self._learnable_rows(rows)
        n_classes = np.unique(self.encoded[learnable_rows]).size
        if n_classes < 2:
            n_clusters = np.unique(clusters).size
            raise ValueError(
                "calibration_size must leave at least two texts of two classes. Got "
                f"{calibration_size!r} for {n_clusters:,} texts that are no "
                "near-duplicates, which are held out together. Hold out less, or add texts."
            )
        return learnable_rows

    def _learnable_rows(self, rows: np.ndarray) -> np.ndarray:
        """Rows of classes with at least two texts: no other one can be learnt and checked."""
        counts = np.bincount(self.encoded[rows], minlength=self.classes.size)
        is_rare = counts < 2
        if is_rare.any():
            rare_classes = few(self.classes[is_rare])
            warn_caller(
                f"Classes with fewer than two training texts are never predicted: "
                f"{rare_classes} ({is_rare.sum():,} of {self.classes.size:,}). Add texts."
            )
        has_rare_class = is_rare[self.encoded[rows]]
        return rows[~has_rare_class]

    def targets(self, rows: np.ndarray, *, as_given: bool) -> np.ndarray:
        return self.classes[self.encoded[rows]]

    def estimator_classes(self, estimator: Any, rows: np.ndarray) -> np.ndarray:
        occurring = np.unique(self.encoded[rows])
        return classes_of(estimator, None, self.classes[occurring])


@dataclass(frozen=True, eq=False)
class LabelSets(Labels):
    """A set of labels for each row, as an indicator matrix."""

    are_sets: bool = True  # whether they were given as sets, not as a matrix
    given: Any = None  # the labels to fit on, in the form in which they were given

    is_multilabel = True
    dtype = np.bool_

    @staticmethod
    def encoded_shape(n_rows: int, n_classes: int) -> tuple[tuple[int, ...], int]:
        return (n_rows, n_classes), 2

    @classmethod
    def of_matrix(cls, matrix: "LabelMatrix", given: Any) -> Self:
        """Sets of labels to fit on."""
        has = matrix.has
        names = matrix.column_names
        if len(names) < 2:
            only_name = few(names) or "none"
            raise ValueError(
                f"labels must have at least two different labels. Got {only_name} "
                "instead. For a single label, give every text one of two classes."
            )

        classes = as_classes(names)
        n_with = has.sum(axis=0)
        n_without = len(has) - n_with
        is_rare = np.minimum(n_with, n_without) < 2
        if is_rare.any():
            rare_labels = few(classes[is_rare])
            raise ValueError(
                "Every label must have at least two texts with it and two without. Got fewer of "
                f"{rare_labels} instead. Add texts, or leave the label out."
            )
        return cls(classes, has, are_sets=matrix.are_sets, given=given)

    @classmethod
    def of_classes(cls, classes: np.ndarray, y: Any, n_texts: int) -> Self:
        """Read sets or a matrix, whose columns are the classes in order if they have no names."""
        return cls(classes, to_indicator(classes, y, n_texts, len(classes)))

    @classmethod
    def of_answers(cls, classes: np.ndarray, answers: Any, groups: np.ndarray | None) -> Self:
        return cls(classes, answers, groups)

    @property
    def target_type(self) -> str:
        return "sets" if self.are_sets else "indicator"

    @property
    def answers(self) -> np.ndarray:
        return self.encoded

    def select(self, rows: np.ndarray) -> Self:
        return replace(super().select(rows), given=None)

    def is_correct(self, predictions: np.ndarray) -> np.ndarray:
        return (predictions == self.encoded).all(axis=1)

    @staticmethod
    def have_any(encoded: np.ndarray, is_chosen: np.ndarray) -> np.ndarray:
        return np.asarray(encoded[:, is_chosen].any(axis=1))

    def learnable(self, rows: np.ndarray) -> tuple[np.ndarray, Self]:
        return rows, self.select(rows)

    def training_rows(
        self, rows: np.ndarray, calibration_size: Any, clusters: np.ndarray
    ) -> np.ndarray:
        has = self.encoded[rows]
        n_with = has.sum(axis=0)
        n_without = (~has).sum(axis=0)
        is_rare = np.minimum(n_with, n_without) < 2
        if is_rare.any():
            rare_labels = few(self.classes[is_rare])
            raise ValueError(
                "calibration_size must leave at least two texts with each label, and two "
                f"without. {rare_labels} has fewer left. Hold out less, or add texts."
            )
        return rows

    def targets(self, rows: np.ndarray, *, as_given: bool) -> Any:
        if not as_given:
            return self.encoded[rows].astype(int)
        given = self.given if hasattr(self.given, "shape") else list(self.given)
        return select_rows(given, rows)

    def estimator_classes(self, estimator: Any, rows: np.ndarray) -> np.ndarray:
        return self.classes


def label_type(classifier: Any) -> type[Labels]:
    """`LabelSets` for a classifier that gives sets of labels, `ClassLabels` for any other."""
    return LabelSets if is_multilabel(classifier) else ClassLabels


def names_and_target_type(y: Any, n_texts: int) -> tuple[list, str]:
    """The labels that occur in y, and the target type of a classifier that predicts such."""
    matrix = parse_sets(y, n_texts)
    if matrix is None:
        return as_labels(y, n_texts, "y"), "classes"
    names = as_labels(matrix.column_names, name="y")
    target_type = "sets" if matrix.are_sets else "indicator"
    return names, target_type


def is_multilabel(classifier: Any) -> bool:
    """Test for a classifier that gives sets of labels."""
    return getattr(classifier, "target_type_", "classes") != "classes"


# ---- one class for each row ----------------------------------------------------------------------


def as_labels(labels: Any, n_texts: int | None = None, name: str = "labels") -> list:
    """Labels as a list of str, int, bool or float that are equal to what was passed.

    There must be `n_texts` of them; error messages call them `name`.
    """
    values = known_values(labels, n_texts, name)
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


def _plain(value: Any, row: int, name: str) -> Any:
    """A label of a subclass (an Enum, a NumPy scalar) as the plain value that is equal to it."""
    for kinds, make in _PLAIN:
        if isinstance(value, kinds):
            plain = make(value)
            if plain == value:
                return plain

    shown = str(value)[:40]
    as_string = "y.decode()" if isinstance(value, bytes) else "str(y)"
    raise ValueError(
        f"{name} must be strings, integers, booleans or finite floats, all of one kind. Got "
        f"{type(value).__name__} {shown!r} in row {row:,} instead. Turn them into "
        f"strings: [{as_string} for y in {name}]"
    )


def _warn_of_spellings(names: list) -> None:
    """Warn of classes whose names differ in case or spaces only."""
    name_of_spelling: dict[str, Any] = {}
    variants = []
    for name in names:
        spelling = str(name).strip().casefold()
        other = name_of_spelling.setdefault(spelling, name)
        if other is not name:
            variants.append(f"{name!r} and {other!r}")
    if variants:
        warn_caller(
            f"Labels that differ in case or spaces only are different classes: {few(variants)}. "
            "Write them alike if they are one."
        )


def as_classes(names: list) -> np.ndarray:
    """Different labels as an array that holds each of them exactly."""
    types = set(map(type, names))
    dtype: Any = None
    if {int} <= types <= {int, bool}:
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


def _survives(name: Any) -> bool:
    """Test for a label that an array can hold."""
    if isinstance(name, str):
        as_stored = name.encode("utf-8", "replace").decode().rstrip("\0")
        return name == as_stored
    return -(2**63) <= name < 2**64


def class_indices(classes: np.ndarray, labels: Any, n_texts: int | None = None) -> np.ndarray:
    """The index of each label among the classes of a classifier, (n,)."""
    return _encode(classes, as_labels(labels, n_texts))


def _encode(classes: np.ndarray, values: list) -> np.ndarray:
    """`class_indices` of labels that `as_labels` has read."""
    index_of = {name: index for index, name in enumerate(classes.tolist())}
    unknown = {value for value in values if value not in index_of}
    if unknown:
        unknown_names = few(sorted(unknown, key=str))
        raise ValueError(
            f"labels must be among the classes of training ({few(classes)}). Got {unknown_names} "
            "instead. Correct the labels, or fit again with those texts."
        )

    indices = (index_of[value] for value in values)
    return np.fromiter(indices, np.int64, len(values))


def class_index(classes: np.ndarray, label: Any) -> int:
    """The index of one label among the classes of a classifier."""
    (name,) = as_labels([label], name="label")
    names = classes.tolist()
    if name in names:
        return names.index(name)

    name_of_spelling = {str(other).casefold(): other for other in names}
    alike = difflib.get_close_matches(str(name).casefold(), name_of_spelling, n=1)
    message = f"label must be a fitted class ({few(classes)}). Got {name} instead."
    if alike:
        message += f" Did you mean {name_of_spelling[alike[0]]}?"
    raise ValueError(message)


def classes_of(estimator: Any, given: Any, labels: Sequence | np.ndarray) -> np.ndarray:
    """The classes in the order of columns: the estimator's own, the given, or those that occur."""
    own = getattr(estimator, "classes_", None)
    if own is None:
        own = sorted(set(labels)) if given is None else as_column(given, "classes")
    elif given is not None and list(given) != np.asarray(own).tolist():
        raise ValueError(
            f"classes must be those of the estimator ({few(own)}), or None. Got {few(given)} "
            "instead."
        )

    classes = np.asarray(own)
    are_different = classes.ndim == 1 and len(set(classes.tolist())) == len(classes)
    if not are_different or len(classes) < 2:
        raise ValueError(
            f"classes must be at least two different labels. Got {few(classes.tolist())} instead."
        )
    return classes


# ---- a set of labels for each row ----------------------------------------------------------------


class LabelMatrix(NamedTuple):
    """Sets of labels before their classes are known."""

    names: list | None  # of the labels; None for a matrix without names
    has: np.ndarray  # (n, n_labels) of bool
    are_sets: bool

    @property
    def column_names(self) -> list:
        """The label of each column: its name, or its number."""
        if self.names is None:
            return list(range(self.has.shape[1]))
        return self.names

    def columns(self, classes: Any, n_labels: int) -> np.ndarray:
        """Whether each text has each label of `classes`, (n, n_labels) of bool.

        Without classes, or without names, the matrix is taken as it is.
        """
        if self.are_sets and classes is None:
            raise ValueError(
                "labels must be one set of labels for each text, or a matrix of 0 and 1: sets need "
                "classes=, the label of each column. Got none instead."
            )
        if classes is None or self.names is None:
            n_columns = self.has.shape[1]
            if n_columns != n_labels:
                raise ValueError(
                    f"labels must have a column for each of the {n_labels} labels. Got "
                    f"{n_columns} instead."
                )
            return self.has

        class_names = as_labels(classes, name="classes")
        column_of = {name: column for column, name in enumerate(class_names)}
        if len(column_of) != n_labels:
            raise ValueError(
                f"classes must be {n_labels} different labels, one for each column. Got "
                f"{len(column_of)} instead."
            )
        unknown = [name for name in self.names if name not in column_of]
        if unknown:
            raise ValueError(
                f"labels must be among the known ones ({few(column_of)}). Got {few(unknown)} "
                "instead. Correct the labels, or fit again with those texts."
            )

        columns = [column_of[name] for name in self.names]
        has = np.zeros((len(self.has), n_labels), bool)
        has[:, columns] = self.has
        return has


def parse_sets(labels: Any, n_texts: int) -> LabelMatrix | None:
    """Labels as a matrix; None where every text has one label of its own.

    Sets, lists, tuples or arrays of labels, one for each text; or an indicator matrix, a table or
    array of 0 and 1 with a column for each label (its name, or its number).
    """
    read = _matrix_or_column(labels, n_texts)
    return None if isinstance(read, list) else read


def _matrix_or_column(labels: Any, n_texts: int) -> LabelMatrix | list:
    """`parse_sets`; where every text has one label of its own, the column, not checked."""
    column_names = getattr(labels, "column_names", None)
    if column_names is None:
        column_names = getattr(labels, "columns", [])
    column_names = list(column_names)
    if hasattr(labels, "toarray"):  # a sparse matrix
        labels = labels.toarray()
    has_columns = getattr(labels, "ndim", 1) == 2 and labels.shape[1] > 1
    if len(column_names) > 1 or has_columns:
        return _parse_indicator(labels, column_names, n_texts)

    values = as_column(labels, "labels")
    is_set = [isinstance(value, _SETS) for value in values]
    if not any(is_set):
        return values
    if not all(is_set):
        row = is_set.index(False)
        raise ValueError(
            "labels must be one label for each text, or one set of labels for each text. Got both "
            f"instead ({values[row]!r} in row {row:,}). Turn single labels into sets: {{label}}."
        )
    check_length(values, n_texts, "labels")
    return _matrix_of_sets(values)


def _matrix_of_sets(values: list) -> LabelMatrix:
    """The matrix of one set, list, tuple or array of labels for each text."""
    sets = [value.tolist() if isinstance(value, np.ndarray) else list(value) for value in values]
    may_be_rows = not any(isinstance(value, (set, frozenset)) for value in values)
    if may_be_rows and _look_like_indicator_rows(sets):
        raise ValueError(
            "labels must be clear. Got lists of 0 and 1 that are all of one length, which may be "
            "sets of labels or rows of an indicator matrix. Pass sets, or np.array(labels)."
        )

    flat = as_labels([label for label_set in sets for label in label_set])
    names = sorted(set(flat))
    column_of_name = {name: column for column, name in enumerate(names)}

    # Each label of a text is one entry of the matrix.
    sizes = [len(label_set) for label_set in sets]
    rows = np.repeat(np.arange(len(sets)), sizes)
    columns = [column_of_name[name] for name in flat]
    has = np.zeros((len(sets), len(names)), bool)
    has[rows, columns] = True
    return LabelMatrix(names, has, are_sets=True)


def _look_like_indicator_rows(sets: list[list]) -> bool:
    """Test for lists of one length above one, of zeros and ones only."""
    lengths = set(map(len, sets))
    if len(lengths) > 1 or len(sets[0]) < 2:
        return False
    return all(
        type(value) in (int, bool, float) and value in (0, 1) for row in sets for value in row
    )


def _parse_indicator(labels: Any, columns: list, n_texts: int) -> LabelMatrix:
    """An indicator matrix of 0 and 1, with the names of its columns if it has any."""
    table = labels.to_pandas() if hasattr(labels, "to_pandas") else labels
    matrix = np.asarray(table)
    try:
        numbers = matrix.astype(float)
    except (TypeError, ValueError):
        numbers = np.full(matrix.shape, np.nan)

    is_wrong = (numbers != 0) & (numbers != 1)
    if is_wrong.any():
        row, column = np.argwhere(is_wrong)[0]
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
    return LabelMatrix(names, numbers == 1, are_sets=False)


def to_indicator(classes: Any, labels: Any, n_texts: int, n_labels: int) -> np.ndarray:
    """Whether each text has each label of `classes`, (n_texts, n_labels) of bool.

    The columns of a matrix without names are the classes in order. Without classes, any matrix is
    taken as it is.
    """
    matrix = parse_sets(labels, n_texts)
    if matrix is None:
        raise ValueError(
            "labels must be one set of labels for each text, or a matrix of 0 and 1. Got one label "
            "for each text instead."
        )
    return matrix.columns(classes, n_labels)
