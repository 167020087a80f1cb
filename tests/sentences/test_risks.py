"""Risks of the Gibbs classifier: golden numbers, Monte Carlo, corner cases."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import ndtr
from scipy.stats import norm

from pacsent.sentences.solvers import risks
from pacsent.text.encoded import Encoded


class Problem(NamedTuple):
    """Posteriors and word counts of sentences, input vectors, and the noise distribution."""

    mu: np.ndarray
    var_Q: np.ndarray
    counts: sparse.csr_matrix
    A_hat: np.ndarray
    p_noise: np.ndarray

    def gibbs_risk(self, **settings):
        return risks.gibbs_risk(*self, **settings)

    def noise_risk(self, **settings):
        return risks.noise_risk(self.mu, self.var_Q, self.A_hat, self.p_noise, **settings)


def draw_problem(rng, n=5, n_words=40, n_dims=6):
    A_hat = rng.standard_normal((n_words, n_dims)).astype(np.float32)
    mu = rng.standard_normal((n, n_dims)).astype(np.float32)
    counts = rng.poisson(0.4, (n, n_words)) + np.eye(n, n_words)  # no sentence is empty
    p_noise = rng.dirichlet(np.ones(n_words))
    var_Q = rng.uniform(0.05, 0.5, n)
    return Problem(mu, var_Q, sparse.csr_matrix(counts), A_hat, p_noise)


@pytest.fixture
def problem(rng):
    """Five sentences and forty words of six dimensions."""
    return draw_problem(rng)


@pytest.fixture
def large_problem(rng):
    """Fifty sentences and seven hundred words of forty dimensions."""
    return draw_problem(rng, n=50, n_words=700, n_dims=40)


@pytest.fixture(scope="module")
def example(golden):
    """The sentences of the worked example at the posteriors of the golden risks."""
    facts = golden("methods")["example"]
    posteriors = golden("methods")["gibbs01"]
    counts = [np.bincount(sentence, minlength=7) for sentence in facts["sentences"]]
    weights = np.array(facts["counts"]) ** 0.75
    return Problem(
        mu=np.array(posteriors["mu"]),
        var_Q=np.exp(posteriors["rho"]),
        counts=sparse.csr_matrix(counts, dtype=float),
        A_hat=np.array(facts["I"]),
        p_noise=weights / weights.sum(),
    )


def weights_of(row, n_negatives):
    """The weights of both kinds of errors in a golden row."""
    if row["weighting"] != "paper":
        return 0.5, 0.5

    share = 1 / (n_negatives + 1)  # of true words
    return share, 1 - share


def test_golden_risks_and_gradients(golden, example):
    posteriors = golden("methods")["gibbs01"]

    for row in posteriors["rows"]:
        weights = weights_of(row, posteriors["k"])

        risk = example.gibbs_risk(bias=row["bias"], weights=weights, gradients=True)

        s = row["sentence"]
        assert_allclose(risk.positive[s], row["R_plus"], atol=1e-12)
        assert_allclose(risk.noise[s], row["R_minus"], atol=1e-12)
        assert_allclose(risk.risk[s], row["risk"], atol=1e-12)
        assert_allclose(risk.grad_mu[s], row["grad_mu"], atol=1e-12)
        assert_allclose(risk.grad_rho[s], row["grad_rho"], atol=1e-12)


def test_the_risk_is_what_drawing_vectors_gives(rng):
    problem = draw_problem(rng, n=1)

    risk = problem.gibbs_risk(bias=0.4)

    noise = rng.standard_normal((200_000, 6))
    vectors = problem.mu + np.sqrt(problem.var_Q) * noise
    is_rejected = vectors @ problem.A_hat.T + 0.4 <= 0  # (200_000, n_words)
    [counts] = problem.counts.toarray()
    rejected_words = is_rejected @ (counts / counts.sum())
    accepted_noise = ~is_rejected @ problem.p_noise
    assert_allclose(risk.positive[0], rejected_words.mean(), atol=4e-3)
    assert_allclose(risk.noise[0], accepted_noise.mean(), atol=4e-3)


def test_tokens_one_by_one_average_to_the_risk(problem):
    counts = problem.counts.toarray().astype(int)
    lengths = counts.sum(axis=1)
    ids = [np.repeat(np.arange(40), row) for row in counts]
    encoded = Encoded.from_lengths(np.concatenate(ids), lengths)

    errors = risks.token_errors(problem.mu, problem.var_Q, encoded, problem.A_hat, bias=0.2)

    risk = problem.gibbs_risk(bias=0.2)
    error_sums = np.add.reduceat(errors, encoded.offsets[:-1])
    assert_allclose(error_sums / lengths, risk.positive, rtol=1e-12)


@pytest.mark.parametrize("bias", [-1.3, 0.0, float(np.log(15))])
def test_fast_noise_risk_is_within_its_margin(large_problem, bias):
    large_problem.A_hat[3] = 0.0
    large_problem.var_Q[:5] = 1e-5  # margins far out in the tail and close to the step

    fast, margin = large_problem.noise_risk(bias=bias, n_jobs=2)

    exact = large_problem.gibbs_risk(bias=bias)
    assert np.all(np.abs(fast - exact.noise) <= margin)
    assert margin[5:].max() < 1e-3


def test_noise_risk_accepts_half_precision(large_problem):
    half = large_problem.A_hat.astype(np.float16)
    rounded = half.astype(np.float32)

    risk, _ = large_problem._replace(A_hat=half).noise_risk()

    expected, _ = large_problem._replace(A_hat=rounded).noise_risk()
    assert_allclose(risk, expected)


@pytest.mark.parametrize(
    ("margin", "sign", "error"), [(0.0, 1, 1.0), (0.0, -1, 1.0), (2.0, 1, 0.0)]
)
def test_without_variance_a_margin_of_zero_is_an_error(margin, sign, error):
    assert risks.gibbs_error(margin, 0.0, sign) == error


def test_a_word_whose_vector_is_zero_is_an_error_on_both_sides():
    counts = sparse.csr_matrix([[1.0]])

    risk = risks.gibbs_risk([[1.0, 2.0]], [0.1], counts, np.zeros((1, 2)), [1.0])

    assert risk.positive[0] == 1.0
    assert risk.noise[0] == 1.0


def test_means_that_are_not_float32_are_rejected(problem):
    mu = problem.mu.astype(float)
    mu[1, 0] = 0.1

    with pytest.raises(ValueError, match=r"mu must have float32 numbers. Got 0.1 in row 1"):
        problem._replace(mu=mu).noise_risk()


def test_variances_of_zero_are_rejected(problem):
    problem.var_Q[1] = 0.0

    with pytest.raises(ValueError, match=r"var_Q must be finite and > 0. Got 0 in row 1"):
        problem.noise_risk()


def test_noise_risk_and_its_gradients_keep_their_digits_far_out(rng):
    """The interpolated normal distribution against scipy's, from the middle to beyond its table."""
    sizes = np.exp(rng.uniform(-3, 3, (400, 1)))
    A_hat = sizes * rng.standard_normal((400, 5))
    p_noise = rng.dirichlet(np.ones(400))
    mu = rng.standard_normal((6, 5))
    var_Q = np.array([1e-4, 1e-2, 0.1, 1.0, 9.0, 400.0])
    no_words = sparse.csr_matrix((6, 400))
    problem = Problem(mu, var_Q, no_words, A_hat, p_noise)

    risk = problem.gibbs_risk(bias=0.3, weights=(0.0, 1.0), gradients=True)

    lengths = np.linalg.norm(A_hat, axis=1)
    spread = np.outer(np.sqrt(var_Q), lengths)  # (6, 400)
    z = (mu @ A_hat.T + 0.3) / spread
    density = p_noise * norm.pdf(z)
    assert_allclose(risk.noise, ndtr(z) @ p_noise, rtol=0, atol=1e-13)
    assert_allclose(risk.grad_mu, (density / spread) @ A_hat, rtol=0, atol=1e-9)
    assert_allclose(risk.grad_rho, -0.5 * (density * z).sum(axis=1), rtol=0, atol=1e-10)
