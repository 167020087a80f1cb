"""Limits on the difference of two error rates: coverage by enumeration, and expected limits.

    python benchmarks/comparison.py [--texts 100] [--processes 2] [--save]

All outcomes of `--texts` texts are enumerated: the probability that a lower limit is above the true
difference, its expectation, and how often it is above 0. Baselines: limits for the discordant texts
and for which of them favour one classifier (Clopper-Pearson, delta divided), and Wald's, which are
not valid.
"""

from functools import partial

import numpy as np
from scipy import stats

from harness import finish, parser_for, run_jobs
from pacsent.bounds.binomial import two_sided_limits
from pacsent.bounds.paired_difference import difference_limits

DELTA = 0.05
# errors of the first classifier, of the second, and of both on one text
ERROR_RATES = [(0.05, 0.15, 0.025), (0.1, 0.1, 0.05), (0.05, 0.05, 0.0), (0.02, 0.1, 0.01)]


def conditional_limits(x: int, y: int, n: int, delta: float) -> tuple[float, float]:
    """Limits of the discordant texts (a tenth of delta) and of the part that favours the first."""
    low, high = two_sided_limits(x, x + y, 0.9 * delta)
    least, most = two_sided_limits(x + y, n, 0.1 * delta)
    low, high = 2.0 * low - 1.0, 2.0 * high - 1.0
    return (least if low > 0 else most) * low, (most if high > 0 else least) * high


def wald_limits(x: int, y: int, n: int, delta: float) -> tuple[float, float]:
    margin = stats.norm.ppf(1.0 - delta / 2) * np.sqrt(x + y - (x - y) ** 2 / n) / n
    return (x - y) / n - margin, (x - y) / n + margin


LIMITS = {"exact": difference_limits, "conditional": conditional_limits, "Wald": wald_limits}


def limits_of(outcome: tuple[int, int], n: int) -> list[tuple[float, float]]:
    return [limits(*outcome, n, DELTA) for limits in LIMITS.values()]


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    n = given.texts

    cells = [(p, q) for p in np.arange(0.0, 0.51, 0.02) for q in np.arange(0.0, 0.31, 0.02)]
    cells += [(b - both, a - both) for a, b, both in ERROR_RATES]

    # outcomes that have a probability somewhere
    outcomes = [(x, y) for x in range(n + 1) for y in range(n + 1 - x)]
    counts = np.array([(x, y, n - x - y) for x, y in outcomes])
    probability = np.array([stats.multinomial.pmf(counts, n, [p, q, 1 - p - q]) for p, q in cells])
    is_likely = probability.max(axis=0) > 1e-7
    counts, probability = counts[is_likely], probability[:, is_likely]
    outcomes = [tuple(row) for row in counts[:, :2].tolist()]
    limits = np.array(run_jobs(partial(limits_of, n=n), outcomes, given.processes))

    difference = np.array([p - q for p, q in cells])
    rows = []
    for i, name in enumerate(LIMITS):
        lower, upper = limits[:, i].T
        is_false = (lower > difference[:, None]) | (upper < difference[:, None])
        largest = float((probability * is_false).sum(axis=1).max())
        for (a, b, both), chance in zip(ERROR_RATES, probability[-len(ERROR_RATES) :]):
            rows.append(
                {
                    "limits": name,
                    "errors": f"{a:g}, {b:g}, both {both:g}",
                    "expected lower limit": float(chance @ lower / chance.sum()),
                    "above 0": float(chance @ (lower > 0)),
                    "false, worst of all rates": largest,
                }
            )
    false = rows[0]["false, worst of all rates"]
    summary = {"n": n, "delta": DELTA, "rates": len(cells), "false": false}
    finish("comparison", rows, summary=summary, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
