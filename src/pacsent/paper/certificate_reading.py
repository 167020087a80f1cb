"""The one reader of certificates in JSON, of any kind."""

from pacsent.guarantees.agreement import AgreementCertificate
from pacsent.guarantees.anytime_certificate import AnytimeCertificate
from pacsent.guarantees.certificate import Certificate, read_fields
from pacsent.guarantees.continuation import ContinuationCertificate
from pacsent.guarantees.error_certificate import ErrorCertificate
from pacsent.guarantees.fidelity import FidelityCertificate
from pacsent.guarantees.multilabel_certificate import MultilabelCertificate
from pacsent.paper.document_certificate import DocumentCertificate
from pacsent.paper.squared_certificate import SquaredCertificate
from pacsent.paper.word_certificate import WordCertificate
from pacsent.search.search_certificate import SearchCertificate

CLASSES: dict[str, type[Certificate]] = {
    cls.kind: cls
    for cls in (
        ContinuationCertificate,
        ErrorCertificate,
        AnytimeCertificate,
        MultilabelCertificate,
        WordCertificate,
        DocumentCertificate,
        SquaredCertificate,
        FidelityCertificate,
        SearchCertificate,
        AgreementCertificate,
    )
}


def certificate_from_json(text: str, name: str = "text", *, verify: bool = True) -> Certificate:
    """The certificate in a JSON text, verified unless `verify` is False.

    Error messages call the text `name`: its file.

    >>> written = ErrorCertificate(bound=0.5, delta=0.05, n=40, n_errors=0).to_json()
    >>> certificate_from_json(written, "certificate.json")
    Traceback (most recent call last):
    ValueError: certificate.json: bound must be 0.07..., computed from its parts. Got 0.5 ...
    """
    values = read_fields(text, name)
    kind = values["kind"]
    if not isinstance(kind, str) or kind not in CLASSES:
        raise ValueError(f"{name}: kind must be one of {tuple(CLASSES)}. Got {kind!r} instead.")
    try:
        found = CLASSES[kind].from_dict(values)
        if verify:
            found.verify()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return found
