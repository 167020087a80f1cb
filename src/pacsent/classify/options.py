"""Checks of the options of a TextClassifier: scales, sizes of n-grams, weights of classes."""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from pacsent.certify.columns import few
from pacsent.certify.labels import class_index

# With more classes than these, each is a small part of the texts, and the time of a fit is that of
# one regression per class: candidates, calibration and names of features are chosen to save it.
MAX_FEW_CLASSES = 100
# The largest scale, and the inverse of the smallest: far more, and single precision overflows.
_MAX_SCALE = 1e6


def as_scales(values: Any, name: str) -> tuple[float, ...]:
    """Candidates of a scale: positive and finite."""
    invalid = [value for value in values if not _is_scale(value)]
    if not invalid and not len(values):
        invalid = [values]
    if invalid:
        raise ValueError(
            f"{name} must be one or more numbers between {1 / _MAX_SCALE:g} and {_MAX_SCALE:g}. "
            f"Got {invalid[0]!r} instead."
        )
    return tuple(float(value) for value in values)


def _is_scale(value: Any) -> bool:
    return _is_number(value) and 1 / _MAX_SCALE <= value <= _MAX_SCALE


def check_ngram_sizes(sizes: Any, name: str = "ngrams") -> tuple[int, int]:
    """Smallest and largest number of words (or characters) of an n-gram."""
    are_integers = all(map(_is_integer, sizes))
    are_valid = are_integers and len(sizes) == 2 and 1 <= sizes[0] <= sizes[1] <= 8
    if not are_valid:
        unit = "words" if name == "ngrams" else "characters"
        raise ValueError(
            f"{name} must be the smallest and the largest number of {unit}, two integers between 1 "
            f"and 8, such as (1, 2). Got {sizes!r} instead."
        )
    return int(sizes[0]), int(sizes[1])


def apply_class_weight(
    weights: np.ndarray, class_weight: Any, classes: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """The weight of each text times that of its class, (n_texts,)."""
    if isinstance(class_weight, dict):
        factors = np.ones(classes.size)
        for label, weight in class_weight.items():
            is_valid = _is_number(weight) and 0 <= weight < math.inf
            if not is_valid:
                raise ValueError(
                    "class_weight must give each class a finite number of at least 0. Got "
                    f"{weight!r} for {label!s} instead."
                )
            factors[class_index(classes, label)] = weight
        weights = weights * factors[y]
    elif class_weight is not None:  # "balanced"
        n_of_class = np.bincount(y, minlength=classes.size)
        factors = y.size / (classes.size * n_of_class)
        weights = weights * factors[y]

    totals = np.bincount(y, weights, classes.size)  # (n_classes,)
    n_positive = (totals > 0).sum()
    if n_positive < 2 or not np.isfinite(totals).all():
        shown = few(f"{name}: {total:g}" for name, total in zip(classes, totals))
        raise ValueError(
            "sample_weight and class_weight must leave a positive and finite weight to at least "
            f"two classes. Got {shown} instead."
        )
    return weights


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
