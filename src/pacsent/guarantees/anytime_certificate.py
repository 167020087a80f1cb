"""AnytimeCertificate: the error of a classifier that is judged while labels are still being given.

Texts drawn at random judge and never teach; other texts teach. The models that learn at sizes fixed
beforehand are then independent of all judging texts, and each is bounded at all times at once. So
one may look after every label and stop when the bound is small enough.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pacsent.guarantees.certificate import Certificate
from pacsent.guarantees.certificate_page import ChartBar
from pacsent.maths.checks import check_count, check_probability, is_count
from pacsent.maths.means import betting
from pacsent.maths.rounding import rounded_up

N_MODELS = 16  # that may be judged by the same texts
_MOST = 10_000_000  # judging texts, whose losses are in memory


def anytime_error(losses: ArrayLike, delta: float = 0.05, n_models: int = N_MODELS) -> float:
    """Bound the error of one of `n_models` models, after any number of judging texts.

    With probability 1 - delta it holds for all models and all numbers of texts at once: Theorem 30
    of the theory page. It is never below the share of errors.

    Parameters
    ----------
    losses : array of 0 and 1
        Whether the model is wrong on each judging text, in the order in which they were drawn.
    delta : float, default=0.05
    n_models : int, default=16
        How many models there may be; each gets delta / n_models.

    Examples
    --------
    >>> round(anytime_error(([0.0] * 19 + [1.0]) * 10), 3)
    0.117
    >>> anytime_error([])
    1.0
    """
    losses = np.asarray(losses, np.float64)
    each = check_probability("delta", delta) / check_count("n_models", n_models)
    if not losses.size:
        return 1.0
    with warnings.catch_warnings():  # of a bound below the mean of its losses: the larger is taken
        warnings.simplefilter("ignore", UserWarning)
        return float(max(betting(losses, each, anytime=True), losses.mean()))


def certify_stream(
    losses: ArrayLike, delta: float = 0.05, n_models: int = N_MODELS, **noted: Any
) -> "AnytimeCertificate":
    """The certificate of `anytime_error`; `noted` are further fields.

    Examples
    --------
    >>> print(certify_stream(([0.0] * 19 + [1.0]) * 5).sentence())
    With 95 % confidence, the error rate of this classifier on new texts is at most 0.1584.
    """
    losses = np.asarray(losses, np.float64)
    wrong = np.flatnonzero(losses).tolist()
    return AnytimeCertificate(
        bound=anytime_error(losses, delta, n_models), delta=float(delta), n=losses.size,
        n_errors=len(wrong), wrong=wrong, corrections={"models": n_models},
        provenance="judging texts were drawn at random and not learned from", **noted,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AnytimeCertificate(Certificate):
    """The error of one classifier on new texts, judged by a stream that may be stopped at any time.

    Attributes
    ----------
    n : int
        Judging texts.
    n_errors : int
        How many of them the classifier gets wrong.
    wrong : list of int
        Where these stand in the stream, counted from 0.
    n_taught : int
        Labels that the classifier was fitted on.
    digests : dict
        SHA-256 of the model, where it is known.

    Examples
    --------
    >>> certificate = certify_stream([0.0] * 95 + [1.0] * 5, n_taught=45)
    >>> AnytimeCertificate.from_json(certificate.to_json()).verify()
    Verified: the bound follows from its parts. Not checked: n_taught, ...
    """

    kind: ClassVar[str] = "anytime error"
    assumption: ClassVar[str] = (
        "the judging texts and the new ones are drawn independently from one distribution, in an "
        "order that was fixed before their labels; no label of a judging text was learned from or "
        "changed what was learned; sizes at which models are fitted were fixed beforehand."
    )
    needs_texts: ClassVar[tuple[str, ...]] = ("n_taught", "n_duplicates", "digests", "provenance")

    n_errors: int
    wrong: list = field(default_factory=list)
    n_taught: int = 0
    digests: dict = field(default_factory=dict)

    @property
    def error(self) -> float:
        """Share of the judging texts that the classifier gets wrong."""
        return self.n_errors / self.n

    def recompute(self) -> dict[str, Any]:
        losses = np.zeros(self.n)
        losses[self.wrong] = 1.0
        return {
            "n_errors": len(self.wrong),
            "bound": anytime_error(losses, self.delta, self.n_candidates),
        }

    def _check(self) -> None:
        if self.n > _MOST:
            self._refuse("n", f"at most {_MOST:,}")
        if not is_count(self.n_taught):
            self._refuse("n_taught", "an integer of at least 0")
        if not _are_places(self.wrong, self.n):
            self._refuse("wrong", f"different integers from 0 to {self.n - 1:,}, in order")

    def sentence(self) -> str:
        return (
            f"With {self.confidence} confidence, the error rate of this classifier on new texts is "
            f"at most {rounded_up(self.bound)}."
        )

    def rows(self) -> list[tuple[str, str]]:
        return [
            (
                "Measured on",
                f"{self.n:,} texts drawn at random, {self.n_errors:,} wrong "
                f"({self.error:.1%}). It may be looked at after every label.",
            ),
            ("Classifier", f"fitted on {self.n_taught:,} other labels."),
            ("Corrected for", self.corrected_for()),
            ("Training texts", f"{self.provenance}."),
            ("Assumption", self.assumption),
        ]

    def bars(self) -> list[ChartBar]:
        return [
            ChartBar("measured", self.error, "#7a8794"),
            ChartBar("certified", self.bound, "#1b6e9c"),
        ]


def _are_places(wrong: Sequence, n: int) -> bool:
    if not all(is_count(place) and place < n for place in wrong):
        return False
    return all(a < b for a, b in pairwise(wrong))
