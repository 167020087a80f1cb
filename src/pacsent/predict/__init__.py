"""Classifiers with guarantees: error, prediction sets, abstention, thresholds."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "abstaining": ["Abstaining"],
        "certified_classifier": ["CertifiedClassifier"],
        "thresholds": ["ClassThresholds", "LabelThreshold", "control_risk"],
    },
)
