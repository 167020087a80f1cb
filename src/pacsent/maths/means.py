"""Upper bounds on the mean of independent losses in [0, 1] that nothing was fitted on.

Each holds by itself with probability 1 - delta; taking the smaller of two costs delta/2 each. All
are rounded up. They differ in what they assume: `maurer_pontil` one distribution, `betting` one
mean (also given the losses before), `chernoff` independent losses, whose means may differ: it
bounds their average. `differing_means` bounds the average of means that may depend on the past.
`betting` does not: where means differ, its bound is about none of them, and often below their
average. Last come a test of one mean and a lower bound on a ratio of two, by the same bets.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pacsent.maths import bounds
from pacsent.maths.rounding import rounded_up

_CAP = 0.5  # of the largest bet that cannot lose everything, in certificates of encoders
BOLD = 0.9  # the same for few losses, where it gives smaller bounds
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
    cap: float = _CAP

    def log_wealth(self, mean: float) -> np.ndarray:
        """ln K_t(mean) for t = 1..n; K is a supermartingale if the losses' mean is >= `mean`."""
        bets = np.minimum(self.sizes, self.cap / (1.0 - mean)) if mean < 1 else self.sizes
        return np.cumsum(np.log1p(bets * (mean - self.losses)))


def bets(losses: ArrayLike, delta: float, *, anytime: bool = False, cap: float = _CAP) -> Bets:
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
    return Bets(losses, np.sqrt(2 * np.log(1 / delta) / (before * horizon)), cap)


def betting(losses: ArrayLike, delta: float, *, anytime: bool = False, cap: float = _CAP) -> float:
    """Betting bound: the smallest mean that a bettor against all larger ones has ruined.

        K_t(m) = prod over i <= t of (1 + b_i(m) (m - X_i)),   b_i known before X_i
        bound = the largest m with max over t of K_t(m) < 1/delta

    By far the tightest of the three where losses vary little. By Ville's inequality it holds at all
    times at once, so a stream may be watched; `anytime` chooses bets that do not know the end. The
    order of the losses must have been fixed without looking at them, and so must `cap`, the largest
    share of the wealth that one loss may cost.

    As it takes the best moment of the past, the bound can be below the mean of all the losses, most
    easily with `anytime`. It is still right if every loss has one mean; but it is also what losses
    give whose mean rose, about which it says nothing. Therefore it warns. `differing_means` bounds
    the average of all means.

    Every factor grows with m: for a bet that does not depend on m this is plain; for one at its cap
    c/(1-m) the derivative is c (1 - X) / (1-m)^2 >= 0. So what is excluded is an interval that ends
    at 1, and bisection finds its lower end; the upper end of the last bracket is returned.

    >>> losses = 0.27 + 0.04 * np.cos(np.arange(400.0))
    >>> 0.27 < betting(losses, 0.05) < maurer_pontil(losses, 0.05) < chernoff(losses, 0.05)
    True
    """
    placed = bets(losses, delta, anytime=anytime, cap=cap)
    n, mean = placed.losses.size, float(placed.losses.mean())
    bound = _smallest_excluded(
        lambda m: float(placed.log_wealth(m).max()),
        -np.log(delta) * (1 + _ROUNDING) + 4 * n * np.finfo(float).eps,
    )
    if bound < mean:
        warnings.warn(
            f"The bound {rounded_up(bound)} is below the mean {mean:.4g} of the losses that it was "
            "made from. It is right if all have one mean; losses whose mean rose give the same. "
            "Shuffle losses whose order has no meaning, or use differing_means.",
            stacklevel=2,
        )
    return bound


_TILTS = np.geomspace(0.01, 10.0, 25)  # lambdas that are mixed


def differing_means(losses: ArrayLike, delta: float) -> float:
    """Upper bound on the average of means that differ, and may depend on the losses before them.

        the largest m with  mean over lambda of exp(-lambda S) / (1 - m (1 - e^-lambda))^n < 1/delta

    S is the sum of the n losses, which are in the order in which they came. It holds at all n at
    once, each with the average of the means so far. So it judges a classifier that goes on
    learning, where each text is predicted before its label is learned: it bounds the average error
    of the classifiers so far. For one classifier that is fixed `betting` is tighter; for the j-th
    of several spend 6 delta / (pi j)^2 on it.

    >>> losses = np.repeat([1.0, 0.0], [60, 540])  # it errs at first, then it has learned
    >>> round(differing_means(losses, 0.05), 4)
    0.1431
    """
    losses = _checked(losses, delta)
    n, total = losses.size, float(losses.sum())
    gain = -np.expm1(-_TILTS)

    def log_wealth(m):
        logs = -_TILTS * total - n * np.log1p(-m * gain)
        return float(np.logaddexp.reduce(logs)) - np.log(_TILTS.size)

    return _smallest_excluded(log_wealth, -np.log(delta) * (1 + _ROUNDING) + _ROUNDING * n)


def _smallest_excluded(log_wealth: Callable[[float], float], needed: float) -> float:
    """The smallest mean whose wealth, which grows with it, is at least `needed`; 1 if none is."""
    low, high = 0.0, 1.0
    if log_wealth(1.0) < needed:
        return 1.0
    while high - low > 1e-12:
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        low, high = (low, middle) if log_wealth(middle) >= needed else (middle, high)
    return high


def mean_is_below(losses: np.ndarray, mean: float, delta: float) -> bool:
    """Whether losses in [0, 1] rule out all means of `mean` and above, at level delta.

    The test behind `betting`: the bound is below `mean` exactly where this is true.

    >>> bool(mean_is_below(np.zeros(100), 0.1, 0.05)), bool(mean_is_below(np.zeros(20), 0.1, 0.05))
    (True, False)
    """
    if not losses.size:
        return False
    return bool(bets(losses, delta).log_wealth(mean).max() >= -np.log(delta) + 1e-9)


def ratio_at_least(part: np.ndarray, whole: np.ndarray, largest: float, delta: float) -> float:
    """With probability 1 - delta, E[part] / E[whole] is at least this, for 0 <= part <= whole.

        K_t(r) = prod over i <= t of (1 + b_i(r) (part_i - r whole_i)),  b_i known before i
        0 <= b_i(r) <= cap / (r largest)

    The factors are nonnegative because whole <= largest, and of expectation at most 1 where the
    ratio is at most r, so by Ville's inequality all r with max over t of K_t(r) >= 1/delta are
    ruled out. Every factor falls with r, so they are an interval that begins at 0. The pairs are
    independent and of one distribution, in an order fixed without looking.

    >>> part = np.tile([1.0, 1.0, 0.0, 2.0], 250)
    >>> 0.7 < ratio_at_least(part, np.tile([1.0, 2.0, 0.0, 2.0], 250), 5.0, 0.05) < 0.8
    True
    """
    part, whole = np.asarray(part, float), np.asarray(whole, float)
    if not part.size or not (part >= 0).all() or not (part <= whole).all():
        raise ValueError("part must be numbers between 0 and whole. Got others or none instead.")
    if not (whole <= largest).all():
        raise ValueError(f"whole must be at most {largest}. Got {whole.max()} instead.")
    # variance of part - ratio * whole so far, as if one pair of (1/2, 1) had come before the first
    n_before = np.arange(1.0, part.size + 1)
    sums = [
        np.concatenate([[0.0], np.cumsum(v)[:-1]])
        for v in (part, whole, part**2, part * whole, whole**2)
    ]
    ratio = (0.5 + sums[0]) / (1.0 + sums[1])
    squares = 0.25 + sums[2] - 2 * ratio * sums[3] + ratio**2 * sums[4]
    sizes = np.sqrt(2 * np.log(1 / delta) / (np.maximum(squares, 0.05) / n_before * part.size))

    def ruled_out(r):
        bets = np.minimum(sizes, _CAP / (r * largest))
        wealth = np.cumsum(np.log1p(bets * (part - r * whole)))
        return wealth.max() >= -np.log(delta) + 1e-9

    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ruled_out(middle) else (low, middle)
    return low


MEAN_BOUNDS: dict[str, Callable] = {
    "betting": betting,
    "maurer-pontil": maurer_pontil,
    "chernoff": chernoff,
}
