"""Checks of numbers that bounds and certificates are given: counts and probabilities."""

import numbers

import numpy as np


def is_count(value: object, least: int = 0) -> bool:
    """True for an integer of at least `least`; True and False are none."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return bool(is_integer and value >= least)  # type: ignore[operator]


def are_counts(values: object, size: int) -> bool:
    """True for a list or tuple of `size` integers of at least 0."""
    if not isinstance(values, list | tuple) or len(values) != size:
        return False
    return all(is_count(value) for value in values)


def is_number(value: object) -> bool:
    """True for a finite real number; True and False are none."""
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    return bool(is_real and np.isfinite(float(value)))  # type: ignore[arg-type]


def check_count(name: str, value: object, least: int = 1) -> int:
    """The value as int, or a ValueError that names it."""
    if not is_count(value, least):
        raise ValueError(f"{name} must be an integer of at least {least}. Got {value!r} instead.")
    return int(value)  # type: ignore[call-overload]


def check_probability(name: str, value: object) -> float:
    """The value as float, or a ValueError where it is not strictly between 0 and 1."""
    if not is_number(value) or not 0 < value < 1:  # type: ignore[operator]
        raise ValueError(f"{name} must be strictly between 0 and 1. Got {value!r} instead.")
    return float(value)  # type: ignore[arg-type]
