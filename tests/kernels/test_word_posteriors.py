"""The stochastic gradients of w-PB-neg: the compiled code against NumPy, and what it refuses."""

import numpy as np
import pytest
from numpy.lib.recfunctions import structured_to_unstructured
from numpy.testing import assert_allclose, assert_array_equal

from pacsent.kernels import word_posteriors
from pacsent.kernels.word_posteriors import (
    EpochSchedule,
    EpochSentences,
    LazyPosteriors,
    Memory,
    NoiseTable,
)
from pacsent.words.noise import alias

N_WORDS = 40


def problem(n_dims=6, n_sentences=50, lengths=(2, 9), seed=0):
    """Sentences, words away from their priors, negatives."""
    rng = np.random.default_rng(seed)
    n_own = rng.integers(*lengths, n_sentences)  # different words
    words = np.concatenate([rng.permutation(N_WORDS)[:n] for n in n_own]).astype(np.int32)
    sentences = EpochSentences(
        starts=np.concatenate([[0], np.cumsum(n_own)]),
        words=words,
        fractions=rng.uniform(0.5, 1.5, words.size) / np.repeat(n_own, n_own),
        n_tokens=2 * n_own,
        weights=rng.uniform(0.5, 2.0, n_sentences),
        stiffness=rng.uniform(1.0, 3.0, n_sentences),
        order=rng.permutation(n_sentences),
        m=rng.standard_normal((n_sentences, n_dims)).astype(np.float32),
    )

    posteriors = LazyPosteriors.at_prior(n_dims, rng.uniform(0.2, 2.0, N_WORDS), lam=2.0)
    posteriors.D[...] = 0.3 * rng.standard_normal(posteriors.D.shape)
    posteriors.states["z"] = rng.uniform(1.0, 3.0, N_WORDS)
    posteriors.states["clock"] = rng.uniform(0.0, 4.0, N_WORDS)

    A = rng.standard_normal((N_WORDS, n_dims)).astype(np.float32)
    p = rng.dirichlet(np.ones(N_WORDS))
    mean, moment = np.float32(p @ A), np.float32(A.T @ (p[:, None] * A))
    noise = NoiseTable(A, *alias(p), 5, mean, moment, np.einsum("wd,wd->w", A, A))
    return sentences, posteriors, noise


def memory():
    return Memory(np.array([12345], np.uint64), np.array([0.4, 0.1]))


def numbers(states):
    """The members of every state, (n_words, 4)."""
    return structured_to_unstructured(states)


def copy_of(words):
    return words._replace(D=words.D.copy(), states=words.states.copy())


@pytest.mark.parametrize("block", [1, 3, 30])
@pytest.mark.parametrize("n_dims", [6, 37])
@pytest.mark.parametrize("lengths", [(2, 9), (30, 40)])  # 20 to 320 negatives
def test_steps_are_those_of_numpy(block, n_dims, lengths):
    sentences, words, noise = problem(n_dims, lengths=lengths)
    schedule = EpochSchedule(start=3.0, eta=0.05, block=block, budget=0.2)  # some blocks are cut
    begins = np.arange(0, 50, block)
    plain_words, own, plain = copy_of(words), memory(), memory()

    word_posteriors.word_sgd(begins, sentences, words, noise, schedule, own)
    word_posteriors.word_sgd_plainly(begins, sentences, plain_words, noise, schedule, plain)

    assert own.state == plain.state
    assert_allclose(own.line, plain.line, atol=1e-5)
    assert_allclose(words.D, plain_words.D, atol=2e-5)
    assert_allclose(numbers(words.states), numbers(plain_words.states), rtol=1e-5)


def test_large_blocks_are_cut_and_steps_alone_are_shortened():
    sentences, _, _ = problem()

    def cut(eta):
        return word_posteriors.stable_block_size_plainly(0, 50, sentences, N_WORDS, eta, 1.0)

    assert cut(1e-4) == (50, 1.0)
    assert 1 < cut(0.3)[0] < 50
    size, factor = cut(50.0)
    assert size == 1 and 0.0 < factor < 1.0


def test_the_same_seed_gives_the_same_bits_in_calls_of_any_size(monkeypatch):
    schedule = EpochSchedule(start=3.0, eta=0.05, block=4, budget=1.0)
    ends = []
    for call_sentences in (4096, 8):
        monkeypatch.setattr(word_posteriors, "_CALL_SENTENCES", call_sentences)
        sentences, words, noise = problem()
        begins = np.arange(0, 50, 4)
        word_posteriors.word_sgd(begins, sentences, words, noise, schedule, memory())
        ends.append(words)

    assert_array_equal(ends[0].D, ends[1].D)
    assert_array_equal(ends[0].states, ends[1].states)


def test_the_penalty_acts_as_in_numpy():
    _, words, _ = problem()
    plain_words = copy_of(words)

    word_posteriors.apply_lazy_decay(words, 3.0)  # some clocks are ahead
    word_posteriors.apply_lazy_decay_plainly(plain_words, 3.0)

    assert_allclose(words.D, plain_words.D, rtol=1e-6)
    assert_allclose(numbers(words.states), numbers(plain_words.states), rtol=1e-12)
    assert words.states["clock"].min() == 3.0 < words.states["clock"].max()


def test_a_thread_that_lags_does_not_turn_a_words_clock_back():
    """Two halves of an epoch in either order: the penalty acts once for the time that passed."""
    sentences, words, noise = problem()
    sentences = sentences._replace(weights=np.zeros(50))  # only the penalty
    schedule = EpochSchedule(start=4.0, eta=0.1, block=1, budget=1.0)
    D, clock = words.D.copy(), words.states["clock"].copy()

    for begins in (np.arange(25, 50), np.arange(25)):
        before = words.states["clock"].copy()
        word_posteriors.word_sgd(begins, sentences, words, noise, schedule, memory())
        assert np.all(words.states["clock"] >= before)

    faded = np.exp(-words.states["rate"] * (words.states["clock"] - clock))
    assert_allclose(words.D, faded[:, None] * D, rtol=1e-4)


def test_numbers_out_of_range_and_other_shapes_are_refused():
    sentences, words, noise = problem()
    schedule, begins = EpochSchedule(0.0, 0.1, 4, 1.0), np.arange(0, 50, 4)

    def refused(match, part, **changed):
        arguments = {"sentences": sentences, "words": words, "noise": noise}
        arguments |= {"schedule": schedule, "memory": memory()}
        arguments[part] = arguments[part]._replace(**changed)
        with pytest.raises(ValueError, match=match):
            word_posteriors.word_sgd(begins, **arguments)

    refused("none of the 40 that have posteriors", "sentences", words=sentences.words + np.int32(9))
    refused("none of the 50 with prior means", "sentences", order=sentences.order + 1)
    refused("do not divide their words", "sentences", starts=sentences.starts[::-1].copy())
    refused("must not be empty", "sentences", n_tokens=0 * sentences.n_tokens)
    refused("Arrays of 50 sentences", "sentences", weights=np.ones(49))
    refused("none of the 40 words", "noise", other=noise.other + np.int32(40))
    refused("Arrays of 40 negatives", "noise", lengths=np.ones(39, np.float32))
    refused("must have 6 dimensions", "noise", moment=np.ones((6, 5), np.float32))
    refused("must have 7 dimensions", "words", D=np.ones((40, 7), np.float32))
    refused("states of 40 words", "words", states=words.states[1:])
    refused("must not be empty", "schedule", block=0)
    refused("a state that is not 0", "memory", state=np.zeros(1, np.uint64))
    with pytest.raises(ValueError, match="begins at none of the 50"):
        word_posteriors.word_sgd(begins + 2, sentences, words, noise, schedule, memory())
