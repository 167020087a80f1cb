"""Guarantees for anybody's classifier: error, label sets, abstaining, comparison, alarms."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "abstaining": ["Abstaining"],
        "agreement": ["AgreementCertificate", "certify_agreement"],
        "answers": ["AnswerRule"],
        "anytime_certificate": ["AnytimeCertificate", "anytime_error", "certify_stream"],
        "certificate": ["Certificate"],
        "certified_classifier": ["CertifiedClassifier"],
        "class_thresholds": ["ClassThresholds"],
        "comparison": ["Comparison", "compare"],
        "continuation": ["ContinuationCertificate", "ContinuationOptions", "certify_encoder"],
        "distillation": ["certify_student", "distill"],
        "encoder_certificate": ["VacuousBoundWarning"],
        "error_bounds": ["certify"],
        "error_certificate": ["ErrorCertificate"],
        "fidelity": ["FidelityCertificate", "measure_fidelity"],
        "multilabel_certificate": ["MultilabelCertificate", "certify_multilabel"],
        "multilabel_thresholds": [
            "LabelThreshold",
            "control_false_discoveries",
            "control_false_negatives",
        ],
        "predictions": ["certify_predictions"],
        "stream_watcher": ["Change", "StreamWatcher"],
    },
)
