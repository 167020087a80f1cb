"""The stochastic gradients of w-PB-neg: the compiled code against NumPy, and what it refuses."""

from typing import NamedTuple

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
N_SENTENCES = 50


class Epoch(NamedTuple):
    """Arguments of `word_sgd`: 50 sentences, words away from their priors, negatives."""

    begins: np.ndarray
    sentences: EpochSentences
    words: LazyPosteriors
    noise: NoiseTable
    schedule: EpochSchedule
    memory: Memory

    def run(self):
        word_posteriors.word_sgd(*self)

    def run_plainly(self):
        word_posteriors.word_sgd_plainly(*self)

    def in_blocks(self, size, *, eta=0.05, budget=1.0):
        """The epoch in blocks of some size, with another schedule."""
        schedule = EpochSchedule(start=3.0, eta=eta, block=size, budget=budget)
        begins = np.arange(0, N_SENTENCES, size)
        return self._replace(begins=begins, schedule=schedule)

    def copy(self):
        """The same epoch, with arrays of its own where running it changes them."""
        memory = Memory(self.memory.state.copy(), self.memory.line.copy())
        return self._replace(words=copy_of(self.words), memory=memory)


def draw_sentences(rng, n_dims, lengths):
    n_own = rng.integers(*lengths, N_SENTENCES)  # different words
    words_of_each = [rng.permutation(N_WORDS)[:n] for n in n_own]
    words = np.concatenate(words_of_each).astype(np.int32)
    return EpochSentences(
        starts=np.concatenate([[0], np.cumsum(n_own)]),
        words=words,
        fractions=rng.uniform(0.5, 1.5, words.size) / np.repeat(n_own, n_own),
        n_tokens=2 * n_own,
        weights=rng.uniform(0.5, 2.0, N_SENTENCES),
        stiffness=rng.uniform(1.0, 3.0, N_SENTENCES),
        order=rng.permutation(N_SENTENCES),
        m=rng.standard_normal((N_SENTENCES, n_dims)).astype(np.float32),
    )


def draw_posteriors(rng, n_dims):
    var_P = rng.uniform(0.2, 2.0, N_WORDS)
    posteriors = LazyPosteriors.at_prior(n_dims, var_P, lam=2.0)
    posteriors.D[...] = 0.3 * rng.standard_normal(posteriors.D.shape)
    posteriors.states["z"] = rng.uniform(1.0, 3.0, N_WORDS)
    posteriors.states["clock"] = rng.uniform(0.0, 4.0, N_WORDS)
    return posteriors


def draw_noise(rng, n_dims):
    A = rng.standard_normal((N_WORDS, n_dims)).astype(np.float32)
    p = rng.dirichlet(np.ones(N_WORDS))
    keep, other = alias(p)
    mean = np.float32(p @ A)
    moment = np.float32(A.T @ (p[:, None] * A))
    squared_lengths = np.einsum("wd,wd->w", A, A)
    return NoiseTable(A, keep, other, 5, mean, moment, squared_lengths)


def draw_epoch(n_dims=6, lengths=(2, 9)):
    rng = np.random.default_rng(0)
    return Epoch(
        begins=np.arange(0, N_SENTENCES, 4),
        sentences=draw_sentences(rng, n_dims, lengths),
        words=draw_posteriors(rng, n_dims),
        noise=draw_noise(rng, n_dims),
        schedule=EpochSchedule(start=0.0, eta=0.1, block=4, budget=1.0),
        memory=Memory(np.array([12345], np.uint64), np.array([0.4, 0.1])),
    )


@pytest.fixture
def epoch():
    """Sentences of two to eight different words, of six dimensions."""
    return draw_epoch()


def numbers(states):
    """The members of every state, (n_words, 4)."""
    return structured_to_unstructured(states)


def copy_of(words):
    return words._replace(D=words.D.copy(), states=words.states.copy())


@pytest.mark.parametrize("block", [1, 3, 30])
@pytest.mark.parametrize("n_dims", [6, 37])
@pytest.mark.parametrize("lengths", [(2, 9), (30, 40)])  # 20 to 320 negatives
def test_steps_are_those_of_numpy(block, n_dims, lengths):
    epoch = draw_epoch(n_dims, lengths).in_blocks(block, budget=0.2)  # some blocks are cut
    plain = epoch.copy()

    epoch.run()
    plain.run_plainly()

    assert epoch.memory.state == plain.memory.state
    assert_allclose(epoch.memory.line, plain.memory.line, atol=1e-5)
    assert_allclose(epoch.words.D, plain.words.D, atol=2e-5)
    states = numbers(epoch.words.states)
    assert_allclose(states, numbers(plain.words.states), rtol=1e-5)


@pytest.fixture
def cut(epoch):
    """cut(eta) -> the size of a stable block at a learning rate, and what shortens its steps."""

    def stable_block_size(eta):
        return word_posteriors.stable_block_size_plainly(
            0, N_SENTENCES, epoch.sentences, N_WORDS, eta, 1.0
        )

    return stable_block_size


def test_blocks_of_small_steps_are_whole(cut):
    assert cut(1e-4) == (50, 1.0)


def test_blocks_of_large_steps_are_cut(cut):
    size, _ = cut(0.3)

    assert 1 < size < 50


def test_steps_that_are_too_large_for_one_sentence_are_shortened(cut):
    size, factor = cut(50.0)

    assert size == 1
    assert 0.0 < factor < 1.0


def test_the_same_seed_gives_the_same_bits_in_calls_of_any_size(epoch, monkeypatch):
    in_one_call = epoch.in_blocks(4)
    in_many_calls = in_one_call.copy()

    in_one_call.run()
    monkeypatch.setattr(word_posteriors, "_CALL_SENTENCES", 8)
    in_many_calls.run()

    assert_array_equal(in_many_calls.words.D, in_one_call.words.D)
    assert_array_equal(in_many_calls.words.states, in_one_call.words.states)


def test_the_penalty_acts_as_in_numpy(epoch):
    words = epoch.words
    plain_words = copy_of(words)

    word_posteriors.apply_lazy_decay(words, 3.0)  # some clocks are ahead
    word_posteriors.apply_lazy_decay_plainly(plain_words, 3.0)

    assert_allclose(words.D, plain_words.D, rtol=1e-6)
    assert_allclose(numbers(words.states), numbers(plain_words.states), rtol=1e-12)


def test_the_penalty_leaves_clocks_that_are_ahead(epoch):
    clock = epoch.words.states["clock"].copy()

    word_posteriors.apply_lazy_decay(epoch.words, 3.0)

    assert clock.min() < 3.0 < clock.max()
    assert_array_equal(epoch.words.states["clock"], np.maximum(clock, 3.0))


def test_a_thread_that_lags_does_not_turn_a_words_clock_back(epoch):
    """Two halves of an epoch in either order: the penalty acts once for the time that passed."""
    epoch.sentences.weights[:] = 0  # only the penalty
    epoch = epoch._replace(schedule=EpochSchedule(start=4.0, eta=0.1, block=1, budget=1.0))
    states = epoch.words.states
    D = epoch.words.D.copy()
    clock = states["clock"].copy()

    for begins in (np.arange(25, 50), np.arange(25)):
        clock_before = states["clock"].copy()
        epoch._replace(begins=begins).run()
        assert np.all(states["clock"] >= clock_before)

    passed = states["clock"] - clock
    faded = np.exp(-states["rate"] * passed)
    assert_allclose(epoch.words.D, faded[:, None] * D, rtol=1e-4)


# ---- What is refused ----------------------------------------------------------------------------


def assert_refused(epoch, message):
    with pytest.raises(ValueError, match=message):
        epoch.run()


def assert_sentences_refused(epoch, message, **changed):
    sentences = epoch.sentences._replace(**changed)
    assert_refused(epoch._replace(sentences=sentences), message)


def assert_noise_refused(epoch, message, **changed):
    noise = epoch.noise._replace(**changed)
    assert_refused(epoch._replace(noise=noise), message)


def assert_words_refused(epoch, message, **changed):
    words = epoch.words._replace(**changed)
    assert_refused(epoch._replace(words=words), message)


def test_words_of_sentences_must_have_posteriors(epoch):
    epoch.sentences.words[:] += 9

    assert_refused(epoch, "none of the 40 that have posteriors")


def test_sentences_in_the_order_must_have_prior_means(epoch):
    epoch.sentences.order[:] += 1

    assert_refused(epoch, "none of the 50 with prior means")


def test_starts_of_sentences_must_divide_their_words(epoch):
    reversed_starts = epoch.sentences.starts[::-1].copy()

    assert_sentences_refused(epoch, "do not divide their words", starts=reversed_starts)


def test_sentences_must_not_be_empty(epoch):
    epoch.sentences.n_tokens[:] = 0

    assert_refused(epoch, "must not be empty")


def test_every_sentence_must_have_a_weight(epoch):
    assert_sentences_refused(epoch, "Arrays of 50 sentences", weights=np.ones(49))


def test_negatives_must_be_words(epoch):
    epoch.noise.other[:] += 40

    assert_refused(epoch, "none of the 40 words")


def test_every_negative_must_have_a_length(epoch):
    lengths = np.ones(39, np.float32)

    assert_noise_refused(epoch, "Arrays of 40 negatives", lengths=lengths)


def test_the_moment_of_negatives_must_have_the_dimensions_of_words(epoch):
    moment = np.ones((6, 5), np.float32)

    assert_noise_refused(epoch, "must have 6 dimensions", moment=moment)


def test_posteriors_of_other_dimensions_are_refused(epoch):
    D = np.ones((40, 7), np.float32)

    assert_words_refused(epoch, "must have 7 dimensions", D=D)


def test_every_word_must_have_a_state(epoch):
    states = epoch.words.states[1:]

    assert_words_refused(epoch, "states of 40 words", states=states)


def test_a_block_must_not_be_empty(epoch):
    schedule = epoch.schedule._replace(block=0)

    assert_refused(epoch._replace(schedule=schedule), "must not be empty")


def test_the_random_state_must_not_be_zero(epoch):
    epoch.memory.state[:] = 0

    assert_refused(epoch, "a state that is not 0")


def test_blocks_must_begin_at_sentences(epoch):
    epoch.begins[:] += 2

    assert_refused(epoch, "begins at none of the 50")
