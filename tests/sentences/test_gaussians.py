"""Closed forms and KLs, each by two routes."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from pacsent.sentences.solvers import gaussians as p
from reference import gaussian_reference as reference


class Problem(NamedTuple):
    """Word counts of sentences, and both matrices."""

    counts: np.ndarray
    A_hat: np.ndarray
    B_hat: np.ndarray

    def tokens(self, sentence):
        """The ids of the words of a sentence, with repetitions."""
        counts = self.counts[sentence]
        return np.repeat(np.arange(counts.size), counts)


@pytest.fixture
def problem(rng):
    """Four sentences, the last of them empty, of six words, the last of them the zero vector."""
    A_hat, B_hat = rng.normal(size=(2, 6, 3))
    A_hat[-1] = 0
    B_hat[-1] = 0
    counts = rng.integers(0, 4, size=(4, 6))
    counts[:, 0] += 1
    counts[-1] = 0
    return Problem(counts, A_hat, B_hat)


def test_idf_weights_equal_the_golden_numbers(golden):
    example = golden("methods")["example"]
    n_with_word = np.zeros(example["V"], int)
    for sentence in example["sentences"]:
        n_with_word[np.unique(sentence)] += 1

    assert_allclose(p.idf(n_with_word, 3), example["idf"], rtol=1e-15)


def test_idf_counts_an_unseen_word_as_seen_once():
    weights = p.idf([0, 1], 3)

    assert_allclose(weights, np.log(3) + 1)


def test_idf_of_no_sentences_is_one():
    assert p.idf([0, 1], 0).tolist() == [1.0, 1.0]


class Loss(NamedTuple):
    """The loss of a sentence as it is defined, token by token: data term plus KL over lam."""

    inputs: np.ndarray  # (n_tokens, n_dims)
    outputs: np.ndarray
    beta: np.ndarray  # (n_tokens,): weights of the data term
    var_P: np.ndarray  # (n_tokens,)
    lam: float
    kl: str = "exact"

    def __call__(self, mu, var_Q):
        n_tokens, n_dims = self.inputs.shape
        to_inputs = ((self.inputs - mu) ** 2).sum(axis=1) + n_dims * var_Q
        to_priors = ((self.outputs - mu) ** 2).sum(axis=1) + n_dims * var_Q

        # the exact KL counts log Q once; the paper counts it once per token
        times = 1 if self.kl == "exact" else n_tokens
        data = self.beta @ to_inputs / 2
        kl = np.sum(to_priors / (2 * self.var_P)) - times * n_dims / 2 * np.log(var_Q)
        return data + kl / self.lam


def assert_minimal(mu, var_Q, loss):
    """A general minimiser of the loss ends at this mean and variance."""

    def of_vector(x):
        return loss(x[:-1], np.exp(x[-1]))

    minimum = minimize(of_vector, np.zeros(mu.size + 1), tol=1e-12)

    assert_allclose(mu, minimum.x[:-1], atol=2e-6)
    assert_allclose(var_Q, np.exp(minimum.x[-1]), rtol=2e-5)
    assert loss(mu, var_Q) <= minimum.fun + 1e-12 * abs(minimum.fun)


def l2_loss(problem, sentence, lam, var_P, kl="exact"):
    tokens = problem.tokens(sentence)
    ones = np.ones(tokens.size)
    return Loss(
        problem.A_hat[tokens], problem.B_hat[tokens], ones / tokens.size, var_P * ones, lam, kl
    )


def idf_l2_loss(problem, sentence, lam, var_P, idf):
    tokens = problem.tokens(sentence)
    weights = idf[tokens]
    return Loss(problem.A_hat[tokens], problem.B_hat[tokens], weights, var_P / weights, lam)


@pytest.mark.parametrize("lam", [0.25, 2.0])
def test_the_posterior_of_l2_is_where_a_blind_minimiser_ends(problem, lam):
    mu, var_Q = reference.l2_posterior(*problem, lam=lam, var_P=0.5)

    for s in range(3):
        loss = l2_loss(problem, s, lam, 0.5)
        assert_minimal(mu[s], var_Q[s], loss)


@pytest.mark.parametrize("lam", [0.25, 2.0])
def test_the_posterior_of_idf_l2_is_where_a_blind_minimiser_ends(rng, problem, lam):
    idf = rng.uniform(1, 3, size=6)

    mu, var_Q = reference.idf_l2_posterior(*problem, idf, lam=lam, var_P=0.5)

    for s in range(3):
        loss = idf_l2_loss(problem, s, lam, 0.5, idf)
        assert_minimal(mu[s], var_Q[s], loss)


@pytest.mark.parametrize("kl", ["exact", "paper"])
def test_the_printed_variance_minimises_neither_loss(problem, kl):
    """The paper prints var_P = 1 here; in its own loss the logarithm counts n times."""
    loss = l2_loss(problem, 0, 2.0, 1.0, kl)

    mu, var_Q = reference.l2_posterior(*problem, lam=2.0)

    n_times = 1 if kl == "exact" else problem.counts[0].sum()
    minimum = loss(mu[0], n_times * var_Q[0])
    assert minimum < loss(mu[0], 0.99 * n_times * var_Q[0])
    assert minimum < loss(mu[0], 1.01 * n_times * var_Q[0])
    assert minimum < loss(mu[0], 1.0) - 1e-3


def squared_distances(points, centers):
    """Shape (n_points, n_centers)."""
    return ((points[:, None] - centers) ** 2).sum(axis=2)


def test_the_exact_posterior_is_the_gibbs_posterior(rng, problem):
    # Q* proportional to P_S exp(-lam R_hat): its log density differs from Q's by a constant
    lam = 3.0
    var_P = 0.7
    tokens = problem.tokens(0)
    points = rng.normal(size=(50, 3))

    mu, var_Q = reference.l2_posterior(*problem, lam=lam, var_P=var_P)

    to_outputs = squared_distances(points, problem.B_hat[tokens])
    to_inputs = squared_distances(points, problem.A_hat[tokens])
    log_prior = -to_outputs.sum(axis=1) / (2 * var_P)
    risk = to_inputs.mean(axis=1) / 2
    log_gibbs = log_prior - lam * risk
    log_Q = -squared_distances(points, mu[:1])[:, 0] / (2 * var_Q[0])
    assert_allclose(np.ptp(log_gibbs - log_Q), 0, atol=1e-11)


@pytest.fixture(params=range(6), ids="row {}".format)
def kl_row(request, golden):
    """A row of the golden KLs, with the output vectors of its tokens."""
    numbers = golden("methods")
    assert len(numbers["kl"]) == 6
    row = numbers["kl"][request.param]
    output_vectors = np.array(numbers["example"]["O"])
    tokens = numbers["example"]["sentences"][row["sentence"]]
    return row, output_vectors[tokens]


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


@pytest.mark.parametrize(
    ("n_tokens", "settings", "lams"),
    [
        ([2, 5, 0], {"alpha": 0.5, "var_P": 4.0}, [1.0, 2.5, np.inf]),
        ([2, 1, 0], {"lam": 3.0, "lam_mode": "per-token"}, [6.0, 3.0, np.inf]),
        ([2, 0], {}, [1.0, 1.0]),
        ([1], {"alpha": 1.0}, [1.0]),
    ],
)
def test_lambda_of_a_sentence_by_hand(n_tokens, settings, lams):
    assert p.l2_lam(n_tokens, **settings).tolist() == lams


@pytest.mark.parametrize(("lam", "c_A", "c_B"), [(np.inf, 0.5, 0.0), (4.0, 1 / 2.75, 1 / 11)])
def test_the_coefficients_of_a_sentence_by_hand(lam, c_A, c_B):
    coefficients = p.l2_coefficients([True, False], 2.0, 3.0, lam=lam)

    with_words, without_words = np.transpose(coefficients)
    assert_allclose(with_words, [c_A, c_B, c_B])
    assert_allclose(without_words, [0.0, 0.0, np.nan])
