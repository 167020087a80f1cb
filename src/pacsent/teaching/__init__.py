"""Teaching: static encoders that imitate others, with a guarantee of how well."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "teach": "imitation",
        "certify_student": "imitation",
        "Student": "student",
        "AgreementCertificate": "agreement",
        "certify_agreement": "agreement",
        "FidelityCertificate": "fidelity",
        "measure_fidelity": "fidelity",
    },
)
