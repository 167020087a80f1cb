"""Guarantees for anybody's classifier, encoder and search: error, sets, abstention, drift."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "abstaining": ["Abstaining"],
        "answers": ["AnswerRule"],
        "anytime_certificate": ["AnytimeCertificate", "anytime_error", "certify_stream"],
        "certificate": ["Certificate"],
        "certified_classifier": ["CertifiedClassifier"],
        "class_thresholds": ["ClassThresholds"],
        "comparison": ["Comparison", "compare"],
        "continuation": ["ContinuationCertificate", "certify_encoder"],
        "count_certificates": ["AgreementCertificate", "SearchCertificate", "certify_agreement"],
        "distillation": ["certify_student", "distill"],
        "encoder_certificate": ["VacuousBoundWarning"],
        "error_bounds": ["certify"],
        "error_certificate": ["ErrorCertificate"],
        "fidelity": ["FidelityCertificate", "measure_fidelity"],
        "held_out_certificate": ["HeldOutCertificate"],
        "multilabel_certificate": ["MultilabelCertificate", "certify_multilabel"],
        "multilabel_thresholds": [
            "LabelThreshold",
            "control_false_discoveries",
            "control_false_negatives",
        ],
        "predictions": ["certify_predictions"],
        "reading": ["read_certificate"],
        "stream_watcher": ["Change", "StreamWatcher"],
    },
)
