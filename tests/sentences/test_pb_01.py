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

    def slope(d_mu, d_rho, step=1e-6):
        after, before = (
            pb_01.direct_objective(mu + sign * step * d_mu, rho + sign * step * d_rho, *case)[0]
            for sign in (1, -1)
        )
        return (after - before) / (2 * step)

    for j in (0, 7):
        assert_allclose(grad_mu[:, j], slope(np.eye(mu.shape[1])[j], 0.0), atol=1e-7)
    assert_allclose(grad_rho, slope(0.0, 1.0), atol=1e-7)


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


@pytest.fixture(scope="module")
def shelf():
    """Real vectors, with which solvers once diverged, sentences to fit on, and a few to solve."""
    texts = [" ".join(p.text.split()[:12]) for p in load_books()]
    return load("english"), texts, texts[:: len(texts) // 8][:8]


@pytest.mark.filterwarnings("error")
@pytest.mark.slow
def test_pb_neg_is_solved_where_lambda_is_large(shelf):
    words, texts, tested = shelf
    settings = {"lam": 64.0, "lam_mode": "per-token", "n_jobs": 1}
    sampled = make_encoder("PB-neg", words, tol=1e-2, **settings).fit(texts)
    assert sampled.sample_words_.size < np.count_nonzero(sampled.noise_counts_)
    means, variances = sampled.posterior(tested)
    assert sampled.n_unconverged_ == 0
    exact = make_encoder("PB-neg", words, tol=1e-5, max_iter=600, **settings).fit(texts)
    expected, expected_variances = exact.posterior(tested)
    apart = np.linalg.norm(means - expected, axis=1)
    assert np.all(apart <= 0.02 * np.linalg.norm(expected, axis=1))
    assert_allclose(variances, expected_variances, rtol=0.02)


@pytest.mark.filterwarnings("error")
def test_pb_01_does_not_run_away_where_lambda_is_large(shelf):
    words, texts, tested = shelf
    usual, large = (
        make_encoder("PB-01", words, lam=lam, n_jobs=1).fit(texts).posterior(tested)
        for lam in (8.0, 64.0)
    )
    prior = make_encoder("PB-L2", words, lam=1e-9).fit(texts).transform(tested)
    moved = [np.linalg.norm(means - prior, axis=1) for means, _ in (usual, large)]
    assert np.all(moved[1] < 6 * moved[0]) and np.all(moved[1] > 0)
    assert np.all(large[1] < 2 * usual[1])
