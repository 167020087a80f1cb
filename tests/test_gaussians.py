"""Closed forms and KLs, each by two routes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from pacsent.maths import gaussians as p
from reference import gaussian_reference as reference

INF = float("inf")


@pytest.fixture
def example(golden):
    """The golden example: tables, counts per sentence, IDF, and the file itself."""
    numbers = golden("methods")
    given = numbers["example"]
    counts = np.array([np.bincount(s, minlength=given["V"]) for s in given["sentences"]])
    return np.array(given["I"]), np.array(given["O"]), counts, np.array(given["idf"]), numbers


def problem(rng, n_words=6, n_dims=3, n_sentences=4):
    """Random tables and counts; the last sentence is empty, the last word is the zero vector."""
    A_hat, B_hat = rng.normal(size=(2, n_words, n_dims))
    A_hat[-1] = B_hat[-1] = 0
    counts = rng.integers(0, 4, size=(n_sentences, n_words))
    counts[:, 0] += 1
    counts[-1] = 0
    return A_hat, B_hat, counts


def closed_forms(example, is_idf):
    """(row, A_hat, B_hat) of the golden file, for methods with or without IDF."""
    I_hat, O_hat, _, _, numbers = example
    for row in numbers["closed_form"]:
        name, _, reading = row["method"].partition("/")
        if ("IDF" in name) == is_idf and reading != "unit-prior":
            yield row, *((O_hat, I_hat) if name.startswith("i-") else (I_hat, O_hat))


def check_golden(row, mu, var_Q):
    assert_allclose(mu[row["sentence"]], row["mu"], rtol=1e-14, atol=1e-14)
    if "var_exact_kl" in row:
        assert_allclose(var_Q[row["sentence"]], row["var_exact_kl"], rtol=1e-14)


def test_l2_means_and_variances_equal_the_golden_numbers(example):
    rows = list(closed_forms(example, is_idf=False))
    for row, A_hat, B_hat in rows:
        by_lam = {"lam": row["lam"], "var_P": row["sigma_P2"]} if "lam" in row else {}
        settings = by_lam or {"alpha": row["alpha"]}
        check_golden(row, *reference.l2_posterior(example[2], A_hat, B_hat, **settings))
    assert len(rows) >= 70


def test_idf_means_and_variances_equal_the_golden_numbers(example):
    rows = list(closed_forms(example, is_idf=True))
    for row, A_hat, B_hat in rows:
        lam = row["lam"] if "lam" in row else 1 / row["inv_lambda"] if row["inv_lambda"] else INF
        tables = example[2], A_hat, B_hat, example[3]
        check_golden(row, *reference.idf_l2_posterior(*tables, lam=lam))
    assert len(rows) == 35


def test_idf_weights_equal_the_golden_numbers(example):
    _, _, counts, idf, _ = example
    assert_allclose(p.idf((counts > 0).sum(axis=0), 3), idf, rtol=1e-15)
    assert_allclose(p.idf([0, 1], 3), [np.log(3) + 1, np.log(3) + 1])


def loss(parameters, tokens, A_hat, B_hat, beta, var_words, lam, kl):
    """The loss as it is defined, token by token: data term plus KL over lam."""
    mu, rho = parameters[:-1], parameters[-1]
    n_dims, var_Q = mu.size, np.exp(rho)
    data = sum(
        b / 2 * (((A_hat[w] - mu) ** 2).sum() + n_dims * var_Q) for w, b in zip(tokens, beta)
    )
    trace = sum(
        (((mu - B_hat[w]) ** 2).sum() + n_dims * var_Q) / (2 * var_words[w]) for w in tokens
    )
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
        found = minimize(loss, np.zeros(4), args=arguments, tol=1e-12)
        assert_allclose(mu[s], found.x[:-1], atol=2e-6)
        assert_allclose(var_Q[s], np.exp(found.x[-1]), rtol=2e-5)
        here = loss(np.append(mu[s], np.log(var_Q[s])), *arguments)
        assert here <= found.fun + 1e-12 * abs(found.fun)


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


def test_lam_infinite_is_the_plain_mean_without_spread(rng):
    A_hat, B_hat, counts = problem(rng)
    mean = counts[:3] @ A_hat / counts[:3].sum(axis=1, keepdims=True)
    for settings in ({"lam": INF}, {"alpha": 0.0}, {"lam": INF, "lam_mode": "per-token"}):
        mu, var_Q = reference.l2_posterior(counts, A_hat, None, **settings)
        assert_allclose(mu[:3], mean, atol=1e-15)
        assert_allclose(var_Q[:3], 0)
    near, _ = reference.l2_posterior(counts, A_hat, B_hat, lam=1e12)
    assert_allclose(near[:3], mean, atol=1e-10)


def test_equal_readings_of_a_problem_have_the_same_mean(rng):
    A_hat, B_hat, counts = problem(rng)
    l2, idf = reference.l2_posterior, reference.idf_l2_posterior
    per_token = l2(counts, A_hat, B_hat, lam=4.0, var_P=0.5, lam_mode="per-token")
    by_alpha = l2(counts, A_hat, B_hat, alpha=0.5, var_P=0.5)
    assert_allclose(per_token[0], by_alpha[0], atol=1e-15)
    assert_allclose(per_token[1], by_alpha[1], rtol=1e-14)
    equal_idf = idf(counts, A_hat, B_hat, np.full(6, 2.5), lam=4.0)
    plain = l2(counts, A_hat, B_hat, alpha=0.25)
    assert_allclose(equal_idf[0], plain[0], atol=1e-15)
    # At alpha 1 both matrices weigh the same, so that they may swap roles.
    both_ways = (l2(counts, *pair, alpha=1.0)[0] for pair in ((A_hat, B_hat), (B_hat, A_hat)))
    assert_allclose(*both_ways, atol=1e-15)


def test_a_sentence_without_tokens_has_mean_zero_and_no_variance(rng):
    A_hat, B_hat, counts = problem(rng)
    for mu, var_Q in (
        reference.l2_posterior(counts, A_hat, B_hat),
        reference.l2_posterior(counts, A_hat, B_hat, alpha=0.0),
        reference.idf_l2_posterior(counts, A_hat, B_hat, np.ones(6)),
    ):
        assert_allclose(mu[-1], 0)
        assert np.isnan(var_Q[-1])
        assert np.isfinite(var_Q[:-1]).all()


def test_kls_equal_the_golden_numbers(example):
    _, O_hat, counts, _, numbers = example
    for row in numbers["kl"]:
        one, var_P = counts[[row["sentence"]]], row["sigma_P2"]
        mu, var_Q, n_tokens = np.array([row["mu"]]), np.exp([row["rho"]]), one.sum()
        m, v = reference.product_of_experts(one, O_hat, var_P)
        assert_allclose(m[0], row["prior_mean"], atol=1e-15)
        for computed, key in (
            (p.kl_gaussians(mu, var_Q, m, v), "KL_exact_poe"),
            (reference.kl_experts(mu, var_Q, one, O_hat, var_P), "sum_of_expert_KLs"),
            (reference.log_normaliser(one, O_hat, var_P), "logZ"),
            (reference.gaussian_entropy(var_Q, 4), "entropy_Q"),
            (reference.paper_penalty(mu, var_Q, m, n_tokens, var_P), "paper_penalty_times_lambda"),
            (p.kl_gaussians(mu, var_Q, m, var_P), "KL_geometric_mean_prior"),
        ):
            assert_allclose(computed, row[key], rtol=1e-13, err_msg=key)


def test_the_kl_is_experts_plus_normaliser_plus_entropies_for_word_dependent_variances(rng):
    _, B_hat, counts = problem(rng)
    counts = counts[:3]
    var_P, mu, var_Q = rng.uniform(0.2, 3, size=6), rng.normal(size=(3, 3)), rng.uniform(0.1, 2, 3)
    m, v = reference.product_of_experts(counts, B_hat, var_P)
    experts = reference.kl_experts(mu, var_Q, counts, B_hat, var_P)
    entropies = (counts.sum(axis=1) - 1) * reference.gaussian_entropy(var_Q, 3)
    total = experts + reference.log_normaliser(counts, B_hat, var_P) + entropies
    assert_allclose(p.kl_gaussians(mu, var_Q, m, v), total, rtol=1e-11)


def test_the_kl_agrees_with_simulation(rng):
    mu_Q, mu_P, var_Q, var_P = np.array([0.3, -0.2]), np.array([0.0, 0.5]), 0.4, 0.9
    h = mu_Q + np.sqrt(var_Q) * rng.standard_normal((200_000, 2))
    log_Q = -((h - mu_Q) ** 2).sum(axis=1) / (2 * var_Q) - np.log(2 * np.pi * var_Q)
    log_P = -((h - mu_P) ** 2).sum(axis=1) / (2 * var_P) - np.log(2 * np.pi * var_P)
    ratio = log_Q - log_P
    error = 4 * ratio.std() / np.sqrt(ratio.size)
    assert_allclose(p.kl_gaussians(mu_Q, var_Q, mu_P, var_P), ratio.mean(), atol=error)


def test_the_papers_penalty_is_a_kl_to_the_geometric_mean_prior(rng):
    mu, m, var_Q = rng.normal(size=(2, 4)), rng.normal(size=(2, 4)), np.array([0.3, 1.7])
    n, var_P = np.array([5, 11]), 0.6
    squared = ((mu - m) ** 2).sum(axis=1)
    printed = n / (2 * var_P) * squared + n * 4 / 2 * (
        np.log(var_P) - np.log(var_Q) + var_Q / var_P
    )
    assert_allclose(reference.paper_penalty(mu, var_Q, m, n, var_P), printed, rtol=1e-13)
