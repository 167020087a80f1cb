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
    columns = {name: np.array([row[name] for row in rows]) for name in ("a", "v", "f", "f1", "f2")}

    f, f1, f2 = logistic.gaussian_logistic(columns["a"], columns["v"])

    assert_allclose(f, columns["f"], rtol=0, atol=5e-12)
    assert_allclose(f1, columns["f1"], rtol=0, atol=5e-12)
    assert_allclose(f2, columns["f2"], rtol=0, atol=5e-12)


@pytest.mark.parametrize("v", [0.02, 0.3, 1.0])
def test_series_and_quadrature_meet(v):
    variances = np.full(A.shape, v)

    series = logistic._series(A, variances)
    quadrature = logistic._quadrature(A, variances)

    for by_series, by_quadrature in zip(series, quadrature, strict=True):
        assert_allclose(by_series, by_quadrature, rtol=0, atol=5e-12)


@pytest.mark.parametrize("v", [0.1, 0.9, 5.0])
def test_each_is_the_derivative_of_the_one_before(v):
    step = 1e-5

    f_up, f1_up, _ = logistic.gaussian_logistic(A + step, v)
    f_down, f1_down, _ = logistic.gaussian_logistic(A - step, v)

    _, f1, f2 = logistic.gaussian_logistic(A, v)
    assert_allclose((f_up - f_down) / (2 * step), f1, atol=1e-8)
    assert_allclose((f1_up - f1_down) / (2 * step), f2, atol=1e-8)


@pytest.mark.parametrize("v", [0.1, 0.9, 5.0])
def test_the_slope_in_the_variance_is_half_the_second_derivative(v):
    step = 1e-5

    f_wide, _, _ = logistic.gaussian_logistic(A, v + step)
    f_narrow, _, _ = logistic.gaussian_logistic(A, v - step)

    _, _, f2 = logistic.gaussian_logistic(A, v)
    assert_allclose((f_wide - f_narrow) / (2 * step), 0.5 * f2, atol=1e-8)


@pytest.mark.parametrize("v", [0.1, 0.9])
def test_higher_derivatives_are_finite_differences_of_the_second(v):
    step = 1e-4

    _, _, f2_up = logistic.gaussian_logistic(A + step, v)
    _, _, f2 = logistic.gaussian_logistic(A, v)
    _, _, f2_down = logistic.gaussian_logistic(A - step, v)

    f3, f4 = logistic.higher_derivatives(A, np.full(A.shape, v))
    assert_allclose((f2_up - f2_down) / (2 * step), f3, atol=5e-5)
    assert_allclose((f2_up + f2_down - 2 * f2) / step**2, f4, atol=1e-3)


def test_no_variance_means_the_plain_loss():
    f, f1, f2 = logistic.gaussian_logistic(A, 0.0)

    sigmoid = expit(A)
    assert_allclose(f, np.logaddexp(0.0, A), rtol=1e-13)
    assert_allclose(f1, sigmoid, rtol=1e-13)
    assert_allclose(f2, sigmoid * (1 - sigmoid), rtol=1e-12)


@pytest.mark.parametrize("v", [0.5, 2.0, 1e4])
def test_far_scores_do_not_overflow(v):
    f, f1, f2 = logistic.gaussian_logistic(np.array([-700.0, 700.0, 1e5]), v)

    assert np.isfinite([f, f1, f2]).all()
    assert_allclose(f1[2], 1.0)


def test_a_negative_variance_is_rejected():
    with pytest.raises(ValueError, match=r"v must be a variance, 0 or more. Got -1.0 instead"):
        logistic.gaussian_logistic(0.0, -1.0)


@pytest.mark.parametrize("j", [0, 5, 33])
def test_the_table_of_fits_is_what_its_script_makes(monkeypatch, j):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "scripts")
    import make_sigmoid_fits

    starts, scales, coefficients = logistic.sigmoid_fits()
    start = make_sigmoid_fits.FIRST_START * 2.0 ** (0.5 * j)
    scale = make_sigmoid_fits.scale_of(start)
    fitted = make_sigmoid_fits.fit(start, scale)

    assert_allclose(starts[j], start, rtol=1e-7)
    assert_allclose(scales[j], scale, rtol=1e-7)
    # Other libraries for least squares may differ in more than the last digits.
    largest = np.abs(fitted).max()
    assert_allclose(coefficients[j], fitted, rtol=1e-3, atol=1e-5 * largest)


@pytest.mark.slow
def test_the_fits_of_the_expected_sigmoid_hold_at_every_variance():
    scores = np.linspace(-60.0, 60.0, 4001)
    fits = kernels.Fits(*logistic.sigmoid_fits())
    no_control = (0.0, np.zeros((8, 1), np.float32))
    unit_weights = np.ones((3, 1), np.float32)

    for v in np.geomspace(1e-4, 2e5, 400):  # Taylor's series, the fits, one wide Gaussian
        f1 = scores.astype(np.float32)[:, None]  # a word's score in each of 4,001 sentences
        low = np.zeros_like(f1)
        variances = np.full(scores.size, v, np.float32)
        f2, _ = kernels.sampled_noise_terms(f1, low, variances, no_control, unit_weights, fits)

        _, expected_f1, expected_f2 = logistic.gaussian_logistic(scores, v)
        assert np.abs(f1[:, 0] - expected_f1).max() < 1.2e-5, v
        assert np.abs(f2 - expected_f2).max() < 4e-5, v
