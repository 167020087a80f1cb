"""Skip-gram: the compiled code against NumPy, the gradient of its loss, and the bits of a seed."""

import hashlib
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pacsent.kernels import library
from pacsent.kernels.skipgram import (
    BlockShape,
    Span,
    descend_plainly,
    train_blocks,
    train_blocks_plainly,
)

ALWAYS_THE_SAME = np.uint64(2**32)  # a threshold: never the alias
WORD2VEC_SHAPE = BlockShape(5, 5, 8, 16)


class Example(NamedTuple):
    """Arguments of `train_blocks`."""

    I: np.ndarray
    O: np.ndarray
    tokens: np.ndarray
    documents: np.ndarray
    span: Span
    shape: BlockShape
    noise: tuple[np.ndarray, np.ndarray]
    seed: int

    def train(self):
        """Change both matrices; (the loss, the number of pairs)."""
        return train_blocks(*self)


def draw_example(rng, n_words, n_dims, n_tokens=50):
    """A small problem, so that words often repeat and equal the noise."""
    I, O = rng.normal(0, 0.5, (2, n_words, n_dims)).astype(np.float32)
    tokens = rng.integers(0, n_words, n_tokens).astype(np.int32)
    documents = np.sort(rng.integers(0, 3, n_tokens))
    every_token = Span(0, n_tokens, 0.1, 0.1)

    thresholds = rng.integers(0, 2**32, n_words).astype(np.uint64)
    aliases = rng.integers(0, n_words, n_words).astype(np.int32)
    return Example(I, O, tokens, documents, every_token, WORD2VEC_SHAPE, (thresholds, aliases), 1)


def sigmoid(score):
    return 1 / (1 + np.exp(-score))


@pytest.mark.parametrize("n_dims", [16, 48, 112, 304])
@pytest.mark.parametrize("shape", [(3, 5, 4, 8), (5, 15, 8, 40), (1, 1, 1, 3), (30, 6, 2, 10)])
def test_training_is_that_of_every_pair_by_itself(rng, shape, n_dims):
    example = draw_example(rng, 12, n_dims)
    fast = example._replace(span=Span(2, 47, 0.01, 0.002), shape=BlockShape(*shape))
    slow = fast._replace(I=example.I.astype(float), O=example.O.astype(float))

    loss, n_pairs = fast.train()

    expected_loss, expected_n_pairs = train_blocks_plainly(*slow)
    assert n_pairs == expected_n_pairs
    assert_allclose(loss, expected_loss, rtol=1e-5)
    assert_allclose(fast.I, slow.I, rtol=1e-3, atol=4e-5)
    assert_allclose(fast.O, slow.O, rtol=1e-3, atol=4e-5)


@pytest.fixture
def trained_half(rng):
    """(example, old input vectors, old output vectors) after training on the first of 40 words.

    The others are neither in pairs nor in samples.
    """
    example = draw_example(rng, 40, 32)
    thresholds, aliases = example.noise
    thresholds[:20] = ALWAYS_THE_SAME
    thresholds[20:] = 0  # their alias instead
    aliases[:] = 0
    example = example._replace(tokens=example.tokens % np.int32(20))
    old_I = example.I.copy()
    old_O = example.O.copy()

    example.train()

    return example, old_I, old_O


def test_words_that_are_in_no_pair_and_no_sample_do_not_move(trained_half):
    example, old_I, old_O = trained_half

    assert_array_equal(example.I[20:], old_I[20:])
    assert_array_equal(example.O[20:], old_O[20:])


def test_words_that_are_in_pairs_move(trained_half):
    example, old_I, _ = trained_half

    has_moved = (old_I != example.I).any(axis=1)
    assert has_moved[example.tokens].all()


@pytest.mark.parametrize("score", [-80.0, -20.0, -5.0, 0.0, 5.0, 20.0, 80.0])
def test_the_loss_of_extreme_scores_neither_overflows_nor_vanishes(score):
    """The one word beside another has this score; all samples are a third word, with this too."""
    I = np.zeros((3, 16), np.float32)
    I[:2, 0] = 1.0
    O = np.zeros((3, 16), np.float32)
    O[:, 0] = score
    always_the_third = (np.zeros(3, np.uint64), np.full(3, 2, np.int32))
    example = Example(
        I,
        O,
        tokens=np.array([0, 1], np.int32),
        documents=np.array([0, 0]),
        span=Span(0, 1, 1.0, 1.0),
        shape=BlockShape(1, 3, 1, 3),
        noise=always_the_third,
        seed=5,
    )

    loss, n_pairs = example.train()

    positive_loss = np.logaddexp(0, -score)
    negative_loss = 3 * np.logaddexp(0, score)
    assert n_pairs == 1
    assert_allclose(loss, positive_loss + negative_loss, rtol=1e-6)
    assert_allclose(O[0, 0] - score, sigmoid(-score), rtol=1e-5, atol=1e-5)
    assert_allclose(O[2, 0] - score, -3 * sigmoid(score), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("row", "column"), [(0, 0), (3, 7), (8, 15)])
def test_a_step_follows_the_numerical_gradient_of_its_loss(rng, row, column):
    I, O = rng.normal(0, 0.5, (2, 9, 16))
    rows_I, rows_O = rng.integers(0, 9, (2, 30))
    weights = rng.choice([0, 1, -0.5, -2], 30)
    step = np.zeros_like(I)
    step[row, column] = 1e-5

    def loss(I, O):
        return descend_plainly(I.copy(), O.copy(), rows_I, rows_O, weights, 0.0)

    new_I = I.copy()
    new_O = O.copy()
    descend_plainly(new_I, new_O, rows_I, rows_O, weights, 1.0)

    slope_I = (loss(I + step, O) - loss(I - step, O)) / 2e-5
    slope_O = (loss(I, O + step) - loss(I, O - step)) / 2e-5
    assert_allclose((I - new_I)[row, column], slope_I, rtol=1e-6, atol=1e-9)
    assert_allclose((O - new_O)[row, column], slope_O, rtol=1e-6, atol=1e-9)


# SHA-256 of both tables, which depend on the order of additions: on the width of vectors, and on
# whether a * b + c is one instruction.
DIGESTS = {"v2": "9bf006b3983a8e78", "v3": "c2ac79c69fb44435", "v4": "66962815d4b0ba89"}


def test_a_seed_gives_the_bits_that_it_has_always_given():
    if library.level() not in DIGESTS:
        pytest.skip("no bits of this instruction set are known")
    rng = np.random.default_rng(3)
    I, O = rng.random((2, 60, 112), dtype=np.float32) - np.float32(0.5)
    tokens = (60 * rng.random(400) ** 2).astype(np.int32)
    documents = np.repeat([0, 1, 2], [100, 7, 293])
    thresholds = rng.integers(0, 2**32, 60).astype(np.uint64)
    aliases = np.arange(60, dtype=np.int32)[::-1].copy()
    span = Span(0, 400, 0.025, 0.01)

    train_blocks(I, O, tokens, documents, span, WORD2VEC_SHAPE, (thresholds, aliases), 9)

    digest = hashlib.sha256(I.tobytes() + O.tobytes()).hexdigest()
    assert digest[:16] == DIGESTS[library.level()]


def test_no_centres_are_no_pairs(rng):
    example = draw_example(rng, 12, 16)._replace(span=Span(7, 7, 0.1, 0.1))

    loss, n_pairs = example.train()

    assert loss == 0.0
    assert n_pairs == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"I": np.zeros((12, 17), np.float32)}, "with a multiple of 16 columns"),
        ({"O": np.zeros((11, 16), np.float32)}, "must be of one shape"),
        ({"shape": BlockShape(5, 5, 8, 17)}, "must be a multiple of four"),
        ({"shape": BlockShape(0, 5, 8, 16)}, "must be a multiple of four"),
        ({"span": Span(0, 51, 0.1, 0.1)}, "centres must be tokens"),
        ({"documents": np.zeros(49, np.int64)}, "each of a document"),
        ({"noise": (np.zeros(12, np.uint64), np.zeros(11, np.int32))}, "over the rows"),
        ({"tokens": np.full(50, 12, np.int32)}, "must be rows of the tables"),
        ({"tokens": np.full(50, -1, np.int32)}, "must be rows of the tables"),
    ],
)
def test_arguments_that_do_not_fit_together_are_rejected(rng, changed, message):
    example = draw_example(rng, 12, 16)._replace(**changed)

    with pytest.raises(ValueError, match=message):
        example.train()
