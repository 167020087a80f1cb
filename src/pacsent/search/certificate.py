"""Certificate of a search: a bound on how often it does not find the right text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pacsent.bounds.binomial import upper_limit
from pacsent.bounds.rounding import rounded_down, rounded_up
from pacsent.certify.certificate import CountCertificate, RepeatsCertificate
from pacsent.certify.repeats import COPIES, TRAFFIC

# Queries that the bound is for, by the reason why queries repeat.
_NEW_QUERIES = {
    None: "new queries like these",
    TRAFFIC: "new queries like these, repeats included,",
    COPIES: "new distinct queries like these",
}


@dataclass(frozen=True, kw_only=True)
class SearchCertificate(RepeatsCertificate, CountCertificate):
    """Upper bound on how often the right text is not among the first hits.

    It was not for `n_errors` of n queries among the first `n_hits` of `n_texts` texts.

    >>> round(SearchCertificate.from_parts(delta=0.05, n=100, n_errors=5).error_upper, 3)
    0.102
    """

    kind: ClassVar[str] = "search"
    unit: ClassVar[str] = "queries"
    counted: ClassVar[tuple[str, ...]] = ("n", "n_errors", "n_duplicates")
    bounded: ClassVar[str] = " on the misses"
    condition: ClassVar[str] = (
        "neither the index, its encoder nor the number of hits was selected on them."
    )
    needs_texts = (*CountCertificate.needs_texts, "n_hits", "n_texts", "random_state")

    n_hits: int = 10
    n_texts: int = 0
    random_state: int | None = None  # draws one query of each near-duplicate cluster

    def _bounds(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        return {"error_upper": upper_limit(parts["n_errors"], parts["n"], self.delta_each)}

    def _check(self) -> None:
        CountCertificate._check(self)
        RepeatsCertificate._check(self)

    def summary(self) -> str:
        """Bound and its conditions, as sentences.

        Returns
        -------
        str
        """
        new_queries = _NEW_QUERIES[self.repeats]
        guaranteed_percentage = rounded_down(100 * (1 - self.error_upper), 3)

        unit = "distinct queries" if self.sample == COPIES else "queries"
        n_found = self.n - self.n_errors
        found_percentage = 100 * (1 - self.n_errors / self.n)
        text = (
            f"With {self.confidence} confidence, for at least "
            f"{guaranteed_percentage}% of {new_queries} the "
            f"right text is among the first {self.n_hits:,} ({n_found:,} of "
            f"{self.n:,} {unit} found it: {found_percentage:.2f}%)."
        )
        return text + self.describe_repeats()

    def measurements(self) -> list[tuple[str, str]]:
        """Names and values of what the certificate prints below its summary.

        Returns
        -------
        list of (str, str)
            Title and text of each.
        """
        return [
            ("Index", f"{self.n_texts:,} texts."),
            ("Bound", f"misses at most {rounded_up(self.error_upper)} (Clopper-Pearson)."),
        ]
