"""Every method on unusual kinds of text, and on many threads at once."""

from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from threading import Barrier

import numpy as np
import pytest
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_info, threadpool_limits

from pacsent import Vocabulary, WordVectors, load, make_encoder, save
from pacsent.sentences.methods import METHODS
from pacsent.threads import one_blas_thread

N_WORDS, N_DIMS = 300, 12
NAMES = [name for name in METHODS if not name.startswith("i-")]  # i-: the same, roles swapped
WORDS = [f"word{i}" for i in range(N_WORDS)]
COUNTS = np.geomspace(3e7, 5, N_WORDS).astype(int)  # as far apart as in a large corpus


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(7)
    tables = rng.normal(0, 0.4, (2, N_WORDS, N_DIMS)).astype(np.float32)
    return WordVectors(Vocabulary(WORDS, COUNTS.tolist(), normalize="paper"), *tables)


def kinds():
    rng = np.random.default_rng(8)
    usual, zipf = COUNTS / COUNTS.sum(), 1 / np.arange(1, N_WORDS + 1)
    draw = lambda lengths, p=None: [rng.choice(WORDS, n, p=p).tolist() for n in lengths]  # noqa: E731
    return {
        "phrases of the same few words": draw(rng.integers(1, 4, 200), zipf / zipf.sum()),
        "phrases of rare words": draw(rng.integers(1, 4, 60)),
        "sentences": draw([20] * 40, usual),
        "one long text among short ones": draw([3000] + [12] * 10, usual),
        "one word over and over": [[WORDS[3]]] * 5 + [[WORDS[3]] * 200],
        "a single text": draw([12], usual),
    }


FAST = {"phrases of the same few words", "one long text among short ones"}


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] * (k not in FAST)) for k in kinds()]
)
def test_a_text_has_one_finite_vector_alone_among_others_and_again(words, name, kind):
    X = kinds()[kind]
    vectorizer = make_encoder(name, words).fit(X)
    means = vectorizer.transform(X)
    assert np.isfinite(means).all()
    scale = max(1.0, np.abs(means).max())
    assert_allclose(vectorizer.transform(X), means, atol=1e-4 * scale)
    alone = np.concatenate([vectorizer.transform([x]) for x in X[:4]])
    assert_allclose(alone, means[:4], atol=1e-3 * scale)
    beside = vectorizer.set_params(on_empty="ignore").transform([[], ["zzz", "qqq"], X[0]])
    assert_allclose(beside[2], means[0], atol=1e-3 * scale)
    assert not beside[:2].any()


@pytest.mark.parametrize("name", NAMES)
def test_an_estimator_may_be_used_from_many_threads_also_the_first_time(words, name, tmp_path):
    X = kinds()["sentences"]
    vectorizer = make_encoder(name, words, batch_size=8).fit(X)
    means, variances = vectorizer.posterior(X)
    save(vectorizer, tmp_path / "model")
    for estimator in (vectorizer, load(tmp_path / "model")):
        with ThreadPoolExecutor(6) as pool:
            posteriors = pool.map(lambda i, e=estimator: e.posterior(X[i % 4 :]), range(6))
            for i, (thread_means, thread_variances) in enumerate(posteriors):
                assert_allclose(thread_means, means[i % 4 :], atol=1e-3)
                assert_allclose(thread_variances, variances[i % 4 :], rtol=1e-2)


@pytest.mark.parametrize("name", NAMES)
def test_streams_taken_in_turns_give_what_each_gives_alone(words, name):
    X = kinds()["sentences"]
    vectorizer = make_encoder(name, words, batch_size=8, n_jobs=2).fit(X)
    means = vectorizer.transform(X)
    forth, back = vectorizer.stream(X), vectorizer.stream(X[:20:-1])
    pairs = list(zip_longest(forth, back))
    assert_allclose(np.concatenate([a[0] for a, _ in pairs]), means, atol=1e-3)
    backwards = np.concatenate([b[0] for _, b in pairs if b is not None])
    assert_allclose(backwards, means[:20:-1], atol=1e-3)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("name", ["PB-neg", "PB-01"])
def test_what_a_stream_needs_of_blas_ends_with_each_batch(words, name, n_jobs):
    X = kinds()["sentences"]
    one, two = (make_encoder(name, words, batch_size=8, n_jobs=n_jobs).fit(X) for _ in range(2))
    with threadpool_limits(3, user_api="blas"):
        before = blas_threads()
        first, second = one.stream(X), two.stream(X)
        next(first), next(second)
        list(first), list(second)
        assert blas_threads() == before
        unfinished = one.stream(X)
        next(unfinished)
        del unfinished
        assert blas_threads() == before


def test_overlapping_limits_of_blas_end_with_the_last():
    with threadpool_limits(3, user_api="blas"):
        before = blas_threads()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


def test_threads_limit_blas_whoever_limited_it_before():
    """threadpoolctl lets one thread alone set the limit, and ignores the others silently."""

    def shared():  # a pool of OpenMP has a limit for each thread
        pools = [p for p in threadpool_info() if p.get("threading_layer") == "pthreads"]
        return [pool["num_threads"] for pool in pools]

    def inside(barrier):
        with one_blas_thread():
            barrier.wait(10)
            return shared()

    with threadpool_limits(3, user_api="blas"):  # this thread has it now
        before = shared()
        with one_blas_thread():
            pass
        for _ in range(20):
            barrier = Barrier(2)
            with ThreadPoolExecutor(2) as pool:
                limits = list(pool.map(inside, [barrier] * 2))
            assert all(set(limit) <= {1} for limit in limits), limits
            assert shared() == before
