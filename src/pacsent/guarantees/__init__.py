"""Guarantees for anybody's classifier: error, label sets, abstaining, comparison, alarms."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "CertifiedClassifier": "certified_classifier",
        "MultilabelCertificate": "multilabel_certificate",
        "certify_multilabel": "multilabel_certificate",
        "LabelThreshold": "multilabel_thresholds",
        "control_false_negatives": "multilabel_thresholds",
        "control_false_discoveries": "multilabel_thresholds",
        "ErrorCertificate": "error_certificate",
        "certify": "error_bounds",
        "certify_encoder": "continuation",
        "Certificate": "certificate",
        "ContinuationCertificate": "continuation",
        "ContinuationOptions": "continuation",
        "VacuousBoundWarning": "encoder_certificate",
        "AgreementCertificate": "agreement",
        "certify_agreement": "agreement",
        "FidelityCertificate": "fidelity",
        "measure_fidelity": "fidelity",
        "distill": "distillation",
        "certify_student": "distillation",
        "certify_predictions": "predictions",
        "Abstaining": "abstaining",
        "AnswerRule": "answers",
        "Comparison": "comparison",
        "compare": "comparison",
        "ClassThresholds": "class_thresholds",
        "Change": "stream_watcher",
        "StreamWatcher": "stream_watcher",
        "AnytimeCertificate": "anytime_certificate",
        "anytime_error": "anytime_certificate",
        "certify_stream": "anytime_certificate",
    },
)
