"""Risks over the negatives: the compiled code against the formulas with scipy's Phi."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pacsent.kernels import risks


def example(rng, n_rows=5, n_noise=301):
    scores = 3.0 * rng.standard_normal((n_rows, n_noise))
    sd = np.exp(rng.uniform(-3, 3, n_rows))
    norms = np.exp(rng.uniform(-2, 2, n_noise))
    p_noise = rng.dirichlet(np.ones(n_noise))
    return scores, sd, norms, p_noise


@pytest.mark.parametrize("bias", [-2.0, 0.0, 0.7])
@pytest.mark.parametrize("shape", [(5, 301), (1, 1), (3, 0), (0, 4)])
def test_the_table_gives_thirteen_digits_of_the_formulas(rng, shape, bias):
    scores, sd, norms, p_noise = example(rng, *shape)
    norms[::7] = 0.0  # the score is the bias
    scores[:, 1::5] *= 1e6  # far beyond the table
    expected_scores = scores.copy()

    expected, _ = risks.noise_errors_plainly(expected_scores, bias, sd, norms, p_noise)
    found, _ = risks.noise_errors(scores, bias, sd, norms, p_noise)

    assert_allclose(found, expected, rtol=0, atol=1e-13)
    assert_allclose(scores, expected_scores, rtol=1e-6, atol=1e-9)


def test_the_gradient_in_rho_is_that_of_the_formulas(rng):
    scores, sd, norms, p_noise = example(rng)

    _, expected = risks.noise_errors_plainly(scores.copy(), 0.3, sd, norms, p_noise)
    _, found = risks.noise_errors(scores, 0.3, sd, norms, p_noise)

    assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("bias", [-2.0, 0.0, 0.7])
@pytest.mark.parametrize("shape", [(5, 301), (1, 1), (3, 0), (0, 4)])
def test_single_precision_gives_six_digits_of_the_formulas(rng, shape, bias):
    scores, *others = [array.astype(np.float32) for array in example(rng, *shape)]
    scores[:, 1::5] *= 1e6
    expected_scores = scores.copy()

    expected_errors, expected_slopes = risks.noise_errors_32_plainly(expected_scores, bias, *others)
    errors, slopes = risks.noise_errors_32(scores, bias, *others)

    assert_allclose(errors, expected_errors, rtol=0, atol=1e-6)
    assert_allclose(slopes, expected_slopes, rtol=0, atol=1e-5)
    assert_allclose(scores, expected_scores, rtol=1e-4, atol=1e-5)


def test_scores_that_are_no_numbers_stay_within_the_table(rng):
    scores, sd, norms, p_noise = example(rng)
    scores[0] = np.nan

    noise, _ = risks.noise_errors(scores, 0.0, sd, norms, p_noise)

    assert np.isfinite(noise[1:]).all()


@pytest.mark.parametrize("which", [1, 2, 3])
def test_shapes_that_do_not_fit_are_refused(rng, which):
    arrays = list(example(rng))
    arrays[which] = arrays[which][1:]
    scores, *others = arrays

    with pytest.raises(ValueError, match="a row for each sd and a column for each norm"):
        risks.noise_errors(scores, 0.0, *others)


@pytest.mark.parametrize("bias", [-1.0, 0.0, 0.4])
def test_own_words_have_the_risk_and_the_gradients_of_the_formulas(rng, bias):
    offsets = np.array([0, 0, 5, 6, 40])
    mu = rng.standard_normal((4, 19))
    sd = rng.uniform(0.1, 2, 4)
    words = rng.standard_normal((40, 19))
    words[3] = 0.0  # the margin is the bias
    norms = np.linalg.norm(words, axis=1)
    shares = rng.uniform(size=40)

    found = risks.own_errors(mu, sd, bias, words, offsets, norms, shares)
    expected = risks.own_errors_plainly(mu, sd, bias, words, offsets, norms, shares)

    for one, other in zip(found, expected):
        assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_the_gradient_in_mu_is_the_numerical_one(rng):
    words = rng.standard_normal((9, 3))
    mu = rng.standard_normal((1, 3))
    sd = np.ones(1)
    offsets = np.array([0, 9])
    norms = np.ones(9)
    shares = norms / 9

    def positive(mean):
        errors, _, _ = risks.own_errors(mean, sd, 0.2, words, offsets, norms, shares)
        return errors[0]

    _, found, _ = risks.own_errors(mu, sd, 0.2, words, offsets, norms, shares)

    steps = 1e-5 * np.eye(3)
    slopes = [(positive(mu + step) - positive(mu - step)) / 2e-5 for step in steps]
    assert_allclose(found[0], slopes, rtol=1e-8)


@pytest.mark.parametrize(
    ("offsets", "message"),
    [([0, 5], "an offset"), ([0, 5, 8], "to the number of words"), ([0, 10, 9], "must rise")],
)
def test_offsets_that_are_not_of_the_words_are_refused(rng, offsets, message):
    words = rng.standard_normal((9, 3))
    mu = words[:2].copy()
    sd = np.ones(2)
    norms = np.ones(9)
    shares = np.ones(9)

    with pytest.raises(ValueError, match=message):
        risks.own_errors(mu, sd, 0.0, words, np.array(offsets), norms, shares)
