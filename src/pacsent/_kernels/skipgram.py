"""Skip-gram with negative sampling: the compiled inner loops, and only those.

`I` and `O` are the two tables being trained, rows padded with zeros to a multiple of 16 floats.
For every pair of a centre word c and a context word i of its window, both trainers descend

    loss(i, c) = -log sigmoid(I[i] @ O[c]) - sum over n_negatives noise words n of
                  log sigmoid(-I[i] @ O[n]),        terms with n == c left out,

that is, as in word2vec, the input vector belongs to the context word and the output vector to the
centre word. `train_pairs` draws fresh noise for every pair. `train_blocks` draws noise once for
a block of consecutive centre words: the block becomes three small matrix products.

Threads may call the trainers on the same tables at the same time (lock-free, "Hogwild").
"""

import numpy as np
from numba import config, njit
from numba.core import types
from numba.extending import intrinsic

# reassoc: a sum may be taken in any order, without which no dot product becomes vector code;
# contract: a * b + c may be one instruction. NaN and infinity keep their meaning.
_MATHS = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy"}
_OPTIONS = {"cache": True, "nogil": True, **_MATHS}

_LOW = np.uint64(0xFFFFFFFF)
_HALF_WORD = np.uint64(32)
_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)


if config.DISABLE_JIT:

    def _wide():
        """Only the compiler listens to this."""

else:

    @intrinsic
    def _wide(typing_context):
        """Let the calling function use 512-bit vectors where the CPU has them.

        The compiler's own choice is 256 bits, from the days when wide vectors slowed the clock.
        """

        def codegen(context, builder, signature, arguments):
            # llvmlite admits only attributes it knows by name; the set itself takes any
            set.add(builder.function.attributes, '"prefer-vector-width"="512"')
            return context.get_dummy_value()

        return types.none(), codegen


# ------------------------------------------------------------------------------------------------
# Randomness: splitmix64, a counter put through a mixing function
# ------------------------------------------------------------------------------------------------


@njit(inline="always")
def _mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(inline="always")
def _draw(state):
    """The next 64 random bits; `state` (one uint64) moves on in place."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return _mix(state[0])


@njit(inline="always")
def _draw_window(state, window):
    """Uniform on 1..window."""
    return np.int64(((_draw(state) >> _HALF_WORD) * np.uint64(window)) >> _HALF_WORD) + 1


@njit(inline="always")
def _draw_noise(state, thresholds, aliases):
    """One word from the alias table: the high half of the bits picks a column, the low half
    decides between its word and its alias."""
    bits = _draw(state)
    column = np.int64(((bits >> _HALF_WORD) * np.uint64(aliases.size)) >> _HALF_WORD)
    if (bits & _LOW) < thresholds[column]:
        return column
    return np.int64(aliases[column])


@njit(cache=True)
def alias_table(probabilities):
    """Walker's alias table: (thresholds uint64 of 2^32, aliases int32).

    Word w is drawn with probability (threshold[w] + sum over v with aliases[v] == w of
    (2^32 - threshold[v])) / (2^32 n).
    """
    n = probabilities.size
    share = probabilities * n
    thresholds = np.empty(n, np.uint64)
    aliases = np.arange(n).astype(np.int32)
    stack = np.empty(n, np.int64)  # poor columns from the left, rich ones from the right
    n_poor, n_rich = 0, 0
    for w in range(n):
        if share[w] < 1.0:
            stack[n_poor] = w
            n_poor += 1
        else:
            n_rich += 1
            stack[n - n_rich] = w
    while n_poor > 0 and n_rich > 0:
        poor, rich = stack[n_poor - 1], stack[n - n_rich]
        aliases[poor] = rich
        share[rich] -= 1.0 - share[poor]
        n_poor -= 1
        if share[rich] < 1.0:
            n_rich -= 1
            stack[n_poor] = rich
            n_poor += 1
    for w in range(n):
        own = 1.0 if aliases[w] == w else max(0.0, share[w])
        thresholds[w] = np.uint64(own * 4294967296.0)
    return thresholds, aliases


@njit(cache=True, nogil=True)
def subsample(ids, first, thresholds, key, kept):
    """Positions (from `first`) of the tokens that this epoch keeps, into `kept`; how many.

    A token's fate depends on `key` (seed and epoch) and its place in the corpus only, so that
    every worker that looks at it, from either side of a border, finds the same:
    keep if mix(key + place * odd) >> 32 < thresholds[id].
    """
    n = 0
    for j in range(ids.size):
        place = np.uint64(first + j)
        bits = _mix(key + place * np.uint64(0x9E3779B97F4A7C15))
        if (bits >> _HALF_WORD) < thresholds[ids[j]]:
            kept[n] = j
            n += 1
    return n


# ------------------------------------------------------------------------------------------------
# Row arithmetic. Every row is a multiple of 16 floats long: no loop has a remainder.
# ------------------------------------------------------------------------------------------------


@njit(**_OPTIONS)
def _copy_row(table, row, buffer, a):
    """buffer[a] = table[row], in place."""
    _wide()
    for i in range((table.shape[1] >> 4) << 4):
        buffer[a, i] = table[row, i]


@njit(**_OPTIONS)
def _scores(X, Y, S, a, n):
    """S[a:a+4, n:n+4] = X[a:a+4] @ Y[n:n+4].T, in place: sixteen sums held in registers."""
    _wide()
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = _ZERO
    s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = _ZERO
    for i in range((X.shape[1] >> 4) << 4):
        x0, x1, x2, x3 = X[a, i], X[a + 1, i], X[a + 2, i], X[a + 3, i]
        y0, y1, y2, y3 = Y[n, i], Y[n + 1, i], Y[n + 2, i], Y[n + 3, i]
        s00 += x0 * y0
        s10 += x1 * y0
        s20 += x2 * y0
        s30 += x3 * y0
        s01 += x0 * y1
        s11 += x1 * y1
        s21 += x2 * y1
        s31 += x3 * y1
        s02 += x0 * y2
        s12 += x1 * y2
        s22 += x2 * y2
        s32 += x3 * y2
        s03 += x0 * y3
        s13 += x1 * y3
        s23 += x2 * y3
        s33 += x3 * y3
    S[a, n], S[a, n + 1], S[a, n + 2], S[a, n + 3] = s00, s01, s02, s03
    S[a + 1, n], S[a + 1, n + 1], S[a + 1, n + 2], S[a + 1, n + 3] = s10, s11, s12, s13
    S[a + 2, n], S[a + 2, n + 1], S[a + 2, n + 2], S[a + 2, n + 3] = s20, s21, s22, s23
    S[a + 3, n], S[a + 3, n + 1], S[a + 3, n + 2], S[a + 3, n + 3] = s30, s31, s32, s33


@njit(**_OPTIONS)
def _add_8(table, row_0, row_1, G, a, X, n):
    """table[row_0] += G[a, n:n+8] @ X[n:n+8] and row_1 from G[a + 1], in place, in this order."""
    _wide()
    g0, g1, g2, g3 = G[a, n], G[a, n + 1], G[a, n + 2], G[a, n + 3]
    g4, g5, g6, g7 = G[a, n + 4], G[a, n + 5], G[a, n + 6], G[a, n + 7]
    h0, h1, h2, h3 = G[a + 1, n], G[a + 1, n + 1], G[a + 1, n + 2], G[a + 1, n + 3]
    h4, h5, h6, h7 = G[a + 1, n + 4], G[a + 1, n + 5], G[a + 1, n + 6], G[a + 1, n + 7]
    for i in range((table.shape[1] >> 4) << 4):
        x0, x1, x2, x3 = X[n, i], X[n + 1, i], X[n + 2, i], X[n + 3, i]
        x4, x5, x6, x7 = X[n + 4, i], X[n + 5, i], X[n + 6, i], X[n + 7, i]
        table[row_0, i] += (
            g0 * x0 + g1 * x1 + g2 * x2 + g3 * x3 + g4 * x4 + g5 * x5 + g6 * x6 + g7 * x7
        )
        table[row_1, i] += (
            h0 * x0 + h1 * x1 + h2 * x2 + h3 * x3 + h4 * x4 + h5 * x5 + h6 * x6 + h7 * x7
        )


@njit(**_OPTIONS)
def _add_4(table, row_0, row_1, G, a, X, n):
    """table[row_0] += G[a, n:n+4] @ X[n:n+4] and row_1 from G[a + 1], in place, in this order."""
    _wide()
    g0, g1, g2, g3 = G[a, n], G[a, n + 1], G[a, n + 2], G[a, n + 3]
    h0, h1, h2, h3 = G[a + 1, n], G[a + 1, n + 1], G[a + 1, n + 2], G[a + 1, n + 3]
    for i in range((table.shape[1] >> 4) << 4):
        x0, x1, x2, x3 = X[n, i], X[n + 1, i], X[n + 2, i], X[n + 3, i]
        table[row_0, i] += g0 * x0 + g1 * x1 + g2 * x2 + g3 * x3
        table[row_1, i] += h0 * x0 + h1 * x1 + h2 * x2 + h3 * x3


@njit(inline="always")
def _sigmoid(x):
    """1 / (1 + exp(-x)) to float32 precision, as 1/2 + tanh(x/2)/2 with a rational tanh.

    No branch and no call, so that a loop over it becomes vector code.
    """
    h = min(max(_HALF * x, np.float32(-7.9)), np.float32(7.9))
    q = h * h
    p = np.float32(-2.76076847742355e-16)
    p = p * q + np.float32(2.00018790482477e-13)
    p = p * q + np.float32(-8.60467152213735e-11)
    p = p * q + np.float32(5.12229709037114e-08)
    p = p * q + np.float32(1.48572235717979e-05)
    p = p * q + np.float32(6.37261928875436e-04)
    p = p * q + np.float32(4.89352455891786e-03)
    d = np.float32(1.19825839466702e-06)
    d = d * q + np.float32(1.18534705686654e-04)
    d = d * q + np.float32(2.26843463243900e-03)
    d = d * q + np.float32(4.89352518554385e-03)
    return _HALF + _HALF * h * p / d


@njit(inline="always")
def _minus_log(y):
    """-log(y) for y in [1/2, 1], as -2 atanh((y - 1) / (y + 1))."""
    u = (y - _ONE) / (y + _ONE)
    q = u * u
    p = np.float32(1 / 13)
    p = p * q + np.float32(1 / 11)
    p = p * q + np.float32(1 / 9)
    p = p * q + np.float32(1 / 7)
    p = p * q + np.float32(1 / 5)
    p = p * q + np.float32(1 / 3)
    return np.float32(-2) * u * (p * q + _ONE)


@njit(**_OPTIONS)
def _gradients(S, weights, G, learning_rate):
    """G = learning_rate * weights * sigmoid(z), in place; the sum of |weights| * softplus(z).

    z = -S where the weight is positive (a pair that was seen), S where it is negative (noise).
    Equivalent to -learning_rate times the gradient of the sum with respect to S.
    """
    _wide()
    loss = 0.0
    for j in range(S.size):
        weight = weights[j]
        z = -S[j] if weight > _ZERO else S[j]
        sigmoid = _sigmoid(z)
        G[j] = learning_rate * weight * sigmoid
        # softplus(z) = max(z, 0) - log sigmoid(|z|), which neither overflows nor cancels
        loss += np.float64(abs(weight) * (max(z, _ZERO) + _minus_log(max(sigmoid, _ONE - sigmoid))))
    return loss


# ------------------------------------------------------------------------------------------------
# Noise shared by a block of centre words
# ------------------------------------------------------------------------------------------------


@njit(**_OPTIONS)
def seen_step(I, O, row_I, row_O, learning_rate):
    """One step on a pair that was seen, in place; its loss before the step.

    loss = -log sigmoid(I[row_I] @ O[row_O])
    """
    _wide()
    n_dims = (I.shape[1] >> 4) << 4
    score = _ZERO
    for i in range(n_dims):
        score += I[row_I, i] * O[row_O, i]
    sigmoid = _sigmoid(-score)
    g = learning_rate * sigmoid
    for i in range(n_dims):
        x, y = I[row_I, i], O[row_O, i]
        I[row_I, i] = x + g * y
        O[row_O, i] = y + g * x
    return np.float64(max(-score, _ZERO) + _minus_log(max(sigmoid, _ONE - sigmoid)))


@njit(**_OPTIONS)
def noise_step(I, O, rows_I, rows_O, weights, learning_rate, buffers):
    """One step on context words against noise, in place; the loss before the step.

    loss = -sum over a, n of weights[a, n] log sigmoid(-I[rows_I[a]] @ O[rows_O[n]])

    All scores come from the tables as they were before the step. `rows_I` and `rows_O` have a
    multiple of four entries, the spare ones with weight 0; a row may occur more than once.
    """
    _wide()
    X, Y, S, G = buffers  # (n_rows_I, n_dims), (n_rows_O, n_dims), twice (n_rows_I, n_rows_O)
    n_I, n_O = rows_I.size, rows_O.size
    for a in range(n_I):
        _copy_row(I, rows_I[a], X, a)
    for n in range(n_O):
        _copy_row(O, rows_O[n], Y, n)
    for a in range(0, n_I, 4):
        for n in range(0, n_O, 4):
            _scores(X, Y, S, a, n)
    used = n_I * n_O
    loss = _gradients(
        S.reshape(-1)[:used], weights.reshape(-1)[:used], G.reshape(-1)[:used], learning_rate
    )
    GT = G.T
    for n in range(0, n_O, 2):
        a = 0
        while a + 8 <= n_I:
            _add_8(O, rows_O[n], rows_O[n + 1], GT, n, X, a)
            a += 8
        if a < n_I:
            _add_4(O, rows_O[n], rows_O[n + 1], GT, n, X, a)
    for a in range(0, n_I, 2):
        n = 0
        while n + 8 <= n_O:
            _add_8(I, rows_I[a], rows_I[a + 1], G, a, Y, n)
            n += 8
        if n < n_O:
            _add_4(I, rows_I[a], rows_I[a + 1], G, a, Y, n)
    return loss


@njit(**_OPTIONS)
def train_blocks(I, O, tokens, documents, span, shape, noise, state):
    """Train on the centres tokens[start:stop] in blocks, in place; (sum of losses, pairs).

    span = (start, stop, learning rate at start, at stop);
    shape = (window, n_negatives, centres in a block, noise words for a block).

    The pairs of a block are trained one after the other, as word2vec does. Then the context words
    of the block meet its noise: a noise word counts, against a context word, the pairs of that
    word whose centre is another word, times n_negatives / noise words. In expectation this is the
    loss of word2vec.
    """
    start, stop, rate_start, rate_stop = span
    window, n_negatives, n_block, n_noise = shape
    thresholds, aliases = noise
    each = np.float32(n_negatives / n_noise)
    n_most = (n_block + 2 * window + 3) >> 2 << 2
    rows_I = np.empty(n_most, np.int64)
    rows_O = np.empty(n_noise, np.int64)
    weights = np.empty((n_most, n_noise), np.float32)
    reaches = np.empty(n_block, np.int64)
    n_pairs_of = np.empty(n_most, np.int64)  # pairs that a context word is in
    buffers = (
        np.zeros((n_most, I.shape[1]), np.float32),
        np.zeros((n_noise, I.shape[1]), np.float32),
        np.zeros((n_most, n_noise), np.float32),
        np.zeros((n_most, n_noise), np.float32),
    )
    loss = 0.0
    n_pairs = 0
    for t in range(start, stop, n_block):
        n_centres = min(n_block, stop - t)
        rate = np.float32(rate_start + (rate_stop - rate_start) * ((t - start) / (stop - start)))
        first = max(0, t - window)
        n_rows = min(tokens.size, t + n_centres + window) - first
        n_padded = (n_rows + 3) >> 2 << 2
        n_pairs_of[:] = 0
        for c in range(n_centres):
            reach = _draw_window(state, window)
            reaches[c] = reach
            centre = t + c
            for j in range(max(first, centre - reach), min(first + n_rows, centre + reach + 1)):
                if j != centre and documents[j] == documents[centre]:
                    loss += seen_step(I, O, tokens[j], tokens[centre], rate)
                    n_pairs_of[j - first] += 1
                    n_pairs += 1
        for a in range(n_padded):
            # a spare row has weight 0; it differs from its neighbour so that both can be
            # updated together
            rows_I[a] = tokens[first + (a if a < n_rows else (a & 1) * (n_rows - 1))]
        for n in range(n_noise):
            word = _draw_noise(state, thresholds, aliases)
            rows_O[n] = word
            for a in range(n_padded):
                weights[a, n] = -each * np.float32(n_pairs_of[a])
            for c in range(n_centres):
                centre = t + c
                if tokens[centre] == word:
                    for j in range(
                        max(first, centre - reaches[c]),
                        min(first + n_rows, centre + reaches[c] + 1),
                    ):
                        if j != centre and documents[j] == documents[centre]:
                            weights[j - first, n] += each
        loss += noise_step(I, O, rows_I[:n_padded], rows_O, weights, rate, buffers)
    return loss, n_pairs


# ------------------------------------------------------------------------------------------------
# Fresh noise for every pair, as word2vec does it
# ------------------------------------------------------------------------------------------------


@njit(**_OPTIONS)
def _scores_1(I, row, Y, S, n):
    """S[n:n+4] = Y[n:n+4] @ I[row], in place."""
    _wide()
    s0 = s1 = s2 = s3 = _ZERO
    for i in range((I.shape[1] >> 4) << 4):
        x = I[row, i]
        s0 += x * Y[n, i]
        s1 += x * Y[n + 1, i]
        s2 += x * Y[n + 2, i]
        s3 += x * Y[n + 3, i]
    S[n], S[n + 1], S[n + 2], S[n + 3] = s0, s1, s2, s3


@njit(**_OPTIONS)
def _add_1(table, row, g, X, n):
    """table[row] += g * X[n], in place."""
    _wide()
    for i in range((table.shape[1] >> 4) << 4):
        table[row, i] += g * X[n, i]


@njit(**_OPTIONS)
def pair_step(I, O, row_I, rows_O, weights, learning_rate, buffers):
    """One step of gradient descent on one pair and its noise, in place; its loss before the step.

    As `block_step` with one context word: `rows_O` and `weights` have a multiple of four entries.
    """
    _wide()
    X, Y, S, G = buffers  # (2, n_dims), (n_rows_O, n_dims), twice (n_rows_O,)
    for n in range(rows_O.size):
        _copy_row(O, rows_O[n], Y, n)
    for n in range(0, rows_O.size, 4):
        _scores_1(I, row_I, Y, S, n)
    loss = _gradients(S, weights, G, learning_rate)
    _copy_row(I, row_I, X, 0)
    for n in range(rows_O.size):
        if G[n] != _ZERO:
            _add_1(O, rows_O[n], G[n], X, 0)
            _add_1(I, row_I, G[n], Y, n)
    return loss


@njit(**_OPTIONS)
def train_pairs(I, O, tokens, documents, span, shape, noise, state):
    """Train on the centres tokens[start:stop], pair by pair, in place; (sum of losses, pairs).

    span = (start, stop, learning rate at start, at stop); shape = (window, n_negatives).
    """
    start, stop, rate_start, rate_stop = span
    window, n_negatives = shape
    thresholds, aliases = noise
    n_O = (1 + n_negatives + 3) >> 2 << 2
    rows_O = np.zeros(n_O, np.int64)
    weights = np.zeros(n_O, np.float32)
    buffers = (
        np.zeros((2, I.shape[1]), np.float32),
        np.zeros((n_O, I.shape[1]), np.float32),
        np.zeros(n_O, np.float32),
        np.zeros(n_O, np.float32),
    )
    loss = 0.0
    n_pairs = 0
    for t in range(start, stop):
        rate = np.float32(rate_start + (rate_stop - rate_start) * ((t - start) / (stop - start)))
        reach = _draw_window(state, window)
        rows_O[:] = tokens[t]
        weights[0] = _ONE
        for j in range(max(0, t - reach), min(tokens.size, t + reach + 1)):
            if j == t or documents[j] != documents[t]:
                continue
            for n in range(1, 1 + n_negatives):
                rows_O[n] = _draw_noise(state, thresholds, aliases)
                weights[n] = _ZERO if rows_O[n] == rows_O[0] else -_ONE
            loss += pair_step(I, O, np.int64(tokens[j]), rows_O, weights, rate, buffers)
            n_pairs += 1
    return loss, n_pairs
