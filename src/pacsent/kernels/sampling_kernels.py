"""Kernels of the methods with negative sampling: w-PB-neg, PV-DBOW.

Random numbers come from a state that is handed in. Sums may be reassociated by the compiler
(`reassoc`), nothing else.
"""

import math
from typing import NamedTuple

import numpy as np

from pacsent.kernels.compiling import njit
from pacsent.kernels.intrinsics import LINE, fetch_line

_F = np.float32
_FLAGS = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc"}}


@njit(**_FLAGS)
def fetch_rows(table, rows, start, stop):
    """Have table[rows[start:stop]] brought into the cache, or as many of these as there are."""
    for a in range(start, min(stop, rows.size)):
        for column in range(0, table.shape[1], LINE):
            fetch_line(table, rows[a], column)


# ---- Exponentials in single precision ----------------------------------------------------------


@njit(inline="always", **_FLAGS)
def power_of_two32(t):
    """2^t to 4e-6 relative, for t cut at -80 and 80: vectors, no call."""
    # 2^-80 is as good as 0, and times a weight it is not subnormal, which would be slow
    t = _F(-80.0) if t < _F(-80.0) else t
    t = _F(80.0) if t > _F(80.0) else t
    shifted = t + _F(12582912.0)  # 1.5 * 2^23: the last bits now hold round(t)
    r = t - (shifted - _F(12582912.0))
    p = _F(0.0013333558)  # 2^r on [-1/2, 1/2]
    p = p * r + _F(0.009618129)
    p = p * r + _F(0.05550411)
    p = p * r + _F(0.24022651)
    p = p * r + _F(0.6931472)
    p = p * r + _F(1.0)
    whole = np.int32(np.float32(shifted).view(np.int32) - np.int32(0x4B400000) + np.int32(127))
    return p * np.int32(whole << np.int32(23)).view(np.float32)


@njit(inline="always", **_FLAGS)
def _sigmoid32(x):
    """1 / (1 + e^-x) to 4e-6 relative, in operations that the compiler turns into vectors."""
    return _F(1.0) / (_F(1.0) + power_of_two32(x * _F(-1.4426950408889634)))


# ---- Random numbers: xorshift64 with a state handed in, negatives by Walker's alias method ----

_13, _7, _17 = np.uint64(13), np.uint64(7), np.uint64(17)
_32, _11, _LOW = np.uint64(32), np.uint64(11), np.uint64(0xFFFFFFFF)


@njit(inline="always", **_FLAGS)
def _next(state):
    """The next 64 random bits; state is one number, not 0, changed in place."""
    x = state[0]
    x ^= x << _13
    x ^= x >> _7
    x ^= x << _17
    state[0] = x
    return x


@njit(inline="always", **_FLAGS)
def _log32(u):
    """log(u) for normal u > 0 to 1e-6, in operations that the compiler turns into vectors."""
    bits = np.float32(u).view(np.int32) - np.int32(0x3F3504F3)  # as if sqrt(1/2) were the unit
    whole = bits >> np.int32(23)
    m = np.int32((bits & np.int32(0x007FFFFF)) + np.int32(0x3F3504F3)).view(np.float32) - _F(1.0)
    p = _F(0.070376836)  # log(1 + m) on [sqrt(1/2) - 1, sqrt(2) - 1]
    p = p * m + _F(-0.11514610)
    p = p * m + _F(0.11676998)
    p = p * m + _F(-0.12420141)
    p = p * m + _F(0.14249323)
    p = p * m + _F(-0.16668057)
    p = p * m + _F(0.20000714)
    p = p * m + _F(-0.24999994)
    p = p * m + _F(0.33333331)
    fraction = m - _F(0.5) * m * m + p * m * m * m
    return np.float32(whole) * _F(0.6931471805599453) + fraction


@njit(**_FLAGS)
def _fill_normal(state, out):
    """Independent standard normal numbers, in place (Box and Muller, in single precision)."""
    half = (out.size + 1) // 2
    first, second = np.empty(half, np.uint32), np.empty(half, np.uint32)
    for i in range(half):
        bits = _next(state)
        first[i], second[i] = np.uint32(bits >> _32), np.uint32(bits & _LOW)
    pairs = np.empty((2, half), np.float32)
    x, y = pairs[0], pairs[1]
    for i in range(half):
        u = (np.float32(first[i]) + _F(0.5)) * _F(2.0**-32)
        radius = np.sqrt(_F(-2.0) * min(_log32(u), _F(0.0)))
        # an angle within an eighth of a turn of 0; two bits turn it anywhere
        t = np.float32(np.int32(second[i] >> np.uint32(2)) - np.int32(1 << 29))
        t *= _F(1.4629180792671596e-09)  # pi / 2^31
        q = t * t
        sine = t + t * q * (_F(-1 / 6) + q * (_F(1 / 120) - q * _F(1 / 5040)))
        cosine = _F(1.0) - q * (_F(0.5) - q * (_F(1 / 24) - q * (_F(1 / 720) - q * _F(1 / 40320))))
        sign = _F(1.0) - _F(2.0) * np.float32(np.int32(second[i] & np.uint32(1)))
        turned = (second[i] & np.uint32(2)) != np.uint32(0)
        x[i] = radius * sign * (sine if turned else cosine)
        y[i] = radius * sign * (cosine if turned else sine)
    for i in range(half):  # assigned to a part of the array, they take seconds to compile
        out[i] = x[i]
    for i in range(half, out.size):
        out[i] = y[i - half]


@njit(inline="always", **_FLAGS)
def _draw(state, keep, other):
    """One index with the probabilities of the alias table (keep, other)."""
    bits = _next(state)
    i = np.int64(((bits >> _32) * np.uint64(keep.size)) >> _32)
    instead = np.int64(other[i])  # read in any case: a branch would wait for both
    return instead if float(bits & _LOW) >= keep[i] * 4294967296.0 else i


@njit(**_FLAGS)
def _sigmoid(x):
    if x >= 0.0:
        return 1.0 / (1.0 + math.exp(-x))
    e = math.exp(x)
    return e / (1.0 + e)


# ---- Rows of a table: products and sums ---------------------------------------------------------


@njit(**_FLAGS)
def _score(h, row):
    a = h.dtype.type(0.0)
    for d in range(h.size):
        a += h[d] * row[d]
    return a


@njit(**_FLAGS)
def _step_along(h, row, target, scale, grad):
    """Add scale[0] * (sigmoid(h.row) - target) * row to grad, in place; sigmoid' there."""
    p = _sigmoid(_score(h, row))
    scale[1] = scale[0] * (p - target)
    step = scale[1]
    for d in range(h.size):
        grad[d] += step * row[d]
    return p * (1.0 - p)


@njit(**_FLAGS)
def _scores_4(h, A, picked, scores):
    """Into scores: h.row of the four rows of A that are picked, h read once for all."""
    r0, r1, r2, r3 = A[picked[0]], A[picked[1]], A[picked[2]], A[picked[3]]
    a0 = a1 = a2 = a3 = h.dtype.type(0.0)
    for d in range(h.size):  # from 0 on: vectors of whole rows, no rest
        a0 += h[d] * r0[d]
        a1 += h[d] * r1[d]
        a2 += h[d] * r2[d]
        a3 += h[d] * r3[d]
    scores[0], scores[1], scores[2], scores[3] = a0, a1, a2, a3


@njit(**_FLAGS)
def _add_rows_4(A, picked, errors, grad):
    """Add the four rows of A that are picked, times their errors, to grad."""
    r0, r1, r2, r3 = A[picked[0]], A[picked[1]], A[picked[2]], A[picked[3]]
    e0, e1, e2, e3 = errors[0], errors[1], errors[2], errors[3]
    for d in range(grad.size):
        grad[d] += e0 * r0[d] + e1 * r1[d] + e2 * r2[d] + e3 * r3[d]


@njit(**_FLAGS)
def _add_rows(A, picked, amounts, grad):
    """Add the rows of A that are picked, times their amounts, to grad; by fours, fetched ahead.

    There may be more words than amounts: those that come next are fetched.
    """
    whole = amounts.size - amounts.size % 4
    for k in range(0, whole, 4):
        fetch_rows(A, picked, k + 4, k + 8)
        _add_rows_4(A, picked[k:], amounts[k:], grad)
    for k in range(whole, amounts.size):
        amount, row = amounts[k], A[picked[k]]
        for d in range(grad.size):
            grad[d] += amount * row[d]


@njit(**_FLAGS)
def _pick_noise(n, A, noise, state, picked):
    """The next n negatives; their rows are fetched."""
    words, keep, other, _ = noise
    for k in range(n):
        picked[k] = words[_draw(state, keep, other)]
    fetch_rows(A, picked, np.int64(0), n)


# ---- w-PB-neg by stochastic gradients -----------------------------------------------------------


MAX_DRAWS = 320  # negatives of one step: more of them hardly reduce the variance of the gradient


class EpochSentences(NamedTuple):
    """Sentences in the order of an epoch, so that the rows of words to come can be fetched."""

    indptr: np.ndarray  # (n_sentences + 1,): words of sentence s are indices[indptr[s] : ...]
    indices: np.ndarray
    fractions: np.ndarray  # of each word in its sentence
    n_tokens: np.ndarray  # (n_sentences,)
    weights: np.ndarray  # (n_sentences,)
    stiffness: np.ndarray  # (n_sentences,): bound on the curvature of each sentence's loss in h
    order: np.ndarray  # (n_sentences,): the prior mean of sentence s is m[order[s]]
    m: np.ndarray  # (n_sentences, n_dims), not in the order of the epoch


class WordStates(NamedTuple):
    """Posteriors of the words, which change."""

    D: np.ndarray  # (n_words, n_dims): means minus prior means
    z: np.ndarray  # (n_words,): var_P / var
    clock: np.ndarray  # (n_words,): when the penalty last acted on each word


class WordPriors(NamedTuple):
    """The penalty on the words."""

    rates: np.ndarray  # (n_words,): 1 / (var_P lam)
    var_P: np.ndarray  # (n_words,)
    c: float  # n_dims / (2 lam)


class NoiseTable(NamedTuple):
    """The negatives: their alias table and moments."""

    keep: np.ndarray  # (n_words,)
    other: np.ndarray  # (n_words,)
    n_negatives: int
    mean: np.ndarray  # (n_dims,): E A_j
    moment: np.ndarray  # (n_dims, n_dims): E A_j A_j'
    lengths: np.ndarray  # (n_words,): |A_j|^2


class EpochSchedule(NamedTuple):
    """The steps of an epoch."""

    start: float  # the clock when it begins
    eta: float  # step, and time that passes with each sentence
    block: int  # sentences that step together, at most
    budget: float  # of `stable_block_size`


class Memory(NamedTuple):
    """A thread's own numbers, which change."""

    state: np.ndarray  # (1,): of the random numbers
    line: np.ndarray  # (2,): of `_noise_gradients`


@njit(**_FLAGS)
def apply_lazy_decay(D, z, clock, rates, c, now):
    """Let the penalty act on every word since it was last touched, in place; z = var_P/var."""
    for v in range(z.size):
        gap = now - clock[v]
        if gap > 0.0:
            fade = math.exp(-rates[v] * gap)
            for d in range(D.shape[1]):
                D[v, d] *= fade
            z[v] = 1.0 + (z[v] - 1.0) * math.exp(-c * gap)
            clock[v] = now


@njit(**_FLAGS)
def stable_block_size(begin, size, sentences, eta, budget, total):
    """(sentences from `begin` on that may step together, factor of their step).

    Sentence i moves its own h, and that of each sentence j it shares words with by K_ij =
    sum_v fraction_iv fraction_jv; so all are stable if
    eta * stiffness_i * sum_j K_ij weight_j <= budget for every i, 2 being the limit for one thread.
    The block is halved until that holds; a sentence for which it does not hold even alone takes a
    shorter step. `total` is one 0 for each word, and is that again afterwards.
    """
    indptr = sentences.indptr
    indices = sentences.indices
    fractions = sentences.fractions
    while True:
        for s in range(begin, begin + size):
            for j in range(indptr[s], indptr[s + 1]):
                total[indices[j]] += sentences.weights[s] * fractions[j]
        worst = 0.0
        for s in range(begin, begin + size):
            overlap = 0.0
            for j in range(indptr[s], indptr[s + 1]):
                overlap += fractions[j] * total[indices[j]]
            worst = max(worst, eta * sentences.stiffness[s] * overlap)
        for s in range(begin, begin + size):
            for j in range(indptr[s], indptr[s + 1]):
                total[indices[j]] = 0.0
        if worst <= budget:
            return size, 1.0
        if size == 1:
            return size, budget / worst
        size = (size + 1) // 2


@njit(inline="always", **_FLAGS)
def _exp_neg(x):
    """exp(-x) for x >= 0, which is mostly small here."""
    if x < 0.01:
        return 1.0 - x * (1.0 - x * (0.5 - x * (1.0 / 6.0 - x * (1.0 / 24.0))))
    return math.exp(-x)


@njit(**_FLAGS)
def _read_sentence(s, now, sentences, words, prior, e, h):
    """Write h_S = m + sum fraction_v D_v + deviation * e, words as of `now`."""
    indices = sentences.indices
    fractions = sentences.fractions
    fetch_rows(sentences.m, sentences.order, s + 1, s + 2)
    mean = sentences.m[sentences.order[s]]
    for d in range(h.size):
        h[d] = mean[d]
    spread = 0.0
    begin, end = sentences.indptr[s], sentences.indptr[s + 1]
    amounts = np.empty(end - begin, np.float32)
    for j in range(begin, end):
        v = indices[j]
        gap = max(0.0, now - words.clock[v])
        amounts[j - begin] = np.float32(fractions[j] * _exp_neg(prior.rates[v] * gap))
        precision = 1.0 + (words.z[v] - 1.0) * _exp_neg(prior.c * gap)
        spread += fractions[j] ** 2 * prior.var_P[v] / precision
    _add_rows(words.D, indices[begin:], amounts, h)
    amount = np.float32(math.sqrt(spread))
    for d in range(h.size):
        h[d] += amount * e[d]


@njit(**_FLAGS)
def _gather_noise(A, noise, state, picked, X, nu):
    """Draw a negative for every row of X, and copy its row of A there and its length to nu."""
    for j in range(len(X)):
        picked[j] = _draw(state, noise.keep, noise.other)
    for j in range(len(X)):
        fetch_rows(A, picked[: len(X)], j + 2, j + 3)
        row, to = A[picked[j]], X[j]
        for d in range(row.size):
            to[d] = row[d]
        nu[j] = noise.lengths[picked[j]]


@njit(**_FLAGS)
def _subtract_line(scores, nu, weight, line, sums):
    """Overwrite the scores a of one sentence with weight * (sigmoid(a) - level - slope * a).

    sums get what a regression of the sigmoids on the scores needs; the trace of the Hessian.
    """
    level, slope = np.float32(line[0]), np.float32(line[1])
    x_sum, a_sum, aa_sum, xa_sum = _F(0.0), _F(0.0), _F(0.0), _F(0.0)
    spread = _F(0.0)
    for j in range(scores.size):
        a = scores[j]
        x = _sigmoid32(a)
        x_sum += x
        a_sum += a
        aa_sum += a * a
        xa_sum += x * a
        spread += x * (_F(1.0) - x) * nu[j]
        scores[j] = weight * (x - level - slope * a)
    sums[0] += x_sum
    sums[1] += a_sum
    sums[2] += aa_sum
    sums[3] += xa_sum
    return weight * spread


@njit(**_FLAGS)
def _noise_gradients(H, n_draws, A, noise, memory, G, trace):
    """Write the sampled gradients of the negatives' loss in h, and the traces of its Hessians.

    The same n_draws words for all rows of H, weighted to stand for n_negatives each. What a
    straight line knows of their sigmoids is not left to chance: (level + slope * h.A_j) A_j is
    subtracted, and its expectation level * E A_j + slope * E[A_j A_j'] h added; the line is the
    one that fitted the words of the call before, so that the gradient is unbiased.
    """
    line = memory.line
    size, n_dims = H.shape
    tile = min(n_draws, 512)
    X, nu = np.empty((tile, n_dims), np.float32), np.empty(tile, np.float32)
    picked, sums = np.empty(tile, np.int64), np.zeros(4)
    scores, extra = np.empty(size * tile, np.float32), np.empty((size, n_dims), np.float32)
    weight = np.float32(noise.n_negatives / n_draws)
    level = np.float32(noise.n_negatives * line[0])
    slope = np.float32(noise.n_negatives * line[1])
    np.dot(H, noise.moment, extra)
    for i in range(size):
        trace[i] = 0.0
        for d in range(n_dims):
            G[i, d] = level * noise.mean[d] + slope * extra[i, d]
    for t in range(0, n_draws, tile):
        T = min(tile, n_draws - t)
        _gather_noise(A, noise, memory.state, picked, X[:T], nu)
        part = scores[: size * T].reshape(size, T)
        np.dot(H, X[:T].T, part)
        for i in range(size):
            trace[i] += _subtract_line(part[i], nu, weight, line, sums)
        np.dot(part, X[:T], extra)
        for i in range(size):
            for d in range(n_dims):
                G[i, d] += extra[i, d]
    # the straight line through these points, for the next call
    n = size * n_draws
    x, a = sums[0] / n, sums[1] / n
    spread = sums[2] / n - a * a
    slope_fit = 0.0
    if spread > 1e-6 * (1.0 + a * a):
        slope_fit = min(max((sums[3] / n - x * a) / spread, 0.0), 0.25)  # no sigmoid is steeper
    line[0], line[1] = x - slope_fit * a, slope_fit


@njit(**_FLAGS)
def _own_gradient(s, sentences, A, lengths, h, g):
    """Add the gradient of the loss of the sentence's own words to g; the trace of its Hessian."""
    indices = sentences.indices
    fractions = sentences.fractions
    begin, end = sentences.indptr[s], sentences.indptr[s + 1]
    whole = end - (end - begin) % 4
    errors, scale = np.empty(4, np.float32), np.empty(2, np.float32)
    trace = 0.0
    for j in range(begin, whole, 4):
        fetch_rows(A, indices, j + 4, j + 8)
        _scores_4(h, A, indices[j:], errors)
        for k in range(4):
            p = np.float32(_sigmoid(errors[k]))
            fraction = fractions[j + k]
            trace += fraction * p * (1.0 - p) * lengths[indices[j + k]]
            errors[k] = fraction * (p - 1.0)
        _add_rows_4(A, indices[j:], errors, g)
    for j in range(whole, end):
        scale[0] = fractions[j]
        trace += fractions[j] * _step_along(h, A[indices[j]], 1.0, scale, g) * lengths[indices[j]]
    return trace


@njit(inline="always", **_FLAGS)
def _decay_integral(rate, eta):
    """Integral of exp(-rate t) over [0, eta]."""
    x = rate * eta
    if x < 0.01:
        return eta * (1.0 - x * (0.5 - x * (1.0 / 6.0 - x * (1.0 / 24.0 - x * (1.0 / 120.0)))))
    return -math.expm1(-x) / rate


@njit(**_FLAGS)
def _move_words(s, now, eta, weight, sentences, words, prior, g, trace):
    """One step of the words of sentence s, in place: g is the gradient in h, trace/2 that in s^2.

    The mean follows D' = -rate D - gradient; z = var_P/var, the precision relative to the prior's,
    follows z' = c (1 - z) + trace/2 * fraction^2 var_P, which is linear, so no step can overshoot.
    """
    indices = sentences.indices
    fractions = sentences.fractions
    clock = words.clock
    z = words.z
    rates = prior.rates
    last = _decay_integral(prior.c, eta)
    for j in range(sentences.indptr[s], sentences.indptr[s + 1]):
        v = indices[j]
        fetch_rows(words.D, indices, j + 4, j + 5)
        # another thread may be ahead: the clock of a word never runs backwards
        until = max(clock[v], now + eta)
        elapsed = until - clock[v]
        fade = np.float32(_exp_neg(rates[v] * elapsed))
        amount = np.float32(weight * fractions[j] * _decay_integral(rates[v], eta))
        row = words.D[v]
        for d in range(g.size):
            row[d] = fade * row[d] - amount * g[d]
        push = 0.5 * weight * trace * fractions[j] ** 2 * prior.var_P[v]
        z[v] = 1.0 + (z[v] - 1.0) * _exp_neg(prior.c * elapsed) + push * last
        clock[v] = until


@njit(**_FLAGS)
def word_sgd(begins, sentences, A, words, prior, noise, schedule, memory):
    """Move the posteriors of the words downhill, sentence by sentence, in place.

    Loss of a step: mean over the tokens of sampled l_neg(h_S), h_S = m + sum_v fraction_v D_v +
    s eps, s^2 = sum_v fraction_v^2 var_v, plus the penalty of all words, which is caught up when a
    word is met. begins: places in the order of the epoch where blocks start. All sentences of a
    block read the words before any of them moves one, and use the same negatives:
    n_negatives * n_tokens of the longest, at most MAX_DRAWS. A block that `stable_block_size` finds
    unstable is cut.

    The arguments are `EpochSentences`, `WordStates`, `WordPriors`, `NoiseTable`, `EpochSchedule`
    and `Memory`.
    """
    order = sentences.order
    start = schedule.start
    eta = schedule.eta
    block = schedule.block
    budget = schedule.budget
    n_dims = A.shape[1]
    H = np.empty((block, n_dims), np.float32)
    G = np.empty((block, n_dims), np.float32)
    e = np.empty(n_dims, np.float32)
    trace, total = np.empty(block), np.zeros(A.shape[0])
    for first in begins:
        begin, end = first, min(first + block, order.size)
        while begin < end:
            size, factor = stable_block_size(begin, end - begin, sentences, eta, budget, total)
            n_draws = np.int64(0)
            for i in range(size):
                s = begin + i
                n_draws = min(max(n_draws, noise.n_negatives * sentences.n_tokens[s]), MAX_DRAWS)
                _fill_normal(memory.state, e)
                _read_sentence(s, start + eta * begin, sentences, words, prior, e, H[i])
            _noise_gradients(H[:size], n_draws, A, noise, memory, G, trace)
            for i in range(size):
                trace[i] += _own_gradient(begin + i, sentences, A, noise.lengths, H[i], G[i])
            for i in range(size):
                s = begin + i
                now = start + eta * s
                weight = factor * sentences.weights[s]
                _move_words(s, now, eta, weight, sentences, words, prior, G[i], trace[i])
            begin += size


# ---- PV-DBOW ------------------------------------------------------------------------------------


# Sentences that use the same negatives side by side: these and their vectors stay in the cache.
GROUP_SIZE = 16


@njit(**_FLAGS)
def _n_remaining(group, offsets, t, n):
    """How many of the first n sentences of a group have a token at place t."""
    while n > 0 and (group[n - 1] < 0 or offsets[group[n - 1] + 1] - offsets[group[n - 1]] <= t):
        n -= 1
    return n


@njit(**_FLAGS)
def _pick(t, group, sentences, A, noise, state, own, drawn):
    """The words of a group's sentences at place t, and negatives for it; both are fetched."""
    ids, offsets = sentences
    for i in range(group.size):
        own[i] = ids[offsets[group[i]] + t]
    fetch_rows(A, own, np.int64(0), group.size)
    _pick_noise(noise[3], A, noise, state, drawn)


@njit(**_FLAGS)
def _copy_rows(table, rows, out):
    for i in range(rows.size):
        row, to = table[rows[i]], out[i]
        for d in range(row.size):
            to[d] = row[d]


@njit(**_FLAGS)
def _add_row(amount, row, to):
    for d in range(row.size):
        to[d] += amount * row[d]


@njit(**_FLAGS)
def _step_together(H, A, own, drawn, step, train_words, memory):
    """One token of each row of H moves it, in place, and then the rows of A that were met."""
    X, S, G, M = memory
    n = len(H)
    moves, errors = S[:n], np.empty(n, A.dtype)
    _copy_rows(A, drawn, X)
    np.dot(H, X.T, moves)
    for i in range(n):
        errors[i] = _score(H[i], A[own[i]])
    flat = moves.reshape(moves.size)
    for k in range(flat.size):
        flat[k] = step * _sigmoid32(np.float32(flat[k]))
    for i in range(n):
        errors[i] = step * (_sigmoid32(np.float32(errors[i])) - _F(1.0))
    np.dot(moves, X, G[:n])
    for i in range(n):
        _add_row(errors[i], A[own[i]], G[i])
    if train_words:
        np.dot(moves.T, H, M)
        for k in range(drawn.size):
            _add_row(S.dtype.type(1.0), M[k], A[drawn[k]])
        for i in range(n):
            _add_row(errors[i], H[i], A[own[i]])
    for i in range(n):
        _add_row(S.dtype.type(1.0), G[i], H[i])


@njit(**_FLAGS)
def pv_dbow(groups, sentences, A, noise, eta, train_words, vectors):
    """One pass over some groups of sentences: each token moves its sentence's vector, and A.

    loss of a token = softplus(-h.A_w) + sum_j softplus(h.A_{n_j}), with n_negatives negatives.
    groups = (members, states), (n, GROUP_SIZE) sentences, long ones first, -1 for none, and a state
    of random numbers for each group; sentences = (ids, offsets); noise = (words, keep, other,
    n_negatives). The sentences of a group go on side by side, token by token. Each place draws its
    own negative samples, which all sentences of the group share there, so that rows are fetched
    once for all, while the place before is worked on. Rows of A move, if asked, once per place.
    """
    members, states = groups
    offsets = sentences[1]
    n_dims, n_drawn = A.shape[1], noise[3]
    H, G = np.empty((GROUP_SIZE, n_dims), A.dtype), np.empty((GROUP_SIZE, n_dims), A.dtype)
    X, M = np.empty((n_drawn, n_dims), A.dtype), np.empty((n_drawn, n_dims), A.dtype)
    memory = X, np.empty((GROUP_SIZE, n_drawn), A.dtype), G, M
    own, drawn = np.empty((2, GROUP_SIZE), np.int64), np.empty((2, n_drawn), np.int64)
    step = np.full(1, -eta, A.dtype)[0]
    for g in range(members.shape[0]):
        state = states[g : g + 1]
        t = np.int64(0)
        n = _n_remaining(members[g], offsets, t, members.shape[1])
        group = members[g, :n]
        _copy_rows(vectors, group, H)
        _pick(t, group, sentences, A, noise, state, own[0], drawn[0])
        while n > 0:
            mine, others = own[t % 2, :n], drawn[t % 2]
            t += 1
            n_next = _n_remaining(group, offsets, t, n)
            _pick(t, group[:n_next], sentences, A, noise, state, own[t % 2], drawn[t % 2])
            _step_together(H[:n], A, mine, others, step, train_words, memory)
            n = n_next
        for i in range(group.size):
            row, h = vectors[group[i]], H[i]
            for d in range(n_dims):
                row[d] = h[d]
