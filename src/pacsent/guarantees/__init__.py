"""Guarantees for anybody's classifier, encoder and search: error, sets, abstention, drift."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "abstaining": ["Abstaining", "AnswerRule"],
        "certificate": ["Certificate", "read_certificate"],
        "certified_classifier": ["CertifiedClassifier"],
        "continuation": ["ContinuationCertificate", "certify_encoder"],
        "count_certificates": [
            "AgreementCertificate",
            "AnytimeCertificate",
            "Comparison",
            "SearchCertificate",
            "certify_agreement",
            "certify_stream",
            "compare",
        ],
        "distillation": ["FidelityCertificate", "certify_student", "distill", "measure_fidelity"],
        "error_bounds": ["certify"],
        "error_certificate": ["ErrorCertificate"],
        "held_out_certificate": ["HeldOutCertificate"],
        "multilabel_certificate": ["MultilabelCertificate"],
        "predictions": ["certify_predictions"],
        "drift_monitor": ["Change", "DriftMonitor"],
        "text_check": ["TextCheck", "TextComparison"],
        "thresholds": ["ClassThresholds", "LabelThreshold", "control_risk"],
    },
)
