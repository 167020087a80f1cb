"""Estimators for texts, classes, sets of labels or numbers, and explanations of decisions."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "TextClassifier": "classifier",
        "TextRegressor": "regressor",
        "Explanation": "explanation",
        "Diagnostics": "diagnostics",
        "audit": "label_audit",
        "LearningCurve": "label_curve",
        "learning_curve": "label_curve",
        "SuspiciousLabel": "suspicion",
        "next_to_label": "choosing",
        "suspicious_labels": "suspicion",
    },
)
