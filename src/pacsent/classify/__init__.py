"""Estimators for one class or several labels per text, and explanations of decisions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "choosing": ["next_to_label"],
        "classifier": ["TextClassifier"],
        "diagnostics": ["Diagnostics"],
        "explanation": ["Explanation"],
        "label_checking": ["LabelCheckCertificate", "check_labels"],
        "label_quality": ["audit", "fit_learning_curve", "suspicious_labels"],
        "label_reports": ["LearningCurve", "SuspiciousLabel"],
    },
)
