"""Kernels of w-PB-neg by stochastic gradients: the posteriors of the words move, block by block."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from pacsent.kernels.library import (
    DOUBLE,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    SIZE,
    UINT64,
    Array,
    BoundStruct,
    Struct,
    aligned_room,
    entry_point,
)
from pacsent.kernels.random import draw_indices, normal_numbers

WORD_STATE = np.dtype(
    [
        ("z", np.float64),  # var_P / var
        ("clock", np.float64),  # when the penalty last acted on the word
        ("rate", np.float64),  # 1 / (var_P lam)
        ("var_P", np.float64),  # variance of the prior
    ]
)
MAX_DRAWS = 320  # negatives of one step: more of them hardly reduce the variance of the gradient

_SENTENCES = Struct(
    starts=INT64,
    words=INT32,
    fractions=FLOAT64,
    n_tokens=INT64,
    weights=FLOAT64,
    stiffness=FLOAT64,
    order=INT64,
    m=FLOAT32,
    n_sentences=SIZE,
)
_WORDS = Struct(D=FLOAT32, states=Array(WORD_STATE), c=DOUBLE, n_words=SIZE, n_dims=SIZE)
_NOISE = Struct(
    A=FLOAT32,
    keep=FLOAT64,
    other=INT32,
    mean=FLOAT32,
    moment=FLOAT32,
    lengths=FLOAT32,
    n_negatives=SIZE,
)
_SCHEDULE = Struct(start=DOUBLE, eta=DOUBLE, budget=DOUBLE, block=SIZE)
_ROOM = Struct(
    state=UINT64,
    line=FLOAT64,
    H=FLOAT32,
    G=FLOAT32,
    X=FLOAT32,
    lengths=FLOAT32,
    scores=FLOAT32,
    normal=FLOAT32,
    trace=FLOAT64,
    total=FLOAT64,
    stride=SIZE,
    max_draws=SIZE,
)
_apply_lazy_decay = entry_point("apply_lazy_decay", _WORDS, DOUBLE)  # now
_word_sgd = entry_point(
    "word_sgd",
    *(INT64, SIZE),  # begins, how many
    *(_SENTENCES, _WORDS, _NOISE, _SCHEDULE, _ROOM),
)

_CALL_SENTENCES = 4096  # in a call: Ctrl-C works between calls
_COLUMN_MULTIPLE = 16


# ---- Arguments ----------------------------------------------------------------------------------


class EpochSentences(NamedTuple):
    """Sentences in the order of an epoch, so that the rows of words to come can be fetched."""

    starts: np.ndarray  # (n_sentences + 1,) int64: words of sentence s are words[starts[s] : ...]
    words: np.ndarray  # int32
    fractions: np.ndarray  # of each word in its sentence
    n_tokens: np.ndarray  # (n_sentences,) int64, at least 1
    weights: np.ndarray  # (n_sentences,)
    stiffness: np.ndarray  # (n_sentences,): bound on the curvature of each sentence's loss in h
    order: np.ndarray  # (n_sentences,) int64: the prior mean of sentence s is m[order[s]]
    m: np.ndarray  # (n, n_dims) float32, not in the order of the epoch


class LazyPosteriors(NamedTuple):
    """Posteriors of the words, which change, and the penalty on them."""

    D: np.ndarray  # (n_words, n_dims) float32: means minus prior means
    states: np.ndarray  # (n_words,) of WORD_STATE, which one read from memory finds
    c: float  # n_dims / (2 lam)

    @classmethod
    def at_prior(cls, n_dims: int, var_P: np.ndarray, lam: float) -> "LazyPosteriors":
        """Posteriors that are the priors, at time 0."""
        states = np.zeros(var_P.size, WORD_STATE)
        states["z"] = 1.0
        states["rate"] = 1.0 / (var_P * lam)
        states["var_P"] = var_P
        D = np.zeros((var_P.size, n_dims), np.float32)
        return cls(D, states, c=0.5 * n_dims / lam)


class NoiseTable(NamedTuple):
    """The negatives: their vectors, alias table and moments."""

    A: np.ndarray  # (n_words, n_dims) float32
    keep: np.ndarray  # (n_words,)
    other: np.ndarray  # (n_words,) int32
    n_negatives: int
    mean: np.ndarray  # (n_dims,) float32: E A_j
    moment: np.ndarray  # (n_dims, n_dims) float32: E A_j A_j'
    lengths: np.ndarray  # (n_words,) float32: |A_j|^2


class EpochSchedule(NamedTuple):
    """The steps of an epoch."""

    start: float  # the clock when it begins
    eta: float  # step, and time that passes with each sentence
    block: int  # sentences that step together, at most
    budget: float  # of `stable_block_size_plainly`


class Memory(NamedTuple):
    """A thread's own numbers, which change."""

    state: np.ndarray  # (1,) uint64: of the random numbers
    line: np.ndarray  # (2,): level and slope of a line through the sigmoids on the scores


# ---- The penalty over time ----------------------------------------------------------------------


def apply_lazy_decay(words: LazyPosteriors, now: float) -> None:
    """Let the penalty act on every word since it was last touched, in place.

    The flow for the time that passed: D fades with e^(-rate t), and z - 1 with e^(-c t).
    """
    _apply_lazy_decay(_bound_words(words), now)


def apply_lazy_decay_plainly(words: LazyPosteriors, now: float) -> None:
    """As `apply_lazy_decay`."""
    states = words.states
    gap = np.maximum(now - states["clock"], 0.0)
    words.D[...] *= np.exp(-states["rate"] * gap)[:, None]
    states["z"] = 1.0 + (states["z"] - 1.0) * np.exp(-words.c * gap)
    states["clock"] += gap


# ---- Stochastic gradients -----------------------------------------------------------------------


def word_sgd(
    begins: np.ndarray,
    sentences: EpochSentences,
    words: LazyPosteriors,
    noise: NoiseTable,
    schedule: EpochSchedule,
    memory: Memory,
) -> None:
    """Move the posteriors of the words downhill, sentence by sentence, in place.

    Loss of a step: mean over the tokens of sampled l_neg(h_S), h_S = m + sum_v fraction_v D_v +
    s eps, s^2 = sum_v fraction_v^2 var_v, plus the penalty of all words, which is caught up when a
    word is met. begins: places in the order of the epoch where blocks start. All sentences of a
    block read the words before any of them moves one, and use the same negatives:
    n_negatives * n_tokens of the longest, at most MAX_DRAWS. A block that
    `stable_block_size_plainly` finds unstable is cut.
    """
    _check_sentences(begins, sentences)
    if schedule.block < 1 or noise.n_negatives < 1 or sentences.n_tokens.min(initial=1) < 1:
        raise ValueError("Blocks, negatives and sentences must not be empty.")
    _check_noise(noise)
    if memory.state.shape != (1,) or memory.state[0] == 0 or memory.line.shape != (2,):
        raise ValueError("A memory is a state that is not 0, and a line of two numbers.")

    n_words, n_dims = words.D.shape
    if noise.A.shape != words.D.shape or sentences.m.shape[1:] != (n_dims,):
        raise ValueError(f"Vectors must have {n_dims} dimensions, and {n_words:,} words vectors.")
    if sentences.words.size and not (0 <= sentences.words.min() <= sentences.words.max() < n_words):
        raise ValueError(f"A word is none of the {n_words:,} that have posteriors.")

    stride = -(-n_dims // _COLUMN_MULTIPLE) * _COLUMN_MULTIPLE
    moment = _zeros(n_dims, stride)
    moment[:, :n_dims] = noise.moment
    n_rows = -(-schedule.block // 4) * 4
    arguments = (
        BoundStruct(_SENTENCES, **sentences._asdict(), n_sentences=sentences.order.size),
        _bound_words(words),
        BoundStruct(_NOISE, **{**noise._asdict(), "moment": moment}),
        BoundStruct(_SCHEDULE, **schedule._asdict()),
        BoundStruct(
            _ROOM,
            **memory._asdict(),
            H=_zeros(n_rows, stride),
            G=_zeros(n_rows, stride),
            X=_zeros(MAX_DRAWS, stride),
            lengths=_zeros(MAX_DRAWS),
            scores=_zeros(n_rows, MAX_DRAWS),
            normal=_zeros(n_dims),
            trace=np.zeros(n_rows),
            total=np.zeros(n_words),
            stride=stride,
            max_draws=MAX_DRAWS,
        ),
    )
    n_blocks = max(1, _CALL_SENTENCES // schedule.block)
    for first in range(0, begins.size, n_blocks):
        part = np.ascontiguousarray(begins[first : first + n_blocks], np.int64)
        _word_sgd(part, part.size, *arguments)


def _check_sentences(begins: np.ndarray, sentences: EpochSentences) -> None:
    n_sentences = sentences.order.size
    starts = sentences.starts
    per_sentence = (sentences.n_tokens, sentences.weights, sentences.stiffness)
    if starts.shape != (n_sentences + 1,) or any(x.size != n_sentences for x in per_sentence):
        raise ValueError(f"Arrays of {n_sentences:,} sentences differ in length.")
    if starts[0] != 0 or starts[-1] != sentences.words.size or np.any(np.diff(starts) < 0):
        raise ValueError("The starts of the sentences do not divide their words.")
    if sentences.fractions.shape != sentences.words.shape:
        raise ValueError("Every word of a sentence needs a fraction.")
    if n_sentences and not 0 <= sentences.order.min() <= sentences.order.max() < len(sentences.m):
        raise ValueError(f"A sentence is none of the {len(sentences.m):,} with prior means.")
    if begins.size and not 0 <= begins.min() <= begins.max() < n_sentences:
        raise ValueError(f"A block begins at none of the {n_sentences:,} sentences.")


def _check_noise(noise: NoiseTable) -> None:
    n_words = noise.keep.size
    n_dims = noise.A.shape[1]
    if noise.mean.shape != (n_dims,) or noise.moment.shape != (n_dims, n_dims):
        raise ValueError(f"The moments of the negatives must have {n_dims} dimensions.")
    per_word = (noise.other, noise.lengths)
    if len(noise.A) != n_words or any(x.shape != (n_words,) for x in per_word):
        raise ValueError(f"Arrays of {n_words:,} negatives differ in length.")
    if n_words == 0 or not 0 <= noise.other.min() <= noise.other.max() < n_words:
        raise ValueError(f"A negative is none of the {n_words:,} words.")


def _zeros(*shape: int) -> np.ndarray:
    room = aligned_room(*shape)
    room[...] = 0.0
    return room


def _bound_words(words: LazyPosteriors) -> BoundStruct:
    n_words, n_dims = words.D.shape
    if words.states.shape != (n_words,):
        raise ValueError(f"The states of {n_words:,} words have the shape {words.states.shape}.")
    return BoundStruct(_WORDS, **words._asdict(), n_words=n_words, n_dims=n_dims)


def word_sgd_plainly(
    begins: np.ndarray,
    sentences: EpochSentences,
    words: LazyPosteriors,
    noise: NoiseTable,
    schedule: EpochSchedule,
    memory: Memory,
) -> None:
    """As `word_sgd`, in double precision but for D and the random numbers."""
    for first in begins:
        begin = first
        end = min(first + schedule.block, sentences.order.size)
        while begin < end:
            size, factor = stable_block_size_plainly(
                begin, end - begin, sentences, len(words.D), schedule.eta, schedule.budget
            )
            rows = np.arange(begin, begin + size)
            _step_plainly(rows, factor, sentences, words, noise, schedule, memory)
            begin += size


def stable_block_size_plainly(
    begin: int, size: int, sentences: EpochSentences, n_words: int, eta: float, budget: float
) -> tuple[int, float]:
    """(sentences from `begin` on that may step together, factor of their step).

    Sentence i moves its own h, and that of each sentence j it shares words with by K_ij =
    sum_v fraction_iv fraction_jv; so all are stable if
    eta * stiffness_i * sum_j K_ij weight_j <= budget for every i, 2 being the limit for one thread.
    The block is halved until that holds; a sentence for which it does not hold even alone takes a
    shorter step.
    """
    while True:
        rows = range(begin, begin + size)
        fractions = np.zeros((size, n_words))
        for i, s in enumerate(rows):
            own, own_fractions = _own(sentences, s)
            np.add.at(fractions[i], own, own_fractions)

        overlap = fractions @ (sentences.weights[rows] @ fractions)
        worst = np.max(eta * sentences.stiffness[rows] * overlap)
        if worst <= budget:
            return size, 1.0
        if size == 1:
            return size, min(1.0, budget / worst) if worst > 0.0 else 1.0
        size = (size + 1) // 2


def _step_plainly(
    rows: np.ndarray,
    factor: float,
    sentences: EpochSentences,
    words: LazyPosteriors,
    noise: NoiseTable,
    schedule: EpochSchedule,
    memory: Memory,
) -> None:
    A = noise.A
    D = words.D
    k = noise.n_negatives
    level, slope = memory.line

    # Every sentence is drawn from the posteriors of its words.
    H = np.empty((rows.size, D.shape[1]))
    now = schedule.start + schedule.eta * rows[0]
    for i, s in enumerate(rows):
        own, fractions = _own(sentences, s)
        before = words.states[own]
        gap = np.maximum(now - before["clock"], 0.0)
        z = 1.0 + (before["z"] - 1.0) * np.exp(-words.c * gap)
        deviation = math.sqrt(np.sum(fractions**2 * before["var_P"] / z))
        H[i] = sentences.m[sentences.order[s]]
        H[i] += (fractions * np.exp(-before["rate"] * gap)) @ D[own]
        H[i] += deviation * normal_numbers(memory.state, D.shape[1])

    # The negatives, less what a line knows of their sigmoids.
    n_draws = min(k * sentences.n_tokens[rows].max(), MAX_DRAWS)
    drawn = draw_indices(memory.state, noise.keep, noise.other, n_draws)
    scores = H @ A[drawn].T  # (n_rows, n_draws)
    x = expit(scores)
    residuals = x - level - slope * scores
    G = k / n_draws * residuals @ A[drawn]
    G += k * (level * noise.mean + slope * H @ noise.moment)
    trace = k / n_draws * (x * (1.0 - x)) @ noise.lengths[drawn]

    # The line through their sigmoids, for the next step; no sigmoid is steeper than 1/4.
    spread = scores.var()
    memory.line[1] = 0.0
    if spread > 1e-6 * (1.0 + scores.mean() ** 2):
        covariance = np.mean((x - x.mean()) * scores)
        memory.line[1] = np.clip(covariance / spread, 0.0, 0.25)
    memory.line[0] = x.mean() - memory.line[1] * scores.mean()

    for i, s in enumerate(rows):
        own, fractions = _own(sentences, s)
        p = expit(A[own] @ H[i])
        G[i] += (fractions * (p - 1.0)) @ A[own]
        trace[i] += (fractions * p * (1.0 - p)) @ noise.lengths[own]

    # The words move, one sentence after the other; no clock runs backwards.
    for i, s in enumerate(rows):
        own, fractions = _own(sentences, s)
        weight = factor * sentences.weights[s]
        before = words.states[own]
        until = np.maximum(before["clock"], schedule.start + schedule.eta * (s + 1))
        elapsed = until - before["clock"]
        rate = before["rate"]
        moved = weight * fractions * -np.expm1(-rate * schedule.eta) / rate
        D[own] = np.exp(-rate * elapsed)[:, None] * D[own] - moved[:, None] * G[i]

        push = 0.5 * weight * trace[i] * fractions**2 * before["var_P"]
        push *= -math.expm1(-words.c * schedule.eta) / words.c
        decayed_z = 1.0 + (before["z"] - 1.0) * np.exp(-words.c * elapsed)
        words.states["z"][own] = decayed_z + push
        words.states["clock"][own] = until


def _own(sentences: EpochSentences, s: int) -> tuple[np.ndarray, np.ndarray]:
    """The words of sentence s and their fractions."""
    part = slice(sentences.starts[s], sentences.starts[s + 1])
    return sentences.words[part], sentences.fractions[part]
