"""Risks of the Gibbs classifier: golden numbers, Monte Carlo, corner cases."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import ndtr

from pacsent.sentences.solvers import risks
from pacsent.text.encoded import Encoded


def made_up(rng, n=5, n_words=40, n_dims=6):
    A_hat = rng.standard_normal((n_words, n_dims)).astype(np.float32)
    mu = rng.standard_normal((n, n_dims)).astype(np.float32)
    counts = sparse.csr_matrix(rng.poisson(0.4, (n, n_words)) + np.eye(n, n_words))
    p_noise = rng.dirichlet(np.ones(n_words))
    return mu, rng.uniform(0.05, 0.5, n), counts, A_hat, p_noise


def test_golden_risks_and_gradients(golden):
    data, case = golden("methods")["example"], golden("methods")["gibbs01"]
    A_hat, p_noise = np.array(data["I"]), np.array(data["counts"], dtype=float) ** 0.75
    rows = [np.bincount(sentence, minlength=7) for sentence in data["sentences"]]
    counts, p_noise = sparse.csr_matrix(np.array(rows, dtype=float)), p_noise / p_noise.sum()
    for row in case["rows"]:
        s = row["sentence"]
        n, is_weighted = case["k"] + 1, row["weighting"] == "paper"  # a word is true with 1/n
        weights = (1 / n, 1 - 1 / n) if is_weighted else (0.5, 0.5)
        tables, options = (counts[s], A_hat, p_noise), {"bias": row["bias"], "weights": weights}
        posterior = case["mu"][s], np.exp(case["rho"][s])
        risk = risks.gibbs_risk(*posterior, *tables, **options, gradients=True)
        expected = {"positive": "R_plus", "noise": "R_minus", "risk": "risk"}
        for name, key in {**expected, "grad_mu": "grad_mu", "grad_rho": "grad_rho"}.items():
            assert_allclose(getattr(risk, name)[0], row[key], atol=1e-12)


def test_the_risk_is_what_drawing_vectors_gives(rng):
    mu, var, counts, A_hat, p_noise = made_up(rng, n=1)
    found = risks.gibbs_risk(mu, var, counts, A_hat, p_noise, bias=0.4)
    h = mu + np.sqrt(var)[:, None] * rng.standard_normal((200_000, mu.shape[1]))
    wrong = h @ A_hat.T + 0.4 <= 0
    share = np.asarray(counts.todense())[0] / counts.sum()
    assert_allclose(found.positive[0], (wrong @ share).mean(), atol=4e-3)
    assert_allclose(found.noise[0], (~wrong @ p_noise).mean(), atol=4e-3)


def test_tokens_one_by_one_average_to_the_risk(rng):
    mu, var, counts, A_hat, p_noise = made_up(rng)
    dense = np.asarray(counts.todense()).astype(int)
    ids = np.concatenate([np.repeat(np.arange(40), row) for row in dense])
    encoded = Encoded.from_lengths(ids, dense.sum(axis=1))
    errors = risks.token_errors(mu, var, encoded, A_hat, bias=0.2)
    sums = np.add.reduceat(errors, encoded.offsets[:-1])
    found = risks.gibbs_risk(mu, var, counts, A_hat, p_noise, bias=0.2)
    assert_allclose(sums / dense.sum(axis=1), found.positive, rtol=1e-12)


@pytest.mark.parametrize("bias", [-1.3, 0.0, float(np.log(15))])
def test_fast_noise_risk_is_within_its_margin(rng, bias):
    mu, var, counts, A_hat, p_noise = made_up(rng, n=50, n_words=700, n_dims=40)
    A_hat[3] = 0.0
    var[:5] = 1e-5  # margins far out in the tail and close to the step
    exact = risks.gibbs_risk(mu, var, counts, A_hat, p_noise, bias=bias).noise
    fast, margin = risks.noise_risk(mu, var, A_hat, p_noise, bias=bias, n_jobs=2)
    assert np.all(np.abs(fast - exact) <= margin)
    assert margin[5:].max() < 1e-3
    half = A_hat.astype(np.float16)
    rounded = risks.noise_risk(mu, var, half.astype(np.float32), p_noise, bias=bias)[0]
    assert_allclose(risks.noise_risk(mu, var, half, p_noise, bias=bias)[0], rounded)


def test_a_margin_of_zero_is_an_error():
    errors = [risks.gibbs_error(*case) for case in ((0.0, 0.0, 1), (0.0, 0.0, -1), (2.0, 0.0, 1))]
    assert errors == [1.0, 1.0, 0.0]
    table = np.zeros((1, 2))
    found = risks.gibbs_risk([[1.0, 2.0]], [0.1], sparse.csr_matrix([[1.0]]), table, [1.0])
    assert (found.positive[0], found.noise[0]) == (1.0, 1.0)


def test_mistakes_are_named(rng):
    mu, var, _, A_hat, p_noise = made_up(rng)
    with pytest.raises(ValueError, match="mu must have float32 numbers"):
        risks.noise_risk(mu.astype(float) + 1e-12, var, A_hat, p_noise)
    with pytest.raises(ValueError, match="var_Q must be finite and > 0"):
        risks.noise_risk(mu, var * 0, A_hat, p_noise)


def test_noise_risk_and_its_gradients_keep_their_digits_far_out(rng):
    """The interpolated normal distribution against scipy's, from the middle to beyond its table."""
    table = rng.standard_normal((400, 5)) * np.exp(rng.uniform(-3, 3, (400, 1)))
    p_noise = rng.dirichlet(np.ones(400))
    mu, var = rng.standard_normal((6, 5)), np.array([1e-4, 1e-2, 0.1, 1.0, 9.0, 400.0])
    none = sparse.csr_matrix((6, 400))
    options = {"bias": 0.3, "weights": (0.0, 1.0), "gradients": True}
    found = risks.gibbs_risk(mu, var, none, table, p_noise, **options)
    spread = np.sqrt(var)[:, None] * np.linalg.norm(table, axis=1)
    z = (mu @ table.T + 0.3) / spread
    density = p_noise * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    assert_allclose(found.noise, ndtr(z) @ p_noise, rtol=0, atol=1e-13)
    assert_allclose(found.grad_mu, (density / spread) @ table, rtol=0, atol=1e-9)
    assert_allclose(found.grad_rho, -0.5 * (density * z).sum(axis=1), rtol=0, atol=1e-10)
