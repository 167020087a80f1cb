"""Estimators for texts, classes, sets of labels or numbers, and explanations of decisions."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "TextClassifier": "classifier",
        "TextRegressor": "regressor",
        "Explanation": "explanation",
    },
)
