"""Labels in, statements out: bounds on the errors of anybody's predictions, judges, drift."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "certificate": ["Certificate", "read_certificate"],
        "count_certificates": [
            "AnytimeCertificate",
            "Comparison",
            "certify_stream",
            "compare",
        ],
        "drift_monitor": ["DriftMonitor"],
        "error_bounds": ["certify", "certify_predictions"],
        "error_certificate": ["ErrorCertificate"],
        "independence": ["traffic_error_upper"],
        "multilabel_certificate": ["MultilabelCertificate"],
    },
)
