"""Classifying texts, with guarantees: label sets, abstaining, comparison, alarms, explanations."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "TextClassifier": "classifier",
        "ErrorCertificate": "error_bounds",
        "certify": "error_bounds",
        "Abstaining": "guarantees",
        "AnswerRule": "guarantees",
        "Comparison": "error_bounds",
        "compare": "error_bounds",
        "ExchangeabilityTest": "exchangeability",
        "StreamWatcher": "exchangeability",
        "check_exchangeable": "exchangeability",
        "Explanation": "explanation",
    },
)
