"""Bounds: golden numbers, never below the true value, properties, and messages."""

from functools import partial

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import special

from pacsent.bounds import pac_bayes as bounds

mpmath.mp.dps = 50


# The formulas once more, in 50 digits and written for reading; every input is an exact double.


def true_kl(q, p):
    """kl(q || p) of two Bernoulli distributions."""
    total = mpmath.mpf(0)
    if q > 0:
        total += q * (mpmath.log(q) - mpmath.log(p))
    if q < 1:
        total += (1 - q) * (mpmath.log(1 - q) - mpmath.log(1 - p))
    return total


def is_upper_inverse(p, q, c, slack):
    """p is at or above sup{p: kl(q || p) <= c}, and by no more than slack."""
    q = mpmath.mpf(q)
    below = mpmath.mpf(max(p - slack, 0.0))
    is_high_enough = p == 1.0 or true_kl(q, mpmath.mpf(p)) >= c
    is_low_enough = below <= q or true_kl(q, below) < c
    return is_high_enough and is_low_enough


def true_ln_xi(n):
    n = mpmath.mpf(int(n))
    term = mpmath.mpf(1)
    total = term
    for j in range(1, int(n) + 1):
        term *= (n - j + 1) / n
        total += term
        if term < mpmath.mpf(10) ** -45:
            break
    return mpmath.log(total)


def true_ln_two_sqrt(n):
    return mpmath.log(2 * mpmath.sqrt(int(n)))


def true_price(kl, delta):
    """KL plus ln(1/delta)."""
    return mpmath.mpf(kl) - mpmath.log(mpmath.mpf(delta))


def true_catoni(q, kl, n, delta, lam):
    C = mpmath.mpf(lam) / int(n)
    exponent = C * mpmath.mpf(q) + true_price(kl, delta) / int(n)
    return (1 - mpmath.exp(-exponent)) / (1 - mpmath.exp(-C))


def true_binomial_tail(k, n, p):
    """The probability of k errors or fewer among n."""
    p = mpmath.mpf(p)
    terms = [mpmath.binomial(n, j) * p**j * (1 - p) ** (n - j) for j in range(k + 1)]
    return mpmath.fsum(terms)


def awkward_risks(rng, size):
    """Over the whole range, with the ends and many near them."""
    even = rng.random(size)
    tiny = 10.0 ** rng.uniform(-12, 0, size)
    risks = np.where(rng.random(size) < 0.5, even, tiny)
    for end in (0.0, 1.0, 1.0 - 1e-13):
        risks[rng.random(size) < 0.1] = end
    return risks


def awkward_points(rng, size):
    """Risks, kls, sizes and deltas over their whole range, the ends included."""
    risks = awkward_risks(rng, size)
    positive = 10.0 ** rng.uniform(-9, 5, size)
    kls = np.where(rng.random(size) < 0.2, 0.0, positive)
    sizes = np.floor(10.0 ** rng.uniform(0, 7.5, size))
    deltas = 10.0 ** rng.uniform(-12, -0.01, size)
    return risks, kls, sizes, deltas


def unclipped_catoni(*arguments):
    return bounds.catoni_over_grid(*arguments, clip=False)


def maurer_with_xi(*arguments):
    return bounds.maurer(*arguments, constant="xi")


@pytest.fixture(scope="module")
def rows(golden):
    """Golden values of all bounds."""
    return golden("bounds")["bounds"]


def arguments_of(row):
    return row["R_hat"], row["KL"], row["N"], row["delta"]


# ---- golden numbers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "bound"),
    [
        ("catoni_grid", unclipped_catoni),
        ("maurer_kl", bounds.maurer),  # never above 1
        ("maurer_kl_xi", maurer_with_xi),
    ],
)
def test_every_bound_is_the_golden_one(rows, column, bound):
    for row in rows:
        value = bound(*arguments_of(row))

        assert_allclose(value, row[column], rtol=0, atol=1e-10)
        # the file's decimals are exact, our inputs the nearest doubles: 1e-14 of slack
        assert value >= row[column] - 1e-14


def test_catoni_s_bound_at_one_lambda_is_the_golden_one(rows):
    for row in rows:
        value = bounds.catoni(*arguments_of(row), lam=row["lam"], clip=False)

        assert_allclose(value, row["catoni_fixed"], rtol=0, atol=1e-10)


def test_ln_xi_is_the_golden_one(rows):
    for row in rows:
        assert_allclose(bounds.ln_xi(row["N"]), row["ln_xi"], rtol=0, atol=1e-8)


def test_the_kl_inverse_is_the_golden_one(golden):
    for row in golden("bounds")["kl_inverse"]:
        value = bounds.kl_inverse(row["q"], row["c"])

        assert_allclose(value, row["upper"], atol=1e-14)


# ---- never below the true value, and near it -------------------------------------------------


def test_the_kl_inverse_is_never_below_its_true_value(rng):
    risks = awkward_risks(rng, 1000)
    budgets = 10.0 ** rng.uniform(-15, 2, 1000)

    found = bounds.kl_inverse(risks, budgets)

    for p, risk, budget in zip(found, risks, budgets, strict=True):
        assert is_upper_inverse(p, risk, budget, slack=2e-14)


def test_maurer_s_bound_is_never_below_its_true_value(rng):
    points = awkward_points(rng, 500)

    found = bounds.maurer(*points)

    for p, risk, kl, n, delta in zip(found, *points, strict=True):
        complexity = true_price(kl, delta) + true_ln_two_sqrt(n)
        assert is_upper_inverse(p, risk, complexity / int(n), slack=1e-11)


def test_maurer_s_bound_with_xi_is_never_below_its_true_value(rng):
    risks, kls, sizes, deltas = awkward_points(rng, 100)
    points = risks, kls, np.minimum(sizes, 5_000), deltas

    found = bounds.maurer(*points, constant="xi")

    for p, risk, kl, n, delta in zip(found, *points, strict=True):
        complexity = true_price(kl, delta) + true_ln_xi(n)
        assert is_upper_inverse(p, risk, complexity / int(n), slack=1e-11)


def test_catoni_s_bound_is_never_below_its_true_value(rng):
    risks, kls, sizes, deltas = awkward_points(rng, 400)
    lams = sizes * 10.0 ** rng.uniform(-3, 1.3, 400)

    values = bounds.catoni(risks, kls, sizes, deltas, lam=lams, clip=False)

    for *point, value in zip(risks, kls, sizes, deltas, lams, values, strict=True):
        true = true_catoni(*point)
        assert true <= mpmath.mpf(value) <= true * (1 + 1e-13)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100, 1000, 12345, 100_000, 1_000_001])
def test_ln_xi_is_never_below_its_true_value(n):
    true = true_ln_xi(n)

    found = bounds.ln_xi(n)

    assert mpmath.mpf(found) >= true
    assert found - float(true) <= 1e-10
    assert found <= np.log(2 * np.sqrt(n)) + 1e-12


@pytest.mark.parametrize(
    ("k", "n", "delta"),
    [(0, 1, 0.5), (0, 50, 0.05), (7, 60, 1e-6), (20, 200, 0.05), (499, 500, 0.9)],
)
def test_the_test_set_bound_is_where_the_binomial_tail_is_delta(k, n, delta):
    limit = bounds.binomial_tail_inverse(k, n, delta)

    smaller = limit * (1 - 1e-8)
    assert true_binomial_tail(k, n, limit) <= mpmath.mpf(delta)
    assert true_binomial_tail(k, n, smaller) > mpmath.mpf(delta)


def test_a_limit_that_scipy_finds_too_small_is_widened(monkeypatch):
    accurate = special.betaincinv

    def too_small(a, b, y):
        return accurate(a, b, y) * (1.0 - 1e-6)

    monkeypatch.setattr(special, "betaincinv", too_small)

    limit = bounds.binomial_tail_inverse(7, 60, 0.05)

    assert special.betaincc(8, 53, limit) <= 0.05


# ---- properties ------------------------------------------------------------------------------

# Risk, KL, number of examples and delta, wherever bounds are defined.
ANY_NUMBERS = st.floats(0, 1), st.floats(0, 1e4), st.integers(1, 10**7), st.floats(1e-9, 0.99)


@settings(max_examples=60)
@given(*ANY_NUMBERS)
def test_the_order_of_the_bounds(risk, kl, n, delta):
    """McAllester's is the loosest, by Pinsker's inequality."""
    xi = bounds.maurer(risk, kl, n, delta, constant="xi")
    maurer = bounds.maurer(risk, kl, n, delta)
    price = kl + np.log(2 * np.sqrt(n) / delta)
    mcallester = risk + np.sqrt(price / (2 * n))

    assert risk <= xi <= 1
    assert xi <= maurer + 1e-12
    assert maurer <= min(1, mcallester) + 1e-12


@settings(max_examples=60)
@given(*ANY_NUMBERS)
def test_a_larger_kl_and_a_smaller_delta_cost_more(risk, kl, n, delta):
    bound = bounds.maurer(risk, kl, n, delta)

    with_larger_kl = bounds.maurer(risk, kl + 1, n, delta)
    with_smaller_delta = bounds.maurer(risk, kl, n, delta / 2)

    assert with_larger_kl >= bound - 1e-12
    assert with_smaller_delta >= bound - 1e-12


def test_the_bound_of_numbers_is_a_number():
    assert isinstance(bounds.maurer(0.1, 5, 200, 0.05), float)


def test_arrays_broadcast():
    risks = np.array([[0.1], [0.2]])
    kls = np.array([0.0, 5.0, 9.0])

    table = bounds.maurer(risks, kls, 200, 0.05)

    assert table.shape == (2, 3)
    assert_allclose(table[0, 1], bounds.maurer(0.1, 5, 200, 0.05))


def test_the_grid_of_lambdas_is_no_axis_of_the_result():
    values = bounds.catoni_over_grid(np.array([0.1, 0.2]), 5, 200, 0.05)

    assert values.shape == (2,)


def test_ln_xi_has_the_shape_of_the_sizes():
    values = bounds.ln_xi(np.array([[5, 5], [7, 9]]))

    assert values.shape == (2, 2)


def test_the_limit_is_one_if_all_are_wrong():
    assert bounds.binomial_tail_inverse(5, 5, 0.05) == 1.0


@pytest.mark.parametrize(
    ("observed", "budget", "largest"), [(0.3, np.inf, 1.0), (0.0, 0.0, 0.0), (0.3, 0.0, 0.3)]
)
def test_the_inverse_at_the_ends_of_the_budget(observed, budget, largest):
    assert bounds.kl_inverse(observed, budget) == largest


@pytest.mark.parametrize(
    "bound", [partial(bounds.catoni, lam=100), bounds.catoni_over_grid], ids=["one", "grid"]
)
def test_a_bound_is_clipped_to_one_unless_that_is_switched_off(bound):
    assert bound(0.9, 500, 100, 0.05) == 1.0
    assert bound(0.9, 500, 100, 0.05, clip=False) > 1.0


def test_a_grid_pays_for_its_size():
    share = 0.05 / 23
    each = [bounds.catoni(0.1, 5, 200, share, lam=200 * ratio) for ratio in bounds.GRID]

    over_grid = bounds.catoni_over_grid(0.1, 5, 200, 0.05)

    assert len(each) == 23
    assert_allclose(over_grid, min(each), rtol=1e-13)


def test_a_comparison_lists_every_bound_with_its_value():
    numbers = 0.1, 5.0, 200, 0.05

    rows = bounds.compare(*numbers)

    assert [(name, value) for name, value, _ in rows] == [
        ("kl inverse, xi(n)", bounds.maurer(*numbers, constant="xi")),
        ("kl inverse, 2 sqrt(n) (Maurer)", bounds.maurer(*numbers)),
        ("Catoni over a grid", bounds.catoni_over_grid(*numbers)),
        ("Catoni, lambda = 200", bounds.catoni(*numbers, lam=200.0)),
        ("test set (binomial tail)", bounds.binomial_tail_inverse(20, 200, 0.05)),
    ]


# ---- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("empirical_risk", 1.5, "must be between 0 and 1. Got 1.5 instead"),
        ("empirical_risk", float("nan"), "must be .* Got nan"),
        ("kl", -1.0, "must be a finite number of nats, >= 0. Got -1 instead"),
        ("kl", np.inf, "must be .* Got inf"),
        ("n", 0, "must be a whole number of examples, >= 1. Got 0 instead"),
        ("n", 2.5, "must be a whole number .* Got 2.5"),
        ("delta", 0.0, "must be strictly between 0 and 1. Got 0 instead"),
        ("delta", 1.0, "must be strictly between 0 and 1. Got 1 instead"),
    ],
)
@pytest.mark.parametrize("bound", [bounds.maurer, bounds.catoni_over_grid])
def test_bad_numbers_are_refused_with_their_name(bound, name, value, message):
    arguments = {"empirical_risk": 0.1, "kl": 5.0, "n": 200, "delta": 0.05}
    arguments[name] = value

    with pytest.raises(ValueError, match=f"{name} {message}"):
        bound(**arguments)


def test_a_negative_lambda_is_refused():
    with pytest.raises(ValueError, match=r"lam must be a finite number > 0. Got -1 instead"):
        bounds.catoni(0.1, 5, 200, 0.05, lam=-1)


def test_an_unknown_constant_is_refused():
    with pytest.raises(ValueError, match=r"constant must be 'sqrt' or 'xi'. Got 'pi' instead"):
        bounds.maurer(0.1, 5, 200, 0.05, constant="pi")


def test_more_errors_than_examples_are_refused():
    with pytest.raises(ValueError, match="n_errors must be a whole number between 0 and n"):
        bounds.binomial_tail_inverse(7, 5, 0.05)


def test_a_word_for_a_number_is_refused():
    with pytest.raises(TypeError, match="kl must be a finite number of nats"):
        bounds.maurer(0.1, "five", 200, 0.05)
