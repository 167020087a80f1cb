"""Lower bounds on a ratio of two means, and a test of one mean, by betting."""

import numpy as np

from pacsent.maths import means

_CAP = 0.5  # of the largest bet that cannot lose everything


def mean_is_below(losses: np.ndarray, mean: float, delta: float) -> bool:
    """Whether losses in [0, 1] rule out all means of `mean` and above, at level delta.

    The test behind `means.betting`: the bound is below `mean` exactly where this is true.

    >>> bool(mean_is_below(np.zeros(100), 0.1, 0.05)), bool(mean_is_below(np.zeros(20), 0.1, 0.05))
    (True, False)
    """
    if not losses.size:
        return False
    return bool(means.bets(losses, delta).log_wealth(mean).max() >= -np.log(delta) + 1e-9)


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
    sums = [np.concatenate([[0.0], np.cumsum(v)[:-1]])
            for v in (part, whole, part**2, part * whole, whole**2)]  # fmt: skip
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
