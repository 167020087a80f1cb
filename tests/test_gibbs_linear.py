"""Bounds of linear Gibbs classifiers: exact errors, true gradients, guarantees that hold."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from gibbs_linear import Normal, bound, minimise_bound, recursive_posterior

REPLICATES = 250
DELTA = 0.1
NOISE = 0.8


def draw(rng, n, n_idle=1):
    """Texts with two features that tell their sign by and large, and some that tell nothing."""
    R = rng.normal(size=(n, 2 + n_idle))
    return R, np.where(R[:, 0] + 0.5 * R[:, 1] + NOISE * rng.normal(size=n) > 0, 1.0, -1.0)


def violations(prior_of, n, n_idle, n_steps=4):
    """How often the bound of the posterior is below its true error."""
    rng = np.random.default_rng(0)
    count = 0
    R_new, signs_new = draw(np.random.default_rng(999), 4000, n_idle)
    for _ in range(REPLICATES):
        R, signs = draw(rng, n, n_idle)
        prior = prior_of(R, signs)
        post = minimise_bound(R, signs, prior, DELTA, n_steps=n_steps) if n_steps else prior
        promised = bound(float(post.errors(R, signs).mean()), post.kl(prior), n, DELTA)
        count += float(post.errors(R_new, signs_new).mean()) > promised
    return count


def test_errors_are_those_of_drawn_classifiers():
    rng = np.random.default_rng(0)
    post = Normal(np.array([1.0, -0.5, 0.2]), np.array([0.5, 2.0, 1.0]))
    R, signs = draw(rng, 5)
    w = post.mean + np.sqrt(post.variances) * rng.normal(size=(200_000, 3))
    wrong = (signs[:, None] * (R @ w.T) < 0).mean(axis=1)
    assert np.allclose(post.errors(R, signs), wrong, atol=0.005)


def test_the_divergence_is_that_of_normal_distributions():
    rng = np.random.default_rng(1)
    p = Normal(rng.normal(size=3), rng.uniform(0.5, 2, 3))
    q = Normal(rng.normal(size=3), rng.uniform(0.5, 2, 3))
    w = q.mean + np.sqrt(q.variances) * rng.normal(size=(400_000, 3))
    log_q = stats.norm.logpdf(w, q.mean, np.sqrt(q.variances)).sum(axis=1)
    log_p = stats.norm.logpdf(w, p.mean, np.sqrt(p.variances)).sum(axis=1)
    assert q.kl(p) == pytest.approx(float((log_q - log_p).mean()), abs=0.02)
    assert p.kl(p) == 0


def test_the_minimum_is_below_every_posterior_nearby():
    rng = np.random.default_rng(2)
    R, signs = draw(rng, 200)
    prior = Normal.standard(3)
    post = minimise_bound(R, signs, prior, 0.05)

    def value(one):
        return bound(float(one.errors(R, signs).mean()), one.kl(prior), 200, 0.05)

    assert value(post) < value(prior) - 0.1
    for _ in range(50):
        near = Normal(
            post.mean + 0.1 * rng.normal(size=3), post.variances * np.exp(0.2 * rng.normal(size=3))
        )
        assert value(near) > value(post) - 1e-5


@pytest.mark.slow
def test_the_bound_holds_for_a_prior_fixed_beforehand():
    count = violations(lambda R, signs: Normal.standard(3), n=40, n_idle=1)
    assert count <= DELTA * REPLICATES


@pytest.mark.slow
def test_a_prior_made_from_the_same_labels_is_noticed():
    def cheat(R, signs):
        return Normal(np.linalg.lstsq(R, signs, rcond=None)[0], np.full(R.shape[1], 1e-4))

    count = violations(cheat, n=12, n_idle=10, n_steps=0)
    assert count > stats.binom.isf(1e-4, REPLICATES, DELTA)


def recursive_violations(n_replicates, n=100, n_steps=2):
    """How often the bound of recursive priors is below the true error of the last posterior."""
    rng = np.random.default_rng(3)
    R_new, signs_new = draw(np.random.default_rng(998), 4000)
    count = said = 0
    for _ in range(n_replicates):
        R, signs = draw(rng, n)
        parts = np.array_split(rng.permutation(n), [n // 4, n // 2])
        prior = Normal.standard(R.shape[1])
        post, promised = recursive_posterior(R, signs, prior, DELTA, parts, n_steps=n_steps)
        count += float(post.errors(R_new, signs_new).mean()) > promised
        said += promised < 1
    assert said > n_replicates / 2
    return count


@pytest.mark.slow
def test_recursive_priors_keep_their_guarantee():
    assert recursive_violations(REPLICATES) <= DELTA * REPLICATES


@pytest.mark.slow
def test_a_recursion_that_forgets_half_of_the_error_before_is_noticed(monkeypatch):
    monkeypatch.setattr("gibbs_linear._GAMMA", 1.0)
    assert recursive_violations(100) > stats.binom.isf(1e-4, 100, DELTA)
