"""Closed forms and KLs, each by two routes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from pacsent.sentences.solvers import gaussians as p
from reference import gaussian_reference as reference


def problem(rng, n_words=6, n_dims=3, n_sentences=4):
    """Random tables and counts; the last sentence is empty, the last word is the zero vector."""
    A_hat, B_hat = rng.normal(size=(2, n_words, n_dims))
    A_hat[-1] = B_hat[-1] = 0
    counts = rng.integers(0, 4, size=(n_sentences, n_words))
    counts[:, 0] += 1
    counts[-1] = 0
    return A_hat, B_hat, counts


def test_idf_weights_equal_the_golden_numbers(golden):
    example = golden("methods")["example"]
    seen = [sum(w in sentence for sentence in example["sentences"]) for w in range(example["V"])]
    assert_allclose(p.idf(seen, 3), example["idf"], rtol=1e-15)
    assert_allclose(p.idf([0, 1], 3), [np.log(3) + 1, np.log(3) + 1])


def loss(parameters, tokens, A_hat, B_hat, beta, var_words, lam, kl):
    """The loss as it is defined, token by token: data term plus KL over lam."""
    mu, rho = parameters[:-1], parameters[-1]
    n_dims, var_Q = mu.size, np.exp(rho)
    spread = n_dims * var_Q
    data = sum(b / 2 * (((A_hat[w] - mu) ** 2).sum() + spread) for w, b in zip(tokens, beta))
    trace = sum((((mu - B_hat[w]) ** 2).sum() + spread) / (2 * var_words[w]) for w in tokens)
    # the exact KL counts log Q once; the paper counts it once per token
    times = 1 if kl == "exact" else len(tokens)
    return data + (trace - times * n_dims / 2 * rho) / lam


@pytest.mark.parametrize("method", ["L2", "IDF-L2"])
@pytest.mark.parametrize("lam", [0.25, 2.0])
def test_a_closed_form_is_where_a_blind_minimiser_ends(rng, method, lam):
    A_hat, B_hat, counts = problem(rng)
    var_P, idf = 0.5, rng.uniform(1, 3, size=6)
    settings = {"lam": lam, "var_P": var_P}
    if method == "L2":
        mu, var_Q = reference.l2_posterior(counts, A_hat, B_hat, **settings)
    else:
        mu, var_Q = reference.idf_l2_posterior(counts, A_hat, B_hat, idf, **settings)
    for s in range(3):
        tokens = np.repeat(np.arange(6), counts[s])
        beta = np.full(tokens.size, 1 / tokens.size) if method == "L2" else idf[tokens]
        var_words = var_P / idf if method == "IDF-L2" else np.full(6, var_P)
        arguments = (tokens, A_hat, B_hat, beta, var_words, lam, "exact")
        minimum = minimize(loss, np.zeros(4), args=arguments, tol=1e-12)
        assert_allclose(mu[s], minimum.x[:-1], atol=2e-6)
        assert_allclose(var_Q[s], np.exp(minimum.x[-1]), rtol=2e-5)
        here = loss(np.append(mu[s], np.log(var_Q[s])), *arguments)
        assert here <= minimum.fun + 1e-12 * abs(minimum.fun)


def test_the_printed_variance_minimises_neither_loss(rng):
    A_hat, B_hat, counts = problem(rng)
    mu, exact = (each[0] for each in reference.l2_posterior(counts, A_hat, B_hat, lam=2.0))
    tokens = np.repeat(np.arange(6), counts[0])
    arguments = (tokens, A_hat, B_hat, np.full(tokens.size, 1 / tokens.size), np.ones(6), 2.0)
    # The paper prints var_P; its own loss, whose logarithm counts n times, has n times the exact.
    for kl, best in (("exact", exact), ("paper", tokens.size * exact)):
        at = lambda v, kl=kl: loss(np.append(mu, np.log(v)), *arguments, kl)  # noqa: E731
        assert at(best) < min(at(0.99 * best), at(1.01 * best))
        assert at(best) < at(1.0) - 1e-3


def test_the_exact_posterior_is_the_gibbs_posterior(rng):
    # Q* proportional to P_S exp(-lam R_hat): its log density differs from Q's by a constant
    A_hat, B_hat, counts = problem(rng)
    lam, var_P = 3.0, 0.7
    mu, var_Q = reference.l2_posterior(counts, A_hat, B_hat, lam=lam, var_P=var_P)
    tokens = np.repeat(np.arange(6), counts[0])
    h = rng.normal(size=(50, 3))
    log_prior = -((h[:, None] - B_hat[tokens]) ** 2).sum(axis=(1, 2)) / (2 * var_P)
    risk = ((h[:, None] - A_hat[tokens]) ** 2).sum(axis=2).mean(axis=1) / 2
    log_Q = -((h - mu[0]) ** 2).sum(axis=1) / (2 * var_Q[0])
    assert_allclose(np.ptp(log_prior - lam * risk - log_Q), 0, atol=1e-11)


def test_kls_equal_the_golden_numbers(golden):
    """And the numbers of the file are related as the theory says."""
    numbers = golden("methods")
    O_hat, sentences = np.array(numbers["example"]["O"]), numbers["example"]["sentences"]
    for row in numbers["kl"]:
        tokens = sentences[row["sentence"]]
        n, var_P, m = len(tokens), row["sigma_P2"], O_hat[tokens].mean(axis=0)
        mu, var_Q, n_dims = np.array(row["mu"]), np.exp(row["rho"]), O_hat.shape[1]
        assert_allclose(m, row["prior_mean"], atol=1e-15)
        kl, geometric = (p.kl_gaussians(mu, var_Q, m, var) for var in (var_P / n, var_P))
        assert_allclose(kl, row["KL_exact_poe"], rtol=1e-13)
        assert_allclose(geometric, row["KL_geometric_mean_prior"], rtol=1e-13)
        entropies = (n - 1) * row["entropy_Q"]
        assert_allclose(row["sum_of_expert_KLs"] + row["logZ"] + entropies, kl, rtol=1e-11)
        # what the paper prints is no KL to the product: its logarithm counts n times
        penalty = row["paper_penalty_times_lambda"]
        assert_allclose(n * (geometric + n_dims / 2), penalty, rtol=1e-13)


def test_lambda_and_the_coefficients_of_a_sentence():
    assert p.l2_lam([2, 5, 0], alpha=0.5, var_P=4.0).tolist() == [1.0, 2.5, np.inf]
    assert p.l2_lam([2, 1, 0], lam=3.0, lam_mode="per-token").tolist() == [6.0, 3.0, np.inf]
    assert p.l2_lam([2, 0]).tolist() == [1.0, 1.0] and p.l2_lam([1], alpha=1.0).tolist() == [1.0]
    for lam, c_A, c_B in ((np.inf, 0.5, 0.0), (4.0, 1 / 2.75, 1 / 11)):
        known, unknown = np.transpose(p.l2_coefficients([True, False], 2.0, 3.0, lam=lam))
        assert_allclose(known, [c_A, c_B, c_B])
        assert_allclose(unknown, [0.0, 0.0, np.nan])
    assert p.idf([0, 1], 0).tolist() == [1.0, 1.0]
