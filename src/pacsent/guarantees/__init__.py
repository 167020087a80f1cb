"""Guarantees for anybody's classifier, encoder and search: error, sets, abstention, drift."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "abstaining": ["Abstaining"],
        "certificate": ["Certificate", "read_certificate"],
        "certified_classifier": ["CertifiedClassifier"],
        "continuation": ["ContinuationCertificate", "certify_encoder"],
        "count_certificates": [
            "AnytimeCertificate",
            "Comparison",
            "SearchCertificate",
            "certify_stream",
            "compare",
        ],
        "distillation": ["FidelityCertificate", "certify_student", "distill"],
        "drift_monitor": ["DriftMonitor"],
        "error_bounds": ["certify", "certify_predictions"],
        "error_certificate": ["ErrorCertificate"],
        "independence": ["traffic_error_upper"],
        "label_checking": ["LabelCheckCertificate", "check_labels"],
        "multilabel_certificate": ["MultilabelCertificate"],
        "thresholds": ["ClassThresholds", "LabelThreshold", "control_risk"],
    },
)
