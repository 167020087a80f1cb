"""PB-01: its gradients, and that it never rises above its start; large lambda with real vectors."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pacsent import load, make_encoder
from pacsent.datasets import load_books
from pacsent.sentences.solvers import pb_01 as pb_01
from pacsent.sentences.solvers.gaussians import kl_gaussians
from pacsent.sentences.solvers.risks import gibbs_risk


def zero_one(A_hat, p_noise, **settings):
    return partial(gibbs_risk, A_hat=A_hat, p_noise=p_noise, **settings)


@pytest.fixture(scope="module")
def problem(language):
    """Six documents of the simulated language, the priors of them, and their loss."""
    encoded, _ = language.draw(np.random.default_rng(4), np.arange(6))
    words = language.words
    counts = words.vocabulary.count(encoded)
    n_tokens = np.diff(encoded.offsets)
    prior_means = counts @ words.output_vectors.astype(float) / n_tokens[:, None]
    documents = pb_01.Documents(counts, prior_means, 1.0 / n_tokens, 2.0 * n_tokens)

    p_noise = words.vocabulary.noise_probabilities()
    loss = zero_one(words.input_vectors, p_noise, bias=1.6)
    return encoded, documents, loss


def test_gradients_are_finite_differences(problem, rng):
    _, documents, loss = problem
    steps_from_prior = rng.standard_normal(documents.prior_means.shape)
    mu = documents.prior_means + 0.1 * steps_from_prior
    rho = np.log(documents.prior_variances) - 0.3

    def objective(mu, rho):
        value, _, _ = pb_01.direct_objective(mu, rho, documents, loss)
        return value

    _, grad_mu, grad_rho = pb_01.direct_objective(mu, rho, documents, loss)

    step = 1e-6
    for j in (0, 7):
        step_mu = step * np.eye(mu.shape[1])[j]
        change = objective(mu + step_mu, rho) - objective(mu - step_mu, rho)
        assert_allclose(grad_mu[:, j], change / (2 * step), atol=1e-7)
    change = objective(mu, rho + step) - objective(mu, rho - step)
    assert_allclose(grad_rho, change / (2 * step), atol=1e-7)


def test_the_objective_is_risk_plus_kl_over_lam(problem):
    _, documents, loss = problem
    m = documents.prior_means
    var_P = documents.prior_variances
    mu = m + 0.1
    var_Q = 0.5 * var_P

    value, _, _ = pb_01.direct_objective(mu, np.log(var_Q), documents, loss)

    risk = loss(mu, var_Q, documents.counts).risk
    kl = kl_gaussians(mu, var_Q, m, var_P)
    assert_allclose(value, risk + kl / documents.lam)


def test_it_ends_where_the_gradient_vanishes_below_the_pb_neg_optimum(language, problem):
    encoded, documents, _ = problem
    vectorizer = make_encoder("PB-01", language.words, lam=2.0, n_negatives=5, tol=1e-4)
    mu, var_Q = vectorizer.fit(encoded).posterior(encoded)
    start_mu, start_var_Q = vectorizer.start_.posterior(encoded)

    loss = zero_one(
        language.words.input_vectors,
        vectorizer.noise_weights_,
        bias=np.log(5),
        noise_words=vectorizer.noise_words_,
    )
    before, grad_before, _ = pb_01.direct_objective(start_mu, np.log(start_var_Q), documents, loss)
    after, grad_after, _ = pb_01.direct_objective(mu, np.log(var_Q), documents, loss)
    assert np.all(after <= before + 1e-6)
    assert after.mean() < before.mean() - 1e-3
    assert np.abs(grad_after).max() < 0.05 * np.abs(grad_before).max()


def test_a_search_in_single_precision_ends_where_one_in_double_does(problem):
    """Values are known to 1e-7 then, which is more than the last steps gain."""
    _, documents, loss = problem
    A_hat = loss.keywords["A_hat"]
    start_mu = documents.prior_means + 0.05

    def minimise(dtype):
        loss_of_dtype = partial(loss, noise_table=A_hat.astype(dtype))
        mu, var_Q, n_iter, converged = pb_01.minimise(
            start_mu, documents.prior_variances, documents, loss_of_dtype, tol=1e-4
        )
        assert converged.all()
        assert n_iter.max() < 60
        return mu, np.log(var_Q)

    single_mu, single_rho = minimise(np.float32)
    double_mu, double_rho = minimise(np.float64)

    distances = np.linalg.norm(single_mu - double_mu, axis=1)
    distances_from_prior = np.linalg.norm(double_mu - documents.prior_means, axis=1)
    assert np.all(distances < 1e-3 * distances_from_prior)
    assert_allclose(single_rho, double_rho, atol=1e-3)


@pytest.fixture(scope="module")
def shelf():
    """Real vectors, with which solvers once diverged, sentences to fit on, and a few to solve."""
    texts = []
    for passage in load_books():
        first_words = passage.text.split()[:12]
        texts.append(" ".join(first_words))
    test_texts = texts[:: len(texts) // 8][:8]
    return load("english"), texts, test_texts


@pytest.mark.filterwarnings("error")
@pytest.mark.slow
def test_pb_neg_is_solved_where_lambda_is_large(shelf):
    words, texts, test_texts = shelf
    settings = {"lam": 64.0, "lam_mode": "per-token", "n_jobs": 1}
    sampled = make_encoder("PB-neg", words, tol=1e-2, **settings).fit(texts)
    exact = make_encoder("PB-neg", words, tol=1e-5, max_iter=600, **settings).fit(texts)

    means, variances = sampled.posterior(test_texts)

    assert sampled.sample_words_.size < np.count_nonzero(sampled.noise_counts_)
    assert sampled.n_unconverged_ == 0
    exact_means, exact_variances = exact.posterior(test_texts)
    distances = np.linalg.norm(means - exact_means, axis=1)
    assert np.all(distances <= 0.02 * np.linalg.norm(exact_means, axis=1))
    assert_allclose(variances, exact_variances, rtol=0.02)


@pytest.mark.filterwarnings("error")
def test_pb_01_does_not_run_away_where_lambda_is_large(shelf):
    words, texts, test_texts = shelf
    prior_means = make_encoder("PB-L2", words, lam=1e-9).fit(texts).transform(test_texts)

    def solve(lam):
        """Distances from the prior means, and variances."""
        vectorizer = make_encoder("PB-01", words, lam=lam, n_jobs=1).fit(texts)
        means, variances = vectorizer.posterior(test_texts)
        return np.linalg.norm(means - prior_means, axis=1), variances

    usual_distances, usual_variances = solve(8.0)
    large_distances, large_variances = solve(64.0)

    assert np.all(large_distances > 0)
    assert np.all(large_distances < 6 * usual_distances)
    assert np.all(large_variances < 2 * usual_variances)
