"""Gaussian expectations of the logistic loss: golden numbers, and one route against another."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from pacsent.kernels import pb_neg as kernels
from pacsent.sentences.solvers import logistic

A = np.linspace(-8.0, 8.0, 33)


def test_expectations_are_the_golden_ones(golden):
    rows = golden("methods")["gaussian_logistic"]
    a, v = (np.array([row[name] for row in rows]) for name in ("a", "v"))
    for found, name in zip(logistic.gaussian_logistic(a, v), ("f", "f1", "f2")):
        assert_allclose(found, [row[name] for row in rows], rtol=0, atol=5e-12)


@pytest.mark.parametrize("v", [0.02, 0.3, 1.0])
def test_series_and_quadrature_meet(v):
    series, quadrature = (
        f(A, np.full(A.shape, v)) for f in (logistic._series, logistic._quadrature)
    )
    for by_series, by_quadrature in zip(series, quadrature):
        assert_allclose(by_series, by_quadrature, rtol=0, atol=5e-12)


@pytest.mark.parametrize("v", [0.1, 0.9, 5.0])
def test_each_is_the_derivative_of_the_one_before(v):
    step = 1e-5
    f_up, f1_up, _ = logistic.gaussian_logistic(A + step, v)
    f_down, f1_down, _ = logistic.gaussian_logistic(A - step, v)
    _, f1, f2 = logistic.gaussian_logistic(A, v)
    assert_allclose((f_up - f_down) / (2 * step), f1, atol=1e-8)
    assert_allclose((f1_up - f1_down) / (2 * step), f2, atol=1e-8)
    f_wide, f_narrow = (logistic.gaussian_logistic(A, v + sign * step)[0] for sign in (1, -1))
    assert_allclose((f_wide - f_narrow) / (2 * step), 0.5 * f2, atol=1e-8)
    if v < 1:
        step = 1e-4
        f3, f4 = logistic.higher_derivatives(A, np.full(A.shape, v))
        up, down = (logistic.gaussian_logistic(A + sign * step, v)[2] for sign in (1, -1))
        assert_allclose((up - down) / (2 * step), f3, atol=5e-5)
        assert_allclose((up + down - 2 * f2) / step**2, f4, atol=1e-3)


def test_no_variance_means_the_plain_loss():
    f, f1, f2 = logistic.gaussian_logistic(A, 0.0)
    s = expit(A)
    assert_allclose(f, np.logaddexp(0.0, A), rtol=1e-13)
    assert_allclose(f1, s, rtol=1e-13)
    assert_allclose(f2, s * (1 - s), rtol=1e-12)


def test_far_scores_do_not_overflow():
    for v in (0.5, 2.0, 1e4):
        f, f1, f2 = logistic.gaussian_logistic(np.array([-700.0, 700.0, 1e5]), v)
        assert np.isfinite([f, f1, f2]).all()
        assert_allclose(f1[2], 1.0)
    with pytest.raises(ValueError, match=r"v must be a variance, 0 or more. Got -1.0 instead"):
        logistic.gaussian_logistic(0.0, -1.0)


@pytest.mark.parametrize("j", [0, 5, 33])
def test_the_table_of_fits_is_what_its_script_makes(monkeypatch, j):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "scripts")
    import make_sigmoid_fits

    starts, scales, coefficients = logistic.sigmoid_fits()
    start = make_sigmoid_fits.FIRST_START * 2.0 ** (0.5 * j)
    scale = make_sigmoid_fits.scale_of(start)
    assert_allclose([starts[j], scales[j]], [start, scale], rtol=1e-7)
    # other libraries for least squares may differ in more than the last digits
    again = make_sigmoid_fits.fit(start, scale)
    assert_allclose(coefficients[j], again, rtol=1e-3, atol=1e-5 * np.abs(again).max())


@pytest.mark.slow
def test_the_fits_of_the_expected_sigmoid_hold_at_every_variance():
    a = np.linspace(-60.0, 60.0, 4001)
    fits = kernels.Fits(*logistic.sigmoid_fits())
    no_control, unit_weights = np.zeros((8, 1), np.float32), np.ones((3, 1), np.float32)
    for v in np.geomspace(1e-4, 2e5, 400):  # Taylor's series, the fits, one wide Gaussian
        f1 = a.astype(np.float32)[:, None]  # a word's score in each of 4,001 sentences
        f2, _ = kernels.sampled_noise_terms(
            *(f1, np.zeros_like(f1), np.full(a.size, v, np.float32)),
            *((0.0, no_control), unit_weights, fits),
        )
        _, wanted, bend = logistic.gaussian_logistic(a, v)
        assert np.abs(f1[:, 0] - wanted).max() < 1.2e-5, v
        assert np.abs(f2 - bend).max() < 4e-5, v
