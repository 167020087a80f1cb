"""PV-DBOW: the compiled passes against NumPy and against the gradients of the loss."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent.kernels import pv_dbow as kernel
from pacsent.kernels.pv_dbow import GROUP_SIZE, pv_dbow, pv_dbow_plainly
from pacsent.kernels.random import draw_indices_plainly
from pacsent.words.noise import alias
from reference import w_pb_neg_reference

N_WORDS = 30


class Case(NamedTuple):
    """Arguments of `pv_dbow` but for `train_words`, in its order but that vectors come last."""

    members: np.ndarray
    states: np.ndarray
    ids: np.ndarray
    offsets: np.ndarray
    A: np.ndarray
    noise: tuple
    rates: np.ndarray
    vectors: np.ndarray

    def run(self, train_words=False):
        """The vectors and the table after the passes; nothing that was given is changed."""
        return self._run(pv_dbow, train_words, np.float32)

    def run_plainly(self, train_words=False):
        """As `run`, by NumPy in double precision."""
        return self._run(pv_dbow_plainly, train_words, np.float64)

    def _run(self, function, train_words, dtype):
        groups = (self.members, self.states.copy())
        texts = (self.ids, self.offsets)
        A = self.A.astype(dtype)
        vectors = self.vectors.astype(dtype)
        function(groups, texts, A, self.noise, self.rates, train_words, vectors)
        return vectors, A


def draw_case(rng, n_texts, n_dims, n_negatives, n_epochs=1):
    """Groups of texts of 0 to 9 words, long ones first."""
    lengths = np.sort(rng.integers(0, 10, n_texts))[::-1]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(0, N_WORDS, offsets[-1]).astype(np.int32)
    n_groups = -(-n_texts // GROUP_SIZE)
    members = np.full(n_groups * GROUP_SIZE, -1)
    members[:n_texts] = np.arange(n_texts)
    states = rng.integers(1, 2**63, (n_epochs, n_groups), dtype=np.uint64)

    A = rng.normal(size=(N_WORDS, n_dims)).astype(np.float32)
    words = np.arange(3, N_WORDS)
    keep, other = alias(rng.dirichlet(np.ones(words.size)))
    return Case(
        members=members.reshape(-1, GROUP_SIZE),
        states=states,
        ids=ids,
        offsets=offsets,
        A=A,
        noise=(words, keep, other, n_negatives),
        rates=np.linspace(0.1, 0.05, n_epochs).astype(np.float32),
        vectors=rng.normal(size=(n_texts, n_dims)).astype(np.float32),
    )


@pytest.mark.parametrize("train_words", [False, True])
@pytest.mark.parametrize("n_texts", [0, 1, 5, 16, 40])
@pytest.mark.parametrize(("n_dims", "n_negatives"), [(1, 1), (7, 4), (32, 5), (100, 9)])
def test_a_pass_is_that_of_the_formulas(rng, n_texts, n_dims, n_negatives, train_words):
    case = draw_case(rng, n_texts, n_dims, n_negatives)

    vectors, A = case.run(train_words)

    plain_vectors, plain_A = case.run_plainly(train_words)
    assert_allclose(vectors, plain_vectors, atol=2e-4)
    assert_allclose(A, plain_A, atol=2e-4)


def test_several_passes_are_as_one_after_the_other(rng):
    case = draw_case(rng, 20, 12, 5, n_epochs=3)
    together, _ = case.run()

    vectors = case.vectors
    for state, rate in zip(case.states, case.rates):
        one_pass = case._replace(states=state[None], rates=rate[None], vectors=vectors)
        vectors, _ = one_pass.run()

    assert_array_equal(vectors, together)


def test_a_vector_does_not_depend_on_the_company(rng):
    case = draw_case(rng, 16, 40, 5)
    together, _ = case.run()

    for text in range(16):
        members = np.full((1, GROUP_SIZE), -1)
        members[0, 0] = text
        alone, _ = case._replace(members=members).run()
        assert_array_equal(alone[text], together[text])


def test_vectors_are_inferred_without_the_compiled_code(rng, monkeypatch):
    case = draw_case(rng, 20, 12, 5)
    expected, _ = case.run()

    monkeypatch.setattr(kernel, "needs_twins", lambda: True)
    vectors, _ = case.run()

    assert_allclose(vectors, expected, atol=2e-4)


def test_several_calls_give_the_same(rng, monkeypatch):
    case = draw_case(rng, 80, 8, 3)
    expected_vectors, expected_A = case.run(train_words=True)

    monkeypatch.setattr(kernel, "_BATCH_PASSES", 2)
    vectors, A = case.run(train_words=True)

    assert_array_equal(vectors, expected_vectors)
    assert_array_equal(A, expected_A)


def descend_by_gradients(case, train_words):
    """The vectors and the table after one pass of steps along the gradients of the loss."""
    words, keep, other, n_negatives = case.noise
    lengths = np.diff(case.offsets)
    state = case.states[0].copy()
    vectors = case.vectors.astype(float)
    A = case.A.astype(float)

    for t in range(lengths.max()):
        negatives = words[draw_indices_plainly(state, keep, other, n_negatives)]
        texts = np.flatnonzero(lengths > t)
        places = case.offsets[texts] + t
        own_words = case.ids[places][:, None]  # one of each text
        drawn = [negatives[None]] * len(texts)

        _, grad_h, grad_A = w_pb_neg_reference.pv_dbow_objective(
            vectors[texts], own_words, drawn, A
        )
        vectors[texts] -= case.rates[0] * grad_h
        if train_words:
            A -= case.rates[0] * grad_A
    return vectors, A


@pytest.mark.parametrize("train_words", [False, True])
def test_a_pass_follows_the_gradients_of_the_loss_at_every_place(rng, train_words):
    case = draw_case(rng, 3, 6, 5)

    vectors, A = case.run(train_words)

    expected_vectors, expected_A = descend_by_gradients(case, train_words)
    assert_allclose(vectors, expected_vectors, atol=5e-5)
    assert_allclose(A, expected_A, atol=5e-5)


# ---- What is refused ----------------------------------------------------------------------------


@pytest.fixture
def case(rng):
    """Twenty texts and words of six dimensions, in two groups."""
    return draw_case(rng, 20, 6, 5)


def assert_out_of_range(case):
    with pytest.raises(IndexError, match="do not fit a table of 30 words"):
        case.run()


def test_ids_of_no_word_are_refused(case):
    case.ids[0] = N_WORDS

    assert_out_of_range(case)


def test_offsets_beyond_the_ids_are_refused(case):
    case.offsets[-1] += 10**6

    assert_out_of_range(case)


def test_members_that_are_no_text_are_refused(case):
    case.members[0, 0] = 20

    assert_out_of_range(case)


def test_negatives_that_are_no_word_are_refused(case):
    words, *_ = case.noise
    words[:] = -1

    assert_out_of_range(case)


def test_aliases_of_no_word_are_refused(case):
    _, keep, other, _ = case.noise
    keep[:] = 0.0
    other[:] = 10**9

    assert_out_of_range(case)


def test_vectors_of_other_texts_are_refused(case):
    fewer = case._replace(vectors=case.vectors[1:])

    with pytest.raises(ValueError, match="do not fit 20 sentences and words of 6 numbers"):
        fewer.run()


def test_every_group_must_have_a_state(case):
    fewer = case._replace(states=case.states[:, 1:])

    with pytest.raises(ValueError, match="1 x 2 states that are not 0"):
        fewer.run()


def test_no_state_may_be_zero(case):
    zeros = case._replace(states=0 * case.states)

    with pytest.raises(ValueError, match="1 x 2 states that are not 0"):
        zeros.run()
