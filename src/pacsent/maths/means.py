"""Upper bounds on the mean of independent losses in [0, 1] that nothing was fitted on.

Each holds by itself with chance 1 - delta; taking the smaller of two costs delta/2 each. Losses may
come from different distributions; the bound is then on the average of their means (but for
`maurer_pontil`, whose losses share one distribution). All are rounded up.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacsent.maths import bounds

_CAP = 0.5  # of the largest bet that cannot lose everything
_ROUNDING = 1e-12  # relative; a float64 sum of a million logarithms is off by less


def _checked(losses, delta) -> np.ndarray:
    losses = np.asarray(losses, dtype=float)
    if losses.ndim != 1 or not losses.size:
        raise ValueError(
            f"losses must be a list of at least one number. Got shape {losses.shape} instead."
        )
    if not ((losses >= 0) & (losses <= 1)).all():  # also refuses nan
        wrong = losses[~((losses >= 0) & (losses <= 1))][0]
        raise ValueError(f"losses must be in [0, 1]. Got {wrong} instead. Rescale them.")
    if not 0 < delta < 1:
        raise ValueError(f"delta must be strictly between 0 and 1. Got {delta} instead.")
    return losses


def chernoff(losses: ArrayLike, delta: float) -> float:
    """Chernoff's bound in its kl form: kl_inverse(mean, ln(1/delta) / n).

    No term in n but this one: the price of sqrt(n) is for posteriors that look at the sample.

    >>> round(chernoff([0.0] * 100, 0.05), 6) == round(1 - 0.05 ** (1 / 100), 6)
    True
    """
    losses = _checked(losses, delta)
    mean = min(1.0, float(losses.mean()) * (1 + _ROUNDING))
    return float(bounds.kl_inverse(mean, -np.log(delta) / losses.size * (1 + _ROUNDING)))


def maurer_pontil(losses: ArrayLike, delta: float) -> float:
    """Empirical Bernstein bound of Maurer and Pontil (2009): small where losses vary little.

    mean + sqrt(2 V ln(2/delta) / n) + 7 ln(2/delta) / (3 (n - 1)),   V the unbiased variance

    Examples
    --------
    >>> import numpy as np
    >>> losses = np.tile([0.2, 0.3], 500)
    >>> round(maurer_pontil(losses, 0.05), 4)
    0.2629
    """
    losses = _checked(losses, delta)
    n = losses.size
    if n < 2:
        return 1.0
    price = np.log(2 / delta)
    bound = losses.mean() + np.sqrt(2 * losses.var(ddof=1) * price / n) + 7 * price / (3 * (n - 1))
    return min(1.0, float(bound) * (1 + _ROUNDING))


class Bets(NamedTuple):
    """What a bettor against the mean decides before each loss, from the losses before it."""

    losses: np.ndarray  # (n,), in the order in which they are looked at
    sizes: np.ndarray  # (n,), predictable; the cap depends on the mean that is tested

    def log_wealth(self, mean: float) -> np.ndarray:
        """ln K_t(mean) for t = 1..n; K is a supermartingale if the mean is at most `mean`."""
        bets = np.minimum(self.sizes, _CAP / (1.0 - mean)) if mean < 1 else self.sizes
        return np.cumsum(np.log1p(bets * (mean - self.losses)))


def bets(losses: ArrayLike, delta: float, *, anytime: bool = False) -> Bets:
    """Plug-in bets of Waudby-Smith and Ramdas (2024): sqrt(2 ln(1/delta) / (variance so far * n)).

    With `anytime` the end is not known: t ln(1 + t) takes the place of n.
    """
    losses = _checked(losses, delta)
    t = np.arange(1, losses.size + 1, dtype=float)
    # as if one loss of 1/2 and a variance of 1/4 had been seen before the first
    means = (0.5 + np.cumsum(losses)) / (t + 1)
    variances = (0.25 + np.cumsum((losses - means) ** 2)) / (t + 1)
    before = np.concatenate([[0.25], variances[:-1]])
    horizon = t * np.log1p(t) if anytime else float(losses.size)
    return Bets(losses, np.sqrt(2 * np.log(1 / delta) / (before * horizon)))


def betting(losses: ArrayLike, delta: float, *, anytime: bool = False) -> float:
    """Betting bound: the smallest mean that a bettor against all larger ones has ruined.

        K_t(m) = prod over i <= t of (1 + b_i(m) (m - X_i)),   b_i known before X_i
        bound = the largest m with max over t of K_t(m) < 1/delta

    By far the tightest of the three where losses vary little. By Ville's inequality it holds at all
    times at once, so a stream may be watched; `anytime` chooses bets that do not know the end.

    Parameters
    ----------
    losses : array, shape (n,)
        In an order that was fixed without looking at them.
    delta : float
    anytime : bool, default=False

    Notes
    -----
    Every factor grows with m: for a bet that does not depend on m this is plain; for one at its cap
    c/(1-m) the derivative is c (1 - X) / (1-m)^2 >= 0. So what is excluded is an interval that ends
    at 1, and bisection finds its lower end; the upper end of the last bracket is returned.

    Examples
    --------
    >>> losses = 0.27 + 0.04 * np.cos(np.arange(400.0))
    >>> 0.27 < betting(losses, 0.05) < maurer_pontil(losses, 0.05) < chernoff(losses, 0.05)
    True
    """
    placed = bets(losses, delta, anytime=anytime)
    return _largest_kept(lambda m: float(placed.log_wealth(m).max()), delta, placed.losses.size)


def betting_path(losses: ArrayLike, delta: float) -> np.ndarray:
    """The bound of a watched stream after each loss, never rising: shape (n,).

    Examples
    --------
    >>> import numpy as np
    >>> path = betting_path(np.tile([0.2, 0.3], 500), 0.05)
    >>> path.shape, bool(path[-1] < path[10])
    ((1000,), True)
    """
    placed = bets(losses, delta, anytime=True)
    grid = np.linspace(0.0, 1.0, 2001)[1:]
    needed = -np.log(delta) + 1e-9
    path = np.ones(placed.losses.size)
    for m in grid[::-1]:  # from above: once m is never excluded, nothing below it is
        hit = np.flatnonzero(placed.log_wealth(float(m)) >= needed)
        if not hit.size:
            break
        path[hit[0] :] = m
    return path


def _largest_kept(log_wealth: Callable[[float], float], delta: float, n: int) -> float:
    needed = -np.log(delta) * (1 + _ROUNDING) + 4 * n * np.finfo(float).eps
    low, high = 0.0, 1.0
    if log_wealth(1.0) < needed:
        return 1.0
    while high - low > 1e-12:
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        low, high = (low, middle) if log_wealth(middle) >= needed else (middle, high)
    return high


MEAN_BOUNDS: dict[str, Callable] = {
    "betting": betting,
    "maurer-pontil": maurer_pontil,
    "chernoff": chernoff,
}
