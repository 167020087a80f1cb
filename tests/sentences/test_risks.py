"""Risks of the Gibbs classifier: golden numbers, Monte Carlo, corner cases."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import ndtr

from pacsent.sentences.solvers import risks
from pacsent.text.encoded import Encoded


def made_up(rng, n=5, n_words=40, n_dims=6):
    """Means, variances and counts of n sentences, input vectors, and the noise distribution."""
    A_hat = rng.standard_normal((n_words, n_dims)).astype(np.float32)
    mu = rng.standard_normal((n, n_dims)).astype(np.float32)
    counts = sparse.csr_matrix(rng.poisson(0.4, (n, n_words)) + np.eye(n, n_words))
    p_noise = rng.dirichlet(np.ones(n_words))
    var = rng.uniform(0.05, 0.5, n)
    return mu, var, counts, A_hat, p_noise


def test_golden_risks_and_gradients(golden):
    data = golden("methods")["example"]
    case = golden("methods")["gibbs01"]
    rows = [np.bincount(sentence, minlength=7) for sentence in data["sentences"]]
    counts = sparse.csr_matrix(np.array(rows, dtype=float))
    A_hat = np.array(data["I"])
    p_noise = np.array(data["counts"], dtype=float) ** 0.75
    p_noise /= p_noise.sum()
    n = case["k"] + 1  # a word is true with probability 1/n

    for row in case["rows"]:
        s = row["sentence"]
        weights = (1 / n, 1 - 1 / n) if row["weighting"] == "paper" else (0.5, 0.5)
        mu = case["mu"][s]
        var_Q = np.exp(case["rho"][s])

        risk = risks.gibbs_risk(
            mu, var_Q, counts[s], A_hat, p_noise, bias=row["bias"], weights=weights, gradients=True
        )

        assert_allclose(risk.positive[0], row["R_plus"], atol=1e-12)
        assert_allclose(risk.noise[0], row["R_minus"], atol=1e-12)
        assert_allclose(risk.risk[0], row["risk"], atol=1e-12)
        assert_allclose(risk.grad_mu[0], row["grad_mu"], atol=1e-12)
        assert_allclose(risk.grad_rho[0], row["grad_rho"], atol=1e-12)


def test_the_risk_is_what_drawing_vectors_gives(rng):
    mu, var, counts, A_hat, p_noise = made_up(rng, n=1)

    risk = risks.gibbs_risk(mu, var, counts, A_hat, p_noise, bias=0.4)

    noise = rng.standard_normal((200_000, mu.shape[1]))
    vectors = mu + np.sqrt(var)[:, None] * noise
    is_rejected = vectors @ A_hat.T + 0.4 <= 0  # (200_000, n_words)
    word_fractions = counts.toarray()[0] / counts.sum()
    assert_allclose(risk.positive[0], (is_rejected @ word_fractions).mean(), atol=4e-3)
    assert_allclose(risk.noise[0], (~is_rejected @ p_noise).mean(), atol=4e-3)


def test_tokens_one_by_one_average_to_the_risk(rng):
    mu, var, counts, A_hat, p_noise = made_up(rng)
    dense_counts = counts.toarray().astype(int)
    lengths = dense_counts.sum(axis=1)
    ids = [np.repeat(np.arange(40), row) for row in dense_counts]
    encoded = Encoded.from_lengths(np.concatenate(ids), lengths)

    errors = risks.token_errors(mu, var, encoded, A_hat, bias=0.2)

    risk = risks.gibbs_risk(mu, var, counts, A_hat, p_noise, bias=0.2)
    error_sums = np.add.reduceat(errors, encoded.offsets[:-1])
    assert_allclose(error_sums / lengths, risk.positive, rtol=1e-12)


@pytest.mark.parametrize("bias", [-1.3, 0.0, float(np.log(15))])
def test_fast_noise_risk_is_within_its_margin(rng, bias):
    mu, var, counts, A_hat, p_noise = made_up(rng, n=50, n_words=700, n_dims=40)
    A_hat[3] = 0.0
    var[:5] = 1e-5  # margins far out in the tail and close to the step

    fast, margin = risks.noise_risk(mu, var, A_hat, p_noise, bias=bias, n_jobs=2)

    exact = risks.gibbs_risk(mu, var, counts, A_hat, p_noise, bias=bias).noise
    assert np.all(np.abs(fast - exact) <= margin)
    assert margin[5:].max() < 1e-3


def test_noise_risk_accepts_half_precision(rng):
    mu, var, _, A_hat, p_noise = made_up(rng, n=50, n_words=700, n_dims=40)
    half = A_hat.astype(np.float16)
    rounded = half.astype(np.float32)

    risk, _ = risks.noise_risk(mu, var, half, p_noise)

    assert_allclose(risk, risks.noise_risk(mu, var, rounded, p_noise)[0])


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


def test_means_that_are_not_float32_are_rejected(rng):
    mu, var, _, A_hat, p_noise = made_up(rng)
    mu = mu.astype(float)
    mu[1, 0] = 0.1

    with pytest.raises(ValueError, match=r"mu must have float32 numbers. Got 0.1 in row 1"):
        risks.noise_risk(mu, var, A_hat, p_noise)


def test_variances_of_zero_are_rejected(rng):
    mu, var, _, A_hat, p_noise = made_up(rng)
    var[1] = 0.0

    with pytest.raises(ValueError, match=r"var_Q must be finite and > 0. Got 0 in row 1"):
        risks.noise_risk(mu, var, A_hat, p_noise)


def test_noise_risk_and_its_gradients_keep_their_digits_far_out(rng):
    """The interpolated normal distribution against scipy's, from the middle to beyond its table."""
    A_hat = rng.standard_normal((400, 5))
    A_hat *= np.exp(rng.uniform(-3, 3, (400, 1)))
    p_noise = rng.dirichlet(np.ones(400))
    mu = rng.standard_normal((6, 5))
    var = np.array([1e-4, 1e-2, 0.1, 1.0, 9.0, 400.0])
    no_words = sparse.csr_matrix((6, 400))

    risk = risks.gibbs_risk(
        mu, var, no_words, A_hat, p_noise, bias=0.3, weights=(0.0, 1.0), gradients=True
    )

    spread = np.sqrt(var)[:, None] * np.linalg.norm(A_hat, axis=1)  # (6, 400)
    z = (mu @ A_hat.T + 0.3) / spread
    density = p_noise * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    assert_allclose(risk.noise, ndtr(z) @ p_noise, rtol=0, atol=1e-13)
    assert_allclose(risk.grad_mu, (density / spread) @ A_hat, rtol=0, atol=1e-9)
    assert_allclose(risk.grad_rho, -0.5 * (density * z).sum(axis=1), rtol=0, atol=1e-10)
