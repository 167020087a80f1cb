"""How often two classifiers give the same answer on new texts, with a guarantee."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pacsent.guarantees.certificate import Certificate
from pacsent.guarantees.certificate_page import ChartBar
from pacsent.maths.binomial import upper_limit
from pacsent.maths.checks import check_probability
from pacsent.maths.rounding import rounded_down
from pacsent.text.texts import as_texts


@dataclass(frozen=True, kw_only=True)
class AgreementCertificate(Certificate):
    """A lower bound on how often two classifiers agree (Clopper and Pearson).

    Attributes
    ----------
    bound : float
        Upper bound on the share of new texts to which they give different answers.
    n_errors : int
        Texts, of the n, to which they gave different answers.

    Examples
    --------
    >>> one = AgreementCertificate(bound=0.26, delta=0.05, n=10, n_errors=0)
    >>> round(one.agreement_bound, 2)
    0.74
    """

    kind: ClassVar[str] = "agreement"
    assumption: ClassVar[str] = (
        "the texts and the new texts are drawn independently from one distribution, and neither "
        "classifier was fitted or chosen on these texts."
    )
    needs_texts: ClassVar[tuple[str, ...]] = ("n_duplicates", "provenance")

    n_errors: int
    provenance: str = "not used for fitting"

    @property
    def agreement_bound(self) -> float:
        """With probability 1 - delta they agree on at least this share of new texts."""
        return 1.0 - self.bound

    def recompute(self) -> dict[str, Any]:
        return {"bound": upper_limit(self.n_errors, self.n, self.delta_each)}

    def _check(self) -> None:
        if self.n_errors > self.n:
            self._refuse("n_errors", f"at most {self.n}, the number of texts")

    def sentence(self) -> str:
        return (
            f"With {self.confidence} confidence, on new texts from the same distribution both "
            f"classifiers give the same answer in at least {rounded_down(self.agreement_bound)} of "
            f"the cases (different answers to {self.n_errors:,} of {self.n:,} texts)."
        )

    def rows(self) -> list[tuple[str, str]]:
        rows = [("Assumption", self.assumption), ("Texts", f"{self.provenance}.")]
        if self.n_duplicates:
            rows.append(("Duplicates", f"{self.n_duplicates:,} texts repeat earlier ones."))
        return [*rows, ("Corrections", self.corrected_for())]

    def bars(self) -> list[ChartBar]:
        return [
            ChartBar("agreement, observed", 1.0 - self.n_errors / self.n, "#2a9d63"),
            ChartBar("agreement, certified", self.agreement_bound, "#1b6e9c"),
        ]


def certify_agreement(
    one: Any, other: Any, texts: Any, *, delta: float = 0.05
) -> AgreementCertificate:
    """Certify how often two classifiers give the same answer.

    For a classifier with a teacher's vectors and one with its student's: how seldom the fast one
    answers otherwise.

    Parameters
    ----------
    one, other : objects with `predict`
    texts : iterable of str
        That neither was fitted or chosen on. Labels are not needed; copies are used once.
    delta : float, default=0.05
        Probability that the guarantee fails.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts, labels = ["a good film", "so good", "a bad film", "really bad"] * 3, [1, 1, 0, 0] * 3
    >>> one, other = (TextClassifier(ngrams=n).fit(texts, labels) for n in ((1, 1), (1, 2)))
    >>> certificate = certify_agreement(one, other, [f"good {n}" for n in "abcdefghij"])
    >>> round(certificate.agreement_bound, 2)
    0.74
    """
    check_probability("delta", delta)
    given = as_texts(texts)
    different = list(dict.fromkeys(given))
    if not different:
        raise ValueError("texts must hold at least one text. Got none instead.")
    answers = [np.asarray(model.predict(different)) for model in (one, other)]
    if any(len(found) != len(different) for found in answers):
        raise ValueError("one and other must answer every text once. Got other numbers of answers.")
    n_errors = sum(a != b for a, b in zip(*(found.tolist() for found in answers)))
    return AgreementCertificate(
        bound=upper_limit(n_errors, len(different), delta),
        delta=delta,
        n=len(different),
        n_errors=n_errors,
        n_duplicates=len(given) - len(different),
    )
