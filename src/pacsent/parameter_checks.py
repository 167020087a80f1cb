"""The values that the parameters of an estimator may have, and the message about one that is not.

An estimator declares what it takes::

    _parameter_constraints = {
        "lam": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

and decorates `fit` with `check_before`. A value must satisfy one constraint of its list: an
`Interval`, `StrOptions`, a type, `callable`, None, "boolean", "verbose", "random_state" or
"array-like". A parameter without a list may be anything. Messages have the form of scikit-learn's.
"""

import re
from collections.abc import Callable, Iterable
from functools import wraps
from numbers import Integral, Real
from typing import Any

import numpy as np


class InvalidParameterError(ValueError, TypeError):
    """A parameter of an estimator has a value that it must not have."""


class Interval:
    """Numbers of one type between two bounds, of which None is no bound.

    >>> str(Interval(Real, 0, None, closed="left"))
    'a float in the range [0.0, inf)'
    """

    def __init__(self, type: Any, left: float | None, right: float | None, *, closed: str) -> None:
        self.type = type
        self.left = -np.inf if left is None else left
        self.right = np.inf if right is None else right
        self.left_closed = closed in ("left", "both")
        self.right_closed = closed in ("right", "both")

    def allows(self, value: Any) -> bool:
        if not isinstance(value, self.type):
            return False
        above = value >= self.left if self.left_closed else value > self.left
        below = value <= self.right if self.right_closed else value < self.right
        return bool(above and below)

    def __str__(self) -> str:
        opening = "[" if self.left_closed else "("
        closing = "]" if self.right_closed else ")"
        kind = "an int" if self.type is Integral else "a float"
        left = self._format_bound(self.left)
        right = self._format_bound(self.right)
        return f"{kind} in the range {opening}{left}, {right}{closing}"

    def _format_bound(self, bound: float) -> str:
        is_exact = self.type is Integral or np.isinf(bound)
        return str(bound if is_exact else float(bound))


class StrOptions:
    """One of a few strings.

    >>> str(StrOptions({"warn", "error"}))
    "a str among {'error', 'warn'}"
    """

    def __init__(self, options: Iterable[str]) -> None:
        self.options = set(options)

    def allows(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.options

    def __str__(self) -> str:
        options = ", ".join(map(repr, sorted(self.options)))
        return f"a str among {{{options}}}"


class DeviceName(StrOptions):
    """The name of a device: "cpu", "cuda", or "cuda:1" for one of several GPUs."""

    def __init__(self) -> None:
        super().__init__({"cpu", "cuda"})

    def allows(self, value: Any) -> bool:
        return isinstance(value, str) and re.fullmatch(r"cpu|cuda(:\d+)?", value) is not None

    def __str__(self) -> str:
        return "'cpu', 'cuda' or 'cuda:<number>'"


_SEED = Interval(Integral, 0, 2**32 - 1, closed="both")


def _is_array_like(value: Any) -> bool:
    has_items = any(hasattr(value, name) for name in ("__len__", "shape", "__array__"))
    if not has_items or isinstance(value, str | bytes):
        return False
    return np.ndim(value) > 0


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_verbosity(value: Any) -> bool:
    return isinstance(value, Integral | bool | np.bool_) and int(value) >= 0


def _is_random_state(value: Any) -> bool:
    return value is None or isinstance(value, np.random.RandomState) or _SEED.allows(value)


# Further elements of a list of constraints: how a value is checked, and how a message names it.
_NAMED: dict[Any, tuple[Callable[[Any], bool], str]] = {
    None: (lambda value: value is None, "None"),
    callable: (callable, "a callable"),
    "verbose": (_is_verbosity, "an int in the range [0, inf) or a bool"),
    "boolean": (_is_bool, "a bool"),
    "array-like": (_is_array_like, "an array-like"),
    "random_state": (
        _is_random_state,
        f"{_SEED}, an instance of 'numpy.random.RandomState' or None",
    ),
}


def _allows(constraint: Any, value: Any) -> bool:
    if isinstance(constraint, Interval | StrOptions):
        return constraint.allows(value)
    if isinstance(constraint, type):
        return isinstance(value, constraint)
    is_allowed, _ = _NAMED[constraint]
    return is_allowed(value)


def _name(constraint: Any) -> str:
    if isinstance(constraint, Interval | StrOptions):
        return str(constraint)
    if constraint in (Integral, Real):
        return "an int" if constraint is Integral else "a float"
    if isinstance(constraint, type):
        name = constraint.__qualname__
        if constraint.__module__ != "builtins":
            name = f"{constraint.__module__}.{name}"
        return f"an instance of '{name}'"
    _, name = _NAMED[constraint]
    return name


def check_parameters(estimator: Any) -> None:
    """Raise InvalidParameterError if a parameter breaks the estimator's constraints."""
    for name, value in estimator.get_params(deep=False).items():
        constraints = estimator._parameter_constraints.get(name, "no_validation")
        if constraints == "no_validation":
            continue
        if any(_allows(constraint, value) for constraint in constraints):
            continue

        *others, last = map(_name, constraints)
        allowed = f"{', '.join(others)} or {last}" if others else last
        raise InvalidParameterError(
            f"The {name!r} parameter of {type(estimator).__name__} must be {allowed}. "
            f"Got {value!r} instead."
        )


def check_before(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method of an estimator, such as `fit`: `check_parameters` is called before it."""

    @wraps(method)
    def checked(self: Any, *arguments: Any, **named: Any) -> Any:
        check_parameters(self)
        return method(self, *arguments, **named)

    return checked
