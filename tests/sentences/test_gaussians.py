"""Closed forms and KLs, each by two routes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from pacsent.sentences.solvers import gaussians as p
from reference import gaussian_reference as reference


def problem(rng, n_words=6, n_dims=3, n_sentences=4):
    """Random matrices and counts; the last sentence is empty, the last word is the zero vector."""
    A_hat, B_hat = rng.normal(size=(2, n_words, n_dims))
    A_hat[-1] = 0
    B_hat[-1] = 0
    counts = rng.integers(0, 4, size=(n_sentences, n_words))
    counts[:, 0] += 1
    counts[-1] = 0
    return A_hat, B_hat, counts


def test_idf_weights_equal_the_golden_numbers(golden):
    example = golden("methods")["example"]
    n_with_word = np.zeros(example["V"], int)
    for sentence in example["sentences"]:
        n_with_word[np.unique(sentence)] += 1

    assert_allclose(p.idf(n_with_word, 3), example["idf"], rtol=1e-15)


def test_idf_counts_an_unseen_word_as_seen_once():
    assert_allclose(p.idf([0, 1], 3), [np.log(3) + 1, np.log(3) + 1])
    assert p.idf([0, 1], 0).tolist() == [1.0, 1.0]


def loss(parameters, tokens, A_hat, B_hat, beta, var_words, lam, kl):
    """The loss as it is defined, token by token: data term plus KL over lam."""
    mu = parameters[:-1]
    rho = parameters[-1]  # log of the variance
    n_dims = mu.size
    spread = n_dims * np.exp(rho)

    data = 0.0
    trace = 0.0
    for word, weight in zip(tokens, beta):
        to_input = A_hat[word] - mu
        to_prior = mu - B_hat[word]
        data += weight / 2 * (to_input @ to_input + spread)
        trace += (to_prior @ to_prior + spread) / (2 * var_words[word])

    # the exact KL counts log Q once; the paper counts it once per token
    times = 1 if kl == "exact" else len(tokens)
    return data + (trace - times * n_dims / 2 * rho) / lam


def tokens_of(counts):
    """The ids of a sentence with these counts of words."""
    return np.repeat(np.arange(counts.size), counts)


def assert_minimal(mu, var_Q, arguments):
    """A general minimiser of the loss ends at this mean and variance."""
    minimum = minimize(loss, np.zeros(mu.size + 1), args=arguments, tol=1e-12)
    assert_allclose(mu, minimum.x[:-1], atol=2e-6)
    assert_allclose(var_Q, np.exp(minimum.x[-1]), rtol=2e-5)
    at_posterior = loss(np.append(mu, np.log(var_Q)), *arguments)
    assert at_posterior <= minimum.fun + 1e-12 * abs(minimum.fun)


@pytest.mark.parametrize("lam", [0.25, 2.0])
def test_the_posterior_of_l2_is_where_a_blind_minimiser_ends(rng, lam):
    A_hat, B_hat, counts = problem(rng)
    var_P = 0.5

    mu, var_Q = reference.l2_posterior(counts, A_hat, B_hat, lam=lam, var_P=var_P)

    for s in range(3):
        tokens = tokens_of(counts[s])
        beta = np.full(tokens.size, 1 / tokens.size)
        arguments = (tokens, A_hat, B_hat, beta, np.full(6, var_P), lam, "exact")
        assert_minimal(mu[s], var_Q[s], arguments)


@pytest.mark.parametrize("lam", [0.25, 2.0])
def test_the_posterior_of_idf_l2_is_where_a_blind_minimiser_ends(rng, lam):
    A_hat, B_hat, counts = problem(rng)
    var_P = 0.5
    idf = rng.uniform(1, 3, size=6)

    mu, var_Q = reference.idf_l2_posterior(counts, A_hat, B_hat, idf, lam=lam, var_P=var_P)

    for s in range(3):
        tokens = tokens_of(counts[s])
        arguments = (tokens, A_hat, B_hat, idf[tokens], var_P / idf, lam, "exact")
        assert_minimal(mu[s], var_Q[s], arguments)


@pytest.mark.parametrize("kl", ["exact", "paper"])
def test_the_printed_variance_minimises_neither_loss(rng, kl):
    """The paper prints var_P = 1 here; in its own loss the logarithm counts n times."""
    A_hat, B_hat, counts = problem(rng)
    mu, var_Q = reference.l2_posterior(counts, A_hat, B_hat, lam=2.0)
    tokens = tokens_of(counts[0])
    beta = np.full(tokens.size, 1 / tokens.size)
    minimum = var_Q[0] if kl == "exact" else tokens.size * var_Q[0]

    def loss_at(variance):
        parameters = np.append(mu[0], np.log(variance))
        return loss(parameters, tokens, A_hat, B_hat, beta, np.ones(6), 2.0, kl)

    assert loss_at(minimum) < loss_at(0.99 * minimum)
    assert loss_at(minimum) < loss_at(1.01 * minimum)
    assert loss_at(minimum) < loss_at(1.0) - 1e-3


def squared_distances(points, centers):
    """Shape (n_points, n_centers)."""
    return ((points[:, None] - centers) ** 2).sum(axis=2)


def test_the_exact_posterior_is_the_gibbs_posterior(rng):
    # Q* proportional to P_S exp(-lam R_hat): its log density differs from Q's by a constant
    A_hat, B_hat, counts = problem(rng)
    lam = 3.0
    var_P = 0.7
    mu, var_Q = reference.l2_posterior(counts, A_hat, B_hat, lam=lam, var_P=var_P)
    tokens = tokens_of(counts[0])
    points = rng.normal(size=(50, 3))

    log_prior = -squared_distances(points, B_hat[tokens]).sum(axis=1) / (2 * var_P)
    risk = squared_distances(points, A_hat[tokens]).mean(axis=1) / 2
    log_gibbs = log_prior - lam * risk
    log_Q = -squared_distances(points, mu[:1])[:, 0] / (2 * var_Q[0])

    assert_allclose(np.ptp(log_gibbs - log_Q), 0, atol=1e-11)


@pytest.fixture(params=range(6), ids="row {}".format)
def kl_row(request, golden):
    """A row of the golden KLs, with the output vectors of its tokens."""
    numbers = golden("methods")
    assert len(numbers["kl"]) == 6
    row = numbers["kl"][request.param]
    tokens = numbers["example"]["sentences"][row["sentence"]]
    return row, np.array(numbers["example"]["O"])[tokens]


def kl_to_prior(row, output_vectors, var):
    prior_mean = output_vectors.mean(axis=0)
    return p.kl_gaussians(np.array(row["mu"]), np.exp(row["rho"]), prior_mean, var)


def test_the_mean_of_the_prior_equals_the_golden_numbers(kl_row):
    row, output_vectors = kl_row
    assert_allclose(output_vectors.mean(axis=0), row["prior_mean"], atol=1e-15)


def test_kls_equal_the_golden_numbers(kl_row):
    row, output_vectors = kl_row
    n = len(output_vectors)
    var_P = row["sigma_P2"]

    kl = kl_to_prior(row, output_vectors, var_P / n)
    geometric = kl_to_prior(row, output_vectors, var_P)

    assert_allclose(kl, row["KL_exact_poe"], rtol=1e-13)
    assert_allclose(geometric, row["KL_geometric_mean_prior"], rtol=1e-13)


def test_golden_kls_of_experts_sum_to_the_kl_to_their_product(kl_row):
    row, output_vectors = kl_row
    n = len(output_vectors)

    kl = kl_to_prior(row, output_vectors, row["sigma_P2"] / n)

    entropies = (n - 1) * row["entropy_Q"]
    assert_allclose(row["sum_of_expert_KLs"] + row["logZ"] + entropies, kl, rtol=1e-11)


def test_what_the_paper_prints_is_no_kl_to_the_product(kl_row):
    """Its logarithm counts n times."""
    row, output_vectors = kl_row
    n, n_dims = output_vectors.shape

    geometric = kl_to_prior(row, output_vectors, row["sigma_P2"])

    assert_allclose(n * (geometric + n_dims / 2), row["paper_penalty_times_lambda"], rtol=1e-13)


def test_lambda_of_a_sentence_by_hand():
    assert p.l2_lam([2, 5, 0], alpha=0.5, var_P=4.0).tolist() == [1.0, 2.5, np.inf]
    assert p.l2_lam([2, 1, 0], lam=3.0, lam_mode="per-token").tolist() == [6.0, 3.0, np.inf]
    assert p.l2_lam([2, 0]).tolist() == [1.0, 1.0]
    assert p.l2_lam([1], alpha=1.0).tolist() == [1.0]


@pytest.mark.parametrize(("lam", "c_A", "c_B"), [(np.inf, 0.5, 0.0), (4.0, 1 / 2.75, 1 / 11)])
def test_the_coefficients_of_a_sentence_by_hand(lam, c_A, c_B):
    coefficients = p.l2_coefficients([True, False], 2.0, 3.0, lam=lam)

    with_words, without_words = np.transpose(coefficients)
    assert_allclose(with_words, [c_A, c_B, c_B])
    assert_allclose(without_words, [0.0, 0.0, np.nan])
