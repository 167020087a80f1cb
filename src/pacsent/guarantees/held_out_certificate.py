"""What certificates from held-out rows share: what was held out, digests, and the check of both."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pacsent.classify.inputs import as_groups
from pacsent.guarantees.certificate import Certificate, Verified
from pacsent.guarantees.estimators import are_predictions, samples_for
from pacsent.guarantees.independence import dependent_clusters, hold_out
from pacsent.guarantees.samples import digest, digests, n_samples, seen_before, select_rows

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
    calibration_size : float or None
        Fraction that was held out for it.
    digests : dict
        SHA-256 of the model, texts, labels and predictions, as far as they are known.
    """

    needs_texts: ClassVar[tuple[str, ...]] = (
        "n_duplicates",
        "seed",
        "calibration_size",
        "digests",
        "provenance",
    )

    scope: str = "texts"
    n_groups: int = 0
    seed: int | None = None
    calibration_size: float | None = None
    digests: dict = field(default_factory=dict)

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
        verified = super().verify()
        if model is None and X is None and y is None:
            return verified
        if model is None or X is None or y is None:
            raise ValueError("model, X and y must be given together. Got some of them only.")
        X = samples_for(model, X)
        labels, group_of = self._labels(model, y, n_samples(X)), as_groups(groups, n_samples(X))
        for rows in self._candidate_rows(model, X, group_of):
            certified_X = select_rows(X, rows)
            if digest(certified_X) == self.digests.get("texts", digest(certified_X)):
                break
        else:
            raise ValueError(
                "X must be the texts that were certified, or those that were given to fit, with "
                "their groups. Got others instead, or another order."
            )
        labels = select_rows(labels, rows)
        predictions = self._predictions(model, certified_X, labels)
        own = None if are_predictions(model) else model
        for name, stated in self.digests.items():
            if stated != digests(own, certified_X, labels, predictions).get(name):
                raise ValueError(
                    f"The {name} must be what was certified (SHA-256 {stated[:12]}...). Got "
                    "something else instead: the certificate is not about this."
                )
        has_texts, grouped = "texts" in self.digests, self.scope == "groups"
        parts = self._measure(
            labels,
            predictions,
            dependent_clusters(certified_X) if has_texts else np.arange(len(rows)),
            group_of[rows] if grouped and group_of is not None else None,
        )
        if self.scope == "same groups" and group_of is not None:
            parts |= {"scope": self.scope, "n_groups": np.unique(group_of).size}
        for name, value in parts.items():
            self._must_equal(name, value)
        unchecked = ["provenance"]
        unchecked += [] if "model" in self.digests else ["the model beyond its predictions"]
        return Verified(
            "the counts follow from the texts and the model, and the bounds from the counts",
            ", ".join(unchecked),
        )

    def _candidate_rows(self, model, X, group_of) -> Iterator[np.ndarray]:
        """Rows that may be those that were certified."""
        yield np.arange(n_samples(X))
        if self.calibration_size is not None and self.seed is not None:
            clusters = dependent_clusters(X)
            yield hold_out(clusters, self.calibration_size, self.seed, group_of).held_out_rows
        else:
            exact, near = seen_before(model, X)
            yield np.flatnonzero(~(exact | near))

    @abstractmethod
    def _labels(self, model: Any, y: Any, n: int) -> Any:
        """What is right for each of n rows, as it was counted."""

    @abstractmethod
    def _predictions(self, model: Any, X: Any, labels: Any) -> Any:
        """What the model predicts for these rows; `model` may be the predictions themselves."""

    @abstractmethod
    def _measure(self, labels: Any, predictions: Any, clusters: Any, group_of: Any) -> dict:
        """The fields that the bounds are computed from."""

    def _check(self) -> None:
        if self.scope not in SCOPES:
            self._refuse("scope", f"one of {SCOPES}")
        if (self.scope == "same groups") != (self.n_groups > 0):
            self._refuse("n_groups", "positive exactly where scope is 'same groups'")

    # ---- words -------------------------------------------------------------------------------

    def repeated(self) -> str:
        return "" if self.scope == "groups" else super().repeated()

    def origin(self) -> str:
        seed = "" if self.seed is None else f" The seed is {self.seed}."
        if self.calibration_size is not None:
            seed = f" A share of {self.calibration_size:g} was held out.{seed}"
        return (
            f"{self.provenance}.{seed} Not checked: whether new texts come from the same "
            "distribution (DriftMonitor does)."
        )
