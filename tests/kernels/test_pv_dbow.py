"""PV-DBOW: the compiled passes against NumPy and against the gradients of the loss."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent.kernels import pv_dbow as kernel
from pacsent.kernels.pv_dbow import GROUP_SIZE, pv_dbow, pv_dbow_plainly
from pacsent.kernels.random import draw_indices_plainly
from pacsent.words.noise import alias
from reference import w_pb_neg_reference

N_WORDS = 30


def random_case(rng, n_texts, n_dims, n_negatives, n_epochs=1):
    """Arguments of `pv_dbow`, in groups of texts of 0 to 9 words, long ones first."""
    lengths = -np.sort(-rng.integers(0, 10, n_texts))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(0, N_WORDS, offsets[-1]).astype(np.int32)
    n_groups = -(-n_texts // GROUP_SIZE)
    members = np.full(n_groups * GROUP_SIZE, -1)
    members[:n_texts] = np.arange(n_texts)
    states = rng.integers(1, 2**63, (n_epochs, n_groups), dtype=np.uint64)

    A = rng.normal(size=(N_WORDS, n_dims)).astype(np.float32)
    words = np.arange(3, N_WORDS)
    noise = words, *alias(rng.dirichlet(np.ones(words.size))), n_negatives
    rates = np.linspace(0.1, 0.05, n_epochs).astype(np.float32)
    vectors = rng.normal(size=(n_texts, n_dims)).astype(np.float32)
    return [(members.reshape(-1, GROUP_SIZE), states), (ids, offsets), A, noise, rates], vectors


def passes(given, train_words, vectors, *, of=pv_dbow, dtype=np.float32):
    """The vectors and the table after the passes; nothing that was given is changed."""
    (members, states), sentences, A, noise, rates = given
    vectors, A = vectors.astype(dtype), A.astype(dtype)
    of((members, states.copy()), sentences, A, noise, rates, train_words, vectors)
    return vectors, A


@pytest.mark.parametrize("train_words", [False, True])
@pytest.mark.parametrize("n_texts", [0, 1, 5, 16, 40])
@pytest.mark.parametrize(("n_dims", "n_negatives"), [(1, 1), (7, 4), (32, 5), (100, 9)])
def test_a_pass_is_that_of_the_formulas(rng, n_texts, n_dims, n_negatives, train_words):
    given, vectors = random_case(rng, n_texts, n_dims, n_negatives)

    found = passes(given, train_words, vectors)

    right = passes(given, train_words, vectors, of=pv_dbow_plainly, dtype=np.float64)
    for array, expected in zip(found, right):
        assert_allclose(array, expected, atol=2e-4)


def test_several_passes_are_as_one_after_the_other(rng):
    given, vectors = random_case(rng, 20, 12, 5, n_epochs=3)
    (members, states), *parts, rates = given
    together, _ = passes(given, False, vectors)

    for epoch in range(3):
        part = [(members, states[epoch : epoch + 1]), *parts, rates[epoch : epoch + 1]]
        vectors, _ = passes(part, False, vectors)

    assert_array_equal(vectors, together)


def test_a_vector_does_not_depend_on_the_company(rng):
    given, vectors = random_case(rng, 16, 40, 5)
    (_, states), *parts = given
    together, _ = passes(given, False, vectors)

    for text in range(16):
        members = np.full((1, GROUP_SIZE), -1)
        members[0, 0] = text
        alone, _ = passes([(members, states), *parts], False, vectors)
        assert_array_equal(alone[text], together[text])


def test_vectors_are_inferred_without_the_compiled_code(rng, monkeypatch):
    given, vectors = random_case(rng, 20, 12, 5)
    expected, _ = passes(given, False, vectors)

    monkeypatch.setattr(kernel, "needs_twins", lambda: True)

    assert_allclose(passes(given, False, vectors)[0], expected, atol=2e-4)


def test_several_calls_give_the_same(rng, monkeypatch):
    given, vectors = random_case(rng, 80, 8, 3)
    expected = passes(given, True, vectors)

    monkeypatch.setattr(kernel, "_BATCH_PASSES", 2)

    for array, other in zip(passes(given, True, vectors), expected):
        assert_array_equal(array, other)


@pytest.mark.parametrize("train_words", [False, True])
def test_a_pass_follows_the_gradients_of_the_loss_at_every_place(rng, train_words):
    given, vectors = random_case(rng, 3, 6, 5)
    (_, states), (ids, offsets), A, noise, rates = given
    expected, table = vectors.astype(float), A.astype(float)
    state = states[0].copy()
    for t in range(np.diff(offsets).max()):
        drawn = noise[0][draw_indices_plainly(state, noise[1], noise[2], 5)]
        there = np.flatnonzero(np.diff(offsets) > t)
        own = [ids[offsets[i] + t : offsets[i] + t + 1] for i in there]
        _, grad_h, grad_A = w_pb_neg_reference.pv_dbow_objective(
            expected[there], own, [drawn[None]] * len(there), table
        )
        expected[there] -= rates[0] * grad_h
        table -= rates[0] * grad_A * train_words

    found, found_table = passes(given, train_words, vectors)

    assert_allclose(found, expected, atol=5e-5)
    assert_allclose(found_table, table, atol=5e-5)


@pytest.mark.parametrize("what", ["ids", "offsets", "members", "noise words", "aliases"])
def test_what_is_out_of_range_is_refused(rng, what):
    given, vectors = random_case(rng, 20, 6, 5)
    (members, _), (ids, offsets), _, (words, keep, other, _), _ = given
    if what == "ids":
        ids[0] = N_WORDS
    elif what == "offsets":
        offsets[-1] += 10**6
    elif what == "members":
        members[0, 0] = 20
    elif what == "noise words":
        words[:] = -1
    else:
        keep[:], other[:] = 0.0, 10**9

    with pytest.raises(IndexError, match="do not fit a table of 30 words"):
        passes(given, False, vectors)


def test_arrays_of_other_sizes_are_refused(rng):
    given, vectors = random_case(rng, 20, 6, 5)
    (members, states), *parts = given

    with pytest.raises(ValueError, match="do not fit 20 sentences and words of 6 numbers"):
        passes(given, False, vectors[1:])
    with pytest.raises(ValueError, match="1 x 2 states that are not 0"):
        passes([(members, states[:, 1:]), *parts], False, vectors)
    with pytest.raises(ValueError, match="1 x 2 states that are not 0"):
        passes([(members, 0 * states), *parts], False, vectors)
