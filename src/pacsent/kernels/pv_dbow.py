"""Kernel of PV-DBOW: each token moves its sentence's vector, and rows of the words' table."""

import numpy as np

from pacsent.kernels.library import (
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    SIZE,
    UINT64,
    entry_point,
    needs_twins,
)
from pacsent.kernels.random import draw_indices_plainly

# Sentences that use the same negatives side by side: these and their vectors stay in the cache.
GROUP_SIZE = 16
_BATCH_PASSES = 512  # passes over a group in a call: Ctrl-C works between calls

_pv_dbow = entry_point(
    "pv_dbow",
    *(INT64, UINT64),  # members, states
    *(SIZE, SIZE, SIZE),  # groups begin to end, number of groups
    *(INT32, SIZE),  # ids, their number
    *(INT64, SIZE),  # offsets, number of texts
    *(FLOAT32, SIZE, SIZE),  # A, its rows and columns
    *(INT64, FLOAT64, INT32, SIZE),  # words of the noise, keep, other, their number
    SIZE,  # n_negatives
    *(FLOAT32, SIZE),  # rates, their number
    SIZE,  # whether words are trained
    FLOAT32,  # vectors
    *(FLOAT32, SIZE, INT64),  # room: rows, numbers of a row, words
    returns=SIZE,
)


def pv_dbow(
    groups: tuple[np.ndarray, np.ndarray],
    sentences: tuple[np.ndarray, np.ndarray],
    A: np.ndarray,
    noise: tuple[np.ndarray, np.ndarray, np.ndarray, int],
    rates: np.ndarray,
    train_words: bool,
    vectors: np.ndarray,
) -> None:
    """Passes over some groups of sentences: each token moves its sentence's vector, and A.

        loss of a token = softplus(-h.A_w) + sum_j softplus(h.A_{n_j}), with n_negatives negatives

    The sentences of a group go on side by side, token by token. Each place draws its own negative
    samples, which all sentences of the group share there. Rows of A move, if asked, once per place.

    Parameters
    ----------
    groups : members, states
        int64 (n_groups, GROUP_SIZE), sentences, long ones first, -1 for none; and uint64
        (n_epochs, n_groups), a state of random numbers for each pass over a group, not 0.
    sentences : ids, offsets
        int32 and int64. Sentence s is ids[offsets[s]:offsets[s + 1]].
    A : array, shape (n_words, n_dims)
    noise : words, keep, other, n_negatives
        Negatives are `words` drawn by the alias table (keep, other).
    rates : array, shape (n_epochs,)
        How far the passes follow the gradient. Where words are trained, there is one pass.
    vectors : array, shape (n_sentences, n_dims)

    A, rates and vectors are float32.
    """
    members, states = groups
    ids, offsets = sentences
    words, keep, other, n_negatives = noise
    n_words, n_dims = A.shape
    n_texts = offsets.size - 1
    if vectors.shape != (n_texts, n_dims) or members.shape[1:] != (GROUP_SIZE,):
        raise ValueError(
            f"Vectors of shape {vectors.shape} and groups of shape {members.shape} do not fit "
            f"{n_texts} sentences and words of {n_dims} numbers."
        )
    if states.shape != (rates.size, len(members)) or not states.all():
        raise ValueError(f"There must be {rates.size} x {len(members)} states that are not 0.")
    if not words.size == keep.size == other.size > 0:
        raise ValueError("The noise must be one alias table.")
    if train_words and rates.size > 1:
        raise ValueError("Words are trained pass by pass.")

    if not train_words and needs_twins():  # training needs the library
        pv_dbow_plainly(groups, sentences, A, noise, rates, train_words, vectors)
        return

    stride = -(-n_dims // 32) * 32
    n_drawn = -(-n_negatives // 4) * 4
    n_rows = 3 * GROUP_SIZE + 2 * n_drawn
    rows = np.zeros(n_rows * stride + n_drawn * GROUP_SIZE, np.float32)
    places = np.empty(2 * (GROUP_SIZE + n_negatives), np.int64)

    n_groups = len(members)
    n_batch_groups = max(1, _BATCH_PASSES // max(1, rates.size))
    for begin in range(0, n_groups, n_batch_groups):
        end = min(begin + n_batch_groups, n_groups)
        is_done = _pv_dbow(
            *(members, states),
            *(begin, end, n_groups),
            *(ids, ids.size, offsets, n_texts),
            *(A, n_words, n_dims),
            *(words, keep, other, words.size, n_negatives),
            *(rates, rates.size, train_words),
            *(vectors, rows, stride, places),
        )
        if not is_done:
            raise IndexError(f"Sentences, words or noise do not fit a table of {n_words} words.")


def pv_dbow_plainly(
    groups: tuple[np.ndarray, np.ndarray],
    sentences: tuple[np.ndarray, np.ndarray],
    A: np.ndarray,
    noise: tuple[np.ndarray, np.ndarray, np.ndarray, int],
    rates: np.ndarray,
    train_words: bool,
    vectors: np.ndarray,
) -> None:
    """As `pv_dbow`, in double precision where the arrays are."""
    members, states = groups
    ids, offsets = sentences
    words, keep, other, n_negatives = noise
    lengths = np.diff(offsets)
    for g, epoch in np.ndindex(len(members), len(rates)):
        group = members[g][members[g] >= 0]
        state = states[epoch, g : g + 1]  # a view, which moves on
        rate = rates[epoch]
        for t in range(lengths[group].max(initial=0)):
            longer = group[lengths[group] > t]  # the sentences that have a token t
            own = ids[offsets[longer] + t]
            drawn = words[draw_indices_plainly(state, keep, other, n_negatives)]

            # errors: derivatives of the loss in the scores of own words; slopes: of negatives.
            H = vectors[longer]
            X = A[drawn]
            own_scores = np.einsum("id,id->i", H, A[own])
            errors = 1.0 / (1.0 + np.exp(-own_scores)) - 1.0
            slopes = 1.0 / (1.0 + np.exp(-H @ X.T))

            vectors[longer] -= rate * (errors[:, None] * A[own] + slopes @ X)
            if train_words:
                np.subtract.at(A, drawn, rate * (slopes.T @ H))
                np.subtract.at(A, own, rate * (errors[:, None] * H))
