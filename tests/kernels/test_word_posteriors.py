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
    words_of_each = [rng.permutation(N_WORDS)[:n] for n in n_own]
    words = np.concatenate(words_of_each).astype(np.int32)
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
    mean = np.float32(p @ A)
    moment = np.float32(A.T @ (p[:, None] * A))
    squared_lengths = np.einsum("wd,wd->w", A, A)
    noise = NoiseTable(A, *alias(p), 5, mean, moment, squared_lengths)
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
    assert size == 1
    assert 0.0 < factor < 1.0


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
    D = words.D.copy()
    clock = words.states["clock"].copy()

    for begins in (np.arange(25, 50), np.arange(25)):
        before = words.states["clock"].copy()
        word_posteriors.word_sgd(begins, sentences, words, noise, schedule, memory())
        assert np.all(words.states["clock"] >= before)

    passed = words.states["clock"] - clock
    faded = np.exp(-words.states["rate"] * passed)
    assert_allclose(words.D, faded[:, None] * D, rtol=1e-4)


def refuses(match, **changed):
    """The problem with other arguments is refused with this message."""
    sentences, words, noise = problem()
    arguments = {
        "begins": np.arange(0, 50, 4),
        "sentences": sentences,
        "words": words,
        "noise": noise,
        "schedule": EpochSchedule(0.0, 0.1, 4, 1.0),
        "memory": memory(),
    }
    with pytest.raises(ValueError, match=match):
        word_posteriors.word_sgd(**arguments | changed)


def test_words_of_sentences_must_have_posteriors():
    sentences, _, _ = problem()
    other_words = sentences.words + np.int32(9)

    refuses("none of the 40 that have posteriors", sentences=sentences._replace(words=other_words))


def test_sentences_in_the_order_must_have_prior_means():
    sentences, _, _ = problem()
    order = sentences.order + 1

    refuses("none of the 50 with prior means", sentences=sentences._replace(order=order))


def test_starts_of_sentences_must_divide_their_words():
    sentences, _, _ = problem()
    reversed_starts = sentences.starts[::-1].copy()

    refuses("do not divide their words", sentences=sentences._replace(starts=reversed_starts))


def test_sentences_must_not_be_empty():
    sentences, _, _ = problem()
    no_tokens = np.zeros_like(sentences.n_tokens)

    refuses("must not be empty", sentences=sentences._replace(n_tokens=no_tokens))


def test_every_sentence_must_have_a_weight():
    sentences, _, _ = problem()

    refuses("Arrays of 50 sentences", sentences=sentences._replace(weights=np.ones(49)))


def test_negatives_must_be_words():
    _, _, noise = problem()
    other = noise.other + np.int32(40)

    refuses("none of the 40 words", noise=noise._replace(other=other))


def test_every_negative_must_have_a_length():
    _, _, noise = problem()
    lengths = np.ones(39, np.float32)

    refuses("Arrays of 40 negatives", noise=noise._replace(lengths=lengths))


def test_the_moment_of_negatives_must_have_the_dimensions_of_words():
    _, _, noise = problem()
    moment = np.ones((6, 5), np.float32)

    refuses("must have 6 dimensions", noise=noise._replace(moment=moment))


def test_posteriors_of_other_dimensions_are_refused():
    _, words, _ = problem()
    D = np.ones((40, 7), np.float32)

    refuses("must have 7 dimensions", words=words._replace(D=D))


def test_every_word_must_have_a_state():
    _, words, _ = problem()

    refuses("states of 40 words", words=words._replace(states=words.states[1:]))


def test_a_block_must_not_be_empty():
    refuses("must not be empty", schedule=EpochSchedule(0.0, 0.1, 0, 1.0))


def test_the_random_state_must_not_be_zero():
    zero = np.zeros(1, np.uint64)

    refuses("a state that is not 0", memory=memory()._replace(state=zero))


def test_blocks_must_begin_at_sentences():
    refuses("begins at none of the 50", begins=np.arange(0, 50, 4) + 2)
