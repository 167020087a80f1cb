"""Estimators for one class or several labels per text, and explanations of decisions."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "TextClassifier": "classifier",
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
