"""The certificate of a classifier: how often it is wrong, from counts on held-out texts."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pacsent.certificates.certificate import Certificate
from pacsent.certificates.certificate_page import ChartBar
from pacsent.maths.binomial import upper_limit
from pacsent.maths.checks import is_count
from pacsent.maths.rounding import rounded_up


@dataclass(frozen=True, kw_only=True)
class ErrorCertificate(Certificate):
    """An upper bound on the error rate of one fitted classifier.

    Attributes
    ----------
    n_errors : int
        Held-out texts that the classifier got wrong, of `n`.
    class_counts : dict
        Per class, where asked for: [texts, errors].
    class_bounds : dict
        The bound for each class by itself; they hold together with `bound`.
    balanced_bound : float or None
        Mean of the class bounds.
    n_duplicates : int
        Copies of other certified texts that the classifier got right. They are not counted, so that
        the bound holds both for texts as often as they occur and for different texts.
    exchangeable : str
        What was checked about new texts coming from the same distribution.

    Examples
    --------
    >>> from pacsent import CertifiedClassifier, TextClassifier
    >>> texts = [f"a {word} film, number {n}" for n in range(40) for word in ("good", "bad")]
    >>> classifier = CertifiedClassifier(TextClassifier(), holdout=0.5, random_state=0)
    >>> _ = classifier.fit(texts, ["up", "down"] * 40)
    >>> classifier.certificate_.n, classifier.certificate_.n_errors
    (40, 0)
    >>> classifier.certificate_.bound < 0.1
    True
    """

    kind: ClassVar[str] = "error"
    assumption: ClassVar[str] = (
        "the held-out texts and the new texts are drawn independently from one distribution, and "
        "the classifier was neither fitted nor chosen on the held-out texts, except for the "
        "choices listed under corrections."
    )
    needs_texts: ClassVar[tuple[str, ...]] = ("n_duplicates", "provenance", "exchangeable")

    n_errors: int
    class_counts: dict = field(default_factory=dict)
    class_bounds: dict = field(default_factory=dict)
    balanced_bound: float | None = None
    provenance: str = "checked"
    exchangeable: str = "not checked"

    @property
    def error(self) -> float:
        """Share of the held-out texts that the classifier got wrong."""
        return self.n_errors / self.n

    def recompute(self) -> dict[str, Any]:
        return bounds_from_counts(self.n, self.n_errors, self.class_counts, self.delta_each)

    def _check(self) -> None:
        if self.n_errors > self.n:
            self._refuse("n_errors", f"at most {self.n}, the number of texts")
        pairs = list(self.class_counts.values())
        if not all(
            isinstance(pair, list | tuple)
            and len(pair) == 2
            and all(map(is_count, pair))
            and pair[1] <= pair[0]
            for pair in pairs
        ):
            self._refuse("class_counts", "[texts, errors] for each class, errors <= texts")
        for place, total in enumerate((self.n, self.n_errors)):
            if pairs and sum(pair[place] for pair in pairs) != total:
                what = ("texts that add up to n", "errors that add up to n_errors")[place]
                self._refuse("class_counts", f"{what} = {total}")

    def sentence(self) -> str:
        return (
            f"With {self.confidence} confidence, the error rate on new texts is at most "
            f"{rounded_up(self.bound)} ({self.n_errors:,} of {self.n:,} held-out texts were wrong: "
            f"{self.error:.4f})."
        )

    def rows(self) -> list[tuple[str, str]]:
        rows = []
        if self.balanced_bound is not None:
            each = "; ".join(
                f"{name} at most {rounded_up(bound)} ({wrong:,} of {n:,})"
                for (name, bound), (n, wrong) in zip(
                    self.class_bounds.items(), self.class_counts.values()
                )
            )
            mean = rounded_up(self.balanced_bound)
            rows.append(("Classes", f"{each}. The mean over classes is at most {mean}."))
        if self.n_duplicates:
            rows.append(("Duplicates", f"{self.n_duplicates:,} further texts are copies of "
                         "correctly answered ones; copies count once."))  # fmt: skip
        return [
            *rows,
            ("Assumption", self.assumption),
            ("New texts from the same distribution", f"{self.exchangeable}."),
            ("Held-out texts", f"{self.provenance}."),
            ("Corrections", self.corrected_for()),
        ]

    def bars(self) -> list[ChartBar]:
        return [
            ChartBar("observed", self.error, "#2a9d63"),
            ChartBar("certified", self.bound, "#1b6e9c"),
        ]


def bounds_from_counts(n: int, n_errors: int, class_counts: dict, delta: float) -> dict[str, Any]:
    """Clopper-Pearson bounds on the error, on the error of each class and on their mean.

    They hold together with probability 1 - delta: with classes, half of delta is for the error and
    half is shared by the classes.

    Examples
    --------
    >>> found = bounds_from_counts(200, 20, {}, 0.05)
    >>> round(found["bound"], 4), found["class_bounds"], found["balanced_bound"]
    (0.142, {}, None)
    """
    if not class_counts:
        bound = upper_limit(n_errors, n, delta)
        return {"bound": bound, "class_bounds": {}, "balanced_bound": None}
    share = delta / (2 * len(class_counts))
    bounds = {name: upper_limit(wrong, n, share) for name, (n, wrong) in class_counts.items()}
    return {
        "bound": upper_limit(n_errors, n, delta / 2),
        "class_bounds": bounds,
        "balanced_bound": float(np.mean(list(bounds.values()))),
    }
