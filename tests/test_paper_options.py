"""What the paper mentions in passing: each an option, each checked by hand or by another route."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pacsent import make_encoder


@pytest.fixture(scope="module")
def shelf():
    """Real vectors, with which solvers once diverged, sentences to fit on, and a few to solve."""
    import pacsent
    from pacsent.datasets import load_books

    texts = [" ".join(p.text.split()[:12]) for p in load_books()]
    return pacsent.load("english"), texts, texts[:: len(texts) // 8][:8]


@pytest.mark.filterwarnings("error")
@pytest.mark.slow
def test_pb_neg_is_solved_where_lambda_is_large(shelf):
    words, texts, some = shelf
    settings = {"lam": 64.0, "lam_mode": "per-token", "n_jobs": 1}
    found = make_encoder("PB-neg", words, tol=1e-2, **settings).fit(texts)
    assert found.sample_words_.size < np.count_nonzero(found.noise_counts_)
    means, variances = found.posterior(some)
    assert found.n_unconverged_ == 0
    exact = make_encoder("PB-neg", words, tol=1e-5, max_iter=600, **settings).fit(texts)
    expected, expected_variances = exact.posterior(some)
    apart = np.linalg.norm(means - expected, axis=1)
    assert np.all(apart <= 0.02 * np.linalg.norm(expected, axis=1))
    assert_allclose(variances, expected_variances, rtol=0.02)


@pytest.mark.filterwarnings("error")
def test_pb_01_does_not_run_away_where_lambda_is_large(shelf):
    words, texts, some = shelf
    usual, large = (
        make_encoder("PB-01", words, lam=lam, n_jobs=1).fit(texts).posterior(some)
        for lam in (8.0, 64.0)
    )
    prior = make_encoder("PB-L2", words, lam=1e-9).fit(texts).transform(some)
    moved = [np.linalg.norm(means - prior, axis=1) for means, _ in (usual, large)]
    assert np.all(moved[1] < 6 * moved[0]) and np.all(moved[1] > 0)
    assert np.all(large[1] < 2 * usual[1])
