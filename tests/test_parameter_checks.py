"""Which values of parameters are allowed, and what is said about others: as scikit-learn does."""

from numbers import Integral, Real

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from pacsent.parameter_checks import (
    DeviceName,
    Interval,
    InvalidParameterError,
    StrOptions,
    check_before,
    check_parameters,
)


class Estimator(BaseEstimator):
    def __init__(self, value=None):
        self.value = value

    @check_before
    def fit(self, X):
        self.fitted_ = X
        return self


def estimator(value, *constraints):
    made = Estimator(value)
    made._parameter_constraints = {"value": list(constraints)}
    return made


POSITIVE = Interval(Real, 0, None, closed="neither")
SHARE = Interval(Real, 0, 1, closed="both")


@pytest.mark.parametrize(
    ("constraint", "allowed", "refused"),
    [
        (POSITIVE, [1, 0.5, np.float32(2), np.int64(3), 1e300], [0, -1, np.inf, np.nan, "1", None]),
        (SHARE, [0, 1, 0.5], [-1e-9, 1.1, np.nan]),
        (Interval(Integral, 1, None, closed="left"), [1, np.int32(7)], [0, 1.0, "1"]),
        (Interval(Real, 0, None, closed="right"), [0.1, np.inf], [0, np.nan]),
        (StrOptions({"warn", "error"}), ["warn"], ["Warn", None, 1, []]),
        (DeviceName(), ["cpu", "cuda", "cuda:1"], ["cuda:", "gpu", 0]),
        (Integral, [3, np.int64(3)], [3.0, "3"]),
        (str, ["x"], [b"x", None]),
        (callable, [len], ["len"]),
        (None, [None], [0, "", False]),
        ("verbose", [0, 2, True, np.False_], [-1, "1", None]),
        ("boolean", [True, np.False_], [0, 1, None, "true"]),
        ("random_state", [0, 2**32 - 1, None, np.random.RandomState(0)], [-1, 2**32, 1.5, "0"]),
        ("array-like", [[1], np.ones(2), ("a",)], ["text", 3, None, np.float64(1)]),
    ],
)
def test_values_are_allowed_or_refused(constraint, allowed, refused):
    for value in allowed:
        check_parameters(estimator(value, constraint))
    for value in refused:
        with pytest.raises(InvalidParameterError, match="The 'value' parameter of Estimator must"):
            check_parameters(estimator(value, constraint))


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ([POSITIVE], "must be a float in the range (0.0, inf). Got -1 instead."),
        ([SHARE, None], "must be a float in the range [0.0, 1.0] or None. Got -1 instead."),
        (
            [Interval(Integral, 1, 9, closed="both"), StrOptions({"b", "a"}), None],
            "must be an int in the range [1, 9], a str among {'a', 'b'} or None. Got -1 instead.",
        ),
        ([str], "must be an instance of 'str'. Got -1 instead."),
    ],
)
def test_the_message_says_what_is_allowed_and_what_came(constraints, expected):
    with pytest.raises(InvalidParameterError) as caught:
        check_parameters(estimator(-1, *constraints))

    assert str(caught.value) == f"The 'value' parameter of Estimator {expected}"
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, TypeError)


def test_the_decorated_method_is_not_called_with_a_refused_value():
    refused = estimator(0, POSITIVE)

    with pytest.raises(InvalidParameterError):
        refused.fit(["a text"])

    assert not hasattr(refused, "fitted_")
    assert estimator(1, POSITIVE).fit(["a text"]).fitted_ == ["a text"]


def test_the_messages_are_those_of_scikit_learn():
    """The names and forms that users of scikit-learn know, for what scikit-learn has as well."""
    from sklearn.linear_model import LogisticRegression

    with pytest.raises(ValueError) as theirs:
        LogisticRegression(C=-1).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError) as ours:
        check_parameters(estimator(-1, Interval(Real, 0, None, closed="right")))

    expected = (
        str(theirs.value).replace("'C'", "'value'").replace("LogisticRegression", "Estimator")
    )
    assert str(ours.value) == expected
