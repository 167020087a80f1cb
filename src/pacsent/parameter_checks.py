"""How estimators check their parameters: all that we use of scikit-learn's private interfaces.

scikit-learn's own estimators declare `_parameter_constraints` and decorate `fit` with
`_fit_context`; ours do the same, so that a wrong parameter gets the message that its users know.
Both are private there: they are imported here alone, and a weekly test runs against the newest
release.
"""

import re
from typing import Any

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions

__all__ = [
    "DeviceName",
    "Interval",
    "InvalidParameterError",
    "StrOptions",
    "check_parameters",
    "fit_context",
]


def check_parameters(estimator: Any) -> None:
    """Raise InvalidParameterError if a parameter breaks the estimator's constraints.

    `fit` does so by `fit_context`; this is for an estimator that is made in another way.
    """
    estimator._validate_params()


class DeviceName(StrOptions):
    """Constraint of scikit-learn's kind: "cpu", "cuda", or "cuda:1" for one of several GPUs."""

    def __init__(self):
        super().__init__({"cpu", "cuda"})

    def is_satisfied_by(self, val: object) -> bool:
        return isinstance(val, str) and re.fullmatch(r"cpu|cuda(:\d+)?", val) is not None

    def __str__(self):
        return "'cpu', 'cuda' or 'cuda:<number>'"
