"""Guarantees that can be checked: certificates of encoders and of classifiers.

`certify` is the guarantee about words that follow in new documents; the certificates of the paper
are in `pacsent.paper`, and a classifier is certified by `pacsent.guarantees.certify`.
"""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "certify": "continuation",
        "Certificate": "certificate",
        "ContinuationCertificate": "continuation",
        "ContinuationOptions": "continuation",
        "VacuousBoundWarning": "encoder_certificate",
    },
)
