import numpy as np
import pytest

from pacsent.classify.solvers import gaussian_process as gp


def problem(n=40, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 6))
    signs = np.where(Z[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return Z @ Z.T + 1e-6 * np.eye(n), signs


def test_the_mode_is_a_stationary_point():
    K, signs = problem()
    fit = gp.laplace(K, signs, tol=1e-10)
    gradient = signs / (1 + np.exp(signs * fit.f))
    assert np.allclose(fit.a, gradient, atol=1e-6)  # f = K a and a = d log p / d f
    assert np.allclose(K @ fit.a, fit.f, atol=1e-8)
    again = gp.laplace(K, signs, start=fit.f + 0.5, tol=1e-10)
    assert np.allclose(fit.f, again.f, atol=1e-6)  # wherever it starts


def test_the_evidence_is_near_the_integral_it_approximates():
    K, signs = problem(n=3)
    rng = np.random.default_rng(0)
    f = rng.multivariate_normal(np.zeros(3), K, size=400_000)
    exact = np.log(np.mean(np.prod(1 / (1 + np.exp(-signs * f)), axis=1)))
    assert gp.laplace(K, signs).evidence == pytest.approx(exact, abs=0.25)


def test_left_out_values_are_near_those_of_fits_without_the_text():
    K, signs = problem()
    fit = gp.laplace(K, signs)
    guessed = fit.left_out(K)
    for i in range(0, 40, 7):
        others = np.delete(np.arange(40), i)
        alone = gp.laplace(K[np.ix_(others, others)], signs[others])
        assert guessed[i] == pytest.approx(K[i, others] @ alone.a, abs=0.35)


def test_kl_is_that_of_the_two_gaussians():
    K, signs = problem(n=8)
    fit = gp.laplace(K, signs)
    inverse = np.linalg.inv(K)
    covariance = np.linalg.inv(inverse + np.diag(fit.curvature))
    log_dets = np.linalg.slogdet(K)[1] - np.linalg.slogdet(covariance)[1]
    expected = np.trace(inverse @ covariance) - 8 + fit.f @ inverse @ fit.f + log_dets
    B = fit.L @ fit.L.T
    by_B = np.linalg.slogdet(B)[1] + np.trace(np.linalg.inv(B)) - 8 + fit.f @ fit.a
    assert by_B == pytest.approx(expected, rel=1e-3)


def test_the_average_leans_on_the_part_that_knows():
    rng = np.random.default_rng(0)
    good, noise = rng.normal(size=(60, 2)), rng.normal(size=(60, 50))
    signs = np.where(good[:, 0] > 0, 1.0, -1.0)
    K_sparse, K_dense = noise @ noise.T / 50, good @ good.T
    labels = (signs > 0).astype(int)
    average = gp.averaged(K_sparse, K_dense, labels, gp.scales(60, 1, True), n_classes=2)
    assert average.best[1] > average.best[0]
    assert np.mean(average.left_out[:, 0] * signs > 0) > 0.9
    values = K_sparse @ average.sparse + K_dense @ average.dense + average.intercept
    assert np.mean(values[:, 0] * signs > 0) > 0.95
    grid = gp.scales(60, 1, False)  # without vectors only the scale of n-grams is searched
    assert [len(line) for line in grid] == [7] and all(d == 0 for line in grid for _, d in line)
    assert not gp.averaged(K_dense, 0 * K_dense, labels, grid, n_classes=2).dense.any()


def test_no_place_of_the_grid_weighs_nothing_and_none_decides_alone():
    evidence, likelihood = np.array([-500.0, -3.0, -2.0]), np.array([-90.0, -5.0, -4.0])
    weights = gp.weigh(evidence, likelihood)
    assert weights.sum() == pytest.approx(1)
    assert weights.min() >= 1 / 9 and weights.argmax() == 2
