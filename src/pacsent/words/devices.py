"""Where work is done: the names that `device` takes."""

import re

from sklearn.utils._param_validation import StrOptions


class DeviceName(StrOptions):
    """Constraint of scikit-learn's kind: "cpu", "cuda", or "cuda:1" for one of several GPUs.

    Examples
    --------
    >>> [DeviceName().is_satisfied_by(name) for name in ("cpu", "cuda:1", "tpu", None)]
    [True, True, False, False]
    """

    def __init__(self):
        super().__init__({"cpu", "cuda"})

    def is_satisfied_by(self, val: object) -> bool:
        return isinstance(val, str) and re.fullmatch(r"cpu|cuda(:\d+)?", val) is not None

    def __str__(self):
        return "'cpu', 'cuda' or 'cuda:<number>'"
