"""Estimators for one class or several labels per text, and explanations of decisions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "choosing": ["next_to_label"],
        "classifier": ["TextClassifier"],
        "diagnostics": ["Diagnostics"],
        "explanation": ["Explanation"],
        "label_quality": [
            "LearningCurve",
            "SuspiciousLabel",
            "audit",
            "fit_learning_curve",
            "suspicious_labels",
        ],
    },
)
