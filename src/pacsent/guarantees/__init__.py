"""Guarantees for anybody's classifier: error, label sets, abstaining, comparison, alarms."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "CertifiedClassifier": "certified_classifier",
        "CertifiedRegressor": "certified_regressor",
        "MultilabelCertificate": "multilabel_certificate",
        "certify_multilabel": "multilabel_certificate",
        "LabelThreshold": "multilabel_thresholds",
        "control_false_negatives": "multilabel_thresholds",
        "control_false_discoveries": "multilabel_thresholds",
        "AbsoluteErrorCertificate": "intervals",
        "certify_numbers": "intervals",
        "ErrorCertificate": "error_certificate",
        "certify": "error_bounds",
        "certify_predictions": "predictions",
        "Abstaining": "abstaining",
        "AnswerRule": "answers",
        "Comparison": "comparison",
        "compare": "comparison",
        "ExchangeabilityTest": "exchangeability",
        "ClassThresholds": "class_thresholds",
        "CrossLabelSets": "cross_sets",
        "Change": "stream_watcher",
        "StreamWatcher": "stream_watcher",
        "check_exchangeable": "exchangeability",
        "AnytimeCertificate": "anytime_certificate",
        "anytime_error": "anytime_certificate",
        "certify_stream": "anytime_certificate",
    },
)
