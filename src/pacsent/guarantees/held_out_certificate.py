"""What certificates from held-out rows share: what was held out, digests, and the check of both."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pacsent.classify.inputs import as_groups
from pacsent.guarantees.any_estimator import samples_for
from pacsent.guarantees.certificate import Certificate, Verified
from pacsent.guarantees.certificate_page import ChartBar
from pacsent.guarantees.evidence import digest, digests
from pacsent.guarantees.samples import n_samples, seen_before, taken
from pacsent.guarantees.splitting import split, units_of

SCOPES = ("texts", "groups", "same groups")


@dataclass(frozen=True, kw_only=True)
class HeldOutCertificate(Certificate):
    """A guarantee about one model, or one set of predictions, from rows that were held out.

    Attributes
    ----------
    scope : {"texts", "groups", "same groups"}
        What new texts are: of the same distribution; of new groups; or of the groups at hand only.
    n_groups : int
        Number of groups where scope is "same groups".
    seed : int or None
        Decides which texts were held out, and the order of losses.
    holdout : float or None
        Share that was held out for it.
    digests : dict
        SHA-256 of the model, texts, labels and predictions, as far as they are known.
    """

    needs_texts: ClassVar[tuple[str, ...]] = (
        "n_duplicates", "seed", "holdout", "digests", "provenance",
    )  # fmt: skip

    scope: str = "texts"
    n_groups: int = 0
    seed: int | None = None
    holdout: float | None = None
    digests: dict = field(default_factory=dict)

    @property
    @abstractmethod
    def observed(self) -> float:
        """What was measured on the held-out rows, where the bound is on what is expected."""

    # ---- checks ------------------------------------------------------------------------------

    def verify(
        self, model: Any = None, X: Any = None, y: Any = None, *, groups: Any = None
    ) -> Verified:
        """Check the certificate; raise a ValueError that names what does not fit.

        Alone: that all fields are possible and that the bounds follow from the counts. With the
        model (or the predictions), the texts and the labels: that the counts, the digests and what
        was held out follow from them. The texts may be those certified, or all that were given to
        `fit`, in their order, with their groups.
        """
        found = super().verify()
        if model is None and X is None and y is None:
            return found
        if model is None or X is None or y is None:
            raise ValueError("model, X and y must be given together. Got some of them only.")
        rows = samples_for(model, X)
        true, group_of = self._true(model, y, n_samples(rows)), as_groups(groups, n_samples(rows))
        for chosen in self._certified_rows(model, rows, group_of):
            some = taken(rows, chosen)
            if digest(some) == self.digests.get("texts", digest(some)):
                break
        else:
            raise ValueError(
                "X must be the texts that were certified, or those that were given to fit, with "
                "their groups. Got others instead, or another order."
            )
        true = taken(true, chosen)
        are_given = isinstance(model, (list, tuple)) or hasattr(model, "tolist")
        said = self._said(model, some, true)
        again = digests(None if are_given else model, some, true, said)
        for name, stated in self.digests.items():
            if stated != again.get(name):
                raise ValueError(
                    f"The {name} must be what was certified (SHA-256 {stated[:12]}...). Got "
                    "something else instead: the certificate is not about this."
                )
        grouped = group_of is not None and self.scope == "groups"
        counted = self._counted(
            true, said,
            units_of(some) if "texts" in self.digests else np.arange(len(chosen)),
            group_of[chosen] if grouped and group_of is not None else None,
        )  # fmt: skip
        if self.scope == "same groups" and group_of is not None:
            counted |= {"scope": self.scope, "n_groups": np.unique(group_of).size}
        for name, value in counted.items():
            self._must_equal(name, value)
        unchecked = ["provenance", *self._beyond()]
        unchecked += [] if "model" in self.digests else ["the model beyond its predictions"]
        return Verified(
            "the counts follow from the texts and the model, and the bounds from the counts",
            ", ".join(unchecked),
        )

    def _certified_rows(self, model, rows, group_of) -> Iterator[np.ndarray]:
        """Rows that may be those that were certified."""
        yield np.arange(n_samples(rows))
        if self.holdout is not None and self.seed is not None:
            yield split(units_of(rows), self.holdout, self.seed, group_of).held_out
        else:
            exact, near = seen_before(model, rows)
            yield np.flatnonzero(~(exact | near))

    @abstractmethod
    def _true(self, model: Any, y: Any, n: int) -> Any:
        """What is right for each of n rows, as it was counted."""

    @abstractmethod
    def _said(self, model: Any, X: Any, true: Any) -> Any:
        """What the model says about these rows; `model` may be the predictions themselves."""

    @abstractmethod
    def _counted(self, true: Any, said: Any, units: np.ndarray, group_of: Any) -> dict[str, Any]:
        """The fields that the bounds are computed from."""

    def _beyond(self) -> list[str]:
        """What cannot be checked with the texts and the model either."""
        return []

    def _check(self) -> None:
        if self.scope not in SCOPES:
            self._refuse("scope", f"one of {SCOPES}")
        if (self.scope == "same groups") != (self.n_groups > 0):
            self._refuse("n_groups", "positive exactly where scope is 'same groups'")

    # ---- words -------------------------------------------------------------------------------

    def of_what(self, rows: str = "texts") -> str:
        """Which new rows the guarantee is about."""
        return {
            "texts": f"new {rows}",
            "groups": f"{rows} of new groups, one from each,",
            "same groups": f"new {rows} of the same {self.n_groups:,} groups (NOT of new groups: "
            "there are too few to hold any out)",
        }[self.scope]

    def origin(self) -> list[tuple[str, str]]:
        """The rows about the assumption, the hold-out and the corrections."""
        seed = "" if self.seed is None else f" The seed is {self.seed}."
        if self.holdout is not None:
            seed = f" A share of {self.holdout:g} was held out.{seed}"
        return [
            ("Assumption", self.assumption),
            ("New texts from the same distribution", "not checked (StreamWatcher does)."),
            ("Held-out texts", f"{self.provenance}.{seed}"),
            ("Corrections", self.corrected_for()),
        ]

    def bars(self) -> list[ChartBar]:
        return [
            ChartBar("observed", self.observed, "#2a9d63"),
            ChartBar("certified", self.bound, "#1b6e9c"),
        ]
