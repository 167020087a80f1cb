"""Bounds: golden numbers, never below the true value, properties, and the house messages."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import rel_entr

from pacsent.maths import bounds

mpmath.mp.dps = 50


# The formulas once more, in 50 digits and written for reading; every input is an exact double.
def true_kl(q, p):
    total = mpmath.mpf(0)
    if q > 0:
        total += q * (mpmath.log(q) - mpmath.log(p))
    if q < 1:
        total += (1 - q) * (mpmath.log(1 - q) - mpmath.log(1 - p))
    return total


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


def true_quadratic(q, kl, n, delta):
    b = true_complexity(kl, n, delta) / (2 * int(n))
    return (mpmath.sqrt(mpmath.mpf(q) + b) + mpmath.sqrt(b)) ** 2


def true_mcallester(q, kl, n, delta):
    return mpmath.mpf(q) + mpmath.sqrt(true_complexity(kl, n, delta) / (2 * int(n)))


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
    "mcallester": bounds.mcallester,
    "quadratic": bounds.quadratic,
    "thiemann": bounds.thiemann,
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

    def test_catoni_with_lam_fixed(self, golden):
        for row in golden("bounds")["bounds"]:
            arguments = row["R_hat"], row["KL"], row["N"], row["delta"]
            value = bounds.catoni(*arguments, lam=row["lam"], clip=False)
            assert_allclose(value, row["catoni_fixed"], rtol=0, atol=1e-10)

    def test_ln_xi(self, golden):
        for row in golden("bounds")["bounds"]:
            assert_allclose(bounds.ln_xi(row["N"]), row["ln_xi"], rtol=0, atol=1e-8)

    def test_kl_inverse_both_ends_and_lower_bound(self, golden):
        for row in golden("bounds")["kl_inverse"]:
            assert_allclose(bounds.kl_inverse(row["q"], row["c"]), row["upper"], atol=1e-14)
            low = bounds.kl_inverse(row["q"], row["c"], upper=False)
            assert_allclose(low, row["lower"], rtol=1e-5, atol=1e-14)
            if row["lower"] > 0 and row["c"] <= 10:
                assert_allclose(low, row["lower"], rtol=1e-11)

    def test_derivatives(self, golden):
        for row in golden("bounds")["kl_inverse_derivatives"]:
            p, dp_dq, dp_dc = bounds.kl_inverse(row["q"], row["c"], derivatives=True)
            assert_allclose([p, dp_dq, dp_dc], [row["p"], row["dp_dq"], row["dp_dc"]], rtol=1e-12)


class TestNeverBelow:
    """The promise of the module: the result is at least the formula's value, and near it."""

    def test_upper_inverse(self, rng):
        q, _, _, _ = awkward_points(rng, 1000)
        c = 10.0 ** rng.uniform(-15, 2, 1000)
        for p, qi, ci in zip(bounds.kl_inverse(q, c), q, c, strict=True):
            assert is_upper_inverse(p, qi, ci, slack=2e-14)

    def test_lower_inverse_is_never_above(self, rng):
        q, _, _, _ = awkward_points(rng, 1000)
        c = 10.0 ** rng.uniform(-15, 1.2, 1000)
        for p, qi, ci in zip(bounds.kl_inverse(q, c, upper=False), q, c, strict=True):
            q_exact = mpmath.mpf(qi)
            assert p == 0.0 or true_kl(q_exact, mpmath.mpf(p)) >= ci
            above = p * (1 + 1e-6) + 2e-14
            assert above >= qi or true_kl(q_exact, mpmath.mpf(above)) < ci

    @pytest.mark.parametrize("constant", ["sqrt", "xi"])
    def test_maurer(self, rng, constant):
        q, kl, n, delta = awkward_points(rng, 500 if constant == "sqrt" else 100)
        n = np.minimum(n, 5_000) if constant == "xi" else n
        ours = bounds.maurer(q, kl, n, delta, constant=constant)
        for p, qi, kli, ni, di in zip(ours, q, kl, n, delta, strict=True):
            c = true_complexity(kli, ni, di, constant) / int(ni)
            assert is_upper_inverse(p, qi, c, slack=1e-11)

    def test_the_formulas_without_an_inverse(self, rng):
        q, kl, n, delta = awkward_points(rng, 400)
        lam = n * 10.0 ** rng.uniform(-3, 1.3, 400)
        columns = {
            "mcallester": (bounds.mcallester(q, kl, n, delta, clip=False), true_mcallester),
            "quadratic": (bounds.quadratic(q, kl, n, delta, clip=False), true_quadratic),
            "thiemann": (bounds.thiemann(q, kl, n, delta, clip=False), true_quadratic),
        }
        for name, (ours, formula) in columns.items():
            for row in zip(q, kl, n, delta, ours, strict=True):
                true = formula(*row[:4])
                assert mpmath.mpf(row[4]) >= true, (name, row)
                assert row[4] <= float(true) * (1 + 1e-13)
        for row in zip(
            q, kl, n, delta, lam, bounds.catoni(q, kl, n, delta, lam=lam, clip=False), strict=True
        ):
            true = true_catoni(*row[:5])
            assert mpmath.mpf(row[5]) >= true
            assert row[5] <= float(true) * (1 + 1e-13)

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
        p = bounds.binomial_tail(k, n, delta)

        def tail(p):
            p = mpmath.mpf(p)
            return mpmath.fsum(
                mpmath.binomial(n, j) * p**j * (1 - p) ** (n - j) for j in range(k + 1)
            )

        assert tail(p) <= mpmath.mpf(delta)
        assert tail(p * (1 - 1e-8)) > mpmath.mpf(delta)


class TestProperties:
    @settings(max_examples=60, deadline=None)
    @given(
        q=st.floats(0, 1),
        kl=st.floats(0, 1e4),
        n=st.integers(1, 10**7),
        delta=st.floats(1e-9, 0.99),
    )
    def test_the_order_of_the_bounds(self, q, kl, n, delta):
        xi = bounds.maurer(q, kl, n, delta, constant="xi")
        sqrt = bounds.maurer(q, kl, n, delta)
        assert q <= xi <= 1
        assert xi <= sqrt + 1e-12
        assert sqrt <= bounds.mcallester(q, kl, n, delta) + 1e-12
        assert sqrt <= bounds.quadratic(q, kl, n, delta) + 1e-12
        assert bounds.maurer(q, kl + 1, n, delta) >= sqrt
        assert bounds.maurer(q, kl, n, delta / 2) >= sqrt

    @settings(max_examples=60, deadline=None)
    @given(q=st.floats(0, 1), c=st.floats(0, 100))
    def test_the_inverse_inverts(self, q, c):
        p = bounds.kl_inverse(q, c)
        low = bounds.kl_inverse(q, c, upper=False)
        assert low <= q <= p
        if q > 1e-6 and p < 1 - 1e-6:
            kl = rel_entr(q, p) + rel_entr(1 - q, 1 - p)
            assert_allclose(kl, c, rtol=1e-6, atol=1e-9)

    def test_derivatives_are_finite_differences(self):
        q, c, step = 0.2, 0.07, 1e-6
        _, dp_dq, dp_dc = bounds.kl_inverse(q, c, derivatives=True)
        numeric_q = (bounds.kl_inverse(q + step, c) - bounds.kl_inverse(q - step, c)) / (2 * step)
        numeric_c = (bounds.kl_inverse(q, c + step) - bounds.kl_inverse(q, c - step)) / (2 * step)
        assert_allclose([dp_dq, dp_dc], [numeric_q, numeric_c], rtol=1e-7)

    def test_derivatives_at_the_ends(self):
        p, dp_dq, dp_dc = bounds.kl_inverse(
            np.array([0.0, 1.0, 0.3]), np.array([0.5, 0.5, 0.0]), derivatives=True
        )
        assert_allclose(p, [1 - np.exp(-0.5), 1.0, 0.3])
        assert_allclose(dp_dc[:2], [np.exp(-0.5), 0.0])
        assert dp_dq[0] == np.inf and dp_dq[2] == 1.0

    def test_arrays_broadcast_and_numbers_stay_numbers(self):
        assert isinstance(bounds.maurer(0.1, 5, 200, 0.05), float)
        table = bounds.maurer(np.array([[0.1], [0.2]]), np.array([0.0, 5.0, 9.0]), 200, 0.05)
        assert table.shape == (2, 3)
        assert_allclose(table[0, 1], bounds.maurer(0.1, 5, 200, 0.05))
        assert bounds.catoni_over_grid(np.array([0.1, 0.2]), 5, 200, 0.05).shape == (2,)
        assert bounds.ln_xi(np.array([[5, 5], [7, 9]])).shape == (2, 2)

    def test_clipping_is_on_by_default_and_can_be_switched_off(self):
        arguments = 0.9, 500, 100, 0.05
        assert bounds.mcallester(*arguments) == 1.0
        assert bounds.mcallester(*arguments, clip=False) > 2.0

    def test_a_grid_of_one_is_catoni_itself(self):
        grid = bounds.catoni_over_grid(0.1, 5, 200, 0.05, lams=[150.0])
        assert_allclose(grid, bounds.catoni(0.1, 5, 200, 0.05, lam=150.0), rtol=1e-14)

    def test_a_grid_pays_for_its_size(self):
        one = bounds.catoni(0.1, 5, 200, 0.05 / 3, lam=150.0)
        grid = bounds.catoni_over_grid(0.1, 5, 200, 0.05, lams=[1e-3, 150.0, 1e6])
        assert_allclose(grid, one, rtol=1e-13)

    def test_no_bound_where_nothing_can_be_said(self):
        assert bounds.binomial_tail(5, 5, 0.05) == 1.0
        assert bounds.kl_inverse(0.3, np.inf) == 1.0
        assert bounds.kl_inverse(0.3, np.inf, upper=False) == 0.0


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
    @pytest.mark.parametrize("bound", ["maurer", "mcallester", "quadratic", "thiemann"])
    def test_bad_numbers_are_refused_with_their_name(self, bound, change, message):
        arguments = {"empirical_risk": 0.1, "kl": 5.0, "n": 200, "delta": 0.05} | change
        with pytest.raises(ValueError, match=message):
            getattr(bounds, bound)(**arguments)

    def test_other_arguments(self):
        with pytest.raises(ValueError, match=r"lam must be a finite number > 0. Got -1 instead"):
            bounds.catoni(0.1, 5, 200, 0.05, lam=-1)
        with pytest.raises(ValueError, match=r"lams must be all > 0. Got 0 instead"):
            bounds.catoni_over_grid(0.1, 5, 200, 0.05, lams=[0.0, 1.0])
        with pytest.raises(ValueError, match=r"constant must be 'sqrt' or 'xi'. Got 'pi' instead"):
            bounds.maurer(0.1, 5, 200, 0.05, constant="pi")
        with pytest.raises(ValueError, match=r"lam must be strictly between 0 and 2. Got 2"):
            bounds.thiemann(0.1, 5, 200, 0.05, lam=2.0)
        with pytest.raises(ValueError, match="n_errors must be a whole number between 0 and n"):
            bounds.binomial_tail(7, 5, 0.05)
        with pytest.raises(TypeError, match="kl must be a finite number of nats"):
            bounds.maurer(0.1, "five", 200, 0.05)

    def test_no_room_leaves_the_risk_itself(self):
        assert bounds.kl_inverse(1.0, 0.0, upper=False) == 1.0
        assert bounds.kl_inverse(0.0, 0.0) == 0.0

    def test_any_lam_of_thiemann_is_allowed_and_the_best_one_is_taken(self):
        best = bounds.thiemann(0.1, 5, 200, 0.05)
        others = [bounds.thiemann(0.1, 5, 200, 0.05, lam=lam) for lam in (0.2, 0.5, 1.0, 1.9)]
        assert best <= min(others) and len(set(others)) == 4

    def test_the_complexity_of_the_squared_loss_is_never_below_its_formula(self):
        lam, variance, n, n_dims, distances, delta = 2.0, 0.5, 100, 3, (1.5, 2.5, 4.0), 0.05
        with mpmath.workdps(40):
            scale = mpmath.mpf(lam) ** 2 * variance / n
            largest = scale * distances[2] / n
            kappa = (5 * mpmath.sqrt(5) - 11) / 4
            exact = -mpmath.log(delta) + kappa * mpmath.mpf(lam) ** 2 * distances[1] / n
            exact += n_dims * scale * distances[0] * -mpmath.log1p(-largest) / largest / 2
            found = bounds.squared_loss_complexity(lam, n, delta, variance, n_dims, distances)
            assert exact < found < exact * (1 + mpmath.mpf("1e-9"))
