"""Intervals around predicted numbers, and a bound on the mean absolute error.

Split conformal prediction in its PAC form: with the scores |y - prediction| / scale of the
calibration rows in order, the share of new scores that are at most the k-th is Beta(k, n + 1 - k)
distributed (larger with ties), so that the smallest k with P(Beta(k, n + 1 - k) < 1 - error) <=
delta gives intervals that miss at most `error` with probability 1 - delta over these rows.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pacsent.classify.inputs import as_numbers
from pacsent.guarantees.encoder_certificate import (
    bound_on_mean,
    packed_losses,
    unpacked_losses,
)
from pacsent.guarantees.evidence import digests
from pacsent.guarantees.held_out_certificate import HeldOutCertificate
from pacsent.guarantees.splitting import as_seed, counted_rows
from pacsent.maths.binomial import n_needed, rank_for_sets
from pacsent.maths.checks import check_probability, is_number
from pacsent.maths.rounding import rounded_up


def half_width(scores: np.ndarray, error: float, delta: float) -> float:
    """The calibration score up to which intervals reach: they miss at most `error`.

    Examples
    --------
    >>> half_width(np.arange(100.0), error=0.1, delta=0.05)
    95.0
    """
    check_probability("error", error)
    check_probability("delta", delta)
    k = rank_for_sets(len(scores), error, delta)
    if k is None:
        needed = n_needed(error, delta)
        raise ValueError(
            f"Intervals that miss at most {error:g} with confidence {1 - delta:g} need {needed:,} "
            f"calibration rows. Got {len(scores):,}, so {needed - len(scores):,} are missing. "
            "Label more, or allow a larger error."
        )
    return float(np.sort(scores)[k - 1])


@dataclass(frozen=True, kw_only=True)
class AbsoluteErrorCertificate(HeldOutCertificate):
    """An upper bound on the mean absolute error of one fitted regressor.

    Attributes
    ----------
    bound : float
        In the unit of the numbers.
    empirical_risk : float
        Mean absolute error on the held-out rows.
    low, high : float
        Limits of the numbers and of the predictions.
    losses : str
        |y - prediction| / (high - low) of each row, in order, rounded up to 16 bits.
    scope, n_groups, seed, holdout, digests, exchangeable : see `HeldOutCertificate`

    Examples
    --------
    >>> certificate = certify_numbers(np.full(200, 5.0), np.full(200, 6.0), limits=(1, 10))
    >>> round(certificate.empirical_risk, 3), 1 < certificate.bound < 1.5
    (1.0, True)
    """

    kind: ClassVar[str] = "absolute error"
    assumption: ClassVar[str] = (
        "the held-out rows and new rows are drawn independently from one distribution, the "
        "regressor was not fitted or chosen on the held-out rows, and every number lies within "
        "the limits."
    )
    unbounded: ClassVar[tuple[str, ...]] = ("bound", "empirical_risk")

    low: float
    high: float
    losses: str
    empirical_risk: float = 0.0

    def recompute(self) -> dict[str, Any]:
        found = bound_on_mean(self.losses, "betting", self.delta_each)
        size = self.high - self.low
        return {
            "bound": found["bound"] * size,
            "empirical_risk": found["empirical_risk"] * size,
        }

    @property
    def observed(self) -> float:
        return self.empirical_risk

    def _true(self, model, y, n):
        return as_numbers(y, n, "y")

    def _said(self, model, X, true):
        found = model.predict(X) if hasattr(model, "predict") else model
        return np.clip(as_numbers(found, len(true), "predictions"), self.low, self.high)

    def _counted(self, true, said, units, group_of):
        rows, found = counted_rows(len(true), units, group_of, self.seed or 0)
        losses = np.abs(true - said)[rows] / (self.high - self.low)
        return found | {"n": rows.size, "losses": packed_losses(losses)}

    def _check(self) -> None:
        super()._check()
        size = unpacked_losses(self.losses).size
        if self.n != size:
            self._refuse("n", f"{size}, the number of losses")
        if not self.low < self.high:
            self._refuse("high", f"above {self.low}")

    def sentence(self) -> str:
        return (
            f"With {self.confidence} confidence, the mean absolute error on "
            f"{self.of_what('rows')} is at most {rounded_up(self.bound)}."
        )

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("Measured", f"{self.empirical_risk:.4f} on {self.n:,} held-out rows."),
            ("Limits", f"numbers between {self.low:g} and {self.high:g}; predictions beyond them "
             "are moved to them."),
            *self.origin(),
        ]  # fmt: skip


def certify_numbers(
    numbers: Any,
    predictions: Any,
    *,
    limits: tuple[float, float],
    units: np.ndarray | None = None,
    group_of: np.ndarray | None = None,
    delta: float = 0.05,
    n_candidates: int = 1,
    seed: int | None = None,
    noted: dict[str, Any] | None = None,
) -> AbsoluteErrorCertificate:
    """Bound the mean absolute error of anybody's predictions of numbers, by betting.

    Parameters
    ----------
    numbers, predictions : arrays, (n,)
        In an order that was fixed without looking at them.
    limits : (float, float)
        The smallest and the largest number there can be; predictions are moved to within.
    units, group_of : arrays of int, optional
        One row of each unit (`splitting.units_of`), or of each group, is counted.
    delta, n_candidates, seed : as of `certify_multilabel`
    noted : dict, optional
        Further fields of the certificate.

    Examples
    --------
    >>> certify_numbers([3.0, 4.0] * 100, [3.5, 4.0] * 100, limits=(1, 5)).bound < 0.5
    True
    """
    delta = check_probability("delta", delta)
    low, high = checked_limits(limits)
    y, f = np.asarray(numbers, float), np.asarray(predictions, float)
    if y.ndim != 1 or y.shape != f.shape or not y.size:
        raise ValueError(
            "numbers and predictions must be of the same length, at least one. Got shapes "
            f"{y.shape} and {f.shape} instead."
        )
    if not (np.isfinite(f).all() and ((y >= low) & (y <= high)).all()):
        raise ValueError(
            f"numbers must be between the limits {low:g} and {high:g}, and predictions finite. "
            f"Got numbers between {y.min():g} and {y.max():g} instead. Give wider limits."
        )
    f, seed = np.clip(f, low, high), as_seed(seed)
    rows, counted = counted_rows(y.size, units, group_of, seed)
    counted |= {"digests": digests(None, None, y, f), **(noted or {})}
    draft = AbsoluteErrorCertificate(
        bound=high - low, delta=delta, n=rows.size, low=low, high=high, seed=seed, **counted,
        losses=packed_losses(np.abs(y - f)[rows] / (high - low)),
        corrections={"candidates": n_candidates} if n_candidates > 1 else {},
    )  # fmt: skip
    return AbsoluteErrorCertificate(**{**vars(draft), **draft.recompute()})


def checked_limits(limits: Any) -> tuple[float, float]:
    """The smallest and the largest number there can be, or ValueError."""
    rule = "limits must be two finite numbers, the smaller first"
    try:
        low, high = limits
    except (TypeError, ValueError):
        raise ValueError(f"{rule}. Got {limits!r} instead.") from None
    if not (is_number(low) and is_number(high) and low < high):
        raise ValueError(f"{rule}. Got {limits!r} instead.")
    return float(low), float(high)
