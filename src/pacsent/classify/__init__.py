"""Classifying texts, with guarantees: label sets, abstaining, comparison, alarms, explanations."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "TextClassifier": "classifier",
        "ErrorCertificate": "promises",
        "certify": "promises",
        "Abstaining": "sets",
        "AnswerRule": "answers",
        "Comparison": "sets",
        "compare": "sets",
        "ExchangeabilityTest": "exchange",
        "StreamWatcher": "exchange",
        "check_exchangeable": "exchange",
        "Explanation": "explanation",
    },
)
