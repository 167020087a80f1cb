"""Upper bounds on the mean of losses in [0, 1] that nothing was fitted on, by betting.

A bettor against a mean m places bets b_i >= 0, known before X_i, and has after t losses the wealth

    K_t(m) = prod over i <= t of (1 + b_i (m - X_i)),   b_i <= cap / (1 - m),  cap < 1

which ever reaches 1/delta with probability at most delta if every loss has a mean of at least m
given those before; where it does, m is ruled out. `betting` assumes one mean; `differing_means`
bounds the average of means that may depend on the past. All are rounded up. Last come a test of one
mean and a lower bound on a ratio of two.

References
----------
V. Voracek and F. Orabona, STaR-Bets: sequential target-recalculating bets for tighter confidence
intervals, 2025.
I. Waudby-Smith and A. Ramdas, Estimating means of bounded random variables by betting, Journal of
the Royal Statistical Society B 86, 2024.
"""

import warnings

import numpy as np
from numpy.typing import ArrayLike

from pacsent.bounds.checks import check_probability
from pacsent.bounds.rounding import rounded_up

# Largest fraction of the wealth that one loss may cost where bets aim at the wealth that is still
# missing, the last of which are bold.
_BOLD_CAP = 0.9
# The same for all other bets.
_CAP = 0.5

# `betting` tests the multiples of 1 / _N_MEANS.
_N_MEANS = 10_000
# It tests this many means side by side.
_BLOCK = 512

# Relative; a float64 sum of a million logarithms is off by less.
_ROUNDING = 1e-12


def _checked(losses: ArrayLike, delta: float) -> np.ndarray:
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


def _variances_before(losses: np.ndarray) -> np.ndarray:
    """Variance of the losses before each, (n,), as if one of 1/2 and a variance of 1/4 came first.

    mean_t = (1/2 + sum of X_i up to t) / (t + 1)
    variance_t = (1/4 + sum of (X_i - mean_i)^2 up to t) / (t + 1),   variance_0 = 1/4
    """
    t = np.arange(1, losses.size + 1, dtype=float)
    means = (0.5 + np.cumsum(losses)) / (t + 1)
    variances = (0.25 + np.cumsum((losses - means) ** 2)) / (t + 1)
    return np.concatenate([[0.25], variances[:-1]])


def log_wealth(losses: np.ndarray, means: np.ndarray, needed: float) -> np.ndarray:
    """Logarithm of the wealth against each mean after all losses, by bets aimed at `needed`.

        b_i = sqrt(2 (needed - ln K_{i-1}) / (variance so far * losses to come)),
        at most 0.9 / (1 - m)

    The plug-in bet for the log-wealth that is still missing and the losses that are left. Nothing
    is bet once the goal is reached.

    Parameters
    ----------
    losses : array, shape (n,)
    means : array, shape (n_means,)
        Each below 1.
    needed : float
        The log-wealth that rules a mean out.

    Returns
    -------
    array, shape (n_means,)
        Once all means are ruled out the remaining losses are not read.

    References
    ----------
    Voracek and Orabona (2025), STaR-Bets; Theorem 8 of docs/theory.md.
    """
    n_to_come = np.arange(losses.size, 0, -1)
    scales = np.sqrt(2.0 / (_variances_before(losses) * n_to_come))  # (n,)
    largest_bets = _BOLD_CAP / (1.0 - means)  # (n_means,)

    wealth = np.zeros_like(means)
    for i, (loss, scale) in enumerate(zip(losses.tolist(), scales.tolist())):
        missing = np.maximum(needed - wealth, 0.0)
        bets = np.minimum(scale * np.sqrt(missing), largest_bets)
        wealth += np.log1p(bets * (means - loss))
        if i % 8 == 7 and wealth.min() >= needed:
            break
    return wealth


def betting(losses: ArrayLike, delta: float) -> float:
    """Upper bound on the mean: the smallest that a bettor against it and all larger ones ruled out.

    The means tested are the multiples of 0.0001, from above, until one is not ruled out. The order
    of the losses must have been fixed without looking at them. The bound can be below the mean of
    all the losses. It is still right if every loss has one mean; but it is also what losses give
    whose mean rose, about which it says nothing. Therefore it warns.

    Parameters
    ----------
    losses : array-like, shape (n,)
        In [0, 1].
    delta : float
        Probability that the bound is false.

    Returns
    -------
    float

    References
    ----------
    Voracek and Orabona (2025), STaR-Bets; Theorem 8 of docs/theory.md.

    Examples
    --------
    >>> losses = 0.27 + 0.04 * np.cos(np.arange(400.0))
    >>> betting(losses, 0.05)
    0.2767
    """
    losses = _checked(losses, delta)
    needed = -np.log(delta) * (1 + _ROUNDING) + 4 * losses.size * np.finfo(float).eps

    bound = 1.0
    for start in range(_N_MEANS - 1, 0, -_BLOCK):
        stop = max(start - _BLOCK, 0)
        means = np.arange(start, stop, -1) / _N_MEANS  # from above
        is_kept = log_wealth(losses, means, needed) < needed
        n_excluded = means.size
        if is_kept.any():
            n_excluded = int(np.argmax(is_kept))
        if n_excluded:
            bound = float(means[n_excluded - 1])
        if is_kept.any():
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


# The lambdas that `differing_means` mixes.
_TILTS = np.geomspace(0.01, 10.0, 25)


def differing_means(losses: ArrayLike, delta: float) -> float:
    """Upper bound on the average of means that differ, and may depend on the losses before them.

        the largest m with  mean over lambda of exp(-lambda S) / (1 - m (1 - e^-lambda))^n < 1/delta

    S is the sum of the n losses, which are in the order in which they came. It holds at all n at
    once, each with the average of the means so far: that of the errors of a classifier that goes on
    learning, where each text is predicted before its label is learned. For one classifier that is
    fixed `betting` is tighter.

    Parameters
    ----------
    losses : array-like, shape (n,)
        In [0, 1], in the order in which they came.
    delta : float
        Probability that the bound is false.

    Returns
    -------
    float

    References
    ----------
    Theorem 9 of docs/theory.md.

    Examples
    --------
    >>> losses = np.repeat([1.0, 0.0], [60, 540])  # it errs at first, then it has learned
    >>> round(differing_means(losses, 0.05), 4)
    0.1431
    """
    losses = _checked(losses, delta)
    n = losses.size
    total = float(losses.sum())
    gains = -np.expm1(-_TILTS)  # (n_tilts,), 1 - e^-lambda
    needed = -np.log(delta) * (1 + _ROUNDING) + _ROUNDING * n

    low = 0.0
    high = 1.0
    while high - low > 1e-12:
        middle = 0.5 * (low + high)
        log_terms = -_TILTS * total - n * np.log1p(-middle * gains)  # (n_tilts,)
        log_mean = np.logaddexp.reduce(log_terms) - np.log(_TILTS.size)
        if log_mean >= needed:
            high = middle
        else:
            low = middle
    return high


def mean_is_below(losses: np.ndarray, mean: float, delta: float) -> bool:
    """Test of level delta: True if losses in [0, 1] rule out all means of `mean` and above.

        max over t of prod over i <= t of (1 + b_i (mean - X_i)) >= 1/delta,
        b_i = sqrt(2 ln(1/delta) / (variance so far * n)), at most 0.5 / (1 - mean)

    These plug-in bets cost one pass of vector operations.

    Parameters
    ----------
    losses : array, shape (n,)
    mean, delta : float

    Returns
    -------
    bool
        False for no losses.

    References
    ----------
    Waudby-Smith and Ramdas (2024); Theorem 22 of docs/theory.md uses it.

    Examples
    --------
    >>> bool(mean_is_below(np.zeros(100), 0.1, 0.05)), bool(mean_is_below(np.zeros(20), 0.1, 0.05))
    (True, False)
    """
    if not losses.size:
        return False

    variances = _variances_before(losses)  # (n,)
    uncapped = np.sqrt(2 * np.log(1 / delta) / (variances * losses.size))
    bets = np.minimum(uncapped, _CAP / (1.0 - mean))
    wealth = np.cumsum(np.log1p(bets * (mean - losses)))  # (n,), its logarithm
    return bool(wealth.max() >= -np.log(delta) + 1e-9)


def ratio_at_least(part: np.ndarray, whole: np.ndarray, largest: float, delta: float) -> float:
    """Lower bound on E[part] / E[whole] for 0 <= part <= whole, with probability 1 - delta.

        the smallest r with  max over t of K_t(r) < 1/delta,
        K_t(r) = prod over i <= t of (1 + b_i (part_i - r whole_i)),
        b_i = sqrt(2 ln(1/delta) / (variance so far * n)), at most 0.5 / (r largest)

    The pairs are independent and of one distribution, in an order fixed without looking.

    Parameters
    ----------
    part, whole : array, shape (n,)
    largest : float
        Fixed beforehand; no `whole` exceeds it.
    delta : float
        Probability that the bound is false.

    Returns
    -------
    float
        Within 1e-9 below the edge.

    References
    ----------
    Theorem 21 of docs/theory.md.

    Examples
    --------
    >>> part = np.tile([1.0, 1.0, 0.0, 2.0], 250)
    >>> 0.7 < ratio_at_least(part, np.tile([1.0, 2.0, 0.0, 2.0], 250), 5.0, 0.05) < 0.8
    True
    """
    part = np.asarray(part, float)
    whole = np.asarray(whole, float)
    are_possible = (part >= 0) & (part <= whole)  # (n,)
    if not part.size or not are_possible.all():
        raise ValueError("part must be numbers between 0 and whole. Got others or none instead.")
    if not (whole <= largest).all():
        raise ValueError(f"whole must be at most {largest}. Got {whole.max()} instead.")

    # The variance of part - ratio * whole so far, as if one pair of (1/2, 1) had come before the
    # first: sum of (part - ratio whole)^2 = sum of part^2 - 2 ratio part whole + ratio^2 whole^2.
    n_before = np.arange(1.0, part.size + 1)
    ratio = (0.5 + _sum_before(part)) / (1.0 + _sum_before(whole))
    squares = (
        0.25
        + _sum_before(part**2)
        - 2 * ratio * _sum_before(part * whole)
        + ratio**2 * _sum_before(whole**2)
    )
    variances = squares / n_before  # (n,)
    uncapped = np.sqrt(2 * np.log(1 / delta) / (variances * part.size))

    def is_ruled_out(r: float) -> bool:
        bets = np.minimum(uncapped, _CAP / (r * largest))
        wealth = np.cumsum(np.log1p(bets * (part - r * whole)))  # (n,), its logarithm
        return bool(wealth.max() >= -np.log(delta) + 1e-9)

    low = 0.0
    high = 1.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        if is_ruled_out(middle):
            low = middle
        else:
            high = middle
    return low


def _sum_before(values: np.ndarray) -> np.ndarray:
    """Sum of the values before each, (n,)."""
    return np.concatenate([[0.0], np.cumsum(values)[:-1]])
