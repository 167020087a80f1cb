"""Counts of errors beyond a classifier's own: answers that differ, and queries that miss."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pacsent.guarantees.certificate import CountCertificate
from pacsent.guarantees.independence import dependent_clusters, one_row_per_cluster
from pacsent.maths.checks import check_probability
from pacsent.maths.rounding import rounded_down, rounded_up
from pacsent.text.texts import as_texts


@dataclass(frozen=True, kw_only=True)
class AgreementCertificate(CountCertificate):
    """A lower bound on how often two classifiers agree.

    Attributes
    ----------
    bound : float
        Upper bound on the fraction of new texts to which they give different answers.
    n_errors : int
        Texts, of the n, to which they gave different answers.

    Examples
    --------
    >>> certificate = AgreementCertificate.from_parts(delta=0.05, n=10, n_errors=0)
    >>> round(certificate.agreement_bound, 2)
    0.74
    """

    kind: ClassVar[str] = "agreement"
    assumption: ClassVar[str] = (
        "the texts and the new texts are drawn independently from one distribution, and neither "
        "classifier was fitted or chosen on these texts."
    )

    provenance: str = "not used for fitting"

    @property
    def agreement_bound(self) -> float:
        """With probability 1 - delta they agree on at least this fraction of new texts."""
        return 1.0 - self.bound

    def sentence(self) -> str:
        return (
            f"With {self.confidence} confidence, on new texts from the same distribution both "
            f"classifiers give the same answer in at least {rounded_down(self.agreement_bound)} of "
            f"the cases (different answers to {self.n_errors:,} of {self.n:,} texts)."
        )


def certify_agreement(a: Any, b: Any, texts: Any, *, delta: float = 0.05) -> AgreementCertificate:
    """Certify how often two classifiers give the same answer.

    For a classifier with a teacher's vectors and one with its student's: how seldom the fast one
    answers otherwise.

    Parameters
    ----------
    a, b : objects with `predict`
    texts : iterable of str
        That neither was fitted or chosen on. Labels are not needed; copies are used once.
    delta : float, default=0.05
        Probability that the guarantee fails.

    Examples
    --------
    >>> from pacsent import TextClassifier
    >>> texts, labels = ["a good film", "so good", "a bad film", "really bad"] * 3, [1, 1, 0, 0] * 3
    >>> a, b = (TextClassifier(ngrams=n).fit(texts, labels) for n in ((1, 1), (1, 2)))
    >>> certificate = certify_agreement(a, b, [f"good {n}" for n in "abcdefghij"])
    >>> round(certificate.agreement_bound, 2)
    0.74
    """
    check_probability("delta", delta)
    texts = as_texts(texts)
    if not texts:
        raise ValueError("texts must hold at least one text. Got none instead.")
    rows = one_row_per_cluster(dependent_clusters(texts, exact=True), seed=None)
    distinct = [texts[row] for row in rows]
    answers = [np.asarray(model.predict(distinct)) for model in (a, b)]
    if any(len(labels) != len(distinct) for labels in answers):
        raise ValueError("a and b must answer every text once. Got other numbers of answers.")
    return AgreementCertificate.from_parts(
        delta=delta,
        n=len(distinct),
        n_errors=sum(x != y for x, y in zip(*(labels.tolist() for labels in answers))),
        n_duplicates=len(texts) - len(distinct),
    )


@dataclass(frozen=True, kw_only=True)
class SearchCertificate(CountCertificate):
    """Upper bound on how often the right text is not among the first hits.

    Attributes
    ----------
    n_errors : int
        Queries whose right text was not among the first k.
    n_hits : int
        k.
    n_texts : int
        Texts in the index.

    Examples
    --------
    >>> certificate = SearchCertificate.from_parts(delta=0.05, n=100, n_errors=5)
    >>> certificate.verify()
    Verified: the bound follows from its parts. Not checked: n_duplicates, provenance, ...
    """

    kind: ClassVar[str] = "search"
    unit: ClassVar[str] = "queries"
    assumption: ClassVar[str] = (
        "the queries and the new ones are drawn independently from one distribution, each with its "
        "right texts, and neither the index, its encoder nor the number of hits was chosen by them."
    )
    needs_texts: ClassVar[tuple[str, ...]] = (*CountCertificate.needs_texts, "n_hits", "n_texts")

    n_hits: int = 10
    n_texts: int = 0

    def sentence(self) -> str:
        return (
            f"With {self.confidence} confidence, for at least "
            f"{rounded_down(100 * (1 - self.bound), 3)} % of new queries like these the right text "
            f"is among the first {self.n_hits:,} ({self.n - self.n_errors:,} of {self.n:,} queries "
            f"found it: {100 * (1 - self.n_errors / self.n):.2f} %)."
        )

    def details(self) -> list[tuple[str, str]]:
        return [
            ("Index", f"{self.n_texts:,} texts."),
            ("Bound", f"misses at most {rounded_up(self.bound)} (Clopper-Pearson)."),
        ]
