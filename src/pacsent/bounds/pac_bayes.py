"""PAC-Bayes bounds: numbers in, number out.

Every bound has the signature `bound(empirical_risk, kl, n, delta, *, ...)`: a risk in [0, 1]
measured on `n` independent examples, KL(Q||P) in nats for a prior fixed before those examples were
seen, and the probability `delta` of failure. Arrays broadcast. The inputs are taken as exact; the
result is rounded up, never below the value of the formula, and clipped to 1 unless `clip=False`.

Every formula is a sum, product or quotient of positive terms (no cancellation), so its relative
error is a few units in the last place, by more than which the result is widened (`_up`).
"""

from typing import Any

import numpy as np
from scipy import special

from pacsent.arrays import Numbers

_EPS = np.finfo(float).eps
_SMALLEST_RISK = 1e-290  # below this a risk is rounded up, so that ratios cannot overflow
_SMALLEST_BUDGET = 1e-280  # and a budget in nats, so that squares cannot underflow
_LARGEST_SUM = 1_000_000  # ln_xi sums its series up to this n, and uses its expansion above
GRID = 0.01 * 2.0 ** (np.arange(23) / 2)  # lam / n of catoni_over_grid: 0.01 to 20.48


def _up(x, ulps):
    """x >= 0 widened by `ulps` units in the last place, and one more."""
    return np.nextafter(x * (1.0 + ulps * _EPS), np.inf)


def _down(x, ulps):
    return np.maximum(np.nextafter(x * (1.0 - ulps * _EPS), -np.inf), 0.0)


def _checked(empirical_risk, kl, n, delta):
    q = _array("empirical_risk", empirical_risk, lambda x: (x >= 0) & (x <= 1), "between 0 and 1")
    kl = _array("kl", kl, lambda x: (x >= 0) & np.isfinite(x), "a finite number of nats, >= 0")
    return q, kl, _sample_size(n), _failure_probability(delta)


def _array(name, value, right, rule):
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be {rule}. Got {value!r} instead.") from None
    bad = ~right(array)
    if np.any(bad):
        raise ValueError(f"{name} must be {rule}. Got {array[bad].flat[0]:g} instead.")
    return array


def _sample_size(n):
    rule = "a whole number of examples, >= 1"
    return _array("n", n, lambda x: (x >= 1) & (x == np.floor(x)) & np.isfinite(x), rule)


def _failure_probability(delta):
    return _array("delta", delta, lambda x: (x > 0) & (x < 1), "strictly between 0 and 1")


def _finish(value, clip):
    value = np.minimum(value, 1.0) if clip else value
    return float(value) if np.ndim(value) == 0 else value


def _g(t):
    """t - log1p(t) >= 0 for t > -1, without cancellation near 0."""
    small = np.abs(t) < 0.1
    s = np.where(small, t, 0.0)
    series = np.zeros_like(s)
    for j in range(21, 1, -1):  # s^2/2 - s^3/3 + ...; |s| < 0.1, so the rest is below 1e-21
        series = (1.0 if j % 2 == 0 else -1.0) / j + s * series
    with np.errstate(divide="ignore"):  # t = -1 gives infinity, which is right
        direct = t - np.log1p(t)
    return np.where(small, s * s * series, direct)


def _kl_at(q, x):
    """kl(q || q + x) for 0 < q < 1, 0 <= x <= 1 - q: a sum of two terms >= 0."""
    r = 1.0 - q
    return q * _g(x / q) + r * _g(np.maximum(-x / r, -1.0))


def kl_inverse(q: Numbers, c: Numbers) -> Any:
    """sup {p : kl(q || p) <= c}, the largest true rate that a budget allows; never below it.

    q is the observed rate, c the budget in nats, which may be infinite.

    >>> round(kl_inverse(0.1, 0.05), 6)
    0.220079
    """
    q = _array("q", q, lambda x: (x >= 0) & (x <= 1), "between 0 and 1")
    c = _array("c", c, lambda x: x >= 0, "a number of nats, >= 0")
    q, c = (np.array(a, dtype=float) for a in np.broadcast_arrays(q, c))
    c = np.where(c > 0, np.maximum(c, _SMALLEST_BUDGET), 0.0)
    inside = (q > 0) & (q < 1) & (c > 0) & np.isfinite(c)
    safe_q = np.where(inside, np.maximum(q, _SMALLEST_RISK), 0.5)  # the inverse grows with q
    x = _displacement(safe_q, np.where(inside, c, 1.0))
    p = np.nextafter(_up(x, 8) + safe_q, 2.0)
    at_zero = np.where(c == 0, 0.0, _up(-np.expm1(-c), 4))
    p = np.where(inside, p, np.where(q == 0, at_zero, q))
    p = np.where((q >= 1) | np.isinf(c), 1.0, p)
    return _finish(p, clip=True)


def _displacement(q, c):
    """x > 0 with kl(q || q + x) >= c, within a few ulp of the smallest such x.

    Newton from above on a convex increasing function of x, bisection when it leaves its bracket;
    then x is widened until the evaluated kl reaches c inflated by more than the evaluation's own
    relative error (2e-15 for x/q and _g, 1e-14 allowed), so the true kl at x (1 + 4 eps) does.
    """
    largest = np.nextafter(1.0 - q, 2.0)
    target = c * (1.0 + 1e-14)
    lo = np.zeros_like(q)
    hi = np.minimum(largest, np.sqrt(target / 2) * (1.0 + 1e-14))  # Pinsker: kl >= 2 x^2
    x = hi.copy()
    for _ in range(200):
        excess = _kl_at(q, x) - target
        above = excess > 0
        hi, lo = np.where(above, x, hi), np.where(above, lo, x)
        p = q + x
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x - excess * p * (1.0 - p) / x  # d kl / d x = x / (p (1 - p))
        new = np.where((newton > lo) & (newton < hi), newton, 0.5 * (lo + hi))
        done = (np.abs(newton - x) <= 1e-15 * x) | (hi - lo <= 4e-16 * hi)
        x = np.where(done, x, new)
        if done.all():
            break
    step = 4 * _EPS
    while True:
        short = (_kl_at(q, x) < target) & (x < largest)
        if not short.any():
            return x
        x = np.where(short, np.minimum(x * (1.0 + step), largest), x)
        step *= 2


def ln_xi(n: Numbers) -> Any:
    """ln xi(n), xi(n) = sum_k C(n,k) (k/n)^k (1-k/n)^(n-k); rounded up. Always <= ln(2 sqrt n).

    xi(n) = sum_j n! / ((n-j)! n^j): each term is the one before times (n-j+1)/n. The sum is cut
    where the terms fall below 1e-20 and the rest is bounded by a geometric series. For n >
    1,000,000 the expansion sqrt(pi n/2) + 2/3 + sqrt(pi/(2n))/12, whose next term is negative.

    >>> round(ln_xi(200), 8)
    2.91226609
    """
    sizes = _sample_size(n)
    flat, out = np.atleast_1d(sizes).ravel(), np.empty(sizes.size)
    for size in np.unique(flat):
        if size > _LARGEST_SUM:
            xi = np.sqrt(np.pi * size / 2) + 2 / 3 + np.sqrt(np.pi / (2 * size)) / 12
        else:
            j = np.arange(1, min(size, 10 + 10 * np.sqrt(size)) + 1)  # term_j <= e^(-j (j-1) / 2n)
            terms = np.cumprod((size - j + 1) / size)
            tail = terms[-1] * size / j[-1] if j[-1] < size else 0.0  # ratios are <= 1 - j/n here
            rounding = 4 * j.size * _EPS  # of the product and of the sum, relative
            xi = (1.0 + terms.sum() + tail) * (1.0 + rounding)
        out[flat == size] = _up(np.log(xi), 16)
    return _finish(out.reshape(sizes.shape), clip=False)


def catoni(
    empirical_risk: Numbers,
    kl: Numbers,
    n: Numbers,
    delta: Numbers,
    *,
    lam: Numbers,
    clip: bool = True,
) -> Any:
    """Catoni's bound (Theorem 1 of the paper), for a `lam` fixed before the sample is seen.

        (1 - exp(-C empirical_risk - (kl + ln(1/delta)) / n)) / (1 - exp(-C)),   C = lam / n

    A `lam` chosen after looking at the sample voids the bound: use `catoni_over_grid`.

    >>> round(catoni(0.1, 5, 200, 0.05, lam=200), 4)
    0.2066
    """
    q, kl, n, delta = _checked(empirical_risk, kl, n, delta)
    lam = _array("lam", lam, lambda x: (x > 0) & np.isfinite(x), "a finite number > 0")
    C = lam / n
    exponent = C * q + _up(kl + _up(-np.log(delta), 4), 4) / n
    value = _up(-np.expm1(-_up(exponent, 8)), 8) / _down(-np.expm1(-_down(C, 4)), 8)
    return _finish(_up(value, 4), clip)


def catoni_over_grid(
    empirical_risk: Numbers, kl: Numbers, n: Numbers, delta: Numbers, *, clip: bool = True
) -> Any:
    """The best Catoni bound over the 23 values n * GRID of `lam`, each at delta / 23.

    The grid does not depend on the sample, so that `lam` may be chosen afterwards.

    >>> round(catoni_over_grid(0.1, 5, 200, 0.05), 4)
    0.2284
    """
    q, kl, n, delta = _checked(empirical_risk, kl, n, delta)
    fraction = _down(delta / GRID.size, 2)  # a smaller delta is a larger bound
    q, kl, n, fraction = (a[..., None] for a in np.broadcast_arrays(q, kl, n, fraction))
    return _finish(catoni(q, kl, n, fraction, lam=n * GRID, clip=False).min(axis=-1), clip)


def maurer(
    empirical_risk: Numbers, kl: Numbers, n: Numbers, delta: Numbers, *, constant: str = "sqrt"
) -> Any:
    """The kl bound of Langford, Seeger and Maurer; holds for every posterior at once.

        sup {p : kl(empirical_risk || p) <= (kl + ln(constant / delta)) / n}

    The constant is "sqrt", 2 sqrt(n), or "xi", the exact xi(n), which is tighter by 0.46 nats for
    large n.

    >>> round(maurer(0.1, 5, 200, 0.05), 4), round(maurer(0.1, 5, 200, 0.05, constant="xi"), 4)
    (0.2294, 0.2265)
    """
    q, kl, n, delta = _checked(empirical_risk, kl, n, delta)
    if constant == "sqrt":
        ln_constant = _up(np.log(2.0 * np.sqrt(n)), 8)
    elif constant == "xi":
        ln_constant = np.asarray(ln_xi(n))
    else:
        raise ValueError(f"constant must be 'sqrt' or 'xi'. Got {constant!r} instead.")
    complexity = _up(kl + ln_constant + _up(-np.log(delta), 4), 8)
    return kl_inverse(q, _up(complexity / n, 2))


def binomial_tail_inverse(n_errors: Numbers, n: Numbers, delta: Numbers) -> Any:
    """Upper limit of an error rate, of one classifier that was fixed before errors were counted.

    The largest rate at which so few errors have a probability of delta: the binomial tail,
    inverted. Certificates from a count of errors use it through `binomial.upper_limit`, and the
    comparison with PAC-Bayes bounds calls it the test-set bound.

    sup {p : P(Binomial(n, p) <= n_errors) >= delta}        (Clopper-Pearson, one-sided)
    """
    n, delta = _sample_size(n), _failure_probability(delta)
    rule = "a whole number between 0 and n"
    k = _array("n_errors", n_errors, lambda x: (x >= 0) & (x <= n) & (x == np.floor(x)), rule)
    k, n, delta = np.broadcast_arrays(k, n, delta)
    all_wrong = k >= n
    k = np.where(all_wrong, n - 1, k)
    target = delta * (1.0 - 1e-9)  # below delta by more than the tail's own error
    p = special.betaincinv(k + 1, n - k, 1.0 - target)
    step = 1e-12
    while True:
        short = (special.betaincc(k + 1, n - k, p) > target) & (p < 1)
        if not short.any():
            break
        p = np.where(short, np.minimum(p + (1.0 - p) * step + 1e-300, 1.0), p)
        step *= 2
    return _finish(np.where(all_wrong, 1.0, _up(p, 2)), clip=True)


def compare(empirical_risk: float, kl: float, n: int, delta: float) -> list[tuple[str, float, str]]:
    """(name, value, what it requires) of all bounds of this module on the same numbers.

    >>> [(name, round(value, 3)) for name, value, _ in compare(0.1, 5.0, 200, 0.05)][:2]
    [('kl inverse, xi(n)', 0.226), ('kl inverse, 2 sqrt(n) (Maurer)', 0.229)]
    """
    numbers = empirical_risk, kl, n, delta
    xi, sqrt = maurer(*numbers, constant="xi"), maurer(*numbers)
    n_errors = int(np.ceil(empirical_risk * n - 1e-9))
    free = "lambda-free, any posterior"
    grid_note = f"lambda chosen afterwards among {GRID.size}, delta/{GRID.size} each"
    fixed_note = "lambda must be fixed before the sample is seen"
    tail_note = f"one classifier fixed beforehand, {n_errors:,} errors; kl not used"
    return [
        ("kl inverse, xi(n)", xi, free),
        ("kl inverse, 2 sqrt(n) (Maurer)", sqrt, free),
        ("Catoni over a grid", catoni_over_grid(*numbers), grid_note),
        (f"Catoni, lambda = {n:g}", catoni(*numbers, lam=n), fixed_note),
        ("test set (binomial tail)", binomial_tail_inverse(n_errors, n, delta), tail_note),
    ]
