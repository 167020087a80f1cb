"""PB-01: its gradients, that it never rises above its start, and its life as an estimator."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent import make_encoder
from pacsent.maths import pb_01_objective as pb_01
from pacsent.maths.gaussians import kl_gaussians
from pacsent.maths.risks import gibbs_risk
from pacsent.paper import simulation


@pytest.fixture(scope="module")
def language():
    return simulation.Language(simulation.SETTINGS["topics"])


def zero_one(A_hat, p_noise, **settings):
    return partial(gibbs_risk, A_hat=A_hat, p_noise=p_noise, **settings)


@pytest.fixture(scope="module")
def problem(language):
    encoded, _ = language.draw(np.random.default_rng(4), np.arange(6))
    words = language.words
    counts = words.vocabulary.count(encoded)
    n = np.diff(encoded.offsets)
    m = counts @ words.output_vectors.astype(float) / n[:, None]
    p_noise = words.vocabulary.noise_probabilities()
    documents = pb_01.Documents(counts, m, 1.0 / n, 2.0 * n)
    return encoded, documents, zero_one(words.input_vectors, p_noise, bias=1.6)


def test_gradients_are_finite_differences(problem, rng):
    _, *case = problem
    documents, _ = case
    mu = documents.prior_means + 0.1 * rng.standard_normal(documents.prior_means.shape)
    rho = np.log(documents.prior_variances) - 0.3
    _, grad_mu, grad_rho = pb_01.direct_objective(mu, rho, *case)
    step = 1e-6
    for j in (0, 7):
        up, down = mu.copy(), mu.copy()
        up[:, j] += step
        down[:, j] -= step
        slope = (
            pb_01.direct_objective(up, rho, *case)[0] - pb_01.direct_objective(down, rho, *case)[0]
        ) / (2 * step)
        assert_allclose(grad_mu[:, j], slope, atol=1e-7)
    slope = (
        pb_01.direct_objective(mu, rho + step, *case)[0]
        - pb_01.direct_objective(mu, rho - step, *case)[0]
    ) / (2 * step)
    assert_allclose(grad_rho, slope, atol=1e-7)


def test_the_objective_is_risk_plus_kl_over_lam(problem):
    _, documents, loss = problem
    m, var_P = documents.prior_means, documents.prior_variances
    mu, var_Q = m + 0.1, 0.5 * var_P
    value, *_ = pb_01.direct_objective(mu, np.log(var_Q), documents, loss)
    risk = loss(mu, var_Q, documents.counts).risk
    assert_allclose(value, risk + kl_gaussians(mu, var_Q, m, var_P) / documents.lam)


def test_it_ends_where_the_gradient_vanishes_below_the_pb_neg_optimum(language, problem):
    encoded, documents, _ = problem
    vectorizer = make_encoder("PB-01", language.words, lam=2.0, n_negatives=5, tol=1e-4)
    mu, var_Q = vectorizer.fit(encoded).posterior(encoded)
    start = vectorizer.start_.posterior(encoded)

    def value(mu, var_Q):
        A_hat, words = language.words.input_vectors, vectorizer.noise_words_
        judged = zero_one(A_hat, vectorizer.noise_weights_, bias=np.log(5), noise_words=words)
        return pb_01.direct_objective(mu, np.log(var_Q), documents, judged)

    (before, grad_before, _), (after, grad_after, _) = value(*start), value(mu, var_Q)
    assert np.all(after <= before + 1e-6)
    assert after.mean() < before.mean() - 1e-3
    assert np.abs(grad_after).max() < 0.05 * np.abs(grad_before).max()


def test_noise_in_single_precision_is_the_noise_in_double(problem, rng):
    """Far scores, a zero row, either sign of the bias."""
    _, documents, loss = problem
    A, p_noise = loss.keywords["A_hat"].astype(np.float32), loss.keywords["p_noise"]
    A[3] = 0.0
    mu = documents.prior_means * 10.0 ** rng.uniform(-1, 2, (len(documents.prior_means), 1))
    var_Q = documents.prior_variances
    for bias in (1.6, -1.6):
        single, double = (
            gibbs_risk(
                mu, var_Q, documents.counts, A, p_noise,
                bias=bias, noise_table=A.astype(kind), gradients=True,
            )
            for kind in (np.float32, np.float64)
        )  # fmt: skip
        assert_allclose(single.noise, double.noise, atol=5e-7)
        assert_array_equal(single.positive, double.positive)
        size = np.abs(double.grad_mu).max()
        assert 0 < np.abs(single.grad_mu - double.grad_mu).max() < 2e-5 * size
        assert_allclose(single.grad_rho, double.grad_rho, atol=1e-6)


def test_a_search_in_single_precision_ends_where_one_in_double_does(problem):
    """Values are known to 1e-7 then, which is more than the last steps gain."""
    _, documents, loss = problem
    start = documents.prior_means + 0.05, documents.prior_variances
    ends = []
    for kind in (np.float32, np.float64):
        case = partial(loss, noise_table=loss.keywords["A_hat"].astype(kind))
        mu, var_Q, n_iter, converged = pb_01.minimise(*start, documents, case, tol=1e-4)
        assert converged.all() and n_iter.max() < 60
        ends.append((mu, np.log(var_Q)))
    moved = np.linalg.norm(ends[1][0] - documents.prior_means, axis=1)
    assert np.all(np.linalg.norm(ends[0][0] - ends[1][0], axis=1) < 1e-3 * moved)
    assert_allclose(ends[0][1], ends[1][1], atol=1e-3)


def test_empty_sentences_have_no_posterior(language, problem):
    encoded, *_ = problem
    vectorizer = make_encoder("i-PB-01", language.words, on_empty="ignore").fit(encoded)
    mu, var_Q = vectorizer.posterior([["w1", "w2"], []])
    assert np.isfinite(var_Q[0]) and np.isnan(var_Q[1])
    assert not mu[1].any()


def test_it_is_saved_and_loaded(language, problem, tmp_path):
    import pacsent

    encoded, *_ = problem
    vectorizer = make_encoder("PB-01", language.words).fit(encoded)
    pacsent.save(vectorizer, tmp_path / "model")
    again = pacsent.load(tmp_path / "model")
    assert_allclose(again.transform(encoded), vectorizer.transform(encoded), atol=1e-6)
    assert_array_equal(again.fingerprint_.documents, vectorizer.fingerprint_.documents)
