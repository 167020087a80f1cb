"""Certificates of either kind from JSON: of vectors or of a classifier."""

import re
from typing import Any


def certificate_from_json(text: str, name: str, *, verify: bool = True) -> Any:
    """A certificate of either kind from its JSON text, and whether its bounds follow checked.

    `name` is what error messages call the text: its file.

    Examples
    --------
    >>> from pacsent.classify.promises import ErrorCertificate
    >>> from pacsent.maths.binomial import upper_limit
    >>> written = ErrorCertificate(40, 0, 0.05, float(upper_limit(0, 40, 0.05))).to_json()
    >>> certificate_from_json(written, "certificate.json").n
    40
    >>> certificate_from_json(written.replace("40", "50"), "certificate.json")
    Traceback (most recent call last):
    ValueError: certificate.json must hold a certificate whose bounds follow from its numbers. ...
    """
    from pacsent.certificates.certifying import Certificate
    from pacsent.classify.promises import ErrorCertificate

    kind: Any = ErrorCertificate if ErrorCertificate.is_written(text) else Certificate
    try:
        found = kind.from_json(text)
    except ValueError as error:
        raise ValueError(re.sub("^text must", f"{name} must", str(error))) from None
    if verify and not found.verify():
        raise ValueError(
            f"{name} must hold a certificate whose bounds follow from its numbers. They do not: it "
            "was changed."
        )
    return found
