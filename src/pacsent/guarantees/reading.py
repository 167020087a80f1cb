"""The one reader of certificates in JSON, of any kind."""

from pacsent.guarantees.anytime_certificate import AnytimeCertificate
from pacsent.guarantees.certificate import Certificate, read_fields
from pacsent.guarantees.continuation import ContinuationCertificate
from pacsent.guarantees.count_certificates import AgreementCertificate, SearchCertificate
from pacsent.guarantees.error_certificate import ErrorCertificate
from pacsent.guarantees.fidelity import FidelityCertificate
from pacsent.guarantees.multilabel_certificate import MultilabelCertificate

# Importing a class registers its kind; those of `pacsent.paper` register where they are imported.
KINDS = (
    ErrorCertificate,
    MultilabelCertificate,
    AnytimeCertificate,
    AgreementCertificate,
    SearchCertificate,
    FidelityCertificate,
    ContinuationCertificate,
)


def read_certificate(text: str, name: str = "text", *, verify: bool = True) -> Certificate:
    """The certificate in a JSON text, verified unless `verify` is False.

    Error messages call the text `name`: its file. Certificates of the paper can be read once the
    module of `pacsent.paper` that makes them is imported.

    >>> written = ErrorCertificate(bound=0.5, delta=0.05, n=40, n_errors=0).to_json()
    >>> read_certificate(written, "certificate.json")
    Traceback (most recent call last):
    ValueError: certificate.json: bound must be 0.07..., computed from its parts. Got 0.5 ...
    """
    values = read_fields(text, name)
    kind, classes = values["kind"], Certificate.classes
    if not isinstance(kind, str) or kind not in classes:
        raise ValueError(f"{name}: kind must be one of {tuple(classes)}. Got {kind!r} instead.")
    try:
        certificate = classes[kind].from_dict(values)
        if verify:
            certificate.verify()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return certificate
