"""Classifying texts: a classifier and explanations of its decisions."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__, {"TextClassifier": "classifier", "Explanation": "explanation"}
)
