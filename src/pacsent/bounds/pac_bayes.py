"""PAC-Bayes bounds: numbers in, number out.

Every bound has the signature `bound(empirical_risk, kl, n, delta, *, ...)`: a risk in [0, 1]
measured on `n` independent examples, KL(Q||P) in nats for a prior fixed before those examples were
seen, and the probability `delta` of failure. Arrays broadcast. The inputs are taken as exact; the
result is rounded up, never below the value of the formula, and clipped to 1 unless `clip=False`.

Every formula is a sum, product or quotient of positive terms (no cancellation), so its relative
error is a few units in the last place, by more than which the result is widened (`_up`).

References
----------
O. Catoni, PAC-Bayesian supervised classification: the thermodynamics of statistical learning,
IMS Lecture Notes 56, 2007.
J. Langford and M. Seeger, Bounds for averaging classifiers, Carnegie Mellon University, 2001.
A. Maurer, A note on the PAC Bayesian theorem, arXiv:cs/0411099, 2004.
K. Nozawa and I. Sato, PAC-Bayes analysis of sentence representation, 2019: "the paper".
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from pacsent.arrays import Numbers

_EPS = np.finfo(float).eps
# Below this a risk is rounded up, so that ratios cannot overflow.
_SMALLEST_RISK = 1e-290
# Below this a budget in nats is rounded up, so that squares cannot underflow.
_SMALLEST_BUDGET = 1e-280
# `ln_xi` sums its series up to this n, and uses its expansion above.
_LARGEST_SUM = 1_000_000
# lam / n of `catoni_over_grid`: 0.01 to 20.48.
GRID = 0.01 * 2.0 ** (np.arange(23) / 2)


def _up(x: Any, ulps: int) -> Any:
    """x >= 0 widened by `ulps` units in the last place, and one more."""
    return np.nextafter(x * (1.0 + ulps * _EPS), np.inf)


def _down(x: Any, ulps: int) -> Any:
    """x >= 0 lowered by `ulps` units in the last place, and one more, but not below 0."""
    below = x * (1.0 - ulps * _EPS)
    lowered = np.nextafter(below, -np.inf)
    return np.maximum(lowered, 0.0)


def _checked(
    empirical_risk: Numbers, kl: Numbers, n: Numbers, delta: Numbers
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The arguments of every bound as arrays, or an error that names the wrong one."""
    risk_array = _array("empirical_risk", empirical_risk, _is_risk, "between 0 and 1")
    kl_array = _array("kl", kl, _is_finite_and_not_negative, "a finite number of nats, >= 0")
    return risk_array, kl_array, _sample_size(n), _failure_probability(delta)


def _array(
    name: str, value: Any, is_allowed: Callable[[np.ndarray], np.ndarray], rule: str
) -> np.ndarray:
    """The value as an array of floats, or an error with the rule and the first wrong number."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be {rule}. Got {value!r} instead.") from None

    is_wrong = ~is_allowed(array)
    if np.any(is_wrong):
        first_wrong = array[is_wrong].flat[0]
        raise ValueError(f"{name} must be {rule}. Got {first_wrong:g} instead.")
    return array


def _is_risk(x: np.ndarray) -> np.ndarray:
    return (x >= 0) & (x <= 1)


def _is_finite_and_not_negative(x: np.ndarray) -> np.ndarray:
    return (x >= 0) & np.isfinite(x)


def _is_finite_and_positive(x: np.ndarray) -> np.ndarray:
    return (x > 0) & np.isfinite(x)


def _is_whole(x: np.ndarray) -> np.ndarray:
    return x == np.floor(x)


def _is_sample_size(x: np.ndarray) -> np.ndarray:
    return (x >= 1) & _is_whole(x) & np.isfinite(x)


def _is_probability(x: np.ndarray) -> np.ndarray:
    return (x > 0) & (x < 1)


def _sample_size(n: Numbers) -> np.ndarray:
    return _array("n", n, _is_sample_size, "a whole number of examples, >= 1")


def _failure_probability(delta: Numbers) -> np.ndarray:
    return _array("delta", delta, _is_probability, "strictly between 0 and 1")


def _ln_inverse(delta: np.ndarray) -> np.ndarray:
    """ln(1/delta), rounded up."""
    return _up(-np.log(delta), 4)


def _finish(value: Any, clip: bool) -> Any:
    """The value, at most 1 if clipped, as a float if it is one number."""
    if clip:
        value = np.minimum(value, 1.0)
    if np.ndim(value) == 0:
        return float(value)
    return value


def _g(t: np.ndarray) -> np.ndarray:
    """t - log1p(t) >= 0 for t > -1, without cancellation near 0."""
    is_small = np.abs(t) < 0.1
    s = np.where(is_small, t, 0.0)

    # Horner's rule for 1/2 - s/3 + s^2/4 - ...; |s| < 0.1, so the rest is below 1e-21
    series = np.zeros_like(s)
    for j in range(21, 1, -1):
        sign = 1.0 if j % 2 == 0 else -1.0
        series = sign / j + s * series

    with np.errstate(divide="ignore"):  # t = -1 gives infinity, which is right
        direct = t - np.log1p(t)
    return np.where(is_small, s * s * series, direct)


def _kl_at(q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """kl(q || q + x) for 0 < q < 1, 0 <= x <= 1 - q: a sum of two terms >= 0.

    q g(x/q) + r g(-x/r),   r = 1 - q,  g(t) = t - ln(1 + t)
    """
    r = 1.0 - q
    of_errors = q * _g(x / q)
    of_others = r * _g(np.maximum(-x / r, -1.0))
    return of_errors + of_others


def kl_inverse(q: Numbers, c: Numbers) -> Any:
    """Largest true rate p that a budget allows for an observed rate; never below it.

        sup {p : kl(q || p) <= c},   kl(q || p) = q ln(q/p) + (1 - q) ln((1 - q)/(1 - p))

    Parameters
    ----------
    q : float or array
        The observed rate, in [0, 1].
    c : float or array
        The budget in nats, >= 0; it may be infinite.

    Returns
    -------
    float or array

    References
    ----------
    Langford and Seeger (2001); Theorem 7 of docs/theory.md.

    Examples
    --------
    >>> round(kl_inverse(0.1, 0.05), 6)
    0.220079
    """
    q = _array("q", q, _is_risk, "between 0 and 1")
    c = _array("c", c, lambda x: x >= 0, "a number of nats, >= 0")
    q, c = np.broadcast_arrays(q, c)
    raised_c = np.maximum(c, _SMALLEST_BUDGET)
    c = np.where(c > 0, raised_c, 0.0)

    # Where neither is at an end of its range, p = q + x. Elsewhere any valid numbers are solved.
    is_proper_rate = (q > 0) & (q < 1)
    is_inside = is_proper_rate & (c > 0) & np.isfinite(c)
    raised_q = np.maximum(q, _SMALLEST_RISK)  # the inverse grows with q
    inside_q = np.where(is_inside, raised_q, 0.5)
    inside_c = np.where(is_inside, c, 1.0)
    x = _displacement(inside_q, inside_c)
    p_inside = np.nextafter(_up(x, 8) + inside_q, 2.0)

    # kl(0 || p) = -ln(1 - p)
    p_of_zero = _up(-np.expm1(-c), 4)
    p_of_zero = np.where(c == 0, 0.0, p_of_zero)
    is_one = (q >= 1) | np.isinf(c)
    p_at_ends = np.where(q == 0, p_of_zero, q)
    p_at_ends = np.where(is_one, 1.0, p_at_ends)
    return _finish(np.where(is_inside, p_inside, p_at_ends), clip=True)


def _displacement(q: np.ndarray, c: np.ndarray) -> np.ndarray:
    """x > 0 with kl(q || q + x) >= c, within a few ulp of the smallest such x.

    Newton from above on a convex increasing function of x, bisection when it leaves its bracket;
    then x is widened until the evaluated kl reaches c inflated by more than the evaluation's own
    relative error (2e-15 for x/q and _g, 1e-14 allowed), so the true kl at x (1 + 4 eps) does.
    """
    largest = np.nextafter(1.0 - q, 2.0)
    target = c * (1.0 + 1e-14)

    pinsker = np.sqrt(target / 2) * (1.0 + 1e-14)  # kl >= 2 x^2
    low = np.zeros_like(q)
    high = np.minimum(largest, pinsker)
    x = high.copy()
    for _ in range(200):
        excess = _kl_at(q, x) - target
        is_above = excess > 0
        high = np.where(is_above, x, high)
        low = np.where(is_above, low, x)

        p = q + x
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x - excess * p * (1.0 - p) / x  # d kl / d x = x / (p (1 - p))
        is_in_bracket = (newton > low) & (newton < high)
        next_x = np.where(is_in_bracket, newton, 0.5 * (low + high))

        is_fixed = np.abs(newton - x) <= 1e-15 * x
        is_narrow = high - low <= 4e-16 * high
        is_done = is_fixed | is_narrow
        x = np.where(is_done, x, next_x)
        if is_done.all():
            break

    step = 4 * _EPS
    while True:
        is_short = (_kl_at(q, x) < target) & (x < largest)
        if not is_short.any():
            return x
        wider = np.minimum(x * (1.0 + step), largest)
        x = np.where(is_short, wider, x)
        step *= 2


def ln_xi(n: Numbers) -> Any:
    """Logarithm of Maurer's constant xi(n), rounded up. It is at most ln(2 sqrt n).

        xi(n) = sum_k C(n,k) (k/n)^k (1-k/n)^(n-k) = sum_j n! / ((n-j)! n^j)

    Each term of the second sum is the one before times (n-j+1)/n. The sum is cut where the terms
    fall below 1e-20 and the rest is bounded by a geometric series. For n > 1,000,000 the expansion
    sqrt(pi n/2) + 2/3 + sqrt(pi/(2n))/12, whose next term is negative.

    References
    ----------
    Maurer (2004); Theorem 7 of docs/theory.md.

    Examples
    --------
    >>> round(ln_xi(200), 8)
    2.91226609
    """
    sizes = _sample_size(n)
    flat_sizes = np.atleast_1d(sizes).ravel()

    logs = np.empty(sizes.size)
    for size in np.unique(flat_sizes):
        xi = _xi_by_expansion(size) if size > _LARGEST_SUM else _xi_by_sum(size)
        logs[flat_sizes == size] = _up(np.log(xi), 16)
    return _finish(logs.reshape(sizes.shape), clip=False)


def _xi_by_expansion(n: float) -> float:
    """xi(n) <= sqrt(pi n/2) + 2/3 + sqrt(pi/(2n))/12."""
    return np.sqrt(np.pi * n / 2) + 2 / 3 + np.sqrt(np.pi / (2 * n)) / 12


def _xi_by_sum(n: float) -> float:
    """sum_j n! / ((n-j)! n^j), in which term_j <= e^(-j (j-1) / 2n)."""
    n_terms = min(n, 10 + 10 * np.sqrt(n))
    j = np.arange(1, n_terms + 1)
    terms = np.cumprod((n - j + 1) / n)

    # The ratios of the omitted terms are at most 1 - j/n.
    last = j[-1]
    tail = 0.0
    if last < n:
        tail = terms[-1] * n / last
    rounding = 4 * j.size * _EPS  # of the product and of the sum, relative
    return (1.0 + terms.sum() + tail) * (1.0 + rounding)


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

    Parameters
    ----------
    empirical_risk : float or array
        Mean loss of the posterior on the sample, in [0, 1].
    kl : float or array
        KL(Q||P) in nats, >= 0.
    n : int or array
        Independent examples.
    delta : float or array
        Probability that the bound is false.
    lam : float or array
        Weight of the sample against the prior. A `lam` chosen after looking at the sample voids the
        bound: use `catoni_over_grid`.
    clip : bool, default=True
        Return at most 1.

    Returns
    -------
    float or array

    References
    ----------
    Catoni (2007); Nozawa and Sato (2019), Theorem 1; Theorem 1 of docs/theory.md.

    Examples
    --------
    >>> round(catoni(0.1, 5, 200, 0.05, lam=200), 4)
    0.2066
    """
    q, kl, n, delta = _checked(empirical_risk, kl, n, delta)
    lam = _array("lam", lam, _is_finite_and_positive, "a finite number > 0")

    C = lam / n
    complexity = _up(kl + _ln_inverse(delta), 4)
    exponent = C * q + complexity / n
    numerator = _up(-np.expm1(-_up(exponent, 8)), 8)
    denominator = _down(-np.expm1(-_down(C, 4)), 8)
    return _finish(_up(numerator / denominator, 4), clip)


def catoni_over_grid(
    empirical_risk: Numbers, kl: Numbers, n: Numbers, delta: Numbers, *, clip: bool = True
) -> Any:
    """Smallest Catoni bound over the 23 values n * GRID of `lam`, each at delta / 23.

        min over lam in n * GRID of catoni(empirical_risk, kl, n, delta / 23, lam=lam)

    The grid does not depend on the sample, so that `lam` may be chosen afterwards. Parameters and
    Returns as those of `catoni`, without `lam`.

    References
    ----------
    Catoni (2007); Theorem 1 of docs/theory.md, and Theorem 11 (choices) for the division of delta.

    Examples
    --------
    >>> round(catoni_over_grid(0.1, 5, 200, 0.05), 4)
    0.2284
    """
    q, kl, n, delta = _checked(empirical_risk, kl, n, delta)
    delta_of_each = _down(delta / GRID.size, 2)  # a smaller delta is a larger bound

    arrays = np.broadcast_arrays(q, kl, n, delta_of_each)
    q, kl, n, delta_of_each = (array[..., None] for array in arrays)
    values = catoni(q, kl, n, delta_of_each, lam=n * GRID, clip=False)  # (..., 23)
    return _finish(values.min(axis=-1), clip)


def maurer(
    empirical_risk: Numbers, kl: Numbers, n: Numbers, delta: Numbers, *, constant: str = "sqrt"
) -> Any:
    """Bound of Langford, Seeger and Maurer by the kl; it holds for every posterior at once.

        sup {p : kl(empirical_risk || p) <= (kl + ln(constant / delta)) / n}

    Parameters
    ----------
    empirical_risk, kl, n, delta : float or array
        As those of `catoni`.
    constant : {"sqrt", "xi"}, default="sqrt"
        "sqrt" is 2 sqrt(n); "xi" the exact xi(n), which is tighter by 0.46 nats for large n.

    Returns
    -------
    float or array

    References
    ----------
    Langford and Seeger (2001); Maurer (2004); Theorem 7 of docs/theory.md.

    Examples
    --------
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

    complexity = _up(kl + ln_constant + _ln_inverse(delta), 8)
    return kl_inverse(q, _up(complexity / n, 2))


def binomial_tail_inverse(n_errors: Numbers, n: Numbers, delta: Numbers) -> Any:
    """Upper limit of an error rate, of one classifier that was fixed before errors were counted.

        sup {p : P(Binomial(n, p) <= n_errors) >= delta}        (Clopper-Pearson, one-sided)

    The largest rate at which so few errors have a probability of delta: the binomial tail,
    inverted. Certificates from a count of errors use it through `binomial.upper_limit`, and the
    comparison with PAC-Bayes bounds calls it the test-set bound.

    Parameters
    ----------
    n_errors, n : int or array
        Errors, and independent examples.
    delta : float or array
        Probability that the limit is false.

    Returns
    -------
    float or array

    References
    ----------
    Clopper and Pearson, The use of confidence or fiducial limits illustrated in the case of the
    binomial, Biometrika 26, 1934; Theorem 12 of docs/theory.md.
    """
    n = _sample_size(n)
    delta = _failure_probability(delta)

    def is_number_of_errors(x: np.ndarray) -> np.ndarray:
        return (x >= 0) & (x <= n) & _is_whole(x)

    k = _array("n_errors", n_errors, is_number_of_errors, "a whole number between 0 and n")
    k, n, delta = np.broadcast_arrays(k, n, delta)

    # The limit is 1 if all are wrong; the equation is solved with a valid number there.
    is_all_wrong = k >= n
    k = np.where(is_all_wrong, n - 1, k)

    # P(Binomial(n, p) <= k) = 1 - I_p(k + 1, n - k), I the regularised incomplete beta function
    target = delta * (1.0 - 1e-9)  # below delta by more than the tail's own error
    p = special.betaincinv(k + 1, n - k, 1.0 - target)
    step = 1e-12
    while True:
        tail = special.betaincc(k + 1, n - k, p)
        is_short = (tail > target) & (p < 1)
        if not is_short.any():
            break
        wider = np.minimum(p + (1.0 - p) * step + 1e-300, 1.0)
        p = np.where(is_short, wider, p)
        step *= 2

    limit = np.where(is_all_wrong, 1.0, _up(p, 2))
    return _finish(limit, clip=True)


def compare(empirical_risk: float, kl: float, n: int, delta: float) -> list[tuple[str, float, str]]:
    """All bounds of this module on the same numbers, as (name, value, requirement).

    Parameters
    ----------
    empirical_risk, kl, n, delta : float
        As those of `catoni`.

    Returns
    -------
    list of (str, float, str)

    Examples
    --------
    >>> [(name, round(value, 3)) for name, value, _ in compare(0.1, 5.0, 200, 0.05)][:2]
    [('kl inverse, xi(n)', 0.226), ('kl inverse, 2 sqrt(n) (Maurer)', 0.229)]
    """
    xi_bound = maurer(empirical_risk, kl, n, delta, constant="xi")
    sqrt_bound = maurer(empirical_risk, kl, n, delta)
    grid_bound = catoni_over_grid(empirical_risk, kl, n, delta)
    catoni_bound = catoni(empirical_risk, kl, n, delta, lam=n)
    n_errors = int(np.ceil(empirical_risk * n - 1e-9))
    tail_bound = binomial_tail_inverse(n_errors, n, delta)

    free_note = "lambda-free, any posterior"
    grid_note = f"lambda chosen afterwards among {GRID.size}, delta/{GRID.size} each"
    fixed_note = "lambda must be fixed before the sample is seen"
    tail_note = f"one classifier fixed beforehand, {n_errors:,} errors; kl not used"
    return [
        ("kl inverse, xi(n)", xi_bound, free_note),
        ("kl inverse, 2 sqrt(n) (Maurer)", sqrt_bound, free_note),
        ("Catoni over a grid", grid_bound, grid_note),
        (f"Catoni, lambda = {n:g}", catoni_bound, fixed_note),
        ("test set (binomial tail)", tail_bound, tail_note),
    ]
