"""Bounds: golden numbers, never below the true value, properties, and the house messages."""

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
    total = q * (mpmath.log(q) - mpmath.log(p)) if q > 0 else mpmath.mpf(0)
    return total + ((1 - q) * (mpmath.log(1 - q) - mpmath.log(1 - p)) if q < 1 else 0)


def is_upper_inverse(p, q, c, slack):
    """p is at or above sup{p: kl(q || p) <= c}, and by no more than slack."""
    below = max(p - slack, 0.0)
    return (p == 1.0 or true_kl(mpmath.mpf(q), mpmath.mpf(p)) >= c) and (
        below <= q or true_kl(mpmath.mpf(q), mpmath.mpf(below)) < c
    )


def true_ln_xi(n):
    n = mpmath.mpf(int(n))
    term = total = mpmath.mpf(1)
    for j in range(1, int(n) + 1):
        term *= (n - j + 1) / n
        total += term
        if term < mpmath.mpf(10) ** -45:
            break
    return mpmath.log(total)


def true_complexity(kl, n, delta, constant="sqrt"):
    ln_constant = true_ln_xi(n) if constant == "xi" else mpmath.log(2 * mpmath.sqrt(int(n)))
    return mpmath.mpf(kl) + ln_constant - mpmath.log(mpmath.mpf(delta))


def true_catoni(q, kl, n, delta, lam):
    C = mpmath.mpf(lam) / int(n)
    exponent = C * mpmath.mpf(q) + (mpmath.mpf(kl) - mpmath.log(mpmath.mpf(delta))) / int(n)
    return (1 - mpmath.exp(-exponent)) / (1 - mpmath.exp(-C))


def awkward_points(rng, size):
    """Risks, kls, sizes and deltas over their whole range, the ends included."""
    q = np.where(rng.random(size) < 0.5, rng.random(size), 10.0 ** rng.uniform(-12, 0, size))
    q[rng.random(size) < 0.1] = 0.0
    q[rng.random(size) < 0.1] = 1.0
    q[rng.random(size) < 0.1] = 1.0 - 1e-13
    kl = np.where(rng.random(size) < 0.2, 0.0, 10.0 ** rng.uniform(-9, 5, size))
    n = np.floor(10.0 ** rng.uniform(0, 7.5, size))
    delta = 10.0 ** rng.uniform(-12, -0.01, size)
    return q, kl, n, delta


COLUMNS = {
    "catoni_grid": bounds.catoni_over_grid,
    "maurer_kl": lambda *args, clip: bounds.maurer(*args),  # never above 1
    "maurer_kl_xi": lambda *args, clip: bounds.maurer(*args, constant="xi"),
}


class TestGolden:
    @pytest.mark.parametrize("column", COLUMNS)
    def test_every_bound_is_the_golden_one(self, golden, column):
        for row in golden("bounds")["bounds"]:
            arguments = row["R_hat"], row["KL"], row["N"], row["delta"]
            value = COLUMNS[column](*arguments, clip=False)
            assert_allclose(value, row[column], rtol=0, atol=1e-10)
            # the file's decimals are exact, our inputs the nearest doubles: 1e-14 of slack
            assert value >= row[column] - 1e-14

    def test_the_parts_are_the_golden_ones(self, golden):
        for row in golden("bounds")["bounds"]:
            assert_allclose(bounds.ln_xi(row["N"]), row["ln_xi"], rtol=0, atol=1e-8)
            arguments = row["R_hat"], row["KL"], row["N"], row["delta"]
            value = bounds.catoni(*arguments, lam=row["lam"], clip=False)
            assert_allclose(value, row["catoni_fixed"], rtol=0, atol=1e-10)
        for row in golden("bounds")["kl_inverse"]:
            assert_allclose(bounds.kl_inverse(row["q"], row["c"]), row["upper"], atol=1e-14)


class TestNeverBelow:
    """The promise of the module: the result is at least the formula's value, and near it."""

    def test_upper_inverse(self, rng):
        q, _, _, _ = awkward_points(rng, 1000)
        c = 10.0 ** rng.uniform(-15, 2, 1000)
        for p, qi, ci in zip(bounds.kl_inverse(q, c), q, c, strict=True):
            assert is_upper_inverse(p, qi, ci, slack=2e-14)

    @pytest.mark.parametrize("constant", ["sqrt", "xi"])
    def test_maurer(self, rng, constant):
        q, kl, n, delta = awkward_points(rng, 500 if constant == "sqrt" else 100)
        n = np.minimum(n, 5_000) if constant == "xi" else n
        ours = bounds.maurer(q, kl, n, delta, constant=constant)
        for p, qi, kli, ni, di in zip(ours, q, kl, n, delta, strict=True):
            c = true_complexity(kli, ni, di, constant) / int(ni)
            assert is_upper_inverse(p, qi, c, slack=1e-11)

    def test_catoni(self, rng):
        q, kl, n, delta = awkward_points(rng, 400)
        lam = n * 10.0 ** rng.uniform(-3, 1.3, 400)
        values = bounds.catoni(q, kl, n, delta, lam=lam, clip=False)
        for *arguments, value in zip(q, kl, n, delta, lam, values, strict=True):
            true = true_catoni(*arguments)
            assert true <= mpmath.mpf(value) <= true * (1 + 1e-13)

    @pytest.mark.parametrize("n", [1, 2, 3, 10, 100, 1000, 12345, 100_000, 1_000_001])
    def test_ln_xi(self, n):
        true = true_ln_xi(n)
        assert mpmath.mpf(bounds.ln_xi(n)) >= true
        assert bounds.ln_xi(n) - float(true) <= 1e-10
        assert bounds.ln_xi(n) <= np.log(2 * np.sqrt(n)) + 1e-12

    @pytest.mark.parametrize(
        "k, n, delta", [(0, 1, 0.5), (0, 50, 0.05), (7, 60, 1e-6), (20, 200, 0.05), (499, 500, 0.9)]
    )
    def test_test_set_bound(self, k, n, delta):
        p = bounds.binomial_tail_inverse(k, n, delta)

        def tail(p):
            p = mpmath.mpf(p)
            return mpmath.fsum(
                mpmath.binomial(n, j) * p**j * (1 - p) ** (n - j) for j in range(k + 1)
            )

        assert tail(p) <= mpmath.mpf(delta)
        assert tail(p * (1 - 1e-8)) > mpmath.mpf(delta)

    def test_a_limit_that_scipy_finds_too_small_is_widened(self, monkeypatch):
        accurate = special.betaincinv
        monkeypatch.setattr(special, "betaincinv", lambda a, b, y: accurate(a, b, y) * (1.0 - 1e-6))

        limit = bounds.binomial_tail_inverse(7, 60, 0.05)

        assert special.betaincc(8, 53, limit) <= 0.05


class TestProperties:
    @settings(max_examples=60)
    @given(st.floats(0, 1), st.floats(0, 1e4), st.integers(1, 10**7), st.floats(1e-9, 0.99))
    def test_the_order_of_the_bounds(self, q, kl, n, delta):
        xi = bounds.maurer(q, kl, n, delta, constant="xi")
        sqrt = bounds.maurer(q, kl, n, delta)
        assert q <= xi <= 1
        assert xi <= sqrt + 1e-12
        # Pinsker's inequality: McAllester's bound is looser
        price = kl + np.log(2 * np.sqrt(n) / delta)
        assert sqrt <= min(1, q + np.sqrt(price / (2 * n))) + 1e-12
        assert bounds.maurer(q, kl + 1, n, delta) >= sqrt - 1e-12
        assert bounds.maurer(q, kl, n, delta / 2) >= sqrt - 1e-12

    def test_the_bound_of_numbers_is_a_number(self):
        assert isinstance(bounds.maurer(0.1, 5, 200, 0.05), float)

    def test_arrays_broadcast(self):
        risks = np.array([[0.1], [0.2]])
        kls = np.array([0.0, 5.0, 9.0])

        table = bounds.maurer(risks, kls, 200, 0.05)

        assert table.shape == (2, 3)
        assert_allclose(table[0, 1], bounds.maurer(0.1, 5, 200, 0.05))

    def test_the_grid_of_lambdas_is_no_axis_of_the_result(self):
        assert bounds.catoni_over_grid(np.array([0.1, 0.2]), 5, 200, 0.05).shape == (2,)

    def test_ln_xi_has_the_shape_of_the_sizes(self):
        assert bounds.ln_xi(np.array([[5, 5], [7, 9]])).shape == (2, 2)

    def test_the_limit_is_one_if_all_are_wrong(self):
        assert bounds.binomial_tail_inverse(5, 5, 0.05) == 1.0

    @pytest.mark.parametrize(
        ("observed", "budget", "largest"), [(0.3, np.inf, 1.0), (0.0, 0.0, 0.0), (0.3, 0.0, 0.3)]
    )
    def test_the_inverse_at_the_ends_of_the_budget(self, observed, budget, largest):
        assert bounds.kl_inverse(observed, budget) == largest

    @pytest.mark.parametrize(
        "bound", [partial(bounds.catoni, lam=100), bounds.catoni_over_grid], ids=["one", "grid"]
    )
    def test_a_bound_is_clipped_to_one_unless_that_is_switched_off(self, bound):
        assert bound(0.9, 500, 100, 0.05) == 1.0
        assert bound(0.9, 500, 100, 0.05, clip=False) > 1.0

    def test_a_grid_pays_for_its_size(self):
        each = [bounds.catoni(0.1, 5, 200, 0.05 / 23, lam=200 * ratio) for ratio in bounds.GRID]
        assert len(each) == 23
        assert_allclose(bounds.catoni_over_grid(0.1, 5, 200, 0.05), min(each), rtol=1e-13)

    def test_a_comparison_lists_every_bound_with_its_value(self):
        values = {name: value for name, value, _ in bounds.compare(0.1, 5.0, 200, 0.05)}
        assert values == {
            "kl inverse, xi(n)": bounds.maurer(0.1, 5.0, 200, 0.05, constant="xi"),
            "kl inverse, 2 sqrt(n) (Maurer)": bounds.maurer(0.1, 5.0, 200, 0.05),
            "Catoni over a grid": bounds.catoni_over_grid(0.1, 5.0, 200, 0.05),
            "Catoni, lambda = 200": bounds.catoni(0.1, 5.0, 200, 0.05, lam=200.0),
            "test set (binomial tail)": bounds.binomial_tail_inverse(20, 200, 0.05),
        }


class TestMistakes:
    @pytest.mark.parametrize(
        "change, message",
        [
            ({"empirical_risk": 1.5}, "empirical_risk must be between 0 and 1. Got 1.5 instead"),
            ({"empirical_risk": float("nan")}, "empirical_risk must be .* Got nan"),
            ({"kl": -1.0}, "kl must be a finite number of nats, >= 0. Got -1 instead"),
            ({"kl": np.inf}, "kl must be .* Got inf"),
            ({"n": 0}, "n must be a whole number of examples, >= 1. Got 0 instead"),
            ({"n": 2.5}, "n must be a whole number .* Got 2.5"),
            ({"delta": 0.0}, "delta must be strictly between 0 and 1. Got 0 instead"),
            ({"delta": 1.0}, "delta must be strictly between 0 and 1. Got 1 instead"),
        ],
    )
    @pytest.mark.parametrize("bound", ["maurer", "catoni_over_grid"])
    def test_bad_numbers_are_refused_with_their_name(self, bound, change, message):
        arguments = {"empirical_risk": 0.1, "kl": 5.0, "n": 200, "delta": 0.05} | change
        with pytest.raises(ValueError, match=message):
            getattr(bounds, bound)(**arguments)

    def test_a_negative_lambda_is_refused(self):
        with pytest.raises(ValueError, match=r"lam must be a finite number > 0. Got -1 instead"):
            bounds.catoni(0.1, 5, 200, 0.05, lam=-1)

    def test_an_unknown_constant_is_refused(self):
        with pytest.raises(ValueError, match=r"constant must be 'sqrt' or 'xi'. Got 'pi' instead"):
            bounds.maurer(0.1, 5, 200, 0.05, constant="pi")

    def test_more_errors_than_examples_are_refused(self):
        with pytest.raises(ValueError, match="n_errors must be a whole number between 0 and n"):
            bounds.binomial_tail_inverse(7, 5, 0.05)

    def test_a_word_for_a_number_is_refused(self):
        with pytest.raises(TypeError, match="kl must be a finite number of nats"):
            bounds.maurer(0.1, "five", 200, 0.05)
