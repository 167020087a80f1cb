"""How estimators check their parameters: all that we use of scikit-learn's private interfaces.

scikit-learn's own estimators declare `_parameter_constraints` and decorate `fit` with
`_fit_context`; ours do the same, so that a wrong parameter gets the message that its users know.
Both are private there: they are imported here alone, and a weekly test runs against the newest
release.
"""

import re

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions

__all__ = ["DeviceName", "Interval", "InvalidParameterError", "StrOptions", "fit_context"]


class DeviceName(StrOptions):
    """Constraint of scikit-learn's kind: "cpu", "cuda", or "cuda:1" for one of several GPUs."""

    def __init__(self):
        super().__init__({"cpu", "cuda"})

    def is_satisfied_by(self, val: object) -> bool:
        return isinstance(val, str) and re.fullmatch(r"cpu|cuda(:\d+)?", val) is not None

    def __str__(self):
        return "'cpu', 'cuda' or 'cuda:<number>'"
