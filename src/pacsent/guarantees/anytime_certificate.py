"""The error of a classifier that is judged while labels are still being given.

Texts drawn at random judge and never teach; other texts teach. The models that learn at sizes fixed
beforehand are then independent of all judging texts, and each is bounded at all times at once. So
one may look after every label and stop when the bound is small enough.
"""

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pacsent.guarantees.certificate import MeanCertificate, pack_losses, unpack_losses
from pacsent.guarantees.delta import divide_delta
from pacsent.maths.checks import check_count, check_probability
from pacsent.maths.means import betting
from pacsent.maths.rounding import rounded_up

N_MODELS = 16  # that may be judged by the same texts


def anytime_error(losses: ArrayLike, delta: float = 0.05, n_models: int = N_MODELS) -> float:
    """Bound the error of one of `n_models` models, after any number of judging texts.

    With probability 1 - delta it holds for all models and all numbers of texts at once: Theorem 30
    of the theory page. It is never below the fraction of errors.

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
    each = divide_delta(check_probability("delta", delta), check_count("n_models", n_models))
    if not losses.size:
        return 1.0
    with warnings.catch_warnings():  # of a bound below the mean of its losses: the larger is taken
        warnings.simplefilter("ignore", UserWarning)
        return float(max(betting(losses, each, anytime=True), losses.mean()))


@dataclass(frozen=True, kw_only=True)
class AnytimeCertificate(MeanCertificate):
    """The error of one classifier on new texts, judged by a stream that may be stopped at any time.

    The losses are 1 for each of the n judging texts that the classifier, fitted on `n_taught`
    labels, gets wrong. `digests` has the SHA-256 of the model, where it is known.

    Examples
    --------
    >>> print(certify_stream(([0.0] * 19 + [1.0]) * 5).sentence())
    With 95 % confidence, the error rate of this classifier on new texts is at most 0.1584.
    """

    kind: ClassVar[str] = "anytime error"
    assumption: ClassVar[str] = (
        "the judging texts and the new ones are drawn independently from one distribution, in an "
        "order that was fixed before their labels; no label of a judging text was learned from or "
        "changed what was learned; sizes at which models are fitted were fixed beforehand."
    )
    needs_texts: ClassVar[tuple[str, ...]] = ("n_taught", "n_duplicates", "digests", "provenance")

    n_taught: int = 0
    digests: dict = field(default_factory=dict)
    provenance: str = "judging texts were drawn at random and not learned from"

    def recompute(self) -> dict[str, Any]:
        return {"bound": anytime_error(unpack_losses(self.losses), self.delta, self.n_candidates)}

    def _check(self) -> None:
        super()._check()
        if not np.isin(unpack_losses(self.losses), (0.0, 1.0)).all():
            self._refuse("losses", "0 or 1 for each text")

    def sentence(self) -> str:
        return (
            f"With {self.confidence} confidence, the error rate of this classifier on new texts is "
            f"at most {rounded_up(self.bound)}."
        )

    def details(self) -> list[tuple[str, str]]:
        measured = (
            f"{self.n:,} texts drawn at random, {self.observed:.1%} wrong. It may be looked at "
            "after every label."
        )
        return [
            ("Measured on", measured),
            ("Classifier", f"fitted on {self.n_taught:,} other labels."),
        ]


def certify_stream(
    losses: ArrayLike, delta: float = 0.05, n_models: int = N_MODELS, **fields: Any
) -> AnytimeCertificate:
    """The certificate of `anytime_error`; `fields` are further ones of `AnytimeCertificate`."""
    losses = np.asarray(losses, np.float64)
    return AnytimeCertificate.from_parts(
        delta=float(delta),
        n=losses.size,
        losses=pack_losses(losses),
        corrections={"models": n_models},
        **fields,
    )
