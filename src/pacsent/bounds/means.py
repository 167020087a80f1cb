"""Upper bounds on the mean of losses in [0, 1] that nothing was fitted on, by betting.

A bettor against a mean m places bets b_i >= 0, known before X_i, and has after t losses the wealth

    K_t(m) = prod over i <= t of (1 + b_i (m - X_i)),   b_i <= cap / (1 - m),  cap < 1

which ever reaches 1/delta with probability at most delta if every loss has a mean of at least m
given those before; where it does, m is ruled out. `betting` assumes one mean; `differing_means`
bounds the average of means that may depend on the past. All are rounded up. Last come a test of one
mean and a lower bound on a ratio of two.
"""

import warnings

import numpy as np
from numpy.typing import ArrayLike

from pacsent.bounds.checks import check_probability
from pacsent.bounds.rounding import rounded_up

# Largest fraction of the wealth that one loss may cost: where bets aim at the wealth that is still
# missing, the last of which are bold, and elsewhere.
_BOLD_CAP, _CAP = 0.9, 0.5

# `betting` tests the multiples of 1 / _N_MEANS, this many side by side.
_N_MEANS, _BLOCK = 10_000, 512

_ROUNDING = 1e-12  # relative; a float64 sum of a million logarithms is off by less


def _checked(losses, delta) -> np.ndarray:
    losses = np.asarray(losses, dtype=float)
    if losses.ndim != 1 or not losses.size:
        raise ValueError(
            f"losses must be a list of at least one number. Got shape {losses.shape} instead."
        )
    inside = (losses >= 0) & (losses <= 1)  # also excludes nan
    if not inside.all():
        raise ValueError(f"losses must be in [0, 1]. Got {losses[~inside][0]} instead. Rescale.")
    check_probability("delta", delta)
    return losses


def _variances_before(losses):
    """The variance of the losses before each, as if one of 1/2 and a variance of 1/4 came first."""
    t = np.arange(1, losses.size + 1, dtype=float)
    means = (0.5 + np.cumsum(losses)) / (t + 1)
    variances = (0.25 + np.cumsum((losses - means) ** 2)) / (t + 1)
    return np.concatenate([[0.25], variances[:-1]])


def log_wealth(losses: np.ndarray, means: np.ndarray, needed: float) -> np.ndarray:
    """ln of the wealth against each mean after all losses, by bets aimed at `needed`.

        b_i = sqrt(2 (needed - ln K_{i-1}) / (variance so far * losses to come))

    After STaR-Bets (Voracek and Orabona, 2025): the plug-in bet for the log-wealth that is still
    missing and the losses that are left. Nothing is bet once the goal is reached.
    """
    n = losses.size
    scales = np.sqrt(2.0 / (_variances_before(losses) * np.arange(n, 0, -1)))
    wealth, largest = np.zeros_like(means), _BOLD_CAP / (1.0 - means)
    for i, (loss, scale) in enumerate(zip(losses.tolist(), scales.tolist())):
        sizes = np.minimum(scale * np.sqrt(np.maximum(needed - wealth, 0.0)), largest)
        wealth += np.log1p(sizes * (means - loss))
        if i % 8 == 7 and wealth.min() >= needed:
            break
    return wealth


def betting(losses: ArrayLike, delta: float) -> float:
    """Upper bound on the mean: the smallest that a bettor against it and all larger ones ruled out.

    The means tested are the multiples of 0.0001, from above, until one is not ruled out (Theorem 8
    of docs/theory.md). The order of the losses must have been fixed without looking at them. The
    bound can be below the mean of all the losses. It is still right if every loss has one mean; but
    it is also what losses give whose mean rose, about which it says nothing. Therefore it warns.

    >>> losses = 0.27 + 0.04 * np.cos(np.arange(400.0))
    >>> betting(losses, 0.05)
    0.2767
    """
    losses = _checked(losses, delta)
    needed = -np.log(delta) * (1 + _ROUNDING) + 4 * losses.size * np.finfo(float).eps
    bound = 1.0
    for start in range(_N_MEANS - 1, 0, -_BLOCK):
        means = np.arange(start, max(start - _BLOCK, 0), -1) / _N_MEANS
        kept = np.flatnonzero(log_wealth(losses, means, needed) < needed)
        n_excluded = kept[0] if kept.size else means.size
        bound = float(means[n_excluded - 1]) if n_excluded else bound
        if kept.size:
            break
    mean = float(losses.mean())
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
    once, each with the average of the means so far (Theorem 9 of docs/theory.md): that of the
    errors of a classifier that goes on learning, where each text is predicted before its label is
    learned. For one classifier that is fixed `betting` is tighter.

    >>> losses = np.repeat([1.0, 0.0], [60, 540])  # it errs at first, then it has learned
    >>> round(differing_means(losses, 0.05), 4)
    0.1431
    """
    losses = _checked(losses, delta)
    n, total = losses.size, float(losses.sum())
    gain = -np.expm1(-_TILTS)

    needed, low, high = -np.log(delta) * (1 + _ROUNDING) + _ROUNDING * n, 0.0, 1.0
    while high - low > 1e-12:
        middle = 0.5 * (low + high)
        logs = -_TILTS * total - n * np.log1p(-middle * gain)
        excluded = np.logaddexp.reduce(logs) - np.log(_TILTS.size) >= needed
        low, high = (low, middle) if excluded else (middle, high)
    return high


def mean_is_below(losses: np.ndarray, mean: float, delta: float) -> bool:
    """Whether losses in [0, 1] rule out all means of `mean` and above, at level delta.

    >>> bool(mean_is_below(np.zeros(100), 0.1, 0.05)), bool(mean_is_below(np.zeros(20), 0.1, 0.05))
    (True, False)
    """
    if not losses.size:
        return False
    # Plug-in bets (Waudby-Smith and Ramdas, 2024), which cost one pass of vector operations.
    sizes = np.sqrt(2 * np.log(1 / delta) / (_variances_before(losses) * losses.size))
    wealth = np.cumsum(np.log1p(np.minimum(sizes, _CAP / (1.0 - mean)) * (mean - losses)))
    return bool(wealth.max() >= -np.log(delta) + 1e-9)


def ratio_at_least(part: np.ndarray, whole: np.ndarray, largest: float, delta: float) -> float:
    """With probability 1 - delta, E[part] / E[whole] is at least this, for 0 <= part <= whole.

    Theorem 21 of docs/theory.md: bets on part - r whole rule out all r below the bound. The pairs
    are independent and of one distribution, in an order fixed without looking.

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
    sizes = np.sqrt(2 * np.log(1 / delta) / (squares / n_before * part.size))

    def ruled_out(r):
        bets = np.minimum(sizes, _CAP / (r * largest))
        wealth = np.cumsum(np.log1p(bets * (part - r * whole)))
        return wealth.max() >= -np.log(delta) + 1e-9

    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ruled_out(middle) else (low, middle)
    return low
