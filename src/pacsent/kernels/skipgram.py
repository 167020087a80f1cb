"""Kernel of Skip-gram with negative sampling.

`I` and `O` are the two matrices being trained, rows padded with zeros to a multiple of 16 floats.
For every pair of a centre word c and a context word i of its window, training descends

    loss(i, c) = -log sigmoid(I[i] @ O[c]) - sum over n_negatives negatives n of
                  log sigmoid(-I[i] @ O[n]),        terms with n == c left out,

that is, as in word2vec, the input vector belongs to the context word and the output vector to the
centre word. Samples of the noise are drawn once for a block of consecutive centre words, and each
of them counts n_negatives / n_samples times: in expectation the loss of word2vec.
"""

import ctypes
from typing import NamedTuple

import numpy as np

from pacsent.arrays import GOLDEN, splitmix64
from pacsent.kernels.library import (
    DOUBLE,
    FLOAT32,
    INT32,
    INT64,
    SIZE,
    UINT64,
    aligned_room,
    entry_point,
)

_train_blocks = entry_point(
    "train_blocks",
    *(FLOAT32, FLOAT32, SIZE),  # I, O, their columns
    *(INT32, INT64, SIZE),  # tokens, documents, how many
    *(SIZE, SIZE, DOUBLE, DOUBLE),  # centres begin to end, learning rate at both
    *(SIZE, SIZE, SIZE, SIZE),  # window, negatives; centres and samples of a block
    *(UINT64, INT32, SIZE),  # thresholds, aliases, how many
    ctypes.c_uint64,  # seed
    *(SIZE, FLOAT32, INT32),  # rows of I in a block at most; room
    INT64,  # the number of pairs
    returns=DOUBLE,
)

_COLUMN_MULTIPLE = 16


class Span(NamedTuple):
    """The tokens that are centres, and the learning rate, which changes linearly."""

    start: int
    stop: int
    rate_at_start: float
    rate_at_stop: float


class BlockShape(NamedTuple):
    """The sizes of a block; the last two together are a multiple of four."""

    window: int
    n_negatives: int
    n_centres: int  # consecutive centre words that share their negative samples
    n_samples: int  # negative samples of a block


def train_blocks(
    I: np.ndarray,
    O: np.ndarray,
    tokens: np.ndarray,
    documents: np.ndarray,
    span: Span,
    shape: BlockShape,
    noise: tuple[np.ndarray, np.ndarray],
    seed: int,
) -> tuple[float, int]:
    """Train on the centres tokens[start:stop] in blocks, in place; (sum of losses, pairs).

    All scores of a block come from the tables as they were before it. A window reaches 1 to
    `window` words, drawn uniformly, on both sides, within its document.

    Parameters
    ----------
    I, O : (n_words, n_columns) float32 arrays
    tokens, documents : (n_tokens,) int32 and int64 arrays
        Words, and which of them are of the same document.
    noise : (n_words,) uint64 and int32 arrays
        `alias_thresholds` of the negatives' probabilities.
    seed : int
        64 bits from which all draws follow.
    """
    n_words, n_columns = I.shape
    start, stop, _, _ = span
    window, _, n_centres, n_samples = shape
    thresholds, aliases = noise
    if O.shape != I.shape or n_columns % _COLUMN_MULTIPLE:
        raise ValueError("The tables must be of one shape, with a multiple of 16 columns.")
    if min(shape) < 1 or (n_centres + n_samples) % 4:
        raise ValueError("The centres and samples of a block must be a multiple of four.")
    if tokens.shape != documents.shape or not 0 <= start <= stop <= tokens.size:
        raise ValueError("The centres must be tokens, each of a document.")
    if thresholds.shape != (n_words,) or aliases.shape != (n_words,):
        raise ValueError("The noise must be over the rows of the tables.")
    if tokens.size and not 0 <= tokens.min() <= tokens.max() < n_words:
        raise ValueError("Tokens must be rows of the tables.")

    n_I = -(-(n_centres + 2 * window) // 4) * 4  # rows of I in a block at most
    n_O = n_centres + n_samples
    n_floats = (n_I + n_O) * n_columns + 4 * n_I * n_O
    room = aligned_room(n_floats)
    row_numbers = np.empty(3 * n_I + 2 * n_O, np.int32)
    n_pairs = np.zeros(1, np.int64)
    loss = _train_blocks(
        *(I, O, n_columns),
        *(tokens, documents, tokens.size),
        *span,
        *shape,
        *(thresholds, aliases, n_words),
        seed,
        *(n_I, room, row_numbers),
        n_pairs,
    )
    return loss, int(n_pairs[0])


def train_blocks_plainly(
    I: np.ndarray,
    O: np.ndarray,
    tokens: np.ndarray,
    documents: np.ndarray,
    span: Span,
    shape: BlockShape,
    noise: tuple[np.ndarray, np.ndarray],
    seed: int,
) -> tuple[float, int]:
    """As `train_blocks`: every pair, and every sample for it, by itself."""
    start, stop, rate_at_start, rate_at_stop = span
    window, n_negatives, n_centres, n_samples = shape
    thresholds, aliases = noise
    n_blocks = -(-(stop - start) // n_centres)
    n_draws = stop - start + n_blocks * n_samples
    counter = np.arange(1, n_draws + 1, dtype=np.uint64)
    draws = iter(splitmix64(np.uint64(seed) + counter * GOLDEN).tolist())

    loss = 0.0
    n_pairs = 0
    for first in range(start, stop, n_centres):
        pairs = []  # of the words of a context and of its centre
        for centre in range(first, min(first + n_centres, stop)):
            reach = 1 + (next(draws) >> 32) * window // 2**32
            left = max(centre - reach, 0)
            right = min(centre + reach + 1, len(tokens))
            for j in range(left, right):
                if j != centre and documents[j] == documents[centre]:
                    pairs.append((tokens[j], tokens[centre]))

        samples = []
        for _ in range(n_samples):
            high, low = divmod(next(draws), 2**32)
            column = high * len(aliases) // 2**32
            is_kept = low < thresholds[column]
            samples.append(column if is_kept else aliases[column])

        terms = [(i, centre, 1.0) for i, centre in pairs]
        for i, centre in pairs:
            terms += [(i, n, -n_negatives / n_samples) for n in samples if n != centre]
        if terms:
            done = (first - start) / (stop - start)
            rate = rate_at_start + (rate_at_stop - rate_at_start) * done
            rows_I, rows_O, weights = map(np.array, zip(*terms))
            loss += descend_plainly(I, O, rows_I, rows_O, weights, rate)
        n_pairs += len(pairs)
    return loss, n_pairs


def descend_plainly(
    I: np.ndarray,
    O: np.ndarray,
    rows_I: np.ndarray,
    rows_O: np.ndarray,
    weights: np.ndarray,
    rate: float,
) -> float:
    """One step of gradient descent, in place; the loss before it.

    loss = sum over t of |weights[t]| softplus(-sign(weights[t]) I[rows_I[t]] @ O[rows_O[t]])
    """
    X = I[rows_I]
    Y = O[rows_O]
    z = -np.sign(weights) * (X * Y).sum(axis=1)
    sigmoid = np.exp(-np.logaddexp(0, -z))

    steps = (rate * weights * sigmoid)[:, None]
    np.add.at(I, rows_I, steps * Y)
    np.add.at(O, rows_O, steps * X)
    losses = np.abs(weights) * np.logaddexp(0, z)
    return losses.sum()
